"""What people type, and what they see of it: words in, the exit code and both outputs out."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from profkit import cli


class Answer(NamedTuple):
    """Of one command."""

    code: int
    out: str
    err: str


class Typed:
    """`profkit words...` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *words: object) -> Answer:
        self.capsys.readouterr()
        code = cli.main([str(word) for word in words])
        return Answer(code, *self.capsys.readouterr())

    def shows(self, *words: object, code: int = 0) -> str:
        """What it prints; it must end with this code."""
        ended, out, err = self(*words)
        assert ended == code, f"exit code {ended}: {err}"
        return out

    def says(self, *words: object, code: int = 0) -> str:
        """The same in one line, so that it does not matter where lines break."""
        return " ".join(self.shows(*words, code=code).split())

    def json(self, *words: object, code: int = 0) -> Any:
        """What it writes into its file."""
        with tempfile.TemporaryDirectory() as folder:
            self.shows(*words, "--json", f"{folder}/answer.json", code=code)
            return json.loads(Path(folder, "answer.json").read_text(encoding="utf-8"))

    def refuses(self, *words: object, code: int = 2) -> str:
        """Its message in one line; it must be all that there is, and fit."""
        ended, out, err = self(*words)
        assert (ended, out) == (code, "")
        assert "Traceback" not in err
        # A path may be too long for a line.
        assert all(len(line) <= 100 or len(line.split()) == 1 for line in err.splitlines()), err
        return " ".join(err.split())
