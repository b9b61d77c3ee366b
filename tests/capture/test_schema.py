"""The tables of a capture: columns of one length, whose types hold what is given, and nothing for what is absent."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest

from profkit.capture.reading import read
from profkit.capture.schema import NONE, Activities, Calls, Capture, Device, Process, Ranges, Threads
from tests.capture.builders import CaptureBuilder


def test_a_column_that_a_source_does_not_have_reads_as_none_and_takes_no_memory() -> None:
    table = Ranges(start_ns=np.arange(1000), end_ns=np.arange(1000))

    assert table.nbytes == 2 * 8 * 1000
    assert table.layer.tolist() == [NONE] * 1000 and table.layer.dtype == np.int32
    assert table.payload.tolist() == [0] * 1000 and not table.is_open.any()
    assert not table.has("layer") and table.has("start_ns")


def test_a_changed_copy_still_has_no_memory_for_what_is_absent() -> None:
    table = replace(Ranges(start_ns=np.arange(1000)), name=np.zeros(1000, np.int32))

    assert table.nbytes == 12 * 1000


def test_a_number_that_does_not_fit_its_column_is_not_known() -> None:
    table = Activities(kind=np.array([0, 1, 2**40]), registers=np.array([2**31, -(2**31) - 1, 7]))

    assert table.registers.tolist() == [NONE, NONE, 7]
    assert table.kind.tolist() == [0, 1, NONE]


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"Calls.end_ns has 2 rows, not 3"):
        Calls(start_ns=np.arange(3), end_ns=np.arange(2))


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(TypeError, match="color"):
        Ranges(color=np.arange(3))  # type: ignore[call-arg]


def test_a_range_of_a_traced_program_takes_at_most_92_bytes(tmp_path: str) -> None:
    def bytes_per_range(name: str, builder: CaptureBuilder) -> float:
        capture = read(builder.write(f"{tmp_path}/{name}.profkit"))
        return capture.ranges.nbytes / len(capture.ranges)

    plain = CaptureBuilder().begin(1, "a").end(2).begin(3, "b").end(4)
    counted = CaptureBuilder().begin(1, "a").usage(False, 1, 1, 1, 1).payload(8)
    counted.usage(True, 2, 3, 4, 5).end(2).begin(3, "b").end(4)

    assert bytes_per_range("counted", counted) == 92
    assert bytes_per_range("plain", plain) == 92 - 4 * 8 - 9


def test_the_moments_of_a_capture_are_those_of_its_processes_and_devices() -> None:
    processes = (Process(1, start_ns=10, end_ns=20), Process(2, start_ns=5, end_ns=15))
    work = Activities(start_ns=np.array([4, 6]), end_ns=np.array([30, 7]))
    capture = Capture("made by hand", (), processes, Threads(), Ranges())

    assert (capture.start_ns, capture.end_ns, capture.duration_ns) == (5, 20, 15)
    changed = replace(capture, activities=work)
    assert (changed.start_ns, changed.end_ns, changed.duration_ns) == (4, 30, 26)
    assert replace(capture, processes=()).duration_ns == 0


def test_of_a_device_only_what_is_known_is_told() -> None:
    assert Device(3, "GPU", memory_bytes=0).known() == {"id": 3, "name": "GPU", "memory_bytes": 0}
    assert len(fields(Device)) == 11


def test_workers_under_foreign_interpreters_need_numpy_alone() -> None:
    code = (
        "import sys, profkit.capture.schema\n"
        "print([n for n in sys.modules if n.startswith('profkit.')], 'duckdb' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "['profkit.capture', 'profkit.capture.schema'] False"
