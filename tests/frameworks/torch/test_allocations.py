"""Torch's allocations block by block, from what its events say."""

from __future__ import annotations

import numpy as np

from profkit.capture.schema import NONE
from profkit.frameworks.torch.allocations import OUTSIDE, allocations_of
from profkit.frameworks.torch.raw_events import FUNCTION, RUNTIME, TorchEvents, TorchThread


def test_blocks_are_numbered_and_named_by_the_outermost_operator() -> None:
    names = ["backward", "conv", "empty"]
    spans = {
        "name": np.array([0, 1, 2]),
        "parent": np.array([NONE, 0, 1]),
        "scope": np.array([RUNTIME, FUNCTION, FUNCTION]),
    }
    allocations = {
        "time_ns": np.array([1, 2, 3, 4, 5]),
        "address": np.array([7, 9, 7, 7, 8]),
        "bytes": np.array([64, -16, -64, 32, 128]),
        "span": np.array([2, NONE, 1, NONE, 0]),
    }

    found = allocations_of(
        TorchEvents("test", names, [TorchThread(1, 0, True)], spans, np.zeros(0, np.int64), allocations)
    )

    # The block at 9 was given out before: its end is left out. The second block at 7 is another one.
    assert found.bytes.tolist() == [64, -64, 32, 128]
    assert found.block.tolist() == [0, 0, 1, 2]
    assert found.time_ns.tolist() == [1, 3, 4, 5]
    assert [found.names[place] for place in found.where.tolist()] == ["conv", "conv", OUTSIDE, OUTSIDE]
