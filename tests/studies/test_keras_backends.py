"""The study of Keras' backends can be declared: its sweeps, its tables, and where they contradict each other."""

from __future__ import annotations

from profkit.studies.analyses.agreement import agreements
from profkit.studies.analyses.contradictions import contradictions
from profkit.studies.reading import read_study
from tests.studies.analyses.builders import point

TEXT = """
title = "Keras over three backends"
frameworks = ["keras/tensorflow", "keras/torch", "keras/jax"]
baseline = false

[sweeps.depth]
network = "cnn_softmax"
training = true
parameters = { padded = true }
axes = { depth = [1, 2, 3, 4, 5] }
skip = [{ framework = "keras/jax", depth = 5, reason = "CNTK ran out of memory" }]
epoch = { images = 60000, epochs = 110, rounding = "ceil" }
plot = { x = "depth", y = "total_s" }

[sweeps.fraction]
network = "cnn_softmax"
training = true
axes = { data_fraction = [0.33, 0.4, 0.57, 0.64, 0.83, 1.0] }
epoch = { images = 60000, epochs = 110, rounding = "ceil" }

[sweeps.perceptron]
network = "mlp"
training = true
parameters = { batch = 32, inputs = 784, outputs = 10, halving = true, start = "glorot" }
axes = { hidden = [1, 2, 3, 4, 5, 6] }

[sweeps.cells]
network = "imdb_lstm"
training = true
axes = { cells = [25, 50, 100, 200, 400, 800], optimizer = ["adam"] }

[sweeps.base]
network = "dnn_w20"
training = true
axes = { batch = [128] }
epoch = { images = 60000, epochs = 500 }

[published]
source = "Keras 2.0.8 over three backends, GTX TITAN X, 2017"
places = { theano = "keras/torch", cntk = "keras/jax", tensorflow = "keras/tensorflow" }

[published.tables."Table 4.3"]
sweep = "base"
quantity = "total_s"
columns = { batch = [128] }
rows = [
  { framework = "theano", values = [2041.43], margins = [6.28] },
  { framework = "tensorflow", values = [1351.48], margins = [30.41] },
  { framework = "cntk", values = [967.89], margins = [0.12] },
]

[published.tables."Table 4.7"]
sweep = "base"
quantity = "total_s"
columns = { batch = [128] }
rows = [
  { framework = "theano", values = [2400.0] },
  { framework = "tensorflow", values = [1352.7] },
  { framework = "cntk", values = [965.9] },
]

[[published.ratios]]
where = "sweep of the depth"
sweep = "depth"
quantity = "total_s"
low = 2.2
high = 3.5
point = { framework = "theano", depth = 1 }
against = { framework = "tensorflow", depth = 1 }
"""


def test_its_sweeps_have_the_published_numbers_of_parameters() -> None:
    study = read_study(TEXT, "keras-backends", "keras-backends.toml")

    depth, fraction, perceptron, cells, base = study.sweeps
    counts = [[variant.network.parameter_count() for variant in sweep.variants] for sweep in study.sweeps]
    assert (counts[0][0], counts[0][-1]) == (1_625_606, 2_137_990)
    assert counts[2] == [623_290, 549_426, 478_586, 443_646, 426_277, 418_384]
    assert (counts[3][0], counts[3][-1]) == (165_826, 2_826_401)
    assert base.variants[0].network.parameter_count() == 34_040
    assert fraction.epoch is not None and fraction.epoch.steps(128, 0.33) == 155 * 110
    assert cells.variants[0].setting.optimizer == "adam"
    assert depth.skip_reason(depth.variants[-1], "keras/jax") == "CNTK ran out of memory"
    assert perceptron.base == "perceptron: hidden 1"


def test_other_backends_stand_in_the_places_of_those_that_are_gone() -> None:
    published = read_study(TEXT, "keras-backends", "keras-backends.toml").published
    assert published is not None
    values = [value for value in published.values if value.table == "Table 4.7"]
    points = [point("keras/torch", 20, batch=128), point("keras/tensorflow", 10, batch=128)]

    found = agreements(points, [], values, published.places)

    verdicts = {(each.point["framework"], each.against["framework"]): each.verdict for each in found}
    assert verdicts == {
        ("theano", "tensorflow"): "agrees",
        ("theano", "cntk"): "not measured here",
        ("tensorflow", "cntk"): "not measured here",
    }


def test_the_two_times_of_one_network_contradict_each_other() -> None:
    published = read_study(TEXT, "keras-backends", "keras-backends.toml").published
    assert published is not None

    (found,) = contradictions(published.values, published.ratios)

    assert (found.where, found.point["framework"]) == (("Table 4.3", "Table 4.7"), "theano")
