"""TensorFlow run operator by operator: eager events, with layers from our own marks in the profile.

Kernels have no names here. Forward, the code of each layer is marked; backward, the tape calls gradient functions in
the reverse order of the forward operators, each with its operator's type, which finds the layer again. Memory: events
of TensorFlow's BFC allocator, given to the operator in which they happened; those of graphs too.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from profkit.capture.event_log import EventLog
from profkit.capture.schema import BACKWARD, FORWARD, HOST, INFERRED, NONE, Capture, Level
from profkit.errors import CaptureError
from profkit.frameworks.events import MEMORY, TIME, SourceSubject
from profkit.frameworks.events.scopes import memory_of
from profkit.frameworks.events.xplane import ThreadLine, XplaneEvent
from profkit.frameworks.lazy import tf
from profkit.frameworks.tensorflow.model import TensorflowModel
from profkit.frameworks.tensorflow.names import NetworkPlace, Placer, kernel_of, placer
from profkit.frameworks.tensorflow.networks import TensorflowNetwork
from profkit.frameworks.tensorflow.profile import STEP, HostProfile, profile_steps

SCOPE, GRADIENT = "profkit scope: ", "profkit gradient: "
_OPERATOR = "EagerLocalExecute: "
_KERNELS = ("EagerKernelExecute", "KernelAndDeviceFunc::Run", "KernelAndDeviceOp::Run")
_VARIABLE = "ReadVariableOp"
NO_GRADIENTS = "the tape of this TensorFlow cannot be watched: operators of the backward phase have no layer"


LayerCode = tuple[XplaneEvent, NetworkPlace]
"""Python code of a layer, of its gradient, or of its update."""
TAKEN, GIVEN = "MemoryAllocation", "MemoryDeallocation"
MEMORY_NOTE = "memory: what each operator allocated in a step; weights and the batch were there before"


@dataclass
class EagerCall:
    """One operator: its kernel's event (at first the whole call, where no kernel is marked) and its position."""

    type: str
    event: XplaneEvent
    place: NetworkPlace

    def columns(self) -> dict[str, Any]:
        return {"name": self.type, "type": self.type, **self.place._asdict()}


def record_eager_time(watched: SourceSubject, steps: int) -> Capture:
    profile, calls = profile_calls(watched, steps, EventLog("tensorflow", "xplane", TIME))
    profile.add_operators([(call.event, call.columns()) for call in calls])
    return profile.log.finish()


def profile_calls(watched: SourceSubject, steps: int, log: EventLog) -> tuple[HostProfile, list[EagerCall]]:
    """Run the steps; the log has the runtime's and the layers' spans, the operators are left to the caller."""
    built = watched.built
    assert isinstance(built, TensorflowNetwork)
    with _marked(built.model) as can_join:
        profile = profile_steps(log, watched.step, steps)
    if not can_join:
        log.facts["notes"].append(NO_GRADIENTS)
    marks, calls = read_calls(profile, placer([layer.name for layer in watched.network.layers]))
    profile.add_runtime()
    for event, place in marks:
        profile.add(Level.LAYER, event, {"name": event.name.partition(": ")[2].rstrip("/"), **place._asdict()})
    return profile, calls


@contextmanager
def _marked(model: TensorflowModel) -> Iterator[bool]:
    """Marks around scopes and gradient functions while the block runs; gives whether the latter can be watched."""
    plain, trace = model.scope, tf.profiler.experimental.Trace

    @contextmanager
    def scope(name: str) -> Iterator[None]:
        with plain(name), trace(SCOPE + name):
            yield

    restore = _watch_gradients(trace)
    model.scope = scope
    try:
        yield restore is not None
    finally:
        model.scope = plain
        if restore:
            restore()


def _watch_gradients(trace: Callable[[str], Any]) -> Callable[[], None] | None:
    """TensorFlow has no public place for this: the function that its tape calls is replaced by one that marks it."""
    try:
        original = importlib.import_module("tensorflow.python.eager.backprop")._gradient_function
        register = importlib.import_module("tensorflow.python.pywrap_tfe").TFE_Py_RegisterGradientFunction
    except (ImportError, AttributeError):
        return None

    def marked(operator: str, *arguments: Any) -> Any:
        with trace(GRADIENT + operator):
            return original(operator, *arguments)

    register(marked)
    return lambda: register(original)


def read_calls(profile: HostProfile, place: Placer) -> tuple[list[LayerCode], list[EagerCall]]:
    """Marks and operators of the calling thread, in order of time."""
    marks: list[LayerCode] = []
    calls: list[EagerCall] = []
    open_marks: list[LayerCode] = []
    forward: list[EagerCall] = []
    for event in profile.events:
        if event.thread != profile.main:
            continue
        while open_marks and open_marks[-1][0].end_ns <= event.start_ns:
            open_marks.pop()
        if event.name == STEP:
            forward = []
        elif event.name.startswith((SCOPE, GRADIENT)):
            marks.append((event, _marked_place(event.name, place, forward)))
            open_marks.append(marks[-1])
        elif event.name.startswith(_OPERATOR):
            where = open_marks[-1][1] if open_marks else NetworkPlace(None, HOST)
            calls.append(EagerCall(event.name[len(_OPERATOR) :], event, where))
            if where.phase == FORWARD:
                forward.append(calls[-1])
        elif event.name in _KERNELS and calls and event.end_ns <= calls[-1].event.end_ns:
            calls[-1].event = event  # later ones are nested
    return marks, calls


def _marked_place(mark: str, place: Placer, forward: list[EagerCall]) -> NetworkPlace:
    """A gradient takes the last forward operator of its type that had none yet, and drops those behind."""
    if mark.startswith(SCOPE):
        return place(mark[len(SCOPE) :])
    kind = mark[len(GRADIENT) :]
    if kind != _VARIABLE:  # these come at any time, and run nothing
        for number in range(len(forward) - 1, -1, -1):
            if forward[number].type == kind:
                layer = forward[number].place.layer
                del forward[number:]
                return NetworkPlace(layer, BACKWARD, INFERRED)
    return NetworkPlace(None, BACKWARD, INFERRED)


def record_eager_memory(watched: SourceSubject, steps: int) -> Capture:
    profile, calls = profile_calls(watched, steps, EventLog("tensorflow", "xplane", MEMORY))
    changes = AllocatorChanges(profile, [call.event for call in calls])
    rows = {}
    for call in calls:
        about = {**call.columns(), **changes.columns(call.event), "implementation": changes.kernel(call.event)}
        rows[id(call.event)] = profile.add(Level.OPERATOR, call.event, about)
    changes.add(rows)
    return profile.log.finish()


class AllocatorChanges:
    """Everything that was allocated and freed in the steps, in order of time, and by which operator."""

    def __init__(self, profile: HostProfile, operators: Iterable[XplaneEvent]) -> None:
        """An operator is the last to begin on the thread of a change, if it has not ended; operators do not nest."""
        self._profile = profile
        self._changes: list[tuple[XplaneEvent, XplaneEvent | None]] = []
        self._of: dict[int, list[XplaneEvent]] = {id(each): [] for each in operators}
        running: dict[ThreadLine, XplaneEvent] = {}
        for event in profile.events:
            if id(event) in self._of:
                running[event.thread] = event
            elif event.name in {TAKEN, GIVEN}:
                owner = running.get(event.thread)
                owner = owner if owner is not None and event.start_ns <= owner.end_ns else None
                self._changes.append((event, owner))
                if owner is not None:
                    self._of[id(owner)].append(event)
        if not self._changes:
            raise CaptureError(
                "TensorFlow's allocator reported nothing: TF_CPU_ALLOCATOR_USE_BFC=1 must be set before it is imported"
            )

    def columns(self, operator: XplaneEvent) -> dict[str, int | None]:
        """Bytes of its span."""
        mine = self._of[id(operator)]
        in_use = int(mine[-1].stats["bytes_allocated"]) if mine else None
        return {**memory_of(list(map(_change, mine))), "live_bytes": in_use}

    def kernel(self, operator: XplaneEvent) -> str | None:
        """Who allocated, where that has another name than the operator."""
        mine = (str(each.stats.get("tf_op", "")) for each in self._of[id(operator)][::-1] if each.name == TAKEN)
        return next(filter(None, (kernel_of(name).implementation for name in mine)), None)

    def add(self, rows: Mapping[int, int]) -> None:
        """The allocations of the capture, and its peak; `rows` are the operators' spans by their events' identity."""
        log = self._profile.log
        for event, owner in self._changes:
            log.memory(NONE if owner is None else rows[id(owner)], *_change(event))
        log.facts.update(
            peak_bytes=self._most_live(),
            allocator=str(self._changes[0][0].stats.get("allocator_name", "")),
            notes=[MEMORY_NOTE, *log.facts["notes"]],
        )

    def _most_live(self) -> int:
        """The most bytes live at once of what a step had taken itself."""
        steps: list[list[Any]] = [[]]
        for event in self._profile.events:
            if event.name == STEP:
                steps.append([])
            elif event.name in {TAKEN, GIVEN}:
                steps[-1].append(_change(event))
        return max(memory_of(each)["peak_bytes"] for each in steps)


def _change(event: XplaneEvent) -> tuple[int, int, int]:
    size = int(event.stats["requested_bytes"])
    return event.start_ns, event.stats["addr"], size if event.name == TAKEN else -size
