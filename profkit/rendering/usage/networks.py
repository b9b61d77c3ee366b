"""What a report of a network's run says: a NetworkCapture and its Usage in, a Table out."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.attribution.networks.usage import network_usage
from profkit.attribution.usage import Usage
from profkit.capture.network_capture import NetworkCapture
from profkit.measurement.network_times import StepTimes, step_times
from profkit.measurement.statistics import Estimate
from profkit.ops.networks import network_from_dict
from profkit.ops.networks.network import Network
from profkit.rendering.quantities import error_text, ratio_interval_text, spread_text, time_text
from profkit.rendering.tables.table import Table
from profkit.rendering.usage.columns import flops_text
from profkit.rendering.usage.content import TableContext, View, build_table


def network_table(capture: NetworkCapture, usage: Usage | None = None, view: View | None = None) -> Table:
    """The report of a run: a table of one step, by kind of operator unless a Usage is given."""
    usage = network_usage(capture, "kind") if usage is None else usage
    return build_table(usage.mean_of_steps(), view or View(), network_surroundings(capture, usage))


def network_surroundings(capture: NetworkCapture, usage: Usage) -> TableContext:
    """Title and facts of the run, what recording cost, and notes; the table in between shows one step."""
    lost = f"{usage.dropped:,} records were lost while recording" if usage.dropped else ""
    return TableContext(
        heads=[network_title(capture), *run_lines(capture), *disturbance_lines(capture), _table_line(usage)],
        losses=[lost] if lost else [],
        warnings=failure_lines(capture),
        instead=[] if usage.rows else ["no operator was recorded"],
        notes=notes(capture, usage),
    )


def network_title(capture: NetworkCapture) -> str:
    """Which network, with its numbers, and where it ran."""
    work = "training" if capture.is_training else "inference"
    threads = f"{capture.threads} thread{'s' if capture.threads != 1 else ''}"
    return f"{network_words(network_from_dict(capture.network))}: {work} in {framework_words(capture)}, {threads}"


def network_words(network: Network) -> str:
    """The network with all its parameters: `cifar10 batch 128, stride 2, ...`."""
    words = ", ".join(f"{name.replace('_', '-')} {word}" for name, word in network.words().items())
    return f"{network.name} {words}"


def framework_words(capture: NetworkCapture) -> str:
    """`tensorflow 2.21.0 (graph)`; `caffe by opencv 4.14.0 (graph)` where another program runs it."""
    versions = capture.versions
    words = [capture.framework, versions.get("version") or versions.get(capture.framework, "")]
    if not words[1] and versions:
        words[1:] = ["by", *next(iter(versions.items()))]
    return " ".join(filter(None, [*words, f"({capture.mode})" if capture.mode else ""]))


def run_lines(capture: NetworkCapture) -> list[str]:
    """Size and data, how it was checked, how long a step takes, what recording costs."""
    network = network_from_dict(capture.network)
    size = (
        f"{network.parameter_count():,} parameters, {flops_text(network.multiply_adds())} multiply-adds per "
        f"{'image' if len(network.input_shape()) == 4 else 'row'} (forward); {capture.data or 'no data'}"
    )
    if capture.is_training:
        size += f"; SGD {', '.join(f'{name} {value}'.replace('_', ' ') for name, value in capture.training.items())}"
    lines = [size]
    if capture.error is not None:
        what = "loss and every weight after one step" if capture.is_training else "logits"
        lines.append(
            f"checked against float64, {what}: error {error_text(capture.error)}, tolerance "
            f"{error_text(capture.tolerance)}"
        )
    return lines + time_lines(capture)


def time_lines(capture: NetworkCapture) -> list[str]:
    """The unrecorded step, and the ratio of recorded to unrecorded beside that of unrecorded to unrecorded."""
    times = step_times(capture)
    if times.step is None:
        return []
    spread = spread_text(times.step.value, times.step.low, times.step.high)
    line = f"unrecorded step: {time_text(times.step.value)} {spread}".rstrip() + f", median of {times.samples}"
    if capture.first_step_ns is not None:
        line += f"; the first step took {time_text(capture.first_step_ns)}"
    return [line, *_recording_lines(times)]


def _recording_lines(times: StepTimes) -> list[str]:
    if not times.recording or times.null is None:
        return []
    passes = ", ".join(f"{name} {_ratio(ratio)}" for name, ratio in times.recording.items())
    return [f"recorded / unrecorded: {passes}; unrecorded / unrecorded: {_ratio(times.null)}"]


def _ratio(estimate: Estimate) -> str:
    return ratio_interval_text(estimate.value, estimate.low, estimate.high)


def _table_line(usage: Usage) -> str:
    steps = "the one recorded step" if usage.steps == 1 else f"mean of {usage.steps} recorded steps"
    return f"table: {steps}; own times and the rows below add up to the step's wall clock"


def failure_lines(capture: NetworkCapture) -> list[str]:
    """Why a run is not whole; nothing when it is."""
    if capture.status == "ok":
        return []
    return [f"{capture.framework}: {capture.status}" + (f", {capture.reason}" if capture.reason else "")]


def disturbance_lines(capture: NetworkCapture) -> list[str]:
    """What makes all times doubtful; a thread that was preempted also looks like one that waited."""
    trouble = capture.disturbance()
    return [f"warning: {trouble}: times are longer and threads look as if they waited"] if trouble else []


def notes(capture: NetworkCapture, usage: Usage) -> list[str]:
    """What a reader of the numbers must know, each once."""
    texts = [*usage.notes, *capture.notes, *_memory_notes(capture), *_learning_notes(capture)]
    return list(dict.fromkeys(texts))


def _memory_notes(capture: NetworkCapture) -> Sequence[str]:
    recording = capture.recording("memory")
    if recording is None or recording is capture.recording("time"):
        return ()
    return [str(note) for note in recording.facts.get("notes", ())]


def _learning_notes(capture: NetworkCapture) -> Sequence[str]:
    learning = capture.learning
    if not learning:
        return ()
    losses = learning.get("losses", [])
    line = f"learned for {len(losses)} steps on {capture.data}"
    if losses:
        line += f": loss {losses[0]:.3f} to {losses[-1]:.3f}"
    if learning.get("precision") is not None:
        line += f", precision@1 {100 * learning['precision']:.1f}% of {learning['tested']} images"
    return [line]
