"""A network's step in TensorFlow's operators, for variables and images that are held as NHWC.

The same code runs eagerly, is traced by tf.function, or builds a v1 graph. Every layer works under a name scope of its
own name; gradients come under `gradient_tape/<layer>`, updates under `optimiser/<layer>`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from profkit.frameworks.tensorflow.operators import padding_of
from profkit.ops.conv2d import Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.networks.layer import DROPOUT, FLATTEN, IMAGES, Layer
from profkit.ops.networks.network import CROSS_ENTROPY, Network
from profkit.ops.networks.training import Training
from profkit.ops.pool2d import Pool2d

LOSS, BACKWARD, OPTIMISER = "loss", "gradient_tape", "optimiser"
Tensor = Any


class TensorflowModel:
    """Variables and the step that uses them."""

    def __init__(self, tf: Any, network: Network, training: Training, variables: Mapping[str, Any]) -> None:
        self.tf = tf
        self.network = network
        self.variables = variables
        self.scope: Callable[[str], AbstractContextManager[Any]] = tf.name_scope
        """Opened around the code of each layer; an event source puts its own here while it watches an eager run."""
        self.updates: list[Any] = []
        self._training = training
        # Unlike Keras, no slot for a momentum of 0: the tutorial's optimiser has none.
        self._velocities = (
            {name: tf.Variable(tf.zeros(each.shape), trainable=False, name=f"{name}.velocity")
             for name, each in variables.items()} if training.momentum else {}
        )  # fmt: skip

    @property
    def held_bytes(self) -> int:
        """Of the parameters and their velocities, which are there before a step."""
        held = [*self.variables.values(), *self._velocities.values()]
        return sum(each.shape.num_elements() * each.dtype.size for each in held)

    def logits(self, images: Tensor) -> Tensor:
        """What the last layer gives for NHWC images, in inference."""
        return self._forward(images, is_training=False)

    def train_step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Forward, backward and update; the loss. In a v1 graph `updates` must be fetched with it."""
        tf = self.tf
        with tf.GradientTape() as tape:
            loss = self._loss(self._forward(images, is_training=True), labels)
        with self.scope(f"{BACKWARD}/"):
            gradients = tape.gradient(loss, list(self.variables.values()))
        self.updates = [self._update(name, gradient) for name, gradient in zip(self.variables, gradients)]
        return loss

    def _forward(self, images: Tensor, is_training: bool) -> Tensor:
        values = {IMAGES: images}
        for layer in self.network.layers:
            with self.scope(layer.name):
                values[layer.name] = self._layer(layer, values[layer.inputs[0]], is_training)
        return values[self.network.layers[-1].name]

    def _layer(self, layer: Layer, x: Tensor, is_training: bool) -> Tensor:
        tf, spec = self.tf, layer.spec
        if isinstance(spec, Conv2d):
            y = tf.nn.conv2d(x, self._w(layer), spec.stride, padding_of(spec.window), dilations=spec.dilation)
            return self._activated(layer, tf.nn.bias_add(y, self._b(layer)))
        if isinstance(spec, MatMul):
            return self._activated(layer, tf.nn.bias_add(tf.matmul(x, self._w(layer)), self._b(layer)))
        if isinstance(spec, Pool2d):
            return tf.nn.max_pool2d(x, spec.kernel_size, spec.stride, padding_of(spec.window))
        if isinstance(spec, LocalResponseNorm):
            # TensorFlow's alpha is that of one channel, torch's that of the mean.
            return tf.nn.local_response_normalization(x, spec.size // 2, spec.k, spec.alpha / spec.size, spec.beta)
        if layer.kind == FLATTEN:
            return tf.reshape(x, layer.output_shape)
        assert layer.kind == DROPOUT, layer.kind
        return tf.nn.dropout(x, layer.rate) if is_training else x

    def _activated(self, layer: Layer, x: Tensor) -> Tensor:
        return self.tf.nn.relu(x) if layer.activation == "relu" else x

    def _w(self, layer: Layer) -> Any:
        return self.variables[f"{layer.name}.w"]

    def _b(self, layer: Layer) -> Any:
        return self.variables[f"{layer.name}.b"]

    def _loss(self, output: Tensor, labels: Tensor) -> Tensor:
        tf = self.tf
        with self.scope(LOSS):
            if self.network.loss == CROSS_ENTROPY:
                each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, output)
                return tf.reduce_mean(each)
            return tf.reduce_mean(tf.square(output - labels))

    def _update(self, name: str, gradient: Tensor) -> Any:
        """TensorFlow's own update operators, which its optimisers before Keras 3 call."""
        tf, training = self.tf, self._training
        layer = self.network.layer(name.rpartition(".")[0])
        variable = self.variables[name]
        # The slash at the end opens the same scope again for the bias.
        with self.scope(f"{OPTIMISER}/{layer.name}/"):
            if training.weight_decay and layer.start.weight_decay and name.endswith(".w"):
                gradient = gradient + layer.start.weight_decay * variable
            if not self._velocities:
                return tf.raw_ops.ResourceApplyGradientDescent(
                    var=variable.handle, alpha=training.learning_rate, delta=gradient
                )
            return tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle,
                accum=self._velocities[name].handle,
                lr=training.learning_rate,
                grad=gradient,
                momentum=training.momentum,
            )
