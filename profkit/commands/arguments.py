"""The flags of an operator's command, made from the spec's fields: words go in, a Request comes out."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, NoReturn, TypeVar

from profkit.commands.sweep import build_specs, parse_counts, parse_words, split_list
from profkit.errors import ProfkitError, UsageError, did_you_mean
from profkit.measurement.options import (
    BYTES,
    CACHE,
    CACHES,
    COLUMNS,
    COMPARED,
    COUNTS,
    FILES,
    FOLDER,
    KEY,
    KEYS,
    OUTPUT,
    OUTPUTS,
    PROGRAMS,
    SECONDS,
    SHARE,
    SHOWN,
    WHOLE,
    WORDS,
    MeasureOptions,
    option,
)
from profkit.ops import SPECS, default_preset
from profkit.ops.axes import FLAG, Kind
from profkit.ops.fields import Fields
from profkit.ops.spec import Spec
from profkit.rendering.quantities import parse_bytes, parse_duration, parse_share
from profkit.rendering.results.columns import DEFAULT, choose_columns, column_names
from profkit.rendering.terminal import stream_width

OptionsType = TypeVar("OptionsType")
HELP_WIDTH = 100
_CELL_AXES = ("threads", "cache", "output")
"""Options of which several values are a sweep."""
SWEEP = (
    "A comma list of values is a sweep, one table each. Sweep axes, in all combinations: the operator's\n"
    "own flags, --preset, --threads, --cache, --output."
)


@dataclass(frozen=True)
class TableOptions:
    """Flags of an operator's command besides those of MeasureOptions."""

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
    strict: bool = option(False, SHOWN, "exit code 3 when a row is wrong, crashed or lost")
    quiet: bool = option(False, SHOWN, "no progress, only the tables")

    @property
    def files(self) -> dict[str, str]:
        """Format and path."""
        return {name: path for name in ("json", "csv", "markdown") if (path := getattr(self, name))}


@dataclass(frozen=True)
class Request:
    """What the user asked for, checked."""

    op: str
    specs: list[Spec]
    options: dict[str, Any]
    """Keyword arguments of profkit.measure."""
    table: TableOptions
    lists_presets: bool

    @property
    def cells(self) -> int:
        """Specs times thread counts, caches and outputs."""
        return len(self.specs) * math.prod(len(self.options[name] or [0]) for name in _CELL_AXES)


class Parser(argparse.ArgumentParser):
    """argparse that raises instead of exiting, and offers the nearest flag."""

    def __init__(self, prog: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            usage=f"{prog} [flags]",
            description=description,
            epilog=epilog,
            formatter_class=_Formatter,
            allow_abbrev=False,
        )

    @property
    def flags(self) -> list[str]:
        """Every flag so far."""
        return list(self._option_string_actions)

    def group(self, title: str) -> argparse._ArgumentGroup:
        """The group of this title."""
        found = next((group for group in self._action_groups if group.title == title), None)
        return found or self.add_argument_group(title)

    def add_options(self, options: type) -> None:
        """A flag for every option of a dataclass, in the group that it names."""
        for item in _options_of(options):
            letter = item.metadata["letter"]
            flags = [*([f"-{letter}"] if letter else []), f"--{_flag(item)}"]
            self.group(item.metadata["group"]).add_argument(*flags, dest=item.name, **_argument(item))

    def show_group(self, group: argparse._ArgumentGroup) -> None:
        """Have --help show a group of another parser, too."""
        self._action_groups.append(group)

    def takes_word(self, flag: str, word: str) -> bool:
        """Whether the word after this flag belongs to it; an optional value is always a number here."""
        action = self._option_string_actions.get(flag)
        if action is None or action.nargs == 0:
            return False
        return action.nargs != "?" or word.isdecimal()

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n  {self.prog} --help shows all flags")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse, with every unknown word an error."""
        parsed, unknown = self.parse_known_args(join_negative(words))
        if unknown:
            flag = unknown[0].partition("=")[0]
            if not flag.startswith("-"):
                self.error(f"unexpected word {flag!r}: flags begin with --")
            self.error(f"unknown flag {flag}; {did_you_mean(flag, self.flags)}".rstrip("; "))
        return parsed


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=help_width())


def help_width() -> int:
    """Columns of the help."""
    return min(HELP_WIDTH, stream_width(sys.stdout))


def join_negative(words: Sequence[str]) -> list[str]:
    """`--padding -1,2` as `--padding=-1,2`: argparse would take a value that begins with a minus for a flag."""
    joined: list[str] = []
    for word in words:
        if joined and re.match(r"-\d", word) and joined[-1].startswith("--") and "=" not in joined[-1]:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def parse_request(op: str, command: str, words: Sequence[str]) -> Request:
    """Read a command's words; anything wrong is a UsageError before anything is measured."""
    arguments = build_parser(op, command).parse(words)
    options, table = read_options(MeasureOptions, arguments), made_options(TableOptions, arguments)
    choose_columns(table.columns)
    if table.watch and not options["candidates"]:
        raise UsageError("--watch reruns when a candidate's file changes: add --candidate FILE")
    specs = read_specs(op, arguments, {name: len(options[name] or [0]) for name in _CELL_AXES})
    return Request(op, specs, options, table, arguments.list_presets)


def read_specs(op: str, arguments: argparse.Namespace, other_axes: Mapping[str, int] | None = None) -> list[Spec]:
    """What the flags of `add_fields` ask for: every combination, checked."""
    presets = [name for name in split_list(arguments.preset or []) if name]
    return build_specs(op, presets, given_fields(SPECS[op], arguments), other_axes)


def given_fields(kind: type[Fields], arguments: argparse.Namespace) -> dict[str, str]:
    """The flags of a spec or network that were typed."""
    given = {item.name: getattr(arguments, _destination(item.name)) for item in fields(kind)}
    return {name: words for name, words in given.items() if words is not None}


def build_parser(op: str, command: str) -> Parser:
    """The parser of one operator's command."""
    summary = (SPECS[op].__doc__ or op).strip().splitlines()[0]
    description = f"Compare implementations of {op} on this machine.\n\n  {summary}\n\n{SWEEP}"
    parser = Parser(f"profkit {command}", description, _examples(op, command))
    group = parser.add_argument_group(f"{op} (each flag is a sweep axis)")
    parser.add_options(MeasureOptions)
    parser.add_options(TableOptions)
    add_spec(group, op)
    return parser


def _destination(name: str) -> str:
    return f"field_{name}"


def add_fields(group: argparse._ArgumentGroup, kind: type[Fields]) -> None:
    """The flags of a spec or network; argparse refuses a field that is called like another flag."""
    for item in fields(kind):
        form: Kind = item.metadata["kind"]
        text = f"{item.metadata['help']} [{form.word(item.default)}]".replace("%", "%%")
        optional: dict[str, Any] = {"nargs": "?", "const": "yes"} if form is FLAG else {}
        flag = f"--{item.name.replace('_', '-')}"
        group.add_argument(flag, dest=_destination(item.name), metavar=form.metavar, help=text, **optional)


def add_spec(group: argparse._ArgumentGroup, op: str) -> None:
    """The flags of an operator's spec, and its presets."""
    add_fields(group, SPECS[op])
    preset = f"a named shape, other flags change it; may be repeated or a comma list [{default_preset(op)}]"
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
        "exit codes: 0 measured, 1 nothing could be measured or a file could not be written, 2 wrong usage,\n"
        "  3 a row is wrong, crashed or lost (with --strict), 130 interrupted"
    )


def typed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A reader of words whose error argparse shows together with the flag."""

    def read(text: str) -> Any:
        try:
            return parse(text)
        except ProfkitError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _programs(name: str, words: Sequence[str]) -> dict[str, str]:
    """`torch=/opt/py310/bin/python` as a mapping."""
    pairs = [word.partition("=") for word in words]
    for framework, _, path in pairs:
        if not framework or not path:
            raise UsageError(f"--{name} {framework}: expected FRAMEWORK=PATH, as torch=venv/bin/python")
    return {framework: path for framework, _, path in pairs}


@dataclass(frozen=True)
class _Form:
    """How an option is typed."""

    metavar: str
    convert: Callable[[str], Any] = str
    finish: Callable[[str, Any], Any] = lambda _, given: given
    """From the flag and all that was typed to the value."""
    word: Callable[[Any], str] = str
    """The default as it would be typed."""
    repeats: bool = False


_FORMS = {
    "": _Form("FILE"),
    FOLDER: _Form("FOLDER"),
    WORDS: _Form("NAME", repeats=True),
    COLUMNS: _Form("NAME[,NAME]", finish=lambda _, given: split_list(given)),
    KEY: _Form("KEY"),
    SECONDS: _Form("TIME", typed(parse_duration), word=lambda value: f"{value:g}s"),
    BYTES: _Form("SIZE", typed(parse_bytes)),
    SHARE: _Form("SHARE", typed(parse_share), word=lambda value: f"{value:.0%}"),
    WHOLE: _Form("N", int),
    COUNTS: _Form("N[,N]", finish=parse_counts),
    CACHE: _Form("hot[,cold]", finish=lambda flag, given: parse_words(flag, given, CACHES), word=",".join),
    OUTPUT: _Form("fresh[,reused]", finish=lambda flag, given: parse_words(flag, given, OUTPUTS), word=",".join),
    KEYS: _Form("KEY", finish=lambda _, given: split_list(given), repeats=True),
    FILES: _Form("FILE[:FUNCTION]", repeats=True),
    PROGRAMS: _Form("FRAMEWORK=PATH", finish=_programs, repeats=True),
}


def _flag(item: Field[Any]) -> str:
    """The word of an option: budget for budget_s, no-tuned for what is on unless it is switched off."""
    word: str = item.metadata["flag"] or item.name.removesuffix("_s").removesuffix("_bytes")
    return ("no-" if item.default is True else "") + word.replace("_", "-")


def _options_of(options: type) -> list[Field[Any]]:
    return [item for item in fields(options) if "group" in item.metadata]


def _argument(item: Field[Any]) -> dict[str, Any]:
    """What argparse is told of an option; what is not typed is None there, and takes its default in `read_options`."""
    facts, form = item.metadata, _FORMS[item.metadata["form"]]
    shown = facts["shown"]
    if isinstance(item.default, bool):
        more = {"action": "store_const", "const": not item.default}
    elif facts["choices"]:
        more, shown = {"choices": facts["choices"]}, item.default
    else:
        more = {"metavar": form.metavar, "type": form.convert, "action": "append" if form.repeats else "store"}
        shown = shown or (form.word(item.default) if item.default not in (None, (), MISSING) else "")
    return {**more, "help": (facts["help"] + (f" [{shown}]" if shown else "")).replace("%", "%%")}


def read_options(options: type, arguments: argparse.Namespace) -> dict[str, Any]:
    """The value of every option: as it was typed, or its default."""
    values = {}
    for item in _options_of(options):
        given, form = getattr(arguments, item.name), _FORMS[item.metadata["form"]]
        default = item.default if item.default_factory is MISSING else item.default_factory()
        values[item.name] = default if given is None else form.finish(_flag(item), given)
    return values


def made_options(options: type[OptionsType], arguments: argparse.Namespace) -> OptionsType:
    """The options that were typed."""
    return options(**read_options(options, arguments))


def chosen_top(text: str) -> int | None:
    """How many rows --top asks for; None: all."""
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"--top takes a number of rows from 1 on, or all; got {text!r}")
    return int(text)
