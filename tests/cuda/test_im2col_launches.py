"""What tells im2col from im2col_batched: products of one image each, or one launch for the images of a batch."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from profkit.ops.conv2d import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from tests.cuda.cuda_double import run_on_double

BATCH, GROUPS = 4, 2
PROGRAM = """
from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Conditions, Implementation
from profkit.ops import Conv2d
spec = Conv2d(batch={batch}, in_channels=4, out_channels=6, height=7, width=6, kernel_size=3, padding=1,
              groups={groups}, layout="{layout}", direction="{direction}")
row = Implementation("conv2d/native/cuda/{technique}", "native_cuda")
load_adapter("native_cuda").prepare(row, spec, spec.make_inputs(), Conditions()).call()
"""


@pytest.mark.full
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("direction", [FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT])
@pytest.mark.parametrize(("technique", "passes"), [("im2col", BATCH), ("im2col_batched", 1)])
def test_how_often_columns_and_products_are_launched(
    technique: str, passes: int, direction: str, layout: str, tmp_path: Path
) -> None:
    program = PROGRAM.format(batch=BATCH, groups=GROUPS, layout=layout, direction=direction, technique=technique)

    done = run_on_double(["-c", program], log=tmp_path / "launches")

    assert done.returncode == 0, done.stderr[-3000:]
    names = [json.loads(line)["kernel"] for line in (tmp_path / "launches").read_text().splitlines()]
    kinds = ("image_to_columns", "columns_to_image", "add_parts", "matmul")
    counts = Counter(next(kind for kind in kinds if kind in name) for name in names)
    moved = "columns_to_image" if direction == INPUT_GRADIENT else "image_to_columns"
    added = {"add_parts": passes} if direction == WEIGHT_GRADIENT else {}
    assert counts == {moved: passes, "matmul": passes * GROUPS, **added}
