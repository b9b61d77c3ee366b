"""Arrays of every framework cross without a copy; device and immutable memory is refused."""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from profkit import _core
from profkit.errors import KernelError
from profkit.ops.softmax import Softmax

KEY = "softmax/native/cpu/reference"
SPEC = Softmax(3, 5)
PARAMS = SPEC.params()
X: NDArray[Any] = SPEC.make_inputs()["x"]
EXPECTED = SPEC.reference({"x": X})


def run(x: object, output: object) -> None:
    """The softmax of x into output."""
    _core.run(KEY, PARAMS, [x], output, None, 1)


class DlpackOnly:
    """A NumPy array that hides its buffer; `producer` says how its capsule is made."""

    def __init__(self, array: NDArray[Any], device: tuple[int, int] = (1, 0), **producer: Any) -> None:
        self.array, self.device, self.producer = array, device, producer

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None) -> Any:
        return self.array.__dlpack__(max_version=max_version, **self.producer)


class OldDlpackOnly(DlpackOnly):
    """A producer of before DLPack 1.0: it does not know max_version and gives the unversioned capsule."""

    def __dlpack__(self, *, stream: Any = None) -> Any:  # type: ignore[override]
        return self.array.__dlpack__()


@pytest.mark.parametrize("wrapper", [DlpackOnly, OldDlpackOnly])
def test_both_capsule_forms_are_read_and_written_in_place(wrapper: type[DlpackOnly]) -> None:
    output = np.zeros((3, 5), np.float32)

    run(wrapper(X), wrapper(output))

    np.testing.assert_allclose(output, EXPECTED, rtol=1e-6)


@pytest.mark.parametrize("wrapper", [DlpackOnly, OldDlpackOnly])
def test_a_capsule_is_released_after_the_call(wrapper: type[DlpackOnly]) -> None:
    x, output = X.copy(), np.zeros((3, 5), np.float32)
    before = sys.getrefcount(x)

    for _ in range(10):
        run(wrapper(x), output)

    assert sys.getrefcount(x) == before


def test_a_refused_capsule_is_released_too() -> None:
    wrong = np.zeros((5, 3), np.float32)
    before = sys.getrefcount(wrong)

    for _ in range(10):
        with pytest.raises(KernelError, match="expected shape"):
            run(DlpackOnly(wrong), np.zeros((3, 5), np.float32))

    assert sys.getrefcount(wrong) == before


class Traceable(np.ndarray[Any, Any]):
    """An array that can be weakly referenced."""


@pytest.mark.parametrize("wrap", [lambda array: array, DlpackOnly], ids=["buffer", "dlpack"])
def test_a_bound_call_keeps_its_memory_alive_and_no_longer(wrap: Any) -> None:
    x = X.copy().view(Traceable)
    alive = weakref.ref(x)
    output = np.zeros((3, 5), np.float32)
    bound = _core.bind(KEY, PARAMS, [wrap(x)], output, None, 1)

    del x
    gc.collect()
    bound()

    np.testing.assert_allclose(output, EXPECTED, rtol=1e-6)
    assert alive() is not None
    del bound
    gc.collect()
    assert alive() is None


class Failing:
    """A tensor that is not to be shared."""

    def __dlpack__(self, **ignored: Any) -> Any:
        raise BufferError("this tensor requires a gradient")


class Strange:
    """Gives something else than a capsule."""

    def __dlpack__(self, **ignored: Any) -> Any:
        return object()


class CudaOnly:
    """An array of only the CUDA interface."""

    __cuda_array_interface__: ClassVar = {"shape": (3, 5), "typestr": "<f4", "data": (1, False), "version": 3}


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (
            DlpackOnly(np.zeros((5, 3), np.float32).T),
            r"input x: is not contiguous: .* strides of \(4, 12\) bytes",
        ),
        (DlpackOnly(X, device=(2, 0)), "input x: lies in CUDA device memory"),
        (CudaOnly(), "input x: lies in CUDA device memory"),
        (Failing(), "DLPack of this Failing failed: this tensor requires a gradient"),
        (Strange(), "input x: __dlpack__ gave no DLPack capsule"),
    ],
    ids=["strided", "on CUDA", "CUDA interface", "failing", "no capsule"],
)
def test_an_input_that_cannot_be_read_is_refused(x: object, words: str) -> None:
    with pytest.raises(KernelError, match=words):
        run(x, np.zeros((3, 5), np.float32))


@pytest.mark.parametrize(
    ("producer", "words"), [({}, "is read-only"), ({"copy": True}, "exports only a copy")], ids=["read-only", "copy"]
)
def test_a_capsule_that_the_result_cannot_go_into_is_refused_as_output(producer: dict[str, Any], words: str) -> None:
    output = np.zeros((3, 5), np.float32)
    output.flags.writeable = bool(producer)

    with pytest.raises(KernelError, match=f"output: cannot be written: this DlpackOnly {words}"):
        run(X, DlpackOnly(output, **producer))


@pytest.mark.parametrize("versioned", [False, True], ids=["plain", "versioned"])
def test_a_capsule_of_device_memory_is_refused_when_its_object_does_not_name_the_device(versioned: bool) -> None:
    x = X.copy()
    before = sys.getrefcount(x)

    class CapsuleOnly:
        def __dlpack__(self, *, max_version: tuple[int, int] | None = None) -> Any:
            return moved_to_cuda(x.__dlpack__(max_version=max_version if versioned else None), versioned)

    with pytest.raises(KernelError, match="input x: lies in CUDA device memory"):
        run(CapsuleOnly(), np.zeros((3, 5), np.float32))

    assert sys.getrefcount(x) == before


def moved_to_cuda(capsule: Any, versioned: bool) -> Any:
    """The capsule with device CUDA written into its tensor, which starts with its address and then the device."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = pointer(capsule, b"dltensor_versioned" if versioned else b"dltensor") + (32 if versioned else 0)
    device = ctypes.c_int32.from_address(tensor + ctypes.sizeof(ctypes.c_void_p))
    assert device.value == 1
    device.value = 2
    return capsule


def test_torch_tensors_are_read_and_written_in_place() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    output = torch.zeros(3, 5)

    run(torch.from_numpy(X), output)

    np.testing.assert_allclose(output.numpy(), EXPECTED, rtol=1e-6)


def test_a_torch_tensor_that_requires_a_gradient_is_refused() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")

    with pytest.raises(KernelError, match=r"input x: DLPack of this Tensor failed: .*gradient"):
        run(torch.from_numpy(X.copy()).requires_grad_(), np.zeros((3, 5), np.float32))


@pytest.mark.parametrize(
    ("module", "convert", "name"), [("jax.numpy", "asarray", "ArrayImpl"), ("tensorflow", "constant", "EagerTensor")]
)
def test_immutable_arrays_are_read_and_refused_as_output(module: str, convert: str, name: str) -> None:
    framework = pytest.importorskip(module, reason=f"{module.split('.')[0]} is not installed")
    output = np.zeros((3, 5), np.float32)

    run(getattr(framework, convert)(X), output)

    np.testing.assert_allclose(output, EXPECTED, rtol=1e-6)
    with pytest.raises(KernelError, match=f"output: cannot be written: this {name} is read-only"):
        run(X, getattr(framework, convert)(output))
