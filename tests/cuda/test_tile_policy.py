"""Which tile a product gets without a tuner: large ones where they fill the device, none that are mostly empty."""

from __future__ import annotations

import json

from tests.cuda.cuda_double import run_on_double

PROGRAM = """
import json, sys
from profkit import _cuda
from profkit.ops import MatMul
device = {"capability": 90, "multiprocessors": 132, "shared_bytes_per_block": 232448}
shapes = json.loads(sys.argv[1])
chosen = []
for m, n, batch in shapes:
    params = MatMul(m, n, 64, batch=batch).params()
    key = "matmul/native/cuda/" + ("batched" if batch > 1 else "double_buffered")
    chosen.append(_cuda.configurations(key, params, device)[_cuda.policy(key, params, device)])
print(json.dumps(chosen))
"""


def test_tiles_fit_the_device_and_the_matrices() -> None:
    expected = {
        (4096, 4096, 1): "128x128",
        (256, 256, 1): "64x64",  # 4 blocks would leave 128 multiprocessors idle
        (128, 128, 200): "128x128",
        (64, 64, 200): "64x64",
        (17, 4096, 200): "64x64",
        (100_000, 64, 1): "64x64",
    }

    done = run_on_double(["-c", PROGRAM, json.dumps(list(expected))])

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == list(expected.values())
