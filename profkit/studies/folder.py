"""The folder of a study's results: cells are kept in it one by one, each whole or not at all, and found again later."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypedDict

import profkit
from profkit.capture.atomic_write import atomic_write
from profkit.capture.checked_json import check, made, open_file, read_json
from profkit.capture.run import BaselineRow, Run, load_run, save_run
from profkit.errors import ProfkitError, UsageError
from profkit.studies.plan import BASELINE, StudyCell

SCHEMA = "profkit.study/1"
_SHOWN, _LONGEST_WORD = 20, 200  # of the differences between two studies
_ABOUT, _CELLS, _LOCK, _ENVIRONMENT = "study.json", "cells", ".lock", "environment.json"


@dataclass(frozen=True)
class CellOutcome:
    """How a cell ended; `status` is one of profkit.studies.statuses."""

    cell: str
    status: str
    reason: str = ""
    seconds: float = 0.0
    baseline: list[dict[str, Any]] = field(default_factory=list)
    """Of a baseline cell: its rows."""


class _Environment(TypedDict, total=False):
    """What is read of an environment."""

    cpu: str
    profkit: str
    packages: dict[str, str]


class ResultsFolder:
    """Made by `open_folder`, which checks that the results in it belong to the same study under the same conditions."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def outcome(self, cell: StudyCell) -> CellOutcome | None:
        """How this cell ended, None when it has not been run; a file that was damaged counts as not run."""
        try:
            content = read_json(self.path / _CELLS / f"{cell.id}.json")
            if any(content[name] != value for name, value in cell.about().items()):
                return None  # of a variant whose other name becomes the same file name
            known = {name: content[name] for name in ("status", "reason", "seconds", "baseline")}
            check(known["baseline"], list[BaselineRow], f"{cell.id} has baseline")
            return made(CellOutcome, known, cell.id, cell=cell.id)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, cell: StudyCell, outcome: CellOutcome, capture: Run | None) -> None:
        """Keep a cell: first what was measured, then its status, so that no status refers to a missing file."""
        if capture is not None:
            with _whole(self.capture_path(cell)) as stream:
                save_run(capture, stream)
            self.write(f"{_CELLS}/{cell.id}.log", process_log(capture))
        content = {
            **cell.about(),
            "status": outcome.status,
            "reason": outcome.reason,
            "seconds": round(outcome.seconds, 3),
            "finished_unix_s": round(time.time(), 3),
            "baseline": outcome.baseline,
        }
        self.write(f"{_CELLS}/{cell.id}.json", _json(content))

    def capture_path(self, cell: StudyCell) -> Path:
        return self.path / _CELLS / f"{cell.id}.profkit"

    def is_whole(self, cell: StudyCell) -> bool:
        """Whether what a cell measured is there to its end; a baseline is in the status itself."""
        if cell.kind == BASELINE:
            return True
        try:
            with open_file(self.capture_path(cell)) as file:
                return zipfile.is_zipfile(file)
        except OSError:
            return False

    def capture(self, cell: StudyCell) -> Run:
        return load_run(self.capture_path(cell))

    def add_environment(self, environment: Mapping[str, Any]) -> None:
        """Remember in which environment this run works; a resumed study has several."""
        self.write(_ENVIRONMENT, _json([*self.environments(), dict(environment)]))

    def environments(self) -> list[dict[str, Any]]:
        """Those of every run so far, the first one first."""
        try:
            found: list[dict[str, Any]] = read_json(self.path / _ENVIRONMENT)
            check(found, list[_Environment], f"{_ENVIRONMENT} has")
            return found
        except (OSError, ValueError):
            return []

    def write(self, name: str, text: str) -> None:
        with _whole(self.path / name) as stream:
            stream.write(text.encode("utf-8"))


def process_log(capture: Run) -> str:
    """The command line of every process of a cell, and all that it printed."""
    parts = [f"$ {shlex.join(each['argv'])}\n{each['output']}".rstrip() for each in capture.workers]
    return "\n\n".join([*parts, f"{capture.status}: {capture.reason}" if capture.reason else capture.status]) + "\n"


@contextlib.contextmanager
def open_folder(path: str | Path, name: str, conditions: Mapping[str, Any]) -> Iterator[ResultsFolder]:
    """A new or matching folder, locked as long as the block runs; UsageError says what is wrong and what to type."""
    folder = Path(path)
    about = _about(name, conditions)
    if folder.exists():
        _check(folder, about)
    try:
        (folder / _CELLS).mkdir(parents=True, exist_ok=True)
        lock = (folder / _LOCK).open("a+")
    except OSError as error:
        raise UsageError(f"cannot write into {folder}: {error.strerror or error}") from None
    with lock:
        _take(lock.fileno(), folder)
        before = _check(folder, about)  # again: another run may have begun and ended since
        for leftover in (folder / _CELLS).glob(".*"):
            leftover.unlink(missing_ok=True)  # of a run that was killed while it wrote
        results = ResultsFolder(folder)
        # With what is known of variants that the study has no more: their cells still lie there.
        variants = {**before.get("variants", {}), **conditions.get("variants", {})}
        results.write(_ABOUT, _json({**about, "conditions": {**conditions, "variants": variants}}))
        yield results


def find_folder(path: str | Path, name: str, conditions: Mapping[str, Any]) -> ResultsFolder | None:
    """The folder if `open_folder` would continue with it; nothing is made or locked."""
    folder = Path(path)
    try:
        _check(folder, _about(name, conditions))
    except (UsageError, OSError):
        return None
    return ResultsFolder(folder)


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What keeps old results from being used: `steps: 20 there, 5 now`. Variants that only one side has do not."""
    found = []
    for name in dict.fromkeys((*before, *now)):
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            known = old.keys() & new.keys() if name == "variants" else old.keys() | new.keys()
            parts = [{key: side[key] for key in side if key in known} for side in (old, new)]
            found += [f"{name}, {text}" for text in differences(*parts)]
        elif old != new:
            found.append(f"{name}: {_word(old)} there, {_word(new)} now")
    return found


def _about(name: str, conditions: Mapping[str, Any]) -> dict[str, Any]:
    return {"schema": SCHEMA, "study": name, "profkit": profkit.__version__, "conditions": dict(conditions)}


def _check(folder: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    """The conditions of the results there, empty when there are none; UsageError when they are not these."""
    if not folder.is_dir():
        raise UsageError(f"cannot write results into {folder}: it is a file")
    # A run that was killed while it wrote the very first file leaves a part of it.
    others = [name for name in os.listdir(folder) if name not in (_CELLS, _LOCK) and not name.startswith(f".{_ABOUT}-")]
    try:
        before = read_json(folder / _ABOUT)
        schema, version, study = (_word(before[name]) for name in ("schema", "profkit", "study"))
        conditions = dict(before["conditions"])
    except FileNotFoundError:
        if others:
            raise UsageError(f"{folder} holds other files ({', '.join(sorted(others)[:3])}, ...), but no results of a "
                             "study: name another folder with --output") from None  # fmt: skip
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder / _ABOUT} cannot be read ({error}): {_advice(folder)}") from None
    if schema != about["schema"]:
        raise UsageError(f"{folder} has the schema {schema}, this profkit writes {SCHEMA}: {_advice(folder)}")
    if study != about["study"]:
        raise UsageError(f"{folder} holds the study {study}, not {about['study']}: name another folder with --output")
    if version != about["profkit"]:
        raise UsageError(
            f"{folder} was measured with profkit {version}, this is {about['profkit']}, and results of two versions do "
            f"not mix: {_advice(folder)}"
        )
    if found := differences(conditions, about["conditions"]):
        listed = "".join(f"\n  {text}" for text in found[:_SHOWN])
        listed += f"\n  and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
        raise UsageError(f"{folder} holds results of other conditions, which do not mix:{listed}\n{_advice(folder)}")
    return conditions


def _advice(folder: Path) -> str:
    return f"name another folder with --output, or remove the old results with: rm -r {folder}"


def _take(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        with contextlib.suppress(OSError):
            owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
            raise UsageError(f"process {owner or '(unknown)'} is running this study in {folder}: wait for it, or "
                             "name another folder with --output") from None  # fmt: skip
        raise
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())


@contextlib.contextmanager
def _whole(target: Path) -> Iterator[BinaryIO]:
    """A file that takes its place when the block ends without an error."""
    try:
        with atomic_write(target) as stream:
            yield stream
    except OSError as error:
        raise ProfkitError(
            f"could not write {target}: {error.strerror or error}\n"
            "  finished cells are kept: make room and type the same command again"
        ) from error


def _json(content: Any) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _word(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= _LONGEST_WORD else f"{text[:_LONGEST_WORD]}…"
