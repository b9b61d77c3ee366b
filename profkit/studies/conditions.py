"""Under which conditions a study's cells run: threads, data, limits. A cell in, the request for its process out."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from profkit.data import SYNTHETIC, Data, load_data
from profkit.frameworks.events import MEMORY, TIME, load_source
from profkit.frameworks.machine import cpu_model
from profkit.measurement.network_run import NetworkRequest
from profkit.ops.networks import Network, Training
from profkit.studies.declaration import Study, Variant
from profkit.studies.plan import LEARN, StudyCell


@dataclass(frozen=True)
class StudyConditions:
    """Of one run of a study."""

    study: Study
    threads: int
    data_path: str | None = None
    """File or folder of the networks' data set; None: synthetic data."""
    seed: int = 0
    timeout_s: float = 120.0
    memory_limit_bytes: int | None = None

    def identity(self) -> dict[str, Any]:
        """All that decides what a cell's numbers are, as JSON values."""
        study = self.study
        return {
            "variants": {variant.name: self._about(variant) for variant in study.variants},
            "steps": study.steps,
            "learning": asdict(study.learning) if study.learning else None,
            "data": self.data_path or SYNTHETIC,
            "seed": self.seed,
            "processor": cpu_model(),
        }

    def threads_of(self, variant: Variant) -> int:
        return variant.setting.threads or self.threads

    def training_of(self, variant: Variant) -> Training:
        """How it learns in its measured steps."""
        training = self.study.learning.training if self.study.learning else Training()
        return training.with_optimizer(variant.setting.optimizer or training.optimizer)

    def _about(self, variant: Variant) -> dict[str, Any]:
        setting = {**asdict(variant.setting), "threads": self.threads_of(variant)}
        return {**variant.network.to_dict(), **setting}

    def data_for(self, network: Network) -> Data | None:
        """None: run_network makes synthetic data."""
        return None if self.data_path is None else _loaded(self.data_path, network)

    def request(self, cell: StudyCell) -> NetworkRequest:
        """What the process of a cell (other than a baseline) is asked to do."""
        study, learning = self.study, self.study.learning
        request = NetworkRequest(
            network=cell.variant.network,
            framework=cell.runner.framework,
            mode=cell.runner.mode,
            threads=self.threads_of(cell.variant),
            is_training=cell.variant.setting.training,
            training=self.training_of(cell.variant),
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
                learn_s=learning.limit_s or 0.0,
                learn_steps=learning.steps,
            )
        return replace(request, passes=_passes(request))


_kept: dict[Any, Data] = {}
"""The data that were read last: cells that follow each other mostly need the same."""


def _loaded(path: str, network: Network) -> Data:
    key = path, network.data, network.preparation, network.input_shape()[1:]
    if key not in _kept:
        _kept.clear()
        _kept[key] = load_data(path, network)
    return _kept[key]


def _passes(request: NetworkRequest) -> list[str]:
    """The first pass for time and the first for memory; others (primitives) are for a look at one network."""
    passes = load_source(request.framework).passes(request.conditions)
    found = [next((each.name for each in passes if measure in each.measures), None) for measure in (TIME, MEMORY)]
    return [name for name in dict.fromkeys(found) if name is not None]
