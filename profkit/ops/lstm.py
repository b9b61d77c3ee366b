"""Lstm: one layer of long short-term memory over a sequence, forward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from profkit.ops import axes
from profkit.ops.activation import HARD_SIGMOID, NUMBERED, SIGMOID, TANH, activated, flops_per_element
from profkit.ops.axes import axis
from profkit.ops.dtypes import DTYPE
from profkit.ops.spec import Array, Spec

_choice = partial(axes.choice, among=NUMBERED)


@dataclass(frozen=True)
class Lstm(Spec):
    """h[t] of z = x[t] w + h[t-1] u + b: i, f, o = recurrent(z_i, z_f, z_o), c[t] = f c[t-1] + i activation(z_c).

    h[t] = o activation(c[t]); h and c begin as 0. The four gates lie side by side in w, u and b, in the order i, f, c,
    o. The result is every h, or the last one.
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

    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        gates = 4 * self.cells
        x = (self.batch, self.steps, self.inputs)
        return {"x": x, "w": (self.inputs, gates), "u": (self.cells, gates), "b": (gates,)}

    def has_steep_inputs(self) -> bool:
        return False

    def output_shape(self) -> tuple[int, ...]:
        return (self.batch, self.steps, self.cells) if self.returns_sequence else (self.batch, self.cells)

    def make_inputs(self, seed: int = 0) -> dict[str, Array]:
        """Weights of the size that keeps gates from saturating."""
        arrays = super().make_inputs(seed)
        for name, terms in (("w", self.inputs), ("u", self.cells)):
            arrays[name] = (arrays[name].astype(np.float64) / np.sqrt(terms)).astype(self.numpy_dtype)
        return arrays

    def flops(self) -> int:
        """Two products per step; per cell 8 additions, the gates' functions, and 4 operations for c and h."""
        functions = 3 * flops_per_element(self.recurrent_activation) + 2 * flops_per_element(self.activation)
        per_cell = 8 * (self.inputs + self.cells) + 8 + functions + 4
        return self.batch * self.steps * self.cells * per_cell

    def reduction_length(self) -> int:
        """Errors of a step go into the next."""
        return (self.inputs + self.cells) * self.steps

    def reference(self, inputs: Mapping[str, Array]) -> NDArray[np.float64]:
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

    @classmethod
    def presets(cls) -> dict[str, Spec]:
        presets: dict[str, Spec] = {"imdb_lstm.default": Lstm()}
        for cells in (25, 50, 100, 200, 400):
            presets[f"imdb_lstm.c{cells}"] = Lstm(64, 500, 32, cells, recurrent_activation=HARD_SIGMOID)
        hmdir = Lstm(256, 50, 24, 35, SIGMOID, HARD_SIGMOID)
        return presets | {
            "imdb_lstm.layer2": Lstm(64, 500, 100, 100, recurrent_activation=HARD_SIGMOID, returns_sequence=True),
            "hmdir_lstm": hmdir,
            "words.c650": Lstm(20, 35, 650, 650, returns_sequence=True),
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
        return [
            *(
                Lstm(*shape, *ways[(i + whole) % 3], returns_sequence=bool(whole))
                for i, shape in enumerate(shapes)
                for whole in (0, 1)
            ),
            Lstm(3, 4, 5, 6, dtype="float64"),
            Lstm(4, 3, 7, 9, SIGMOID, SIGMOID, True, "float64"),
            Lstm(3, 2, 4, 5, returns_sequence=True, dtype="float16"),
            Lstm(3, 2, 4, 5, dtype="bfloat16"),
        ]

    @classmethod
    def larger_shapes(cls) -> list[Spec]:
        return [Lstm(35, 9, 61, 67, returns_sequence=True), Lstm(19, 7, 30, 65, SIGMOID, HARD_SIGMOID)]
