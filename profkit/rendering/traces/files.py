"""Trace files: TraceContent goes in; a Chrome JSON or Perfetto file, gzipped if its name ends in .gz, comes out."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

from profkit import _core
from profkit.capture.output_files import open_output
from profkit.rendering.traces.content import TraceContent

# Traces repeat themselves: higher levels cost several times as long and save little.
GZIP_LEVEL = 1
GZIP_CONTAINER = 16 + zlib.MAX_WBITS


def write_chrome(content: TraceContent, path: str | Path) -> None:
    """For chrome://tracing, Perfetto, speedscope and other readers of trace events."""
    _write(_core.write_chrome, content, path)


def write_perfetto(content: TraceContent, path: str | Path) -> None:
    """Perfetto's own format: a third of the size, and opened several times as fast."""
    _write(_core.write_perfetto, content, path)


def _write(
    serialise: Callable[[object, Callable[[memoryview], object]], None], content: TraceContent, path: str | Path
) -> None:
    with open_output(path, syncs=False) as stream:
        if Path(path).suffix != ".gz":
            serialise(content, stream.write)
            return
        packer = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, GZIP_CONTAINER)
        serialise(content, lambda piece: stream.write(packer.compress(piece)))
        stream.write(packer.flush())
