"""The framework's own time inside layers: by hand, and against a clock that looks at every nanosecond."""

from __future__ import annotations

import random

import pytest

from profkit.attribution.networks import layer_dispatch as module
from profkit.attribution.networks.operators import operators_of
from profkit.capture.schema import Capture, Level
from tests.capture.network_captures import Event, layer, network_capture, op, primitive, recording_of, runtime


def layer_dispatch(made: Capture) -> dict[tuple[str, str], int] | None:
    return module.layer_dispatch(operators_of(network_capture(made)))


FORWARD, BACKWARD = ({"layer": "conv1", "phase": phase} for phase in ("forward", "backward"))


@pytest.mark.parametrize(
    ("events", "steps", "expected"),
    [
        (
            [layer("conv1", 10, 90), op("conv", 20, 60, **FORWARD), primitive("gemm", 30, 50), layer("pool1", 90, 100)],
            [(0, 100)],
            {("conv1", "forward"): 10 + 30, ("pool1", "forward"): 10},
        ),
        (
            [
                runtime("node", 10, 50, "autograd", **BACKWARD),
                op("conv_backward", 20, 45, "autograd", **BACKWARD),
                runtime("engine", 0, 60),  # of no layer
            ],
            [(0, 100)],
            {("conv1", "backward"): 15},
        ),
        # Nothing is dispatch while another thread works.
        ([layer("conv1", 0, 80), op("other", 10, 70, "second")], [(0, 100)], {("conv1", "forward"): 20}),
        # A layer in a layer, which both begin together, owns its own part.
        (
            [layer("inner", 10, 30), layer("outer", 10, 60), layer("last", 50, 60)],
            [(0, 100)],
            {("inner", "forward"): 20, ("outer", "forward"): 20, ("last", "forward"): 10},
        ),
        # Time outside of steps does not count.
        ([layer("conv1", 50, 130), layer("conv1", 150, 160)], [(0, 100), (110, 140)], {("conv1", "forward"): 50}),
        # Sources that see no layers say so.
        ([op("conv", 20, 60, layer="conv1")], [(0, 100)], None),
        ([runtime("executor", 0, 90)], [(0, 100)], None),
    ],
)
def test_code_around_the_operators_of_a_layer_is_its_dispatch(
    events: list[Event], steps: list[tuple[int, int]], expected: dict[tuple[str, str], int] | None
) -> None:
    assert layer_dispatch(recording_of(*events, steps=steps)) == expected


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
