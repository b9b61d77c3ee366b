"""profkit's own kernels: every row of the compiled registry is an implementation."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from profkit.backends.adapter import Array, Availability, Conditions, Implementation, Prepared, aligned_empty
from profkit.backends.machine import cpu_fingerprint
from profkit.backends.native_params import native_params
from profkit.backends.outputs import call_on_fresh, call_on_same, unwritten
from profkit.backends.tuned import (
    Tuning,
    find_choice,
    is_wanted,
    parse_tuning,
    read_choices,
    tuned_file,
    tuning_text,
)
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
        reason: str = _core().supports(kernel_key(implementation), native_params(spec))
        return reason

    def tunables(self, implementation: Implementation, spec: Spec, threads: int) -> list[dict[str, Any]]:
        """Name, default and candidates of what a tuner may choose for this spec; empty when there is nothing."""
        found: list[dict[str, Any]] = _core().tunables(implementation.key, native_params(spec), threads)
        return found

    def fingerprint(self, implementation: Implementation) -> dict[str, str]:
        """What a tuner's choice for this kernel belongs to."""
        return cpu_fingerprint(_core(), metadata.version("profkit"))

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
        core, key, params = _core(), kernel_key(implementation), native_params(spec)
        arrays = [inputs[name] for name in spec.input_shapes()]
        tuning, note = cpu_tuning(implementation, spec, conditions)
        held_bytes: int = core.workspace_bytes(key, params, conditions.threads, tuning)
        workspace = aligned_empty((held_bytes,), np.uint8)
        workspace.fill(0)  # pages are touched now, not in the first call
        output = unwritten(spec) if conditions.output == "reused" else None
        bound = core.bind(key, params, arrays, output, workspace, conditions.threads, tuning)
        call = call_on_fresh(bound, spec) if output is None else call_on_same(bound, output)
        return Prepared(call, np.asarray, "fresh" if output is None else "reused", held_bytes=held_bytes, note=note)


def kernel_key(implementation: Implementation) -> str:
    """The registry's key; a trial of the tuner has one of its own."""
    return implementation.options.get("kernel", implementation.key)


def cpu_tuning(implementation: Implementation, spec: Spec, conditions: Conditions) -> tuple[Tuning, str]:
    """The sizes to take, and what the row says about them: a trial's own, else what the tuner chose here."""
    if "tuning" in implementation.options:
        return parse_tuning(implementation.options["tuning"]), ""
    if not conditions.tuned or not is_wanted():
        return {}, ""
    core, key, known = _core(), implementation.key, read_choices()
    choice = find_choice(known, key, spec, conditions.threads, ADAPTER.fingerprint(implementation))
    if choice is None or not choice.tuning:
        return {}, known.problem
    text = tuning_text(choice.tuning)
    try:
        core.workspace_bytes(key, native_params(spec), conditions.threads, choice.tuning)
    except (KernelError, TypeError) as error:
        reason = "they must be whole numbers" if isinstance(error, TypeError) else error
        return {}, f"the tuned sizes {text} in {tuned_file()} are ignored: {reason}"
    return choice.tuning, f"tuned: {text}"


def _core() -> Any:
    try:
        from profkit import _core as core
    except ImportError as error:
        raise UnavailableError(f"the compiled module profkit._core does not load: {error}") from error
    return core


ADAPTER = NativeAdapter()
