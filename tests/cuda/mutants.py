"""Mutants: a kernel with one seeded fault, built from a copy of the faulty file, and what its checks say."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from profkit.ops.spec import Spec
from tests.cuda.emulation import Case, EmulationError, link_emulated, run, run_kernels, troubles
from tests.support.places import SOURCES
from tests.support.shared_work import shared_folder

KERNELS = SOURCES / "kernels"
OPERANDS = ("matmul/cuda/double_buffered.cu", "matmul/cuda/scalar_kernels.cu")
"""What conv2d/im2col_batched multiplies with."""


@dataclass(frozen=True)
class Mutant:
    """One fault: in `file` the text `right`, which must be there exactly once, becomes `wrong`."""

    fault: str
    kernel: str
    """Operator and technique, softmax/warp_rows."""
    file: str
    right: str
    wrong: str
    spec: Spec
    report: str
    """Words of what must see the fault."""
    sanitizers: str = ""
    """Those that say them."""

    @property
    def units(self) -> list[Path]:
        """The sources that the kernel is made of: no others are compiled."""
        op, technique = self.kernel.split("/")
        entry = f"{op}_{technique}_cuda = "
        (found,) = (path for path in (KERNELS / op / "cuda").glob("*.cu") if entry in path.read_text())
        return [found, *(KERNELS / unit for unit in OPERANDS if technique == "im2col_batched")]

    @property
    def key(self) -> str:
        return self.kernel.replace("/", "/native/cuda/")


def reports(mutant: Mutant, folder: Path) -> tuple[str, str]:
    """What the checks say of the sound kernel and of the faulty one; empty: nothing is wrong."""
    return _report(mutant, folder, is_faulty=False), _report(mutant, folder, is_faulty=True)


def _report(mutant: Mutant, folder: Path, is_faulty: bool) -> str:
    """Everything that the layer, a sanitizer or the comparison with the reference says."""
    folder = folder / ("faulty" if is_faulty else "sound")
    folder.mkdir()
    op = mutant.kernel.split("/")[0]
    # Problems are small: compiling costs more than running.
    flags: tuple[str, ...] = ("-O0",)
    others = [(_only_row(op, mutant.key), flags), run_kernels(op)]
    if is_faulty:
        flags = (*flags, "-iquote", str(_overlay(mutant, folder)))
    units = [(unit, flags) for unit in mutant.units]
    program = link_emulated(f"{op}-mutant", [*units, *others], mutant.sanitizers)
    try:
        outcomes = run(program, [Case(mutant.key, mutant.spec)], folder, "random")
    except EmulationError as error:
        return str(error)
    assert not any(outcome.is_unsupported for outcome in outcomes), "the kernel does not take these problems"
    return "\n".join(troubles(outcomes))


def occurrences(mutant: Mutant) -> int:
    """How often the text that becomes wrong is in its file."""
    return (KERNELS / mutant.file).read_text().count(mutant.right)


def _overlay(mutant: Mutant, folder: Path) -> Path:
    """A folder that compilers search before csrc, with the faulty file in it."""
    faulty = folder / "overlay" / "kernels" / mutant.file
    faulty.parent.mkdir(parents=True)
    faulty.write_text((KERNELS / mutant.file).read_text().replace(mutant.right, mutant.wrong))
    return folder / "overlay"


@cache
def _only_row(op: str, key: str) -> Path:
    """The operator's list of kernels with this one row, so that the others' sources are not needed."""
    text = (KERNELS / op / "cuda/rows.cpp").read_text()
    rows = re.findall(r'\{"[^{}]*\},?', text)
    (wanted,) = (row for row in rows if row.startswith(f'{{"{key}"'))
    for row in rows:
        text = text.replace(row, row if row == wanted else "")
    path = shared_folder() / f"{key.replace('/', '-')}-rows.cpp"
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_text(text)
    unfinished.replace(path)
    return path
