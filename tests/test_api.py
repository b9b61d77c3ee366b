"""The Python door: a result that prints, shows in a notebook, becomes JSON and a data frame."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import profkit
from profkit import api
from profkit.errors import SpecError, UsageError
from profkit.measurement import run
from profkit.measurement.cell import CellRun
from profkit.measurement.progress import Progress
from profkit.measurement.result import Result
from tests.support.reopened import reopened

ROW_FIELDS = {
    *("key", "status", "reason", "median_ns", "low_ns", "high_ns", "first_call_ns", "samples_ns", "gflops"),
    *("percent_of_peak", "peak_bytes", "max_error", "tolerance", "ratio", "ratio_low", "ratio_high", "verdict"),
}


@pytest.fixture(scope="module")
def result() -> profkit.PrintableResult:
    """Two cells of a small convolution, native and NumPy."""
    specs = [profkit.Conv2d(batch=2, in_channels=3, out_channels=4, stride=stride) for stride in (1, 2)]
    return profkit.measure(
        specs, only=["numpy", "native/*"], exclude=["native/winograd*"], device="cpu", threads=1, budget_s=0.5
    )


def test_a_result_prints_as_the_table(result: profkit.PrintableResult) -> None:
    text = str(result)

    assert "native/implicit_gemm" in text and "numpy" in text and "stride 2" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_result_shows_as_a_table_in_a_notebook(result: profkit.PrintableResult) -> None:
    html = result._repr_html_()

    assert html.count("<table") >= 2
    assert "implicit_gemm" in html


def test_the_json_form_has_the_promised_fields_and_reads_back(result: profkit.PrintableResult) -> None:
    text = json.dumps(result.to_dict(), allow_nan=False)
    data = json.loads(text)

    assert data["schema"] == "profkit.result/1"
    assert set(data["peaks"]) == {"flops_per_s", "bytes_per_s", "quiet"}
    assert [cell["spec"]["stride"] for cell in data["cells"]] == [1, 2]
    assert all({"spec", "threads", "baseline", "rows"} <= set(cell) for cell in data["cells"])
    assert all(set(row) >= ROW_FIELDS for cell in data["cells"] for row in cell["rows"])
    assert reopened(result).to_dict() == data


def test_the_ratio_is_baseline_time_over_row_time(result: profkit.PrintableResult) -> None:
    for cell in result.cells:
        assert cell.baseline == "conv2d/numpy/cpu"
        baseline_ns = cell.row(cell.baseline).median_ns
        for row in cell.rows:
            assert row.status == "ok", row
            assert row.ratio is not None and row.median_ns is not None and baseline_ns is not None
            assert row.ratio == pytest.approx(baseline_ns / row.median_ns)
            assert row.gflops == pytest.approx(cell.spec.flops() / row.median_ns)


def test_the_environment_says_what_could_change_the_numbers(result: profkit.PrintableResult) -> None:
    environment = result.environment

    assert environment["cpu"] and environment["simd"]["simd_active"] and environment["caches"]
    assert environment["packages"]["numpy"] and environment["frameworks"]["numpy/cpu"]
    assert {"governor", "load", "container", "blas", "build", "thread_variables"} <= set(environment)


def test_a_data_frame_has_a_line_per_row(result: profkit.PrintableResult) -> None:
    pytest.importorskip("pandas", reason="to_pandas needs pandas")

    frame = result.to_pandas()

    assert len(frame) == sum(len(cell.rows) for cell in result.cells)
    assert list(frame["key"]) == [row.key for cell in result.cells for row in cell.rows]
    assert list(frame["stride"]) == [stride for cell, stride in zip(result.cells, (1, 2)) for _ in cell.rows]
    assert set(frame["spec_layout"]) == {"NCHW"}
    assert set(frame["layout"]) == {""}
    assert list(frame["median_ns"]) == [row.median_ns for cell in result.cells for row in cell.rows]


def test_a_watcher_sees_every_phase_in_order() -> None:
    seen: list[Progress] = []

    profkit.measure(profkit.MatMul(m=8, n=8, k=8), only="numpy", threads=1, budget_s=0.2, progress=seen.append)

    phases = [progress.phase for progress in seen]
    assert sorted(set(phases), key=phases.index) == ["peaks", "start", "verify", "measure"]
    assert all(0.0 <= progress.fraction <= 1.0 for progress in seen)


def test_further_runs_sample_every_row_again() -> None:
    found = profkit.measure(
        profkit.MatMul(m=8, n=8, k=8), only=["numpy", "native/blocked"], threads=1, budget_s=0.2, again=2
    )

    (cell,) = found.cells
    assert len(cell.run_starts) == 3 and cell.run_starts[0] == 0
    assert all(set(cell.run_starts) <= set(row.sample_rounds) for row in cell.rows)
    assert cell.rounds > cell.run_starts[-1]


def test_caches_and_outputs_are_as_chosen_with_a_cell_each() -> None:
    spec = profkit.MatMul(m=64, n=64, k=64)

    found = profkit.measure(
        spec, only="native/blocked", threads=1, budget_s=0.1, cache=("hot", "cold"), output=["fresh", "reused"]
    )

    conditions = [(cell.cache, cell.output, cell.row("matmul/native/cpu/blocked").output) for cell in found.cells]
    assert conditions == [
        ("hot", "fresh", "fresh"),
        ("hot", "reused", "reused"),
        ("cold", "fresh", "fresh"),
        ("cold", "reused", "reused"),
    ]
    assert [cell.rows[0].calls_per_sample == 1 for cell in found.cells] == [False, False, True, True]
    assert list(found.to_pandas()["asked_output"]) == ["fresh", "reused"] * 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threads": 0}, "threads 0"),
        ({"threads": 4096}, "threads 4096: this process may use 1 to"),
        ({"budget_s": 0}, "budget_s must be positive"),
        ({"timeout_s": float("inf")}, "timeout_s must be positive and at most"),
        ({"seed": -1}, "seed is a whole number and cannot be negative"),
        ({"again": -1}, "again is a whole number and cannot be negative"),
        ({"again": 1.5}, "again is a whole number"),
        ({"budget_s": "20s"}, "budget_s must be positive and at most 1000000, got '20s'"),
        ({"budget": 3}, r"profkit\.measure has no option 'budget'; did you mean budget_s\?"),
        ({"timeout": 3}, r"did you mean timeout_s\?"),
        ({"candidate": "x.py"}, r"did you mean candidates\?"),
        ({"exclud": "x"}, r"did you mean exclude\?"),
        ({"zzz": 1}, "has no option 'zzz'; options: all, only, exclude"),
        ({"margin": 2}, "margin must lie between 0 and 1"),
        ({"cache": "warm"}, "cache: expected one of hot, cold, got 'warm'"),
        ({"output": []}, "output: expected one of fresh, reused, got nothing"),
        ({"only": "torhc"}, "did you mean torch"),
        ({"only": None}, "only: expected words, got None"),
        ({"cache": None}, "cache: expected words, got None"),
        ({"baseline": ["torch"]}, r"baseline: expected one word, got \['torch'\]"),
        ({"device": None}, "device: expected one of cpu, cuda, all, got None"),
        ({"memory_limit_bytes": "4GiB"}, "memory_limit_bytes must be a positive whole number, got '4GiB'"),
        ({"threads": "2"}, "threads: expected whole numbers, got '2'"),
        ({"threads": 1.5}, r"threads: expected whole numbers, got 1\.5"),
        ({"threads": True}, "threads: expected whole numbers, got True"),
        ({"candidates": ["nowhere.py"]}, "nowhere.py"),
        ({"candidates": "nowhere.py"}, "nowhere.py"),
    ],
)
def test_wrong_options_are_usage_errors(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        profkit.measure(profkit.MatMul(m=4, n=4, k=4), **options)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: profkit.profile_network("mlp", "numpy", training_=True),
            r"profkit\.profile_network has no option 'training_'; did you mean training\?",
        ),
        (lambda: profkit.profile_network("mlp", "torchh"), r"no network framework 'torchh'; did you mean torch\?"),
        (
            lambda: profkit.record("x.profkit", allocation_from=3),  # type: ignore[call-arg]
            r"profkit\.record has no option 'allocation_from'; did you mean allocations_",
        ),
        (lambda: profkit.Conv2d(strides=2), r"Conv2d has no field 'strides'; did you mean stride\?"),  # type: ignore[call-arg]
        (lambda: profkit.Conv2d(stride=0), "stride must be at least 1"),
        (lambda: profkit.Cifar10(filter=2), r"Cifar10 has no field 'filter'; did you mean filters\?"),  # type: ignore[call-arg]
        (lambda: profkit.measure("conv"), r"takes specs, as profkit\.Conv2d"),  # type: ignore[arg-type]
        (lambda: profkit.measure([]), "no spec"),
    ],
)
def test_what_python_entries_do_not_know_is_an_error_with_the_nearest(call: Callable[[], object], words: str) -> None:
    with pytest.raises((UsageError, SpecError), match=words):
        call()


def test_cells_of_one_spec_share_its_inputs_and_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    references: list[Any] = []
    monkeypatch.setattr(run, "machine_peaks", lambda *_, **__: {})
    monkeypatch.setattr(CellRun, "measure", lambda run: references.append(run.problem.reference))

    profkit.measure(profkit.MatMul(m=2, n=2, k=2), only="numpy", threads=1, cache=["hot", "cold"])
    profkit.measure([profkit.MatMul(m=m, n=2, k=2) for m in (2, 3)], only="numpy", threads=1)

    assert references[0] is references[1]
    assert [reference.shape[-2] for reference in references] == [2, 2, 2, 3]


@pytest.mark.parametrize("tuned", [True, False])
def test_the_policy_is_explained_as_it_was_measured(tuned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []
    monkeypatch.setattr(api, "measure_cells", lambda *_: Result({}, {}, []))
    monkeypatch.setattr(api, "explain_cells", lambda _, tuned: told.append(tuned))

    profkit.measure(profkit.MatMul(), explain=True, tuned=tuned)

    assert told == [tuned]


@pytest.mark.parametrize(
    ("name", "said"), [("data", "there is no file or folder nowhere"), ("weights", "cannot read no")]
)
def test_data_and_weights_of_a_network_are_paths(name: str, said: str) -> None:
    paths: dict[str, Any] = {name: "nowhere"}
    with pytest.raises(UsageError, match=said):
        profkit.profile_network("mlp", "numpy", **paths)
