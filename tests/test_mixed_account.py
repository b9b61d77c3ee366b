"""One pipeline and no façade over three: a capture of the schema alone has every table, by every command."""

from __future__ import annotations

import json
from functools import partial

import pytest

from profkit.attribution.account import CLOCKS
from profkit.attribution.aggregation import mean_of_steps
from profkit.attribution.comparison import compare as compared
from profkit.attribution.grouping import GROUPINGS, groupings_of, groupings_on
from profkit.attribution.profiles import profile_of
from profkit.capture.schema import Capture
from profkit.measurement.statistics.judging import judge_tables
from profkit.rendering.usage.content import View
from profkit.rendering.usage.files import render_usage_csv, render_usage_json
from profkit.rendering.usage.reports import report_of
from profkit.rendering.usage.tfprof import render_tfprof
from tests.capture.account_checks import assert_adds_up
from tests.capture.mixed_captures import mixed_capture


@pytest.fixture(scope="module")
def capture() -> Capture:
    return mixed_capture()


def test_all_three_clocks_conserve(capture: Capture) -> None:
    assert_adds_up(capture)


@pytest.mark.parametrize(("clock", "by"), [(clock, by) for clock in CLOCKS for by in groupings_on(clock)])
def test_every_grouping_of_every_clock_is_a_table_and_files(clock: str, by: str, capture: Capture) -> None:
    found = report_of(capture, by, clock=clock)

    ((_, usage),) = found.usages
    (table,) = found.tables(View(columns=["all"], top=None))
    data = json.loads(render_usage_json(usage))
    assert (usage.by, usage.clock) == (by, clock)
    assert len(usage.rows) and str(table)
    assert sum(row["exclusive_ns"] for row in data["rows"]) + data["remainder_ns"] == data["wall_ns"]
    assert len(render_usage_csv(usage).splitlines()) == len(usage.rows) + 1
    assert len(render_tfprof(mean_of_steps(usage), View(top=None)).splitlines()) == len(usage.rows) + 1 + (by == "path")


def test_every_grouping_is_offered(capture: Capture) -> None:
    assert set(groupings_of(capture)) == set(GROUPINGS)


def test_without_a_grouping_every_clock_has_its_table(capture: Capture) -> None:
    usages = [usage for _, usage in report_of(capture).usages]

    assert [usage.clock for usage in usages] == list(CLOCKS)


@pytest.mark.parametrize("by", GROUPINGS)
def test_it_does_not_differ_from_itself(by: str, capture: Capture) -> None:
    found = compared(profile_of(capture, by), profile_of(capture, by), partial(judge_tables, floor=0.0), 0.02)

    assert found.rows
    assert all(row.change_ns == 0 for row in (*found.rows, *found.totals))
    assert not found.differences
    assert {row.verdict for row in found.rows} <= {"same", "not resolved"}
