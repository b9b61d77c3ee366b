"""A bound call with output and workspace does not allocate: counted by a preloaded malloc."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.processes import succeed

COUNTER = """
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
long allocations = 0;
static void count(void) { __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED); }
void *malloc(size_t size) { count(); return __libc_malloc(size); }
void *calloc(size_t number, size_t size) { count(); return __libc_calloc(number, size); }
void *realloc(void *old, size_t size) { count(); return __libc_realloc(old, size); }
void *aligned_alloc(size_t alignment, size_t size) { count(); return __libc_memalign(alignment, size); }
int posix_memalign(void **result, size_t alignment, size_t size) {
  count();
  *result = __libc_memalign(alignment, size);
  return *result == 0 ? 12 : 0;
}
"""

COUNT_IN_CALLS = """
import ctypes
import numpy as np
from tests.kernels.kernel_calls import all_keys, describe, inputs_of, taken_odd_specs
from profkit import _core
from profkit.frameworks.adapter import aligned_empty

counter = ctypes.c_long.in_dll(ctypes.CDLL(None), "allocations")
before = counter.value
ctypes.create_string_buffer(100_000)
assert counter.value > before, "the counter does not count"

guilty = []
for key in all_keys():
    for spec in taken_odd_specs(key):
        params = spec.params()
        for threads in (1, 3):
            workspace = aligned_empty((_core.workspace_bytes(key, params, threads),), np.uint8)
            output = aligned_empty(spec.output_shape(), spec.numpy_dtype)
            call = _core.bind(key, params, list(inputs_of(spec).values()), output, workspace, threads)
            call()  # the pool grows once
            # The interpreter itself allocates now and then; a kernel that does so does it every time.
            fewest = 99
            for _ in range(5):
                before = counter.value
                call()
                fewest = min(fewest, counter.value - before)
            if fewest:
                guilty.append(f"{key} on {describe(spec)}, {threads} threads: {fewest} allocations")
assert not guilty, "\\n".join(guilty)
"""


def test_no_kernel_allocates_inside_a_bound_call(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or platform.libc_ver()[0] != "glibc":
        pytest.skip("needs a C compiler and the GNU C library, whose malloc can be wrapped")
    source, library = tmp_path / "counter.c", tmp_path / "counter.so"
    source.write_text(COUNTER)
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": str(ROOT)}

    succeed([sys.executable, "-c", COUNT_IN_CALLS], environment)
