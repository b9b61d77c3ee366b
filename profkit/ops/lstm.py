"""Lstm: one layer of long short-term memory over a sequence, and its gradients through time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.ops import axes
from profkit.ops.activation import HARD_SIGMOID, NUMBERED, SIGMOID, TANH, activated, derivative, flops_per_element
from profkit.ops.axes import axis
from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from profkit.ops.dtypes import DTYPE
from profkit.ops.spec import Array, Spec

Values = NDArray[np.float64]
STATE_GRADIENT, GATE_GRADIENT = "state-gradient", "gate-gradient"
DIRECTIONS = (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, STATE_GRADIENT, GATE_GRADIENT)


@dataclass(frozen=True)
class LstmGradients:
    """By all that a layer takes, in float64."""

    x: Values
    w: Values
    u: Values
    b: Values
    h: Values
    """By h before the first step; c the same."""
    c: Values
    z: Values
    """By the gates' sums of every step: [batch, steps, 4 cells]."""


@dataclass(frozen=True)
class Lstm(Spec):
    """h[t] of z = x[t] w + h[t-1] u + b: i, f, o = recurrent(z_i, z_f, z_o), c[t] = f c[t-1] + i activation(z_c).

    h[t] = o activation(c[t]); h and c begin as 0. The four gates lie side by side in w, u and b, in the order i, f, c,
    o. The result is every h, or the last one.

    Gradients follow from dy through all steps: input-gradient that by x; weight-gradient those by w, by u and by b, one
    below the other: [inputs + cells + 1, 4 cells]; state-gradient those by h and by c before the first step:
    [2, batch, cells]; gate-gradient that by z: [batch, steps, 4 cells], of which all others are products. What the
    forward pass makes is not given: an implementation keeps it ahead of its call, or makes it again.
    """

    op: ClassVar[str] = "lstm"
    size_formula: ClassVar[str] = (
        "y[batch,steps,cells], or [batch,cells], of x[batch,steps,inputs], w[inputs,4 cells], u[cells,4 cells], "
        "b[4 cells]"
    )

    batch: int = axis(axes.COUNT, 64, "sequences per call")
    steps: int = axis(axes.COUNT, 500, "steps of a sequence")
    inputs: int = axis(axes.COUNT, 32, "values per step")
    cells: int = axis(axes.COUNT, 100, "cells, and values of the result")
    activation: str = axis(
        axes.choice(TANH, SIGMOID, among=NUMBERED), TANH, "function of the candidate and of the state"
    )
    recurrent_activation: str = axis(
        axes.choice(SIGMOID, HARD_SIGMOID, among=NUMBERED), SIGMOID, "function of the three gates"
    )
    returns_sequence: bool = axis(axes.FLAG, False, "every step's result, not the last one's")
    dtype: str = axis(DTYPE, "float32", "element type")
    direction: str = axis(axes.choice(*DIRECTIONS), FORWARD, "the result, or a gradient of it through time")

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        gates = 4 * self.cells
        x = (self.batch, self.steps, self.inputs)
        shapes = {"x": x, "w": (self.inputs, gates), "u": (self.cells, gates), "b": (gates,)}
        return shapes if self.direction == FORWARD else {**shapes, "dy": self.result_shape()}

    def result_shape(self) -> tuple[int, ...]:
        """Of the forward pass."""
        return (self.batch, self.steps, self.cells) if self.returns_sequence else (self.batch, self.cells)

    def has_steep_inputs(self) -> bool:
        return False

    def output_shape(self) -> tuple[int, ...]:
        shapes: dict[str, tuple[int, ...]] = {
            INPUT_GRADIENT: (self.batch, self.steps, self.inputs),
            WEIGHT_GRADIENT: (self.inputs + self.cells + 1, 4 * self.cells),
            STATE_GRADIENT: (2, self.batch, self.cells),
            GATE_GRADIENT: (self.batch, self.steps, 4 * self.cells),
        }
        return shapes.get(self.direction, self.result_shape())

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        """Weights of the size that keeps gates from saturating."""
        arrays = super().make_inputs(seed)
        for name, terms in (("w", self.inputs), ("u", self.cells)):
            arrays[name] = (arrays[name].astype(np.float64) / np.sqrt(terms)).astype(self.numpy_dtype)
        return arrays

    def flops(self) -> int:
        """Two products per step; per cell 8 additions, the gates' functions, and 4 operations for c and h.

        Gradients: the same, then through time per cell a product with u, 23 operations for the gates (with their
        slopes, made of the functions' results), and the products of the gradient that is asked for.
        """
        functions = 3 * flops_per_element(self.recurrent_activation) + 2 * flops_per_element(self.activation)
        per_cell = 8 * (self.inputs + self.cells) + 8 + functions + 4
        if self.direction != FORWARD:
            per_cell += 8 * self.cells + 23
        per_cell += {INPUT_GRADIENT: 8 * self.inputs, WEIGHT_GRADIENT: 8 * (self.inputs + self.cells) + 4}.get(
            self.direction, 0
        )
        return self.batch * self.steps * self.cells * per_cell

    def reduction_length(self) -> int:
        """Errors of a step go into the next, and on the way back into the one before."""
        through_time = (self.inputs + self.cells) * self.steps
        if self.direction == FORWARD:
            return through_time
        through_time += 4 * self.cells * self.steps
        return through_time + (self.batch * self.steps if self.direction == WEIGHT_GRADIENT else 0)

    def reference(self, inputs: Mapping[str, Array]) -> Values:
        if self.direction == FORWARD:
            return self._forward(inputs)
        found = self.gradients(inputs)
        if self.direction == WEIGHT_GRADIENT:
            return np.concatenate([found.w, found.u, found.b[None]])
        if self.direction == STATE_GRADIENT:
            return np.stack([found.h, found.c])
        return found.x if self.direction == INPUT_GRADIENT else found.z

    def _forward(self, inputs: Mapping[str, Array]) -> Values:
        x, w, u, b = (inputs[name].astype(np.float64) for name in ("x", "w", "u", "b"))
        h, c = np.zeros((self.batch, self.cells)), np.zeros((self.batch, self.cells))
        results = []
        for step in range(self.steps):
            z_i, z_f, z_c, z_o = np.split(x[:, step] @ w + h @ u + b, 4, axis=1)
            i, f, o = (activated(self.recurrent_activation, z) for z in (z_i, z_f, z_o))
            c = f * c + i * activated(self.activation, z_c)
            h = o * activated(self.activation, c)
            results.append(h)
        return np.ascontiguousarray(np.stack(results, axis=1)) if self.returns_sequence else h

    def gradients(self, inputs: Mapping[str, Array]) -> LstmGradients:
        """Of the result along dy: forward with every step kept, then back through time."""
        x, w, u, b, dy = (inputs[name].astype(np.float64) for name in ("x", "w", "u", "b", "dy"))
        gate, function = self.recurrent_activation, self.activation
        h, c = np.zeros((self.batch, self.cells)), np.zeros((self.batch, self.cells))
        kept = []
        for step in range(self.steps):
            sums = np.split(x[:, step] @ w + h @ u + b, 4, axis=1)
            i, f, o = (activated(gate, sums[place]) for place in (0, 1, 3))
            candidate, before, h_before = activated(function, sums[2]), c, h
            c = f * c + i * candidate
            h = o * activated(function, c)
            kept.append((sums, i, f, o, candidate, before, c, h_before))
        by_step = np.zeros((self.batch, self.steps, self.cells))
        by_step[:, slice(None) if self.returns_sequence else -1] += dy
        dz = np.zeros((self.batch, self.steps, 4 * self.cells))
        du, dh, dc = np.zeros_like(u), np.zeros_like(h), np.zeros_like(c)
        for step in reversed(range(self.steps)):
            sums, i, f, o, candidate, before, c, h_before = kept[step]
            dh = dh + by_step[:, step]
            dc = dc + dh * o * derivative(function, c)
            dz[:, step] = np.concatenate(
                [
                    dc * candidate * derivative(gate, sums[0]),
                    dc * before * derivative(gate, sums[1]),
                    dc * i * derivative(function, sums[2]),
                    dh * activated(function, c) * derivative(gate, sums[3]),
                ],
                axis=1,
            )
            du += h_before.T @ dz[:, step]
            dh, dc = dz[:, step] @ u.T, dc * f
        dw = np.tensordot(x, dz, axes=((0, 1), (0, 1)))
        return LstmGradients(dz @ w.T, dw, du, dz.sum(axis=(0, 1)), dh, dc, dz)

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        presets: dict[str, Spec] = {"imdb_lstm.default": Lstm()}
        for cells in (25, 50, 100, 200, 400):
            presets[f"imdb_lstm.c{cells}"] = Lstm(64, 500, 32, cells, recurrent_activation=HARD_SIGMOID)
        hmdir = Lstm(256, 50, 24, 35, SIGMOID, HARD_SIGMOID)
        by_default = {
            f"imdb_lstm.{direction.replace('-', '_')}": Lstm(direction=direction) for direction in DIRECTIONS[1:]
        }
        return presets | {
            "imdb_lstm.layer2": Lstm(64, 500, 100, 100, recurrent_activation=HARD_SIGMOID, returns_sequence=True),
            "hmdir_lstm": hmdir,
            "words.c650": Lstm(20, 35, 650, 650, returns_sequence=True),
            **by_default,
            "words.c650.gate_gradient": Lstm(20, 35, 650, 650, returns_sequence=True, direction=GATE_GRADIENT),
        }

    @classmethod
    def odd_shapes(cls) -> list[Spec]:
        shapes: tuple[tuple[int, int, int, int], ...] = (
            (1, 1, 1, 1),
            (1, 3, 5, 7),
            (3, 2, 4, 16),
            (5, 4, 3, 17),
            (2, 5, 33, 9),
            (17, 3, 8, 33),
        )
        ways = ((TANH, SIGMOID), (TANH, HARD_SIGMOID), (SIGMOID, HARD_SIGMOID))
        forward = [
            Lstm(*shape, *ways[(i + whole) % 3], returns_sequence=bool(whole))
            for i, shape in enumerate(shapes)
            for whole in (0, 1)
        ]
        gradients = [
            spec.replaced(direction=direction)
            for i, spec in enumerate(forward)
            for j, direction in enumerate(DIRECTIONS[1:])
            if i < 2 or (i + j) % 2 == 0
        ]
        return [
            *forward,
            *gradients,
            *(Lstm(3, 4, 5, 6, dtype="float64", direction=direction) for direction in DIRECTIONS[1:]),
            Lstm(3, 4, 5, 6, dtype="float64"),
            Lstm(4, 3, 7, 9, SIGMOID, SIGMOID, True, "float64"),
            Lstm(3, 2, 4, 5, returns_sequence=True, dtype="float16"),
            Lstm(3, 2, 4, 5, dtype="bfloat16"),
        ]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        forward = [Lstm(35, 9, 61, 67, returns_sequence=True), Lstm(19, 7, 30, 65, SIGMOID, HARD_SIGMOID)]
        return [*forward, *(forward[i % 2].replaced(direction=way) for i, way in enumerate(DIRECTIONS[1:]))]
