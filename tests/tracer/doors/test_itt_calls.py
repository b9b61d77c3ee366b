"""The ITT door, call by call. The client below does what the code compiled into ITT programs does: it finds the
collector by its variable and hands over the list of its function pointers.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from profkit.capture.schema import RangeKind, Source
from tests.tracer.programs import LIBRARY, Row, Run, compile_c, environment, rows, trace

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


def test_tasks_nest_within_their_domain_and_markers_lie_inside(tmp_path: Path) -> None:
    body = """
      Domain* a = domain_create("a");
      Domain* b = domain_createW(L"b \\u2192");
      task_begin(a, none, none, string_handle_create("outer"));
      task_begin(b, none, none, string_handle_createW(L"w\\u00EFde"));
      marker(b, none, string_handle_create("mark"), 3);
      task_end(b);
      task_end(a);
      task_end(a);
    """

    run = trace_itt(tmp_path, body)

    assert itt_rows(run) == [
        Row(RangeKind.RANGE, "a:outer"),
        Row(RangeKind.RANGE, "b →:wïde", "a:outer"),
        Row(RangeKind.MARK, "b →:mark", "b →:wïde"),
    ]
    assert run.capture.threads.unbalanced_pops.sum() == 1


def test_names_give_one_handle_each_that_shows_its_text(tmp_path: Path) -> None:
    body = """
      char text[] = "same";
      StringHandle* first = string_handle_create("same");
      StringHandle* second = string_handle_create(text);
      Domain* domain = domain_create("domain");
      std::printf("%d %s %d %s %d", first == second, first->text, domain == domain_create("domain"), domain->name,
                  domain->flags != 0);
    """

    run = trace_itt(tmp_path, body)

    assert run.output == "1 same 1 domain 1"


def test_handles_made_before_the_collector_was_found_are_understood(tmp_path: Path) -> None:
    body = """
      Domain domain{1, "early", nullptr, 0, nullptr, nullptr};
      StringHandle narrow{"narrow", nullptr, 0, nullptr, nullptr};
      StringHandle wide{nullptr, L"wide", 0, nullptr, nullptr};
      task_begin(&domain, none, none, &narrow);
      task_begin(&domain, none, none, &wide);
      task_begin(&domain, none, none, nullptr);
      for (int i = 0; i < 3; ++i) task_end(&domain);
    """

    run = trace_itt(tmp_path, body)

    assert [row.title for row in itt_rows(run)] == ["early:narrow", "early:wide", "early:(unnamed)"]


def test_overlapped_tasks_frames_and_events_are_spans_that_may_end_elsewhere(tmp_path: Path) -> None:
    body = """
      Domain* d = domain_create("d");
      const Id one{1, 2, 3}, two{1, 2, 4};
      task_begin_overlapped(d, one, none, string_handle_create("one"));
      task_begin_overlapped(d, two, none, string_handle_create("two"));
      std::thread([&] { task_end_overlapped(d, one); }).join();
      task_end_overlapped(d, two);
      task_end_overlapped(d, two);
      Id frame{7, 0, 0};
      frame_begin_v3(d, nullptr);
      frame_begin_v3(d, &frame);
      frame_end_v3(d, nullptr);
      frame_end_v3(d, &frame);
      Event event = event_create("event and more", 5);
      Event wide = event_createW(L"wide", 4);
      std::printf("%d", event_start(event));
      std::printf("%d", event_start(wide));
      std::printf("%d", event_end(event));
    """

    run = trace_itt(tmp_path, body)

    assert run.output == "000"
    assert [row.title for row in itt_rows(run)] == ["d:one", "d:two", "d:frame", "d:frame", "event", "wide"]
    assert all(row.kind == RangeKind.SPAN for row in itt_rows(run))
    table = run.capture.ranges
    assert table.is_open.tolist() == [False] * 5 + [True]
    assert (table.thread != table.end_thread).tolist() == [True] + [False] * 5


def test_an_id_may_be_used_again_once_its_task_has_ended(tmp_path: Path) -> None:
    body = """
      Domain* d = domain_create("d");
      for (int i = 0; i < 10000; ++i) {
        const Id id{static_cast<unsigned long long>(i % 5), 0, 0};
        task_begin_overlapped(d, id, none, string_handle_create("task"));
        task_end_overlapped(d, id);
      }
    """

    run = trace_itt(tmp_path, body)

    assert len(itt_rows(run)) == 10000
    assert not run.capture.ranges.is_open.any()


def test_a_task_begun_with_a_function_is_closed_by_its_own_end(tmp_path: Path) -> None:
    body = """
      Domain* d = domain_create("d");
      task_begin(d, none, none, string_handle_create("outer"));
      task_begin_fn(d, none, none, reinterpret_cast<void*>(0x1234));
      task_end(d);
      marker(d, none, string_handle_create("after"), 3);
      task_end(d);
    """

    run = trace_itt(tmp_path, body)

    assert itt_rows(run) == [
        Row(RangeKind.RANGE, "d:outer"),
        Row(RangeKind.RANGE, "d:function 0x1234", "d:outer"),
        Row(RangeKind.MARK, "d:after", "d:outer"),
    ]


def test_many_threads_with_many_new_names_lose_none_and_agree_on_handles(tmp_path: Path) -> None:
    body = """
      Domain* d = domain_create("d");
      static StringHandle* handles[4][2000];
      std::thread threads[4];
      for (int t = 0; t < 4; ++t) {
        threads[t] = std::thread([=] {
          for (int i = 0; i < 2000; ++i) {
            char text[32];
            std::snprintf(text, sizeof(text), "name %d", i);
            handles[t][i] = string_handle_create(text);
            task_begin(d, none, none, handles[t][i]);
            task_end(d);
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      int differences = 0;
      for (int t = 1; t < 4; ++t) for (int i = 0; i < 2000; ++i) differences += handles[t][i] != handles[0][i];
      std::printf("%d", differences);
    """

    run = trace_itt(tmp_path, body)

    assert run.output == "0"
    titles = sorted(row.title for row in itt_rows(run))
    assert titles == sorted([f"d:name {i}" for i in range(2000)] * 4)


def test_a_thread_named_through_itt_has_its_name_in_the_capture(tmp_path: Path) -> None:
    capture = trace_itt(tmp_path, 'thread_set_name("worker of itt"); task_end(domain_create("d"));').capture

    assert "worker of itt" in [capture.strings[name] for name in capture.threads.name]


def test_calls_that_are_not_recorded_stay_with_the_program(tmp_path: Path) -> None:
    run = trace_itt(tmp_path, 'counter_inc(nullptr); std::printf("%d", unknown_calls);')

    assert run.output == "1"


def test_groups_not_asked_for_and_other_versions_are_left_alone(tmp_path: Path) -> None:
    body = """
      find_collector(1);
      find_collector(-1, 4);
      domain_create("d");
      std::printf("%d", unknown_calls);
    """
    program = compile_itt(tmp_path, body)
    variables = environment(None, INTEL_LIBITTNOTIFY64=str(LIBRARY))

    done = subprocess.run([str(program)], env=variables, capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "1"
