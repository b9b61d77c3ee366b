"""C++ programs for the tests of the ITT door. The client below does what the code compiled into ITT programs does: it
finds the collector by its variable and hands over the list of its function pointers.
"""

from __future__ import annotations

from pathlib import Path

from profkit.capture.schema import Source
from tests.tracer.programs import Row, Run, compile_c, rows, trace

PRELUDE = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include "tracer/doors/itt_abi.h"
using namespace profkit::tracer::itt;

static int unknown_calls = 0;
static void do_nothing() { ++unknown_calls; }
#define FUNCTION(type, name, ...) static type (*name)(__VA_ARGS__) = reinterpret_cast<type (*)(__VA_ARGS__)>(do_nothing)
FUNCTION(Domain*, domain_create, const char*);
FUNCTION(Domain*, domain_createW, const wchar_t*);
FUNCTION(StringHandle*, string_handle_create, const char*);
FUNCTION(StringHandle*, string_handle_createW, const wchar_t*);
FUNCTION(void, thread_set_name, const char*);
FUNCTION(void, task_begin, const Domain*, Id, Id, StringHandle*);
FUNCTION(void, task_begin_fn, const Domain*, Id, Id, void*);
FUNCTION(void, task_end, const Domain*);
FUNCTION(void, task_begin_overlapped, const Domain*, Id, Id, StringHandle*);
FUNCTION(void, task_end_overlapped, const Domain*, Id);
FUNCTION(void, marker, const Domain*, Id, StringHandle*, int);
FUNCTION(void, frame_begin_v3, const Domain*, Id*);
FUNCTION(void, frame_end_v3, const Domain*, Id*);
FUNCTION(Event, event_create, const char*, int);
FUNCTION(Event, event_createW, const wchar_t*, int);
FUNCTION(int, event_start, Event);
FUNCTION(int, event_end, Event);
FUNCTION(void, counter_inc, void*);

#define ENTRY(name) {"__itt_" #name, reinterpret_cast<void**>(&name), nullptr, nullptr, 1 << 12}
static ApiEntry api[] = {
    ENTRY(domain_create), ENTRY(domain_createW), ENTRY(string_handle_create), ENTRY(string_handle_createW),
    ENTRY(thread_set_name), ENTRY(task_begin), ENTRY(task_begin_fn), ENTRY(task_end), ENTRY(task_begin_overlapped),
    ENTRY(task_end_overlapped), ENTRY(marker), ENTRY(frame_begin_v3), ENTRY(frame_end_v3), ENTRY(event_create),
    ENTRY(event_createW), ENTRY(event_start), ENTRY(event_end), ENTRY(counter_inc),
    {nullptr, nullptr, nullptr, nullptr, 0}};
static Global global{};

static void find_collector(int groups = -1, unsigned long version = 3) {
  void* library = dlopen(std::getenv("INTEL_LIBITTNOTIFY64"), RTLD_LAZY);
  auto init = reinterpret_cast<void (*)(Global*, int)>(dlsym(library, "__itt_api_init"));
  for (int i = 0; i < 8; ++i) global.magic[i] = kMagic[i];
  global.version_major = version;
  global.api = api;
  init(&global, groups);
}
static const Id none{0, 0, 0};
"""


def compile_itt(folder: Path, body: str) -> Path:
    text = f"{PRELUDE}\nint main() {{\n{body}\nreturn 0;\n}}\n"
    return compile_c(folder, text, "-std=c++17", "-Wno-unused", suffix=".cpp")


def trace_itt(folder: Path, body: str) -> Run:
    return trace(folder, [compile_itt(folder, f"find_collector();\n{body}")])


def itt_rows(run: Run) -> list[Row]:
    return rows(run.capture, Source.ITT)
