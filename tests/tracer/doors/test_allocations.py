"""The allocation door, call by call: sizes, attribution, releases, failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tracer.doors.allocation_programs import PRELUDE, Row, compile_plainly, rows_in, run, trace
from tests.tracer.programs import skip_without_library

# What is done in a range, and the allocations that it then owns.
CALLS = {
    "every call is recorded with the bytes asked for and freed again": (
        """
        void* p[10];
        p[0] = malloc(5000);
        p[1] = calloc(7, 1001);
        p[2] = realloc(NULL, 6000);
        p[3] = reallocarray(NULL, 3, 2001);
        p[4] = aligned_alloc(64, 8192);
        CHECK(posix_memalign(&p[5], 64, 5001) == 0);
        p[6] = memalign(128, 5002);
        p[7] = valloc(5003);
        p[8] = pvalloc(5004);
        p[9] = mmap(NULL, 12345, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int i = 0; i < 9; ++i) free(p[i]);
        munmap(p[9], 12345);
        """,
        [
            Row("malloc", 5000, True),
            Row("calloc", 7007, True),
            Row("realloc", 6000, True),
            Row("realloc", 6003, True),
            Row("aligned_alloc", 8192, True),
            Row("posix_memalign", 5001, True),
            Row("memalign", 5002, True),
            Row("memalign", 5003, True),
            Row("memalign", 5004, True),
            Row("mmap", 12345, True),
        ],
    ),
    "realloc releases the old block and records the new one growing and shrinking": (
        """
        char* p = malloc(2000);
        memset(p, 7, 2000);
        p = realloc(p, 3000000);
        for (int i = 0; i < 2000; ++i) CHECK(p[i] == 7);
        p = realloc(p, 1500);
        p = realloc(p, 20);
        p = realloc(p, 1600);
        for (int i = 0; i < 20; ++i) CHECK(p[i] == 7);
        CHECK(realloc(p, 0) == NULL);
        """,
        [
            Row("malloc", 2000, True),
            Row("realloc", 3000000, True),
            Row("realloc", 1500, True),
            Row("realloc", 1600, True),
        ],
    ),
    "a realloc that cannot succeed leaves the old block as it was": (
        """
        char* p = malloc(5000);
        CHECK(realloc(p, SIZE_MAX - 5) == NULL && errno == ENOMEM);
        CHECK(reallocarray(p, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
        """,
        [Row("malloc", 5000, False)],
    ),
    "calls that fail are not recorded": (
        """
        void* p = &work;
        CHECK(malloc(SIZE_MAX - 100) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(calloc(SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
        errno = 0;
        CHECK(reallocarray(NULL, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
        CHECK(posix_memalign(&p, 3, 5000) == EINVAL && p == &work);
        CHECK(posix_memalign(&p, 64, SIZE_MAX - 4096) == ENOMEM && p == &work);
        CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
        errno = 0;
        CHECK(munmap((void*)123, 4096) == -1 && errno == EINVAL);
        """,
        [],
    ),
    "a failed mremap leaves the mapping and a good one moves it": (
        """
        char* p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        p[8000] = 9;
        p = mremap(p, 8192, 1 << 20, MREMAP_MAYMOVE);
        CHECK(p != MAP_FAILED && p[8000] == 9);
        p = mremap(p, 1 << 20, 16384, 0);
        CHECK(mremap(p, 16384, (size_t)1 << 50, MREMAP_MAYMOVE) == MAP_FAILED);
        CHECK(munmap(p, 16384) == 0);
        """,
        [
            Row("mmap", 8192, True),
            Row("mremap", 1 << 20, True),
            Row("mremap", 16384, True),
            Row("mremap", 16384, True),
        ],
    ),
    "a block that the c library maps inside malloc is recorded once": (
        """
        void* p = malloc(64 << 20);
        memset(p, 1, 64 << 20);
        free(p);
        """,
        [Row("malloc", 64 << 20, True)],
    ),
}


@pytest.mark.parametrize(("body", "rows"), CALLS.values(), ids=CALLS)
def test_calls_in_a_range(body: str, rows: list[Row], tmp_path: Path) -> None:
    capture = trace(tmp_path, f'uint64_t work = begin("work"); {body} end(work);').capture

    assert rows_in(capture, "work") == rows


def test_an_allocation_belongs_to_the_innermost_range_and_its_free_to_the_range_of_the_free(tmp_path: Path) -> None:
    body = """
      uint64_t outer = begin("outer");
      void* a = malloc(10001);
      uint64_t inner = begin("inner");
      void* b = malloc(10002);
      free(a);
      end(inner);
      void* c = malloc(10003);
      free(b);
      end(outer);
      free(c);
    """

    capture = trace(tmp_path, body).capture

    table = capture.allocations
    titles = {
        int(table.bytes[i]): (capture.range_title(int(table.range[i])), int(table.free_range[i]))
        for i in range(len(table))
        if 10001 <= table.bytes[i] <= 10003
    }
    named = {size: (title, capture.range_title(row) if row >= 0 else None) for size, (title, row) in titles.items()}
    assert named == {10001: ("outer", "inner"), 10002: ("inner", "outer"), 10003: ("outer", None)}


def test_memory_freed_by_another_thread_is_freed_there(tmp_path: Path) -> None:
    declarations = """
      static void* release(void* p) {
        uint64_t there = begin("there");
        free(p);
        end(there);
        return NULL;
      }
    """
    body = """
      uint64_t work = begin("work");
      void* p = malloc(54321);
      pthread_t other;
      pthread_create(&other, NULL, release, p);
      pthread_join(other, NULL);
      end(work);
    """

    capture = trace(tmp_path, body, declarations=declarations).capture

    table = capture.allocations
    (row,) = [i for i in range(len(table)) if table.bytes[i] == 54321]
    assert table.free_thread[row] not in (-1, table.thread[row])
    assert capture.range_title(int(table.free_range[row])) == "there"
    assert table.free_time_ns[row] >= table.time_ns[row]


def test_a_block_whose_realloc_finds_no_memory_is_live_again_with_its_usable_size(tmp_path: Path) -> None:
    body = """
      uint64_t work = begin("work");
      char* p = malloc(5000);
      CHECK(realloc(p, (size_t)1 << 46) == NULL && errno == ENOMEM);
      end(work);
      printf("%zu\\n", malloc_usable_size(p));
    """

    done = trace(tmp_path, body)

    assert rows_in(done.capture, "work") == [
        Row("malloc", 5000, True),
        Row("realloc", int(done.output), False),
    ]


def test_only_anonymous_mappings_that_can_be_accessed_count_as_memory(tmp_path: Path) -> None:
    body = """
      uint64_t work = begin("work");
      FILE* file = fopen("/proc/self/exe", "rb");
      CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fileno(file), 0) != MAP_FAILED);
      char* space = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      CHECK(mmap(space, 65536, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == space);
      CHECK(mmap(space, 65536, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == space);
      CHECK(mmap64(NULL, 40960, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
      end(work);
    """

    rows = [row for row in rows_in(trace(tmp_path, body).capture, "work") if row.call == "mmap"]

    assert rows == [Row("mmap", 65536, True), Row("mmap", 40960, False)]


SMALL_ONES = """
  static void* allocate(void* unused) {
    for (int i = 0; i < 1000; ++i) free(malloc(100));
    free(calloc(3, 33));
    free(realloc(malloc(10), 20));
    free(malloc(1023));
    free(malloc(1024));
    free(malloc(5000));
    return unused;
  }
"""
IN_A_THREAD = """
  pthread_t other;
  pthread_create(&other, NULL, allocate, NULL);
  pthread_join(other, NULL);
"""


@pytest.mark.parametrize(
    ("options", "recorded", "small", "small_bytes"),
    [
        ("", [1024, 5000], 1004, 100_000 + 99 + 30 + 1023),
        ("threshold=1000", [1023, 1024, 5000], 1003, 100_000 + 99 + 30),
        ("threshold=6000", [], 1006, 100_000 + 99 + 30 + 1023 + 1024 + 5000),
        ("threshold=1", [*[100] * 1000, 99, 10, 20, 1023, 1024, 5000], 0, 0),
        ("allocations=0", [], 0, 0),
    ],
)
def test_from_the_threshold_on_blocks_are_recorded_and_smaller_ones_counted_exactly(
    tmp_path: Path, options: str, recorded: list[int], small: int, small_bytes: int
) -> None:
    capture = trace(tmp_path, IN_A_THREAD, declarations=SMALL_ONES, options=options).capture

    if options == "allocations=0":  # nothing of the other threads either
        assert len(capture.allocations) == 0 and capture.threads.small_allocations.sum() == 0
        return
    (thread,) = [row for row in range(len(capture.threads)) if capture.threads.index[row] == 1]
    mine = capture.allocations.thread == thread
    assert capture.allocations.bytes[mine].tolist() == recorded
    assert (capture.allocations.free_time_ns[mine] >= 0).all()
    assert capture.threads.small_allocations[thread] == small
    assert capture.threads.small_allocated_bytes[thread] == small_bytes


EDGE_CASES = r"""
#define SHOW(text, value) printf("%s %lld errno %d\n", text, (long long)(value), errno), errno = 0
int main(void) {
  void* p = (void*)1;
  errno = 0;
  SHOW("malloc(0)", malloc(0) != NULL);
  SHOW("calloc(0, 5)", calloc(0, 5) != NULL);
  SHOW("calloc overflow", calloc(SIZE_MAX / 4, 8) != NULL);
  SHOW("malloc huge", malloc(PTRDIFF_MAX) != NULL);
  SHOW("malloc too huge", malloc((size_t)PTRDIFF_MAX + 1) != NULL);
  SHOW("realloc(NULL, 0)", realloc(NULL, 0) != NULL);
  SHOW("realloc(p, 0)", realloc(malloc(5000), 0) != NULL);
  SHOW("realloc huge", realloc(malloc(5000), PTRDIFF_MAX) != NULL);
  SHOW("reallocarray(NULL, 0, 0)", reallocarray(NULL, 0, 0) != NULL);
  SHOW("reallocarray overflow", reallocarray(NULL, SIZE_MAX, 2) != NULL);
  SHOW("posix_memalign 0", posix_memalign(&p, 0, 100));
  SHOW("posix_memalign 4", posix_memalign(&p, 4, 100));
  SHOW("posix_memalign 24", posix_memalign(&p, 24, 100));
  SHOW("left alone", p == (void*)1);
  SHOW("posix_memalign size 0", posix_memalign(&p, 64, 0));
  SHOW("posix_memalign huge", posix_memalign(&p, 64, PTRDIFF_MAX));
  SHOW("aligned_alloc 48", aligned_alloc(48, 100) != NULL);
  SHOW("aligned_alloc 0", aligned_alloc(0, 100) != NULL);
  SHOW("aligned_alloc huge", aligned_alloc(64, PTRDIFF_MAX) != NULL);
  SHOW("memalign 48", (uintptr_t)memalign(48, 100) % 64);
  SHOW("memalign huge alignment", memalign((size_t)PTRDIFF_MAX + 2, 100) != NULL);
  SHOW("valloc", (uintptr_t)valloc(5000) % 4096);
  SHOW("pvalloc", (uintptr_t)pvalloc(5000) % 4096);
  SHOW("pvalloc huge", pvalloc(SIZE_MAX - 100) != NULL);
  SHOW("usable", malloc_usable_size(malloc(5000)));
  errno = EDOM;
  free(NULL);
  free(malloc(100000));
  SHOW("errno after free", 0);
  SHOW("mmap unaligned", mmap((void*)7, 4096, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
  SHOW("mmap bad file", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 12345, 0) != MAP_FAILED);
  SHOW("munmap nothing", munmap((void*)4096, 0));
  SHOW("munmap unmapped", munmap((void*)(1L << 40), 4096));
  SHOW("mremap unmapped", mremap((void*)(1L << 40), 4096, 8192, MREMAP_MAYMOVE) != MAP_FAILED);
  size_t bad = 0;
  for (size_t alignment = 8; alignment <= 1 << 22; alignment *= 2)
    for (size_t size = 1; size < 100000; size = size * 3 + 1) {
      if (posix_memalign(&p, alignment, size) != 0 || (uintptr_t)p % alignment != 0) ++bad;
      free(p);
      p = aligned_alloc(alignment, size);
      if (p == NULL || (uintptr_t)p % alignment != 0) ++bad;
      memset(p, 0x5a, size);
      p = realloc(p, size * 2);
      if (p == NULL || (uintptr_t)p % 16 != 0 || ((char*)p)[size - 1] != 0x5a) ++bad;
      free(p);
      p = calloc(size, 2);
      for (size_t i = 0; i < 2 * size; ++i) bad += ((char*)p)[i] != 0;
      free(p);
    }
  SHOW("bad", bad);
  return 0;
}
"""


@pytest.mark.parametrize("options", ["", "threshold=1", "allocations=0"])
def test_results_errors_and_alignments_are_those_of_the_allocator_behind_the_door(tmp_path: Path, options: str) -> None:
    skip_without_library()
    includes = PRELUDE[: PRELUDE.index('#include "tracer/core/api.h"')]
    program = compile_plainly(tmp_path, includes + EDGE_CASES)

    plain = run([program], None)
    traced = run([program], tmp_path / "run.profkit", options)

    assert plain.returncode == 0 and "bad 0 " in plain.stdout
    assert (traced.returncode, traced.stdout, traced.stderr) == (0, plain.stdout, "")
