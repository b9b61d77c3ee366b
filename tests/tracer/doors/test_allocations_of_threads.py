"""The allocation door under many threads, forks and endings: nothing is corrupted, nothing hangs."""

from __future__ import annotations

from pathlib import Path

import pytest

from profkit.capture.schema import AllocationCall
from tests.tracer.doors.allocation_programs import Row, compile_plainly, rows_in, trace

# A block is filled with a byte of its thread and slot and checked before it is given up: a block handed out
# twice, or lost by realloc, shows.
CHURN = r"""
#define SLOTS 32
static uint32_t next_random(uint32_t* state) { return *state = *state * 1664525u + 1013904223u; }

static void check(const unsigned char* block, size_t size, unsigned char mark) {
  for (size_t i = 0; i < size; ++i) CHECK(block[i] == mark);
}

static void churn(uint32_t seed, int rounds) {
  unsigned char* blocks[SLOTS] = {0};
  size_t sizes[SLOTS] = {0};
  uint32_t random = seed * 2654435761u + 1;
  for (int round = 0; round < rounds; ++round) {
    const uint32_t slot = next_random(&random) >> 27;
    const size_t size = 1 + (next_random(&random) >> 8) % (round % 50 == 0 ? 200000 : 3000);
    const unsigned char mark = (unsigned char)(seed * 31 + slot);
    check(blocks[slot], sizes[slot], mark);
    switch (next_random(&random) >> 30) {
      case 0:
        free(blocks[slot]);
        blocks[slot] = malloc(size);
        break;
      case 1:
        free(blocks[slot]);
        blocks[slot] = calloc(size, 1);
        check(blocks[slot], size, 0);
        break;
      case 2:
        blocks[slot] = realloc(blocks[slot], size);
        check(blocks[slot], size < sizes[slot] ? size : sizes[slot], mark);
        break;
      default:
        free(blocks[slot]);
        CHECK(posix_memalign((void**)&blocks[slot], 256, size) == 0 && (uintptr_t)blocks[slot] % 256 == 0);
    }
    CHECK(blocks[slot] != NULL);
    memset(blocks[slot], mark, size);
    sizes[slot] = size;
  }
  for (int slot = 0; slot < SLOTS; ++slot) free(blocks[slot]);
}

static void* churn_in_a_range(void* seed) {
  uint64_t work = begin("churn");
  churn((uint32_t)(uintptr_t)seed, 2000);
  end(work);
  return NULL;
}
"""


def test_64_threads_keep_their_memory_intact_and_every_recorded_block_is_freed(tmp_path: Path) -> None:
    body = """
      pthread_t threads[64];
      for (uintptr_t i = 0; i < 64; ++i) pthread_create(&threads[i], NULL, churn_in_a_range, (void*)i);
      for (int i = 0; i < 64; ++i) pthread_join(threads[i], NULL);
    """

    capture = trace(tmp_path, body, declarations=CHURN).capture

    rows = rows_in(capture, "churn")
    small = int(capture.threads.small_allocations[capture.threads.index > 0].sum())
    assert capture.losses.records == 0  # all of it fits into the buffers
    assert len(rows) + small == 64 * 2000
    assert all(row.is_freed for row in rows)


# An allocator behind the door that gives a block of 8000 bytes, while it is being freed or moved, to the thread
# that asks for 7777, and comes back only after that thread has got it.
HANDOVER = r"""
#define _GNU_SOURCE
#include <malloc.h>
#include <stddef.h>
#include <string.h>
extern void* __libc_malloc(size_t);
extern void* __libc_realloc(void*, size_t);
extern void __libc_free(void*);
static void* waiting_for;
static void* handed_over;
void hand_over(void* block) { __atomic_store_n(&waiting_for, block, __ATOMIC_SEQ_CST); }
void have_it(void) { __atomic_store_n(&waiting_for, NULL, __ATOMIC_SEQ_CST); }
static int gives_away(void* block) {
  if (block == NULL || block != __atomic_load_n(&waiting_for, __ATOMIC_SEQ_CST)) return 0;
  __atomic_store_n(&handed_over, block, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&waiting_for, __ATOMIC_SEQ_CST) != NULL) {}
  return 1;
}
void* malloc(size_t bytes) {
  if (bytes != 7777) return __libc_malloc(bytes);
  void* block;
  while ((block = __atomic_exchange_n(&handed_over, NULL, __ATOMIC_SEQ_CST)) == NULL) {}
  return block;
}
void free(void* block) { if (!gives_away(block)) __libc_free(block); }
void* realloc(void* block, size_t bytes) {
  if (block == NULL || block != __atomic_load_n(&waiting_for, __ATOMIC_SEQ_CST)) return __libc_realloc(block, bytes);
  void* moved = memcpy(__libc_malloc(bytes), block, 8000);
  gives_away(block);
  return moved;
}
"""


@pytest.mark.parametrize("give", ["free(block)", "block = realloc(block, 9999)"])
def test_a_block_is_released_before_another_thread_can_get_its_address(tmp_path: Path, give: str) -> None:
    declarations = """
      extern void hand_over(void*);
      extern void have_it(void);
      static void* take(void* unused) {
        void* block = malloc(7777);
        have_it();
        free(block);
        return unused;
      }
    """
    body = f"""
      for (int i = 0; i < 20; ++i) {{
        void* block = malloc(8000);
        pthread_t taker;
        pthread_create(&taker, NULL, take, NULL);
        hand_over(block);
        {give};
        pthread_join(taker, NULL);
      }}
    """
    library = compile_plainly(tmp_path, HANDOVER, "-shared", "-fPIC", name="handover.so")

    capture = trace(tmp_path, body, str(library), declarations=declarations, preload=[library]).capture

    table = capture.allocations
    given, taken = (table.bytes == 8000), (table.bytes == 7777)
    assert given.sum() == taken.sum() == 20
    assert set(table.free_thread[given]) == set(table.thread[given])
    assert (table.free_thread[taken] == table.thread[taken]).all()
    assert (table.address[given] == table.address[taken]).all()
    assert (table.free_time_ns[given] <= table.time_ns[taken]).all()


def test_forks_while_other_threads_allocate_neither_hang_nor_corrupt_the_child(tmp_path: Path) -> None:
    declarations = (
        CHURN
        + """
      static volatile int stop;
      static void* keep_churning(void* seed) {
        while (!stop) churn((uint32_t)(uintptr_t)seed, 100);
        return NULL;
      }
    """
    )
    body = """
      pthread_t threads[4];
      for (uintptr_t i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, keep_churning, (void*)i);
      for (int i = 0; i < 100; ++i) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
          uint64_t work = begin("child");
          churn(77, 100);
          free(malloc(123456));
          end(work);
          exit(0);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
      }
      stop = 1;
      for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
    """

    capture = trace(tmp_path, body, declarations=declarations).capture

    marked = [row for row in rows_in(capture, "child") if row.bytes == 123456]
    assert len(capture.processes) == 101
    assert len(marked) == 100 and all(row.is_freed for row in marked)


def test_memory_freed_while_its_thread_ends_does_no_harm(tmp_path: Path) -> None:
    declarations = """
      static pthread_key_t key;
      static void late(void* block) {
        free(block);
        static __thread int rounds;
        if (++rounds < 4) pthread_setspecific(key, malloc(4321));
      }
      static void* allocate(void* unused) {
        pthread_setspecific(key, malloc(8765));
        return unused;
      }
    """
    body = """
      pthread_key_create(&key, late);
      for (int i = 0; i < 2000; ++i) {
        pthread_t other;
        CHECK(pthread_create(&other, NULL, allocate, NULL) == 0);
        pthread_join(other, NULL);
      }
    """

    table = trace(tmp_path, body, declarations=declarations).capture.allocations

    assert (table.bytes == 8765).sum() == 2000


def test_what_the_last_destructors_of_a_thread_free_is_recorded(tmp_path: Path) -> None:
    declarations = r"""
      static pthread_key_t key;
      static __thread int rounds;
      static void free_in_the_last_round(void* block) {
        if (++rounds < PTHREAD_DESTRUCTOR_ITERATIONS) pthread_setspecific(key, block);
        else free(block);
      }
      static void* leave(void* nothing) {
        uint64_t work = begin("work");
        pthread_setspecific(key, malloc(5000));
        end(work);
        return nothing;
      }
    """
    body = r"""
      CHECK(pthread_key_create(&key, free_in_the_last_round) == 0);
      pthread_t thread;
      CHECK(pthread_create(&thread, NULL, leave, NULL) == 0);
      pthread_join(thread, NULL);
    """
    declarations = "#include <limits.h>\n" + declarations

    assert rows_in(trace(tmp_path, body, declarations=declarations).capture, "work") == [Row("malloc", 5000, True)]


def test_what_the_c_library_frees_after_all_destructors_of_a_thread_is_recorded(tmp_path: Path) -> None:
    """glibc keeps up to 40 MiB of stacks; a detached thread that ends frees what belonged to those beyond."""
    declarations = r"""
      #include <dirent.h>
      static pthread_barrier_t all_run;
      static void* leave(void* nothing) {
        free(malloc(100));
        pthread_barrier_wait(&all_run);
        return nothing;
      }
      static int threads(void) {
        int count = 0;
        DIR* folder = opendir("/proc/self/task");
        CHECK(folder != NULL);
        while (readdir(folder) != NULL) ++count;
        closedir(folder);
        return count;
      }
    """
    body = r"""
      const int before = threads();
      pthread_barrier_init(&all_run, NULL, 17);
      pthread_attr_t detached;
      pthread_attr_init(&detached);
      pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
      pthread_attr_setstacksize(&detached, 8 << 20);
      for (int i = 0; i < 16; ++i) {
        pthread_t thread;
        CHECK(pthread_create(&thread, &detached, leave, NULL) == 0);
      }
      pthread_barrier_wait(&all_run);
      while (threads() > before) usleep(1000);
      for (size_t bytes = 100; bytes < 1000; ++bytes) CHECK(malloc(bytes) != NULL);  // their memory, among others
    """

    table = trace(tmp_path, body, options="threshold=1", declarations=declarations).capture.allocations

    of_threads = (table.call == AllocationCall.CALLOC) & (table.thread == 0)
    if of_threads.sum() < 16:
        pytest.skip("this system's C library takes the memory of a thread from elsewhere")
    assert (table.free_thread[of_threads] > 0).any()
    assert not ((table.free_time_ns >= 0) & (table.free_thread < 0)).any()
