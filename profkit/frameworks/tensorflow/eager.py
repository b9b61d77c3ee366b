"""TensorFlow run operator by operator: eager events, with layers from our own marks in the profile.

Kernels have no names here. Forward, the code of each layer is marked; backward, the tape calls gradient functions in
the reverse order of the forward operators, each with its operator's type, which finds the layer again.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from profkit.capture.event_log import EventLog
from profkit.capture.schema import BACKWARD, EXACT, FORWARD, HOST, INFERRED, Capture, Level
from profkit.frameworks.events import TIME, SourceSubject
from profkit.frameworks.events.xplane import XplaneEvent
from profkit.frameworks.tensorflow.model import TensorflowModel
from profkit.frameworks.tensorflow.names import NetworkPlace, Placer, placer
from profkit.frameworks.tensorflow.networks import TensorflowNetwork
from profkit.frameworks.tensorflow.pool import line_of, pool_regions
from profkit.frameworks.tensorflow.profile import STEP, HostProfile, profile_steps

SCOPE, GRADIENT = "profkit scope: ", "profkit gradient: "
_OPERATOR = "EagerLocalExecute: "
_KERNELS = ("EagerKernelExecute", "KernelAndDeviceFunc::Run", "KernelAndDeviceOp::Run")
_VARIABLE = "ReadVariableOp"
NO_GRADIENTS = "the tape of this TensorFlow cannot be watched: operators of the backward phase have no layer"


@dataclass
class LayerCode:
    """Python code of a layer, of its gradient, or of its update."""

    event: XplaneEvent
    place: NetworkPlace
    quality: str


@dataclass
class EagerCall:
    """One operator: its kernel's event (at first the whole call, where no kernel is marked) and where it stands."""

    type: str
    event: XplaneEvent
    place: NetworkPlace
    quality: str


def record_eager_time(watched: SourceSubject, steps: int) -> Capture:
    """Operators, their layers, and the pool's work."""
    profile, calls = profile_calls(watched, steps, EventLog("tensorflow", "xplane", TIME))
    events = [call.event for call in calls]
    regions = pool_regions(profile.events, events)
    helped: dict[int, int] = {}
    for region in regions:
        helped[id(region.owner)] = helped.get(id(region.owner), 0) + region.end_ns - region.start_ns
    rows = {
        id(call.event): add_call(profile, call, pool_cpu_ns=helped.get(id(call.event), 0)) for call in calls
    }  # fmt: skip
    about = {id(call.event): {"name": call.type, **_columns(call)} for call in calls}
    profile.add_pool(regions, rows, lambda event: dict(about[id(event)]))
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
    for mark in marks:
        event, place = mark.event, mark.place
        name = event.name.partition(": ")[2].rstrip("/")
        log.range(
            Level.LAYER, name, event.start_ns, event.end_ns, profile.thread(event), layer=place.layer,
            phase=place.phase, quality=mark.quality,
        )  # fmt: skip
    return profile, calls


def add_call(profile: HostProfile, call: EagerCall, **values: Any) -> int:
    """The span of an operator."""
    event = call.event
    columns = {**_columns(call), **values}
    return profile.log.range(
        Level.OPERATOR, call.type, event.start_ns, event.end_ns, profile.thread(event), **columns
    )  # fmt: skip


def _columns(call: EagerCall) -> dict[str, Any]:
    return {"type": call.type, "layer": call.place.layer, "phase": call.place.phase, "quality": call.quality}


@contextmanager
def _marked(model: TensorflowModel) -> Iterator[bool]:
    """Marks around scopes and gradient functions while the block runs; gives whether the latter can be watched."""
    tf, plain = model.tf, model.scope
    trace = tf.profiler.experimental.Trace

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
        if line_of(event) != profile.main:
            continue
        while open_marks and open_marks[-1].event.end_ns <= event.start_ns:
            open_marks.pop()
        if event.name == STEP:
            forward = []
        elif event.name.startswith((SCOPE, GRADIENT)):
            mark = _mark(event, place, forward)
            marks.append(mark)
            open_marks.append(mark)
        elif event.name.startswith(_OPERATOR):
            mark_open = open_marks[-1] if open_marks else None
            where, quality = (mark_open.place, mark_open.quality) if mark_open else (NetworkPlace(None, HOST), EXACT)
            calls.append(EagerCall(event.name[len(_OPERATOR) :], event, where, quality))
            if where.phase == FORWARD:
                forward.append(calls[-1])
        elif event.name in _KERNELS and calls and event.end_ns <= calls[-1].event.end_ns:
            calls[-1].event = event  # later ones lie inside
    return marks, calls


def _mark(event: XplaneEvent, place: Placer, forward: list[EagerCall]) -> LayerCode:
    """A gradient takes the last forward operator of its type that had none yet, and drops those behind."""
    if event.name.startswith(SCOPE):
        return LayerCode(event, place(event.name[len(SCOPE) :]), EXACT)
    kind = event.name[len(GRADIENT) :]
    if kind != _VARIABLE:  # these come at any time, and run nothing
        for number in range(len(forward) - 1, -1, -1):
            if forward[number].type == kind:
                layer = forward[number].place.layer
                del forward[number:]
                return LayerCode(event, NetworkPlace(layer, BACKWARD), INFERRED)
    return LayerCode(event, NetworkPlace(None, BACKWARD), INFERRED)
