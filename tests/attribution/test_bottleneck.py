"""The class of a layer's bottleneck: each rule at both sides of its limit, and the numbers that are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from profkit.attribution.bottleneck import LayerNumbers, bottleneck

# 1 ms for 10 Mflop and 0.1 MB on a machine of 100 GFLOP/s and 10 GB/s: balance 10, intensity 100, bound 0.1 ms.
HEAVY = LayerNumbers(1e6, 0.0, 0.0, 2, 10_000_000, 100_000, 100e9, 10e9)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        # The balance divides compute from memory.
        ({"bytes": 1_000_000}, "compute"),
        ({"bytes": 1_000_001}, "memory"),
        # Copies, or dispatch, for more than half of the time.
        ({"transfer_ns": 5e5}, "compute"),
        ({"transfer_ns": 5.1e5}, "transfer"),
        ({"dispatch_ns": None}, "compute"),
        ({"dispatch_ns": 5e5}, "compute"),
        ({"dispatch_ns": 5.1e5}, "latency"),
        # Many short calls, unless they are near the bound.
        ({"calls": 20}, "compute"),
        ({"calls": 21}, "latency"),
        ({"calls": 100, "flops": 30_000_000}, "compute"),
        # Nothing to do.
        ({"time_ns": 2_000.0, "flops": 0, "bytes": 0}, "latency"),
    ],
)
def test_each_kind_at_both_sides_of_its_limit(changes: dict[str, Any], kind: str) -> None:
    found = bottleneck(replace(HEAVY, **changes))

    assert found is not None
    assert found.kind == kind


SLOW = "the kernel is slow, not the machine"


@pytest.mark.parametrize(
    ("changes", "why", "is_far"),
    [
        (
            {},
            f"100 flops per byte (balance 10); 10 GFLOP/s are 10% of the peak, the layer 10 times its bound: {SLOW}",
            True,
        ),
        ({"bytes": 5_000_000}, "2 flops per byte (balance 10); 5 GB/s are 50% of the bandwidth", False),
        ({"time_ns": 2_000.0, "flops": 0, "bytes": 0}, "an operator takes 1.0 µs on average, for no work", False),
        (
            {"flops": 0, "bytes": 0},
            f"0 flops per byte (balance 10); 0 GB/s are 0% of the bandwidth, for no work: {SLOW}",
            True,
        ),
    ],
)
def test_the_numbers_behind_it_are_told(changes: dict[str, Any], why: str, is_far: bool) -> None:
    found = bottleneck(replace(HEAVY, **changes))

    assert found is not None
    assert (found.why, found.is_far) == (why, is_far)


@pytest.mark.parametrize(("flops", "is_far"), [(25_000_000, False), (24_000_000, True)])
def test_a_wall_is_far_at_more_than_four_times_the_bound(flops: int, is_far: bool) -> None:
    found = bottleneck(replace(HEAVY, flops=flops))

    assert found is not None
    assert (found.kind, found.is_far) == ("compute", is_far)
    assert ("not the machine" in found.why) == is_far


def test_a_layer_without_time_has_no_bottleneck() -> None:
    assert bottleneck(replace(HEAVY, time_ns=0.0)) is None
