"""What torch reported of some steps, before it is understood: the form that the native recorder and Kineto share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from profkit.capture.schema import Column

# at::RecordScope, and beside it the recorder's own (recorder/event_log.h).
FUNCTION, BACKWARD_FUNCTION, USER_SCOPE, LAYER, RUNTIME = 0, 1, 7, 100, 101
BACKWARD_CALL = "torch.autograd.backward"


@dataclass(frozen=True)
class TorchThread:
    os_id: int
    torch_id: int
    """Torch's own number of it, by which a backward operator names the thread of its forward one; 0: not known."""
    is_recorder: bool
    """Whether recording was started on it: the memory of others is not reported."""


@dataclass(frozen=True)
class TorchEvents:
    """Spans in order of their begin within each thread, so that a parent precedes its children."""

    source: str
    names: Sequence[str]
    threads: Sequence[TorchThread]
    spans: Mapping[str, Column]
    """start_ns, end_ns, sequence, forward_thread, operands, operand_words, name, parent, scope, thread, pool_cpu_ns."""
    words: Column
    """Tensors among the inputs, each as its number of dimensions, the sizes, and the address of its memory."""
    allocations: Mapping[str, Column]
    """time_ns, address, bytes (negative: freed), span; in order of time."""
    lost: int = 0
    clock_error_ns: int = 0

    def operands_of(self, row: int) -> Iterator[tuple[tuple[int, ...], int]]:
        """Sizes and address of each tensor that this span was given."""
        place = int(self.spans["operands"][row])
        end = place + int(self.spans["operand_words"][row])
        while 0 <= place < end:
            dimensions = int(self.words[place])
            sizes = tuple(self.words[place + 1 : place + 1 + dimensions].tolist())
            yield sizes, int(self.words[place + 1 + dimensions])
            place += dimensions + 2


Spanned = Callable[[int, str, Callable[..., Any]], Callable[..., Any]]
"""(scope, name, function) -> the function inside a span."""


@contextmanager
def spans_around_calls(torch: Any, layers: Mapping[str, Any], spanned: Spanned) -> Iterator[None]:
    """While open, the layers' modules and torch.autograd.backward run inside spans.

    A module's `forward` is shadowed on the instance rather than hooked: a hook takes every call of the module through a
    slower path of torch's, 3 us per layer.
    """
    backward = torch.autograd.backward
    shadowed = {name: module.__dict__.get("forward") for name, module in layers.items()}
    try:
        for name, module in layers.items():
            module.forward = spanned(LAYER, name, module.forward)
        torch.autograd.backward = spanned(RUNTIME, BACKWARD_CALL, backward)
        yield
    finally:
        torch.autograd.backward = backward
        for name, module in layers.items():
            module.__dict__.pop("forward", None)
            if shadowed[name] is not None:
                module.forward = shadowed[name]


def stacked_columns(columns: Sequence[Mapping[str, Column]], names: Sequence[str]) -> dict[str, Column]:
    """Columns of several tables, one below the other."""
    if not columns:
        return {name: np.zeros(0, np.int64) for name in names}
    return {name: np.concatenate([each[name] for each in columns]) for name in names}
