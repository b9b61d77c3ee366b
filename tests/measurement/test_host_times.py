"""When a row says that the host is what its calls wait for."""

from __future__ import annotations

from profkit.measurement.host_times import HostTimes


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

    assert (host.wall_ns, host.dispatch_ns, host.remark(1.0)) == (None, None, "")


def test_a_device_that_waits_for_the_host_is_remarked() -> None:
    words = "bound by the host: launching takes 12.5 µs per call, the device works 4.2 µs"
    assert times(12_500.0).remark(4200.0) == words


def test_a_device_that_works_as_long_as_the_host_launches_is_not() -> None:
    assert times(4300.0).remark(4200.0) == ""
