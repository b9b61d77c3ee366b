"""One cell: one spec at one thread count, all implementations started, checked and sampled."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.frameworks.adapter import Implementation
from profkit.measurement.arrays import array_folder, result_path
from profkit.measurement.cell_rows import CellSamples
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
from profkit.measurement.workers.process import WorkerFailure, WorkerProcess
from profkit.measurement.workers.requests import Answer, WorkerTask, ask_all, ask_one, wait_for_one
from profkit.ops.dtypes import for_file, from_file
from profkit.ops.spec import Spec, max_error, tolerance

WARM_UP_CALLS, WARM_UP_NS = 3, 50_000_000


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


class CellRun:
    """The measurement of one cell; `finish` returns the rows at any time, also after an interruption."""

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
        self.spec = spec
        if problem is None or problem.spec != spec:
            problem = SharedInputs(spec, pool.options.seed)
        self.problem = problem
        """That of the cell before where the spec is the same: a large reference takes longer than the samples."""
        self.cache = cache
        self.output = output
        self.pool = pool
        self.options = pool.options
        self.implementations = implementations
        self.tell = tell
        self.rows = {item.key: Row(item.key, "", rounding=item.rounding) for item in implementations}
        self.on_device = {item.key: item for item in implementations if item.device != "cpu"}
        self.device_loss = ""
        """Why no row can run on the device any more."""
        self.remarks: dict[str, str] = {}
        self.no_kernel_times: dict[str, list[str]] = {}
        """Reasons, and the rows that have each."""
        self.device_peaks: dict[str, Mapping[str, float]] = {}
        self.host_times: dict[str, HostTimes] = {key: HostTimes() for key in self.on_device}
        self.contenders: dict[str, Contender] = {}
        self.watch: DisturbanceWatch | None = None
        self.rounds = 0
        self.run_starts = [0]
        self.begin = time.monotonic()

    def measure(self) -> None:
        """Start, check, warm up and sample everything that can run here, and check again."""
        with array_folder(self.spec) as folder:
            for name, array in self.problem.inputs.items():
                np.save(protocol.input_path(folder, name), for_file(array))
            self._start_and_check(folder)
            self._warm_up()
            self._race()
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
                if key in self.on_device and self.pool.has_lost_device:
                    self.device_loss = f"the CUDA device was lost in an earlier table and is not back: {answer.reason}"
            elif "versions" in answer:
                self.pool.has_lost_device &= key not in self.on_device
                self.pool.versions[key] = answer["versions"]
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
        request = {
            "do": "prepare",
            "spec": self.spec.to_dict(),
            "output": self.output,
            "folder": folder,
            "result_path": result_path(folder, key),
        }
        worker.ask(self.options.timeout_s, request)
        return worker

    def _take_first_call(self, key: str, answer: Mapping[str, Any], folder: str) -> None:
        row = self.rows[key]
        row.first_call_ns = answer["first_call_ns"]
        row.output, row.layout, row.note = answer["output"], answer["layout"], answer["note"]
        row.timing = answer["timing"]
        row.versions = self.pool.versions[key]
        self._check(key, folder)

    def _check(self, key: str, folder: str) -> None:
        """Compare a worker's result with the float64 reference; only a right one is timed and kept."""
        row = self.rows[key]
        path = result_path(folder, key)
        row.tolerance = tolerance(self.spec.numpy_dtype, self.spec.reduction_length(), row.rounding)
        try:
            error = max_error(from_file(np.load(path), self.spec.numpy_dtype), self.problem.reference)
            os.unlink(path)
        except (OSError, ValueError) as problem:
            self._fail(key, WorkerFailure("crashed", f"its result cannot be read: {problem}"))
            return
        row.status = "ok" if error <= row.tolerance else "wrong"
        if row.status == "wrong":
            row.reason = f"error {error:.2g} exceeds the tolerance {row.tolerance:.2g}"
        row.max_error = max(error, row.max_error or 0.0)

    def _recheck(self, folder: str) -> None:
        """What was timed must have been right to the end: one more call of everybody, checked."""
        for key in self.contenders:
            if self.rows[key].status != "ok":
                continue
            if self._ask(key, {"do": "recheck", "result_path": result_path(folder, key)}) is None:
                continue
            self._check(key, folder)
            if self.rows[key].status == "wrong":
                self.rows[key].reason = f"right at first, wrong after the samples: {self.rows[key].reason}"

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
        trouble = self.pool.replace(self.on_device[key])
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
        return answer

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

        def take_turn(contender: Contender, index: int) -> None:
            request = {
                "do": "sample",
                "count": contender.samples_per_turn,
                "calls": contender.calls_per_sample,
                "warm_calls": contender.warm_calls,
                "flush_bytes": flush_bytes(self.cache),
            }
            by_host = contender.key not in self.on_device or self.rows[contender.key].timing.startswith(WALL_CLOCK)
            with watch.turn(self.pool.workers[contender.key].pid, index, by_host):
                answer = self._ask(contender.key, request)
            if answer is None:
                contender.failed = True
                return
            row = self.rows[contender.key]
            if contender.key in self.on_device:
                row.timing, row.device = answer["timing"], answer["device"]
                self.remarks[row.key] = answer["remark"]
                self.host_times[row.key].take(index, answer["wall_ns"], answer["dispatch_ns"])
            known = len(contender.samples_ns)
            row.throttled_samples += [known + i for i, slow in enumerate(answer.get("throttled", ())) if slow]
            contender.samples_ns += answer["samples_ns"]
            contender.rounds += [index] * len(answer["samples_ns"])
            contender.page_faults += [answer["page_faults"]] if "page_faults" in answer else []

        def tell(fraction: float) -> None:
            done = (len(self.run_starts) - 1 + fraction) / runs
            self.tell("measure", done, f"{sum(len(c.samples_ns) for c in contenders)} samples")

        for number in range(runs):
            if number:
                self.run_starts.append(self.rounds)
            partner = self.contenders.get(baseline or "")
            self.rounds = race(contenders, partner, self.options.budget_s, take_turn, tell, self.rounds)

    def finish(self, peaks: Mapping[str, float]) -> Cell:
        """Rows with everything that is known now."""
        samples = CellSamples(
            spec=self.spec,
            options=self.options,
            threads=self.pool.threads,
            cache=self.cache,
            output=self.output,
            rows=self.rows,
            contenders=self.contenders,
            on_device=self.on_device.keys(),
            host_times=self.host_times,
            device_peaks=self.device_peaks,
            remarks=self.remarks,
            watch=self.watch,
            rounds=self.rounds,
            run_starts=self.run_starts,
        )
        cell = samples.judged(peaks)
        cell.seconds = time.monotonic() - self.begin
        cell.notes += [f"no kernel time: {', '.join(keys)}: {why}" for why, keys in self.no_kernel_times.items()]
        return cell

    @property
    def is_cold(self) -> bool:
        """Whether caches are emptied before each sample."""
        return self.cache == "cold"
