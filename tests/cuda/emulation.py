"""CUDA kernels on the host SIMT layer: specs in, results of every kernel out. native/simt.h says what is emulated."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.frameworks.candidate.library import params_struct
from profkit.ops.spec import Spec, max_error, tolerance
from tests.support.places import CUDA_NATIVE, SOURCES
from tests.support.processes import finish, succeed
from tests.support.sanitized_programs import compiled_object
from tests.support.shared_work import locked, shared_folder

PROOF = "PROFKIT_PROOF"
"""The variable that names a file to which every run adds what it ran: bench/cuda_kernels.py makes its report of it."""
ORDERS = ("ascending", "descending", "random")
CAPABILITY = 90
POLICY = -1
# What else an operator's kernels are made of.
_PARTS = {"conv2d": ("matmul",)}
# -O2: unoptimised, the deep templates of a tiled product run ten times slower; under a sanitizer -O1, since there
# compiling takes longer than running. -fPIC: the same objects make the double of the CUDA runtime.
EMULATED_FLAGS = ("-std=c++17", "-O2", "-g1", "-fPIC", "-DPROFKIT_EMULATED", "-I", str(SOURCES), "-I", str(CUDA_NATIVE))
_SANITIZED = {
    "": (),
    "address": ("-DPROFKIT_UNDER_ASAN",),
    "address,undefined": ("-DPROFKIT_UNDER_ASAN",),
    "thread": ("-DPROFKIT_UNDER_TSAN",),
}


@dataclass(frozen=True)
class Case:
    """One kernel on one problem."""

    key: str
    spec: Spec
    configuration: int = POLICY
    capability: int = CAPABILITY
    seed: int = 0

    def __str__(self) -> str:
        words = " ".join(f"{name}={word}" for name, word in self.spec.words().items())
        return f"{self.key} configuration {self.configuration} {words}"


@dataclass(frozen=True)
class Outcome:
    case: Case
    error: str
    output: np.ndarray[Any, Any] | None

    @property
    def is_unsupported(self) -> bool:
        return self.error.startswith("unsupported: ")

    def trouble(self, rounding: float = 1.0) -> str:
        """Empty when the result is right; `rounding` widens the tolerance of kernels that compute more coarsely."""
        if self.error or self.output is None:
            return f"{self.case}: {self.error}"
        spec = self.case.spec
        error = max_error(self.output, spec.reference(spec.make_inputs(self.case.seed)))
        limit = tolerance(self.output.dtype, spec.reduction_length()) * rounding
        return "" if error <= limit else f"{self.case}: error {error:.3g}, at most {limit:.3g}"


def all_cuda_sources() -> list[Path]:
    return sorted((SOURCES / "kernels").glob("*/cuda/*.cu"))


def cuda_sources(op: str) -> list[Path]:
    """Those of one operator and of the operators it is made of."""
    return [path for path in all_cuda_sources() if path.parents[1].name in (op, *_PARTS.get(op, ()))]


def build(op: str, sanitizers: str = "") -> Path:
    """The program that runs the operator's emulated kernels."""
    parts = (op, *_PARTS.get(op, ()))
    kernels = [*cuda_sources(op), *(SOURCES / "kernels" / part / "cuda/rows.cpp" for part in parts)]
    return link_emulated(op, [*((path, ()) for path in kernels), run_kernels(op)], sanitizers)


def run_kernels(op: str) -> tuple[Path, tuple[str, ...]]:
    """The main program of an operator's kernels, with the flags it needs."""
    return CUDA_NATIVE / "run_kernels.cpp", (
        f"-DPROFKIT_FAMILY={op}",
        f'-DPROFKIT_PARAMS_HEADER="kernels/{op}/params.h"',
    )


def link_emulated(name: str, sources: Sequence[tuple[Path, tuple[str, ...]]], sanitizers: str = "") -> Path:
    """A program of the host SIMT layer and these sources, each compiled with flags of its own after the usual ones."""
    folder = shared_folder()
    instrumented = ("-O1", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all") if sanitizers else ()
    flags = (*EMULATED_FLAGS, *_SANITIZED[sanitizers])
    jobs = [
        *((path, (*flags, "-x", "c++", *instrumented, *own)) for path, own in sources),
        (CUDA_NATIVE / "simt.cpp", flags),
        (CUDA_NATIVE / "simt_fiber.cpp", flags),
    ]
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda job: compiled_object(*job), jobs))
    kind = sanitizers.replace(",", "+") or "plain"
    program = folder / f"{name}-{kind}-{hashlib.sha256(repr(objects).encode()).hexdigest()[:16]}"
    with locked(program.name):
        if not program.exists():
            unfinished = program.with_suffix(".unfinished")
            linked = finish(["g++", *instrumented, "-rdynamic", *objects, "-o", str(unfinished), "-ldl"])
            if "cannot find" in linked.stderr:
                pytest.skip(f"the compiler has no sanitizer {sanitizers}")
            assert linked.returncode == 0, linked.stderr
            unfinished.replace(program)
    return program


def kernels_of(program: Path) -> dict[str, list[str]]:
    """Keys of the registry's rows with the names of their configurations."""
    lines = succeed([str(program)]).splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines}


def run(
    program: Path,
    cases: Sequence[Case],
    folder: Path,
    order: str = "ascending",
    environment: dict[str, str] | None = None,
) -> list[Outcome]:
    """Run all cases in one process; a process that dies is a failure with what it printed."""
    request, answer = folder / f"request-{order}", folder / f"answer-{order}"
    request.write_bytes(_request(cases))
    command = [str(program), order, "7", str(request), str(answer)]
    done = finish(command, {**os.environ, **(environment or {})}, errors="replace")
    if done.returncode:
        raise EmulationError(done.returncode, done.stderr)
    outcomes = _outcomes(cases, answer.read_bytes())
    note_proof(
        program.name.split("-")[1],
        ((outcome.case.key, str(outcome.case.spec)) for outcome in outcomes if not outcome.error),
        order=order,
    )
    return outcomes


def note_proof(kind: str, ran: Iterable[tuple[str, str]], **more: Any) -> None:
    """Add what ran (key and spec) to the file where one is wanted; whether it was right is the test's to say."""
    if PROOF in os.environ:
        line = {"kind": kind, "ran": sorted(set(ran)), **more}
        with open(os.environ[PROOF], "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


class EmulationError(Exception):
    """The program ended with an error: a sanitizer's report, mostly."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"exit code {code}\n{text[:4000]}")
        self.code, self.text = code, text


def troubles(outcomes: Iterable[Outcome], rounding: float = 1.0) -> list[str]:
    """What is wrong, for people."""
    return [text for outcome in outcomes if not outcome.is_unsupported and (text := outcome.trouble(rounding))]


def packed_params(spec: Spec) -> bytes:
    return bytes(params_struct(spec))


def _bytes(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def _request(cases: Sequence[Case]) -> bytes:
    parts = [struct.pack("<I", len(cases))]
    for case in cases:
        inputs = case.spec.make_inputs(case.seed).values()
        size = int(np.prod(case.spec.output_shape(), dtype=np.int64)) * case.spec.numpy_dtype.itemsize
        parts += [_bytes(case.key.encode()), struct.pack("<Ii", case.capability, case.configuration)]
        parts += [_bytes(packed_params(case.spec)), struct.pack("<I", len(inputs))]
        parts += [_bytes(np.ascontiguousarray(array).tobytes()) for array in inputs]
        parts.append(struct.pack("<Q", size))
    return b"".join(parts)


def _outcomes(cases: Sequence[Case], data: bytes) -> list[Outcome]:
    place, outcomes = 0, []

    def take() -> bytes:
        nonlocal place
        (size,) = struct.unpack_from("<Q", data, place)
        part = data[place + 8 : place + 8 + size]
        place += 8 + size
        return part

    for case in cases:
        error = take().decode()
        place += 8  # workspace bytes
        raw = take()
        output = np.frombuffer(raw, case.spec.numpy_dtype).reshape(case.spec.output_shape()) if not error else None
        outcomes.append(Outcome(case, error, output))
    return outcomes
