"""A network as a list of plain calls, one operator at a time: what native, numpy, numba and cupy run.

Operations enter (layer_plan.py makes them from a network), a BuiltNetwork leaves. Every call goes through
Program.__call__, which is where an event source observes operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from profkit.errors import UnsupportedError
from profkit.frameworks.adapter import Array
from profkit.frameworks.networks.array_training import StepNumbers
from profkit.frameworks.networks.contract import BuiltNetwork
from profkit.ops.networks.layer import IMAGES
from profkit.ops.networks.training import Training

LABELS = "labels"
Values = dict[str, Any]


def gradient(name: str) -> str:
    """The value that is the gradient by this one."""
    return f"{name}/gradient"


def state_names(parameter: str, training: Training) -> list[str]:
    """The values that the optimiser keeps for a parameter."""
    return [f"{parameter}/{state}" for state in training.step_spec(1).state_names]


def mask_of(layer: str) -> str:
    """The value by which a dropout layer multiplies."""
    return f"{layer}/mask"


@dataclass(frozen=True)
class Operation:
    """One call of a step: takes values by their names, leaves values."""

    name: str
    type: str
    layer: str
    """Empty for what belongs to no layer (the loss)."""
    phase: str
    implementation: str
    """The kernel's key, or the library whose functions do it."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    """Names of what `run` returns: of its result, or where there are several, of the result's items in their order."""
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

    def __init__(
        self, operations: Sequence[Operation], held: dict[str, Any], result: str, wanted: Iterable[str] = ()
    ) -> None:
        self.operations = tuple(operations)
        self.watch: CallWatcher | None = None
        """Set by an event source for as long as it records."""
        used = {name for each in self.operations for name in each.inputs} & held.keys()
        self.held_bytes = sum(int(held[name].nbytes) for name in used)
        """Of parameters and their optimiser's state."""
        self._held = held
        self._result = result
        self._wanted = (result, *wanted)
        made = {name for each in self.operations for name in each.outputs}
        self._changed = tuple(made & held.keys())
        self._calls = list(zip(self.operations, self._releases()))

    def __call__(self, given: Mapping[str, Any]) -> Any:
        """One step: values by name in (images, labels), the value called `result` out."""
        return self.values(given)[self._result]

    def values(self, given: Mapping[str, Any]) -> Values:
        """One step; the result and all that is wanted by name. What is given already is not computed (masks)."""
        values: Values = {**self._held, **given}
        watch = self.watch
        for operation, releases in self._calls:
            if operation.outputs[0] not in given:
                # Neither arguments nor results have a name here: one would keep them alive past their release.
                if watch is None:
                    _keep(values, operation, operation.run(*[values[name] for name in operation.inputs]))
                else:
                    _keep(values, operation, watch(operation, *[values[name] for name in operation.inputs]))
            for name in releases:
                del values[name]
        self._held.update((name, values[name]) for name in self._changed)
        return {name: values[name] for name in self._wanted}

    def _releases(self) -> list[tuple[str, ...]]:
        """For each operation the values that nothing needs after it."""
        last = {name: each for each in self.operations for name in (*each.inputs, *each.outputs)}
        kept = {*self._held, IMAGES, LABELS, *self._wanted}
        releases: dict[int, list[str]] = {}
        for name, user in last.items():
            if name not in kept:
                releases.setdefault(id(user), []).append(name)
        return [tuple(releases.get(id(each), ())) for each in self.operations]


def _keep(values: Values, operation: Operation, result: Any) -> None:
    if len(operation.outputs) == 1:
        values[operation.outputs[0]] = result
    else:
        values.update(zip(operation.outputs, result))


@dataclass(frozen=True)
class ArrayDevice:
    """Where arrays live: how they get there and back, and how to wait until it is done."""

    put: Callable[[Array], Any] = np.ascontiguousarray
    get: Callable[[Any], Array] = np.asarray
    wait: Callable[[], object] = lambda: None


HOST = ArrayDevice()


@dataclass(frozen=True)
class TrainingPrograms:
    """A training step, the gradients alone (made when they are asked for), and what changes from step to step."""

    step: LayerProgram
    gradients: Callable[[], LayerProgram]
    numbers: StepNumbers


@dataclass
class BuiltProgram(BuiltNetwork):
    """Made of programs; `model` is the program of the requested step."""

    inference: LayerProgram
    held: Mapping[str, Any]
    names: Sequence[str]
    """Of the parameters and states among what is held."""
    notes: Sequence[str]
    device: ArrayDevice = HOST
    training: TrainingPrograms | None = None

    def __post_init__(self) -> None:
        self.model = self.training.step if self.training else self.inference

    def put(self, images: Array, labels: Array, masks: Mapping[str, Array] | None = None) -> Values:
        images = images if images.dtype.kind == "i" else images.astype(np.float32, copy=False)
        given = {mask_of(layer): self.device.put(mask) for layer, mask in (masks or {}).items()}
        return {IMAGES: self.device.put(images), LABELS: self.device.put(labels), **given}

    def infer(self, batch: Values) -> Any:
        result = self.inference(batch)
        self.device.wait()
        return result

    def train(self, batch: Values) -> Any:
        """The loss; the parameters are changed in place."""
        programs = self._training()
        programs.numbers.begin()
        result = programs.step(batch)
        self.device.wait()
        return result

    def gradients(self, batch: Values) -> dict[str, Array]:
        """Of the loss by every parameter, as they are now."""
        values = self._training().gradients().values(batch)
        known = [name for name in self.names if gradient(name) in values]
        return {name: np.array(self.device.get(values[gradient(name)])) for name in known}

    def set_rates(self, learning_rate: float, momentum: float) -> None:
        self._training().numbers.set_rates(learning_rate, momentum)

    def _training(self) -> TrainingPrograms:
        if self.training is None:
            raise UnsupportedError(self.no_training)
        return self.training

    def to_numpy(self, result: Any) -> Array:
        return self.device.get(result)

    def weights(self) -> dict[str, Array]:
        """Copies, which later steps do not change."""
        return {name: np.array(self.device.get(self.held[name])) for name in self.names}
