"""The tables: first what they say, as plain data, then that they fit."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import pytest
from rich.cells import cell_len

from profkit.measurement.result import Result, Row
from profkit.ops import SPECS, Conv2d, MatMul
from profkit.rendering.names import fitted_names, short_keys, spec_text
from profkit.rendering.quantities import ABSENT
from profkit.rendering.results.columns import choose_columns, column_names, find_column
from profkit.rendering.results.content import build_tables, result_document
from profkit.rendering.tables.table import Items
from tests.rendering.builders import baseline_row, cell, column, ok_row, realistic_cell, result, table_of


def render_text(result: Result, width: int = 100, columns: list[str] | None = None, *, is_verbose: bool = False) -> str:
    return result_document(result, columns, is_verbose).text(width)


def test_rows_are_sorted_by_time_with_failures_apart() -> None:
    (table,) = build_tables(result(realistic_cell()))

    assert column(table, "implementation")[:3] == ["native/implicit_gemm", "torch/channels_last", "torch"]
    assert column(table, "implementation")[-1] == "native/reference"
    statuses = ["wrong", "crashed", "unsupported", "unavailable", "unavailable"]
    assert [item.status for item in table.items] == statuses


def test_a_row_shows_time_rate_share_memory_error_ratio_and_verdict() -> None:
    table = table_of(baseline_row(), ok_row("conv2d/native/cpu/direct", 20.0, 0.5155, "slower"))

    texts = ("native/direct", "20.00 ms ±1.2%", "83.8", "40%", "12.4 MiB", "2.1e-7", "0.52 [0.51, 0.52]", "slower")
    assert table.lines[1].texts == texts


def test_the_baseline_is_marked_and_its_ratio_needs_no_interval() -> None:
    table = table_of(baseline_row(), left_out=["conv2d/native/cpu/reference", "conv2d/x/cpu"])

    assert column(table, "verdict") == ["baseline"]
    assert column(table, "ratio") == ["1.00"]
    assert table.lines[0].tone == "baseline"
    assert table.notes == ["ratio = time of torch / this time: above 1 is faster", "2 more rows with --all"]


def test_the_facts_say_whose_bound_it_is_and_winograd_has_a_share_of_its_own() -> None:
    winograd = ok_row("conv2d/native/cpu/winograd_6x6", 5.0, 2.0, "faster", method="Winograd 6x6", bound_ns=2.5e6)
    unknown = ok_row("conv2d/native/cpu/winograd", 6.0, 1.7, "faster", method="Winograd 4x4", bound_ns=None)
    direct = ok_row("conv2d/native/cpu/direct", 9.0, 1.1, "faster", method="direct", bound_ns=4e6)

    conv = table_of(winograd, unknown, direct, baseline_row(), bound_ns=4e6)
    other = table_of(baseline_row(), spec=MatMul(), bound="memory", bound_ns=4e6)

    assert conv.facts[0].endswith("; bound (direct) 4.000 ms, by arithmetic")
    assert other.facts[0].endswith("; bound 4.000 ms, by memory bandwidth")
    assert [each.heading for each in conv.columns if each.name == "percent_of_bound"] == ["bound"]
    assert column(conv, "notes") == ["a", "", "", ""]
    assert conv.footnotes == ["a: its bound is that of Winograd 6x6, 2.500 ms"]


def test_the_title_has_the_words_that_matter_and_the_facts_how_it_was_measured() -> None:
    table = table_of(baseline_row(), cache="cold", threads=1)

    assert table.title.startswith("conv2d: batch 128, in-channels 64, ")
    assert "stride 2" in table.title
    assert "dilation" not in table.title
    assert table.facts == ("1 thread, cold cache; peak 211 GFLOP/s, 18.2 GB/s; limited by arithmetic",)
    assert table_of(baseline_row(), spec=Conv2d()).title.startswith("conv2d cifar10.conv2: batch 128")


def test_remarks_become_footnotes_that_rows_refer_to() -> None:
    rows = [
        ok_row("conv2d/candidate/cpu/mine", 1.0, 10.0, "faster", output="reused"),
        ok_row("conv2d/torch/cpu/channels_last", 2.0, 5.0, "faster", layout="NHWC", note="pads first"),
        baseline_row(),
        ok_row("conv2d/candidate/cpu/other", 100.0, 0.1, "slower", output="reused"),
    ]

    table = table_of(*rows)

    assert column(table, "notes") == ["a", "bc", "", "a"]
    assert "a: writes into the same output in each call (the others allocate a fresh one)" in table.footnotes
    assert "b: holds its images as NHWC" in table.footnotes
    assert "c: pads first" in table.footnotes


def test_a_reused_output_stands_above_the_table_and_rows_that_cannot_reuse_are_marked() -> None:
    native = ok_row("conv2d/native/cpu/direct", 1.0, 10.0, "faster", output="reused")

    fresh, reused = table_of(baseline_row()), table_of(native, baseline_row(), output="reused")

    assert "output" not in fresh.facts[0]
    assert reused.facts[0].startswith("2 threads, hot cache, reused output; ")
    assert column(reused, "notes") == ["", "a"]
    assert "a: allocates a fresh output in each call (it cannot reuse one)" in reused.footnotes


@pytest.mark.parametrize("rows", [[], [Row("conv2d/jax/cpu", "crashed", "no reason")]])
def test_notes_and_an_interruption_are_said_when_nothing_was_measured(rows: list[Row]) -> None:
    note = "not measured before the interruption: jax"
    document = result_document(result(cell(*rows, notes=[note]), interrupted=True))

    for text in (document.text(), document._repr_html_(), document.markdown()):
        assert note in text and "interrupted: this is what was measured" in text
        assert "no ratio" not in text


@pytest.mark.parametrize(("names", "said"), [(["jax", "numba"], "jax, numba"), ([f"x{i}" for i in range(9)], "9 rows")])
def test_unresolved_rows_share_the_line_with_the_next_step_and_many_are_counted(names: list[str], said: str) -> None:
    step = "rerun with --budget 60s"
    rows = [ok_row(f"conv2d/{name}/cpu", 11.0, 0.97, "not resolved", next_step=step) for name in names]

    assert f"not resolved: {said}; {step}" in table_of(baseline_row(), *rows).notes


def test_a_missing_baseline_is_said_once_by_the_notes_of_the_cell_and_hides_no_other_line() -> None:
    row = dataclasses.replace(baseline_row(), verdict="", ratio=None, ratio_low=None, ratio_high=None)
    reason = "no ratio: the baseline jax gave no time"

    table = table_of(row, notes=[reason], left_out=["conv2d/x/cpu"])

    assert table.notes == ["1 more row with --all", reason]
    assert column(table, "ratio") == [ABSENT]


def test_a_wrong_row_without_a_reason_shows_its_error() -> None:
    table = table_of(Row("conv2d/numba/cpu", "wrong", max_error=0.031, tolerance=3.8e-5))

    assert table.items[0].text == "largest error 3.1e-2, accepted 3.8e-5"


@pytest.mark.parametrize("width", [60, 80, 100, 140])
@pytest.mark.parametrize("columns", [None, ["all"], ["+page_faults", "first_call", "note"]])
def test_the_text_fits_its_width(width: int, columns: list[str] | None) -> None:
    cells = [realistic_cell(Conv2d(stride=stride), 1 / stride) for stride in (1, 2, 3)]

    text = render_text(result(*cells), width, columns)

    assert max(cell_len(line) for line in text.splitlines()) <= width


def test_at_100_columns_no_default_column_is_left_out_and_a_narrow_table_says_which_are() -> None:
    wide, narrow = (render_text(result(realistic_cell()), width) for width in (100, 80))

    headings = next(line for line in wide.splitlines() if line.startswith("implementation"))
    assert headings.split() == "implementation time GFLOP/s bound memory error ratio verdict".split()  # noqa: SIM905
    assert "too narrow" not in wide
    assert "too narrow for memory, error" in narrow


def test_asked_columns_are_continued_below_instead_of_left_out() -> None:
    text = render_text(result(realistic_cell()), width=80, columns=["all"])

    for name in ("page_faults", "tolerance", "versions"):
        assert find_column(name).heading in text
    assert "too narrow" not in text


def test_names_are_short_unless_they_would_become_equal() -> None:
    names = short_keys(["conv2d/torch/cpu", "conv2d/torch/cuda", "conv2d/native/cpu/direct", "odd"])
    alike = short_keys(["conv2d/torch/cpu/x", "pool2d/torch/cpu/x", "conv2d/jax/cpu"])

    assert list(names.values()) == ["torch", "torch/cuda", "native/direct", "odd"]
    assert list(alike.values()) == ["conv2d/torch/cpu/x", "pool2d/torch/cpu/x", "jax"]


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


def test_a_sweep_adds_a_summary_over_its_axis() -> None:
    cells = [realistic_cell(Conv2d(stride=stride), 1 / stride) for stride in (1, 2)]

    tables = build_tables(result(*cells))

    assert len(tables) == 3
    summary = tables[-1]
    assert [each.heading for each in summary.columns] == ["implementation", "stride 1", "stride 2"]
    assert column(summary, "0")[:2] == ["9.810 ms   1.05", "10.20 ms   1.01"]
    assert column(summary, "1")[column(summary, "implementation").index("torch")] == "5.155 ms   base"
    assert "numba" not in column(summary, "implementation")


@pytest.mark.parametrize(
    ("outer", "inner"),
    [(("threads", [1, 2]), ("stride", [1, 2, 3])), (("cache", ["hot", "cold"]), ("output", ["fresh", "reused"]))],
)
def test_a_summary_over_two_axes_has_one_table_per_value_of_the_shorter(
    outer: tuple[str, list[Any]], inner: tuple[str, list[Any]]
) -> None:
    grid = [{outer[0]: first, inner[0]: second} for first in outer[1] for second in inner[1]]
    cells = [cell(baseline_row(), spec=Conv2d(stride=at.pop("stride", 1)), **at) for at in grid]

    summaries = build_tables(result(*cells))[len(grid) :]

    assert [table.facts for table in summaries] == [[f"{outer[0]} {value}"] for value in outer[1]]
    assert [each.heading for each in summaries[0].columns[1:]] == [f"{inner[0]} {value}" for value in inner[1]]


def test_presets_that_differ_in_many_fields_stand_in_one_summary() -> None:
    specs = [Conv2d(), Conv2d(batch=1, in_channels=3, height=32)]
    cells = [cell(baseline_row(), spec=spec) for spec in specs]

    summary = build_tables(result(*cells))[-1]

    assert [each.heading for each in summary.columns[1:]] == ["cifar10.conv2", "batch 1, in-channels 3, height 32"]


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


def test_a_stream_that_knows_ascii_only_gets_ascii() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")

    result_document(result(realistic_cell())).print(stream)
    Items([]).print(stream)
    stream.flush()

    assert b"9.810 ms ~1.2%" in raw.getvalue()


def test_a_long_reason_of_several_rows_is_printed_once() -> None:
    reason = "counting devices: " + "the driver is too old for this build " * 4
    keys = [f"conv2d/native/cuda/{name}" for name in ("direct", "im2col", "winograd")]
    rows = [Row(key, "unavailable", reason) for key in keys]

    text = render_text(result(cell(baseline_row(), *rows)), 100, is_verbose=True)

    assert text.count("counting devices") == 1
    assert [line.split()[0] for line in text.splitlines() if line.endswith("as above")] == [
        "native/cuda/im2col",
        "native/cuda/winograd",
    ]


def test_what_cannot_run_is_one_line_per_reason_and_a_list_when_asked() -> None:
    driver, missing = "there is no CUDA driver", 'jax is not installed; pip install "profkit[jax]"'
    rows = [Row(f"conv2d/{name}/cuda", "unavailable", driver) for name in ("torch", "tensorflow", "cupy", "jax")]
    rows += [Row("conv2d/jax/cpu", "unavailable", missing)]
    rows += [Row(f"conv2d/keras/cpu/{name}", "crashed", "signal 11") for name in ("torch", "jax")]
    found = result(cell(baseline_row(), *rows))
    document = result_document(found)

    (short,) = build_tables(found)
    (long,) = build_tables(found, is_verbose=True)

    assert [(item.name, item.text) for item in short.items] == [
        ("keras/torch", "signal 11"),
        ("keras/jax", "signal 11"),
        ("4 CUDA rows", "there is no CUDA driver; profkit doctor"),
        ("jax", missing),
    ]
    assert [item.name for item in long.items[2:]] == ["torch/cuda", "tensorflow/cuda", "cupy/cuda", "jax/cuda", "jax"]
    for text in (document.text(), document.markdown(), document._repr_html_()):
        assert "4 CUDA rows" in text


def test_a_few_rows_with_one_reason_are_named() -> None:
    table = table_of(*(Row(f"conv2d/torch/cpu{end}", "unavailable", "no torch") for end in ("", "/channels_last")))

    (item,) = table.items
    assert (item.name, item.text) == ("torch, torch/channels_last", "no torch; profkit doctor")


def test_names_are_whole_again_where_a_column_had_to_go() -> None:
    rows = [ok_row("conv2d/native/cpu/im2col_batched", 1.0, 10.0, "faster", ratio_low=1e-9, ratio_high=1e9)]
    rows += [ok_row("conv2d/native/cpu/b", 9.9, 1.04, "faster", low_ns=1e-3, high_ns=1e13), baseline_row()]

    cut, whole = (render_text(result(cell(*rows)), width) for width in (103, 102))

    assert "native/im2col_batched " not in cut
    assert "too narrow for error: " in whole
    assert "native/im2col_batched " in whole


def test_letters_stand_with_their_notes_in_one_paragraph() -> None:
    rows = [ok_row(f"conv2d/x{i}/cpu", 11.0, 0.97, "same", note=f"{'note ' * (i + 1)}end") for i in range(9)]

    for width in range(60, 100):
        *_, last = render_text(result(cell(baseline_row(), *rows)), width).split("above 1 is faster\n")

        assert "\u00a0" not in last
        assert not [line for line in last.splitlines() if line.endswith(":")]
        assert " ".join(last.split()).startswith("a: note end b: note note end c: note note note end d: ")
