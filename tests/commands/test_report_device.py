"""`profkit report` of GPU traces: files of torch.profiler and Nsight Systems in, tables, files and exit codes out."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import pytest

from profkit.attribution.account import DEVICES
from profkit.attribution.device.lanes import DevicePart
from profkit.attribution.grouping import groupings_on
from tests.capture.importers.foreign_traces import KinetoTrace, NsightExport, by_real_file, real_trace
from tests.support.places import DOCS
from tests.support.typed import Typed

WIDTH = 100


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """A layer whose product is a kernel and whose input is copied; memory is allocated for both."""
    made = KinetoTrace(deviceProperties=[{"id": 0, "name": "Test GPU"}])
    made.annotation("ProfilerStep#1", 0, 1_000_000).annotation("block.0", 10_000, 500_000)
    made.operator("aten::copy_", 20_000, 90_000).call(30_000, 40_000, 1, "cudaMemcpyAsync")
    made.copy(50_000, 150_000, 1, 1_000_000)
    made.operator("aten::mm", 100_000, 400_000).call(120_000, 130_000, 2)
    made.kernel(160_000, 360_000, 2, "ampere_sgemm_128x64_nn")
    made.memory(25_000, 0xA0, 1 << 20).memory(110_000, 0xB0, 1 << 19).memory(950_000, 0xC0, 1 << 10)
    return str(made.write(tmp_path / "trace.json.gz"))


def test_operators_are_the_default_and_every_line_says_whose_time_it_is(trace: str, typed: Typed) -> None:
    lines = typed.shows("report", trace).splitlines()

    assert lines[0] == "trace.json.gz: torch.profiler, 1 GPU (Test GPU), 1 process, 1 thread, 1 step, 1.000 ms elapsed"
    assert lines[1].startswith("wall clock of 1 GPU, 1.000 ms: kernels 200.0 µs (20%), copies 100.0 µs (10%), idle")
    cells = {line[:20].strip(): line.split() for line in lines if line.startswith(("aten::", "total", "block.0"))}
    assert cells["aten::mm"][1:4] == ["1", "200.0", "µs"]
    assert cells["aten::copy_"][1:4] == ["1", "100.0", "µs"]
    assert cells["total"][1:4] == ["3", "300.0", "µs"]
    assert any(line.startswith("idle, host in no operator") for line in lines)
    assert any(line.startswith("allocated in no operator") for line in lines)


@pytest.mark.parametrize("by", groupings_on(DEVICES))
@pytest.mark.parametrize("layout", ["table", "tfprof"])
def test_every_table_is_printed_and_fits(trace: str, by: str, layout: str, typed: Typed) -> None:
    lines = typed.shows("report", trace, "--by", by, "--format", layout, "--top", "all").splitlines()

    assert len(lines) > (1 if by != "phase" else 0)
    if layout == "table":
        assert max(map(len, lines)) <= WIDTH
        assert lines[-1].startswith(("GPU: sum of durations", "    "))


@pytest.mark.parametrize("by", groupings_on(DEVICES))
@by_real_file
def test_tables_of_real_traces_fit_and_their_files_add_up(name: str, by: str, tmp_path: Path, typed: Typed) -> None:
    path = real_trace(name)
    files = {kind: str(tmp_path / f"usage.{kind}") for kind in ("json", "csv", "markdown")}
    words = [word for kind, file in files.items() for word in (f"--{kind}", file)]

    out = typed.shows("report", path, "--by", by, *words)

    assert max(map(len, out.splitlines())) <= WIDTH
    data = json.loads(Path(files["json"]).read_text(encoding="utf-8"))
    assert data["schema"] == "profkit.usage/1"
    assert data["by"] == by
    assert sum(row["exclusive_ns"] for row in data["rows"]) + data["remainder_ns"] == data["wall_ns"]
    assert sum(part["time_ns"] for part in data["remainders"].values()) == data["remainder_ns"]
    assert sum(data["parts"].values()) == data["wall_ns"]
    with open(files["csv"], encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["name"] for row in table] == [row["name"] for row in data["rows"]]
    assert [int(row["exclusive_ns"]) for row in table] == [row["exclusive_ns"] for row in data["rows"]]
    assert Path(files["markdown"]).read_text(encoding="utf-8").startswith(f"### {path.name}".replace("_", "\\_"))


def test_columns_of_the_lines_below_the_rows_add_up_to_the_total(trace: str, typed: Typed) -> None:
    out = typed.shows("report", trace, "--by", "layer", "--columns", "launches,copied,own_alloc")

    rows = [line.split() for line in out.splitlines()]
    assert ["block.0", "2", "977", "KiB", "1.50", "MiB"] in rows
    assert ["total", "2", "977", "KiB", "1.50", "MiB"] in rows
    assert ["allocated", "in", "no", "layer", "1.00", "KiB"] in rows


def test_an_export_of_nsight_gives_the_same_table(tmp_path: Path, typed: Typed) -> None:
    export = NsightExport().range("aten::mm, op_id = 1", 0, 100_000).call(10_000, 20_000, 1)
    export.kernel(30_000, 230_000, 1, "ampere_sgemm_128x64_nn", device=1)
    path = export.write(tmp_path / "report.sqlite")

    lines = typed.shows("report", path).splitlines()

    assert lines[0] == "report.sqlite: Nsight Systems, 1 GPU, 1 process, 1 thread, 230.0 µs elapsed"
    assert any(line.startswith("aten::mm") and "200.0 µs" in line for line in lines)


def test_products_are_listed_by_tile_and_transposes(trace: str, typed: Typed) -> None:
    lines = typed.shows("report", trace, "--by", "gemm").splitlines()

    assert any(line.startswith("128x64_nn f32") and "200.0 µs" in line for line in lines)
    assert not any(line.startswith("idle,") for line in lines)
    assert "matrix products take 66.7% of GPU time: 1 plain (0.200 ms)" in lines


def test_damage_is_told_above_the_table_which_keeps_what_is_good(trace: str, tmp_path: Path, typed: Typed) -> None:
    text = gzip.decompress(Path(trace).read_bytes()).decode()
    cut = tmp_path / "cut.json"
    cut.write_text(text[: text.index('"ampere_sgemm')], encoding="utf-8")

    lines = typed.shows("report", cut).splitlines()

    assert lines[0].startswith("warning: the file is incomplete: it ends too early")
    assert any(line.startswith("aten::copy_") for line in lines)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--by", "kind"], "it has no steps of a network; its table can be by operator, layer, phase, kernel"),
        (["--thread", "main"], "--thread is for the time of threads; by operator the table divides that of devices"),
        (["--columns", "colour"], "colour"),
    ],
)
def test_flags_that_do_not_fit_a_gpu_trace_are_refused(trace: str, flags: list[str], reason: str, typed: Typed) -> None:
    assert reason in typed.refuses("report", trace, *flags)


def test_the_document_explains_every_grouping_and_every_part_of_the_wall_clock() -> None:
    text = (DOCS / "device-traces.md").read_text(encoding="utf-8")

    first_cells = " ".join(line.split("|")[1] for line in text.splitlines() if line.startswith("|"))
    for name in (*groupings_on(DEVICES), *(part.name.lower() for part in DevicePart)):
        assert f"`{name}`" in first_cells
