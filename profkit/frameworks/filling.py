"""Adapters whose operators are functions that fill an output: what the rows of NumPy and Numba share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from profkit.frameworks.adapter import Array, Implementation, Prepared
from profkit.frameworks.framework import Framework, Job, accept
from profkit.frameworks.outputs import call_on_fresh, call_on_same, unwritten

Ready = tuple[Callable[[Array], None], int]
"""What fills an output, and the bytes of the buffers that it holds."""
Prepare = Callable[[Any, Mapping[str, Array], int], Ready]
"""From a spec, its inputs and the number of threads."""
PrepareType = TypeVar("PrepareType", bound=Prepare)


@dataclass
class FillingFramework(Framework):
    """One row per operator."""

    prepares: dict[str, Prepare] = field(default_factory=dict)
    """By the operator's name; `fills` adds to them."""

    def fills(
        self, op: str, refuse: Callable[[Implementation, Any], str] = accept
    ) -> Callable[[PrepareType], PrepareType]:
        """Decorates the function that prepares an operator; calls fill a fresh output, or one for all if asked to."""

        def add(prepare: PrepareType) -> PrepareType:
            self.prepares[op] = prepare
            self.operator(op, refuse)(partial(_build, prepare))
            return prepare

        return add


def _build(prepare: Prepare, job: Job, spec: Any) -> Prepared:
    run, held_bytes = prepare(spec, job.inputs, job.conditions.threads)
    if job.reuses_output:
        output = unwritten(spec)
        return Prepared(call_on_same(partial(run, output), output), _as_it_is, "reused", held_bytes=held_bytes)
    return Prepared(call_on_fresh(run, spec), _as_it_is, held_bytes=held_bytes)


def _as_it_is(output: Array) -> Array:
    return output
