"""The tables of docs/networks.md: every network with its size, and which framework builds which layers and optimisers.

Nothing is measured: numbers are those of the declarations. `python bench/networks_page.py` writes them into the page.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

from profkit.frameworks.networks import BUILDERS, load_builder
from profkit.frameworks.networks.contract import CHAIN_KINDS, NESTEROV
from profkit.ops.networks import NETWORKS
from profkit.ops.networks.layer import LAYER_KINDS
from profkit.ops.networks.memory import network_memory
from profkit.ops.networks.work import network_work
from profkit.ops.optimiser_step import OPTIMISERS
from profkit.rendering.quantities import ABSENT, bytes_text
from profkit.rendering.usage.columns import flops_text

PAGE = Path(__file__).parents[1] / "docs" / "networks.md"


def networks_table() -> list[str]:
    """At the default parameters."""
    rows = [["network", "input of one step", "layers", "parameters", "multiply-adds of one input"]]
    rows[0] += ["flops of a training step", "results kept", "memory of a training step"]
    for name, kind in NETWORKS.items():
        network = kind()
        training = network.training
        memory = network_memory(network, training)
        flops = sum(part.flops for part in network_work(network, training).values())
        rows.append(
            [
                f"`{name}`",
                " x ".join(map(str, network.input_shape())) + (" indices" if network.vocabulary else ""),
                str(len(network.layers)),
                f"{network.parameter_count():,}",
                flops_text(network.multiply_adds()),
                flops_text(flops),
                bytes_text(memory.activations),
                f"{bytes_text(memory.total)} ({training.optimizer})",
            ]
        )
    return _markdown(rows, right_from=2)


def layers_table() -> list[str]:
    """A row per kind of layer and per optimiser, a column per framework."""
    builders = [load_builder(name) for name in BUILDERS]
    rows = [["layer", *BUILDERS]]
    for kind in LAYER_KINDS:
        cells = []
        for builder in builders:
            kinds = CHAIN_KINDS if builder.kinds is None else builder.kinds
            word = "composed" if kind in builder.composed else "numpy" if kind in builder.by_numpy else "native"
            cells.append(word if kind in kinds else ABSENT)
        rows.append([kind, *cells])
    rows.append(["branches", *(ABSENT if builder.kinds is None else "yes" for builder in builders)])
    for optimizer in (*OPTIMISERS, NESTEROV):
        cells = ["yes" if optimizer in builder.optimizers else ABSENT for builder in builders]
        rows.append([f"optimiser {optimizer}", *cells])
    rows.append(["schedules", *("yes" if builder.has_schedules else ABSENT for builder in builders)])
    return _markdown(rows, right_from=math.inf)


def _markdown(rows: Sequence[Sequence[str]], right_from: float) -> list[str]:
    marks = ["---:" if place >= right_from else "---" for place in range(len(rows[0]))]
    return [f"| {' | '.join(cells)} |" for cells in (rows[0], marks, *rows[1:])]


TABLES = {"networks": networks_table, "layers": layers_table}


def filled(page: str) -> str:
    """The page with its tables as they are now; each stands between comments with its name."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, _, rest = page.partition(begin)
        _, _, tail = rest.partition(end)
        page = head + begin + "\n" + "\n".join(table()) + "\n\n" + end + tail
    return page


def main() -> int:
    """Write the page."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
