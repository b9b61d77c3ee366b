"""`python -m profkit.tune conv`: the best sizes of profkit's own kernels on this machine, measured and kept."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from profkit.capture.output_files import check_targets
from profkit.cli import guarded
from profkit.commands.arguments import Parser, given_fields, made_options
from profkit.commands.operator import list_presets
from profkit.commands.request import add_spec, read_specs
from profkit.errors import INTERRUPTED, UsageError, did_you_mean
from profkit.frameworks.adapter import Implementation
from profkit.frameworks.native.tuned import (
    DAMAGED,
    check_writable,
    forget_choices,
    keep_choices,
    read_choices,
    tuned_file,
)
from profkit.measurement.cores import cores_for, default_threads
from profkit.measurement.environment import fingerprint
from profkit.measurement.options import (
    ALL_DEVICES,
    BYTES,
    CACHES,
    COUNTS,
    DEVICES,
    KEYS,
    MEASURED,
    SECONDS,
    SHARE,
    SHOWN,
    WHOLE,
    MeasureOptions,
    option,
)
from profkit.measurement.progress import cell_progress
from profkit.measurement.run import first_signal_interrupts
from profkit.measurement.tuner.search import TuningOutcome, TuningTask, tune_kernel
from profkit.measurement.tuner.tasks import Refusal, choice_of, find_tasks, tunable_kernels
from profkit.ops import SPECS
from profkit.ops.spec import Spec
from profkit.rendering.progress import show_progress
from profkit.rendering.quantities import plural
from profkit.rendering.results.tuning import outcome_table, task_items, task_title, write_tuning
from profkit.rendering.terminal import say, tell

WHICH = "which kernels (keys like native/implicit_gemm, with * as wildcard)"
OPERATORS = {"conv": "conv2d", "matmul": "matmul"}
_EPILOG = """\
examples:
  profkit tune conv --batch 128 --stride 2
  profkit tune matmul --m 512,1024 --threads 1,2 --only native/blocked
  profkit tune conv --preset solar.conv2 --dry-run
  profkit tune matmul --forget

Every candidate is verified against the float64 reference and timed together with the default. The fastest is chosen \
if it is faster than the default by more than --margin, also in a second comparison with the default alone. Choices \
are stored in tuned.json of profkit's cache folder, for this machine and this build. The commands then use them and \
say so; --no-tuned or PROFKIT_TUNED=0 ignores them.
exit codes: 0 done, 1 nothing could be measured, 2 wrong usage, 130 interrupted"""


@dataclass(frozen=True)
class TuneOptions:
    """Flags besides those of the operator's spec."""

    only: Sequence[str] = option((), WHICH, "tune only these", form=KEYS)
    device: str = option(ALL_DEVICES, WHICH, "tune kernels on these devices", choices=DEVICES)
    dry_run: bool = option(False, WHICH, "list what would be tried, and exit")
    forget: bool = option(False, WHICH, "delete the stored choices for them, and exit")
    threads: Sequence[int] = option((), MEASURED, "threads of the kernels", form=COUNTS, shown="all usable cores")
    budget_s: float = option(20.0, MEASURED, "sampling time per kernel", form=SECONDS)
    timeout_s: float = option(MeasureOptions.timeout_s, MEASURED, "time limit for an answer of a worker", form=SECONDS)
    memory_limit_bytes: int | None = option(None, MEASURED, "memory limit of each trial", form=BYTES, shown="none")
    cache: str = option(CACHES[0], MEASURED, "state of the caches", choices=CACHES)
    margin: float = option(MeasureOptions.margin, MEASURED, "ignore smaller gains", form=SHARE)
    seed: int = option(0, MEASURED, "seed of the random inputs", form=WHOLE)
    json: str | None = option(None, SHOWN, "every trial with raw samples, and the environment")
    quiet: bool = option(False, SHOWN, "no progress, only the tables")

    def measure_options(self) -> MeasureOptions:
        names = ("budget_s", "timeout_s", "memory_limit_bytes", "margin", "seed")
        return MeasureOptions(cache=[self.cache], **{name: getattr(self, name) for name in names})

    def thread_counts(self) -> Sequence[int]:
        """To tune for, each possible here."""
        counts = self.threads or [default_threads()]
        for count in counts:
            cores_for(count)
        return counts


def _run(words: Sequence[str]) -> int:
    # The operator may also follow --help: profkit help tune conv.
    name, *others = [*words[1:2], words[0], *words[2:]] if words and words[0] in ("-h", "--help") else words or [""]
    if name in ("-h", "--help"):
        build_parser(list(OPERATORS.values())).parse([name])
    if name not in OPERATORS:
        raise UsageError(_unknown_operator(name))
    op = OPERATORS[name]
    arguments = build_parser([op]).parse(others)
    options = made_options(TuneOptions, arguments)
    if arguments.list_presets:
        return list_presets(op)
    kernels = tunable_kernels(op, options.only, options.device)
    if options.forget:
        return _forget(op, options, arguments, [kernel.key for kernel in kernels])
    counts = options.thread_counts()
    specs = read_specs(op, arguments, {"threads": len(counts)})
    tasks, refusals = _plan(kernels, specs, counts)
    _show_refusals(refusals)
    if not tasks:
        tell("there is nothing to tune" + ("" if refusals else ": these kernels have nothing to choose here"))
        return 1
    if not options.dry_run:
        return _measure(tasks, options)
    for task in tasks:
        say(task_title(task))
        task_items(task).print(sys.stdout)
    return 0


def build_parser(ops: Sequence[str]) -> Parser:
    """For one operator; with several, for --help alone, which shows the flags of each."""
    parser = Parser("profkit tune", "Find the best block sizes of profkit's own kernels on this machine.", _EPILOG)
    parser.usage = f"profkit tune {'|'.join(OPERATORS)} [flags]"
    for op in ops:
        title = f"{op} (each flag also takes a comma list: a sweep over all combinations)"
        add_spec(parser.spec_group(title, len(ops) == 1), op)
    parser.add_options(TuneOptions)
    return parser


def _unknown_operator(word: str) -> str:
    names = ", ".join(OPERATORS)
    if not word or word.startswith("-"):
        return f"name an operator to tune: {names}\n  profkit tune conv --batch 128"
    return f"{word!r} has no kernels to tune; {did_you_mean(word, OPERATORS)}there is {names}"


def _plan(
    kernels: Sequence[Implementation], specs: Sequence[Spec], counts: Sequence[int]
) -> tuple[list[TuningTask], list[Refusal]]:
    tasks: list[TuningTask] = []
    refusals: list[Refusal] = []
    for threads, spec in product(counts, specs):
        # Threads of the host make no difference to kernels on a device.
        concerned = [kernel for kernel in kernels if kernel.device == "cpu" or threads == counts[0]]
        found, refused = find_tasks(concerned, spec, threads)
        tasks += found
        refusals += refused
    return tasks, refusals


def _measure(tasks: Sequence[TuningTask], options: TuneOptions) -> int:
    """Tune one after the other; every choice is kept as soon as it is made."""
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
    if options.json:
        write_tuning(outcomes, fingerprint(), options.json)
    measured = [outcome for outcome in outcomes if outcome.is_known]
    if measured:
        faster, place = sum(bool(outcome.chosen) for outcome in measured), tuned_file()
        tell(f"{faster} of {len(measured)} kernels run faster with other sizes than the default; kept in {place}")
    return INTERRUPTED if is_interrupted else int(not measured)


def _show_refusals(refusals: Sequence[Refusal]) -> None:
    """One line per reason: where there is no device, all its kernels have the same."""
    keys: dict[tuple[str, str], dict[str, None]] = {}
    for item in refusals:
        keys.setdefault((item.status, item.reason), {})[item.key] = None
    for (status, reason), named in keys.items():
        tell(f"{', '.join(named)}: {status}: {reason}")


def _forget(op: str, options: TuneOptions, arguments: argparse.Namespace, keys: Sequence[str]) -> int:
    """Without flags of the spec: for all specs."""
    problem = read_choices().problem
    if problem:
        tell(problem)
    is_limited = bool(given_fields(SPECS[op], arguments) or arguments.preset)
    specs = [spec.to_dict() for spec in read_specs(op, arguments)] if is_limited else None
    counts = options.thread_counts() if options.threads else None
    forgotten = forget_choices(
        lambda choice: (
            choice.key in keys
            and (specs is None or choice.spec in specs)
            and (counts is None or choice.threads in counts)
        )
    )
    tell(f"{plural(forgotten, 'choice')} forgotten")
    return 0


main = partial(guarded, "tune", _run)

if __name__ == "__main__":
    raise SystemExit(main())
