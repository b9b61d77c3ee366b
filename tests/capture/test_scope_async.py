"""profkit.scope in generators and asynchronous code: each range covers exactly the time that is its own."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest

import profkit
from profkit.capture.schema import RangeKind
from tests.capture.recordings import Seen, record_rows

CLOCKS_AGREE_NS = 50_000
"""The recorder's clock and Python's, over a few hundredths of a second."""


def test_a_generator_is_one_range_per_resumption_and_its_consumer_is_outside(tmp_path: Path) -> None:
    @profkit.scope("body")
    def numbers() -> Iterator[int]:
        with profkit.scope("work"):
            pass
        yield 1
        yield 2

    def consume() -> None:
        for _ in numbers():
            with profkit.scope("consumer"):
                pass

    rows = record_rows(tmp_path, consume)

    assert [(row.name, row.parent) for row in rows] == [
        ("body", None),
        ("work", "body"),
        ("consumer", None),
        ("body", None),
        ("consumer", None),
        ("body", None),
    ]
    assert all(row.kind == RangeKind.RANGE for row in rows)


def test_a_decorated_generator_sends_throws_returns_and_closes_as_before() -> None:
    closed = []

    @profkit.scope("body")
    def talk() -> Generator[str, str, int]:
        try:
            answer = yield "first"
            try:
                yield answer
            except KeyError as error:
                yield f"caught {error.args[0]}"
            return 7
        finally:
            closed.append(True)

    generator = talk()

    assert (next(generator), generator.send("sent"), generator.throw(KeyError("it"))) == ("first", "sent", "caught it")
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == 7 and closed == [True]
    unfinished = talk()
    next(unfinished)
    unfinished.close()
    assert closed == [True, True]
    assert inspect.isgeneratorfunction(talk)
    broken = talk()
    next(broken)
    with pytest.raises(LookupError):
        broken.throw(LookupError)


def test_a_generator_left_unfinished_leaves_no_range_open(tmp_path: Path) -> None:
    def held() -> Iterator[int]:
        with profkit.scope("held"):
            yield 1

    def run() -> None:
        generator = held()
        next(generator)
        with profkit.scope("between"):
            del generator
        with profkit.scope("after"):
            pass

    rows = {row.name: row for row in record_rows(tmp_path, run)}

    assert not rows["held"].is_open and rows["held"].end_ns <= rows["after"].start_ns
    assert rows["after"].parent is None


def test_a_generator_that_goes_on_in_another_thread_closes_its_own_range(tmp_path: Path) -> None:
    scope = profkit.scope("travels")

    def held() -> Iterator[int]:
        with scope:
            yield 1

    def run() -> None:
        generator = held()
        next(generator)

        def finish() -> None:
            with scope:
                next(generator, None)

        thread = threading.Thread(target=finish)
        thread.start()
        thread.join()

    rows = record_rows(tmp_path, run)

    assert len(rows) == 2 and not any(row.is_open for row in rows)
    travelled = next(row for row in rows if row.thread == min(other.thread for other in rows))
    stayed = next(row for row in rows if row is not travelled)
    assert travelled.start_ns <= stayed.start_ns <= travelled.end_ns <= stayed.end_ns


def test_three_interleaved_coroutines_are_spans_of_exactly_their_length(tmp_path: Path) -> None:
    inside: dict[int, int] = {}
    outside: dict[int, int] = {}

    @profkit.scope("task")
    async def task(number: int) -> int:
        begin = time.perf_counter_ns()
        await asyncio.sleep(0.005 * number)
        inside[number] = time.perf_counter_ns() - begin
        return number

    async def timed(number: int) -> int:
        begin = time.perf_counter_ns()
        result = await task(number)
        outside[number] = time.perf_counter_ns() - begin
        return result

    async def everything() -> None:
        assert await asyncio.gather(*[timed(number) for number in (3, 1, 2)]) == [3, 1, 2]

    rows = record_rows(tmp_path, lambda: asyncio.run(everything()))

    spans = dict(zip((3, 1, 2), rows))
    assert [row.kind for row in rows] == [RangeKind.SPAN] * 3
    for number, row in spans.items():
        assert inside[number] - CLOCKS_AGREE_NS <= row.duration_ns <= outside[number] + CLOCKS_AGREE_NS


def test_tasks_that_share_a_held_scope_close_their_own_ranges(tmp_path: Path) -> None:
    scope = profkit.scope("shared")

    async def hold(may_end: asyncio.Event) -> None:
        with scope:
            await may_end.wait()

    async def everything() -> None:
        events = [asyncio.Event() for _ in range(3)]
        tasks = [asyncio.ensure_future(hold(event)) for event in events]
        await asyncio.sleep(0)
        for number in (2, 0, 1):
            events[number].set()
            await tasks[number]

    first, second, third = record_rows(tmp_path, lambda: asyncio.run(everything()))

    assert not (first.is_open or second.is_open or third.is_open)
    assert first.start_ns <= second.start_ns <= third.start_ns
    assert third.end_ns < first.end_ns < second.end_ns


def test_async_with_gives_a_span_that_another_task_cannot_close(tmp_path: Path) -> None:
    scope = profkit.scope("awaited")

    async def short() -> None:
        async with scope as entered:
            assert entered is scope
            await asyncio.sleep(0)

    async def long(done: asyncio.Event) -> None:
        async with scope:
            await done.wait()

    async def everything() -> None:
        done = asyncio.Event()
        waiting = asyncio.ensure_future(long(done))
        await asyncio.sleep(0)
        await short()
        done.set()
        await waiting

    first, second = record_rows(tmp_path, lambda: asyncio.run(everything()))

    assert first.kind == second.kind == RangeKind.SPAN
    assert first.start_ns <= second.start_ns <= second.end_ns <= first.end_ns


def test_an_asynchronous_generator_is_a_span_per_item(tmp_path: Path) -> None:
    @profkit.scope("item")
    async def items() -> AsyncIterator[int]:
        for number in range(2):
            await asyncio.sleep(0)
            yield number

    async def consume() -> list[int]:
        found = []
        async for number in items():
            with profkit.scope("consumer"):
                found.append(number)
        return found

    rows = record_rows(tmp_path, lambda: asyncio.run(consume()))

    assert _shape(rows) == {("item", RangeKind.SPAN): 3, ("consumer", RangeKind.RANGE): 2}
    assert inspect.isasyncgenfunction(items)


def test_a_cancelled_coroutine_closes_its_span(tmp_path: Path) -> None:
    @profkit.scope("cancelled")
    async def forever() -> None:
        await asyncio.sleep(1000)

    async def everything() -> None:
        task = asyncio.ensure_future(forever())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    (row,) = record_rows(tmp_path, lambda: asyncio.run(everything()))

    assert row.kind == RangeKind.SPAN and not row.is_open


def _shape(rows: list[Seen]) -> dict[tuple[str, RangeKind], int]:
    keys = [(row.name, row.kind) for row in rows]
    return {key: keys.count(key) for key in keys}
