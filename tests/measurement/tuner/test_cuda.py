"""Launch configurations by the same tuner, on a fake device: what is tried, what is kept, and who then uses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from profkit.frameworks.adapter import Conditions, Implementation
from profkit.frameworks.device_arrays import cuda_device
from profkit.frameworks.native.cuda import ADAPTER
from profkit.frameworks.native.tuned import Tuning, find_choice, keep_choices, read_choices
from profkit.measurement.result import Row
from profkit.measurement.tuner.search import Trial, TuningOutcome, TuningTask, trial_implementation
from profkit.measurement.tuner.tasks import choice_of, find_tasks, tunable_kernels
from profkit.ops.matmul import MatMul
from tests.support import host_cuda
from tests.support.typed import Typed

KEY = "matmul/native/cuda/double_buffered"
ROUNDED = "matmul/native/cuda/tensor_core_tf32"
NAIVE = "matmul/native/cuda/naive"
SPEC = MatMul(6, 7, 8)


@pytest.fixture
def cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[host_cuda.HostCuda]:
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PROFKIT_TUNED", raising=False)
    fake = host_cuda.install(monkeypatch)
    fake.rows = {KEY: ["64x64x8", "128x128x8", "256"], ROUNDED: ["64x64", "128x64"], NAIVE: []}
    yield fake
    cuda_device.cache_clear()


def tasks() -> list[TuningTask]:
    return find_tasks(tunable_kernels("matmul", [], "cuda"), SPEC, 2)[0]


def keep(tuning: Tuning) -> None:
    rows = [Trial({}, "final", Row(KEY, "ok", median_ns=20.0)), Trial(tuning, "final", Row(KEY, "ok", median_ns=10.0))]
    keep_choices([choice_of(TuningOutcome(tasks()[0], rows, tuning, "2x as fast"))])


def prepared_note(implementation: Implementation, threads: int = 2) -> str:
    """Prepares and calls; the row's note."""
    inputs = SPEC.make_inputs()
    prepared = ADAPTER.prepare(implementation, SPEC, inputs, Conditions(threads))
    np.testing.assert_allclose(prepared.to_numpy(prepared.call()), SPEC.reference(inputs), rtol=1e-5, atol=1e-5)
    return prepared.note


@pytest.mark.usefixtures("cuda")
def test_every_configuration_but_the_policys_is_a_trial() -> None:
    found = tasks()

    assert [task.key for task in found] == [KEY, ROUNDED]
    assert [item.default for item in found[0].tunables] == ["128x128x8"]
    assert found[0].trials == [{"configuration": "64x64x8"}, {"configuration": "256"}]


def test_a_trial_runs_its_configuration_and_the_default_the_policys(cuda: host_cuda.HostCuda) -> None:
    task = tasks()[0]

    for tuning in ({}, *task.trials):
        assert prepared_note(trial_implementation(task, tuning)) == ""

    assert cuda.bound == [(KEY, -1), (KEY, 0), (KEY, 2)]


@pytest.mark.usefixtures("cuda")
def test_a_trial_keeps_what_its_kernel_says_of_its_rounding() -> None:
    rounded = tasks()[1]

    assert trial_implementation(rounded, rounded.trials[0]).rounding == "tf32"


@pytest.mark.parametrize("name", ["64x64x8", "256"])
def test_the_choice_is_used_whatever_the_threads_of_the_host(cuda: host_cuda.HostCuda, name: str) -> None:
    keep({"configuration": name})

    notes = [prepared_note(Implementation(KEY, "native_cuda"), threads) for threads in (1, 2)]

    assert notes == [f"tuned: configuration={name}"] * 2
    assert cuda.bound == [(KEY, cuda.rows[KEY].index(name))] * 2


def test_a_choice_that_this_build_does_not_have_is_told_and_ignored(cuda: host_cuda.HostCuda) -> None:
    keep({"configuration": "64x64x8"})
    cuda.rows[KEY] = ["32x32x8", "128x128x8"]

    note = prepared_note(Implementation(KEY, "native_cuda"))

    assert note.startswith("the tuned configuration=64x64x8 in ")
    assert note.endswith("is ignored: configuration=64x64x8: there is 32x32x8, 128x128x8")
    assert cuda.bound == [(KEY, -1)]


@pytest.mark.usefixtures("cuda")
def test_a_choice_belongs_to_the_device_and_the_build() -> None:
    keep({"configuration": "64x64x8"})
    here = ADAPTER.fingerprint(Implementation(KEY, "native_cuda"))

    known = read_choices()

    assert find_choice(known, KEY, SPEC, 2, here) is not None
    assert find_choice(known, KEY, SPEC, 2, {**here, "device": "NVIDIA Other"}) is None
    assert find_choice(known, KEY, SPEC, 2, {**here, "build": "another"}) is None


@pytest.mark.usefixtures("cuda")
def test_a_dry_run_plans_a_device_once_for_all_thread_counts(typed: Typed) -> None:
    words = ["matmul", "--m", "6", "--n", "7", "--k", "8", "--device", "cuda", "--threads", "1,2", "--dry-run"]

    assert typed.shows("tune", *words).splitlines() == [
        f"{KEY}: m 6, n 7, k 8, dtype float32; default configuration=128x128x8",
        "configuration  [128x128x8]  64x64x8, 256",
        f"{ROUNDED}: m 6, n 7, k 8, dtype float32; default configuration=128x64",
        "configuration  [128x64]  64x64",
    ]


def test_without_a_driver_its_reason_is_told_once(
    cuda: host_cuda.HostCuda, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    cuda.has_driver = False
    monkeypatch.setattr("profkit.frameworks.native.cuda.no_cuda_driver", lambda: host_cuda.NO_DRIVER)

    code, _, err = typed("tune", "matmul", "--m", "6", "--device", "cuda")

    assert code == 1
    shown = " ".join(err.split())
    assert shown == f"{KEY}, {ROUNDED}, {NAIVE}: unavailable: {host_cuda.NO_DRIVER} there is nothing to tune"
