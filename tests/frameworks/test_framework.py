"""The geometry and layout questions that framework adapters share."""

from __future__ import annotations

import pytest

from profkit.frameworks.layouts import padding_word, reported_layout, symmetric_padding
from profkit.ops.axes import Padding
from profkit.ops.window import Window


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "word"),
    [
        (16, 5, 1, (2, 2, 2, 2), "same"),
        (16, 5, 2, (2, 2, 2, 2), ""),
        (16, 5, 2, "same", "same"),
        (16, 3, 1, (0, 0, 0, 0), "valid"),
        (16, 1, 1, "same", "valid"),
        (16, 3, 1, (0, 2, 0, 2), ""),
        # The last row of padding is reached by no window: 15 + 1 rows hold five windows of 2 at stride 3, as 15 do.
        (15, 2, 3, (0, 1, 0, 1), "valid"),
    ],
)
def test_a_padding_word_stands_only_for_exactly_the_same_windows(
    size: int, kernel: int, stride: int, padding: Padding, word: str
) -> None:
    window = Window((size, size), (kernel, kernel), (stride, stride), padding)

    assert padding_word(window) == word


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "expected"),
    [
        (16, 3, 1, "same", (1, 1)),
        (16, 3, 2, "same", None),
        (16, 2, 1, "same", None),
        # 15 + 1 + 2 and 15 + 1 + 1 rows both hold six windows of 2 at stride 3: the second bottom row is not reached.
        (15, 2, 3, (1, 2, 1, 1), (1, 1)),
        (9, 3, 1, (2, 2, 1, 1), (2, 1)),
    ],
)
def test_padding_is_symmetric_when_the_windows_are_those_of_equal_sides(
    size: int, kernel: int, stride: int, padding: Padding, expected: tuple[int, int] | None
) -> None:
    window = Window((size, size), (kernel, kernel), (stride, stride), padding)

    assert symmetric_padding(window) == expected


def test_only_a_layout_other_than_the_specs_is_reported() -> None:
    assert reported_layout("NCHW", "NHWC") == "NHWC"
    assert reported_layout("NHWC", "NHWC") == ""
