"""What is wrong with the rows of odd_specs_runner.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def faults(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that raised, or whose result, output, inputs or reason are not what they must be; each says which."""
    return [{"faults": found, **row} for row in rows if (found := faults_of(row))]


def faults_of(row: dict[str, Any]) -> list[str]:
    """Words for what is wrong with a row."""
    if row["status"] == "unsupported":
        return [] if row["reason"].strip() else ["refused without a reason"]
    if row["status"] != "ran":
        return [row["status"]]
    wrong = {
        "wrong result": not row["error"] <= row["bound"],
        "wrong shape or dtype": row["form"] != row["expected_form"],
        "inputs changed": bool(row["changed_inputs"]),
        "neither fresh nor reused": row["output"] not in ("fresh", "reused"),
        "called fresh, but shares memory between calls": row["output"] == "fresh" and row["shares_memory"],
    }
    return [words for words, is_wrong in wrong.items() if is_wrong]
