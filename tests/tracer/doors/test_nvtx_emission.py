"""profkit's own ranges reach other NVTX tools exactly once, and never take that way when our library is the tool."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from profkit import _core
from profkit.capture.reading import read
from profkit.capture.schema import PayloadType, RangeKind, Source
from tests.support.processes import finish
from tests.tracer.programs import LIBRARY, Row, compile_c, environment, nvtx_headers, rows, trace_python

# A tool that writes every call of a domain into a file, one line each. Handles are numbers of names.
TOOL = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include "tracer/doors/nvtx_abi.h"
using namespace profkit::tracer::nvtx;

static std::mutex mutex;
static char names[1000][64];
static size_t name_count = 0;
static uint64_t last_id = 0;

static FILE* log() {
  static FILE* file = std::fopen(std::getenv("FAKE_TOOL_LOG"), "a");
  return file;
}
static size_t remember(const char* name) {
  std::snprintf(names[++name_count], sizeof(names[0]), "%s", name);
  return name_count;
}
static const char* name_of(const void* handle) { return names[reinterpret_cast<size_t>(handle)]; }
static void say(const char* what, DomainHandle* domain, const EventAttributes* event) {
  const std::lock_guard<std::mutex> lock(mutex);
  std::fprintf(log(), "%s %s", what, name_of(domain));
  if (event != nullptr) {
    std::fprintf(log(), ":%s category %u payload %d %llx", name_of(event->message.registered), event->category,
                 event->payload_type, static_cast<unsigned long long>(event->payload));
  }
  std::fprintf(log(), "\n");
  std::fflush(log());
}
static void mark(DomainHandle* d, const EventAttributes* e) { say("mark", d, e); }
static uint64_t start(DomainHandle* d, const EventAttributes* e) { say("start", d, e); return ++last_id; }
static void end(DomainHandle* d, uint64_t) { say("end", d, nullptr); }
static int push(DomainHandle* d, const EventAttributes* e) { say("push", d, e); return 0; }
static int pop(DomainHandle* d) { say("pop", d, nullptr); return 0; }
static StringHandle* register_string(DomainHandle*, const char* text) {
  return reinterpret_cast<StringHandle*>(remember(text));
}
static DomainHandle* create(const char* name) { return reinterpret_cast<DomainHandle*>(remember(name)); }

extern "C" int InitializeInjectionNvtx2(GetExportTable get) {
  auto callbacks = static_cast<const ExportedCallbacks*>(get(kExportCallbacks));
  Function** table;
  unsigned int size;
  if (!callbacks->module_table(Module::core2, &table, &size)) return 0;
  *table[kDomainMarkEx] = reinterpret_cast<Function>(mark);
  *table[kDomainRangeStartEx] = reinterpret_cast<Function>(start);
  *table[kDomainRangeEnd] = reinterpret_cast<Function>(end);
  *table[kDomainRangePushEx] = reinterpret_cast<Function>(push);
  *table[kDomainRangePop] = reinterpret_cast<Function>(pop);
  *table[kDomainRegisterStringA] = reinterpret_cast<Function>(register_string);
  *table[kDomainCreateA] = reinterpret_cast<Function>(create);
  return 1;
}
"""

WORK = """
import profkit
scope = profkit.scope("work", payload=3, category="phase")
for _ in range(2):
    with scope:
        with profkit.scope("inner", payload=0.5):
            profkit.mark("mark")
"""

KERNEL = """
import numpy as np
from profkit import _core
from profkit.ops.softmax import Softmax

spec = Softmax()
output = np.empty(spec.output_shape(), spec.numpy_dtype)
for key in _core.kernels("softmax"):
    _core.run(key, spec.params(), list(spec.make_inputs().values()), output, None, 1)
"""


@pytest.fixture(scope="module")
def other_tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that is an NVTX tool, but not ours; without the headers profkit cannot send to it."""
    nvtx_headers()
    folder = tmp_path_factory.mktemp("tool")
    return compile_c(folder, TOOL, "-shared", "-fPIC", "-std=c++17", name="libtool.so", suffix=".cpp")


def heard_by(tool: Path, folder: Path, text: str, **variables: str) -> list[str]:
    """The lines that the tool wrote while Python ran the text."""
    log = folder / "heard.txt"
    doors = {"NVTX_INJECTION64_PATH": str(tool), "FAKE_TOOL_LOG": str(log)}
    command = [sys.executable, "-c", text]
    subprocess.run(command, env=environment(None, **(doors | variables)), timeout=120, check=True)
    return log.read_text().splitlines() if log.exists() else []


def test_another_tool_hears_every_scope_and_mark_once_in_the_domain_profkit(other_tool: Path, tmp_path: Path) -> None:
    heard = heard_by(other_tool, tmp_path, WORK)

    round_trip = [
        "push profkit:work category 1 payload 2 3",
        "push profkit:inner category 0 payload 3 3fe0000000000000",
        "mark profkit:mark category 0 payload 0 0",
        "pop profkit",
        "pop profkit",
    ]
    assert heard == round_trip * 2


def test_another_tool_hears_coroutines_as_ranges_with_start_and_end(other_tool: Path, tmp_path: Path) -> None:
    text = """
import asyncio
import profkit

@profkit.scope("coroutine")
async def work():
    await asyncio.sleep(0)

async def both():
    await asyncio.gather(work(), work())

asyncio.run(both())
"""

    heard = heard_by(other_tool, tmp_path, text)

    started = "start profkit:coroutine category 0 payload 0 0"
    assert heard == [started, started, "end profkit", "end profkit"]


def test_another_tool_hears_the_native_kernels(other_tool: Path, tmp_path: Path) -> None:
    heard = heard_by(other_tool, tmp_path, KERNEL)

    keys = _core.kernels("softmax")
    pushes = [line.split()[1] for line in heard if line.startswith("push")]
    assert pushes == [f"profkit:{key}" for key in keys]
    assert heard.count("pop profkit") == len(keys)


def test_a_capture_beside_another_tool_has_every_scope_once_as_well(other_tool: Path, tmp_path: Path) -> None:
    capture_file = tmp_path / "run.profkit"
    text = f"import profkit\nwith profkit.record({str(capture_file)!r}):\n" + "".join(
        f"    {line}\n" for line in WORK.splitlines()
    )

    heard = heard_by(other_tool, tmp_path, text)

    assert len(heard) == 10
    assert len(rows(read(str(capture_file)), Source.PROFKIT)) == 6


def test_with_our_library_as_the_tool_every_scope_is_recorded_once_and_not_through_nvtx(tmp_path: Path) -> None:
    capture = trace_python(tmp_path, WORK).capture

    work = Row(RangeKind.RANGE, "work", None, "phase", 0, PayloadType.INT64, 3)
    inner = Row(RangeKind.RANGE, "inner", "work", None, 0, PayloadType.FLOAT64, 0.5)
    assert rows(capture, Source.PROFKIT) == [work, inner, Row(RangeKind.MARK, "mark", "inner")] * 2
    assert rows(capture, Source.NVTX) == []


def test_a_copy_of_our_library_is_ours_too(tmp_path: Path) -> None:
    copy = tmp_path / "libcopy.so"
    text = "from profkit import _core\nprint(_core.tracer_state()['other_nvtx_tool'])"
    shutil.copy(LIBRARY, copy)
    variables = environment(None, NVTX_INJECTION64_PATH=str(copy))

    done = subprocess.run(
        [sys.executable, "-c", text], env=variables, capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "False\n"


def test_nsight_systems_records_our_ranges(tmp_path: Path) -> None:
    nsys = shutil.which("nsys")
    if nsys is None:
        pytest.skip("Nsight Systems (nsys) is not on this machine")
    nvtx_headers()
    report = tmp_path / "report"
    command = [nsys, "profile", "--trace=nvtx", "--sample=none", "--cpuctxsw=none", "-o", str(report)]
    done = finish([*command, sys.executable, "-c", WORK])
    found = next(tmp_path.glob("report.*rep"), None)
    if found is None and list(tmp_path.glob("report.qdstrm")):
        pytest.skip("nsys is here without its importer: it leaves a .qdstrm")
    assert done.returncode == 0 and found is not None, done.stdout + done.stderr
    exported = tmp_path / "report.json"
    subprocess.run([nsys, "export", "--type=json", "-o", str(exported), str(found)], timeout=200, check=True)

    text = exported.read_text()
    assert "inner" in text
    assert "profkit" in text
