"""How far a study is: a line per finished cell, and on a terminal one more with what runs now."""

from __future__ import annotations

from typing import TextIO

from profkit.rendering.quantities import plural, time_text
from profkit.rendering.terminal import can_redraw, encodable, stream_width, visible
from profkit.studies.declaration import FRAMEWORK, Study, Sweep
from profkit.studies.running import StudyProgress
from profkit.studies.sweeps import value_word

_CLEAR = "\r\x1b[2K"
_REASON_WIDTH = 90


def left_text(seconds: float) -> str:
    """A time to wait, as exact as it is known: about 40 s, about 12 min, about 1.5 h."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def axis_lines(sweep: Sweep, study: Study) -> list[str]:
    """A sweep's axes and what their combinations are, a line each: nothing for named variants."""
    if not sweep.axes:
        return []
    lines = [f"{sweep.name or study.name}: {len(sweep.variants)} points"]
    axes = {**sweep.axes, FRAMEWORK: [runner.key for runner in study.runners]}
    width = max(map(len, axes))
    lines += [f"  {name:{width}}  {', '.join(map(value_word, values))}" for name, values in axes.items()]
    for rule in sweep.skips:
        cells = [
            runner.key
            for variant in sweep.variants
            for runner in study.runners
            if next((each for each in sweep.skips if each.matches(variant.changes, runner.key)), None) is rule
        ]
        lines.append(f"  skipped  {rule.reason}: {plural(len(cells) * study.repetitions, 'cell')}")
    return lines


class CellLines:
    """A StudyWatcher."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._can_redraw = can_redraw(stream)

    def __call__(self, progress: StudyProgress) -> None:
        if progress.outcome is not None:
            self._write(f"{self._clear()}{visible(_finished(progress))}\n")
        elif self._can_redraw:
            doing = progress.text.removeprefix(f"{progress.cell.runner.framework}: ")
            doing = f": {doing}" if doing else ""
            line = f"{_count(progress)} {progress.cell.title}{doing} ({left_text(progress.left_s)} left)"
            self._write(_CLEAR + visible(line)[: stream_width(self._stream) - 1])

    def close(self) -> None:
        self._write(self._clear())

    def _clear(self) -> str:
        return _CLEAR if self._can_redraw else ""

    def _write(self, text: str) -> None:
        if text:
            self._stream.write(encodable(text, self._stream))
            self._stream.flush()


def _count(progress: StudyProgress) -> str:
    width = len(str(progress.cells))
    return f"[{progress.number:{width}}/{progress.cells}]"


def _finished(progress: StudyProgress) -> str:
    outcome = progress.outcome
    assert outcome is not None
    if outcome.status != "ok":
        reason = " ".join(outcome.reason.split())
        result = f"{outcome.status}: {reason}" if reason else outcome.status
        result = result if len(result) <= _REASON_WIDTH else result[: _REASON_WIDTH - 1] + "…"
    else:
        result = f"{time_text(progress.step_ns)} a step" if progress.step_ns is not None else "ok"
    left = f"; {left_text(progress.left_s)} left" if progress.left_s else ""
    return f"{_count(progress)} {progress.cell.title}: {result} ({outcome.seconds:.1f} s{left})"
