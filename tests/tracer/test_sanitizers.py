"""The NVTX, ITT and CUPTI doors under the thread, address and undefined-behaviour sanitizers; CUPTI's double under the
same ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from profkit.capture.reading import read
from profkit.capture.schema import RangeKind, Source
from tests.support.processes import succeed
from tests.tracer.cupti.gpu_programs import device_of, double
from tests.tracer.programs import environment, rows, stress_program

pytestmark = [pytest.mark.full, pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])]


def test_doors_used_by_threads_while_captures_start_and_stop_are_clean_and_complete(
    sanitizer: str, tmp_path: Path
) -> None:
    program = stress_program(tmp_path, "stress_doors", sanitizer)

    output = succeed([str(program), str(tmp_path), "4"], environment(None))

    expected_ranges, expected_marks = map(int, output.split())
    capture = read(str(tmp_path / "3.profkit"))
    found = rows(capture, Source.NVTX) + rows(capture, Source.ITT)
    marks = sum(row.kind == RangeKind.MARK for row in found)
    assert capture.losses.records == 0
    assert (len(found) - marks, marks) == (expected_ranges, expected_marks)
    assert capture.ranges.is_open.sum() == 1  # the span that nobody came to end
    assert capture.threads.unbalanced_pops.sum() == 0


def test_launches_of_threads_while_captures_start_and_stop_are_clean_and_complete(
    sanitizer: str, tmp_path: Path
) -> None:
    program = stress_program(tmp_path, "stress_cupti", sanitizer)
    library = str(double("cupti_double", sanitizer))

    output = succeed([str(program), str(tmp_path)], environment(None, PROFKIT_CUPTI_LIBRARY=library))

    for place in range(3):
        capture = read(str(tmp_path / f"{place}.profkit"))
        trace = device_of(capture)
        kernels = Counter(trace.text(int(name)) for name in trace.activities["name"])
        del kernels["kernel 9"]
        assert capture.losses.records == 0 and trace.facts["cut records"] == 0
        assert not any("CUPTI" in warning for warning in capture.warnings), capture.warnings
        assert kernels == {f"kernel {number}": int(output) // 4 for number in range(4)}
        owners = Counter(
            (int(stream), "-" if row < 0 else trace.text(int(trace.ranges["name"][row])))
            for stream, row in zip(trace.activities["stream"], trace.activities["range"])
            if stream < 4
        )
        for number in range(4):  # of 400 launches every second is in "inner", every sixth in no range
            assert owners[number, "inner"] == 200
            assert owners[number, f"thread {number}"] == 133
            assert owners[number, "-"] == 67
