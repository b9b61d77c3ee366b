"""Operators of a network's steps: whose wall clock it was, exactly, and what kind, layer and phase each one has."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profkit import _core
from profkit.attribution.networks.operators import OBSERVES_IDLE, REMAINDERS, Operators, operators_of
from profkit.capture.schema import NONE, Level
from profkit.errors import CaptureError
from tests.capture.network_captures import (
    Event,
    layer,
    network_capture,
    op,
    pool,
    primitive,
    recording_of,
    runtime,
    step,
)

LEVELS = {Level.OPERATOR: op, Level.PRIMITIVE: primitive, Level.LAYER: layer, Level.RUNTIME: runtime}


def found(
    *events: Event, steps: list[tuple[int, int]] | None = None, facts: dict[str, bool] | None = None
) -> Operators:
    """Operators of a recording with these events in one step from 0 to 100."""
    return operators_of(network_capture(recording_of(*events, steps=steps or [(0, 100)], facts=facts)))


def remainders(operators: Operators, number: int = 0) -> dict[str, int]:
    """Of one step, those that are not 0."""
    return {name: int(values[number]) for name, values in operators.remainders.items() if values[number]}


def test_the_innermost_operator_owns_the_time() -> None:
    operators = found(op("convolution", 10, 90), op("mkldnn_convolution", 20, 70), primitive("jit", 30, 60))

    assert operators.wall_ns.tolist() == [30, 20, 30]
    assert remainders(operators) == {"dispatch": 20}


def test_threads_that_run_operators_at_once_share_the_time_equally() -> None:
    operators = found(op("a", 0, 60), op("b", 40, 100, "second"), op("c", 50, 60, "third"))

    # From 50 to 60 three run; the odd nanosecond goes to one of them.
    assert operators.wall_ns.sum() == 100
    assert np.abs(operators.wall_ns - np.array([40 + 5 + 3, 5 + 3 + 40, 3])).max() <= 1


def test_nanoseconds_that_cannot_be_split_go_to_each_in_turn() -> None:
    pairs = [event for at in range(0, 100, 10) for event in (op("a", at, at + 1), op("b", at, at + 1, "second"))]

    operators = found(*pairs)

    assert (operators.wall_ns[::2].sum(), operators.wall_ns[1::2].sum()) == (5, 5)


@pytest.mark.parametrize(
    ("events", "facts", "expected"),
    [
        # 20 in the layer's Python code, 40 with nothing open; 20 in the engine.
        (
            [layer("conv1", 0, 30), op("a", 10, 20), runtime("engine", 40, 70), op("relu", 50, 60), step(0, 100)],
            None,
            {"dispatch": 20 + 40, "framework": 20},
        ),
        # The framework's own code goes before a layer's on another thread.
        ([layer("conv1", 0, 100), runtime("engine", 20, 60, "second")], None, {"dispatch": 60, "framework": 40}),
        # Python code inside the framework's code.
        ([runtime("engine", 0, 100), layer("conv1", 20, 60)], None, {"dispatch": 40, "framework": 60}),
        # An instant without spans is idle only where the source can tell.
        ([op("a", 0, 50), layer("conv1", 50, 60)], None, {"dispatch": 50}),
        ([op("a", 0, 50), layer("conv1", 50, 60)], {OBSERVES_IDLE: True}, {"dispatch": 10, "idle": 40}),
        ([], None, {"dispatch": 100}),
    ],
)
def test_what_is_in_no_operator_is_named_after_what_was_open(
    events: list[Event], facts: dict[str, bool] | None, expected: dict[str, int]
) -> None:
    assert remainders(found(*events, facts=facts)) == expected


def test_helper_threads_and_spans_of_steps_own_no_time() -> None:
    operators = found(step(0, 100), op("a", 0, 60), pool(0, 100, "worker", owner=1))

    assert operators.wall_ns.tolist() == [0, 60, 0]
    assert operators.rows.tolist() == [1]


def test_what_sticks_out_of_its_step_is_cut_and_counted() -> None:
    operators = found(op("early", -20, 10), op("late", 90, 130), op("between", 140, 150), steps=[(0, 100), (200, 300)])

    assert operators.step.tolist() == [0, 0, NONE]
    assert operators.wall_ns.tolist() == [10, 10, 0]
    assert (operators.cut_rows, operators.cut_ns, operators.outside_rows) == (2, 20 + 30, 1)


def test_an_operator_that_reaches_into_the_next_step_counts_in_its_own_only_and_the_frameworks_code_in_all() -> None:
    operators = found(op("long", 50, 150), op("next", 160, 200), steps=[(0, 100), (100, 200)])
    executor = found(runtime("executor", -50, 250), steps=[(0, 100), (100, 200)])

    assert operators.wall_ns.tolist() == [50, 40]
    assert [remainders(operators, number) for number in (0, 1)] == [{"dispatch": 50}, {"dispatch": 60}]
    assert [remainders(executor, number) for number in (0, 1)] == [{"framework": 100}, {"framework": 100}]


def test_an_operator_without_layer_and_phase_has_those_of_what_is_around_it() -> None:
    operators = found(
        layer("norm1", 0, 90, phase="forward"),
        op("aten::local_response_norm", 10, 80),
        op("aten::avg_pool3d", 20, 30),
        op("aten::add", 30, 40, layer="conv1"),
        op("aten::sum", 92, 95),
    )

    texts = [[operators.text(column, row) for column in ("layer", "phase", "kind")] for row in operators.rows]
    assert texts == [
        ["norm1", "forward", "lrn"],
        ["norm1", "forward", "lrn"],
        ["conv1", "forward", "bias"],
        ["", "", "reduce"],
    ]


def test_a_primitive_is_of_its_own_kind_but_of_its_operator_s_type() -> None:
    operators = found(
        op("aten::mkldnn_convolution", 0, 90),
        primitive("reorder", 10, 20),
        primitive("brgconv", 20, 80),
        primitive("kernel 7", 30, 40),
    )

    assert [operators.text("kind", row) for row in operators.rows] == ["conv2d", "reorder", "conv2d", "conv2d"]
    assert {operators.text("type", row) for row in operators.rows} == {"aten::mkldnn_convolution"}


def test_operators_of_unknown_types_are_listed_with_their_number() -> None:
    operators = found(op("mystery", 0, 10), op("aten::relu", 20, 30), op("mystery", 40, 50), op("riddle", 60, 70))

    assert operators.unknown_types == {"mystery": 2, "riddle": 1}


def test_times_are_summed_per_step_by_whatever_is_asked() -> None:
    operators = found(
        op("aten::conv2d", 0, 30, layer="conv1", phase="forward"),
        op("aten::convolution", 10, 30, layer="conv1", phase="forward"),
        op("aten::conv2d", 100, 140, layer="conv1", phase="forward"),
        op("aten::relu", 150, 160, layer="conv1", phase="forward"),
        steps=[(0, 100), (100, 200)],
    )

    by_kind = {key: values.tolist() for key, values in operators.wall_by("layer", "kind").items()}
    assert by_kind == {("conv1", "conv2d"): [30, 40], ("conv1", "relu"): [0, 10]}
    assert operators.wall_by("type")["aten::convolution",].tolist() == [20, 0]


def test_a_recording_without_steps_has_no_rows() -> None:
    empty = operators_of(network_capture(recording_of(op("a", 0, 10), steps=[])))

    assert (empty.steps, len(empty.rows), empty.outside_rows) == (0, 0, 1)


def test_a_capture_without_the_pass_says_why() -> None:
    capture = network_capture(framework="theano", status="unavailable", reason="not installed")

    with pytest.raises(CaptureError, match="theano has no recording of time: unavailable, not installed"):
        operators_of(capture)


def test_steps_that_overlap_are_called_damage() -> None:
    with pytest.raises(CaptureError, match="damaged: a step begins before the one before it ends"):
        found(steps=[(0, 100), (50, 150)])


@st.composite
def tangles(draw: st.DrawFn) -> tuple[list[Event], list[tuple[int, int]]]:
    """Spans of all levels on some threads, nested and overlapping as they come, empty ones and strays included."""
    edges = sorted(draw(st.lists(st.integers(0, 120), min_size=2, max_size=6, unique=True)))
    steps = list(zip(edges[::2], edges[1::2]))
    moments = st.integers(-20, 140)
    spans = draw(
        st.lists(
            st.tuples(st.sampled_from(list(LEVELS)), moments, st.integers(0, 60), st.sampled_from("abc")), max_size=25
        )
    )
    return [LEVELS[level]("x", at, at + length, thread) for level, at, length, thread in spans], steps


@settings(max_examples=150, deadline=None)
@given(tangle=tangles())
def test_operators_and_remainders_make_up_every_step_to_the_nanosecond(
    tangle: tuple[list[Event], list[tuple[int, int]]],
) -> None:
    events, steps = tangle

    operators = found(*events, steps=steps)

    sums = np.zeros(operators.steps, np.int64)
    np.add.at(sums, operators.step[operators.rows], operators.wall_ns[operators.rows])
    assert (sums + sum(operators.remainders[name] for name in REMAINDERS)).tolist() == [b - a for a, b in steps]
    assert operators.wall_ns.sum() == sums.sum()
    assert min(operators.wall_ns.tolist(), default=0) >= 0


@settings(max_examples=100, deadline=None)
@given(tangle=tangles())
def test_every_share_is_that_of_a_look_at_each_nanosecond(tangle: tuple[list[Event], list[tuple[int, int]]]) -> None:
    events, steps = tangle

    operators = found(*events, steps=steps)

    events = _in_order_of_rows(operators)
    shares = [Fraction(0)] * len(events)
    left = [dict.fromkeys(REMAINDERS, 0) for _ in steps]
    for number, (first, last) in enumerate(steps):
        for now in range(first, last):
            innermost = {
                thread: max(rows, key=lambda row: _depth(events[row], row, first, last))
                for thread in "abc"
                if (rows := _open(events, operators, thread, now, number, is_operator=True))
            }
            for row in innermost.values():
                shares[row] += Fraction(1, len(innermost))
            if not innermost:
                left[number][_remainder(events, operators, now, number, (first, last))] += 1
    assert [{name: int(operators.remainders[name][n]) for name in REMAINDERS} for n in range(len(steps))] == left
    # An odd nanosecond is given whole, at most once between two changes.
    for row, share in enumerate(shares):
        assert abs(operators.wall_ns[row] - share) <= 2 * len(events)
        if len({event.thread for event in events}) == 1:
            assert operators.wall_ns[row] == share


def _in_order_of_rows(operators: Operators) -> list[Event]:
    """A capture groups ranges by thread."""
    capture, ranges = operators.capture, operators.capture.ranges
    threads = capture.texts(capture.threads.name[ranges.thread])
    columns = (ranges.level.tolist(), capture.texts(ranges.name), ranges.start_ns.tolist(), ranges.end_ns.tolist())
    return [
        Event(Level(level), str(name), start_ns, end_ns, str(thread), {})
        for level, name, start_ns, end_ns, thread in zip(*columns, threads)
    ]


def _open(
    events: list[Event], operators: Operators, thread: str, now: int, number: int, is_operator: bool
) -> list[int]:
    return [
        row
        for row, event in enumerate(events)
        if event.thread == thread
        and event.start_ns <= now < event.end_ns
        and (event.level >= Level.OPERATOR) == is_operator
        and (not is_operator or operators.step[row] == number)
    ]


def _depth(event: Event, row: int, first: int, last: int) -> tuple[int, int, int, int]:
    return max(event.start_ns, first), -min(event.end_ns, last), int(event.level), row


def _remainder(events: list[Event], operators: Operators, now: int, number: int, step: tuple[int, int]) -> str:
    levels = set()
    for thread in "abc":
        rows = _open(events, operators, thread, now, number, is_operator=False)
        if rows:
            levels.add(events[max(rows, key=lambda row: _depth(events[row], row, *step))].level)
    return "framework" if Level.RUNTIME in levels else "dispatch"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"thread": [5]}, "a span has no thread"),
        ({"step": [3]}, "a span has a step that is not there"),
        ({"step_end_ns": [-1]}, "a step ends before it begins"),
        ({"end_ns": [1, 2]}, "end_ns must have one entry for each of 1 rows"),
    ],
)
def test_the_native_sweep_refuses_columns_that_do_not_fit(change: dict[str, list[int]], message: str) -> None:
    columns = {"level": [3], "step": [0], "thread": [0], "start_ns": [0], "end_ns": [9], "step_start_ns": [0]}
    columns |= {"step_end_ns": [10], **change}
    types = {"level": np.int8, "step": np.int32, "thread": np.int32}
    arrays = {name: np.array(values, types.get(name, np.int64)) for name, values in columns.items()}

    with pytest.raises(ValueError, match=message):
        _core.share_steps(threads=1, **arrays)
