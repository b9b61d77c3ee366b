"""The user's own CUDA kernel without host code: its launch line, NVRTC, and the emulated run on CuPy's stand-in."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from profkit.errors import CompileError, LoadError, UnavailableError, UnsupportedError
from profkit.frameworks.adapter import Conditions
from profkit.frameworks.candidate.nvrtc import (
    CandidateKernel,
    LaunchGeometry,
    evaluate,
    is_kernel,
    read_launch_line,
    source_of,
)
from profkit.frameworks.candidate.operators import ADAPTER
from profkit.frameworks.headers import include_flags
from profkit.ops import BiasRelu, MatMul
from tests.cuda.nvrtc import compile_kernels, library_path
from tests.frameworks.candidate.candidate_files import example, is_right, made, prepare
from tests.frameworks.cupy import emulated_cupy
from tests.support.fake_cupy import FakeCupy

NAME = "my_bias_relu.cu"
EMPTY = 'extern "C" __global__ void candidate(profkit_bias_relu_params, void*, void*, void*) {}'


@pytest.fixture
def cupy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    return emulated_cupy.install(tmp_path, monkeypatch)


def test_the_example_of_the_documentation_is_right_in_emulation(tmp_path: Path, cupy: FakeCupy) -> None:
    candidate = made(tmp_path / NAME, example(NAME), "bias_relu")
    facts = ADAPTER.start(candidate, Conditions())

    for spec in (BiasRelu(1, 1, 1, 1), BiasRelu(2, 5, 7, 9), BiasRelu(3, 4, 16, 16)):
        prepared = ADAPTER.prepare(candidate, spec, spec.make_inputs(), Conditions())

        assert is_right(prepared.to_numpy(prepared.call()), spec)
        assert prepared.device is not None and prepared.device.stream == 7
    assert candidate.key == "bias_relu/candidate/cuda/my_bias_relu"
    assert facts["compiler"] == "NVRTC"
    assert cupy.called == ["wait"] * 3


@pytest.mark.skipif(library_path() is None, reason="nvidia-cuda-nvrtc is not installed")
def test_nvrtc_takes_the_example_as_cupy_would_give_it() -> None:
    cubin, _ = compile_kernels(source_of(example(NAME), NAME), "sm_90", include_flags(), [])

    assert b"candidate" in cubin


@pytest.mark.usefixtures("cupy")
def test_what_the_line_excludes_is_unsupported(tmp_path: Path) -> None:
    candidate = made(tmp_path / NAME, example(NAME), "bias_relu")

    with pytest.raises(UnsupportedError, match=r"my_bias_relu.cu:candidate is for layout NCHW only"):
        prepare(candidate, BiasRelu(1, 2, 3, 4, layout="NHWC"))


@pytest.mark.usefixtures("cupy")
def test_what_a_kernel_leaves_unwritten_is_nan(tmp_path: Path) -> None:
    text = f"// profkit: grid 1; block 1\n{EMPTY}\n"
    spec = BiasRelu(1, 2, 3, 4)
    prepared = prepare(made(tmp_path / "lazy.cu", text, "bias_relu"), spec)

    assert np.isnan(prepared.to_numpy(prepared.call())).all()


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize(("channels", "asked"), [(1, None), (100, 100 * 1024)])
def test_much_shared_memory_is_asked_for(tmp_path: Path, channels: int, asked: int | None) -> None:
    text = f"// profkit: grid 1; block 1; shared channels * 1024\n{EMPTY}\n"
    candidate = made(tmp_path / "large.cu", text, "bias_relu")

    prepare(candidate, BiasRelu(1, channels, 3, 4))

    loaded = ADAPTER._loaded[candidate.key]
    assert isinstance(loaded, CandidateKernel)
    assert getattr(loaded.kernel, "max_dynamic_shared_size_bytes", None) == asked


@pytest.mark.usefixtures("cupy")
def test_the_compilers_own_words_are_the_message(tmp_path: Path) -> None:
    text = '// profkit: grid 1; block 1\nextern "C" __global__ void candidate() {\n  no_such_name;\n}\n'
    candidate = made(tmp_path / "broken.cu", text, "softmax")

    with pytest.raises(
        CompileError, match=r"broken.cu does not compile \(NVRTC\)(.|\n)*broken.cu:3(.|\n)*no_such_name"
    ):
        ADAPTER.start(candidate, Conditions())


def test_without_cupy_both_ways_out_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    candidate = made(tmp_path / NAME, example(NAME), "bias_relu")

    with pytest.raises(UnavailableError, match=r'pip install "profkit\[cupy\]", or write a host function'):
        ADAPTER.start(candidate, Conditions())


def test_a_launch_line_is_worked_out_for_a_spec() -> None:
    text = "// profkit: grid (n + 15) / 16, (m + 15) / 16, batch; block 16, 16; shared 32 * 64; only dtype float32\n"
    line = read_launch_line(text, "mine.cu")

    assert line.geometry(MatMul(33, 16, 5).params()) == LaunchGeometry((1, 3, 1), (16, 16), 2048)
    assert line.only == {"dtype": "float32"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a kernel needs a line that says how it is started"),
        ("// profkit: grid 1", "grid and block are needed"),
        ("// profkit: block 1", "grid and block are needed"),
        ("// profkit: grid 1; block 1; cluster 2", "'cluster' is not known"),
        ("// profkit: grid 1; grid 2; block 1", "grid appears twice"),
        ("// profkit: grid 1, 2, 3, 4; block 1", "grid takes one to three numbers"),
        ("// profkit: grid 1; block 16,", "block takes one to three numbers"),
        ("// profkit: grid 1; block 1; shared 1, 2", "shared takes one number"),
        ("// profkit: grid 1; block 1; only dtype", "only takes fields with the word that each must have"),
    ],
)
def test_a_launch_line_that_is_missing_or_wrong_is_shown_with_an_example(text: str, words: str) -> None:
    with pytest.raises(LoadError, match=rf"mine.cu:(.|\n)*{words}(.|\n)*profkit: grid \(n \+ 15\)"):
        read_launch_line(text, "mine.cu")


@pytest.mark.parametrize("text", ["rows / 2", "m +", "m / 0", "f(m)", "2.5", "m ** 2", "(m", "__import__('os')"])
def test_an_expression_that_cannot_be_worked_out_says_what_may_be_in_it(text: str) -> None:
    with pytest.raises(LoadError, match=r"it may hold whole numbers, \+ - \* / \( \) and m, n, k"):
        evaluate(text, MatMul(2, 3, 4).params())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('extern "C" __global__ void __launch_bounds__(256) candidate(float* y) {}', True),
        ('extern "C" {\n__global__ void candidate(float* y) {}\n}', True),
        ('__global__ void work();\nextern "C" int candidate() { work<<<1, 1>>>(); return 0; }', False),
        ('// extern "C" __global__ void candidate(float* y)\nextern "C" int candidate() { return 0; }', False),
        ('/* \xe4 */ extern "C" __global__ void candidate(float* y) {}', True),
    ],
)
def test_kernels_are_told_from_entries(tmp_path: Path, text: str, expected: bool) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(text, encoding="latin-1")

    assert is_kernel(path, "candidate") is expected


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("grid 1; block 1; shared m - 5", "shared m - 5: -3 bytes cannot be requested"),
        ("grid m / 16; block 16", "grid 0: every number must be at least 1"),
    ],
)
def test_a_launch_that_cannot_be_is_refused(line: str, words: str) -> None:
    with pytest.raises(LoadError, match=words):
        read_launch_line(f"// profkit: {line}", "mine.cu").geometry(MatMul(2, 3, 4).params())
