"""The NVTX door with threads, several modules, fork, and captures that start and stop."""

from __future__ import annotations

import subprocess
from pathlib import Path

from profkit.capture.reading import read
from profkit.capture.schema import RangeKind, Source
from tests.tracer.doors.nvtx_programs import PRELUDE, compile_nvtx, nvtx_rows, ranges
from tests.tracer.programs import LIBRARY, Row, Traced, compile_c, environment, nvtx_headers, rows


def test_a_range_started_on_one_thread_and_ended_on_another_is_one_span(nvtx: Traced) -> None:
    declarations = """
      static void* finish(void* id) {
        nvtxRangePushA("finishing");
        nvtxRangeEnd(*(nvtxRangeId_t*)id);
        nvtxRangePop();
        return NULL;
      }
    """
    body = """
      nvtxRangeId_t id = nvtxRangeStartA("across");
      pthread_t thread;
      pthread_create(&thread, NULL, finish, &id);
      pthread_join(thread, NULL);
    """

    run = nvtx(body, declarations)

    table = run.capture.ranges
    row = [run.capture.range_title(i) for i in range(len(table))].index("across")
    assert table.kind[row] == RangeKind.SPAN
    assert table.thread[row] != table.end_thread[row]
    assert table.end_ns[row] > table.start_ns[row]
    assert not table.is_open[row]


def test_every_event_of_five_threads_in_three_domains_arrives_exactly_once(nvtx: Traced) -> None:
    declarations = """
      static nvtxDomainHandle_t domains[3];
      static nvtxStringHandle_t names[3];
      static void* work(void* argument) {
        const long long thread = (long long)argument;
        nvtxEventAttributes_t e = event(NULL);
        e.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
        e.payloadType = NVTX_PAYLOAD_TYPE_INT64;
        for (int i = 0; i < 2000; ++i) {
          const int d = i % 3;
          e.message.registered = names[d];
          e.payload.llValue = thread * 1000000 + i;
          nvtxDomainRangePushEx(domains[d], &e);
          nvtxMarkA("plain");
          nvtxDomainRangePop(domains[d]);
        }
        return NULL;
      }
    """
    body = """
      domains[1] = nvtxDomainCreateA("one");
      domains[2] = nvtxDomainCreateA("two");
      for (int d = 0; d < 3; ++d) names[d] = nvtxDomainRegisterStringA(domains[d], d == 0 ? "zero" : "work");
      pthread_t threads[5];
      for (long i = 0; i < 5; ++i) pthread_create(&threads[i], NULL, work, (void*)i);
      for (int i = 0; i < 5; ++i) pthread_join(threads[i], NULL);
    """

    run = nvtx(body, declarations)

    found = nvtx_rows(run)
    payloads = sorted(int(row.payload) for row in found if row.payload is not None)
    titles = ["zero", "one:work", "two:work"]
    assert payloads == [thread * 1000000 + i for thread in range(5) for i in range(2000)]
    assert all(row.title == titles[int(row.payload) % 1000000 % 3] for row in found if row.payload is not None)
    assert sum(row.title == "plain" and row.parent in titles for row in found) == 10000
    assert len(found) == 20000
    assert run.capture.losses.records == 0


def test_every_shared_object_with_its_own_copy_of_nvtx_is_heard(nvtx: Traced, tmp_path: Path) -> None:
    module = (
        PRELUDE
        + """
      void run(nvtxDomainHandle_t domain) {
        nvtxEventAttributes_t e = event(NAME);
        nvtxDomainRangePushEx(domain, &e);
        nvtxRangePushA(NAME);
        nvtxRangePop();
        nvtxDomainRangePop(domain);
      }
    """
    )
    shared = ("-shared", "-fPIC", "-isystem", str(nvtx_headers()))
    libraries = [
        compile_c(tmp_path, module, *shared, f'-DNAME="{name}"', name=f"lib{name}.so") for name in ("left", "right")
    ]
    calls = "".join(
        f"""{{ void* library = dlopen("{path}", RTLD_NOW | RTLD_LOCAL);
               ((void (*)(nvtxDomainHandle_t))dlsym(library, "run"))(domain); }}"""
        for path in libraries
    )

    run = nvtx(f'nvtxDomainHandle_t domain = nvtxDomainCreateA("main"); {calls}')

    assert nvtx_rows(run) == [
        Row(RangeKind.RANGE, "main:left"),
        Row(RangeKind.RANGE, "left", "main:left"),
        Row(RangeKind.RANGE, "main:right"),
        Row(RangeKind.RANGE, "right", "main:right"),
    ]


def test_a_named_thread_has_its_name_in_the_capture(nvtx: Traced) -> None:
    declarations = """
      static void* work(void* name) {
        nvtxNameOsThreadA((uint32_t)gettid(), name);
        nvtxMarkA("there");
        return NULL;
      }
    """
    body = """
      nvtxNameOsThreadW((uint32_t)gettid(), L"main \\u2192");
      nvtxMarkA("here");
      pthread_t thread;
      pthread_create(&thread, NULL, work, "a name that is longer than thirty-one bytes");
      pthread_join(thread, NULL);
    """

    capture = nvtx(body, declarations).capture

    names = [capture.strings[name] for name in capture.threads.name]
    assert sorted(names) == ["a name that is longer than thir", "main →"]


def test_a_forked_child_goes_on_with_domains_strings_and_categories(nvtx: Traced) -> None:
    run = nvtx("""
      nvtxDomainHandle_t d = nvtxDomainCreateA("d");
      nvtxDomainNameCategoryA(d, 4, "kind");
      nvtxEventAttributes_t e = event(NULL);
      e.category = 4;
      e.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
      e.message.registered = nvtxDomainRegisterStringA(d, "registered");
      nvtxDomainRangePushEx(d, &e);
      const pid_t child = fork();
      if (child == 0) {
        nvtxDomainMarkEx(d, &e);
        nvtxMarkA("in the child");
        nvtxDomainRangePop(d);
        exit(0);
      }
      waitpid(child, NULL, 0);
      nvtxDomainRangePop(d);
    """)

    capture = run.capture
    of_child = capture.threads.process[capture.ranges.thread] == 1
    titles = [capture.range_title(i) for i in range(len(capture.ranges)) if of_child[i]]
    assert len(capture.processes) == 2
    assert titles == ["d:registered", "in the child"], "two marks; the range is its parent's"
    assert {row.category for row in nvtx_rows(run) if row.title == "d:registered"} == {"kind"}
    assert not capture.ranges.is_open.any()


def test_ranges_open_when_a_capture_ends_do_not_reach_into_the_next_one(tmp_path: Path) -> None:
    declarations = '#include "tracer/core/api.h"'
    body = f"""
      nvtxInitialize(NULL);
      const profkit_tracer_api* (*find)(uint32_t) =
        (const profkit_tracer_api* (*)(uint32_t))dlsym(dlopen("{LIBRARY}", RTLD_NOW), "profkit_tracer");
      const profkit_tracer_api* tracer = find(PROFKIT_TRACER_API_VERSION);
      if (tracer->start("{tmp_path}/first.profkit", NULL) != NULL) return 1;
      for (int i = 0; i < 1500; ++i) nvtxRangePushA("left open");
      if (tracer->stop() != NULL || tracer->start("{tmp_path}/second.profkit", NULL) != NULL) return 2;
      printf("%d ", nvtxRangePop() < 0);
      printf("%d ", nvtxRangePushA("second"));
      printf("%d", nvtxRangePop());
      if (tracer->stop() != NULL) return 3;
    """
    program = compile_nvtx(tmp_path, body, declarations)
    variables = environment(tmp_path / "unused.profkit")
    del variables["PROFKIT_TRACE_FILE"]

    done = subprocess.run([str(program)], env=variables, capture_output=True, text=True, timeout=60, check=True)

    first, second = (read(str(tmp_path / name)) for name in ("first.profkit", "second.profkit"))
    assert done.stdout == "1 0 0"
    assert first.ranges.is_open.all()
    assert len(first.ranges) + first.losses.too_deep == 1500
    assert rows(second, Source.NVTX) == ranges("second")
    assert second.threads.unbalanced_pops.sum() == 1


def test_without_a_capture_the_calls_do_nothing_and_answer_so(tmp_path: Path) -> None:
    body = """
      nvtxDomainHandle_t domain = nvtxDomainCreateA("d");
      nvtxEventAttributes_t e = event("x");
      printf("%d ", nvtxRangePushA("a"));
      printf("%d ", nvtxDomainRangePushEx(domain, &e));
      nvtxMarkA("m");
      nvtxRangeEnd(nvtxRangeStartA("s"));
      printf("%d ", nvtxDomainRangePop(domain));
      printf("%d", nvtxRangePop());
    """
    program = compile_nvtx(tmp_path, body)
    variables = environment(tmp_path / "never.profkit")
    del variables["PROFKIT_TRACE_FILE"]

    done = subprocess.run([str(program)], env=variables, capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == "-2 -2 -2 -2"
    assert not (tmp_path / "never.profkit").exists()
