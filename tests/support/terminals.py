"""Streams that say they are terminals."""

from __future__ import annotations

import io


class Terminal(io.StringIO):
    """Takes what is drawn; its width is that of the process's standard output, if that is requested."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1
