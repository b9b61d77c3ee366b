"""One network in several frameworks, side by side: captures in, a table of layer and phase by framework out.

Below a layer frameworks cannot be compared: each cuts it into operators of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from profkit.attribution.networks.operators import REMAINDERS, Operators, operators_of
from profkit.attribution.networks.usage import NO_LAYER
from profkit.capture.network_capture import NetworkCapture
from profkit.capture.schema import PHASES
from profkit.measurement.network_times import step_times
from profkit.ops.networks import network_from_dict
from profkit.rendering.quantities import time_text
from profkit.rendering.tables.table import Column, Line, Table
from profkit.rendering.usage.networks import network_words

LayerPhase = tuple[str, str]


def compare_layers(captures: Sequence[NetworkCapture]) -> Table:
    """Time of a recorded step by layer and phase; then what is in no operator, the step, and the unrecorded step."""
    operators = [operators_of(capture) for capture in captures]
    times = [_times(each) for each in operators]
    lines = [
        Line((place[0] or NO_LAYER, place[1], *(time_text(each.get(place)) for each in times)))
        for place in _in_order(captures[0], times)
    ]
    for name in REMAINDERS:
        known = [_remainder(each, name) for each in operators]
        if any(value is not None for value in known):
            lines.append(Line((name, "", *map(time_text, known))))
    lines.append(Line(("recorded step", "", *(time_text(_mean(each)) for each in operators)), "baseline"))
    unrecorded = [step_times(capture).step for capture in captures]
    lines.append(Line(("unrecorded step", "", *(time_text(step.value if step else None) for step in unrecorded))))
    columns = [Column("layer", "layer", is_text=True), Column("phase", "phase", is_text=True)]
    columns += [Column(f"framework {number}", text) for number, text in enumerate(_names(captures))]
    words = network_words(network_from_dict(captures[0].network))
    work = "training" if captures[0].is_training else "inference"
    return Table(
        title=f"Layer by framework: {words}, {work}",
        facts=("time of a step in the operators of a layer, mean of the recorded steps",),
        columns=columns,
        lines=lines,
        notes=("unrecorded step: median, nothing recorded; the frameworks ran one after another",),
    )


def _names(captures: Sequence[NetworkCapture]) -> list[str]:
    names = [capture.framework for capture in captures]
    return [
        f"{capture.framework}:{capture.mode}" if names.count(capture.framework) > 1 else capture.framework
        for capture in captures
    ]


def _times(operators: Operators) -> dict[LayerPhase, float]:
    """Mean nanoseconds of a step by layer and phase."""
    sums = operators.wall_by("layer", "phase")
    return {(layer, phase): float(values.mean()) for (layer, phase), values in sums.items()}


def _in_order(capture: NetworkCapture, times: Sequence[Mapping[LayerPhase, float]]) -> list[LayerPhase]:
    """Layers as the network has them, what is in none after them, phases as they run."""
    layers = [layer.name for layer in network_from_dict(capture.network).layers]
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
