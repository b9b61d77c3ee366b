"""What the tuner chose on this machine: a file in the cache folder, docs/tuning.md.

Input: kernel key, spec, threads and the fingerprint of the device. Output: sizes or a configuration by name.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profkit.capture.atomic_write import atomic_write
from profkit.capture.checked_json import made, read_json, whole_number
from profkit.errors import KernelError, UsageError
from profkit.frameworks.adapter import Conditions, Implementation
from profkit.frameworks.cache import cache_folder
from profkit.ops.keys import parts_of
from profkit.ops.spec import Spec

SCHEMA = "profkit.tuned/1"
VARIABLE = "PROFKIT_TUNED"
DAMAGED = "tuned.damaged.json"
"""Where a file goes that had something in it which this profkit cannot read."""
# Parts of a fingerprint that change with profkit and not with the machine: choices of older builds are dropped.
BUILD_FIELDS = ("profkit", "build")

Tuning = dict[str, int | str]
Fingerprint = Mapping[str, str]


@dataclass(frozen=True)
class Choice:
    """One line of the file."""

    key: str
    spec: dict[str, Any]
    threads: int
    """0 for kernels on a device."""
    fingerprint: dict[str, str]
    tuning: Tuning
    """Empty: the default stays."""
    measured: dict[str, Any]
    """How that was found: default_ns, tuned_ns, ratio with its interval; for readers of the file only."""

    @property
    def identity(self) -> str:
        """Two choices with the same one cannot both hold."""
        return json.dumps([self.key, self.spec, self.threads, self.fingerprint], sort_keys=True)

    @property
    def machine(self) -> dict[str, str]:
        """The fingerprint without what belongs to profkit."""
        return {name: value for name, value in self.fingerprint.items() if name not in BUILD_FIELDS}


@dataclass(frozen=True)
class TunedChoices:
    """The contents of the file; `problem` says what of it cannot be used."""

    choices: Sequence[Choice]
    problem: str = ""


def tuned_file() -> Path:
    return cache_folder() / "tuned.json"


def is_wanted() -> bool:
    """PROFKIT_TUNED=0 switches tuned sizes off everywhere."""
    return os.environ.get(VARIABLE, "1").lower() not in ("0", "no", "off", "false")


def read_choices(path: Path | None = None) -> TunedChoices:
    """Everything in the file; a damaged file or line is skipped and reported."""
    path = path or tuned_file()
    try:
        data = read_json(path, _number)
    except FileNotFoundError:
        return TunedChoices(())
    except (OSError, ValueError) as error:
        return TunedChoices((), f"{path} cannot be read and is ignored: {error}")
    if not isinstance(data, dict) or data.get("schema") != SCHEMA or not isinstance(data.get("choices"), list):
        return TunedChoices((), f"{path} is no {SCHEMA} file and is ignored")
    choices = [choice for line in data["choices"] if (choice := _read_line(line)) is not None]
    damaged = len(data["choices"]) - len(choices)
    lines = "1 damaged line is" if damaged == 1 else f"{damaged} damaged lines are"
    return TunedChoices(choices, f"{path}: {lines} ignored" if damaged else "")


def find_choice(known: TunedChoices, key: str, spec: Spec, threads: int, fingerprint: Fingerprint) -> Choice | None:
    """The choice for exactly this; that of another machine, build, spec or thread count does not apply."""
    wanted = Choice(key, spec.to_dict(), counted_threads(key, threads), dict(fingerprint), {}, {}).identity
    return next((choice for choice in known.choices if choice.identity == wanted), None)


def tuning_to_take(
    implementation: Implementation,
    key: str,
    spec: Spec,
    conditions: Conditions,
    fingerprint: Callable[[], Fingerprint],
    check: Callable[[Tuning], object],
) -> tuple[Tuning, str]:
    """A trial's own, else what the tuner chose here, unless `check` raises a KernelError; and what the row says."""
    if "tuning" in implementation.options:
        return parse_tuning(implementation.options["tuning"]), ""
    if not conditions.tuned or not is_wanted():
        return {}, ""
    known = read_choices()
    choice = find_choice(known, key, spec, conditions.threads, fingerprint())
    if choice is None or not choice.tuning:
        return {}, known.problem
    text = tuning_text(choice.tuning)
    try:
        check(choice.tuning)
    except (KernelError, TypeError) as error:
        reason = "sizes must be whole numbers" if isinstance(error, TypeError) else error
        return {}, f"the tuned {text} in {tuned_file()} is ignored: {reason}"
    return choice.tuning, f"tuned: {text}"


def counted_threads(key: str, threads: int) -> int:
    """Threads that a choice depends on: none where the kernel runs on a device."""
    return threads if parts_of(key).device == "cpu" else 0


def keep_choices(found: Sequence[Choice]) -> None:
    """Add or replace these; what other tuners wrote meanwhile stays, what older builds chose here goes."""
    identities = {choice.identity for choice in found}

    def is_kept(old: Choice) -> bool:
        is_outdated = any(old.machine == new.machine and old.fingerprint != new.fingerprint for new in found)
        return old.identity not in identities and not is_outdated

    _rewrite(lambda choices: [*(old for old in choices if is_kept(old)), *found])


def check_writable() -> None:
    """UsageError if choices could not be stored: called before hours of measuring."""
    path = tuned_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise UsageError(
            f"choices cannot be stored in {path.parent}: {error.strerror}; set PROFKIT_CACHE to a folder of yours"
        ) from error


def forget_choices(is_forgotten: Callable[[Choice], bool]) -> int:
    """Take out what the test names; how many that were. Without any the file stays as it is."""
    forgotten = sum(is_forgotten(choice) for choice in read_choices().choices)
    if forgotten:
        _rewrite(lambda choices: [choice for choice in choices if not is_forgotten(choice)])
    return forgotten


def tuning_text(tuning: Mapping[str, int | str]) -> str:
    """`mc=96 kc=256`, as notes, keys and options have it."""
    return " ".join(f"{name}={value}" for name, value in tuning.items())


def parse_tuning(text: str) -> Tuning:
    """`tuning_text` read back."""
    tuning: Tuning = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not name or not equals or not value:
            raise UsageError(f"tuning {text!r}: expected NAME=VALUE, as mc=96, got {word!r}")
        tuning[name] = int(value) if value.lstrip("-").isdecimal() else value
    return tuning


def _number(text: str) -> int | None:
    """None for one that is too large: it is not a size, so only its line is skipped, not the file."""
    try:
        return whole_number(text)
    except ValueError:
        return None


def _read_line(line: Any) -> Choice | None:
    """A line of the file; None when something in it is not what it should be."""
    try:
        return made(Choice, line, "a line", finite=False)
    except ValueError:
        return None


def _rewrite(change: Callable[[Sequence[Choice]], Sequence[Choice]]) -> None:
    """Replace the file whole, one process after the other; one that is not all understood is kept beside."""
    path = tuned_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    # One process at a time, by a file beside, because the file itself is replaced.
    with open(path.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = read_choices(path)
        if known.problem:
            os.replace(path, path.with_name(DAMAGED))
        choices = change(known.choices)
        data = {"schema": SCHEMA, "choices": [vars(choice) for choice in choices]}
        with atomic_write(path) as file:
            file.write(json.dumps(data, indent=1).encode())
