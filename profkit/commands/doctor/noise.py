"""The machine's noise floor: what is known of it, and `doctor --noise`, which measures it with a reference pair."""

from __future__ import annotations

from profkit.commands.doctor.checks import MISSING, NOTE, WORKS, Diagnosis

NAME = "noise floor"
LINE = "profkit doctor --noise"
BUDGET_S = 180.0
PAIR = ("matmul/numpy/cpu", "matmul/native/cpu/blocked")
"""Of a product that leans on memory and on arithmetic: kernels that react to the machine in different ways."""


def check_noise(measures: bool = False, budget_s: float = BUDGET_S) -> Diagnosis:
    """What every interval includes; `measures`: found out now and kept, unless the machine is busy."""
    try:
        from profkit.measurement.statistics.noise_floor import machine_floor
    except ImportError:
        return Diagnosis(NAME, MISSING, "it needs the native kernels")
    if measures:
        return _measured(budget_s)
    floor, source = machine_floor()
    if source == "assumed":
        return Diagnosis(NAME, NOTE, f"{100 * floor:.2g} % assumed", LINE)
    return Diagnosis(NAME, WORKS, f"{100 * floor:.2g} %, {source}")


def _measured(budget_s: float) -> Diagnosis:
    from profkit.capture.busy_machine import BUSY_SHARE
    from profkit.measurement.options import MeasureOptions
    from profkit.measurement.run import measure_cells
    from profkit.measurement.statistics.noise_floor import floor_of, keep_floors
    from profkit.ops import MatMul
    from profkit.rendering.progress import show_progress

    options = MeasureOptions(only=PAIR, baseline=PAIR[0], budget_s=budget_s)
    with show_progress() as watcher:
        result = measure_cells([MatMul(m=32, n=1000, k=4096)], options, watcher)
    if result.interrupted:
        raise KeyboardInterrupt
    cell = result.cells[0]
    found = {row.key: row for row in cell.rows if row.status == "ok"}
    if found.keys() != set(PAIR):
        return Diagnosis(NAME, NOTE, f"not measured: {'; '.join(row.reason for row in cell.rows if row.reason)}")
    others = cell.machine.get("others_share", 0.0)
    if cell.is_too_busy or others > BUSY_SHARE:
        return Diagnosis(NAME, NOTE, f"not stored: other programs took {100 * others:.0f} % of the processors", LINE)
    floor = floor_of(cell.log_ratios(*(found[key] for key in PAIR)), budget_s / cell.rounds)
    if floor is None:
        return Diagnosis(NAME, NOTE, f"not measured: {cell.rounds} rounds are too few")
    times = [floor_of(cell.log_times(found[key]), budget_s / cell.rounds) for key in PAIR]
    of_times = max((each for each in times if each is not None), default=None)
    keep_floors(floor, of_times)
    also = "" if of_times is None else f"; of times that are not paired {100 * of_times:.2g} %"
    return Diagnosis(NAME, WORKS, f"{100 * floor:.2g} %, measured now and stored{also}")
