"""`python -m profkit.network cifar10 --framework tensorflow`: a network's steps in a framework, and whose time it is.

Words in; tables on the terminal and files out, an exit code back. What was measured is never lost: a failure or Ctrl-C
shows what there is until then.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from profkit.cli import INTERRUPTED, guarded, tell
from profkit.rendering.terminal import say

if TYPE_CHECKING:
    from profkit.capture.run import Run
    from profkit.commands.network_arguments import NetworkArguments
    from profkit.measurement.network_run import NetworkRequest
    from profkit.measurement.progress import Watcher
    from profkit.ops.networks.data import Data
    from profkit.ops.networks.network import Network

_WRONG = 3
_PHASES = {"starting": "start", "checking": "verify"}


def _run(words: Sequence[str]) -> int:
    from profkit.commands.network_arguments import parse_network

    arguments = parse_network(words)
    if arguments.lists:
        return _list()
    requests = _with_data(arguments)
    for request in requests[:1]:
        _check_memory(request)
    runs, is_interrupted = _run_all(requests, arguments)
    _save(runs, arguments.output)
    from profkit.commands.showing import show_usage
    from profkit.errors import ProfkitError

    code = INTERRUPTED if is_interrupted else exit_code(runs)
    try:
        show_usage(runs, arguments.by, arguments.view, arguments.layout, arguments.files)
    except ProfkitError as error:
        if code == 0:
            raise
        # How the run ended says more than a file that could not be written.
        tell(f"profkit network: {error}")
    return code


def exit_code(runs: Sequence[Run]) -> int:
    """What the shell is told: a wrong result goes before a run that failed."""
    statuses = {run.status for run in runs}
    if "wrong" in statuses:
        return _WRONG
    return 0 if statuses == {"ok"} else 1


def _run_all(requests: Sequence[NetworkRequest], arguments: NetworkArguments) -> tuple[list[Run], bool]:
    """One framework after another, then the baseline; Ctrl-C ends it with what there is."""
    import contextlib

    from profkit.measurement.network_run import InterruptedRun, run_network
    from profkit.rendering.progress import show_progress

    runs: list[Run] = []
    watching = contextlib.nullcontext(None) if arguments.is_quiet else show_progress()
    try:
        with watching as watcher:
            for number, request in enumerate(requests):
                runs.append(run_network(request, _teller(watcher, number, len(requests))))
            if arguments.has_baseline and any(run.status == "ok" for run in runs):
                _measure_baseline(runs, requests[0], _teller(watcher, len(requests) - 1, len(requests)))
    except InterruptedRun as interrupt:
        return [*runs, interrupt.run], True
    except KeyboardInterrupt:
        return runs, True
    return runs, False


def _measure_baseline(runs: Sequence[Run], request: NetworkRequest, tell: Callable[[str], None]) -> None:
    """What every layer would cost at best on this machine, beside each framework's run."""
    from profkit.measurement.baseline import measure_baseline

    tell("baseline: profkit's own kernels")
    rows = measure_baseline(request.network, request.threads, request.is_training, tell=tell, training=request.training)
    for run in runs:
        run.baseline = rows if run.status == "ok" else []


def _teller(watcher: Watcher | None, number: int, count: int) -> Callable[[str], None]:
    from profkit.measurement.progress import Progress

    def tell(text: str) -> None:
        if watcher is not None:
            phase = _PHASES.get(text.rpartition(": ")[2], "measure")
            watcher(Progress(number, count, phase, 0.5, text))

    return tell


def _save(runs: Sequence[Run], path: str | None) -> None:
    if path is None:
        return
    from profkit.capture.run import save_run
    from profkit.commands.showing import path_for
    from profkit.rendering.atomic_write import atomic_write

    for run in runs:
        if run.captures or run.step_ns:
            with atomic_write(path_for(path, run, runs)) as stream:
                save_run(run, stream)


def _with_data(arguments: NetworkArguments) -> list[NetworkRequest]:
    """The requests with CIFAR-10's images, where a folder was named."""
    if arguments.data is None:
        return list(arguments.requests)
    data = _load(arguments.requests[0].network, arguments.data)
    return [replace(request, data=data) for request in arguments.requests]


def _load(network: Network, folder: str) -> Data:
    from profkit.errors import UsageError
    from profkit.ops.networks.cifar_files import CHANNELS, CLASSES, SIDE, load_cifar10

    shape = network.input_shape()[1:]
    fits = len(shape) == 3 and shape[0] == CHANNELS and shape[1] == shape[2] <= SIDE
    if not fits or network.output_shape()[1] != CLASSES:
        raise UsageError(
            f"--data: CIFAR-10 has images of {CHANNELS}x{SIDE}x{SIDE} and {CLASSES} classes, {network.name} takes "
            f"{'x'.join(map(str, shape))} and gives {network.output_shape()[1]}: leave --data out for synthetic ones"
        )
    return load_cifar10(folder, shape[1])


def _check_memory(request: NetworkRequest) -> None:
    """A batch that cannot exist here is refused at once: this process itself computes the float64 reference."""
    from profkit.errors import UsageError
    from profkit.measurement.environment import memory_bytes
    from profkit.rendering.quantities import bytes_text

    available = memory_bytes()
    network = request.network
    numbers = math.prod(network.input_shape()) + sum(math.prod(layer.output_shape) for layer in network.layers)
    needed = 8 * (numbers + network.parameter_count())
    if available is not None and needed > available:
        raise UsageError(
            f"one step in float64, to check the result, takes {bytes_text(needed)}, this machine has "
            f"{bytes_text(available)}: take a smaller --batch than {network.input_shape()[0]}"
        )


def _list() -> int:
    from profkit.frameworks.networks import BUILDERS, load_builder
    from profkit.ops.networks import NETWORKS
    from profkit.rendering.tables.table import Item, Items
    from profkit.rendering.usage.networks import network_words

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
