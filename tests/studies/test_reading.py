"""Study files: what is accepted, and that every mistake is answered with its line, its field and what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from profkit.errors import UsageError
from profkit.ops.networks import Cifar10
from profkit.studies.reading import load_study, read_study, study_names, with_learning_steps
from profkit.studies.sections import StudyText
from profkit.studies.sweeps import file_word

LEAST = """
title = "Small"
network = "cifar10"
frameworks = ["numpy"]
[variants]
"base" = {}
"stride 2" = { stride = 2 }
"""


def read(text: str, quick: bool = False) -> object:
    return read_study(text, "small", "small.toml", quick)


def changed(old: str, new: str) -> str:
    assert old in LEAST
    return LEAST.replace(old, new)


def test_the_least_study_has_sensible_defaults() -> None:
    study = read_study(LEAST, "small", "small.toml")

    assert [variant.name for variant in study.variants] == ["base", "stride 2"]
    assert study.variant("stride 2").network == Cifar10(stride=2)
    assert study.base == "base"
    assert study.repetitions >= 1
    assert study.learning is None
    assert not study.is_quick


def test_axes_give_every_combination() -> None:
    text = LEAST[: LEAST.index("[variants]")] + "[axes]\nstride = [1, 2]\nfilters = [8, 4]\n[parameters]\nbatch = 4\n"

    study = read_study(text, "small", "small.toml")

    assert [variant.name for variant in study.variants] == [
        "stride 1, filters 8",
        "stride 1, filters 4",
        "stride 2, filters 8",
        "stride 2, filters 4",
    ]
    assert study.variants[3].network == Cifar10(batch=4, stride=2, filters=4)


def test_the_quick_table_replaces_what_it_names() -> None:
    text = (
        LEAST + '[learning]\nframework = "numpy"\nsteps = 100\nlearning_rate = 0.01\n'
        '[quick]\nsteps = 2\nvariants = ["base"]\nparameters = { batch = 2 }\n'
        "[quick.learning]\nsteps = 3\nlimit_s = 1\n"
    )

    whole, quick = (read_study(text, "small", "small.toml", is_quick) for is_quick in (False, True))

    assert whole.learning is not None and quick.learning is not None
    assert (whole.learning.steps, whole.learning.limit_s) == (100, None)
    assert (quick.learning.steps, quick.learning.limit_s) == (3, 1.0)
    assert quick.learning.training.learning_rate == 0.01
    assert [variant.name for variant in quick.variants] == ["base"]
    assert quick.variants[0].network == Cifar10(batch=2)
    assert (whole.steps, quick.steps) == (10, 2)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("title =", "titel =", r'small.toml, line 2: titel: unknown field; did you mean title\?'),
        ('"Small"', '""', "line 2: title: must not be empty"),
        ('title = "Small"', "", "title: is missing; expected a text in quotes"),
        ('"Small"', "7", "line 2: title: expected a text in quotes, got 7"),
        ('"cifar10"', '"cifar"', r"line 3: network: unknown network 'cifar'; did you mean cifar10\?"),
        ('["numpy"]', "[]", "line 4: frameworks: is empty: there would be nothing to run"),
        ('["numpy"]', '["nunpy"]', r"line 4: frameworks: unknown framework 'nunpy'; did you mean numpy"),
        ('["numpy"]', '["numpy/fast"]', "line 4: frameworks: unknown numpy mode 'fast'"),
        ('["numpy"]', '["numpy", "numpy"]', "line 4: frameworks: 'numpy' appears twice"),
        ('["numpy"]', "[1]", "line 4: frameworks: expected texts in quotes, got 1"),
        ('["numpy"]', '["numpy"]\nsteps = "5"', "line 5: steps: expected a whole number, got '5'"),
        ('["numpy"]', '["numpy"]\nsteps = true', "line 5: steps: expected a whole number, got True"),
        ('["numpy"]', '["numpy"]\nsteps = 0', "line 5: steps: must be at least 1, got 0"),
        ('["numpy"]', '["numpy"]\nbudget_s = -1', "line 5: budget_s: must be a number from 0 on"),
        ('["numpy"]', '["numpy"]\nbase = "bass"', r"line 5: base: unknown variant 'bass'; did you mean base\?"),
        ('["numpy"]', '["numpy"]\nfocus = "conv"', r"line 5: focus: unknown kind of operator 'conv'; did you mean co"),
        ("stride = 2", "strid = 2", r'line 7: variants."stride 2".strid: unknown parameter of cifar10; did you mean'),
        ("stride = 2", 'stride = "2"', "line 7: variants.\"stride 2\".stride: expected a value like 1, got '2'"),
        ("stride = 2", "stride = 0", 'line 7: variants."stride 2": stride 2: stride must be at least 1, got 0'),
        ("{ stride = 2 }", "2", 'line 7: variants."stride 2": expected a table, got 2'),
        ("{ stride = 2 }", "{ stride = 1 }", "line 7: .*'base' and 'stride 2' are the same network"),
        ('"stride 2" =', '"Base!" =', "line 7: .*'base' and 'Base!' both become 'base' in file names"),
        ("title", "title = = 3\ntitle", "small.toml is not TOML: .*line 2"),
        ("[variants]", "[axes]\nstride = []\n[variants]", r"has both \[variants\] and \[axes\]"),
    ],
)  # fmt: skip
def test_a_mistake_is_answered_with_its_place_and_what_to_write(old: str, new: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        read(changed(old, new))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[axes]\nstride = []\n", "line 6: axes.stride: is empty"),
        ("[axes]\n", "line 5: axes: is empty"),
        ("[axes]\nstride = 2\n", r"line 6: axes.stride: expected a list in \[ \], got 2"),
        ("[axes]\nwidth = [1]\n", "line 6: axes.width: unknown parameter of cifar10"),
        ("[variants]\n", "line 5: variants: is empty"),
        ("", r"has neither \[variants\] nor \[axes\]"),
        (
            f"[axes]\nbatch = {list(range(1, 41))}\nfilters = {list(range(1, 41))}\n",
            r"1600 combinations \(batch 40 x filters 40\), more than 500",
        ),
    ],
)
def test_axes_and_variants_that_give_nothing_or_too_much_are_refused(text: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        read(LEAST[: LEAST.index("[variants]")] + text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[quick]\ntitle = 'x'\n", "line 9: quick.title: unknown field"),
        ("[quick]\nvariants = ['bas']\n", r"line 9: quick.variants: unknown variant 'bas'; did you mean base\?"),
        ("[quick]\nvariants = ['stride 2']\n", "line 9: quick.variants: 'base' is missing: ratios refer to it"),
        ("[quick.learning]\nsteps = 1\n", r"quick.learning: the study itself has no \[learning\]"),
        ("[learning]\nsteps = 5\n", "learning.framework: is missing"),
        ("[learning]\nframework = 'numpy'\nrate = 5\n", "line 10: learning.rate: unknown field"),
        ("[learning]\nframework = 'numpy'\nweight_decay = 5\n", "line 10: learning.weight_decay: expected true or fal"),
        ("[published]\nfigures = {}\n", "published.source: is missing"),
        (
            "[published]\nsource = 'x'\n[published.figures]\nbass = {}\n",
            r"line 11: .*unknown variant; did you mean bas",
        ),
        (
            "[published]\nsource = 'x'\n[published.shares_percent]\nconv = 3\n",
            r"line 11: published.shares_percent.conv: unknown kind of operator; did you mean conv2d",
        ),
        (
            "[published]\nsource = 'x'\n[published.figures]\nbase = { time = 3 }\n",
            "line 11: published.figures.base.time: unknown field",
        ),
    ],
)
def test_mistakes_in_inner_tables_are_found_even_when_they_are_not_used(text: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        read(LEAST + text)


def test_learning_needs_classes_and_quick_a_quick_table() -> None:
    text = changed('"cifar10"', '"solar"').replace("stride = 2", "batch = 2")

    with pytest.raises(UsageError, match="line 8: learning: solar predicts a value, not a class"):
        read(text + "[learning]\nframework = 'numpy'\n")
    with pytest.raises(UsageError, match=r"small.toml has no \[quick\] table"):
        read(LEAST, quick=True)


def test_lines_are_found_beside_long_texts_that_look_like_fields() -> None:
    text = 'title = """\nsteps = 1\n[variants]\n"""\n[ "variants" ] # all\nbase.stride = 3\n'

    source = StudyText("x", text)

    assert source.line_of(("variants",)) == 5
    assert source.line_of(("variants", "base", "stride")) == 6
    assert source.line_of(("variants", "base")) == 5
    assert source.line_of(("steps",)) is None


def test_every_shipped_study_can_be_read_in_both_forms() -> None:
    names = study_names()

    studies = {name: (load_study(name), load_study(name, quick=True)) for name in names}

    assert "cifar10-operators" in names
    assert all(whole.title == quick.title for whole, quick in studies.values())


def test_the_cifar10_study_is_the_published_network_with_published_figures() -> None:
    study = load_study("cifar10-operators")

    base = study.variant("base").network

    assert base.parameter_count() == 1_068_298
    assert study.published is not None
    assert set(study.published.figures) <= {variant.name for variant in study.variants}
    # The derivation of crop and batch: the outputs of both convolutions are the published bytes.
    for name in ("stride 2", "half the filters"):
        outputs = [layer.output_shape for layer in study.variant(name).network.layers if layer.kind == "conv2d"]
        size = sum(4 * batch * maps * height * width for batch, maps, height, width in outputs)
        assert study.published.figures[name].focus_bytes == pytest.approx(size, rel=2e-3)


def test_an_unknown_study_offers_the_nearest(tmp_path: object) -> None:
    with pytest.raises(UsageError, match=r"unknown study 'cifar10'; did you mean cifar10-operators\?"):
        load_study("cifar10")
    with pytest.raises(UsageError, match=r"cannot read nowhere/x\.toml: No such file"):
        load_study("nowhere/x.toml")


def test_another_learning_budget_lifts_the_limit_of_time() -> None:
    study = load_study("cifar10-operators")

    longer = with_learning_steps(study, 7)

    assert longer.learning is not None
    assert (longer.learning.steps, longer.learning.limit_s) == (7, None)
    with pytest.raises(UsageError, match="nothing to train"):
        with_learning_steps(read_study(LEAST, "small", "small.toml"), 7)


def test_names_become_words_of_file_names() -> None:
    assert file_word("stride 2, half the filters") == "stride-2-half-the-filters"
    assert file_word("torch/compile") == "torch-compile"
    assert file_word("é") == "x"


FULL = """
title = "Full"
about = "a text"
network = "cifar10"
training = true
focus = "conv2d"
frameworks = ["numpy", "torch"]
repetitions = 2
steps = 3
threads = 1
budget_s = 60
baseline = true
base = "base"
[parameters]
batch = 4
[variants]
"base" = {}
"stride 2" = { stride = 2 }
[learning]
framework = "numpy"
steps = 2
limit_s = 5
learning_rate = 0.1
weight_decay = true
[published]
source = "a paper"
notes = ["a note"]
recording_ratio = 1.5
[published.figures]
"base" = { focus_ms = 1.0 }
[published.shares_percent]
conv2d = 50
[quick]
steps = 1
variants = ["base"]
"""
VALUES = [
    "true", "-1", "0", "1.5", "nan", "inf", "1" + "0" * 30, '"text"', '""', '"\\u001b[31m\\u202e"', "[]", "[1]",
    '["a"]', "[[[]]]", "{}", "{ a = 1 }", "1979-05-27", "07:32:00",
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_a_wrong_value_in_any_field_is_refused_or_does_no_harm(value: str) -> None:
    lines = FULL.splitlines()

    for number, line in enumerate(lines):
        if " = " not in line:
            continue
        text = "\n".join([*lines[:number], f"{line.partition(' = ')[0]} = {value}", *lines[number + 1 :]])
        try:
            read(text)
        except UsageError as error:
            sentence = str(error)
            # A network's own sentence has its formula in a second line.
            assert len(sentence) < 900
            assert sentence.startswith("small.toml")


BOMBS = {
    "lists in lists": f"title = {'[' * 20000}{']' * 20000}",
    "a bit deep": f"title = {'[' * 60}{']' * 60}",
    "tables in tables": "a = " + "{a=" * 9000 + "1" + "}" * 9000,
    "a long header": f"[{'.'.join('a' * 9000)}]",
    "a long key": f"{'.'.join('a' * 9000)} = 1",
    "headers times keys": f"[{'.'.join('a' * 9000)}]\n" + "\n".join(f"k{n}=1" for n in range(6000)),
    "a long number": f"title = {'9' * 50000}",
    "a long name": f"{'a' * 60000} = 1",
    "a long text": f'network = "{"a" * 60000}"',
    "many variants": LEAST + "\n".join(f'"v{n}" = {{ batch = {n + 1} }}' for n in range(2000)),
    "many values": changed('"numpy"', ", ".join(f'"f{n}"' for n in range(8000))),
    "many combinations": LEAST[: LEAST.index("[variants]")]
    + "[axes]\n"
    + "".join(f"{name} = [{', '.join(map(str, range(1, 900)))}]\n" for name in ("batch", "filters", "crop", "pool")),
    "many repetitions": "repetitions = 1000000000000\n" + LEAST,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_meant_to_fill_the_memory_is_refused_in_a_sentence(name: str) -> None:
    with pytest.raises(UsageError) as error:
        read(BOMBS[name])

    assert len(str(error.value)) < 800
    assert str(error.value).startswith("small.toml")


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(LEAST + "# " + "a" * 70000, encoding="utf-8")

    for word, reason in (
        (str(path), "has more than 65,536 bytes: it is not a study"),
        ("/dev/zero", "not a regular file"),
    ):
        with pytest.raises(UsageError, match=reason):
            load_study(word)
