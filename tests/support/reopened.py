"""Results written as `--json` writes them, and read again."""

from __future__ import annotations

import tempfile
from pathlib import Path

from profkit.measurement.result import Result, read_result
from profkit.rendering.tables.json_file import render_json


def reopened(result: Result) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        path.write_text(render_json(result.to_dict()))
        return read_result(path)
