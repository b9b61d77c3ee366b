"""Weights of networks in files: kept exactly, and refused with names and shapes when they are of something else."""

from __future__ import annotations

import io
import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.capture.run import load_run
from profkit.data import weights as weights_module
from profkit.data.weights import read_weights, write_weights
from profkit.errors import UsageError
from profkit.measurement.network_run import NetworkRequest, run_network
from profkit.ops.networks import LeNet, Mlp, find_network
from tests.support.typed import Typed

safetensors = pytest.importorskip("safetensors.numpy", reason="weights need safetensors")
SMALL = Mlp(batch=4, hidden=1, neurons=6)


def saved(path: Path, trained: str = "after 5 steps in torch", **changes: Any) -> Path:
    """The small network's weights, some of them changed; None leaves one out."""
    arrays = {name: array for name, array in {**SMALL.initial_weights(), **changes}.items() if array is not None}
    with path.open("wb") as stream:
        write_weights(SMALL, arrays, trained, stream)
    return path


def refusal(path: Path, network: Any = SMALL) -> str:
    with pytest.raises(UsageError) as caught:
        read_weights(path, network)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{path.parent}/", "")


def test_they_come_back_as_they_were_with_their_story(tmp_path: Path) -> None:
    path = saved(tmp_path / "w.safetensors")

    found = read_weights(path, SMALL.replaced(batch=64))

    assert found.description == f"{path} (after 5 steps in torch)"
    expected = SMALL.initial_weights()
    assert list(found.arrays) == list(expected)
    assert all(np.array_equal(found.arrays[name], expected[name]) for name in expected)


def test_running_statistics_are_weights_too(tmp_path: Path) -> None:
    network = find_network("wrn_16_8")(batch=2, depth=10, width=1)
    with (tmp_path / "w").open("wb") as stream:
        write_weights(network, network.initial_weights(), "after 0 steps", stream)

    found = read_weights(tmp_path / "w", network).arrays

    states = network.state_shapes()
    assert states and set(states) < set(found)
    assert all(found[name].shape == shape for name, shape in states.items())


def test_other_programs_files_and_other_floats_are_read(tmp_path: Path) -> None:
    arrays = {name: array.astype(np.float16) for name, array in SMALL.initial_weights().items()}
    (tmp_path / "w").write_bytes(safetensors.save(arrays))

    found = read_weights(tmp_path / "w", SMALL)

    assert found.description == str(tmp_path / "w")
    assert all(array.dtype == np.float32 and np.array_equal(array, arrays[n]) for n, array in found.arrays.items())


def test_what_does_not_fit_is_told_with_names_and_both_shapes(tmp_path: Path) -> None:
    path, two = tmp_path / "w", np.zeros((6, 7, 2), np.float32)
    fields = "batch 4, hidden 1, neurons 6, halving no, inputs 8, outputs 7, start he-by-input"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"output.b": None}, f"w was saved with {fields}: it lacks output.b"),
        ({"more.w": two}, "it has more.w, which mlp does not have"),
        ({"output.w": two}, "has output.w as [6, 7, 2], this network takes [6, 7]"),
        ({"output.b": np.zeros(7, np.int32)}, "w has output.b as I32, expected F64 or F32 or F16"),
        ({"output.b": np.full(7, np.nan, np.float32)}, "w has numbers in output.b that are infinite or not a number"),
    ]
    for changes, said in cases:
        assert said in refusal(saved(path, **changes)), said
    assert "lacks hidden2.w, hidden2.b, hidden3.w, hidden3.b and 2 more" in refusal(saved(path), Mlp(hidden=4))
    sentence = refusal(saved(path), LeNet())
    assert sentence.startswith("w is of mlp, and this is lenet: it lacks conv1.w, conv1.b, conv2.w, conv2.b and 4 more")
    assert "has hidden1.b, hidden1.w, which lenet does not have" in sentence


def test_damaged_and_foreign_files_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = saved(tmp_path / "w").read_bytes()
    head = json.dumps({"a": {"dtype": "F32", "shape": [1 << 60], "data_offsets": [0, 1 << 62]}}).encode()
    contents = {
        b"": "its header has 0 of 0 bytes",
        b"hello, this is a text": "its header has 8,367,736,964,726,416,744 of 21 bytes",
        whole[:-5]: "or is damaged",
        whole[:40]: "its header has",
        struct.pack("<Q", len(head)) + head: "or is damaged",
        struct.pack("<Q", 12) + b'{"a": [[[[[[': "or is damaged",
    }
    for content, said in contents.items():
        (tmp_path / "w").write_bytes(content)
        sentence = refusal(tmp_path / "w")
        assert said in sentence and "is not a file of weights (safetensors), or is damaged" in sentence
    os.truncate(tmp_path / "w", 1 << 40)
    monkeypatch.setattr(weights_module, "MOST_HEADER", 10)
    assert "its header has 12 of 1,099,511,627,776 bytes" in refusal(tmp_path / "w")
    os.mkfifo(tmp_path / "pipe")
    assert "is not a regular file" in refusal(tmp_path / "pipe")
    assert "cannot read nowhere: No such file" in refusal(tmp_path / "nowhere")


def test_a_network_is_trained_saved_and_used_again(tmp_path: Path, typed: Typed) -> None:
    file, run, small = tmp_path / "w.safetensors", tmp_path / "run.profkit", ("--batch", 8, "--hidden", 1)
    words = ["network", "mlp", "--framework", "numpy", "--threads", 1, "--steps", 1, "--no-baseline", *small]

    learned = typed.shows(*words, "--learn-steps", 40, "--save-weights", file)
    used = typed.shows(*words, "--weights", file, "--learn-steps", 1, "--output", run)

    story = "after 40 steps in numpy on synthetic data shaped as Shuttle (patterns under noise, seed 0)"
    assert f"weights of {file} ({story})" in " ".join(used.split())
    assert "learned for 40 steps" in " ".join(learned.split())
    again = load_run(run)
    assert again.weights == f"{file} ({story})" and again.status == "ok"
    # It begins where the other one ended, not where its seed does.
    fresh = Mlp(batch=8, hidden=1).initial_weights()
    kept = read_weights(file, Mlp(batch=8, hidden=1)).arrays
    assert not np.array_equal(kept["output.w"], fresh["output.w"])
    assert again.learning["losses"][0] < 1.5


def test_training_steps_change_what_is_saved_and_each_framework_has_its_file(tmp_path: Path, typed: Typed) -> None:
    words = ["network", "mlp", "--framework", "numpy,native", "--threads", 1, "--steps", 1, "--no-baseline"]

    typed.shows(*words, "--batch", 8, "--hidden", 1, "--training", "--save-weights", tmp_path / "w.st")

    assert {path.name for path in tmp_path.iterdir()} == {"w.numpy.st", "w.native.st"}
    network = Mlp(batch=8, hidden=1)
    one, other = (read_weights(tmp_path / f"w.{name}.st", network).arrays for name in ("numpy", "native"))
    assert not np.array_equal(one["output.w"], network.initial_weights()["output.w"])
    assert all(array.shape == other[name].shape for name, array in one.items())


def test_a_file_that_cannot_be_written_costs_the_run_its_status_only(tmp_path: Path) -> None:
    request = NetworkRequest(SMALL, "numpy", steps=1, is_training=True, save_weights=str(tmp_path / "none" / "w"))

    run = run_network(request)

    assert run.status == "failed" and f"{tmp_path}/none/w" in run.reason
    assert run.step_ns and run.captures


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--save-weights", "w"], "--save-weights: nothing is trained; add --learn-steps 100, --learn 60s or --train"),
        (["--learn-steps", "0"], "--learn-steps takes a number from 1 on, got 0"),
        (["--weights", "nowhere.st"], "cannot read nowhere.st: No such file"),
        (["--save-weights", "no/such/w", "--training"], "there is no folder no/such"),
        (["--weights", "README.md", "--save-weights", "README.md", "--training"], "README.md is read by this command"),
    ],
)
def test_wrong_words_are_told_before_anything_runs(words: list[str], message: str, typed: Typed) -> None:
    assert message in typed.refuses("network", "mlp", *words)


def test_a_file_holds_no_more_than_the_weights_and_their_story() -> None:
    stream = io.BytesIO()
    write_weights(SMALL, SMALL.initial_weights(), "after 1 step", stream)

    length = struct.unpack("<Q", stream.getvalue()[:8])[0]
    assert len(stream.getvalue()) == 8 + length + 4 * SMALL.parameter_count()
