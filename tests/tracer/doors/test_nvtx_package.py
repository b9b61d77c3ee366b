"""The calls of the `nvtx` package for Python arrive through the NVTX door."""

from __future__ import annotations

from pathlib import Path

import pytest

from profkit.capture.schema import PayloadType, RangeKind, Source
from tests.tracer.programs import Row, rows, trace_python

pytest.importorskip("nvtx", reason="the nvtx package is not installed")

BLUE = 0x0000FF  # what the package sends when no colour is asked for


def nvtx_rows_of(folder: Path, text: str) -> list[Row]:
    return rows(trace_python(folder, "import nvtx\n" + text).capture, Source.NVTX)


def test_annotate_as_context_manager_and_decorator(tmp_path: Path) -> None:
    text = """
with nvtx.annotate("outer", color="red", domain="app", category="phase", payload=3):
    with nvtx.annotate("inner"):
        pass

@nvtx.annotate()
def decorated():
    nvtx.mark("inside")

@nvtx.annotate(message="own message", domain="app")
def with_message():
    pass

decorated()
with_message()
"""

    found = nvtx_rows_of(tmp_path, text)

    assert found == [
        Row(RangeKind.RANGE, "app:outer", None, "phase", 0xFF0000, PayloadType.INT64, 3),
        Row(RangeKind.RANGE, "inner", "app:outer", None, BLUE),
        Row(RangeKind.RANGE, "decorated", None, None, BLUE),
        Row(RangeKind.MARK, "inside", "decorated", None, BLUE),
        Row(RangeKind.RANGE, "app:own message", None, None, BLUE),
    ]


def test_module_functions_push_pop_start_end_and_mark(tmp_path: Path) -> None:
    text = """
nvtx.push_range("pushed", color=0xFF123456, domain="app", payload=0.5)
nvtx.mark("marked", domain="app", category="events", payload=-1)
started = nvtx.start_range("started", domain="app", category=5)
nvtx.pop_range(domain="app")
nvtx.end_range(started)
"""

    found = nvtx_rows_of(tmp_path, text)

    assert found == [
        Row(RangeKind.RANGE, "app:pushed", None, None, 0xFF123456, PayloadType.FLOAT64, 0.5),
        Row(RangeKind.MARK, "app:marked", "app:pushed", "events", BLUE, PayloadType.INT64, -1),
        Row(RangeKind.SPAN, "app:started", "app:pushed", "5", BLUE),
    ]


def test_domain_objects_with_attributes_used_again(tmp_path: Path) -> None:
    text = """
domain = nvtx.get_domain("held")
attributes = domain.get_event_attributes(message="first", category="kind", color="green")
for payload in (1, 2, 3):
    attributes.payload = payload
    domain.push_range(attributes)
    domain.pop_range()
attributes.message = domain.get_registered_string("second")
attributes.payload = None
domain.mark(attributes)
domain.end_range(domain.start_range(attributes))
"""

    found = nvtx_rows_of(tmp_path, text)

    green = 0x008000
    first = [Row(RangeKind.RANGE, "held:first", None, "kind", green, PayloadType.INT64, i) for i in (1, 2, 3)]
    assert found == [
        *first,
        Row(RangeKind.MARK, "held:second", None, "kind", green),
        Row(RangeKind.SPAN, "held:second", None, "kind", green),
    ]


def test_array_payloads_are_opaque_with_their_size(tmp_path: Path) -> None:
    text = """
import numpy as np
domain = nvtx.get_domain("arrays")
domain.mark(message="array", payload=np.zeros((3, 5), dtype=np.float32))
domain.mark(message="scalar", payload=np.array(1.5))
"""

    capture = trace_python(tmp_path, "import nvtx\n" + text).capture

    assert [row.payload_type for row in rows(capture, Source.NVTX)] == [PayloadType.OPAQUE] * 2
    # An array is sent behind its length of 8 bytes.
    assert capture.ranges.payload.tolist() == [8 + 3 * 5 * 4, 8]
