"""TensorFlow on one CUDA device: the builders of the CPU rows under `tf.device`, each call waited for.

TensorFlow gives no handle of its stream, so that no event can be put around its work: its rows are timed by the wall
clock, launch and waiting included, and say so. Not run on a GPU: the machines that this was written on have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profkit.errors import UnavailableError
from profkit.frameworks.adapter import Conditions, Implementation, Prepared
from profkit.frameworks.framework import ALL_DTYPES, Framework, FrameworkOperator, Job, no_cuda_driver, package_text
from profkit.frameworks.lazy import tf
from profkit.frameworks.tensorflow import operators as cpu_adapter

PLACE = "/GPU:0"


def _begin(implementation: Implementation, conditions: Conditions) -> dict[str, str]:
    build = tf.sysconfig.get_build_info()
    if not build.get("is_cuda_build"):
        raise UnavailableError(
            f"tensorflow: this build ({tf.__version__}) is without CUDA; pip install tensorflow[and-cuda]"
        )
    devices = tf.config.list_physical_devices("GPU")
    if not devices:
        raise UnavailableError("tensorflow: it finds no CUDA device; its log above TF_CPP_MIN_LOG_LEVEL=0 says why")
    for device in devices:
        tf.config.experimental.set_memory_growth(device, True)
    # float32 must mean the same in every row; on this architecture and newer it would be TF32 otherwise.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    tf.get_logger().setLevel("ERROR")
    return {
        "version": str(tf.__version__),
        "cuda": str(build.get("cuda_version", "unknown")),
        "cudnn": str(build.get("cudnn_version", "unknown")),
        "device": str(tf.config.experimental.get_device_details(devices[0]).get("device_name", "unknown")),
        "tf32": "off",
    }


def _unavailable_reason() -> str:
    has_none = "'is_cuda_build', False" in package_text("tensorflow", "python/platform/build_info.py")
    return no_cuda_driver() or ("this build is without CUDA; pip install tensorflow[and-cuda]" if has_none else "")


def on_device(build: Callable[[Job, Any], Prepared]) -> Callable[[Job, Any], Prepared]:
    """The CPU builder's call, placed on the device and waited for."""

    def build_on_device(job: Job, spec: Any) -> Prepared:
        with tf.device(PLACE):
            prepared = build(job, spec)
        run = prepared.call

        def call() -> Any:
            with tf.device(PLACE):
                result = run()
            tf.test.experimental.sync_devices()
            return result

        prepared.call = call
        return prepared

    return build_on_device


ADAPTER = Framework(
    "tensorflow",
    _begin,
    operators={
        op: FrameworkOperator(on_device(operator.build), operator.refuse, operator.variants)
        for op, operator in cpu_adapter.ADAPTER.operators.items()
    },
    device="cuda",
    module="tensorflow_cuda",
    on_request=cpu_adapter.ADAPTER.on_request,
    environment={"TF_CPP_MIN_LOG_LEVEL": "3"},
    dtypes=ALL_DTYPES,
    unavailable_reason=_unavailable_reason,
)
