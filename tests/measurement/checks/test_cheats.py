"""Candidates that cheat, from their file to their row: each is caught with the reason, honest ones are not accused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import profkit
from profkit.measurement import cell
from profkit.measurement.checks import auditor
from profkit.measurement.checks.audit import REPEATED_CALLS, REPEATED_INPUTS
from profkit.measurement.result import Row
from profkit.ops import Spec
from tests.frameworks.candidate.candidate_files import needs_compiler
from tests.measurement.checks import cheats

SPEC = profkit.MatMul(m=512, n=128, k=512)
Rows = Mapping[str, Row]


@pytest.fixture(scope="module", autouse=True)
def without_harder_inputs() -> Iterator[None]:
    """They betray many cheats before these are timed."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cell, "hard_inputs", lambda *_: ())
        yield


def rows_of(folder: Path, names: Sequence[str], budget_s: float) -> Rows:
    """One table of these cheats, beside NumPy."""
    for name in names:
        (folder / f"{name.lower()}.py").write_text(cheats.HONEST + getattr(cheats, name))

    result = profkit.measure(
        SPEC,
        only="numpy",
        candidates=[str(folder / f"{name.lower()}.py") for name in names],
        threads=1,
        budget_s=budget_s,
        timeout_s=20.0,
    )

    assert result.cells[0].row("matmul/numpy/cpu").status == "ok"
    return {name: result.cells[0].row(f"matmul/candidate/cpu/{name.lower()}") for name in names}


QUICK = {
    "COPIED_FROM_A_CACHE": "a result of earlier calls was kept",
    "OVERWRITES_ITS_INPUTS": "it overwrote its input b",
    "PATCHES_ALL_THAT_WRITES_OR_COMPARES": "of 65,536 differ",
    "COMPUTES_AFTER_A_PAUSE": "wrong in a timed call",
    "SHARES_ONE_PLACE": "share one place in memory",
}
CAUGHT = {
    "COMPUTED_AHEAD": "",
    "COMPUTED_WHEN_SPOILT": "",
    "OWN_COPY_OF_THE_INPUTS": "",
    "HASHES_A_FEW_ELEMENTS": "",
    "RETURNS_BEFORE_THE_WORK_IS_DONE": "",
    "CHANGES_WHAT_IS_CALLED": "",
    "FUTURES": "dtype object",
    "LISTS": "dtype float64",
    "ZEROS": "exceeds the tolerance",
    "HALF_PRECISION": "exceeds the tolerance",
    "BFLOAT16_LIKE": "exceeds the tolerance",
    "ARRAY_WITH_CODE": "exceeds the tolerance",
    "RELAYS_REPLIES": "forged",
    "WRITES_REPLIES": "forged",
    "TAKES_REQUESTS": "forged",
    "WRITES_THE_RESULT_FILE": "",
    "GIVES_NO_CALL_TO_NATIVE_CODE": "answered in Python",
    "GIVES_OTHER_INPUTS_TO_NATIVE_CODE": "",
    "IS_ITS_INPUT": "its result is memory of its inputs",
}
NOT_ACCUSED = ("CLOCK_THAT_STANDS", "LAZY", "LOOKS_AT_THE_STACK", "PACKS_WEIGHTS_AHEAD", "WRITES_TWO_OUTPUTS_IN_TURNS")
UNUSUAL = (
    "COMPUTES_IN_A_POOL_OF_ITS_OWN",
    "GIVES_A_TRANSPOSED_RESULT",
    "WRITES_EVERY_SECOND_ELEMENT",
    "GIVES_A_MEMORYVIEW",
    "IS_SLOW_AT_FIRST_AND_ALLOCATES_MUCH",
    "PRINTS",
    "COMPILED_BY_NUMBA",
)
WITHOUT_VERDICT = (
    "HONEST_FOR_A_WHILE_AFTER_A_PAUSE",
    "COMPUTES_CHANGED_ROWS",
    "HASHES_EVERYTHING",
    "HASHES_IN_THE_LOOP_AND_COMPUTES_AFTER_A_PAUSE",
)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """As on a machine so busy that no check and no audit is due while there are rounds."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(auditor.Auditor, "_drawn", lambda *_: [])
        names = [*QUICK, "PACKS_WEIGHTS_AHEAD", "HAS_NO_ROOM_FOR_FILES"]
        return rows_of(tmp_path_factory.mktemp("quick"), names, 0.2)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return rows_of(tmp_path_factory.mktemp("all"), [*CAUGHT, *NOT_ACCUSED, *WITHOUT_VERDICT], 6.0)


@pytest.mark.parametrize("name", QUICK)
def test_a_cheat_is_wrong_with_its_reason(quick: Rows, name: str) -> None:
    row = quick[name]

    assert row.status == "wrong", row.reason
    assert QUICK[name] in row.reason
    assert row.verdict == "" and row.median_ns is None


def test_an_honest_candidate_is_checked_and_audited_and_keeps_its_verdict(quick: Rows) -> None:
    row = quick["PACKS_WEIGHTS_AHEAD"]

    assert row.status == "ok", row.reason
    assert row.verdict in ("faster", "slower", "same", "not resolved")
    assert row.checked_calls >= 10
    assert row.audit["pairs"] >= 5


def test_a_result_that_cannot_be_written_is_not_called_wrong(quick: Rows) -> None:
    row = quick["HAS_NO_ROOM_FOR_FILES"]

    assert (row.status, row.reason) == ("crashed", "its result could not be written for the check")


@pytest.mark.full
@pytest.mark.parametrize("name", CAUGHT)
def test_every_cheat_is_wrong_with_its_reason(rows: Rows, name: str) -> None:
    row = rows[name]

    assert row.status == "wrong", (row.reason, row.ratio, row.note)
    assert CAUGHT[name] in row.reason


def rows_in_c(folder: Path, names: Sequence[str]) -> Rows:
    """One table of those that are written in C."""
    for name in names:
        (folder / f"{name.lower()}.c").write_text(cheats.PRODUCT_IN_C + getattr(cheats, name))
    candidates = [str(folder / f"{name.lower()}.c") for name in names]

    result = profkit.measure(SPEC, only="numpy", candidates=candidates, threads=1, budget_s=3.0)

    return {name: result.cells[0].row(f"matmul/candidate/cpu/{name.lower()}") for name in names}


@needs_compiler
@pytest.mark.full
def test_a_cache_in_c_is_caught_as_well(tmp_path: Path) -> None:
    cached, told, helped = rows_in_c(
        tmp_path, ["CACHED_BY_ADDRESS_IN_C", "TOLD_OF_WRITES_IN_C", "HALF_ON_ANOTHER_CORE_IN_C"]
    ).values()

    assert cached.status == "wrong"
    assert "of its inputs" in cached.reason or "was kept" in cached.reason
    assert (told.status, told.verdict) == ("ok", REPEATED_INPUTS), told.reason
    assert "calls whose inputs change a little take" in "".join(told.doubts)
    assert helped.status == "ok" and helped.verdict != "faster"
    assert "its threads left the processors that they were given" in helped.doubts


@needs_compiler
@pytest.mark.full
def test_an_output_that_is_filled_when_it_is_read_is_caught(tmp_path: Path) -> None:
    (row,) = rows_in_c(tmp_path, ["FILLS_ITS_OUTPUT_WHEN_READ_IN_C"]).values()

    if row.status == "crashed" and "returned 1" in row.reason:
        pytest.skip("this system does not allow userfaultfd")
    assert row.status == "wrong" or row.verdict == REPEATED_INPUTS, (row.reason, row.audit)


@pytest.mark.full
def test_an_earlier_result_in_the_only_timed_call_of_a_turn_is_caught(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, ["RETURNS_AN_EARLIER_RESULT_WHEN_TIMED"], 2.0).values()

    assert row.status == "wrong"
    assert "wrong in a timed call" in row.reason and "a result of earlier calls was kept" in row.reason


@pytest.mark.full
@pytest.mark.parametrize("name", ["HONEST_AFTER_PAUSES_AND_AFTER_CHANGES", "HONEST_IN_SOME_TURNS"])
def test_what_is_honest_wherever_it_is_watched_is_caught_by_its_time(name: str, tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, [name], 4.0).values()

    assert (row.status, row.verdict) == ("ok", REPEATED_INPUTS), (row.reason, row.audit)
    assert "calls whose inputs change a little take" in "".join(row.doubts)


@pytest.mark.full
def test_a_kernel_that_computes_in_most_calls_only_is_wrong(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, ["RETURNS_AN_EARLIER_RESULT_SOMETIMES"], 15.0).values()

    assert row.status == "wrong" and "a result of earlier calls was kept" in row.reason


@pytest.mark.full
def test_what_is_remembered_of_few_values_is_caught(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(cheats.HONEST + cheats.REMEMBERS_A_SMALL_CONVOLUTION)
    spec = profkit.Conv2d(batch=1, in_channels=4, height=8, width=8, out_channels=4, kernel_size=3, padding=1)

    result = profkit.measure(
        spec, only="native/reference", candidates=[f"{tmp_path / 'small.py'}:conv2d"], threads=1, budget_s=1.0
    )

    row = result.cells[0].row("conv2d/candidate/cpu/small")
    assert (row.status, row.verdict) == ("ok", REPEATED_INPUTS), row.reason


def test_a_row_whose_files_were_changed_is_not_called_wrong(tmp_path: Path) -> None:
    for name in ("CHANGES_THE_FILES_OF_OTHERS", "PACKS_WEIGHTS_AHEAD"):
        (tmp_path / f"{name.lower()}.py").write_text(cheats.HONEST + getattr(cheats, name))

    result = profkit.measure(
        SPEC, only="candidate", candidates=sorted(map(str, tmp_path.glob("*.py"))), threads=1, budget_s=0.1
    )

    rows = result.cells[0].rows
    assert "crashed" in [row.status for row in rows]
    for row in rows:
        assert row.status in ("ok", "crashed"), row.reason
        assert row.status == "ok" or "changed the file of its inputs a, b" in row.reason


def test_every_timed_call_may_be_the_one_that_is_checked(tmp_path: Path) -> None:
    checks = auditor.Auditor(SPEC, SPEC.make_inputs, lambda: np.zeros(SPEC.output_shape()), 1.0)
    checks.folder = str(tmp_path)

    places = [checks.timed_check("mine", samples=2, calls=2)[1] for _ in range(100)]

    assert {(place["checked_sample"], place["before"]) for place in places} == {(0, 0), (0, 1), (1, 0), (1, 1)}


@pytest.mark.full
@pytest.mark.parametrize("name", NOT_ACCUSED)
def test_what_gains_nothing_is_not_accused(rows: Rows, name: str) -> None:
    row = rows[name]

    assert row.status == "ok", row.reason
    assert row.verdict in ("faster", "slower", "same", "not resolved"), row.note


@pytest.fixture(scope="module")
def unusual(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    return rows_of(tmp_path_factory.mktemp("unusual"), UNUSUAL, 6.0)


@pytest.mark.full
@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_and_honest_is_not_accused(unusual: Rows, name: str) -> None:
    row = unusual[name]

    assert row.status == "ok", row.reason
    assert row.verdict in ("faster", "slower", "same", "not resolved"), row.doubts
    assert row.audit["pairs"] >= 5


@pytest.mark.full
def test_outputs_that_are_used_in_turns_are_called_reused(rows: Rows) -> None:
    assert rows["WRITES_TWO_OUTPUTS_IN_TURNS"].output == "reused"
    assert rows["PACKS_WEIGHTS_AHEAD"].output == "fresh"


@pytest.mark.full
@pytest.mark.parametrize("name", WITHOUT_VERDICT)
def test_what_is_right_but_lives_on_repetition_has_no_verdict_but_that(rows: Rows, name: str) -> None:
    row = rows[name]

    assert row.status == "ok", row.reason
    assert row.verdict in (REPEATED_INPUTS, REPEATED_CALLS), row.audit
    assert row.audit["poked_pairs"] >= 5
    assert any(doubt.startswith(row.verdict) for doubt in row.doubts), row.doubts


REFERENCE = """
def candidate(spec, *inputs):
    result = spec.reference(dict(zip(spec.input_shapes(), inputs)))
    return result.astype(spec.numpy_dtype)
"""
SPECS = [
    profkit.Conv2d(4, 3, 9, 8, 6, 3, 2, 1),
    profkit.Conv2d(4, 6, 9, 8, 4, 3, padding=1, groups=2, bias=True, activation="relu", layout="NHWC", dtype="float64"),
    profkit.Conv2d(4, 6, 9, 8, 4, 3, padding=1, groups=2, direction="input-gradient", dtype="float16"),
    profkit.Conv2d(4, 6, 9, 8, 4, 3, padding=1, groups=2, direction="weight-gradient", layout="NHWC"),
    profkit.MatMul(6, 7, 8, batch=3, transpose_a=True, dtype="bfloat16"),
    profkit.MatMul(6, 7, 8, transpose_a=True, bias=True),
    profkit.Pool2d(3, 4, 9, 9),
    profkit.Pool2d(3, 4, 9, 9, direction="input-gradient"),
    profkit.LocalResponseNorm(3, 9, 4, 5),
    profkit.BiasRelu(3, 4, 5, 6, dtype="bfloat16"),
    profkit.Softmax(7, 9),
]


@pytest.mark.full
@pytest.mark.parametrize("few", [auditor.FEW_VALUES, 0], ids=["nudged", "new"])
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.op}-{spec.dtype}-{getattr(spec, 'direction', '')}")
def test_what_is_right_on_every_input_passes_all_checks_of_every_operator(
    spec: Spec, few: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditor, "FEW_VALUES", few)
    path = tmp_path / "mine.py"
    path.write_text(REFERENCE)

    result = profkit.measure(spec, only="candidate", candidates=[f"{path}:candidate"], threads=1, budget_s=0.1)

    [row] = result.cells[0].rows
    assert row.status == "ok", row.reason
    assert row.audit["pairs"] >= 5 and row.checked_calls >= 8
    assert row.verdict == "baseline" and not row.doubts, row.doubts
