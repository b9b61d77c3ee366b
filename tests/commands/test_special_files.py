"""Pipes, devices, loops and files of odd names, as input and in the cache folder; a disk that is full: one sentence."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profkit import cli
from profkit.capture.atomic_write import atomic_write
from profkit.capture.run import save_run
from profkit.frameworks.environments import FOREIGN, RECORD, look
from profkit.frameworks.native.tuned import Choice, keep_choices, read_choices, tuned_file
from profkit.measurement import kernel_times
from profkit.measurement.peaks import read_known, write_known
from profkit.measurement.statistics.noise_floor import keep_floors, machine_floor
from tests.capture.network_captures import network_capture, op, recording_of

LONGEST_SENTENCE = 500


def socket_at(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket has at most 108 bytes
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.name)
    os.chdir(here)


SPECIAL: dict[str, Callable[[Path], Any]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path.name),
    "folder": Path.mkdir,
    "socket": socket_at,
}
DAMAGED: dict[str, Callable[[Path], Any]] = {
    **SPECIAL,
    "nested": lambda path: path.write_text("[" * 200_000),
    "digits": lambda path: path.write_text('{"a": 1' + "0" * 5000 + "}"),
    "long": lambda path: path.write_text("{}" + " " * (17 << 20)),
    "no text": lambda path: path.write_bytes(b'{"\xff": 1}'),
    "other types": lambda path: path.write_text(
        '{"schema": "profkit.tuned/1", "choices": [1, {"key": 2}, {"key": "a/b/c", "spec": {}, "threads": 1, '
        '"fingerprint": {"a": [1]}, "tuning": {"mc": true}, "measured": {}}], "requirements": 5, '
        '"x": {"flops_per_s": "1", "bytes_per_s": {}, "quiet": [], "key": [], "native_ns": {}, "load": "much"}}'
    ),
}


@pytest.fixture
def run_path(tmp_path: Path) -> Path:
    path = tmp_path / "run.profkit"
    save_run(network_capture(recording_of(op("a", 10, 80), steps=[(0, 100)])), path)
    return path


@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_file_is_refused_by_every_command(
    kind: str, run_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for ending in ("", ".toml", ".py"):
        SPECIAL[kind](tmp_path / f"special{ending}")
    path = str(tmp_path / "special")

    for words in (
        ["report", path],
        ["query", path, "--tables"],
        ["export", path, "--folded", str(tmp_path / "f")],
        ["compare", str(run_path), path],
        ["compare", path, str(run_path)],
        ["study", f"{path}.toml", "--show"],
        ["softmax", "--candidate", f"{path}.py"],
    ):
        assert cli.main(words) in (1, 2), words
        assert len(capsys.readouterr().err) < LONGEST_SENTENCE


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_files_of_the_cache_folder_are_empty_ones(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path))
    foreign = next(iter(FOREIGN.values()))
    record = tmp_path / "environments" / foreign.name / RECORD
    record.parent.mkdir(parents=True)
    for path in (*(tmp_path / f"{name}.json" for name in ("noise", "peaks", "kernels", "tuned")), record):
        DAMAGED[kind](path)

    assert machine_floor()[1] == "assumed"
    assert read_known(tmp_path / "peaks.json") == {}
    assert kernel_times._read(tmp_path / "kernels.json") == {}
    assert (read_choices().choices or "ignored") == "ignored" in read_choices().problem
    assert RECORD in look(foreign).trouble


def test_a_disk_that_is_full_leaves_the_cache_folder_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path))
    choice = Choice("softmax/native/cpu/rows", {}, 1, {}, {}, {})
    keep_choices([choice])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def is_full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", is_full)
    write_known(tmp_path / "peaks.json", {"a": {}})
    keep_floors(0.01, None)
    with pytest.raises(OSError, match="No space left"):
        keep_choices([choice])

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert read_choices(tuned_file()).choices == [choice]


@pytest.mark.parametrize("name", [b"bad\xff.profkit", b"two\nlines\x1b[31m.profkit", b"=1+1.profkit"])
def test_a_file_may_have_any_name(name: bytes, run_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = os.fsdecode(os.fsencode(run_path.parent) + b"/" + name)
    os.rename(run_path, path)
    target = run_path.parent / "answer"

    for words in (
        ["report", path, "--json", str(target), "--markdown", str(target.with_suffix(".md"))],
        ["query", path, "select path from capture", "--csv", str(target)],
        ["query", path, "select path from capture"],
        ["export", path, "--chrome", str(target), "--perfetto", f"{target}.pftrace", "--folded", f"{target}.folded"],
        ["export", path, "--parquet", str(target.with_suffix(".tables"))],
        ["compare", path, path, "--json", str(target)],
    ):
        assert cli.main(words) == 0, words
        target.read_bytes().decode("utf-8")

    assert not any(sign in "".join(capsys.readouterr()) for sign in "\x1b\udcff")


@pytest.mark.parametrize(
    "words",
    [
        ["query", "run.profkit", "select * from ranges", "--csv", "out"],
        ["query", "run.profkit", "select * from ranges", "--json", "out"],
        ["query", "run.profkit", "select * from ranges", "--parquet", "out"],
        ["export", "run.profkit", "--parquet", "out"],
        ["export", "run.profkit", "--chrome", "out"],
        ["report", "run.profkit", "--csv", "out"],
    ],
    ids=lambda words: f"{words[0]} {words[-2]}",
)
def test_what_finds_no_room_names_its_file_and_leaves_nothing(words: list[str], run_path: Path) -> None:
    limit = (100, 100)
    code = "import sys; from profkit.cli import main; sys.exit(main(sys.argv[1:]))"

    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        check=False,
        cwd=run_path.parent,
        # Python leaves 100 bytes of the bytecode that it writes, too, and nothing could import them.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    assert done.stderr.startswith(f"profkit {words[0]}: could not write out")
    assert done.stderr.endswith(f": {os.strerror(errno.EFBIG)}\n")
    assert [path.name for path in run_path.parent.iterdir()] == [run_path.name]


def test_too_little_memory_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(words: object) -> int:
        raise MemoryError

    assert cli.guarded("report", run, []) == 1
    assert capsys.readouterr().err == "profkit report: there is not enough memory for this\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_unfinished_file(
    number: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(number)

    def run(words: object) -> int:
        with atomic_write(tmp_path / "out") as stream:
            stream.write(b"half")
            signal.raise_signal(number)
        return 0

    signal.signal(number, signal.SIG_DFL)
    try:
        code = cli.guarded("export", run, [])
        after = signal.getsignal(number)
    finally:
        signal.signal(number, before)

    assert (code, list(tmp_path.iterdir()), after) == (128 + number, [], signal.SIG_DFL)
    assert capsys.readouterr().err == f"profkit export: ended by {number.name}\n"


def test_what_is_read_is_never_written_over(run_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, link, script = str(run_path), tmp_path / "link", tmp_path / "script.py"
    link.symlink_to(run_path)
    script.write_text("def softmax(x, threads):\n    return x\n")
    before = {path: path.read_bytes() for path in (run_path, script)}

    for words in (
        ["report", run, "--json", run],
        ["report", run, "--csv", str(link)],
        ["export", str(link), "--chrome", run],
        ["export", run, "--folded", run],
        ["query", run, "select 1", "--csv", run],
        ["compare", run, run, "--json", run],
        ["trace", "--json", str(script), str(script)],
        ["softmax", "--candidate", f"{script}:softmax", "--json", str(script)],
    ):
        assert cli.main(words) == 2, words
        assert "is read by this command" in " ".join(capsys.readouterr().err.split())

    assert {path: path.read_bytes() for path in before} == before
