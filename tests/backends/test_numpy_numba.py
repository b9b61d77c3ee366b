"""The NumPy and Numba adapters are right on every odd shape, for one and for two threads."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from profkit.backends import load_adapter
from profkit.backends.adapter import Conditions
from profkit.ops import SPECS, Conv2d, MatMul, Spec, odd_specs
from profkit.ops.dtypes import is_narrow
from profkit.ops.spec import max_error, tolerance

ALL = [(backend, spec) for backend in ("numpy", "numba") for op in SPECS for spec in odd_specs(op)]


def declined(backend: str, spec: Spec) -> str:
    """Why the framework's row does not take a spec, or nothing."""
    adapter = load_adapter(backend)
    [implementation] = adapter.implementations(spec.op)
    return adapter.supports(implementation, spec)


CASES = [case for case in ALL if not declined(*case)]


def test_only_16_bit_types_and_gradients_of_pooling_are_declined() -> None:
    for _, spec in [case for case in ALL if case not in CASES]:
        assert is_narrow(spec.dtype_word) or (spec.op, spec.words()["direction"]) == ("pool2d", "input-gradient")


def describe(value: object) -> str:
    """A test's name: the framework, or the operator and the fields in which it differs from the default."""
    if not isinstance(value, Spec):
        return str(value)
    usual = type(value)().words()
    return ",".join([value.op, *(f"{name}={word}" for name, word in value.words().items() if word != usual[name])])


def require(backend: str) -> None:
    pytest.importorskip(backend, reason=f"{backend} is not installed")


@pytest.mark.parametrize(("backend", "spec"), CASES, ids=describe)
def test_the_result_is_within_tolerance_and_the_inputs_are_untouched(backend: str, spec: Spec) -> None:
    require(backend)
    adapter, inputs = load_adapter(backend), spec.make_inputs()
    [implementation] = adapter.implementations(spec.op)
    conditions = Conditions(threads=2)
    adapter.start(implementation, conditions)

    prepared = adapter.prepare(implementation, spec, inputs, conditions)
    results = [prepared.to_numpy(prepared.call()) for _ in range(2)]

    for result in results:
        assert (result.shape, result.dtype) == (spec.output_shape(), spec.numpy_dtype)
        error = max_error(result, spec.reference(inputs))
        assert error <= tolerance(spec.numpy_dtype, spec.reduction_length())
    for name, array in spec.make_inputs().items():
        np.testing.assert_array_equal(inputs[name], array)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_a_reused_output_is_the_same_memory_and_a_fresh_one_is_not(backend: str) -> None:
    require(backend)
    adapter, spec = load_adapter(backend), MatMul(3, 5, 7)
    [implementation] = adapter.implementations("matmul")
    adapter.start(implementation, Conditions())

    for output in ("fresh", "reused"):
        prepared = adapter.prepare(implementation, spec, spec.make_inputs(), Conditions(1, output))
        first, second = prepared.call(), prepared.call()

        assert prepared.output == output
        assert np.shares_memory(first, second) == (output == "reused")


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("output", ["fresh", "reused"])
def test_nothing_of_the_spec_is_worked_out_in_the_timed_call(
    backend: str, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require(backend)
    adapter = load_adapter(backend)
    specs = [odd_specs(op)[0] for op in SPECS]
    calls = []
    for spec in specs:
        [implementation] = adapter.implementations(spec.op)
        adapter.start(implementation, Conditions())
        calls.append(adapter.prepare(implementation, spec, spec.make_inputs(), Conditions(1, output)).call)
    for spec in specs:
        monkeypatch.setattr(type(spec), "output_shape", refuse)
        monkeypatch.setattr(type(spec), "numpy_dtype", property(refuse))

    results = [call() for call in calls for _ in range(2)]

    assert not any(np.isnan(result).any() for result in results)


def refuse(spec: Spec) -> None:
    raise AssertionError("worked out in the timed call")


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_buffers_held_between_calls_are_counted(backend: str) -> None:
    require(backend)
    adapter, spec = load_adapter(backend), Conv2d(2, 3, 8, 8, 4, (3, 3), padding=(1, 1, 1, 1))
    [implementation] = adapter.implementations("conv2d")

    prepared = adapter.prepare(implementation, spec, spec.make_inputs(), Conditions())

    one_image_of_windows = 3 * 3 * 3 * 64 * 4
    assert prepared.held_bytes >= one_image_of_windows


def test_numba_gives_the_same_bits_for_the_same_number_of_threads() -> None:
    require("numba")
    adapter = load_adapter("numba")
    spec = next(spec for spec in odd_specs("conv2d") if spec.words()["direction"] == "weight-gradient")
    [implementation] = adapter.implementations("conv2d")
    adapter.start(implementation, Conditions(2))

    results = [adapter.prepare(implementation, spec, spec.make_inputs(), Conditions(2)).call() for _ in range(3)]

    assert results[0].tobytes() == results[1].tobytes() == results[2].tobytes()


@pytest.mark.parametrize("threads", [1, 3, 5])
def test_numba_splits_one_image_among_any_number_of_threads(threads: int) -> None:
    require("numba")
    adapter, spec = load_adapter("numba"), Conv2d(1, 3, 6, 6, 4, (3, 3), padding=(1, 1, 1, 1))
    [implementation] = adapter.implementations("conv2d")
    adapter.start(implementation, Conditions(threads))

    result = adapter.prepare(implementation, spec, spec.make_inputs(), Conditions(threads)).call()

    error = max_error(result, spec.reference(spec.make_inputs()))
    assert error <= tolerance(spec.numpy_dtype, spec.reduction_length())


def test_asking_what_exists_does_not_import_numba() -> None:
    code = (
        "import sys; from profkit.backends import load_adapter; a = load_adapter('numba'); a.is_available(); "
        "a.implementations('conv2d'); print('numba' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.strip() == "False"


def test_numpy_names_its_blas() -> None:
    adapter = load_adapter("numpy")

    facts = adapter.start(adapter.implementations("matmul")[0], Conditions())

    assert facts["numpy"] == np.__version__
    assert facts["blas"]
