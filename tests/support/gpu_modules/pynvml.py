"""For worker processes: the fake NVML, with a GPU as FAKE_GPU_MHZ and FAKE_GPU_REASONS describe it."""

from __future__ import annotations

import os
import sys

from tests.support.fake_nvml import FakeNvml

if os.environ.get("FAKE_GPU_HAS_NVML") == "no":
    raise ImportError("No module named 'pynvml'")


def _numbers(name: str, default: str) -> list[int]:
    return [int(word, 0) for word in os.environ.get(name, default).split(",")]


sys.modules[__name__] = FakeNvml(_numbers("FAKE_GPU_MHZ", "1410"), _numbers("FAKE_GPU_REASONS", "0"))
