"""The worker's side of the selftest: each request is one group of checks, or one run of one kernel."""

from __future__ import annotations

import importlib
from dataclasses import asdict
from typing import Any

from profkit.frameworks.device_arrays import ORDINAL, cuda_device, cuda_module
from profkit.frameworks.native.cuda import version_text
from profkit.measurement.workers.operator import answer_requests
from profkit.measurement.workers.protocol import Message
from profkit.selftests.findings import CheckContext


def serve(read_fd: int, write_fd: int) -> None:
    """Answer requests until the parent closes the pipe."""
    answer_requests(SelftestWorker(), read_fd, write_fd)


class SelftestWorker:
    """Keeps nothing between requests. What a check needs is imported when it is asked for."""

    is_candidate = False

    def do_start(self, uses_device: bool) -> Message:
        """The interpreter is up, and its CUDA device: a driver may take longer for that than a kernel may run."""
        if uses_device:
            cuda_device()
            cuda_module().use_device(ORDINAL)
            cuda_module().synchronize(0)
        return {}

    def do_devices(self) -> Message:
        """CUDA devices and versions; UnavailableError with the driver's reason where there are none."""
        cuda = cuda_module()
        found = cuda.devices()
        versions = {"driver": cuda.driver_version(), "runtime": cuda.build_info()["runtime_version"]}
        return {"devices": found, **{name: version_text(number) for name, number in versions.items()}}

    def do_rows(self, adapter: str) -> Message:
        """The kernels of this process's instruction set or device."""
        from profkit.selftests.kernels import native_rows

        return {"rows": [asdict(row) for row in native_rows(adapter)]}

    def do_kernel_runs(self, **about: Any) -> Message:
        """Which shapes a kernel offers, and how each is run."""
        from profkit.selftests.kernel_runs import runs_of

        return runs_of(**about)

    def do_run_kernel(self, **about: Any) -> Message:
        from profkit.selftests.kernel_runs import run_kernel

        return run_kernel(**about)

    def do_part(self, part: str, **setting: Any) -> Message:
        """The findings of one part; each has a module with a function `check`."""
        module = importlib.import_module(f"profkit.selftests.{part}")
        return {"findings": [asdict(finding) for finding in module.check(CheckContext(**setting))]}
