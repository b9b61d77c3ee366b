"""The policy over native kernels: what it counts, what it takes, what it says; the tuner goes before it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from profkit import _core
from profkit.commands.explain import explain_cells, explained, explanation_text
from profkit.errors import UnsupportedError
from profkit.frameworks.native import costs as native_costs
from profkit.frameworks.native import policy as native_policy
from profkit.frameworks.native.costs import CALL, PRODUCTS, WEIGHTS, cost_name, fewer_products, terms
from profkit.frameworks.native.operators import ADAPTER
from profkit.frameworks.native.policy import MODEL, ORDER, TUNED, choose_kernel
from profkit.frameworks.native.tuned import Choice, keep_choices
from profkit.measurement.result import Cell, Result, Row
from profkit.ops import Conv2d, MatMul, odd_specs, presets_for
from tests.kernels.kernel_calls import OPERATORS

IMPLICIT, DIRECT = "conv2d/native/cpu/implicit_gemm", "conv2d/native/cpu/direct"


@pytest.fixture(autouse=True)
def no_choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache folder: what this machine's tuner kept must not matter."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def pretend(monkeypatch: pytest.MonkeyPatch, costs: Mapping[str, Mapping[str, float]]) -> None:
    """Costs by kernel key, for planes."""
    known = {cost_name(key, Conv2d()): ns for key, ns in costs.items()}
    monkeypatch.setattr(native_policy, "known_costs", lambda: known)


@pytest.mark.parametrize("op", OPERATORS)
def test_every_spec_gets_a_kernel_that_supports_it(op: str) -> None:
    for spec in (*presets_for(op).values(), *odd_specs(op)):
        if spec.dtype_word not in ("float32", "float64"):
            continue
        choice = choose_kernel(spec, 2)

        assert choice.key in _core.kernels(op)
        assert choice.reasons


def test_forms_are_taken_only_when_they_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, {IMPLICIT: {PRODUCTS: 1e-2, WEIGHTS: 1.0}})

    assert choose_kernel(Conv2d(), 1).key == IMPLICIT
    assert choose_kernel(Conv2d(), 1, ("packed",)).key == f"{IMPLICIT}/packed"


def test_the_cheaper_kernel_is_taken_and_the_others_numbers_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, {IMPLICIT: {PRODUCTS: 2e-2}, DIRECT: {PRODUCTS: 1e-2, CALL: 5000.0}})

    choice = choose_kernel(Conv2d(), 1)

    assert (choice.key, choice.source) == (DIRECT, MODEL)
    assert choice.reasons[0].startswith("direct: estimated ")
    assert any(reason.startswith("implicit_gemm: estimated") and "+100 %" in reason for reason in choice.reasons)


def test_equal_estimates_follow_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, {IMPLICIT: {PRODUCTS: 1.01e-2}, DIRECT: {PRODUCTS: 1e-2}})

    assert choose_kernel(Conv2d(), 1).key == IMPLICIT


def test_without_costs_the_registrys_first_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, {})

    choice = choose_kernel(Conv2d(), 1)

    assert (choice.key, choice.source) == (_core.kernels("conv2d")[0], ORDER)


def test_what_the_tuner_measured_goes_before_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, {IMPLICIT: {PRODUCTS: 1e-2}, DIRECT: {PRODUCTS: 9e-2}})
    rows = {row.key: row for row in ADAPTER.implementations("conv2d")}
    times = {IMPLICIT: 9e6, DIRECT: 5e6}
    keep_choices(
        [
            Choice(key, Conv2d().to_dict(), 1, ADAPTER.fingerprint(rows[key]), {}, {"default_ns": ns})
            for key, ns in times.items()
        ]
    )

    choice = choose_kernel(Conv2d(), 1)

    assert (choice.key, choice.source) == (DIRECT, TUNED)
    assert "5 ms" in choice.reasons[0] and "9 ms" in choice.reasons[0]
    assert choose_kernel(Conv2d(), 2).source == MODEL
    assert choose_kernel(Conv2d(), 1, tuned=False).source == MODEL
    for tuned, source in ((True, TUNED), (False, MODEL)):
        result = Result({}, {}, [measured()])
        explain_cells(result, tuned)
        assert result.cells[0].policy["source"] == source


def test_what_no_kernel_runs_is_refused_with_reasons() -> None:
    with pytest.raises(UnsupportedError, match="float32 and float64 only"):
        choose_kernel(MatMul(dtype="float16"), 1)


def test_winograd_products_are_counted_with_the_borders_and_a_stride_as_phases() -> None:
    whole = Conv2d(height=16, width=16, kernel_size=3, padding=1)
    six, eight = "conv2d/native/cpu/winograd_6x6", "conv2d/native/cpu/winograd_8x8"

    assert fewer_products(six, whole) == pytest.approx(4.0)
    assert fewer_products(eight, whole.replaced(height=12, width=12)) == pytest.approx(9 * 36 / 64)
    assert fewer_products(six, Conv2d()) == pytest.approx(25 * 4 / 36)
    assert fewer_products(six, whole.replaced(height=13, width=13)) < 4.0
    assert fewer_products(six, whole.replaced(stride=2)) == pytest.approx(9 * 64 / (4 * 36 * 4))
    assert fewer_products(IMPLICIT, whole) == 1.0


def test_weights_packed_ahead_cost_nothing() -> None:
    spec = presets_for("conv2d")["lenet.p32.conv1"]

    assert terms(IMPLICIT, spec, 8)[WEIGHTS] > 0
    assert terms(IMPLICIT, spec, 8, packed=True)[WEIGHTS] == 0


def test_a_damaged_file_of_costs_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "costs.json").write_text("{")
    monkeypatch.setattr(native_costs, "COSTS_FILE", tmp_path / "costs.json")
    native_costs.known_costs.cache_clear()

    found = native_costs.known_costs()
    native_costs.known_costs.cache_clear()

    assert found == {}


def measured(**times: float) -> Cell:
    rows = [
        Row(f"conv2d/native/cpu/{name}", "ok", median_ns=ns, samples_ns=[ns] * 3, sample_rounds=[0, 1, 2])
        for name, ns in times.items()
    ]
    return Cell(Conv2d(), 1, None, {}, "", "hot", rows)


def test_an_explanation_says_whether_the_measurement_agrees(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path))  # what another test tuned must not speak here
    pretend(monkeypatch, {IMPLICIT: {PRODUCTS: 1e-2}, DIRECT: {PRODUCTS: 2e-2}})
    cells = [measured(implicit_gemm=100.0, direct=120.0), measured(implicit_gemm=110.0, direct=100.0)]

    for cell in cells:
        cell.policy = explained(cell)

    assert "the measurement agrees: implicit_gemm is the fastest of 2" in explanation_text(cells[0])
    assert "fastest native row measured: direct" in explanation_text(cells[1])
    assert cells[1].policy["slower_by"] == pytest.approx(0.1)


def test_an_explanation_of_a_spec_without_kernels_says_why() -> None:
    cell = Cell(MatMul(dtype="float16"), 1, None, {}, "", "hot", [])

    cell.policy = explained(cell)

    assert "none; no native kernel runs" in explanation_text(cell)
