"""Emulated matmul kernels, every rung of the ladder, against the float64 reference."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from emulation import ORDERS
from family_checks import SANITIZERS, check_family

from profkit.ops.matmul import MatMul

TRANSPOSES = tuple(product((False, True), repeat=2))
# Tiny, odd, around tiles of 16, 32 and 64, whole 128-bit words and not.
SIZES = (
    (1, 1, 1),
    (1, 7, 3),
    (5, 1, 9),
    (2, 3, 1),
    (3, 17, 8),
    (16, 16, 16),
    (4, 4, 4),
    (8, 12, 20),
    (17, 15, 7),
    (31, 33, 9),
    (32, 32, 32),
    (33, 31, 17),
    (1, 64, 24),
    (64, 1, 23),
    (63, 65, 10),
    (64, 64, 8),
    (65, 63, 16),
    (40, 68, 12),
    (12, 20, 40),
    (9, 11, 65),
    (6, 5, 100),
)
FLOAT32 = [
    replace(MatMul(m, n, k, transpose_a=a, transpose_b=b), bias=i % 2 == 1, activation="relu" if i % 3 == 2 else "none")
    for i, ((m, n, k), (a, b)) in enumerate(product(SIZES, TRANSPOSES))
]
LARGE = [MatMul(130, 129, 19, transpose_a=a, transpose_b=b, bias=True) for a, b in TRANSPOSES]
LARGE += [MatMul(132, 140, 20, transpose_a=a, transpose_b=b, activation="relu") for a, b in TRANSPOSES]
BATCHES = [
    MatMul(m, n, k, batch=batch, transpose_a=a, transpose_b=b, bias=bias)
    for (m, n, k, batch), (a, b), bias in product(((3, 5, 7, 2), (12, 8, 16, 3), (1, 9, 2, 5)), TRANSPOSES, (False, True))
]
SPECS = [*FLOAT32, *LARGE, *BATCHES]


@pytest.mark.parametrize("order", ORDERS)
def test_every_kernel_agrees_with_the_reference_in_every_thread_order(order: str, tmp_path: Path) -> None:
    runs = check_family(SPECS, tmp_path, order)
    print(runs)
