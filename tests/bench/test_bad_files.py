"""Every bad file of bench/bad_files.py: one sentence and an exit code, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from bad_files import READERS, BadFile, files

from profkit.cli import main

FILES = {bad.name: bad for bad in files()}
LARGE = (
    *("trace: 60 lists of lists", "trace: empty lists, 30 MB", "trace: an event of empty lists"),
    *("result: 20,000 cells", "nsys: a text of 200 MB"),
)
"""Seconds each; of every kind of trouble in them a smaller file is in the quick tier."""
LONGEST_SENTENCE = 500


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full) if name in LARGE else name for name in FILES]
)
def test_a_bad_file_is_refused_in_one_sentence_or_does_no_harm(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad: BadFile = FILES[name]
    path, written = tmp_path / f"file{bad.ending}", tmp_path / "usage.json"
    bad.maker()(path)
    monkeypatch.chdir(tmp_path)
    # What is written of it, too, can be encoded.
    into = ["--json", str(written)] if bad.ending.startswith(".json") else []

    code = main([*READERS.get(bad.ending, ["report"]), str(path), *into])

    out, err = capsys.readouterr()
    sentence = " ".join(err.split()).replace(str(path), "")
    assert code in (1, 2) if bad.words else code == 0
    assert bad.words in sentence
    assert len(sentence) < LONGEST_SENTENCE
    assert all(sign.isprintable() or sign == "\n" for sign in out + err)
    assert written.exists() == (code == 0 and bool(into))
