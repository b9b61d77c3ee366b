"""The parser of every command, and flags from dataclasses: options, and the fields of specs and networks."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, NoReturn, TypeVar

from profkit.commands.sweep import parse_counts, parse_words, split_list
from profkit.errors import ProfkitError, UsageError, did_you_mean
from profkit.measurement.options import (
    BYTES,
    CACHE,
    CACHES,
    COLUMNS,
    COUNTS,
    FILES,
    FOLDER,
    KEY,
    KEYS,
    OUTPUT,
    OUTPUTS,
    PATH,
    PROGRAMS,
    SECONDS,
    SHARE,
    SIZE,
    WHOLE,
    WORDS,
)
from profkit.ops.axes import FLAG, Kind
from profkit.ops.fields import Fields
from profkit.rendering.quantities import parse_bytes, parse_duration, parse_share, parse_size
from profkit.rendering.terminal import stream_width, wrapped_line

OptionsType = TypeVar("OptionsType")
HELP_WIDTH = 100
KIND, WORD, TOP, PROCESS, FLOWS = "kind", "word", "top", "process", "flows"
"""Further forms of options: what a row is, a name, how many rows are printed, a process id, a number of arrows."""
DEFAULT_FLOWS = 1000
_FIELD = "field_"
"""Before the name of a spec's or network's field, which may be that of an option."""


class Parser(argparse.ArgumentParser):
    """argparse that raises instead of exiting, and offers the nearest flag."""

    def __init__(self, prog: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            usage=f"{prog} [flags]",
            description=description,
            epilog=epilog,
            formatter_class=lambda prog: _Formatter(prog, 2, 30, help_width()),
            allow_abbrev=False,
        )

    def group(self, title: str) -> argparse._ArgumentGroup:
        found = next((group for group in self._action_groups if group.title == title), None)
        return found or self.add_argument_group(title)

    def add_options(self, options: type) -> None:
        """A flag for every option of a dataclass, in the group that it names."""
        for item in _options_of(options):
            letter = item.metadata["letter"]
            flags = [*([f"-{letter}"] if letter else []), f"--{_flag(item)}"]
            self.group(item.metadata["group"]).add_argument(*flags, dest=item.name, **_argument(item))

    def spec_group(self, title: str, is_alone: bool) -> argparse._ArgumentGroup:
        """A group for the flags of a spec or network; where others have flags of the same names, it belongs to
        a separate parser, and --help shows it."""
        owner = self if is_alone else Parser(self.prog, "")
        group = owner.add_argument_group(title)
        if owner is not self:
            self._action_groups.append(group)
        return group

    def takes_word(self, flag: str, word: str) -> bool:
        """Whether the word after this flag belongs to it; an optional value is always a number here."""
        action = self._option_string_actions.get(flag)
        if action is None or action.nargs == 0:
            return False
        return action.nargs != "?" or word.isdecimal()

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}\n  {self.prog} --help shows all flags")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        parsed, unknown = self.parse_known_args(join_negative(words))
        if unknown:
            flag = unknown[0].partition("=")[0]
            if not flag.startswith("-"):
                self.error(f"unexpected word {flag!r}: flags begin with --")
            self.error(f"unknown flag {flag}; {did_you_mean(flag, self._option_string_actions)}".rstrip("; "))
        return parsed


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def _fill_text(self, text: str, width: int, indent: str) -> str:  # noqa: ARG002 - argparse passes it
        """Lines that fit, with their own line breaks; commands, which are to be copied, stay whole."""
        return "\n".join(
            line if line.startswith("  profkit ") else wrapped_line(line, width) for line in text.splitlines()
        )


def help_width() -> int:
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


def given_fields(kind: type[Fields], arguments: argparse.Namespace) -> dict[str, str]:
    given = {item.name: getattr(arguments, f"{_FIELD}{item.name}", None) for item in fields(kind)}
    return {name: words for name, words in given.items() if words is not None}


def add_fields(group: argparse._ArgumentGroup, kind: type[Fields], without: Collection[str] = ()) -> None:
    """The flags of a spec or network; argparse refuses a field that is called like another flag."""
    for item in fields(kind):
        if item.name in without:
            continue
        form: Kind = item.metadata["kind"]
        text = f"{item.metadata['help']} [{form.word(item.default)}]".replace("%", "%%")
        optional: dict[str, Any] = {"nargs": "?", "const": "yes"} if form is FLAG else {}
        flag = f"--{item.name.replace('_', '-')}"
        group.add_argument(flag, dest=f"{_FIELD}{item.name}", metavar=form.metavar, help=text, **optional)


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


def _number(what: str, least: int = 1, word_for_none: str = "") -> Callable[[str, str], int | None]:
    """A reader of whole numbers; `what` is how its message calls them."""

    def read(flag: str, text: str) -> int | None:
        if text and text == word_for_none:
            return None
        if not text.isdecimal() or int(text) < least:
            raise UsageError(f"--{flag} takes {what} got {text!r}")
        return int(text)

    return read


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
    alone: str | None = None
    """What the flag means without a word behind it; None: it needs one."""


_FORMS = {
    "": _Form("FILE"),
    FOLDER: _Form("FOLDER"),
    PATH: _Form("PATH"),
    WORDS: _Form("NAME", repeats=True),
    COLUMNS: _Form("NAME[,NAME]", finish=lambda _, given: list(filter(None, split_list(given))) or None, repeats=True),
    KEY: _Form("KEY"),
    SECONDS: _Form("TIME", typed(parse_duration), word=lambda value: f"{value:g}s"),
    BYTES: _Form("SIZE", typed(parse_bytes)),
    SIZE: _Form("SIZE", typed(parse_size)),
    SHARE: _Form("SHARE", typed(parse_share), word=lambda value: f"{value:.0%}"),
    WHOLE: _Form("N", int),
    COUNTS: _Form("N[,N]", finish=parse_counts),
    CACHE: _Form("hot[,cold]", finish=lambda flag, given: parse_words(flag, given, CACHES), word=",".join),
    OUTPUT: _Form("fresh[,reused]", finish=lambda flag, given: parse_words(flag, given, OUTPUTS), word=",".join),
    KEYS: _Form("KEY", finish=lambda _, given: split_list(given), repeats=True),
    FILES: _Form("FILE[:FUNCTION]", repeats=True),
    PROGRAMS: _Form("FRAMEWORK=PATH", finish=_programs, repeats=True),
    KIND: _Form("WHAT"),
    WORD: _Form("NAME"),
    TOP: _Form("N", finish=_number("a number of rows from 1 on, or all;", word_for_none="all")),
    PROCESS: _Form("PID", finish=_number("a process id,", least=0)),
    FLOWS: _Form("N", finish=_number("a number of arrows from 1 on,"), alone=str(DEFAULT_FLOWS)),
}


def _flag(item: Field[Any]) -> str:
    """The word of an option: budget for budget_s, no-tuned for what is on unless it is switched off."""
    word: str = item.metadata["flag"] or item.name.removesuffix("_s").removesuffix("_bytes")
    return ("no-" if item.default is True else "") + word.replace("_", "-")


def _options_of(options: type) -> list[Field[Any]]:
    return [item for item in fields(options) if "group" in item.metadata]


def _argument(item: Field[Any]) -> dict[str, Any]:
    """The arguments of `add_argument` for an option; one that is not typed is None until `read_options`."""
    facts, form = item.metadata, _FORMS[item.metadata["form"]]
    shown = facts["shown"]
    if isinstance(item.default, bool):
        more = {"action": "store_const", "const": not item.default}
    elif facts["choices"]:
        more, shown = {"choices": facts["choices"]}, shown or item.default
        more |= {"metavar": form.metavar} if facts["form"] else {}
    else:
        more = {"metavar": form.metavar, "type": form.convert, "action": "append" if form.repeats else "store"}
        more |= {} if form.alone is None else {"nargs": "?", "const": form.alone}
        shown = shown or (form.word(item.default) if item.default not in (None, (), MISSING) else "")
    return {**more, "help": (facts["help"] + (f" [{shown}]" if shown else "")).replace("%", "%%")}


def first_given(options: object, names: Sequence[str]) -> str:
    """The flag of the first of these options that is not the default; empty: all are."""
    known = {item.name: item for item in fields(options)}  # type: ignore[arg-type]
    wrong = next((name for name in names if getattr(options, name) != known[name].default), "")
    return f"--{_flag(known[wrong])}" if wrong else ""


def read_options(options: type, arguments: argparse.Namespace) -> dict[str, Any]:
    """The value of every option: as it was typed, or its default."""
    values = {}
    for item in _options_of(options):
        given, form = getattr(arguments, item.name), _FORMS[item.metadata["form"]]
        default = item.default if item.default_factory is MISSING else item.default_factory()
        values[item.name] = default if given is None else form.finish(_flag(item), given)
    return values


def made_options(options: type[OptionsType], arguments: argparse.Namespace) -> OptionsType:
    return options(**read_options(options, arguments))
