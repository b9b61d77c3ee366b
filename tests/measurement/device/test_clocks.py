"""What is seen of a GPU through NVML, on a fake one: throttling, clocks, temperature, and nothing at all."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from profkit.measurement.call_clock import RETAKES, DeviceSamples, take_samples
from profkit.measurement.device import clocks as device_clocks
from profkit.measurement.device.clocks import ClockWatch, gpu_facts, open_watch, throttle_words
from tests.support.fake_nvml import FakeNvml


def watch_of(monkeypatch: pytest.MonkeyPatch, nvml: FakeNvml | None, looks: int = 0) -> ClockWatch:
    """A watch of this NVML, after so many looks."""
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    watch = open_watch(0)
    for _ in range(looks):
        watch.is_throttled()
    return watch


def samples_of(throttled: Sequence[bool], count: int) -> tuple[DeviceSamples, list[str]]:
    """Samples 0, 1, 2, ... of a device that is throttled as listed, and then no more; and how often it rested."""
    answers, numbers, rests = list(throttled), iter(range(1000)), list[str]()
    taken = take_samples(
        count, lambda: float(next(numbers)), lambda: bool(answers) and answers.pop(0), lambda: rests.append("rest")
    )
    return taken, rests


def test_samples_of_a_throttled_device_are_taken_again() -> None:
    taken, rests = samples_of([False, True, True, False], count=2)

    assert taken == DeviceSamples([0.0, 3.0], [False, False], retaken=2)
    assert rests == ["rest", "rest"]


def test_a_device_that_stays_throttled_is_measured_and_marked() -> None:
    taken, rests = samples_of([True] * 100, count=3)

    assert taken.throttled == [True] * 3
    assert taken.retaken == len(rests) == RETAKES * 3


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        (0x00, []),
        (0x01, []),  # idle
        (0x02, []),  # clocks that somebody has set
        (0x100, []),  # display clock setting
        (0x04, ["power cap"]),
        (0x08, ["hardware slowdown"]),
        (0x20, ["thermal limit (driver)"]),
        (0x48, ["hardware slowdown", "thermal limit (hardware)"]),
        (0x80, ["power brake"]),
    ],
)
def test_only_what_slows_a_device_down_is_throttling(reasons: int, words: list[str]) -> None:
    assert throttle_words(reasons) == words


NOT_INSTALLED = 'nvidia-ml-py is not installed: pip install "profkit[gpu]"'


@pytest.mark.parametrize(
    ("nvml", "looks", "facts", "remark"),
    [
        (
            FakeNvml(mhz=[1410, 1395], celsius=[40, 44]),
            3,
            {"sm_clock_mhz": "1395 to 1410", "temperature_c": "40 to 44"},
            "",
        ),
        (
            FakeNvml(mhz=[1410, 1200]),
            2,
            {"sm_clock_mhz": "1200 to 1410", "temperature_c": "50 to 50"},
            "the GPU's clock moved between 1200 and 1410 MHz",
        ),
        (
            FakeNvml(reasons=[0, 0x20, 0x04, 0], celsius=[80, 91, 90, 85]),
            4,
            {
                "sm_clock_mhz": "1410 to 1410",
                "temperature_c": "80 to 91",
                "throttled_by": "power cap, thermal limit (driver)",
            },
            "the GPU was throttled by power cap, thermal limit (driver) at up to 91 °C",
        ),
        (None, 1, {"clocks": f"not watched: {NOT_INSTALLED}"}, ""),
        # Lost while it is watched: what was seen until then is kept.
        (
            FakeNvml(lost_after=3),
            3,
            {"clocks": "not watched: NVML: GPU is lost", "sm_clock_mhz": "1410 to 1410", "temperature_c": "50 to 50"},
            "",
        ),
    ],
    ids=["steady", "changed clock", "throttled", "no package", "lost"],
)
def test_a_watch_has_facts_and_a_remark_where_something_changed(
    nvml: FakeNvml | None, looks: int, facts: dict[str, str], remark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = watch_of(monkeypatch, nvml, looks=looks)

    assert watch.facts() == facts
    assert watch.remark() == remark
    assert nvml is not None or not watch.is_throttled()


def test_a_driver_without_nvml_is_said_in_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()

    def fail() -> None:
        raise RuntimeError("NVML Shared Library Not Found")

    monkeypatch.setattr(nvml, "nvmlInit", fail, raising=False)

    assert watch_of(monkeypatch, nvml).trouble == "NVML Shared Library Not Found"


@pytest.mark.parametrize(
    ("visible", "place", "asked_for"),
    [("", "", 1), ("3, 2", "", 2), ("GPU-1f2e,GPU-33aa", "", "GPU-33aa"), ("3, 2", "0000:65:00.0", "0000:65:00.0")],
)
def test_nvmls_device_is_the_one_that_cuda_means_by_its_place_where_that_is_known(
    monkeypatch: pytest.MonkeyPatch, visible: str, place: str, asked_for: int | str
) -> None:
    nvml = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    assert open_watch(1, place).trouble == ""
    assert nvml.asked_for == [asked_for]


@pytest.mark.parametrize(("order", "is_known"), [(None, False), ("PCI_BUS_ID", True)])
def test_among_different_gpus_none_is_guessed(
    monkeypatch: pytest.MonkeyPatch, order: str | None, is_known: bool
) -> None:
    nvml = FakeNvml()
    nvml.names = ["A slow GPU", "A fast GPU"]
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if order is None:
        monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    else:
        monkeypatch.setenv("CUDA_DEVICE_ORDER", order)

    trouble = open_watch(0).trouble

    assert ("which of A fast GPU, A slow GPU CUDA uses is not known" in trouble) is not is_known
    assert bool(trouble) is not is_known


def test_an_older_package_has_the_same_questions_under_older_names(monkeypatch: pytest.MonkeyPatch) -> None:
    class Older(FakeNvml):
        def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: object) -> int:  # noqa: N802
            return 0x80

        def nvmlDeviceGetTemperature(self, handle: object, sensor: int) -> int:  # noqa: N802
            return 77

    nvml = Older()
    for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetTemperatureV"):
        monkeypatch.setattr(nvml, name, None, raising=False)

    watch = watch_of(monkeypatch, nvml, looks=1)

    assert watch.remark() == "the GPU was throttled by power brake at up to 77 °C"


def test_facts_of_every_gpu_are_none_where_it_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)

    facts = gpu_facts()

    assert facts["driver"] == "580.65"
    assert [device["name"] for device in facts["devices"]] == ["A fake GPU"]
    assert facts["devices"][0]["temperature_c"] == 50
    assert facts["devices"][0]["power_limit_w"] is None
    assert not nvml.is_open


def test_no_gpu_facts_without_the_package_but_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)

    assert gpu_facts() == {"devices": [], "reason": NOT_INSTALLED}


def test_the_real_package_has_what_is_asked_for() -> None:
    nvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")

    assert (nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM) == (device_clocks.SM_CLOCK, device_clocks.MEMORY_CLOCK)
    assert nvml.NVML_TEMPERATURE_GPU == device_clocks.TEMPERATURE_OF_GPU
    slowing = (
        nvml.nvmlClocksEventReasonSwPowerCap,
        nvml.nvmlClocksEventReasonHwSlowdown,
        nvml.nvmlClocksEventReasonSwThermalSlowdown,
        nvml.nvmlClocksEventReasonHwThermalSlowdown,
        nvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
    )
    assert list(device_clocks.THROTTLES) == list(slowing)
    for name in vars(FakeNvml):
        assert not name.startswith("nvml") or hasattr(nvml, name)
