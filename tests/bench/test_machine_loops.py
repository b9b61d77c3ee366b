"""The finder of inner loops in object files, on code whose loops are known."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest
from kernel_pages.machine_loops import Instruction, kernel_loops, modelled_cycles, peak_share, read_object, short_name

SOURCE = """
namespace profkit {
struct CpuCall { const float* a; const float* b; float* out; long n; };
namespace avx2 {
typedef float Vector __attribute__((vector_size(32), aligned(4)));
template <class T, int rows>
__attribute__((noinline)) void tile(const T* a, const T* b, T* out, long n) {
  Vector sums[rows] = {};
  for (long i = 0; i < n; ++i) {
    const Vector right = *(const Vector*)(b + 8 * i);
    for (int row = 0; row < rows; ++row) sums[row] += a[rows * i + row] * right;
  }
  for (int row = 0; row < rows; ++row) *(Vector*)(out + 8 * row) = sums[row];
}
void example_launch(const int& wide, const CpuCall& call) {
  if (wide) return tile<float, 6>(call.a, call.b, call.out, call.n);
  tile<float, 2>(call.a, call.b, call.out, call.n);
}
struct Entry { void (*launch)(const int&, const CpuCall&); };
extern const Entry example;
const Entry example = {example_launch};
}
}
"""


def test_the_loop_with_the_most_products_is_found_through_the_table_of_entries(tmp_path: Path) -> None:
    if platform.machine() != "x86_64" or not all(map(shutil.which, ("g++", "objdump", "c++filt"))):
        pytest.skip("needs g++ and binutils on x86")
    (tmp_path / "one.cpp").write_text(SOURCE)
    command = ["g++", "-O3", "-fPIC", "-mavx2", "-mfma", "-ffp-contract=fast", "-c", "one.cpp", "-o", "one.o"]
    subprocess.run(command, cwd=tmp_path, check=True)

    found = kernel_loops(read_object(tmp_path / "one.o"))

    assert list(found) == ["example"]
    (loop,) = found["example"]
    assert loop.function.startswith("tile<float, 6>")
    assert loop.mix["FMA"] % 6 == 0 and loop.mix["FMA"] > 0
    if shutil.which("llvm-mca"):
        cycles = modelled_cycles(loop)
        assert cycles >= loop.mix["FMA"] / 2
        assert 0.2 < peak_share(loop, cycles) <= 1.0


@pytest.mark.parametrize(
    ("opcode", "operands", "kind"),
    [
        ("vfmadd231ps", "(%rax),%ymm1,%ymm2", "FMA"),
        ("vbroadcastss", "0x4(%rax,%rbx,4),%ymm3", "broadcast"),
        ("vmovups", "(%rax),%ymm1", "load"),
        ("vmovups", "%ymm1,0x20(%rax,%rbx,4)", "store"),
        ("vmovaps", "%ymm1,%ymm2", "vector"),
        ("vunpcklps", "%ymm1,%ymm2,%ymm3", "shuffle"),
        ("vmaxps", "(%rax),%ymm1,%ymm2", "vector"),
        ("add", "$0x20,%rax", "other"),
    ],
)
def test_instructions_are_told_apart(opcode: str, operands: str, kind: str) -> None:
    assert Instruction(0, opcode, operands).kind == kind


def test_names_are_short() -> None:
    long = "void profkit::avx2::run<float, 6, profkit::avx2::Tile<float> >(profkit::avx2::Tile<float> const&, long)"

    assert short_name(long) == "run<float, 6, Tile<float>>"
