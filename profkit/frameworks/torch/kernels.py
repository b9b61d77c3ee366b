"""Kernels of torch.compile find their layers: spans inside compiled graphs enter, with the kernels of those graphs.

A graph runs its kernels in a fixed order, so each span is the next kernel of its name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from profkit.capture.schema import BACKWARD, EXACT, INFERRED, Level
from profkit.frameworks.torch.raw_events import TorchEvents

COMPILER = ("Torch-Compiled Region", "TorchDynamo ", "CompiledFunction", "AOTDispatcher ", "## Call CompiledFxGraph")
"""Spans of torch.compile around its kernels."""
GENERATED, LAYOUT_COPY = "inductor::cpp_fused", "aten::contiguous"
LIBRARY = frozenset(
    f"aten::{name}" for name in ("convolution", "convolution_backward", "addmm", "mm", "bmm", "baddbmm")
)
"""Done by library calls: a generated loop that names one only brings its operands into the layout it wants."""
_GENERATED = re.compile(r"graph_(\d+)_(cpp_\w+)")


@dataclass
class SpanAnnotations:
    """The columns that torch itself does not report, as they are found out: one entry per span."""

    level: list[int] = field(default_factory=list)
    type: list[str] = field(default_factory=list)
    phase: list[str] = field(default_factory=list)
    layer: list[str | None] = field(default_factory=list)
    fused: list[str | None] = field(default_factory=list)
    quality: list[str] = field(default_factory=list)


def map_kernels(events: TorchEvents, found: SpanAnnotations, graphs: Any) -> dict[str, list[str]]:
    """Set layer, type and fused of every kernel; returns those that work for several layers, with the layers."""
    regions: dict[int, list[int]] = {}
    parents = events.spans["parent"].tolist()
    names = [events.names[number] for number in events.spans["name"].tolist()]
    for row, parent in enumerate(parents):
        if found.level[row] == Level.OPERATOR and parent >= 0 and names[parent].startswith(COMPILER):
            regions.setdefault(parent, []).append(row)
    across: dict[str, list[str]] = {}
    for region, rows in regions.items():
        phase = found.phase[region]
        known = graphs.backward if phase == BACKWARD else graphs.forward
        kernels = known.get(_graph_of([names[row] for row in rows], known), ())
        for row, kernel in _aligned(rows, names, kernels):
            _place(found, row, kernel)
            if len(kernel.layers) > 1:
                across[names[row]] = [f"{layer} {phase}" for layer in kernel.layers]
    for row, parent in enumerate(parents):
        if parent >= 0 and found.level[parent] == Level.OPERATOR and found.layer[row] is None:
            found.layer[row], found.quality[row] = found.layer[parent], found.quality[parent]
    return across


def _graph_of(names: Sequence[str], known: dict[int, Any]) -> int:
    """Generated kernels carry the number of their graph; a graph of library calls only is known if it is alone."""
    for name in names:
        match = _GENERATED.fullmatch(name)
        if match:
            return int(match.group(1))
    return next(iter(known)) if len(known) == 1 else -1


def _aligned(rows: Sequence[int], names: Sequence[str], kernels: Sequence[Any]) -> list[tuple[int, Any]]:
    """Each kernel with the span that is it; nothing unless all kernels were found, in their order."""
    waiting = list(reversed(kernels))
    pairs = []
    for row in rows:
        if waiting and _is_kernel(names[row], waiting[-1].name):
            pairs.append((row, waiting.pop()))
    return [] if waiting else pairs


def _is_kernel(span: str, kernel: str) -> bool:
    match = _GENERATED.fullmatch(span)
    # extern_kernels.addmm, torch.ops.aten.convolution_backward.default
    return match.group(2) == kernel if match else span.rpartition("::")[2] in kernel.split(".")


def _place(found: SpanAnnotations, row: int, kernel: Any) -> None:
    found.layer[row] = kernel.layers[0] if kernel.layers else None
    found.quality[row] = INFERRED if len(kernel.layers) > 1 else EXACT
    if _GENERATED.fullmatch(found.type[row]):
        found.type[row] = GENERATED
        types = [LAYOUT_COPY if each in LIBRARY else each for each in kernel.types]
        found.fused[row] = "+".join(dict.fromkeys(types or [LAYOUT_COPY]))
