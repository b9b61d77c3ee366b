"""The fit of memory by batch: lines of blocks, breakpoints where the peak moves, and what cannot be fitted so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from profkit.measurement.largest_batch.fit import (
    MOST_BATCH,
    BlockRecord,
    Line,
    fit_allocator,
    fit_line,
    fit_memory,
    highest_lines,
    largest_below,
)

WEIGHTS, GRADIENTS = (1000, 0), (1000, 0)
BATCH, RESULT, SCRATCH = (0, 8), (64, 40), (16, 100)


def record(batch: int, entries: Sequence[tuple[int, tuple[int, int]]], begin: int = 1) -> BlockRecord:
    """Of entries (block, (fixed, per batch)); a block that appears again is taken back."""
    seen: set[int] = set()
    sizes = []
    for block, (fixed, each) in entries:
        size = fixed + each * batch
        sizes.append(-size if block in seen else size)
        seen.add(block)
    return BlockRecord(np.array(sizes), np.array([block for block, _ in entries]), ["op"] * len(entries), begin)


def step(batch: int) -> BlockRecord:
    """The weights, then a step: its peak is at the scratch of a large batch, at the gradients of a small one."""
    forward = [(1, BATCH), (2, RESULT), (3, SCRATCH), (3, SCRATCH), (2, RESULT)]
    return record(batch, [(0, WEIGHTS), *forward, (4, GRADIENTS), (5, GRADIENTS), (5, GRADIENTS), (4, GRADIENTS)])


def test_a_peak_that_moves_with_the_batch_is_predicted_beyond_its_breakpoint() -> None:
    fit = fit_allocator({batch: step(batch) for batch in (1, 2, 3)})

    assert [round(fit.at(batch)) for batch in (1, 5, 13, 14, 15, 500)] == [
        step(batch).peak_bytes for batch in (1, 5, 13, 14, 15, 500)
    ]
    low, high = fit.pieces
    assert (low.first, low.line.fixed, low.line.slope) == pytest.approx((1, 3000, 8))
    # 3000 + 8 b < 1080 + 148 b from 13.7 on
    assert (high.first, high.line.fixed, high.line.slope) == pytest.approx((14, 1080, 148))


def test_the_peak_is_that_of_the_steps_not_of_building_the_model() -> None:
    entries = [(0, (10_000, 0)), (0, (10_000, 0)), (1, (0, 10)), (1, (0, 10))]

    assert record(4, entries, begin=2).peak_bytes == 40
    assert record(4, entries, begin=0).peak_bytes == 10_000
    assert fit_allocator({batch: record(batch, entries, begin=2) for batch in (1, 2)}).at(7) == pytest.approx(70)


def test_a_batch_that_allocates_in_another_order_is_left_out() -> None:
    other = record(1, [(0, WEIGHTS), (1, BATCH), (2, RESULT)])

    fit = fit_allocator({1: other, 2: step(2), 4: step(4)})

    assert fit.at(100) == pytest.approx(step(100).peak_bytes)
    assert "batch 1 allocates in another order" in fit.how and "from batch 2, 4" in fit.how


def test_where_no_two_batches_agree_the_last_two_peaks_give_a_line() -> None:
    records = {
        batch: record(batch, [(0, WEIGHTS), *((number, (0, 10)) for number in range(1, 2 + batch))])
        for batch in (1, 2, 3)
    }

    fit = fit_allocator(records)

    assert [piece.line for piece in fit.pieces] == [fit_line({2: 1060.0, 3: 1120.0})]
    assert fit.how.endswith("at batch 2, 3: no other one allocates in the order of batch 3")


@pytest.mark.parametrize("seed", range(5))
def test_the_highest_lines_are_the_highest_at_every_batch(seed: int) -> None:
    generator = np.random.default_rng(seed)
    fixed, slopes = generator.integers(0, 1000, 40).astype(float), generator.integers(0, 30, 40).astype(float)

    pieces = highest_lines(fixed, slopes, [str(row) for row in range(40)])

    assert pieces[0].first == 1 and [piece.first for piece in pieces] == sorted({piece.first for piece in pieces})
    for batch in (1, 2, 3, 5, 9, 17, 40, 100, 1000):
        expected = (fixed + slopes * batch).max()
        assert max(piece.line.at(batch) for piece in pieces) == expected
        holding = [piece for piece in pieces if piece.first <= batch][-1]
        assert holding.line.at(batch) == expected
        row = int(holding.where)
        assert holding.line == Line(fixed[row], slopes[row])


def test_a_line_never_falls() -> None:
    assert fit_line({1: 10.0, 3: 20.0}) == Line(5.0, 5.0)
    assert fit_line({1: 20.0, 3: 10.0}) == Line(15.0, 0.0)
    assert fit_line({7: 3.0}) == Line(3.0, 0.0)


def test_resident_memory_is_base_allocator_and_rest() -> None:
    records = {batch: step(batch) for batch in (20, 40, 60)}
    growths = {batch: each.peak_bytes + 500.0 + 2 * batch for batch, each in records.items()}

    fit = fit_memory(growths, 10_000, records)

    assert (fit.rest.fixed, fit.rest.slope) == pytest.approx((500, 2))
    assert fit.resident(200) == pytest.approx(10_000 + step(200).peak_bytes + 900)


def test_without_an_allocator_the_growth_is_a_line() -> None:
    fit = fit_memory({1: 30.0, 2: 40.0, 3: 50.0}, 100)

    assert fit.allocator is None and fit.resident(10) == pytest.approx(220)


def test_the_largest_batch_below_a_limit() -> None:
    assert largest_below(lambda batch: 10 * batch, 109) == 10
    assert largest_below(lambda batch: 10 * batch, 110) == 11
    assert largest_below(lambda batch: 10 * batch, 9) == 0
    assert largest_below(lambda _: 1, 10) >= MOST_BATCH
