"""The layers of a network in TensorFlow's operators, for images that are held as NHWC: a function per kind of layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import numpy as np

from profkit.frameworks.layouts import covers_image
from profkit.frameworks.lazy import Tensor, tf
from profkit.frameworks.networks.graph import Evaluation, LayerTable
from profkit.frameworks.networks.nhwc import channel_axis
from profkit.frameworks.tensorflow.operators import activated, average_factors, average_pool, padding_of
from profkit.ops.activation import FUNCTIONS
from profkit.ops.networks import layer as kinds
from profkit.ops.networks.layer import Layer
from profkit.ops.networks.positions import encoded_positions
from profkit.ops.pool2d import MAX
from profkit.ops.spec import Array

LAYERS = LayerTable()


ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    **{name: partial(activated, name) for name in FUNCTIONS},
}


def _finished(run: Evaluation, layer: Layer, y: Tensor) -> Tensor:
    """With bias and the fused activation."""
    spec: Any = layer.spec
    return ACTIVATIONS[layer.activation](tf.nn.bias_add(y, run.of(layer, "b")) if spec.bias else y)


@LAYERS.builds(kinds.CONV2D)
def _conv2d(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    spec: Any = layer.spec

    def convolved(x: Tensor, w: Any) -> Tensor:
        return tf.nn.conv2d(x, w, spec.stride, padding_of(spec.window), dilations=spec.dilation)

    if spec.groups > 1 and run.is_training:
        # TensorFlow has no gradient of a grouped convolution on CPU.
        pairs = zip(tf.split(x, spec.groups, axis=3), tf.split(run.of(layer, "w"), spec.groups, axis=3))
        return _finished(run, layer, tf.concat([convolved(*pair) for pair in pairs], axis=3))
    return _finished(run, layer, convolved(x, run.of(layer, "w")))


@LAYERS.builds(kinds.DENSE)
def _dense(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    """Of rows; those of several steps are put under each other, for one product."""
    y = _finished(run, layer, tf.matmul(_as_rows(x), run.of(layer, "w")))
    return y if x.shape.rank == 2 else tf.reshape(y, layer.output_shape)


def _as_rows(x: Tensor) -> Tensor:
    return x if x.shape.rank == 2 else tf.reshape(x, [-1, x.shape[-1]])


@LAYERS.builds(kinds.POOL2D)
def _pool2d(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    spec: Any = layer.spec
    if spec.mode == MAX:
        return tf.nn.max_pool2d(x, spec.kernel_size, spec.stride, padding_of(spec.window))
    if covers_image(spec.window):
        return tf.reduce_mean(x, axis=[1, 2], keepdims=True)
    return average_pool(spec, x, *map(tf.constant, average_factors(spec)))


@LAYERS.builds(kinds.LRN)
def _lrn(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    """TensorFlow's alpha is that of one channel, torch's that of the mean."""
    spec: Any = layer.spec
    return tf.nn.local_response_normalization(x, spec.size // 2, spec.k, spec.alpha / spec.size, spec.beta)


@LAYERS.builds(kinds.FLATTEN)
def _flatten(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    return tf.reshape(x, layer.output_shape)


@LAYERS.builds(kinds.DROPOUT)
def _dropout(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    if not run.is_training:
        return x
    return x * run.masks[layer.name] if layer.name in run.masks else tf.nn.dropout(x, layer.rate)


@LAYERS.builds(kinds.BATCH_NORM)
def _batch_norm(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    spec: Any = layer.spec
    parameters = run.of(layer, "scale"), run.of(layer, "shift")
    if x.shape.rank == 4:
        return _batch_norm_of_images(run, layer, x, *parameters)
    if run.is_training:
        mean, variance = tf.nn.moments(x, [0])
        run.follow(layer, "mean", mean)
        run.follow(layer, "variance", variance)
    else:
        mean, variance = run.of(layer, "mean"), run.of(layer, "variance")
    return tf.nn.batch_normalization(x, mean, variance, parameters[1], parameters[0], spec.epsilon)


def _batch_norm_of_images(run: Evaluation, layer: Layer, x: Tensor, scale: Any, shift: Any) -> Tensor:
    """One operator; tf.nn.fused_batch_norm would call it with an epsilon of at least 1.001e-5."""
    spec: Any = layer.spec
    given = () if run.is_training else (run.of(layer, "mean"), run.of(layer, "variance"))
    mean, variance = map(tf.convert_to_tensor, given or ([], []))
    y, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
        x=x,
        scale=tf.convert_to_tensor(scale),
        offset=tf.convert_to_tensor(shift),
        mean=mean,
        variance=variance,
        epsilon=spec.epsilon,
        is_training=run.is_training,
    )
    if run.is_training:
        count = spec.batch * spec.height * spec.width
        run.follow(layer, "mean", mean)
        # What the operator gives is divided by count - 1.
        run.follow(layer, "variance", variance * (max(count - 1, 1) / count))
    return y


@LAYERS.builds(kinds.LAYER_NORM)
def _layer_norm(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    spec: Any = layer.spec
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, run.of(layer, "shift"), run.of(layer, "scale"), spec.epsilon)


@LAYERS.builds(kinds.ACTIVATION)
def _activation(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    spec: Any = layer.spec
    return ACTIVATIONS[spec.function](x)


@LAYERS.builds(kinds.ADD)
def _add(run: Evaluation, layer: Layer, a: Tensor, b: Tensor) -> Tensor:
    return tf.add(a, b)


@LAYERS.builds(kinds.CONCAT)
def _concat(run: Evaluation, layer: Layer, *parts: Tensor) -> Tensor:
    return tf.concat(parts, axis=channel_axis(layer))


@LAYERS.builds(kinds.EMBEDDING)
def _embedding(run: Evaluation, layer: Layer, indices: Tensor) -> Tensor:
    return tf.gather(run.of(layer, "w"), indices)


@LAYERS.builds(kinds.POSITIONS)
def _positions(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    return x + tf.constant(_position_table(*layer.output_shape[1:]))


@cache
def _position_table(steps: int, width: int) -> Array:
    """Made once: eager mode comes here in every step."""
    return encoded_positions(steps, width).astype(np.float32)


@LAYERS.builds(kinds.LSTM)
def _lstm(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    """The inputs' products of all steps at once, the recurrent ones in a loop."""
    spec: Any = layer.spec
    gate, squash = ACTIVATIONS[spec.recurrent_activation], ACTIVATIONS[spec.activation]
    u = tf.convert_to_tensor(run.of(layer, "u"))  # read once, not in every step
    sums = tf.nn.bias_add(tf.matmul(_as_rows(x), run.of(layer, "w")), run.of(layer, "b"))
    by_step = tf.transpose(tf.reshape(sums, [spec.batch, spec.steps, -1]), [1, 0, 2])
    arriving = tf.TensorArray(x.dtype, spec.steps, element_shape=by_step.shape[1:]).unstack(by_step)
    zeros = tf.zeros([spec.batch, spec.cells], x.dtype)
    kept = tf.TensorArray(x.dtype, spec.steps if spec.returns_sequence else 0, element_shape=zeros.shape)

    def step(number: Tensor, h: Tensor, c: Tensor, kept: Any) -> tuple[Any, ...]:
        i, f, candidate, o = tf.split(arriving.read(number) + tf.matmul(h, u), 4, axis=1)
        c = gate(f) * c + gate(i) * squash(candidate)
        h = gate(o) * squash(c)
        return number + 1, h, c, kept.write(number, h) if spec.returns_sequence else kept

    start = (tf.constant(0), zeros, zeros, kept)
    _, last, _, kept = tf.while_loop(lambda number, *_: number < spec.steps, step, start, maximum_iterations=spec.steps)
    return tf.transpose(kept.stack(), [1, 0, 2]) if spec.returns_sequence else last


@LAYERS.builds(kinds.ATTENTION)
def _attention(run: Evaluation, layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    spec: Any = layer.spec
    shape = [spec.batch, spec.steps, spec.heads, spec.width]
    q, k, v = (tf.transpose(tf.reshape(each, shape), [0, 2, 1, 3]) for each in (q, k, v))
    scores = tf.matmul(q, k, transpose_b=True) * spec.width**-0.5
    if spec.causal:
        scores += _later(spec.steps)
    seen = tf.matmul(tf.nn.softmax(scores), v)
    return tf.reshape(tf.transpose(seen, [0, 2, 1, 3]), layer.output_shape)


@cache
def _later(steps: int) -> Array:
    """What hides the later steps when it is added: exp(-inf) is 0. Made once, as the positions."""
    return np.triu(np.full((steps, steps), -np.inf, np.float32), 1)


@LAYERS.builds(kinds.MEAN)
def _mean(run: Evaluation, layer: Layer, x: Tensor) -> Tensor:
    return tf.reduce_mean(x, axis=1)
