"""The flags of profkit.network, made from a network's fields and those of training: words in, a checked request out."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from profkit.attribution.account import STEPS
from profkit.attribution.grouping import groupings_on
from profkit.commands.arguments import Parser, add_fields, given_fields, help_width, read_options
from profkit.commands.sweep import split_list
from profkit.errors import SpecError, UsageError, unknown
from profkit.frameworks.networks import BUILDERS, load_builder
from profkit.measurement.cores import cores_for, default_threads
from profkit.measurement.network_run import NetworkRequest
from profkit.measurement.options import RUN
from profkit.ops.networks import NETWORKS, Training, find_network
from profkit.ops.networks.network import Network
from profkit.rendering.atomic_write import check_targets
from profkit.rendering.usage.columns import columns_on
from profkit.rendering.usage.content import View
from profkit.report import add_file_arguments, add_table_arguments, check_table_arguments, chosen_view, named_files

USUAL = ("torch", "tensorflow", "jax", "onnxruntime", "native")
"""Which framework is meant when none is named: the first of these that is there."""
ALL = "all"
_EXAMPLES = """examples:
  profkit network cifar10 --framework tensorflow --stride 2 --batch 128
  profkit network cifar10 --framework torch --training --by layer
  profkit network lenet --framework torch,tensorflow:eager,native   side by side
  profkit network cifar10 --framework tensorflow --format tfprof    as TensorFlow's profiler prints
  profkit network mlp --framework jax --json usage.json --output run.profkit
  profkit network --list                                            what runs here

exit codes: 0 done, 1 a run failed or a file could not be written, 2 wrong usage, 3 a wrong result,
  130 interrupted"""


@dataclass(frozen=True)
class NetworkArguments:
    """What the user asked for, checked."""

    requests: Sequence[NetworkRequest]
    """One per framework, in the order in which they were named."""
    data: str | None
    by: str | None
    view: View
    layout: str
    files: dict[str, str]
    output: str | None
    has_baseline: bool
    is_quiet: bool
    lists: bool


def parse_network(words: Sequence[str]) -> NetworkArguments:
    """Read the command's words; anything wrong is a UsageError before anything runs."""
    name, others = _split_name(words)
    network = find_network(name) if name else None
    parsed = build_parser(network).parse(others)
    if network is None and not parsed.list:
        raise UsageError(f"name a network: {', '.join(NETWORKS)}, as in profkit network cifar10 --framework torch")
    requests = _requests(network, parsed) if network is not None and not parsed.list else []
    check_table_arguments(parsed)
    files = named_files(parsed)
    check_targets([*files.values(), parsed.output])
    return NetworkArguments(
        requests=requests,
        data=parsed.data,
        by=parsed.by,
        view=chosen_view(parsed),
        layout=parsed.format,
        files=files,
        output=parsed.output,
        has_baseline=not parsed.no_baseline,
        is_quiet=parsed.quiet,
        lists=parsed.list,
    )


def _split_name(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The network's name, which may also appear among the flags, and all other words."""
    if words and not words[0].startswith("-"):
        return words[0], list(words[1:])
    place = next((place for place, word in enumerate(words) if word in NETWORKS), None)
    return (None, list(words)) if place is None else (words[place], [*words[:place], *words[place + 1 :]])


def build_parser(network: type[Network] | None) -> Parser:
    """The parser for one network; without one, it reads what all have, and its help shows every network's flags."""
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
        # Networks share names of flags, so that each group belongs to a parser of its own.
        owner = parser if network else Parser(parser.prog, "")
        group = owner.add_argument_group(f"{each.name} ({each.size_formula})")
        add_fields(group, each)
        if owner is not parser:
            parser.show_group(group)
    _add_run(parser)
    add_fields(parser.add_argument_group(f"training ({Training.size_formula})"), Training)
    table = parser.add_argument_group("table")
    table.add_argument("--by", choices=groupings_on(STEPS), help="what one row is [kind; with tfprof: type]")
    add_table_arguments(table)
    add_file_arguments(parser)
    return parser


def _add_run(parser: Parser) -> None:
    group = parser.group(RUN)
    group.add_argument(
        "--framework",
        metavar="NAME[:MODE][,...]",
        help=f"one or more of {', '.join(BUILDERS)}, or {ALL} that are installed [{USUAL[0]}, or the next installed]",
    )
    group.add_argument("--mode", metavar="MODE", help="graph, eager, compile, ...: see --list [the usual one]")
    group.add_argument("--threads", metavar="N", type=int, help="threads of the framework [all usable cores]")
    parser.add_options(NetworkRequest)
    group.add_argument("--data", metavar="FOLDER", help="folder of CIFAR-10's files [synthetic images]")
    group.add_argument("--no-baseline", action="store_true", help="do not measure profkit's own kernels")
    group.add_argument("--output", metavar="FILE.profkit", help="keep the whole run, for profkit report and others")
    group.add_argument("--list", action="store_true", help="list networks, frameworks and their modes, and exit")
    group.add_argument("--quiet", action="store_true", help="no progress, only the tables")


def _requests(network: type[Network], parsed: argparse.Namespace) -> list[NetworkRequest]:
    made = _made(network, parsed)
    training = _made(Training, parsed)
    threads = default_threads() if parsed.threads is None else parsed.threads
    cores_for(threads)
    options = read_options(NetworkRequest, parsed)
    if options["steps"] < 1:
        raise UsageError(f"--steps takes a number from 1 on, got {options['steps']}")
    if options["seed"] < 0:
        raise UsageError(f"--seed cannot be negative, got {options['seed']}")
    return [
        NetworkRequest(made, framework, mode, threads, training=training, **options)
        for framework, mode in chosen_frameworks(parsed.framework, parsed.mode)
    ]


def _made(kind: type[Any], parsed: argparse.Namespace) -> Any:
    """A network or Training with the fields that were given."""
    given = given_fields(kind, parsed)
    for name, word in given.items():
        if "," in str(word):
            flag = f"--{name.replace('_', '-')} {word}"
            raise SpecError(f"{flag}: one value at a time; sweeps over networks are profkit study")
    return kind(**given)


def chosen_frameworks(words: str | None, mode: str | None) -> list[tuple[str, str]]:
    """Frameworks and their modes from `torch,tensorflow:eager`; an empty mode is the framework's usual one."""
    if words is None:
        words = next((name for name in USUAL if _is_there(name)), USUAL[-1])
    names = [name for name in BUILDERS if _is_there(name)] if words == ALL else split_list(words)
    chosen: list[tuple[str, str]] = []
    for name in names:
        framework, _, own_mode = name.partition(":")
        if framework not in BUILDERS:
            raise UsageError(unknown("framework", framework, BUILDERS, most=1))
        wanted = own_mode or mode or ""
        modes = list(load_builder(framework).modes)
        if wanted and wanted not in modes:
            raise UsageError(unknown(f"{framework} mode", wanted, modes, most=1))
        if (framework, wanted or modes[0]) in chosen:
            raise UsageError(f"--framework {words}: {name} appears twice")
        chosen.append((framework, wanted or modes[0]))
    return chosen


def _is_there(framework: str) -> bool:
    return load_builder(framework).is_available().available
