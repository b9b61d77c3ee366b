"""What bench/kernels.py keeps: one record per shape and thread count in a JSON file, and the judgement over them.

A record has the medians of all rows, the policy's choices and, per convention, best framework against best native
row with the paired ratio's interval. Samples are not kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_pages.shapes import AS_GIVEN, OWN, RatioGoal, ShapeGoal, ShapeSection
from profkit.capture.output_files import write_atomically
from profkit.errors import UnsupportedError
from profkit.frameworks.native.operators import NHWC, PACKED
from profkit.frameworks.native.policy import choose_kernel
from profkit.measurement.bounds import MEMORY
from profkit.measurement.result import Cell, Row
from profkit.ops import spec_from_dict
from profkit.ops.keys import parts_of

SCHEMA = "profkit.kernels/1"
BELOW = 0.95
MET, LOST, NOT_RESOLVED = "met", "lost", "not resolved"
FIELDS = ("ns", "low", "high", "error", "peak", "layout", "faults", "bound")
"""Of a row, in the order of its list: median and interval in ns, error, share of peak, layout held, page faults, share
of what the machine allows (arithmetic or bandwidth)."""
CONVENTIONS: dict[str, tuple[str, ...]] = {AS_GIVEN: (), OWN: (PACKED, NHWC)}
"""With the forms of native rows that each allows."""
Record = dict[str, Any]


def record_of(section: ShapeSection, name: str, cell: Cell, build: str) -> Record:
    """A measured cell as it is kept."""
    rows = [row for row in cell.rows if row.status == "ok" and row.median_ns is not None]
    record: Record = {
        "section": section.name,
        "name": name,
        "threads": cell.threads,
        "op": cell.spec.op,
        "spec": _changed_fields(cell),
        "flops": cell.spec.flops(),
        "bound": cell.bound,
        "build": build,
        "rows": {parts_of(row.key).short: _numbers(row) for row in rows},
        "failed": {
            parts_of(row.key).short: f"{row.status}: {row.reason}"
            for row in cell.rows
            if row.status not in ("ok", "unsupported", "unavailable")
        },
    }
    for convention, forms in CONVENTIONS.items():
        record[convention] = _judged(cell, rows, convention, forms)
    return record


def _changed_fields(cell: Cell) -> dict[str, Any]:
    """The spec without what has its default: `spec_from_dict` reads it back."""
    default, values = type(cell.spec)().to_dict(), cell.spec.to_dict()
    return {name: value for name, value in values.items() if name == "op" or value != default[name]}


def _numbers(row: Row) -> list[Any]:
    faults = None if row.page_faults is None else round(row.page_faults)
    share, of_bound = (
        None if percent is None else round(percent / 100, 4) for percent in (row.percent_of_peak, row.percent_of_bound)
    )
    error = None if row.max_error is None else float(f"{row.max_error:.2g}")
    whole = [None if value is None else round(value) for value in (row.median_ns, row.low_ns, row.high_ns)]
    return [*whole, error, share, row.layout, faults, of_bound]


def _judged(cell: Cell, rows: Sequence[Row], convention: str, forms: Sequence[str]) -> Record:
    """Best framework, best native row, the policy's row, and what the first takes of the others' time."""
    taking_part = [row for row in rows if _takes_part(row, convention)]
    frameworks = [row for row in taking_part if not _is_native(row)]
    native = [row for row in taking_part if _is_native(row)]
    try:
        choice = choose_kernel(cell.spec, cell.threads, forms, tuned=False)
    except UnsupportedError:
        return {}
    found: Record = {"policy": parts_of(choice.key).short, "source": choice.source}
    if native:
        best = min(native, key=_time)
        found["native"] = parts_of(best.key).short
    if native and frameworks:
        rival = min(frameworks, key=_time)
        own = next((row for row in native if row.key == choice.key), None)
        found |= {"framework": parts_of(rival.key).short, "ratio": _ratio(cell, rival, best)}
        found["policy_ratio"] = None if own is None else _ratio(cell, rival, own)
    return found


def choose_again(store: Store) -> int:
    """Let the policy choose anew for every record, as after a fit; how many choices changed.

    Samples are gone by now: the ratio of a row that was not the choice before is that of the medians, without interval.
    """
    changed = 0
    for record in store.records.values():
        spec = spec_from_dict(record["spec"])
        for convention, forms in CONVENTIONS.items():
            found = record[convention]
            choice = choose_kernel(spec, record["threads"], forms, tuned=False) if found else None
            if choice is None or parts_of(choice.key).short == found["policy"]:
                continue
            changed += 1
            found |= {"policy": parts_of(choice.key).short, "source": choice.source}
            if "ratio" in found:
                rival, own = (record["rows"].get(name) for name in (found["framework"], found["policy"]))
                found["policy_ratio"] = [round(rival[0] / own[0], 4), None, None] if rival and own else None
                if found["policy"] == found["native"]:
                    found["policy_ratio"] = found["ratio"]
    store.write()
    return changed


def _takes_part(row: Row, convention: str) -> bool:
    """As given: who holds the images as the spec says and packs in the call."""
    if convention == OWN:
        return True
    return not row.layout and not (_is_native(row) and len(row.key.split("/")) > 4)


def _ratio(cell: Cell, rival: Row, own: Row) -> list[float | None]:
    """Value, low, high; paired by round where both have some."""
    ratio = cell.ratio(rival, own)
    if ratio is None:
        return [round(_time(rival) / _time(own), 4), None, None]
    return [None if value is None else round(value, 4) for value in (ratio.value, ratio.low, ratio.high)]


def _is_native(row: Row) -> bool:
    return parts_of(row.key).framework == "native"


def _time(row: Row) -> float:
    return row.median_ns or math.inf


class Store:
    """The JSON file: every record under its section, name and thread count; written whole after each one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.about: dict[str, Any] = {}
        self.records: dict[str, Record] = {}
        if path.exists():
            data = json.loads(path.read_text(encoding="utf-8"))
            if data.get("schema") != SCHEMA:
                raise SystemExit(f"{path} is no {SCHEMA} file: move it away")
            self.about = data["about"]
            self.records = {identity(record): record for record in data["records"]}

    def keep(self, record: Record) -> None:
        """Put a record in the place of the older one, and write."""
        self.records[identity(record)] = record
        self.write()

    def write(self) -> None:
        """One record per line, so that changes can be read."""
        order = sorted(self.records.values(), key=lambda record: (record["section"], record["threads"]))
        lines = ",\n".join(json.dumps(record, separators=(",", ":"), ensure_ascii=False) for record in order)
        head = json.dumps({"schema": SCHEMA, "about": self.about}, ensure_ascii=False)
        write_atomically(self.path, f'{head[:-1]},\n"records":[\n{lines}\n]}}\n')

    def of(self, section: str, threads: int | None = None) -> list[Record]:
        """Records of a section."""
        found = (record for record in self.records.values() if record["section"] == section)
        return [record for record in found if threads in (None, record["threads"])]


def identity(record: Mapping[str, Any]) -> str:
    """Which measurement a record is of."""
    return f"{record['section']} | {record['name']} | {record['threads']}"


@dataclass(frozen=True)
class GoalJudgement:
    """A section at one thread count by one convention, against its goal."""

    section: str
    threads: int
    convention: str
    count: int
    mean: float
    least: float
    least_name: str
    below: int
    policy_mean: float | None
    policy_least: float | None
    missed: tuple[str, ...]
    """What is wrong, in words with numbers; empty: met."""
    is_judged: bool


def judge(section: ShapeSection, records: Sequence[Record], threads: int, convention: str) -> GoalJudgement | None:
    """The section's ratios in one line; nothing where there are none."""
    found = [(record["name"], record[convention]) for record in records if "ratio" in record.get(convention, {})]
    if not found:
        return None
    ratios = {name: item["ratio"][0] for name, item in found}
    policy = [item["policy_ratio"][0] for _, item in found if item["policy_ratio"]]
    mean, worst = geometric_mean(ratios.values()), min(ratios, key=lambda name: ratios[name])
    goal = section.goal
    is_judged = goal is not None and convention in section.conventions and threads in goal.threads
    missed = []
    if isinstance(goal, RatioGoal) and is_judged:
        missed += _missed_ratio(goal, threads, {name: item["ratio"] for name, item in found})
    if isinstance(goal, ShapeGoal) and is_judged:
        verdicts = [shape_verdict(goal, record, convention) for record in records]
        lost = verdicts.count(LOST)
        missed += [f"{lost} of {len(found)} shapes lost"] if lost else []
    missing = [record for record in records if record["failed"]]
    if missing and is_judged:
        missed.append(f"{len(missing)} shapes have rows that failed: {missing[0]['name']} {missing[0]['failed']}")
    return GoalJudgement(
        section.name,
        threads,
        convention,
        len(ratios),
        mean,
        ratios[worst],
        worst,
        sum(ratio < BELOW for ratio in ratios.values()),
        geometric_mean(policy) if policy else None,
        min(policy, default=None),
        tuple(missed),
        is_judged,
    )


def _missed_ratio(goal: RatioGoal, threads: int, ratios: Mapping[str, Sequence[float | None]]) -> list[str]:
    """What is wrong with ratios and their intervals, by shape."""
    values = {name: ratio[0] for name, ratio in ratios.items() if ratio[0] is not None}
    missed = []
    mean, worst = geometric_mean(values.values()), min(values, key=lambda name: values[name])
    if mean < goal.mean:
        missed.append(f"geometric mean {mean:.2f}, {100 * (goal.mean / mean - 1):.0f} % short of {goal.mean:.2f}")
    low = [ratios[name][2] for name in values if goal.least is not None and values[name] < goal.least]
    if goal.least is not None and low and threads in goal.least_threads:
        sure = [high for high in low if high is not None and high < goal.least]
        missed.append(
            f"{len(low)} below {goal.least} ({len(sure)} resolved, {low.count(None)} without an interval): "
            f"least {values[worst]:.2f} ({worst})"
        )
    return missed


def shape_verdict(goal: ShapeGoal, record: Record, convention: str) -> str:
    """Met by its share of the bandwidth or by its ratio; not resolved: below the ratio, but its interval is not."""
    found = record.get(convention, {})
    if "ratio" not in found:
        return ""
    share, (value, _, high) = bandwidth_share(record, convention), found["ratio"]
    if value >= goal.ratio or (share is not None and share >= goal.share):
        return MET
    return LOST if high is None or high < goal.ratio else NOT_RESOLVED


def bandwidth_share(record: Record, convention: str) -> float | None:
    """What the best native row reaches of the measured bandwidth; nothing where its arrays stay in a cache."""
    share: float | None = record["rows"][record[convention]["native"]][7]
    return share if record["bound"] == MEMORY else None


def geometric_mean(values: Iterable[float]) -> float:
    """Of positive numbers."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))
