"""profkit.scope in plain code: nesting, threads, exceptions, decorators, payloads, wrong use."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import profkit
from profkit import _core
from profkit.capture.reading import read
from profkit.capture.schema import RangeKind
from tests.capture.recordings import record_rows, rows_of

MARK: Any = profkit.mark


def test_one_scope_inside_itself_gives_a_parent_and_a_child(tmp_path: Path) -> None:
    scope = profkit.scope("again")

    def nest() -> None:
        with scope as first, scope as second:
            assert first is second is scope

    outer, inner = record_rows(tmp_path, nest)

    assert (outer.parent, outer.depth, inner.parent, inner.depth) == (None, 0, "again", 1)
    assert outer.start_ns <= inner.start_ns <= inner.end_ns <= outer.end_ns
    assert not outer.is_open and not inner.is_open


def test_a_recursive_decorated_function_nests_as_deep_as_its_calls(tmp_path: Path) -> None:
    @profkit.scope("factorial")
    def factorial(n: int) -> int:
        return n * factorial(n - 1) if n else 1

    rows = record_rows(tmp_path, lambda: factorial(200))

    assert [row.depth for row in rows] == list(range(201))
    assert all(row.kind == RangeKind.RANGE for row in rows)


def test_recursion_deeper_than_the_recorder_goes_closes_each_range_at_its_own_time(tmp_path: Path) -> None:
    scope, depth = profkit.scope("deep"), 1100

    def recurse(left: int) -> None:
        with scope:
            if left > 1:
                recurse(left - 1)
            else:
                profkit.mark("bottom")

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        rows = record_rows(tmp_path, lambda: recurse(depth))
    finally:
        sys.setrecursionlimit(limit)

    deep = [row for row in rows if row.name == "deep"]
    assert 1000 < len(deep) < depth and all(row.kind == RangeKind.RANGE for row in deep)
    assert all(outer.end_ns >= inner.end_ns for outer, inner in pairwise(deep))
    assert rows[-1].name == "bottom" and rows[-1].depth == len(deep)


def test_threads_share_one_scope_without_mixing_their_ranges(tmp_path: Path) -> None:
    scope, barrier = profkit.scope("shared"), threading.Barrier(4)

    def work() -> None:
        with scope:
            barrier.wait()
            with scope:
                barrier.wait()

    def run() -> None:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    rows = record_rows(tmp_path, run)

    assert len(rows) == 8 and len({row.thread for row in rows}) == 4
    assert all(row.kind == RangeKind.RANGE and row.thread == row.end_thread for row in rows)
    assert sorted(row.depth for row in rows) == [0] * 4 + [1] * 4


def test_an_exception_closes_the_range_and_goes_on(tmp_path: Path) -> None:
    def fail() -> None:
        with pytest.raises(ZeroDivisionError), profkit.scope("outer"), profkit.scope("inner"):
            _ = 1 // 0
        with profkit.scope("after"):
            pass

    rows = record_rows(tmp_path, fail)

    assert [(row.name, row.parent, row.is_open) for row in rows] == [
        ("outer", None, False),
        ("inner", "outer", False),
        ("after", None, False),
    ]


def test_an_exit_stack_closes_what_it_entered(tmp_path: Path) -> None:
    scope = profkit.scope("stacked")

    def run() -> None:
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(scope)

    rows = record_rows(tmp_path, run)

    assert [row.depth for row in rows] == [0, 1, 2]
    assert not any(row.is_open for row in rows)


def test_a_range_may_end_on_another_thread(tmp_path: Path) -> None:
    def run() -> None:
        scope = profkit.scope("handed over")
        scope.__enter__()
        with profkit.scope("inside"):
            pass
        thread = threading.Thread(target=scope.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
        with profkit.scope("after"):
            pass

    rows = {row.name: row for row in record_rows(tmp_path, run)}

    assert not rows["handed over"].is_open
    assert rows["handed over"].end_ns >= rows["inside"].end_ns
    assert rows["after"].parent is None and rows["after"].kind == RangeKind.RANGE


def test_a_scope_that_is_forgotten_while_open_ends_when_it_is_freed(tmp_path: Path) -> None:
    def run() -> None:
        forgotten = profkit.scope("forgotten")
        forgotten.__enter__()
        del forgotten
        with profkit.scope("after"):
            pass

    first, second = record_rows(tmp_path, run)

    assert not first.is_open and first.end_ns <= second.start_ns
    assert second.parent is None


def test_what_was_entered_while_idle_is_not_recorded(tmp_path: Path) -> None:
    early, late = profkit.scope("early"), profkit.scope("late")

    with early:
        rows = record_rows(tmp_path, late.__enter__)
    late.__exit__(None, None, None)
    with late:
        pass

    assert [(row.name, row.is_open) for row in rows] == [("late", True)]


def test_payloads_keep_their_type_and_value(tmp_path: Path) -> None:
    values: list[Any] = [
        0,
        -1,
        2**63 - 1,
        2**64 - 1,
        1.5,
        float("inf"),
        True,
        np.int8(-3),
        np.uint64(2**63),
        np.float32(0.5),
        np.array(7),
    ]

    def run() -> None:
        for value in values:
            with profkit.scope("number", payload=value):
                pass
        with profkit.scope("number"):
            pass

    rows = record_rows(tmp_path, run)

    assert [row.payload for row in rows] == [*[float(v) if isinstance(v, np.floating) else v for v in values], None]
    assert isinstance(rows[4].payload, float) and isinstance(rows[0].payload, int)


def test_names_and_categories_are_any_text(tmp_path: Path) -> None:
    names = ["", "ünï → 🙂", "a" * 4000, "line\nbreak", 'quo"te', "half \ud800"]

    def run() -> None:
        for name in names:
            with profkit.scope(name, category="loading"):
                pass
        with profkit.scope("plain"):
            pass

    rows = record_rows(tmp_path, run)

    assert [row.name for row in rows[:5]] == names[:5]
    assert rows[5].name == "half \\ud800"
    assert [row.category for row in rows] == ["loading"] * 6 + [None]


def test_a_name_made_anew_each_time_is_not_taken_for_another(tmp_path: Path) -> None:
    def run() -> None:
        for number in range(3000):
            with profkit.scope(f"step {number}"):
                pass

    rows = record_rows(tmp_path, run)

    assert [row.name for row in rows] == [f"step {number}" for number in range(3000)]


def test_a_mark_is_an_instant_in_its_range(tmp_path: Path) -> None:
    def run() -> None:
        with profkit.scope("outer"):
            profkit.mark("here", payload=3, category="signs")

    outer, mark = record_rows(tmp_path, run)

    assert (mark.kind, mark.name, mark.parent, mark.payload) == (RangeKind.MARK, "here", "outer", 3)
    assert mark.category == "signs" and outer.start_ns <= mark.start_ns == mark.end_ns <= outer.end_ns


def test_a_bare_decorator_takes_the_function_s_qualified_name(tmp_path: Path) -> None:
    class Model:
        @profkit.scope
        def forward(self, x: int) -> int:
            return x + 1

        @profkit.scope
        @staticmethod
        def scale(x: int) -> int:
            return 2 * x

        @profkit.scope("made")
        @classmethod
        def make(cls) -> Model:
            return cls()

    rows = record_rows(tmp_path, lambda: Model.scale(Model.make().forward(1)))

    prefix = Model.__qualname__
    assert [row.name for row in rows] == ["made", f"{prefix}.forward", f"{prefix}.scale"]


def test_a_decorated_function_looks_like_the_original() -> None:
    def original(a: int, *, b: str = "x") -> str:
        """What it does."""
        return b * a

    decorated = profkit.scope("name")(original)

    assert inspect.signature(decorated) == inspect.signature(original)
    assert (decorated.__name__, decorated.__doc__) == ("original", "What it does.")
    assert inspect.unwrap(decorated) is original
    assert decorated(2, b="y") == "yy"
    assert decorated.__code__ is original.__code__
    assert not hasattr(decorated, "nonsense")


@profkit.scope
def known_by_name(x: int) -> int:
    return x


def test_a_decorated_function_is_pickled_by_name_and_freed_with_its_cycle() -> None:
    @profkit.scope
    def lives_in_a_cycle() -> None: ...

    lives_in_a_cycle.itself = lives_in_a_cycle  # type: ignore[attr-defined]
    reference = weakref.ref(lives_in_a_cycle)
    del lives_in_a_cycle
    gc.collect()

    assert pickle.loads(pickle.dumps(known_by_name)) is known_by_name is copy.deepcopy(known_by_name)
    assert reference() is None


def test_a_decorated_function_that_fails_closes_its_range(tmp_path: Path) -> None:
    @profkit.scope("fails")
    def fails(*, reason: str) -> None:
        raise LookupError(reason)

    def run() -> None:
        with pytest.raises(LookupError, match="because"):
            fails(reason="because")
        known_by_name(1)

    rows = record_rows(tmp_path, run)

    assert [(row.name, row.parent, row.is_open) for row in rows] == [
        ("fails", None, False),
        ("known_by_name", None, False),
    ]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda scope: scope(), "needs a name"),
        (lambda scope: scope(3), "must be a str, got int"),
        (lambda scope: scope("a", "b"), "payload must be a number or None, got str"),
        (lambda scope: scope("a", b=1), "no argument 'b'"),
        (lambda scope: scope("a", name="b"), "'name' twice"),
        (lambda scope: scope("a", category=3), "category must be a str or None, got int"),
        (lambda scope: scope("a", 1, "b", 2), "got 4 arguments"),
        (lambda scope: scope("a")(), "used as `with scope:`"),
        (lambda scope: scope("a")(3), "decorates functions and methods, not 3"),
        (lambda scope: scope("a")(Path), "not the class Path; decorate its methods"),
        (lambda scope: MARK(3), "name of a mark must be a str"),
        (lambda scope: scope("a").__exit__(), "takes an exception's type"),
    ],
)
def test_wrong_use_is_a_type_error_that_says_what_is_right(use: Callable[[Any], object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        use(profkit.scope)


def test_a_payload_beyond_64_bits_is_refused() -> None:
    with pytest.raises(OverflowError, match="64 bits"):
        profkit.scope("large", payload=2**70)


def test_a_scope_can_be_copied_pickled_and_read() -> None:
    scope = profkit.scope("one", payload=1.5, category="two")

    twin = pickle.loads(pickle.dumps(scope))

    assert (twin.name, twin.payload, twin.category) == ("one", 1.5, "two")
    assert repr(copy.copy(scope)) == repr(scope) == "profkit.scope('one', payload=1.5, category='two')"


def test_after_the_first_use_the_names_are_plain_attributes() -> None:
    code = "import profkit; profkit.scope, profkit.mark; print(sorted({'scope', 'mark'} & set(vars(profkit))))"

    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert output.strip() == "['mark', 'scope']"


def test_scopes_leave_no_references_behind(tmp_path: Path) -> None:
    name, scope = "".join(["counted ", "name"]), profkit.scope("held")

    def run() -> None:
        for _ in range(5000):
            with profkit.scope(name), scope:
                pass

    run()
    before = [sys.getrefcount(thing) for thing in (_core.scope, scope, type(scope.__enter__))]
    record_rows(tmp_path, run)
    after = [sys.getrefcount(thing) for thing in (_core.scope, scope, type(scope.__enter__))]

    assert max(abs(old - new) for old, new in zip(before, after)) < 100
    assert sys.getrefcount(name) < 10


def test_a_scope_open_at_the_interpreter_s_end_is_marked_open(tmp_path: Path) -> None:
    code = (
        "import profkit, sys\n"
        f"profkit.record({str(tmp_path / 'end.profkit')!r}).start()\n"
        "kept = profkit.scope('never left'); kept.__enter__()\n"
        "with profkit.scope('left'): pass\n"
        "sys.exit(5)\n"
    )

    code_back = subprocess.run([sys.executable, "-c", code], check=False).returncode
    rows = rows_of(read(tmp_path / "end.profkit"))

    assert code_back == 5
    assert [(row.name, row.parent) for row in rows] == [("never left", None), ("left", "never left")]
