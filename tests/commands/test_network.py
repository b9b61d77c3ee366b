"""`profkit network`: words in, tables, files and exit codes out. Runs are faked, but for one in NumPy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profkit import cli, network
from profkit.capture.run import Run, load_run, save_run
from profkit.frameworks.networks import load_builder
from profkit.measurement import network_run
from profkit.measurement.network_run import InterruptedRun, NetworkRequest
from profkit.ops.networks import NETWORKS, Cifar10, Mlp
from tests.capture.network_captures import network_capture, op, recording_of
from tests.support.typed import Typed

SMALL = ("--batch", "2", "--crop", "24", "--filters", "4", "--steps", "2", "--threads", "1")


def run(*words: str) -> int:
    """`profkit network words...`."""
    return cli.main(["network", *words])


class Runs:
    """Stands in for run_network: keeps what was asked, answers with a step of 100 ns."""

    def __init__(self) -> None:
        self.requests: list[NetworkRequest] = []
        self.changes: dict[str, Any] = {}
        self.fail: Callable[[Run], None] = lambda _: None

    def __call__(self, request: NetworkRequest, tell: Callable[[str], None]) -> Run:
        self.requests.append(request)
        tell(f"{request.framework}: starting")
        recording = recording_of(
            op("conv2d", 0, 80, layer="conv1", phase="forward"), framework="numpy", steps=[(0, 100)]
        )  # fmt: skip
        run = network_capture(
            *(() if self.changes.get("status") == "unavailable" else (recording,)),
            network=request.network,
            framework=request.framework,
            mode=request.mode,
            threads=request.threads,
            is_training=request.is_training,
            training=request.training.field_values() if request.is_training else {},
        )
        for name, value in self.changes.items():
            setattr(run, name, value)
        self.fail(run)
        return run


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Nothing is run, no kernel is measured."""
    fake = Runs()
    monkeypatch.setattr(network_run, "run_network", fake)
    monkeypatch.setattr(network, "measure_baseline", lambda *_, **__: [])
    return fake


def test_a_network_really_runs_in_numpy_and_its_file_tells_the_same(tmp_path: Path, typed: Typed) -> None:
    usage, markdown, saved = (tmp_path / name for name in ("usage.json", "usage.md", "run.profkit"))
    words = ["--no-baseline", "--json", usage, "--csv", tmp_path / "usage.csv", "--markdown", markdown]

    out = typed.shows("network", "cifar10", "--framework", "numpy", *SMALL, *words, "--output", saved)

    data = json.loads(usage.read_text(encoding="utf-8"))
    assert out.startswith("cifar10 batch 2, stride 1, filters 4,")
    assert "synthetic data" in out and "checked against float64" in out
    assert sum(row["exclusive_ns"] for row in data["rows"]) + data["remainder_ns"] == data["wall_ns"]
    assert {"conv2d", "lrn", "pool", "matmul"} <= {row["name"] for row in data["rows"]}
    assert data["steps"] == 2 and all(row["flops"] for row in data["rows"] if row["name"] == "conv2d")
    assert markdown.read_text(encoding="utf-8").startswith("### cifar10")
    assert typed.shows("report", saved) == out
    assert load_run(str(saved)).network == Cifar10(batch=2, crop=24, filters=4).to_dict()


def test_fields_of_the_network_and_of_training_are_flags(runs: Runs) -> None:
    code = run(
        "cifar10", "--framework", "numpy", "--stride", "2", "--training", "--momentum", "0.9", "--weight-decay", "no"
    )

    (request,) = runs.requests
    assert code == 0
    assert request.network == Cifar10(stride=2)
    assert (request.is_training, request.training.momentum, request.training.weight_decay) == (True, 0.9, False)


def test_no_network_has_a_flag_that_the_command_has() -> None:
    for kind in (None, *NETWORKS.values()):
        network.build_parser(kind)  # argparse refuses a flag that stands twice


def test_a_network_is_trained_as_its_study_does_unless_told_otherwise(runs: Runs) -> None:
    for words in ((), ("--learning-rate", "0.5"), ("--optimizer", "rmsprop")):
        run("wrn_16_8", "--framework", "numpy", "--batch", "2", "--training", *words)

    own, faster, other = (request.training for request in runs.requests)
    assert own == NETWORKS["wrn_16_8"]().training and own.nesterov and own.schedule_at == (80, 120)
    assert faster == own.replaced(learning_rate=0.5)
    assert (other.optimizer, other.nesterov, other.momentum, other.schedule) == ("rmsprop", False, 0.0, "steps")


def test_widths_are_a_list(runs: Runs) -> None:
    run("mlp", "--framework", "numpy", "--hidden", "20,10")

    assert runs.requests[0].network == Mlp(hidden=(20, 10))


def test_how_it_runs_can_be_said(runs: Runs) -> None:
    limits = ["--timeout", "7s", "--memory-limit", "2GiB", "--learn", "500ms"]
    run("mlp", "--framework", "torch:compile", "--threads=1", "--steps=3", "--seed=5", "--quiet", *limits)

    (request,) = runs.requests
    assert (request.framework, request.mode, request.threads, request.steps) == ("torch", "compile", 1, 3)
    assert (request.seed, request.timeout_s, request.memory_limit_bytes, request.learn_s) == (5, 7.0, 2 << 30, 0.5)


def test_the_network_s_name_may_stand_behind_the_flags(runs: Runs) -> None:
    run("--framework", "numpy", "mlp", "--hidden", "1")

    assert runs.requests[0].network == Mlp(hidden=1)


def test_without_a_framework_one_that_is_there_is_taken(runs: Runs) -> None:
    run("mlp")

    assert load_builder(runs.requests[0].framework).is_available().available


def test_several_frameworks_have_a_table_each_and_one_side_by_side(runs: Runs, tmp_path: Path, typed: Typed) -> None:
    words = ["--json", tmp_path / "usage.json", "--output", tmp_path / "run.profkit"]

    out = typed.shows("network", "cifar10", "--framework", "numpy,tensorflow:eager,tensorflow", *words)

    assert [(request.framework, request.mode) for request in runs.requests] == [
        ("numpy", "eager"),
        ("tensorflow", "eager"),
        ("tensorflow", "graph"),
    ]
    assert out.count("mean of") == 1 and out.count("the one recorded step") == 3
    assert "Layer by framework" in out and "tensorflow:eager" in out
    names = [f"numpy{end}" for end in (".json", ".profkit")]
    names += [f"tensorflow-{mode}{end}" for mode in ("eager", "graph") for end in (".json", ".profkit")]
    assert {path.name.partition(".")[2] for path in tmp_path.iterdir()} == set(names)


def test_the_classic_layout_is_by_type_and_has_nothing_around_it(runs: Runs, typed: Typed) -> None:
    lines = typed.shows("network", "cifar10", "--framework", "numpy", "--format", "tfprof").splitlines()

    assert lines[0].startswith("node name | requested bytes")
    assert lines[1].startswith("conv2d ") and len(lines) == 2


def test_the_baseline_is_measured_once_and_stands_below_the_table(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, typed: Typed, tmp_path: Path
) -> None:
    asked: list[tuple[Any, ...]] = []
    row: dict[str, Any] = {"layer": "conv1", "phase": "forward", "kind": "conv2d", "bound_by": "compute", "parts": []}
    row |= {"native_ns": 50.0, "native_key": "conv2d/native/cpu/x", "bound_ns": 10.0, "flops": 1, "bytes": 1}
    row |= {"peak_flops_per_s": 1e11, "peak_bytes_per_s": 1e10, "threads": 1}

    def measure(*given: Any, **_: Any) -> list[dict[str, Any]]:
        asked.append(given)
        return [row]

    monkeypatch.setattr(network, "measure_baseline", measure)
    words = ["network", "cifar10", "--framework"]

    out = typed.shows(*words, "numpy,native", "--threads", "1", "--json", tmp_path / "usage.json")

    assert asked == [(Cifar10(), 1, False)]
    gaps = json.loads((tmp_path / "usage.native.json").read_text(encoding="utf-8"))["gaps"]
    assert (gaps["schema"], gaps["rows"][0]["native_ns"]) == ("profkit.gaps/1", 50.0)
    parts_ns = [*(row["framework_ns"] for row in gaps["rows"]), *(part["ns"] for part in gaps["outside"])]
    assert sum(parts_ns) == pytest.approx(gaps["step_ns"])
    assert out.count("Against the baseline") == 2
    assert "Against the baseline" not in typed.shows(*words, "numpy", "--no-baseline")
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a network: alexnet, all_cnn_c"),
        (["cifar"], "unknown network 'cifar'; did you mean cifar10?"),
        (["cifar10", "--strid", "2"], "unknown flag --strid; did you mean --stride?"),
        (["cifar10", "--stride", "0"], "stride must be at least 1, got 0"),
        (["cifar10", "--stride", "1,2"], "--stride 1,2: one value at a time; sweeps over networks are profkit study"),
        (["cifar10", "--crop", "20"], "crop: expected 24 or 32, got 20"),
        (["lenet", "--filters", "3"], "unknown flag --filters"),
        (["mlp", "--framework", "tensrflow"], "unknown framework 'tensrflow'; did you mean tensorflow?"),
        (["mlp", "--framework", "torch", "--mode", "compiled"], "unknown torch mode 'compiled'; did you mean compile?"),
        (["mlp", "--framework", "torch:graph"], "unknown torch mode 'graph'; expected one of eager"),
        (["mlp", "--framework", "numpy,numpy:eager"], "numpy:eager appears twice"),
        (["mlp", "--threads", "0"], "threads 0"),
        (["mlp", "--steps", "0"], "--steps takes a number from 1 on, got 0"),
        (["mlp", "--runs", "0"], "--runs takes a number from 1 to 100, got 0"),
        (["mlp", "--seed", "-1"], "--seed cannot be negative, got -1"),
        (["mlp", "--timeout", "soon"], "expected a time such as 20s"),
        (["mlp", "--momentum", "much"], "momentum: expected a finite number, got 'much'"),
        (["mlp", "--optimizer", "adm"], "optimizer: expected one of sgd, adam, rmsprop, got 'adm'"),
        (["mlp", "--nesterov"], "nesterov is a form of sgd with momentum"),
        (["mlp", "--schedule", "steps"], "schedule_at says where, as 80,120"),
        (["transformer", "--heads", "3"], "heads 3 does not divide width 128"),
        (["googlenet", "--factor", "0"], "googlenet: a share of the published filters or neurons is above 0, got 0"),
        (["mlp", "--framework", "onnxruntime", "--training"], "onnxruntime: the onnxruntime package runs inference"),
        (["mlp", "--baseline-limit", "soon"], "expected a time such as 20s"),
        (["vgg16", "--batch", "90000", "--training"], "a training step takes 5.00 TiB (weights 528 MiB, gradients"),
        (["mlp", "--by", "path"], "invalid choice: 'path'"),
        (["mlp", "--columns", "gflop"], "unknown column 'gflop'; did you mean gflops?"),
        (["mlp", "--sort", "colour"], "unknown column 'colour'"),
        (["mlp", "--data", "tests"], "tests has no Shuttle (shuttle.csv.gz or shuttle.csv): in R: data(Shuttle"),
        (
            ["solar", "--data", "tests"],
            "solar learns from solar irradiance, and profkit reads CIFAR-10, MNIST, Shuttle",
        ),
        (["cifar10", "--data", "nowhere"], "there is no file or folder nowhere: download"),
        (["cifar10", "--batch", "100000000"], "take a smaller --batch than 100000000"),
        (["mlp", "--json", "no/such/folder.json"], "there is no folder no/such"),
        (["mlp", "--json", "a.x", "--output", "a.x"], "a.x is named for two different files"),
    ],
)
def test_wrong_words_are_told_before_anything_runs(runs: Runs, words: list[str], message: str, typed: Typed) -> None:
    assert message in typed.refuses("network", *words)
    assert not runs.requests


def test_folding_runs_another_network_and_is_refused_where_it_means_nothing(runs: Runs, typed: Typed) -> None:
    small = ("--factor", "0.03125", "--side", "48", "--batch", "2")

    out = typed.shows("network", "resnet50", *small, "--fold-batch-norm", "--framework", "numpy")

    [request] = runs.requests
    assert not [layer for layer in request.network.layers if layer.kind == "batch_norm"]
    assert "fold-batch-norm yes" in out
    for words, message in (
        (["resnet50", *small, "--training"], "--fold-batch-norm: a folded batch_norm has the statistics of inference"),
        (["resnet50", *small, "--learn-steps", "2"], "train the network without folding"),
        (["mlp"], "mlp: no batch_norm takes the result of a convolution directly"),
    ):
        assert message in typed.refuses("network", *words, "--fold-batch-norm")
    assert len(runs.requests) == 1


def test_a_framework_that_is_missing_names_the_line_to_type(runs: Runs, typed: Typed) -> None:
    reason = 'cupy is not installed; pip install "profkit[cupy]"'
    runs.changes = {"status": "unavailable", "reason": reason, "step_ns": []}

    code, out, err = typed("network", "mlp", "--framework", "cupy")

    assert (code, out) == (1, "")
    assert f"cupy: unavailable, {reason}" in err


@pytest.mark.parametrize(("status", "code"), [("wrong", 3), ("timeout", 1), ("crashed", 1), ("oom", 1), ("ok", 0)])
def test_the_exit_code_tells_how_it_ended(runs: Runs, status: str, code: int, typed: Typed) -> None:
    runs.changes = {"status": status, "reason": "because"}

    out = typed.shows("network", "mlp", "--framework", "numpy", code=code)

    assert (f"numpy: {status}, because" in out) == (status != "ok")


def test_a_wrong_result_that_leaves_no_table_keeps_its_code_and_says_so_of_its_file(
    runs: Runs, tmp_path: Path, typed: Typed
) -> None:
    runs.changes = {"status": "wrong", "reason": "error 0.5 is above the tolerance 1e-4", "captures": ()}

    code, _, err = typed("network", "mlp", "--framework", "numpy", "--json", tmp_path / "usage.json")

    assert code == 3
    assert "numpy: wrong, error 0.5 is above the tolerance 1e-4" in " ".join(err.split())
    assert "usage.json: not written, because nothing was recorded" in " ".join(err.split())


def test_one_framework_that_fails_does_not_cost_the_others(runs: Runs, typed: Typed) -> None:
    def fail(run: Run) -> None:
        if run.framework == "native":
            run.status, run.reason, run.captures = "crashed", "signal 11", ()

    runs.fail = fail

    code, out, err = typed("network", "cifar10", "--framework", "native,numpy")

    assert code == 1
    assert "native: crashed, signal 11" in err
    assert "inference in numpy" in out


def test_an_interruption_shows_and_saves_what_was_measured(runs: Runs, tmp_path: Path, typed: Typed) -> None:
    def stop(run: Run) -> None:
        if run.framework == "native":
            run.status, run.reason = "interrupted", "stopped by the user"
            raise InterruptedRun(run)

    runs.fail = stop
    words = ["--framework", "numpy,native,torch", "--output", tmp_path / "run.profkit"]

    out = typed.shows("network", "cifar10", *words, code=130)

    assert [request.framework for request in runs.requests] == ["numpy", "native"]
    assert "inference in numpy" in out and "native: interrupted, stopped by the user" in out
    assert {path.name for path in tmp_path.iterdir()} == {"run.numpy.profkit", "run.native.profkit"}


def test_a_file_that_cannot_be_written_does_not_cost_the_others(runs: Runs, tmp_path: Path, typed: Typed) -> None:
    target = tmp_path / "usage.csv"
    runs.fail = lambda _: target.mkdir()

    code, out, err = typed(
        "network", "cifar10", "--framework", "numpy", "--csv", target, "--json", tmp_path / "usage.json"
    )

    assert code == 1
    assert "could not write" in err and "conv2d" in out
    assert (tmp_path / "usage.json").exists()


def test_what_runs_here_is_listed(typed: Typed) -> None:
    out = typed.shows("network", "--list")

    assert "batch 128, stride 1, filters 64" in out
    assert any(line.split()[:2] == ["numpy", "available"] for line in out.splitlines())


@pytest.mark.parametrize("words", [["--help"], ["cifar10", "--help"]])
def test_help_fits_the_terminal_and_names_the_exit_codes(words: list[str], typed: Typed) -> None:
    out = typed.shows("network", *words)
    assert max(map(len, out.splitlines())) <= 100
    assert "3 a wrong result" in out


@pytest.fixture
def saved(tmp_path: Path) -> str:
    """A file that a run left."""
    recording = recording_of(op("conv2d", 0, 80, layer="conv1", phase="forward"), framework="numpy", steps=[(0, 100)])
    path = str(tmp_path / "run.profkit")
    save_run(network_capture(recording), path)
    return path


@pytest.mark.parametrize("by", ["kind", "layer", "phase", "thread", "operator", "type", "name"])
def test_report_shows_a_saved_run_by_whatever_is_asked(saved: str, by: str, typed: Typed) -> None:
    out = typed.shows("report", saved, "--by", by, "--columns", "all", "--sort", "own", "--top", "3")

    assert "80.00 ns" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--by", "kernel"], "has no table by kernel: no GPU was recorded; its table can be by kind, name"),
        (["--process", "4"], "--process is for the time of threads; by kind the table divides that of steps"),
        (["--process", "0"], "--process is for the time of threads; by kind the table divides that of steps"),
        (["--subtract-overhead"], "--subtract-overhead is for the time of threads"),
    ],
)
def test_report_refuses_what_a_network_does_not_have(saved: str, words: list[str], message: str, typed: Typed) -> None:
    assert message in typed.refuses("report", saved, *words)


def test_the_same_from_python_prints_the_table_and_has_its_numbers(tmp_path: Path) -> None:
    import profkit

    profile = profkit.profile_network(profkit.Mlp(batch=2, hidden=1, neurons=8), "numpy", threads=1, steps=2)

    usage = profile.usage("layer")
    profile.save(tmp_path / "run.profkit")
    assert profile.capture.status == "ok"
    assert {row.name for row in usage.rows} == {"hidden1", "output"}
    assert str(profile).startswith("mlp batch 2, hidden 1, neurons 8, halving no")
    assert load_run(tmp_path / "run.profkit").step_ns == profile.capture.step_ns


def test_a_run_that_cannot_be_says_why_in_python_too() -> None:
    import profkit

    profile = profkit.profile_network(profkit.Mlp(batch=2), "onnxruntime", threads=1, is_training=True, steps=1)

    assert profile.capture.status == "unsupported"
    assert "inference only" in str(profile)
