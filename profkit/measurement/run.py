"""The whole measurement: every spec at every thread count, then one Result; an interruption loses nothing."""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
from collections.abc import Callable, Iterator, Sequence

from profkit.errors import UsageError
from profkit.measurement.cell import CellRun, SharedInputs
from profkit.measurement.environment import fingerprint
from profkit.measurement.options import MeasureOptions
from profkit.measurement.peaks import machine_peaks
from profkit.measurement.progress import Watcher, cell_progress, ignore_progress
from profkit.measurement.result import Cell, Result
from profkit.measurement.selection import Selection, all_implementations
from profkit.measurement.workers.pool import WorkerPool
from profkit.ops.dtypes import computing_dtype
from profkit.ops.spec import Spec


def measure_cells(
    specs: Sequence[Spec],
    options: MeasureOptions,
    watcher: Watcher = ignore_progress,
    on_cell: Callable[[Cell], None] | None = None,
) -> Result:
    """Measure all cells; Ctrl-C or a polite kill ends it early, with `interrupted` set and what was measured.

    `on_cell` is given every whole cell as soon as it is measured, so that a long run can keep what it has.
    """
    if not specs:
        raise UsageError("nothing to measure: no spec was given")
    selections = {
        op: Selection(all_implementations(op, options.candidates), options) for op in {spec.op for spec in specs}
    }
    counts = options.thread_counts()
    conditions = [(cache, output, spec) for cache in options.cache for output in options.output for spec in specs]
    total = len(conditions) * len(counts)
    result = Result(fingerprint(), {}, [])
    peaks = functools.cache(functools.partial(machine_peaks, remeasure=options.remeasure_peaks))
    problem: SharedInputs | None = None
    with first_signal_interrupts():
        try:
            for threads in counts:
                with contextlib.closing(WorkerPool(options, threads)) as pool:
                    for cache, output, spec in conditions:
                        tell = cell_progress(watcher, len(result.cells), total)
                        selection = selections[spec.op]
                        rows = selection.rows(spec, threads)
                        found: dict[str, float] = {}
                        if any(item.device == "cpu" for item in rows):
                            tell("peaks", 0.0, "peak arithmetic and bandwidth")
                            found = peaks(computing_dtype(spec.dtype_word), threads)
                        result.peaks = result.peaks or found
                        run = CellRun(spec, pool, rows, tell, cache, output, problem)
                        problem = run.problem
                        try:
                            run.measure()
                        finally:
                            result.cells.append(run.finish(found))
                            result.cells[-1].left_out = selection.left_out(rows, spec)
                        if on_cell is not None:
                            on_cell(result.cells[-1])
        except KeyboardInterrupt:
            result.interrupted = True
    result.environment["frameworks"] = worker_facts(result.cells)
    return result


@contextlib.contextmanager
def first_signal_interrupts() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt once; later ones wait until everything is cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can have handlers
        return
    raised = False

    def interrupt(_number: int, _frame: object) -> None:
        nonlocal raised
        if not raised:
            raised = True
            raise KeyboardInterrupt

    handlers = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def worker_facts(cells: Sequence[Cell]) -> dict[str, dict[str, str]]:
    """Version and build facts that the workers reported, by key without the operator (keras/cpu/torch)."""
    return {row.key.partition("/")[2]: row.versions for cell in cells for row in cell.rows if row.versions}
