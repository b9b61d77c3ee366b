"""`profkit max-batch`: words in; a table of evidence, files and exit codes out. One search in torch is real."""

from __future__ import annotations

import csv
import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import profkit
from profkit import cli
from profkit.errors import UsageError
from profkit.measurement.largest_batch import search
from profkit.measurement.largest_batch.fit import BlockRecord
from profkit.measurement.largest_batch.request import OOM, PLAIN, MaxBatchRequest, Trial
from profkit.measurement.largest_batch.trial import Outcome
from profkit.ops.networks import NETWORKS, Mlp
from tests.support.typed import Typed

MIB = 1 << 20


class Trials:
    """Stands in for processes: 100 MiB before the model, 10 MiB and a MiB per row of it."""

    def __init__(self) -> None:
        self.requests: list[MaxBatchRequest] = []
        self.failure: BaseException | None = None

    def __call__(self, request: MaxBatchRequest, batch: int, role: str, limit: int, reserve: int) -> Outcome:
        self.requests.append(request)
        if self.failure is not None and len(self.requests) > 2:
            raise self.failure
        held = (110 + batch + (20 if role == PLAIN else 0)) * MIB
        if held > limit:
            return Outcome(Trial(batch, role, OOM, "too much"), None, {})
        record = BlockRecord(
            np.array([5 * MIB, batch * MIB // 2, -batch * MIB // 2]), np.array([0, 1, 1]), ["", "relu", "relu"], 1
        )
        trial = Trial(batch, role, base_bytes=100 * MIB, resident_bytes=held, allocator_bytes=record.peak_bytes)
        return Outcome(trial, record, {"version": "9.9"})


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> Trials:
    fake = Trials()
    monkeypatch.setattr(search, "run_trial", fake)
    return fake


def test_the_table_is_the_evidence(trials: Trials, typed: Typed) -> None:
    text = typed.says("max-batch", "mlp", "--training", "--framework", "torch", "--memory", "310MiB")

    assert text.startswith(
        "mlp: 200 is the largest batch that trains with MALLOC_MMAP_THRESHOLD_=131072; 204 does not fit"
    )
    assert "200 predicted 105 MiB 105 MiB +0.0% 210 MiB 210 MiB +0.0% 310 MiB 0 B ok" in text
    assert "batch 204 oom too much" in text
    assert "torch 9.9 (eager)" in text and "limit 310 MiB resident (--memory)" in text
    assert "from batch 1: 5.00 MiB + batch x 512 KiB, at relu" in text
    assert "plain: without MALLOC_MMAP_THRESHOLD_=131072, batch 200 did not fit" in text


def test_files_have_the_numbers(trials: Trials, typed: Typed, tmp_path: Path) -> None:
    files = {kind: tmp_path / f"found.{kind}" for kind in ("json", "csv", "markdown")}
    words = [word for kind, path in files.items() for word in (f"--{kind}", path)]

    typed.shows("max-batch", "mlp", "--framework", "torch", "--memory", "310MiB", *words)

    found = json.loads(files["json"].read_text())
    rows = list(csv.DictReader(files["csv"].read_text().splitlines()))
    assert (found["schema"], found["largest"], found["limit_bytes"]) == ("profkit.max-batch/1", 200, 310 * MIB)
    assert found["fit"]["allocator"]["pieces"][0]["where"] == "relu" and "batch" not in found["network"]
    (predicted,) = (trial for trial in found["trials"] if trial["role"] == "predicted")
    assert predicted["growth_bytes"] == predicted["growth_predicted_bytes"] == 210 * MIB
    assert [row["role"] for row in rows] == [trial["role"] for trial in found["trials"]]
    assert [row["resident_bytes"] for row in rows if row["role"] == "predicted"] == [str(310 * MIB)]
    assert files["markdown"].read_text().startswith("### mlp: 200 is the largest batch that infers")


def test_how_it_trains_and_runs_can_be_said(trials: Trials, typed: Typed) -> None:
    words = ["--optimizer", "adam", "--hidden", "20,10", "--precision", "10%", "--steps", "4", "--threads", "1"]
    words += ["--no-steady-heap"]

    typed.shows("max-batch", "mlp", "--training", "--framework", "torch:channels_last", "--memory", "310MiB", *words)

    request = trials.requests[0]
    assert (request.network, request.mode, request.threads) == (Mlp(hidden=(20, 10)), "channels_last", 1)
    assert (request.is_training, request.training.optimizer, request.precision) == (True, "adam", 0.1)
    assert (request.steps, request.memory_bytes, request.has_steady_heap) == (4, 310 * MIB, False)


def test_the_function_of_the_same_name_finds_the_same(trials: Trials) -> None:
    found = profkit.max_batch("mlp", memory="310MiB", is_training=True)

    module: Any = importlib.import_module("profkit.max_batch")
    assert module("mlp", memory=310 * MIB).largest == found.largest == 200
    assert repr(found).startswith("mlp: 200 is the largest batch that trains")
    assert "<table" in found._repr_html_()
    with pytest.raises(UsageError, match="no option 'precison'; did you mean precision"):
        profkit.max_batch("mlp", precison=0.1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["resnet5"], "unknown network 'resnet5'; did you mean resnet50"),
        ([], "name a network: "),
        (["mlp", "--memory", "4"], "expected a size with its unit, such as 4GiB or 512MiB, got '4'"),
        (["mlp", "--memory", "much"], "expected a size such as 4GiB"),
        (["mlp", "--memory", "2PiB"], "expected a size such as 4GiB"),
        (["mlp", "--memory", "900TiB"], "this machine has"),
        (["mlp", "--memory", "0GiB"], "above zero"),
        (["vgg16", "--training", "--memory", "1GiB"], "vgg16 takes at least"),
        (["mlp", "--framework", "pytorch"], "unknown framework 'pytorch'; did you mean torch?"),
        (["mlp", "--framework", "torch:graph"], "unknown torch mode 'graph'"),
        (["mlp", "--batch", "8"], "--batch is what profkit max-batch finds"),
        (["mlp", "--steps", "1"], "--steps takes a number from 2 on"),
        (["mlp", "--threads", "1000"], "threads 1000: this process may use"),
        (["mlp", "--neurons", "5,6", "--memory", "1GiB"], "one value at a time"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_wrong_words_get_a_sentence(words: list[str], message: str, typed: Typed) -> None:
    assert message in typed.refuses("max-batch", *words)


def test_a_framework_that_cannot_says_why(typed: Typed) -> None:
    words = ["max-batch", "mlp", "--training", "--framework", "onnxruntime", "--memory", "1GiB"]

    assert "the onnxruntime package runs inference only" in typed.refuses(*words, code=1)


def test_ctrl_c_shows_what_was_measured(trials: Trials, typed: Typed) -> None:
    trials.failure = KeyboardInterrupt()

    code, out, _ = typed("max-batch", "mlp", "--framework", "torch", "--memory", "310MiB")

    assert code == 130
    assert "no batch was found that infers: interrupted, stopped by the user" in out and out.count(" small ") == 2


def test_a_search_that_fails_ends_with_code_1_and_what_ran(
    trials: Trials, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(request: MaxBatchRequest, batch: int, role: str, limit: int, reserve: int) -> Outcome:
        if role == "predicted":
            return Outcome(Trial(batch, role, "timeout", "late"), None, {})
        return trials(request, batch, role, limit, reserve)

    monkeypatch.setattr(search, "run_trial", late)

    text = typed.says("max-batch", "mlp", "--framework", "torch", "--memory", "310MiB", code=1)

    assert "194 is the largest batch that infers with MALLOC_MMAP_THRESHOLD_=131072; 388 does not fit" in text
    assert "(timeout: batch 200: late)" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": float("nan")}, "precision must be a share below 1"),
        ({"timeout_s": 0}, "timeout_s must be positive"),
        ({"memory_bytes": 1 << 30}, "no option 'memory_bytes'; did you mean memory"),
        ({"threads": 0}, "threads 0: this process may use"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_wrong_options_of_the_function_get_a_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        profkit.max_batch("mlp", **options)


def test_nothing_that_fits_ends_with_code_1(trials: Trials, typed: Typed) -> None:
    assert "no batch was found" in typed.shows("max-batch", "mlp", "--framework", "torch", "--memory", "100MiB", code=1)


def test_no_network_has_a_flag_that_the_command_has() -> None:
    for kind in (None, *NETWORKS.values()):
        importlib.import_module("profkit.max_batch").build_parser(kind)


def test_a_network_in_torch_is_predicted_and_confirmed(typed: Typed) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    words = ["--memory", "450MiB", "--precision", "50%", "--threads", "1"]

    found = typed.json("max-batch", "cifar10", "--crop", "24", "--filters", "16", "--training", *words)

    ran = [trial for trial in found["trials"] if trial["status"] == "ok" and trial["role"] != PLAIN]
    failed = [trial for trial in found["trials"] if trial["status"] == OOM and trial["role"] != PLAIN]
    assert found["largest"] == max(trial["batch"] for trial in ran) and found["predicted"] > 2 * ran[0]["batch"]
    assert all(trial["resident_bytes"] <= 450 * MIB for trial in ran) and failed
    assert all(abs(trial["allocator_error"]) < 0.05 and abs(trial["growth_error"]) < 0.10 for trial in ran)
    assert found["too_large"] == min(trial["batch"] for trial in failed)
    assert found["fit"]["allocator"]["how"].startswith("a line for each of ")


@pytest.mark.full
@pytest.mark.parametrize(
    ("framework", "limit"),
    [("numpy", 250), ("tensorflow", 1500), ("jax", 1500)],
    ids=["numpy", "tensorflow", "jax"],
)
def test_a_framework_without_an_allocators_record_is_searched_by_resident_memory(
    framework: str, limit: int, typed: Typed
) -> None:
    pytest.importorskip(framework, reason=f"{framework} is not installed")
    words = ["--framework", framework, "--memory", f"{limit}MiB", "--precision", "50%", "--threads", "1"]

    found = typed.json("max-batch", "cifar10", "--crop", "24", *words)

    ran = [trial for trial in found["trials"] if trial["status"] == "ok"]
    assert found["fit"]["allocator"] is None and found["largest"] == max(trial["batch"] for trial in ran)
    assert all(trial["resident_bytes"] <= limit * MIB for trial in ran)
    assert any("above" in trial["reason"] for trial in found["trials"] if trial["status"] == OOM)


@pytest.mark.full
@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_states_of_the_optimiser_are_predicted(optimizer: str, typed: Typed) -> None:
    words = ["--framework", "torch", "--memory", "600MiB", "--precision", "50%", "--optimizer", optimizer]

    found = typed.json("max-batch", "lenet", "--training", *words)

    (predicted,) = (trial for trial in found["trials"] if trial["role"] == "predicted")
    assert predicted["status"] == "ok"
    assert abs(predicted["allocator_error"]) < 0.05 and abs(predicted["growth_error"]) < 0.10


def test_the_command_is_named_with_a_hyphen() -> None:
    assert "max-batch" in cli.commands() and "max_batch" not in cli.commands()
