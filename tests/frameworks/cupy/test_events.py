"""What is recorded of CuPy's networks, with NumPy and a fake device in CuPy's place."""

from __future__ import annotations

import sys

import pytest

from profkit.capture.schema import NONE, Capture
from profkit.frameworks.cupy.networks import BUILDER
from profkit.frameworks.events import SourceSubject, load_source
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.ops.networks import Mlp
from tests.frameworks.events.source_checks import assert_sound, rows
from tests.frameworks.networks.network_checks import with_batch
from tests.support.fake_cupy import FakeCupy, MemoryHook

NETWORK = Mlp(batch=4, hidden=1, neurons=8)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return fake


def record(name: str, steps: int = 1) -> Capture:
    conditions = NetworkConditions()
    trial = with_batch(NETWORK, BUILDER.build(NETWORK, NETWORK.initial_weights(), conditions))
    watched = SourceSubject(NETWORK, trial.built, conditions, lambda: trial.built.infer(trial.batch))
    return load_source("cupy").record(watched, name, steps)


def test_every_operator_is_a_range_and_waits_for_the_device(cupy: FakeCupy) -> None:
    capture = record("time")

    operators = ["hidden1/matmul", "output/matmul"]
    assert_sound(capture, steps=1)
    assert [row["name"] for row in rows(capture)] == operators
    assert cupy.called == [*(call for name in operators for call in (name, "wait", "pop")), "wait"]
    assert rows(capture)[0]["implementation"] == "matmul/cupy/cuda"
    assert all(row["pool_cpu_ns"] == NONE for row in rows(capture))


@pytest.mark.usefixtures("cupy")
def test_bytes_are_those_that_were_asked_of_the_pool() -> None:
    capture = record("memory", steps=2)

    product, _ = rows(capture, step=1)
    result = 4 * 8 * 4
    assert product["requested_bytes"] == 1000 + result
    assert (product["temporary_bytes"], product["peak_bytes"]) == (1000, 1000 + result)
    assert not MemoryHook.active
