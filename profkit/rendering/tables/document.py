"""Documents: blocks of a few kinds, mainly tables, that are printed, shown in a notebook or written to a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from profkit.capture.output_files import write_atomically
from profkit.errors import UsageError
from profkit.rendering.terminal import PLAIN_WIDTH, encodable, stream_width, takes_styles

FORMATS = {".txt": "text", ".md": "markdown", ".html": "html", ".csv": "csv_file", ".json": "json_file"}
"""Module of each format: its `render_file` takes a Document and returns the text of the file."""


class Document:
    def __init__(self, *blocks: Document) -> None:
        self._blocks = blocks

    @property
    def blocks(self) -> Sequence[Document]:
        """Its blocks; a block is a document of itself."""
        return self._blocks

    def text(self, width: int = PLAIN_WIDTH) -> str:
        """Plain text, no line wider than `width`."""
        from profkit.rendering.tables.text import render_text

        return render_text(self.blocks, width)

    def __str__(self) -> str:
        return self.text()

    def print(self, stream: TextIO) -> None:
        """To a stream, in its width, with colours where it supports them."""
        from profkit.rendering.tables.text import render_text

        if text := render_text(self.blocks, stream_width(stream), takes_styles(stream)):
            stream.write(encodable(text, stream) + "\n")

    def markdown(self) -> str:
        """For an issue or a README: everything, without a limit of width."""
        from profkit.rendering.tables.markdown import render_markdown

        return render_markdown(self.blocks)

    def _repr_html_(self) -> str:
        from profkit.rendering.tables.html import render_html

        return render_html(self.blocks)

    def to_records(self) -> list[dict[str, Any]]:
        """The numbers behind the tables, one record per row."""
        return [record for block in self.blocks for record in block.to_records()]

    def to_pandas(self) -> Any:
        """The records as a data frame (needs pandas)."""
        import pandas

        return pandas.DataFrame(self.to_records())

    def write(self, path: str | Path) -> None:
        """Write a file atomically; its extension selects the format."""
        if (ending := Path(path).suffix) not in FORMATS:
            raise UsageError(f"{path}: a table's file name must end in {', '.join(FORMATS)}")
        write_atomically(path, import_module(f"profkit.rendering.tables.{FORMATS[ending]}").render_file(self))


class Block(Document):
    @property
    def blocks(self) -> Sequence[Document]:
        """Itself alone."""
        return (self,)

    def to_records(self) -> list[dict[str, Any]]:
        """A block without numbers has none."""
        return []


@dataclass(frozen=True)
class Heading(Block):
    """1 is the document's title."""

    level: int
    content: str


@dataclass(frozen=True)
class Paragraph(Block):
    """A paragraph; a colour may follow from its tone."""

    content: str
    tone: str = ""


@dataclass(frozen=True)
class Bullets(Block):
    items: Sequence[str]


@dataclass(frozen=True)
class Picture(Block):
    """Markdown shows the file, HTML the drawing itself."""

    file: str
    alternative: str
    svg: str


@dataclass(frozen=True)
class Code(Block):
    """Text that stays as it is."""

    content: str
