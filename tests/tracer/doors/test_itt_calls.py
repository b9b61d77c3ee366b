"""The ITT door, call by call."""

from __future__ import annotations

import subprocess
from pathlib import Path

from profkit.capture.schema import RangeKind
from tests.tracer.doors.itt_programs import compile_itt, itt_rows
from tests.tracer.programs import LIBRARY, Row, Traced, environment


def test_tasks_nest_within_their_domain_and_markers_lie_inside(itt: Traced) -> None:
    run = itt("""
      Domain* a = domain_create("a");
      Domain* b = domain_createW(L"b \\u2192");
      task_begin(a, none, none, string_handle_create("outer"));
      task_begin(b, none, none, string_handle_createW(L"w\\u00EFde"));
      marker(b, none, string_handle_create("mark"), 3);
      task_end(b);
      task_end(a);
      task_end(a);
    """)

    assert itt_rows(run) == [
        Row(RangeKind.RANGE, "a:outer"),
        Row(RangeKind.RANGE, "b →:wïde", "a:outer"),
        Row(RangeKind.MARK, "b →:mark", "b →:wïde"),
    ]
    assert run.capture.threads.unbalanced_pops.sum() == 1


def test_names_give_one_handle_each_that_shows_its_text(itt: Traced) -> None:
    run = itt("""
      char text[] = "same";
      StringHandle* first = string_handle_create("same");
      StringHandle* second = string_handle_create(text);
      Domain* domain = domain_create("domain");
      std::printf("%d %s %d %s %d", first == second, first->text, domain == domain_create("domain"), domain->name,
                  domain->flags != 0);
    """)

    assert run.output == "1 same 1 domain 1"


def test_handles_made_before_the_collector_was_found_are_understood(itt: Traced) -> None:
    run = itt("""
      Domain domain{1, "early", nullptr, 0, nullptr, nullptr};
      StringHandle narrow{"narrow", nullptr, 0, nullptr, nullptr};
      StringHandle wide{nullptr, L"wide", 0, nullptr, nullptr};
      task_begin(&domain, none, none, &narrow);
      task_begin(&domain, none, none, &wide);
      task_begin(&domain, none, none, nullptr);
      for (int i = 0; i < 3; ++i) task_end(&domain);
    """)

    assert [row.title for row in itt_rows(run)] == ["early:narrow", "early:wide", "early:(unnamed)"]


def test_overlapped_tasks_frames_and_events_are_spans_that_may_end_elsewhere(itt: Traced) -> None:
    run = itt("""
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
    """)

    assert run.output == "000"
    assert [row.title for row in itt_rows(run)] == ["d:one", "d:two", "d:frame", "d:frame", "event", "wide"]
    assert all(row.kind == RangeKind.SPAN for row in itt_rows(run))
    table = run.capture.ranges
    assert table.is_open.tolist() == [False] * 5 + [True]
    assert (table.thread != table.end_thread).tolist() == [True] + [False] * 5


def test_an_id_may_be_used_again_once_its_task_has_ended(itt: Traced) -> None:
    run = itt("""
      Domain* d = domain_create("d");
      for (int i = 0; i < 10000; ++i) {
        const Id id{static_cast<unsigned long long>(i % 5), 0, 0};
        task_begin_overlapped(d, id, none, string_handle_create("task"));
        task_end_overlapped(d, id);
      }
    """)

    assert len(itt_rows(run)) == 10000
    assert not run.capture.ranges.is_open.any()


def test_a_task_begun_with_a_function_is_closed_by_its_own_end(itt: Traced) -> None:
    run = itt("""
      Domain* d = domain_create("d");
      task_begin(d, none, none, string_handle_create("outer"));
      task_begin_fn(d, none, none, reinterpret_cast<void*>(0x1234));
      task_end(d);
      marker(d, none, string_handle_create("after"), 3);
      task_end(d);
    """)

    assert itt_rows(run) == [
        Row(RangeKind.RANGE, "d:outer"),
        Row(RangeKind.RANGE, "d:function 0x1234", "d:outer"),
        Row(RangeKind.MARK, "d:after", "d:outer"),
    ]


def test_many_threads_with_many_new_names_lose_none_and_agree_on_handles(itt: Traced) -> None:
    run = itt("""
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
    """)

    assert run.output == "0"
    titles = sorted(row.title for row in itt_rows(run))
    assert titles == sorted([f"d:name {i}" for i in range(2000)] * 4)


def test_a_thread_named_through_itt_has_its_name_in_the_capture(itt: Traced) -> None:
    capture = itt('thread_set_name("worker of itt"); task_end(domain_create("d"));').capture

    assert "worker of itt" in [capture.strings[name] for name in capture.threads.name]


def test_calls_that_are_not_recorded_stay_with_the_program(itt: Traced) -> None:
    run = itt('counter_inc(nullptr); std::printf("%d", unknown_calls);')

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
