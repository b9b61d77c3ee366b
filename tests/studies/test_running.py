"""The plan, the results folder and the course of a run, with fake runs: nothing measured is lost."""

from __future__ import annotations

import errno
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profkit
from profkit.capture.run import Run
from profkit.data.cifar import NAMES
from profkit.errors import ProfkitError, UsageError
from profkit.measurement.network_run import MessageCallback, NetworkRequest
from profkit.ops.networks import Cifar10, Training
from profkit.studies.folder import ResultsFolder, differences, open_folder
from profkit.studies.plan import BASELINE, LEARN, MEASURE, estimate_s, plan_cells, select_cells
from profkit.studies.running import CellRunners, RunNetwork, RunReport, StudyProgress, run_cells
from tests.studies.builders import LEARNING, TEXT, failing, faster_with_stride, small_conditions, small_study


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The folder of a study that has not begun."""
    return tmp_path / "results"


def run_in(
    path: Path,
    text: str = TEXT,
    run: RunNetwork = faster_with_stride,
    name: str = "small",
    clock: Callable[[], float] = time.monotonic,
    **options: object,
) -> RunReport:
    conditions = small_conditions(small_study(text, name))
    with open_folder(path, name, conditions.identity()) as folder:
        runners = CellRunners(run=run, clock=clock)
        return run_cells(plan_cells(conditions.study), folder, conditions, runners=runners, **options)  # type: ignore[arg-type]


def asked_in(path: Path, text: str = TEXT, retries: bool = False) -> list[str]:
    """What is measured when the study is run (again): stride and framework of each cell."""
    counting = Counting()
    run_in(path, text, counting, retries=retries)
    return counting.asked


def statuses(path: Path) -> dict[str, str]:
    return {file.stem: json.loads(file.read_text())["status"] for file in sorted((path / "cells").glob("*.json"))}


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


def test_the_baseline_steps_as_the_measured_networks_do(results: Path) -> None:
    text = TEXT.replace("baseline = false\n", "").partition("[variants]")[0] + '[axes]\noptimizer = ["sgd", "adam"]\n'
    conditions = small_conditions(small_study(text))
    steps: list[object] = []

    def baseline(*_: object, training: Training, **__: object) -> list[dict[str, Any]]:
        steps.append(training.optimizer)
        return []

    with open_folder(results, "small", conditions.identity()) as folder:
        runners = CellRunners(run=faster_with_stride, baseline=baseline)
        run_cells(plan_cells(conditions.study), folder, conditions, runners=runners)

    assert steps == ["sgd", "adam"]


def test_only_restricts_frameworks_and_variants_each_for_itself() -> None:
    cells = plan_cells(small_study(TEXT + LEARNING))
    with_commas = plan_cells(small_study(TEXT + '"stride 3, half" = { stride = 3, filters = 4 }\n'))

    one = select_cells(cells, ["native", "stride*"])

    assert [cell.id for cell in one] == ["stride-2.native.1", "stride-2.learn", "stride-2.native.2"]
    assert {cell.variant.name for cell in select_cells(cells, ["numpy"])} == {"base", "stride 2"}
    assert select_cells(cells, []) == cells
    assert select_cells(cells, ["native, stride 2"]) == one
    assert {cell.variant.name for cell in select_cells(with_commas, ["stride 3, half"])} == {"stride 3, half"}
    with pytest.raises(UsageError, match=r"--only nativ: no framework or variant of this study; did you mean native\?"):
        select_cells(cells, ["nativ"])


def test_estimates_follow_what_cells_of_the_same_framework_took() -> None:
    study = small_study()
    cell = plan_cells(study)[0]

    assert estimate_s(cell, study, 1, {(MEASURE, "numpy"): 42.0}) == 42.0
    assert 0 < estimate_s(cell, study, 1, {}) < 60


def test_every_cell_is_kept_with_its_capture_and_status_and_a_second_run_finds_it(results: Path) -> None:
    report = run_in(results)

    assert set(statuses(results).values()) == {"ok"}
    assert len(report.ran) == 8 and report.left == 0
    assert all(ResultsFolder(results).capture(cell).status == "ok" for cell in plan_cells(small_study()))
    assert asked_in(results) == []


def test_ctrl_c_keeps_what_was_measured_and_the_same_command_continues(results: Path) -> None:
    report = run_in(results, run=Counting(stop_at=3))

    assert report.is_interrupted and report.left == 6
    assert statuses(results) == {"base.numpy.1": "ok", "base.native.1": "ok", "stride-2.numpy.1": "stopped"}
    assert len(asked_in(results)) == 6
    assert set(statuses(results).values()) == {"ok"}


def test_a_failed_cell_costs_itself_only_and_is_run_again_when_asked(results: Path) -> None:
    run_in(results, run=failing("oom", lambda request: request.framework == "native"))

    assert sorted(statuses(results).values()) == ["ok"] * 4 + ["oom"] * 4
    assert asked_in(results) == []
    retried = asked_in(results, retries=True)
    assert {words.split()[1] for words in retried} == {"native"} and len(retried) == 4


def test_what_was_unavailable_is_looked_at_again_without_being_asked(results: Path) -> None:
    run_in(results, run=failing("unavailable", lambda request: request.framework == "native"))

    assert len(asked_in(results)) == 4


def test_a_mistake_in_one_frameworks_code_is_a_status(results: Path) -> None:
    run_in(results, run=Counting(stop_at=1, error=ZeroDivisionError("by zero")))

    assert statuses(results)["base.numpy.1"] == "failed"
    outcome = ResultsFolder(results).outcome(plan_cells(small_study())[0])
    assert outcome is not None and outcome.reason == "ZeroDivisionError: by zero"


def test_a_full_disk_says_what_to_do_and_loses_nothing(results: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/somewhere/x.npy")

    with pytest.raises(ProfkitError, match=r"/somewhere/x.npy: No space left on device.*type the same command again"):
        run_in(results, run=Counting(stop_at=2, error=full))

    assert statuses(results) == {"base.numpy.1": "ok"}


def test_a_disk_that_fills_while_a_cell_is_kept_leaves_no_half_file(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object, stream: object) -> None:
        stream.write(b"half")  # type: ignore[attr-defined]
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("profkit.studies.folder.save_run", refuse)

    with pytest.raises(ProfkitError, match=r"could not write .*No space left on device\n.*finished cells are kept"):
        run_in(results)

    assert not list((results / "cells").iterdir())


def test_a_budget_ends_the_run_between_cells(results: Path) -> None:
    report = run_in(results, clock=itertools.count(step=10.0).__next__, budget_s=50.0)

    assert report.is_out_of_budget
    assert report.ran and report.left == 8 - len(report.ran) > 0


@pytest.mark.parametrize(
    ("name", "content"),
    [("base.native.2.json", b"{"), ("base.native.2.profkit", None), ("base.native.2.profkit", b"PK\x03\x04 half")],
)
def test_a_cell_whose_status_or_capture_is_damaged_or_gone_is_run_again(
    results: Path, name: str, content: bytes | None
) -> None:
    run_in(results)
    file = results / "cells" / name
    file.unlink() if content is None else file.write_bytes(content)

    assert asked_in(results) == ["1 native"]


def test_progress_counts_cells_and_ends_with_nothing_left(results: Path) -> None:
    seen: list[StudyProgress] = []

    run_in(results, watch=seen.append)

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


def test_other_conditions_are_refused_with_what_differs(results: Path) -> None:
    run_in(results)

    with pytest.raises(UsageError) as refusal:
        run_in(results, TEXT.replace("steps = 3", "steps = 4").replace("filters = 8", "filters = 4"))

    assert "steps: 3 there, 4 now" in str(refusal.value)
    assert "variants, base, filters: 8 there, 4 now" in str(refusal.value)
    assert "--output" in str(refusal.value) and "rm -r" in str(refusal.value)


def test_more_variants_and_repetitions_are_no_other_conditions(results: Path) -> None:
    run_in(results)

    more = TEXT.replace("repetitions = 2", "repetitions = 3") + '"stride 3" = { stride = 3 }\n'

    assert len(asked_in(results, more)) == 2 * 2 + 2 * 3


def test_a_variant_that_was_left_out_for_a_while_must_still_be_the_same(results: Path) -> None:
    run_in(results)
    run_in(results, TEXT.replace('"stride 2" = { stride = 2 }', '"stride 4" = { stride = 4 }'))

    with pytest.raises(UsageError, match="variants, stride 2, stride: 2 there, 3 now"):
        run_in(results, TEXT.replace("stride = 2", "stride = 3"))


def test_another_variant_with_the_same_file_name_is_measured_itself(results: Path) -> None:
    run_in(results)

    renamed = TEXT.replace('"stride 2" = { stride = 2 }', '"stride-2" = { stride = 3 }')

    assert asked_in(results, renamed) == ["3 numpy", "3 native", "3 native", "3 numpy"]


def test_a_run_that_was_killed_at_its_first_file_can_be_repeated(results: Path) -> None:
    (results / "cells").mkdir(parents=True)
    (results / ".study.json-x1").write_text("{")

    assert len(run_in(results).ran) == 8


def test_results_of_another_study_version_or_schema_are_refused(results: Path) -> None:
    run_in(results)
    about = results / "study.json"
    content = json.loads(about.read_text())

    with pytest.raises(UsageError, match="holds the study small, not other: name another folder with --output"):
        run_in(results, name="other")
    for changed, said in (
        ({"profkit": "0.0.1"}, rf"measured with profkit 0\.0\.1, this is {profkit.__version__}.*rm -r"),
        ({"schema": "profkit.study/0"}, r"has the schema profkit\.study/0"),
        (None, r"study\.json cannot be read"),
    ):
        about.write_text("[" if changed is None else json.dumps({**content, **changed}))
        with pytest.raises(UsageError, match=said):
            run_in(results)


def test_a_folder_of_other_files_and_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")

    with pytest.raises(UsageError, match=r"holds other files \(thesis\.tex"):
        run_in(tmp_path)
    with pytest.raises(UsageError, match="it is a file"):
        run_in(tmp_path / "thesis.tex")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["thesis.tex"]


def test_one_folder_serves_one_run_at_a_time(results: Path) -> None:
    with (
        open_folder(results, "small", small_conditions().identity()),
        pytest.raises(UsageError, match=r"process \d+ is running this study"),
    ):
        run_in(results)

    assert len(run_in(results).ran) == 8


def test_differences_ignore_variants_that_only_one_side_has() -> None:
    before = {"variants": {"a": {"stride": 1}, "b": {"stride": 2}}, "learning": None}
    now = {"variants": {"a": {"stride": 1}, "c": {"stride": 3}}, "learning": {"steps": 3}}

    assert differences(before, now) == ["learning: none there, {'steps': 3} now"]


def test_data_are_read_once_for_networks_of_one_shape(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / f"{name}.bin").write_bytes(bytes([1]) + bytes(range(256)) * 12)
    conditions = small_conditions(data_path=str(tmp_path))

    first, again = (conditions.data_for(Cifar10(batch=4, crop=24, stride=stride)) for stride in (1, 2))
    other = conditions.data_for(Cifar10(batch=4, crop=32))

    assert first is again and first is not None and other is not None
    assert (first.train_images.shape, other.train_images.shape) == ((5, 3, 24, 24), (5, 3, 32, 32))


def test_damaged_facts_of_a_folder_are_no_facts_and_long_ones_are_cut(tmp_path: Path) -> None:
    run_in(tmp_path)
    about = json.loads((tmp_path / "study.json").read_text())

    damages: list[object] = [[{"packages": 5}], [{"cpu": []}], {}, [1]]
    for damaged in damages:
        (tmp_path / "environment.json").write_text(json.dumps(damaged))
        assert ResultsFolder(tmp_path).environments() == []
    for name, value in (("schema", "x" * 10_000), ("study", ["x"] * 10_000), ("conditions", {"x" * 9: [1] * 10_000})):
        (tmp_path / "study.json").write_text(json.dumps({**about, name: value}))
        with pytest.raises(UsageError) as caught:
            run_in(tmp_path)
        assert len(str(caught.value)) < 1500
