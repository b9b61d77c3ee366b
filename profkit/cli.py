"""The command line's index: every command with its summary, and the one place where errors become exit codes."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from types import ModuleType

from profkit import __version__
from profkit.errors import ProfkitError, UsageError, unknown
from profkit.rendering.terminal import LINES, say, stream_width, visible

_TOOLS = {
    "tune": "find the best sizes of profkit's own kernels on this machine, and keep them",
    "network": "run a whole network in a framework: time and bytes by layer",
    "trace": "run a program and record where its time and memory go",
    "report": "show a capture or a result as a table",
    "export": "write a capture as a trace for Perfetto, Chrome or a flame graph",
    "query": "query a capture or a result with SQL",
    "compare": "compare two captures (what became faster or slower, with intervals) or two results",
    "study": "run a declared sweep over a network and report what it shows",
    "env": "make environments for Theano and Caffe, which cannot live beside the others",
    "selftest": "prove on this machine that kernels, timers and the recorder are right",
    "doctor": "show what works here, and what to type for the rest",
}
_LIBRARY = ("api", "cli", "errors")
"""Modules beside the commands that cannot be typed."""
INTERRUPTED = 130
MESSAGE_WIDTH = 100
_HELP = ("-h", "--help", "help")


def main(argv: Sequence[str] | None = None) -> int:
    """`profkit COMMAND ...`; without a command, the list of commands."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[1:] and words[0] in _HELP:
        words = [words[1], "--help", *words[2:]]
    if not words or words[0] in _HELP:
        return guarded("", _list_commands, words)
    if words[0] == "--version":
        return guarded("", _show_version, words)
    if words[0] not in commands():
        return guarded("", _refuse, words)
    command: Callable[[Sequence[str]], int] = importlib.import_module(f"profkit.{words[0]}").main
    return command(words[1:])


@cache
def commands() -> dict[str, str]:
    """Every command and its summary. Operators come first: modules of this package whose docstrings have theirs."""
    found = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    operators = [name for name in found if name not in (*_TOOLS, *_LIBRARY)]
    return {name: _summary(importlib.import_module(f"profkit.{name}")) for name in operators} | _TOOLS


def _summary(module: ModuleType) -> str:
    return (module.__doc__ or "").partition(": ")[2].rstrip(".")


def operator_command(op: str) -> Callable[..., int]:
    """The `main` of the module that compares implementations of one operator; that of conv2d is called conv."""
    command = op.removesuffix("2d")

    def run(words: Sequence[str]) -> int:
        from profkit.commands.operator import compare

        return compare(op, command, words)

    return partial(guarded, command, run)


def guarded(command: str, run: Callable[[Sequence[str]], int], argv: Sequence[str] | None = None) -> int:
    """Run a command; its errors become a message on stderr and an exit code, never a traceback."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    try:
        code = run(words)
        sys.stdout.flush()
        return code
    except ProfkitError as error:
        tell(f"profkit {command}".rstrip() + f": {error}")
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted", sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        abandon_stdout()
        return 0
    except OSError as error:
        # A full disk behind `> file` shows only when something is printed, or at the last flush.
        place = f"{error.filename}: " if error.filename else ""
        tell(f"profkit {command}".rstrip() + f": {place}{error.strerror or error}")
        abandon_stdout()
        return 1
    except SystemExit as ended:
        # argparse leaves this way after --help.
        return int(ended.code or 0)


def abandon_stdout() -> None:
    """Let everything that is still printed vanish, the interpreter's last flush included."""
    with contextlib.suppress(OSError, ValueError):
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)


def _open_closed_streams() -> None:
    """`>&-` and `2>&-` mean that nobody wants to read: what is printed there vanishes, and no file takes the number."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open until the process ends
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - likewise


def wrapped(text: str) -> str:
    """A message in lines of at most 100 columns, or as many as there are; its own line breaks kept."""
    width = min(MESSAGE_WIDTH, stream_width(sys.stderr))
    lines = []
    for line in visible(text, LINES).splitlines():
        indent = line[: len(line) - len(line.lstrip())] + "  "
        lines += textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "\n".join(lines)


def tell(text: str) -> None:
    """A remark beside the result, on standard error."""
    say(wrapped(text), sys.stderr)


def _list_commands(_: Sequence[str]) -> int:
    width = max(map(len, commands()))
    say("profkit: one operator, every implementation, compared fairly\n")
    say("usage: profkit COMMAND [flags]   (or python -m profkit.COMMAND [flags])\n")
    for name, summary in commands().items():
        say(f"  {name:{width}}  {summary}")
    say("\nprofkit COMMAND --help shows a command's flags; start with: profkit conv --stride 2")
    return 0


def _show_version(_: Sequence[str]) -> int:
    say(f"profkit {__version__}")
    return 0


def _refuse(words: Sequence[str]) -> int:
    raise UsageError(unknown("command", words[0], (*commands(), "help")))
