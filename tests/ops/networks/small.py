"""A small variant of every network, with few numbers in each layer."""

from __future__ import annotations

from typing import Any

from profkit.ops.networks import NETWORKS, Network

_FIELDS: dict[str, dict[str, Any]] = {
    # Its results are the biases, nearly: with other sizes float32 may find other maxima than float64.
    "alexnet": {"batch": 2, "factor": 1 / 16, "classes": 5},
    "all_cnn_c": {"batch": 2, "factor": 1 / 16},
    "ap_relu": {"batch": 2, "filters": 1 / 16},
    "basic_svhn": {"batch": 3, "filters": 1 / 64, "neurons": 12},
    "cifar10": {"batch": 2, "crop": 24, "filters": 4},
    "cnn_relu": {"batch": 2, "filters": 1 / 16, "neurons": 24},
    "cnn_softmax": {"batch": 2, "filters": 1 / 16},
    "dnn_w20": {"batch": 2},
    "googlenet": {"batch": 1, "factor": 1 / 16, "side": 48, "classes": 5},
    "hmdir_lstm": {"batch": 3, "depth": 2, "cells": 5, "length": 4},
    "imdb_lstm": {"batch": 3, "depth": 2, "cells": 6, "length": 5, "known_words": 40},
    "lenet": {"batch": 3, "maps": 2},
    "mlp": {"batch": 4, "hidden": (12, 9)},
    "mp_relu": {"batch": 2, "filters": 1 / 16},
    "overfeat": {"batch": 1, "factor": 1 / 64, "classes": 5},
    "resnet50": {"batch": 2, "factor": 1 / 32, "side": 48, "classes": 5},
    "solar": {"batch": 1},
    "solar_mlp": {"batch": 5, "widths": (16, 8)},
    "transformer": {"batch": 2, "depth": 1, "heads": 2, "width": 8, "length": 5, "known_words": 30, "causal": True},
    "vgg16": {"batch": 1, "factor": 1 / 32, "side": 32, "classes": 5},
    "wrn_16_8": {"batch": 2, "depth": 10, "width": 1},
}


def small_networks() -> list[Network]:
    """Every network that there is: one that is missing above is taken with a batch of 2."""
    return [kind(**_FIELDS.get(name, {"batch": 2})) for name, kind in NETWORKS.items()]
