"""The allocation door under whole programs: early start-up, other allocators, Python, NumPy, torch, compilers."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from ctypes.util import find_library
from pathlib import Path

import pytest

from profkit.capture.reading import read
from tests.tracer.doors.allocation_programs import PRELUDE, Row, compile_plainly, rows_in, run, trace
from tests.tracer.programs import LIBRARY, skip_without_library

# Behind the door in the chain of allocators: sees exactly what the door lets through, and counts it.
ORACLE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
static uint64_t calls, total;
uint64_t oracle_calls(void) { return __atomic_load_n(&calls, __ATOMIC_SEQ_CST); }
uint64_t oracle_bytes(void) { return __atomic_load_n(&total, __ATOMIC_SEQ_CST); }
static void* count(void* block, size_t bytes) {
  if (block != NULL && bytes >= THRESHOLD) {
    __atomic_fetch_add(&calls, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&total, bytes, __ATOMIC_SEQ_CST);
  }
  return block;
}
extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
void* malloc(size_t bytes) { return count(__libc_malloc(bytes), bytes); }
void* calloc(size_t items, size_t bytes) { return count(__libc_calloc(items, bytes), items * bytes); }
void* realloc(void* old, size_t bytes) { return count(__libc_realloc(old, bytes), bytes); }
void* memalign(size_t alignment, size_t bytes) { return count(__libc_memalign(alignment, bytes), bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) { return count(__libc_memalign(alignment, bytes), bytes); }
int posix_memalign(void** result, size_t alignment, size_t bytes) {
  void* block = count(__libc_memalign(alignment, bytes), bytes);
  if (block == NULL) return 12;
  *result = block;
  return 0;
}
"""

# A range opened from Python with nothing of profkit imported.
PYTHON_RANGE = """
import ctypes

class Table(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("recording", ctypes.c_void_p),
                ("label", ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p,
                                           ctypes.c_size_t)),
                ("begin", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint32)),
                ("begin_with_payload", ctypes.c_void_p),
                ("end", ctypes.CFUNCTYPE(None, ctypes.c_uint64))]

process = ctypes.CDLL(None)
process.profkit_tracer.restype = ctypes.POINTER(Table)
table = process.profkit_tracer(1).contents
work = table.label(b"work", 4, None, 0)
"""


def oracle(folder: Path, threshold: int) -> Path:
    return compile_plainly(folder, ORACLE, "-shared", "-fPIC", f"-DTHRESHOLD={threshold}", name="oracle.so")


def blocks_in_work(capture_file: Path) -> list[Row]:
    """Rows of the range "work", without the mappings that Python makes for its own objects at any time."""
    return [row for row in rows_in(read(capture_file), "work") if row.call != "mmap"]


def test_totals_equal_those_counted_by_the_allocator_behind_the_door(tmp_path: Path) -> None:
    declarations = "extern uint64_t oracle_calls(void); extern uint64_t oracle_bytes(void);"
    body = r"""
      uint64_t work = begin("work");
      const uint64_t calls = oracle_calls(), bytes = oracle_bytes();
      uint32_t random = 1;
      void* blocks[64] = {0};
      for (int i = 0; i < 100000; ++i) {
        random = random * 1664525u + 1013904223u;
        void** block = &blocks[random >> 26];
        const size_t size = (random >> 7) % 20000;
        if (random & 64) {
          *block = realloc(*block, size + 1);
        } else {
          free(*block);
          *block = random & 32 ? malloc(size) : random & 16 ? calloc(size, 3) : memalign(64, size);
        }
      }
      end(work);
      printf("[%lu, %lu]", oracle_calls() - calls, oracle_bytes() - bytes);
    """
    library = oracle(tmp_path, 1024)

    done = trace(tmp_path, body, str(library), declarations=declarations, preload=[library])

    rows = rows_in(done.capture, "work")
    assert done.capture.losses.records == 0
    assert [len(rows), sum(row.bytes for row in rows)] == json.loads(done.output)


def test_numpy_arrays_in_a_range_are_attributed_to_it_with_exactly_their_bytes(tmp_path: Path) -> None:
    skip_without_library()
    library, script, capture_file = oracle(tmp_path, 100_000), tmp_path / "arrays.py", tmp_path / "run.profkit"
    script.write_text(
        PYTHON_RANGE
        + """
import numpy as np
process.oracle_bytes.restype = ctypes.c_uint64
before = process.oracle_bytes()
token = table.begin(work)
a = np.empty(1 << 20, np.uint8)
b = np.zeros((1000, 1000), np.float32)
del a
c = b + 1
table.end(token)
print(process.oracle_bytes() - before)
"""
    )

    done = run([sys.executable, script], capture_file, "threshold=100000", [library])

    assert done.returncode == 0, done.stderr
    rows = blocks_in_work(capture_file)
    assert [row.bytes for row in rows] == [1 << 20, 4_000_000, 4_000_000]
    assert rows[0].is_freed
    assert sum(row.bytes for row in rows) == int(done.stdout)


def test_a_torch_tensor_in_a_range_is_attributed_to_it(tmp_path: Path) -> None:
    skip_without_library()
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    script, capture_file = tmp_path / "tensors.py", tmp_path / "run.profkit"
    script.write_text(
        PYTHON_RANGE
        + """
import torch
token = table.begin(work)
x = torch.empty(3_000_001, dtype=torch.float32)
table.end(token)
"""
    )

    done = run([sys.executable, script], capture_file, "threshold=100000")

    assert done.returncode == 0, done.stderr
    assert [row.bytes for row in blocks_in_work(capture_file)] == [12_000_004]


def test_blocks_from_constructors_before_main_are_served_and_usable(tmp_path: Path) -> None:
    declarations = r"""
      static char* early;
      __attribute__((constructor(101))) static void before_everything(void) {
        early = malloc(7777);
        strcpy(early, "still here");
      }
      __attribute__((destructor)) static void after_everything(void) { free(malloc(6666)); }
    """
    body = r"""
      uint64_t work = begin("work");
      early = realloc(early, 9999);
      end(work);
      puts(early);
    """

    done = trace(tmp_path, body, declarations=declarations)

    assert done.output == "still here\n"
    assert rows_in(done.capture, "work") == [Row("realloc", 9999, False)]


def test_an_ifunc_resolver_may_allocate_before_the_library_is_relocated(tmp_path: Path) -> None:
    skip_without_library()
    resolver = r"""
      #include <stdlib.h>
      #include <string.h>
      static char* notes;
      static int answer(void) { return notes != NULL && strcmp(notes, "resolved") == 0 ? 42 : 1; }
      static int (*resolve(void))(void) {
        static const char text[] = "resolved";
        notes = malloc(sizeof text);
        if (notes != NULL) for (unsigned i = 0; i < sizeof text; ++i) notes[i] = text[i];
        notes = realloc(notes, 4000);
        free(calloc(10, 10));
        return answer;
      }
      int question(void) __attribute__((ifunc("resolve")));
      void forget(void) { free(notes); }
    """
    asking = "int question(void); int ask(void) { return question(); }"
    main = "int ask(void); void forget(void); int main(void) { int a = ask(); forget(); return a; }"
    # The loader relocates the last library first: the resolver's, then the one that asks (which runs the
    # resolver), then the preloaded one.
    built = ["-shared", "-fPIC", "-Wl,-z,now", f"-Wl,-rpath,{tmp_path}"]
    resolving = compile_plainly(tmp_path, resolver, *built, name="libresolver.so")
    user = compile_plainly(tmp_path, asking, str(resolving), *built, name="libuser.so")
    program = compile_plainly(tmp_path, main, str(user), str(resolving), f"-Wl,-rpath,{tmp_path}")
    if run([program], None).returncode != 42:
        pytest.skip("this system's C library cannot allocate in a resolver")

    done = run([program], tmp_path / "run.profkit")

    assert done.returncode == 42


def test_a_program_with_its_own_allocator_runs_and_says_that_the_door_is_closed(tmp_path: Path) -> None:
    declarations = r"""
      static unsigned char pool[1 << 24] __attribute__((aligned(16)));
      static size_t used;
      void* malloc(size_t bytes) {
        unsigned char* block = pool + __atomic_fetch_add(&used, (bytes + 47) & ~(size_t)15, __ATOMIC_SEQ_CST) + 16;
        ((size_t*)block)[-1] = bytes;
        return block;
      }
      void free(void* block) { (void)block; }
      void* calloc(size_t items, size_t bytes) { return malloc(items * bytes); }
      void* realloc(void* old, size_t bytes) {
        void* block = malloc(bytes);
        if (old != NULL) memcpy(block, old, ((size_t*)old)[-1] < bytes ? ((size_t*)old)[-1] : bytes);
        return block;
      }
    """
    body = r"""
      uint64_t work = begin("work");
      char* p = malloc(5000);
      strcpy(p, "mine");
      p = reallocarray(p, 100, 100);
      CHECK(strcmp(p, "mine") == 0 && (unsigned char*)p > pool && (unsigned char*)p < pool + sizeof pool);
      free(p);
      end(work);
      printf("%u", tracer()->open_doors() & 4);
    """

    done = trace(tmp_path, body, "-rdynamic", declarations=declarations)

    assert done.output == "0"
    assert rows_in(done.capture, "work") == []


@pytest.mark.parametrize("flags", [["-pie", "-fPIE"], ["-no-pie", "-fno-pic"]])
def test_the_door_is_open_also_in_an_executable_at_a_fixed_address_that_takes_the_address_of_malloc(
    tmp_path: Path, flags: list[str]
) -> None:
    body = r"""
      void* (*volatile allocate)(size_t) = &malloc;
      uint64_t work = begin("work");
      free(allocate(5000));
      end(work);
      printf("%u", tracer()->open_doors() & 4);
    """

    done = trace(tmp_path, body, *flags)

    assert done.output == "4"
    assert rows_in(done.capture, "work") == [Row("malloc", 5000, True)]


def test_the_library_loaded_without_preloading_leaves_malloc_alone(tmp_path: Path) -> None:
    skip_without_library()
    body = r"""
      void* (*const before)(size_t) = dlsym(RTLD_DEFAULT, "malloc");
      void* library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
      CHECK(library != NULL);
      const profkit_tracer_api* (*find)(uint32_t) = dlsym(library, "profkit_tracer");
      CHECK(find(1)->start("run.profkit", NULL) == NULL);
      free(malloc(5000));
      CHECK(dlsym(RTLD_DEFAULT, "malloc") == before);
      printf("%u", find(1)->open_doors() & 4);
      CHECK(find(1)->stop() == NULL);
    """
    text = PRELUDE.replace("static uint64_t begin", "__attribute__((unused)) static uint64_t begin")
    text = text.replace("static void end", "__attribute__((unused)) static void end")
    program = compile_plainly(tmp_path, f"{text}\nint main(void) {{ {body} return 0; }}", f'-DLIBRARY="{LIBRARY}"')

    done = run([program], None, folder=tmp_path)

    assert (done.returncode, done.stdout) == (0, "0"), done.stderr
    assert len(read(tmp_path / "run.profkit").allocations) == 0


@pytest.mark.parametrize("name", ["jemalloc", "tcmalloc_minimal", "mimalloc"])
def test_another_allocator_preloaded_behind_the_door_is_recorded_once(tmp_path: Path, name: str) -> None:
    library = find_library(name)
    if library is None:
        pytest.skip(f"{name} is not installed")
    body = """
      uint64_t work = begin("work");
      for (int i = 0; i < 100; ++i) {
        char* p = malloc(100000 + i);
        p = realloc(p, 200000 + i);
        memset(p, i, 200000 + i);
        free(p);
      }
      free(malloc(64 << 20));
      end(work);
    """

    rows = rows_in(trace(tmp_path, body, preload=[Path(library)]).capture, "work")

    assert len(rows) == 201 and all(row.is_freed for row in rows)
    assert sum(row.bytes for row in rows) == sum(300_000 + 2 * i for i in range(100)) + (64 << 20)


COMMANDS = {
    "ls": ["ls", "-la", "/usr/bin"],
    "sort": ["sort", "-r", "/etc/passwd"],
    "shell": ["sh", "-c", "for i in 1 2 3; do echo $i | cat; done; exit 7"],
    "numpy": [sys.executable, "-c", "import numpy as np; print(np.arange(1e6).sum(), np.linalg.det(np.eye(300)))"],
    "threads": [
        sys.executable,
        "-c",
        "from concurrent.futures import ThreadPoolExecutor as P; print(sum(P(16).map(len, map(bytes, range(3000)))))",
    ],
    "failing": [sys.executable, "-c", "import sys; print('x' * 100000); sys.exit(3)"],
    "torch": [
        sys.executable,
        "-c",
        "import numpy, torch; print(torch.nn.Conv2d(3, 8, 3)(torch.ones(2, 3, 9, 9)).shape)",
    ],
    "compiler": ["gcc", "-O2", "-S", "-x", "c", "-", "-o", "-"],
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full) if name == "torch" else name for name in COMMANDS]
)
@pytest.mark.parametrize("options", [pytest.param("", marks=pytest.mark.full), "threshold=1"])
def test_a_program_prints_and_returns_the_same_with_the_door_open(tmp_path: Path, name: str, options: str) -> None:
    skip_without_library()
    command = COMMANDS[name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    if name == "torch" and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")

    plain = run(command, None)
    traced = run(command, tmp_path / "run.profkit", options)

    assert (traced.returncode, traced.stdout) == (plain.returncode, plain.stdout), traced.stderr
    table = read(tmp_path / "run.profkit").allocations
    assert len(table) > 0
    if options == "threshold=1":
        # The reader ends a block without a releasing thread when its address is given out again: a release that
        # the door missed.
        assert not ((table.free_time_ns >= 0) & (table.free_thread < 0)).any()
