"""Sweeps over axes as they are declared: points, settings, rules, epochs, networks; mistakes with their line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from profkit.errors import UsageError
from profkit.ops.networks import LeNet, Mlp
from profkit.studies.conditions import StudyConditions
from profkit.studies.declaration import SPEED_UP, Epoch, PublishedValue, Setting, Study
from profkit.studies.plan import plan_cells
from profkit.studies.reading import load_study, read_study
from tests.studies.test_reading import VALUES

SWEEP = """
title = "Threads"
frameworks = ["torch", "native"]
repetitions = 1
baseline = false
[sweeps.mlp]
network = "mlp"
training = true
parameters = { batch = 16 }
axes = { hidden = [2, 4], neurons = [25, 50], threads = [1, 2] }
skip = [{ hidden = 4, threads = 1, reason = "no 4 layers on one thread" }, { framework = "native", neurons = [50] }]
epoch = { images = 100, epochs = 2, rounding = "ceil" }
plot = { x = "neurons", y = "epoch_s", colour = "hidden", marker = "framework", line = "threads" }
[sweeps.lenet]
network = "lenet"
axes = { maps = [2] }
[quick]
frameworks = ["torch"]
[quick.sweeps.mlp]
axes = { hidden = [2], neurons = [25] }
"""
TABLE = """
[published]
source = "somebody"
[published.tables."4.7"]
sweep = "mlp"
quantity = "speed_up"
fixed = { device = "cuda" }
columns = { neurons = [25, 50] }
rows = [{ framework = "theano", hidden = 8, values = [3.0, 4.5] }]
"""


def read(text: str = SWEEP, quick: bool = False) -> Study:
    return read_study(text, "small", "small.toml", quick)


def test_a_point_has_the_values_of_its_axes_in_network_and_setting() -> None:
    mlp, lenet = read().sweeps

    point = mlp.variants[-1]

    assert point.name == "mlp: hidden 4, neurons 50, threads 2"
    assert point.network == Mlp(batch=16, hidden=4, neurons=50)
    assert point.setting == Setting(threads=2, training=True)
    assert len(mlp.variants) == 8 and mlp.base == mlp.variants[0].name
    assert lenet.variants[0].network == LeNet(maps=2) and not lenet.variants[0].setting.training


def test_rules_skip_cells_with_their_reason_and_the_others_run() -> None:
    cells = plan_cells(read())

    skipped = {cell.id: cell.skipped for cell in cells if cell.skipped}
    assert len(cells) == 18 and len(skipped) == 7
    assert skipped["mlp-hidden-4-neurons-25-threads-1.torch.1"] == "no 4 layers on one thread"
    assert skipped["mlp-hidden-2-neurons-50-threads-1.native.1"] == (
        "the study leaves out framework native, neurons 50"
    )


def test_threads_that_the_machine_does_not_have_are_skipped() -> None:
    one, two = (plan_cells(read(), processors) for processors in (1, 2))

    reasons = {cell.skipped for cell in one} - {cell.skipped for cell in two}
    assert reasons == {"2 threads need 2 processors, and this process may use 1"}


@pytest.mark.parametrize(
    ("axis", "reason"),
    [
        ('device = ["cuda"]', "networks run on the processor only, not on cuda"),
        ('dtype = ["float16"]', "networks run in float32 only, not in float16"),
    ],
)
def test_devices_and_types_that_networks_do_not_know_are_skipped_with_a_reason(axis: str, reason: str) -> None:
    study = read(f'title = "x"\nframeworks = ["numpy"]\nnetwork = "mlp"\n[axes]\n{axis}\n')

    assert [cell.skipped for cell in plan_cells(study) if cell.kind == "measure"] == [reason] * 3
    assert not [cell for cell in plan_cells(study) if cell.kind != "measure"]


def test_every_field_of_a_setting_reaches_the_request() -> None:
    axes = '[axes]\nthreads = [2]\noptimizer = ["adam"]\ntraining = [true]\ndata_fraction = [0.5]\n'
    study = read(f'title = "x"\nframeworks = ["numpy"]\nnetwork = "mlp"\n{axes}')
    conditions = StudyConditions(study, threads=1)

    request = conditions.request(plan_cells(study)[0])

    assert (request.threads, request.training.optimizer, request.is_training) == (2, "adam", True)
    (about,) = conditions.identity()["variants"].values()
    assert (about["threads"], about["optimizer"], about["data_fraction"]) == (2, "adam", 0.5)


@pytest.mark.parametrize(("rounding", "steps"), [("floor", 12), ("ceil", 14)])
def test_steps_of_an_epoch_are_counted_as_declared(rounding: str, steps: int) -> None:
    assert Epoch(100, 2, rounding).steps(16) == steps
    assert Epoch(100, 2, rounding).steps(16, 0.16) == 2


def test_the_quick_form_is_a_part_of_the_study() -> None:
    quick = read(quick=True)

    assert [variant.name for variant in quick.sweeps[0].variants] == [
        "mlp: hidden 2, neurons 25, threads 1",
        "mlp: hidden 2, neurons 25, threads 2",
    ]
    assert quick.sweeps[0].axes["hidden"] == [2]
    assert len(quick.sweeps[1].variants) == 1


def test_published_tables_become_values_of_points() -> None:
    published = read(SWEEP + TABLE).published

    assert published is not None
    point = {"device": "cuda", "framework": "theano", "hidden": 8, "neurons": 50}
    assert published.values[1] == PublishedValue("4.7", "mlp", SPEED_UP, point, 4.5)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[sweeps.lenet]", "[sweeps.mlp2]\nnetwork = 'mpl'\n[sweeps.lenet]", "line 15: .*unknown network 'mpl'; did"),
        ("hidden = [2, 4]", "hiden = [2, 4]", r"line 10: sweeps.mlp.axes.*: unknown parameter of mlp; did you mean h"),
        ("threads = [1, 2]", "threads = [0]", "line 10: .*expected a whole number from 1 on, got 0"),
        ("threads = [1, 2]", 'optimizer = ["adm"]', r"line 10: .*unknown optimizer 'adm'; did you mean adam\?"),
        ("threads = [1, 2]", 'device = ["gpu"]', r"line 10: .*unknown device 'gpu'"),
        ("threads = [1, 2]", "data_fraction = [2]", "line 10: .*expected a number above 0, at most 1, got 2"),
        ("hidden = [2, 4]", 'hidden = ["a"]', "line 10: .*expected a value like 4, got 'a'"),
        ("{ hidden = 4, threads", "{ hiden = 4, threads", r"line 11: .*unknown axis; did you mean hidden\?"),
        ("{ hidden = 4, threads", "{ hidden = 5, threads", "line 11: .*no cell has hidden 5, threads 1"),
        ('skip = [{', 'skip = [{ reason = "x" }, {', "line 11: .*a rule without an axis would skip everything"),
        ('"ceil"', '"up"', "line 12: sweeps.mlp.epoch.rounding: unknown rounding 'up'"),
        ('x = "neurons"', 'x = "neuron"', r"line 13: .*unknown axis 'neuron'; did you mean neurons\?"),
        ('y = "epoch_s"', 'y = "epoch"', r"line 13: .*unknown quantity 'epoch'; did you mean epoch_s"),
        ('colour = "hidden"', 'colour = "depth"', "line 13: .*unknown axis 'depth'"),
        ("hidden = [2], neurons", "hidden = [3], neurons", "line 20: .*3 is no value of this axis in the study itself"),
        ("{ batch = 16 }", "{ batch = 16, hidden = 2 }", "line 9: .*hidden: is an axis too, whose values are taken"),
        ("{ maps = [2] }", '{ maps = [2] }\nplot = { y = "epoch_s" }', r"line 17: .*y: epoch_s needs \[epoch\]"),
        ("{ maps = [2] }", '{ maps = [2] }\nplot = { y = "speed_up" }', "line 17: .*y: speed_up needs an axis threads"),
        ("{ maps = [2] }", '{ training = [true] }\nplot = { x = "training" }', "line 17: .*training is no axis of num"),
        ("neurons = [25] }", "neurons = [50] }\nvariants = ['hidden 2, neurons 25, threads 1']", "line 21: .*none of"),
        ("[quick.sweeps.mlp]", "[quick.sweeps.mpl]", r"line 19: .*unknown sweep; did you mean mlp\?"),
        ('title = "Threads"', 'title = "Threads"\nnetwork = "mlp"', "line 3: network: belongs into the tables of"),
        ('frameworks = ["torch"]\n', 'variants = ["a"]\n', r"line 18: quick.variants: belongs into \[quick.sweeps.NA"),
    ],
)  # fmt: skip
def test_a_mistake_is_answered_with_its_line_and_the_nearest_name(old: str, new: str, expected: str) -> None:
    assert old in SWEEP

    with pytest.raises(UsageError, match=expected):
        read(SWEEP.replace(old, new))


def test_the_columns_of_a_published_table_may_be_frameworks() -> None:
    table = TABLE.replace("{ neurons = [25, 50] }", '{ framework = ["theano", "torch"] }')
    study = read(SWEEP + table.replace('framework = "theano"', "neurons = 25"))

    assert study.published is not None
    assert [value.point["framework"] for value in study.published.values] == ["theano", "torch"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('sweep = "mlp"', 'sweep = "mpl"', r"unknown sweep 'mpl'; did you mean mlp\?"),
        ('"speed_up"', '"speedup"', r"unknown quantity 'speedup'; did you mean speed_up\?"),
        ("[3.0, 4.5]", "[3.0]", "has 1 numbers for 2 columns"),
        ("[3.0, 4.5]", '[3.0, "x"]', "expected numbers from 0 on, got 'x'"),
        ("[3.0, 4.5]", "[3.0, -1]", "expected numbers from 0 on, got -1"),
        ("[3.0, 4.5]", f"[3.0, 1{'0' * 400}]", "expected numbers from 0 on, got a number of many digits"),
        ("hidden = 8", 'hidden = "8"', "line 29: .*hidden: expected a value like 4, got '8'"),
        ("[25, 50]", '[25, "50"]', "line 28: .*neurons: expected a value like 200, got '50'"),
        ('"theano"', "3", "line 29: .*framework: expected a text in quotes, got 3"),
        ("hidden = 8", "hiden = 8", "line 29: .*unknown axis; did you mean hidden"),
    ],
)
def test_mistakes_in_published_tables_are_found(old: str, new: str, expected: str) -> None:
    assert old in TABLE

    with pytest.raises(UsageError, match=expected):
        read(SWEEP + TABLE.replace(old, new))


def test_the_declaration_in_the_documents_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "studies.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)

    study = read("\n".join(blocks))

    assert len(blocks) == 2 and len(study.variants) == 12
    assert study.published is not None and (len(study.published.values), len(study.published.ratios)) == (2, 1)


def test_the_study_of_threads_and_devices_has_its_published_speed_ups() -> None:
    study = load_study("threads-and-devices")

    published = study.published
    assert published is not None
    assert len(published.values) == 8 * 4 + 8 * 5
    highest = max(published.values, key=lambda value: value.value)
    assert (highest.value, highest.point["framework"], highest.point["hidden"]) == (2045.85, "theano", 16)
    mlp, lenet = study.sweeps
    counts = {variant.name: variant.network.parameter_count() for variant in (*mlp.variants, *lenet.variants)}
    assert counts["mlp: hidden 8, neurons 25, threads 1"] == 4_957
    assert counts["mlp: hidden 16, neurons 200, threads 1"] == 606_207
    assert counts["lenet: convolutions 1, maps 8, threads 2"] == 577_438
    skipped = [cell for cell in plan_cells(study) if cell.skipped]
    assert len(skipped) == 4 * 4 * 2


RATIO = """
[[published.ratios]]
where = "section 1"
sweep = "mlp"
quantity = "epoch_s"
value = 2
point = { framework = "keras", hidden = 2 }
against = { framework = "torch", hidden = 2 }
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("value = 2", "value = 2\nlow = 1", "give value, or low and high"),
        ("value = 2", "low = 2", "give value, or low and high"),
        ('against = { framework = "torch", hidden = 2 }', "", "against: is missing or empty"),
        ("hidden = 2 }", "hidden = true }", "hidden: expected a value like 4, got True"),
    ],
)
def test_mistakes_in_published_ratios_are_found(old: str, new: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        read(SWEEP + TABLE + RATIO.replace(old, new))


FIELD = re.compile(r"(?<=[ {\n])(?=\w+ = (\[.*?\](?=[ ,\n])|\{.*?\}(?=[ ,\n\]])|\"[^\"]*\"|[\w.]+))")
"""Fields inside others too."""


@pytest.mark.parametrize("value", VALUES)
def test_a_wrong_value_anywhere_in_a_sweep_is_refused_or_does_no_harm(value: str) -> None:
    text = SWEEP + TABLE + RATIO
    fields = list(FIELD.finditer(text))

    assert len(fields) > 30
    for found in fields:
        try:
            study = read(text[: found.start(1)] + value + text[found.end(1) :])
        except UsageError as error:
            sentence = str(error)
            assert sentence.startswith("small.toml") and len(sentence) < 900
        else:
            assert len(plan_cells(study)) > 0
