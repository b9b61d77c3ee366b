"""The whole measurement: every spec at every thread count, then one Result; an interruption loses nothing."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.errors import UsageError
from profkit.measurement.cell import CellRun, Crew
from profkit.measurement.environment import fingerprint
from profkit.measurement.options import MeasureOptions
from profkit.measurement.peaks import machine_peaks
from profkit.measurement.progress import Progress, Watcher
from profkit.measurement.result import Cell, Result
from profkit.measurement.selection import all_implementations, choose
from profkit.ops.spec import Spec


def ignore_progress(progress: Progress) -> None:
    """The watcher of a caller who does not watch."""


def measure_cells(specs: Sequence[Spec], options: MeasureOptions, watcher: Watcher = ignore_progress) -> Result:
    """Measure all cells; Ctrl-C ends it early with `interrupted` set and everything measured so far."""
    if not specs:
        raise UsageError("nothing to measure: no spec was given")
    implementations = {
        op: choose(all_implementations(op, options.candidates), options.only, options.exclude, options.baseline)
        for op in {spec.op for spec in specs}
    }
    counts = options.thread_counts()
    total = len(specs) * len(counts)
    result = Result(fingerprint(), {}, [])
    try:
        for threads in counts:
            crew = Crew(options, threads)
            try:
                for spec in specs:
                    number = len(result.cells)

                    def tell(phase: str, fraction: float, text: str, number: int = number) -> None:
                        watcher(Progress(number, total, phase, fraction, text))

                    tell("peaks", 0.0, "peak arithmetic and bandwidth")
                    dtype = spec.numpy_dtype.name
                    peaks = machine_peaks(dtype, threads, options.remeasure_peaks and number == 0)
                    result.peaks = result.peaks or peaks
                    run = CellRun(spec, crew, implementations[spec.op], tell)
                    try:
                        run.measure()
                    finally:
                        result.cells.append(run.finish(peaks))
                        result.environment["frameworks"] = versions_by_framework(result.cells)
            finally:
                crew.close()
    except KeyboardInterrupt:
        result.interrupted = True
    return result


def versions_by_framework(cells: Sequence[Cell]) -> dict[str, dict[str, str]]:
    """Version and build facts that the workers reported, by framework."""
    return {row.key.split("/")[1]: row.versions for cell in cells for row in cell.rows if row.versions}
