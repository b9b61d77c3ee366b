"""JAX: its profiler (no Python tracer) joined with the compiled program, so that XLA's thunks have layers and phases.

Time is exact per thunk. XLA takes all memory of a step in one piece, so no operator allocates anything: what is known
is the compiler's plan, which goes into the facts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from profkit.capture.event_log import EventLog
from profkit.capture.schema import FORWARD, HOST, Capture, Level, Losses
from profkit.errors import CaptureError
from profkit.frameworks.events import MEMORY, TIME, Pass, SourceSubject
from profkit.frameworks.events.layer_shares import layer_facts
from profkit.frameworks.events.xplane import Profiled, profiled_steps, recorded_levels
from profkit.frameworks.jax.hlo import parse_module
from profkit.frameworks.jax.model import OPTIMISER
from profkit.frameworks.jax.placement import Placement, ReadScope, scope_reader
from profkit.frameworks.jax.thunks import Thunks, add_thunks, read_thunks
from profkit.frameworks.lazy import jax
from profkit.frameworks.networks.contract import NetworkConditions

PASS = Pass(TIME, (TIME, MEMORY), note="XLA plans a step's memory as a whole: bytes of single operators are unknown")


def passes(conditions: NetworkConditions) -> Sequence[Pass]:
    """One: the profiler for time, the compiler's plan for memory."""
    return (PASS,)


def record(watched: SourceSubject, name: str, steps: int) -> Capture:
    layers = [layer.name for layer in watched.network.layers]
    return record_jax(watched, steps, scope_reader(layers, OPTIMISER), "jax")


def record_jax(watched: SourceSubject, steps: int, read_scope: ReadScope, framework: str) -> Capture:
    """Steps of a model whose `compiled(is_training)` is its program in JAX."""
    model: Any = watched.built.model
    program = model.compiled(watched.conditions.is_training)
    profiled = _profiled(watched.step, steps)
    capture = record_program(watched, program.as_text(), _program_facts(program), profiled, read_scope, framework)
    about = {"compile_s": dict(model.compile_times.seconds), "held_bytes": model.held_bytes}
    return replace(capture, facts={**capture.facts, **about})


def record_program(
    watched: SourceSubject,
    text: str,
    about: Mapping[str, Any],
    profiled: Profiled,
    read_scope: ReadScope,
    framework: str,
) -> Capture:
    """The thunks of profiled steps, with layers and phases from the text of their program; Keras comes here too.

    `about` are facts of the program.
    """
    is_training = watched.conditions.is_training
    placement = Placement(parse_module(text), read_scope, HOST if is_training else FORWARD)
    log = EventLog(framework, "hlo", *((TIME, MEMORY) if "planned_memory" in about else (TIME,)))
    log.steps(profiled.steps)
    log.about.clock_error_ns = profiled.clock.error_ns
    events = profiled.space.events
    found = read_thunks(events).within(profiled.steps)
    if not found.thunks:
        raise CaptureError(f"the profile has none of XLA's thunks, only {len(events)} other events")
    add_thunks(log, found, placement, threading.get_native_id())
    capture = log.finish()
    lost = _lost(capture)
    facts = {
        **about,
        "profiler_levels": recorded_levels(profiled.space),
        **layer_facts(capture),
        "fused_across": _fused_across(found, placement),
    }
    facts["notes"] = [*_notes(facts, lost), *profiled.space.warnings]
    return replace(capture, facts=facts, losses=Losses(lost))


def _profiled(step: Callable[[], Any], steps: int) -> Profiled:
    profiler = jax.profiler
    options: dict[str, Any] = {}
    if hasattr(profiler, "ProfileOptions"):
        options["profiler_options"] = profiler.ProfileOptions()
        options["profiler_options"].python_tracer_level = 0
    return profiled_steps("JAX", partial(profiler.start_trace, **options), profiler.stop_trace, step, steps)


def _program_facts(program: Any) -> dict[str, Any]:
    memory = _planned_memory(program)
    # Weights and batch are there before a step: no source counts them to its peak.
    peak = {"peak_bytes": memory["total_bytes"] - memory["argument_bytes"]} if memory else {}
    known = {"planned_memory": memory, **peak} if memory else {}
    return {**known, "cost_analysis": _cost(program)}


def _notes(facts: Mapping[str, Any], lost: int) -> list[str]:
    notes = ["XLA runs thunks on several threads at once: instants in which several run are shared between them"]
    if facts["profiler_levels"].get("python"):
        notes.append("this JAX cannot switch its Python tracer off: steps were recorded more slowly than they are")
    if lost:
        notes.append(f"{lost} thunks are missing: the profile ended before their events did")
    if "planned_memory" in facts:
        sizes = {name: f"{size / 2**20:.1f} MiB" for name, size in facts["planned_memory"].items()}
        notes.append(
            f"XLA planned {sizes['total_bytes']} for a step: {sizes['argument_bytes']} of weights and batch, "
            f"{sizes['temporary_bytes']} of temporaries, {sizes['output_bytes']} of results "
            f"({sizes['alias_bytes']} in the place of old weights)"
        )
    return notes


def _planned_memory(program: Any) -> dict[str, int]:
    plan = program.memory_analysis()
    if plan is None:
        return {}
    parts = {
        "argument_bytes": plan.argument_size_in_bytes,
        "output_bytes": plan.output_size_in_bytes,
        "alias_bytes": plan.alias_size_in_bytes,
        "temporary_bytes": plan.temp_size_in_bytes,
        "generated_code_bytes": plan.generated_code_size_in_bytes,
    }
    reused = parts["alias_bytes"]
    total = parts["argument_bytes"] + parts["output_bytes"] + parts["temporary_bytes"] - reused
    return {name: int(value) for name, value in {**parts, "total_bytes": total}.items()}


def _cost(program: Any) -> dict[str, float]:
    """XLA's own estimate of the whole program."""
    found = program.cost_analysis() or {}
    found = found[0] if isinstance(found, list) else found  # a list of one in older releases
    wanted = ("flops", "transcendentals", "bytes accessed")
    return {name.replace(" ", "_"): float(found[name]) for name in wanted if name in found}


def _lost(capture: Capture) -> int:
    """Thunks that some steps have and others have not: every step runs the same program."""
    is_operator = (capture.ranges["level"] == Level.OPERATOR) & (capture.ranges["step"] >= 0)
    steps = capture.ranges["step"][is_operator].tolist()
    counts = [steps.count(number) for number in range(len(capture.steps["start_ns"]))]
    return sum(max(counts, default=0) - count for count in counts)


def _fused_across(found: Thunks, placement: Placement) -> dict[str, list[str]]:
    """Instructions that do work of several layers or phases at once; their time is in one of these."""
    names = dict.fromkeys(str(thunk.event.stats["hlo_op"]) for thunk in found.thunks)
    works = ((name, placement.work(name)) for name in names)
    return {name: list(work.fused_places) for name, work in works if work and work.fused_places}
