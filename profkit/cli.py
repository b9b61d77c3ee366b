"""The list of commands with their summaries, and the one place where errors become exit codes."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

from profkit import __version__
from profkit.errors import INTERRUPTED, ProfkitError, UsageError, unknown
from profkit.rendering.terminal import abandon_stdout, say, tell

_TOOLS = {
    "tune": "find the best block sizes of profkit's own kernels on this machine, and store them",
    "network": "run a whole network in a framework: time and bytes by layer",
    "max-batch": "find the largest batch of a network that trains or infers within a memory limit",
    "trace": "run a program and record where its time and memory go",
    "report": "show a capture or a result as a table",
    "export": "write a capture as a trace for Perfetto, Chrome or a flame graph",
    "query": "query a capture or a result with SQL",
    "compare": "compare two captures (what became faster or slower, with intervals) or two results",
    "study": "run a declared sweep over a network and report its findings",
    "env": "create environments for Theano and Caffe, which cannot share one with the others",
    "selftest": "prove on this machine that kernels, timers and the recorder are right",
    "doctor": "show what works here, and what to type for the rest",
}
_LIBRARY = ("api", "cli", "errors")
"""Top-level modules that are not commands."""
_HELP = ("-h", "--help", "help")


def main(argv: Sequence[str] | None = None) -> int:
    """`profkit COMMAND ...`; without a command, the list of commands."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[1:] and words[0] in _HELP:
        words = [words[1], "--help", *words[2:]]
    if not words or words[0] not in commands():
        return guarded("", _without_command, words)
    return guarded(words[0], partial(_import_and_run, words[0]), words[1:])


def _import_and_run(name: str, words: Sequence[str]) -> int:
    """Guarded too: imports take part of a second, in which they may be interrupted."""
    command: Callable[[Sequence[str]], int] = importlib.import_module(module_of(name)).main
    return command(words)


def module_of(command: str) -> str:
    return f"profkit.{command.replace('-', '_')}"


@cache
def commands() -> dict[str, str]:
    """Every command and its summary. Operators come first; their summaries are in the docstrings of their modules."""
    found = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    known = {module_of(name) for name in (*_TOOLS, *_LIBRARY)}
    operators = [name for name in found if module_of(name) not in known]
    told = {name: importlib.import_module(f"profkit.{name}").__doc__ or "" for name in operators}
    return {name: text.partition(": ")[2].rstrip(".") for name, text in told.items()} | _TOOLS


def operator_command(op: str) -> Callable[..., int]:
    """The `main` of the module that compares implementations of one operator; that of conv2d is called conv."""
    command = op.removesuffix("2d")

    def run(words: Sequence[str]) -> int:
        from profkit.commands.operator import run_operator

        return run_operator(op, command, words)

    return partial(guarded, command, run)


def guarded(command: str, run: Callable[[Sequence[str]], int], argv: Sequence[str] | None = None) -> int:
    """Run a command; its errors become a message on stderr and an exit code, never a traceback."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    code = 0
    try:
        with _signals_end_orderly():
            code = run(words)
        sys.stdout.flush()
        return code
    except ProfkitError as error:
        tell(f"profkit {command}".rstrip() + f": {error}")
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted", sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # who reads no further does not change what the command found
        abandon_stdout()
        return code
    except OSError as error:
        # A full disk behind `> file` shows only when something is printed, or at the last flush.
        place = f"{error.filename}: " if error.filename else ""
        tell(f"profkit {command}".rstrip() + f": {place}{error.strerror or error}")
        abandon_stdout()
        return 1
    except MemoryError:
        tell(f"profkit {command}".rstrip() + ": there is not enough memory for this")
        return 1
    except _EndedBySignal as ended:
        with contextlib.suppress(OSError):  # the terminal may be what is gone
            tell(f"profkit {command}".rstrip() + f": ended by {signal.Signals(ended.number).name}")
        return 128 + ended.number
    except SystemExit as ended:
        # argparse leaves this way after --help.
        return int(ended.code or 0)


class _EndedBySignal(SystemExit):
    """Leaves through every block, like the end of a program."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


@contextlib.contextmanager
def _signals_end_orderly() -> Iterator[None]:
    """After SIGTERM and SIGHUP too unfinished files are removed; the exit code is 128 + the signal."""

    def leave(number: int, _: object) -> None:
        raise _EndedBySignal(number)

    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        numbers = []  # only the main thread can have handlers
    for number in numbers:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _open_closed_streams() -> None:
    """Under `>&-` and `2>&-` output is discarded, and no opened file gets the descriptor's number."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open until the process ends


def _without_command(words: Sequence[str]) -> int:
    if words and words[0] == "--version":
        say(f"profkit {__version__}")
        return 0
    if words and words[0] not in _HELP:
        raise UsageError(unknown("command", words[0], (*commands(), "help")))
    width = max(map(len, commands()))
    say("profkit: one operator, every implementation, compared fairly\n")
    say("usage: profkit COMMAND [flags]   (or python -m profkit.COMMAND [flags])\n")
    for name, summary in commands().items():
        say(f"  {name:{width}}  {summary}")
    say("\nprofkit COMMAND --help shows a command's flags; start with: profkit conv --stride 2")
    return 0
