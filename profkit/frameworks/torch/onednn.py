"""What oneDNN says of its primitives when it is asked to be verbose: one step to run enters, its primitives leave."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

_EXEC = "onednn_verbose,v1,primitive,exec,"


class Primitive(NamedTuple):
    """One execution, in the order in which they ran."""

    kind: str
    """convolution, reorder, inner_product"""
    implementation: str
    """jit:avx512_core"""
    shapes: str
    """Layouts of its tensors and the size of the problem: src:abcd dst:aBcd16b 4x64x16x16."""


def listed_primitives(torch: Any, step: Callable[[], Any]) -> list[Primitive]:
    """Run a step for its list of primitives; it takes longer than others, because every line is printed."""
    mkldnn = torch.backends.mkldnn
    if not hasattr(mkldnn, "verbose"):
        return []
    with tempfile.TemporaryFile("w+") as file:
        _flush()
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            with mkldnn.verbose(mkldnn.VERBOSE_ON):
                step()
        finally:
            _flush()
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return parse_lines(file)


def parse_lines(lines: Iterable[str]) -> list[Primitive]:
    """Executions among the lines of oneDNN's log; what else stands there is passed over."""
    found = []
    for line in lines:
        if not line.startswith(_EXEC):
            continue
        # engine, primitive, implementation, prop_kind, memory descriptors, attributes, auxiliary, problem, time
        fields = line[len(_EXEC) :].rstrip().split(",")
        if len(fields) >= 9:
            layouts = " ".join(filter(None, map(_layout, fields[4].split())))
            found.append(Primitive(fields[1], fields[2], f"{layouts} {fields[-2]}"))
    return found


def _layout(descriptor: str) -> str:
    """src:f32:a:blocked:abcd::f0 -> src:abcd"""
    parts = descriptor.split(":")
    return f"{parts[0]}:{parts[4]}" if len(parts) > 4 and parts[4] else ""


def _flush() -> None:
    """What C and Python hold back of standard output."""
    sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)
