"""The operations of a step, one after another: a graph of layers and a library of kernels in, Operations out.

A spec that the library has no kernel for is done by an array expression, and the operation says so. Where a result has
several readers, their gradients are added by operations of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import methodcaller
from typing import Any

import numpy as np

from profkit.frameworks.networks import array_sequences as sequences
from profkit.frameworks.networks import array_training as steps
from profkit.frameworks.networks.array_operators import (
    array_call,
    batch_norm,
    batch_norm_gradient,
    layer_norm_gradient,
    relu_gradient,
    statistics_of_sums,
)
from profkit.frameworks.networks.kernels import Kernels, LayerKernel
from profkit.frameworks.networks.layer_program import LABELS, Operation, gradient, mask_of, state_names
from profkit.ops.activation import RELU
from profkit.ops.add import Add
from profkit.ops.batch_norm import PARAMETER_GRADIENT
from profkit.ops.bias_relu import BIAS_GRADIENT
from profkit.ops.conv2d import FORWARD as RESULT
from profkit.ops.conv2d import INPUT_GRADIENT, WEIGHT_GRADIENT
from profkit.ops.lstm import GATE_GRADIENT
from profkit.ops.networks import layer as kinds
from profkit.ops.networks.initialisers import Shape
from profkit.ops.networks.layer import IMAGES, Layer
from profkit.ops.networks.network import BINARY_CROSS_ENTROPY, CROSS_ENTROPY, Network
from profkit.ops.networks.parts import dropout_spec, gradient_specs, input_product, result_spec
from profkit.ops.networks.positions import encoded_positions
from profkit.ops.networks.reference import KEPT
from profkit.ops.networks.work import BACKWARD, FORWARD, NO_LAYER, OPTIMISER
from profkit.ops.pool2d import MAX
from profkit.ops.spec import Spec

LOSS = "loss"
Names = tuple[str, ...]


class LayerPlan:
    """Collects the operations of a step in order; keeps track of the current layer and phase."""

    def __init__(
        self, network: Network, kernels: Kernels, is_training: bool, numbers: steps.StepNumbers | None = None
    ) -> None:
        self.operations: list[Operation] = []
        self.is_training = is_training
        self.numbers = numbers
        """With them, the step changes weights and running statistics."""
        self.xp = kernels.xp
        self._network = network
        self._kernels = kernels
        self._layer, self._phase = NO_LAYER, FORWARD
        results = {layer.name: layer.output_shape for layer in network.layers}
        self._shapes: dict[str, Shape] = {IMAGES: network.input_shape(), **results, **network.weight_shapes()}
        self._arriving: dict[str, str] = {}
        """The gradient by each layer's result, of the readers so far."""
        self._shared: set[str] = set()
        """Values of which another name is in use: nothing may change them."""

    # --- Phases ---

    def add_forward(self) -> None:
        for layer in self._network.layers:
            self._layer, self._phase = layer.name, FORWARD
            _FORWARD[layer.kind](self, layer)

    def add_backward(self) -> None:
        """Forward, loss, and the gradients by all parameters."""
        self.add_forward()
        self._add_loss()
        for layer in reversed(self._network.layers):
            if self.wants(layer.name):
                self._layer, self._phase = layer.name, BACKWARD
                _BACKWARD[layer.kind](self, layer, self._arriving.pop(layer.name))

    def add_update(self) -> None:
        """One call per parameter, after all gradients are known."""
        assert self.numbers is not None
        training = self.numbers.training
        for layer in self._network.layers:
            self._layer, self._phase = layer.name, OPTIMISER
            for name in layer.parameter_shapes():
                decay = layer.decay_of(name) if training.weight_decay else 0.0
                changed = (name, *state_names(name, training))
                inputs = (name, gradient(name), *changed[1:])
                part = f"{training.optimizer}_{name.rpartition('.')[2]}"
                spec = training.step_spec(math.prod(self._shapes[name]), decay)
                found = self._kernels.optimiser(spec, self.numbers)
                if found is None:
                    call = steps.optimiser(self.xp, self.numbers, decay)
                    self.array(training.optimizer, call, inputs, *changed, part=part)
                else:
                    self._add(part, operator_type(spec), found, found.run, inputs, changed)

    def _add_loss(self) -> None:
        output = self._network.layers[-1].name
        self._layer, self._phase = NO_LAYER, FORWARD
        arguments: Names
        if self._network.loss == CROSS_ENTROPY:
            arguments = ("loss/log_softmax", LABELS)
            self.array("log_softmax", steps.log_softmax(self.xp), (output,), arguments[0])
            self.array("cross_entropy", steps.cross_entropy(self.xp), arguments, LOSS)
            backward = steps.cross_entropy_gradient(self.xp, self._shapes[output])
        elif self._network.loss == BINARY_CROSS_ENTROPY:
            arguments = (output, LABELS)
            self.array("binary_cross_entropy", steps.binary_cross_entropy(self.xp), arguments, LOSS)
            backward = steps.binary_cross_entropy_gradient(self.xp)
        else:
            arguments = ("loss/difference",)
            self.array("subtract", self.xp.subtract, (output, LABELS), arguments[0])
            self.array("squared_error", steps.squared_error, arguments, LOSS)
            backward = steps.squared_error_gradient
        self._phase = BACKWARD
        first = self.new_gradient(output)
        self.array(f"{self._network.loss}_gradient", backward, arguments, first)
        self.arrives(output, first)

    # --- Operations ---

    def has(self, *specs: Spec) -> bool:
        """Whether the library has kernels for all of them."""
        return all(self._kernels.kernel(spec) is not None for spec in specs)

    def kernel(self, part: str, spec: Spec, inputs: Names, *outputs: str, saved: Names = ()) -> None:
        """The library's kernel, or an array expression, which need not compute again what is `saved`."""
        found = self._kernels.kernel(spec)
        if found is not None:
            run = self._shaped(found.run, spec, inputs, outputs)
            self._add(part, operator_type(spec), found, run, inputs, outputs, _fused(spec))
            return
        run = self._shaped(array_call(self.xp, spec), spec, inputs, outputs)
        self.array(operator_type(spec), run, (*inputs, *saved), *outputs, part=part)

    def _add(
        self,
        part: str,
        kind: str,
        found: LayerKernel,
        run: Callable[..., Any],
        inputs: Names,
        outputs: Names,
        fused: str = "",
    ) -> None:
        where = (f"{self._layer}/{part}", kind, self._layer, self._phase, found.implementation)
        helped = (fused, found.workspace_bytes, found.uses_threads)
        self.operations.append(Operation(*where, inputs, outputs, run, *helped))

    def array(self, kind: str, call: Callable[..., Any], inputs: Names, *outputs: str, part: str = "") -> None:
        """Done by the array module."""
        name = f"{self._layer or LOSS}/{part or kind}"
        who = str(self.xp.__name__)
        self.operations.append(Operation(name, kind, self._layer, self._phase, who, inputs, outputs, call))

    def value(self, name: str, *shape: int) -> str:
        """A value that the present layer keeps for itself: its name, with a shape that may differ from its spec's."""
        self._shapes[f"{self._layer}/{name}"] = shape
        return f"{self._layer}/{name}"

    def _shaped(self, run: Callable[..., Any], spec: Spec, inputs: Names, outputs: Names) -> Callable[..., Any]:
        """A spec may see rows where a network has images of one pixel, or sequences: views in and out."""
        wanted = tuple(spec.input_shapes().values())
        given = tuple(self._shapes.get(name, shape) for name, shape in zip(inputs, wanted))
        made = self._shapes.get(outputs[0], spec.output_shape()) if len(outputs) == 1 else spec.output_shape()
        if given == wanted and made == spec.output_shape():
            return run

        def run_shaped(*values: Any) -> Any:
            views = [value.reshape(shape) for value, shape in zip(values, wanted)]
            return run(*views, *values[len(views) :]).reshape(made)

        return run_shaped

    # --- Gradients on their way ---

    def wants(self, source: str) -> bool:
        """Whether anybody needs the gradient by this layer's result."""
        return self._network.has_gradient(source)

    def new_gradient(self, source: str) -> str:
        """A name for one reader's part of the gradient by a result."""
        name, number = gradient(source), 1
        while name in self._shapes:
            number += 1
            name = f"{gradient(source)} {number}"
        self._shapes[name] = self._shapes[source]
        return name

    def arrives(self, source: str, value: str) -> None:
        """A reader's part of the gradient by a result: added at once to what others gave."""
        known = self._arriving.get(source)
        if known is None:
            self._arriving[source] = value
            return
        total = self.new_gradient(source)
        part = f"gradient_sum_{total.rpartition(' ')[2]}"
        before, self._layer = self._layer, source
        spec = Add(math.prod(self._shapes[source]))
        if found := self._kernels.kernel(spec):
            run = self._shaped(found.run, spec, (known, value), (total,))
            self._add(part, "gradient_sum", found, run, (known, value), (total,))
        else:
            target = next((place for place, name in enumerate((known, value)) if name not in self._shared), None)
            self.array("gradient_sum", steps.gradient_sum(self.xp, target), (known, value), total, part=part)
        self._arriving[source], self._layer = total, before

    def channels(self, source: str) -> int:
        """Of images; the steps of a sequence."""
        return self._shapes[source][1]

    def share(self, value: str) -> None:
        self._shared.add(value)

    def is_shared(self, value: str) -> bool:
        return value in self._shared

    def to_input(self, part: str, spec: Spec, inputs: Names, source: str, saved: Names = ()) -> None:
        """The gradient by an input, if anybody needs it."""
        if self.wants(source):
            dx = self.new_gradient(source)
            self.kernel(part, spec, inputs, dx, saved=saved)
            self.arrives(source, dx)

    def before_relu(self, layer: Layer, dy: str, bias: Sequence[str]) -> str:
        """The gradient before a fused ReLU, and that by the bias."""
        spec = result_spec(layer)
        by_bias, by_input = (spec.replaced(direction=way) for way in (BIAS_GRADIENT, INPUT_GRADIENT))
        has_relu, before = layer.activation == "relu", dy
        if has_relu:
            before = self.value("before_relu", *layer.output_shape)
        for b in bias if has_relu and self.has(by_bias) else ():
            self.kernel("bias_gradient", by_bias, (layer.name, dy), gradient(b))
        if has_relu and self.has(by_input):
            self.kernel("relu_gradient", by_input, (layer.name, dy), before)
        elif has_relu:
            self.array("relu_gradient", relu_gradient(self.xp, not self.is_shared(dy)), (dy, layer.name), before)
        for b in () if has_relu and self.has(by_bias) else bias:
            self.sum_rows(before, b)
        return before

    def sum_rows(self, dy: str, name: str) -> None:
        """The gradient by a bias: over everything but the channels."""
        axes = (0, 2, 3) if len(self._shapes[dy]) == 4 else tuple(range(len(self._shapes[dy]) - 1))
        self.array("bias_gradient", methodcaller("sum", axis=axes), (dy,), gradient(name))

    def view(self, source: str, name: str, part: str = "reshape") -> None:
        self.array("reshape", methodcaller("reshape", self._shapes[name]), (source,), name, part=part)
        if self.is_shared(source):
            self.share(name)


def operator_type(spec: Spec) -> str:
    """The operator, ReLU by its name; gradients are separate operators."""
    direction: str = getattr(spec, "direction", RESULT)
    op = RELU if getattr(spec, "function", "") == RELU else spec.op
    return op if direction == RESULT else f"{op}_{direction.replace('-', '_')}"


def _fused(spec: Any) -> str:
    parts = [spec.op]
    parts += ["bias"] if getattr(spec, "bias", False) else []
    parts += ["relu"] if getattr(spec, "activation", "") == "relu" else []
    return "+".join(parts) if len(parts) > 1 else ""


def _statistics(layer: Layer) -> Names:
    """Mean and variance of the batch."""
    return f"{layer.name}/batch_mean", f"{layer.name}/batch_variance"


# --- Forward: what each kind of layer does ---


def _weighted(plan: LayerPlan, layer: Layer) -> None:
    """Convolution, embedding; normalisation in inference: one operator with the layer's parameters."""
    spec = _spec(plan, layer)
    plan.kernel(spec.op, spec, (*layer.inputs, *layer.parameter_shapes(), *layer.state_shapes()), layer.name)


def _plain(plan: LayerPlan, layer: Layer) -> None:
    """One operator without parameters."""
    spec = _spec(plan, layer)
    plan.kernel(spec.op, spec, layer.inputs, layer.name)


def _dense(plan: LayerPlan, layer: Layer) -> None:
    spec = _spec(plan, layer).replaced(activation=layer.activation)
    plan.kernel(spec.op, spec, (*layer.inputs, *layer.parameter_shapes()), layer.name)


def _batch_norm(plan: LayerPlan, layer: Layer) -> None:
    if not plan.is_training:
        return _weighted(plan, layer)
    spec, batch, running = _spec(plan, layer), _statistics(layer), tuple(layer.state_shapes())
    [source], parameters = layer.inputs, tuple(layer.parameter_shapes())
    sums, normalise = spec.replaced(direction=PARAMETER_GRADIENT), layer.spec
    if normalise is not None and plan.has(sums, normalise):
        plan.kernel("statistics_sums", sums, (source, source), f"{layer.name}/sums")
        plan.array("batch_norm_statistics", statistics_of_sums(plan.xp, spec), (f"{layer.name}/sums",), *batch)
        plan.kernel("batch_norm", normalise, (source, *parameters, *batch), layer.name)
    else:
        plan.array("batch_norm", batch_norm(plan.xp, spec), (source, *parameters), layer.name, *batch)
    if plan.numbers:
        follow = steps.running_statistics(plan.xp, 1 - KEPT)
        plan.array("running_statistics", follow, (*running, *batch), *running)
    return None


def _view(plan: LayerPlan, layer: Layer) -> None:
    plan.view(layer.inputs[0], layer.name)


def _dropout(plan: LayerPlan, layer: Layer) -> None:
    if not plan.is_training:
        return _view(plan, layer)
    mask = mask_of(layer.name)
    plan.array("dropout_mask", steps.dropout_mask(plan.xp, layer.rate, layer.output_shape), (), mask)
    plan.kernel("dropout", dropout_spec(layer), (*layer.inputs, mask), layer.name)
    return None


def _concat(plan: LayerPlan, layer: Layer) -> None:
    join = plan.xp.concatenate
    plan.array("concat", lambda *parts: join(parts, axis=1), layer.inputs, layer.name)


def _positions(plan: LayerPlan, layer: Layer) -> None:
    """As the sum of two arrays, of which one is made ahead."""
    table = plan.value("table", *layer.output_shape)
    ahead = plan.xp.asarray(
        np.array(np.broadcast_to(encoded_positions(*layer.output_shape[1:]), layer.output_shape), "f")
    )
    plan.array("positions_table", lambda: ahead, (), table)
    plan.kernel("add", _spec(plan, layer), (*layer.inputs, table), layer.name)


def _lstm(plan: LayerPlan, layer: Layer) -> None:
    """In training the result of every step is kept; without a kernel for the gradient everything that a step had."""
    if not plan.is_training:
        return _weighted(plan, layer)
    spec, (w, u, b) = _spec(plan, layer), layer.parameter_shapes()
    if plan.has(*_lstm_kernels(spec)):
        sequence = _lstm_sequence(layer)
        if sequence != layer.name:
            plan.value("sequence", spec.batch, spec.steps, spec.cells)
        plan.kernel("lstm", _lstm_kernels(spec)[0], (*layer.inputs, w, u, b), sequence)
        if sequence != layer.name:
            plan.array("lstm_result", sequences.last_step(plan.xp), (sequence,), layer.name)
        return None
    sums = plan.value("sums", spec.batch, spec.steps, 4 * spec.cells)
    plan.kernel("input_product", input_product(spec), (*layer.inputs, w, b), sums)
    plan.array("lstm", sequences.lstm_steps(plan.xp, spec), (sums, u), f"{layer.name}/record", part="steps")
    plan.array("lstm_result", sequences.lstm_result(plan.xp, spec), (f"{layer.name}/record",), layer.name)
    return None


def _lstm_kernels(spec: Any) -> tuple[Spec, Spec]:
    """Those of training: every step's result, and the gradient by the gates' sums."""
    return spec.replaced(returns_sequence=True), spec.replaced(direction=GATE_GRADIENT)


def _lstm_sequence(layer: Layer) -> str:
    """Every step's result: that of the layer, or beside it."""
    spec: Any = layer.spec
    return layer.name if spec.returns_sequence else f"{layer.name}/sequence"


def _attention(plan: LayerPlan, layer: Layer) -> None:
    """In training the shares are kept, unless a kernel of the gradients makes them again."""
    spec = _spec(plan, layer)
    if not plan.is_training or plan.has(spec, spec.replaced(direction=INPUT_GRADIENT)):
        return _plain(plan, layer)
    (q, k, v), shares = layer.inputs, f"{layer.name}/shares"
    plan.array("attention_shares", sequences.attention_shares(plan.xp, spec), (q, k), shares)
    plan.array("attention", sequences.attention_result(plan.xp, spec), (shares, v), layer.name)
    return None


def _mean(plan: LayerPlan, layer: Layer) -> None:
    plan.array("mean", sequences.step_mean, layer.inputs, layer.name)


_FORWARD: Mapping[str, Callable[[LayerPlan, Layer], None]] = {
    kinds.CONV2D: _weighted,
    kinds.DENSE: _dense,
    kinds.POOL2D: _plain,
    kinds.LRN: _plain,
    kinds.FLATTEN: _view,
    kinds.DROPOUT: _dropout,
    kinds.BATCH_NORM: _batch_norm,
    kinds.LAYER_NORM: _weighted,
    kinds.ACTIVATION: _plain,
    kinds.ADD: _plain,
    kinds.CONCAT: _concat,
    kinds.EMBEDDING: _weighted,
    kinds.POSITIONS: _positions,
    kinds.LSTM: _lstm,
    kinds.ATTENTION: _attention,
    kinds.MEAN: _mean,
}


def _spec(plan: LayerPlan, layer: Layer) -> Any:
    """Every kind of layer that asks for it has one."""
    return layer.spec_for(plan.is_training)


# --- Backward: gradients by the parameters, then those by the inputs ---


def _back_through_product(plan: LayerPlan, layer: Layer, dy: str) -> None:
    """Of a convolution or a dense layer."""
    [source] = layer.inputs
    w, *bias = layer.parameter_shapes()
    by_input, by_weights = gradient_specs(_spec(plan, layer))
    dy = plan.before_relu(layer, dy, bias)
    plan.kernel("weight_gradient", by_weights, (source, dy), gradient(w))
    plan.to_input("input_gradient", by_input, (dy, w), source)


def _back_through_function(plan: LayerPlan, layer: Layer, dy: str) -> None:
    """Of one operator without parameters, by x and dy."""
    [source] = layer.inputs
    spec = _spec(plan, layer).replaced(direction=INPUT_GRADIENT)
    plan.to_input("input_gradient", spec, (source, dy), source)


def _back_through_pool(plan: LayerPlan, layer: Layer, dy: str) -> None:
    [source] = layer.inputs
    spec = _spec(plan, layer).replaced(direction=INPUT_GRADIENT)
    if spec.mode == MAX:
        plan.to_input("input_gradient", spec, (source, dy), source, saved=(layer.name,))
    else:
        plan.to_input("input_gradient", spec, (dy,), source)


def _back_through_view(plan: LayerPlan, layer: Layer, dy: str) -> None:
    [source] = layer.inputs
    if plan.wants(source):
        dx = plan.new_gradient(source)
        plan.view(dy, dx, part="reshape_gradient")
        plan.arrives(source, dx)


def _back_through_dropout(plan: LayerPlan, layer: Layer, dy: str) -> None:
    plan.to_input("input_gradient", dropout_spec(layer), (dy, mask_of(layer.name)), layer.inputs[0])


def _back_through_batch_norm(plan: LayerPlan, layer: Layer, dy: str) -> None:
    _back_through_norm(plan, layer, dy, batch_norm_gradient, _statistics(layer))


def _back_through_layer_norm(plan: LayerPlan, layer: Layer, dy: str) -> None:
    _back_through_norm(plan, layer, dy, layer_norm_gradient, ())


def _back_through_norm(
    plan: LayerPlan, layer: Layer, dy: str, call: Callable[[Any, Any], Callable[..., Any]], saved: Names
) -> None:
    """Two kernels, or one array expression for all three gradients."""
    [source], (scale, shift), spec = layer.inputs, layer.parameter_shapes(), _spec(plan, layer)
    by_input, by_parameters = (spec.replaced(direction=way) for way in (INPUT_GRADIENT, PARAMETER_GRADIENT))
    if plan.has(by_input, by_parameters):
        plan.kernel("parameter_gradient", by_parameters, (source, dy), gradient(scale), gradient(shift))
        plan.to_input("input_gradient", by_input, (source, scale, dy), source)
        return
    dx = plan.new_gradient(source) if plan.wants(source) else f"{layer.name}/unused"
    outputs = (dx, gradient(scale), gradient(shift))
    plan.array(f"{spec.op}_gradient", call(plan.xp, spec), (source, scale, dy, *saved), *outputs)
    if plan.wants(source):
        plan.arrives(source, dx)


def _back_through_add(plan: LayerPlan, layer: Layer, dy: str) -> None:
    """Both get the same array."""
    sources = [source for source in layer.inputs if plan.wants(source)]
    if len(sources) > 1:
        plan.share(dy)
    for source in sources:
        plan.arrives(source, dy)


def _back_through_positions(plan: LayerPlan, layer: Layer, dy: str) -> None:
    if plan.wants(layer.inputs[0]):
        plan.arrives(layer.inputs[0], dy)


def _back_through_concat(plan: LayerPlan, layer: Layer, dy: str) -> None:
    first = 0
    for source in layer.inputs:
        last = first + plan.channels(source)
        if plan.wants(source):
            dx = plan.new_gradient(source)
            plan.array("concat_gradient", steps.channels_of(plan.xp, first, last), (dy,), dx, part=f"gradient_{source}")
            plan.arrives(source, dx)
        first = last


def _back_through_embedding(plan: LayerPlan, layer: Layer, dy: str) -> None:
    [source], [w] = layer.inputs, layer.parameter_shapes()
    plan.kernel("weight_gradient", _spec(plan, layer).replaced(direction=WEIGHT_GRADIENT), (source, dy), gradient(w))


def _back_through_lstm(plan: LayerPlan, layer: Layer, dy: str) -> None:
    """Through the steps; then products of all steps at once."""
    spec, (w, u, b), [source] = _spec(plan, layer), layer.parameter_shapes(), layer.inputs
    record, rows = f"{layer.name}/record", (spec.batch, spec.steps)
    sums, before = plan.value("sums_gradient", *rows, 4 * spec.cells), plan.value("states_before", *rows, spec.cells)
    if plan.has(*_lstm_kernels(spec)):
        plan.kernel("gate_gradient", _lstm_kernels(spec)[1], (source, w, u, b, dy), sums)
        plan.array("lstm_states_before", sequences.states_before(plan.xp), (_lstm_sequence(layer),), before)
    else:
        call = sequences.lstm_gradient(plan.xp, spec)
        plan.array("lstm_gradient", call, (record, u, dy), sums, part="steps_gradient")
        plan.array("lstm_states_before", sequences.lstm_states_before(plan.xp), (record,), before)
    plan.sum_rows(sums, b)
    product = input_product(spec)
    by_input, by_weights = gradient_specs(product)
    _, by_recurrent = gradient_specs(product.replaced(k=spec.cells))
    plan.kernel("recurrent_weight_gradient", by_recurrent, (before, sums), gradient(u))
    plan.kernel("weight_gradient", by_weights, (source, sums), gradient(w))
    plan.to_input("input_gradient", by_input, (sums, w), source)


def _back_through_attention(plan: LayerPlan, layer: Layer, dy: str) -> None:
    spec, (q, k, v) = _spec(plan, layer), layer.inputs
    gradients = spec.replaced(direction=INPUT_GRADIENT)
    if plan.has(spec, gradients):
        made = [
            plan.new_gradient(source) if plan.wants(source) else f"{layer.name}/unused_{part}"
            for part, source in zip("qkv", (q, k, v))
        ]
        plan.kernel("input_gradient", gradients, (q, k, v, dy), *made)
        for source, dx in zip((q, k, v), made):
            if plan.wants(source):
                plan.arrives(source, dx)
        return
    shares, scores = f"{layer.name}/shares", f"{layer.name}/scores_gradient"
    plan.array("attention_scores_gradient", sequences.attention_by_scores(plan.xp, spec), (shares, v, dy), scores)
    for part, make, inputs, source in (
        ("value", sequences.attention_by_values, (shares, dy), v),
        ("query", sequences.attention_by_queries, (scores, k), q),
        ("key", sequences.attention_by_keys, (scores, q), k),
    ):
        if plan.wants(source):
            dx = plan.new_gradient(source)
            plan.array("attention_gradient", make(plan.xp, spec), inputs, dx, part=f"{part}_gradient")
            plan.arrives(source, dx)


def _back_through_mean(plan: LayerPlan, layer: Layer, dy: str) -> None:
    [source] = layer.inputs
    if plan.wants(source):
        dx = plan.new_gradient(source)
        plan.array("mean_gradient", sequences.step_mean_gradient(plan.xp, plan.channels(source)), (dy,), dx)
        plan.arrives(source, dx)


_BACKWARD: Mapping[str, Callable[[LayerPlan, Layer, str], None]] = {
    kinds.CONV2D: _back_through_product,
    kinds.DENSE: _back_through_product,
    kinds.POOL2D: _back_through_pool,
    kinds.LRN: _back_through_function,
    kinds.FLATTEN: _back_through_view,
    kinds.DROPOUT: _back_through_dropout,
    kinds.BATCH_NORM: _back_through_batch_norm,
    kinds.LAYER_NORM: _back_through_layer_norm,
    kinds.ACTIVATION: _back_through_function,
    kinds.ADD: _back_through_add,
    kinds.CONCAT: _back_through_concat,
    kinds.EMBEDDING: _back_through_embedding,
    kinds.POSITIONS: _back_through_positions,
    kinds.LSTM: _back_through_lstm,
    kinds.ATTENTION: _back_through_attention,
    kinds.MEAN: _back_through_mean,
}
