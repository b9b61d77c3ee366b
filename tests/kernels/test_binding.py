"""What the binding refuses, and that it says why: one test per kind of wrong argument."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from profkit import _core
from profkit.errors import KernelError, UnsupportedError
from profkit.frameworks.adapter import aligned_empty
from profkit.ops import odd_specs
from profkit.ops.batch_norm import BatchNorm
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.conv2d import Conv2d
from profkit.ops.matmul import MatMul
from profkit.ops.pool2d import Pool2d
from profkit.ops.softmax import Softmax
from tests.kernels.kernel_calls import all_keys

KEY = "bias_relu/native/cpu/reference"
SPEC = BiasRelu(batch=2, channels=3, height=4, width=5)
PARAMS = SPEC.params()


def arrays() -> tuple[list[NDArray[Any]], NDArray[Any]]:
    """Right inputs and a right output for SPEC."""
    return list(SPEC.make_inputs().values()), np.empty(SPEC.output_shape(), np.float32)


X, B = arrays()[0]
SHAPE = SPEC.output_shape()
OUTPUT = np.empty(SHAPE, np.float32)
TRANSPOSED = np.empty((2, 4, 5, 3), "f").transpose(0, 3, 1, 2)
SHIFTED = np.zeros(X.nbytes + 4, np.uint8)[1:-3].view(np.float32).reshape(SHAPE)
READ_ONLY = np.empty(SHAPE, np.float32)
READ_ONLY.flags.writeable = False
MEMORY = np.zeros(240, np.float32)
HALF, BEHIND = MEMORY[:120].reshape(SHAPE), MEMORY[60:180].reshape(SHAPE)
WRONG: tuple[tuple[str, dict[str, Any]], ...] = (
    ("input x: expected float32, got float64", {"inputs": [X.astype(np.float64), B]}),
    ("output: expected float32, got int32", {"output": np.empty(SHAPE, np.int32)}),
    ("byte-swapped float32", {"inputs": [X.astype(">f4"), B]}),
    (r"input x: expected shape \(2, 3, 4, 5\), got \(2, 4, 5, 3\)", {"inputs": [np.empty((2, 4, 5, 3), "f"), B]}),
    (r"input b: expected shape \(3,\), got \(4,\)", {"inputs": [X, np.empty(4, "f")]}),
    (r"output: expected shape \(2, 3, 4, 5\), got \(120,\)", {"output": np.empty(120, "f")}),
    ("input x: is not contiguous", {"inputs": [TRANSPOSED, B]}),
    (r"output: is not contiguous: .* strides of \(240, 4, 60, 12\) bytes", {"output": TRANSPOSED}),
    ("input x: its data does not start at a multiple", {"inputs": [SHIFTED, B]}),
    ("output: cannot be written: this ndarray is read-only", {"output": READ_ONLY}),
    ("output: overlaps input x", {"inputs": [HALF, B], "output": HALF}),
    ("output: overlaps input x", {"inputs": [HALF, B], "output": BEHIND}),
    ("workspace: overlaps input x", {"inputs": [X, B], "workspace": X}),
    ("workspace: overlaps output", {"output": OUTPUT, "workspace": OUTPUT}),
    (r"expected 2 inputs \(x, b\), got 1", {"inputs": [X]}),
    (r"expected 2 inputs \(x, b\), got 3", {"inputs": [X, B, B]}),
    ("input x: is a list, which offers neither", {"inputs": [[1.0, 2.0], B]}),
    ("output: is a NoneType", {"output": None}),
    *((f"threads must be between 1 and .*, got {threads}", {"threads": threads}) for threads in (0, -1, 10**6)),
    ("unknown kernel bias_relu/native/cpu/magic; known: .*" + KEY, {"key": "bias_relu/native/cpu/magic"}),
    ("unknown operator fold", {"key": "fold/native/cpu/reference"}),
    ("params: height is missing", {"params": {name: PARAMS[name] for name in PARAMS if name != "height"}}),
    ("params: unknown name 'colour'", {"params": {**PARAMS, "colour": 1}}),
    ("params: batch must be a whole number of 64 bits, got 2.5", {"params": {**PARAMS, "batch": 2.5}}),
    ("params: batch must be a whole number", {"params": {**PARAMS, "batch": 2**70}}),
    ("params: batch must be between 1 and", {"params": {**PARAMS, "batch": 0}}),
    ("params: layout must be 0..1, got 7", {"params": {**PARAMS, "layout": 7}}),
    ("params: dtype must be 0..3, got -1", {"params": {**PARAMS, "dtype": -1}}),
)
"""What is said, and what is wrong in a call that is right otherwise."""


@pytest.mark.parametrize(("words", "changes"), WRONG, ids=[words for words, _ in WRONG])
def test_a_wrong_argument_is_refused_in_words(words: str, changes: dict[str, Any]) -> None:
    call = {"key": KEY, "params": PARAMS, "inputs": [X, B], "output": OUTPUT, "workspace": None, "threads": 1}

    with pytest.raises(KernelError, match=words):
        _core.run(**{**call, **changes})


def test_a_dimension_of_one_may_have_any_stride() -> None:
    spec = BiasRelu(batch=1, channels=3, height=1, width=5)
    x, b = spec.make_inputs().values()
    strange = np.lib.stride_tricks.as_strided(x, x.shape, (4, 20, 4, 4))
    output = np.empty(spec.output_shape(), np.float32)

    _core.run(KEY, spec.params(), [strange, b], output, None, 1)

    np.testing.assert_allclose(output, spec.reference({"x": x, "b": b}), rtol=1e-6)


def test_neighbouring_memory_is_not_an_overlap() -> None:
    memory = np.zeros(240, np.float32)
    inputs, _ = arrays()

    _core.run(
        KEY,
        PARAMS,
        [memory[:120].reshape(SPEC.output_shape()), inputs[1]],
        memory[120:].reshape(SPEC.output_shape()),
        None,
        1,
    )

    assert np.all(memory[:120] == 0)


def test_params_that_contradict_themselves_never_reach_a_kernel() -> None:
    conv = Conv2d().params()
    pool = Pool2d().params()
    wide = dict.fromkeys(("batch", "channels", "height", "width"), 2**31)

    for key, params, words in (
        ("conv2d/native/cpu/reference", {**conv, "out_h": 17}, r"out_h is 17, but \(16 \+ 2 \+ 2"),
        ("conv2d/native/cpu/reference", {**conv, "groups": 3}, "groups 3 does not divide"),
        ("conv2d/native/cpu/reference", {**conv, "pad_top": -1}, "pad_top must be between 0"),
        ("conv2d/native/cpu/reference", {**conv, "stride_h": 0}, "stride_h must be between 1"),
        ("pool2d/native/cpu/reference", {**pool, "pad_top": 3, "pad_bottom": -2}, "pad_bottom must be between 0"),
        ("batch_norm/native/cpu/reference", {**BatchNorm(direction="input-gradient").params(), "mode": 1}, "mode must"),
        (KEY, {**PARAMS, **wide}, "more than .* elements"),
    ):
        with pytest.raises(KernelError, match=words):
            _core.supports(key, params)


def test_a_padded_image_that_no_memory_holds_is_refused_before_a_size_overflows() -> None:
    most = 2**31 - 1
    wide: dict[str, int | float] = {"dilation_h": most, "dilation_w": most, "pad_top": most, "pad_left": most}
    one = Conv2d(1, 1, 1, 1, out_channels=1, kernel_size=2, padding=1).params()
    params = {**one, **wide, "pad_bottom": 0, "pad_right": 0, "out_h": 1, "out_w": 1}

    for key in _core.kernels("conv2d"):
        with pytest.raises(KernelError, match="with its padding, would have more than"):
            _core.workspace_bytes(key, params, 1)
        with pytest.raises(KernelError, match=r"2147483647 and 1 are more than"):
            _core.workspace_bytes(key, {**params, "pad_bottom": 1}, 1)


def test_a_workspace_whose_size_does_not_fit_64_bits_is_a_memory_error() -> None:
    if "conv2d/native/cpu/im2col" not in all_keys():
        pytest.skip("the instruction set in use has no kernel with so large a workspace")
    side = 2**20
    large = Conv2d(1, 1, 4, 4, out_channels=1, kernel_size=3, padding=1).params()
    params = {**large, "height": 2 * side, "width": 2 * side, "kernel_h": side, "kernel_w": side}
    params = {**params, "out_h": side + 3, "out_w": side + 3}

    with pytest.raises(MemoryError):
        _core.workspace_bytes("conv2d/native/cpu/im2col", params, 4096)


def test_a_pooling_window_of_padding_only_is_refused() -> None:
    params = Pool2d(1, 1, 4, 4, kernel_size=(2, 2), stride=(2, 2), padding="valid").params()

    with pytest.raises(KernelError, match="padding only"):
        _core.supports("pool2d/native/cpu/reference", {**params, "pad_top": 2, "out_h": 3})


def test_a_workspace_that_is_too_small_misaligned_or_shared_is_refused() -> None:
    key, spec = kernel_with_workspace()
    params, inputs = spec.params(), list(spec.make_inputs().values())
    output = np.empty(spec.output_shape(), spec.numpy_dtype)
    needed = _core.workspace_bytes(key, params, 1)
    room = aligned_empty((needed + 128,), np.uint8)

    for workspace, words in (
        (room[: needed - 1], f"workspace: needs {needed} bytes, got {needed - 1}"),
        (room[1 : needed + 1], "workspace: must start at a multiple of 64"),
        (room[::2], "workspace: is not contiguous"),
        (bytes(needed), "workspace: cannot be written"),
    ):
        with pytest.raises(KernelError, match=words):
            _core.run(key, params, inputs, output, workspace, 1)


def kernel_with_workspace() -> tuple[str, Any]:
    """Some kernel and shape that need scratch memory."""
    for op in ("conv2d", "matmul"):
        for key in _core.kernels(op):
            for spec in odd_specs(op):
                params = spec.params()
                if not _core.supports(key, params) and _core.workspace_bytes(key, params, 1) > 0:
                    return key, spec
    pytest.skip("no kernel of this build needs a workspace")


def test_unsupported_params_raise_unsupported_with_the_reason() -> None:
    with pytest.raises(UnsupportedError, match="groups above 1 are not offered"):
        _core.probe_unsupported("groups above 1 are not offered")


def test_two_kernels_of_one_name_are_refused() -> None:
    with pytest.raises(KernelError, match="two native kernels are named softmax/native/cpu/twin"):
        _core.probe_duplicate_keys()


def test_a_bound_call_keeps_its_arrays_and_sees_new_values() -> None:
    spec = Softmax(2, 3)
    x = np.zeros((2, 3), np.float32)
    output = np.empty((2, 3), np.float32)
    bound = _core.bind("softmax/native/cpu/reference", spec.params(), [x], output, None, 1)
    view = x[:]
    del x

    view[:, 0] = 100.0
    bound()

    np.testing.assert_allclose(output, [[1, 0, 0], [1, 0, 0]], atol=1e-6)


C_SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_int
)


def address_of(function: Any) -> int:
    """Address of a ctypes callback."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def test_a_candidate_gets_params_inputs_output_and_threads() -> None:
    spec = MatMul(2, 3, 4)
    inputs = list(spec.make_inputs().values())
    output = np.zeros((2, 3), np.float32)
    seen: dict[str, Any] = {}

    def candidate(params: Any, pointers: Any, result: int, threads: int) -> int:
        seen["params"] = params[:4]
        seen["inputs"] = pointers[:2]
        seen["threads"] = threads
        ctypes.cast(result, ctypes.POINTER(ctypes.c_float))[5] = 7.0
        return 0

    compiled = C_SIGNATURE(candidate)
    _core.run_candidate(address_of(compiled), "matmul", spec.params(), inputs, output, 2)

    assert seen == {"params": [2, 3, 4, 1], "inputs": [array.ctypes.data for array in inputs], "threads": 2}
    assert output[1, 2] == 7.0


def test_a_candidates_error_code_is_an_error() -> None:
    spec = Softmax(1, 2)
    failing = C_SIGNATURE(lambda params, inputs, output, threads: 42)

    with pytest.raises(KernelError, match="the candidate returned error code 42"):
        _core.run_candidate(
            address_of(failing), "softmax", spec.params(), [np.zeros((1, 2), "f")], np.zeros((1, 2), "f"), 1
        )


THROWING = """
#include <new>
#include <stdexcept>
extern "C" int no_memory(const void*, const void* const*, void*, int) { throw std::bad_alloc(); }
extern "C" int told(const void*, const void* const*, void*, int) { throw std::runtime_error("no luck"); }
extern "C" int strange(const void*, const void* const*, void*, int) { throw 7; }
"""


def test_whatever_a_candidate_throws_becomes_an_error(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    source, library = tmp_path / "throwing.cpp", tmp_path / "throwing.so"
    source.write_text(THROWING)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    loaded, params = ctypes.CDLL(str(library)), Softmax(1, 2).params()

    for name, error, words in (
        ("no_memory", MemoryError, "bad_alloc"),
        ("told", KernelError, "the candidate threw: no luck"),
        ("strange", KernelError, "not a std::exception"),
    ):
        with pytest.raises(error, match=words):
            _core.run_candidate(
                address_of(loaded[name]), "softmax", params, [np.zeros((1, 2), "f")], np.zeros((1, 2), "f"), 1
            )


def test_a_bound_call_that_runs_already_refuses_a_second_thread() -> None:
    started, may_end = Event(), Event()

    def waiting(params: Any, inputs: Any, output: int, threads: int) -> int:
        started.set()
        return 0 if may_end.wait(timeout=60) else 1

    compiled = C_SIGNATURE(waiting)
    arguments = ([np.zeros((1, 2), "f")], np.zeros((1, 2), "f"), 1)
    call = _core.bind_candidate(address_of(compiled), "softmax", Softmax(1, 2).params(), *arguments)
    with ThreadPoolExecutor(1) as executor:
        first = executor.submit(call)
        assert started.wait(timeout=60)

        with pytest.raises(KernelError, match="this bound call is already running"):
            call()
        may_end.set()

    assert first.result() is None
    call()


def test_a_candidate_is_checked_like_a_kernel() -> None:
    spec = Softmax(1, 2)
    never = C_SIGNATURE(lambda params, inputs, output, threads: 0)
    params, right = spec.params(), np.zeros((1, 2), "f")

    with pytest.raises(KernelError, match="address is 0"):
        _core.run_candidate(0, "softmax", params, [right], right.copy(), 1)
    with pytest.raises(KernelError, match="unknown operator fold"):
        _core.run_candidate(address_of(never), "fold", params, [right], right.copy(), 1)
    with pytest.raises(KernelError, match="output: overlaps input x"):
        _core.run_candidate(address_of(never), "softmax", params, [right], right, 1)


def test_a_call_bound_without_an_output_fills_each_one_that_it_is_given() -> None:
    inputs, first = arrays()
    second = np.empty_like(first)
    call = _core.bind(KEY, PARAMS, inputs, None, None, 1)

    call(first)
    call(output=second)

    expected = SPEC.reference(dict(zip(("x", "b"), inputs)))
    for output in (first, second):
        np.testing.assert_allclose(output, expected, rtol=1e-6)


def test_an_output_given_to_a_call_is_checked_as_a_bound_one_is() -> None:
    inputs, output = arrays()
    workspace = aligned_empty((output.nbytes,), np.uint8)
    call = _core.bind(KEY, PARAMS, inputs, None, workspace, 1)
    wrong = {
        "expected float32, got float64": output.astype(np.float64),
        r"expected shape \(2, 3, 4, 5\)": output[:1],
        "overlaps input x": inputs[0],
        "overlaps workspace": workspace.view(np.float32).reshape(output.shape),
        "is a NoneType": None,
    }

    for words, given in wrong.items():
        with pytest.raises(KernelError, match=words):
            call(given)
    with pytest.raises(KernelError, match="must be bound, or given to the call"):
        call()


def test_an_output_given_to_a_call_leaves_the_bound_one_alone() -> None:
    inputs, bound = arrays()
    bound.fill(np.nan)
    other = np.empty_like(bound)
    call = _core.bind(KEY, PARAMS, inputs, bound, None, 1)

    call(other)

    assert np.isnan(bound).all()
    assert not np.isnan(other).any()
