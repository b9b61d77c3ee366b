"""Processes that a test starts end with it, however it ends, and they start with default signal dispositions.

A process belongs to a test by the variables that it inherits, so that it is found whoever is its parent now and
whatever session it is in. pytest notes the running test and its phase in one variable, conftest.py the run in another
one. What is started while a test runs ends with the test; what a fixture starts may serve the other tests of the file,
and ends with the file at the latest.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from collections.abc import Generator
from typing import Any

import pytest

from tests.support.shared_work import OBJECTS_FOLDER

GRACE_S = 60.0
"""A test that its timeout cannot end, as it hangs in native code, takes its pytest process with it so much later."""
KILL_S = 5.0
PHASE_OF = "PYTEST_CURRENT_TEST="
STARTS = frozenset({"subprocess.Popen", "os.posix_spawn", "os.system"})
"""The interpreter's audit events."""

_IGNORED = pytest.StashKey[list[int]]()
_STDERR = pytest.StashKey[int]()
_starts = {"test": 0, "file": 0}


def pytest_configure(config: pytest.Config) -> None:
    of_worker = getattr(config, "workerinput", None)
    config.stash[_IGNORED] = ignore_without_passing_on(of_worker["ignored_signals"] if of_worker else [])
    if of_worker is None and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        # As Ctrl-C: what CI systems end must not leave anything.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    # pytest's capture takes file descriptor 2 while a test runs.
    config.stash[_STDERR] = os.dup(2)
    sys.addaudithook(count_starts)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["ignored_signals"] = node.config.stash[_IGNORED]


def ignore_without_passing_on(also: list[int]) -> list[int]:
    """What nohup, or `&` in a script, has us ignore is ignored by a handler: exec passes on what is ignored, and gives
    the default for what is handled.
    """
    # Python itself ignores these two, and subprocess gives their defaults to its children.
    others = signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}
    ignored = [*also, *(int(number) for number in others if signal.getsignal(number) is signal.SIG_IGN)]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    return ignored


def count_starts(event: str, _: tuple[Any, ...]) -> None:
    if event in STARTS:
        _starts["test"] += 1
        _starts["file"] += 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    _starts["test"] = 0
    try:
        return (yield)
    finally:
        if _starts["test"]:
            kill_started(f"{item.nodeid} (call)")
        if _starts["file"] and (nextitem is None or nextitem.path != item.path):
            _starts["file"] = 0
            kill_started(file_of(item))


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, object, object]:
    """The timeout raises inside the test, and `with Popen` would then wait for the process: it is killed before."""
    answer = yield
    end_test = signal.getsignal(signal.SIGALRM)
    if settings.method == "signal" and callable(end_test):

        def kill_and_end_test(*arguments: Any) -> None:
            kill_started(file_of(item))
            end_test(*arguments)

        signal.signal(signal.SIGALRM, kill_and_end_test)
    faulthandler.dump_traceback_later(settings.timeout + GRACE_S, exit=True, file=item.config.stash[_STDERR])
    return answer


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_cancel_timer() -> Generator[None, object, object]:
    faulthandler.cancel_dump_traceback_later()
    return (yield)


def file_of(item: pytest.Item) -> str:
    return item.nodeid.split("::")[0] + "::"


def kill_started(phase: str) -> None:
    """Those started while pytest's current test began with `phase`, and what they start meanwhile."""
    deadline = time.monotonic() + KILL_S
    while (found := started(phase)) and time.monotonic() < deadline:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.001)


def started(phase: str = "") -> list[int]:
    """Processes of this run, but for pytest's own."""
    run = f"{OBJECTS_FOLDER}={os.environ[OBJECTS_FOLDER]}".encode()
    inherited = f"{PHASE_OF}{phase}".encode()
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                variables = file.read().split(b"\0")
        except OSError:
            continue
        if run in variables and any(variable.startswith(inherited) for variable in variables):
            found.append(int(name))
    return found
