"""Specs as data: presets, round trips, counts by hand, and what importing them costs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from profkit import ops
from profkit.errors import SpecError, UsageError

EVERY_SPEC = [spec for op in ops.SPECS for spec in (*ops.presets_for(op).values(), *ops.odd_specs(op))]


@pytest.mark.parametrize("spec", EVERY_SPEC, ids=repr)
def test_a_spec_reads_back_from_json_and_from_its_words(spec: ops.Spec) -> None:
    from_json = ops.spec_from_dict(spec.to_dict())
    from_words = type(spec)(**spec.words())

    assert from_json == spec == from_words
    assert hash(from_json) == hash(spec)


@pytest.mark.parametrize("op", ops.SPECS)
def test_the_default_preset_is_the_spec_without_arguments(op: str) -> None:
    preset = ops.find_preset(op, ops.default_preset(op))

    assert preset == ops.SPECS[op]()
    assert preset.op == op


@pytest.mark.parametrize("op", ops.SPECS)
def test_odd_shapes_are_many_different_small_and_always_the_same(op: str) -> None:
    specs = ops.odd_specs(op)

    assert 14 <= len(specs) <= 60
    assert len(set(specs)) == len(specs)
    assert specs == ops.SPECS[op].odd_shapes()
    assert max(spec.min_bytes() for spec in specs) < 2**20


def test_odd_convolutions_cover_what_kernels_get_wrong() -> None:
    specs = [spec for spec in ops.odd_specs("conv2d") if isinstance(spec, ops.Conv2d)]

    assert any(spec.stride[0] > spec.kernel_size[0] for spec in specs)
    assert any(min(spec.window.pads) >= max(spec.kernel_size) for spec in specs)
    assert any(spec.window.pads[0] != spec.window.pads[1] for spec in specs)
    assert any(spec.padding == "same" and spec.stride != (1, 1) for spec in specs)
    assert any(spec.dilation != (1, 1) for spec in specs)
    assert any(1 < spec.groups < spec.in_channels for spec in specs)
    assert any(1 < spec.groups == spec.in_channels for spec in specs)
    assert any(spec.bias and spec.activation == "relu" for spec in specs)
    assert {spec.stride[0] for spec in specs} >= {1, 2, 3, 5}
    assert {spec.layout for spec in specs} == {"NCHW", "NHWC"}
    assert {spec.dtype for spec in specs} == {"float32", "float64", "float16", "bfloat16"}
    assert {spec.direction for spec in specs} == {"forward", "input-gradient", "weight-gradient"}


def test_an_unknown_preset_offers_the_nearest_names() -> None:
    with pytest.raises(UsageError, match=r"alexnet.conv9.*alexnet.conv5"):
        ops.find_preset("conv2d", "alexnet.conv9")


@pytest.mark.parametrize("ask", [ops.presets_for, ops.default_preset, ops.odd_specs])
def test_an_unknown_operator_is_a_usage_error_with_the_nearest_or_all(ask: Any) -> None:
    with pytest.raises(UsageError, match=r"conv3d.*did you mean conv2d"):
        ask("conv3d")
    with pytest.raises(UsageError, match=r"expected one of activation, add, attention, .*lstm, matmul"):
        ask("zzz")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"op": "conv3d"}, "'conv3d'.*did you mean conv2d"),
        ({}, "None.*expected one of activation, add, attention"),
        ({"op": "conv2d", "strides": 2}, "no field 'strides'.*did you mean stride"),
        ({"op": "softmax", "zzz": 2}, "no field 'zzz'.*rows, classes, dtype"),
    ],
)
def test_an_unknown_operator_or_field_is_an_error_that_offers_names(data: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        ops.spec_from_dict(data)


def test_a_spec_is_frozen_and_a_changed_copy_is_checked_again() -> None:
    spec = ops.Conv2d()

    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.batch = 2  # type: ignore[misc]
    with pytest.raises(SpecError, match="has no field 'colour'"):
        spec.replaced(colour=1)
    with pytest.raises(SpecError, match="does not divide"):
        spec.replaced(groups=3)
    assert spec.replaced(stride=2).stride == (2, 2)
    assert {spec: "found"}[ops.Conv2d()] == "found"


@pytest.mark.parametrize(
    ("name", "output", "multiply_adds_per_image"),
    [
        ("cifar10.crop24.conv1", (128, 64, 24, 24), 576 * 75 * 64),
        ("cifar10.crop24.conv2", (128, 64, 12, 12), 144 * 1600 * 64),
        ("cifar10.conv1", (128, 64, 32, 32), 1024 * 75 * 64),
        ("cifar10.conv2", (128, 64, 16, 16), 256 * 1600 * 64),
        ("alexnet.conv1", (32, 96, 55, 55), 105_415_200),
        ("alexnet.conv2", (32, 256, 27, 27), 223_948_800),
        ("alexnet.conv3", (32, 384, 13, 13), 149_520_384),
        ("alexnet.conv4", (32, 384, 13, 13), 112_140_288),
        ("alexnet.conv5", (32, 256, 13, 13), 74_760_192),
        ("alexnet.conv2.ungrouped", (32, 256, 27, 27), 447_897_600),
        ("googlenet.conv1", (32, 64, 112, 112), 112 * 112 * 64 * 147),
        ("googlenet.3a.5x5", (32, 32, 28, 28), 28 * 28 * 32 * 16 * 25),
        ("lenet.p8.conv2", (128, 24, 10, 10), 100 * 24 * 24 * 25),
        ("solar.conv1", (512, 32, 48, 48), 48 * 48 * 32 * 9),
        ("solar.conv2", (512, 64, 46, 46), 46 * 46 * 64 * 32 * 9),
        ("allcnn.conv6", (100, 192, 8, 8), 64 * 192 * 192 * 9),
        ("allcnn.conv9", (100, 10, 6, 6), 36 * 192 * 10),
    ],
)
def test_convolution_presets_have_the_published_shapes_and_operation_counts(
    name: str, output: tuple[int, ...], multiply_adds_per_image: int
) -> None:
    spec = ops.find_preset("conv2d", name)

    assert spec.output_shape() == output
    assert spec.flops() == 2 * output[0] * multiply_adds_per_image


def test_layers_of_a_network_fit_together() -> None:
    pool5, fc6 = ops.find_preset("pool2d", "alexnet.pool5"), ops.find_preset("matmul", "alexnet.fc6")
    solar_pool, dense = ops.find_preset("pool2d", "solar.pool"), ops.find_preset("matmul", "solar.dense")
    cifar_pool, local3 = ops.find_preset("pool2d", "cifar10.pool2"), ops.find_preset("matmul", "cifar10.local3")
    googlenet_pool = ops.find_preset("pool2d", "googlenet.pool1")

    assert np.prod(pool5.output_shape()[1:]) == 9216 == fc6.input_shapes()["a"][1]
    assert np.prod(solar_pool.output_shape()[1:]) == 33856 == dense.input_shapes()["a"][1]
    assert np.prod(cifar_pool.output_shape()[1:]) == 4096 == local3.input_shapes()["a"][1]
    assert googlenet_pool.output_shape() == (32, 64, 56, 56)


@pytest.mark.parametrize(
    ("spec", "flops", "elements"),
    [
        (ops.MatMul(2, 3, 4), 48, 8 + 12 + 6),
        (ops.MatMul(2, 3, 4, batch=5, bias=True), 5 * 6 * 9, 5 * (8 + 12 + 6) + 3),
        (ops.Conv2d(1, 2, 4, 4, 3, (3, 3), padding=(0, 0, 0, 0)), 12 * 2 * 18, 32 + 54 + 12),
        (
            ops.Conv2d(1, 2, 4, 4, 3, (3, 3), padding=(0, 0, 0, 0), bias=True, activation="relu"),
            12 * 38,
            32 + 54 + 3 + 12,
        ),
        (ops.Conv2d(1, 2, 4, 4, 4, (1, 1), padding=(0, 0, 0, 0), groups=2), 64 * 2, 32 + 4 + 64),
        (ops.Pool2d(1, 2, 4, 4, (2, 2), (2, 2), "valid"), 8 * 4, 32 + 8),
        (ops.Pool2d(1, 2, 4, 4, (2, 2), (2, 2), "valid", "average"), 8 * 5, 32 + 8),
        (ops.LocalResponseNorm(1, 3, 2, 2, size=5), 12 * 14, 24),
        (ops.BiasRelu(1, 3, 2, 2), 24, 12 + 3 + 12),
        (ops.Softmax(2, 3), 30, 12),
        (ops.Softmax(2, 3, direction="input-gradient"), 36, 18),
        (ops.BiasRelu(1, 3, 2, 2, direction="input-gradient"), 12, 36),
        (ops.BiasRelu(1, 3, 2, 2, direction="bias-gradient"), 24, 12 + 12 + 3),
        (ops.LocalResponseNorm(1, 3, 2, 2, size=5, direction="input-gradient"), 12 * 29, 36),
        (ops.Activation(7, "tanh"), 35, 14),
        (ops.Activation(7, "tanh", direction="input-gradient"), 56, 21),
        (ops.Add(7), 7, 21),
        (ops.Dropout(7), 7, 21),
        (ops.BatchNorm(2, 3, 1, 2), 12 * 7, 12 + 6 + 12),
        (ops.BatchNorm(2, 3, 1, 2, mode="inference"), 12 * 2, 12 + 12 + 12),
        (ops.BatchNorm(2, 3, 1, 2, direction="input-gradient"), 12 * 14, 12 + 3 + 12 + 12),
        (ops.BatchNorm(2, 3, 1, 2, direction="parameter-gradient"), 12 * 9, 12 + 12 + 6),
        (ops.LayerNorm(2, 3), 42, 6 + 6 + 6),
        (ops.Lstm(2, 3, 4, 5, returns_sequence=True), 30 * (72 + 8 + 12 + 10 + 4), 24 + 80 + 100 + 20 + 30),
        (ops.Attention(2, 3, 4, 5), 2 * 3 * 16 * 26, 4 * 120),
        (ops.Attention(2, 3, 4, 5, True), 2 * 3 * 10 * 26, 4 * 120),
        (ops.OptimiserStep(7), 7 * 13, 7 * 4 + 7 * 3),
        (ops.OptimiserStep(7, "sgd", momentum=0.0, weight_decay=0.1), 7 * 4, 7 * 3),
    ],
    ids=repr,
)
def test_flops_and_bytes_are_those_counted_by_hand(spec: ops.Spec, flops: int, elements: int) -> None:
    double = spec.replaced(dtype="float64")

    assert spec.flops() == flops == double.flops()
    assert spec.min_bytes() == 4 * elements
    assert double.min_bytes() == 8 * elements


def test_an_embedding_reads_indices_of_64_bits_and_each_row_of_its_table_once() -> None:
    assert ops.Embedding(7, 3, 5).min_bytes() == 7 * 8 + 4 * (7 + 3) * 5
    assert ops.Embedding(2, 9, 5, "float64").min_bytes() == 2 * 8 + 8 * (2 + 2) * 5
    assert ops.Embedding(2, 9, 5, direction="weight-gradient").min_bytes() == 2 * 8 + 4 * (2 + 9) * 5
    assert ops.Embedding(7, 3, 5).flops() == 0


def test_a_batch_of_one_product_has_no_batch_dimension() -> None:
    one, five = ops.MatMul(2, 3, 4, transpose_a=True), ops.MatMul(2, 3, 4, batch=5, transpose_b=True, bias=True)

    assert (one.input_shapes(), one.output_shape()) == ({"a": (4, 2), "b": (4, 3)}, (2, 3))
    assert five.input_shapes() == {"a": (5, 2, 4), "b": (5, 3, 4), "bias": (3,)}
    assert five.output_shape() == (5, 2, 3)


def test_inputs_are_the_same_bytes_for_the_same_seed() -> None:
    spec = ops.Conv2d(2, 3, 5, 5, 4, bias=True)

    first, again, other = spec.make_inputs(1), spec.make_inputs(1), spec.make_inputs(2)

    assert list(first) == ["x", "w", "b"]
    assert all(first[name].tobytes() == again[name].tobytes() for name in first)
    assert all(first[name].tobytes() != other[name].tobytes() for name in first)
    assert {array.dtype for array in first.values()} == {np.dtype("float32")}
