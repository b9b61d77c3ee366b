"""profkit's own kernels: every row of the compiled registry is an implementation."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np

from profkit.errors import KernelError, UnavailableError
from profkit.frameworks.adapter import Array, Availability, Conditions, Implementation, Prepared, aligned_empty
from profkit.frameworks.layouts import to_layout
from profkit.frameworks.machine import cpu_fingerprint
from profkit.frameworks.native.threads import worthwhile_threads
from profkit.frameworks.native.tuned import Tuning, tuning_to_take
from profkit.frameworks.outputs import call_on_pooled, call_on_same, pool_note, unwritten
from profkit.ops import SPECS
from profkit.ops.conv2d import WEIGHT_GRADIENT
from profkit.ops.spec import Spec

REBUILD = "pip install -e ."
PACKED, NHWC = "packed", "nhwc"
"""Forms: weights packed in the kernel's order ahead of the call; images stored as NHWC regardless of the spec."""
IMAGES = ("x", "y", "dy")


class NativeAdapter:
    """Kernels of profkit._core; its import is cheap, so the parent process asks it directly."""

    name = "native"

    def is_available(self) -> Availability:
        if importlib.util.find_spec("profkit._core") is None:
            return Availability(False, "the compiled module profkit._core is missing", REBUILD)
        try:
            _core()
        except UnavailableError as error:
            return Availability(False, str(error), REBUILD)
        return Availability(True)

    def implementations(self, op: str) -> Sequence[Implementation]:
        """One per registry row, then the forms in which the same kernels may be given their data."""
        try:
            keys, packing = _core().kernels(op), set(_core().packing_kernels(op))
        except KernelError:
            return []
        rows = [Implementation(key, self.name) for key in keys]
        has_layout = hasattr(SPECS[op], "layout")
        for key in keys:
            rows += [_form(key, PACKED)] if key in packing else []
            if has_layout and not key.endswith("/reference"):
                rows += [_form(key, NHWC), *([_form(key, NHWC, PACKED)] if key in packing else [])]
        return rows

    def supports(self, implementation: Implementation, spec: Spec) -> str:
        """What the kernel itself says."""
        if NHWC in implementation.forms and getattr(spec, "layout", "") == "NHWC":
            return "the spec's layout is NHWC already: the kernel's plain row takes it as it is"
        core, key, params = _core(), kernel_key(implementation), held_spec(implementation, spec).params()
        reason: str = core.supports(key, params)
        if not reason and PACKED in implementation.forms and core.packed_bytes(key, params, 1) == 0:
            return "it packs nothing ahead for such a call"
        return reason

    def tunables(self, implementation: Implementation, spec: Spec, threads: int) -> list[dict[str, Any]]:
        """Name, default and candidates of what a tuner may choose for this spec; empty when there is nothing."""
        found: list[dict[str, Any]] = _core().tunables(
            implementation.key, spec.params(), worthwhile_threads(spec, threads)
        )
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
        held = held_spec(implementation, spec)
        core, key, params = _core(), kernel_key(implementation), held.params()
        arrays = [
            _in_order(spec, held, inputs[name]) if name in IMAGES else inputs[name] for name in spec.input_shapes()
        ]
        threads = worthwhile_threads(held, conditions.threads)

        def workspace_bytes(tuning: Tuning) -> int:
            size: int = core.workspace_bytes(key, params, threads, tuning)
            return size

        fingerprint = partial(self.fingerprint, implementation)
        tuning, note = tuning_to_take(implementation, key, held, conditions, fingerprint, workspace_bytes)
        held_bytes = workspace_bytes(tuning)
        workspace = self.new_workspace(held_bytes)
        output = self.new_output(held) if conditions.output == "reused" else None
        ahead = PACKED in implementation.forms
        bound = core.bind(key, params, arrays, output, workspace, threads, tuning, ahead)
        call = call_on_pooled(bound, held) if output is None else call_on_same(bound, output)
        # The gradient of weights, of a normalisation's parameters or of a bias.
        is_weights = len(spec.output_shape()) < 4 or getattr(spec, "direction", "") == WEIGHT_GRADIENT
        if output is None:
            note = "; ".join(filter(None, (note, pool_note(held))))
        if ahead:
            held_bytes += core.packed_bytes(key, params, threads, tuning)
            note = "; ".join(filter(None, ("weights packed ahead of the call", note)))
        return Prepared(
            call,
            np.asarray if is_weights else lambda result: _in_order(held, spec, np.asarray(result)),
            "fresh" if output is None else "reused",
            layout="NHWC" if NHWC in implementation.forms else "",
            held_bytes=held_bytes,
            note=note,
        )

    def new_output(self, spec: Spec) -> Array:
        return unwritten(spec)

    def new_workspace(self, size_bytes: int) -> Array:
        """Its pages are touched now, not in the first call."""
        workspace = aligned_empty((size_bytes,), np.uint8)
        workspace.fill(0)
        return workspace


def _form(key: str, *words: str) -> Implementation:
    """The row of a kernel that is given its data in other ways than the spec says."""
    return Implementation("/".join((key, *words)), "native", options={"kernel": key, "forms": " ".join(words)})


def held_spec(implementation: Implementation, spec: Spec) -> Spec:
    """The spec as the kernel sees it."""
    return spec.replaced(layout="NHWC") if NHWC in implementation.forms else spec


def _in_order(spec: Spec, wanted: Spec, array: Array) -> Array:
    """Images of the one spec in the other's layout; operators without images have none."""
    return to_layout(array, getattr(spec, "layout", ""), getattr(wanted, "layout", ""))


def kernel_key(implementation: Implementation) -> str:
    """The registry's key; a trial of the tuner and a form of a kernel have their own keys."""
    return implementation.options.get("kernel", implementation.key)


def _core() -> Any:
    try:
        from profkit import _core as core
    except ImportError as error:
        raise UnavailableError(f"the compiled module profkit._core does not load: {error}") from error
    return core


ADAPTER = NativeAdapter()
