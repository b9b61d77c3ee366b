"""Requests to a candidate's worker besides its samples: results of random timed calls, calls on new contents.

Input: one cell's problem, and a function that asks a worker. Output: right or wrong results, and times of single
calls, which audit.py judges. Requests look alike until they are there, and what they ask for is drawn here.
"""

from __future__ import annotations

import math
import os
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profkit.measurement.arrays import read_file, result_path
from profkit.measurement.checks.audit import AuditLog, CallTimes
from profkit.measurement.checks.contents import (
    PROBES,
    contents_seed,
    contents_sum,
    mixed,
    new_contents,
    nudged_contents,
)
from profkit.measurement.checks.correctness import HardInputs
from profkit.ops.dtypes import from_file
from profkit.ops.parts import Part, activation_values, activations, part_count, part_of
from profkit.ops.spec import Array, Spec, max_error, tolerance

MOST_CHECKS = 16
"""A kernel that returns an earlier result in every fifth call is found by so many in 97 %, by 5 in 67 %."""
CHECK_SHARE, POKE_SHARE, AUDIT_SHARE = 0.05, 0.1, 0.1
"""Of the sampling time, that checks of timed calls, samples on changing contents and audits of all rows may take; every
row has one check."""
LEAST_S = 0.01
"""Of a check or a pair, however short the calls."""
POKED = 8
"""Elements of an activation that change before a checked call."""
PAIRS, MOST_PAIRS = 11, 33
"""More than the first only while noise hides what is looked for."""
PAIRS_IN_RACE = 6
FEWEST_PAIRS = 5
LONGEST_AUDIT_S = 4.0
"""Of one row, as far as FEWEST_PAIRS take no longer."""
LONGEST_PAIR_S = 2.0
SHORT_NS, MOST_REPEATS = 1e5, 8
"""Calls below this are audited in groups: a single one cannot be distinguished from noise."""
CALLS_OF_PAIR = 7.0
"""Of a long call, with some for writing and checking."""
FEW_VALUES = 1 << 16
"""A processor learns the branches of so few activations when they are always the same: torch's maximum pooling of 512
takes twice as long on others. They are nudged, so that branches stay."""
CALLS_OF_POKED = 4.0
"""Of a sample on changing contents: it, the one that it is compared with, and calls before each."""
LEAD_NS = 2e6
"""Calls before an audited one, as in the loop."""
CHECKED_PARTS = 2

KEPT = "it is that of the inputs before they changed: a result of earlier calls was kept"
AUDIT_FIELDS = ("call_ns", "processor_ns", "lead_ns", "lead_processor_ns")
ANSWERED = {"poked_sample": "poked_ns", "result_hex": "result_sum", "is_fresh": "call_ns"}
"""What a request asks for, and the field of its answer."""
Answer = Mapping[str, Any]
Ask = Callable[[dict[str, Any]], Answer | None]


def is_answered(request: Mapping[str, Any], answer: Answer) -> bool:
    """Whether the answer has what was asked for: a kernel may have changed the request on its way."""
    return all(field in answer for asked, field in ANSWERED.items() if asked in request)


class WrongResultFoundError(Exception):
    """Problems of a result other than its error."""


@dataclass
class Check:
    """The request of a call whose result native code keeps."""

    seed: int
    path: str
    spec: Spec
    inputs: Mapping[str, Array]
    reference: Callable[[], NDArray[np.float64]]
    spoils: bool = False
    part: Part | None = None
    """In which activations were changed."""
    pokes: list[tuple[int, int, int]] = field(default_factory=list)
    """Input, byte and new bits."""
    changed: dict[str, Array] = field(default_factory=dict)
    """The part's inputs then."""

    def fields(self) -> dict[str, Any]:
        """Of the request."""
        return {
            "seed": self.seed,
            "result_hex": os.fsencode(self.path).hex(),
            "spoils": int(self.spoils),
            "pokes": [number for poke in self.pokes for number in poke],
        }

    def result(self, answer: Answer) -> Array:
        """The kept result; WrongResultFoundError if it is not the one that native code kept, or still changed."""
        dtype, shape = self.spec.numpy_dtype, self.spec.output_shape()
        size = math.prod(shape)
        probes = min(PROBES, size)
        try:
            kept = read_file(self.path, size * dtype.itemsize + probes * (8 + dtype.itemsize))
            os.unlink(self.path)
        except OSError as error:
            raise WrongResultFoundError(f"its result cannot be read: {error}") from None
        if contents_sum(self.seed, kept) != answer["result_sum"]:
            raise WrongResultFoundError("the file of its result is not what was written for the check")
        bits = np.dtype(f"u{dtype.itemsize}")
        values = np.frombuffer(kept, bits, size)
        numbers = np.frombuffer(kept, np.uint64, probes, size * dtype.itemsize) if probes else np.zeros(0, np.uint64)
        probed = np.frombuffer(kept, bits, probes, size * dtype.itemsize + 8 * probes)
        with np.errstate(over="ignore"):
            asked = mixed(np.arange(probes, dtype=np.uint64) + np.uint64(self.seed)) % np.uint64(max(1, size))
        if not np.array_equal(numbers, asked) or not np.array_equal(values[numbers.astype(np.int64)], probed):
            raise WrongResultFoundError("its result still changed after the call had returned: work was left running")
        return from_file(values.view(np.uint16) if dtype.name == "bfloat16" else values.view(dtype), dtype).reshape(
            shape
        )

    def expected(self) -> NDArray[np.float64]:
        """The result of the inputs as they were then."""
        whole = self.reference()
        if self.part is None:
            return whole
        expected: NDArray[np.float64] = whole.copy()
        piece = expected[self.part.output]
        piece[...] = self.part.reference(self.changed, piece.shape)
        return expected

    def explanation(self, result: Array, limit: float) -> str:
        """Words for a result that is wrong now: whether it is that of other inputs, or was not written."""
        if self.part is not None and max_error(result, self.reference()) <= limit:
            return KEPT
        size = self.spec.numpy_dtype.itemsize
        ones = np.frombuffer(np.ascontiguousarray(result), np.dtype(f"u{size}")) == np.dtype(f"u{size}").type(
            -1 % 2 ** (8 * size)
        )
        if self.spoils and bool(ones.all()):
            return "it was not written"
        return ""


class Auditor:
    """Of one cell. `own` are the rows whose calls native code holds and checks."""

    def __init__(
        self,
        spec: Spec,
        inputs: Callable[[], Mapping[str, Array]],
        reference: Callable[[], NDArray[np.float64]],
        budget_s: float,
    ) -> None:
        self.spec = spec
        self.folder = ""
        self.own: set[str] = set()
        self.native: set[str] = set()
        """Rows whose calls native code holds: those that can be audited."""
        self.logs: dict[str, AuditLog] = {}
        self.checked: set[str] = set()
        """Rows of which a timed call was checked."""
        self._inputs = inputs
        self._reference = reference
        self._budget_s = budget_s
        self._random = random.SystemRandom()
        self._check_times: dict[str, list[float]] = {}
        self._audit_times: dict[str, list[float]] = {}
        self._poke_times: dict[str, list[float]] = {}
        self._begin_s = 0.0

    def first(self, key: str, hard: HardInputs | None = None) -> Check:
        """For the result of the first call."""
        check = self._check(key)
        return check if hard is None else replace(check, inputs=hard.inputs, reference=lambda: hard.reference)

    def later(self, key: str, spoils: bool) -> Check:
        """For one more call: activations changed a little, and the last output spoilt or not. Spoiling takes time, by
        which a candidate may know the call.
        """
        check = self._check(key)
        check.spoils = spoils
        number = self._random.randrange(part_count(self.spec))
        check.part = part_of(self.spec, number)
        check.changed = {name: array.copy() for name, array in check.part.inputs_of(check.inputs).items()}
        for count in range(POKED):
            self._poke(check, self._random.choice(check.part.own), 6.0 + 0.25 * count)
        return check

    def _check(self, key: str) -> Check:
        path = result_path(self.folder, key)
        return Check(secrets.randbits(62), path, self.spec, self._inputs(), self._reference)

    def _poke(self, check: Check, name: str, value: float) -> None:
        """Large against normal values, so that it shows in what a maximum or a sum leaves of it."""
        if check.part is None:
            return
        shape = self.spec.input_shapes()[name]
        place = tuple(self._random.randrange(piece.start, piece.stop) for piece in check.part.inputs[name])
        own = tuple(at - piece.start for at, piece in zip(place, check.part.inputs[name]))
        value = value if self._random.random() < 0.5 else -value
        check.changed[name][own] = value
        dtype = self.spec.numpy_dtype
        bits = int(np.array([value], dtype).view(f"u{dtype.itemsize}")[0])
        offset = int(np.ravel_multi_index(place, shape)) * dtype.itemsize
        check.pokes.append((list(self.spec.input_shapes()).index(name), offset, bits))

    def inputs_kept(self, check: Check, answer: Answer) -> None:
        """WrongResultFoundError naming the inputs that the kernel has overwritten."""
        found = zip(check.inputs.items(), answer.get("sums", ()))
        changed = [
            name
            for (name, array), told in found
            if contents_sum(check.seed, np.ascontiguousarray(array).reshape(-1).view(np.uint8).data) != told
        ]
        if changed:
            raise WrongResultFoundError(f"it overwrote its input{'s' * (len(changed) > 1)} {', '.join(changed)}")

    def plan(self, call_s: Mapping[str, float], baseline: str | None) -> None:
        """Before the race: at which times, drawn now, each candidate is checked, and audited beside the baseline."""
        self._begin_s = time.monotonic()
        own, audited = self.own & call_s.keys(), self.audited(call_s, baseline)
        for key in own:
            share_s = CHECK_SHARE * self._budget_s / len(own)
            self._check_times[key] = self._drawn(int(max(1, min(MOST_CHECKS, share_s / (LEAST_S + 4.0 * call_s[key])))))
        for key in audited:
            self.logs.setdefault(key, AuditLog())
            share_s = self._budget_s / len(audited)
            self._audit_times[key] = self._drawn(
                int(min(PAIRS_IN_RACE, AUDIT_SHARE * share_s / (LEAST_S + CALLS_OF_PAIR * call_s[key])))
            )
            self._poke_times[key] = self._drawn(
                int(min(PAIRS, POKE_SHARE * share_s / (LEAST_S + CALLS_OF_POKED * call_s[key])))
            )

    def audited(self, call_s: Mapping[str, float], baseline: str | None) -> list[str]:
        """Candidates, and their baseline; empty in a table without candidates."""
        own = sorted(self.own & call_s.keys())
        has_other = own and baseline in self.native & call_s.keys() and baseline not in own
        return [*own, baseline] if has_other and baseline else own

    def give_up(self, key: str) -> None:
        """There is no memory for auditing it."""
        self.logs.pop(key, None)
        self._audit_times.pop(key, None)
        self._poke_times.pop(key, None)

    def _drawn(self, count: int) -> list[float]:
        return sorted(self._random.uniform(0.0, 0.9 * self._budget_s) for _ in range(count))

    def is_check_due(self, key: str) -> bool:
        """Whether a timed call of this turn is to be checked."""
        return self._is_due(self._check_times.get(key))

    def timed_check(self, key: str, samples: int, calls: int) -> tuple[Check, dict[str, Any]]:
        """Of a random call of this turn: the check, and what the request says of it."""
        is_first = key not in self.checked
        self.checked.add(key)
        check = self.later(key, spoils=not is_first and self._random.random() < 0.5)
        place = {"checked_sample": self._random.randrange(samples), "before": self._random.randrange(calls)}
        return check, {**check.fields(), **place}

    def is_poke_due(self, key: str) -> bool:
        """Whether in a sample of this turn inputs are to change from call to call."""
        return self._is_due(self._poke_times.get(key))

    def poked_sample(self, samples: int) -> dict[str, Any]:
        """Fields of a turn's request: before which sample, and by which numbers."""
        return {
            "poked_sample": self._random.randrange(samples),
            "poke_seed": secrets.randbits(62),
            "inputs": self._places(),
        }

    def take_poked(self, key: str, answer: Answer) -> None:
        """What it took."""
        if key in self.logs and "poked_ns" in answer:
            self.logs[key].poked.append(CallTimes(*answer["poked_ns"], *answer["plain_ns"]))

    def pokes_left(self, key: str, sample_s: float) -> int:
        """After the race."""
        poked_s = CALLS_OF_POKED * sample_s
        fitting = int(LONGEST_AUDIT_S / max(1e-9, poked_s))
        return 0 if fitting < FEWEST_PAIRS else max(0, min(PAIRS, fitting) - len(self.logs[key].poked))

    def _places(self) -> list[int]:
        names = list(self.spec.input_shapes())
        return [names.index(name) for name in activations(self.spec)]

    def due_audit(self, key: str) -> bool:
        """Whether a pair of single calls is to follow this turn."""
        return self._is_due(self._audit_times.get(key))

    def _is_due(self, times: list[float] | None) -> bool:
        if not times or time.monotonic() - self._begin_s < times[0]:
            return False
        times.pop(0)
        return True

    def pairs_left(self, key: str, call_s: float) -> int:
        """After the race."""
        pair_s = CALLS_OF_PAIR * call_s
        if pair_s > LONGEST_PAIR_S:
            return 0
        log = self.logs[key]
        most = MOST_PAIRS if log.is_noisy else PAIRS
        return max(0, max(FEWEST_PAIRS, min(most, int(LONGEST_AUDIT_S / max(1e-9, pair_s)))) - len(log))

    def pair(self, key: str, call_ns: float, ask: Ask) -> Iterator[tuple[Check, Answer]]:
        """One pair of audits in random order; what is to be checked of it comes out."""
        spoils = self._random.random() < 0.5
        order = [True, False]
        self._random.shuffle(order)
        taken: dict[bool, CallTimes] = {}
        for is_fresh in order:
            check = self._check(key)
            check.spoils = spoils
            request = {
                "do": "audit",
                **check.fields(),
                "is_fresh": int(is_fresh),
                "is_nudged": int(self._is_nudged),
                "inputs": self._places(),
                "before": max(1, min(1000, math.ceil(LEAD_NS / max(1.0, call_ns)))),
                "count": max(1, min(MOST_REPEATS, round(SHORT_NS / max(1.0, call_ns)))),
            }
            if not is_fresh or key not in self.own:
                request.pop("result_hex")
            answer = ask(request)
            if answer is None:
                return
            taken[is_fresh] = CallTimes(*(float(np.median(answer[name])) for name in AUDIT_FIELDS))
            if is_fresh and key in self.own:
                yield check, answer
        self.logs[key].take(taken[True], taken[False])

    @property
    def _is_nudged(self) -> bool:
        return activation_values(self.spec) < FEW_VALUES

    def fresh_trouble(self, check: Check, answer: Answer) -> str:
        """Errors in some parts of an output of new contents, or empty."""
        result = check.result(answer)
        last = len(answer["call_ns"]) - 1
        count = part_count(self.spec)
        worst, was_kept = 0.0, True
        # Twice: a part's largest value is smaller than the whole result's, to which errors refer.
        limit = 2.0 * tolerance(self.spec.numpy_dtype, self.spec.reduction_length())
        for number in self._random.sample(range(count), min(CHECKED_PARTS, count)):
            part = part_of(self.spec, number)
            inputs = {name: check.inputs[name][piece] for name, piece in part.inputs.items()}
            for place, name in enumerate(activations(self.spec)):
                seed, piece = contents_seed(check.seed, last, place), part.inputs[name]
                inputs[name] = (
                    nudged_contents(seed, check.inputs[name], piece)
                    if self._is_nudged
                    else new_contents(seed, self.spec.input_shapes()[name], piece, self.spec.numpy_dtype)
                )
            own = result[part.output]
            worst = max(worst, max_error(own, part.reference(inputs, own.shape)))
            was_kept &= max_error(own, check.reference()[part.output]) <= limit
        if worst <= limit:
            return ""
        return f"error {worst:.2g} exceeds {limit:.2g}{f'; {KEPT}' if was_kept else ''}"
