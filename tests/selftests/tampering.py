"""Tables that lose something, which a check of conservation must find."""

from __future__ import annotations

import pytest

from profkit.attribution.usage import UsageRows


def lose_from(column: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last row of every table has 1 in this column."""
    whole = UsageRows.column
    monkeypatch.setattr(
        UsageRows, "column", lambda rows, of: [*whole(rows, of)[:-1], 1] if of == column else whole(rows, of)
    )
