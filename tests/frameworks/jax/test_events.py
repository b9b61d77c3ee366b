"""What is recorded of JAX: XLA's program gives its thunks layers and phases, pieces on other threads are theirs too."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from profkit.capture.event_log import EventLog
from profkit.capture.schema import NONE, Capture, Level
from profkit.frameworks.events.layer_shares import mapped_shares, without_layer
from profkit.frameworks.events.xplane import XplaneEvent
from profkit.frameworks.jax.hlo import parse_module, shape_bytes
from profkit.frameworks.jax.placement import NameScope, Placement, scope_reader
from profkit.frameworks.jax.thunks import add_thunks, read_thunks
from tests.frameworks.events.source_checks import rows
from tests.frameworks.networks.network_process import outcome
from tests.frameworks.networks.network_process_runner import CIFAR10, STEPS

PROGRAM = """\
HloModule jit_train_step, is_scheduled=true, entry_computation_layout={(f32[4,8]{1,0})->f32[4,3]{1,0}}

%region (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b), metadata={op_name="jit(train_step)/transpose(jvp(pool1))/add"}
}

%fused_relu (p: f32[4,3], q: f32[3]) -> f32[4,3] {
  %p = f32[4,3]{1,0} parameter(0)
  %q = f32[3]{0} parameter(1)
  %spread = f32[4,3]{1,0} broadcast(%q), dimensions={1}, metadata={op_name="jit(train_step)/jvp(conv1)/add"}
  %added = f32[4,3]{1,0} add(%p, %spread), metadata={op_name="jit(train_step)/jvp(conv1)/add"}
  ROOT %largest = f32[4,3]{1,0} maximum(%added, %added), metadata={op_name="jit(train_step)/jvp(norm1)/max"}
}

%moved (r: f32[4,3]) -> f32[3,4] {
  %r = f32[4,3]{1,0} parameter(0)
  %turned = f32[3,4]{1,0} transpose(%r), dimensions={1,0}
  ROOT %laid = f32[3,4]{1,0} copy(%turned)
}

%update (s: f32[8,3], t: f32[4,8], u: f32[4,3]) -> f32[8,3] {
  %s = f32[8,3]{1,0} parameter(0)
  %t = f32[4,8]{1,0} parameter(1)
  %u = f32[4,3]{1,0} parameter(2)
  %gradient = f32[8,3]{1,0} dot(%t, %u), metadata={op_name="jit(train_step)/transpose(jvp(conv1))/dot_general"}
  ROOT %lowered = f32[8,3]{1,0} subtract(%s, %gradient), metadata={op_name="jit(train_step)/sgd/conv1/sub"}
}

%counted () -> s32[4] {
  ROOT %numbers = s32[4]{0} iota(), iota_dimension=0
}

%went (loop: (s32[], f32[4,3])) -> (s32[], f32[4,3]) {
  %loop = (s32[], f32[4,3]{1,0}) parameter(0)
  %number = s32[] get-tuple-element(%loop), index=0
  %held = f32[4,3]{1,0} get-tuple-element(%loop), index=1
  %kept = f32[4,3]{1,0} copy(%held)
  ROOT %gone = (s32[], f32[4,3]{1,0}) tuple(%number, %kept)
}

%goes_on (state: (s32[], f32[4,3])) -> pred[] {
  %state = (s32[], f32[4,3]{1,0}) parameter(0)
  %at = s32[] get-tuple-element(%state), index=0
  ROOT %is_less = pred[] compare(%at, %at), direction=LT
}

ENTRY %main (x: f32[4,8], w: f32[8,3]) -> (f32[4,3], /*index=1*/f32[8,3]) {
  %x = f32[4,8]{1,0} parameter(0), metadata={op_name="x"}
  %w = f32[8,3]{1,0} parameter(1), metadata={op_name="state[\\'conv1.w\\']"}
  %copy.1 = f32[8,3]{1,0} copy(%w)
  %wrapped_iota = s32[4]{0} fusion(), kind=kLoop, calls=%counted
  %dot.7 = f32[4,3]{1,0} dot(%x, %copy.1), metadata={op_name="jit(train_step)/jvp(conv1)/dot_general"}
  %relu_fusion = f32[4,3]{1,0} fusion(%dot.7, %x), kind=kLoop, calls=%fused_relu
  %transposed = f32[3,4]{1,0} fusion(%relu_fusion), kind=kLoop, calls=%moved
  %pair = (f32[4,3]{1,0}, s32[4]{0}) fusion(%transposed, %wrapped_iota), kind=kCustom, calls=%fused_relu, \
metadata={op_name="jit(train_step)/transpose(jvp(conv1))/dot"}, backend_config={"fusion_config":{"kind":"__ynn_fusion"}}
  %part = s32[4]{0} get-tuple-element(%pair), index=1
  %updated = f32[8,3]{1,0} subtract(%copy.1, %dot.7), metadata={op_name="jit(train_step)/sgd_1/sub"}
  %dot_subtract = f32[8,3]{1,0} fusion(%copy.1, %x, %dot.7), kind=kLoop, calls=%update, \
metadata={op_name="jit(train_step)/sgd/conv1/sub"}
  %filters = f32[8,3]{1,0} convolution(%x, %part)
  %stepped = f32[8,3]{1,0} subtract(%w, %filters), metadata={op_name="jit(train_step)/sgd/norm1/sub"}
  %begin = (s32[], f32[4,3]{1,0}) tuple(%part, %dot.7)
  %while.3 = (s32[], /*index=1*/f32[4,3]{1,0}) while(%begin), condition=%goes_on, body=%went, \
metadata={op_name="jit(train_step)/jvp(pool1)/while"}
  %counter = f32[] add(%x, %x), metadata={op_name="jit(train_step)/add"}
  ROOT %result = (f32[4,3]{1,0}, f32[8,3]{1,0}) tuple(%relu_fusion, %updated)
}
"""
LAYERS = ("conv1", "pool1", "norm1")


def placed() -> Placement:
    return Placement(parse_module(PROGRAM), scope_reader(LAYERS, "sgd", strip=True), "host")


@pytest.mark.parametrize(
    ("op_name", "layer", "phase"),
    [
        ("jit(infer)/conv1/conv_general_dilated", "conv1", "forward"),
        ("jit(train_step)/jvp(conv1)/jit(relu)/max", "conv1", "forward"),
        ("jit(train_step)/transpose(jvp(conv1))/dot_general", "conv1", "backward"),
        ("jit(train_step)/jit(main)/transpose(jvp(network))/pool1_1/select_and_scatter", "pool1", "backward"),
        ("jit(train_step)/sgd/sub", None, "optimiser"),
        ("jit(train_step)/sgd_1/norm1/sub", "norm1", "optimiser"),
        ("jit(train_step)/jvp(loss)/reduce_sum", None, "forward"),
        ("jit(train_step)/add", None, None),
        ("", None, None),
    ],
)
def test_op_names_say_layer_and_phase(op_name: str, layer: str | None, phase: str | None) -> None:
    read = scope_reader(LAYERS, "sgd", strip=True)

    assert read(op_name) == NameScope(layer, phase)


def test_numbers_are_kept_where_a_layer_has_them_in_its_name() -> None:
    read = scope_reader(("conv", "conv_1"), strip=True)

    assert read("jit(f)/conv_1/dot").layer == "conv_1"
    assert read("jit(f)/conv_2/dot").layer == "conv"
    assert scope_reader(("conv",))("jit(f)/conv_2/dot").layer is None


@pytest.mark.parametrize(
    ("name", "type", "layer", "phase", "quality"),
    [
        ("dot.7", "dot", "conv1", "forward", "exact"),
        ("relu_fusion", "maximum", "norm1", "forward", "exact"),  # by what it computes last
        ("pair", "maximum", "conv1", "backward", "exact"),
        ("transposed", "transpose", "conv1", "backward", "inferred"),  # by its only user
        ("wrapped_iota", "iota", "conv1", "backward", "inferred"),
        ("copy.1", "copy", "conv1", "copy", "inferred"),  # forward and the update use it
        ("updated", "subtract", "conv1", "optimiser", "inferred"),  # by the gradient that comes in
        ("dot_subtract", "dot", "conv1", "backward", "exact"),  # by what takes the time
        ("filters", "convolution", "norm1", "backward", "inferred"),  # what updates use is a gradient
        ("while.3", "while", "pool1", "forward", "exact"),
        ("kept", "copy", "pool1", "forward", "inferred"),  # in the loop
        ("is_less", "compare", "pool1", "forward", "inferred"),
        ("counter", "add", None, "host", "inferred"),
    ],
)
def test_instructions_get_a_place_by_name_by_what_is_fused_or_by_their_users(
    name: str, type: str, layer: str | None, phase: str, quality: str
) -> None:
    work = placed().work(name)

    assert work is not None
    assert (work.type, work.layer, work.phase, work.quality) == (type, layer, phase, quality)


def test_a_fusion_that_only_looks_otherwise_at_its_operand_is_a_view() -> None:
    text = """
%looked (held: f32[4,3]) -> f32[12] {
  %held = f32[4,3]{1,0} parameter(0)
  ROOT %seen = f32[12]{0} bitcast(%held)
}

ENTRY %main (x: f32[4,3]) -> f32[12] {
  %x = f32[4,3]{1,0} parameter(0), metadata={op_name="x"}
  ROOT %bitcast_fusion = f32[12]{0} fusion(%x), kind=kLoop, calls=%looked, metadata={op_name="jit(f)/conv1/reshape"}
}
"""
    work = Placement(parse_module(text), scope_reader(LAYERS)).work("bitcast_fusion")

    assert work is not None and (work.type, work.layer) == ("bitcast", "conv1")


def test_what_is_fused_its_shapes_and_bytes_are_told() -> None:
    placement = placed()

    relu, pair = placement.work("relu_fusion"), placement.work("pair")

    assert relu is not None and pair is not None
    assert relu.fused == "broadcast+add+maximum"
    assert relu.fused_places == ("conv1 forward", "norm1 forward")
    assert relu.shapes == "f32[4,3] f32[4,8]"
    assert relu.output_bytes == 4 * 4 * 3
    assert pair.implementation == "ynn_fusion"
    assert pair.output_bytes == 4 * 4 * 3 + 4 * 4
    assert placement.work("of_another_program") is None


@pytest.mark.parametrize(
    ("shape", "expected"),
    [("f32[]", 4), ("bf16[2,3]{1,0}", 12), ("(s32[2]{0}, pred[5]{0})", 13), ("f32[0,7]", 0), ("token[]", 1)],
)
def test_shapes_have_bytes(shape: str, expected: int) -> None:
    assert shape_bytes(shape) == expected


def event(line: str, name: str, start: int, end: int, **stats: Any) -> XplaneEvent:
    return XplaneEvent("/host:CPU", line, 0, name, start, end, stats)


def thunk(line: str, name: str, start: int, end: int) -> XplaneEvent:
    return event(line, name, start, end, hlo_op=name)


def listener(line: str, name: str, at: int, **stats: int) -> XplaneEvent:
    return event(line, f"ThreadpoolListener::{name}", at, at, **stats)


def test_work_handed_to_the_pool_belongs_to_its_thunk_also_after_the_thunk_returned() -> None:
    events = [
        event("tf_XLAEigen/1", "ThunkExecutor::Execute", 0, 30),
        thunk("tf_XLAEigen/1", "dot.7", 1, 20),
        listener("tf_XLAEigen/1", "Record", 2, _p=7),
        listener("tf_XLAEigen/2", "StartRegion", 5, _c=7),
        listener("tf_XLAEigen/2", "Record", 6, _p=8),
        listener("tf_XLAEigen/2", "StopRegion", 35),
        listener("tf_XLAEigen/3", "StartRegion", 7, _c=8),
        listener("tf_XLAEigen/3", "StopRegion", 9),
    ]
    log = EventLog("jax", "hlo", "time")

    add_thunks(log, read_thunks(events), placed(), 42)

    capture = log.finish()
    [operator] = rows(capture)
    pools, pieces = rows(capture, Level.POOL), rows(capture, Level.PRIMITIVE)
    assert (operator["layer"], operator["pool_cpu_ns"]) == ("conv1", 30 + 2)
    assert [(row["start_ns"], row["end_ns"]) for row in pools] == [(5, 20), (7, 9)]
    assert [(row["start_ns"], row["end_ns"], row["layer"]) for row in pieces] == [(20, 35, "conv1")]
    assert {row["owner"] for row in pools + pieces} == {1}  # the runtime's span comes first
    assert len({row["thread"] for row in [operator, *pools]}) == 3


@pytest.mark.parametrize("has_event", [True, False])
def test_a_task_of_the_pool_in_which_the_executor_goes_on_is_no_helpers_work_from_there_on(has_event: bool) -> None:
    events = [
        thunk("tf_XLAEigen/1", "dot.7", 0, 4),
        listener("tf_XLAEigen/1", "Record", 1, _p=3),
        listener("tf_XLAEigen/2", "StartRegion", 2, _c=3),
        *([event("tf_XLAEigen/2", "ThunkExecutor::Execute", 7, 900)] if has_event else []),
        thunk("tf_XLAEigen/2", "relu_fusion", 7, 500),
        listener("tf_XLAEigen/2", "Record", 510, _p=4),  # the executor gives other threads thunks to run
        listener("tf_XLAEigen/3", "StartRegion", 515, _c=4),
        listener("tf_XLAEigen/3", "StopRegion", 600),
        thunk("tf_XLAEigen/2", "relu_fusion", 520, 880),
        listener("tf_XLAEigen/2", "StopRegion", 910),
    ]
    log = EventLog("jax", "hlo", "time")

    add_thunks(log, read_thunks(events), placed(), 42)

    capture = log.finish()
    assert [(row["start_ns"], row["end_ns"]) for row in rows(capture, Level.POOL)] == [(2, 4)]
    assert [(row["start_ns"], row["end_ns"]) for row in rows(capture, Level.PRIMITIVE)] == [(4, 7)]
    assert [(row["name"], row["pool_cpu_ns"]) for row in rows(capture)] == [
        ("dot.7", 5), ("relu_fusion", 0), ("relu_fusion", 0),
    ]  # fmt: skip


def test_a_thread_that_leaves_a_piece_after_the_result_was_there_was_preempted() -> None:
    events = [
        thunk("tf_XLAEigen/1", "dot.7", 0, 4),
        listener("tf_XLAEigen/1", "Record", 1, _p=3),
        listener("tf_XLAEigen/1", "Record", 2, _p=4),
        listener("tf_XLAEigen/2", "StartRegion", 2, _c=3),
        event("tf_XLAEigen/2", "end: dot.7", 9, 9),
        listener("tf_XLAEigen/2", "StopRegion", 7_000),
        listener("tf_XLAEigen/3", "StartRegion", 50, _c=4),
        listener("tf_XLAEigen/3", "StopRegion", 60),
    ]

    [found] = read_thunks(events).thunks

    assert found.pieces == [(("tf_XLAEigen/2", 0), (2, 9))]


def test_only_what_began_in_a_step_is_kept() -> None:
    events = [thunk("a", "dot.7", 5, 9), thunk("a", "dot.7", 12, 15), thunk("a", "dot.7", 30, 31)]

    found = read_thunks(events).within([(10, 20), (25, 30)])

    assert [each.event.start_ns for each in found.thunks] == [12]


def test_waiting_for_the_executor_and_the_python_tracer_are_no_spans() -> None:
    events = [
        event("python", "PjitFunction(train_step)", 0, 9),
        event("python", "$train.py:7 step", 1, 8),
        event("tf_XLAPjRtCpuClient/1", "ThunkExecutor::Execute (wait for completion)", 2, 90),
    ]

    found = read_thunks(events)

    assert [each.name for _, each in found.runtime] == ["PjitFunction(train_step)"]


def recording_of(is_training: bool) -> Capture:
    return outcome("jax", "jit").capture("time", is_training)


@pytest.mark.parametrize("is_training", [True, False])
def test_operators_do_not_overlap_on_a_thread_and_only_the_loss_has_no_layer(is_training: bool) -> None:
    capture = recording_of(is_training)

    operators = rows(capture)

    for thread in range(len(capture.threads)):
        own = [row for row in operators if row["thread"] == thread]
        assert all(before["end_ns"] <= after["start_ns"] for before, after in pairwise(own))
    assert any(row["layer"] is None for row in operators) == is_training
    assert set(capture.facts["mapped"]) == ({"forward", "backward"} if is_training else {"forward"})


def test_every_step_has_the_same_thunks() -> None:
    capture = recording_of(True)

    names = [sorted(row["name"] for row in rows(capture, step=step)) for step in range(STEPS)]

    assert names[0] == names[1]
    assert capture.losses.records == 0


def test_shares_are_those_of_the_operators_own_time() -> None:
    log = EventLog("jax", "hlo", "time")
    log.step(0, 100)
    log.range(Level.OPERATOR, "a", 0, 60, layer="conv1", phase="forward", quality="exact")
    log.range(Level.OPERATOR, "inside a", 10, 30, layer="conv1", phase="forward", quality="exact")
    log.range(Level.OPERATOR, "b", 60, 70, layer="conv1", phase="forward", quality="inferred")
    log.range(Level.PRIMITIVE, "b", 70, 80, 1, layer="conv1", phase="forward", quality="inferred", owner=2)
    log.range(Level.OPERATOR, "c", 80, 100, type="add", phase="forward", quality="exact")

    capture = log.finish()

    assert mapped_shares(capture) == {"forward": {"exact": 0.6, "inferred": 0.2, "none": 0.2}}
    assert without_layer(capture) == [{"name": "c", "type": "add", "phase": "forward", "ns": 20}]


def test_memory_of_operators_is_unknown_and_the_plan_of_the_step_is_a_fact() -> None:
    capture = recording_of(True)

    plan = capture.facts["planned_memory"]

    assert all((capture.ranges[name] == NONE).all() for name in ("requested_bytes", "temporary_bytes", "peak_bytes"))
    weights = 4 * CIFAR10.parameter_count()
    batch = 4 * 4 * 3 * 24 * 24 + 4 * 4
    assert plan["argument_bytes"] == 2 * weights + batch  # the velocity of each weight, too
    assert plan["alias_bytes"] == 2 * weights  # given away
    assert plan["temporary_bytes"] > 0
    own = plan["temporary_bytes"] + plan["output_bytes"] - plan["alias_bytes"]
    assert capture.facts["peak_bytes"] == own == plan["total_bytes"] - plan["argument_bytes"]


def test_output_bytes_are_those_of_the_shapes() -> None:
    found = {row["output_bytes"] for row in rows(recording_of(False)) if row["type"] == "convolution"}

    assert found == {4 * 4 * 8 * 24 * 24, 4 * 4 * 8 * 12 * 12}


def test_the_python_tracer_was_off_and_compilation_is_told_apart() -> None:
    capture = recording_of(True)

    assert capture.facts["profiler_levels"]["python"] == 0
    assert not any(row["name"].startswith("$") for row in rows(capture, Level.RUNTIME))
    assert capture.facts["compile_s"]["backend_compile"] > 0
    assert capture.clock_error_ns > 0
