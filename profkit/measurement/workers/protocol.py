"""How parent and worker talk: one JSON object per line over two pipes. Standard library only.

Arrays never cross the pipes: they lie as .npy files in a folder both sides know.
"""

from __future__ import annotations

import json
import os
from typing import Any, BinaryIO

Message = dict[str, Any]
LONGEST_REPLY = 16 << 20
"""Bytes; the warm-up of the shortest calls takes a tenth of it."""
LONGEST_TEXT = 10_000
"""Characters of a reason or a note that are kept of a worker's words."""
FAILURES = ("unavailable", "unsupported", "wrong", "not compiled", "not loaded", "oom", "crashed")
"""Statuses that a worker may report."""

# Runs before anything else in the worker's interpreter, which may be a foreign one without profkit: the supervisor,
# core set and memory limit must be in effect before NumPy or a framework reads them; when memory runs out, the system
# should kill a worker, not the parent; and the package is loaded by its path, so that nothing else beside it can be
# imported.
BOOTSTRAP = """
import importlib.util, json, os, sys
settings = json.loads(sys.argv[1])
sys.path[:] = [entry for entry in sys.path if entry]
package = settings["package"]
def load(name, *path, **options):
    spec = importlib.util.spec_from_file_location(name, os.path.join(package, *path), **options)
    module = importlib.util.module_from_spec(spec)
    if options:
        sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
if sys.platform == "linux":
    load("supervisor", "measurement", "workers", "supervisor.py").split(settings)
try:
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
except OSError:
    pass
if settings["cores"] and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, settings["cores"])
if settings["memory_limit_bytes"]:
    import resource
    resource.setrlimit(resource.RLIMIT_DATA, (settings["memory_limit_bytes"],) * 2)
load("profkit", "__init__.py", submodule_search_locations=[package])
if settings["is_foreign"]:
    sys.modules["profkit._core"] = None  # compiled for the parent's interpreter, even where this one could load it
import importlib
worker = importlib.import_module(settings["worker"])
worker.serve(settings["read_fd"], settings["write_fd"])
"""


def send(stream: BinaryIO, message: Message) -> None:
    """Write one message and flush it."""
    stream.write(json.dumps(message).encode() + b"\n")
    stream.flush()


def receive(stream: BinaryIO) -> Message | None:
    """Wait for one message; None when the other side is gone. For the worker, which has nothing else to do."""
    line = stream.readline()
    return parse(line) if line.endswith(b"\n") else None


def parse(line: bytes) -> Message:
    """One line as a message; ValueError when it is not a message."""
    try:
        message = json.loads(line)
    except RecursionError:
        message = None
    if not isinstance(message, dict):
        raise ValueError("not a message")
    return message


def has_valid_numbers(request: str, reply: Message) -> bool:
    """Whether the reply to a request of this name has the numbers that are read from it."""
    samples = reply.get("samples_ns")
    if request in ("warm_up", "sample") and not (isinstance(samples, list) and samples and all(map(_is_time, samples))):
        return False
    others = [reply[name] for name in ("first_call_ns", "peak_bytes", "page_faults") if reply.get(name)]
    return all(map(_is_time, others))


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and 0 < value < float("inf")


def input_path(folder: str, name: str) -> str:
    """Where the parent put an input."""
    return os.path.join(folder, f"input.{name}.npy")
