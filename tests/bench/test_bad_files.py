"""Every bad file of bench/bad_files.py: one sentence and an exit code, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from bad_files import BadFile, files

from profkit.cli import main

FILES = {bad.name: bad for bad in files()}
LONGEST_SENTENCE = 500


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_refused_in_one_sentence_or_does_no_harm(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad: BadFile = FILES[name]
    path = tmp_path / f"file{bad.ending}"
    bad.maker()(path)
    monkeypatch.chdir(tmp_path)

    code = main(["study", str(path), "--show"] if bad.ending == ".toml" else ["report", str(path)])

    out, err = capsys.readouterr()
    sentence = " ".join(err.split()).replace(str(path), "")
    assert code in (1, 2) if bad.words else code == 0
    assert bad.words in sentence
    assert len(sentence) < LONGEST_SENTENCE
    assert all(sign.isprintable() or sign == "\n" for sign in out + err)


@pytest.mark.parametrize("name", [name for name in FILES if FILES[name].ending.startswith(".json")])
def test_what_is_written_of_a_bad_trace_can_be_encoded(name: str, tmp_path: Path) -> None:
    bad = FILES[name]
    path = tmp_path / f"file{bad.ending}"
    bad.maker()(path)

    code = main(["report", str(path), "--json", str(tmp_path / "usage.json")])

    assert (tmp_path / "usage.json").exists() == (code == 0)
