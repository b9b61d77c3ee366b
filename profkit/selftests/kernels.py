"""Every kernel over its shapes against float64: the parent requests one run at a time, so that it knows which one
hung or ended its process, and continues with the next kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Implementation
from profkit.frameworks.native.cuda import LACKING
from profkit.frameworks.native.operators import kernel_key
from profkit.measurement.workers.process import WorkerFailure
from profkit.measurement.workers.protocol import Message
from profkit.ops import SPECS, odd_specs, presets_for
from profkit.ops.spec import Spec
from profkit.selftests.check_process import CheckProcess, status_of
from profkit.selftests.findings import PROVEN, WRONG, KernelProof

MOST_FLOPS, MOST_BYTES = 3e8, 32 << 20
"""Of presets: with more, the kernels that are written to be read, and float64, take seconds."""
TUNED_FLOPS = 3e7
"""Every block size is tried on shapes of at most so many."""


@cache
def shapes_of(op: str, is_full: bool) -> tuple[Spec, ...]:
    """Odd, round and larger ones; `is_full` adds the layers of real networks."""
    found = [*odd_specs(op), *SPECS[op].round_shapes(), *SPECS[op].larger_shapes()]
    if is_full:
        presets = presets_for(op).values()
        found += [spec for spec in presets if spec.flops() <= MOST_FLOPS and spec.min_bytes() <= MOST_BYTES]
    return tuple(dict.fromkeys(found))


KernelProgress = Callable[[float, str], None]
NAMED_REFUSALS = 2


def native_rows(adapter: str) -> list[Implementation]:
    """All rows of the compiled registry, forms of kernels included; instruction sets may differ in them."""
    rows = [row for op in SPECS for row in load_adapter(adapter).implementations(op)]
    return [row for row in rows if LACKING not in row.options]


def rows_here(process: CheckProcess, adapter: str) -> list[Implementation]:
    """The rows that this process has; WorkerFailure when it does not answer."""
    return [Implementation(**row) for row in process.ask({"do": "rows", "adapter": adapter})["rows"]]


def prove_kernels(
    process: CheckProcess,
    rows: Sequence[Implementation],
    place: str,
    threads: int,
    is_full: bool,
    tell: KernelProgress,
    proofs: list[KernelProof],
) -> None:
    """Add one proof per row; a failure costs the rest of its row only, and what hung is not tried in other ways."""
    for number, row in enumerate(rows):
        tell(number / len(rows), row.key)
        hung = next((proof.place for proof in proofs if proof.hung and proof.kernel == kernel_key(row)), "")
        proofs.append(KernelProof(row.key, place, kernel_key(row), reason="it was not finished"))
        if hung:
            proofs[-1].reason = f"it hung on {hung}: not tried here"
        else:
            _prove(process, row, proofs[-1], threads, is_full)


def _prove(process: CheckProcess, row: Implementation, proof: KernelProof, threads: int, is_full: bool) -> None:
    shapes = shapes_of(row.op, is_full)
    about = {"adapter": row.adapter, "key": row.key, "is_full": is_full}
    try:
        offered: list[Message] = process.ask({"do": "kernel_runs", "threads": threads, **about})["shapes"]
    except WorkerFailure as failure:
        _fail(proof, failure, "")
        return
    refusals = Counter(shape["refused"] for shape in offered if shape["refused"])
    proof.refusals, proof.refused = dict(refusals), refusals.total()
    proof.refused_here = sum(shape["is_taken_elsewhere"] for shape in offered)
    proof.left = len(offered) - proof.refused
    for number, shape in enumerate(offered):
        for tuning, count in shape["runs"]:
            run = {"shape": number, "tuning": tuning, "threads": count}
            try:
                answer = process.ask({"do": "run_kernel", **about, **run})
            except WorkerFailure as failure:
                _fail(proof, failure, _run_text(shapes[number], tuning, count))
                return
            proof.runs += 1
            error, limit = answer["max_error"], answer["tolerance"]
            proof.take_error(error, limit, {**answer["spec"], "tuning": tuning, "threads": count})
            if not error <= limit:
                error = f"error {error:.2g} exceeds the tolerance {limit:.2g}"
                proof.status, proof.reason = WRONG, f"{error}: {_run_text(shapes[number], tuning, count)}"
                return
        if shape["runs"]:
            proof.shapes += 1
            proof.left -= 1
    _finish(proof)


def _finish(proof: KernelProof) -> None:
    if not proof.runs:
        # Forms of a kernel have additional reasons, and would need a line each.
        commonest = max(proof.refusals, key=proof.refusals.__getitem__, default="")
        proof.reason = f"it refuses all {proof.refused} shapes: {commonest}"
    elif proof.refused_here:
        named = "; ".join(list(proof.refusals)[:NAMED_REFUSALS])
        proof.reason = f"it refuses {proof.refused_here} shapes that it takes elsewhere: {named}"
    else:
        proof.status, proof.reason = PROVEN, ""


def _fail(proof: KernelProof, failure: WorkerFailure, run: str) -> None:
    proof.status, reason = status_of(failure)
    proof.hung = failure.status == "timeout"
    proof.reason = f"{reason}: {run}" if run else reason


def _run_text(spec: Spec, tuning: str, threads: int) -> str:
    """What ran, for people who want to run it again."""
    words = spec.words()
    usual = type(spec)().words()
    text = ", ".join(f"{name.replace('_', '-')} {word}" for name, word in words.items() if word != usual[name])
    return ", ".join(filter(None, (f"{spec.op} {text}", f"{threads} threads" if threads > 1 else "", tuning)))
