"""The program that is traced: words of the command line in, a command that can be run out; and running it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from profkit.errors import UsageError

_HOW = "name a script, -m MODULE or -- PROGRAM"
_LOOK_AGAIN_S = 0.01


@dataclass(frozen=True)
class TracedProgram:
    """A command, and what its capture is called."""

    command: tuple[str, ...]
    title: str

    @property
    def default_capture(self) -> str:
        """`train.py` gives `train.profkit`, in the current folder."""
        return f"{self.title}.profkit"


def split_words(words: Sequence[str], takes_word: Callable[[str, str], bool]) -> tuple[list[str], list[str]]:
    """Our flags, and the target with all that follows it: the first word that is neither a flag nor its value."""
    place = 0
    while place < len(words):
        word = words[place]
        is_flag = word.startswith("-") and word != "-"
        if not is_flag or word == "--" or (word.startswith("-m") and not word.startswith("--")):
            break
        following = words[place + 1] if place + 1 < len(words) else ""
        place += 2 if "=" not in word and takes_word(word, following) else 1
    return list(words[:place]), list(words[place:])


def find_program(words: Sequence[str]) -> TracedProgram:
    """The command that the target means; UsageError now for one that could not start later."""
    if not words:
        raise UsageError(f"nothing to trace: {_HOW}")
    first, rest = words[0], list(words[1:])
    if first == "--":
        return _executable(rest)
    if first.startswith("-m"):
        named = [first[2:], *rest] if len(first) > 2 else rest
        if not named:
            raise UsageError("-m needs the name of a module")
        return TracedProgram((sys.executable, "-m", *named), named[0])
    return _script(first, rest)


def _executable(words: Sequence[str]) -> TracedProgram:
    if not words:
        raise UsageError(f"nothing to trace after --: {_HOW}")
    found = shutil.which(words[0])
    if found is None:
        reason = "permission denied" if os.path.isfile(words[0]) else "there is no such program"
        raise UsageError(f"cannot run {words[0]}: {reason}")
    return TracedProgram((found, *words[1:]), Path(words[0]).name)


def _script(path: str, rest: Sequence[str]) -> TracedProgram:
    script = Path(path)
    if not script.exists():
        nearby = "; put -- before a program that is not a Python script" if shutil.which(path) else ""
        raise UsageError(f"there is no script {path}{nearby}")
    if script.is_dir() and not (script / "__main__.py").exists():
        raise UsageError(f"{path} is a folder without a __main__.py")
    if not os.access(script, os.R_OK):
        raise UsageError(f"{path} cannot be read")
    return TracedProgram((sys.executable, path, *rest), script.resolve().stem)


def run_program(program: TracedProgram, environment: Mapping[str, str]) -> int:
    """Run it with our own standard streams and wait; its exit code, or 128 + the signal that ended it."""
    with _signals_passed_on() as passed:
        try:
            child = subprocess.Popen(program.command, env=dict(environment))
        except OSError as error:
            raise UsageError(f"cannot run {program.command[0]}: {error.strerror or error}") from None
        passed.append(child)
        code = child.wait()
    return code if code >= 0 else 128 - code


def still_running(pids: Sequence[int], seconds: float) -> list[int]:
    """Those of these processes that live on, at most so much later; at once when none does."""
    deadline = time.monotonic() + seconds
    while True:
        alive = [pid for pid in pids if _is_alive(pid)]
        if not alive or time.monotonic() >= deadline:
            return alive
        time.sleep(_LOOK_AGAIN_S)


def _is_alive(pid: int) -> bool:
    """A process that ended and was not waited for yet is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in (b"Z", b"X")


@contextmanager
def _signals_passed_on() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Signals for the program are passed on to it, and this process continues, to finish the capture."""
    children: list[subprocess.Popen[bytes]] = []
    reaches_all = _terminal_reaches_all()

    def pass_on(number: int, _: FrameType | None) -> None:
        # Ctrl-C comes from the terminal to every process of its group, so the program has it already.
        if number in (signal.SIGINT, signal.SIGQUIT) and reaches_all:
            return
        for child in children:
            child.send_signal(number)

    # A signal that was ignored stays ignored, for the program too. Handlers do not survive exec.
    numbers = [signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]
    before = {number: signal.getsignal(number) for number in numbers}
    caught = [number for number in numbers if before[number] is not signal.SIG_IGN]
    for number in caught:
        signal.signal(number, pass_on)
    try:
        yield children
    finally:
        for number in caught:
            signal.signal(number, before[number])


def _terminal_reaches_all() -> bool:
    """Whether this process is in the foreground of a terminal."""
    try:
        descriptor = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(descriptor)
