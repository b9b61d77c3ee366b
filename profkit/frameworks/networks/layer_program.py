"""A network as a list of plain calls, one operator at a time: what native, numpy, numba and cupy run.

Operations enter (plain_layers.py makes them from a network), a BuiltNetwork leaves. Every call goes through
Program.__call__, which is where an event source observes operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from profkit.errors import UnsupportedError
from profkit.frameworks.adapter import Array
from profkit.ops.networks.layer import IMAGES

LABELS = "labels"
Values = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    """One call of a step: takes values by their names, leaves one value."""

    name: str
    type: str
    layer: str
    """Empty for what belongs to no layer (the loss)."""
    phase: str
    implementation: str
    """The kernel's key, or the library whose functions do it."""
    inputs: tuple[str, ...]
    output: str
    run: Callable[..., Any]
    fused: str = ""
    """Types that the one call does together, joined by "+"."""
    workspace_bytes: int = 0
    """Of scratch memory that was allocated ahead and is lent to the call."""
    uses_threads: bool = False
    """Whether a pool may help. The pools of BLAS and OpenMP spin on during the calls that follow, which they do not
    help."""


CallWatcher = Callable[..., Any]
"""watch(operation, *arguments) returns what operation.run(*arguments) does."""


class LayerProgram:
    """Operations in their order. Values are dropped after their last use, as frameworks do."""

    def __init__(self, operations: Sequence[Operation], held: Mapping[str, Any], result: str) -> None:
        self.operations = tuple(operations)
        self.watch: CallWatcher | None = None
        """Set by an event source for as long as it records."""
        self.held_bytes = sum(int(value.nbytes) for value in held.values())
        """Of parameters and their velocities."""
        self._held = held
        self._result = result
        self._calls = list(zip(self.operations, self._releases()))

    def __call__(self, given: Mapping[str, Any]) -> Any:
        """One step: values by name in (images, labels), the value called `result` out."""
        values: Values = {**self._held, **given}
        watch = self.watch
        for operation, releases in self._calls:
            # The arguments have no name here: one would keep them alive past their release.
            if watch is None:
                values[operation.output] = operation.run(*[values[name] for name in operation.inputs])
            else:
                values[operation.output] = watch(operation, *[values[name] for name in operation.inputs])
            for name in releases:
                del values[name]
        return values[self._result]

    def _releases(self) -> list[tuple[str, ...]]:
        """For each operation the values that nothing needs after it."""
        last: dict[str, int] = {}
        for number, operation in enumerate(self.operations):
            for name in (*operation.inputs, operation.output):
                last[name] = number
        kept = {*self._held, IMAGES, LABELS, self._result}
        releases: list[list[str]] = [[] for _ in self.operations]
        for name, number in last.items():
            if name not in kept:
                releases[number].append(name)
        return [tuple(names) for names in releases]


def _nothing() -> None:
    """There is nothing to wait for."""


@dataclass(frozen=True)
class ArrayDevice:
    """Where arrays live: how they get there and back, and how to wait until it is done."""

    put: Callable[[Array], Any] = np.ascontiguousarray
    get: Callable[[Any], Array] = np.asarray
    wait: Callable[[], None] = _nothing


HOST = ArrayDevice()


class BuiltProgram:
    """A BuiltNetwork made of programs; `model` is the program of the step that is asked for."""

    def __init__(
        self,
        inference: LayerProgram,
        training: LayerProgram | None,
        parameters: Mapping[str, Any],
        notes: Sequence[str],
        device: ArrayDevice = HOST,
    ) -> None:
        self.model = training or inference
        self.notes = notes
        self._inference = inference
        self._training = training
        self._parameters = parameters
        self._device = device

    def put(self, images: Array, labels: Array) -> Values:
        """Contiguous arrays on the device."""
        return {IMAGES: self._device.put(images.astype(np.float32, copy=False)), LABELS: self._device.put(labels)}

    def infer(self, batch: Values) -> Any:
        """Logits."""
        result = self._inference(batch)
        self._device.wait()
        return result

    def train(self, batch: Values) -> Any:
        """The loss; the parameters are changed in place."""
        if self._training is None:
            raise UnsupportedError("this network was built for inference only")
        result = self._training(batch)
        self._device.wait()
        return result

    def to_numpy(self, result: Any) -> Array:
        """Logits or loss."""
        return self._device.get(result)

    def weights(self) -> dict[str, Array]:
        """Copies, which later steps do not change."""
        return {name: np.array(self._device.get(value)) for name, value in self._parameters.items()}
