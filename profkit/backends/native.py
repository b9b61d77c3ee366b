"""profkit's own kernels: every row of the compiled registry is an implementation."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from profkit.backends.adapter import Array, Availability, Conditions, Implementation, Prepared, aligned_empty
from profkit.backends.native_params import native_params
from profkit.backends.outputs import call_on_fresh, call_on_same, unwritten
from profkit.errors import KernelError, UnavailableError
from profkit.ops.spec import Spec

REBUILD = "pip install -e ."


class NativeAdapter:
    """Kernels of profkit._core; its import is cheap, so the parent process asks it directly."""

    name = "native"

    def is_available(self) -> Availability:
        """Whether the compiled module is there and loads."""
        if importlib.util.find_spec("profkit._core") is None:
            return Availability(False, "the compiled module profkit._core is missing", REBUILD)
        try:
            _core()
        except UnavailableError as error:
            return Availability(False, str(error), REBUILD)
        return Availability(True)

    def implementations(self, op: str) -> Sequence[Implementation]:
        """One per registry row."""
        try:
            return [Implementation(key, self.name) for key in _core().kernels(op)]
        except KernelError:
            return []

    def supports(self, implementation: Implementation, spec: Spec) -> str:
        """What the kernel itself says."""
        reason: str = _core().supports(implementation.key, native_params(spec))
        return reason

    def start(self, implementation: Implementation, conditions: Conditions) -> dict[str, str]:
        """Version and build facts; threads are given with each call, there is nothing to set."""
        core = _core()
        build, features = core.build_info(), core.cpu_features()
        return {
            "profkit": metadata.version("profkit"),
            "compiler": build["compiler"],
            "flags": build["flags"],
            "simd": features["simd_active"],
            "simd_compiled": build["simd"],
        }

    def prepare(
        self, implementation: Implementation, spec: Spec, inputs: Mapping[str, Array], conditions: Conditions
    ) -> Prepared:
        """Workspace (and a reused output) are allocated here, not in the call."""
        core, key, params = _core(), implementation.key, native_params(spec)
        arrays = [inputs[name] for name in spec.input_shapes()]
        held_bytes: int = core.workspace_bytes(key, params, conditions.threads)
        workspace = aligned_empty((held_bytes,), np.uint8)
        workspace.fill(0)  # pages are touched now, not in the first call
        output = unwritten(spec) if conditions.output == "reused" else None
        bound = core.bind(key, params, arrays, output, workspace, conditions.threads)
        if output is None:
            return Prepared(call_on_fresh(bound, spec), np.asarray, "fresh", held_bytes=held_bytes)
        return Prepared(call_on_same(bound, output), np.asarray, "reused", held_bytes=held_bytes)


def _core() -> Any:
    try:
        from profkit import _core as core
    except ImportError as error:
        raise UnavailableError(f"the compiled module profkit._core does not load: {error}") from error
    return core


ADAPTER = NativeAdapter()
