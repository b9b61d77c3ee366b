"""A study's name or its TOML text in, a checked Study out. docs/studies.md has the schema in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from profkit.capture.checked_json import open_file
from profkit.errors import UsageError, unknown
from profkit.frameworks.networks import BUILDERS, load_builder
from profkit.ops.networks import Training
from profkit.ops.networks.network import CROSS_ENTROPY
from profkit.studies.declaration import Learning, Runner, Study, Sweep
from profkit.studies.published import read_published
from profkit.studies.sections import LONGEST, StudyText, TomlSection
from profkit.studies.sweeps import QUICK_SWEEP, SWEEP_FIELDS, VARIANT_LIMIT, read_sweep, refuse_twins

_FOLDER = Path(__file__).parent
_ENDING = ".toml"
MOST_REPETITIONS = 1000
DEFAULT_REPETITIONS, DEFAULT_STEPS, DEFAULT_LEARNING_STEPS = 3, 10, 200
_RUN = ("frameworks", "repetitions", "steps", "threads", "budget_s", "baseline", "learning")
_TOP = ("title", "about", "published", "quick", "sweeps", *SWEEP_FIELDS, *_RUN)
_QUICK = ("sweeps", *QUICK_SWEEP, *_RUN)
_LEARNING = ("framework", "steps", "limit_s")


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
    study = replace(study, published=read_published(top, study.sweeps, [runner.key for runner in study.runners]))
    if not top.has("quick"):
        if quick:
            raise UsageError(f"{label} has no [quick] table: it cannot be run with --quick")
        return study
    section = top.section("quick")
    section.allow(_QUICK)
    shortened = _StudyReader(top, section).study(name)
    # Of the whole study, some of whose points the quick form leaves out.
    return replace(shortened, published=study.published) if quick else study


@dataclass(frozen=True)
class _StudyReader:
    """Reads the tables; where the quick table has a field, it is taken from there."""

    top: TomlSection
    quick: TomlSection | None = None

    def study(self, name: str) -> Study:
        sweeps = self._sweeps()
        threads, budget, frameworks = (self._of(name) for name in ("threads", "budget_s", "frameworks"))
        return Study(
            name=name,
            title=self.top.text("title"),
            about=self.top.text("about", ""),
            sweeps=sweeps,
            runners=[_runner(frameworks, "frameworks", word) for word in frameworks.words("frameworks")],
            repetitions=self._of("repetitions").count("repetitions", DEFAULT_REPETITIONS, most=MOST_REPETITIONS),
            steps=self._of("steps").count("steps", DEFAULT_STEPS),
            threads=threads.count("threads", None) if threads.has("threads") else None,
            budget_s=budget.number("budget_s") if budget.has("budget_s") else None,
            has_baseline=self._of("baseline").flag("baseline", True),
            learning=self._learning(sweeps),
            published=None,
            is_quick=self.quick is not None,
        )

    def _of(self, name: str) -> TomlSection:
        return self.quick if self.quick is not None and self.quick.has(name) else self.top

    def _sweeps(self) -> list[Sweep]:
        """That at the top of the file, or those of [sweeps]."""
        frameworks = self._of("frameworks").words("frameworks")
        if not self.top.has("sweeps"):
            if self.quick is not None and self.quick.has("sweeps"):
                raise self.quick.error("sweeps", "the study itself has no [sweeps]")
            return [read_sweep("", self.top, self.quick, frameworks)]
        for name in SWEEP_FIELDS:
            if self.top.has(name):
                raise self.top.error(name, "belongs into the tables of [sweeps], as there are some")
        section, quick = self.top.section("sweeps"), None
        if self.quick is not None:
            if misplaced := [name for name in QUICK_SWEEP if self.quick.has(name)]:
                raise self.quick.error(misplaced[0], "belongs into [quick.sweeps.NAME], as the study has [sweeps]")
            quick = self.quick.section("sweeps")
            quick.allow(section.values, "sweep")
        if not section.values:
            raise section.error("", "is empty: there would be nothing to run")
        sweeps = []
        for name in section.values:
            own = section.section(name)
            own.allow(SWEEP_FIELDS)
            shortened = quick.section(name) if quick is not None else None
            if shortened is not None:
                shortened.allow(QUICK_SWEEP)
            sweeps.append(read_sweep(name, own, shortened, frameworks))
        if (count := sum(len(sweep.variants) for sweep in sweeps)) > VARIANT_LIMIT:
            raise section.error("", f"{count:,} variants, more than {VARIANT_LIMIT}")
        refuse_twins(section, [variant for sweep in sweeps for variant in sweep.variants])
        return sweeps

    def _learning(self, sweeps: Sequence[Sweep]) -> Learning | None:
        if not self.top.has("learning"):
            if self.quick is not None and self.quick.has("learning"):
                raise self.quick.error("learning", "the study itself has no [learning]")
            return None
        for network in (sweep.variants[0].network for sweep in sweeps):
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
