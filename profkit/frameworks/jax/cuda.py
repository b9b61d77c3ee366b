"""JAX on one CUDA device: the builders of the CPU rows, with JAX's own choice of platform set to CUDA.

JAX gives no handle of its stream, so that no event can be put around its work: its rows are timed by the wall clock,
launch and waiting included, and say so. Not run on a GPU: the machines that this was written on have none.
"""

from __future__ import annotations

import importlib.util

from profkit.errors import UnavailableError
from profkit.frameworks.adapter import Conditions, Implementation
from profkit.frameworks.framework import ALL_DTYPES, Framework, no_cuda_driver
from profkit.frameworks.jax import operators as cpu_adapter
from profkit.frameworks.lazy import jax


def _begin(implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    try:
        device = jax.devices("cuda")[0]
    except RuntimeError as error:
        raise UnavailableError(f"jax: {' '.join(str(error).split())}; pip install jax[cuda13]") from error
    # float32 must mean the same in every row: XLA would multiply in TF32 otherwise.
    jax.config.update("jax_default_matmul_precision", "highest")
    return {**cpu_adapter.begin_jax(), "device": str(device.device_kind), "tf32": "off"}


def _unavailable_reason() -> str:
    plugins = ("jax_cuda12_plugin", "jax_cuda13_plugin")
    has_one = any(importlib.util.find_spec(name) for name in plugins)
    return no_cuda_driver() or ("" if has_one else "its CUDA plugin is not installed; pip install jax[cuda13]")


ADAPTER = Framework(
    "jax",
    _begin,
    operators=cpu_adapter.ADAPTER.operators,
    device="cuda",
    module="jax_cuda",
    environment={
        **cpu_adapter.ENVIRONMENT,
        "JAX_PLATFORMS": "cuda",
        # It would take most of the device's memory at its first call, and the other rows would have none.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    },
    dtypes=ALL_DTYPES,
    unavailable_reason=_unavailable_reason,
)
