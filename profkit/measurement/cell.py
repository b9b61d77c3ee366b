"""One cell: one spec at one thread count, all implementations started, checked and sampled."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.frameworks import is_candidate
from profkit.frameworks.adapter import Implementation
from profkit.measurement.arrays import array_folder, has_array, read_array, result_path
from profkit.measurement.cell_rows import CellSamples
from profkit.measurement.checks.auditor import Auditor, Check, WrongResultFoundError, is_answered
from profkit.measurement.checks.clocks import TurnTime
from profkit.measurement.checks.conduct import Conduct
from profkit.measurement.checks.correctness import HardInputs, compare, fill_row, hard_inputs
from profkit.measurement.cores import usable_cpus
from profkit.measurement.device.wall_clock import WALL_CLOCK
from profkit.measurement.disturbance import DisturbanceWatch
from profkit.measurement.host_times import HostTimes
from profkit.measurement.progress import ProgressCallback
from profkit.measurement.result import Cell, Row
from profkit.measurement.sampling import Contender, race
from profkit.measurement.selection import availability_of, pick_baseline
from profkit.measurement.workers import protocol
from profkit.measurement.workers.pool import WorkerPool, flush_bytes
from profkit.measurement.workers.process import LONGEST_UNQUIET_S, WorkerFailure, WorkerProcess
from profkit.measurement.workers.requests import Answer, WorkerTask, ask_all, ask_one, wait_for_one
from profkit.measurement.workers.times import WorkerTimes
from profkit.ops.dtypes import for_file, from_file
from profkit.ops.spec import Spec, tolerance

WARM_UP_CALLS, WARM_UP_NS = 3, 50_000_000
IN_A_TIMED_CALL = "in a timed call"


class SharedInputs:
    """The inputs of all rows of a spec, and the expected result."""

    def __init__(self, spec: Spec, seed: int) -> None:
        self.spec = spec
        self._seed = seed

    @cached_property
    def inputs(self) -> dict[str, NDArray[Any]]:
        """The same bytes for all rows."""
        return self.spec.make_inputs(self._seed)

    @cached_property
    def reference(self) -> NDArray[np.float64]:
        """The expected result; computed while the workers start."""
        return self.spec.reference(self.inputs)


class CellRun(CellSamples):
    """Samples of one cell, taken by workers; `finish` returns the rows at any time, also after an interruption."""

    def __init__(
        self,
        spec: Spec,
        pool: WorkerPool,
        implementations: Sequence[Implementation],
        tell: ProgressCallback,
        cache: str = "hot",
        output: str = "fresh",
        problem: SharedInputs | None = None,
    ) -> None:
        on_device = [item.key for item in implementations if item.device != "cpu"]
        super().__init__(
            spec=spec,
            options=pool.options,
            threads=pool.threads,
            cache=cache,
            output=output,
            rows={item.key: Row(item.key, "", rounding=item.rounding) for item in implementations},
            on_device=dict.fromkeys(on_device).keys(),
            host_times={key: HostTimes() for key in on_device},
            turn_times={item.key: [] for item in implementations},
        )
        if problem is None or problem.spec != spec:
            problem = SharedInputs(spec, pool.options.seed)
        self.problem = problem
        """That of the cell before where the spec is the same: a large reference takes longer than the samples."""
        self.pool = pool
        self.implementations = implementations
        self.tell = tell
        self.device_loss = ""
        """Why no row can run on the device any more."""
        self.no_kernel_times: dict[str, list[str]] = {}
        """Reasons, and the rows that have each."""
        self.auditor = Auditor(spec, lambda: problem.inputs, lambda: problem.reference, self.options.budget_s)
        self.first_checks: dict[str, Check] = {}
        self.audits = self.auditor.logs
        self.begin = time.monotonic()

    def measure(self) -> None:
        """Start, check, warm up and sample everything that can run here, and check again."""
        with array_folder(self.spec) as folder:
            self.auditor.folder = folder
            for name, array in self.problem.inputs.items():
                np.save(protocol.input_path(folder, name), for_file(array))
            self._start_and_check(folder)
            self._warm_up()
            self._race()
            self._finish_checks()
            self._finish_audits()
            self._recheck(folder)
            if self.options.kernel_time:
                self._ask_for_kernel_times(folder)

    def _start_and_check(self, folder: str) -> None:
        runnable = []
        for implementation in self.implementations:
            row = self.rows[implementation.key]
            row.status, row.reason = availability_of(implementation, self.spec, self.options.interpreters)
            if not row.status:
                runnable.append(implementation)
        done = 0
        started: list[str] = []

        def finished(worker: WorkerProcess, answer: Answer) -> WorkerTask | None:
            nonlocal done
            key = worker.implementation.key
            if isinstance(answer, WorkerFailure):
                self._fail(key, answer)
                self._excuse(key, folder, self.problem.inputs)
                if key in self.on_device and self.pool.has_lost_device:
                    self.device_loss = f"the CUDA device was lost in an earlier table and is not back: {answer.reason}"
            elif key not in self.pool.versions:
                self.pool.has_lost_device &= key not in self.on_device
                versions = answer.get("versions")
                self.pool.versions[key] = texts(versions if isinstance(versions, dict) else {})
                if key not in self.on_device:
                    return partial(self._ask_to_prepare, key, folder)
                worker.pause()
                started.append(key)
                return None
            else:
                worker.pause()
                self._take_first_call(key, answer, folder)
            done += 1
            self.tell("start", done / len(runnable), key)
            return None

        # Last to first: native kernels, which start at once, fill the time while frameworks are imported.
        tasks: list[WorkerTask] = [
            partial(self._begin, implementation, position, folder)
            for position, implementation in enumerate(reversed(runnable))
        ]
        self.tell("start", 0.0, f"{len(runnable)} implementations")
        ask_all(tasks, max(1, len(usable_cpus())), finished)
        crashed = [item.key for item in runnable if self.rows[item.key].status in ("crashed", "timeout")]
        for key in [key for key in crashed if key in self.on_device][:1]:
            self._check_device(key)
        alive = [key for key in self.on_device if key in started or self._is_ready(key)]
        for position, key in enumerate(alive):
            self.tell("start", (done + position) / len(runnable), key)
            self._prepare_on_device(key, folder)
        self._check_hard_inputs(folder)

    def _check_hard_inputs(self, folder: str) -> None:
        """Candidates must be right on these too. Built-in rows are checked so by the tests: they do not pay here."""
        keys = [
            item.key for item in self.implementations if is_candidate(item.key) and self.rows[item.key].status == "ok"
        ]
        if not keys:
            return
        other = os.path.join(folder, "hard")
        os.mkdir(other)
        for hard in hard_inputs(self.spec, self.options.seed):
            self.tell("verify", 0.0, hard.name)
            for name, array in hard.inputs.items():
                np.save(protocol.input_path(other, name), for_file(array))
            for key in [key for key in keys if self.rows[key].status == "ok"]:
                answer, check = self._prepare_again(key, other, f"with {hard.name}: ", hard)
                if answer is not None:
                    self._check(key, other, check, answer, hard)
                self._excuse(key, other, hard.inputs)
        shutil.rmtree(other)
        for key in [key for key in keys if self.rows[key].status == "ok"]:
            answer, check = self._prepare_again(key, folder, "prepared again: ")
            if answer is not None:
                self._check(key, folder, check, answer)
            self._excuse(key, folder, self.problem.inputs)

    def _prepare_again(
        self, key: str, folder: str, where: str, hard: HardInputs | None = None
    ) -> tuple[Mapping[str, Any] | None, Check | None]:
        """Other inputs for a worker, and what it answers. What it says in its first preparation stays in the row."""
        check = self.auditor.first(key, hard) if key in self.auditor.own else None
        request = self._preparation(key, folder, check)
        answer = self._ask(key, request)
        if answer is None:
            self.rows[key].reason = where + self.rows[key].reason
        elif self._is_believed(key, answer):
            return answer, check
        return None, None

    def _is_ready(self, key: str) -> bool:
        """Whether its worker lives from an earlier cell and can have this one's spec."""
        return not self.rows[key].status and key in self.pool.workers

    def _prepare_on_device(self, key: str, folder: str) -> None:
        """One after the other: libraries choose their algorithms by timing them in the first call."""
        if self.device_loss:
            self._fail(key, WorkerFailure("lost", self.device_loss))
            return
        worker = self._ask_to_prepare(key, folder)
        try:
            answer = wait_for_one(worker)
        except WorkerFailure as failure:
            self._fail(key, failure)
            if failure.status in ("crashed", "timeout"):
                self._check_device(key)
            return
        worker.pause()
        self._take_first_call(key, answer, folder)

    def _begin(self, implementation: Implementation, position: int, folder: str) -> WorkerProcess | None:
        """Start a worker, or give one that lives from an earlier cell its next spec."""
        if self.device_loss and implementation.key in self.on_device:
            self._fail(implementation.key, WorkerFailure("lost", self.device_loss))
            return None
        worker = self.pool.workers.get(implementation.key)
        if worker is not None and implementation.key in self.on_device:
            return None  # its turn comes when the CPU's are done
        if worker is not None:
            worker.times = WorkerTimes()  # what it did in an earlier table is no doubt in this one
            worker.move_to_cores(self.pool.start_cores(position))
            return self._ask_to_prepare(implementation.key, folder)
        try:
            return self.pool.start(implementation, position)
        except OSError as error:
            self._fail(implementation.key, WorkerFailure("crashed", f"the worker could not be started: {error}"))
            return None

    def _ask_to_prepare(self, key: str, folder: str) -> WorkerProcess:
        worker = self.pool.workers[key]
        worker.resume()
        if worker.is_native and key not in self.on_device:
            self.auditor.native.add(key)
        if is_candidate(key) and key in self.auditor.native:
            self.auditor.own.add(key)
            self.first_checks[key] = self.auditor.first(key)
        worker.ask(self.options.timeout_s, self._preparation(key, folder, self.first_checks.get(key)))
        return worker

    def _preparation(self, key: str, folder: str, check: Check | None) -> dict[str, Any]:
        return {
            "do": "prepare",
            "spec": self.spec.to_dict(),
            "output": self.output,
            "folder": folder,
            "result_path": result_path(folder, key),
            **(check.fields() if check else {}),
        }

    def _take_first_call(self, key: str, answer: Mapping[str, Any], folder: str) -> None:
        row = self.rows[key]
        if not self._is_believed(key, answer):
            return
        row.first_call_ns = answer.get("first_call_ns")
        about = texts(answer)
        row.output, row.layout, row.note = about.get("output", ""), about.get("layout", ""), about.get("note", "")
        row.timing = about.get("timing", "")
        row.versions = self.pool.versions[key]
        self._check(key, folder, self.first_checks.pop(key, None), answer)
        self._excuse(key, folder, self.problem.inputs)

    def _excuse(self, key: str, folder: str, inputs: Mapping[str, NDArray[Any]]) -> None:
        """A row whose inputs another process changed before it loaded them is not wrong by its own fault."""
        row = self.rows[key]
        if row.status not in ("wrong", "crashed"):
            return
        changed = [name for name, array in inputs.items() if not has_array(protocol.input_path(folder, name), array)]
        if changed:
            reason = f"another process, maybe a candidate, changed the file of its input{'s' * (len(changed) > 1)} "
            self._fail(key, WorkerFailure("crashed", reason + ", ".join(changed)))

    def _check(
        self, key: str, folder: str, check: Check | None, answer: Mapping[str, Any], hard: HardInputs | None = None
    ) -> None:
        """Compare a worker's result with the float64 reference; only a right one is timed and kept.

        With a `check` native code has kept the result, of inputs that may have changed. The numbers of a right row are
        those of the random inputs, not of `hard` ones.
        """
        row = self.rows[key]
        path = result_path(folder, key)
        row.tolerance = tolerance(self.spec.numpy_dtype, self.spec.reduction_length(), row.rounding)
        reference, scale = (self.problem.reference, None) if hard is None else (hard.reference, hard.scale)
        try:
            if check is None:
                result = from_file(
                    read_array(path, self.spec.output_shape(), self.spec.numpy_dtype), self.spec.numpy_dtype
                )
                os.unlink(path)
            else:
                self.auditor.inputs_kept(check, answer)
                result, reference = check.result(answer), check.expected()
                row.checked_calls += 1
            found = compare(result, reference, row.tolerance, scale)
        except (OSError, ValueError) as problem:
            self._fail(key, WorkerFailure("crashed", f"its result cannot be read: {problem}"))
            return
        except WrongResultFoundError as problem:
            self._fail(key, WorkerFailure("wrong", str(problem), alive=True))
            return
        if hard is None:
            fill_row(row, found, row.tolerance)
        elif not found.is_right:
            fill_row(row, found, row.tolerance, f"right on random inputs, wrong with {hard.name}: ")
        why = check.explanation(result, row.tolerance) if check and not found.is_right else ""
        row.reason += f"; {why}" if why else ""

    def _recheck(self, folder: str) -> None:
        """What was timed must have been right to the end: one more call of each row, checked."""
        for key in self.contenders:
            if self.rows[key].status != "ok":
                continue
            if is_candidate(key) and not self.pool.workers[key].becomes_quiet():
                self.rows[key].doubts.append(f"it still computed {LONGEST_UNQUIET_S:g} s after its last call")
            if key not in self.auditor.own:
                self._recheck_once(key, None, {"result_path": result_path(folder, key)})
                continue
            for spoils in (False, True):
                if self.rows[key].status == "ok":
                    check = self.auditor.later(key, spoils)
                    self._recheck_once(key, check, check.fields())

    def _recheck_once(self, key: str, check: Check | None, fields: dict[str, Any]) -> None:
        answer = self._ask(key, {"do": "recheck", **fields})
        if answer is not None:
            self._check_later(key, check, answer, "after the samples")

    def _is_believed(self, key: str, answer: Mapping[str, Any]) -> bool:
        """Whether native code gave the answer where it alone is believed; if not, the row fails."""
        if key not in self.auditor.own or answer.get("is_native"):
            return True
        self._fail(key, WorkerFailure("wrong", "its process answered in Python what only native code may answer"))
        return False

    def _check_later(self, key: str, check: Check | None, answer: Mapping[str, Any], when: str) -> None:
        """A later result: the row says that the first was right."""
        self._check(key, self.auditor.folder, check, answer)
        if self.rows[key].status == "wrong":
            self.rows[key].reason = f"right at first, wrong {when}: {self.rows[key].reason}"
            self.contenders[key].failed = True

    def _audit(self, key: str, index: int) -> None:
        """One pair of single calls of this row, on new and on the same contents."""
        row, call_ns = self.rows[key], self.contenders[key].call_ns

        for check, answer in self.auditor.pair(key, call_ns, partial(self._ask_watched, key, index)):
            try:
                trouble = self.auditor.fresh_trouble(check, answer)
            except WrongResultFoundError as problem:
                trouble = str(problem)
            row.checked_calls += 1
            if trouble:
                reason = f"right at first, wrong on new contents of its inputs: {trouble}"
                self._fail(key, WorkerFailure("wrong", reason, alive=True))
                break
        if row.status == "oom" and key in self.pool.workers:  # for the copies of an audit: without them it runs
            row.status, row.reason = "ok", ""
            self.auditor.give_up(key)
        self.contenders[key].failed |= row.status != "ok"

    def _finish_audits(self) -> None:
        """The pairs that did not fall into the race, the rows in turns."""
        while True:
            left = [
                key
                for key in self.auditor.logs
                if self.rows[key].status == "ok" and self.auditor.pairs_left(key, 1e-9 * self.contenders[key].call_ns)
            ]
            for key in left:
                self.tell("measure", 1.0, f"audit of {key}")
                self._audit(key, self.rounds)
            if not left:
                return

    def _ask_for_kernel_times(self, folder: str) -> None:
        """Last of all, in workers that end with it: what CUPTI once was in is not measured any more."""
        for key in self.on_device:
            row = self.rows[key]
            if row.status != "ok" or key not in self.contenders:
                continue
            self.tell("kernels", 0.0, key)
            worker = self.pool.workers[key]
            worker.resume()
            try:
                request = {"do": "kernel_time", "path": os.path.join(folder, "kernel_time.profkit")}
                answer = ask_one(worker, self.options.timeout_s, request)
            except WorkerFailure as failure:
                answer = {"kernel_ns": None, "trouble": failure.reason}
            row.kernel_ns = answer["kernel_ns"]
            if answer["trouble"]:
                self.no_kernel_times.setdefault(answer["trouble"], []).append(key)
            self.pool.drop(key)

    def _fail(self, key: str, failure: WorkerFailure) -> None:
        row = self.rows[key]
        row.status, row.reason = failure.status, failure.reason
        others = [other for other in self.on_device if other != key and other in self.pool.workers]
        if failure.status == "oom" and key in self.on_device and others:
            row.reason += f"; rows that hold memory of the device too: {len(others)} (--only with fewer leaves more)"
        # An error of a device sticks to the process that met it.
        is_spoilt = key in self.on_device and failure.status in ("crashed", "lost")
        if failure.alive and not is_spoilt and key in self.pool.versions:
            self.pool.workers[key].pause()
        else:
            self.pool.drop(key)

    def _check_device(self, key: str) -> None:
        """After a failure on a device a new process takes the worker's place; if it finds none, the device is lost."""
        reason = self.rows[key].reason
        trouble = self.pool.replace(next(item for item in self.implementations if item.key == key))
        if trouble is None:
            return
        self.pool.has_lost_device = True
        self.device_loss = f"the CUDA device was lost while {key} ran: {reason}; a new process says: {trouble.reason}"
        for other in self.on_device:
            if other == key or self.rows[other].status == "ok":
                self._fail(other, WorkerFailure("lost", self.device_loss))
                if other in self.contenders:
                    self.contenders[other].failed = True

    def _ask(self, key: str, request: dict[str, Any]) -> Mapping[str, Any] | None:
        """Resume one worker, send it a request, pause it; None if it failed."""
        worker = self.pool.workers[key]
        worker.resume()
        try:
            answer = ask_one(worker, self.options.timeout_s, request)
        except WorkerFailure as failure:
            self._fail(key, failure)
            if key in self.on_device and failure.status in ("crashed", "timeout", "unavailable"):
                self._check_device(key)
            return None
        worker.pause()
        if not self._is_believed(key, answer):
            return None
        if not is_answered(request, answer):
            self._fail(key, WorkerFailure("wrong", "its process answered another request than the one it was sent"))
            return None
        return answer

    def _ask_watched(self, key: str, index: int, request: dict[str, Any]) -> Mapping[str, Any] | None:
        """The same beside the samples: its processor time is not that of others."""
        if self.watch is None:
            return self._ask(key, request)
        worker = self.pool.workers[key]
        with self.watch.turn(worker.pid, index, is_timed_here=False, used_s=lambda: worker.times.used_s):
            return self._ask(key, request)

    def _warm_up(self) -> None:
        """One after the other: memory of a call, and first times to plan the race with."""
        right = [key for key, row in self.rows.items() if row.status == "ok"]
        for position, key in enumerate(right):
            if self.device_loss and key in self.on_device:
                continue
            self.tell("verify", position / len(right), key)
            self.pool.workers[key].move_to_cores(self.pool.cores)
            warm = self._ask(key, {"do": "warm_up", "least_calls": WARM_UP_CALLS, "least_ns": WARM_UP_NS})
            if warm is None:
                continue
            row = self.rows[key]
            row.peak_bytes = warm["peak_bytes"]
            row.warmup_ns = warm["samples_ns"]
            self.device_peaks[key] = warm.get("peaks", {})
            self.contenders[key] = Contender(
                key, float(np.median(row.warmup_ns)), cold=self.is_cold, most_calls=warm.get("most_calls")
            )

    def _race(self) -> None:
        baseline = pick_baseline(list(self.contenders), self.options.baseline)
        contenders = list(self.contenders.values())
        watch = self.watch = DisturbanceWatch(self.pool.cores)
        runs = 1 + self.options.again
        self.auditor.plan({c.key: 1e-9 * c.call_ns for c in contenders if c.key not in self.on_device}, baseline)

        def take_turn(contender: Contender, index: int) -> None:
            is_checked = self.auditor.is_check_due(contender.key)
            is_poked = not is_checked and self.auditor.is_poke_due(contender.key)
            request, check = self._turn_request(contender, is_checked, is_poked)
            by_host = contender.key not in self.on_device or self.rows[contender.key].timing.startswith(WALL_CLOCK)
            times = self.pool.workers[contender.key].times
            before = replace(times)
            with watch.turn(self.pool.workers[contender.key].pid, index, by_host, lambda: times.used_s, contender.key):
                answer = self._ask(contender.key, request)
            if answer is None:
                contender.failed = True
                return
            row = self.rows[contender.key]
            # A sample that is checked, or on changing contents, is one more, with warm-up calls of its own.
            more = is_checked + is_poked
            sample_s = 1e-9 * contender.calls_per_sample * float(np.mean(answer["samples_ns"]))
            timed_s = sample_s * (len(answer["samples_ns"]) + more)
            warm_s = sample_s * contender.warm_calls / contender.calls_per_sample * (1 + more)
            self.conduct.setdefault(contender.key, Conduct()).take(before, times, timed_s, warm_s, self.pool.threads)
            if contender.key in self.on_device:
                row.timing, row.device = answer["timing"], answer["device"]
                self.remarks[row.key] = answer["remark"]
                self.host_times[row.key].take(index, answer["wall_ns"], answer["dispatch_ns"])
            known = len(contender.samples_ns)
            row.throttled_samples += [known + i for i, slow in enumerate(answer.get("throttled", ())) if slow]
            contender.samples_ns += answer["samples_ns"]
            contender.rounds += [index] * len(answer["samples_ns"])
            contender.page_faults += [answer["page_faults"]] if "page_faults" in answer else []
            told_ns = sum(answer["samples_ns"]) * contender.calls_per_sample
            unexplained_ns = self.pool.workers[contender.key].unexplained_ns
            self.turn_times[row.key].append(TurnTime(told_ns, unexplained_ns))
            self.auditor.take_poked(row.key, answer)
            if check is not None:
                self._check_later(contender.key, check, answer, IN_A_TIMED_CALL)
            if not contender.failed and self.auditor.due_audit(contender.key):
                self._audit(contender.key, index)

        def tell(fraction: float) -> None:
            done = (len(self.run_starts) - 1 + fraction) / runs
            self.tell("measure", done, f"{sum(len(c.samples_ns) for c in contenders)} samples")

        for number in range(runs):
            if number:
                self.run_starts.append(self.rounds)
            partner = self.contenders.get(baseline or "")
            self.rounds = race(contenders, partner, self.options.budget_s, take_turn, tell, self.rounds)

    def _turn_request(
        self, contender: Contender, is_checked: bool, is_poked: bool
    ) -> tuple[dict[str, Any], Check | None]:
        """Of a turn; in one that is checked, what its result is compared with."""
        request = {
            "do": "sample",
            "count": contender.samples_per_turn,
            "calls": contender.calls_per_sample,
            "warm_calls": contender.warm_calls,
            "flush_bytes": flush_bytes(self.cache),
        }
        if is_poked:
            request |= self.auditor.poked_sample(contender.samples_per_turn)
        if not is_checked:
            return request, None
        check, fields = self.auditor.timed_check(contender.key, contender.samples_per_turn, contender.calls_per_sample)
        return request | fields, check

    def _finish_checks(self) -> None:
        """Turns that do not count, of rows whose rounds ended before their checks were due."""
        for key in sorted((self.auditor.own & self.contenders.keys()) - self.auditor.checked):
            self._extra_turn(key, is_checked=True, is_poked=False)
        for key in self.auditor.logs:
            sample_s = 1e-9 * self.contenders[key].call_ns * self.contenders[key].calls_per_sample
            for _ in range(self.auditor.pokes_left(key, sample_s)):
                self._extra_turn(key, is_checked=False, is_poked=True)

    def _extra_turn(self, key: str, is_checked: bool, is_poked: bool) -> None:
        if self.rows[key].status != "ok":
            return
        request, check = self._turn_request(self.contenders[key], is_checked, is_poked)
        answer = self._ask_watched(key, self.rounds, request)
        if answer is not None and check is not None:
            self._check_later(key, check, answer, IN_A_TIMED_CALL)
        elif answer is not None:
            self.auditor.take_poked(key, answer)

    def finish(self, peaks: Mapping[str, float]) -> Cell:
        """Rows with everything that is known now."""
        cell = self.judged(peaks)
        cell.seconds = time.monotonic() - self.begin
        cell.notes += [f"no kernel time: {', '.join(keys)}: {why}" for why, keys in self.no_kernel_times.items()]
        return cell


def texts(values: Mapping[Any, Any]) -> dict[str, str]:
    """Those that are text: a candidate may have changed what its worker's Python says of it."""
    return {
        name: value[: protocol.LONGEST_TEXT]
        for name, value in values.items()
        if isinstance(name, str) and isinstance(value, str)
    }
