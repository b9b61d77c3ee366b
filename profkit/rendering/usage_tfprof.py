"""The layout of TensorFlow's classic op profile, for people and scripts that know it. A Usage in, text out.

By name, category, domain or thread: a row per operation with `value (accumulated %, own %)`, where accumulated is
this row and all rows below it. By path: the scope layout, `name (own/with all inside)`. Device time was not recorded
yet and is `--`, as are bytes when allocations were not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from profkit.attribution.usage import Usage, UsageRow
from profkit.rendering.usage_content import View, sorted_rows, visible

HEADER = "node name | requested bytes | total execution time | accelerator execution time | cpu execution time"
ROOT = "_TFProfRoot"
ABSENT = "--"
_NAME_WIDTH = 25
_CELL_WIDTH = 30


def render_tfprof(usage: Usage, view: View) -> str:
    """The profile with its line of headings."""
    lines = _scope_lines(usage, view) if usage.by == "path" else _op_lines(usage, view)
    return "\n".join([HEADER, *lines]) + "\n"


def micros_text(value_ns: int) -> str:
    """A duration as tfprof writes it: 97us, 1.37ms, 3.74sec."""
    micros = value_ns / 1000
    if micros < 1000:
        return f"{micros:.0f}us"
    return f"{micros / 1000:.2f}ms" if micros < 1_000_000 else f"{micros / 1_000_000:.2f}sec"


def memory_text(value: int | None) -> str:
    """Bytes as tfprof writes them, in powers of ten: 768B, 4.38KB, 741.37MB."""
    if value is None:
        return ABSENT
    if value < 1000:
        return f"{value}B"
    return f"{value / 1000:.2f}KB" if value < 1_000_000 else f"{value / 1_000_000:.2f}MB"


def _op_lines(usage: Usage, view: View) -> list[str]:
    rows = sorted_rows(usage, view.sort)
    times = _cells([row.exclusive_ns for row in rows], micros_text)
    has_memory = usage.total_alloc_bytes is not None
    memory = _cells([row.own_alloc_bytes or 0 for row in rows], memory_text) if has_memory else [ABSENT] * len(rows)
    return [
        f"{visible(row.name):<{_NAME_WIDTH}}"
        + ", ".join(f"{cell:>{_CELL_WIDTH}}" for cell in (size, time, ABSENT, time))
        for row, size, time in list(zip(rows, memory, times))[: view.top]
    ]


def _cells(values: Sequence[int], text: Callable[[int], str]) -> list[str]:
    total = sum(values)
    left = total
    cells = []
    for value in values:
        cells.append(f"{text(value)} ({_percent(left, total)}, {_percent(value, total)})")
        left -= value
    return cells


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole if whole else 0.0:.2f}%"


def _scope_lines(usage: Usage, view: View) -> list[str]:
    explained = usage.wall_ns - usage.remainder_ns
    known = usage.total_alloc_bytes is not None
    total = memory_text((usage.total_alloc_bytes or 0) - (usage.unattributed_alloc_bytes or 0)) if known else ABSENT
    time = micros_text(explained)
    lines = [f"{ROOT} ({ABSENT}/{total}, {ABSENT}/{time}, {ABSENT}/{ABSENT}, {ABSENT}/{time})"]
    return lines + [_scope_line(row) for row in sorted_rows(usage, view.sort)[: view.top]]


def _scope_line(row: UsageRow) -> str:
    time = f"{micros_text(row.exclusive_ns)}/{micros_text(row.inclusive_ns)}"
    size = f"{memory_text(row.own_alloc_bytes)}/{memory_text(row.alloc_bytes)}"
    name = "/".join(map(visible, row.path))
    return f"{'  ' * len(row.path)}{name} ({size}, {time}, {ABSENT}/{ABSENT}, {time})"
