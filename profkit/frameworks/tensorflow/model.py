"""A network's step in TensorFlow's operators, for variables and images that are held as NHWC.

The same code runs eagerly, is traced by tf.function, or builds a v1 graph. Every layer works under a name scope of its
own name; gradients come under `gradient_tape/<layer>`, updates under `optimiser/<layer>`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from profkit.frameworks.lazy import Tensor, tf
from profkit.frameworks.networks.graph import Evaluation
from profkit.frameworks.networks.optimisers import Numbers, change, decay_of, slot_names
from profkit.frameworks.tensorflow.layers import LAYERS
from profkit.ops.networks.network import BINARY_CROSS_ENTROPY, CROSS_ENTROPY, SQUARED_ERROR, Network
from profkit.ops.networks.training import Training
from profkit.ops.optimiser_step import ADAM, RMSPROP, SGD

LOSS, BACKWARD, OPTIMISER = "loss", "gradient_tape", "optimiser"
Masks = Mapping[str, Tensor]


class TensorflowModel:
    def __init__(self, network: Network, training: Training, variables: Mapping[str, Any]) -> None:
        """`variables` are the parameters and running values."""
        self.network = network
        self.variables = variables
        self.scope: Callable[[str], AbstractContextManager[Any]] = tf.name_scope
        """Opened around the code of each layer; an event source puts its own here while it watches an eager run."""
        self.updates: list[Any] = []
        self._training = training
        self._parameters = {name: variables[name] for name in network.parameter_shapes()}
        # Unlike Keras, no slot for a momentum of 0: the tutorial's optimiser has none.
        self._slots = {
            name: [
                tf.Variable(tf.zeros(each.shape), trainable=False, name=f"{name}.{slot}")
                for slot in slot_names(training)
            ]
            for name, each in self._parameters.items()
        }

    @property
    def held_bytes(self) -> int:
        """Of the parameters, running values and what the optimiser keeps, which are there before a step."""
        held = [*self.variables.values(), *(each for slots in self._slots.values() for each in slots)]
        return sum(each.shape.num_elements() * each.dtype.size for each in held)

    def logits(self, images: Tensor) -> Tensor:
        """What the last layer gives for NHWC images, in inference."""
        return Evaluation(self.network, self.variables).run(LAYERS, images, self.scope)

    def train_step(self, images: Tensor, labels: Tensor, masks: Masks, numbers: Numbers) -> Tensor:
        """Forward, backward and update; the loss. In a v1 graph `updates` must be fetched with it."""
        loss, gradients, running = self._differentiated(images, labels, masks)
        self.updates = []
        for name, value in running.items():
            # The slash at the end opens the same scope again.
            with self.scope(f"{name.rpartition('.')[0]}/"):
                self.updates.append(self.variables[name].assign(value))
        update = _UPDATES[self._training.optimizer]
        for name, found in gradients.items():
            layer = self.network.layer(name.rpartition(".")[0])
            with self.scope(f"{OPTIMISER}/{layer.name}/"):
                # Of an embedding only the rows are given that were looked up.
                gradient = tf.convert_to_tensor(found)
                if decay := decay_of(self._training, layer, name):
                    gradient += decay * self.variables[name]
                held = self._training, numbers, self.variables[name], self._slots[name]
                self.updates += update(*held, gradient)
        return loss

    def gradients(self, images: Tensor, labels: Tensor, masks: Masks) -> dict[str, Tensor]:
        """Of the loss, by every parameter; nothing is changed."""
        found = self._differentiated(images, labels, masks)[1]
        return {name: tf.convert_to_tensor(gradient) for name, gradient in found.items()}

    def _differentiated(
        self, images: Tensor, labels: Tensor, masks: Masks
    ) -> tuple[Tensor, dict[str, Any], dict[str, Tensor]]:
        """Loss, gradients by the parameters, new running values."""
        evaluation = Evaluation(self.network, self.variables, True, masks)
        with tf.GradientTape() as tape:
            output = evaluation.run(LAYERS, images, self.scope)
            with self.scope(LOSS):
                loss = _LOSSES[self.network.loss](output, labels)
        with self.scope(f"{BACKWARD}/"):
            gradients = tape.gradient(loss, dict(self._parameters))
        return loss, gradients, evaluation.running


_LOSSES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    CROSS_ENTROPY: lambda output, labels: tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels, output)
    ),
    SQUARED_ERROR: lambda output, labels: tf.reduce_mean(tf.square(output - labels)),
    BINARY_CROSS_ENTROPY: lambda output, labels: tf.reduce_mean(
        tf.nn.sigmoid_cross_entropy_with_logits(labels, output)
    ),
}


def _apply_sgd(training: Training, numbers: Numbers, variable: Any, slots: list[Any], gradient: Tensor) -> list[Any]:
    """TensorFlow's own update operators, which its optimisers before Keras 3 call."""
    if not slots:
        return [tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=numbers["rate"], delta=gradient)]
    return [
        tf.raw_ops.ResourceApplyMomentum(
            var=variable.handle,
            accum=slots[0].handle,
            lr=numbers["rate"],
            grad=gradient,
            momentum=numbers["momentum"],
            use_nesterov=training.nesterov,
        )
    ]


def _apply_adam(training: Training, numbers: Numbers, variable: Any, slots: list[Any], gradient: Tensor) -> list[Any]:
    """TensorFlow adds epsilon before it divides by the root of the second share; powers of 0 leave both to `lr`."""
    root = numbers["square_share"] ** 0.5
    return [
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=slots[0].handle,
            v=slots[1].handle,
            beta1_power=0.0,
            beta2_power=0.0,
            lr=numbers["rate"] * root / numbers["mean_share"],
            beta1=training.beta1,
            beta2=training.beta2,
            epsilon=training.epsilon * root,
            grad=gradient,
        )
    ]


def _apply_rmsprop(
    training: Training, numbers: Numbers, variable: Any, slots: list[Any], gradient: Tensor
) -> list[Any]:
    """Composed: TensorFlow's operator adds epsilon under the root."""
    step, kept = change(training, numbers, gradient, tuple(slots), tf.sqrt)
    return [variable.assign_sub(step), *(slot.assign(value) for slot, value in zip(slots, kept))]


_UPDATES: Mapping[str, Callable[..., list[Any]]] = {SGD: _apply_sgd, ADAM: _apply_adam, RMSPROP: _apply_rmsprop}
