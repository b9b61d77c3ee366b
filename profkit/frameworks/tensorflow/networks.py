"""Networks in TensorFlow: as a tf.function (graph), eagerly, or as a v1 graph in a Session; images are held as NHWC.

One description of the step (model.py) serves all three, so that operators have the same names everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from profkit.frameworks.adapter import Array, Conditions, require
from profkit.frameworks.lazy import tf
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkBuilder, NetworkConditions
from profkit.frameworks.networks.nhwc import (
    images_to_nhwc,
    masks_to_nhwc,
    refuse_order,
    weights_from_nhwc,
    weights_to_nhwc,
)
from profkit.frameworks.networks.optimisers import ALL_OPTIMIZERS, Numbers, StepNumbers
from profkit.frameworks.tensorflow.model import TensorflowModel
from profkit.frameworks.tensorflow.operators import ENVIRONMENT, begin_tensorflow
from profkit.ops.conv2d import Conv2d
from profkit.ops.networks.layer import ATTENTION, CONV2D, LAYER_KINDS, LAYER_NORM, LRN, LSTM, Layer
from profkit.ops.networks.network import Network

GRAPH, EAGER, SESSION = "graph", "eager", "session"
Batch = tuple[Any, ...]


class TensorflowNetwork(BuiltNetwork):
    """Variables in TensorFlow 2's runtime; the step is traced into a graph once, or run operator by operator."""

    def __init__(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> None:
        self._network = network
        held = weights_to_nhwc(network, weights)
        parameters = network.parameter_shapes()
        variables = {name: tf.Variable(array, name in parameters, name=name) for name, array in held.items()}
        self.model = TensorflowModel(network, conditions.training, variables)
        self.notes: Sequence[str] = _notes(network)
        self.last_batch: Batch = ()
        """What was put last (images, labels, masks), for an event source that must run the step in another way."""
        self._numbers = StepNumbers(conditions.training)
        self._arguments: Batch = ()
        steps: list[Any] = [self.model.logits, self._train_step, self.model.gradients]
        if conditions.mode == GRAPH:
            steps = [tf.function(step, autograph=False) for step in steps]
        self._infer, self._train, self._differentiate = steps

    def put(self, images: Array, labels: Array, masks: Mapping[str, Array] | None = None) -> Batch:
        self.last_batch = images, labels, masks
        held = images_to_nhwc(images), labels, masks_to_nhwc(self._network, masks or {})
        self._arguments = tf.nest.map_structure(tf.constant, held)
        return self._arguments

    def infer(self, batch: Batch) -> Any:
        """On a CPU a call returns when its result exists: there is nothing to wait for."""
        return self._infer(batch[0])

    def train(self, batch: Batch) -> Any:
        return self._train(*batch, _tensors(self._numbers.next()))

    def gradients(self, batch: Batch) -> dict[str, Array]:
        held = {name: each.numpy() for name, each in self._differentiate(*batch).items()}
        return weights_from_nhwc(self._network, held)

    def graph(self, is_training: bool) -> Any:
        """The tf.Graph of a step as it was traced, before TensorFlow optimises it; None when run eagerly."""
        if not hasattr(self._infer, "get_concrete_function"):
            return None
        if is_training:
            return self._train.get_concrete_function(*self._arguments, _tensors(self._numbers.now())).graph
        return self._infer.get_concrete_function(self._arguments[0]).graph

    def _train_step(self, images: Any, labels: Any, masks: Any, numbers: Numbers) -> Any:
        return self.model.train_step(images, labels, masks, numbers or self._numbers.constant)

    def to_numpy(self, result: Any) -> Array:
        array: Array = result.numpy()
        return array

    def set_rates(self, learning_rate: float, momentum: float) -> None:
        self._numbers.rates = learning_rate, momentum

    def weights(self) -> dict[str, Array]:
        held = {name: each.numpy() for name, each in self.model.variables.items()}
        return weights_from_nhwc(self._network, held)


class SessionNetwork(BuiltNetwork):
    """The same step as a TensorFlow 1 graph. Only a Session says which operator allocated how much.

    A graph that is not optimised runs as it was described, operator by operator: nothing is fused or folded.
    """

    def __init__(
        self,
        network: Network,
        weights: Mapping[str, Array],
        conditions: NetworkConditions,
        *,
        is_optimised: bool = True,
    ) -> None:
        self._network = network
        self.notes: Sequence[str] = [*_notes(network), "each batch is fed from NumPy arrays, as Sessions are"]
        self.run_arguments: dict[str, Any] = {}
        """What else Session.run is given, for an event source: options, run_metadata."""
        self._graph = tf.Graph()
        self._steps: dict[Any, tuple[Any, list[Any]]] = {}
        self._numbers = StepNumbers(conditions.training)
        held = weights_to_nhwc(network, weights)
        parameters = network.parameter_shapes()
        with self._graph.as_default():
            variables = {name: tf.Variable(tf.zeros(held[name].shape), name in parameters, name=name) for name in held}
            self.model = TensorflowModel(network, conditions.training, variables)
            initial = tf.compat.v1.global_variables_initializer()
            config = tf.compat.v1.ConfigProto(
                intra_op_parallelism_threads=conditions.threads, inter_op_parallelism_threads=1
            )
            config.graph_options.rewrite_options.disable_meta_optimizer = not is_optimised
            self._session = tf.compat.v1.Session(graph=self._graph, config=config)
            # Fed in the place of the zeros: weights in the graph itself would be kept twice.
            self._session.run(initial, {variables[name].initializer.inputs[1]: held[name] for name in held})

    def put(self, images: Array, labels: Array, masks: Mapping[str, Array] | None = None) -> Batch:
        return images_to_nhwc(images), labels, masks_to_nhwc(self._network, masks or {})

    def infer(self, batch: Batch) -> Any:
        """Logits; a step of the graph is described on first use."""
        return self._run(self.model.logits, batch[0])

    def train(self, batch: Batch) -> Any:
        return self._run(self._train_step, *batch, self._numbers.next())[0]

    def gradients(self, batch: Batch) -> dict[str, Array]:
        return weights_from_nhwc(self._network, self._run(self.model.gradients, *batch))

    def _train_step(self, images: Any, labels: Any, masks: Any, numbers: Numbers) -> Any:
        loss = self.model.train_step(images, labels, masks, numbers or self._numbers.constant)
        return loss, tf.group(self.model.updates)

    def _run(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """What a step gives for these arrays; those of one shape always run the same part of the graph."""
        arrays = tf.nest.flatten(arguments)
        key = step.__name__, *(each.shape for each in arrays)
        if key not in self._steps:
            with self._graph.as_default():
                inputs = [tf.compat.v1.placeholder(each.dtype, each.shape) for each in arrays]
                self._steps[key] = step(*tf.nest.pack_sequence_as(arguments, inputs)), inputs
        fetched, inputs = self._steps[key]
        return self._session.run(fetched, dict(zip(inputs, arrays)), **self.run_arguments)

    def graph(self, is_training: bool) -> Any:
        """The tf.Graph, which holds every step that was run."""
        return self._graph

    def set_rates(self, learning_rate: float, momentum: float) -> None:
        self._numbers.rates = learning_rate, momentum

    def weights(self) -> dict[str, Array]:
        return weights_from_nhwc(self._network, self._session.run(dict(self.model.variables)))

    def close(self) -> None:
        self._session.close()


class TensorflowBuilder(NetworkBuilder):
    name = "tensorflow"
    modes = (GRAPH, EAGER, SESSION)
    kinds = LAYER_KINDS
    composed = (ATTENTION, LAYER_NORM, LSTM)
    optimizers = ALL_OPTIMIZERS
    has_schedules = True

    def supports(self, network: Network, conditions: NetworkConditions) -> str:
        refused = next(filter(None, (_refusal(layer, conditions.is_training) for layer in network.layers)), "")
        return refused or refuse_order(network)

    def environment(self, conditions: NetworkConditions) -> Mapping[str, str]:
        """No GPU, no log on standard error."""
        return ENVIRONMENT

    def start(self, conditions: NetworkConditions) -> dict[str, str]:
        require(self.is_available())
        return begin_tensorflow(Conditions(threads=conditions.threads))

    def build(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> BuiltNetwork:
        """The model; it is traced in its first step."""
        if conditions.mode == SESSION:
            return SessionNetwork(network, weights, conditions)
        return TensorflowNetwork(network, weights, conditions)


def _refusal(layer: Layer, is_training: bool) -> str:
    spec: Any = layer.spec
    if layer.kind == LRN and spec.size % 2 == 0:
        return f"{layer.name}: TensorFlow normalises over an odd number of channels, got {spec.size}"
    if layer.kind == CONV2D and is_training and spec.dilation != (1, 1):
        height, width = spec.dilation
        return f"{layer.name}: TensorFlow's CPU gradient kernels take no dilation, got {height}x{width}"
    return ""


def _tensors(numbers: Numbers) -> dict[str, Any]:
    """As arguments of a step: a number would be traced as a constant."""
    return {name: tf.constant(number) for name, number in numbers.items()}


def _notes(network: Network) -> list[str]:
    held = "images are held as NHWC, filters as HWIO; the rows of the first dense layer are permuted to match"
    notes = [held if len(network.input_shape()) == 4 else "rows as they come"]
    if any(isinstance(layer.spec, Conv2d) and layer.spec.groups > 1 for layer in network.layers):
        notes.append("grouped convolutions train as one per group: TensorFlow has no gradient of theirs on CPU")
    return notes


BUILDER = TensorflowBuilder()
