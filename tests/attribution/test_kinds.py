"""Kinds: the names that frameworks really use for their operators, each with what it does."""

from __future__ import annotations

import pytest

from profkit.attribution.kinds import AUXILIARY, KINDS, kinds_of

# Types as the frameworks' own tracers write them, forward and backward.
REAL_TYPES = {
    "torch": {
        "conv2d": "aten::conv2d aten::convolution aten::_convolution aten::mkldnn_convolution "
        "aten::convolution_backward aten::thnn_conv2d aten::_slow_conv2d_forward mkldnn::_convolution_pointwise",
        "matmul": "aten::linear aten::addmm aten::mm aten::matmul mkldnn::_linear_pointwise",
        "pool": "aten::max_pool2d aten::max_pool2d_with_indices aten::max_pool2d_with_indices_backward",
        "batch_norm": "aten::batch_norm aten::native_batch_norm aten::native_batch_norm_backward",
        "layer_norm": "aten::layer_norm aten::native_layer_norm_backward",
        "lstm": "aten::lstm aten::mkldnn_rnn_layer aten::mkldnn_rnn_layer_backward",
        "attention": "aten::scaled_dot_product_attention aten::_scaled_dot_product_flash_attention_for_cpu",
        "embedding": "aten::embedding aten::embedding_dense_backward",
        "activation": "aten::gelu aten::gelu_backward aten::tanh_backward aten::hardsigmoid",
        "relu": "aten::relu aten::relu_ aten::threshold_backward aten::clamp_min aten::clamp_min_",
        "loss": "aten::cross_entropy_loss aten::_log_softmax aten::_log_softmax_backward_data aten::nll_loss_nd "
        "aten::nll_loss_forward aten::nll_loss_backward aten::mse_loss aten::mse_loss_backward",
        "softmax": "aten::softmax aten::_softmax",
        "pad": "aten::constant_pad_nd aten::pad",
        "copy": "aten::copy_ aten::clone aten::contiguous aten::to aten::_to_copy",
        "fill": "aten::zeros aten::zero_ aten::fill_ aten::ones_like aten::full",
        "allocate": "aten::empty aten::empty_like aten::empty_strided aten::resize_",
        "view": "aten::view aten::reshape aten::as_strided aten::t aten::transpose aten::expand aten::_unsafe_view "
        "aten::detach aten::flatten aten::unflatten aten::unsqueeze aten::_reshape_alias",
        "eltwise": "aten::add aten::add_ aten::mul aten::div aten::pow",
        "reduce": "aten::sum aten::mean",
        "dropout": "aten::dropout aten::bernoulli_ aten::native_dropout",
        "optimiser": "aten::_foreach_add_ aten::_fused_sgd_",
    },
    "tensorflow": {
        "conv2d": "Conv2D _FusedConv2D _MklNativeConv2D _MklNativeFusedConv2D Conv2DBackpropInput Conv2DBackpropFilter "
        "_MklNativeConv2DBackpropFilter",
        "matmul": "MatMul _FusedMatMul _MklNativeMatMul _MklFusedMatMul",
        "pool": "MaxPool MaxPoolGrad AvgPool _MklNativeMaxPool",
        "lrn": "LRN LRNGrad",
        "batch_norm": "FusedBatchNormV3 _FusedBatchNormEx FusedBatchNormGradV3",
        "activation": "Tanh TanhGrad Sigmoid Erfc",
        "bias": "BiasAdd BiasAddGrad",
        "relu": "Relu ReluGrad",
        "loss": "SparseSoftmaxCrossEntropyWithLogits SquaredDifference",
        "optimiser": "ResourceApplyGradientDescent ResourceApplyKerasMomentum AssignSubVariableOp",
        "pad": "Pad PadV2",
        "reorder": "Transpose _MklToTf",
        "copy": "_Send _Recv ReadVariableOp VariableV2",
        "fill": "Fill ZerosLike Const",
        "view": "Identity Reshape _Arg _Retval NoOp Shape",
        "eltwise": "AddV2 Mul Cast Log1p RsqrtGrad _UnaryOpsComposition",
        "reduce": "Sum Mean ArgMax InTopKV2",
    },
    "onnxruntime": {
        "conv2d": "Conv FusedConv",
        "matmul": "Gemm FusedGemm MatMul",
        "pool": "MaxPool",
        "lrn": "LRN",
        "relu": "Relu",
        "reorder": "ReorderInput ReorderOutput Transpose",
        "view": "Flatten Reshape",
        "pad": "Pad",
    },
    "jax": {
        "conv2d": "convolution",
        "matmul": "dot",
        "pool": "reduce-window select-and-scatter",
        "reorder": "transpose",
        "copy": "copy concatenate scatter gather",
        "fill": "broadcast iota constant",
        "view": "bitcast reshape",
        "pad": "pad",
        "eltwise": "add multiply power maximum select compare convert",
        "reduce": "reduce",
    },
    "theano": {
        "conv2d": "CorrMM CorrMM_gradWeights CorrMM_gradInputs",
        "matmul": "Dot22 Gemm Dot22Scalar CGemv",
        "pool": "Pool MaxPoolGrad",
        "loss": "CrossentropySoftmaxArgmax1HotWithBias CrossentropySoftmax1HotWithBiasDx",
        "eltwise": "Elemwise add abs true_div",
        "reduce": "Sum",
        "view": "InplaceDimShuffle DimShuffle Reshape Subtensor Shape_i",
        "fill": "Alloc",
        "allocate": "AllocEmpty",
        "pad": "IncSubtensor",
    },
    "caffe": {
        "conv2d": "Convolution",
        "matmul": "InnerProduct",
        "pool": "Pooling",
        "lrn": "LRN",
        "relu": "ReLU",
        "softmax": "Softmax",
        "view": "Flatten",
    },
    "native": {
        "conv2d": "conv2d conv2d_weight_gradient conv2d_input_gradient",
        "matmul": "matmul",
        "pool": "pool2d pool2d_input_gradient",
        "lrn": "lrn lrn_input_gradient",
        "batch_norm": "batch_norm batch_norm_gradient batch_norm_input_gradient running_statistics",
        "layer_norm": "layer_norm layer_norm_gradient layer_norm_parameter_gradient",
        "lstm": "lstm lstm_gradient lstm_result",
        "attention": "attention attention_shares attention_gradient",
        "embedding": "embedding embedding_weight_gradient",
        "activation": "activation activation_input_gradient",
        "add": "add gradient_sum",
        "concat": "concat concat_gradient",
        "mean": "mean mean_gradient",
        "relu": "relu relu_gradient relu_input_gradient",
        "bias": "bias_gradient",
        "loss": "log_softmax cross_entropy cross_entropy_gradient squared_error",
        "optimiser": "sgd adam rmsprop optimiser_step",
        "view": "reshape",
    },
}
CASES = [
    (framework, type, kind)
    for framework, table in REAL_TYPES.items()
    for kind, types in table.items()
    for type in types.split()
]


@pytest.mark.parametrize(("framework", "type", "kind"), CASES)
def test_a_type_of_a_framework_has_its_kind(framework: str, type: str, kind: str) -> None:
    assert kinds_of(framework, type)[0] == kind


@pytest.mark.parametrize("framework", ["numpy", "numba", "cupy"])
def test_frameworks_that_run_layer_by_layer_share_a_table(framework: str) -> None:
    assert kinds_of(framework, "pool2d_input_gradient")[0] == "pool"


@pytest.mark.parametrize("type", ["Conv2D", "_FusedConv2D", "aten::mkldnn_convolution", "convolution"])
def test_keras_has_the_types_of_whatever_it_runs_on(type: str) -> None:
    assert kinds_of("keras", type)[0] == "conv2d"


@pytest.mark.parametrize("type", ["pow", "avg_pool3d", "constant_pad_nd", "mul", "empty", "copy_"])
@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_everything_that_torch_does_in_a_normalisation_is_the_normalisation(type: str, phase: str) -> None:
    assert kinds_of("torch", f"aten::{type}", "lrn", phase)[0] == "lrn"


def test_changing_a_layout_is_no_part_of_a_normalisation() -> None:
    assert kinds_of("onnxruntime", "ReorderOutput", "lrn", "forward")[0] == "reorder"


@pytest.mark.parametrize(
    ("type", "layer_kind", "phase", "kind"),
    [
        ("add", "conv2d", "forward", "bias"),
        ("maximum", "matmul", "forward", "relu"),
        ("select", "conv2d", "backward", "relu"),
        ("reduce", "matmul", "backward", "bias"),
        ("add", "pool2d", "backward", "pool"),
        ("multiply", "dropout", "forward", "dropout"),
        ("subtract", "conv2d", "optimiser", "optimiser"),
        ("add", None, "forward", "eltwise"),
        ("add", None, "backward", "add"),
        ("add", "conv2d", "backward", "add"),
        ("multiply", "conv2d", "backward", "eltwise"),
        ("reduce", "conv2d", "forward", "reduce"),
        ("pad", "pool2d", "backward", "pad"),
        ("multiply", "batch_norm", "forward", "batch_norm"),
        ("dot", "lstm", "forward", "lstm"),
        ("copy", "lstm", "forward", "copy"),
        ("gather", "embedding", "forward", "embedding"),
        ("concatenate", "concat", "forward", "concat"),
        ("add", "add", "forward", "add"),
        ("tanh", "activation", "forward", "activation"),
        ("maximum", "activation", "forward", "relu"),
        ("reduce", "mean", "forward", "mean"),
        ("add", "lstm", "optimiser", "optimiser"),
        ("copy", "embedding", "optimiser", "copy"),
        ("while", "dropout", "forward", "dropout"),
        ("mystery", "activation", "backward", "activation"),
        ("mystery", "conv2d", "forward", "other"),
        ("copy", "embedding", "forward", "embedding"),
    ],
)
def test_a_layer_says_what_a_generic_operator_is_for(type: str, layer_kind: str | None, phase: str, kind: str) -> None:
    assert kinds_of("jax", type, layer_kind, phase)[0] == kind


def test_a_fused_operator_does_all_that_is_fused_and_is_the_heaviest_of_it() -> None:
    assert kinds_of("tensorflow", "_FusedConv2D", "conv2d", "forward", "Conv2D+BiasAdd+Relu") == (
        "conv2d",
        "relu",
        "bias",
    )
    assert kinds_of("jax", "maximum", "conv2d", "forward", "broadcast+add+maximum") == ("relu", "bias", "fill")
    assert kinds_of("torch", "graph_0_cpp_fused_convolution_relu_0")[0] == "conv2d"


@pytest.mark.parametrize("type", ["aten::mystery", "", None])
def test_what_no_table_knows_is_other(type: str | None) -> None:
    assert kinds_of("torch", type) == ("other",)


def test_torch_under_keras_has_types_without_a_namespace_too() -> None:
    assert kinds_of("keras", "detach")[0] == "view"


def test_theano_s_rectifier_is_known_by_what_it_is_composed_of() -> None:
    assert kinds_of("theano", "Elemwise", "conv2d", "forward", "add+abs+add+mul") == ("relu", "bias", "eltwise")


def test_a_conversion_is_no_convolution() -> None:
    assert kinds_of("torch", "aten::convert_element_type")[0] == "other"


def test_every_kind_has_a_place_in_the_order() -> None:
    assert {kind for _, _, kind in CASES} | AUXILIARY <= set(KINDS)
    assert len(set(KINDS)) == len(KINDS)
