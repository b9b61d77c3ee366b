"""What a reader of a trace must know: a Capture or a Run in; what ran, how exact it is and what is missing out."""

from __future__ import annotations

from profkit.capture.run import Run
from profkit.capture.schema import Capture

Told = tuple[tuple[str, str], ...]


def capture_about(capture: Capture) -> Told:
    """Where a capture comes from, how exact it is, and what is missing."""
    from profkit import __version__

    told: list[tuple[str, str]] = [("capture", capture.path), ("exported by", f"profkit {__version__}")]
    recorders = [capture.recorder]
    if capture.processes:
        first = capture.processes[0]
        told.append(("program", " ".join(first.command)))
        recorders.append(str(first.description.get("profkit", "")))
        if first.clock:
            told.append(("clock", first.clock))
            told.append(("clock error ns", f"{capture.clock_error_ns:.0f}"))
            told.append(("cost of an empty range ns", f"{first.empty_range_ns:.1f}"))
    told.append(("recorded by", " ".join(filter(None, recorders))))
    told.append(("processes", str(len(capture.processes))))
    told.append(("records lost", str(capture.losses.records)))
    told += [(name, str(value)) for name, value in capture.facts.items() if isinstance(value, (str, int, float))]
    told += [(f"warning {number}", text) for number, text in enumerate(capture.warnings, 1)]
    return tuple((name, text) for name, text in told if text)


def run_about(run: Run) -> Told:
    """What ran, with what, how it ended, and the notes of every pass."""
    network = dict(run.network)
    told = [
        ("network", str(network.pop("network", ""))),
        ("parameters", ", ".join(f"{name} {value}" for name, value in network.items())),
        ("framework", f"{run.framework} {run.mode}, {run.threads} threads"),
        ("step", "training" if run.is_training else "inference"),
        ("versions", ", ".join(f"{name} {version}" for name, version in run.versions.items())),
        ("data", run.data),
        ("status", run.status + (f": {run.reason}" if run.reason else "")),
    ]
    for capture in run.captures:
        name = capture.processes[0].name
        told.append((f"clock error ns, {name}", f"{capture.clock_error_ns:.0f}"))
        told += [(f"note, {name}", str(note)) for note in capture.facts.get("notes", ())]
    told += [(f"note {number}", note) for number, note in enumerate(run.notes, 1)]
    return tuple(told)
