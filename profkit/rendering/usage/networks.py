"""What a report of a network's run says: a Run and its Usage in, a Table out."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.attribution.passes import run_usage
from profkit.attribution.tables import mean_of_steps
from profkit.attribution.usage import Usage
from profkit.capture.run import Run
from profkit.measurement.network_times import StepTimes, step_times
from profkit.measurement.statistics import Estimate
from profkit.ops.networks import network_from_dict
from profkit.ops.networks.network import Network
from profkit.rendering.quantities import error_text, ratio_interval_text, spread_text, time_text
from profkit.rendering.tables.table import Table
from profkit.rendering.usage.columns import flops_text
from profkit.rendering.usage.content import View, build_table, steps_line


def network_table(run: Run, usage: Usage | None = None, view: View | None = None) -> Table:
    """The report of a run: a table of one step, by kind of operator unless a Usage is given."""
    usage = run_usage(run) if usage is None else usage
    return build_table(mean_of_steps(usage), view or View(), network_surroundings(run, usage))


def network_surroundings(run: Run, usage: Usage) -> Table:
    """Title and facts of the run, what recording cost, and notes; the table in between shows one step."""
    lost = f"{usage.dropped:,} records were lost while recording" if usage.dropped else ""
    steps = [steps_line(usage)] if usage.steps is not None else []
    return Table(
        network_title(run),
        [*run_lines(run), *disturbance_lines(run), *steps],
        losses=[lost] if lost else [],
        warnings=failure_lines(run),
        instead=[] if usage.rows else ["no operator was recorded"],
        notes=notes(run, usage),
    )


def network_title(run: Run) -> str:
    """Which network, with its numbers, and where it ran."""
    work = "training" if run.is_training else "inference"
    threads = f"{run.threads} thread{'s' if run.threads != 1 else ''}"
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
    if run.is_training:
        size += f"; SGD {', '.join(f'{name} {value}'.replace('_', ' ') for name, value in run.training.items())}"
    lines = [size]
    if run.error is not None:
        what = "loss and every weight after one step" if run.is_training else "logits"
        lines.append(
            f"checked against float64, {what}: error {error_text(run.error)}, tolerance {error_text(run.tolerance)}"
        )
    return lines + time_lines(run)


def time_lines(run: Run) -> list[str]:
    """The unrecorded step, and the ratio of recorded to unrecorded beside that of unrecorded to unrecorded."""
    times = step_times(run)
    if times.step is None:
        return []
    spread = spread_text(times.step.value, times.step.low, times.step.high)
    line = f"unrecorded step: {time_text(times.step.value)} {spread}".rstrip() + f", median of {times.samples}"
    if run.first_step_ns is not None:
        line += f"; the first step took {time_text(run.first_step_ns)}"
    return [line, *_recording_lines(times)]


def _recording_lines(times: StepTimes) -> list[str]:
    if not times.recording or times.null is None:
        return []
    passes = ", ".join(f"{name} {_ratio(ratio)}" for name, ratio in times.recording.items())
    return [f"recorded / unrecorded: {passes}; unrecorded / unrecorded: {_ratio(times.null)}"]


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
    return [f"warning: {trouble}: times are longer and threads look as if they waited"] if trouble else []


def notes(run: Run, usage: Usage) -> list[str]:
    """What a reader of the numbers must know, each once."""
    texts = [*usage.notes, *run.notes, *_memory_notes(run), *_learning_notes(run)]
    return list(dict.fromkeys(texts))


def _memory_notes(run: Run) -> Sequence[str]:
    capture = run.capture("memory")
    if capture is None or capture is run.capture("time"):
        return ()
    return [str(note) for note in capture.facts.get("notes", ())]


def _learning_notes(run: Run) -> Sequence[str]:
    learning = run.learning
    if not learning:
        return ()
    losses = learning.get("losses", [])
    line = f"learned for {len(losses)} steps on {run.data}"
    if losses:
        line += f": loss {losses[0]:.3f} to {losses[-1]:.3f}"
    if learning.get("precision") is not None:
        line += f", precision@1 {100 * learning['precision']:.1f}% of {learning['tested']} images"
    return [line]
