"""The commands: words in, text, files and exit codes out. Measuring is faked; test_operators_measured.py measures."""

from __future__ import annotations

import errno
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from profkit import cli
from profkit.commands import operator as operator_command
from profkit.commands.request import parse_request
from profkit.commands.sweep import CELL_LIMIT
from profkit.errors import UnavailableError
from profkit.frameworks.adapter import Availability, Implementation
from profkit.measurement.options import MeasureOptions
from profkit.measurement.progress import Watcher, ignore_progress
from profkit.measurement.result import Cell, Result, Row
from profkit.ops import SPECS, Conv2d, Spec
from profkit.ops.networks import NETWORKS
from profkit.rendering.tables.document import Document
from tests.support.typed import Typed

SIXTY = ",".join(map(str, range(1, 61)))
OPERATORS = {op.removesuffix("2d"): op for op in SPECS}


class Measured:
    """A stand-in for measure_cells that keeps what it was asked and answers with given rows."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[Spec], dict[str, Any]]] = []
        self.rows: list[Row] = [Row("conv2d/numpy/cpu", "ok", median_ns=1e6, ratio=1.0, verdict="baseline")]
        self.interrupted = False
        self.before_return: Callable[[], None] = lambda: None

    def __call__(self, specs: list[Spec], options: MeasureOptions, progress: Watcher) -> Result:
        self.calls.append((list(specs), {**vars(options), "progress": progress}))
        self.before_return()
        peaks = {"flops_per_s": 1e11, "bytes_per_s": 1e10}
        cells = [
            Cell(spec, threads, "conv2d/numpy/cpu", peaks, "compute", "hot", list(self.rows))
            for threads in options.threads or [2]
            for spec in specs
        ]
        return Result({"cpu": "fake"}, peaks, cells, self.interrupted)

    @property
    def specs(self) -> list[Any]:
        """Specs of the last call."""
        return self.calls[-1][0]

    @property
    def options(self) -> dict[str, Any]:
        """Options of the last call."""
        return self.calls[-1][1]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Commands measure with the stand-in."""
    fake = Measured()

    monkeypatch.setattr(operator_command, "load_measurement", lambda: fake)
    return fake


def run(*words: str) -> int:
    """`profkit words...`."""
    return cli.main(words)


def test_without_a_command_all_commands_are_listed(typed: Typed) -> None:
    text = typed.shows()

    for name in [*OPERATORS, "doctor"]:
        assert f"  {name} " in text


def test_every_listed_command_is_a_module_with_a_main() -> None:
    for name in cli.commands():
        assert callable(importlib.import_module(cli.module_of(name)).main)


def test_an_unknown_command_offers_the_nearest(typed: Typed) -> None:
    assert "did you mean matmul?" in typed.refuses("matmull")
    assert "did you mean help" in typed.refuses("hepl")


@pytest.mark.parametrize("command", cli.commands())
def test_help_of_a_command_is_its_own_help(command: str, typed: Typed) -> None:
    own = typed.shows(command, "--help")

    assert own == typed.shows("help", command) == typed.shows("--help", command)
    assert own.startswith(f"usage: profkit {command} ")
    # More than --help itself.
    assert own.count("\n  --") >= 2


def test_help_takes_what_follows_the_command(typed: Typed) -> None:
    assert "--dilation" not in typed.shows("help", "tune", "matmul")
    assert typed.shows("help", "network", "lenet").startswith("usage: profkit network lenet ")
    assert typed.shows("help", "trace", "a_script_that_must_not_run.py")
    assert "did you mean doctor?" in typed.refuses("help", "doctr")


def test_help_of_networks_shows_the_flags_of_each(typed: Typed) -> None:
    text = typed.shows("network", "--help")

    for network in NETWORKS.values():
        for item in fields(network):
            assert f"  --{item.name.replace('_', '-')} " in text


@pytest.mark.parametrize("command", OPERATORS)
def test_help_has_every_field_and_fits_100_columns(command: str, typed: Typed) -> None:
    text = typed.shows(command, "--help")

    for name in SPECS[OPERATORS[command]]().words():
        assert f"-{name.replace('_', '-')} " in text
    assert max(map(len, text.splitlines())) <= 100
    assert "examples:" in text


@pytest.mark.parametrize("command", OPERATORS)
def test_every_command_measures_the_default_spec_without_flags(command: str, measured: Measured) -> None:
    code = run(command)

    assert code == 0
    assert measured.specs == [SPECS[OPERATORS[command]]()]
    assert measured.options["output"] == ("fresh",)
    assert measured.options["progress"] is not ignore_progress


@pytest.mark.parametrize("command", OPERATORS)
def test_every_field_of_every_operator_can_be_given_as_its_own_word(command: str) -> None:
    spec = SPECS[OPERATORS[command]]()
    for name, word in spec.words().items():
        request = parse_request(spec.op, command, [f"--{name.replace('_', '-')}", word])

        assert request.specs == [spec]


def test_flags_become_fields(measured: Measured) -> None:
    words = (
        "--in-channels 6 --kernel-size 3x5 --padding 1x2x1x2 --groups 2 --bias --activation relu --direction forward"
    )

    run("conv", *words.split())

    expected = Conv2d(in_channels=6, kernel_size=(3, 5), padding=(1, 2, 1, 2), groups=2, bias=True, activation="relu")
    assert measured.specs == [expected]


def test_comma_lists_are_sweeps_over_all_combinations(measured: Measured) -> None:
    run("conv", "--stride", "1,2", "--bias", "yes,no", "--padding", "same,1x2x1x2")

    assert len(measured.specs) == 8
    assert {spec.stride for spec in measured.specs} == {(1, 1), (2, 2)}


def test_a_sweep_prints_a_table_per_cell_and_a_summary(measured: Measured, typed: Typed) -> None:
    _, out, err = typed("conv", "--stride", "1,2", "--threads", "1,2")

    assert out.count("conv2d") == 4 + 2
    assert "summary: conv2d over" in out
    assert max(map(len, out.splitlines())) <= 100
    assert "4 tables, 15 s of sampling each" in err


def test_caches_outputs_and_threads_are_axes_too(measured: Measured, typed: Typed) -> None:
    _, _, err = typed(
        "conv", "--cache", "hot,cold", "--output", "fresh,reused", "--threads", "1,2", "--stride", "1,2,3"
    )

    assert "24 tables, " in err
    assert measured.options["cache"] == ["hot", "cold"]
    many = ",".join(map(str, range(1, 601)))
    assert "2400 cells (batch 600 x cache 2 x output 2)" in typed.refuses(
        "conv", "--cache", "hot,cold", "--output", "fresh,reused", "--batch", many
    )


@pytest.mark.parametrize(("words", "lines"), [([], 1), (["-v"], 4), (["--verbose"], 4), (["--all"], 4)])
def test_what_cannot_run_is_listed_when_asked(
    words: list[str], lines: int, measured: Measured, typed: Typed, tmp_path: Path
) -> None:
    measured.rows = [
        Row(f"conv2d/{name}/cuda", "unavailable", "no driver") for name in ("cupy", "torch", "jax", "tensorflow")
    ]

    _, out, _ = typed("conv", *words, "--markdown", tmp_path / "out.md")

    for text in (out, (tmp_path / "out.md").read_text()):
        assert len([line for line in text.splitlines() if "no driver" in line]) == lines


def test_presets_are_starting_points_that_flags_change(measured: Measured) -> None:
    run("conv", "--preset", "cifar10.conv1,alexnet.conv3", "--preset", "solar.conv1", "--batch", "1")

    assert [(spec.batch, spec.in_channels) for spec in measured.specs] == [(1, 3), (1, 256), (1, 1)]


def test_presets_that_flags_make_equal_are_measured_once(measured: Measured) -> None:
    run("matmul", "--preset", "square.256,square.1024", "--m", "8", "--n", "8", "--k", "8")

    assert len(measured.specs) == 1


def test_presets_are_listed(typed: Typed) -> None:
    text = typed.shows("conv", "--list-presets")

    assert "alexnet.conv1" in text
    assert max(map(len, text.splitlines())) <= 100


def test_options_reach_the_measurement(measured: Measured) -> None:
    words = (
        "--only native,torch --only jax --exclude keras --baseline numpy --threads 1,2 --budget 1m30s --timeout 5s "
        "--again 3 --memory-limit 4GiB --cache cold,hot --output reused --margin 5% --seed 7 --remeasure-peaks --quiet "
        f"--python torch={sys.executable} --no-tuned --device cuda --kernel-time --all --explain"
    )

    run("conv", *words.split())

    assert measured.options.pop("progress") is ignore_progress
    assert measured.options == {
        "all": True,
        "explain": True,
        "only": ["native", "torch", "jax"],
        "exclude": ["keras"],
        "baseline": "numpy",
        "device": "cuda",
        "kernel_time": True,
        "threads": [1, 2],
        "budget_s": 90.0,
        "again": 3,
        "timeout_s": 5.0,
        "memory_limit_bytes": 4 * 2**30,
        "cache": ["cold", "hot"],
        "output": ["reused"],
        "margin": 0.05,
        "candidates": (),
        "interpreters": {"torch": sys.executable},
        "tuned": False,
        "seed": 7,
        "remeasure_peaks": True,
    }


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--strid 2", "unknown flag --strid; did you mean --stride?"),
        ("--strid=2", "did you mean --stride?"),
        ("stride 2", "flags begin with --"),
        ("--stride", "expected one argument"),
        ("--stride 0", "stride must be at least 1"),
        ("--python torch", "expected FRAMEWORK=PATH"),
        ("--stride 1,2,1", "1 appears twice"),
        ("--stride 2,2x2", "2 appears twice"),
        ("--padding 1,2,1,2", "four paddings of one spec are written with x, as 1x2x1x2"),
        ("--padding -1", "padding cannot be negative, got -1x-1x-1x-1"),
        ("--padding -1,2", "padding cannot be negative"),
        ("--padding 1x2x3", "expected same, valid, one number, or four as 1x2x1x2"),
        ("--kernel-size 40", "(16 + 2 + 2 - 1*(40-1) - 1) // 1 + 1 = -19"),
        ("--groups 3", "groups 3 does not divide in_channels 64 (remainder 1)"),
        ("--dtype int8", "expected one of float32, float64, float16, bfloat16"),
        ("--bias maybe", "expected yes or no"),
        ("--preset cifar10.conv9", "cifar10.conv"),
        ("--preset cifar10.conv1,cifar10.conv1", "appears twice"),
        ("--threads 0", "whole numbers from 1"),
        ("--threads 1,1", "1 appears twice"),
        ("--budget soon", "--budget: expected a time such as 20s"),
        ("--memory-limit much", "--memory-limit: expected a size such as 4GiB"),
        ("--margin 200%", "--margin: expected a share such as 2%"),
        ("--cache warm", "--cache: expected hot or cold, or hot,cold for both, got 'warm'"),
        ("--cache hot,hot", "hot appears twice"),
        ("--output", "expected one argument"),
        ("--output either", "'either'"),
        ("--columns page_fault", "did you mean page_faults"),
        ("--watch", "add --candidate FILE"),
        ("--watch --candidate {folder}/none.py", "none.py"),
        ("--batch 99999999999 --height 99999", "inputs and output of one call take"),
        (
            f"--batch {SIXTY} --in-channels {SIXTY}",
            f"3600 cells (batch 60 x in_channels 60), more than {CELL_LIMIT}",
        ),
        ("--json {folder}/no/out", "there is no folder"),
        ("--csv {folder}/no/out", "there is no folder"),
        ("--markdown {folder}/no/out", "there is no folder"),
        ("--json {folder}/out --csv {folder}/out", "is named for two different files"),
    ],
)
def test_wrong_usage_is_explained_and_nothing_is_measured(
    words: str, expected: str, measured: Measured, typed: Typed, tmp_path: Path
) -> None:
    assert expected in typed.refuses("conv", *words.format(folder=tmp_path).split())
    assert measured.calls == []


@pytest.mark.parametrize("words", ["--stride 0", "--padding -1", "--kernel-size 40", "--groups 3"])
def test_impossible_geometry_prints_the_formula(words: str, typed: Typed) -> None:
    assert "out = (in + pad_before + pad_after" in typed.refuses("conv", *words.split())


def test_nothing_measured_is_exit_code_1(measured: Measured, typed: Typed) -> None:
    measured.rows = [Row("conv2d/jax/cpu", "unavailable", "jax is not installed")]

    code, out, err = typed("conv")

    assert code == 1
    assert "jax is not installed" in out
    assert "profkit doctor" in err


@pytest.mark.parametrize(
    ("key", "statuses", "code", "strict"),
    [
        ("jax/cpu", "wrong, crashed", 0, 3),
        ("jax/cpu", "unavailable, unsupported, oom, timeout", 0, 0),
        ("candidate/cpu/mine", "not compiled, not loaded, wrong, crashed, lost, timeout, oom", 3, 3),
        ("candidate/cpu/mine", "unavailable, unsupported", 1, 1),
    ],
)
def test_a_bad_row_is_exit_code_3_of_a_candidate_and_else_only_when_strict(
    key: str, statuses: str, code: int, strict: int, measured: Measured, typed: Typed
) -> None:
    (usual,) = measured.rows
    for status in statuses.split(", "):
        measured.rows = [usual, Row(f"conv2d/{key}", status, "no reason")]
        ended, _, err = typed("conv")
        assert (ended, run("conv", "--strict")) == (code, strict), status
        # A candidate that was measured nowhere.
        assert ("no time in any table: conv2d/candidate/cpu/mine" in err) == (code == 1)


def test_a_candidate_may_leave_out_a_part_of_a_sweep() -> None:
    cells = [
        Cell(Conv2d(), 1, None, {}, "", "hot", [Row("conv2d/candidate/cpu/mine", status, median_ns=1.0)])
        for status in ("ok", "unsupported")
    ]

    assert operator_command.exit_code(Result({}, {}, cells), is_strict=False) == 0


def test_a_doubtful_row_is_exit_code_3_when_strict(measured: Measured) -> None:
    measured.rows.append(Row("conv2d/candidate/cpu/mine", "ok", median_ns=1.0, doubts=["it slept"]))

    assert run("conv") == 0
    assert run("conv", "--strict") == 3


def test_an_interrupted_run_prints_saves_and_is_exit_code_130(measured: Measured, tmp_path: Path, typed: Typed) -> None:
    measured.interrupted = True

    code, out, _ = typed("conv", "--strict", "--json", tmp_path / "part.json")

    assert code == 130
    assert "interrupted" in out
    assert json.loads((tmp_path / "part.json").read_text())["interrupted"] is True


def test_an_interruption_outside_the_measurement_is_exit_code_130(measured: Measured) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    measured.before_return = interrupt

    assert run("conv") == 130


def test_an_error_of_the_measurement_is_a_message(measured: Measured, typed: Typed) -> None:
    def fail() -> None:
        raise UnavailableError("there is no core")

    measured.before_return = fail

    assert typed.refuses("conv", code=1) == "profkit conv: there is no core"


def test_a_checkout_without_the_compiled_core_says_what_to_type(monkeypatch: pytest.MonkeyPatch, typed: Typed) -> None:
    monkeypatch.setitem(sys.modules, "profkit.measurement.run", None)

    assert "pip install -e ." in typed.refuses("conv", code=1)


def test_files_are_written(measured: Measured, tmp_path: Path) -> None:
    paths = {kind: tmp_path / f"out.{kind}" for kind in ("json", "csv", "markdown")}

    code = run("conv", *(word for kind, path in paths.items() for word in (f"--{kind}", str(path))))

    assert code == 0
    assert json.loads(paths["json"].read_text())["schema"] == "profkit.result/1"
    assert paths["csv"].read_text().startswith("op,batch,")
    assert paths["markdown"].read_text().startswith("### conv2d")


def test_a_file_that_fails_costs_neither_the_table_nor_the_other_files(
    measured: Measured, tmp_path: Path, typed: Typed
) -> None:
    folder = tmp_path / "going"
    folder.mkdir()
    measured.before_return = folder.rmdir

    code, out, err = typed("conv", "--json", folder / "out.json", "--csv", tmp_path / "out.csv")

    assert code == 1
    assert "numpy" in out
    assert "could not write" in err
    assert (tmp_path / "out.csv").exists()


def test_a_reader_that_goes_away_costs_no_file(
    measured: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    abandoned: list[bool] = []

    def break_pipe(*args: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(Document, "print", break_pipe)
    monkeypatch.setattr("profkit.commands.showing.abandon_stdout", lambda: abandoned.append(True))

    code = run("conv", "--json", str(tmp_path / "out.json"))

    assert code == 0
    assert abandoned == [True]
    assert (tmp_path / "out.json").exists()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", [["conv", "--list-presets"], ["--version"], ["doctor"]])
def test_a_full_disk_behind_stdout_is_one_sentence(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "profkit", *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.startswith("profkit") and done.stderr.endswith(f": {os.strerror(errno.ENOSPC)}\n")
    assert done.stderr.count("\n") == 1


def test_a_list_cut_by_head_ends_without_a_traceback() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "profkit", "conv", "--list-presets"]

    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)

    assert done.stderr == ""
    assert done.returncode == 0


def test_columns_choose_the_table(measured: Measured, typed: Typed) -> None:
    _, out, _ = typed("conv", "--columns", "median,samples")

    headings = next(line for line in out.splitlines() if line.startswith("implementation"))
    assert headings.split() == ["implementation", "median", "samples"]


def test_watch_measures_again_when_the_file_changes_and_ends_with_ctrl_c(
    measured: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    kernel = tmp_path / "my_conv.py"
    kernel.write_text("def conv(x, w): ...")
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            kernel.write_text("def conv(x, w): return x")
        elif len(waits) > 1:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)

    code, _, err = typed("conv", "--candidate", kernel, "--watch")

    assert code == 0
    assert len(measured.calls) == 2
    assert "waiting for a change of my_conv.py" in err


def test_watch_survives_a_file_that_is_broken_for_a_while(
    measured: Measured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    kernel = tmp_path / "my_conv.py"
    kernel.write_text("def conv(x, w): ...")

    def fail() -> None:
        raise UnavailableError("it has no function now")

    def sleep(seconds: float) -> None:
        raise KeyboardInterrupt

    measured.before_return = fail
    monkeypatch.setattr("time.sleep", sleep)

    assert "it has no function now" in typed.refuses("conv", "--candidate", kernel, "--watch", code=1)


class Listed:
    """An adapter of one implementation that is not installed here and refuses a stride of 2."""

    name = "torch"

    def implementations(self, op: str) -> list[Implementation]:
        return [Implementation(f"{op}/torch/cpu", "torch")]

    def is_available(self) -> Availability:
        return Availability(False, "torch is not installed", "pip install torch")

    def supports(self, implementation: Implementation, spec: Any) -> str:
        return "no stride" if spec.stride == (2, 2) else ""


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        ("", 1, "torch/cpu  unavailable  torch is not installed; pip install torch"),
        ("--python torch={python}", 0, "torch/cpu  available"),
        ("--python torch={python} --stride 2", 1, "torch/cpu  unsupported  no stride"),
        ("--python torch={python} --stride 1,2,3", 0, "torch/cpu  available  but not for 1 of 3 specs: no stride"),
    ],
)
def test_the_list_says_for_these_specs_and_interpreters_what_can_run(
    words: str, code: int, line: str, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    monkeypatch.setattr("profkit.measurement.selection.BACKENDS", ("torch",))
    monkeypatch.setattr("profkit.measurement.selection.load_adapter", lambda name: Listed())

    ended, out, _ = typed("conv", "--list", *words.format(python=sys.executable).split())

    assert (ended, out) == (code, f"{line}\n")
