"""One operator's command: words in, tables on the terminal and files out, an exit code back."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from profkit.capture.output_files import check_targets
from profkit.commands.explain import explain_cells
from profkit.commands.request import Request, parse_request
from profkit.commands.showing import show_result
from profkit.errors import INTERRUPTED, ProfkitError, UnavailableError, UsageError
from profkit.frameworks import is_candidate
from profkit.measurement.result import Result
from profkit.ops import default_preset, presets_for
from profkit.rendering.names import spec_text
from profkit.rendering.progress import show_progress
from profkit.rendering.quantities import bytes_text
from profkit.rendering.tables.table import Item, Items
from profkit.rendering.terminal import tell

POLL_S = 0.5
BUILD_LINE = "from the repository's folder, type: pip install -e ."
_BAD_STATUSES = ("wrong", "crashed", "lost", "not compiled", "not loaded")
_FAILED_CANDIDATE = (*_BAD_STATUSES, "timeout", "oom")
BAD_ROW = 3


def run_operator(op: str, command: str, words: Sequence[str]) -> int:
    request = parse_request(op, command, words)
    if request.lists_presets:
        return list_presets(request.op)
    if request.table.lists:
        return list_implementations(request)
    sources = [text.partition(":")[0] for text in request.options.candidates]
    check_targets(request.table.files.values(), sources=sources)
    measure = load_measurement()
    _check_memory(request)
    return watch(request, measure) if request.table.watch else measure_once(request, measure)


def measure_once(request: Request, measure: Callable[..., Result]) -> int:
    """Measure, show, save; what was measured is shown before anything can fail."""
    table, options = request.table, request.options
    if request.cells > 1 and not table.quiet:
        tell(f"{request.cells} tables, {options.budget_s * (1 + options.again):g} s of sampling each")
    with show_progress(is_quiet=table.quiet) as progress:
        result = measure(request.specs, options, progress)
    if options.explain:
        explain_cells(result, options.tuned)
    show_result(result, table.columns, table.verbose or options.all, table.files)
    return exit_code(result, table.strict)


def load_measurement() -> Callable[..., Result]:
    """measure_cells; UnavailableError with the line to type where the compiled core is missing."""
    try:
        from profkit.measurement.run import measure_cells
    except ImportError as error:
        raise UnavailableError(f"profkit's compiled core cannot be loaded: {error}\n  {BUILD_LINE}") from error
    return measure_cells


def exit_code(result: Result, is_strict: bool) -> int:
    if result.interrupted:
        return INTERRUPTED
    rows = [row for cell in result.cells for row in cell.rows]
    candidates = [row for row in rows if is_candidate(row.key)]
    if any(row.status in _FAILED_CANDIDATE for row in candidates):
        return BAD_ROW
    if is_strict and any(row.status in _BAD_STATUSES or row.doubts for row in rows):
        return BAD_ROW
    if not result.measured_rows():
        tell("nothing could be measured; profkit doctor says what works here")
        return 1
    timed = {row.key for row in candidates if row.status == "ok"}
    untimed = dict.fromkeys(row.key for row in candidates if row.key not in timed)
    if untimed:
        tell(f"no time in any table: {', '.join(untimed)}")
        return 1
    return 0


def watch(request: Request, measure: Callable[..., Result]) -> int:
    """Measure now and after each change of a candidate's file, until Ctrl-C."""
    from profkit.frameworks.candidate.operators import candidate_implementations

    # A file that cannot be a candidate ends the command here; one that breaks while it is edited only costs a round.
    chosen = candidate_implementations(request.options.candidates, request.op)
    files = [Path(implementation.options["path"]) for implementation in chosen]
    while True:
        seen = _stamps(files)
        try:
            code = measure_once(request, measure)
        except ProfkitError as error:
            tell(str(error))
            code = error.exit_code
        if code == INTERRUPTED:
            return code
        tell(f"waiting for a change of {', '.join(file.name for file in files)} (Ctrl-C ends)")
        try:
            while _stamps(files) == seen:
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            return code


def list_presets(op: str) -> int:
    default = default_preset(op)
    presets = presets_for(op).items()
    items = [Item(name, "default" if name == default else "", spec_text(spec)) for name, spec in presets]
    Items(items).print(sys.stdout)
    return 0


def list_implementations(request: Request) -> int:
    """Print what exists for these specs, and why something does not run; nothing is measured."""
    from profkit.measurement.selection import Selection, all_implementations, availability_of

    options = request.options
    known = all_implementations(request.op, options.candidates)
    selection = Selection(known, options)
    cells = [(spec, threads) for spec in request.specs for threads in options.thread_counts()]
    default = {row.key for cell in cells for row in selection.rows(*cell)}
    shown = default | {row.key for row in selection.selected}
    items = []
    for implementation in [row for row in known if row.key in shown]:
        availabilities = [availability_of(implementation, spec, options.interpreters) for spec in request.specs]
        status, reason = _overall(availabilities)
        if status == "available" and implementation.key not in default:
            reason = "; ".join(filter(None, ("with --all or --only", reason)))
        items.append(Item(implementation.key.partition("/")[2], status, reason))
    Items(items).print(sys.stdout)
    return 0 if any(item.status == "available" for item in items) else 1


def _overall(availabilities: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """One status and reason for all specs of a sweep."""
    against = [each for each in availabilities if each[0]]
    if not against:
        return "available", ""
    if len(against) == len(availabilities):
        return against[0]
    return "available", f"but not for {len(against)} of {len(availabilities)} specs: {against[0][1]}"


def _check_memory(request: Request) -> None:
    """Arrays that cannot exist here are refused at once; this process itself must make the inputs."""
    from profkit.measurement.environment import memory_bytes

    available = memory_bytes()
    for spec in request.specs:
        needed = spec.min_bytes()
        if available is not None and needed > available:
            raise UsageError(
                f"inputs and output of one call take {bytes_text(needed)}, this machine has {bytes_text(available)}: "
                f"{spec.op} {spec_text(spec)}"
            )


def _stamps(files: Sequence[Path]) -> list[tuple[int, int] | None]:
    """When each file changed last and its size; None while an editor has it away."""
    stamps: list[tuple[int, int] | None] = []
    for file in files:
        stamps.append(None)
        with suppress(OSError):
            status = file.stat()
            stamps[-1] = status.st_mtime_ns, status.st_size
    return stamps
