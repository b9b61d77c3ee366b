"""The class of a layer's bottleneck: each rule at both sides of its limit, and the numbers that are told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from profkit.attribution.bottleneck import LayerNumbers, bottleneck

# 1 ms for 10 Mflop and 0.1 MB on a machine of 100 GFLOP/s and 10 GB/s: balance 10, intensity 100, bound 0.1 ms.
HEAVY = LayerNumbers(1e6, 0.0, 0.0, 2, 10_000_000, 100_000, 100e9, 10e9)


def kind(layer: LayerNumbers) -> str:
    found = bottleneck(layer)
    assert found is not None
    return found.kind


def test_more_flops_per_byte_than_the_machines_balance_is_compute() -> None:
    found = bottleneck(HEAVY)

    assert found is not None
    assert found.kind == "compute"
    assert found.why == (
        "100 flops per byte (balance 10); 10 GFLOP/s are 10% of the peak, the layer 10 times its bound: the kernel is "
        "slow, not the machine"
    )


@pytest.mark.parametrize(("moved", "word"), [(1_000_000, "compute"), (1_000_001, "memory")])
def test_the_balance_divides_compute_from_memory(moved: int, word: str) -> None:
    assert kind(replace(HEAVY, bytes=moved)) == word


def test_memory_tells_the_share_of_the_bandwidth() -> None:
    found = bottleneck(replace(HEAVY, bytes=5_000_000))

    assert found is not None
    assert found.why == "2 flops per byte (balance 10); 5 GB/s are 50% of the bandwidth"


@pytest.mark.parametrize(("flops", "is_far"), [(25_000_000, False), (24_000_000, True)])
def test_a_wall_is_far_at_more_than_four_times_the_bound(flops: int, is_far: bool) -> None:
    found = bottleneck(replace(HEAVY, flops=flops))

    assert found is not None
    assert (found.kind, found.is_far) == ("compute", is_far)
    assert ("not the machine" in found.why) == is_far


@pytest.mark.parametrize(("moved_ns", "word"), [(5e5, "compute"), (5.1e5, "transfer")])
def test_copies_for_more_than_half_of_the_time_are_transfer(moved_ns: float, word: str) -> None:
    assert kind(replace(HEAVY, transfer_ns=moved_ns)) == word


@pytest.mark.parametrize(("dispatch_ns", "word"), [(None, "compute"), (5e5, "compute"), (5.1e5, "latency")])
def test_dispatch_for_more_than_half_of_the_time_is_latency(dispatch_ns: float | None, word: str) -> None:
    assert kind(replace(HEAVY, dispatch_ns=dispatch_ns)) == word


@pytest.mark.parametrize(("calls", "word"), [(20, "compute"), (21, "latency")])
def test_many_short_calls_far_above_the_bound_are_latency(calls: int, word: str) -> None:
    assert kind(replace(HEAVY, calls=calls)) == word


def test_short_calls_near_the_bound_are_no_latency() -> None:
    assert kind(replace(HEAVY, calls=100, flops=30_000_000)) == "compute"


def test_a_layer_with_nothing_to_do_that_takes_time_is_latency() -> None:
    found = bottleneck(replace(HEAVY, time_ns=2_000.0, flops=0, bytes=0))

    assert found is not None
    assert found.kind == "latency"
    assert found.why == "an operator takes 1.0 µs on average, for no work"


def test_a_long_call_for_nothing_is_far_from_every_wall() -> None:
    found = bottleneck(replace(HEAVY, flops=0, bytes=0))

    assert found is not None
    assert found.is_far
    assert found.why.endswith("for no work: the kernel is slow, not the machine")


def test_a_layer_without_time_has_no_bottleneck() -> None:
    assert bottleneck(replace(HEAVY, time_ns=0.0)) is None
