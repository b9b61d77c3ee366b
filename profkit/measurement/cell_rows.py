"""From the samples of one cell to its rows: which rounds count, times, ratios, verdicts, shares of the peak.

Input: what cell.py sampled. Output: a Cell. It starts no process.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, field

import numpy as np

from profkit import _core
from profkit.frameworks import is_candidate
from profkit.measurement.bounds import (
    BEYOND_FACTOR,
    BEYOND_MACHINE,
    COMPUTE,
    binding,
    least_seconds,
    least_seconds_of_any,
    method_of,
)
from profkit.measurement.checks.audit import AuditLog, audit_finding
from profkit.measurement.checks.clocks import TurnTime, clock_trouble, unexplained_ns, usual_unexplained_ns
from profkit.measurement.checks.conduct import Conduct
from profkit.measurement.device.clocks import NOT_WATCHED
from profkit.measurement.device.wall_clock import WALL_CLOCK
from profkit.measurement.disturbance import DisturbanceWatch, spared
from profkit.measurement.host_times import HostTimes
from profkit.measurement.options import MeasureOptions
from profkit.measurement.result import DOUBTFUL, WITHDRAWN, Cell, Row
from profkit.measurement.sampling import Contender
from profkit.measurement.selection import pick_baseline
from profkit.measurement.statistics.distribution import drift, percentiles, two_modes
from profkit.measurement.statistics.estimates import (
    by_run,
    least_difference,
    log_ratios,
    ratio_centre,
    time_centre,
    times_longer,
    verdict,
)
from profkit.measurement.statistics.noise_floor import machine_floor
from profkit.ops.spec import Spec

LOW_PEAK = "above 100 % of the measured peak, which may have been taken on a slower machine: --remeasure-peaks"
OR_FEWER = "or it leaves out operations that the direct method has"
NOT_AUDITED = "not audited on new contents of its inputs (docs/cheating.md says when)"
BUDGETS_S = (30, 45, 60, 90, 120, 180, 300, 600)
"""Budgets that a row that is not resolved may recommend; where more would be needed, none helps."""


@dataclass
class CellSamples:
    """What was sampled, by key; `judged` fills the rows. CellRun (cell.py) samples."""

    spec: Spec
    options: MeasureOptions
    threads: int
    cache: str
    output: str
    rows: dict[str, Row]
    on_device: Set[str] = frozenset()
    contenders: dict[str, Contender] = field(default_factory=dict)
    host_times: dict[str, HostTimes] = field(default_factory=dict)
    device_peaks: dict[str, Mapping[str, float]] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)
    conduct: dict[str, Conduct] = field(default_factory=dict)
    watch: DisturbanceWatch | None = None
    rounds: int = 0
    run_starts: list[int] = field(default_factory=lambda: [0])
    audits: Mapping[str, AuditLog] = field(default_factory=dict)
    turn_times: dict[str, list[TurnTime]] = field(default_factory=dict)
    dropped: dict[str, list[int]] = field(default_factory=dict)
    machine: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.floor, self.floor_from = machine_floor()

    def judged(self, peaks: Mapping[str, float]) -> Cell:
        """Rows with everything that is known now."""
        self._compare_clocks()
        least_s = least_seconds(self.spec, peaks, self.is_cold, _core.cpu_features()["l3_bytes"])
        sampled = [
            key for key, contender in self.contenders.items() if contender.samples_ns and self.rows[key].status == "ok"
        ]
        baseline = pick_baseline(sampled, self.options.baseline)
        self._drop_rounds()
        self._tell_audits()
        for key in sorted(sampled, key=lambda key: key != baseline):  # the others' times follow from the baseline's
            self._compare(self.rows[key], baseline)
            self._fill(self.rows[key], self.contenders[key], None if key in self.on_device else peaks)
            self._judge_conduct(self.rows[key])
            self._doubt(self.rows[key], baseline, {} if key in self.on_device else peaks)
        unfinished = [
            key for key, row in self.rows.items() if not row.status or (row.status == "ok" and key not in sampled)
        ]
        notes = [f"not measured before the interruption: {', '.join(unfinished)}"] if unfinished else []
        unwatched = {self.rows[key].device.get(NOT_WATCHED, "") for key in sampled} - {""}
        notes += [f"GPU clocks {text}" for text in sorted(unwatched)]
        notes += self.watch.not_watched() if self.watch else []
        if self.options.baseline and baseline is None:
            notes.append(f"no ratio: the baseline {self.options.baseline} gave no time")
        return Cell(
            spec=self.spec,
            threads=self.threads,
            baseline=baseline,
            peaks=dict(peaks),
            bound=binding(least_s),
            bound_ns=1e9 * max(least_s.values()) if least_s else None,
            cache=self.cache,
            output=self.output,
            rows=[row for key, row in self.rows.items() if key not in unfinished],
            notes=notes,
            rounds=self.rounds,
            run_starts=self.run_starts,
            dropped=self.dropped,
            is_too_busy=self.is_too_busy,
            floor=self.floor,
            floor_from=self.floor_from,
            machine=self.machine,
        )

    @property
    def is_cold(self) -> bool:
        """Whether caches are emptied before each sample."""
        return self.cache == "cold"

    @property
    def is_too_busy(self) -> bool:
        """Whether more than half of the rounds were disturbed."""
        return 2 * sum(map(len, self.dropped.values())) > self.rounds

    def _drop_rounds(self) -> None:
        """An interruption comes in the middle of a round, which has a number nevertheless."""
        begun = {index for contender in self.contenders.values() for index in contender.rounds}
        self.rounds = max([self.rounds, *(index + 1 for index in begun)])
        if self.watch is not None:
            self.dropped, self.machine = self.watch.dropped(), self.watch.facts()

    def _kept(self, times: Mapping[int, float]) -> dict[int, float]:
        """Of the rounds that count; of all where too many, or all of this row, were disturbed."""
        dropped = {index for rounds in self.dropped.values() for index in rounds}
        kept = {index: ns for index, ns in times.items() if index not in dropped}
        return dict(times) if self.is_too_busy or not kept else kept

    def _fill(self, row: Row, contender: Contender, peaks: Mapping[str, float] | None) -> None:
        """Numbers of one row; without the machine's peaks those of its device are taken, as far as they are known."""
        row.samples_ns, row.sample_rounds = contender.samples_ns, contender.rounds
        row.calls_per_sample = contender.calls_per_sample
        time_ns = self._fill_time(row, contender)
        row.gflops = self.spec.flops() / time_ns
        cache_bytes = _core.cpu_features()["l3_bytes"] if peaks is not None else 0
        if peaks is None:
            peaks = {} if row.rounding else self.device_peaks[row.key]
            cache_bytes = int(peaks.get("l2_bytes", 0))
        row.method, flops = method_of(row.key, self.spec)
        self._compare_clocks()
        least_s = least_seconds(self.spec, peaks, self.is_cold, cache_bytes, flops)
        if COMPUTE in least_s:
            row.percent_of_peak = 100.0 * row.gflops * 1e9 / peaks["flops_per_s"]
            row.bound_ns = 1e9 * max(least_s.values())
            row.percent_of_bound = 100.0 * row.bound_ns / time_ns
        if contender.page_faults:
            row.page_faults = float(np.median(contender.page_faults))
        if row.key in self.host_times:
            host = self.host_times[row.key]
            row.wall_ns = time_ns if row.timing.startswith(WALL_CLOCK) else host.wall_ns
            row.dispatch_ns = host.dispatch_ns
        slow = len(row.throttled_samples)
        held_down = f"{slow} of {len(row.samples_ns)} samples were taken while it was throttled" if slow else ""
        row.note = "; ".join(text for text in (row.note, self.remarks.get(row.key, ""), held_down) if text)

    def _compare_clocks(self) -> None:
        """A candidate that reports less time than has passed is wrong; other rows show how much is usual in between."""
        others = [
            turns for key, turns in self.turn_times.items() if not is_candidate(key) and key not in self.on_device
        ]
        usual_ns = usual_unexplained_ns(others)
        for key, turns in self.turn_times.items():
            row = self.rows[key]
            if not turns or key in self.on_device:
                continue
            row.unexplained_ns = unexplained_ns(turns)
            reason = clock_trouble(turns, usual_ns) if is_candidate(key) and row.status == "ok" else ""
            if reason:
                row.status, row.reason = "wrong", reason

    def _doubt(self, row: Row, baseline: str | None, peaks: Mapping[str, float]) -> None:
        """What its verdict cannot be, whatever its ratio says."""
        least_s = least_seconds_of_any(self.spec, peaks, self.is_cold, _core.cpu_features()["l3_bytes"])
        time_ns = row.high_ns or row.median_ns or 0.0
        if is_candidate(row.key) and time_ns < 1e9 * least_s / BEYOND_FACTOR:
            self._withdraw(
                row, BEYOND_MACHINE, f"no known algorithm can take less than {1e6 * least_s:.3g} µs on this machine"
            )
        log = self.audits.get(row.key)
        rival = self.audits.get(baseline or "") if baseline != row.key else None
        finding = None if log is None else audit_finding(log, rival)
        if finding is not None:
            row.audit = asdict(finding)
            if is_candidate(row.key) and finding.verdict:
                self._withdraw(row, finding.verdict, finding.words)
        elif is_candidate(row.key):
            self._remark(row, NOT_AUDITED)
        is_direct = not row.method.startswith("Winograd")
        if (row.percent_of_peak or 0.0) > 100.0 and is_direct and row.verdict not in WITHDRAWN:
            self._remark(row, f"{LOW_PEAK}, {OR_FEWER}" if self.spec.op == "conv2d" else LOW_PEAK)

    def _tell_audits(self) -> None:
        """What a sample of each row takes, of all rounds: those on changing contents are from disturbed ones, too."""
        for key, log in self.audits.items():
            centre = time_centre(self.contenders[key].medians(), self.run_starts)
            if centre is not None:
                log.sample_ns = self.contenders[key].calls_per_sample * centre.estimate(self.floor).value

    def _withdraw(self, row: Row, word: str, why: str) -> None:
        if row.verdict != "baseline":
            row.verdict, row.next_step = word, ""
        row.doubts.append(f"{word}: {why}")

    def _remark(self, row: Row, words: str) -> None:
        row.note = "; ".join(filter(None, (row.note, words)))

    def _fill_time(self, row: Row, contender: Contender) -> float:
        """Times from the rounds that count; `_compare` has given a row with a ratio its time already."""
        times = self._kept(contender.medians())
        centre = time_centre(times, self.run_starts)
        if centre is None:
            raise RuntimeError(f"{row.key} has no samples")
        own = centre.estimate(self.floor)
        time_ns = own.value if row.median_ns is None else row.median_ns
        row.median_ns = time_ns
        if own.low is not None and own.high is not None:
            # As wide as its own noise makes it, around the time that agrees with the ratio.
            row.low_ns, row.high_ns = time_ns * own.low / own.value, time_ns * own.high / own.value
        kept = [ns for ns, index in zip(contender.samples_ns, contender.rounds) if index in times]
        for name, value in percentiles(kept).items():
            setattr(row, name, value)
        modes = two_modes(times)
        if modes is not None:
            row.low_mode_ns, row.high_mode_ns, row.high_mode_share = modes
        if row.verdict in ("", "baseline"):
            row.drift = self._largest_drift({index: float(np.log(ns)) for index, ns in times.items()})
        return time_ns

    def _judge_conduct(self, row: Row) -> None:
        """Doubts about its times; a host that waits for a device keeps no threads, so it is only watched."""
        conduct = self.conduct.get(row.key)
        if conduct is None or row.key in self.on_device:
            return
        row.processors = conduct.processors
        row.doubts += conduct.doubts(self.threads)
        hurt = [key for key, other in self.conduct.items() if other.is_tampered_with and key != row.key]
        if hurt and is_candidate(row.key):
            row.doubts.append(
                f"another process changed the processors or the priority of {', '.join(hurt)} while others ran"
            )
        shares = spared(row.key, self.watch.others_turns) if self.watch else None
        if shares is not None:
            own, rest = (f"{100.0 * share:.0f} %" for share in shares)
            row.doubts.append(f"other programs took {own} of the processors in its turns, {rest} in those of others")
        if row.doubts and row.verdict == "faster":
            row.verdict = DOUBTFUL

    def _largest_drift(self, logs: Mapping[int, float]) -> float | None:
        found = [change for change in map(drift, by_run(logs, self.run_starts)) if change is not None]
        return max(found, key=abs, default=None)

    def _compare(self, row: Row, baseline: str | None) -> None:
        """Ratio and verdict, and the time that follows from them: a table cannot contradict itself."""
        if baseline is None:
            return
        if row.key == baseline:
            row.ratio = row.ratio_low = row.ratio_high = 1.0
            row.verdict = "baseline"
            return
        all_times = {key: self.contenders[key].medians() for key in (baseline, row.key)}
        times = {key: self._kept(medians) for key, medians in all_times.items()}
        is_disturbed = not times[baseline].keys() & times[row.key].keys()
        if is_disturbed:
            times = all_times
        same_clock = True
        by_wall = {key for key in times if self.rows[key].timing.startswith(WALL_CLOCK)}
        if len(by_wall) == 1 and times.keys() <= self.on_device:
            # Only one of the two can be timed by events: what both have is the wall clock.
            (other,) = times.keys() - by_wall
            times[other] = {**times[other], **self.host_times[other].walls}
            same_clock = False
            row.note = "; ".join(filter(None, (row.note, "its ratio is of calls by the wall clock on both sides")))
        centre = ratio_centre(times[baseline], times[row.key], self.run_starts)
        row.verdict = "not resolved"
        if centre is None:
            row.next_step = "it shares no round with the baseline"
            return
        margin = self.options.margin
        ratio = centre.estimate(self.floor)
        row.ratio, row.ratio_low, row.ratio_high = ratio.value, ratio.low, ratio.high
        row.least_difference = least_difference(ratio, margin)
        row.drift = self._largest_drift(log_ratios(times[baseline], times[row.key]))
        baseline_ns = self.rows[baseline].median_ns
        if same_clock and baseline_ns is not None:
            row.median_ns = baseline_ns / ratio.value
        if self.is_too_busy:
            row.next_step = "too busy to judge: rerun when the machine is quiet"
            return
        if is_disturbed:
            row.next_step = "it shares no undisturbed round with the baseline: rerun when the machine is quiet"
            return
        row.verdict = verdict(ratio, margin)
        if row.verdict == "not resolved":
            row.next_step = self._budget_needed(times_longer(centre, self.floor, margin), ratio.low is not None)

    def _budget_needed(self, longer: float | None, has_interval: bool) -> str:
        """What would resolve a row, in words."""
        budget_s = self.options.budget_s
        if not has_interval:
            return f"it had one round; rerun with --budget {next_budget(3.0 * budget_s) or 3 * budget_s:g}s"
        if longer is None:
            return f"no budget would do: the machine's noise floor is {100 * self.floor:.2g} %"
        wanted_s = next_budget(max(longer, 1.2) * budget_s)
        return (
            f"no budget up to {BUDGETS_S[-1]}s would do" if wanted_s is None else f"rerun with --budget {wanted_s:g}s"
        )


def next_budget(seconds: float) -> float | None:
    """The least of BUDGETS_S that is enough; None when none is."""
    return next((float(each) for each in BUDGETS_S if each >= seconds), None)
