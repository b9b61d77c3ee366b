"""Values as JSON: NaN and infinity cannot occur in it, and signs that cannot be seen are escaped."""

from __future__ import annotations

import json
from typing import Any

from profkit.rendering.tables.document import Document
from profkit.rendering.terminal import LINES


def render_json(content: Any) -> str:
    return escaped(json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)) + "\n"


def escaped(text: str) -> str:
    """JSON in which every sign can be seen, and which every file can hold; its values are the same.

    Line breaks and tabs are only between values: in texts JSON escapes them.
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in LINES else json.dumps(sign)[1:-1] for sign in text)


def render_file(document: Document) -> str:
    return render_json(document.to_records())
