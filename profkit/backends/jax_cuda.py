"""JAX on one CUDA device: the builders of the CPU rows, with JAX's own choice of platform set to CUDA.

JAX gives no handle of its stream, so that no event can be put around its work: its rows are timed by the wall clock,
launch and waiting included, and say so. Not run on a GPU: the machines that this was written on have none.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from profkit.backends import jax as cpu_adapter
from profkit.backends.adapter import Conditions, Implementation, Prepared
from profkit.backends.framework import ALL_DTYPES, Framework, Job, Operator, no_cuda_driver
from profkit.backends.tensorflow_cuda import WALL_CLOCK
from profkit.errors import UnavailableError


def _begin(implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    jax = importlib.import_module("jax")
    try:
        device = jax.devices("cuda")[0]
    except RuntimeError as error:
        raise UnavailableError(f"jax: {' '.join(str(error).split())}; pip install jax[cuda13]") from error
    # float32 must mean the same in every row: XLA would multiply in TF32 otherwise.
    jax.config.update("jax_default_matmul_precision", "highest")
    return {**cpu_adapter.begin_jax(), "device": str(device.device_kind), "tf32": "off"}


def _by_wall_clock(build: Callable[[Job, Any], Prepared]) -> Callable[[Job, Any], Prepared]:
    def build_with_note(job: Job, spec: Any) -> Prepared:
        prepared = build(job, spec)
        prepared.note = "; ".join(part for part in (prepared.note, WALL_CLOCK) if part)
        return prepared

    return build_with_note


ADAPTER = Framework(
    name="jax",
    modules=("jax",),
    extra="jax",
    begin=_begin,
    operators={
        op: Operator(_by_wall_clock(operator.build), operator.refuse, operator.variants)
        for op, operator in cpu_adapter.ADAPTER.operators.items()
    },
    device="cuda",
    module="jax_cuda",
    environment={
        **cpu_adapter.ENVIRONMENT,
        "JAX_PLATFORMS": "cuda",
        # It would take most of the device's memory at its first call, and the other rows would have none.
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    },
    dtypes=ALL_DTYPES,
    hindrance=no_cuda_driver,
)
