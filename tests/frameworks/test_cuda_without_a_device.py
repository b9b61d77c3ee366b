"""The CUDA adapters where no GPU is: their array code on NumPy, their kernels in Numba's simulator, their reasons."""

from __future__ import annotations

import importlib
import importlib.util
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from profkit.errors import UnavailableError
from profkit.frameworks.adapter import Conditions, Implementation
from profkit.frameworks.framework import Framework, no_cuda_driver
from profkit.frameworks.jax import cuda as jax_cuda
from profkit.frameworks.native import cuda as native_cuda
from profkit.ops import Lstm
from tests.support.processes import answer_of_python

needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba is not installed")
SIMULATED = """
import json
from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Conditions
from profkit.ops import Conv2d, MatMul
from profkit.ops.spec import max_error, tolerance

shape = {"batch": 1, "in_channels": 4, "height": 5, "width": 4, "out_channels": 2, "kernel_size": 3}
specs = [
    MatMul(5, 18, 17, bias=True, activation="relu"),
    MatMul(3, 2, 4, batch=2, transpose_a=True, transpose_b=True, dtype="float64"),
    Conv2d(**shape, stride=2, padding="1x2x0x1", groups=2, bias=True, activation="relu", layout="NHWC"),
    Conv2d(**shape, padding=2, dilation="2x1", dtype="float64"),
]
adapter = load_adapter("numba_cuda")
rows = []
for spec, implementation in [(spec, row) for spec in specs for row in adapter.implementations(spec.op)]:
    adapter.start(implementation, Conditions())
    for output in ("fresh", "reused"):
        inputs = spec.make_inputs()
        prepared = adapter.prepare(implementation, spec, inputs, Conditions(output=output))
        result = prepared.to_numpy(prepared.call())
        error = max_error(result, spec.reference(inputs))
        is_right = error <= tolerance(result.dtype, spec.reduction_length())
        rows.append([implementation.key, str(spec), prepared.output == output, is_right])
print(json.dumps(rows))
"""


@needs_numba
def test_the_numba_cuda_kernels_match_the_reference_in_the_simulator() -> None:
    rows = answer_of_python(["-c", SIMULATED], {"NUMBA_ENABLE_CUDASIM": "1"})

    keys = {"conv2d/numba_cuda/cuda", "matmul/numba_cuda/cuda/naive", "matmul/numba_cuda/cuda/tiled_shared"}
    assert {row[0] for row in rows} == keys
    assert len(rows) == 12
    assert not [row for row in rows if not all(row[2:])]


@pytest.mark.parametrize("name", ["cupy", "numba_cuda"])
def test_a_missing_device_is_reported_in_the_drivers_own_words(name: str) -> None:
    """CUDA_VISIBLE_DEVICES=-1 hides a device where there is one."""
    question = (
        "import json\n"
        "from profkit.frameworks import load_adapter\n"
        "from profkit.frameworks.adapter import Conditions\n"
        "from profkit.errors import UnavailableError\n"
        f"adapter = load_adapter({name!r})\n"
        "try:\n"
        "    adapter.start(adapter.implementations('conv2d')[0], Conditions())\n"
        "except UnavailableError as error:\n"
        "    print(json.dumps(str(error)))\n"
    )

    reason = answer_of_python(["-c", question], {"CUDA_VISIBLE_DEVICES": "-1"})

    assert any(word in reason for word in ("driver", "device", "not installed"))


@pytest.mark.parametrize(
    ("name", "file", "cpu", "cuda"),
    [
        ("torch", "version.py", "cuda: Optional[str] = None\n", "cuda: Optional[str] = '13.0'\n"),
        (
            "tensorflow",
            "python/platform/build_info.py",
            "build_info = OrderedDict([('is_cuda_build', False)])\n",
            "build_info = OrderedDict([('is_cuda_build', True)])\n",
        ),
    ],
)
def test_a_build_for_the_cpu_is_seen_without_importing_it(
    name: str, file: str, cpu: str, cuda: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is a driver."""
    adapter_module = importlib.import_module(f"profkit.frameworks.{name}.cuda")
    monkeypatch.setattr(adapter_module, "no_cuda_driver", lambda: "")
    spec = ModuleSpec(name, None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)

    (tmp_path / file).write_text(cpu)
    here = adapter_module.ADAPTER.is_available()
    assert not here.available
    assert here.reason.startswith("this build is without CUDA")

    (tmp_path / file).write_text(cuda)
    assert adapter_module.ADAPTER.is_available().available


@pytest.mark.parametrize("driver", ["", "no CUDA driver here"])
def test_a_compiled_module_that_does_not_load_costs_its_rows_only(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise ImportError(f"{name}: undefined symbol")

    monkeypatch.setattr(native_cuda, "no_cuda_driver", lambda: driver)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: ModuleSpec(name, None))
    monkeypatch.setattr("profkit.frameworks.device_arrays.importlib.import_module", refuse)

    here = native_cuda.ADAPTER.is_available()
    [row] = native_cuda.ADAPTER.implementations("conv2d")

    assert not here.available and row.key == "conv2d/native/cuda"
    assert driver in here.reason and ("profkit._cuda: undefined symbol" in here.reason) == (not driver)


def test_an_operator_without_cuda_kernels_keeps_a_row_that_says_so() -> None:
    if importlib.util.find_spec("profkit._cuda") is None:
        pytest.skip("profkit is built without CUDA")

    [row] = native_cuda.ADAPTER.implementations("lstm")

    assert row.key == "lstm/native/cuda"
    assert native_cuda.ADAPTER.supports(row, Lstm(1, 1, 1, 1)) == "profkit has no CUDA kernel of lstm"
    assert native_cuda.ADAPTER.implementations("fold") == []


def test_jax_without_its_cuda_plugin_is_seen_without_importing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax_cuda, "no_cuda_driver", lambda: "")
    installed = ["jax"]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name in installed or None)

    assert "its CUDA plugin is not installed" in jax_cuda.ADAPTER.is_available().reason
    installed.append("jax_cuda13_plugin")
    assert jax_cuda.ADAPTER.is_available().available


def test_a_missing_driver_is_seen_without_importing_the_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    look = partial(no_cuda_driver, "libno.so")
    adapter = Framework("fake", lambda *_: {}, ("json",), device="cuda", unavailable_reason=look)

    here = adapter.is_available()

    assert (here.available, here.reason) == (False, "no CUDA driver here: libno.so cannot be loaded")
    with pytest.raises(UnavailableError, match=r"cannot be loaded$"):
        adapter.start(Implementation("conv2d/fake/cuda", "fake"), Conditions())
