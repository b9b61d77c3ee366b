"""For all tests: the choice of the tier, the end of the processes that they start, and one folder of what is slow to
make, shared by the processes that pytest-xdist starts. At the end it counts what was skipped, by reason.
"""

from __future__ import annotations

import compileall
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from tests.support import leftover_processes
from tests.support.places import ROOT
from tests.support.shared_work import KEPT_FOLDER, OBJECTS_FOLDER
from tests.support.typed import Typed

PEAK_TRIES = 3


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    """Commands as people type them."""
    return Typed(capsys)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run both tiers, the tests marked full too")


def pytest_configure(config: pytest.Config) -> None:
    choose_tier(config)
    share_folder(config)
    config.pluginmanager.register(leftover_processes)
    # They change the width and the colours of what the tests compare.
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        os.environ.pop(name, None)
    # The same functions without LLVM's optimisation of their code: no test asks how fast Numba is, and compiling takes
    # longer than all else it does.
    os.environ["NUMBA_OPT"] = "0"


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes that are no text give no name: a file may hold the time, and each process would have tests of its own."""
    is_text = not isinstance(val, bytes) or (val.isascii() and val.decode().isprintable())
    return None if is_text else argname


def choose_tier(config: pytest.Config) -> None:
    """Without --full or -m it is the quick tier; a test that is named by its node id runs whatever its tier."""
    option = config.option
    named = any("::" in word for word in config.args)
    if not (option.full or option.markexpr or named):
        option.markexpr = "not full"


def share_folder(config: pytest.Config) -> None:
    """The first process makes the folder and takes it away; its workers inherit the variable."""
    if OBJECTS_FOLDER in os.environ:
        return
    kept = os.environ.get(KEPT_FOLDER)
    if kept:
        os.makedirs(kept, exist_ok=True)
    folder = kept or tempfile.mkdtemp(prefix="profkit-objects-")
    os.environ[OBJECTS_FOLDER] = folder
    # Where PYTHONDONTWRITEBYTECODE is set, each of the many processes that tests start would compile all it imports.
    compileall.compile_dir(ROOT / "profkit", quiet=2, workers=0)
    forget_busy_peaks = measure_peaks()

    def take_away() -> None:
        leftover_processes.kill_started("")
        forget_busy_peaks()
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
        del os.environ[OBJECTS_FOLDER]

    config.add_cleanup(take_away)


def measure_peaks() -> Callable[[], None]:
    """While nothing else runs: peaks of a busy machine would be measured again by every test that measures.

    Where the machine is busy all the time they pass for those of a quiet one, until what is returned is called.
    """
    try:
        from profkit.frameworks.cache import cache_folder
        from profkit.measurement.cores import default_threads
        from profkit.measurement.peaks import machine_peaks, read_known, write_known
    except ImportError:
        return lambda: None  # the compiled core is not built: tests that need it say so
    path = cache_folder() / "peaks.json"
    for threads in (1, default_threads()):
        for _ in range(PEAK_TRIES):
            if machine_peaks("float32", threads)["quiet"]:
                break
    busy = [name for name, found in read_known(path).items() if not found["quiet"]]

    def mark(quiet: float) -> None:
        known = read_known(path)
        for name in filter(known.__contains__, busy):
            known[name]["quiet"] = quiet
        write_known(path, known)

    if busy:
        mark(1.0)
    return partial(mark, 0.0) if busy else lambda: None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        reasons[report.longrepr[2].removeprefix("Skipped: ")] += 1
    if reasons:
        terminalreporter.section("skipped, by reason")
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"{count:5}  {reason}")
