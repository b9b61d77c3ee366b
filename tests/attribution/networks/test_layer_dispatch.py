"""The framework's own time inside layers: by hand, and against a clock that looks at every nanosecond."""

from __future__ import annotations

import random

import pytest

from profkit.attribution.networks import layer_dispatch as module
from profkit.attribution.networks.operators import operators_of
from profkit.capture.schema import Capture, Level
from tests.capture.network_captures import layer, network_capture, op, primitive, recording_of, runtime


def layer_dispatch(made: Capture) -> dict[tuple[str, str], int] | None:
    return module.layer_dispatch(operators_of(network_capture(made)))


def test_a_layers_code_around_its_operators_is_its_dispatch() -> None:
    made = recording_of(
        layer("conv1", 10, 90),
        op("conv", 20, 60, layer="conv1", phase="forward"),
        primitive("gemm", 30, 50),
        layer("pool1", 90, 100),
        steps=[(0, 100)],
    )

    assert layer_dispatch(made) == {("conv1", "forward"): 10 + 30, ("pool1", "forward"): 10}


def test_the_framework_around_a_backward_operator_belongs_to_its_layer_and_phase() -> None:
    made = recording_of(
        runtime("node", 10, 50, "autograd", layer="conv1", phase="backward"),
        op("conv_backward", 20, 45, "autograd", layer="conv1", phase="backward"),
        runtime("engine", 0, 60),  # of no layer
        steps=[(0, 100)],
    )

    assert layer_dispatch(made) == {("conv1", "backward"): 15}


def test_while_another_thread_works_nothing_is_dispatch() -> None:
    made = recording_of(layer("conv1", 0, 80), op("other", 10, 70, "second"), steps=[(0, 100)])

    assert layer_dispatch(made) == {("conv1", "forward"): 20}


def test_a_layer_in_a_layer_owns_its_own_part_even_when_both_begin_together() -> None:
    made = recording_of(layer("inner", 10, 30), layer("outer", 10, 60), layer("last", 50, 60), steps=[(0, 100)])

    assert layer_dispatch(made) == {("inner", "forward"): 20, ("outer", "forward"): 20, ("last", "forward"): 10}


def test_sources_that_see_no_layers_say_so() -> None:
    assert layer_dispatch(recording_of(op("conv", 20, 60, layer="conv1"), steps=[(0, 100)])) is None
    assert layer_dispatch(recording_of(runtime("executor", 0, 90), steps=[(0, 100)])) is None


def test_only_time_inside_of_steps_counts() -> None:
    made = recording_of(layer("conv1", 50, 130), layer("conv1", 150, 160), steps=[(0, 100), (110, 140)])

    assert layer_dispatch(made) == {("conv1", "forward"): 50}


@pytest.mark.parametrize("seed", range(20))
def test_random_spans_give_what_a_look_at_every_nanosecond_gives(seed: int) -> None:
    made = random_recording(random.Random(seed))

    found = layer_dispatch(made)

    assert found is not None
    assert {key: value for key, value in found.items() if value} == slow_dispatch(made)


def random_recording(chance: random.Random) -> Capture:
    """Overlapping spans of every level on three threads in two steps; no two begin at the same time."""
    events = [layer("first", 0, 3)]
    for start in chance.sample([*range(4, 95), *range(100, 190)], 40):
        end, thread = start + chance.randrange(1, 40), chance.choice("abc")
        made = chance.choice((layer, op, runtime))
        values = {"phase": "forward"} if made is layer else {"layer": chance.choice("xy"), "phase": "backward"}
        events.append(made(chance.choice("pq"), start, end, thread, **values))
    return recording_of(*events, steps=[(0, 95), (100, 190)])


def slow_dispatch(made: Capture) -> dict[tuple[str, str], int]:
    spans, layers, phases = made.ranges, made.texts(made.ranges.layer), made.texts(made.ranges.phase)
    found: dict[tuple[str, str], int] = {}
    for step, (first, last) in enumerate(zip(made.steps["start_ns"].tolist(), made.steps["end_ns"].tolist())):
        for moment in range(first, last):
            rows = [
                row
                for row in range(len(spans))
                if spans["start_ns"][row] <= moment < spans["end_ns"][row] and spans["step"][row] == step
            ]
            levels = [Level(int(spans["level"][row])) for row in rows]
            if any(level in (Level.OPERATOR, Level.PRIMITIVE) for level in levels):
                continue
            owners = [row for row in rows if layers[row] is not None]
            if owners:
                row = max(owners, key=lambda row: int(spans["start_ns"][row]))
                key = (str(layers[row]), phases[row] or "forward")
                found[key] = found.get(key, 0) + 1
    return found
