"""ONNX Runtime's own profile: a second session writes it while it runs the steps, node by node.

Its clock is CLOCK_REALTIME in whole microseconds; profile.py reads the file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from profkit.capture.event_log import EventLog
from profkit.capture.schema import Capture
from profkit.frameworks.events import MEMORY, TIME, Pass, SourceSubject
from profkit.frameworks.events.helper_threads import cpu_clock, helper_threads
from profkit.frameworks.events.xplane import RealtimeClock, read_clocks
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.frameworks.onnxruntime.profile import SessionProfile, TimedStep
from profkit.frameworks.scratch import temporary_folder

WARM_UP = 2
"""Steps of the new session before those that count: the first one plans the memory of the others."""
GRAIN_NS = 1000
POOL_NOTE = (
    "pool CPU time of a step is read from the clocks of the session's threads, spinning included; nodes have none"
)
MEMORY_NOTE = (
    "memory: a session without memory plan (with one, a run takes one block for all values, and no node asks for "
    "any). Requested is what a node keeps at its end, 0 where it gets the memory of a value that is done with; "
    "workspace that a node gave back inside is not observable"
)


class OnnxRuntimeSource:
    """One session per pass."""

    def passes(self, conditions: NetworkConditions) -> Sequence[Pass]:
        """Time with the session as it ships, memory without its memory plan."""
        return [Pass("time", (TIME,), note=POOL_NOTE), Pass("memory", (MEMORY,), note=MEMORY_NOTE)]

    def record(self, watched: SourceSubject, name: str, steps: int) -> Capture:
        """Run the steps in a session that writes a profile, then read that."""
        log = EventLog("onnxruntime", "onnxruntime", name)
        model = watched.built.model
        usual = model.session
        with temporary_folder("onnxruntime") as folder:
            session = model.new_session(str(Path(folder) / "profile"), plans_memory=name == TIME)
            model.session = session
            try:
                for _ in range(WARM_UP):
                    watched.step()
                before = read_clocks()
                runs = _run(watched, steps)
                clock = RealtimeClock(before, read_clocks())
            finally:
                model.session = usual
                path = Path(session.end_profiling())
            events = json.loads(path.read_text(errors="replace"))
        origin_ns = int(session.get_profiling_start_time_ns()) - clock.ahead_ns
        log.about.clock_error_ns = clock.error_ns + GRAIN_NS
        SessionProfile(watched.network, events, origin_ns, shows_memory=name == MEMORY).add_to(log, runs)
        return log.finish()


def _run(watched: SourceSubject, steps: int) -> list[TimedStep]:
    now, pool = time.perf_counter_ns, cpu_clock(helper_threads())
    runs = []
    for _ in range(steps):
        helped = pool()
        begin = now()
        watched.step()
        end = now()
        runs.append(TimedStep(begin, end, pool() - helped))
    return runs


SOURCE = OnnxRuntimeSource()
