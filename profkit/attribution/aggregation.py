"""Shares and a grouping in, Usage out: the one way to every table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from profkit.attribution.account import DEVICES, STEPS, THREADS, Shares, account
from profkit.attribution.device.sums import DeviceSums
from profkit.attribution.grouping import choose_grouping, group, groupings_on
from profkit.attribution.metrics import METRICS, NESTED, SUM
from profkit.attribution.networks.sums import OperatorSums
from profkit.attribution.range_sums import RangeSums
from profkit.attribution.usage import Remainder, Usage, UsageRows, Value
from profkit.capture.schema import Capture

_SUMS: Mapping[str, Callable[..., Any]] = {THREADS: RangeSums, STEPS: OperatorSums, DEVICES: DeviceSums}


def usage(what: Capture | Shares, by: str | None = None, subtract_overhead: bool = False) -> Usage:
    """Time, memory and work by one of GROUPINGS; without one, by the first that the capture has.

    Of a capture the clock follows from the grouping; shares are of one clock already. `subtract_overhead` takes the
    estimated cost of recording out of the time of threads.
    """
    shares = account(what, choose_grouping(what, by)[1]) if isinstance(what, Capture) else what
    chosen = by or groupings_on(shares.clock)[0]
    groups = group(shares, chosen)
    options = {"subtract_overhead": True} if subtract_overhead and shares.clock == THREADS else {}
    sums = _SUMS[shares.clock](shares, groups, chosen, **options)
    recorders = {metric.name: metric.recorder(shares.clock, chosen) for metric in METRICS}
    made = {name: recorder(sums, name) for name, recorder in recorders.items() if recorder}
    columns = {name: _listed(values) for name, values in made.items() if values is not None}
    whole = sums.whole()
    whole["totals"] |= dict.fromkeys(("inclusive_ns", "exclusive_ns"), whole["wall_ns"])
    rows = UsageRows(columns).in_order(sums.order(columns))
    return Usage(by=chosen, clock=shares.clock, rows=rows, **whole)


def _listed(values: Any) -> Sequence[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def mean_of_steps(table: Usage) -> Usage:
    """The same table for one step: every sum divided by the number of steps; tables without steps are as they are."""
    if not table.steps or table.steps == 1:
        return table
    steps, adding = table.steps, {metric.name for metric in METRICS if metric.adds in (SUM, NESTED)}

    def mean(name: str, value: Any) -> Any:
        return value / steps if name in adding and value is not None else value

    def means(values: Mapping[str, Value]) -> dict[str, Value]:
        return {name: mean(name, value) for name, value in values.items()}

    columns = {name: [mean(name, value) for value in column] for name, column in table.rows.columns.items()}
    return replace(
        table,
        wall_ns=table.wall_ns / steps,
        elapsed_ns=table.elapsed_ns / steps,
        rows=UsageRows(columns),
        remainders=tuple(Remainder(each.name, means(each.values)) for each in table.remainders),
        totals=means(table.totals),
    )
