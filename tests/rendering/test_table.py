"""The tables: first what they say, as plain data, then that they fit."""

from __future__ import annotations

import dataclasses
import io

import pytest
from builders import baseline_row, cell, ok_row, realistic_cell, result
from rich.cells import cell_len

from profkit.errors import UsageError
from profkit.measurement.result import Row
from profkit.ops import SPECS, Conv2d, MatMul
from profkit.rendering.columns import choose_columns, column_names, find_column
from profkit.rendering.content import Table, build_tables
from profkit.rendering.html import render_html
from profkit.rendering.markdown import render_markdown
from profkit.rendering.names import fitted_names, short_keys, spec_text
from profkit.rendering.table import print_list, print_result, render_text


def column(table: Table, name: str) -> list[str]:
    """A column's texts, top to bottom."""
    index = [heading.name for heading in table.headings].index(name)
    return [line.texts[index] for line in table.lines]


def test_rows_are_sorted_by_time_with_failures_apart() -> None:
    (table,) = build_tables(result(realistic_cell()))

    assert column(table, "implementation")[:3] == ["native/implicit_gemm", "torch/channels_last", "torch"]
    assert column(table, "implementation")[-1] == "native/reference"
    statuses = ["wrong", "crashed", "unsupported", "unavailable", "unavailable"]
    assert [item.status for item in table.missing] == statuses


def test_a_row_shows_time_rate_share_memory_error_ratio_and_verdict() -> None:
    row = ok_row("conv2d/native/cpu/direct", 20.0, 0.5155, "slower")

    (table,) = build_tables(result(cell(baseline_row(), row)))

    texts = ("native/direct", "20.00 ms ±1.2%", "83.8", "40%", "12.4 MiB", "2.1e-7", "0.52 [0.51, 0.52]", "slower")
    assert table.lines[1].texts == texts


def test_the_baseline_is_marked_and_its_ratio_needs_no_interval() -> None:
    (table,) = build_tables(result(cell(baseline_row())))

    assert column(table, "verdict") == ["baseline"]
    assert column(table, "ratio") == ["1.00"]
    assert table.lines[0].tone == "baseline"
    assert "ratio = time of torch / this time: above 1 is faster" in table.footer


def test_the_share_is_that_of_the_bound_when_memory_limits_the_cell() -> None:
    row = dataclasses.replace(baseline_row(), percent_of_peak=3.0, percent_of_bound=71.0)

    (compute,) = build_tables(result(cell(row)))
    (memory,) = build_tables(result(cell(row, bound="memory")))

    assert column(compute, "share") == ["3.0%"]
    assert column(memory, "share") == ["71%"]
    assert [heading.text for heading in memory.headings if heading.name == "share"] == ["bound"]


def test_the_title_has_the_words_that_matter_and_the_facts_how_it_was_measured() -> None:
    (table,) = build_tables(result(cell(baseline_row(), cache="cold", threads=1)))

    assert table.title.startswith("conv2d: batch 128, in-channels 64, ")
    assert "stride 2" in table.title
    assert "dilation" not in table.title
    assert table.facts == ("1 thread, cold cache; this machine's peak 211 GFLOP/s, 18.2 GB/s; limited by arithmetic",)


def test_a_preset_is_named_in_the_title() -> None:
    (table,) = build_tables(result(cell(baseline_row(), spec=Conv2d())))

    assert table.title.startswith("conv2d cifar10.conv2: batch 128")


def test_remarks_become_footnotes_that_rows_refer_to() -> None:
    rows = [
        ok_row("conv2d/candidate/cpu/mine", 1.0, 10.0, "faster", output="reused"),
        ok_row("conv2d/torch/cpu/channels_last", 2.0, 5.0, "faster", layout="NHWC", note="pads first"),
        baseline_row(),
        ok_row("conv2d/candidate/cpu/other", 100.0, 0.1, "slower", output="reused"),
    ]

    (table,) = build_tables(result(cell(*rows)))

    assert column(table, "notes") == ["a", "b,c", "", "a"]
    assert "a: writes into the same output in each call (the others allocate a fresh one)" in table.footer
    assert "b: holds its images as NHWC" in table.footer
    assert "c: pads first" in table.footer


def test_a_reused_output_stands_above_the_table_and_rows_that_cannot_reuse_are_marked() -> None:
    native = ok_row("conv2d/native/cpu/direct", 1.0, 10.0, "faster", output="reused")

    (fresh,) = build_tables(result(cell(baseline_row())))
    (reused,) = build_tables(result(cell(native, baseline_row(), output="reused")))

    assert "output" not in fresh.facts[0]
    assert reused.facts[0].startswith("2 threads, hot cache, reused output; ")
    assert column(reused, "notes") == ["", "a"]
    assert "a: allocates a fresh output in each call (it cannot reuse one)" in reused.footer


@pytest.mark.parametrize("rows", [[], [Row("conv2d/jax/cpu", "crashed", "no reason")]])
def test_notes_are_said_when_nothing_was_measured(rows: list[Row]) -> None:
    stopped = result(cell(*rows, notes=["not measured before the interruption: jax"]), interrupted=True)

    for text in (render_text(stopped), render_html(stopped), render_markdown(stopped)):
        assert "not measured before the interruption: jax" in text
        assert "no ratio" not in text


def test_unresolved_rows_share_the_line_with_the_next_step() -> None:
    step = "rerun with --budget 60s"
    rows = [ok_row(f"conv2d/{name}/cpu", 11.0, 0.97, "not resolved", next_step=step) for name in ("jax", "numba")]

    (table,) = build_tables(result(cell(baseline_row(), *rows)))

    assert "not resolved: jax, numba; rerun with --budget 60s" in table.footer


def test_many_unresolved_rows_are_counted_instead_of_named() -> None:
    rows = [ok_row(f"conv2d/x{i}/cpu", 11.0, 0.97, "not resolved", next_step="rerun longer") for i in range(9)]

    (table,) = build_tables(result(cell(baseline_row(), *rows)))

    assert "not resolved: 9 rows; rerun longer" in table.footer


def test_notes_of_the_cell_and_a_missing_baseline_are_said() -> None:
    row = dataclasses.replace(baseline_row(), verdict="", ratio=None, ratio_low=None, ratio_high=None)

    (table,) = build_tables(result(cell(row, notes=["the machine was busy"])))

    assert "the machine was busy" in table.footer
    assert "no ratio: there is no measured baseline" in table.footer
    assert column(table, "ratio") == ["-"]


def test_a_wrong_row_without_a_reason_shows_its_error() -> None:
    row = Row("conv2d/numba/cpu", "wrong", max_error=0.031, tolerance=3.8e-5)

    (table,) = build_tables(result(cell(row)))

    assert table.missing[0].reason == "largest error 3.1e-2, accepted 3.8e-5"


@pytest.mark.parametrize("width", [60, 80, 100, 140])
@pytest.mark.parametrize("columns", [None, ["all"], ["+page_faults", "first_call", "note"]])
def test_the_text_fits_its_width(width: int, columns: list[str] | None) -> None:
    cells = [realistic_cell(Conv2d(stride=stride), 1 / stride) for stride in (1, 2, 3)]

    text = render_text(result(*cells), width, columns)

    assert max(cell_len(line) for line in text.splitlines()) <= width


def test_at_100_columns_no_default_column_is_left_out() -> None:
    text = render_text(result(realistic_cell()))

    headings = next(line for line in text.splitlines() if line.startswith("implementation"))
    assert headings.split() == "implementation time GFLOP/s peak memory error ratio verdict".split()  # noqa: SIM905
    assert "too narrow" not in text


def test_a_narrow_default_table_says_what_it_leaves_out() -> None:
    text = render_text(result(realistic_cell()), width=80)

    assert "too narrow for GFLOP/s, memory, error" in text


def test_asked_columns_are_continued_below_instead_of_left_out() -> None:
    text = render_text(result(realistic_cell()), width=80, columns=["all"])

    for name in ("page_faults", "tolerance", "versions"):
        assert find_column(name).heading in text
    assert "too narrow" not in text


def test_names_stay_unique_and_whole_where_they_fit() -> None:
    names = short_keys(["conv2d/torch/cpu", "conv2d/torch/cuda", "conv2d/native/cpu/direct", "odd"])

    assert list(names.values()) == ["torch", "torch/cuda", "native/direct", "odd"]


def test_keys_that_would_become_equal_stay_whole() -> None:
    names = short_keys(["conv2d/torch/cpu/x", "pool2d/torch/cpu/x", "conv2d/jax/cpu"])

    assert list(names.values()) == ["conv2d/torch/cpu/x", "pool2d/torch/cpu/x", "jax"]


def test_names_are_cut_in_the_middle_but_never_to_the_same_text() -> None:
    names = ["candidate/a_very_long_kernel_name_1_x", "candidate/a_very_long_kernel_name_2_x"]

    cut = fitted_names(names, 12)

    assert len(set(cut)) == 2
    assert all(len(text) < len(name) for text, name in zip(cut, names))


def test_every_field_of_a_row_is_a_column() -> None:
    for item in dataclasses.fields(Row):
        assert find_column(item.name).name in column_names()


def test_columns_can_be_added_to_the_default_ones() -> None:
    names = [chosen.name for chosen in choose_columns(["+page_faults", "first-call", "time"])]

    assert names[:2] == ["time", "gflops"]
    assert names[-2:] == ["page_faults", "first_call"]


def test_an_unknown_column_offers_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean page_faults"):
        choose_columns(["page_fault"])


def test_a_sweep_adds_a_summary_over_its_axis() -> None:
    cells = [realistic_cell(Conv2d(stride=stride), 1 / stride) for stride in (1, 2)]

    tables = build_tables(result(*cells))

    assert len(tables) == 3
    summary = tables[-1]
    assert [heading.text for heading in summary.headings] == ["implementation", "stride 1", "stride 2"]
    assert column(summary, "0")[:2] == ["9.810 ms   1.05", "10.20 ms   1.01"]
    assert column(summary, "1")[column(summary, "implementation").index("torch")] == "5.155 ms   base"
    assert "numba" not in column(summary, "implementation")


def test_a_summary_over_two_axes_has_one_table_per_value_of_the_shorter() -> None:
    cells = [
        cell(baseline_row(), spec=Conv2d(stride=stride), threads=threads) for threads in (1, 2) for stride in (1, 2, 3)
    ]

    summaries = build_tables(result(*cells))[6:]

    assert [table.facts for table in summaries] == [("threads 1",), ("threads 2",)]
    assert [heading.text for heading in summaries[0].headings[1:]] == ["stride 1", "stride 2", "stride 3"]


def test_presets_that_differ_in_many_fields_stand_in_one_summary() -> None:
    specs = [Conv2d(), Conv2d(batch=1, in_channels=3, height=32)]
    cells = [cell(baseline_row(), spec=spec) for spec in specs]

    summary = build_tables(result(*cells))[-1]

    assert [heading.text for heading in summary.headings[1:]] == ["cifar10.conv2", "batch 1, in-channels 3, height 32"]


def test_a_failed_row_shows_its_status_in_the_summary() -> None:
    first = cell(baseline_row(), ok_row("conv2d/jax/cpu", 9.0, 1.1, "faster"), spec=Conv2d())
    second = cell(baseline_row(), Row("conv2d/jax/cpu", "timeout", "60 s"), spec=Conv2d(batch=1))

    summary = build_tables(result(first, second))[-1]

    assert summary.lines[0].texts == ("jax", "9.000 ms   1.10", "timeout")


@pytest.mark.parametrize("op", SPECS)
def test_the_words_of_every_operator_name_its_sizes_and_element_type(op: str) -> None:
    text = spec_text(SPECS[op]())

    assert "dtype float32" in text
    assert " no" not in text


def test_a_swept_axis_is_named_even_at_its_default() -> None:
    assert "batch 1" not in spec_text(MatMul()).split(", ")
    assert "batch 1" in spec_text(MatMul(), ["batch"]).split(", ")


def test_an_interrupted_run_says_so() -> None:
    assert "interrupted" in render_text(result(cell(baseline_row()), interrupted=True))


def test_a_run_without_any_cell_renders_as_nothing() -> None:
    assert render_text(result()) == ""


def test_compiler_words_of_a_candidate_are_shown_in_many_lines() -> None:
    words = "\n".join(f"my_conv.cpp:{line}: error: expected ';'" for line in range(8))

    text = render_text(result(cell(baseline_row(), Row("conv2d/candidate/cpu/my_conv", "crashed", words))))

    assert "my_conv.cpp:7: error" in text


def test_a_long_reason_is_cut_and_the_cut_is_visible() -> None:
    reason = "because of this and that " * 40

    text = render_text(result(cell(Row("conv2d/jax/cpu", "crashed", reason))))

    assert text.count("because of this") < 40
    assert text.rstrip().endswith("…")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_colours_appear_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal, pipe = Terminal(), io.StringIO()

    print_result(result(realistic_cell()), terminal)
    print_result(result(realistic_cell()), pipe)

    assert "\x1b[" in terminal.getvalue()
    assert "\x1b[" not in pipe.getvalue()


def test_no_color_is_respected_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal = Terminal()

    print_result(result(realistic_cell()), terminal)

    assert "\x1b[3" not in terminal.getvalue()


def test_a_stream_that_knows_ascii_only_gets_ascii() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")

    print_result(result(realistic_cell()), stream)
    print_list([], stream)
    stream.flush()

    assert b"9.810 ms ~1.2%" in raw.getvalue()


def test_a_long_reason_of_several_rows_is_printed_once() -> None:
    reason = "counting devices: " + "the driver is too old for this build " * 4
    keys = [f"conv2d/native/cuda/{name}" for name in ("direct", "im2col", "winograd")]
    rows = [Row(key, "unavailable", reason) for key in keys]

    text = render_text(result(cell(baseline_row(), *rows)), 100)

    assert text.count("counting devices") == 1
    assert [line.split()[0] for line in text.splitlines() if line.endswith("as above")] == [
        "native/cuda/im2col",
        "native/cuda/winograd",
    ]
