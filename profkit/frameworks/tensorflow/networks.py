"""Networks in TensorFlow: as a tf.function (graph), eagerly, or as a v1 graph in a Session; images are held as NHWC.

One description of the step (model.py) serves all three, so that operators have the same names everywhere.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from profkit.frameworks.adapter import Array, Conditions, require
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkBuilder, NetworkConditions
from profkit.frameworks.networks.nhwc import images_to_nhwc, weights_from_nhwc, weights_to_nhwc
from profkit.frameworks.tensorflow.model import TensorflowModel
from profkit.frameworks.tensorflow.operators import ENVIRONMENT, begin_tensorflow
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.networks.network import CROSS_ENTROPY, Network
from profkit.ops.pool2d import MAX, Pool2d

GRAPH, EAGER, SESSION = "graph", "eager", "session"
Batch = tuple[Any, ...]


class TensorflowNetwork:
    """Variables in TensorFlow 2's runtime; the step is traced into a graph once, or run operator by operator."""

    def __init__(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> None:
        tf = importlib.import_module("tensorflow")
        self._network = network
        held = weights_to_nhwc(network, weights)
        variables = {name: tf.Variable(array, name=name) for name, array in held.items()}
        self.model = TensorflowModel(tf, network, conditions.training, variables)
        self.notes: Sequence[str] = [_held_note(network)]
        self.last_batch: Batch = ()
        """What was put last, for an event source that must run the step in another way."""
        self._infer, self._train = self.model.logits, self.model.train_step
        if conditions.mode == GRAPH:
            images, labels = (tf.TensorSpec(shape, kind) for shape, kind in _inputs(network))
            self._infer = tf.function(self.model.logits, [images], autograph=False)
            self._train = tf.function(self.model.train_step, [images, labels], autograph=False)

    def put(self, images: Array, labels: Array) -> Batch:
        """Tensors."""
        tf = self.model.tf
        self.last_batch = images, labels
        return tf.constant(images_to_nhwc(images)), tf.constant(labels)

    def infer(self, batch: Batch) -> Any:
        """On a CPU a call returns when its result exists: there is nothing to wait for."""
        return self._infer(batch[0])

    def train(self, batch: Batch) -> Any:
        """The loss."""
        return self._train(*batch)

    def graph(self, is_training: bool) -> Any:
        """The tf.Graph of a step as it was traced, before TensorFlow optimises it; None when run eagerly."""
        step = self._train if is_training else self._infer
        return step.get_concrete_function().graph if hasattr(step, "get_concrete_function") else None

    def to_numpy(self, result: Any) -> Array:
        """Of logits or of the loss."""
        array: Array = result.numpy()
        return array

    def weights(self) -> dict[str, Array]:
        """In the network's own layout."""
        held = {name: each.numpy() for name, each in self.model.variables.items()}
        return weights_from_nhwc(self._network, held)


class SessionNetwork:
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
        tf = importlib.import_module("tensorflow")
        self._network = network
        self.notes: Sequence[str] = [_held_note(network), "each batch is fed from NumPy arrays, as Sessions are"]
        self.run_arguments: dict[str, Any] = {}
        """What else Session.run is given, for an event source: options, run_metadata."""
        self._graph = tf.Graph()
        self._fetches: dict[str, Any] = {}
        held = weights_to_nhwc(network, weights)
        with self._graph.as_default():
            self._inputs = [tf.compat.v1.placeholder(kind, shape) for shape, kind in _inputs(network)]
            variables = {name: tf.Variable(tf.zeros(array.shape), name=name) for name, array in held.items()}
            self.model = TensorflowModel(tf, network, conditions.training, variables)
            initial = tf.compat.v1.global_variables_initializer()
            config = tf.compat.v1.ConfigProto(
                intra_op_parallelism_threads=conditions.threads, inter_op_parallelism_threads=1
            )
            config.graph_options.rewrite_options.disable_meta_optimizer = not is_optimised
            self._session = tf.compat.v1.Session(graph=self._graph, config=config)
            # Fed in the place of the zeros: weights in the graph itself would be kept twice.
            self._session.run(initial, {variables[name].initializer.inputs[1]: held[name] for name in held})

    def put(self, images: Array, labels: Array) -> Batch:
        """NumPy arrays."""
        return images_to_nhwc(images), labels

    def infer(self, batch: Batch) -> Any:
        """Logits; the graph is described on first use."""
        if "infer" not in self._fetches:
            with self._graph.as_default():
                self._fetches["infer"] = self.model.logits(self._inputs[0])
        return self._session.run(self._fetches["infer"], {self._inputs[0]: batch[0]}, **self.run_arguments)

    def train(self, batch: Batch) -> Any:
        """The loss; likewise."""
        if "train" not in self._fetches:
            with self._graph.as_default():
                loss = self.model.train_step(*self._inputs)
                self._fetches["train"] = loss, self.model.tf.group(self.model.updates)
        return self._session.run(self._fetches["train"], dict(zip(self._inputs, batch)), **self.run_arguments)[0]

    def graph(self, is_training: bool) -> Any:
        """The tf.Graph, which holds every step that was run."""
        return self._graph

    def to_numpy(self, result: Any) -> Array:
        """A Session returns NumPy values already."""
        array: Array = result
        return array

    def weights(self) -> dict[str, Array]:
        """In the network's own layout."""
        return weights_from_nhwc(self._network, self._session.run(dict(self.model.variables)))

    def close(self) -> None:
        """Give back the graph and the variables."""
        self._session.close()


class TensorflowBuilder(NetworkBuilder):
    """A graph, eager, or a Session."""

    name = "tensorflow"
    modes = (GRAPH, EAGER, SESSION)

    def supports(self, network: Network, conditions: NetworkConditions) -> str:
        """Refuses what TensorFlow's CPU operators cannot do."""
        for layer in network.layers:
            spec = layer.spec
            if isinstance(spec, Pool2d) and spec.mode != MAX:
                return f"{layer.name}: only max pooling is built, got {spec.mode}"
            if isinstance(spec, LocalResponseNorm) and spec.size % 2 == 0:
                return f"{layer.name}: TensorFlow normalises over an odd number of channels, got {spec.size}"
        return ""

    def environment(self, conditions: NetworkConditions) -> Mapping[str, str]:
        """No GPU, no log on standard error."""
        return ENVIRONMENT

    def start(self, conditions: NetworkConditions) -> dict[str, str]:
        """Import TensorFlow and set its threads."""
        require(self.is_available())
        return begin_tensorflow(Conditions(threads=conditions.threads))

    def build(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> BuiltNetwork:
        """The model; it is traced in its first step."""
        if conditions.mode == SESSION:
            return SessionNetwork(network, weights, conditions)
        return TensorflowNetwork(network, weights, conditions)


def _inputs(network: Network) -> tuple[tuple[tuple[int, ...], str], ...]:
    """Shapes and types of the images as they are held, and of the labels."""
    shape = network.input_shape()
    if len(shape) == 4:
        shape = (shape[0], *shape[2:], shape[1])
    labels = ((shape[0],), "int64") if network.loss == CROSS_ENTROPY else (network.output_shape(), "float32")
    return (shape, "float32"), labels


def _held_note(network: Network) -> str:
    if len(network.input_shape()) != 4:
        return "rows as they come"
    return "images are held as NHWC, filters as HWIO; the rows of the first dense layer are permuted to match"


BUILDER = TensorflowBuilder()
