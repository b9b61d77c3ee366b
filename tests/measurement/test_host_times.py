"""When a row says that the host is what its calls wait for."""

from __future__ import annotations

import pytest

from profkit.measurement.host_times import HostTimes, is_host_bound
from profkit.measurement.result import Row


def times(*dispatches: float) -> HostTimes:
    """Turns with these times of launching."""
    host = HostTimes()
    for index, dispatch_ns in enumerate(dispatches):
        host.take(index, 10.0 * dispatch_ns, dispatch_ns)
    return host


def test_medians_over_rounds() -> None:
    host = times(3000.0, 1000.0, 2000.0)

    assert (host.wall_ns, host.dispatch_ns) == (20_000.0, 2000.0)
    assert host.walls == {0: 30_000.0, 1: 10_000.0, 2: 20_000.0}


def test_nothing_is_known_of_a_row_that_nothing_was_taken_of() -> None:
    host = HostTimes()
    host.take(0, None, None)

    assert (host.wall_ns, host.dispatch_ns) == (None, None)


@pytest.mark.parametrize(
    ("dispatch_ns", "is_bound"), [(12_500.0, True), (4300.0, False), (100.0, False), (None, False)]
)
def test_a_device_that_waits_for_the_host_is_known(dispatch_ns: float | None, is_bound: bool) -> None:
    row = Row("matmul/cupy/cuda", "ok", median_ns=4200.0, dispatch_ns=dispatch_ns)

    assert is_host_bound(row) is is_bound
