"""One network in several frameworks, side by side: runs in, a table of layer and phase by framework out.

Below a layer frameworks cannot be compared: each cuts it into operators of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from profkit.attribution.networks.operators import REMAINDERS, LayerPhase, Operators, operators_of
from profkit.capture.run import Run
from profkit.capture.schema import PHASES
from profkit.measurement.network_times import step_times
from profkit.ops.networks import network_from_dict
from profkit.rendering.quantities import time_text
from profkit.rendering.tables.table import Column, Line, Table
from profkit.rendering.usage.networks import network_words


def compare_layers(runs: Sequence[Run]) -> Table:
    """Time of a recorded step by layer and phase; then what is in no operator, the step, and the unrecorded step."""
    operators = [operators_of(run) for run in runs]
    times = [_times(each) for each in operators]
    lines = [
        Line((place[0] or "(no layer)", place[1], *(time_text(each.get(place)) for each in times)))
        for place in _in_order(runs[0], times)
    ]
    for name in REMAINDERS:
        known = [_remainder(each, name) for each in operators]
        if any(value is not None for value in known):
            lines.append(Line((name, "", *map(time_text, known))))
    lines.append(Line(("recorded step", "", *(time_text(_mean(each)) for each in operators)), "baseline"))
    unrecorded = [step_times(run).step for run in runs]
    lines.append(Line(("unrecorded step", "", *(time_text(step.value if step else None) for step in unrecorded))))
    columns = [Column("layer", "layer", is_text=True), Column("phase", "phase", is_text=True)]
    columns += [Column(f"framework {number}", text) for number, text in enumerate(_names(runs))]
    words = network_words(network_from_dict(runs[0].network))
    work = "training" if runs[0].is_training else "inference"
    return Table(
        title=f"Layer by framework: {words}, {work}",
        facts=("time of a step in the operators of a layer, mean of the recorded steps",),
        columns=columns,
        lines=lines,
        notes=("unrecorded step: median, nothing recorded; the frameworks ran one after another",),
    )


def _names(runs: Sequence[Run]) -> list[str]:
    names = [run.framework for run in runs]
    return [f"{run.framework}:{run.mode}" if names.count(run.framework) > 1 else run.framework for run in runs]


def _times(operators: Operators) -> dict[LayerPhase, float]:
    """Mean nanoseconds of a step by layer and phase."""
    sums = operators.wall_by("layer", "phase")
    return {(layer, phase): float(values.mean()) for (layer, phase), values in sums.items()}


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


def _remainder(operators: Operators, name: str) -> float | None:
    return float(operators.remainders[name].mean()) if name in operators.observed_remainders else None


def _mean(operators: Operators) -> float | None:
    return float(operators.step_ns.mean()) if operators.steps else None
