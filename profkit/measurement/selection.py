"""Which implementations take part, and which one is the baseline: keys, wildcards, defaults."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from profkit.backends import BACKENDS, CANDIDATE, load_adapter
from profkit.backends.adapter import Implementation
from profkit.backends.candidate import candidate_implementations
from profkit.errors import UsageError

BASELINE_PREFERENCE = ("torch", "onnxruntime", "tensorflow", "jax", "numpy", "native/*/reference", "*")


def matches(key: str, pattern: str) -> bool:
    """Whether a pattern names a key: from the operator or the framework on, whole or as a beginning.

    `torch`, `native/*`, `*/channels_last`, `conv2d/torch/cpu` all work, and so do the names of the table, which
    leave `cpu` out (`native/direct`); `torch` does not name keras on torch.
    """
    without_op = key.partition("/")[2]
    short = "/".join(part for part in without_op.split("/") if part != "cpu")
    return any(fnmatchcase(name, form) for name in (key, without_op, short) for form in (pattern, pattern + "/*"))


def names(pattern: str, implementation: Implementation) -> bool:
    """Whether a pattern names an implementation; a form of a kernel is named by its own words only."""
    return matches(implementation.key, pattern) and all(word in pattern.split("/") for word in implementation.forms)


def all_implementations(op: str, candidates: Sequence[str] = ()) -> list[Implementation]:
    """Every implementation of an operator that profkit knows, available here or not, candidates first."""
    found = list(candidate_implementations(list(candidates), op)) if candidates else []
    for backend in BACKENDS:
        found += load_adapter(backend).implementations(op)
    return found


def choose(
    implementations: Sequence[Implementation],
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    baseline: str | None = None,
    device: str = "all",
) -> list[Implementation]:
    """Those of the device that `only` names and `exclude` does not.

    Candidates and the named baseline stay unless excluded, whatever their device.
    """
    keys = [implementation.key for implementation in implementations]
    for pattern in [*only, *exclude, *([baseline] if baseline else [])]:
        if not any(matches(key, pattern) for key in keys):
            raise UsageError(unmatched(pattern, keys))
    kept = [
        implementation
        for implementation in implementations
        if (not only and not implementation.forms)
        or implementation.adapter == CANDIDATE
        or any(names(pattern, implementation) for pattern in [*only, *([baseline] if baseline else [])])
    ]
    kept = [item for item in kept if not any(matches(item.key, pattern) for pattern in exclude)]
    if kept and device != "all":
        named = [baseline] if baseline else []
        on_device = [
            item
            for item in kept
            if item.device == device
            or item.adapter == CANDIDATE
            or any(matches(item.key, pattern) for pattern in named)
        ]
        if not on_device:
            others = ", ".join(sorted({item.device for item in kept}))
            raise UsageError(f"nothing is left to measure on {device}: what was asked for runs on {others}")
        kept = on_device
    if not kept:
        raise UsageError(f"nothing is left to measure: --exclude {' '.join(exclude)} leaves out every implementation")
    return kept


def unmatched(pattern: str, keys: Sequence[str], lister: str = "--list") -> str:
    """The message for a pattern that names nothing, with what is near it and the flag that shows all."""
    names = {key.split("/")[1] for key in keys} | set(keys) | {key.partition("/")[2] for key in keys}
    near = difflib.get_close_matches(pattern, sorted(names), n=3, cutoff=0.5)
    hint = (
        f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(sorted({k.split('/')[1] for k in keys}))}"
    )
    return f"no implementation is named by {pattern!r}; {hint} ({lister} shows all)"


def pick_baseline(keys: Sequence[str], wanted: str | None) -> str | None:
    """The baseline among the keys that gave a right result: the wanted one, else the best known framework."""
    for pattern in [wanted] if wanted else BASELINE_PREFERENCE:
        for key in keys:
            if matches(key, pattern):
                return key
    return None
