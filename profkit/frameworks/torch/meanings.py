"""What the spans of a recording of torch are, as it is found out: plain lists, one entry per span."""

from __future__ import annotations

from dataclasses import dataclass, field

from profkit.capture.schema import Level


@dataclass
class SpanAnnotations:
    """The columns that torch itself does not report."""

    level: list[int] = field(default_factory=list)
    type: list[str] = field(default_factory=list)
    phase: list[str] = field(default_factory=list)
    layer: list[str | None] = field(default_factory=list)
    fused: list[str | None] = field(default_factory=list)
    quality: list[str] = field(default_factory=list)

    @property
    def is_operator(self) -> list[bool]:
        """Which spans are operators."""
        return [level == Level.OPERATOR for level in self.level]
