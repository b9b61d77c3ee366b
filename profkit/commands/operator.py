"""One operator's command: words in, tables on the terminal and files out, an exit code back."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from profkit.cli import INTERRUPTED, tell
from profkit.commands.arguments import Request, parse_request
from profkit.commands.showing import show_result
from profkit.errors import ProfkitError, UnavailableError, UsageError
from profkit.measurement.result import Result
from profkit.ops import default_preset, presets_for
from profkit.rendering.atomic_write import check_targets
from profkit.rendering.names import spec_text
from profkit.rendering.progress import show_progress
from profkit.rendering.quantities import bytes_text
from profkit.rendering.tables.table import Item, Items

POLL_S = 0.5
BUILD_LINE = "from the repository's folder, type: pip install -e ."
_BAD_STATUSES = ("wrong", "crashed", "lost")


def compare(op: str, command: str, words: Sequence[str]) -> int:
    """Do what the words say."""
    request = parse_request(op, command, words)
    if request.lists_presets:
        return list_presets(request.op)
    if request.table.lists:
        return list_implementations(request)
    check_targets(request.table.files.values())
    _load_api()
    _check_memory(request)
    return watch(request) if request.table.watch else measure_once(request)


def measure_once(request: Request) -> int:
    """Measure, show, save; what was measured is shown before anything can fail."""
    api = _load_api()
    if request.cells > 1 and not request.table.quiet:
        budget = request.options["budget_s"]
        tell(f"{request.cells} tables, {budget * (1 + request.options.get('again', 0)):g} s of sampling each")
    with show_progress(is_quiet=request.table.quiet) as progress:
        result = api.measure(request.specs, progress=progress, **request.options)
    table = request.table
    show_result(result, table.columns, table.verbose or request.options["all"], table.files)
    return exit_code(result, table.strict)


def _load_api() -> ModuleType:
    """The Python API; UnavailableError with the line to type where the compiled core is missing."""
    try:
        from profkit import api
    except ImportError as error:
        raise UnavailableError(f"profkit's compiled core cannot be loaded: {error}\n  {BUILD_LINE}") from error
    return api


def exit_code(result: Result, is_strict: bool) -> int:
    """The exit code; an interruption takes precedence."""
    if result.interrupted:
        return INTERRUPTED
    if is_strict and any(row.status in _BAD_STATUSES for cell in result.cells for row in cell.rows):
        return 3
    if not result.measured_rows():
        tell("nothing could be measured; profkit doctor says what works here")
        return 1
    return 0


def watch(request: Request) -> int:
    """Measure now and after each change of a candidate's file, until Ctrl-C."""
    from profkit.frameworks.candidate.operators import candidate_implementations

    # A file that cannot be meant ends the command here; one that breaks while it is edited only costs a round.
    chosen = candidate_implementations(request.options["candidates"], request.op)
    files = [Path(implementation.options["path"]) for implementation in chosen]
    while True:
        seen = _stamps(files)
        try:
            code = measure_once(request)
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
    """Print the operator's named shapes."""
    default = default_preset(op)
    presets = presets_for(op).items()
    items = [Item(name, "default" if name == default else "", spec_text(spec)) for name, spec in presets]
    Items(items).print(sys.stdout)
    return 0


def list_implementations(request: Request) -> int:
    """Print what exists for these specs, and why something does not run; nothing is measured."""
    from profkit.measurement.options import MeasureOptions
    from profkit.measurement.selection import Selection, all_implementations, availability_of

    options = MeasureOptions(**request.options)
    known = all_implementations(request.op, options.candidates)
    selection = Selection(known, options)
    cells = [(spec, threads) for spec in request.specs for threads in options.thread_counts()]
    default = {row.key for cell in cells for row in selection.rows(*cell)}
    shown = default | {row.key for row in selection.asked}
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
    if available is None:
        return
    for spec in request.specs:
        needed = spec.min_bytes()
        if needed > available:
            raise UsageError(
                f"inputs and output of one call take {bytes_text(needed)}, this machine has {bytes_text(available)}: "
                f"{spec.op} {spec_text(spec)}"
            )


def _stamps(files: Sequence[Path]) -> list[tuple[int, int] | None]:
    """When each file changed last and its size; None while an editor has it away."""
    stamps: list[tuple[int, int] | None] = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((status.st_mtime_ns, status.st_size))
    return stamps
