"""Emulated LRN kernels against the float64 reference."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from profkit.ops.lrn import LocalResponseNorm
from tests.cuda.family_checks import check_family, in_every_order, under_sanitizers

# Channels below, at and above a window, a segment of 16 and a multiple of it; positions of 1, odd, more than a block.
IMAGES: tuple[tuple[int, int, int, int], ...] = (
    (1, 1, 1, 1),
    (2, 3, 2, 5),
    (1, 7, 3, 3),
    (2, 15, 1, 4),
    (1, 16, 4, 4),
    (1, 17, 5, 3),
    (2, 33, 2, 2),
)
SIZES = (1, 2, 3, 4, 5, 8, 9, 40)
SPECS = [
    *(
        LocalResponseNorm(*image, size=size, alpha=1.0, layout=layout)
        for image, size, layout in product(IMAGES, SIZES, ("NCHW", "NHWC"))
    ),
    *(
        LocalResponseNorm(2, 18, 3, 5, size=size, alpha=2.0, beta=beta, k=k, layout=layout)
        for size, beta, k, layout in product((5, 6), (0.33, 0.5, 0.75, 1.0, 1.5, 0.0), (1.0, 2.0), ("NCHW", "NHWC"))
    ),
    *(
        LocalResponseNorm(*image, size=size, alpha=0.5, layout=layout, dtype=dtype)
        for image, size, layout, dtype in product(IMAGES[1::2], (5, 6, 9), ("NCHW", "NHWC"), ("float16", "bfloat16"))
    ),
    *(LocalResponseNorm(1, 6, 17, 31, size=size) for size in (5, 7, 9)),
    LocalResponseNorm(1, 300, 3, 1, size=5, layout="NHWC"),
]
WALKED = [spec for spec in SPECS if spec.layout == "NCHW" and spec.size in (5, 9)]


@in_every_order
def test_every_kernel_agrees_with_the_reference_in_every_thread_order(order: str, tmp_path: Path) -> None:
    runs = check_family(SPECS, tmp_path, order)

    assert len(set(SPECS)) == len(SPECS) >= 200
    assert runs == {"direct": len(SPECS), "channel_walk": len(WALKED)}
    assert len(WALKED) >= 40


@under_sanitizers
def test_no_kernel_leaves_its_arrays_or_races(sanitizers: str, tmp_path: Path) -> None:
    runs = check_family([*SPECS[::9], *WALKED[::5]], tmp_path, "random", sanitizers)

    assert runs["direct"] >= 20
    assert runs["channel_walk"] >= 8
