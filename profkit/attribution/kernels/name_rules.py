"""What the words in kernel names mean: libraries, families, auxiliary work. Tables only; the first row that fits holds.

Facts from names that the libraries show in every public trace. A new library or kernel is a new row.
"""

from __future__ import annotations

import re
from re import Pattern


def _compiled(*rows: tuple[str, str]) -> tuple[tuple[str, Pattern[str]], ...]:
    return tuple((value, re.compile(pattern)) for value, pattern in rows)


# Read on the path and the instantiation's names, without regard to case.
LIBRARIES = _compiled(
    ("nccl", r"^nccl"),
    ("profkit", r"^profkit(?:::|_)"),
    ("caffe", r"^caffe(?:2)?::"),
    ("triton", r"^triton_"),
    ("flash_attention", r"^(?:pytorch_)?flash(?:::|_fwd|_bwd)|^fmha_|^attentionkernel"),
    ("tensorflow/eigen", r"^tensorflow::|^eigen::|eigenmetakernel|^tsl::"),
    ("cudnn", r"cudnn|^cask_|implicit_convolve|explicit_convolve|precomputed_convolve|^winograd|^fft[12]d_[rc]2[rc]"),
    ("cudnn", r"^wgrad_alg|^dgrad_|^wgrad|^dgrad2d|^conv2d_grouped_direct|^flip_filter|^compute_gemm_pointers"),
    ("cudnn", r"^pooling_[fb]w|^lrn(?:forward|backward)|^bn_[fb]w_|^op_(?:generic_)?tensor|^add_tensor_kernel"),
    ("cudnn", r"^(?:nchwtonhwc|nhwctonchw)|^softmax_[fb]w_|^activation_[fb]w"),
    ("cudnn", r"^first_layer_|^transpose_readwrite|^im2col4d|xmma_(?:fprop|dgrad|wgrad)"),
    ("cufft", r"^(?:sp|dp|hp)?radix\d|^(?:regular|vector|composite|multi_bluestein)_fft|cufft|^postprocessc2c"),
    ("thrust/cub", r"(?:^|::)(?:thrust|cub)(?:::|$)|^cub_|^device(?:reduce|scan|radixsort|select|segmented)\w*kernel"),
    ("pytorch", r"^at::|^c10::|^at_cuda|^torch::|^cunn_|^(?:host_)?softmax_warp_|^elementwise_kernel_with_index"),
    ("pytorch", r"^vectorized_elementwise_kernel|^unrolled_elementwise_kernel|^multi_tensor_apply|^indexselect"),
    ("cublas", r"cublas|^nvjet|^splitkreduce|^gemv|^gemmsn|^gemmk1|^gemm_kernel|^epilogue::impl|^dot_kernel"),
    ("cublas", r"^reduce_1block|^(?:asum|nrm2|scal|axpy|iamax|rot|swap|copy)_kernel|^trsm|^syrk|^ger_kernel|^magma"),
    ("cutlass", r"cutlass"),
    ("cublas", r"xmma_gemm|(?:^|_)(?:g?[sdhczi]|fp16_[sh]|[hsi]\d{3,6})gemm|^[sdhcz]gemm"),
    ("xla", r"^(?:loop|input|gemm|transpose|concatenate|fused)_\w*(?:fusion|dot|\d$)|^fusion(?:_\d+)?$|^wrapped_"),
    ("cupy", r"^cupy_"),
    ("numba", r"^cudapy::|^_zn6cudapy"),
    ("cuda", r"^mem(?:cpy|set)\b|^\[cuda mem"),
)  # fmt: skip

# Work that a library adds around the kernel that computes; the reason is what it is for.
AUXILIARY = _compiled(
    ("layout", r"nchw2nhwc|nhwc2nchw|nchwtonhwc|nhwctonchw|transpose_readwrite|generictranspose|tensortransform"),
    ("layout", r"swapdimension|shuffleintensor3|^transpose_fusion|flip_filter|kern_?flip|transform_?layout|packinput"),
    ("layout", r"implicit_gemm_pack"),
    ("padding", r"padinput|^pad_|paddingkernel|zero_?pad"),
    ("workspace tables", r"compute\w*offsetskernel|compute_gemm_pointers|computeoffsets|offset_?table|setup_pointers"),
    ("workspace tables", r"batched_pointers"),
    ("split-k reduction", r"splitkreduce|split_?k_?reduce|reduce_wgrad|reducesplitk|cutlass::reduction"),
    ("split-k reduction", r"reduce_split_?k|_add_splits|_add_parts|split_k_sum|_execute_split_k_kernel"),
    ("output initialised", r"scalepackedtensor|beta_?scale"),
    ("epilogue", r"^epilogue::impl|^cublaslt::epilogue"),
)

FAMILIES = _compiled(
    ("tables", r"compute\w*offsets|offset_?table|gemm_pointers|batched_pointers"),
    ("memset", r"^memset\b|^\[cuda memset"),
    ("copy", r"^memcpy\b|^\[cuda memcpy"),
    ("communication", r"^nccl|allreduce|all_reduce|reduce_scatter|all_gather|nvshmem"),
    ("attention", r"flash|fmha|attention"),
    ("optimiser", r"adam|adagrad|rmsprop|\bsgd|_sgd|momentum|lamb\b|lookahead|applygradient"),
    ("im2col", r"im2col|col2im|vol2col|col2vol|image_to_columns|columns_to_image"),
    ("winograd", r"winograd"),
    ("pool", r"pool"),
    ("lrn", r"lrn"),
    ("softmax", r"soft_?max"),
    ("norm", r"batch_?norm|layer_?norm|group_?norm|instance_?norm|rms_?norm|bn_[fb]w_|weight_norm|_norm_|rownorm"),
    ("loss", r"nll_loss|cross_?entropy|mse_loss|_loss\b|_loss_"),
    ("fft", r"fft\d?d?_|_fft|radix\d{4}|fft[12]d|postprocessc2c"),
    ("conv", r"scudnn|hcudnn|\d+cudnn|convolve|conv\d?d|depthwise|fprop|dgrad|wgrad|first_layer_|convolution|_conv_"),
    ("gemv", r"gemv"),
    ("gemm", r"gemm|nvjet|matmul|^magma|_mm_|addmm|_bmm|dot_general|triton_tem"),
    ("dropout", r"dropout"),
    ("random", r"distribution_|philox|curand|random|uniform_kernel|normal_kernel|bernoulli"),
    ("elementwise", r"bias\w*kernel"),
    ("copy", r"catarray|direct_copy|copy_kernel|_copy_|copy_?device|transpose|nchw|nhwc|concat|split_kernel|cupy_copy"),
    ("copy", r"swapdimension|shuffleintensor3|permute|flip_filter|padinput|^pad_"),
    ("fill", r"fillfunctor|arange|fill_kernel|cupy_fill|memset|scalepackedtensor"),
    ("index", r"index|gather|scatter|embedding|where|take_|masked_select|onehot"),
    ("sort", r"radixsort|mergesort|bitonic|topk|top_k|sort"),
    ("scan", r"scan|cumsum|cumprod|partition|select"),
    ("reduce", r"reduc|meanops|sum_functor|asum|nrm2|dot_kernel|triton_(?:red|per)_|cupy_(?:sum|max|amax)"),
    ("activation", r"relu|clamp|threshold|sigmoid|tanh|gelu|silu|activation_[fb]w|elu_"),
    ("elementwise", r"elementwise|pointwise|eigenmetakernel|triton_(?:poi|for)|multi_tensor|op_\w*tensor|add_tensor"),
    ("elementwise", r"bias|functor|epilogue|axpy|scal_kernel|loop_\w*fusion|^fusion|wrapped_|^cupy_|upsample|interp"),
    ("reduce", r"input_\w*fusion"),
)  # fmt: skip

TENSOR_CORES = re.compile(
    r"tensorop|wmma|wgmma|hmma|imma|tensor\d+x\d+x\d+|warpgroupsize|nvjet_[htbqo]|flash::|^(?:pytorch_)?flash_|"
    r"(?:^|_)[hsi]\d{3,6}(?:gemm|cudnn|fprop|dgrad|wgrad)|(?:^|_)[hsi]\d+x\d+x\d+gemm|tensor_core"
)

BATCHED = re.compile(r"batched|batch_?gemm|_bmm|strided_?batch|gemmbatch")


def first_match(rows: tuple[tuple[str, Pattern[str]], ...], text: str, default: str) -> str:
    """The value of the first row whose pattern occurs in the text."""
    return next((value for value, pattern in rows if pattern.search(text)), default)
