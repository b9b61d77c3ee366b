"""Under which conditions a study's cells run: threads, data, limits. A cell in, the request for its process out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from profkit.errors import UsageError
from profkit.frameworks.events import MEMORY, TIME, load_source
from profkit.frameworks.machine import cpu_model
from profkit.measurement.network_run import NetworkRequest
from profkit.ops.networks import Network, Training
from profkit.ops.networks.cifar_files import load_cifar10
from profkit.ops.networks.data import SYNTHETIC, Data
from profkit.studies.declaration import Study
from profkit.studies.plan import LEARN, StudyCell

ENDLESS_S = 7 * 24 * 3600.0
"""How long learning may take that only its steps limit."""


@dataclass(frozen=True)
class StudyConditions:
    """Of one run of a study."""

    study: Study
    threads: int
    data_folder: str | None = None
    """With CIFAR-10's files; None: synthetic images."""
    seed: int = 0
    timeout_s: float = 120.0
    memory_limit_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.data_folder is not None and any(each.network.name != "cifar10" for each in self.study.variants):
            raise UsageError(f"--data is for CIFAR-10's files, and {self.study.name} is not about cifar10")

    def identity(self) -> dict[str, Any]:
        """All that decides what a cell's numbers are, as JSON values."""
        study = self.study
        return {
            "variants": {variant.name: variant.network.to_dict() for variant in study.variants},
            "is_training": study.is_training,
            "steps": study.steps,
            "threads": self.threads,
            "learning": asdict(study.learning) if study.learning else None,
            "data": self.data_folder or SYNTHETIC,
            "seed": self.seed,
            "processor": cpu_model(),
        }

    def data_for(self, network: Network) -> Data | None:
        """The images; None: run_network makes synthetic ones."""
        if self.data_folder is None:
            return None
        return _cifar10(self.data_folder, network.input_shape()[-1])

    def request(self, cell: StudyCell) -> NetworkRequest:
        """What the process of a cell (other than a baseline) is asked to do."""
        study, learning = self.study, self.study.learning
        request = NetworkRequest(
            network=cell.variant.network,
            framework=cell.runner.framework,
            mode=cell.runner.mode,
            threads=self.threads,
            is_training=study.is_training,
            training=learning.training if learning else Training(),
            steps=study.steps,
            data=self.data_for(cell.variant.network),
            seed=self.seed,
            timeout_s=self.timeout_s,
            memory_limit_bytes=self.memory_limit_bytes,
        )
        if cell.kind == LEARN and learning is not None:
            return replace(
                request,
                is_training=True,
                steps=0,
                passes=(),
                learn_s=learning.limit_s or ENDLESS_S,
                learn_steps=learning.steps,
            )
        return replace(request, passes=_passes(request))


@lru_cache(maxsize=1)
def _cifar10(folder: str, crop: int) -> Data:
    return load_cifar10(folder, crop)


def _passes(request: NetworkRequest) -> list[str]:
    """The first pass for time and the first for memory; others (primitives) are for a look at one network."""
    passes = load_source(request.framework).passes(request.conditions)
    found = [next((each.name for each in passes if measure in each.measures), None) for measure in (TIME, MEMORY)]
    return [name for name in dict.fromkeys(found) if name is not None]
