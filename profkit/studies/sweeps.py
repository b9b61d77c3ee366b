"""One sweep of a study: its table of the TOML in, variants of a network, rules and plot out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from profkit.attribution.kinds import KINDS
from profkit.errors import UsageError, unknown
from profkit.ops.networks import NETWORKS, Network
from profkit.ops.optimiser_step import OPTIMISERS
from profkit.studies.declaration import (
    CEIL,
    DEVICES,
    DTYPES,
    EPOCH_S,
    FLOOR,
    FRAMEWORK,
    IMAGES_PER_S,
    PLOTTED,
    SPEED_UP,
    STEP_MS,
    TOTAL_S,
    Epoch,
    PlotStyle,
    Setting,
    SkipRule,
    Sweep,
    Variant,
)
from profkit.studies.sections import TomlSection, quoted_value

VARIANT_LIMIT = 500
"""More variants than this are a slip of an axis, not a wish."""
QUICK_SWEEP = ("parameters", "variants", "axes")
"""What the quick form may have of its own."""
SWEEP_FIELDS = ("network", "training", "focus", "base", "skip", "epoch", "plot", *QUICK_SWEEP)
_EPOCH = ("images", "epochs", "rounding")
_PLOT = ("x", "y", "log", "colour", "line", "marker")
_SETTINGS = tuple(item.name for item in fields(Setting))
_CHOICES = {"optimizer": OPTIMISERS, "device": DEVICES, "dtype": DTYPES}


def read_sweep(name: str, section: TomlSection, quick: TomlSection | None, frameworks: Sequence[str]) -> Sweep:
    """`quick`: the table of the quick form, whose values are a part of the sweep's own."""
    kind = _network(section)
    parameters: dict[str, Any] = {}
    for each in filter(None, (section, quick)):
        parameters |= _checked(each.section("parameters"), kind)
    if section.has("variants") == section.has("axes"):
        both = "both [variants] and [axes]" if section.has("axes") else "neither [variants] nor [axes]"
        raise section.error("", f"has {both}: give one of them")
    axes: Mapping[str, Sequence[Any]] = _axes(section.section("axes"), kind) if section.has("axes") else {}
    if axes:
        _refuse_shadowed(filter(None, (section, quick)), axes)
    inner = section.section("axes" if axes else "variants")
    changes = _combinations(axes) if axes else _named_changes(inner, kind)
    variants = _variants(name, kind, section, inner, parameters, changes)
    refuse_twins(inner, variants)
    names = list(changes)
    base = section.text("base", names[0])
    if base not in names:
        raise section.error("base", unknown("variant", base, names))
    rules = _skips(section, changes, frameworks, is_whole=quick is None)
    if quick is not None:
        variants, axes = _quick_part(quick, base, names, variants, axes)
        base = base if _prefixed(name, base) in _names(variants) else ""
    focus = section.text("focus", "")
    if focus and focus not in KINDS:
        raise section.error("focus", unknown("kind of operator", focus, KINDS))
    return Sweep(
        name=name,
        variants=variants,
        base=_prefixed(name, base) if base else variants[0].name,
        focus=focus,
        axes=axes,
        skips=rules,
        epoch=_epoch(section),
        plot=_plot(section, axes),
    )


def _network(section: TomlSection) -> type[Network]:
    name = section.text("network")
    if name not in NETWORKS:
        raise section.error("network", unknown("network", name, NETWORKS))
    return NETWORKS[name]


def _variants(
    sweep: str,
    kind: type[Network],
    section: TomlSection,
    inner: TomlSection,
    parameters: Mapping[str, Any],
    changes: Mapping[str, Mapping[str, Any]],
) -> list[Variant]:
    usual = {"training": section.flag("training", False)}
    variants = []
    for name, changed in changes.items():
        every = {**usual, **parameters, **changed}
        setting = Setting(**{key: value for key, value in every.items() if key in _SETTINGS})
        try:
            network = kind(**{key: value for key, value in every.items() if key not in _SETTINGS})
        except UsageError as error:
            raise inner.error(name if inner.has(name) else "", f"{name}: {error}") from None
        variants.append(Variant(_prefixed(sweep, name), network, changed, setting))
    return variants


def _prefixed(sweep: str, name: str) -> str:
    """Names of variants are unique in the study."""
    return f"{sweep}: {name}" if sweep else name


def _quick_part(
    quick: TomlSection, base: str, names: Sequence[str], variants: Sequence[Variant], axes: Mapping[str, Sequence[Any]]
) -> tuple[list[Variant], dict[str, Sequence[Any]]]:
    """The variants, and the values of the axes, that the quick form keeps."""
    kept_axes = dict(axes)
    if quick.has("axes"):
        section = quick.section("axes")
        if not axes:
            raise quick.error("axes", "the study itself has no [axes]")
        section.allow(axes, "axis of the study")
        for name in section.values:
            for value in section.items(name):
                if value not in axes[name]:
                    raise section.error(name, f"{quoted_value(value)} is no value of this axis in the study itself")
            kept_axes[name] = section.items(name)
    wanted = list(names)
    if quick.has("variants"):
        wanted = quick.words("variants")
        for word in wanted:
            if word not in names:
                raise quick.error("variants", unknown("variant", word, names))
        if base not in wanted:
            raise quick.error("variants", f"{base!r} is missing: ratios refer to it")
    kept = [
        variant
        for name, variant in zip(names, variants)
        if name in wanted and all(variant.changes[axis] in values for axis, values in kept_axes.items())
    ]
    if not kept:
        raise quick.error("variants", "none of them is at the values of axes: there would be nothing to run")
    return kept, kept_axes


def _refuse_shadowed(sections: Iterable[TomlSection], axes: Mapping[str, Sequence[Any]]) -> None:
    """A parameter that is an axis too would have no effect."""
    for section in (each.section("parameters") for each in sections):
        if both := [name for name in section.values if name in axes]:
            raise section.error(both[0], "is an axis too, whose values are taken")


def _checked(section: TomlSection, kind: type[Network]) -> dict[str, Any]:
    """Parameters of the network and fields of the setting, with the types that these have."""
    section.allow((*(item.name for item in fields(kind)), *_SETTINGS), f"parameter of {kind.name}")
    return {name: checked_value(section, kind, name, value) for name, value in section.values.items()}


def checked_value(section: TomlSection, kind: type[Network], name: str, value: Any) -> Any:
    """A parameter or a field of the setting, which has the type of this one; else an error about that field."""
    if name in _SETTINGS:
        return _setting(section, name, value)
    default = next(item.default for item in fields(kind) if item.name == name)
    if isinstance(default, tuple):  # counts: one number, or a list of them
        numbers = value if isinstance(value, list) else [value]
        if numbers and all(type(number) is int for number in numbers):
            return value
    elif type(value) is type(default) or (isinstance(default, float) and type(value) is int):
        return value
    shown = ", ".join(map(str, default)) if isinstance(default, tuple) else str(default).lower()
    raise section.error(name, f"expected a value like {shown}, got {quoted_value(value)}")


def _setting(section: TomlSection, name: str, value: Any) -> Any:
    if name == "threads" and type(value) is int and 1 <= value <= 1 << 16:
        return value
    if name == "training" and isinstance(value, bool):
        return value
    if name == "data_fraction" and type(value) in (int, float) and 0 < value <= 1:
        return value
    if name in _CHOICES:
        if value in _CHOICES[name]:
            return value
        raise section.error(name, unknown(name, str(value), _CHOICES[name]))
    expected = {
        "threads": "a whole number from 1 on",
        "training": "true or false",
        "data_fraction": "a number above 0, at most 1",
    }
    raise section.error(name, f"expected {expected[name]}, got {quoted_value(value)}")


def _named_changes(section: TomlSection, kind: type[Network]) -> dict[str, dict[str, Any]]:
    if not section.values:
        raise section.error("", "is empty: there would be nothing to run")
    if len(section.values) > VARIANT_LIMIT:
        raise section.error("", f"{len(section.values):,} variants, more than {VARIANT_LIMIT}")
    return {name: _checked(section.section(name), kind) for name in section.values}


def _axes(section: TomlSection, kind: type[Network]) -> dict[str, list[Any]]:
    section.allow((*(item.name for item in fields(kind)), *_SETTINGS), f"parameter of {kind.name}")
    if not section.values:
        raise section.error("", "is empty: there would be nothing to run")
    axes = {
        name: [checked_value(section, kind, name, value) for value in section.items(name)] for name in section.values
    }
    count = math.prod(map(len, axes.values()))
    if count > VARIANT_LIMIT:
        lengths = " x ".join(f"{name} {len(values)}" for name, values in axes.items())
        raise section.error("", f"{count} combinations ({lengths}), more than {VARIANT_LIMIT}")
    return axes


def _combinations(axes: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """Every combination of the axes' values, named after them."""
    combined = [dict(zip(axes, chosen)) for chosen in itertools.product(*axes.values())]
    return {point_name(changes): changes for changes in combined}


def point_name(values: Mapping[str, Any]) -> str:
    """A point of a sweep in words: neurons 25, threads 1."""
    return ", ".join(f"{name} {value_word(value)}" for name, value in values.items())


def value_word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "-".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _skips(
    section: TomlSection, changes: Mapping[str, Mapping[str, Any]], frameworks: Sequence[str], is_whole: bool
) -> list[SkipRule]:
    """Rules, each of which must have an effect on the whole study."""
    if not section.has("skip"):
        return []
    tables = section.items("skip")
    known = list(dict.fromkeys(name for changed in changes.values() for name in changed))
    rules = []
    for table in tables:
        if not isinstance(table, dict):
            raise section.error("skip", f"expected tables, got {quoted_value(table)}")
        inner = TomlSection(section.source, table, (*section.path, "skip"))
        inner.allow((*known, FRAMEWORK, "reason"), "axis")
        values = {name: value if isinstance(value, list) else [value] for name, value in table.items()}
        values.pop("reason", None)
        if not values:
            raise section.error("skip", "a rule without an axis would skip everything")
        rule = SkipRule(values, inner.text("reason", f"the study leaves out {point_name(_ones(values))}"))
        if is_whole and not any(rule.matches(changed, key) for changed in changes.values() for key in frameworks):
            raise section.error("skip", f"no cell has {point_name(_ones(values))}")
        rules.append(rule)
    return rules


def _ones(values: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    return {name: " or ".join(map(value_word, each)) for name, each in values.items()}


def _epoch(section: TomlSection) -> Epoch | None:
    if not section.has("epoch"):
        return None
    inner = section.section("epoch")
    inner.allow(_EPOCH)
    rounding = inner.text("rounding", FLOOR)
    if rounding not in (FLOOR, CEIL):
        raise inner.error("rounding", unknown("rounding", rounding, (FLOOR, CEIL)))
    return Epoch(inner.count("images", None, most=1 << 31), inner.count("epochs", 1), rounding)


def _plot(section: TomlSection, axes: Mapping[str, Sequence[Any]]) -> PlotStyle | None:
    """As declared, else time over the axis with most numbers; None where there is none, or the variants are named."""
    if not axes:
        if section.has("plot"):
            raise section.error("plot", "needs [axes]: named variants have a chart of their own")
        return None
    inner = section.section("plot")
    inner.allow(_PLOT)
    numbers = [name for name, values in axes.items() if all(_is_number(value) for value in values)]
    if not numbers and not section.has("plot"):
        return None
    x = inner.text("x", max(numbers, key=lambda name: len(axes[name]), default=""))
    if x not in numbers:
        raise inner.error("x", f"{x} is no axis of numbers" if x in axes else unknown("axis", x, numbers))
    y = inner.text("y", EPOCH_S if section.has("epoch") else STEP_MS)
    if y not in PLOTTED:
        raise inner.error("y", unknown("quantity", y, PLOTTED))
    if y in (EPOCH_S, TOTAL_S, IMAGES_PER_S) and not section.has("epoch"):
        raise inner.error("y", f"{y} needs [epoch], which says how many steps there are")
    if y == SPEED_UP and "threads" not in axes:
        raise inner.error("y", f"{y} needs an axis threads")
    others = [name for name in axes if name != x]
    words = {}
    for name, usual in zip(("colour", "line", "marker"), (FRAMEWORK, *others, "", "")):
        words[name] = inner.text(name, usual)
        if words[name] and words[name] not in (*others, FRAMEWORK):
            raise inner.error(name, unknown("axis", words[name], [*others, FRAMEWORK]))
    return PlotStyle(x, y, inner.flag("log", True), **words)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def refuse_twins(section: TomlSection, variants: Sequence[Variant]) -> None:
    """Two names for one network under one setting, or names that differ only in signs no file name has."""
    for one, other in itertools.combinations(variants, 2):
        word = file_word(one.name)
        if (one.network, one.setting) == (other.network, other.setting):
            same = "are the same network"
        elif word == file_word(other.name):
            same = f"both become {word!r} in file names"
        else:
            continue
        raise section.error(other.name if section.has(other.name) else "", f"{one.name!r} and {other.name!r} {same}")


def file_word(name: str) -> str:
    """A name as part of a file's name: small letters, figures and dashes."""
    kept = "".join(sign if sign.isalnum() and sign.isascii() else " " for sign in name.lower())
    return "-".join(kept.split()) or "x"


def _names(variants: Sequence[Variant]) -> list[str]:
    return [variant.name for variant in variants]
