"""Which native CPU kernel a spec should run: a spec and a thread count in, a row's key with its reasons out.

Every row that supports the spec is estimated by the cost model (costs.py); the cheapest is taken, the registry's
order breaks ties. What `profkit tune` measured here goes before any estimate.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from profkit.errors import UnsupportedError
from profkit.frameworks.adapter import Implementation
from profkit.frameworks.native.costs import LANES, cost_name, fewer_products, known_costs, nanoseconds, terms
from profkit.frameworks.native.operators import ADAPTER, PACKED, held_spec, kernel_key
from profkit.frameworks.native.threads import worthwhile_threads
from profkit.frameworks.native.tuned import find_choice, is_wanted, read_choices
from profkit.ops.keys import parts_of
from profkit.ops.spec import Spec

CLOSE = 1.03
"""Estimates within this factor are equal: the registry's order, best known first, decides."""
REFERENCE = "/reference"
MODEL, TUNED, ORDER = "cost model", "tuner", "registry order"


@dataclass(frozen=True)
class CostEstimate:
    """Estimated time of a row; `ns` is None where its costs were never fitted."""

    key: str
    ns: float | None
    terms: Mapping[str, float]
    """Nanoseconds by piece of work."""
    remark: str = ""

    @property
    def name(self) -> str:
        """The key without operator, framework and device."""
        return parts_of(self.key).variant


@dataclass(frozen=True)
class PolicyChoice:
    """The row to run, who says so, and why."""

    key: str
    source: str
    reasons: tuple[str, ...]
    estimates: tuple[CostEstimate, ...]
    """Cheapest first, unknown ones last."""


def choose_kernel(spec: Spec, threads: int, forms: Collection[str] = (), tuned: bool = True) -> PolicyChoice:
    """The row to take; `forms` (packed, nhwc) are the ways other than the spec's in which data can be given.

    UnsupportedError with every kernel's reason when none runs the spec.
    """
    rows = _candidates(spec, forms)
    lanes = LANES[ADAPTER.fingerprint(rows[0])["simd"]]
    estimates = [_estimate(row, spec, threads, lanes) for row in rows]
    ranked = sorted(estimates, key=lambda item: math.inf if item.ns is None else item.ns)
    measured = _measured_by_tuner(rows, spec, threads) if tuned and is_wanted() else {}
    if len(measured) > 1:
        best = min(measured, key=lambda key: measured[key])
        others = ", ".join(f"{parts_of(key).variant} {_time(ns)}" for key, ns in measured.items() if key != best)
        reason = f"{parts_of(best).variant}: profkit tune measured {_time(measured[best])} here, {others}"
        return PolicyChoice(best, TUNED, (reason,), tuple(ranked))
    if ranked[0].ns is None:
        first = estimates[0]
        reason = f"{first.name}: first of the registry's rows that support this; no costs of any of them are known"
        return PolicyChoice(first.key, ORDER, (reason,), tuple(estimates))
    within = [item for item in estimates if item.ns is not None and item.ns <= CLOSE * ranked[0].ns]
    # The cheapest form of the first kernel: packing ahead of the call costs nothing here.
    chosen = min(
        (item for item in within if _kernel(item.key) == _kernel(within[0].key)), key=lambda item: item.ns or 0.0
    )
    reasons = [_explained(chosen)]
    if chosen is not ranked[0]:
        reasons.append(f"{ranked[0].name} is estimated as equal ({_time(ranked[0].ns)}); the registry names it later")
    reasons += [f"{item.name}: {_compared(item, chosen)}" for item in ranked if item is not chosen]
    return PolicyChoice(chosen.key, MODEL, tuple(reasons), tuple(ranked))


def _candidates(spec: Spec, forms: Collection[str]) -> list[Implementation]:
    """Rows that support the spec, in the registry's order; the reference kernel only where it is all there is."""
    rows = [row for row in ADAPTER.implementations(spec.op) if set(row.forms) <= set(forms)]
    against = {row.key: ADAPTER.supports(row, spec) for row in rows}
    known = [row for row in rows if not against[row.key]]
    if not known:
        reasons = "; ".join(f"{key}: {reason}" for key, reason in against.items())
        raise UnsupportedError(f"no native kernel runs {spec}: {reasons}")
    return [row for row in known if not row.key.endswith(REFERENCE)] or known


def _estimate(row: Implementation, spec: Spec, threads: int, lanes: int) -> CostEstimate:
    held, key = held_spec(row, spec), kernel_key(row)
    cost = known_costs().get(cost_name(key, held))
    if cost is None:
        return CostEstimate(row.key, None, {})
    parts = nanoseconds(cost, terms(key, held, lanes, PACKED in row.forms), worthwhile_threads(held, threads))
    fewer = fewer_products(key, held) if spec.op == "conv2d" else 1.0
    remark = f"{fewer:.2f}x fewer products" if fewer != 1.0 else ""
    return CostEstimate(row.key, sum(parts.values()), parts, remark)


def _measured_by_tuner(rows: Sequence[Implementation], spec: Spec, threads: int) -> dict[str, float]:
    """Times that the tuner kept, by key: of the sizes it chose, or of the default where that stayed."""
    known, found = read_choices(), {}
    for row in rows:
        choice = None if row.forms else find_choice(known, row.key, spec, threads, ADAPTER.fingerprint(row))
        ns = choice.measured.get("tuned_ns" if choice.tuning else "default_ns") if choice else None
        if isinstance(ns, (int, float)) and ns > 0:
            found[row.key] = float(ns)
    return found


def _explained(item: CostEstimate) -> str:
    """`winograd_4x4: estimated 3.10 ms (products 1.9 ms, 4.00x fewer; input transform 0.6 ms; ...)`."""
    total = item.ns or 0.0
    parts = [f"{name} {_time(ns)}" for name, ns in item.terms.items() if ns >= 0.02 * total]
    text = "; ".join(filter(None, (", ".join(parts), item.remark)))
    return f"{item.name}: estimated {_time(total)} ({text})"


def _compared(item: CostEstimate, chosen: CostEstimate) -> str:
    if item.ns is None:
        return "its costs were never measured (bench/kernels.py --fit)"
    more = 100.0 * (item.ns / (chosen.ns or item.ns) - 1.0)
    largest = max(item.terms, key=lambda name: item.terms[name])
    parts = [f"{_time(item.ns)} ({more:+.0f} %)", f"{largest} {_time(item.terms[largest])}", item.remark]
    return "estimated " + ", ".join(filter(None, parts))


def _kernel(key: str) -> str:
    return "/".join(key.split("/")[:4])


def _time(ns: float | None) -> str:
    if ns is None:
        return "unknown"
    units = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 0.0))
    unit, size = next(pair for pair in units if ns >= pair[1])
    return f"{ns / (size or 1.0):.3g} {unit}"
