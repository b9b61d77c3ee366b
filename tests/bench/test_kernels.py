"""bench/kernels.py: shapes that the goals ask for, records and judgements by hand, documents that follow results."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import kernels
import measured_page
import numpy as np
import pytest
from kernel_pages import fit as kernel_fit
from kernel_pages.fit import fit, non_negative
from kernel_pages.report import build_summary, document, summary_page
from kernel_pages.results import LOST, MET, NOT_RESOLVED, Store, choose_again, judge, record_of, shape_verdict
from kernel_pages.shapes import AS_GIVEN, LAYER_KERNELS, OWN, PAGES, ShapeGoal, sections

from profkit.frameworks.native import costs as native_costs
from profkit.frameworks.native import policy as native_policy
from profkit.frameworks.native.costs import cost_name
from profkit.measurement.result import Cell, Row
from profkit.ops import Add, Conv2d, Lstm, spec_from_dict

BY_NAME = {section.name: section for page in PAGES for section in sections(page)}
ABOUT = {
    "date": "2026-01-02",
    "commit": "abc1234",
    "machine": "some CPU, avx2, 2 cores",
    "simd": "avx2",
    "peak_gflops": {"1": 100.0},
}


def row(key: str, ns: float, layout: str = "") -> Row:
    """A measured row of three rounds."""
    return Row(
        key, "ok", median_ns=ns, low_ns=ns, high_ns=ns, samples_ns=[ns] * 3, sample_rounds=[0, 1, 2], max_error=1e-6,
        percent_of_peak=50.0, layout=layout, page_faults=0.0,
    )  # fmt: skip


def cell(rows: list[Row], spec: Conv2d | None = None) -> Cell:
    return Cell(spec or Conv2d(), 1, None, {"flops_per_s": 1e11}, "compute", "hot", rows)


def record(native: float = 50.0, name: str = "one") -> dict[str, Any]:
    """Frameworks at 100 ns in the spec's layout and 60 in their own; native, and packed a tenth faster."""
    rows = [
        row("conv2d/torch/cpu", 100.0),
        row("conv2d/torch/cpu/channels_last", 60.0, "NHWC"),
        row("conv2d/native/cpu/implicit_gemm", native),
        row("conv2d/native/cpu/implicit_gemm/packed", 0.9 * native),
    ]
    return record_of(BY_NAME["conv"], name, cell(rows), "build")


def test_every_section_has_the_shapes_the_goals_name() -> None:
    names = {name for section in BY_NAME.values() for name in section.shapes}

    assert {f"cifar10.conv2 stride {s} batch {b}" for s in (1, 2, 3, 5) for b in (1, 32, 128)} <= names
    assert {"square 64", "square 2048", "square 1024 tt", "alexnet.conv2 batch 16", "wrn16-4.group2 batch 32"} <= names
    assert {section.name for section in sections() if section.goal} >= {"conv", "matmul", "gradients", "pool", "lrn"}
    assert {section.name for section in sections(LAYER_KERNELS)} >= {
        "activation", "batch_norm", "layer_norm", "add", "dropout", "embedding", "optimiser_step", "lstm", "attention",
    }  # fmt: skip
    assert set(BY_NAME["lstm"].shapes) >= set(Lstm.presets())


def test_the_slow_rows_are_left_out_where_others_are_and_forms_take_part() -> None:
    keys = BY_NAME["conv"].keys("conv2d")

    assert "conv2d/native/cpu/implicit_gemm/nhwc/packed" in keys
    assert not [key for key in keys if "im2col" in key or "reference" in key or "eager" in key]


def test_conventions_differ_by_layout_and_by_packing() -> None:
    found = record()

    assert found[AS_GIVEN]["framework"] == "torch"
    assert found[AS_GIVEN]["native"] == "native/implicit_gemm"
    assert found[AS_GIVEN]["ratio"][0] == pytest.approx(2.0)
    assert found[OWN]["framework"] == "torch/channels_last"
    assert found[OWN]["native"] == "native/implicit_gemm/packed"
    assert found[OWN]["ratio"][0] == pytest.approx(60 / 45, rel=1e-3)


def test_a_record_reads_its_spec_back() -> None:
    spec = Conv2d(batch=3, stride=2, layout="NHWC")

    found = record_of(BY_NAME["conv"], "x", cell([row("conv2d/native/cpu/direct", 5.0)], spec), "build")

    assert spec_from_dict(found["spec"]) == spec
    assert "ratio" not in found[AS_GIVEN]


def test_a_goal_is_missed_by_its_mean_and_by_its_least_shape() -> None:
    met = judge(BY_NAME["conv"], [record(50.0), record(60.0, "two")], 1, AS_GIVEN)
    missed = judge(BY_NAME["conv"], [record(100.0), record(111.0, "two")], 1, AS_GIVEN)

    assert met is not None and not met.missed
    assert met.mean == pytest.approx((2.0 * 100 / 60) ** 0.5, rel=1e-3)
    assert missed is not None
    assert [text.split(":")[0] for text in missed.missed] == [
        "geometric mean 0.95, 26 % short of 1.20",
        "1 below 0.95 (1 resolved, 0 without an interval)",
    ]


def layer_record(native: list[float], name: str, share: float | None = None) -> dict[str, Any]:
    """torch at 100 ns in every round; `share` of the bandwidth for arrays that no cache holds."""
    theirs, own = (row(f"add/{key}", ns) for key, ns in (("torch/cpu", 100.0), ("native/cpu/vectorized", native[0])))
    theirs.samples_ns, theirs.sample_rounds = [100.0] * len(native), list(range(len(native)))
    own.samples_ns, own.sample_rounds = native, list(range(len(native)))
    own.percent_of_bound = None if share is None else 100 * share
    bound = "compute" if share is None else "memory"
    return record_of(BY_NAME["add"], name, Cell(Add(), 1, None, {}, bound, "hot", [theirs, own]), "build")


FAST, SLOW, EITHER = [90.0] * 8, [150.0] * 8, [90.0, 125.0] * 4


@pytest.mark.parametrize(
    ("native", "share", "verdict"),
    [
        (FAST, None, MET),
        (FAST, 0.5, MET),
        (SLOW, 0.95, MET),
        (SLOW, 0.85, LOST),
        (SLOW, None, LOST),
        (EITHER, 0.85, NOT_RESOLVED),
    ],
)
def test_a_shape_meets_its_goal_by_the_bandwidth_or_by_the_ratio(
    native: list[float], share: float | None, verdict: str
) -> None:
    assert shape_verdict(ShapeGoal(), layer_record(native, "one", share), AS_GIVEN) == verdict


def test_losses_of_layers_are_counted_and_listed(tmp_path: Path) -> None:
    store = Store(tmp_path / "kernels.json")
    names = list(BY_NAME["add"].shapes)
    for name, (native, share) in zip(names, ((FAST, None), (SLOW, 0.95), (SLOW, 0.4), (EITHER, 0.6))):
        store.keep(layer_record(native, name, share))

    report = build_summary(store, LAYER_KERNELS)
    page = summary_page(store, report, LAYER_KERNELS)

    assert report.missed == ["add, 1 threads, as given: 1 of 4 shapes lost"]
    assert f"| lost | add {names[2]} | 1 | torch | 0.0001 | 0.00015 | 0.67 (0.67 to 0.67) | 40 % |" in page
    assert f"| not resolved | add {names[3]} | 1 | torch |" in page
    assert f"add {names[0]}" not in page and f"add {names[1]}" not in page


def test_each_page_has_its_own_sections_in_one_folder_of_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "kernels.json")
    store.about = ABOUT
    store.keep(record(name="cifar10.conv1 stride 1 batch 128"))
    store.keep(layer_record(FAST, next(iter(BY_NAME["add"].shapes))))

    codes = [kernels.main(["--results", str(tmp_path), "--render", "--page", page]) for page in PAGES]
    capsys.readouterr()

    assert codes == [0, 0]
    texts = {page: (tmp_path / f"{page}.md").read_text(encoding="utf-8") for page in PAGES}
    assert "## conv2d forward" in texts["kernels"] and "Sum of two arrays" not in texts["kernels"]
    assert "## Sum of two arrays" in texts[LAYER_KERNELS] and "conv2d forward" not in texts[LAYER_KERNELS]
    assert "`python bench/kernels.py --page layer_kernels`" in texts[LAYER_KERNELS]


def test_a_section_of_another_page_is_refused_with_the_page_s_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        kernels.parse(["--page", LAYER_KERNELS, "--section", "lstm,conv"])

    assert "no section 'conv' on the page layer_kernels: there are activation, batch_norm" in capsys.readouterr().err


def test_a_failed_row_misses_the_goal() -> None:
    wrong = Row("conv2d/native/cpu/direct", "wrong", "error 1 exceeds the tolerance")
    failed = record_of(BY_NAME["conv"], "x", cell([row("conv2d/torch/cpu", 9.0), wrong]), "build")
    good = record()

    found = judge(BY_NAME["conv"], [good, failed], 1, AS_GIVEN)

    assert found is not None and "failed" in found.missed[0]


def test_results_survive_a_file_and_a_second_run_replaces_its_own(tmp_path: Path) -> None:
    store = Store(tmp_path / "kernels.json")
    store.about = {"simd": "avx2"}
    store.keep(record(50.0))
    store.keep(record(40.0))
    store.keep(record(30.0, "two"))

    again = Store(tmp_path / "kernels.json")

    assert again.about == {"simd": "avx2"}
    assert [item["rows"]["native/implicit_gemm"][0] for item in again.of("conv", 1)] == [40, 30]


def test_a_document_is_whole_from_any_results(tmp_path: Path) -> None:
    store = Store(tmp_path / "kernels.json")
    empty = document(store, build_summary(store))
    store.keep(record(name="cifar10.conv1 stride 1 batch 128"))

    text = document(store, build_summary(store))

    assert "No results are kept yet" in empty
    assert "| conv2d forward | 1 | as given | 1 | 2.00 |" in text
    assert "implicit_gemm/packed" in text


def test_after_a_fit_the_policy_chooses_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "kernels.json")
    store.keep(record())
    for convention in (AS_GIVEN, OWN):
        store.of("conv")[0][convention] |= {"policy": "native/direct", "policy_ratio": None}
    known = {cost_name("conv2d/native/cpu/implicit_gemm", Conv2d()): {"products": 1e-2}}
    monkeypatch.setattr(native_policy, "known_costs", lambda: known)

    changed = choose_again(store)

    assert changed == 2
    assert store.of("conv")[0][AS_GIVEN]["policy"] == "native/implicit_gemm"
    assert store.of("conv")[0][AS_GIVEN]["policy_ratio"][0] == pytest.approx(2.0)


def test_costs_are_found_again_and_never_negative() -> None:
    cells = [({"products": float(n), "the call": 1.0, "other": 0.0}, 2.0 * n + 30.0) for n in (1, 5, 20, 100, 400)]

    found = fit(cells)
    bounded = non_negative(np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]), np.array([3.0, 2.0, 1.0]))

    assert found["ns"] == pytest.approx({"products": 2.0, "the call": 30.0}, rel=1e-3)
    assert found["spread"] < 1e-3
    assert (bounded >= 0).all()


def test_a_page_names_the_machine_the_date_and_the_commit_of_its_results(tmp_path: Path) -> None:
    store = Store(tmp_path / "kernels.json")
    store.about = ABOUT
    store.keep(record())

    head = summary_page(store, build_summary(store)).splitlines()[2]

    assert head == "Measured 2026-01-02, commit abc1234, on some CPU, avx2, 2 cores: `python bench/kernels.py`"


def test_fitted_costs_name_their_origin_and_never_mix_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "costs.json"
    monkeypatch.setattr(kernel_fit, "COSTS_FILE", target)
    monkeypatch.setattr(native_costs, "COSTS_FILE", target)
    store = Store(tmp_path / "kernels.json")
    store.about = ABOUT
    old = {"schema": native_costs.SCHEMA, "costs": {"old": {"cells": 4, "spread": 0.1, "ns": {"products": 1.0}}}}
    for name in "abcd":
        store.records[name] = record(name=name)
    found = []
    for machine in (ABOUT["machine"], "another CPU"):
        target.write_text(json.dumps({**old, "fitted": {"machine": machine}}))
        kernel_fit.write_costs(store)
        native_costs.known_costs.cache_clear()
        native_costs.costs_origin.cache_clear()
        found.append(set(native_costs.known_costs()))
    origin = native_costs.costs_origin()
    native_costs.known_costs.cache_clear()
    native_costs.costs_origin.cache_clear()

    assert found[0] == {"old", *found[1]} and "old" not in found[1]
    assert origin == "some CPU, avx2, 2 cores (2026-01-02, commit abc1234)"


def test_costs_in_the_tree_name_their_origin() -> None:
    assert re.fullmatch(r".+ \(\d{4}-\d\d-\d\d, commit [0-9a-f]{7,}\)", native_costs.costs_origin())


@pytest.mark.parametrize("flag", ["--render", "--fit", "--resume"])
def test_what_reads_results_needs_their_folder(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        kernels.parse([flag])

    assert "--results DIR" in capsys.readouterr().err


def test_rendering_writes_into_the_folder_of_the_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path / "kernels.json")
    store.about = ABOUT
    store.keep(record(name="cifar10.conv1 stride 1 batch 128"))

    code = kernels.main(["--results", str(tmp_path), "--render"])

    whole = (tmp_path / "kernels.md").read_text(encoding="utf-8")
    assert code == 0
    assert whole.startswith(capsys.readouterr().out)
    assert "## conv2d forward, 1 thread" in whole


def test_a_page_is_not_dirty_because_it_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for name in ("profkit", "docs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("old")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(measured_page, "ROOT", tmp_path)
    commits = []
    for name in ("docs", "profkit"):
        (tmp_path / name / "file").write_text("new")
        commits.append(measured_page.origin()["commit"])

    assert re.fullmatch("[0-9a-f]{7,}", commits[0])
    assert commits[1] == f"{commits[0]}-dirty"
