"""The report of a capture as text and files: what it says first, that it fits, that the sums stay whole."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from rich.cells import cell_len

from profkit.attribution.account import THREADS
from profkit.attribution.metrics import TEXT, find_metric
from profkit.attribution.passes import usage_of
from profkit.attribution.range_sums import REMAINDER
from profkit.attribution.usage import Usage, UsageRow
from profkit.capture.schema import Capture, Losses, RangeKind
from profkit.errors import UsageError
from profkit.rendering.names import cut_middle
from profkit.rendering.quantities import ABSENT
from profkit.rendering.tables.table import Table
from profkit.rendering.usage.columns import choose_usage_columns, columns_on, find_usage_column, usage_columns
from profkit.rendering.usage.content import View, build_table, loss_lines, surroundings
from profkit.rendering.usage.files import render_usage_csv, render_usage_json, usage_fields
from profkit.rendering.usage.tfprof import HEADER, memory_text, micros_text, render_tfprof
from tests.capture.tables import Alloc, Row, capture_of

MS = 1_000_000
LONG = "aten::convolution_backward_with_a_name_that_goes_on_and_on<float, 3>"


def busy_capture(losses: Losses | None = None, warnings: tuple[str, ...] = ()) -> Capture:
    """Steps with children, a recursion, a span, marks, many small rows on a second thread, allocations."""
    rows = []
    for step in range(4):
        at = 10 * MS * step
        rows += [
            Row("step", at, at + 9 * MS, domain="app", category="train", faults=(10, 0, 1, 0)),
            Row("load/日本語🦊", at + 1000, at + 2 * MS),
            Row(LONG, at + 3 * MS, at + 8 * MS),
            Row("again", at + 4 * MS, at + 7 * MS),
            Row("again", at + 5 * MS, at + 6 * MS),
            Row("tick", at + 10, at + 10, kind=RangeKind.MARK),
        ]
    rows += [Row("request", 5, 30 * MS, kind=RangeKind.SPAN), Row("left open", 39 * MS, 40 * MS, is_open=True)]
    rows += [Row(f"small {i}", MS + 1000 * i, MS + 1000 * i + 900 - i, "pool") for i in range(40)]
    allocations = [Alloc(10 * MS * step + 2000, 3 << 20, 10 * MS * step + 5000) for step in range(4)]
    return capture_of(
        rows,
        [*allocations, Alloc(40 * MS - 1, 5000)],
        span_ns=(0, 50 * MS),
        empty_range_ns=23.4,
        losses=losses,
        warnings=warnings,
    )


def program_table(capture: Capture, usage: Usage, view: View) -> Table:
    return build_table(usage, view, surroundings(capture, usage))


def shown(capture: Capture, by: str = "name", width: int = 100, **view: object) -> list[str]:
    table = program_table(capture, usage_of(capture, by, clock=THREADS), View(**view))  # type: ignore[arg-type]
    return table.text(width).splitlines()


def test_losses_stand_on_the_first_line_and_warnings_follow() -> None:
    capture = busy_capture(Losses(1234, 1000, 200, 34, 5 * MS), ("the file is damaged", "process 7 was killed"))

    lines = shown(capture, width=200)

    assert lines[0] == (
        "1,234 records were dropped: 1,000 because the disk was full or could not be written, "
        "200 because the disk did not keep up, 34 because ranges were nested too deep"
    )
    assert lines[1] == "threads waited 5.000 ms in total for the capture to be written"
    assert lines[2:4] == ["warning: the file is damaged", "warning: process 7 was killed"]
    assert lines[4].startswith("python program.py: 1 process, 2 threads, 50.00 ms elapsed")


def test_a_capture_without_losses_begins_with_what_was_recorded() -> None:
    lines = shown(busy_capture())

    assert lines[0] == "python program.py: 1 process, 2 threads, 50.00 ms elapsed"
    assert lines[1] == "clock tsc; recording a range costs 23.4 ns"


def test_of_many_warnings_the_first_are_shown_and_the_rest_counted() -> None:
    lines = shown(busy_capture(warnings=tuple(f"damage {i}" for i in range(500))))

    assert lines[9:11] == ["warning: damage 9", "warning: 490 more warnings like these"]


def test_one_lost_record_is_told_in_the_singular() -> None:
    assert loss_lines(busy_capture(Losses(1, 0, 0, 0, 0))) == ["1 record was dropped"]


@pytest.mark.parametrize("width", [60, 80, 100, 160])
@pytest.mark.parametrize("by", ["name", "path", "thread", "category", "domain"])
@pytest.mark.parametrize("columns", [None, ["all"], ["+live", "overhead"]])
def test_every_line_fits_the_width(width: int, by: str, columns: list[str] | None) -> None:
    capture = busy_capture(Losses(1234, 1000, 200, 34, 5 * MS), ("x" * 300, "日本語" * 60))

    lines = shown(capture, by, width, columns=columns)

    assert max(cell_len(line) for line in lines) <= width


def test_numbers_are_whole_in_a_narrow_table_and_names_are_cut_in_the_middle() -> None:
    text = "\n".join(shown(busy_capture(), width=80))

    assert re.search(r"aten::\S*…\S*.*, 3>\s+4\s+20\.00 ms\s+8\.000 ms", text)
    assert "too narrow for median" in text


def test_asked_columns_continue_below_instead_of_being_left_out() -> None:
    text = "\n".join(shown(busy_capture(), width=80, columns=["all"]))

    for column in usage_columns():
        is_of_programs = column.name in columns_on(THREADS) and column.name != "wall"
        assert (f" {column.heading} " in text.replace("\n", " ")) == is_of_programs
    assert "too narrow" not in text


def test_a_deep_tree_keeps_room_for_names() -> None:
    rows = [Row(f"level {depth}", depth, 2000 - depth) for depth in range(300)]

    lines = shown(capture_of(rows), "path", 80, top=None)

    assert max(map(cell_len, lines)) <= 80
    assert any("level 299" in line for line in lines)


def test_remainder_and_total_close_the_table() -> None:
    usage = usage_of(busy_capture(), clock=THREADS)
    table = build_table(usage, View(["exclusive", "share", "own_alloc_bytes", "peak_bytes"]))

    remainder, total = table.lines[-2:]

    assert (remainder.name, total.name) == (REMAINDER, "total")
    assert total.texts[2:] == ("100%", "12.0 MiB", "3.00 MiB")
    assert remainder.texts[3] == "0 B"


def test_rows_beyond_the_top_are_summed_in_one_line() -> None:
    usage = usage_of(busy_capture(), clock=THREADS)
    table = build_table(usage, View(["calls", "exclusive"], top=5))

    more = table.lines[5]

    hidden = usage.rows[5:]
    assert more.name == f"… {len(hidden)} more rows (--top {len(usage.rows)})"
    assert more.texts[1] == str(sum(row.calls for row in hidden))
    assert len(build_table(usage, View(top=None)).lines) == len(usage.rows) + 2


def test_the_top_of_a_tree_has_all_rows_above_each_row() -> None:
    rows = [Row("a", 0, 100), Row("b", 0, 99), Row("c", 0, 98), Row("x", 200, 250), Row("y", 300, 340)]
    usage = usage_of(capture_of(rows), "path", clock=THREADS)

    table = build_table(usage, View(top=3))

    assert [(line.name, line.level) for line in table.lines if line.tone == "row"] == [("a", 0), ("b", 1), ("c", 2)]


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("calls", ["a", "many", "step"]),
        ("max", ["long", "inside", "a"]),
        ("own", ["long", "inside", "a"]),
        ("name", ["a", "many", "step"]),
        ("alloc", ["a", "many", "step"]),
    ],
)
def test_the_top_of_a_tree_goes_by_the_column_it_is_sorted_by(sort: str, names: list[str]) -> None:
    rows = [Row("long", 0, 900), Row("inside", 0, 400), Row("a", 1000, 1500), Row("many", 1001, 1099)]
    rows += [Row("step", 1001 + 10 * i, 1003 + 10 * i) for i in range(9)]
    usage = usage_of(capture_of(rows, [Alloc(1002, 4096)]), "path", clock=THREADS)

    table = build_table(usage, View(sort=sort, top=3))
    profile = render_tfprof(usage, View(sort=sort, top=3)).splitlines()[2:]

    assert [line.name for line in table.lines if line.tone == "row"] == names
    assert [line.split(" (")[0].split("/")[-1].strip() for line in profile] == names


@pytest.mark.parametrize("by", ["name", "path"])
def test_of_many_rows_only_those_shown_are_made(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    whole = UsageRow.__init__

    def counted(row: UsageRow, columns: Any, place: int) -> None:
        made.append(place)
        whole(row, columns, place)

    capture = capture_of([Row(f"name {i}", 10 * i, 10 * i + 5) for i in range(500)], [Alloc(1, 4096)])
    monkeypatch.setattr(UsageRow, "__init__", counted)

    usage = usage_of(capture, by, clock=THREADS)
    text = str(program_table(capture, usage, View(top=3, sort="own")))
    render_usage_json(usage)
    render_usage_csv(usage)

    assert "497 more rows" in text
    assert not made  # a line is made of the columns; an object for a row only where one is looked at
    assert usage.rows[7].calls == 1 and made == [7]


def test_rows_of_a_table_are_a_sequence() -> None:
    rows = usage_of(busy_capture(), clock=THREADS).rows

    assert list(rows)[3] == rows[3] == rows[2:5][1]
    assert [row.name for row in rows] == list(rows.column("name"))
    assert rows.column("wall_ns") == [None] * len(rows)
    assert rows == tuple(rows) and rows != rows[1:] and rows != 5


def test_spans_and_what_was_not_recorded_are_dashes() -> None:
    usage = usage_of(busy_capture(), clock=THREADS)
    columns = ["exclusive", "share", "alloc_bytes", "minor_faults"]

    table = build_table(usage, View(columns, top=None))

    texts = {line.name: line.texts[1:] for line in table.lines}
    assert texts["request"] == (ABSENT,) * 4
    assert texts["again"][3] == ABSENT
    assert texts["app:step"][3] == "40"


def test_footnotes_tell_spans_open_ranges_marks_and_threads() -> None:
    text = "\n".join(shown(busy_capture()))

    assert "total is the time of 2 threads together" in text
    assert "1 span (started and ended by id): no own time" in text
    assert "1 range had no end" in text
    assert "4 marks: tick 4" in text


def test_a_high_cost_of_recording_is_told_with_the_flag_that_takes_it_out() -> None:
    rows = [Row("a", 0, 10_000), *(Row("b", 100 * i, 100 * i + 50) for i in range(90))]
    capture = capture_of(rows, empty_range_ns=30.0)

    plain = str(program_table(capture, usage_of(capture, clock=THREADS), View()))
    subtracted = str(program_table(capture, usage_of(capture, subtract_overhead=True, clock=THREADS), View()))

    assert "recording itself took about 2.730 µs of this (27%); --subtract-overhead takes it out" in plain
    assert "2.730 µs, the estimated cost of recording, is already subtracted" in subtracted


@pytest.mark.parametrize("sort", ["calls", "peak", "median_ns", "alloc", "faults"])
def test_rows_are_sorted_by_a_column_with_unknown_values_last(sort: str) -> None:
    usage = usage_of(busy_capture(), clock=THREADS)
    column = find_usage_column(sort)

    table = build_table(usage, View([column.name], sort, None))

    by_text = dict(zip(usage.rows.column("name"), column.metric.values(usage)))
    values = [by_text[line.name] for line in table.lines if line.tone == "row"]
    known = [value for value in values if value is not None]
    assert known == sorted(known, reverse=True)
    assert values[: len(known)] == known


def test_sorting_by_name_is_alphabetical_and_keeps_a_tree_whole() -> None:
    usage = usage_of(capture_of([Row("z", 0, 10), Row("a", 1, 5), Row("b", 20, 30)]), "path", clock=THREADS)

    table = build_table(usage, View(sort="name"))

    assert [line.name for line in table.lines[:3]] == ["b", "z", "a"]


def test_without_ranges_the_totals_stand_in_place_of_the_table() -> None:
    capture = capture_of([], [Alloc(10, 4096, 20), Alloc(30, 8192)], span_ns=(0, 100))

    lines = shown(capture)
    markdown = program_table(capture, usage_of(capture, clock=THREADS), View()).markdown()

    assert lines[-2:] == [
        "no ranges were recorded: they come from nvtx, torch, oneDNN or profkit.scope",
        "thread time 100.0 ns; 2 allocations of 12.0 KiB, at most 8.00 KiB at once",
    ]
    assert not any(line.startswith(REMAINDER) for line in lines)
    assert "profkit.scope  \nthread time 100.0 ns" in markdown and "|" not in markdown


def test_a_chosen_thread_without_ranges_is_not_told_to_record_some() -> None:
    capture = capture_of([Row("a", 0, 10)], processes=[["main", "idle"]], span_ns=(0, 100))

    text = str(program_table(capture, usage_of(capture, thread="idle", clock=THREADS), View()))

    assert "no ranges were recorded in the chosen threads\nthread time" in text


def test_marks_alone_are_no_table_and_still_counted() -> None:
    lines = shown(capture_of([Row("tick", 5, 5, kind=RangeKind.MARK)], span_ns=(0, 100)))

    assert any(line.startswith("no ranges were recorded: they come") for line in lines)
    assert lines[-1] == "1 mark: tick 1"


@pytest.mark.parametrize("width", range(1, 14))
def test_a_cut_name_has_its_ends_and_never_more_cells_than_asked(width: int) -> None:
    for name in ("abcdefghijkl", "日本語日本語", "a日b本c語"):
        cut = cut_middle(name, width)

        assert cell_len(cut) <= width
        assert cut == name or "…" in cut


def every_kind() -> list[Usage]:
    return [usage_of(busy_capture(), by, clock=THREADS) for by in ("name", "path", "thread", "category", "domain")]


@pytest.mark.parametrize("usage", every_kind(), ids=lambda usage: usage.by)
def test_json_has_the_schema_every_row_and_an_exact_sum(usage: Usage) -> None:
    data = json.loads(render_usage_json(usage))

    assert list(data)[:4] == ["schema", "by", "wall_ns", "remainder_ns"]
    assert (data["schema"], data["by"], data["dropped"]) == ("profkit.usage/1", usage.by, 0)
    assert sum(row["exclusive_ns"] for row in data["rows"]) + data["remainder_ns"] == data["wall_ns"]
    assert [row["name"] for row in data["rows"]] == [row.name for row in usage.rows]
    needed = {"name", "calls", "inclusive_ns", "exclusive_ns", "alloc_bytes", "peak_bytes"}
    assert all(needed <= set(row) for row in data["rows"])
    assert ("path" in data["rows"][0]) == (usage.by == "path")


@pytest.mark.parametrize("usage", every_kind(), ids=lambda usage: usage.by)
def test_csv_is_read_back_with_every_number(usage: Usage) -> None:
    lines = list(csv.DictReader(io.StringIO(render_usage_csv(usage))))

    assert len(lines) == len(usage.rows)
    for line, row in zip(lines, usage.rows):
        for name in usage_fields(usage):
            value = getattr(row, name)
            if name == "path":
                assert tuple(json.loads(line[name])) == value
            else:
                assert line[name] == ("" if value is None else str(value))


def test_csv_keeps_line_breaks_quotes_and_commas_in_names() -> None:
    name = 'a\nb,"c"\r\n日本'

    (line,) = csv.DictReader(
        io.StringIO(render_usage_csv(usage_of(capture_of([Row(name, 0, 1)]), clock=THREADS)), newline="")
    )

    assert line["name"] == name.replace("\r", "\\r")


def test_every_field_of_a_row_is_a_column_or_the_name() -> None:
    fields = usage_fields(usage_of(capture_of([Row("a", 0, 1)]), clock=THREADS))
    numbers = [name for name in fields if find_metric(name).unit != TEXT]

    assert {find_usage_column(name).name for name in numbers} <= set(columns_on(THREADS))
    assert set(fields) - set(numbers) == {"name"}


def test_columns_can_be_added_to_the_default_and_unknown_ones_offer_the_nearest() -> None:
    usage = usage_of(busy_capture(), clock=THREADS)

    added = [column.name for column in choose_usage_columns(["+live", "own alloc", "calls", "name"], usage)]

    assert added[:3] == ["calls", "inclusive", "exclusive"]
    assert added[-2:] == ["live_bytes", "own_alloc_bytes"]
    with pytest.raises(UsageError, match=r"did you mean exclusive\? columns: calls, "):
        find_usage_column("exlusive")


def test_columns_that_were_not_recorded_are_no_default() -> None:
    usage = usage_of(capture_of([Row("a", 0, 10)]), clock=THREADS)

    assert [column.name for column in choose_usage_columns(None, usage)] == [
        "calls",
        "inclusive",
        "exclusive",
        "share",
        "median",
    ]


def tfprof_capture() -> Capture:
    rows = [Row("Conv2D", 0, 138_630_000), Row("LRN", 138_630_000, 183_180_000), Row("Mul", 183_180_000, 183_200_000)]
    return capture_of(rows, [Alloc(5, 3_243_070_000), Alloc(183_190_000, 4610)])


def test_the_op_layout_is_that_of_tensorflow() -> None:
    lines = render_tfprof(usage_of(tfprof_capture(), clock=THREADS), View()).splitlines()

    assert lines[0] == HEADER
    assert lines[1] == (
        "Conv2D                     3243.07MB (100.00%, 100.00%),     138.63ms (100.00%, 75.67%),"
        "                             --,     138.63ms (100.00%, 75.67%)"
    )
    # Cells end where TensorFlow's do: a name of up to 25 signs, then cells of 30 and ", ".
    assert [lines[3][end - 1] for end in (55, 87, 119, 151)] == [")", ")", "-", ")"]
    assert lines[3].split()[:6] == ["Mul", "4.61KB", "(0.00%,", "0.00%),", "20us", "(0.01%,"]


def test_accumulated_percentages_start_at_100_and_end_at_the_last_rows_own() -> None:
    capture = busy_capture()

    rows = render_tfprof(usage_of(capture, clock=THREADS), View(top=None)).splitlines()[1:]

    shares = [re.findall(r"\(([\d.]+)%, ([\d.]+)%\)", row)[-1] for row in rows if not row.startswith("request")]
    assert shares[0][0] == "100.00"
    assert shares[-1][0] == shares[-1][1]
    assert [float(total) for total, _ in shares] == sorted((float(total) for total, _ in shares), reverse=True)


def test_spans_have_no_own_time_and_no_bytes_in_tfprofs_layouts_either() -> None:
    capture = capture_of([Row("a", 0, 5_000_000), Row("s", 0, 97_000, kind=RangeKind.SPAN)], [Alloc(5, 4000)])

    operations = render_tfprof(usage_of(capture, clock=THREADS), View()).splitlines()[1:]
    scopes = render_tfprof(usage_of(capture, "path", clock=THREADS), View()).splitlines()[1:]

    assert operations[0].split()[:3] == ["a", "4.00KB", "(100.00%,"]
    assert re.split("[ ,]+", operations[1]) == ["s", "--", "--", "--", "--"]
    assert scopes[2].strip() == "a/s (--/--, --/97us, --/--, --/97us)"


def test_the_scope_layout_has_own_and_accumulated_values_below_a_root() -> None:
    capture = capture_of([Row("a", 0, 5_000_000), Row("b", 0, 97_000)])

    lines = render_tfprof(usage_of(capture, "path", clock=THREADS), View()).splitlines()

    assert lines[1:] == [
        "_TFProfRoot (--/--, --/5.00ms, --/--, --/5.00ms)",
        "  a (--/--, 4.90ms/5.00ms, --/--, 4.90ms/5.00ms)",
        "    a/b (--/--, 97us/97us, --/--, 97us/97us)",
    ]


@pytest.mark.parametrize(
    ("value_ns", "text"),
    [(0, "0us"), (97_000, "97us"), (999_499, "999us"), (1_370_000, "1.37ms"), (3_740_000_000, "3.74sec")],
)
def test_times_in_tfprofs_units(value_ns: int, text: str) -> None:
    assert micros_text(value_ns) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0B"), (768, "768B"), (4380, "4.38KB"), (741_370_000, "741.37MB")])
def test_bytes_in_tfprofs_units(value: int, text: str) -> None:
    assert memory_text(value) == text
