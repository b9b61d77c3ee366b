"""`python -m profkit.tune conv`: the best sizes of profkit's own kernels on this machine, measured and kept."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from profkit.cli import INTERRUPTED, guarded, tell
from profkit.rendering.terminal import say

if TYPE_CHECKING:
    from profkit.commands.tune_arguments import TuneOptions
    from profkit.frameworks.adapter import Implementation
    from profkit.measurement.tuner.search import TuningOutcome, TuningTask
    from profkit.measurement.tuner.tasks import Refusal
    from profkit.ops.spec import Spec


def tune(words: Sequence[str]) -> int:
    """Do what the words say."""
    from profkit.commands.arguments import read_specs
    from profkit.commands.operator import list_presets
    from profkit.commands.tune_arguments import parse_tune, thread_counts
    from profkit.measurement.tuner.tasks import tunable_kernels

    op, options, arguments = parse_tune(words)
    if arguments.list_presets:
        return list_presets(op)
    kernels = tunable_kernels(op, options.only, options.device)
    if options.forget:
        return _forget(op, options, arguments, [kernel.key for kernel in kernels])
    counts = thread_counts(options)
    specs = read_specs(op, arguments, {"threads": len(counts)})
    tasks, refusals = _plan(kernels, specs, counts)
    _show_refusals(refusals)
    if not tasks:
        tell("there is nothing to tune" + ("" if refusals else ": these kernels have nothing to choose here"))
        return 1
    return _show_plan(tasks) if options.dry_run else _measure(tasks, options)


def _plan(
    kernels: Sequence[Implementation], specs: Sequence[Spec], counts: Sequence[int]
) -> tuple[list[TuningTask], list[Refusal]]:
    from profkit.measurement.tuner.tasks import find_tasks

    tasks: list[TuningTask] = []
    refusals: list[Refusal] = []
    for number, threads in enumerate(counts):
        # Threads of the host make no difference to kernels on a device.
        concerned = [kernel for kernel in kernels if kernel.device == "cpu" or number == 0]
        for spec in specs:
            found, refused = find_tasks(concerned, spec, threads)
            tasks += found
            refusals += refused
    return tasks, refusals


def _measure(tasks: Sequence[TuningTask], options: TuneOptions) -> int:
    """Tune one after the other; every choice is kept as soon as it is made."""
    from profkit.frameworks.native.tuned import DAMAGED, check_writable, keep_choices, read_choices, tuned_file
    from profkit.measurement.progress import cell_progress
    from profkit.measurement.run import first_signal_interrupts
    from profkit.measurement.tuner.search import tune_kernel
    from profkit.measurement.tuner.tasks import choice_of
    from profkit.rendering.atomic_write import check_targets
    from profkit.rendering.progress import show_progress
    from profkit.rendering.results.tuning import outcome_table

    check_writable()
    check_targets([options.json])
    problem = read_choices().problem
    if problem:
        tell(f"{problem}; the next choice makes a new one, this one is kept as {DAMAGED}")
    outcomes: list[TuningOutcome] = []
    is_interrupted = False
    try:
        with first_signal_interrupts():
            for number, task in enumerate(tasks):
                with show_progress(is_quiet=options.quiet) as watcher:
                    progress = cell_progress(watcher, number, len(tasks))
                    outcome = tune_kernel(task, options.measure_options(), progress)
                outcomes.append(outcome)
                if outcome.is_known:
                    keep_choices([choice_of(outcome)])
                outcome_table(outcome).print(sys.stdout)
    except KeyboardInterrupt:
        is_interrupted = True
    return _end(outcomes, is_interrupted, options.json, str(tuned_file()))


def _end(outcomes: Sequence[TuningOutcome], is_interrupted: bool, json_path: str | None, place: str) -> int:
    from profkit.measurement.environment import fingerprint
    from profkit.rendering.results.tuning import write_tuning

    if json_path:
        write_tuning(outcomes, fingerprint(), json_path)
    measured = [outcome for outcome in outcomes if outcome.is_known]
    if measured:
        faster = sum(bool(outcome.chosen) for outcome in measured)
        tell(f"{faster} of {len(measured)} kernels run faster with other sizes than the default; kept in {place}")
    if is_interrupted:
        return INTERRUPTED
    return 0 if measured else 1


def _show_plan(tasks: Sequence[TuningTask]) -> int:
    from profkit.rendering.results.tuning import task_items, task_title

    for task in tasks:
        say(task_title(task))
        task_items(task).print(sys.stdout)
    return 0


def _show_refusals(refusals: Sequence[Refusal]) -> None:
    """One line per reason: where there is no device, all its kernels have the same."""
    keys: dict[tuple[str, str], dict[str, None]] = {}
    for item in refusals:
        keys.setdefault((item.status, item.reason), {})[item.key] = None
    for (status, reason), named in keys.items():
        tell(f"{', '.join(named)}: {status}: {reason}")


def _forget(op: str, options: TuneOptions, arguments: argparse.Namespace, keys: Sequence[str]) -> int:
    """Without flags of the spec: for all specs."""
    from profkit.commands.arguments import given_fields, read_specs
    from profkit.commands.tune_arguments import thread_counts
    from profkit.frameworks.native.tuned import forget_choices, read_choices
    from profkit.ops import SPECS

    problem = read_choices().problem
    if problem:
        tell(problem)
    is_limited = bool(given_fields(SPECS[op], arguments) or arguments.preset)
    specs = [spec.to_dict() for spec in read_specs(op, arguments)] if is_limited else None
    counts = thread_counts(options) if options.threads else None
    forgotten = forget_choices(
        lambda choice: (
            choice.key in keys
            and (specs is None or choice.spec in specs)
            and (counts is None or choice.threads in counts)
        )
    )
    tell(f"{forgotten} choice{'' if forgotten == 1 else 's'} forgotten")
    return 0


main = partial(guarded, "tune", tune)

if __name__ == "__main__":
    raise SystemExit(main())
