"""Parts of an output, computed alone from parts of the inputs, are what they are in the whole."""

from __future__ import annotations

import numpy as np
import pytest

from profkit.ops import SPECS, odd_specs
from profkit.ops.conv2d import Conv2d
from profkit.ops.matmul import MatMul
from profkit.ops.parts import activations, part_count, part_of


@pytest.mark.parametrize("op", SPECS)
def test_every_part_is_that_of_the_whole(op: str) -> None:
    for spec in odd_specs(op):
        inputs = spec.make_inputs()
        whole = spec.reference(inputs)
        for number in range(part_count(spec)):
            part = part_of(spec, number)
            expected = whole[part.output]

            result = part.reference(part.inputs_of(inputs), expected.shape)

            np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("op", SPECS)
def test_what_is_a_parts_own_changes_no_other_part(op: str) -> None:
    for spec in [spec for spec in odd_specs(op) if part_count(spec) > 1]:
        inputs = spec.make_inputs()
        before = spec.reference(inputs)
        part = part_of(spec, 1)
        for name in part.own:
            inputs[name][part.inputs[name]] = 3.0

        after = spec.reference(inputs)

        after[part.output] = before[part.output]
        np.testing.assert_array_equal(after, before)


def test_weights_stay_and_all_else_is_an_activation() -> None:
    assert activations(Conv2d(bias=True)) == ["x"]
    assert activations(Conv2d(direction="input-gradient")) == ["dy"]
    assert activations(Conv2d(direction="weight-gradient")) == ["x", "dy"]
    assert activations(MatMul(bias=True)) == ["a"]
