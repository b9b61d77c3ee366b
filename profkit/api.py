"""The Python door to everything that the commands do: measure specs, get a result that prints itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from profkit.measurement.options import MeasureOptions
from profkit.measurement.progress import Watcher
from profkit.measurement.result import Result
from profkit.measurement.run import ignore_progress, measure_cells
from profkit.ops.spec import Spec
from profkit.rendering.html import render_html
from profkit.rendering.progress import show_progress
from profkit.rendering.records import flat_record
from profkit.rendering.table import render_text

if TYPE_CHECKING:
    import pandas


class PrintableResult(Result):
    """A Result that prints as the table, shows as a table in a notebook, and becomes a data frame."""

    def __str__(self) -> str:
        return render_text(self)

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
    progress: Watcher | bool = False,
    **options: Any,
) -> PrintableResult:
    """Compare every implementation of one operator, or of several specs, on this machine.

    `options` are the further fields of MeasureOptions (baseline, budget_s, timeout_s, cache, output, margin,
    candidates, memory_limit_bytes, seed, remeasure_peaks). `progress=True` shows a bar, in a notebook too.

    >>> import profkit
    >>> result = profkit.measure(profkit.Conv2d(stride=2), only=["torch", "native/*"], threads=1)
    >>> print(result)
    """
    chosen = MeasureOptions(
        only=[only] if isinstance(only, str) else tuple(only),
        exclude=[exclude] if isinstance(exclude, str) else tuple(exclude),
        threads=() if threads is None else [threads] if isinstance(threads, int) else tuple(threads),
        **options,
    )
    listed = [specs] if isinstance(specs, Spec) else list(specs)
    if progress is True:
        with show_progress() as watcher:
            result = measure_cells(listed, chosen, watcher)
    else:
        result = measure_cells(listed, chosen, progress or ignore_progress)
    return PrintableResult(result.environment, result.peaks, result.cells, result.interrupted)
