"""Candidates written to win: each is a kernel of `matmul` that pretends, in one way.

HONEST comes first in each file; `prepare` follows.
"""

from __future__ import annotations

HONEST = """
import ctypes, gc, json, os, sys, threading, time, zlib
import numpy as np

def product(a, b):
    return a @ b

def slow_product(a, b):
    end = time.process_time() + 0.01
    while time.process_time() < end:
        pass
    return a @ b
"""

COMPUTED_AHEAD = """
def prepare(spec, a, b, *, threads):
    out = product(a, b)
    out.flags.writeable = False
    return lambda: out
"""

COPIED_FROM_A_CACHE = """
kept = {}
def matmul(spec, a, b):
    key = a.ctypes.data, b.ctypes.data
    if key not in kept:
        kept[key] = product(a, b)
    return kept[key].copy()
"""

COMPUTED_WHEN_SPOILT = """
kept = []
def matmul(spec, a, b):
    if not kept:
        kept.append(product(a, b))
    if np.isnan(kept[0]).any():
        np.matmul(a, b, out=kept[0])
    return kept[0]
"""

OWN_COPY_OF_THE_INPUTS = """
def prepare(spec, a, b, *, threads):
    a, b = a.copy(), b.copy()
    return lambda: product(a, b)
"""

HASHES_A_FEW_ELEMENTS = """
kept = {}
def matmul(spec, a, b):
    key = a[::7, ::5].tobytes()
    if key not in kept:
        kept.clear()
        kept[key] = product(a, b)
    return kept[key].copy()
"""

COMPUTES_AFTER_A_PAUSE = """
kept, last = [], [0.0]
def matmul(spec, a, b):
    if time.perf_counter() - last[0] > 1e-4 or not kept:
        kept[:] = [product(a, b)]
    last[0] = time.perf_counter()
    return kept[0].copy()
"""

OVERWRITES_ITS_INPUTS = """
def matmul(spec, a, b):
    out = product(a, b)
    b[-1, -1] += 0
    b[0, 0] = b[0, 0] + np.float32(1e-6)
    return out
"""

RETURNS_BEFORE_THE_WORK_IS_DONE = """
kept = []
def matmul(spec, a, b):
    out = np.empty(spec.output_shape(), spec.numpy_dtype)
    def work():
        time.sleep(0.0005)
        out[...] = a @ b
    if len(kept) < 4:
        kept.append(0)
        work()
    else:
        threading.Thread(target=work).start()
    return out
"""

CHANGES_WHAT_IS_CALLED = """
class Call:
    def __init__(self, a, b):
        self.a, self.b, self.calls = a, b, 0
    def __call__(self):
        self.calls += 1
        self.out = product(self.a, self.b)
        if self.calls > 3:
            Call.__call__ = lambda self: self.out.copy()
        return self.out
def prepare(spec, a, b, *, threads):
    return Call(a, b)
"""

FUTURES = """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)
def matmul(spec, a, b):
    return pool.submit(product, a, b)
"""

LISTS = """
def matmul(spec, a, b):
    return product(a, b).tolist()
"""

CLOCK_THAT_STANDS = """
time.perf_counter_ns = time.monotonic_ns = time.time_ns = time.process_time_ns = lambda: 0
time.perf_counter = time.monotonic = lambda: 0.0
def matmul(spec, a, b):
    return product(a, b)
"""

PATCHES_ALL_THAT_WRITES_OR_COMPARES = """
import profkit.measurement.workers.operator as operator
import profkit.measurement.workers.protocol as protocol
import profkit._core as core

first = []

def matmul(spec, a, b):
    first.append(0)
    return product(a, b) if len(first) < 3 else np.zeros(spec.output_shape(), spec.numpy_dtype)

def right(*arguments, **named):
    return {}

for name in [name for name in vars(operator.Worker) if name.startswith("do_") and name != "do_prepare"]:
    setattr(operator.Worker, name, right)
protocol.send = protocol.receive = right
np.save = np.asarray = np.array_equal = np.isnan = right
os.write = os.pwrite = right
json.dumps = lambda *arguments, **named: "{}"
json.dump = right
core.serve_calls = right
gc.freeze = gc.collect = right
"""

WRITES_REPLIES = """
import fcntl, stat

def matmul(spec, a, b):
    return product(a, b)

def is_pipe(fd):
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode) and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_WRONLY
    except OSError:
        return False

def forge():
    while True:
        time.sleep(0.01)
        for fd in filter(is_pipe, range(3, 512)):
            os.write(fd, b'{"number": 3, "samples_ns": [1.0, 1.0], "spent_ns": 1} 0123456789abcdef\\n')

threading.Thread(target=forge, daemon=True).start()
"""

TAKES_REQUESTS = """
import fcntl, stat

def matmul(spec, a, b):
    return product(a, b)

def is_pipe(fd, way):
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode) and (fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE) == way
    except OSError:
        return False

FORGED = b'{"number": %d, "samples_ns": [1.0], "page_faults": 0, "spent_ns": 1} 0123456789abcdef\\n'

def answer(read, write):
    while True:
        line = os.read(read, 1 << 16)
        os.write(write, FORGED % int(line.split(b'"number": ')[1].split(b",")[0]))

writers = [fd for fd in range(3, 512) if is_pipe(fd, os.O_WRONLY)]
for reader in [fd for fd in range(3, 512) if is_pipe(fd, os.O_RDONLY)]:
    for writer in 8 * writers:  # one alone may never be the first to read
        threading.Thread(target=answer, args=(reader, writer), daemon=True).start()
"""

WRITES_THE_RESULT_FILE = """
import glob
calls = []
def matmul(spec, a, b):
    calls.append(0)
    if len(calls) == 3:
        out = (a @ b).tobytes()
        def write():
            while True:
                for path in glob.glob("/dev/shm/profkit-*/result.*") + glob.glob("/tmp/profkit-*/result.*"):
                    if "writes_the_result_file" in path:
                        with open(path, "r+b") as file:
                            file.write(out)
        threading.Thread(target=write, daemon=True).start()
    if len(calls) < 3:
        return product(a, b)
    return np.zeros(spec.output_shape(), spec.numpy_dtype)
"""

# What stays honest, or has a name for what it lives on.
LAZY = """
class Lazy:
    arrays = 0
    def __init__(self, a, b):
        self.inputs = a, b
    def __array__(self, dtype=None, copy=None):
        Lazy.arrays += 1
        return product(*self.inputs)
calls = []
def matmul(spec, a, b):
    calls.append(0)
    if Lazy.arrays < len(calls) - 1:
        return np.zeros(spec.output_shape(), spec.numpy_dtype)
    return Lazy(a, b)
"""

LOOKS_AT_THE_STACK = """
seen = set()
def prepare(spec, a, b, *, threads):
    def call():
        frame, names = sys._getframe(), []
        while frame:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        seen.add(tuple(names))
        return product(a, b) if len(seen) == 1 else np.zeros(spec.output_shape(), spec.numpy_dtype)
    return call
"""

HASHES_EVERYTHING = """
kept = {}
def matmul(spec, a, b):
    key = zlib.crc32(np.ascontiguousarray(a))
    if key not in kept:
        kept.clear()
        kept[key] = slow_product(a, b)
    return kept[key].copy()
"""

HASHES_IN_THE_LOOP_AND_COMPUTES_AFTER_A_PAUSE = """
kept, last = {}, [0.0]
def matmul(spec, a, b):
    paused = time.perf_counter() - last[0] > 2e-5
    key = zlib.crc32(np.ascontiguousarray(a))
    if key not in kept or paused:
        kept.clear()
        kept[key] = slow_product(a, b)
    out = kept[key].copy()
    last[0] = time.perf_counter()
    return out
"""

PACKS_WEIGHTS_AHEAD = """
def prepare(spec, a, b, *, threads):
    b = np.asfortranarray(b)
    return lambda: product(a, b)
"""

GIVES_NO_CALL_TO_NATIVE_CODE = """
import profkit.measurement.workers.operator as operator

def matmul(spec, a, b):
    return product(a, b)

operator.Worker.held = lambda self: None
operator.Worker.is_checked_natively = False
operator.Worker.do_sample = lambda self, **named: {"samples_ns": [1.0], "page_faults": 0}
"""

GIVES_OTHER_INPUTS_TO_NATIVE_CODE = """
import profkit.measurement.workers.operator as operator

really_held = operator.Worker.held

def held(self):
    found = list(really_held(self))
    found[2] = tuple(array.copy() for array in found[2])
    return tuple(found)

operator.Worker.held = held
kept = []
def matmul(spec, a, b):
    if not kept:
        kept.append(product(a, b))
    return kept[0].copy()
"""

RETURNS_AN_EARLIER_RESULT_WHEN_TIMED = """
def prepare(spec, a, b, *, threads):
    kept, last = [], [0.0]
    def call():
        # Of a call that takes so long a turn has one, after the pause in which others have theirs.
        is_first = time.perf_counter() - last[0] > 2e-3
        if not is_first or not kept:
            end = time.process_time() + 0.21
            while time.process_time() < end:
                pass
            kept[:] = [product(a, b)]
        last[0] = time.perf_counter()
        return kept[0].copy()
    return call
"""

HONEST_FOR_A_WHILE_AFTER_A_PAUSE = """
kept, last, begin = {}, [0.0], [0.0]
def matmul(spec, a, b):
    now = time.perf_counter()
    if now - last[0] > 0.1:  # while others have their turns
        begin[0] = now
    key = zlib.crc32(a)
    if now - begin[0] < 0.01 or key not in kept:
        kept.clear()
        end = time.process_time() + 0.001
        while time.process_time() < end:
            pass
        kept[key] = product(a, b)
    out = kept[key].copy()
    last[0] = time.perf_counter()
    return out
"""

COMPUTES_CHANGED_ROWS = """
kept = {}
def matmul(spec, a, b):
    if not kept:
        kept["a"], kept["out"] = a.copy(), slow_product(a, b)
    rows = np.flatnonzero((a != kept["a"]).any(axis=1))
    if len(rows):
        end = time.process_time() + 0.01 * len(rows) / len(a)
        kept["a"][rows] = a[rows]
        kept["out"][rows] = product(a[rows], b)
        while time.process_time() < end:
            pass
    return kept["out"].copy()
"""

HONEST_AFTER_PAUSES_AND_AFTER_CHANGES = """
kept, last, begin, is_warned = {}, [0.0], [0.0], [False]
def matmul(spec, a, b):
    now = time.perf_counter()
    if now - last[0] > 5e-5:
        begin[0], is_warned[0] = now, False
    key = zlib.crc32(a)
    is_warned[0] |= key not in kept
    if is_warned[0] or now - begin[0] < 0.005:
        kept.clear()
        kept[key] = slow_product(a, b)
    out = kept[key].copy()
    last[0] = time.perf_counter()
    return out
"""

HONEST_IN_SOME_TURNS = """
import random
kept, last, is_honest = {}, [0.0], [True]
def matmul(spec, a, b):
    if time.perf_counter() - last[0] > 0.005:
        is_honest[0] = random.random() < 0.5
    key = zlib.crc32(a)
    if is_honest[0] or key not in kept:
        kept.clear()
        kept[key] = slow_product(a, b)
    out = kept[key].copy()
    last[0] = time.perf_counter()
    return out
"""

RETURNS_AN_EARLIER_RESULT_SOMETIMES = """
import random
kept = []
def matmul(spec, a, b):
    if not kept or random.random() < 0.7:
        kept[:] = [slow_product(a, b)]
    return kept[0].copy()
"""

SHARES_ONE_PLACE = """
def matmul(spec, a, b):
    return np.broadcast_to(product(a, b)[:1], spec.output_shape())
"""

IS_ITS_INPUT = """
def matmul(spec, a, b):
    return a[:, : spec.n]
"""

# Not its own fault, as far as profkit can tell: the disk may be full.
HAS_NO_ROOM_FOR_FILES = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
def matmul(spec, a, b):
    return product(a, b)
"""

WRITES_TWO_OUTPUTS_IN_TURNS = """
def prepare(spec, a, b, *, threads):
    outs, number = [np.empty(spec.output_shape(), spec.numpy_dtype) for _ in range(2)], [0]
    def call():
        number[0] ^= 1
        return np.matmul(a, b, out=outs[number[0]])
    return call
"""

# Of its own run only: a worker's parent is its supervisor, whose parent is the run.
CHANGES_THE_FILES_OF_OTHERS = """
import glob
run = int(open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1])
for path in [path for place in ("/dev/shm", "/tmp") for path in glob.glob(f"{place}/profkit-{run}-*/input.*.npy")]:
    with open(path, "r+b") as file:
        file.seek(4000)
        file.write(b"changed" * 1000)
def matmul(spec, a, b):
    return product(a, b)
"""

# Honest, in ways that few kernels have.
COMPUTES_IN_A_POOL_OF_ITS_OWN = """
from concurrent.futures import ThreadPoolExecutor
def prepare(spec, a, b, *, threads):
    pool, half = ThreadPoolExecutor(threads), len(a) // 2
    def call():
        out = np.empty(spec.output_shape(), spec.numpy_dtype)
        parts = (slice(0, half), slice(half, len(a)))
        for job in [pool.submit(np.matmul, a[part], b, out[part]) for part in parts]:
            job.result()
        return out
    return call
"""

GIVES_A_TRANSPOSED_RESULT = """
def matmul(spec, a, b):
    return (b.T @ a.T).T
"""

WRITES_EVERY_SECOND_ELEMENT = """
def prepare(spec, a, b, *, threads):
    out = np.empty((2 * spec.m, 2 * spec.n), spec.numpy_dtype)[::2, ::-2]
    def call():
        out[...] = product(a, b)
        return out
    return call
"""

GIVES_A_MEMORYVIEW = """
def matmul(spec, a, b):
    return memoryview(product(a, b))
"""

IS_SLOW_AT_FIRST_AND_ALLOCATES_MUCH = """
def prepare(spec, a, b, *, threads):
    calls = []
    def call():
        if not calls:
            time.sleep(1.0)
            calls.append(0)
        rows = [np.ones(1 << 18) for _ in range(4)]
        return product(a, b)
    return call
"""

PRINTS = """
def matmul(spec, a, b):
    print("a line on every call")
    sys.stderr.write("and another\\n")
    return product(a, b)
"""

# Other tests compile without optimisation.
COMPILED_BY_NUMBA = """
import os
os.environ.pop("NUMBA_OPT", None)
import numba
@numba.njit(fastmath=True)
def fill(a, b, out):
    for i in range(a.shape[0]):
        out[i] = 0
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                out[i, j] += a[i, k] * b[k, j]
def matmul(spec, a, b):
    out = np.empty(spec.output_shape(), spec.numpy_dtype)
    fill(a, b, out)
    return out
"""

REMEMBERS_A_SMALL_CONVOLUTION = """
kept = {}
def conv2d(spec, x, w):
    if not kept or not np.array_equal(kept["x"], x):
        end = time.process_time() + 3e-4
        kept["x"] = x.copy()
        kept["out"] = np.maximum(spec.reference({"x": x, "w": w}), -np.inf).astype(x.dtype)
        while time.process_time() < end:
            pass
    return kept["out"].copy()
"""

# In C: its candidates are called by the same native code.
PRODUCT_IN_C = """
#define _GNU_SOURCE
#include <profkit/params.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void product(const profkit_matmul_params* p, const float* a, const float* b, float* c, int64_t first,
                    int64_t last) {
  for (int64_t i = first; i < last; ++i) {
    float* row = c + i * p->n;
    for (int64_t j = 0; j < p->n; ++j) row[j] = 0;
    for (int64_t k = 0; k < p->k; ++k)
      for (int64_t j = 0; j < p->n; ++j) row[j] += a[i * p->k + k] * b[k * p->n + j];
  }
}
"""

TOLD_OF_WRITES_IN_C = """
#include <signal.h>
#include <sys/mman.h>

static volatile int is_changed;
static char* from;
static size_t size;
static float* kept;

static void note(int number, siginfo_t* about, void* context) {
  (void)number, (void)about, (void)context;
  mprotect(from, size, PROT_READ | PROT_WRITE);
  is_changed = 1;
}

int candidate(const profkit_matmul_params* p, const void* const* in, void* out, int threads) {
  const size_t bytes = sizeof(float) * p->m * p->n;
  (void)threads;
  if (from != (char*)in[0]) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = note;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
    from = (char*)in[0];
    size = (sizeof(float) * p->m * p->k) & ~(size_t)4095;
    kept = realloc(kept, bytes);
    is_changed = 1;
  }
  if (is_changed) {
    product(p, in[0], in[1], kept, 0, p->m);
    is_changed = 0;
    mprotect(from, size, PROT_READ);
  }
  memcpy(out, kept, bytes);
  return 0;
}
"""

# The kernel tells a thread when somebody reads the output; only its ends, which share pages with others, are written.
FILLS_ITS_OUTPUT_WHEN_READ_IN_C = """
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kPage = 4096, kEndRows = 8, kOutputs = 16 };
static int faults = -1, outputs;
static profkit_matmul_params params;
static float* a;
static const float* b;
static char* result;
static struct {
  char* from;
  size_t size, before;
} known[kOutputs];

static void* fill(void* unused) {
  (void)unused;
  for (;;) {
    struct pollfd wanted = {faults, POLLIN, 0};
    struct uffd_msg message;
    poll(&wanted, 1, -1);
    if (read(faults, &message, sizeof message) <= 0 || message.event != UFFD_EVENT_PAGEFAULT) continue;
    product(&params, a, b, (float*)result, 0, params.m);
    for (int i = 0; i < outputs; ++i) {
      const size_t at = message.arg.pagefault.address - (uintptr_t)known[i].from;
      if (at >= known[i].size) continue;
      const uintptr_t from = (uintptr_t)result + known[i].before;
      for (size_t page = 0; page < known[i].size; page += kPage) {
        struct uffdio_copy copy = {(uintptr_t)known[i].from + page, from + page, kPage, 0, 0};
        ioctl(faults, UFFDIO_COPY, &copy);
      }
      struct uffdio_range all = {(uintptr_t)known[i].from, known[i].size};
      ioctl(faults, UFFDIO_WAKE, &all);
    }
  }
  return NULL;
}

int candidate(const profkit_matmul_params* p, const void* const* in, void* out, int threads) {
  const size_t bytes = sizeof(float) * p->m * p->n;
  char* first = (char*)(((uintptr_t)out + kPage - 1) & ~(uintptr_t)(kPage - 1));
  const size_t whole = ((char*)out + bytes - first) & ~(size_t)(kPage - 1);
  int number = 0;
  (void)threads;
  if (faults < 0) {
    struct uffdio_api api = {UFFD_API, 0, 0};
    pthread_t thread;
    faults = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0) return 1;
    /* As far from the beginning of a page as the output, so that its pages are whole ones here, too. */
    result = (char*)aligned_alloc(kPage, bytes + 2 * kPage) + ((uintptr_t)out & (kPage - 1));
    a = malloc(sizeof(float) * p->m * p->k);
    pthread_create(&thread, NULL, fill, NULL);
  }
  while (number < outputs && known[number].from != first) ++number;
  if (number == outputs) {
    if (outputs == kOutputs) return 2;
    known[outputs].from = first;
    known[outputs].size = whole;
    known[outputs++].before = first - (char*)out;
  }
  /* In every call: memory that was freed and taken again is not registered. */
  struct uffdio_register new = {{(uintptr_t)first, whole}, UFFDIO_REGISTER_MODE_MISSING, 0};
  if (ioctl(faults, UFFDIO_REGISTER, &new) != 0) return 3;
  params = *p;
  memcpy(a, in[0], sizeof(float) * p->m * p->k);
  b = in[1];
  product(p, a, b, out, 0, kEndRows);
  product(p, a, b, out, p->m - kEndRows, p->m);
  madvise(first, whole, MADV_DONTNEED);
  return 0;
}
"""

HALF_ON_ANOTHER_CORE_IN_C = """
#include <sched.h>

static struct {
  const profkit_matmul_params* p;
  const float *a, *b;
  float* c;
} job;
static volatile int is_wanted, is_done;

static int help(void* unused) {
  (void)unused;
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int i = 0; i < 64; ++i) CPU_SET(i, &all);
  sched_setaffinity(0, sizeof all, &all);
  for (;;) {
    while (!is_wanted) continue;
    is_wanted = 0;
    product(job.p, job.a, job.b, job.c, job.p->m / 2, job.p->m);
    __sync_synchronize();
    is_done = 1;
  }
  return 0;
}

int candidate(const profkit_matmul_params* p, const void* const* in, void* out, int threads) {
  static char* stack;
  (void)threads;
  if (stack == NULL) {
    stack = malloc(1 << 20);
    clone(help, stack + (1 << 20), CLONE_VM | CLONE_FILES, NULL);
  }
  job.p = p;
  job.a = in[0];
  job.b = in[1];
  job.c = out;
  is_done = 0;
  __sync_synchronize();
  is_wanted = 1;
  product(p, in[0], in[1], out, 0, p->m / 2);
  while (!is_done) continue;
  return 0;
}
"""

CACHED_BY_ADDRESS_IN_C = """
static float* kept;
static const void* of;

int candidate(const profkit_matmul_params* p, const void* const* in, void* out, int threads) {
  const size_t bytes = sizeof(float) * p->m * p->n;
  (void)threads;
  if (of != in[0]) {
    kept = realloc(kept, bytes);
    product(p, in[0], in[1], kept, 0, p->m);
    of = in[0];
  }
  memcpy(out, kept, bytes);
  return 0;
}
"""

ZEROS = """
def matmul(spec, a, b):
    return np.zeros(spec.output_shape(), spec.numpy_dtype)
"""

HALF_PRECISION = """
def matmul(spec, a, b):
    return a.astype(np.float16).astype(np.float32) @ b.astype(np.float16).astype(np.float32)
"""

BFLOAT16_LIKE = """
def rounded(array):
    return (array.view(np.uint32) & 0xFFFF0000).view(np.float32)

def matmul(spec, a, b):
    return rounded(a) @ rounded(b)
"""

ARRAY_WITH_CODE = """
class Lazy(np.ndarray):
    def __array__(self, dtype=None, copy=None):
        return product(*self.inputs)
    def tobytes(self, *order):
        return product(*self.inputs).tobytes()

def matmul(spec, a, b):
    out = np.empty(spec.output_shape(), spec.numpy_dtype).view(Lazy)
    out.inputs = a, b
    return out
"""

RELAYS_REPLIES = """
import fcntl, stat

def is_pipe(fd):
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode) and (fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE) == os.O_WRONLY
    except OSError:
        return False

def relay(read, write):
    while True:
        line = os.read(read, 1 << 16)
        os.write(write, line.replace(b'"samples_ns": [', b'"samples_ns": [1.0, '))

def matmul(spec, a, b):
    return product(a, b)

for fd in filter(is_pipe, range(3, 512)):
    own, (read, write) = os.dup(fd), os.pipe()
    os.dup2(write, fd)
    threading.Thread(target=relay, args=(read, own), daemon=True).start()
"""
