"""The layout of TensorFlow's classic op profile, for people and scripts that know it. A Usage in, text out.

By name, category, domain or thread: a row per operation with `value (accumulated %, own %)`, where accumulated is
this row and all rows below it. By path: the scope layout, `name (own/with all inside)`. In tables of threads device
time is `--`, as are bytes when allocations were not recorded, and the own time and bytes of spans,
which have none. Of networks, which ran on the processor, requested bytes are shown, and device time is 0. Of GPU
traces the accelerator's time is that of kernels, copies and sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from profkit.attribution.usage import Usage, UsageRow
from profkit.rendering.usage.columns import Value, find_usage_column
from profkit.rendering.usage.content import View, visible
from profkit.rendering.usage.rows import row_order, top_rows

HEADER = "node name | requested bytes | total execution time | accelerator execution time | cpu execution time"
ROOT = "_TFProfRoot"
ABSENT = "--"
_NAME_WIDTH = 25
_CELL_WIDTH = 30


def render_tfprof(usage: Usage, view: View) -> str:
    """The profile with its line of headings."""
    lines = _scope_lines(usage, view) if usage.by == "path" else _op_lines(usage, view)
    return "\n".join([HEADER, *lines]) + "\n"


def micros_text(value_ns: Value) -> str:
    """A duration as tfprof writes it: 97us, 1.37ms, 3.74sec."""
    if value_ns is None:
        return ABSENT
    micros = value_ns / 1000
    if micros < 1000:
        return f"{micros:.0f}us"
    return f"{micros / 1000:.2f}ms" if micros < 1_000_000 else f"{micros / 1_000_000:.2f}sec"


def memory_text(value: Value) -> str:
    """Bytes as tfprof writes them, in powers of ten: 768B, 4.38KB, 741.37MB."""
    if value is None:
        return ABSENT
    if value < 1000:
        return f"{value:.0f}B"
    return f"{value / 1000:.2f}KB" if value < 1_000_000 else f"{value / 1_000_000:.2f}MB"


def _op_lines(usage: Usage, view: View) -> list[str]:
    order = row_order(usage, view.sort)
    if usage.devices is not None:
        return _device_lines(usage, order, view)
    own = find_usage_column("exclusive").ranked(usage)
    sizes = usage.rows.column("own_alloc_bytes" if usage.steps is None else "requested_bytes")
    cells = (_cells([sizes[row] for row in order], memory_text), _cells([own[row] for row in order], micros_text))
    names = usage.rows.column("name")
    device = ABSENT if usage.steps is None else next(_cells([0], micros_text))
    return [
        f"{visible(names[row]):<{_NAME_WIDTH}}"
        + ", ".join(f"{cell:>{_CELL_WIDTH}}" for cell in (size, time, device, time))
        for row, size, time in islice(zip(order, *cells), view.top)
    ]


def _device_lines(usage: Usage, order: Sequence[int], view: View) -> list[str]:
    """Of a GPU trace: total is device time and host time together, as tfprof adds them."""
    names, sizes = usage.rows.column("name"), usage.rows.column("own_alloc_bytes")
    device = [usage.rows.column("device_ns")[row] or 0 for row in order]
    host = [usage.rows.column("host_ns")[row] or 0 for row in order]
    columns = (
        _cells([sizes[row] for row in order], memory_text),
        *(_cells(values, micros_text) for values in ([a + b for a, b in zip(device, host)], device, host)),
    )
    return [
        f"{visible(names[row]):<{_NAME_WIDTH}}" + ", ".join(f"{cell:>{_CELL_WIDTH}}" for cell in cells)
        for row, *cells in islice(zip(order, *columns), view.top)
    ]


def _cells(values: Sequence[Value], text: Callable[[Value], str]) -> Iterator[str]:
    """`value (accumulated %, own %)`; a row for which nothing was recorded has no part in the sums."""
    left = total = sum(value or 0 for value in values)
    for value in values:
        yield ABSENT if value is None else f"{text(value)} ({_percent(left, total)}, {_percent(value, total)})"
        left -= value or 0


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 0.0:.2f}%"


def _scope_lines(usage: Usage, view: View) -> list[str]:
    explained = usage.wall_ns - usage.remainder_ns
    known = usage.total_alloc_bytes is not None
    total = memory_text((usage.total_alloc_bytes or 0) - (usage.unattributed_alloc_bytes or 0)) if known else ABSENT
    time = micros_text(explained)
    lines = [f"{ROOT} ({ABSENT}/{total}, {ABSENT}/{time}, {ABSENT}/{ABSENT}, {ABSENT}/{time})"]
    rows = top_rows(usage, row_order(usage, view.sort), view.sort, view.top)
    return lines + [_scope_line(usage.rows[row]) for row in rows]


def _scope_line(row: UsageRow) -> str:
    own = row.exclusive_ns if row.has_own_time else None
    time = f"{micros_text(own)}/{micros_text(row.inclusive_ns)}"
    size = f"{memory_text(row.own_alloc_bytes)}/{memory_text(row.alloc_bytes)}"
    name = "/".join(map(visible, row.path))
    return f"{'  ' * len(row.path)}{name} ({size}, {time}, {ABSENT}/{ABSENT}, {time})"
