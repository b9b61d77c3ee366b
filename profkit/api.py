"""The Python API of the commands: measure specs, profile networks, open files; results print themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import fields
from html import escape
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from profkit.attribution.grouping import groupings_of
from profkit.attribution.passes import main_capture, usage_of
from profkit.attribution.usage import Usage
from profkit.capture.run import Run, save_run
from profkit.capture.schema import Capture
from profkit.commands.explain import explain_cells
from profkit.commands.opening import open_any
from profkit.data import load_data
from profkit.data.weights import read_weights
from profkit.errors import UsageError, check_names
from profkit.measurement.cores import default_threads
from profkit.measurement.largest_batch.request import MaxBatch, MaxBatchRequest
from profkit.measurement.largest_batch.search import find_max_batch
from profkit.measurement.network_run import NetworkRequest, run_networks
from profkit.measurement.options import MeasureOptions
from profkit.measurement.progress import Watcher
from profkit.measurement.result import Result
from profkit.measurement.run import measure_cells
from profkit.ops.networks import Network, find_network
from profkit.ops.spec import Spec
from profkit.rendering.progress import show_progress
from profkit.rendering.quantities import parse_size
from profkit.rendering.results.columns import result_records
from profkit.rendering.results.content import result_document
from profkit.rendering.results.max_batch import max_batch_table
from profkit.rendering.tables.document import Document
from profkit.rendering.usage.content import View
from profkit.rendering.usage.reports import report_of

if TYPE_CHECKING:
    import pandas


class PrintableResult(Result):
    """A Result that prints as the table, shows as a table in a notebook, and becomes a data frame."""

    def __repr__(self) -> str:
        return str(result_document(self))

    def _repr_html_(self) -> str:
        return result_document(self)._repr_html_()

    def to_pandas(self) -> pandas.DataFrame:
        """One line per row: fields of the spec, the cell and the row, named as in the CSV file (needs pandas)."""
        import pandas

        frame: pandas.DataFrame = pandas.DataFrame(result_records(self.cells))
        return frame


def measure(specs: Spec | Sequence[Spec], *, progress: Watcher | bool = False, **options: Any) -> PrintableResult:
    """Compare implementations of one operator, or of several specs, on this machine: the rows of the command's table.

    `all=True` measures every row, `only` those it names. Several `threads`, `cache` or `output` give a cell each; a
    single value is accepted instead of a list. `progress=True` shows a bar, in a notebook too. `options` are the
    fields of MeasureOptions:

    >>> import profkit
    >>> result = profkit.measure(profkit.Conv2d(stride=2), only=["torch", "native/*"], threads=1)
    >>> print(result)
    """
    known = {item.name: item for item in fields(MeasureOptions)}
    if options.get("threads", ()) is None:
        options["threads"] = ()
    check_names("profkit.measure", options, dict.fromkeys([*known, "progress"]))
    lists = {name for name, item in known.items() if isinstance(item.default, tuple)}
    values: dict[str, Any] = {name: _listed(given) if name in lists else given for name, given in options.items()}
    chosen = MeasureOptions(**values)
    listed = [specs] if isinstance(specs, Spec) else list(specs)
    wrong = next((spec for spec in listed if not isinstance(spec, Spec)), None)
    if wrong is not None:
        raise UsageError(f"profkit.measure takes specs, as profkit.Conv2d(stride=2), got {specs!r}")
    watching = nullcontext(progress) if callable(progress) else show_progress(is_quiet=not progress)
    with watching as watcher:
        result = measure_cells(listed, chosen, watcher)
    if chosen.explain:
        explain_cells(result, chosen.tuned)
    return PrintableResult(**vars(result))


def _option_help() -> str:
    """A line for each option of `measure`: what it does when it is not its default."""
    lines = []
    for item in fields(MeasureOptions):
        default, text = getattr(MeasureOptions(), item.name), item.metadata["help"]
        lines.append(f"    {item.name}={default!r}: {'False to ' if default is True else ''}{text}")
    return "\n".join(lines)


measure.__doc__ = (measure.__doc__ or "").replace("MeasureOptions:\n", f"MeasureOptions:\n\n{_option_help()}\n")


def _listed(given: Any) -> Sequence[Any]:
    return tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)


class CaptureProfile:
    """A capture that prints as its tables, in a notebook too; `capture` has everything that was recorded."""

    def __init__(self, capture: Capture | Run) -> None:
        self.capture = capture

    @property
    def groupings(self) -> tuple[str, ...]:
        """What one row of its table can be; the first is the default."""
        return tuple(groupings_of(main_capture(self.capture)))

    def usage(self, by: str | None = None, clock: str | None = None) -> Usage:
        """Time, bytes and work by one of `groupings`: what the command's JSON file has."""
        return usage_of(self.capture, by, clock)

    def tables(self, by: str | None = None) -> Document:
        """The report, which prints and writes itself; without `by`, that of a program has a table of its GPU, too."""
        return Document(*report_of(self.capture, by).tables(View()))

    def text(self, by: str | None = None) -> str:
        return str(self.tables(by))

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.tables()._repr_html_()


class NetworkProfile(CaptureProfile):
    capture: Run

    def save(self, path: str | PathLike[str]) -> None:
        """Keep the run, for `profkit report` and the other commands."""
        save_run(self.capture, fspath(path))

    def __repr__(self) -> str:
        return self._failure() or self.text()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self._failure())}</pre>" if self._failure() else super()._repr_html_()

    def _failure(self) -> str:
        """Why there is no table."""
        if self.capture.capture("time") is not None:
            return ""
        return f"{self.capture.framework}: {self.capture.status}, {self.capture.reason or 'nothing was recorded'}"


def open(path: str | PathLike[str]) -> CaptureProfile | PrintableResult:
    """Any file that profkit reads, recognized by its content; CaptureError otherwise.

    Captures of programs and networks, traces of torch.profiler (JSON, plain or by gzip) and Nsight Systems (SQLite)
    give a CaptureProfile, what an operator's `--json` wrote gives what `profkit.measure` gave.

    >>> import profkit
    >>> print(profkit.open("run.profkit"))
    """
    found = open_any(path)
    if isinstance(found, Result):
        return PrintableResult(**vars(found))
    return NetworkProfile(found) if isinstance(found, Run) else CaptureProfile(found)


def profile_network(
    network: Network | str, framework: str = "torch", *, threads: int | None = None, **options: Any
) -> NetworkProfile:
    """Run a network in a framework, in a separate process, and record the time and bytes of its steps.

    `options` are the further fields of NetworkRequest (mode, is_training, training, steps, runs, seed, learn_s,
    learn_steps, is_repeated, save_weights, timeout_s, memory_limit_bytes); `data` and `weights` are paths. A run that
    fails has a status other than ok in its capture, and a reason.

    >>> import profkit
    >>> print(profkit.profile_network(profkit.Cifar10(stride=2), "torch", is_training=True))
    """
    check_names("profkit.profile_network", options, [item.name for item in fields(NetworkRequest)])
    chosen = find_network(network)() if isinstance(network, str) else network
    for name, read in (("data", load_data), ("weights", read_weights)):
        if isinstance(options.get(name), (str, PathLike)):
            options[name] = read(options[name], chosen)
    request = NetworkRequest(chosen, framework, threads=threads or default_threads(), **options)
    return NetworkProfile(run_networks([request])[0])


class LargestBatch(MaxBatch):
    """What `max_batch` found: prints as the table of its evidence, in a notebook too."""

    def __repr__(self) -> str:
        return str(max_batch_table(self))

    def _repr_html_(self) -> str:
        return max_batch_table(self)._repr_html_()

    def to_pandas(self) -> pandas.DataFrame:
        """One line per process (needs pandas)."""
        frame: pandas.DataFrame = max_batch_table(self).to_pandas()
        return frame


def max_batch(
    network: Network | str,
    framework: str = "torch",
    *,
    memory: str | int | None = None,
    threads: int | None = None,
    **options: Any,
) -> LargestBatch:
    """The largest batch of a network that trains or infers within a memory limit, each in processes of their own.

    `memory` is what a process may have resident, as "4GiB" or in bytes; without it, what is free on this machine.
    `options` are the further fields of MaxBatchRequest (mode, is_training, training, precision, steps, has_steady_heap,
    timeout_s). The result's `largest` is None where no batch ran.

    >>> import profkit
    >>> print(profkit.max_batch("cifar10", memory="2GiB", is_training=True))
    """
    names = [item.name for item in fields(MaxBatchRequest) if item.name != "memory_bytes"]
    check_names("profkit.max_batch", options, ["memory", *names])
    chosen = find_network(network)() if isinstance(network, str) else network
    options.setdefault("training", chosen.training)
    limit = parse_size(memory) if isinstance(memory, str) else memory
    threads = default_threads() if threads is None else threads
    request = MaxBatchRequest(chosen, framework, threads=threads, memory_bytes=limit, **options)
    return LargestBatch(**vars(find_max_batch(request)))
