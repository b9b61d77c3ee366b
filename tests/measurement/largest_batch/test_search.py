"""The search for the largest batch, on machines that are made up: nothing runs here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from profkit.errors import UnsupportedError, UsageError
from profkit.measurement.largest_batch.request import (
    ABOVE,
    BELOW,
    OK,
    OOM,
    PLAIN,
    PREDICTED,
    SMALL,
    MaxBatch,
    MaxBatchRequest,
    Trial,
)
from profkit.measurement.largest_batch.search import MOST_CONFIRMATIONS, find_max_batch, next_batch, search
from profkit.measurement.largest_batch.trial import Outcome
from profkit.ops.networks import NETWORKS, Mlp

BASE, LIMIT = 200, 10_000


def found(precision: float = 0.02) -> MaxBatch:
    return MaxBatch({"network": "mlp"}, "torch", "eager", 1, True, {}, LIMIT, "--memory", precision, 2, {"MALLOC": "1"})


class Machine:
    """Takes so much per batch and besides; above a batch something more, which small ones do not show."""

    def __init__(self, each: float, fixed: int = 100, more_from: int = 1 << 40, more: int = 0) -> None:
        self.each, self.fixed, self.more_from, self.more = each, fixed, more_from, more
        self.roles: list[str] = []

    def growth(self, batch: int) -> int:
        return round(self.fixed + self.each * batch) + (self.more if batch >= self.more_from else 0)

    def __call__(self, batch: int, role: str) -> Outcome:
        self.roles.append(role)
        held = BASE + self.growth(batch)
        if held > LIMIT:
            return Outcome(Trial(batch, role, OOM, "too much", BASE), None, {})
        return Outcome(Trial(batch, role, base_bytes=BASE, resident_bytes=held), None, {"version": "1"})

    def largest(self) -> int:
        return max(batch for batch in range(1, 20_000) if BASE + self.growth(batch) <= LIMIT)


def test_a_line_is_found_and_confirmed_by_the_batch_above_it() -> None:
    machine, result = Machine(each=7.0), found()

    search(result, machine, estimate=5000)

    assert result.predicted == result.largest == machine.largest()
    assert machine.roles == [SMALL, SMALL, SMALL, PREDICTED, ABOVE, PLAIN]
    assert result.too_large is not None and result.largest < result.too_large <= 1.03 * result.largest
    assert (result.status, result.notes, result.versions) == (OK, [], {"version": "1"})


@pytest.mark.parametrize("more", [-2500, 600, 2500, 4000])
def test_what_small_batches_do_not_show_is_found_by_confirmation(more: int) -> None:
    """A jump above half of the limit: to less (another algorithm), or to more."""
    machine, result = Machine(each=7.0, more_from=900, more=more), found()

    search(result, machine, estimate=5000)

    assert result.largest is not None and result.too_large is not None
    assert BASE + machine.growth(result.largest) <= LIMIT < BASE + machine.growth(result.too_large)
    assert result.too_large - result.largest <= max(1, 0.02 * result.largest)
    assert (BELOW in machine.roles) == (more > 0)


def test_a_heap_as_it_is_needs_no_second_look() -> None:
    machine, result = Machine(each=7.0), replace(found(), heap={})

    search(result, machine, estimate=5000)

    assert result.largest == machine.largest() and PLAIN not in machine.roles


def test_few_batches_are_found_exactly() -> None:
    machine, result = Machine(each=1500.0), found()

    search(result, machine, estimate=9)

    assert (result.largest, result.too_large) == (6, 7)


def test_formulas_that_promise_too_much_lead_to_smaller_batches() -> None:
    machine, result = Machine(each=7.0), found()

    search(result, machine, estimate=4_000_000)

    assert result.largest == machine.largest()
    assert [trial.status for trial in result.trials][:3] == [OOM, OOM, OOM]


def test_small_batches_are_not_neighbours_where_one_did_not_fit() -> None:
    """What is resident differs by a MiB from run to run: between neighbours that would be the slope."""
    machine, result = Machine(each=49.0), found()

    search(result, machine, estimate=9600)

    ran = sorted(trial.batch for trial in result.trials if trial.role == SMALL and trial.status == OK)
    assert result.trials[1].status == OOM
    assert len(ran) == 3 and ran[1] >= 2 * ran[0] and ran[2] >= 2 * ran[1]
    assert result.largest == machine.largest()


def test_nothing_fits_where_a_batch_of_one_does_not() -> None:
    result = found()

    search(result, Machine(each=7.0, fixed=LIMIT), estimate=100)

    assert (result.status, result.reason, result.largest) == (OOM, "too much", None)


def test_another_failure_ends_the_search_with_what_ran() -> None:
    machine, result = Machine(each=7.0), found()

    def crashing(batch: int, role: str) -> Outcome:
        return Outcome(Trial(batch, role, "timeout", "late"), None, {}) if role == PREDICTED else machine(batch, role)

    search(result, crashing, estimate=5000)

    assert (result.status, result.too_large) == ("timeout", None)
    assert result.largest == max(trial.batch for trial in result.trials if trial.status == OK)
    assert PLAIN not in machine.roles


@pytest.mark.parametrize("small", [1, 2])
def test_a_failure_of_a_small_batch_ends_the_search_without_a_prediction(small: int) -> None:
    """A line through one point would promise any batch."""
    machine, result = Machine(each=7.0), found()

    def late(batch: int, role: str) -> Outcome:
        if len(machine.roles) == small:
            return Outcome(Trial(batch, role, "timeout", "late"), None, {})
        return machine(batch, role)

    search(result, late, estimate=5000)

    *ran, failed = result.trials
    assert (len(ran), failed.status, result.predicted) == (small, "timeout", None)
    assert (result.largest, result.too_large) == (ran[-1].batch, None)
    assert (result.status, result.reason) == ("timeout", f"batch {failed.batch}: late")


def test_the_heap_as_it_is_is_not_tried_where_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC", "1")
    machine, result = Machine(each=7.0), found()

    search(result, machine, estimate=5000)

    assert PLAIN not in machine.roles and result.status == OK


def test_a_peak_above_the_limit_does_not_count_as_fitting() -> None:
    result = found()

    result.add(Trial(5, PREDICTED, base_bytes=BASE, resident_bytes=LIMIT + 1))

    assert result.trials[0].status == OOM


def test_what_is_not_narrowed_is_said() -> None:
    result = found(precision=1e-6)
    machine = Machine(each=0.003, more_from=1_000_000, more=3000)

    search(result, machine, estimate=3_000_000)

    assert len(result.trials) == 3 + MOST_CONFIRMATIONS + 1
    assert "not narrowed" in result.notes[0]


def test_the_next_batch_lies_between_what_ran_and_what_failed() -> None:
    assert next_batch(guess=100, fits=30, fails=None, step=1) == 100
    assert next_batch(guess=100, fits=100, fails=None, step=2) == 102
    assert next_batch(guess=100, fits=100, fails=120, step=2) == 102
    assert next_batch(guess=130, fits=100, fails=120, step=2) == 110
    assert next_batch(guess=115, fits=100, fails=120, step=2) == 115


def test_a_request_that_cannot_be_met_says_why() -> None:
    expected = r"vgg16 takes at least 1,.* MiB at batch 1 .weights 528 MiB, .* than the limit of 512 MiB .--memory"
    with pytest.raises(UsageError, match=expected):
        find_max_batch(MaxBatchRequest(NETWORKS["vgg16"](), "torch", is_training=True, memory_bytes=512 << 20))
    with pytest.raises(UsageError, match=r"this machine has .* GiB free"):
        find_max_batch(MaxBatchRequest(Mlp(), "torch", memory_bytes=1 << 60))
    with pytest.raises(UnsupportedError, match="onnxruntime package runs inference only"):
        find_max_batch(MaxBatchRequest(Mlp(), "onnxruntime", is_training=True))
    with pytest.raises(UsageError, match="--steps takes a number from 2 on"):
        MaxBatchRequest(Mlp(), "torch", steps=1)
