"""The host SIMT layer sees what a GPU leaves undefined: each broken rule is reported, and its correct twin passes."""

from __future__ import annotations

import subprocess

import pytest

from tests.cuda.emulation import ORDERS, link_emulated
from tests.cuda.family_checks import in_every_order
from tests.support.places import CUDA_NATIVE
from tests.support.processes import finish, succeed

ADDRESS, THREAD = "address,undefined", "thread"
RIGHT = [str(number) for number in range(63, -1, -1)]

# The rule that is broken, the sanitizers that see it, and the words of the report. Where nothing is said but a wrong
# number comes out, the word is "nan": memory that nobody wrote is filled with it. That barriers must not be missing is
# shown by test_seeded_mutants.py, on real kernels.
RULES = (
    ("divergent_barrier", "", "divergent barrier"),
    ("exit_before_barrier", "", "thread (5, 0, 0) has exited and never comes"),
    ("mask_without_own_lane", "", ", which takes part"),
    ("source_outside_mask", "", "which the mask does not name"),
    ("exited_lane_in_mask", "", "the mask names lane 31, which has exited"),
    ("different_masks", "", "deadlock"),
    ("mask_outside_block", "", "outside the block of 40 threads"),
    ("deadlock", "", "deadlock"),
    ("uninitialised_shared", "", "nan"),
    ("copy_without_wait", "", "ended with asynchronous copies that it never waited for"),
    ("copy_waited_for_too_late", "", "nan"),
    ("copy_without_alignment", "", "an asynchronous copy of 16 bytes is not aligned"),
    ("exchange_beyond_width", "", "nan"),
    ("matrix_row_without_alignment", "", "not aligned to 16 bytes (block (0, 0, 0), thread"),
    ("too_much_static_shared", "", "a block can have 49152"),
    ("more_shared_than_the_device_has", "", "of 257 bytes; a block of the device can have 256"),
    ("block_too_large", "", "a block of 1056 threads"),
    ("grid_too_large", "", "a grid of 1 x 65536 x 1 blocks"),
    ("shared_bound", ADDRESS, "index 64 out of bounds"),
    ("dynamic_shared_bound", ADDRESS, "heap-buffer-overflow"),
    ("global_bound", ADDRESS, "heap-buffer-overflow"),
    ("copy_into_what_is_read", THREAD, "data race"),
    ("missing_warp_sync", THREAD, "data race"),
    ("shuffle_as_fence", THREAD, "data race"),
    ("blocks_add", THREAD, "data race"),
    ("blocks_overwrite", THREAD, "data race"),
)


def run(rule: str, sanitizers: str, kind: str, order: str) -> subprocess.CompletedProcess[str]:
    program = link_emulated("simt-layer", [(CUDA_NATIVE / "check_simt_layer.cpp", ())], sanitizers)
    return finish([str(program), rule, kind, order])


@in_every_order
@pytest.mark.parametrize(
    ("rule", "sanitizers", "words"),
    [pytest.param(*row, marks=pytest.mark.full if row[1] else (), id=row[0]) for row in RULES],
)
def test_a_broken_rule_is_reported(rule: str, sanitizers: str, words: str, order: str) -> None:
    done = run(rule, sanitizers, "wrong", order)

    assert words in done.stdout + done.stderr
    assert done.returncode != 0 or words == "nan"


@pytest.mark.parametrize(
    "sanitizers",
    [
        pytest.param("", id="plain"),
        pytest.param(ADDRESS, marks=pytest.mark.full, id="address"),
        pytest.param(THREAD, marks=pytest.mark.full, id="thread"),
    ],
)
@pytest.mark.parametrize("rule", [rule for rule, _, _ in RULES])
def test_the_twin_that_keeps_the_rule_passes(rule: str, sanitizers: str) -> None:
    for order in ORDERS:
        done = run(rule, sanitizers, "right", order)

        assert (done.returncode, done.stdout.split()) == (0, RIGHT), done.stderr[:2000]


def test_every_kernel_of_the_check_is_tested() -> None:
    program = link_emulated("simt-layer", [(CUDA_NATIVE / "check_simt_layer.cpp", ())])

    names = succeed([str(program)]).split()

    assert sorted(names) == sorted(rule for rule, _, _ in RULES)
