"""The finder of main loops in machine code, on listings whose loops are known."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from sass import PRODUCTS, function_name, main_loop, mix, parse_sass


def listing(lines: Iterable[str], function: str = "_Z7examplePf") -> str:
    """What `cuobjdump -sass` prints of one kernel: an instruction per 16 bytes, its encoding behind it."""
    head = f'\n\tcode for sm_80\n\t\tFunction : {function}\n\t.headerflags\t@"EF_CUDA_SM80"\n'
    body = []
    for at, line in enumerate(lines):
        encoding = "/* 0x0000000000007918 */"
        body.append(f"        /*{at * 16:04x}*/                   {line} ;   {encoding}")
        body.append(f"                                                                 {encoding}")
    return head + "\n".join(body) + "\n\t\t..........\n"


INNER = ["LDS.128 R4, [R2]", "FFMA R8, R4, R5, R8", "FFMA R9, R4, R6, R9", "@P0 BRA 0x{start:x}"]


def inner(start: int) -> list[str]:
    """A loop of four instructions, two of them products, that begins at instruction `start`."""
    return [line.format(start=start * 16) for line in INNER]


def test_a_listing_gives_addresses_opcodes_and_targets() -> None:
    (kernel,) = parse_sass(listing(["MOV R1, c[0x0][0x28]", "@!P0 LDG.E.128 R4, [R2.64+0x10]", "@P0 BRA 0x10", "EXIT"]))

    assert (kernel.architecture, kernel.mangled) == ("sm_80", "_Z7examplePf")
    assert [each.address for each in kernel.instructions] == [0, 16, 32, 48]
    assert [each.opcode for each in kernel.instructions] == ["MOV", "LDG", "BRA", "EXIT"]
    assert [each.target for each in kernel.instructions] == [None, None, 16, None]


SHORT = ["FFMA R1, R2, R3, R1", *(f"IADD3 R{n}, R{n}, 0x1, RZ" for n in (4, 5, 6)), "@P1 BRA 0x0"]
MULTIPLIES = ["LDS", "FFMA", "FFMA", "BRA"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(["MOV R1, RZ", *inner(1), "EXIT"], MULTIPLIES, id="from the target to the backward branch"),
        pytest.param(
            ["@P0 BRA 0x20", "FFMA R1, R2, R3, R1", "EXIT", "BRA 0x30"],
            [],
            id="a branch to itself and a forward branch are no loops",
        ),
        pytest.param([*SHORT, *inner(5), "EXIT"], MULTIPLIES, id="of two loops the one with more products"),
        pytest.param(
            ["S2R R0, SR_TID.X", *inner(1), "FFMA R7, R7, R7, R7", "BAR.SYNC 0x0", "@P1 BRA 0x0", "EXIT"],
            MULTIPLIES,
            id="not the loop around the loop that multiplies",
        ),
        pytest.param(
            ["FFMA R1, R2, R3, R1", "LDG.E R4, [R2.64]", "@P0 BRA 0x10", "FFMA R5, R2, R3, R5", "@P1 BRA 0x0", "EXIT"],
            ["FFMA", "LDG", "BRA", "FFMA", "BRA"],
            id="an inner loop without products hides none",
        ),
        pytest.param(
            ["LDG.E R4, [R2.64]", "@P0 BRA 0x0", "LDG.E R5, [R2.64]", "FADD R6, R5, R6", "@P1 BRA 0x20", "EXIT"],
            ["LDG", "FADD", "BRA"],
            id="without products the longest",
        ),
    ],
)
def test_the_main_loop_is_found(lines: list[str], expected: list[str]) -> None:
    (kernel,) = parse_sass(listing(lines))

    assert [instruction.opcode for instruction in main_loop(kernel.instructions)] == expected


@pytest.mark.parametrize("opcode", PRODUCTS)
def test_shares_count_products_and_loads_of_the_loop_only(opcode: str) -> None:
    lines = ["LDG.E R4, [R2.64]", f"{opcode}.X R1, R2, R3, R1", "LDS R4, [R2]", "STS [R2], R4", "@P0 BRA 0x10", "EXIT"]
    (kernel,) = parse_sass(listing(lines))

    found = mix(main_loop(kernel.instructions))

    assert (found.instructions, found.products, found.loads) == (4, 1, 1)
    assert (found.product_share, found.loads_per_product) == (0.25, 1.0)


def test_a_kernel_is_told_by_its_function() -> None:
    assert function_name("void profkit::cuda::matmul_naive<float>(int)") == "matmul_naive"
