"""A Result as a JSON file in the schema profkit.result/1, raw samples included."""

from __future__ import annotations

import json
from pathlib import Path

from profkit.measurement.result import Result
from profkit.rendering.whole_file import write_whole


def render_json(result: Result) -> str:
    """The JSON text; NaN and infinity cannot occur in it."""
    return json.dumps(result.to_dict(), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def write_json(result: Result, path: str | Path) -> None:
    """Write the JSON file whole or not at all."""
    write_whole(path, render_json(result))
