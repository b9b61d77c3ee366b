"""Which implementations take part, and which one is the baseline: keys, wildcards, defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from profkit.errors import UnsupportedError, UsageError, did_you_mean
from profkit.frameworks import BACKENDS, CANDIDATE, is_candidate, load_adapter
from profkit.frameworks.adapter import Availability, Implementation
from profkit.frameworks.candidate.operators import candidate_implementations
from profkit.measurement.options import ALL_DEVICES, MeasureOptions
from profkit.ops.spec import Spec

BASELINE_PREFERENCE = ("torch", "onnxruntime", "tensorflow", "jax", "numpy", "native/*/reference", "*")
NATIVE, NATIVE_CUDA = "native", "native_cuda"
NATIVE_ROWS = 3
"""Native kernels per device in a default table."""


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


class Selection:
    """The implementations of one operator that the options select; UsageError if there are none."""

    def __init__(self, implementations: Sequence[Implementation], options: MeasureOptions) -> None:
        self._options = options
        self._known = implementations
        keys = [implementation.key for implementation in implementations]
        wanted = [options.baseline] if options.baseline else []
        for pattern in [*options.only, *options.exclude, *wanted]:
            if not any(matches(key, pattern) for key in keys):
                raise UsageError(unmatched(pattern, keys))
        allowed = [
            item for item in implementations if not any(matches(item.key, pattern) for pattern in options.exclude)
        ]
        self._baselines = self._on_device([item for item in allowed if any(names(text, item) for text in wanted)])
        self.selected = [
            item
            for item in allowed
            if is_candidate(item.key)
            or (any(names(pattern, item) for pattern in options.only) if options.only else not item.forms)
        ]
        """Every row that may be measured; without `only` and `all` a cell has fewer."""
        if not self.selected:
            why = (
                f"--exclude {' '.join(options.exclude)} excludes every selected implementation"
                if options.exclude
                else f"--only {' '.join(options.only)} matches only forms, which must be named (native/blocked/packed)"
            )
            raise UsageError(f"nothing is left to measure: {why}")
        others = ", ".join(sorted({item.device for item in self.selected}))
        self.selected = [
            item for item in self.selected if is_candidate(item.key) or options.device in (ALL_DEVICES, item.device)
        ]
        if not self.selected:
            raise UsageError(f"nothing is left to measure on {options.device}: the selected rows run on {others}")

    def rows(self, spec: Spec, threads: int) -> list[Implementation]:
        """The rows of one cell, in the order in which implementations are known."""
        options = self._options
        chosen = {item.key for item in self.selected}
        if not options.only and not options.all:
            chosen = default_keys(self.selected, spec, threads, options.tuned)
            if options.explain:
                chosen |= {item.key for item in self.selected if item.adapter == NATIVE}
        running = [item for item in self._baselines if not any(availability_of(item, spec, options.interpreters))]
        baselines = running or self._baselines
        if not any(item.key in chosen for item in baselines):
            chosen |= {item.key for item in baselines[:1]}
        return [item for item in self._known if item.key in chosen]

    def left_out(self, rows: Sequence[Implementation], spec: Spec) -> list[str]:
        """Keys that could run here and that only `all` would measure; none where rows were named."""
        if self._options.only or self._options.all:
            return []
        chosen = {item.key for item in rows}
        return [
            item.key
            for item in self.selected
            if item.key not in chosen and not any(availability_of(item, spec, self._options.interpreters))
        ]

    def _on_device(self, rows: list[Implementation]) -> list[Implementation]:
        """Those of the wanted device; all where it has none, so that one device can be compared with the other."""
        return [item for item in rows if item.device == self._options.device] or rows


def default_keys(selected: Sequence[Implementation], spec: Spec, threads: int, tuned: bool = True) -> set[str]:
    """The rows of a table when nothing is chosen by name.

    Candidates; of profkit's kernels those expected to be fastest; of every framework what its adapter calls default, or
    where none of that runs the spec, its first row that does.
    """
    by_adapter: dict[str, list[Implementation]] = {}
    for item in selected:
        by_adapter.setdefault(item.adapter, []).append(item)
    chosen = {item.key for item in by_adapter.pop(CANDIDATE, [])}
    for adapter, rows in by_adapter.items():
        supporting = [item.key for item in rows if not load_adapter(adapter).supports(item, spec)]
        defaults = [item.key for item in rows if item.is_default] or [rows[0].key]
        if adapter in (NATIVE, NATIVE_CUDA):
            ranked = fastest_first(spec, threads, tuned) if adapter == NATIVE else supporting
            fastest = [key for key in ranked if key in supporting][:NATIVE_ROWS]
            chosen.update(fastest or supporting[:1] or defaults[:1])
        elif supporting and not set(defaults) & set(supporting):
            chosen.add(supporting[0])
        else:
            chosen.update(defaults)
    return chosen


def fastest_first(spec: Spec, threads: int, tuned: bool) -> list[str]:
    """Native CPU rows that run the spec, as the policy ranks them; of CUDA kernels the registry's order is all."""
    from profkit.frameworks.native.policy import choose_kernel

    try:
        choice = choose_kernel(spec, threads, tuned=tuned)
    except UnsupportedError:
        return []
    return list(dict.fromkeys((choice.key, *(item.key for item in choice.estimates))))


def availability_of(implementation: Implementation, spec: Spec, interpreters: Mapping[str, str]) -> tuple[str, str]:
    """Status and reason of an implementation that cannot run this spec here; empty when it can try."""
    adapter = load_adapter(implementation.adapter)
    # Packages of another interpreter are found by its worker.
    here = Availability(True) if implementation.framework in interpreters else adapter.is_available()
    if not here.available:
        return "unavailable", here.text
    reason = adapter.supports(implementation, spec)
    return ("unsupported", reason) if reason else ("", "")


def unmatched(pattern: str, keys: Sequence[str], lister: str = "--list") -> str:
    """The message for a pattern that names nothing, with what is near it and the flag that shows all."""
    names = {key.split("/")[1] for key in keys} | set(keys) | {key.partition("/")[2] for key in keys}
    hint = did_you_mean(pattern, sorted(names), most=3).rstrip()
    hint = hint or f"known: {', '.join(sorted({key.split('/')[1] for key in keys}))}"
    return f"no implementation is named by {pattern!r}; {hint} ({lister} shows all)"


def pick_baseline(keys: Sequence[str], wanted: str | None) -> str | None:
    """The baseline among the keys that gave a right result: the wanted one, else the best known framework.

    A candidate is what the others are compared with only when it was wanted or is alone.
    """
    others = [key for key in keys if not is_candidate(key)]
    for pattern in [wanted] if wanted else BASELINE_PREFERENCE:
        for key in keys if wanted else others or keys:
            if matches(key, pattern):
                return key
    return None
