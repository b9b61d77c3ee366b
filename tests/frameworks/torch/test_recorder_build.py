"""The native recorder is compiled once per torch, Python and compiler; where that fails Kineto stands in, aloud."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from profkit.errors import UnavailableError
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.torch import build as torch_build
from profkit.frameworks.torch.build import MODULE, RecorderBuild, is_sealed, load_recorder, seal
from profkit.frameworks.torch.events import CHOICE, record_events
from profkit.ops.networks import Mlp
from tests.frameworks.events.source_checks import recorded

torch = pytest.importorskip("torch", reason="torch is not installed")

LOAD = "from profkit.frameworks.torch.build import load_recorder; import torch; print(load_recorder().__file__)"


@pytest.fixture(scope="module")
def built() -> str:
    """The recorder that other tests use, too."""
    return str(load_recorder().__file__)


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder, and nothing loaded."""
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield tmp_path
    sys.modules.pop(MODULE, None)


def write_compiler(path: Path, body: str) -> str:
    """A program that answers as a compiler does and notes its calls beside itself."""
    log = path.with_suffix(".log")
    text = f'#!/bin/sh\n[ "$1" = --version ] && echo "test 1.0" && exit 0\necho called >> {log}\n{body}\n'
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def calls_of(compiler: str) -> int:
    log = Path(compiler).with_suffix(".log")
    return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.mark.full
def test_two_processes_at_once_build_it_once_and_a_third_one_uses_it(built: str, fresh: Path) -> None:
    # Compiling it takes a quarter of a minute, and was done for the one that is copied. The target stands behind -o.
    copy = f'while [ "$1" != -o ]; do shift; done; cp {built} "$2"'
    compiler = write_compiler(fresh / "compiler", copy)
    environment = {**os.environ, "PROFKIT_CACHE": str(fresh / "cache"), "CXX": compiler}
    command = [sys.executable, "-c", LOAD]

    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    paths = {process.communicate(timeout=280)[0].strip() for process in both}
    third = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=True)

    assert [process.returncode for process in both] == [0, 0]
    assert paths == {third.stdout.strip()}
    assert calls_of(compiler) == 1
    kept = list((fresh / "cache" / "torch").iterdir())
    assert sorted(path.suffix for path in kept) == [".lock", ".so"]


def test_an_entry_for_another_torch_or_a_damaged_one_is_made_again_and_never_loaded(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[Path] = []

    def imported(path: Path) -> Any:
        loaded.append(path)
        return sys

    def make(build: RecorderBuild, path: Path) -> None:
        path.write_bytes(b"fits")
        seal(path, build.key)

    monkeypatch.setattr(torch_build, "_imported", imported)
    monkeypatch.setattr(RecorderBuild, "make", make)
    path, key = RecorderBuild().path, RecorderBuild().key
    path.parent.mkdir(parents=True)

    for content, seal_key in ((b"of another torch", "another key"), (b"torn", None), (b"", None)):
        path.write_bytes(content)
        if seal_key:
            seal(path, seal_key)
        assert not is_sealed(path, key)
        sys.modules.pop(MODULE, None)
        load_recorder()
        assert is_sealed(path, key)
        assert path.read_bytes().startswith(b"fits")

    assert loaded == [path] * 3


def test_torch_python_compiler_and_sources_are_part_of_the_key(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [RecorderBuild().key, RecorderBuild().key]
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "2.99.0")
        keys.append(RecorderBuild().key)
    with monkeypatch.context() as patch:
        patch.setattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", not torch._C._GLIBCXX_USE_CXX11_ABI)
        keys.append(RecorderBuild().key)
    with monkeypatch.context() as patch:
        patch.setenv("CXX", write_compiler(fresh / "compiler", ""))
        keys.append(RecorderBuild().key)
    with monkeypatch.context() as patch:
        patch.setattr(torch_build, "SOURCES", fresh)
        keys.append(RecorderBuild().key)

    assert keys[0] == keys[1]
    assert len(set(keys)) == 5


def test_without_a_compiler_kineto_records_and_says_so(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(fresh))

    capture = recorded("torch", Mlp(2, 1, 8), "operators", NetworkConditions(1, "eager", True), 1)

    assert capture.recorder == "kineto"
    [note] = capture.facts["notes"]
    assert "Kineto" in note
    assert "no compiler for .cpp files: none of c++, g++, clang++ was found" in note
    assert {"hidden1", "output"} <= set(capture.texts(capture.ranges.layer))


def test_a_compiler_that_fails_or_makes_nonsense_is_told(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = write_compiler(fresh / "failing", 'echo "recorder.cpp:7: error: no such header" >&2; exit 1')
    # The target stands behind -o.
    crashing = write_compiler(
        fresh / "crashing", 'while [ "$1" != -o ]; do shift; done; echo "no library" > "$2"'
    )  # fmt: skip
    monkeypatch.setenv("CXX", failing)

    with pytest.raises(UnavailableError, match=r"could not be compiled: recorder\.cpp:7: error: no such header"):
        load_recorder()
    monkeypatch.setenv("CXX", crashing)
    with pytest.raises(UnavailableError, match="does not fit this torch: ImportError"):
        load_recorder()

    assert not list((fresh / "cache" / "torch").glob("*.so"))
    assert (calls_of(failing), calls_of(crashing)) == (1, 1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda patch: patch.setattr(torch.version, "debug", True), "debug build"),
        (lambda patch: patch.setattr(sys, "platform", "darwin"), "written for Linux"),
        (lambda patch: patch.setenv("CXX", "/no/such/compiler"), r"no compiler: \$CXX is '/no/such/compiler'"),
        (lambda patch: patch.setattr(torch, "__file__", "/nowhere/torch/__init__.py"), "torch's headers are missing"),
    ],
)
def test_what_cannot_be_compiled_says_why(
    change: Any, reason: str, fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        change(patch)
        with pytest.raises(UnavailableError, match=reason):
            RecorderBuild()


def test_asking_for_the_recorder_where_it_cannot_be_is_an_error(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "native")
    monkeypatch.setenv("PATH", str(fresh))

    with pytest.raises(UnavailableError, match="no compiler for"):
        record_events(torch, {}, lambda: None, [])


def test_a_cache_that_cannot_be_written_is_told(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fresh / "file").touch()
    monkeypatch.setenv("PROFKIT_CACHE", str(fresh / "file"))

    with pytest.raises(UnavailableError, match="cannot be stored in"):
        load_recorder()
