"""`python -m profkit.max_batch cifar10 --training --memory 4GiB`: the largest batch of a network that fits into memory.

The module can be called as well: `profkit.max_batch("cifar10", memory="4GiB")` is the function of profkit.api.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from profkit.capture.output_files import check_targets, write_atomically
from profkit.cli import guarded
from profkit.commands.arguments import WORD, Parser, add_fields, help_width, made_options, read_options
from profkit.commands.networks import (
    USUAL,
    framework_and_mode,
    given_training,
    given_values,
    split_name,
    usual_framework,
)
from profkit.commands.showing import printed, refuse, written
from profkit.errors import INTERRUPTED, ProfkitError, UsageError
from profkit.frameworks.networks import BUILDERS
from profkit.measurement.cores import cores_for, default_threads
from profkit.measurement.largest_batch.request import OK, MaxBatch, MaxBatchRequest
from profkit.measurement.largest_batch.search import InterruptedSearch, find_max_batch
from profkit.measurement.options import RUN, SHOWN, WHOLE, option
from profkit.measurement.progress import Progress
from profkit.ops.networks import NETWORKS, Training, find_network
from profkit.ops.networks.network import Network
from profkit.rendering.progress import show_progress
from profkit.rendering.results.max_batch import max_batch_table, render_max_batch_json
from profkit.rendering.tables.csv_file import render_file as render_csv_file
from profkit.rendering.terminal import tell

_DESCRIPTION = """\
Find the largest batch of a network that trains or infers within a memory limit.

Three small batches run in processes of their own; a line is fitted to what they allocate, with its breakpoints; the \
batch that it predicts, and larger ones, then really run in fresh processes, which are ended when they take too much.

networks:
"""
_EXAMPLES = """examples:
  profkit max-batch cifar10 --training --memory 4GiB
  profkit max-batch resnet50 --memory 2GiB --framework torch       inference
  profkit max-batch lenet --training --optimizer adam --memory 1GiB
  profkit max-batch vgg16 --training                               all memory that is free here
  profkit max-batch mlp --framework numpy --memory 512MiB --json mlp.json

exit codes: 0 found, 1 no batch ran, the search failed or a file could not be written, 2 wrong usage, 130 interrupted"""


@dataclass(frozen=True)
class MaxBatchOptions:
    """Flags besides those of the network, of Training and of MaxBatchRequest."""

    framework: str | None = option(
        None,
        RUN,
        f"one of {', '.join(BUILDERS)}, as NAME[:MODE]",
        form=WORD,
        shown=f"{USUAL[0]}, or the next installed",
    )
    mode: str | None = option(None, RUN, "graph, eager, compile, ...", form=WORD, shown="the usual one")
    threads: int | None = option(None, RUN, "threads of the framework", form=WHOLE, shown="all usable cores")
    json: str | None = option(None, SHOWN, "everything, schema profkit.max-batch/1")
    csv: str | None = option(None, SHOWN, "one line per process")
    markdown: str | None = option(None, SHOWN, "the table, for an issue or a README")
    quiet: bool = option(False, SHOWN, "no progress, only the table")

    @property
    def files(self) -> dict[str, str]:
        return {name: path for name in ("json", "csv", "markdown") if (path := getattr(self, name))}


def _run(words: Sequence[str]) -> int:
    name, others = split_name(words)
    network = find_network(name) if name else None
    if any(word.partition("=")[0] == "--batch" for word in others):
        raise UsageError("--batch is what profkit max-batch finds; to run one batch: profkit network")
    arguments = build_parser(network).parse(others)
    options = made_options(MaxBatchOptions, arguments)
    if network is None:
        raise UsageError(f"name a network: {', '.join(NETWORKS)}, as in profkit max-batch cifar10 --memory 4GiB")
    check_targets(options.files.values())
    code = 0
    try:
        with show_progress(is_quiet=options.quiet) as watcher:
            found = find_max_batch(
                _request(network, arguments, options),
                lambda text, fraction: watcher(Progress(0, 1, "search", fraction, text)),
            )
    except InterruptedSearch as interrupt:
        found, code = interrupt.found, INTERRUPTED
    code = code or int(found.status != OK)
    try:
        _show(found, options)
    except ProfkitError as error:
        if code == 0:
            raise
        # How the search ended says more than a file that could not be written.
        tell(f"profkit max-batch: {error}")
    return code


def build_parser(network: type[Network] | None) -> Parser:
    """For one network; without one its help shows every network's flags."""
    description = _DESCRIPTION
    described = [network] if network else NETWORKS.values()
    for each in described:
        about = f"{each.name:8} {(each.__doc__ or '').strip().splitlines()[0]}"
        description += textwrap.fill(about, help_width() - 2, initial_indent="  ", subsequent_indent=" " * 11) + "\n"
    parser = Parser(f"profkit max-batch {network.name if network else 'NETWORK'}", description, _EXAMPLES)
    for each in described:
        title = f"{each.name} ({each.size_formula})"
        add_fields(parser.spec_group(title, network is not None), each, without=("batch",))
    parser.add_options(MaxBatchRequest)
    add_fields(parser.add_argument_group(f"training ({Training.size_formula})"), Training)
    parser.add_options(MaxBatchOptions)
    return parser


def _request(kind: type[Network], arguments: argparse.Namespace, chosen: MaxBatchOptions) -> MaxBatchRequest:
    network = kind(**given_values(kind, arguments))
    framework, mode = framework_and_mode(chosen.framework or usual_framework(), chosen.mode)
    threads = default_threads() if chosen.threads is None else chosen.threads
    cores_for(threads)
    options = read_options(MaxBatchRequest, arguments) | {"training": given_training(network, arguments)}
    return MaxBatchRequest(network, framework, mode, threads, **options)


def _show(found: MaxBatch, options: MaxBatchOptions) -> None:
    """Print the table, then write the files; what cannot be written is reported at the end."""
    table = max_batch_table(found)
    texts = {
        "json": lambda: render_max_batch_json(found),
        "csv": lambda: render_csv_file(table),
        "markdown": table.markdown,
    }

    def write(kind: str, path: str) -> None:
        write_atomically(path, texts[kind]())

    problems = printed(lambda: table.print(sys.stdout), sys.stdout)
    refuse(problems + written(partial(write, kind, path) for kind, path in options.files.items()))


class _CallableModule(ModuleType):
    """Once imported, this module is what `profkit.max_batch` names: it must be the function, too."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from profkit.api import max_batch

        return max_batch(*arguments, **options)


sys.modules[__name__].__class__ = _CallableModule

main = partial(guarded, "max-batch", _run)

if __name__ == "__main__":
    raise SystemExit(main())
