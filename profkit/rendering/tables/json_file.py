"""Values as JSON: NaN and infinity cannot occur in it."""

from __future__ import annotations

import json
from typing import Any

from profkit.rendering.tables.document import Document


def render_json(content: Any) -> str:
    """The text of a file."""
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def render_file(document: Document) -> str:
    """The file as a whole."""
    return render_json(document.to_records())
