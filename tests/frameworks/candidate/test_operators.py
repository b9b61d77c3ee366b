"""The user's own kernel: what may be typed, loading, compiling, and the messages when something is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from profkit.errors import (
    CompileError,
    KernelError,
    LoadError,
    UnavailableError,
    UnsupportedError,
    UsageError,
    WrongResultError,
)
from profkit.frameworks.adapter import Conditions
from profkit.frameworks.candidate.operators import ADAPTER, candidate_implementations
from profkit.measurement.workers import protocol
from profkit.measurement.workers.operator import Worker
from profkit.ops import BiasRelu, Conv2d, MatMul, Softmax, Spec, odd_specs
from profkit.ops.spec import max_error
from tests.frameworks.candidate.candidate_files import example, is_right, made, needs_compiler, run, write

REFERENCE_PY = "def {name}(spec, *inputs):\n    return spec.reference(dict(zip(spec.input_shapes(), inputs)))\n"
RELU_CPP = """
#include <profkit/params.h>

template <class T>
static void bias_relu(const profkit_bias_relu_params& p, const T* x, const T* b, T* y) {
  const int64_t area = p.height * p.width;
  for (int64_t i = 0; i < p.batch * p.channels * area; ++i) {
    const int64_t channel = p.layout == PROFKIT_NCHW ? i / area % p.channels : i % p.channels;
    const T value = x[i] + b[channel];
    y[i] = value > 0 ? value : 0;
  }
}

extern "C" int candidate(const profkit_bias_relu_params* p, const void* const* in, void* out, int) {
  if (p->dtype == PROFKIT_FLOAT32)
    bias_relu(*p, static_cast<const float*>(in[0]), static_cast<const float*>(in[1]), static_cast<float*>(out));
  else
    bias_relu(*p, static_cast<const double*>(in[0]), static_cast<const double*>(in[1]), static_cast<double*>(out));
  return 0;
}
"""


def test_a_python_candidate_is_called_with_the_spec_and_the_inputs(tmp_path: Path) -> None:
    file = write(tmp_path / "my_conv.py", REFERENCE_PY.format(name="conv"))
    spec = odd_specs("conv2d")[0]

    [candidate] = candidate_implementations([f"{file}:conv"], "conv2d")
    result = run(candidate, spec)

    assert candidate.key == "conv2d/candidate/cpu/my_conv"
    np.testing.assert_array_equal(result, spec.reference(spec.make_inputs()))


@pytest.mark.parametrize(("op", "name"), [("conv2d", "conv"), ("conv2d", "conv2d"), ("pool2d", "pool"), ("lrn", "lrn")])
def test_the_function_may_be_left_out_when_it_has_the_operators_name(tmp_path: Path, op: str, name: str) -> None:
    file = write(tmp_path / "mine.py", REFERENCE_PY.format(name=name))

    [candidate] = candidate_implementations([file], op)

    assert candidate.options == {"path": file, "function": name}


def test_prepare_is_preferred_gets_the_threads_and_only_its_result_is_called(tmp_path: Path) -> None:
    text = """
seen = []
def conv(spec, x, w):
    raise AssertionError("prepare comes first")
def prepare(spec, x, w, *, threads):
    seen.append(threads)
    result = spec.reference({"x": x, "w": w})
    return lambda: result
"""
    candidate = made(tmp_path / "mine.py", text, "conv2d")
    spec = Conv2d(1, 1, 3, 3, 1, (3, 3))

    result = run(candidate, spec, threads=2)

    assert candidate.options["function"] == "prepare"
    assert result.shape == spec.output_shape()


PREPARED_MATMULS = {
    "its own output": ("reused", "lambda: np.matmul(a, b, out=out)"),
    "a view of its own output": ("reused", "lambda: np.matmul(a, b, out=out)[:]"),
    "a constant": ("reused", "lambda: out"),
    "a new array": ("fresh", "lambda: a @ b"),
}


@pytest.mark.parametrize("kind", PREPARED_MATMULS)
def test_a_prepared_candidate_that_returns_the_same_memory_is_called_reused(tmp_path: Path, kind: str) -> None:
    expected, call = PREPARED_MATMULS[kind]
    text = f"import numpy as np\ndef prepare(spec, a, b, *, threads):\n    out = a @ b\n    return {call}\n"
    candidate = made(tmp_path / "mine.py", text, "matmul")
    worker, spec = Worker(), MatMul(2, 3, 4)
    for name, array in spec.make_inputs().items():
        np.save(protocol.input_path(str(tmp_path), name), array)
    worker.do_start(candidate.key, "candidate", candidate.options, {"threads": 1})

    answer = worker.do_prepare(spec.to_dict(), "fresh", str(tmp_path), str(tmp_path / "result.npy"))

    assert answer["output"] == expected
    np.testing.assert_allclose(np.load(tmp_path / "result.npy"), spec.reference(spec.make_inputs()), rtol=1e-5)


def test_a_candidate_that_adds_to_its_own_output_does_not_look_right(tmp_path: Path) -> None:
    text = "def prepare(spec, a, b, *, threads):\n    out = 0 * (a @ b)\n    return lambda: out.__iadd__(a @ b)\n"
    candidate = made(tmp_path / "mine.py", text, "matmul")
    spec = MatMul(2, 3, 4)

    result = run(candidate, spec)

    assert max_error(result, spec.reference(spec.make_inputs())) > 0.5


def test_a_python_candidate_imports_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path / "neighbour_of_candidate.py", REFERENCE_PY.format(name="conv"))
    file = write(tmp_path / "mine.py", "from neighbour_of_candidate import conv\n")
    [candidate] = candidate_implementations([file], "conv2d")
    spec = Conv2d(1, 1, 3, 3, 1, (3, 3))

    result = run(candidate, spec)

    assert result.shape == spec.output_shape()


def test_an_edit_is_seen_by_the_next_start(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    write(file, "def softmax(spec, x):\n    return x + 1\n")
    [candidate] = candidate_implementations([str(file)], "softmax")
    spec = Softmax(1, 2)
    before = run(candidate, spec)

    write(file, "def softmax(spec, x):\n    return x + 2\n")
    after = run(candidate, spec)

    np.testing.assert_allclose(after - before, 1.0, rtol=1e-6)


def test_candidates_of_the_same_name_get_different_keys(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    python = write(tmp_path / "mine.py", "def conv(s, x, w): ...\ndef fast(s, x, w): ...\n")
    native = write(tmp_path / "other" / "mine.cpp", "")

    found = candidate_implementations([python, f"{python}:fast", native, native], "conv2d")

    names = [item.key.removeprefix("conv2d/candidate/cpu/") for item in found]
    assert names == ["mine.py", "mine.fast", "mine.cpp", "mine.cpp-2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing_here.py", "no file"),
        ("my_conv.rs", "expected a file that ends in"),
        ("my_conv.py:fast", "no function fast; it defines slow"),
        ("my_conv.py", "no function prepare or conv or conv2d"),
        ("my_con.py", "did you mean my_conv.py"),
    ],
)
def test_a_text_that_cannot_be_meant_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    write(tmp_path / "my_conv.py", "def slow(spec, x, w):\n    inner = 1\n    return inner\n")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UsageError, match=words):
        candidate_implementations([text], "conv2d")


def test_what_the_parser_cannot_hold_is_left_to_the_worker(tmp_path: Path) -> None:
    deep = write(tmp_path / "deep.py", "def matmul(s, a, b): ...\nx = " + "not " * 100_000 + "1\n")

    assert candidate_implementations([deep], "matmul")[0].options["function"] == "matmul"


RETURNS = 'extern "C" int candidate(const void*, const void* const*, void*, int) { return CODE; }'
WRONG = [
    ("mine.py", "def matmul(:\n", LoadError, r"mine.py cannot be loaded: SyntaxError: invalid syntax"),
    (
        "mine.py",
        "matmul = None\nimport numppy\n",
        LoadError,
        r"ModuleNotFoundError: No module named 'numppy' \(mine.py:2\)",
    ),
    ("mine.py", "matmul = None\nraise SystemExit(3)\n", LoadError, "SystemExit: 3"),
    ("mine.py", "matmul = 7\n", LoadError, "mine.py:matmul is not a function"),
    (
        "broken.cpp",
        "int main() {\n  return no_such_name;\n}\n",
        CompileError,
        r"broken.cpp does not compile(.|\n)*broken.cpp:2(.|\n)*no_such_name",
    ),
    (
        "mine.cpp",
        "int candidate() { return 0; }",
        LoadError,
        r'mine.cpp has no function candidate declared extern "C"',
    ),
    ("mine.py", "def matmul(s, a, b): pass\n", WrongResultError, r"mine.py:matmul returned None.*\(2, 3\)"),
    ("seven.cpp", RETURNS.replace("CODE", "7"), KernelError, "seven.cpp:candidate returned 7"),
    (
        "small.cpp",
        RETURNS.replace("CODE", "-1"),
        UnsupportedError,
        "small.cpp:candidate does not offer this spec",
    ),
]


@needs_compiler
@pytest.mark.parametrize(("name", "text", "error", "words"), WRONG)
def test_what_cannot_be_loaded_or_gives_no_result_is_an_error_with_its_reason(
    name: str, text: str, error: type[Exception], words: str, tmp_path: Path
) -> None:
    candidate = made(tmp_path / name, text, "matmul")

    with pytest.raises(error, match=words):
        run(candidate, MatMul(2, 3, 4))


@needs_compiler
@pytest.mark.parametrize("output", ["fresh", "reused"])
def test_a_cpp_candidate_is_right_on_every_odd_shape(tmp_path: Path, output: str) -> None:
    candidate = made(tmp_path / "relu.cpp", RELU_CPP, "bias_relu")
    conditions = Conditions(1, output)
    facts = ADAPTER.start(candidate, conditions)

    for spec in odd_specs("bias_relu"):
        if spec.dtype_word not in ("float32", "float64") or spec.words()["direction"] != "forward":
            continue
        prepared = ADAPTER.prepare(candidate, spec, spec.make_inputs(), conditions)

        assert is_right(prepared.to_numpy(prepared.call()), spec)
        assert prepared.output == output
    assert facts["candidate"] == "relu.cpp"
    assert "-O3" in facts["flags"]


@needs_compiler
def test_a_c_candidate_with_its_own_symbol_works(tmp_path: Path) -> None:
    text = """
#include <profkit/params.h>
int product(const profkit_matmul_params* p, const void* const* inputs, void* output, int threads) {
  const float *a = inputs[0], *b = inputs[1];
  float* c = output;
  (void)threads;
  for (int64_t i = 0; i < p->m; ++i)
    for (int64_t j = 0; j < p->n; ++j) {
      c[i * p->n + j] = 0;
      for (int64_t k = 0; k < p->k; ++k) c[i * p->n + j] += a[i * p->k + k] * b[k * p->n + j];
    }
  return 0;
}
"""
    [candidate] = candidate_implementations([write(tmp_path / "mine.c", text) + ":product"], "matmul")
    spec = MatMul(3, 4, 5)

    assert is_right(run(candidate, spec), spec)


@needs_compiler
def test_what_a_kernel_leaves_unwritten_does_not_look_like_a_result(tmp_path: Path) -> None:
    candidate = made(tmp_path / "lazy.cpp", RETURNS.replace("CODE", "0"), "bias_relu")

    results = [run(candidate, odd_specs("bias_relu")[0], output=output) for output in ("fresh", "reused")]

    assert all(np.isnan(result).all() for result in results)


@needs_compiler
def test_extra_flags_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    candidate = made(tmp_path / "mine.cpp", RETURNS, "softmax")
    monkeypatch.setenv("PROFKIT_CXXFLAGS", "-DCODE=5")

    with pytest.raises(KernelError, match="returned 5"):
        run(candidate, odd_specs("softmax")[0])


@pytest.mark.parametrize("named", ["", "no-such-compiler"])
def test_a_missing_compiler_is_a_clear_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    candidate = made(tmp_path / "relu.cpp", RELU_CPP, "bias_relu")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", named)

    with pytest.raises(UnavailableError, match=r"no compiler.*\$CXX"):
        ADAPTER.start(candidate, Conditions())


@needs_compiler
@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("my_conv.py", Conv2d(2, 3, 9, 8, 4, (3, 3), (2, 2), (1, 1, 1, 1))),
        ("my_conv.cpp", Conv2d(3, 4, 9, 8, 6, (3, 2), (2, 1), (1, 0, 2, 1), groups=2)),
        ("my_matmul.py", MatMul(3, 4, 5, transpose_b=True, bias=True)),
    ],
)
def test_the_examples_of_the_documentation_are_right(tmp_path: Path, name: str, spec: Spec) -> None:
    candidate = made(tmp_path / name, example(name), spec.op)

    assert is_right(run(candidate, spec, threads=2), spec)


@needs_compiler
@pytest.mark.parametrize("name", ["my_conv.py", "my_conv.cpp"])
def test_the_examples_say_what_they_do_not_offer(tmp_path: Path, name: str) -> None:
    candidate = made(tmp_path / name, example(name), "conv2d")

    with pytest.raises(UnsupportedError):
        run(candidate, Conv2d(1, 1, 3, 3, 1, (3, 3), layout="NHWC"))


@needs_compiler
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("output", ["fresh", "reused"])
def test_16_bit_arrays_reach_a_candidate_unchanged(tmp_path: Path, dtype: str, output: str) -> None:
    text = """
#include <profkit/params.h>
#include <string.h>
int candidate(const profkit_bias_relu_params* p, const void* const* in, void* out, int threads) {
  memcpy(out, in[0], 2 * p->batch * p->channels * p->height * p->width);
  return threads - 1;
}
"""
    candidate = made(tmp_path / "copy.c", text, "bias_relu")
    spec = BiasRelu(1, 2, 3, 4, dtype=dtype)

    result = run(candidate, spec, output=output)

    assert result.dtype == spec.numpy_dtype
    np.testing.assert_array_equal(result, spec.make_inputs()["x"])
