"""What each span of a network does, in one word for all frameworks: a capture and a recording in, kinds out."""

from __future__ import annotations

from profkit.attribution.kinds import kind_of
from profkit.capture.network_capture import NetworkCapture
from profkit.capture.recording import Level, Recording
from profkit.errors import UsageError
from profkit.ops.networks import network_from_dict


def span_kinds(capture: NetworkCapture, recording: Recording) -> list[str | None]:
    """Per span; None for what is no operator."""
    try:
        layer_kinds = {layer.name: layer.kind for layer in network_from_dict(capture.network).layers}
    except UsageError:
        layer_kinds = {}  # a network of another version: its operators still have kinds
    columns = (recording.text(name) for name in ("type", "layer", "phase", "fused"))
    levels = recording.spans["level"].tolist()
    return [
        kind_of(recording.framework, type_, layer_kinds.get(layer or ""), phase, fused)
        if level in (Level.OPERATOR, Level.PRIMITIVE)
        else None
        for level, type_, layer, phase, fused in zip(levels, *columns)
    ]
