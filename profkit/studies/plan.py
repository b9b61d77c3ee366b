"""What a study runs, one cell after another: a Study in, cells in order out, with the time they will roughly take.

Repetitions come last-changing, and within one the frameworks of a variant follow each other in rotating order: what
disturbs the machine for a while hits all alike, and a run that is cut short has seen every variant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from profkit.errors import UsageError, nearest
from profkit.studies.declaration import Runner, Study, Variant
from profkit.studies.sweeps import file_word

MEASURE, LEARN, BASELINE = "measure", "learn", "baseline"
NATIVE = Runner("native")
# Guesses for a machine that has not run the study yet; a finished cell of the same framework replaces them.
_START_S = {"tensorflow": 12.0, "keras": 12.0, "torch": 8.0, "jax": 8.0, "numba": 8.0, "theano": 20.0, "numpy": 2.0}
_OTHER_START_S = 4.0
_BASELINE_S = 6.0
_FLOPS_PER_S = 20e9
_TIMES_RUN = 5
"""Recorded steps alternate with unrecorded ones, in a pass for time and one for memory."""
_TRAINING = 3
"""Steps of inference that one of training takes: forward, and the gradients of inputs and of weights."""


@dataclass(frozen=True)
class StudyCell:
    """One process of the study, and one file of its results."""

    id: str
    kind: str
    """measure; learn: train once and measure precision; baseline: native kernels and the roofline, layer by layer."""
    variant: Variant
    runner: Runner
    repetition: int = 0
    skipped: str = ""
    """Why it is not run; empty for one that is."""

    @property
    def title(self) -> str:
        if self.kind == BASELINE:
            return f"{self.variant.name}: best native kernels"
        if self.kind == LEARN:
            return f"{self.variant.name}: learning with {self.runner.key}"
        return f"{self.variant.name}: {self.runner.key}, repetition {self.repetition}"

    def about(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "variant": self.variant.name,
            "framework": self.runner.key,
            "repetition": self.repetition,
        }


def plan_cells(study: Study, processors: int | None = None) -> list[StudyCell]:
    """All cells, those that are skipped too; `processors` that this machine has, None: any number."""
    cells: list[StudyCell] = []
    for repetition in range(1, study.repetitions + 1):
        for sweep, variant in study.places():
            turn = (repetition - 1) % len(study.runners)
            for runner in (*study.runners[turn:], *study.runners[:turn]):
                name = f"{file_word(variant.name)}.{file_word(runner.key)}.{repetition}"
                skipped = sweep.skip_reason(variant, runner.key) or _too_many_threads(variant, processors)
                cells.append(StudyCell(name, MEASURE, variant, runner, repetition, skipped))
        once = {}
        if repetition == 1 and study.has_baseline:
            once[BASELINE] = NATIVE
        if repetition == 1 and study.learning is not None:
            once[LEARN] = study.learning.runner
        for kind, runner in once.items():
            measured = dict.fromkeys(cell.variant.name for cell in cells if not cell.skipped)
            cells += [
                StudyCell(f"{file_word(each.name)}.{kind}", kind, each, runner)
                for each in study.variants
                if each.name in measured
            ]
    return cells


def _too_many_threads(variant: Variant, processors: int | None) -> str:
    threads = variant.setting.threads
    if processors is None or threads is None or threads <= processors:
        return ""
    return f"{threads} threads need {threads} processors, and this process may use {processors}"


def select_cells(cells: Sequence[StudyCell], only: Sequence[str]) -> list[StudyCell]:
    """Cells of the named variants and frameworks (with * as wildcard); names of one kind do not restrict the other.

    What is done once per variant goes with its variant.
    """
    frameworks = dict.fromkeys(cell.runner.key for cell in cells if cell.kind == MEASURE)
    variants = dict.fromkeys(cell.variant.name for cell in cells)
    wanted = {name for word in only for name in _named(word, [*frameworks, *variants])}
    kept_frameworks = wanted & frameworks.keys() or frameworks.keys()
    kept_variants = wanted & variants.keys() or variants.keys()
    return [
        cell
        for cell in cells
        if cell.variant.name in kept_variants and (cell.kind != MEASURE or cell.runner.key in kept_frameworks)
    ]


def _named(word: str, names: Sequence[str]) -> list[str]:
    """The names that a word means; one with commas may be a name itself, or several words."""
    if found := [name for name in names if fnmatchcase(name, word.strip())]:
        return found
    if "," in word:
        return [name for part in word.split(",") if part.strip() for name in _named(part, names)]
    raise UsageError(f"--only {word.strip()}: no framework or variant of this study; {nearest(word, names)}")


def estimate_s(cell: StudyCell, study: Study, threads: int, taken_s: Mapping[tuple[str, str], float]) -> float:
    """Seconds that a cell will take: as others of its kind and framework did (`taken_s`), else a guess."""
    known = taken_s.get((cell.kind, cell.runner.key))
    if known is not None:
        return known
    if cell.kind == BASELINE:
        return _BASELINE_S
    network, setting = cell.variant.network, cell.variant.setting
    threads = setting.threads or threads
    step_s = 2.0 * network.multiply_adds() * network.input_shape()[0] / (_FLOPS_PER_S * threads)
    start_s = _START_S.get(cell.runner.framework, _OTHER_START_S)
    if cell.kind == LEARN and study.learning is not None:
        return start_s + min(_TRAINING * step_s * study.learning.steps, study.learning.limit_s or float("inf"))
    return start_s + _TIMES_RUN * study.steps * step_s * (_TRAINING if setting.training else 1)
