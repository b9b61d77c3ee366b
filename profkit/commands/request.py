"""The flags of an operator's command: words go in, a Request comes out."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from profkit.commands.arguments import Parser, add_fields, given_fields, made_options
from profkit.commands.sweep import build_specs, split_list
from profkit.errors import UsageError
from profkit.measurement.options import (
    COLUMNS,
    COMPARED,
    SHOWN,
    MeasureOptions,
    option,
)
from profkit.ops import SPECS, default_preset
from profkit.ops.spec import Spec
from profkit.rendering.results.columns import DEFAULT, choose_columns, column_names

_CELL_AXES = ("threads", "cache", "output")
"""Options of which several values are a sweep."""

SWEEP = (
    "A comma list of values is a sweep, one table each. Sweep axes, in all combinations: the operator's own flags, "
    "--preset, --threads, --cache, --output."
)


@dataclass(frozen=True)
class ResultTableOptions:
    """Flags of an operator's command besides those of MeasureOptions: its table and files."""

    watch: bool = option(False, COMPARED, "measure again when a candidate's file changes")
    lists: bool = option(False, COMPARED, "list the implementations and why some cannot run, and exit", flag="list")
    columns: Sequence[str] | None = option(
        None,
        SHOWN,
        f"columns of the table [{','.join(DEFAULT)}]; +NAME adds to these, all shows all: {', '.join(column_names())}",
        form=COLUMNS,
    )
    json: str | None = option(None, SHOWN, "everything, with raw samples and environment")
    csv: str | None = option(None, SHOWN, "one line per implementation")
    markdown: str | None = option(None, SHOWN, "the tables, for an issue or a README")
    verbose: bool = option(False, SHOWN, "list each row that cannot run, not one line per reason", letter="v")
    strict: bool = option(False, SHOWN, "exit code 3 when any row is wrong, crashed, lost or doubtful")
    quiet: bool = option(False, SHOWN, "no progress, only the tables")

    @property
    def files(self) -> dict[str, str]:
        return {name: path for name in ("json", "csv", "markdown") if (path := getattr(self, name))}


@dataclass(frozen=True)
class Request:
    """The user's request, checked."""

    op: str
    specs: list[Spec]
    options: MeasureOptions
    table: ResultTableOptions
    lists_presets: bool

    @property
    def cells(self) -> int:
        """Specs times thread counts, caches and outputs."""
        return len(self.specs) * math.prod(len(getattr(self.options, name) or [0]) for name in _CELL_AXES)


def parse_request(op: str, command: str, words: Sequence[str]) -> Request:
    """Read a command's words; anything wrong is a UsageError before anything is measured."""
    arguments = build_parser(op, command).parse(words)
    options, table = made_options(MeasureOptions, arguments), made_options(ResultTableOptions, arguments)
    choose_columns(table.columns)
    if table.watch and not options.candidates:
        raise UsageError("--watch reruns when a candidate's file changes: add --candidate FILE")
    specs = read_specs(op, arguments, {name: len(getattr(options, name) or [0]) for name in _CELL_AXES})
    return Request(op, specs, options, table, arguments.list_presets)


def read_specs(op: str, arguments: argparse.Namespace, other_axes: Mapping[str, int] | None = None) -> list[Spec]:
    """The specs that the flags of `add_fields` describe: every combination, checked."""
    presets = [name for name in split_list(arguments.preset or []) if name]
    return build_specs(op, presets, given_fields(SPECS[op], arguments), other_axes)


def build_parser(op: str, command: str) -> Parser:
    summary = (SPECS[op].__doc__ or op).strip().splitlines()[0]
    description = f"Compare implementations of {op} on this machine.\n\n  {summary}\n\n{SWEEP}"
    parser = Parser(f"profkit {command}", description, _examples(op, command))
    group = parser.add_argument_group(f"{op} (each flag is a sweep axis)")
    parser.add_options(MeasureOptions)
    parser.add_options(ResultTableOptions)
    add_spec(group, op)
    return parser


def add_spec(group: argparse._ArgumentGroup, op: str) -> None:
    add_fields(group, SPECS[op])
    preset = f"a named shape, which other flags modify; may be repeated or a comma list [{default_preset(op)}]"
    group.add_argument("--preset", metavar="NAME", action="append", help=preset)
    group.add_argument("--list-presets", action="store_true", help="list the named shapes and exit")


def _examples(op: str, command: str) -> str:
    names = [item.name for item in fields(SPECS[op])]
    axis, values = ("stride", "1,2,3,5") if "stride" in names else (names[0], "16,64,256")
    preset = default_preset(op)
    return (
        "examples:\n"
        f"  profkit {command}\n"
        f"  profkit {command} --{axis} {values} --threads 1,2 --json sweep.json\n"
        f"  profkit {command} --all\n"
        f"  profkit {command} --preset {preset} --only 'native/*' --only torch --baseline torch\n"
        f"  profkit {command} --candidate my_kernel.cpp --watch\n"
        f"  profkit {command} --columns +page_faults,first_call --cache cold\n\n"
        "exit codes: 0 measured; 1 nothing could be measured, a candidate is unsupported or unavailable in all tables, "
        "or a file could not be written; 2 wrong usage; 3 a candidate could not be compiled or loaded, is wrong, "
        "crashed, was lost, or ran out of time or memory (--strict: any row is wrong, crashed, lost or doubtful); "
        "130 interrupted"
    )
