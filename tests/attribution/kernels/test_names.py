"""Kernel names: what those of several generations of libraries tell, and that no text upsets the parser."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profkit.attribution.kernels.names import UNKNOWN, KernelName, parse_kernel
from tests.support.places import SOURCES, TRACES


def told(name: str) -> tuple[str, str, str, str, str]:
    """Library, family, tile, transposes, dtype."""
    kernel = parse_kernel(name)
    return kernel.library, kernel.family, kernel.tile, kernel.transposes, kernel.dtype


# Matrix products of cuBLAS and CUTLASS from Kepler to Blackwell.
PRODUCTS = {
    "sgemm_128x128x8_NT_vec": ("cublas", "gemm", "128x128", "nt", "f32"),
    "sgemm_sm35_ldg_tn_32x16x64x8x16": ("cublas", "gemm", "", "tn", "f32"),
    "maxwell_sgemm_128x64_nn": ("cublas", "gemm", "128x64", "nn", "f32"),
    "maxwell_sgemm_128x128_raggedMn_nn_splitK": ("cublas", "gemm", "128x128", "nn", "f32"),
    "maxwell_gcgemm_64x32_nt": ("cublas", "gemm", "64x32", "nt", "c64"),
    "volta_sgemm_128x64_nn": ("cublas", "gemm", "128x64", "nn", "f32"),
    "volta_dgemm_64x64_nn": ("cublas", "gemm", "64x64", "nn", "f64"),
    "volta_sgemm_fp16_128x64_nn": ("cublas", "gemm", "128x64", "nn", "f16"),
    "volta_fp16_s884gemm_fp16_64x64_ldg8_f2f_nn": ("cublas", "gemm", "64x64", "nn", "f16"),
    "turing_h1688gemm_128x128_ldg8_nn": ("cublas", "gemm", "128x128", "nn", "f16"),
    "ampere_sgemm_32x32_sliced1x4_tn": ("cublas", "gemm", "32x32", "tn", "f32"),
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nn": (
        "cublas", "gemm", "128x128", "nn", "bf16"),
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_execute_kernel__5x_cublas": (
        "cublas", "gemm", "64x64", "tn", "f32"),
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel__5x_cublas": (
        "cublas", "gemm", "128x128", "tn", "bf16"),
    "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT": ("cublas", "gemm", "128x256", "nn", "f16"),
    "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN": ("cublas", "gemm", "192x192", "tn", "bf16"),
    "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false, false, P<int> >(P)": (
        "cublas", "gemv", "", "", "f32"),
    "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 8, 9, false, cublasGemvTensorStridedBatched<float const> >(P)": (
        "cublas", "gemm", "", "tn", "f32"),
    "cutlass_80_tensorop_s1688gemm_128x128_16x4_nt_align4": ("cutlass", "gemm", "128x128", "nt", "tf32"),
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(P)": (
        "cutlass", "gemm", "128x64", "nn", "f32"),
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>(P)": (
        "cutlass", "gemm", "32x32", "tn", "bf16"),
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int>, cutlass::gemm::"
    "collective::CollectiveMma<int, cute::tuple<long, cute::C<1>>, float, cutlass::bfloat16_t>>>(P)": (
        "cutlass", "gemm", "", "", "bf16"),
    "cutlass3x_sm90_tensorop_s64x128x16gemm_f16_f16_f32_void_f16_128x128x64_2x1x1_0_tnn_align8_warpspecialized": (
        "cutlass", "gemm", "128x128", "tn", "f16"),
}  # fmt: skip

CONVOLUTIONS = {
    "maxwell_scudnn_128x64_relu_small_nn": ("cudnn", "conv", "128x64", "nn", "f32"),
    "turing_fp16_s1688cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc_tn_v1": (
        "cudnn", "conv", "256x64", "tn", "f16"),
    "void implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, false, false, true>(int)": (
        "cudnn", "conv", "", "", "f32"),
    "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(P<float>)": (
        "cudnn", "winograd", "4x4", "", "f32"),
    "cudnn_infer_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1": (
        "cudnn", "winograd", "128x128", "nt", "f32"),
    "void fft2d_r2c_32x32<float, false, 5u, true>(float2*)": ("cudnn", "fft", "32x32", "", "f32"),
    "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_s1688fprop_optimized_tf32_128x128_16x4>(P)": (
        "cudnn", "conv", "128x128", "", "tf32"),
    "void cudnn::cnn::im2col4d_kernel<float, long>(P)": ("cudnn", "im2col", "", "", "f32"),
    "void caffe::im2col_gpu_kernel<float>(int)": ("caffe", "im2col", "", "", "f32"),
    "void tensorflow::DepthwiseConv2dGPUKernelNCHW<float, 3, 3, 1>(P)": ("tensorflow/eigen", "conv", "", "", "f32"),
    "void profkit::conv2d_implicit_gemm<float, 128>(P)": ("profkit", "conv", "", "", "f32"),
}  # fmt: skip

OTHERS = {
    "void spRadix0064A::kernel1Mem<unsigned int, float, 0>(P)": ("cufft", "fft"),
    "void cudnn::detail::pooling_bw_kernel_max_nchw<float>(P)": ("cudnn", "pool"),
    "void cudnn::detail::lrnForward_evenC<float, float>(P)": ("cudnn", "lrn"),
    "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(P<float>)": ("cudnn", "norm"),
    "void op_generic_tensor_kernel<3, float, float, float, 256, 1, 1, 2>(P)": ("cudnn", "elementwise"),
    "void cunn_SoftMaxForward<4, float, float, float, SoftMaxForwardEpilogue>(P)": ("pytorch", "softmax"),
    "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float>(P)": ("pytorch", "loss"),
    "void at::native::vectorized_gather_kernel<(int)16, long>(char *)": ("pytorch", "index"),
    "void at::native::unrolled_elementwise_kernel<at::direct_copy_kernel_cuda(T &)::[lambda() (instance 3)]>()": (
        "pytorch", "copy"),
    "void at::native::multi_tensor_apply_kernel<M<4>, at::native::FusedAdamMathFunctor<float, 4>>(M)": (
        "pytorch", "optimiser"),
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>(P)": (
        "flash_attention", "attention"),
    "void tensorflow::BiasNCHWKernel<float>(int)": ("tensorflow/eigen", "elementwise"),
    "void tensorflow::functor::ColumnReduceKernel<float*, float*, cub::Sum>(P)": ("tensorflow/eigen", "reduce"),
    "void cub::DeviceRadixSortOnesweepKernel<P>(P)": ("thrust/cub", "sort"),
    "void at_cuda_detail::cub::DeviceScanKernel<P>(P)": ("thrust/cub", "scan"),
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": ("nccl", "communication"),
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)": ("nccl", "communication"),
    "triton_poi_fused_add_mul_0": ("triton", "elementwise"),
    "triton_red_fused_native_layer_norm_3": ("triton", "norm"),
    "triton_tem_fused_mm_5": ("triton", "gemm"),
    "cupy_add__float32_float32_float32": ("cupy", "elementwise"),
    "loop_add_fusion_3": ("xla", "elementwise"),
    "_ZN7profkit12matmul_naiveIfEEvNS_13MatmulProblemEPKT_S4_S4_PS2_": ("profkit", "gemm"),
    "Memcpy HtoD (Pageable -> Device)": ("cuda", "copy"),
    "[CUDA memset]": ("cuda", "memset"),
    "my_kernel": (UNKNOWN, "other"),
}  # fmt: skip

AUXILIARY = {
    "nchwToNhwcKernel": "layout",
    "void transpose_readWrite_alignment_kernel<float, float, 1, false, 6, 4, 4>(P)": "layout",
    "void tensorflow::functor::SwapDimension1And2InTensor3UsingTiles<unsigned int, 256, 32, 32, false>(P)": "layout",
    "void tensorflow::functor::PadInputCustomKernelNHWC<float, 4>(P)": "padding",
    "cask_cudnn_train::computeWgradSplitKOffsetsKernel(P)": "workspace tables",
    "void compute_gemm_pointers(float2**)": "workspace tables",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float>(P)": "split-k reduction",
    "splitKreduce_kernel": "split-k reduction",
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_"
    "execute_split_k_kernel__5x_cublas": "split-k reduction",
    "void cudnn::cnn::reduce_wgrad_nchw_helper<float, float>(void*)": "split-k reduction",
    "void cudnn::ops::scalePackedTensor_kernel<float, float>(long)": "output initialised",
    "void epilogue::impl::globalKernel<float, float, float, true, true>(int)": "epilogue",
    "void profkit::cuda::conv2d_implicit_gemm_pack<true>(P)": "layout",
    "void profkit::cuda::matmul_batched_pointers<float>(P)": "workspace tables",
    "void profkit::cuda::conv2d_add_splits(P)": "split-k reduction",
    "void profkit::cuda::matmul_split_k_sum<float>(P)": "split-k reduction",
}


@pytest.mark.parametrize("name", [*PRODUCTS, *CONVOLUTIONS])
def test_products_and_convolutions_are_told_by_library_tile_transposes_and_format(name: str) -> None:
    assert told(name) == {**PRODUCTS, **CONVOLUTIONS}[name]


@pytest.mark.parametrize("name", OTHERS)
def test_other_kernels_are_told_by_library_and_family(name: str) -> None:
    kernel = parse_kernel(name)

    assert (kernel.library, kernel.family) == OTHERS[name]
    assert not kernel.is_auxiliary


@pytest.mark.parametrize("name", AUXILIARY)
def test_auxiliary_kernels_carry_their_reason(name: str) -> None:
    assert (parse_kernel(name).auxiliary, parse_kernel(name).is_auxiliary) == (AUXILIARY[name], True)


def test_the_kernels_of_the_published_table_of_caffe_and_tensorflow_are_told_apart() -> None:
    tiles = ("128x64", "128x128", "64x64")
    plain = [f"maxwell_sgemm_{tile}_{transposes}" for tile in tiles for transposes in ("nn", "nt", "tn")]
    batched = [name.replace("sgemm", "sgemmBatched") for name in plain]

    columns = [(k.tile, k.transposes, k.is_batched) for k in map(parse_kernel, plain + batched)]

    assert columns == [(t, x, b) for b in (False, True) for t in tiles for x in ("nn", "nt", "tn")]


@pytest.mark.parametrize(
    ("name", "uses"),
    [
        ("volta_fp16_s884gemm_fp16_64x64_ldg8_f2f_nn", True),
        ("turing_fp16_s1688cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc_tn_v1", True),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_tensor16x8x8", True),
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_16x4_nt_align4>(P)", True),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT", True),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4", False),
        ("ampere_sgemm_128x128_nn", False),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(P)", False),
    ],
)  # fmt: skip
def test_tensor_cores_are_seen_where_the_name_says_so(name: str, uses: bool) -> None:
    assert parse_kernel(name).uses_tensor_cores is uses


CLAMP = (
    "at::native::(anonymous namespace)::launch_clamp_scalar(at::TensorIteratorBase&, c10::Scalar)::{lambda()#1}"
    "::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}"
)


SUM = "at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)#1}"
LOG = (
    "at::native::log_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 2)]::operator ()() const::"
    "[lambda(float) (instance 1)]"
)
MULTIPLY = "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >"
SHORT = {
    f"void at::native::vectorized_elementwise_kernel<4, {CLAMP}, at::detail::Array<char*, 2> >(int, {CLAMP})": (
        "vectorized_elementwise_kernel<launch_clamp_scalar>"
    ),
    f"void at::native::elementwise_kernel<128, 2, at::gpu_kernel_impl<{MULTIPLY} >(T&)::{{lambda(int)#1}}>(int)": (
        "elementwise_kernel<MulFunctor>"
    ),
    f"void at::native::reduce_kernel<512, 1, at::ReduceOp<float, at::native::func_wrapper_t<float, {SUM}> > >(P)": (
        "reduce_kernel<sum_functor>"
    ),
    f"void at::native::vectorized_elementwise_kernel<(int)4, {LOG}, std::array<char *, 2>>(int, T2, T3)": (
        "vectorized_elementwise_kernel<log_kernel_cuda>"
    ),
    "void Eigen::internal::EigenMetaKernel<Eigen::TensorCwiseBinaryOp<Eigen::internal::scalar_sum_op<float> > >(P)": (
        "EigenMetaKernel<scalar_sum_op>"
    ),
    "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_16x4_nt_align4>(P)": (
        "cutlass_80_tensorop_s1688gemm_128x128_16x4_nt"
    ),
    "std::enable_if<(4 > 2), void>::type lib::scale<float>(float*)": "scale",
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)": "ncclDevKernel_SendRecv",
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEEEEviT0_": "vectorized_elementwise_kernel",
    "void epilogue::impl::globalKernel<float, true>(int)": "epilogue::impl::globalKernel",
    "Memcpy HtoD (Pageable -> Device)": "Memcpy HtoD (Pageable -> Device)",
}


@pytest.mark.parametrize("name", SHORT)
def test_short_names_name_the_work_without_types_namespaces_and_lambdas(name: str) -> None:
    assert parse_kernel(name).short == SHORT[name]


# --- Names of real traces ---


def real_names() -> dict[str, str]:
    """Each distinct name of the traces, with the file that it is of."""
    if not TRACES.is_dir():
        pytest.skip("the folder of real GPU traces is not here")
    names = {}
    for path in sorted(TRACES.glob("kineto-*.json.gz")):
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        names.update({e["name"]: path.name for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")})
    for path in sorted(TRACES.glob("*.sqlite")):
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            rows = database.execute(
                "SELECT DISTINCT value FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON StringIds.id = demangledName"
            )
            names.update({row[0]: path.name for row in rows})
    return names


def test_every_kernel_of_the_real_traces_has_a_library_a_family_and_a_short_name() -> None:
    kernels = [parse_kernel(name) for name in real_names()]

    assert len(kernels) > 100
    assert [k.name for k in kernels if k.library == UNKNOWN or k.family == "other"] == []
    assert [k.short for k in kernels if len(k.short) > 96 or "lambda" in k.short or "at::" in k.short] == []
    assert [k.name for k in kernels if k.family == "gemm" and not (k.tile and k.transposes)] == []
    # Each of them names its operands, but for tables, byte-wise copies and what the driver does.
    assert {k.family for k in kernels if not k.dtype} <= {"tables", "copy", "memset", "winograd"}


# --- Any text ---

PIECES = ["<", ">", "(", ")", "::", "operator()", "{lambda()#1}", "a", "x", "128x64", "_nn", " ", "_Z", "N5", ",", "->"]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_no_text_upsets_the_parser(text: str) -> None:
    kernel = parse_kernel(text)

    assert isinstance(kernel, KernelName)
    assert kernel.name == text
    assert len(kernel.short) <= 96


def hostile(kind: str, size: int) -> str:
    return {
        "open": "<" * size,
        "closed": ">" * size,
        "templates": "a<" * (size // 2),
        "wrappers": "at::native::BinaryFunctor<" * (size // 26) + "f" + ">" * (size // 26),
        "calls": "operator()" * (size // 10),
        "words": "_128x64_nn" * (size // 10),
        "digits": "s" + "1" * size + "gemm",
        "mangled": "_ZN" + "1a" * (size // 2),
        "commas": "k<" + "a," * (size // 2) + ">",
        "formats": "_f32" * (size // 4),
        "letters": "a" * size,
    }[kind]


@pytest.mark.parametrize(
    "kind",
    ["open", "closed", "templates", "wrappers", "calls", "words", "digits", "mangled", "commas", "formats", "letters"],
)
def test_hostile_names_are_read_in_one_pass(kind: str) -> None:
    """A parser whose steps grow with the square of the length would need 10^11 of them: the suite's limit ends it."""
    text = hostile(kind, 300_000)

    kernel = parse_kernel(text)

    assert kernel.name == text
    assert len(kernel.short) <= 96


def test_every_cuda_kernel_of_profkit_is_told_by_operator() -> None:
    sources = SOURCES / "kernels"
    declared = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s*)?(\w+)\(")
    names = [name for file in sources.rglob("*.cuh") for name in declared.findall(file.read_text())]

    told = {name: parse_kernel(f"void profkit::cuda::{name}<float, 128, (bool)1>(P, float const*)") for name in names}

    families = {"matmul": "gemm", "pool2d": "pool", "bias": "activation", "softmax": "softmax", "lrn": "lrn"}
    assert len(names) > 30
    assert {kernel.library for kernel in told.values()} == {"profkit"}
    for name, kernel in told.items():
        operator = name.partition("_")[0]
        expected = {"conv", "winograd", "im2col"} if operator == "conv2d" else {families[operator], "tables"}
        assert kernel.family in expected, name
