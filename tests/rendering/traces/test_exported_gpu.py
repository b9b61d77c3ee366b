"""GPU lanes of exported traces as Perfetto's trace processor and Catapult's importer understand them: every kernel
once, to the nanosecond, in lanes that do not overlap, with arrows from its launch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.attribution.account import DEVICES
from profkit.attribution.passes import usage_of
from profkit.capture.schema import NONE, Activities, Calls, Capture, MemoryEvents, MemoryKind, Threads
from profkit.rendering.traces.captures import trace_content
from profkit.rendering.traces.content import TraceContent
from profkit.rendering.traces.files import write_chrome, write_perfetto
from tests.capture.importers.foreign_traces import (
    KinetoTrace,
    NsightExport,
    by_real_file,
    gpu_work,
    kineto_events,
    nsight_rows,
    opened_trace,
    real_trace,
)
from tests.capture.tables import Row, capture_of
from tests.rendering.traces.formats import ABOUT
from tests.rendering.traces.perfetto_packets import Message, message, only, packets
from tests.viewers.trace_viewers import COUNTERS, SLICES, Loaded, load_with_catapult, load_with_trace_processor

GEMM = "void gemm<128, 64>(float const*, float*)"


@dataclass(frozen=True)
class Format:
    """A format, and how its GPU slices and arrows are asked for."""

    write: Callable[[TraceContent, Path], None]
    name: str
    gpu: str
    """Name, start, duration, track."""
    arrows: str
    """Name and start of the launch, then of what it launched."""

    def load(self, content: TraceContent, folder: Path, *queries: str) -> Loaded:
        path = folder / self.name
        self.write(content, path)
        return load_with_trace_processor(path, [self.gpu, self.arrows, *queries])


CHROME = Format(
    write_chrome,
    "trace.json",
    "select name, ts, dur, track_id from slice where category in ('kernel', 'gpu_memcpy', 'gpu_memset') order by ts",
    "select o.name, o.ts, i.name, i.ts from flow join slice o on o.id = slice_out join slice i on i.id = slice_in",
)
PERFETTO = Format(
    write_perfetto,
    "trace.pftrace",
    "select coalesce(extract_arg(arg_set_id, 'description'), name), ts, dur, track_id from gpu_slice order by ts",
    """
    with stages as materialized (
      select submission_id as id, coalesce(extract_arg(arg_set_id, 'description'), name) as name, ts from gpu_slice)
    select o.name, o.ts, g.name, g.ts from args a join slice o using (arg_set_id) join stages g on g.id = a.int_value
    where a.flat_key = 'gpu_correlation.render_stage_submission_event_ids'
    """,
)
both_formats = pytest.mark.parametrize("format_", [CHROME, PERFETTO], ids=["chrome", "perfetto"])


def opened(trace: KinetoTrace | NsightExport, folder: Path) -> Capture:
    suffix = "json" if isinstance(trace, KinetoTrace) else "sqlite"
    return opened_trace(trace.write(folder / f"made.{suffix}"))


def busy_gpus() -> KinetoTrace:
    """Kernels that overlap on a stream, two streams, two GPUs, a copy, a launch of a graph, one without a launch."""
    gpu = {"name": "NVIDIA A100", "computeMajor": 8, "computeMinor": 0, "numSms": 108, "totalGlobalMem": 1 << 35}
    trace = KinetoTrace(deviceProperties=[{"id": 0, **gpu}, {"id": 1, **gpu}])
    trace.operator("aten::mm", 1_000, 2_000).annotation("step", 900, 9_000)
    trace.call(1_100, 1_200, 1).kernel(2_000, 5_001, 1, GEMM)
    trace.call(1_200, 1_300, 2).kernel(2_500, 3_000, 2, "inside")
    trace.call(1_300, 1_400, 3).kernel(2_600, 5_500, 3, "across")
    trace.call(1_400, 1_500, 4, "cudaGraphLaunch").kernel(6_000, 6_100, 4, "node a").kernel(6_100, 6_200, 4, "node b")
    trace.call(1_500, 1_600, 5).kernel(2_100, 2_200, 5, "elsewhere", stream=20)
    trace.call(1_600, 1_700, 6).kernel(2_100, 2_300, 6, "other GPU", device=1)
    trace.call(1_700, 1_800, 7, "cudaMemcpyAsync").copy(5_500, 5_600, 7, 4_096)
    return trace.kernel(7_000, 7_000, 99, "without a launch")


@pytest.fixture(scope="module", params=[CHROME, PERFETTO], ids=["chrome", "perfetto"])
def busy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """`busy_gpus` as the trace processor has it."""
    folder = tmp_path_factory.mktemp("busy")
    format_: Format = request.param
    return format_.load(trace_content(opened(busy_gpus(), folder)), folder, SLICES)


def lanes(loaded: Loaded) -> dict[int, list[tuple[int, int]]]:
    """Start and end of the slices of each track."""
    found: dict[int, list[tuple[int, int]]] = {}
    for _, start, duration, track in loaded.answers[0]:
        found.setdefault(track, []).append((start, start + duration))
    return {track: sorted(times) for track, times in found.items()}


def assert_lanes_do_not_overlap(loaded: Loaded) -> None:
    for times in lanes(loaded).values():
        assert all(before[1] <= after[0] for before, after in pairwise(times))


# --- Small traces, made by hand ---


def test_every_kernel_is_there_once_with_its_exact_times(busy: Loaded) -> None:
    found = sorted((name, start + 900, start + duration + 900) for name, start, duration, _ in busy.answers[0])
    assert found == sorted(
        [
            (GEMM, 2_000, 5_001),
            ("inside", 2_500, 3_000),
            ("across", 2_600, 5_500),
            ("node a", 6_000, 6_100),
            ("node b", 6_100, 6_200),
            ("elsewhere", 2_100, 2_200),
            ("other GPU", 2_100, 2_300),
            ("Memcpy HtoD (Pageable -> Device)", 5_500, 5_600),
            ("without a launch", 7_000, 7_000),
        ]
    )
    assert busy.slices == len(found) + 2 + 7 + ABOUT


def test_overlapping_kernels_of_a_stream_stand_in_separate_lanes(busy: Loaded) -> None:
    assert_lanes_do_not_overlap(busy)
    # Three kernels overlap on stream 7 of GPU 0; one lane each for its stream 20 and for GPU 1.
    assert len(lanes(busy)) == 3 + 1 + 1


def test_arrows_lead_from_each_launch_to_all_that_it_launched(busy: Loaded) -> None:
    assert sorted(busy.answers[1]) == sorted(
        [
            ["cudaLaunchKernel", 200, GEMM, 1_100],
            ["cudaLaunchKernel", 300, "inside", 1_600],
            ["cudaLaunchKernel", 400, "across", 1_700],
            ["cudaGraphLaunch", 500, "node a", 5_100],
            ["cudaGraphLaunch", 500, "node b", 5_200],
            ["cudaLaunchKernel", 600, "elsewhere", 1_200],
            ["cudaLaunchKernel", 700, "other GPU", 1_200],
            ["cudaMemcpyAsync", 800, "Memcpy HtoD (Pageable -> Device)", 4_600],
        ]
    )


def test_host_ranges_enclose_the_calls_that_they_made(busy: Loaded) -> None:
    parents = {(row[0], row[4]) for row in busy.answers[2] if row[3] in ("cpu_op", "cuda_runtime", "user_annotation")}
    assert parents == {
        ("step", ""),
        ("aten::mm", "step"),
        ("cudaLaunchKernel", "aten::mm"),
        ("cudaGraphLaunch", "aten::mm"),
        ("cudaMemcpyAsync", "aten::mm"),
    }


@both_formats
def test_kernels_say_how_they_were_launched_and_by_which_operator(format_: Format, tmp_path: Path) -> None:
    arguments = """
    select replace(key, 'args.', ''), display_value from slice s join args using (arg_set_id)
    where s.ts = 1100 and s.dur = 3001
    """
    trace = opened(busy_gpus(), tmp_path)
    sizes = {"registers": 128, "static_shared_bytes": 1_024, "dynamic_shared_bytes": 512}
    columns = {name: np.full(len(trace.activities), value) for name, value in sizes.items()}
    trace = replace(trace, activities=replace(trace.activities, **columns))

    loaded = format_.load(trace_content(trace), tmp_path, arguments)

    told = dict(loaded.answers[2])
    assert told["operator"] == "aten::mm"
    assert (told["stream"], told["device"], told["correlation"]) == ("7", "0", "1")
    assert (told["registers per thread"], told["shared memory"]) == ("128", "1536")
    if format_ is CHROME:
        assert [told[f"grid[{axis}]"] for axis in range(3)] == ["4", "2", "1"]
        assert [told[f"block[{axis}]"] for axis in range(3)] == ["128", "1", "1"]
    else:
        assert (told["grid"], told["block"]) == ("[4, 2, 1]", "[128, 1, 1]")


@both_formats
def test_what_is_not_known_of_a_launch_is_left_out(format_: Format, tmp_path: Path) -> None:
    trace = KinetoTrace().event("kernel", "bare", 10, 20, {"device": 0, "stream": 1}, pid=0)

    loaded = format_.load(trace_content(opened(trace, tmp_path)), tmp_path, "select distinct flat_key from args")

    keys = {row[0].replace("args.", "") for row in loaded.answers[2]}
    assert {"stream", "device"} <= keys
    assert not keys & {"grid", "block", "registers per thread", "shared memory", "correlation", "operator"}


@both_formats
def test_gpu_memory_is_a_counter(format_: Format, tmp_path: Path) -> None:
    trace = busy_gpus().memory(1_000, 0xA0, 4_096).memory(1_500, 0xB0, 512).memory(3_000, 0xA0, -4_096)

    loaded = format_.load(trace_content(opened(trace, tmp_path)), tmp_path, COUNTERS)

    assert loaded.answers[2] == [
        ["GPU 0 memory bytes", 0, 0],
        ["GPU 0 memory bytes", 100, 4_096],
        ["GPU 0 memory bytes", 600, 4_608],
        ["GPU 0 memory bytes", 2_100, 512],
    ]


@both_formats
def test_two_processes_on_one_gpu_keep_their_streams_apart(format_: Format, tmp_path: Path) -> None:
    trace = NsightExport()
    for pid in (5, 6):
        trace.call(100, 200, 1, pid=pid, tid=pid).kernel(300, 900, 1, f"of {pid}", pid=pid)

    loaded = format_.load(trace_content(opened(trace, tmp_path)), tmp_path)

    assert_lanes_do_not_overlap(loaded)
    assert len(lanes(loaded)) == 2
    assert sorted(row[2] for row in loaded.answers[1]) == ["of 5", "of 6"]


@both_formats
def test_calls_of_an_unknown_thread_are_not_lost(format_: Format, tmp_path: Path) -> None:
    trace = opened(busy_gpus(), tmp_path)
    trace.calls["thread"][:2] = -1

    loaded = format_.load(trace_content(trace), tmp_path)

    assert loaded.slices == 9 + 2 + 7 + ABOUT
    assert len(loaded.answers[1]) == 8


def test_a_gpu_whose_clock_is_ahead_keeps_its_arrows(tmp_path: Path) -> None:
    trace = KinetoTrace().call(100, 150, 1).kernel(90, 300, 1, "begun early")
    trace.call(500, 550, 2).kernel(400, 450, 2, "ended early", stream=8)
    content = trace_content(opened(trace, tmp_path))

    chrome, perfetto = CHROME.load(content, tmp_path), PERFETTO.load(content, tmp_path)

    # Chrome's arrows cannot lead back in time (the processor turns one whose end began first); Perfetto's are links.
    assert [{row[0], row[2]} for row in chrome.answers[1]] == [{"cudaLaunchKernel", "begun early"}]
    assert sorted(row[2] for row in perfetto.answers[1]) == ["begun early", "ended early"]
    assert load_with_catapult(tmp_path / CHROME.name)["flows"] == [["cudaLaunchKernel", "begun early"]]


def test_catapult_shows_gpus_as_processes_and_streams_as_threads(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"

    write_chrome(trace_content(opened(busy_gpus(), tmp_path)), path)
    imported = load_with_catapult(path)

    # In the order of their ids, in which Perfetto's page shows threads.
    shown = {
        process["name"]: [thread["name"] for thread in sorted(process["threads"], key=lambda thread: thread["tid"])]
        for process in imported["processes"]
    }
    assert shown == {
        "process 7": ["main"],
        "GPU 0 NVIDIA A100 of process 7": [
            "stream 7",
            "stream 7 (overlapping 1)",
            "stream 7 (overlapping 2)",
            "stream 20",
        ],
        "GPU 1 NVIDIA A100 of process 7": ["stream 7"],
    }
    assert Counter(target for _, target in imported["flows"]) == Counter(
        [GEMM, "inside", "across", "node a", "node b", "elsewhere", "other GPU", "Memcpy HtoD (Pageable -> Device)"]
    )
    slices = {entry["name"]: entry for p in imported["processes"] for t in p["threads"] for entry in t["slices"]}
    assert slices[GEMM]["arguments"]["grid"] == [4, 2, 1]
    assert (slices[GEMM]["start_us"], slices[GEMM]["duration_us"]) == pytest.approx((1.1, 3.001))


def test_processes_and_threads_keep_the_ids_of_the_system(tmp_path: Path) -> None:
    content = trace_content(opened(busy_gpus(), tmp_path))

    (process,) = [process for process in content.processes if not process.is_gpu]
    (thread,) = [track for track in content.tracks if track.queue < 0]
    assert (process.pid, thread.tid) == (7, 7)


@both_formats
def test_random_kernels_on_many_streams_keep_their_times_and_stand_apart(format_: Format, tmp_path: Path) -> None:
    chance = random.Random(3)
    trace, work = KinetoTrace(), []
    for correlation in range(1, 800):
        start, stream, device = chance.randrange(20_000), chance.randrange(4), chance.randrange(2)
        end = start + chance.choice((0, 1, chance.randrange(500), chance.randrange(5_000)))
        trace.call(start, start + 1, correlation, tid=chance.randrange(1, 4))
        trace.kernel(start, end, correlation, f"k{correlation}", device, stream)
        work.append((f"k{correlation}", start, end))
    content = trace_content(opened(trace, tmp_path))

    loaded = format_.load(content, tmp_path)

    origin = min(start for _, start, _ in work)
    found = sorted((name, start + origin, start + duration + origin) for name, start, duration, _ in loaded.answers[0])
    assert found == sorted(work)
    assert_lanes_do_not_overlap(loaded)
    starts = {name: start - origin for name, start, _ in work}
    assert sorted(row[1:] for row in loaded.answers[1]) == sorted([at, name, at] for name, at in starts.items())


# --- What newer readers of Perfetto traces look for, packet by packet ---


def render_stages(data: bytes) -> list[tuple[Message, Message]]:
    """Render stages, each with what its sequence has interned so far."""
    found = []
    interned: dict[int, Message] = {}
    for packet in packets(data):
        known = interned.setdefault(only(packet, 10, 0), {})
        for entry in packet.get(12, ()):
            for field, values in message(entry).items():
                known.setdefault(field, []).extend(values)
        if 53 in packet:
            found.append((message(only(packet, 53)), dict(known)))
    return found


def interned_by_id(known: Message, field: int) -> dict[int, Message]:
    return {only(entry, 1): entry for entry in map(message, known.get(field, ()))}


def test_render_stages_carry_launch_kernel_and_queue_in_the_fields_of_the_format(tmp_path: Path) -> None:
    trace = opened(busy_gpus(), tmp_path)
    trace.activities["registers"][:] = 77

    write_perfetto(trace_content(trace), tmp_path / "t.pftrace")
    stages = render_stages((tmp_path / "t.pftrace").read_bytes())

    ((stage, known),) = [
        (stage, known) for stage, known in stages if only(interned_by_id(known, 24)[only(stage, 14)], 2) == b"gemm"
    ]
    specification = interned_by_id(known, 24)[only(stage, 14)]
    assert (only(specification, 3), only(specification, 4)) == (GEMM.encode(), 2)  # the whole name; COMPUTE
    assert only(interned_by_id(known, 24)[only(stage, 13)], 2) == b"GPU 0 stream 7"
    assert only(interned_by_id(known, 1000)[only(stage, 19)], 3) == GEMM.encode()
    assert only(interned_by_id(known, 23)[only(stage, 5)], 3) == 4  # CUDA
    assert (only(stage, 2), only(stage, 11)) == (3_001, 0)
    launch = message(only(stage, 21))
    assert message(only(launch, 1)) == {1: [4], 2: [2], 3: [1]}
    assert message(only(launch, 2)) == {1: [128], 2: [1], 3: [1]}
    names = interned_by_id(known, 1001)
    told = {only(names[only(entry, 1)], 2): only(entry, 4) for entry in map(message, launch.get(3, ()))}
    assert told[b"registers_per_thread"] == 77


def test_launches_name_render_stages_by_their_ids_and_the_trace_describes_how(tmp_path: Path) -> None:
    write_perfetto(trace_content(opened(busy_gpus(), tmp_path)), tmp_path / "t.pftrace")
    data = (tmp_path / "t.pftrace").read_bytes()

    events = [message(value) for packet in packets(data) for value in packet.get(11, ())]
    named = [id_ for event in events for entry in event.get(3000, ()) for id_ in message(entry)[1]]
    ids = [only(stage, 1) for stage, _ in render_stages(data)]

    assert len(set(ids)) == len(ids) == 9
    assert sorted(named) == sorted(set(named))
    assert len(named) == 8 and set(named) < set(ids)
    assert sum(72 in packet for packet in packets(data)) == 1


# --- Captures of our own ---


def capture_with_a_gpu() -> Capture:
    """Two threads; the second one's kernel overlaps the first one's on the same stream."""
    rows = [Row("conv", 100, 1_000), Row("other", 200, 900, thread="worker"), Row("later", 1_500, 1_600)]
    capture = capture_of(rows)
    launch, kernel = len(capture.strings), len(capture.strings) + 1
    # A thread that no range was opened on is known to CUPTI alone.
    threads: dict[str, Any] = {item.name: np.append(capture.threads[item.name], 0) for item in fields(Threads)}
    threads |= {"os_thread_id": np.append(capture.threads.os_thread_id, 77), "name": [*capture.threads.name, NONE]}
    threads["role"] = np.full(3, NONE)
    calls: dict[str, Any] = {"thread": [0, 1, 2], "process": [0] * 3, "name": [launch] * 3, "correlation": [1, 2, 3]}
    calls |= {"is_driver": [0] * 3, "start_ns": [110, 220, 300], "end_ns": [120, 240, 310]}
    work: dict[str, Any] = {"kind": [0] * 3, "process": [0] * 3, "device": [0] * 3, "stream": [7] * 3}
    work |= {"name": [kernel] * 3, "start_ns": [400, 500, 950], "end_ns": [800, 900, 1_200], "call": [0, 1, 2]}
    memory: dict[str, Any] = {"process": [0], "device": [0], "time_ns": [150], "bytes": [64]}
    return replace(
        capture,
        strings=(*capture.strings, "cudaLaunchKernel", "implicit_gemm"),
        threads=Threads(**threads),
        calls=Calls(**calls),
        activities=Activities(**work),
        memory_events=MemoryEvents(**memory, kind=np.array([MemoryKind.DEVICE])),
    )


@both_formats
def test_a_capture_of_our_own_shows_ranges_calls_and_gpu_on_one_clock(format_: Format, tmp_path: Path) -> None:
    content = trace_content(capture_with_a_gpu())
    loaded = format_.load(content, tmp_path, SLICES, COUNTERS)

    assert [row[:3] for row in loaded.answers[0]] == [
        ["implicit_gemm", 400, 400],
        ["implicit_gemm", 500, 400],
        ["implicit_gemm", 950, 250],
    ]
    assert_lanes_do_not_overlap(loaded)
    assert sorted((row[1], row[3]) for row in loaded.answers[1]) == [(110, 400), (220, 500), (300, 950)]
    host = {(row[0], row[1], row[2]) for row in loaded.answers[2]}
    assert {("conv", 100, 900), ("other", 200, 700), ("later", 1_500, 100)} < host
    assert loaded.slices == 3 + 3 + 3 + ABOUT
    assert loaded.answers[3] == [["GPU 0 memory bytes", 0, 0], ["GPU 0 memory bytes", 150, 64]]


def test_calls_stand_beside_the_thread_that_made_them_in_the_order_of_threads() -> None:
    content = trace_content(capture_with_a_gpu())

    host = sorted((track for track in content.tracks if track.queue < 0), key=lambda track: track.rank)
    assert [track.name for track in host] == [
        "main",
        "main (CUDA calls)",
        "worker",
        "worker (CUDA calls)",
        "thread 77",
        "thread 77 (CUDA calls)",
    ]
    assert len({track.tid for track in content.tracks}) == len(content.tracks)


# --- Real traces, against sums taken from their files by json and sqlite3 alone ---


def launched_in_file(path: Path) -> int:
    """How many of the GPU's events have a call of their process with the same correlation."""
    if path.suffix == ".sqlite":
        parts = [
            f"select correlationId, globalPid from CUPTI_ACTIVITY_KIND_{table}"
            for table in ("KERNEL", "MEMCPY", "MEMSET")
        ]
        calls = "select correlationId, globalTid & 0xFFFFFFFFFF000000 from CUPTI_ACTIVITY_KIND_RUNTIME"
        known = set(nsight_rows(path, calls.replace("0xFFFFFFFFFF000000", str(~0xFFFFFF))))
        return sum(row in known for row in nsight_rows(path, " union all ".join(parts)))
    calls_ = {event["args"].get("correlation") for event in kineto_events(path, "cuda_runtime", "cuda_driver")}
    return sum(
        event["args"]["correlation"] in calls_ for event in kineto_events(path, "kernel", "gpu_memcpy", "gpu_memset")
    )


@both_formats
@by_real_file
def test_a_real_trace_keeps_every_nanosecond_of_its_gpus(format_: Format, name: str, tmp_path: Path) -> None:
    path = real_trace(name)
    trace = opened_trace(path)

    loaded = format_.load(trace_content(trace), tmp_path)

    expected = sorted((start, end) for _, _, start, end, _ in gpu_work(path))
    origin = trace.start_ns
    found = sorted((start + origin, start + duration + origin) for _, start, duration, _ in loaded.answers[0])
    assert found == expected
    assert loaded.slices == len(expected) + len(trace.ranges["name"]) + len(trace.calls["name"]) + ABOUT
    assert_lanes_do_not_overlap(loaded)
    assert len(loaded.answers[1]) == launched_in_file(path)


@pytest.mark.parametrize("name", ["kineto-alexnet-gpu.json.gz"])
def test_catapult_imports_a_real_trace_without_a_warning(name: str, tmp_path: Path) -> None:
    path = real_trace(name)

    write_chrome(trace_content(opened_trace(path)), tmp_path / "t.json")
    imported: Any = load_with_catapult(tmp_path / "t.json")

    slices = [entry for p in imported["processes"] for t in p["threads"] for entry in t["slices"]]
    gpu = [entry for entry in slices if entry["category"] in ("kernel", "gpu_memcpy", "gpu_memset")]
    work = gpu_work(path)
    assert len(gpu) == len(work)
    assert sum(entry["duration_us"] for entry in gpu) == pytest.approx(sum(row[3] - row[2] for row in work) / 1e3)
    assert len(imported["flows"]) == launched_in_file(path)
    assert all(source and target for source, target in imported["flows"])


# --- Read again ---


@by_real_file
@pytest.mark.parametrize(
    "by", ["operator", *(pytest.param(by, marks=pytest.mark.full) for by in ("layer", "launch", "stream"))]
)
def test_a_real_trace_has_the_same_table_after_it_was_exported(name: str, by: str, tmp_path: Path) -> None:
    trace = opened_trace(real_trace(name))
    write_chrome(trace_content(trace), tmp_path / "trace.json")

    before, after = (usage_of(each, by, clock=DEVICES) for each in (trace, opened_trace(tmp_path / "trace.json")))

    assert (after.wall_ns, after.parts) == (before.wall_ns, before.parts)
    assert {row.name: (row.device_ns, row.exclusive_ns) for row in after.rows} == {
        row.name: (row.device_ns, row.exclusive_ns) for row in before.rows
    }
