"""Files of runs with wrong values: each is refused in a sentence, or does no harm in any command."""

from __future__ import annotations

import copy
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from profkit import compare, report
from profkit.capture.run import Run, load_run, save_run
from profkit.errors import CaptureError
from tests.capture.network_captures import layer, network_capture, op, pool, recording_of

VALUES: list[Any] = [None, -1, 1.5, "text", ["a"], {"a": 1}]
MORE_VALUES: list[Any] = [
    True, 7, 1 << 62, 1e308, float("nan"), "\x1b[31m\u202e", "\ud800", [], [-5], [[1]], {}, {"a": {"b": []}},
]  # fmt: skip
PLACES = ["run.json", "captures/0/about.json"]


def in_full(value: Any) -> Any:
    """A parameter of the full tier."""
    return pytest.param(value, marks=pytest.mark.full)


def whole_run() -> Run:
    """A run with something in every field."""
    row = {
        "layer": "conv1", "phase": "forward", "kind": "conv2d", "threads": 1, "native_ns": 50.0, "one_thread_ns": 50.0,
        "native_key": "conv2d/native/cpu/direct", "workspace_bytes": 0, "without_kernel": ["bias"],
        "parts": [{"part": "conv", "key": "conv2d/native/cpu/direct", "load": 0.1, "native_ns": 50.0}],
        "flops": 1000, "bytes": 2000, "bound_ns": 10.0, "bound_by": "compute", "native_bound_ns": 10.0,
        "peak_flops_per_s": 1e10, "peak_bytes_per_s": 1e10,
    }  # fmt: skip
    capture = recording_of(
        layer("conv1", 0, 90),
        op("aten::conv2d", 10, 80, layer="conv1", phase="forward", requested_bytes=64),
        pool(20, 60, "helper", owner=1),
        op("aten::relu", 100, 120, layer="conv1", phase="forward", requested_bytes=0),
        steps=[(0, 500), (500, 1000)],
        facts={
            "notes": ["a note"], "peak_bytes": 4096, "layer_kinds": {"conv1": "conv2d"}, "observes_idle": True,
            "observes_dispatch": True,
        },
    )  # fmt: skip
    return network_capture(
        capture,
        is_training=True,
        training={"learning_rate": 0.1, "momentum": 0.0, "weight_decay": True},
        notes=["a note"],
        learning={"steps": 2, "seconds": 0.5, "losses": [2.3, 2.1], "precision": 0.1, "tested": 100},
        baseline=[row, {**row, "phase": "backward", "native_ns": None, "native_key": None, "parts": []}],
        environment={"cpu": "a machine", "cpus_usable": [0, 1], "load": [0.1, 0.1, 0.1], "others_share": 0.01},
    )


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    path = tmp_path_factory.mktemp("run") / "run.profkit"
    save_run(whole_run(), path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(path: Path, entries: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


def places_in(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a JSON value; of a list the first item alone."""
    yield place
    if isinstance(value, dict):
        for name, each in value.items():
            yield from places_in(each, (*place, name))
    elif isinstance(value, list) and value:
        yield from places_in(value[0], (*place, 0))


def changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    made = copy.copy(value)
    made[place[0]] = changed(value[place[0]], place[1:], new)
    return made


def refusal(path: Path) -> str:
    try:
        load_run(path)
    except CaptureError as error:
        return str(error)
    return ""


def check(path: Path, good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused, or every command that reads it ends with an exit code."""
    sentence = refusal(path)
    if sentence:
        assert "\n" not in sentence
        assert len(sentence) < 600
        return
    for main, words in ((report.main, [str(path)]), (compare.main, [str(path), str(good)])):
        assert main(words) in (0, 1, 2)
    shown = "".join(capsys.readouterr())
    assert not any(sign in shown for sign in "\x1b\u202e\ud800")


@pytest.mark.parametrize("value", [*VALUES, *(in_full(value) for value in MORE_VALUES)], ids=ascii)
@pytest.mark.parametrize("name", PLACES)
def test_a_wrong_value_in_any_field_is_refused_or_does_no_harm(
    name: str, value: Any, entries: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = written(tmp_path / "good.profkit", entries)
    about = json.loads(entries[name])

    for place in places_in(about):
        data = json.dumps(changed(about, place, value)).encode()
        check(written(tmp_path / "bad.profkit", {**entries, name: data}), good, capsys)


@pytest.mark.parametrize("name", PLACES)
def test_a_missing_or_strange_field_is_refused_or_does_no_harm(
    name: str, entries: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = written(tmp_path / "good.profkit", entries)
    about = json.loads(entries[name])

    for field in about:
        data = {each: value for each, value in about.items() if each != field}
        for content in (data, {**about, f"{field}\x1b": 1}):
            path = written(tmp_path / "bad.profkit", {**entries, name: json.dumps(content).encode()})
            check(path, good, capsys)


def test_the_run_itself_is_shown(entries: dict[str, bytes], tmp_path: Path) -> None:
    good = written(tmp_path / "good.profkit", entries)

    assert report.main([str(good)]) == 0
    assert compare.main([str(good), str(good)]) == 0


@pytest.mark.parametrize("number", [-(1 << 63), 99, *map(in_full, [(1 << 63) - 1, 1 << 61, -2, 0])])
def test_a_wrong_number_in_any_column_is_refused_or_does_no_harm(
    number: int, entries: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = written(tmp_path / "good.profkit", entries)
    about = json.loads(entries["captures/0/about.json"])
    rows = {"threads": 2, "ranges": 4, "steps": 2}

    for table, columns in about["columns"].items():
        for column in columns:
            data = bytearray(entries[f"captures/0/{table}/{column}"])
            size = len(data) // rows[table]
            for row in range(rows[table]):
                bits = (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")
                wrong = bytes(data[: row * size] + bits + data[(row + 1) * size :])
                path = written(tmp_path / "bad.profkit", {**entries, f"captures/0/{table}/{column}": wrong})
                check(path, good, capsys)
