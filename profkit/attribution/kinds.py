"""One name for what an operator does, independent of its framework's name: type, layer and phase in, kinds out.

Frameworks cut the same network into different operators: a normalisation is one operator in TensorFlow, ten in torch, a
few fused loops in XLA. Kinds make them comparable; what no table knows is `other`, and is listed, never dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from profkit.capture.schema import BACKWARD, FORWARD
from profkit.capture.schema import OPTIMISER as OPTIMISER_PHASE

CONV2D, MATMUL, POOL, LRN, SOFTMAX, LOSS = "conv2d", "matmul", "pool", "lrn", "softmax", "loss"
BIAS, RELU, DROPOUT, OPTIMISER = "bias", "relu", "dropout", "optimiser"
BATCH_NORM, LAYER_NORM, LSTM, ATTENTION = "batch_norm", "layer_norm", "lstm", "attention"
ACTIVATION, EMBEDDING, ADD, CONCAT, MEAN = "activation", "embedding", "add", "concat", "mean"
ELTWISE, REDUCE = "eltwise", "reduce"
PAD, REORDER, COPY, FILL, ALLOCATE, VIEW, OTHER = "pad", "reorder", "copy", "fill", "allocate", "view", "other"

# Of several things that one operator does, the first of these is its kind.
KINDS = (
    CONV2D, LSTM, ATTENTION, MATMUL, BATCH_NORM, LAYER_NORM, LRN, POOL, EMBEDDING, LOSS, SOFTMAX, OPTIMISER, DROPOUT,
    ACTIVATION, RELU, BIAS, CONCAT, ADD, MEAN, REDUCE, ELTWISE,
    REORDER, PAD, COPY, FILL, ALLOCATE, VIEW, OTHER,
)  # fmt: skip
AUXILIARY = frozenset({PAD, REORDER, COPY, FILL, ALLOCATE, VIEW})
"""Work that no layer requires: it copies or allocates, and computes nothing."""
GENERIC = frozenset({ELTWISE, REDUCE})
"""Means nothing by itself: the layer says what it is for."""
_OF_ONE_USE = {"pool2d": POOL, DROPOUT: DROPOUT, ADD: ADD, "positions": ADD, CONCAT: CONCAT}
"""Layers in which a generic operator, or one that no table knows, is the layer's own."""
_WHOLE = frozenset({BATCH_NORM, LAYER_NORM, LSTM, ATTENTION, EMBEDDING, MEAN})
"""Kinds of layers in which everything that computes is the layer's operator: gates, products, means, roots."""
_MOVING = frozenset({EMBEDDING, CONCAT})
"""Kinds of layers that ask for copies."""

_TORCH = {
    CONV2D: "conv2d convolution mkldnn_convolution thnn_conv2d slow_conv2d_forward slow_conv2d_backward "
    "convolution_backward mkldnn_convolution_backward mkldnn_convolution_backward_input "
    "mkldnn_convolution_backward_weights convolution_overrideable convolution_backward_overrideable "
    "nnpack_spatial_convolution convolution_pointwise conv_depthwise2d",
    MATMUL: "linear linear_backward addmm mm matmul bmm baddbmm addmv mv dot mkldnn_linear mkl_linear linear_pointwise "
    "mkldnn_linear_backward mkldnn_linear_backward_input mkldnn_linear_backward_weights",
    POOL: "max_pool2d max_pool2d_with_indices max_pool2d_with_indices_backward mkldnn_max_pool2d "
    "mkldnn_max_pool2d_backward avg_pool2d avg_pool2d_backward adaptive_avg_pool2d adaptive_avg_pool2d_backward "
    "adaptive_max_pool2d avg_pool3d avg_pool3d_backward",
    LRN: "local_response_norm",
    BATCH_NORM: "batch_norm native_batch_norm native_batch_norm_backward batch_norm_impl_index "
    "batch_norm_impl_index_backward native_batch_norm_legit batch_norm_update_stats batch_norm_elemt",
    LAYER_NORM: "layer_norm native_layer_norm native_layer_norm_backward",
    LSTM: "lstm mkldnn_rnn_layer mkldnn_rnn_layer_backward lstm_cell thnn_fused_lstm_cell",
    ATTENTION: "scaled_dot_product_attention scaled_dot_product_attention_math "
    "scaled_dot_product_flash_attention_for_cpu scaled_dot_product_flash_attention_for_cpu_backward "
    "scaled_dot_product_fused_attention_overrideable",
    EMBEDDING: "embedding embedding_backward embedding_dense_backward",
    ACTIVATION: "gelu gelu_backward tanh_backward sigmoid_backward hardsigmoid hardsigmoid_backward hardtanh "
    "hardtanh_backward",
    RELU: "relu threshold threshold_backward clamp_min",
    SOFTMAX: "softmax softmax_backward_data",
    LOSS: "cross_entropy_loss log_softmax log_softmax_backward_data nll_loss nll_loss_nd nll_loss_forward "
    "nll_loss_backward mse_loss mse_loss_backward binary_cross_entropy_with_logits log_sigmoid log_sigmoid_forward "
    "log_sigmoid_backward",
    DROPOUT: "dropout native_dropout native_dropout_backward feature_dropout bernoulli",
    OPTIMISER: "fused_sgd fused_adam foreach_add foreach_mul foreach_addcdiv foreach_addcmul foreach_lerp foreach_sqrt "
    "foreach_div",
    PAD: "constant_pad_nd pad",
    REORDER: "to_mkldnn to_dense mkldnn_reorder_conv2d_weight mkldnn_reorder_linear_weight",
    COPY: "copy clone contiguous to to_copy cat stack index_select local_scalar_dense item",
    FILL: "zeros zeros_like ones ones_like full full_like fill zero new_zeros arange scalar_tensor",
    ALLOCATE: "empty empty_like empty_strided new_empty new_empty_strided resize resize_as set",
    VIEW: "view reshape as_strided t transpose permute expand expand_as squeeze unsqueeze flatten slice select narrow "
    "detach alias unsafe_view view_as reshape_alias conj resolve_conj resolve_neg result_type is_nonzero numpy_t "
    "nnpack_available broadcast_tensors lift_fresh chunk split unbind unflatten output_nr version",
    ELTWISE: "add sub rsub mul div pow neg exp log sqrt rsqrt reciprocal square abs where eq ne gt ge lt le "
    "maximum minimum clamp sign sigmoid tanh addcmul addcdiv lerp logical_and logical_not divide multiply subtract",
    REDUCE: "sum mean prod max min amax amin argmax any all norm linalg_vector_norm sum_to_size scatter_reduce",
}
_TENSORFLOW = {
    CONV2D: "Conv2D FusedConv2D Conv2DWithBias Conv2DBackpropInput Conv2DBackpropFilter Conv2DBackpropFilterWithBias "
    "DepthwiseConv2dNative",
    MATMUL: "MatMul FusedMatMul BatchMatMul BatchMatMulV2 BatchMatMulV3",
    POOL: "MaxPool MaxPoolV2 MaxPoolGrad MaxPoolGradV2 MaxPoolWithArgmax MaxPoolGradWithArgmax AvgPool AvgPoolGrad",
    LRN: "LRN LRNGrad",
    BATCH_NORM: "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormEx FusedBatchNormGrad "
    "FusedBatchNormGradV2 FusedBatchNormGradV3 FusedBatchNormGradEx",
    LAYER_NORM: "LayerNorm",
    ACTIVATION: "Tanh TanhGrad Sigmoid SigmoidGrad Erf Erfc Gelu",
    BIAS: "BiasAdd BiasAddGrad BiasAddV1",
    RELU: "Relu ReluGrad Relu6",
    SOFTMAX: "Softmax",
    LOSS: "SparseSoftmaxCrossEntropyWithLogits SoftmaxCrossEntropyWithLogits LogSoftmax SquaredDifference L2Loss",
    DROPOUT: "RandomUniform StatelessRandomUniformV2 StatelessRandomGetKeyCounter StatelessRandomGetAlg",
    OPTIMISER: "ResourceApplyAdam ResourceApplyRMSProp ResourceApplyGradientDescent ResourceApplyMomentum "
    "ResourceApplyKerasMomentum ApplyGradientDescent ApplyMomentum AssignSubVariableOp AssignAddVariableOp "
    "AssignVariableOp Assign AssignSub AssignAdd",
    PAD: "Pad PadV2 MirrorPad",
    REORDER: "Transpose ToTf InputConversion MklToTf MklInputConversion",
    COPY: "Send Recv HostSend HostRecv MemcpyHtoD MemcpyDtoH Copy DeepCopy Snapshot ConcatV2 Pack Split Slice "
    "StridedSlice StridedSliceGrad GatherV2 ResourceGather TensorListGetItem TensorListSetItem TensorListStack "
    "TensorListFromTensor ConcatV2 ReadVariableOp Variable VariableV2 QueueDequeueManyV2 QueueDequeueV2",
    FILL: "Fill ZerosLike OnesLike Const HostConst Range",
    VIEW: "Identity IdentityN Reshape ExpandDims Squeeze Shape ShapeN Size Rank NoOp Arg Retval Placeholder "
    "PlaceholderWithDefault VarHandleOp While StatelessWhile TensorListReserve TensorListPushBack TensorListPopBack "
    "EmptyTensorList StopGradient PreventGradient BroadcastGradientArgs InvertPermutation "
    "ConcatOffset VarIsInitializedOp PartitionedCall StatefulPartitionedCall",
    ELTWISE: "Add AddV2 AddN Sub Mul RealDiv Div DivNoNan Square SquareGrad Sqrt Rsqrt Pow Exp Log Neg Maximum Minimum "
    "Greater GreaterEqual Less LessEqual Equal NotEqual Select SelectV2 Cast Tile BroadcastTo FloorDiv FloorMod "
    "LogicalAnd LogicalNot Inv Reciprocal Log1p Expm1 SqrtGrad RsqrtGrad ReciprocalGrad UnaryOpsComposition",
    REDUCE: "Sum Mean Max Min Prod ArgMax ArgMin Any All InTopK InTopKV2",
}
_ONNXRUNTIME = {
    CONV2D: "Conv FusedConv NhwcFusedConv NhwcConv ConvGrad",
    MATMUL: "Gemm FusedGemm MatMul FusedMatMul",
    POOL: "MaxPool AveragePool GlobalAveragePool GlobalMaxPool NhwcMaxPool MaxPoolGrad",
    LRN: "LRN",
    BATCH_NORM: "BatchNormalization",
    LAYER_NORM: "LayerNormalization SkipLayerNormalization",
    LSTM: "LSTM",
    ATTENTION: "Attention MultiHeadAttention",
    ACTIVATION: "Tanh Sigmoid HardSigmoid Gelu BiasGelu FastGelu Erf",
    RELU: "Relu LeakyRelu Clip",
    SOFTMAX: "Softmax LogSoftmax",
    LOSS: "SoftmaxCrossEntropyLoss SoftmaxCrossEntropyLossGrad",
    DROPOUT: "Dropout",
    PAD: "Pad",
    REORDER: "ReorderInput ReorderOutput Transpose",
    COPY: "MemcpyFromHost MemcpyToHost Concat Slice Gather Split",
    FILL: "Constant ConstantOfShape",
    VIEW: "Reshape Flatten Squeeze Unsqueeze Identity Shape",
    ELTWISE: "Add Sub Mul Div Pow Exp Log Sqrt Neg Max Min Cast Where Greater Less Equal Expand Sum QuickGelu",
    REDUCE: "ReduceSum ReduceMean ReduceMax ArgMax",
}
_HLO = {
    CONV2D: "convolution",
    MATMUL: "dot dot_general",
    POOL: "reduce-window select-and-scatter",
    DROPOUT: "rng rng-bit-generator",
    PAD: "pad",
    REORDER: "transpose reverse",
    COPY: "copy copy-start copy-done concatenate slice dynamic-slice dynamic-update-slice gather scatter "
    "send recv all-gather",
    FILL: "constant iota broadcast",
    VIEW: "reshape bitcast bitcast-convert tuple get-tuple-element parameter opt-barrier after-all",
    ELTWISE: "add subtract multiply divide power exponential exponential-minus-one log log-plus-one sqrt rsqrt cbrt "
    "negate maximum minimum compare select and or xor not abs sign convert clamp tanh logistic remainder floor ceil "
    "is-finite round-nearest-even map",
    REDUCE: "reduce sort reduce-precision",
}
_THEANO = {
    CONV2D: "CorrMM CorrMM_gradWeights CorrMM_gradInputs AbstractConv2d AbstractConv2d_gradWeights "
    "AbstractConv2d_gradInputs ConvOp BaseCorrMM",
    MATMUL: "Dot Dot22 Dot22Scalar Gemm Gemv CGemv Ger CGer BatchedDot",
    POOL: "Pool MaxPoolGrad AveragePoolGrad DownsampleFactorMaxGradGrad",
    SOFTMAX: "Softmax SoftmaxWithBias SoftmaxGrad",
    LOSS: "CrossentropySoftmaxArgmax1HotWithBias CrossentropySoftmax1HotWithBiasDx CrossentropyCategorical1Hot "
    "CrossentropyCategorical1HotGrad LogSoftmax",
    DROPOUT: "mrg_uniform RandomFunction",
    REORDER: "GpuContiguous",
    COPY: "Join Split AdvancedSubtensor AdvancedSubtensor1 DeepCopyOp HostFromGpu GpuFromHost",
    PAD: "IncSubtensor AdvancedIncSubtensor",
    FILL: "Alloc",
    ALLOCATE: "AllocEmpty",
    VIEW: "DimShuffle InplaceDimShuffle Reshape Subtensor Rebroadcast Shape Shape_i MakeVector ScalarFromTensor "
    "TensorFromScalar ViewOp Assert Flatten",
    # In capitals the class, in small letters the scalar operations that one of them does together.
    ELTWISE: "Elemwise Cast add sub mul true_div int_div sqr sqrt pow neg abs sgn exp log log1p softplus sigmoid "
    "scalar_sigmoid switch gt ge lt le eq neq maximum minimum clip cast identity second inv reciprocal and_ or_ invert",
    REDUCE: "Sum CAReduce CAReduceDtype Max Argmax MaxAndArgmax Mean All Any",
}
_CAFFE = {
    CONV2D: "Convolution Deconvolution",
    MATMUL: "InnerProduct",
    POOL: "Pooling",
    LRN: "LRN",
    RELU: "ReLU",
    BATCH_NORM: "BatchNorm",
    ACTIVATION: "TanH Sigmoid",
    BIAS: "Bias Scale",
    SOFTMAX: "Softmax",
    LOSS: "SoftmaxWithLoss EuclideanLoss",
    DROPOUT: "Dropout",
    PAD: "Padding",
    REORDER: "Permute",
    COPY: "Concat Slice Input Data",
    VIEW: "Flatten Reshape Identity Blank __NetInputLayer__ Split",
    ELTWISE: "Eltwise Power",
}
_PLAIN = {
    CONV2D: "conv2d conv2d_input_gradient conv2d_weight_gradient",
    MATMUL: "matmul",
    POOL: "pool2d pool2d_input_gradient",
    LRN: "lrn lrn_input_gradient",
    BATCH_NORM: "batch_norm batch_norm_gradient batch_norm_input_gradient batch_norm_parameter_gradient "
    "batch_norm_statistics running_statistics",
    LAYER_NORM: "layer_norm layer_norm_gradient layer_norm_input_gradient layer_norm_parameter_gradient",
    LSTM: "lstm lstm_result lstm_gradient lstm_gate_gradient lstm_states_before",
    ATTENTION: "attention attention_shares attention_gradient attention_input_gradient attention_scores_gradient",
    EMBEDDING: "embedding embedding_weight_gradient",
    ACTIVATION: "activation activation_input_gradient",
    ADD: "add gradient_sum",
    CONCAT: "concat concat_gradient",
    MEAN: "mean mean_gradient",
    BIAS: "bias bias_gradient bias_relu_bias_gradient",
    RELU: "bias_relu relu relu_gradient relu_input_gradient bias_relu_input_gradient",
    SOFTMAX: "softmax",
    LOSS: "log_softmax cross_entropy cross_entropy_gradient squared_error squared_error_gradient binary_cross_entropy "
    "binary_cross_entropy_gradient",
    DROPOUT: "dropout dropout_mask",
    OPTIMISER: "sgd adam rmsprop optimiser_step",
    PAD: "pad",
    REORDER: "transpose",
    COPY: "copy",
    FILL: "fill zeros",
    VIEW: "reshape positions_table",
    ELTWISE: "subtract multiply divide",
    REDUCE: "sum",
}

# Names that no table has still say much: generated kernels carry the names of what is fused into them.
_WORDS = (
    (CONV2D, r"conv(?!ert)"),
    (MATMUL, r"gemm|matmul|addmm|inner_?product|dense"),
    (LSTM, r"lstm|rnn_layer"),
    (ATTENTION, r"attention"),
    (BATCH_NORM, r"batch_?norm"),
    (LAYER_NORM, r"layer_?norm"),
    (LRN, r"lrn|local_?response"),
    (POOL, r"pool"),
    (LOSS, r"cross_?entropy|nll_?loss|mse_?loss|squared_?error"),
    (SOFTMAX, r"soft_?max"),
    (OPTIMISER, r"apply.*(gradient|momentum|adam|rmsprop)|sgd"),
    (DROPOUT, r"dropout"),
    (RELU, r"relu|threshold_backward"),
    (BIAS, r"bias"),
    (REORDER, r"reorder|transpose|permute"),
    (PAD, r"(^|_)pad"),
    (COPY, r"memcpy|copy"),
    (FILL, r"fill|zeros"),
)

# What a generic operator is for in a layer with weights: forward the bias may be a plain addition, backward its
# gradient a sum, and ReLU is whatever chooses between two numbers.
_CHOICES = "maximum Maximum select Select SelectV2 compare Greater GreaterEqual gt ge where switch abs sgn"
_ADDITIONS = ("add", "Add", "AddV2", "AddN", "add_any")
_ROLES_BY_PHASE = {
    FORWARD: {BIAS: "add Add AddV2", RELU: _CHOICES},
    BACKWARD: {BIAS: "reduce Sum sum", RELU: _CHOICES},
}


@cache
def kinds_of(
    framework: str, type: str | None, layer_kind: str | None = None, phase: str | None = None, fused: str | None = None
) -> tuple[str, ...]:
    """Everything that an operator does, in order of KINDS. `fused` has the types it does together, joined by `+`."""
    types = [part for part in (fused or "").split("+") if part]
    if type is not None and (not types or _plain_kind(framework, type) not in GENERIC | AUXILIARY | {OTHER}):
        types.append(type)
    found = {_in_place(framework, part, layer_kind, phase) for part in types or [""]}
    return tuple(kind for kind in KINDS if kind in found)


def _in_place(framework: str, type: str, layer_kind: str | None, phase: str | None) -> str:
    kind = _plain_kind(framework, type)
    if phase == OPTIMISER_PHASE and kind in GENERIC | {FILL, OTHER}:
        return OPTIMISER
    if layer_kind == "lrn" and kind not in (REORDER, OPTIMISER):
        # Squares, windows and powers, with the padding and buffers they need: all of it is the normalisation.
        return LRN
    if layer_kind in (None, CONV2D, MATMUL) and phase == BACKWARD and _stripped(framework, type) in _ADDITIONS:
        return ADD  # of the gradients that several readers of a result give
    if layer_kind in _WHOLE and kind not in AUXILIARY | {OPTIMISER}:
        return layer_kind
    if layer_kind in _MOVING and kind == COPY and phase != OPTIMISER_PHASE:
        return layer_kind
    if kind not in GENERIC | {OTHER}:
        return kind
    if layer_kind in (CONV2D, MATMUL, ACTIVATION):
        role = _ROLES.get(phase or "", {}).get(_stripped(framework, type), kind)
        return ACTIVATION if layer_kind == ACTIVATION and role != RELU else role
    return _OF_ONE_USE.get(layer_kind or "", kind)


@cache
def _plain_kind(framework: str, type: str) -> str:
    name = _stripped(framework, type)
    for table in _tables(framework, type):
        if name in _TABLES[table]:
            return _TABLES[table][name]
    lower = type.lower()
    return next((kind for kind, words in _WORDS if re.search(words, lower)), OTHER)


def _tables(framework: str, type: str) -> tuple[str, ...]:
    """Where to look; Keras runs on three others, and the spelling of a type shows which."""
    if framework != "keras":
        return (framework if framework in _TABLES else "native",)
    if "::" in type:
        return ("torch",)
    return ("tensorflow",) if type[:1].isupper() or type[:1] == "_" else ("jax", "torch")


def _stripped(framework: str, type: str) -> str:
    """A type without the part that distinguishes variants of the same operator."""
    table = _tables(framework, type)[0]
    if table == "torch":
        return type.rpartition("::")[2].partition(".")[0].strip("_")
    if table == "tensorflow":
        return re.sub(r"^_?(Mkl)?(Native|Eager)?", "", type)
    if table == "theano":
        return re.sub(r"^(Inplace|Gpu|Cpu)|\{.*", "", type)
    return type


def _inverted(table: Mapping[str, str]) -> dict[str, str]:
    return {name: kind for kind, names in table.items() for name in names.split()}


_TABLES = {
    "torch": _inverted(_TORCH),
    "tensorflow": _inverted(_TENSORFLOW),
    "onnxruntime": _inverted(_ONNXRUNTIME),
    "jax": _inverted(_HLO),
    "theano": _inverted(_THEANO),
    "caffe": _inverted(_CAFFE),
    "native": _inverted(_PLAIN),
}
_ROLES = {phase: _inverted(names) for phase, names in _ROLES_BY_PHASE.items()}
