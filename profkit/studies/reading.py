"""A study's name or its TOML text in, a checked Study out. docs/studies.md has the schema in words."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from profkit.attribution.kinds import KINDS
from profkit.capture.checked_json import open_file
from profkit.errors import UsageError, unknown
from profkit.frameworks.networks import BUILDERS, load_builder
from profkit.ops.networks import NETWORKS, Network, Training
from profkit.ops.networks.network import CROSS_ENTROPY
from profkit.studies.declaration import Figures, Learning, Published, Runner, Study, Variant
from profkit.studies.sections import LONGEST, StudyText, TomlSection, quoted_value

_FOLDER = Path(__file__).parent
_ENDING = ".toml"
VARIANT_LIMIT = 500
"""More variants than this are a slip of an axis, not a wish."""
MOST_REPETITIONS = 1000
DEFAULT_REPETITIONS, DEFAULT_STEPS, DEFAULT_LEARNING_STEPS = 3, 10, 200
_SETTINGS = ("frameworks", "repetitions", "steps", "threads", "budget_s", "baseline", "parameters", "learning")
_TOP = ("title", "about", "network", "training", "focus", "base", "variants", "axes", "published", "quick", *_SETTINGS)
_QUICK = ("variants", *_SETTINGS)
_LEARNING = ("framework", "steps", "limit_s")
_PUBLISHED = ("source", "notes", "recording_ratio", "figures", "shares_percent")


def study_names() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob(f"*{_ENDING}"))


def load_study(word: str, quick: bool = False) -> Study:
    """The study of this name, or in the file of this name: one that ends in .toml or has a slash is a file."""
    if word.endswith(_ENDING) or "/" in word:
        return read_study(_text(Path(word)), Path(word).stem, word, quick)
    if word not in study_names():
        raise UsageError(f"{unknown('study', word, study_names())}\n  a file of your own ends in .toml")
    return read_study(_text(_FOLDER / f"{word}{_ENDING}"), word, f"{word}{_ENDING}", quick)


def _text(path: Path) -> str:
    try:
        with open_file(path) as file:
            data = file.read(LONGEST + 1)
        if len(data) > LONGEST:
            raise UsageError(f"{path} has more than {LONGEST:,} bytes: it is not a study")
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None


def read_study(text: str, name: str, label: str, quick: bool = False) -> Study:
    """The study, or its quick form. Both are checked, so that a mistake shows before it matters."""
    source = StudyText(label, text)
    top = TomlSection(source, source.tables())
    top.allow(_TOP)
    study = _StudyReader(top).study(name)
    if not top.has("quick"):
        if quick:
            raise UsageError(f"{label} has no [quick] table: it cannot be run with --quick")
        return study
    section = top.section("quick")
    section.allow(_QUICK)
    shortened = _StudyReader(top, section).study(name)
    return shortened if quick else study


@dataclass(frozen=True)
class _StudyReader:
    """Reads the tables; where the quick table has a field, it is taken from there."""

    top: TomlSection
    quick: TomlSection | None = None

    def study(self, name: str) -> Study:
        variants = self._variants()
        base = self.top.text("base", variants[0].name)
        if base not in [variant.name for variant in variants]:
            raise self.top.error("base", unknown("variant", base, _names(variants)))
        variants = self._kept(variants, base)
        focus = self.top.text("focus", "")
        if focus and focus not in KINDS:
            raise self.top.error("focus", unknown("kind of operator", focus, KINDS))
        threads, budget, frameworks = (self._of(name) for name in ("threads", "budget_s", "frameworks"))
        return Study(
            name=name,
            title=self.top.text("title"),
            about=self.top.text("about", ""),
            variants=variants,
            base=base,
            runners=[_runner(frameworks, "frameworks", word) for word in frameworks.words("frameworks")],
            focus=focus,
            is_training=self.top.flag("training", False),
            repetitions=self._of("repetitions").count("repetitions", DEFAULT_REPETITIONS, most=MOST_REPETITIONS),
            steps=self._of("steps").count("steps", DEFAULT_STEPS),
            threads=threads.count("threads", None) if threads.has("threads") else None,
            budget_s=budget.number("budget_s") if budget.has("budget_s") else None,
            has_baseline=self._of("baseline").flag("baseline", True),
            learning=self._learning(),
            published=self._published(),
            is_quick=self.quick is not None,
        )

    def _of(self, name: str) -> TomlSection:
        return self.quick if self.quick is not None and self.quick.has(name) else self.top

    def _network(self) -> type[Network]:
        name = self.top.text("network")
        if name not in NETWORKS:
            raise self.top.error("network", unknown("network", name, NETWORKS))
        return NETWORKS[name]

    def _variants(self) -> list[Variant]:
        kind = self._network()
        base: dict[str, Any] = {}
        for section in filter(None, (self.top, self.quick)):
            base |= _checked(section.section("parameters"), kind)
        if self.top.has("variants") == self.top.has("axes"):
            both = "both [variants] and [axes]" if self.top.has("axes") else "neither [variants] nor [axes]"
            raise self.top.error("", f"has {both}: give one of them")
        section = self.top.section("variants" if self.top.has("variants") else "axes")
        changes = _named_changes(section, kind) if self.top.has("variants") else _combinations(section, kind)
        variants = []
        for name, changed in changes.items():
            try:
                network = kind(**{**base, **changed})
            except UsageError as error:
                raise section.error(name if section.has(name) else "", f"{name}: {error}") from None
            variants.append(Variant(name, network, changed))
        _refuse_twins(section, variants)
        return variants

    def _kept(self, variants: list[Variant], base: str) -> list[Variant]:
        if self.quick is None or not self.quick.has("variants"):
            return variants
        wanted = self.quick.words("variants")
        for name in wanted:
            if name not in _names(variants):
                raise self.quick.error("variants", unknown("variant", name, _names(variants)))
        if base not in wanted:
            raise self.quick.error("variants", f"{base!r} is missing: ratios refer to it")
        return [variant for variant in variants if variant.name in wanted]

    def _learning(self) -> Learning | None:
        if not self.top.has("learning"):
            if self.quick is not None and self.quick.has("learning"):
                raise self.quick.error("learning", "the study itself has no [learning]")
            return None
        network = self._network()
        if network.loss != CROSS_ENTROPY:
            raise self.top.error("learning", f"{network.name} predicts a value, not a class: it has no precision@1")
        sections = [self.top.section("learning")]
        sections += [self.quick.section("learning")] if self.quick is not None and self.quick.has("learning") else []
        for section in sections:
            section.allow((*_LEARNING, *(item.name for item in fields(Training))))
        last = {name: section for section in sections for name in section.values}
        first, limit = sections[0], last.get("limit_s")
        training: dict[str, Any] = {}
        for item in fields(Training):
            section, default = last.get(item.name, first), cast(Any, item.default)
            reads: dict[type, Callable[..., Any]] = {bool: section.flag, float: section.number, str: section.text}
            read = reads.get(type(default), section.values.get)
            training[item.name] = read(item.name, default)
        try:
            how = Training(**training)
        except UsageError as error:
            raise first.error("", str(error)) from None
        framework = last.get("framework", first)
        return Learning(
            runner=_runner(framework, "framework", framework.text("framework")),
            steps=last.get("steps", first).count("steps", DEFAULT_LEARNING_STEPS),
            limit_s=limit.number("limit_s") if limit is not None else None,
            training=how,
        )

    def _published(self) -> Published | None:
        if not self.top.has("published"):
            return None
        section = self.top.section("published")
        section.allow(_PUBLISHED)
        figures = section.section("figures")
        figures.allow(_names(self._variants()), "variant")
        shares = section.section("shares_percent")
        shares.allow(KINDS, "kind of operator")
        return Published(
            source=section.text("source"),
            notes=section.words("notes") if section.has("notes") else (),
            figures={name: _figures(figures.section(name)) for name in figures.values},
            shares={name: shares.number(name) for name in shares.values},
            recording_ratio=section.number("recording_ratio") if section.has("recording_ratio") else None,
        )


def with_learning_steps(study: Study, steps: int) -> Study:
    """The study with another learning budget; a limit of time no longer holds."""
    if study.learning is None:
        raise UsageError(f"{study.name} has no [learning] table: there is nothing to train")
    return replace(study, learning=replace(study.learning, steps=steps, limit_s=None))


def _runner(section: TomlSection, field: str, word: str) -> Runner:
    framework, _, mode = word.partition("/")
    if framework not in BUILDERS:
        raise section.error(field, unknown("framework", framework, BUILDERS))
    if mode:
        modes = list(load_builder(framework).modes)
        if mode not in modes:
            raise section.error(field, unknown(f"{framework} mode", mode, modes))
    return Runner(framework, mode)


def _figures(section: TomlSection) -> Figures:
    section.allow(item.name for item in fields(Figures))
    return Figures(**{name: section.number(name) for name in section.values})


def _checked(section: TomlSection, kind: type[Network]) -> dict[str, Any]:
    """Parameters of the network, with the types that it has."""
    section.allow((item.name for item in fields(kind)), f"parameter of {kind.name}")
    return {name: _parameter(section, kind, name, value) for name, value in section.values.items()}


def _parameter(section: TomlSection, kind: type[Network], name: str, value: Any) -> Any:
    default = next(item.default for item in fields(kind) if item.name == name)
    if type(value) is not type(default) and not (isinstance(default, float) and type(value) is int):
        raise section.error(name, f"expected a value like {str(default).lower()}, got {quoted_value(value)}")
    return value


def _named_changes(section: TomlSection, kind: type[Network]) -> dict[str, dict[str, Any]]:
    if not section.values:
        raise section.error("", "is empty: there would be nothing to run")
    if len(section.values) > VARIANT_LIMIT:
        raise section.error("", f"{len(section.values):,} variants, more than {VARIANT_LIMIT}")
    return {name: _checked(section.section(name), kind) for name in section.values}


def _combinations(section: TomlSection, kind: type[Network]) -> dict[str, dict[str, Any]]:
    """Every combination of the axes' values, named after them."""
    section.allow((item.name for item in fields(kind)), f"parameter of {kind.name}")
    if not section.values:
        raise section.error("", "is empty: there would be nothing to run")
    axes = {name: [_parameter(section, kind, name, value) for value in section.items(name)] for name in section.values}
    count = math.prod(map(len, axes.values()))
    if count > VARIANT_LIMIT:
        lengths = " x ".join(f"{name} {len(values)}" for name, values in axes.items())
        raise section.error("", f"{count} combinations ({lengths}), more than {VARIANT_LIMIT}")
    combined = [dict(zip(axes, chosen)) for chosen in itertools.product(*axes.values())]
    return {", ".join(f"{name} {value}" for name, value in changes.items()): changes for changes in combined}


def _refuse_twins(section: TomlSection, variants: Sequence[Variant]) -> None:
    """Two names for one network, or two names that differ only in signs no file name has."""
    for one, other in itertools.combinations(variants, 2):
        word = file_word(one.name)
        if one.network == other.network:
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
