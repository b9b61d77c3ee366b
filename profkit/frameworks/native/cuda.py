"""profkit's own CUDA kernels: every row of the compiled registry is an implementation.

Not run on a GPU: the machines that this was written on have none. Tests run it, and the kernels behind it, on a double
of the CUDA runtime (docs/measured/cuda_kernels.md).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import metadata
from typing import Any

from profkit.errors import KernelError, UnavailableError
from profkit.frameworks.adapter import Array, Availability, Conditions, DeviceCall, Implementation, Prepared
from profkit.frameworks.device_arrays import (
    NOT_BUILT,
    ORDINAL,
    REBUILD,
    cuda_device,
    cuda_module,
    downloaded,
    unwritten_output,
    uploaded,
)
from profkit.frameworks.framework import no_cuda_driver
from profkit.frameworks.machine import build_id
from profkit.frameworks.native.operators import kernel_key
from profkit.frameworks.native.tuned import Tuning, tuning_text, tuning_to_take
from profkit.ops import SPECS
from profkit.ops.dtypes import TF32
from profkit.ops.spec import Spec

CONFIGURATION = "configuration"
"""The one thing to tune of a CUDA kernel: the name of a set of tile sizes."""
BY_POLICY = -1
LACKING = "lacking"
"""Option of the row of an operator that has no CUDA kernel."""


class NativeCudaAdapter:
    """Kernels of profkit._cuda, which loads without a driver too."""

    name = "native"

    def is_available(self) -> Availability:
        """Whether the compiled module is there, and a device with it; otherwise the driver's own reason."""
        if importlib.util.find_spec("profkit._cuda") is None:
            return _unavailable(NOT_BUILT, REBUILD)
        try:
            cuda = cuda_module()
        except UnavailableError as error:
            return _unavailable(str(error))
        try:
            cuda_device()
        except UnavailableError as error:
            return Availability(False, str(error)) if cuda.driver_version() else _unavailable(str(error))
        return Availability(True)

    def implementations(self, op: str) -> Sequence[Implementation]:
        """One per registry row; one for all where profkit was built without CUDA, or has no CUDA kernels of the
        operator, so that there is a row to say so."""
        try:
            keys = cuda_module().kernels(op)
        except UnavailableError:
            keys = [f"{op}/native/cuda"]
        except KernelError:
            row = Implementation(f"{op}/native/cuda", "native_cuda", options={LACKING: op})
            return [row] if op in SPECS else []
        return [Implementation(key, "native_cuda", options=_options(key)) for key in keys]

    def supports(self, implementation: Implementation, spec: Spec) -> str:
        """The kernel's own answer, for this device, or for a common one without a device."""
        if LACKING in implementation.options:
            return f"profkit has no CUDA kernel of {implementation.op}"
        try:
            cuda = cuda_module()
        except UnavailableError:
            return ""
        try:
            device = cuda_device()
        except UnavailableError:
            device = {}
        reason: str = cuda.supports(kernel_key(implementation), spec.params(), device)
        return reason

    def tunables(self, implementation: Implementation, spec: Spec, threads: int) -> list[dict[str, Any]]:
        """The configurations of this kernel for this spec; empty when there is one way only."""
        cuda, key, params = cuda_module(), kernel_key(implementation), spec.params()
        names = cuda.configurations(key, params, cuda_device())
        if len(names) < 2:
            return []
        default = names[cuda.policy(key, params, cuda_device())]
        others = [name for name in names if name != default]
        return [{"name": CONFIGURATION, "default": default, "candidates": others}]

    def fingerprint(self, implementation: Implementation) -> dict[str, str]:
        """What a tuner's choice for this kernel belongs to."""
        cuda, device = cuda_module(), cuda_device()
        return {
            "device": str(device["name"]),
            "capability": str(device["capability"]),
            "multiprocessors": str(device["multiprocessors"]),
            "profkit": metadata.version("profkit"),
            "build": build_id(cuda),
        }

    def start(self, implementation: Implementation, conditions: Conditions) -> dict[str, str]:
        cuda = cuda_module()
        device, build = cuda_device(), cuda.build_info()
        cuda.use_device(ORDINAL)
        return {
            "profkit": metadata.version("profkit"),
            "compiler": build["compiler"],
            "architectures": build["architectures"],
            "cuda_runtime": version_text(build["runtime_version"]),
            "cuda_driver": version_text(cuda.driver_version()),
            "device": str(device["name"]),
            "capability": str(device["capability"]),
        }

    def prepare(
        self, implementation: Implementation, spec: Spec, inputs: Mapping[str, Array], conditions: Conditions
    ) -> Prepared:
        """Inputs, output and workspace are on the device before the call, which enqueues on a separate stream."""
        cuda, key, params = cuda_module(), kernel_key(implementation), spec.params()
        names = cuda.configurations(key, params, cuda_device())
        tuning, note = tuning_to_take(
            implementation, key, spec, conditions, partial(self.fingerprint, implementation), partial(_number, names)
        )
        configuration = _number(names, tuning)
        arrays = [uploaded(inputs[name]) for name in spec.input_shapes()]
        output = self.new_output(spec)
        held_bytes: int = cuda.workspace_bytes(key, params, configuration)
        workspace = self.new_workspace(held_bytes)
        # The copies above went to another stream, which this one does not wait for.
        cuda.synchronize(0)
        stream = cuda.Stream()
        enqueue = cuda.bind(key, params, arrays, output, workspace, stream.handle, configuration)

        def call() -> Any:
            enqueue()
            cuda.synchronize(stream.handle)
            return output

        # A call allocates nothing: what it works in was there before.
        device = DeviceCall(enqueue, stream.handle, ORDINAL, lambda run: 0)
        return Prepared(
            call, lambda memory: downloaded(memory, spec), "reused", held_bytes=held_bytes, note=note, device=device
        )

    def new_output(self, spec: Spec) -> Any:
        return unwritten_output(spec)

    def new_workspace(self, size_bytes: int) -> Any:
        """Device memory; None where a kernel needs none."""
        return cuda_module().DeviceMemory(size_bytes) if size_bytes else None


def _unavailable(reason: str, install: str = "") -> Availability:
    """All CUDA rows say it alike where there is no driver: neither a build nor an install would help."""
    without_driver = no_cuda_driver()
    return Availability(False, without_driver or reason, "" if without_driver else install)


def version_text(version: int) -> str:
    """`13.0` for the 13000 of CUDA."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _number(names: Sequence[str], tuning: Tuning) -> int:
    if not tuning:
        return BY_POLICY
    name = str(tuning.get(CONFIGURATION))  # a name of digits comes back as a number
    if set(tuning) != {CONFIGURATION} or name not in names:
        raise KernelError(f"{tuning_text(tuning)}: there is {', '.join(names) or 'no configuration to choose'}")
    return list(names).index(name)


def _options(key: str) -> dict[str, str]:
    """Kernels named after TF32 round their operands to it; their tolerance allows for that and their row says so."""
    return {"rounding": TF32} if key.endswith("_tf32") else {}


ADAPTER = NativeCudaAdapter()
