"""`python -m profkit.network cifar10 --framework tensorflow`: a network's steps in a framework, time and bytes by row.

Words in; tables on the terminal and files out, an exit code back. After a failure or Ctrl-C, everything measured until
then is shown.
"""

from __future__ import annotations

import argparse
import math
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from profkit.attribution.account import STEPS
from profkit.attribution.grouping import groupings_on
from profkit.capture.output_files import check_targets, open_output
from profkit.capture.run import Run, save_run
from profkit.cli import guarded
from profkit.commands.arguments import WORD, Parser, add_fields, help_width, made_options, read_options
from profkit.commands.networks import (
    USUAL,
    framework_and_mode,
    given_training,
    given_values,
    is_there,
    split_name,
    usual_framework,
)
from profkit.commands.reporting import TABLE, UsageTableOptions
from profkit.commands.showing import path_for, show_usage
from profkit.commands.sweep import split_list
from profkit.data import load_data
from profkit.data.weights import check_weights_library, read_weights
from profkit.errors import INTERRUPTED, ProfkitError, UsageError
from profkit.frameworks.networks import BUILDERS, load_builder
from profkit.measurement.baseline import measure_baseline
from profkit.measurement.cores import cores_for, default_threads
from profkit.measurement.environment import free_memory_bytes
from profkit.measurement.network_run import UNSUPPORTED, InterruptedRuns, NetworkRequest, refusal, run_networks
from profkit.measurement.options import PATH, RUN, SECONDS, WHOLE, option
from profkit.measurement.progress import Progress, Watcher
from profkit.ops.networks import NETWORKS, Training, find_network, fold_batch_norm
from profkit.ops.networks.memory import network_memory
from profkit.ops.networks.network import Network
from profkit.rendering.progress import show_progress
from profkit.rendering.quantities import bytes_text
from profkit.rendering.tables.table import Item, Items
from profkit.rendering.terminal import say, tell
from profkit.rendering.usage.columns import columns_on
from profkit.rendering.usage.networks import network_words

ALL = "all"
MOST_RUNS = 100
_WRONG = 3
_PHASES = {"starting": "start", "checking": "verify"}
_EXAMPLES = """examples:
  profkit network cifar10 --framework tensorflow --stride 2 --batch 128
  profkit network cifar10 --framework torch --training --by layer
  profkit network lenet --framework torch,tensorflow:eager,native   side by side
  profkit network cifar10 --framework torch,native --runs 3         3 processes each, in turns
  profkit network cifar10 --framework tensorflow --format tfprof    as TensorFlow's profiler prints
  profkit network mlp --framework jax --json usage.json --output run.profkit
  profkit network lenet --learn-steps 500 --save-weights w.safetensors
  profkit network resnet50 --fold-batch-norm --framework torch,native
  profkit network --list                                            what runs here

exit codes: 0 done, 1 a run failed or a file could not be written, 2 wrong usage, 3 a wrong result, 130 interrupted"""


@dataclass(frozen=True)
class NetworkOptions(UsageTableOptions):
    """Flags besides those of the network, of Training and of NetworkRequest."""

    by: str | None = option(
        None, TABLE, "what one row is", choices=groupings_on(STEPS), shown="kind; with tfprof: type"
    )
    framework: str | None = option(
        None,
        RUN,
        f"one or more of {', '.join(BUILDERS)}, or {ALL} that are installed, as NAME[:MODE],NAME[:MODE]",
        form=WORD,
        shown=f"{USUAL[0]}, or the next installed",
    )
    mode: str | None = option(None, RUN, "graph, eager, compile, ...: see --list", form=WORD, shown="the usual one")
    threads: int | None = option(None, RUN, "threads of the framework", form=WHOLE, shown="all usable cores")
    data: str | None = option(None, RUN, "file or folder of the network's data set", form=PATH, shown="synthetic data")
    weights: str | None = option(None, RUN, "begin with the weights of this file (safetensors)", shown="by the seed")
    save_weights: str | None = option(None, RUN, "save the weights after --learn, --learn-steps or --training")
    fold_batch_norm: bool = option(
        False, RUN, "inference with every batch_norm that follows a convolution directly as a part of it"
    )
    baseline: bool = option(True, RUN, "do not measure profkit's own kernels")
    baseline_limit_s: float = option(
        60.0, RUN, "longest time to measure profkit's own kernels; the next run goes on", form=SECONDS
    )
    output: str | None = option(None, RUN, "save the whole run, for profkit report and other commands")
    lists: bool = option(False, RUN, "list networks, frameworks and their modes, and exit", flag="list")
    quiet: bool = option(False, RUN, "no progress, only the tables")


def _run(words: Sequence[str]) -> int:
    name, others = split_name(words)
    network = find_network(name) if name else None
    arguments = build_parser(network).parse(others)
    options = made_options(NetworkOptions, arguments)
    if network is None and not options.lists:
        raise UsageError(f"name a network: {', '.join(NETWORKS)}, as in profkit network cifar10 --framework torch")
    options.check_table()
    check_targets(
        [*options.files.values(), options.output, options.save_weights], sources=[options.weights, options.data]
    )
    if network is None or options.lists:
        return _list()
    requests = _requests(network, arguments, options)
    runs, is_interrupted = _run_all(requests, options)
    for run in runs:
        if options.output is not None and (run.captures or run.step_ns):
            with open_output(path_for(options.output, run, runs)) as stream:
                save_run(run, stream)
    code = INTERRUPTED if is_interrupted else exit_code(runs)
    try:
        show_usage(runs, options.by, options.view, options.format, options.files)
    except ProfkitError as error:
        if code == 0:
            raise
        # How the run ended says more than a file that could not be written.
        tell(f"profkit network: {error}")
    return code


# --- Words ---


def build_parser(network: type[Network] | None) -> Parser:
    """For one network; without one, it reads what all have, and its help shows every network's flags."""
    description = "Run a whole network in a framework; show time and bytes by operator, layer or phase.\n\n"
    described = [network] if network else NETWORKS.values()
    for each in described:
        about = f"{each.name:8} {(each.__doc__ or '').strip().splitlines()[0]}"
        description += textwrap.fill(about, help_width() - 2, initial_indent="  ", subsequent_indent=" " * 11) + "\n"
    name = network.name if network else "NETWORK"
    columns = ", ".join(columns_on(STEPS))
    columns = textwrap.fill(f"columns: {columns}", help_width() - 2, subsequent_indent="  ")
    parser = Parser(f"profkit network {name}", description, f"{columns}\n\n{_EXAMPLES}")
    for each in described:
        add_fields(parser.spec_group(f"{each.name} ({each.size_formula})", network is not None), each)
    parser.add_options(NetworkRequest)
    add_fields(parser.add_argument_group(f"training ({Training.size_formula})"), Training)
    parser.add_options(NetworkOptions)
    return parser


def _requests(kind: type[Network], arguments: argparse.Namespace, chosen: NetworkOptions) -> list[NetworkRequest]:
    """One per framework, in the order in which they were named."""
    declared = kind(**given_values(kind, arguments))
    network = fold_batch_norm(declared) if chosen.fold_batch_norm else declared
    training = given_training(network, arguments)
    threads = default_threads() if chosen.threads is None else chosen.threads
    cores_for(threads)
    options = read_options(NetworkRequest, arguments)
    if options["steps"] < 1:
        raise UsageError(f"--steps takes a number from 1 on, got {options['steps']}")
    if not 1 <= options["runs"] <= MOST_RUNS:
        raise UsageError(f"--runs takes a number from 1 to {MOST_RUNS}, got {options['runs']}")
    if options["seed"] < 0:
        raise UsageError(f"--seed cannot be negative, got {options['seed']}")
    if options["learn_steps"] is not None and options["learn_steps"] < 1:
        raise UsageError(f"--learn-steps takes a number from 1 on, got {options['learn_steps']}")
    if network.no_training and (options["is_training"] or options["learn_s"] > 0 or options["learn_steps"] is not None):
        raise UsageError(f"--fold-batch-norm: {network.no_training}")
    frameworks = _chosen_frameworks(chosen.framework, chosen.mode)
    _check_memory(network, training if options["is_training"] else None)
    options |= {
        "training": training,
        "weights": None if chosen.weights is None else read_weights(chosen.weights, declared),
        "data": None if chosen.data is None else load_data(chosen.data, network),
    }
    requests = [NetworkRequest(network, framework, mode, threads, **options) for framework, mode in frameworks]
    refused = {request.framework: found for request in requests if (found := refusal(request))}
    if len(refused) == len(requests) and all(status == UNSUPPORTED for status, _ in refused.values()):
        raise UsageError("; ".join(f"{name}: {reason}" for name, (_, reason) in refused.items()))
    return _with_weights_saved(requests, chosen.save_weights)


def _with_weights_saved(requests: list[NetworkRequest], path: str | None) -> list[NetworkRequest]:
    if path is None:
        return requests
    if not (requests[0].learns or requests[0].is_training):
        raise UsageError("--save-weights: nothing is trained; add --learn-steps 100, --learn 60s or --training")
    check_weights_library()
    return [replace(each, save_weights=path_for(path, each, requests)) for each in requests]


def _chosen_frameworks(words: str | None, mode: str | None) -> list[tuple[str, str]]:
    """Frameworks and their modes from `torch,tensorflow:eager`; an empty mode is the framework's usual one."""
    words = usual_framework() if words is None else words
    names = [name for name in BUILDERS if is_there(name)] if words == ALL else split_list(words)
    chosen: list[tuple[str, str]] = []
    for name in names:
        found = framework_and_mode(name, mode)
        if found in chosen:
            raise UsageError(f"--framework {words}: {name} appears twice")
        chosen.append(found)
    return chosen


def _check_memory(network: Network, training: Training | None) -> None:
    """A batch that cannot exist here is refused at once; this process computes the float64 reference meanwhile."""
    free = free_memory_bytes()
    held = network_memory(network, training)
    results = sum(math.prod(layer.output_shape) for layer in network.layers)
    reference = 8 * (math.prod(network.input_shape()) + results + network.parameter_count() * (3 if training else 1))
    if free is not None and held.total + reference > free:
        raise UsageError(
            f"{'a training step' if training else 'inference'} takes {bytes_text(held.total)} (weights "
            f"{bytes_text(held.weights)}, gradients {bytes_text(held.gradients)}, optimiser "
            f"{bytes_text(held.optimiser)}, results {bytes_text(held.activations)}), and one step in float64, to check "
            f"it, {bytes_text(reference)}; this machine has {bytes_text(free)} free: take a smaller --batch than "
            f"{network.input_shape()[0]}"
        )


# --- Runs ---


def _run_all(requests: Sequence[NetworkRequest], options: NetworkOptions) -> tuple[list[Run], bool]:
    """Frameworks in turns, then the baseline; Ctrl-C ends it with what there is."""
    runs: list[Run] = []
    try:
        with show_progress(is_quiet=options.quiet) as watcher:
            runs = run_networks(requests, lambda number: _teller(watcher, number, len(requests)))
            if options.baseline and any(run.status == "ok" for run in runs):
                _add_baseline(runs, requests[0], options, _teller(watcher, len(requests) - 1, len(requests)))
    except InterruptedRuns as interrupt:
        return interrupt.runs, True
    except KeyboardInterrupt:
        return runs, True
    return runs, False


def _add_baseline(
    runs: Sequence[Run], request: NetworkRequest, options: NetworkOptions, tell: Callable[[str], None]
) -> None:
    """What every layer would cost at best on this machine, beside each framework's run."""
    tell("baseline: profkit's own kernels")
    rows = measure_baseline(
        request.network,
        request.threads,
        request.is_training,
        tell=tell,
        training=request.training,
        limit_s=options.baseline_limit_s,
    )
    for run in runs:
        run.baseline = rows if run.status == "ok" else []


def _teller(watcher: Watcher, number: int, count: int) -> Callable[[str], None]:
    return lambda text: watcher(Progress(number, count, _PHASES.get(text.rpartition(": ")[2], "measure"), 0.5, text))


def exit_code(runs: Sequence[Run]) -> int:
    """A wrong result takes precedence over a run that failed."""
    statuses = {run.status for run in runs}
    if "wrong" in statuses:
        return _WRONG
    return 0 if statuses == {"ok"} else 1


def _list() -> int:
    say("networks, with their parameters")
    words = {name: network_words(kind()).partition(" ")[2] for name, kind in NETWORKS.items()}
    Items([Item(f"  {name}", "", text) for name, text in words.items()]).print(sys.stdout)
    say("\nframeworks, with their modes")
    items = []
    for name in BUILDERS:
        builder = load_builder(name)
        here = builder.is_available()
        text = ", ".join(builder.modes)
        if not here.available:
            text = here.reason + (f"\ntype: {here.install}" if here.install else "")
        items.append(Item(f"  {name}", "available" if here.available else "missing", text))
    Items(items).print(sys.stdout)
    return 0


main = partial(guarded, "network", _run)

if __name__ == "__main__":
    raise SystemExit(main())
