"""A network as a Theano graph: expressions, gradients layer by layer, SGD as updates; compiled functions come out."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from profkit.errors import UnsupportedError
from profkit.frameworks.adapter import Array
from profkit.frameworks.framework import quiet_warnings
from profkit.frameworks.layouts import symmetric_padding
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkConditions
from profkit.frameworks.theano.origins import OperatorOrigin, OriginFollower, mark
from profkit.ops import Conv2d, LocalResponseNorm, MatMul, Pool2d
from profkit.ops.networks.layer import CONV2D, DROPOUT, IMAGES, LRN, Layer
from profkit.ops.networks.network import CROSS_ENTROPY, Network
from profkit.ops.window import Window

Variable = Any
Function = Any
NOTES = {
    CONV2D: "convolution: CorrMM, windows gathered into columns image by image, each multiplied by BLAS",
    LRN: "local response normalisation is composed of elementwise operators: Theano has its own for GPUs only",
}
FORWARD, BACKWARD, OPTIMISER = "forward", "backward", "optimiser"


class TheanoModel(BuiltNetwork):
    """It is its own model: the source requests instrumented functions."""

    def __init__(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> None:
        self.model = self
        self.network = network
        self.conditions = conditions
        self.notes: Sequence[str] = [
            note for kind, note in NOTES.items() if any(layer.kind == kind for layer in network.layers)
        ]
        self._theano = importlib.import_module("theano")
        self._tensor = importlib.import_module("theano.tensor")
        self._parameters = {
            name: self._theano.shared(np.array(weights[name], np.float32), name=name)
            for name in network.parameter_shapes()
        }
        self._velocities: dict[str, Variable] = {}
        self._images = self._tensor.TensorType("float32", (False,) * len(network.input_shape()))(IMAGES)
        is_class = network.loss == CROSS_ENTROPY
        self._labels = self._tensor.lvector("labels") if is_class else self._tensor.fmatrix("labels")
        self._functions: dict[bool, Function] = {}
        self.compile_seconds: dict[str, float] = {}
        self.function(conditions.is_training)

    def put(self, images: Array, labels: Array, masks: Mapping[str, Array] | None = None) -> tuple[Array, Array]:
        """Contiguous arrays: Theano works on NumPy's memory."""
        labels = np.asarray(labels, np.int64 if self.network.loss == CROSS_ENTROPY else np.float32)
        return np.ascontiguousarray(images, np.float32), np.ascontiguousarray(labels)

    def infer(self, batch: tuple[Array, Array]) -> Any:
        return self.function(is_training=False)(batch[0])

    def train(self, batch: tuple[Array, Array]) -> Any:
        """The loss; parameters are updated by the same function."""
        if not self.conditions.is_training:
            raise UnsupportedError(self.no_training)
        return self.function(is_training=True)(*batch)

    def weights(self) -> dict[str, Array]:
        return {name: np.array(shared.get_value()) for name, shared in self._parameters.items()}

    @property
    def held_bytes(self) -> int:
        held = [*self._parameters.values(), *self._velocities.values()]
        return sum(int(shared.get_value(borrow=True).nbytes) for shared in held)

    def function(self, is_training: bool) -> Function:
        """The compiled step; compiled on first use."""
        if is_training not in self._functions:
            stats = self._theano.compile.ProfileStats(atexit_print=False)
            function = self.compiled(is_training, profile=stats)
            # With a profile at hand Theano would time every operator from now on.
            function.profile, function.fn.time_thunks = None, False
            self._functions[is_training] = function
            self.compile_seconds = {
                "compile_s": stats.compile_time,
                "optimise_s": stats.optimizer_time,
                "link_s": stats.linker_time,
            }
        return self._functions[is_training]

    @contextmanager
    def using(self, function: Function, is_training: bool) -> Iterator[None]:
        """Steps go through another function of this model for a while."""
        usual = self.function(is_training)
        self._functions[is_training] = function
        try:
            yield
        finally:
            self._functions[is_training] = usual

    def compiled(self, is_training: bool, **options: Any) -> Function:
        """A new function of the step, on the same parameters; its operators know their origins."""
        values = self._forward(is_training)
        logits = values[self.network.layers[-1].name]
        features = importlib.import_module("theano.compile.function_module").std_fgraph.features
        features.append(OriginFollower)
        try:
            with quiet_warnings():
                if not is_training:
                    return self._theano.function([self._images], logits, **options)
                loss = self._loss(logits)
                updates = self._updates(self._gradients(values, loss))
                return self._theano.function([self._images, self._labels], loss, updates=updates, **options)
        finally:
            features.remove(OriginFollower)

    def _forward(self, is_training: bool) -> dict[str, Variable]:
        values = {IMAGES: self._images}
        for layer in self.network.layers:
            result = self._layer(layer, values[layer.inputs[0]], is_training)
            if layer.activation == "relu":
                result = self._tensor.nnet.relu(result)
            mark([result], OperatorOrigin(FORWARD, layer.name))
            values[layer.name] = result
        return values

    def _layer(self, layer: Layer, x: Variable, is_training: bool) -> Variable:
        if isinstance(layer.spec, Conv2d):
            return self._conv(layer.name, layer.spec, x)
        if isinstance(layer.spec, MatMul):
            return self._tensor.dot(x, self._parameters[f"{layer.name}.w"]) + self._parameters[f"{layer.name}.b"]
        if isinstance(layer.spec, Pool2d):
            return self._pool(layer.spec, x)
        if isinstance(layer.spec, LocalResponseNorm):
            return self._lrn(layer.spec, x)
        if layer.kind == DROPOUT:
            return self._dropout(layer, x) if is_training else x
        return x.flatten(2)

    def _conv(self, name: str, spec: Conv2d, x: Variable) -> Variable:
        y = self._tensor.nnet.conv2d(
            x,
            self._parameters[f"{name}.w"],
            input_shape=spec.x_shape(),
            filter_shape=spec.w_shape(),
            border_mode=spec.window.sides,
            subsample=spec.stride,
            filter_flip=False,
            filter_dilation=spec.dilation,
            num_groups=spec.groups,
        )
        return y + self._parameters[f"{name}.b"].dimshuffle("x", 0, "x", "x")

    def _pool(self, spec: Pool2d, x: Variable) -> Variable:
        pool = importlib.import_module("theano.tensor.signal.pool").pool_2d
        how, pad = pooling_of(spec.window)
        if how == "explicit":
            x = self._padded(x, spec)
        return pool(x, spec.kernel_size, ignore_border=how != "ceil", stride=spec.stride, pad=pad, mode="max")

    def _padded(self, x: Variable, spec: Pool2d) -> Variable:
        top, _, left, _ = spec.window.pads
        shape = (spec.batch, spec.channels, *spec.window.padded_size)
        empty = self._tensor.alloc(np.float32("-inf"), *shape)
        inside = empty[:, :, top : top + spec.height, left : left + spec.width]
        return self._tensor.set_subtensor(inside, x)

    def _lrn(self, spec: LocalResponseNorm, x: Variable) -> Variable:
        before, after = spec.reach
        shape = (spec.batch, spec.channels + before + after, spec.height, spec.width)
        zeros = self._tensor.alloc(np.float32(0), *shape)
        squares = self._tensor.set_subtensor(zeros[:, before : before + spec.channels], self._tensor.sqr(x))
        energy = squares[:, : spec.channels]
        for i in range(1, spec.size):
            energy = energy + squares[:, i : i + spec.channels]
        scale = np.float32(spec.k) + np.float32(spec.alpha / spec.size) * energy
        return x * scale ** np.float32(-spec.beta)

    def _dropout(self, layer: Layer, x: Variable) -> Variable:
        streams = importlib.import_module("theano.sandbox.rng_mrg").MRG_RandomStreams(seed=1)
        kept = streams.binomial(size=layer.output_shape, p=1 - layer.rate, dtype="float32")
        return x * kept / np.float32(1 - layer.rate)

    def _loss(self, logits: Variable) -> Variable:
        tensor = self._tensor
        if self.network.loss == CROSS_ENTROPY:
            loss = tensor.nnet.categorical_crossentropy(tensor.nnet.softmax(logits), self._labels).mean()
        else:
            loss = tensor.mean(tensor.sqr(logits - self._labels))
        mark([loss], OperatorOrigin(FORWARD, ""))
        return loss

    def _gradients(self, values: Mapping[str, Variable], loss: Variable) -> dict[str, Variable]:
        """Of the loss by every parameter, layer by layer: one call for all would hide the layer of a node."""
        last = self.network.layers[-1].name
        arriving = {last: self._theano.grad(loss, values[last])}
        mark([arriving[last]], OperatorOrigin(BACKWARD, ""))
        gradients: dict[str, Variable] = {}
        for layer in reversed(self.network.layers):
            source = layer.inputs[0]
            names = list(layer.parameter_shapes())
            wanted = [self._parameters[name] for name in names]
            wanted += [values[source]] if source != IMAGES else []
            known = {values[layer.name]: arriving[layer.name]}
            found = self._theano.grad(None, wanted, known_grads=known) if wanted else []
            gradients.update(zip(names, found))
            if source != IMAGES:
                arriving[source] = arriving[source] + found[-1] if source in arriving else found[-1]
            mark(found, OperatorOrigin(BACKWARD, layer.name))
        return gradients

    def _updates(self, gradients: Mapping[str, Variable]) -> list[tuple[Variable, Variable]]:
        training = self.conditions.training
        updates: list[tuple[Variable, Variable]] = []
        for layer in self.network.layers:
            for name in layer.parameter_shapes():
                parameter, step = self._parameters[name], gradients[name]
                if training.weight_decay and layer.start.weight_decay and name.endswith(".w"):
                    step = step + np.float32(layer.start.weight_decay) * parameter
                if training.momentum:
                    step = np.float32(training.momentum) * self._velocity(name) + step
                    updates.append((self._velocity(name), step))
                updates.append((parameter, parameter - np.float32(training.learning_rate) * step))
            mark([new for _, new in updates], OperatorOrigin(OPTIMISER, layer.name))
        return updates

    def _velocity(self, name: str) -> Variable:
        if name not in self._velocities:
            zeros = np.zeros(self.network.parameter_shapes()[name], np.float32)
            self._velocities[name] = self._theano.shared(zeros, name=f"{name}.velocity")
        return self._velocities[name]


def pooling_of(window: Window) -> tuple[str, tuple[int, int]]:
    """How Theano gets exactly these windows, and the padding passed to it.

    floor: equal padding on both sides; ceil: windows start at the image's edge and the last ones are cut off;
    explicit: padded by separate operators first.
    """
    pad = symmetric_padding(window)
    if pad is not None and pad[0] < window.kernel[0] and pad[1] < window.kernel[1]:
        return "floor", pad
    if window.pads[0] == window.pads[2] == 0 and _cut_off(window) == window.out_size:
        return "ceil", (0, 0)
    return "explicit", (0, 0)


def _cut_off(window: Window) -> tuple[int, ...]:
    """Theano's output size when windows may reach over the far edge (its rule differs for gaps between windows)."""
    sizes = []
    for extent, kernel, stride in zip(window.size, window.kernel, window.stride):
        reach = extent - 1 if stride >= kernel else extent - 1 - kernel + stride
        sizes.append(max(0, reach // stride) + 1)
    return tuple(sizes)
