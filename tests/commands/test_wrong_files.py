"""Files that hold nothing for profkit: every command refuses them with the same sentence and the same exit code."""

from __future__ import annotations

import gzip
import sqlite3
from pathlib import Path

import pytest

from profkit.capture.run import save_run
from tests.capture.network_captures import network_capture, op, recording_of
from tests.support.typed import Typed

NOT_WHOLE = "cannot be read as a trace: "
EVENT = b'{"traceEvents": [{"ph": "X", "ts": 1, "dur": %d, "cat": "%s", "name": "k"}]%s}'
WRONG: dict[str, tuple[bytes, int, str]] = {
    "newer.json": (b'{"schema": "profkit.result/2", "runs": []}', 1, "was written by a newer profkit"),
    "cut.json": (b'{"schema": "profkit.result/1", "cells": [', 1, "is a damaged result"),
    "usage.json": (b'{"schema": "profkit.usage/1", "rows": []}', 2, "give the capture or the result"),
    "foreign.json": (b'{"hello": 1}', 2, "is JSON without events"),
    "no-events.json": (b"{}", 2, "is JSON without events"),
    "begun.json": (b"{", 2, f"{NOT_WHOLE}it ends too early"),
    "list.json": (b"[]", 2, "whose schema is profkit.result/1"),
    "chrome.json": (EVENT % (1, b"v8", b""), 2, "is a Chrome trace, but none of its 1 events"),
    "negative.json": (EVENT % (-1, b"kernel", b""), 2, "1 with a negative duration"),
    "base.json": (
        EVENT % (1, b"cpu_op", b', "baseTimeNanoseconds": "x"'),
        2,
        "baseTimeNanoseconds must be a time in nanoseconds, not 'x'",
    ),
    "broken.json": (b'{"traceEvents": [{', 2, f"{NOT_WHOLE}it ends too early"),
    "ended.json": (b'{"traceEvents": [', 2, f"{NOT_WHOLE}it ends too early"),
    "no.json": (b'{"traceEvents": [{]}', 2, "it is not JSON"),
    "numbers.json": (b'{"traceEvents": [1, 2]}', 2, "no event of this trace can be used: 2 no object"),
    "wrong-type.json": (b'{"traceEvents": 7}', 2, "its 'traceEvents' is not an array"),
    "object.json": (b'{"traceEvents": {}}', 2, "its 'traceEvents' is not an array"),
    "deep.json": (b"[" * 100_000, 2, "nested too deep"),
    "digits.json": (b'{"a": ' + b"9" * 10_000 + b"}", 2, "number is too long"),
    "no-json.gz": (gzip.compress(b"hello"), 2, ""),
    "cut.gz": (gzip.compress(b'{"traceEvents": []}')[:12], 2, ""),
    "garbage.gz": (b"\x1f\x8b" + bytes(range(200)), 2, ""),
    "text.txt": (b"hello\n" * 50, 1, "is not a profkit capture"),
    "other.zip": (b"PK\x03\x04" + bytes(60), 1, "is not the run of a network, or is damaged"),
    "short.sqlite": (b"SQLite format 3\x00", 2, "short.sqlite"),
    "garbage.sqlite": (b"SQLite format 3\x00" + bytes(range(200)) * 50, 2, ""),
    "run.nsys-rep": (bytes(range(200, 250)), 2, "`nsys export --type sqlite run.nsys-rep` makes a file"),
    "run.qdrep": (bytes(range(200, 250)), 2, "`nsys export --type sqlite run.qdrep` makes a file"),
    "empty": (b"", 1, "is empty"),
}


def refused(path: Path, code: int, typed: Typed) -> str:
    """What all commands say of this file."""
    pytest.importorskip("duckdb", reason="profkit query needs DuckDB")
    asked: dict[str, list[object]] = {
        "report": [path],
        "export": [path, "--chrome", path.parent / "t.json"],
        "compare": [path, path],
        "query": [path, "select 1"],
    }
    (sentence,) = {
        typed.refuses(command, *words, code=code).removeprefix(f"profkit {command}: ")
        for command, words in asked.items()
    }
    assert path.name in sentence
    assert not (path.parent / "t.json").exists()
    return sentence


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_gets_the_same_sentence_from_every_command(name: str, tmp_path: Path, typed: Typed) -> None:
    content, code, said = WRONG[name]
    (tmp_path / name).write_bytes(content)

    assert said in refused(tmp_path / name, code, typed)


def test_so_do_another_database_a_run_cut_short_a_folder_and_a_file_that_is_not_there(
    tmp_path: Path, typed: Typed
) -> None:
    with sqlite3.connect(tmp_path / "cats.sqlite") as database:
        database.execute("create table cats (name)")
    database.close()
    save_run(network_capture(recording_of(op("x", 0, 5))), tmp_path / "whole")
    (tmp_path / "cut.profkit").write_bytes((tmp_path / "whole").read_bytes()[:300])
    (tmp_path / "folder").mkdir()

    sentence = refused(tmp_path / "cats.sqlite", 2, typed)
    assert "not an export of Nsight Systems: " in sentence and "`nsys export --type sqlite" in sentence
    assert "is not the run of a network, or is damaged" in refused(tmp_path / "cut.profkit", 1, typed)
    assert refused(tmp_path / "folder", 1, typed)
    assert "no such file" in refused(tmp_path / "absent", 1, typed)
