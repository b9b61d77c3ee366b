"""Numbers with units, written and read."""

from collections.abc import Callable

import pytest

from profkit.errors import UsageError
from profkit.rendering import quantities

DASH = "\u2013"


@pytest.mark.parametrize(
    ("value_ns", "text"),
    [
        (None, DASH),
        (0.0, "0 ns"),
        (3.5, "3.500 ns"),
        (812.0, "812.0 ns"),
        (999.96, "1.000 µs"),
        (10_310.0, "10.31 µs"),
        (10_314_000.0, "10.31 ms"),
        (999_990_000.0, "1.000 s"),
        (1.2041e9, "1.204 s"),
        (123456e9, "123456 s"),
        (float("nan"), "nan"),
    ],
)
def test_a_time_has_four_digits_and_the_fitting_unit(value_ns: float | None, text: str) -> None:
    assert quantities.time_text(value_ns) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, DASH),
        (0, "0 B"),
        (512, "512 B"),
        (1536, "1.50 KiB"),
        (1023 * 1024, "1023 KiB"),
        (1 << 20, "1.00 MiB"),
        (12.3 * 2**20, "12.3 MiB"),
    ],
)
def test_a_size_is_written_in_powers_of_two(value: float | None, text: str) -> None:
    assert quantities.bytes_text(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(211.4e9, "FLOP/s", "211 GFLOP/s"), (18.24e9, "B/s", "18.2 GB/s"), (12.0, "B/s", "12.0 B/s"), (None, "B/s", DASH)],
)
def test_a_rate_is_written_in_powers_of_ten(value: float | None, unit: str, text: str) -> None:
    assert quantities.rate_text(value, unit) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.054, "1.05"),
        (12.34, "12.3"),
        (0.047, "0.047"),
        (9.999, "10.0"),
        (1234.6, "1235"),
        (0.1, "0.10"),
        (None, DASH),
    ],
)
def test_a_ratio_keeps_the_digits_that_matter(value: float | None, text: str) -> None:
    assert quantities.ratio_text(value) == text


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (1.0, None, None, "1.00"),
        (1.05, 1.031, 1.072, "1.05 [1.03, 1.07]"),
        (0.0086, 0.0085, 0.0087, "0.0086 ±1.2%"),  # small, and well known
        (0.5, 0.2, 1.2, "0.50 [0.20, 1.20]"),
        (0.019, 0.0021, 0.15, "0.019 [0.0021, 0.15]"),
        (152.0, 0.00013, 174380298.0, "152 [1.3e-4, 1.7e8]"),
        (0.0086, 0.0049, 0.0151, "0.0086 [0.0049, 0.015]"),
    ],
)
def test_a_ratio_has_its_bounds(value: float, low: float | None, high: float | None, text: str) -> None:
    assert quantities.ratio_interval_text(value, low, high) == text


def test_a_spread_is_the_farther_end_of_the_interval() -> None:
    assert quantities.spread_text(100.0, 99.0, 103.0) == "±3.0%"
    assert quantities.spread_text(100.0, 60.0, 103.0) == "±40%"
    assert quantities.spread_text(100.0, 60.0, 900.0) == "[60.0, 900]"
    assert quantities.spread_text(811.7e6, 95.13e6, 6.926e9) == "[95.1, 6926]"  # ms, as the median is shown
    assert quantities.spread_text(546.4e3, 0.3, 81.99e12) == "[3.0e-4, 8.2e10]"
    assert quantities.spread_text(100.0, None, 103.0) == ""


@pytest.mark.parametrize(
    ("read", "values"),
    [
        (
            quantities.parse_duration,
            {"20": 20.0, "20s": 20.0, "1m": 60.0, "1m30s": 90.0, "500ms": 0.5, " 1.5 min": 90.0},
        ),
        (
            quantities.parse_bytes,
            {"1000000": 1_000_000, "4GiB": 4 * 2**30, "4gb": 4 * 2**30, "512M": 2**29, "1.5k": 1536},
        ),
        (quantities.parse_share, {"2%": 0.02, "0.02": 0.02, "0": 0.0, " 12.5 %": 0.125}),
    ],
)
def test_a_quantity_is_read_with_its_unit(read: Callable[[str], float], values: dict[str, float]) -> None:
    assert {text: read(text) for text in values} == pytest.approx(values)


@pytest.mark.parametrize(
    ("read", "example", "texts"),
    [
        (quantities.parse_duration, "20s", ["", "soon", "-3s", "0s", "3 parsecs", "1m,30s", "nan"]),
        (quantities.parse_bytes, "4GiB", ["", "4 elephants", "0", "-1GiB"]),
        (quantities.parse_share, "2%", ["", "2", "100%", "-1%", "x", "nan"]),
    ],
)
def test_an_unreadable_quantity_is_a_usage_error_with_examples(
    read: Callable[[str], float], example: str, texts: list[str]
) -> None:
    for text in texts:
        with pytest.raises(UsageError, match=example):
            read(text)


def test_a_size_with_its_unit_is_read_and_a_bare_number_is_not() -> None:
    assert quantities.parse_size("1.5GiB") == 3 << 29
    for text in ("4", "4096 ", "1.5"):
        with pytest.raises(UsageError, match="with its unit"):
            quantities.parse_size(text)
