"""The Python door to what the commands do: specs measured, networks profiled, files opened; all print themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from html import escape
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from profkit._explain import explain_cells
from profkit._opening import open_any
from profkit.attribution.attribute import usage_by
from profkit.attribution.device_groups import GROUPINGS as DEVICE_GROUPINGS
from profkit.attribution.device_usage import device_usage
from profkit.attribution.grouping import GROUPINGS as RANGE_GROUPINGS
from profkit.attribution.network_usage import GROUPINGS as NETWORK_GROUPINGS
from profkit.attribution.network_usage import network_usage
from profkit.attribution.usage import Usage
from profkit.capture.device_trace import DeviceTrace
from profkit.capture.network_capture import NetworkCapture, save_network_capture
from profkit.capture.tables import Capture
from profkit.errors import UsageError, check_names
from profkit.measurement.cores import default_threads
from profkit.measurement.network_run import NetworkRequest, run_network
from profkit.measurement.options import MeasureOptions
from profkit.measurement.progress import Watcher
from profkit.measurement.result import Result
from profkit.measurement.run import ignore_progress, measure_cells
from profkit.ops.networks import Network, find_network
from profkit.ops.spec import Spec
from profkit.rendering.device_content import device_surroundings
from profkit.rendering.html import render_html, report_html
from profkit.rendering.network_content import network_surroundings
from profkit.rendering.progress import show_progress
from profkit.rendering.records import flat_record
from profkit.rendering.table import render_text
from profkit.rendering.usage_content import Surroundings, View, surroundings
from profkit.rendering.usage_text import render_report

if TYPE_CHECKING:
    import pandas


class PrintableResult(Result):
    """A Result that prints as the table, shows as a table in a notebook, and becomes a data frame."""

    def __str__(self) -> str:
        return render_text(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return render_html(self)

    def to_pandas(self) -> pandas.DataFrame:
        """One line per row: fields of the spec, the cell and the row, named as in the CSV file (needs pandas)."""
        import pandas

        lines = [flat_record(cell, row, cell.spec.to_dict()) for cell in self.cells for row in cell.rows]
        frame: pandas.DataFrame = pandas.DataFrame(lines)
        return frame


def measure(
    specs: Spec | Sequence[Spec],
    *,
    only: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    threads: int | Sequence[int] | None = None,
    cache: str | Sequence[str] = MeasureOptions.cache,
    output: str | Sequence[str] = MeasureOptions.output,
    candidates: str | Sequence[str] = (),
    progress: Watcher | bool = False,
    **options: Any,
) -> PrintableResult:
    """Compare implementations of one operator, or of several specs, on this machine: the rows of the command's table.

    `all=True` measures every row, `only` those it names. Several `threads`, `cache` or `output` give a cell each.
    `options` are the further fields of MeasureOptions (all, baseline, device, explain, budget_s, timeout_s, margin,
    memory_limit_bytes, kernel_time, seed, remeasure_peaks). `progress=True` shows a bar, in a notebook too.

    >>> import profkit
    >>> result = profkit.measure(profkit.Conv2d(stride=2), only=["torch", "native/*"], threads=1)
    >>> print(result)
    """
    own = ["only", "exclude", "threads", "cache", "output", "candidates", "progress"]
    check_names("profkit.measure", options, dict.fromkeys([*own, *(item.name for item in fields(MeasureOptions))]))
    chosen = MeasureOptions(
        only=_listed(only),
        exclude=_listed(exclude),
        cache=_listed(cache),
        output=_listed(output),
        candidates=_listed(candidates),
        threads=() if threads is None else _listed(threads),
        **options,
    )
    listed = [specs] if isinstance(specs, Spec) else list(specs)
    wrong = next((spec for spec in listed if not isinstance(spec, Spec)), None)
    if wrong is not None:
        raise UsageError(f"profkit.measure takes specs, as profkit.Conv2d(stride=2), got {specs!r}")
    if progress is True:
        with show_progress() as watcher:
            result = measure_cells(listed, chosen, watcher)
    else:
        result = measure_cells(listed, chosen, progress or ignore_progress)
    if chosen.explain:
        explain_cells(result, chosen.tuned)
    return PrintableResult(result.environment, result.peaks, result.cells, result.interrupted)


def _listed(given: Any) -> Sequence[Any]:
    return tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)


class CaptureProfile:
    """A capture that prints as its tables, in a notebook too; `capture` has everything that was recorded."""

    def __init__(self, capture: Capture | NetworkCapture | DeviceTrace) -> None:
        self.capture = capture

    @property
    def groupings(self) -> tuple[str, ...]:
        """What one row of its table can be; the first is the default."""
        return _groupings(self.capture)

    def usage(self, by: str | None = None) -> Usage:
        """Time, bytes and work by one of `groupings`: what the command's JSON file has."""
        return self._reports(by)[0][1]

    def text(self, by: str | None = None) -> str:
        """The report as plain text; without `by`, a traced program that used a GPU has a table of that, too."""
        tables = (render_report(around, _shown(usage), View()) for around, usage in self._reports(by))
        return "\n".join(tables).rstrip("\n")

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return "".join(report_html(around, _shown(usage)) for around, usage in self._reports())

    def _reports(self, by: str | None = None) -> list[tuple[Surroundings, Usage]]:
        capture, chosen = self.capture, by or self.groupings[0]
        check_names("the capture", [chosen], self.groupings, "grouping")
        if isinstance(capture, NetworkCapture):
            usage = network_usage(capture, chosen)
            return [(network_surroundings(capture, usage), usage)]
        if isinstance(capture, DeviceTrace):
            return [_device_report(capture, chosen)]
        if chosen not in RANGE_GROUPINGS and capture.device is not None:
            return [_device_report(capture.device, chosen)]
        usage = usage_by(capture, chosen)
        reports = [(surroundings(capture, usage), usage)]
        if by is None and capture.device is not None and len(capture.device.activities["kind"]):
            reports.append(_device_report(capture.device, next(iter(DEVICE_GROUPINGS))))
        return reports


def _groupings(capture: Capture | NetworkCapture | DeviceTrace) -> tuple[str, ...]:
    if isinstance(capture, NetworkCapture):
        return tuple(NETWORK_GROUPINGS)
    if isinstance(capture, DeviceTrace):
        return tuple(DEVICE_GROUPINGS)
    devices = DEVICE_GROUPINGS if capture.device is not None else ()
    return tuple(dict.fromkeys((*RANGE_GROUPINGS, *devices)))


def _device_report(trace: DeviceTrace, by: str) -> tuple[Surroundings, Usage]:
    usage = device_usage(trace, by)
    return device_surroundings(trace, usage), usage


def _shown(usage: Usage) -> Usage:
    """A network's table is of one step."""
    return usage.mean_of_steps() if usage.steps is not None else usage


class NetworkProfile(CaptureProfile):
    """A network's run in a framework."""

    capture: NetworkCapture

    def save(self, path: str | PathLike[str]) -> None:
        """Keep the run, for `profkit report` and the other commands."""
        save_network_capture(self.capture, fspath(path))

    def __str__(self) -> str:
        return self._failure() or self.text()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self._failure())}</pre>" if self._failure() else super()._repr_html_()

    def _failure(self) -> str:
        """Why there is no table."""
        if self.capture.recording("time") is not None:
            return ""
        return f"{self.capture.framework}: {self.capture.status}, {self.capture.reason or 'nothing was recorded'}"


def open(path: str | PathLike[str]) -> CaptureProfile | PrintableResult:
    """Any file that profkit reads, told by its content; CaptureError when it is none.

    Captures of programs and networks, traces of torch.profiler (JSON, plain or by gzip) and Nsight Systems (SQLite)
    give a CaptureProfile, what an operator's `--json` wrote gives what `profkit.measure` gave.

    >>> import profkit
    >>> print(profkit.open("run.profkit"))
    """
    found = open_any(path)
    if isinstance(found, Result):
        return PrintableResult(found.environment, found.peaks, found.cells, found.interrupted)
    return NetworkProfile(found) if isinstance(found, NetworkCapture) else CaptureProfile(found)


def profile_network(
    network: Network | str, framework: str = "torch", *, threads: int | None = None, **options: Any
) -> NetworkProfile:
    """Run a network in a framework, in a process of its own, and record whose time and bytes its steps take.

    `options` are the further fields of NetworkRequest (mode, is_training, training, steps, data, seed, learn_s,
    timeout_s, memory_limit_bytes). A run that fails has a status other than ok in its capture, and says why.

    >>> import profkit
    >>> print(profkit.profile_network(profkit.Cifar10(stride=2), "torch", is_training=True))
    """
    check_names("profkit.profile_network", options, [item.name for item in fields(NetworkRequest)])
    chosen = find_network(network)() if isinstance(network, str) else network
    request = NetworkRequest(chosen, framework, threads=threads or default_threads(), **options)
    return NetworkProfile(run_network(request))
