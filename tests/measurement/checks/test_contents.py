"""What the parent works out again of the native server's contents, sums and signatures."""

from __future__ import annotations

import numpy as np
import pytest

from profkit.measurement.checks.contents import contents_sum, new_contents, nudged_contents, signature
from profkit.ops.dtypes import ITEM_BYTES, numpy_dtype


def test_the_signature_is_siphash_as_published() -> None:
    key = bytes(range(8))[::-1] + bytes(range(8, 16))[::-1]

    assert signature(key, bytes(range(15))) == 0xA129CA6149BE45E5


@pytest.mark.parametrize("word", ITEM_BYTES)
def test_a_part_of_new_contents_is_that_of_the_whole(word: str) -> None:
    shape, dtype = (3, 4, 5), numpy_dtype(word)
    whole = new_contents(7, shape, [slice(0, 3), slice(0, 4), slice(0, 5)], dtype)
    part = new_contents(7, shape, [slice(1, 2), slice(0, 4), slice(2, 4)], dtype)

    np.testing.assert_array_equal(part, whole[1:2, :, 2:4])
    assert whole.dtype == dtype and np.unique(whole).size > 30
    assert -2 <= float(whole.min()) < 0 < float(whole.max()) < 2


@pytest.mark.parametrize("word", ITEM_BYTES)
def test_nudged_contents_are_other_values_near_the_old_ones(word: str) -> None:
    whole = np.random.default_rng(1).normal(size=(3, 4, 5)).astype(numpy_dtype(word))
    whole[1, 2, 3] = 0
    all_of_it = [slice(0, extent) for extent in whole.shape]

    nudged, other = (nudged_contents(seed, whole, all_of_it) for seed in (7, 8))
    part = nudged_contents(7, whole, [slice(1, 2), slice(0, 4), slice(2, 4)])

    np.testing.assert_array_equal(part, nudged[1:2, :, 2:4])
    is_zero = whole == 0
    change = np.abs(nudged.astype(np.float64) / np.where(is_zero, 1, whole).astype(np.float64) - 1)[~is_zero]
    assert nudged.dtype == whole.dtype and nudged[1, 2, 3] == 0
    assert change.min() > 0 and change.max() < 0.016
    assert (nudged != other).any()


def test_a_sum_sees_every_byte_and_its_place() -> None:
    contents = bytes(range(1, 30))
    changed = [contents[:at] + b"\0" + contents[at + 1 :] for at in range(len(contents))]

    sums = {contents_sum(99, one) for one in [contents, contents[::-1], contents[8:] + contents[:8], *changed]}

    assert len(sums) == 3 + len(changed)
    assert contents_sum(97, contents) not in sums
