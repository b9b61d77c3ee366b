"""The layout of TensorFlow's classic op profile, for people and scripts that know it. A Usage in, text out.

By name, category, domain or thread: a row per operation with `value (accumulated %, own %)`, where accumulated is
this row and all rows below it. By path: the scope layout, `name (own/with all inside)`. In tables of threads device
time is `--`, as are bytes when allocations were not recorded, and the own time and bytes of spans,
which have none. Of networks, which ran on the processor, requested bytes are shown, and device time is 0. Of GPU
traces the accelerator's time is that of kernels, copies and sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, repeat

from profkit.attribution.metrics import find_metric
from profkit.attribution.usage import Usage, UsageRow, Value
from profkit.rendering.terminal import visible
from profkit.rendering.usage.columns import row_order, top_rows
from profkit.rendering.usage.content import View

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
    """Where a GPU worked, total is device time and host time together, as tfprof adds them."""
    order = row_order(usage, view.sort)

    def column(name: str) -> list[Value]:
        values = find_metric(name).values(usage)
        return [values[row] for row in order]

    sizes = _cells(column("requested_bytes" if usage.steps is not None else "own_alloc_bytes"), memory_text)
    if usage.devices is not None:
        device, host = ([value or 0 for value in column(name)] for name in ("device_ns", "host_ns"))
        both = [here + there for here, there in zip(host, device)]
        times = tuple(_cells(values, micros_text) for values in (both, device, host))
    else:
        own = column("exclusive_ns")
        nowhere = ABSENT if usage.steps is None else next(_cells([0], micros_text))
        times = (_cells(own, micros_text), repeat(nowhere), _cells(own, micros_text))
    names = usage.rows.column("name")
    return [
        f"{visible(names[row]):<{_NAME_WIDTH}}" + ", ".join(f"{cell:>{_CELL_WIDTH}}" for cell in cells)
        for row, *cells in islice(zip(order, sizes, *times), view.top)
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
    total = memory_text(usage.rows.sum("own_alloc_bytes"))
    time = micros_text(usage.wall_ns - usage.remainder_ns)
    lines = [f"{ROOT} ({ABSENT}/{total}, {ABSENT}/{time}, {ABSENT}/{ABSENT}, {ABSENT}/{time})"]
    rows = top_rows(usage, row_order(usage, view.sort), view.sort, view.top)
    own = find_metric("exclusive_ns").values(usage, rows)
    return lines + [_scope_line(usage.rows[row], own_ns) for row, own_ns in zip(rows, own)]


def _scope_line(row: UsageRow, own: Value) -> str:
    time = f"{micros_text(own)}/{micros_text(row.inclusive_ns)}"
    size = f"{memory_text(row.own_alloc_bytes)}/{memory_text(row.alloc_bytes)}"
    name = "/".join(map(visible, row.path))
    return f"{'  ' * len(row.path)}{name} ({size}, {time}, {ABSENT}/{ABSENT}, {time})"
