"""The plan, the results folder and the course of a run, with fake runs: nothing measured is lost."""

from __future__ import annotations

import errno
import itertools
import json
from pathlib import Path

import pytest

import profkit
from profkit.capture.run import Run
from profkit.errors import ProfkitError, UsageError
from profkit.measurement.network_run import MessageCallback, NetworkRequest
from profkit.studies.conditions import StudyConditions
from profkit.studies.folder import ResultsFolder, differences, open_folder
from profkit.studies.plan import BASELINE, LEARN, MEASURE, estimate_s, plan_cells, select_cells
from profkit.studies.running import CellRunners, RunReport, StudyProgress, run_cells
from tests.studies.builders import LEARNING, TEXT, failing, faster_with_stride, small_conditions, small_study


def run_in(
    path: Path, conditions: StudyConditions | None = None, runners: CellRunners | None = None, **options: object
) -> RunReport:
    chosen = conditions or small_conditions()
    with open_folder(path, chosen.study.name, chosen.identity()) as folder:
        runners = runners or CellRunners(run=faster_with_stride)
        return run_cells(plan_cells(chosen.study), folder, chosen, runners=runners, **options)  # type: ignore[arg-type]


def statuses(path: Path) -> dict[str, str]:
    return {
        file.stem: json.loads(file.read_text())["status"] for file in sorted((path / "cells").glob("*.json"))
    }  # fmt: skip


class Counting:
    """Runs that are counted, and interrupted or broken at a certain one."""

    def __init__(self, stop_at: int = 0, error: BaseException | None = None) -> None:
        self.asked: list[str] = []
        self._stop_at = stop_at
        self._error = error or KeyboardInterrupt()

    def __call__(self, request: NetworkRequest, tell: MessageCallback) -> Run:
        self.asked.append(f"{request.network.words()['stride']} {request.framework}")
        if len(self.asked) == self._stop_at:
            raise self._error
        return faster_with_stride(request, tell)


def test_repetitions_interleave_frameworks_in_rotating_order() -> None:
    cells = plan_cells(small_study())

    assert [cell.id for cell in cells] == [
        "base.numpy.1",
        "base.native.1",
        "stride-2.numpy.1",
        "stride-2.native.1",
        "base.native.2",
        "base.numpy.2",
        "stride-2.native.2",
        "stride-2.numpy.2",
    ]


def test_learning_and_the_baseline_are_done_once_per_variant_after_the_first_repetition() -> None:
    cells = plan_cells(small_study(TEXT.replace("baseline = false\n", "") + LEARNING))

    assert [cell.kind for cell in cells] == [MEASURE] * 4 + [BASELINE] * 2 + [LEARN] * 2 + [MEASURE] * 4


def test_only_restricts_frameworks_and_variants_each_for_itself() -> None:
    cells = plan_cells(small_study(TEXT + LEARNING))

    one = select_cells(cells, ["native", "stride*"])
    frameworks = select_cells(cells, ["numpy"])

    assert [cell.id for cell in one] == ["stride-2.native.1", "stride-2.learn", "stride-2.native.2"]
    assert {cell.variant.name for cell in frameworks} == {"base", "stride 2"}
    assert select_cells(cells, []) == cells
    assert select_cells(cells, ["native, stride 2"]) == one
    with pytest.raises(UsageError, match=r"--only nativ: no framework or variant of this study; did you mean native\?"):
        select_cells(cells, ["nativ"])


def test_a_variants_name_may_have_commas() -> None:
    cells = plan_cells(small_study(TEXT + '"stride 3, half" = { stride = 3, filters = 4 }\n'))

    chosen = select_cells(cells, ["stride 3, half"])

    assert {cell.variant.name for cell in chosen} == {"stride 3, half"}


def test_estimates_follow_what_cells_of_the_same_framework_took() -> None:
    study = small_study()
    cell = plan_cells(study)[0]

    assert estimate_s(cell, study, 1, {(MEASURE, "numpy"): 42.0}) == 42.0
    assert 0 < estimate_s(cell, study, 1, {}) < 60


def test_every_cell_is_kept_with_its_capture_and_status(tmp_path: Path) -> None:
    report = run_in(tmp_path / "results")

    assert set(statuses(tmp_path / "results").values()) == {"ok"}
    assert len(report.ran) == 8 and report.left == 0
    folder = ResultsFolder(tmp_path / "results")
    assert all(folder.capture(cell).status == "ok" for cell in plan_cells(small_study()))


def test_a_second_run_finds_everything_finished(tmp_path: Path) -> None:
    run_in(tmp_path / "results")
    again = Counting()

    report = run_in(tmp_path / "results", runners=CellRunners(run=again))

    assert not again.asked
    assert report.finished_before == 8


def test_ctrl_c_keeps_what_was_measured_and_the_same_command_continues(tmp_path: Path) -> None:
    first, second = Counting(stop_at=3), Counting()

    report = run_in(tmp_path / "results", runners=CellRunners(run=first))
    after = statuses(tmp_path / "results")
    run_in(tmp_path / "results", runners=CellRunners(run=second))

    assert report.is_interrupted and report.left == 6
    assert after == {"base.numpy.1": "ok", "base.native.1": "ok", "stride-2.numpy.1": "interrupted"}
    assert len(second.asked) == 6
    assert set(statuses(tmp_path / "results").values()) == {"ok"}


def test_a_failed_cell_costs_itself_only_and_is_run_again_when_asked(tmp_path: Path) -> None:
    oom = failing("oom", lambda request: request.framework == "native")
    again, retried = Counting(), Counting()

    run_in(tmp_path / "results", runners=CellRunners(run=oom))
    after = statuses(tmp_path / "results")
    run_in(tmp_path / "results", runners=CellRunners(run=again))
    run_in(tmp_path / "results", runners=CellRunners(run=retried), retries=True)

    assert sorted(after.values()) == ["ok"] * 4 + ["oom"] * 4
    assert not again.asked
    assert {words.split()[1] for words in retried.asked} == {"native"} and len(retried.asked) == 4


def test_what_was_unavailable_is_looked_at_again_without_being_asked(tmp_path: Path) -> None:
    missing = failing("unavailable", lambda request: request.framework == "native")
    again = Counting()

    run_in(tmp_path / "results", runners=CellRunners(run=missing))
    run_in(tmp_path / "results", runners=CellRunners(run=again))

    assert len(again.asked) == 4


def test_a_mistake_in_one_frameworks_code_is_a_status(tmp_path: Path) -> None:
    broken = Counting(stop_at=1, error=ZeroDivisionError("by zero"))

    run_in(tmp_path / "results", runners=CellRunners(run=broken))

    assert statuses(tmp_path / "results")["base.numpy.1"] == "crashed"
    outcome = ResultsFolder(tmp_path / "results").outcome(plan_cells(small_study())[0])
    assert outcome is not None and outcome.reason == "ZeroDivisionError: by zero"


def test_a_full_disk_says_what_to_do_and_loses_nothing(tmp_path: Path) -> None:
    full = Counting(stop_at=2, error=OSError(errno.ENOSPC, "No space left on device", "/somewhere/x.npy"))

    with pytest.raises(ProfkitError, match=r"/somewhere/x.npy: No space left on device.*type the same command again"):
        run_in(tmp_path / "results", runners=CellRunners(run=full))

    assert statuses(tmp_path / "results") == {"base.numpy.1": "ok"}


def test_a_disk_that_fills_while_a_cell_is_kept_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object, stream: object) -> None:
        stream.write(b"half")  # type: ignore[attr-defined]
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("profkit.studies.folder.save_run", refuse)

    with pytest.raises(ProfkitError, match=r"could not write .*No space left on device\n.*finished cells are kept"):
        run_in(tmp_path / "results")

    assert not list((tmp_path / "results" / "cells").iterdir())


def test_a_budget_ends_the_run_between_cells(tmp_path: Path) -> None:
    ticks = itertools.count(step=10.0)

    report = run_in(
        tmp_path / "results", runners=CellRunners(run=faster_with_stride, clock=lambda: next(ticks)), budget_s=50.0
    )

    assert report.is_out_of_budget
    assert report.ran and report.left == 8 - len(report.ran) > 0


def test_a_damaged_status_counts_as_not_run(tmp_path: Path) -> None:
    run_in(tmp_path / "results")
    (tmp_path / "results" / "cells" / "base.native.2.json").write_text("{")
    again = Counting()

    run_in(tmp_path / "results", runners=CellRunners(run=again))

    assert again.asked == ["1 native"]


@pytest.mark.parametrize("content", [None, b"PK\x03\x04 half"])
def test_a_cell_whose_capture_is_gone_or_cut_short_is_run_again(tmp_path: Path, content: bytes | None) -> None:
    run_in(tmp_path / "results")
    run = tmp_path / "results" / "cells" / "base.native.2.profkit"
    run.unlink() if content is None else run.write_bytes(content)
    again = Counting()

    run_in(tmp_path / "results", runners=CellRunners(run=again))

    assert again.asked == ["1 native"]


def test_progress_counts_cells_and_ends_with_nothing_left(tmp_path: Path) -> None:
    seen: list[StudyProgress] = []

    run_in(tmp_path / "results", watch=seen.append)

    ends = [progress for progress in seen if progress.outcome is not None]
    assert [progress.number for progress in ends] == list(range(1, 9))
    assert ends[-1].left_s == 0
    assert ends[0].step_ns == 1000


def test_learning_is_asked_for_without_measuring() -> None:
    conditions = small_conditions(small_study(TEXT + LEARNING))
    cell = next(cell for cell in plan_cells(conditions.study) if cell.kind == LEARN)

    request = conditions.request(cell)

    assert (request.steps, request.is_training, request.learn_steps, request.learn_s) == (0, True, 5, 1.0)


def test_a_measuring_cell_takes_the_passes_for_time_and_memory() -> None:
    conditions = small_conditions()

    request = conditions.request(plan_cells(conditions.study)[0])

    assert request.passes is not None and len(request.passes) in (1, 2)
    assert request.threads == 1 and request.steps == 3


def test_other_conditions_are_refused_with_what_differs(tmp_path: Path) -> None:
    run_in(tmp_path / "results")
    other = small_conditions(small_study(TEXT.replace("steps = 3", "steps = 4").replace("filters = 8", "filters = 4")))

    with pytest.raises(UsageError) as refusal:
        run_in(tmp_path / "results", other)

    assert "steps: 3 there, 4 now" in str(refusal.value)
    assert "variants, base, filters: 8 there, 4 now" in str(refusal.value)
    assert "--output" in str(refusal.value) and "rm -r" in str(refusal.value)


def test_more_variants_and_repetitions_are_no_other_conditions(tmp_path: Path) -> None:
    run_in(tmp_path / "results")
    more = TEXT.replace("repetitions = 2", "repetitions = 3") + '"stride 3" = { stride = 3 }\n'
    again = Counting()

    run_in(tmp_path / "results", small_conditions(small_study(more)), CellRunners(run=again))

    assert len(again.asked) == 2 * 2 + 2 * 3


def test_a_variant_that_was_left_out_for_a_while_must_still_be_the_same(tmp_path: Path) -> None:
    run_in(tmp_path / "results")
    without = TEXT.replace('"stride 2" = { stride = 2 }', '"stride 4" = { stride = 4 }')
    run_in(tmp_path / "results", small_conditions(small_study(without)))

    with pytest.raises(UsageError, match="variants, stride 2, stride: 2 there, 3 now"):
        run_in(tmp_path / "results", small_conditions(small_study(TEXT.replace("stride = 2", "stride = 3"))))


def test_another_variant_with_the_same_file_name_is_measured_itself(tmp_path: Path) -> None:
    run_in(tmp_path / "results")
    renamed = TEXT.replace('"stride 2" = { stride = 2 }', '"stride-2" = { stride = 3 }')
    again = Counting()

    run_in(tmp_path / "results", small_conditions(small_study(renamed)), CellRunners(run=again))

    assert again.asked == ["3 numpy", "3 native", "3 native", "3 numpy"]


def test_a_run_that_was_killed_at_its_first_file_can_be_repeated(tmp_path: Path) -> None:
    (tmp_path / "results" / "cells").mkdir(parents=True)
    (tmp_path / "results" / ".study.json-x1").write_text("{")

    report = run_in(tmp_path / "results")

    assert len(report.ran) == 8


def test_results_of_another_study_version_or_schema_are_refused(tmp_path: Path) -> None:
    run_in(tmp_path / "results")
    about = tmp_path / "results" / "study.json"
    content = json.loads(about.read_text())

    with pytest.raises(UsageError, match="holds the study small, not other: name another folder with --output"):
        run_in(tmp_path / "results", small_conditions(small_study(name="other")))
    about.write_text(json.dumps({**content, "profkit": "0.0.1"}))
    with pytest.raises(UsageError, match=rf"measured with profkit 0\.0\.1, this is {profkit.__version__}.*rm -r"):
        run_in(tmp_path / "results")
    about.write_text(json.dumps({**content, "schema": "profkit.study/0"}))
    with pytest.raises(UsageError, match=r"has the schema profkit\.study/0"):
        run_in(tmp_path / "results")
    about.write_text("[")
    with pytest.raises(UsageError, match=r"study\.json cannot be read"):
        run_in(tmp_path / "results")


def test_a_folder_of_other_files_and_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")

    with pytest.raises(UsageError, match=r"holds other files \(thesis\.tex"):
        run_in(tmp_path)
    with pytest.raises(UsageError, match="it is a file"):
        run_in(tmp_path / "thesis.tex")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["thesis.tex"]


def test_one_folder_serves_one_run_at_a_time(tmp_path: Path) -> None:
    conditions = small_conditions()

    with (
        open_folder(tmp_path / "results", "small", conditions.identity()),
        pytest.raises(UsageError, match=r"process \d+ is running this study"),
    ):
        run_in(tmp_path / "results")

    assert len(run_in(tmp_path / "results").ran) == 8


def test_differences_ignore_variants_that_only_one_side_has() -> None:
    before = {"variants": {"a": {"stride": 1}, "b": {"stride": 2}}, "learning": None}
    now = {"variants": {"a": {"stride": 1}, "c": {"stride": 3}}, "learning": {"steps": 3}}

    assert differences(before, now) == ["learning: none there, {'steps': 3} now"]


def test_data_files_are_for_cifar10_only() -> None:
    text = (
        TEXT.replace('"cifar10"', '"mlp"').replace("crop = 24\nfilters = 8\n", "").replace("stride = 2", "hidden = 2")
    )

    with pytest.raises(UsageError, match="--data is for CIFAR-10's files, and small is not about cifar10"):
        small_conditions(small_study(text), data_folder="somewhere")
