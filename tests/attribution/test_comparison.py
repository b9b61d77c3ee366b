"""Two runs side by side: rows that came, went, changed or stayed; what fails a check and what cannot."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from profkit.attribution.comparison import Comparison, compare
from profkit.attribution.profiles import (
    MOST_SAMPLES,
    ComparableProfile,
    ProfileRow,
    gathered,
    profile_of,
)
from profkit.capture.run import Run
from profkit.errors import CaptureError
from profkit.measurement.statistics.judging import judge_tables
from tests.capture.network_captures import Event, layer, network_capture, op, recording_of
from tests.capture.tables import Row, capture_of

JUDGE = partial(judge_tables, floor=0.001)
MARGIN = 0.02


def noisy(seed: int, centre: float, count: int = 30, spread: float = 0.01) -> list[float]:
    values: list[float] = (centre * np.exp(np.random.default_rng(seed).normal(0, spread, count))).tolist()
    return values


def profile(seed: int, about: dict[str, str] | None = None, total: float = 1e6, **rows: float) -> ComparableProfile:
    """Rows around these times, each with its part of the total."""
    made = {
        name: ProfileRow([noisy(seed + place, ns)], 1, ns / total) for place, (name, ns) in enumerate(rows.items(), 1)
    }
    return ComparableProfile("step", "kind", made, {"step": [noisy(seed, total)]}, about or {})


def verdicts(comparison: Comparison) -> dict[str, str]:
    return {row.name: row.verdict for row in comparison.rows}


def test_rows_are_added_gone_faster_slower_and_same() -> None:
    a = profile(100, conv=5e5, pool=1e5, relu=5e4, pad=2e4)
    b = profile(200, conv=6e5, pool=5e4, relu=5e4, copy=3e4)

    found = compare(a, b, JUDGE, MARGIN, 0.05)

    assert verdicts(found) == {"conv": "slower", "pool": "faster", "relu": "same", "pad": "gone", "copy": "added"}
    assert [row.name for row in found.rows][:2] == ["conv", "pool"]  # the largest change first
    rows = {row.name: row for row in found.rows}
    assert rows["conv"].ratio == pytest.approx(5 / 6, rel=0.01)
    assert (rows["copy"].a_ns, rows["pad"].b_ns) == (None, None)
    assert rows["copy"].change_ns == pytest.approx(3e4, rel=0.05)


def test_the_same_thing_twice_has_hardly_a_row_that_changed() -> None:
    names = [f"row{number}" for number in range(40)]
    a, b = (profile(seed, None, **dict.fromkeys(names, 1e5)) for seed in (1000, 2000))

    found = compare(a, b, JUDGE, MARGIN, 0.05)

    assert found.count("faster") + found.count("slower") == 0
    assert (found.corrected_for, found.failed) == (40, ())


@pytest.mark.parametrize(("now", "fails"), [(1.03e6, False), (1.07e6, False), (1.2e6, True)])
def test_the_step_fails_only_with_its_whole_interval_beyond_the_limit(now: float, fails: bool) -> None:
    a = ComparableProfile("step", "kind", {}, {"step": [noisy(1, 1e6, spread=0.05)]})
    b = ComparableProfile("step", "kind", {}, {"step": [noisy(2, now, spread=0.05)]})

    found = compare(a, b, JUDGE, MARGIN, 0.05)

    assert bool(found.failed) == fails


def test_a_row_that_matters_fails_even_if_the_step_does_not() -> None:
    found = compare(profile(10, conv=2e4, tiny=5e3), profile(50, conv=3e4, tiny=9e3), JUDGE, MARGIN, 0.05)

    assert [row.name for row in found.failed] == ["conv"]  # tiny is below one percent of the step


def test_one_step_resolves_nothing_and_fails_nothing() -> None:
    a = ComparableProfile("step", "kind", {"conv": ProfileRow([[1e6]], 1, 1.0)}, {"step": [[1e6]]})
    b = ComparableProfile("step", "kind", {"conv": ProfileRow([[9e6]], 1, 1.0)}, {"step": [[9e6]]})

    found = compare(a, b, JUDGE, MARGIN, 0.05)

    assert verdicts(found) == {"conv": "not resolved"}
    assert found.failed == ()
    assert found.samples_needed_for_total() == 12


def test_differences_are_told_and_those_that_forbid_a_check_are_known() -> None:
    a = profile(1, about={"threads": "1", "version of torch": "2.1", "data": "x"}, conv=1e5)
    b = profile(2, about={"threads": "2", "version of torch": "2.2", "data": "x"}, conv=1e5)

    found = compare(a, b, JUDGE, MARGIN, 0.05)

    assert found.differences == (("threads", "1", "2"), ("version of torch", "2.1", "2.2"))
    assert found.unfair == (("threads", "1", "2"),)


# --- Profiles ---


def one_network(extra: int = 0) -> Run:
    events: list[Event] = []
    for start in (0, 1000):
        events += [
            layer("conv1", start, start + 500),
            op("aten::convolution", start + 100, start + 400 + extra, layer="conv1", phase="forward"),
            op("aten::relu", start + 450, start + 460, layer="conv1", phase="forward"),
            op("aten::relu", start + 600, start + 620, phase="forward"),
        ]
    return network_capture(recording_of(*events, steps=[(0, 700), (1000, 1700)]))


def test_a_networks_rows_and_remainders_sum_to_its_steps_whatever_they_are_by() -> None:
    for by in ("operator", "layer", "kind", "type", "name"):
        found = profile_of(one_network(), by)

        assert np.sum([row.samples_ns for row in found.rows.values()], axis=0).tolist() == [[700, 700]], by
        assert sum(row.share or 0 for row in found.rows.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("by", "row", "samples", "calls"),
    [
        ("operator", "conv1/forward/aten::convolution", [300, 300], 1),
        ("operator", "(no layer)/forward/aten::relu", [20, 20], 1),
        ("layer", "conv1/forward", [310, 310], 2),
        ("kind", "relu", [30, 30], 2),
        ("type", "aten::relu", [30, 30], 2),
        ("name", "aten::convolution", [300, 300], 1),
        ("name", "(dispatch)", [370, 370], 0),
    ],
)
def test_a_row_has_its_times_and_calls_per_step(by: str, row: str, samples: list[int], calls: int) -> None:
    found = profile_of(one_network(), by).rows[row]

    assert list(found.samples_ns) == [samples]
    assert found.calls == calls


def test_the_unrecorded_steps_are_the_total_that_counts() -> None:
    found = profile_of(one_network(), "operator")

    assert list(found.totals) == ["step, not recorded", "step, recorded"]
    assert list(found.totals["step, recorded"]) == [[700, 700]]
    assert found.about["network"].startswith("cifar10 batch 4")


def test_a_run_without_a_recording_cannot_be_compared() -> None:
    with pytest.raises(CaptureError, match="torch has no recording of time: crashed, ended by SIGSEGV"):
        profile_of(network_capture(status="crashed", reason="ended by SIGSEGV"), "operator")


def test_a_traced_programs_rows_have_the_times_of_their_calls() -> None:
    rows = [Row("step", 0, 1000), Row("load", 100, 300), Row("load", 400, 450), Row("step", 2000, 2500)]

    found = profile_of(capture_of(rows), "name")

    assert found.per == "call"
    assert {name: list(row.samples_ns) for name, row in found.rows.items()} == {
        "step": [[1000, 500]],
        "load": [[200, 50]],
    }
    assert found.rows["load"].calls == 2
    assert found.rows["load"].share == pytest.approx(250 / 2500)


def test_many_calls_are_gathered_into_medians_of_neighbours() -> None:
    values = [10.0] * 500 + [20.0] * 499 + [9000.0]

    found = gathered(values)

    assert len(found) == MOST_SAMPLES
    assert (found[0], found[-1]) == (10.0, 20.0)
