"""The whole selftest: what there is to prove in, a Report out. A check that hangs, dies or raises costs itself only."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import partial
from importlib import metadata
from typing import Any

from profkit import _core
from profkit.errors import UnavailableError, UsageError
from profkit.frameworks.device_arrays import cuda_module
from profkit.frameworks.machine import build_id
from profkit.measurement.arrays import scratch_folder
from profkit.measurement.cores import default_threads
from profkit.measurement.environment import fingerprint
from profkit.measurement.options import KEYS, OPTIONS, SECONDS, option
from profkit.measurement.progress import Progress, Watcher, ignore_progress
from profkit.measurement.run import first_signal_interrupts
from profkit.measurement.selection import matches
from profkit.measurement.workers.process import WorkerFailure
from profkit.selftests.check_process import CheckProcess, TimeLimit, status_of
from profkit.selftests.findings import NOT_PROVEN, CheckContext, CheckResult, SelftestReport
from profkit.selftests.kernels import native_rows, prove_kernels, rows_here

FILE = "profkit-selftest.json"
# Keys, and the modules of this package whose `check` proves them.
HOST_PARTS = {"recorder/host": "host_recorder", "peaks/host": "host_peaks"}
CUDA_PARTS = {"recorder/cuda": "cuda_recorder", "timers/cuda": "cuda_timers", "peaks/cuda": "cuda_peaks"}
LIMIT_S = 120.0
"""Of the whole, unless it is to be full."""
GROUP_S = 90.0
"""Of a group of checks; kernels have a limit for each run."""
VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class SelftestOptions:
    is_full: bool = option(False, OPTIONS, "more shapes and all block sizes; takes a few minutes", flag="full")
    only: Sequence[str] = option(
        (), OPTIONS, "these parts or kernels: recorder, timers, peaks, cuda, conv2d", form=KEYS
    )
    json: str | None = option(None, OPTIONS, "file of all results", shown=FILE)
    timeout_s: float = option(20.0, OPTIONS, "time limit for one run of a kernel", form=SECONDS)
    quiet: bool = option(False, OPTIONS, "no progress")

    def wants(self, key: str) -> bool:
        """Whether this kernel or part is named."""
        return not self.only or any(matches(key, word) or word in key.split("/") for word in self.only)


class Selftest:
    """One selftest; `report` has what is known at any time."""

    def __init__(self, options: SelftestOptions, watcher: Watcher = ignore_progress) -> None:
        self.options = options
        date = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self.report = SelftestReport(fingerprint(), options.is_full, list(options.only), date, build_facts())
        self._watcher = watcher
        self._limit = TimeLimit(options.timeout_s, None if options.is_full else LIMIT_S)
        self._threads = default_threads()
        host_rows, cuda_rows = native_rows("native"), native_rows("native_cuda") if _is_built() else []
        self._host_rows = [row for row in host_rows if options.wants(row.key)]
        self._cuda_rows = [row for row in cuda_rows if options.wants(row.key)]
        self._host_parts = [part for part in HOST_PARTS if options.wants(part)]
        self._cuda_parts = [part for part in CUDA_PARTS if options.wants(part)]
        sets = len(_core.cpu_features()["simd_supported"]) if self._host_rows else 0
        self._step, self._steps = 0, sets + len(self._host_parts) + bool(self._cuda_rows or self._cuda_parts)
        self._folder = ""
        keys = [*(row.key for row in (*host_rows, *cuda_rows)), *HOST_PARTS, *CUDA_PARTS]
        for word in options.only:
            if not any(SelftestOptions(only=[word]).wants(key) for key in keys):
                parts = ", ".join(sorted({key.partition("/")[0] for key in (*HOST_PARTS, *CUDA_PARTS)}))
                raise UsageError(f"--only {word}: there is {parts}, host, cuda, and kernels such as {keys[0]}")

    def run(self) -> SelftestReport:
        """Everything; Ctrl-C or a polite kill ends it early, with `interrupted` set and what was found."""
        begin = time.monotonic()
        with scratch_folder() as folder, first_signal_interrupts():
            self._folder = folder
            try:
                # Devices first: if the time is over before all is done, they matter more.
                self._run_cuda()
                self._run_host()
            except KeyboardInterrupt:
                self.report.interrupted = True
        self.report.seconds = time.monotonic() - begin
        return self.report

    def _run_host(self) -> None:
        features = _core.cpu_features()
        sets = features["simd_supported"] if self._host_rows else []
        for name in sets:
            self._kernels(name, {"PROFKIT_SIMD": name}, "native")
        for name in [name for name in features["simd_compiled"] if self._host_rows and name not in sets]:
            reason = f"{name} is compiled, and this processor does not run it"
            self.report.findings.append(CheckResult(f"kernels on {name}", NOT_PROVEN, reason, part="kernels/host"))
        for part in self._host_parts:
            self._part(part, HOST_PARTS[part], "", {})

    def _run_cuda(self) -> None:
        if not (self._cuda_rows or self._cuda_parts):
            return
        self._tell("devices", 0.0, "CUDA devices")
        try:
            with closing(self._process("devices", {})) as process:
                answer = process.ask({"do": "devices"}, GROUP_S)
        except WorkerFailure as failure:
            self._without_devices(failure)
            return
        finally:
            self._step += 1
        self.report.devices = answer["devices"]
        self.report.cuda = {name: answer[name] for name in ("driver", "runtime")}
        self._steps += len(self.report.devices) * (bool(self._cuda_rows) + len(self._cuda_parts))
        # The value of CUDA_VISIBLE_DEVICES that shows a process only one device.
        words = [word.strip() for word in os.environ.get(VISIBLE, "").split(",") if word.strip()]
        for position, device in enumerate(self.report.devices):
            visible = words[position] if position < len(words) else str(position)
            place, environment = f"cuda {device['index']}", {VISIBLE: visible}
            if self._cuda_rows:
                self._kernels(place, environment, "native_cuda")
            for part in self._cuda_parts:
                self._part(part, CUDA_PARTS[part], place, environment)

    def _without_devices(self, failure: WorkerFailure) -> None:
        """One finding for all that needs one; a driver that crashes or hangs is wrong."""
        status, reason = status_of(failure)
        lacking = [f"compiled kernels ({len(self._cuda_rows)})"] if self._cuda_rows else []
        lacking += [part.split("/")[0] for part in self._cuda_parts]
        detail = f"{reason}; not run: {', '.join(lacking)}"
        self.report.findings.append(CheckResult("devices", status, detail, part="CUDA"))

    def _kernels(self, place: str, environment: dict[str, str], adapter: str) -> None:
        tell = partial(self._tell, f"kernels on {place}")
        tell(0.0, "")
        with closing(self._process(f"kernels/{place}", environment)) as process:
            try:
                rows = [row for row in rows_here(process, adapter) if self.options.wants(row.key)]
            except WorkerFailure as failure:
                self.report.findings.append(CheckResult("registry", *status_of(failure), part="kernels", place=place))
                rows = []
            prove_kernels(process, rows, place, self._threads, self.options.is_full, tell, self.report.kernels)
        self._step += 1

    def _part(self, part: str, module: str, place: str, environment: dict[str, str]) -> None:
        self._tell(part.partition("/")[0], 0.0, place)
        setting = CheckContext(self._folder, GROUP_S / 2, self._threads)
        try:
            with closing(self._process(part, environment)) as process:
                answer = process.ask({"do": "part", "part": module, **asdict(setting)}, GROUP_S)
                found = [CheckResult(**finding) for finding in answer["findings"]]
        except WorkerFailure as failure:
            found = [CheckResult(part.split("/")[0], *status_of(failure))]
        for finding in found:
            finding.part, finding.place = part, place
        self.report.findings += found
        self._step += 1

    def _process(self, name: str, environment: dict[str, str]) -> CheckProcess:
        return CheckProcess(name, environment, self._threads, self._limit, uses_device=VISIBLE in environment)

    def _tell(self, phase: str, fraction: float, text: str) -> None:
        self._watcher(Progress(self._step, max(self._step + 1, self._steps), phase, fraction, text))


def _is_built() -> bool:
    """Whether this build has CUDA kernels; they are listed without a driver."""
    try:
        cuda_module()
    except UnavailableError:
        return False
    return True


def build_facts() -> dict[str, Any]:
    # Of an install from a repository pip notes the commit.
    noted = json.loads(metadata.distribution("profkit").read_text("direct_url.json") or "{}")
    commit = str(noted.get("vcs_info", {}).get("commit_id", ""))
    facts: dict[str, Any] = {"commit": commit, "core": {**_core.build_info(), "id": build_id(_core)}}
    if _is_built():
        facts["cuda"] = {**cuda_module().build_info(), "id": build_id(cuda_module())}
    return facts
