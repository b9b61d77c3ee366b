"""What a report of a network's run says: a Run and its Usage in, a Table out; and runs in several frameworks side by
side, by layer and phase: below a layer they cannot be compared, as each divides it into different operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from profkit.attribution.aggregation import mean_of_steps
from profkit.attribution.networks.operators import REMAINDERS, LayerPhase, operators_of
from profkit.attribution.passes import run_usage
from profkit.attribution.usage import Usage
from profkit.capture.busy_machine import CLOCK, busy_words
from profkit.capture.run import Run
from profkit.capture.schema import PHASES
from profkit.errors import listed
from profkit.measurement.network_times import step_times
from profkit.measurement.statistics.estimates import Estimate
from profkit.ops.networks import network_from_dict
from profkit.ops.networks.network import SQUARED_ERROR, Network
from profkit.ops.networks.training import Training
from profkit.rendering.quantities import (
    ABSENT,
    error_text,
    number_text,
    plural,
    ratio_interval_text,
    spread_text,
    time_text,
)
from profkit.rendering.tables.table import Line, Table, TableColumn
from profkit.rendering.usage.columns import flops_text
from profkit.rendering.usage.content import View, build_table, steps_line

MEAN_SQUARED = "mean squared error"


def network_table(run: Run, usage: Usage | None = None, view: View | None = None) -> Table:
    usage = run_usage(run) if usage is None else usage
    return build_table(mean_of_steps(usage), view or View(), network_surroundings(run, usage))


def network_surroundings(run: Run, usage: Usage) -> Table:
    """Title and facts of the run, what recording cost, and notes; the table in between shows one step."""
    steps = [steps_line(usage)] if usage.steps is not None else []
    return Table(
        network_title(run),
        [*run_lines(run), *disturbance_lines(run), *steps],
        losses=[f"{usage.dropped:,} records were lost while recording"] if usage.dropped else [],
        warnings=failure_lines(run),
        instead=[] if usage.rows else ["no operator was recorded"],
        notes=notes(run, usage),
    )


def network_title(run: Run) -> str:
    """Which network, with its numbers, and where it ran."""
    work = "training" if run.is_training else "inference"
    threads = plural(run.threads, "thread")
    return f"{network_words(network_from_dict(run.network))}: {work} in {framework_words(run)}, {threads}"


def network_words(network: Network) -> str:
    """The network with all its parameters: `cifar10 batch 128, stride 2, ...`."""
    words = ", ".join(f"{name.replace('_', '-')} {word}" for name, word in network.words().items())
    return f"{network.name} {words}"


def framework_words(run: Run) -> str:
    """`tensorflow 2.21.0 (graph)`; `caffe by opencv 4.14.0 (graph)` where another program runs it."""
    versions = run.versions
    words = [run.framework, versions.get("version") or versions.get(run.framework, "")]
    if not words[1] and versions:
        words[1:] = ["by", *next(iter(versions.items()))]
    return " ".join(filter(None, [*words, f"({run.mode})" if run.mode else ""]))


def run_lines(run: Run) -> list[str]:
    """Size and data, how it was checked, how long a step takes, what recording costs."""
    network = network_from_dict(run.network)
    size = (
        f"{network.parameter_count():,} parameters, {flops_text(network.multiply_adds())} multiply-adds per "
        f"{'image' if len(network.input_shape()) == 4 else 'row'} (forward); {run.data or 'no data'}"
    )
    size += f"; weights of {run.weights}" if run.weights else ""
    if run.is_training:
        used = Training(**run.training).used()
        size += f"; {', '.join(f'{name} {value}'.replace('_', ' ') for name, value in used.items())}"
    lines = [size]
    if run.error is not None:
        what = "loss, gradients and new weights of a step" if run.is_training else "logits"
        lines.append(
            f"checked against float64, {what}: error {error_text(run.error)}, tolerance {error_text(run.tolerance)}"
        )
    if run.unchecked:
        lines.append(
            f"not checked: {len(run.unchecked):,} of {1 + len(network.weight_shapes()):,} arrays "
            f"({listed(run.unchecked)}): with a wrong gradient they could look the same"
        )
    return lines + _time_lines(run)


def _time_lines(run: Run) -> list[str]:
    """The unrecorded step, and the ratio of recorded to unrecorded beside that of unrecorded to unrecorded."""
    times = step_times(run)
    if times.step is None:
        return []
    spread = spread_text(times.step.value, times.step.low, times.step.high)
    line = f"unrecorded step: {time_text(times.step.value)} {spread}".rstrip()
    if len(times.processes) > 1:
        named = ", ".join(time_text(ns) for ns in times.processes)
        line += f", mean of {len(times.processes)} processes ({named}; {times.samples} steps)"
    else:
        line += f", of {plural(times.samples, 'step')}"
    if run.first_step_ns is not None:
        line += f"; the first step took {time_text(run.first_step_ns)}"
    if not times.recording or times.null is None:
        return [line]
    passes = ", ".join(f"{name} {_ratio(ratio)}" for name, ratio in times.recording.items())
    return [line, f"recorded / unrecorded: {passes}; unrecorded / unrecorded: {_ratio(times.null)}"]


def _ratio(estimate: Estimate) -> str:
    return ratio_interval_text(estimate.value, estimate.low, estimate.high)


def failure_lines(run: Run) -> list[str]:
    """Why a run is not whole; nothing when it is."""
    if run.status == "ok":
        return []
    return [f"{run.framework}: {run.status}" + (f", {run.reason}" if run.reason else "")]


def disturbance_lines(run: Run) -> list[str]:
    """What makes all times doubtful; a thread that was preempted also looks like one that waited."""
    trouble = run.disturbance()
    lines = [f"warning: {trouble}: times are longer and threads look as if they waited"] if trouble else []
    if not trouble:
        lines += [
            f"busy machine during process {number + 1} of {len(run.processes)}: {why}; profkit compare leaves it out"
            for number, why in run.disturbed_processes().items()
        ]
    moved = [word for process in run.processes for word in busy_words(process["machine"]) if word.startswith(CLOCK)]
    return lines + list(dict.fromkeys(moved))


def notes(run: Run, usage: Usage) -> list[str]:
    """What a reader of the numbers must know, each once."""
    texts = [*usage.notes, *run.notes]
    memory = run.capture("memory")
    if memory is not None and memory is not run.capture("time"):
        texts += [str(note) for note in memory.facts.get("notes", ())]
    if run.learning:
        losses = run.learning.get("losses", [])
        learned = f"learned for {len(losses):,} steps on {run.data}"
        learned += f": loss {losses[0]:.3f} to {losses[-1]:.3f}" if losses else ""
        texts.append(", ".join([learned, *_error_words(run)]))
    return list(dict.fromkeys(texts))


def _error_words(run: Run) -> list[str]:
    """On test and training data, as far as they were measured."""
    words = []
    for part, name in (("test", "test"), ("train", "training")):
        error, count = run.learning.get(f"{part}_error"), run.learning.get(f"{part}_count", 0)
        if error is not None:
            words.append(f"{_measure(run)} {_learned_error_text(run, error)} of {count:,} {name} inputs")
    return words


def _measure(run: Run) -> str:
    return MEAN_SQUARED if network_from_dict(run.network).loss == SQUARED_ERROR else "error"


def _learned_error_text(run: Run, error: float | None) -> str:
    """Of a network that classifies the share of its wrong answers."""
    return number_text(error, 4) if error is None or _measure(run) == MEAN_SQUARED else f"{100 * error:.2f}%"


# --- Several frameworks side by side ---


def compare_layers(runs: Sequence[Run], top: int | None = None) -> Table:
    """Time of a recorded step by layer and phase; then what is in no operator, the step, and the unrecorded step.

    With `top`, the layers that take longest anywhere, in the order in which they run, and one line for all others.
    """
    operators = [operators_of(run) for run in runs]
    times = [
        {(layer, phase): float(values.mean()) for (layer, phase), values in each.wall_by("layer", "phase").items()}
        for each in operators
    ]
    places = _in_order(runs[0], times)
    longest = sorted(places, key=lambda place: -max(each.get(place, 0.0) for each in times))
    shown = set(longest if top is None else longest[:top])
    lines = [
        Line((place[0] or "(no layer)", place[1], *(time_text(each.get(place)) for each in times)))
        for place in places
        if place in shown
    ]
    if hidden := [place for place in places if place not in shown]:
        sums = (sum(each.get(place, 0.0) for place in hidden) for each in times)
        lines.append(Line((f"… {len(hidden):,} more rows", "", *map(time_text, sums)), "more"))
    for name in REMAINDERS:
        known = [
            float(each.remainders[name].mean()) if name in each.observed_remainders else None for each in operators
        ]
        if any(value is not None for value in known):
            lines.append(Line((name, "", *map(time_text, known))))
    recorded = [float(each.step_ns.mean()) if each.steps else None for each in operators]
    lines.append(Line(("recorded step", "", *map(time_text, recorded)), "baseline"))
    unrecorded = [step_times(run).step for run in runs]
    lines.append(Line(("unrecorded step", "", *(time_text(step.value if step else None) for step in unrecorded))))
    more = [f"the {top} rows that take longest, in their order; all of them: --top {len(places)}"] if hidden else []
    columns = [TableColumn("layer", "layer", is_text=True), TableColumn("phase", "phase", is_text=True)]
    names = _names(runs)
    columns += [TableColumn(f"framework {number}", text) for number, text in enumerate(names)]
    busy = [f"warning: {name}: {why}" for name, run in zip(names, runs) if (why := run.disturbance())]
    most = max(len(run.processes) for run in runs)
    course = f"took turns, in up to {most} processes each" if most > 1 else "ran one after another"
    words = network_words(network_from_dict(runs[0].network))
    work = "training" if runs[0].is_training else "inference"
    return Table(
        title=f"Layer by framework: {words}, {work}",
        facts=("time of a step in the operators of a layer, mean of the recorded steps", *busy),
        columns=columns,
        lines=lines,
        notes=(*more, f"unrecorded step: nothing recorded; the frameworks {course}"),
    )


def compare_learning(runs: Sequence[Run]) -> Table:
    """What each framework learned from the same weights and the same data in the same order."""
    names = ("steps", "time", "first loss", "last loss", "test error", "training error")
    columns = [TableColumn("framework", "framework", is_text=True), *(TableColumn(name, name) for name in names)]
    lines = []
    for name, run in zip(_names(runs), runs):
        losses = run.learning.get("losses", [])
        ends = [f"{loss:.4f}" for loss in (losses[0], losses[-1])] if losses else [ABSENT] * 2
        errors = [_learned_error_text(run, run.learning.get(f"{part}_error")) for part in ("test", "train")]
        seconds = time_text(1e9 * run.learning.get("seconds", 0.0))
        lines.append(Line((name, f"{len(losses):,}", seconds, *ends, *errors)))
    steps = {len(run.learning.get("losses", ())) for run in runs}
    more = ["errors are mean squared errors"] if _measure(runs[0]) == MEAN_SQUARED else []
    more += ["the numbers of steps differ: --learn-steps makes them equal"] if len(steps) > 1 else []
    return Table(
        title=f"Learning by framework: {network_words(network_from_dict(runs[0].network))}",
        facts=(f"the same first weights and order of data in all; {runs[0].data}",),
        columns=columns,
        lines=lines,
        notes=tuple(more),
    )


def _names(runs: Sequence[Run]) -> list[str]:
    names = [run.framework for run in runs]
    return [f"{run.framework}:{run.mode}" if names.count(run.framework) > 1 else run.framework for run in runs]


def _in_order(run: Run, times: Sequence[Mapping[LayerPhase, float]]) -> list[LayerPhase]:
    """Layers as the network has them, what is in none after them, phases as they run."""
    layers = [layer.name for layer in network_from_dict(run.network).layers]
    phases = list(PHASES)
    found = dict.fromkeys(place for each in times for place in each)

    def rank(place: LayerPhase) -> tuple[int, int]:
        layer, phase = place
        return (
            layers.index(layer) if layer in layers else len(layers),
            phases.index(phase) if phase in phases else len(phases),
        )

    return sorted(found, key=rank)
