"""The process between parent and worker: when either ends, in whatever way, nothing is left running.

It adopts what the worker's children leave behind (it is their subreaper), whatever session they are in, and ends all of
it with the worker; when the parent was killed it also removes the parent's folders. Never stopped, it acts while the
worker is; a worker that stops it does not change that: the signal of the parent's end continues it. Loaded from its
file before the package is: standard library only, Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time
from typing import Any, NoReturn

_SET_DEATH_SIGNAL, _SET_DUMPABLE, _SET_SUBREAPER = 1, 4, 36
_PARENT_ENDED = signal.SIGCONT
"""It also continues a stopped process, which would keep any other signal for later."""
_WAITED = {signal.SIGTERM, signal.SIGCHLD, _PARENT_ENDED}
_NO_CHILD_STOPS = 1
LONGEST_PAUSE_S = 5.0
"""A process that a driver holds in the kernel cannot be ended: it is only checked now and then."""
_LONGEST_END_S = 10.0
"""Between the end of a killed parent's first thread and that of its last."""


class _SignalAction(ctypes.Structure):
    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_char * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


def split(settings: dict[str, Any]) -> None:
    """Make this process the supervisor; what returns is its child, the worker, in a separate session."""
    library = ctypes.CDLL(None)
    prctl = library.prctl
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    # By default and not ignored: children would be reaped before their status is known. And not when a worker is paused
    # or resumed: this process would wake on cores that are measured. Before the fork: it drops what is pending.
    library.sigaction(int(signal.SIGCHLD), ctypes.byref(_SignalAction(flags=_NO_CHILD_STOPS)), None)
    prctl(_SET_SUBREAPER, 1)
    prctl(_SET_DEATH_SIGNAL, int(_PARENT_ENDED))
    me = os.getpid()
    if os.getppid() != settings["parent"]:
        sys.stderr.write(f"the parent is process {os.getppid()}, not {settings['parent']}: it ended or is hidden\n")
        sys.stderr.flush()
        os._exit(1)
    worker = os.fork()
    if worker:
        _supervise(worker, settings)
    os.close(settings["status_fd"])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Pausing signals its process group, which the supervisor must not be in.
    os.setsid()
    prctl(_SET_DEATH_SIGNAL, int(signal.SIGKILL))
    if os.getppid() != me:
        os._exit(0)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.write(settings["write_fd"], json.dumps({"worker": os.getpid()}).encode() + b"\n")


def _supervise(worker: int, settings: dict[str, Any]) -> NoReturn:
    """Wait until the worker ends, or the parent ends or says so; then end all that is left, and this process."""
    # The parent must see the end of the worker's pipe when the worker closes it.
    for descriptor in (settings["read_fd"], settings["write_fd"]):
        os.close(descriptor)
    children = _Children(worker, settings["status_fd"])
    while children.status is None:
        number = signal.sigwait(_WAITED)
        if number == signal.SIGTERM or (number == _PARENT_ENDED and _is_lost(settings["parent"])):
            break
        children.reap()
    pause_s = 0.001
    while children.reap():
        for child in _children():
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    if _has_lost(settings["parent"]):
        _remove(settings["folders"])
    _end_like(children.status or 0)


class _Children:
    """Processes that have ended below this one, of which orphans become children."""

    def __init__(self, worker: int, status_fd: int) -> None:
        self.status: int | None = None
        """The worker's."""
        self._worker = worker
        self._status_fd = status_fd

    def reap(self) -> bool:
        """Reap ended processes, and report the worker's end to the parent at once; whether there are others."""
        try:
            while True:
                child, status = os.waitpid(-1, os.WNOHANG)
                if not child:
                    return True
                if child == self._worker:
                    self.status = status
                    with contextlib.suppress(OSError):
                        os.write(self._status_fd, b"%d\n" % _exit_code(status))
                    os.close(self._status_fd)
        except ChildProcessError:
            return False


def _is_lost(parent: int) -> bool:
    """Whether the parent has ended or is about to; others may send the signal that says so, too."""
    return os.getppid() != parent or _is_ending(parent)


def _has_lost(parent: int) -> bool:
    """Whether the parent has ended. The threads of a killed process end one by one: its children hear of the first,
    and have another parent after the last.
    """
    deadline = time.monotonic() + _LONGEST_END_S
    while os.getppid() == parent:
        if not _is_ending(parent) or time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def _is_ending(process: int) -> bool:
    """Whether its main thread has ended or is about to be killed."""
    try:
        with open(f"/proc/{process}/status") as file:
            facts = dict(line.split(":", 1) for line in file)
        kill = 1 << (signal.SIGKILL - 1)
        return facts["State"].split()[0] in "ZX" or bool(int(facts["SigPnd"], 16) & kill)
    except (OSError, KeyError, ValueError):
        return False


def _exit_code(status: int) -> int:
    """As subprocess gives it: negative is a signal."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _remove(prefixes: list[str]) -> None:
    # Here and not above: a worker need not import them.
    import glob
    import shutil

    for prefix in prefixes:
        for folder in glob.glob(glob.escape(prefix) + "*"):
            shutil.rmtree(folder, ignore_errors=True)


def _children() -> list[int]:
    """The processes whose parent this is."""
    me, found = str(os.getpid()), []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
            # After the program's name, which may hold anything, come the state and the parent.
            if stat.read().rpartition(b")")[2].split()[1].decode() == me:
                found.append(int(name))
    return found


def _end_like(status: int) -> NoReturn:
    """Leave with the worker's exit code, or by the signal that ended it, for who has only this process's."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0)
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))
