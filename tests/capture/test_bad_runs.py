"""Files of runs with wrong values: each is refused in a sentence, or does no harm in any command."""

from __future__ import annotations

import copy
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from profkit.capture.run import Run, load_run, save_run
from profkit.errors import CaptureError
from tests.capture.network_captures import layer, network_capture, op, pool, recording_of
from tests.support.typed import Typed

VALUES: list[Any] = [None, -1, {"a": 1}]
MORE_VALUES: list[Any] = [
    1.5, "text", ["a"],
    True, 7, 1 << 62, 1e308, float("nan"), "\x1b[31m\u202e", "\ud800", [], [-5], [[1]], {}, {"a": {"b": []}},
]  # fmt: skip
PLACES = ["run.json", "captures/0/about.json"]


def in_full(value: Any) -> Any:
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
        learning={"steps": 2, "seconds": 0.5, "losses": [2.3, 2.1], "test_error": 0.9, "test_count": 100},
        baseline=[row, {**row, "phase": "backward", "native_ns": None, "native_key": None, "parts": []}],
        environment={"cpu": "a machine", "cpus_usable": [0, 1], "load": [0.1, 0.1, 0.1]},
        processes=[
            {"steps": 6, "recorded": {"time": 2}, "captures": 1, "machine": {"others_share": 0.01, "load": 0.1}}
        ],
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


Harmless = Callable[[str, bytes], None]


@pytest.fixture
def harmless(entries: dict[str, bytes], tmp_path: Path, typed: Typed) -> Harmless:
    """Takes another content of one entry: the run is refused, or every command that reads it ends with an exit code."""
    good = written(tmp_path / "good.profkit", entries)

    def check(name: str, content: bytes) -> None:
        path = written(tmp_path / "bad.profkit", {**entries, name: content})
        sentence = refusal(path)
        if sentence:
            assert "\n" not in sentence
            assert len(sentence) < 600
            return
        for words in (["report", path], ["compare", path, good]):
            code, out, err = typed(*words)
            assert code in (0, 1, 2)
            assert not any(sign in out + err for sign in "\x1b\u202e\ud800")

    return check


@pytest.mark.parametrize("value", [*VALUES, *(in_full(value) for value in MORE_VALUES)], ids=ascii)
@pytest.mark.parametrize("name", PLACES)
def test_a_wrong_value_in_any_field_is_refused_or_does_no_harm(
    name: str, value: Any, entries: dict[str, bytes], harmless: Harmless
) -> None:
    about = json.loads(entries[name])

    for place in places_in(about):
        harmless(name, json.dumps(changed(about, place, value)).encode())


@pytest.mark.parametrize("name", PLACES)
def test_a_missing_or_strange_field_is_refused_or_does_no_harm(
    name: str, entries: dict[str, bytes], harmless: Harmless
) -> None:
    about = json.loads(entries[name])

    for field in about:
        data = {each: value for each, value in about.items() if each != field}
        for content in (data, {**about, f"{field}\x1b": 1}):
            harmless(name, json.dumps(content).encode())


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("processes", [{"steps": 0, "recorded": {}, "captures": 0, "machine": {}}] * 2000, "2,000 processes"),
        ("network", {"network": "mlp", "batch": 1, "hidden": 1 << 40, "neurons": 1}, "more than 1,000 layers"),
        ("network", {"network": "mlp" * 1_000_000}, "unknown network 'mlpmlp"),
        ("network", {"network": "mlp", "hidden" * 500_000: 1}, "hiddenhidden"),
    ],
    ids=["processes", "layers", "network", "field"],
)
def test_what_would_take_for_ever_is_refused(
    field: str, value: Any, words: str, entries: dict[str, bytes], tmp_path: Path
) -> None:
    about = {**json.loads(entries["run.json"]), field: value}

    sentence = refusal(written(tmp_path / "bad.profkit", {**entries, "run.json": json.dumps(about).encode()}))

    assert words in sentence and len(sentence) < 600


def test_the_run_itself_is_shown(entries: dict[str, bytes], tmp_path: Path, typed: Typed) -> None:
    good = written(tmp_path / "good.profkit", entries)

    typed.shows("report", good)
    typed.shows("compare", good, good)


@pytest.mark.parametrize("number", [-(1 << 63), *map(in_full, [99, (1 << 63) - 1, 1 << 61, -2, 0])])
def test_a_wrong_number_in_any_column_is_refused_or_does_no_harm(
    number: int, entries: dict[str, bytes], harmless: Harmless
) -> None:
    rows = {"threads": 2, "ranges": 4, "steps": 2}

    for table, columns in json.loads(entries["captures/0/about.json"])["columns"].items():
        for column in columns:
            name = f"captures/0/{table}/{column}"
            data = entries[name]
            size = len(data) // rows[table]
            bits = (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            for row in range(rows[table]):
                harmless(name, data[: row * size] + bits + data[(row + 1) * size :])
