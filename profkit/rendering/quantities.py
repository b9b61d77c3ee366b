"""Numbers with their units: written for people (time, bytes, ratios) and read from flags (`20s`, `4GiB`, `2%`)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from profkit.errors import UsageError

ABSENT = "\u2013"
"""A dash: beside 0 B, a hyphen would look like a sign."""
_TIME_UNITS = ((1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"))
_BYTE_UNITS = ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB"), (2.0**40, "TiB"))
_RATE_UNITS = ((1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"))

_SECONDS = {"": 1.0, "s": 1.0, "sec": 1.0, "ms": 1e-3, "m": 60.0, "min": 60.0, "h": 3600.0}
# K, KiB and kB are one: memory is counted in powers of two in any case.
_BYTES = {"": 1.0, "b": 1.0} | {
    f"{letter}{tail}": 1024.0**power for power, letter in enumerate("kmgt", start=1) for tail in ("", "b", "ib")
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)")


def number_text(value: float | None, digits: int = 3) -> str:
    """A plain number with this number of significant digits, never fewer than its whole part: 1234, 56.7, 0.0891."""
    if value is None:
        return ABSENT
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{value:.{decimals}f}" if decimals <= 6 else f"{value:.{digits - 1}e}"


def time_text(value_ns: float | None) -> str:
    """A duration with four digits: 812.0 ns, 10.31 ms, 1.204 s."""
    return _scaled(value_ns, _TIME_UNITS, 1000.0, 4)


def bytes_text(value: float | None) -> str:
    """A size in powers of two: 512 B, 1.50 KiB, 12.3 MiB."""
    return (
        ABSENT if value is None else f"{value:.0f} B" if abs(value) < 1024 else _scaled(value, _BYTE_UNITS, 1024.0, 3)
    )


def rate_text(value_per_s: float | None, unit: str) -> str:
    """A rate in powers of ten: 211 GFLOP/s, 18.2 GB/s."""
    text = _scaled(value_per_s, _RATE_UNITS, 1000.0, 3)
    return text if text == ABSENT else text.rstrip() + ("" if text[-1].isalpha() else " ") + unit


def spread_text(median: float | None, low: float | None, high: float | None) -> str:
    """The farther end of an interval in percent of the median: ±1.2%; beyond 99 % both ends in the median's unit."""
    if median is None or low is None or high is None or median <= 0:
        return ""
    percent = 100.0 * max(high - median, median - low, 0.0) / median
    if percent >= 99.5:
        factor = median / float(time_text(median).split()[0])
        return f"[{_end_text(low / factor)}, {_end_text(high / factor)}]"
    return f"±{percent:.1f}%" if percent < 9.95 else f"±{percent:.0f}%"


def percent_text(value: float | None) -> str:
    """A share: 86%, 4.1%, 0.2%."""
    if value is None:
        return ABSENT
    return f"{value:.0f}%" if value >= 9.95 else f"{value:.1f}%"


def ratio_text(value: float | None) -> str:
    """A ratio with two decimals, more when it is small: 12.3, 1.05, 0.047."""
    if value is None:
        return ABSENT
    return f"{value:.2f}" if 0.1 <= value < 9.995 else number_text(value, 3 if value >= 1 else 2)


def ratio_interval_text(ratio: float | None, low: float | None, high: float | None) -> str:
    """A ratio with its interval: 1.05 [1.03, 1.07], 0.019 [0.0021, 0.15]; a small one, well known: 0.0086 ±1.5%."""
    if low is None or high is None:
        return ratio_text(ratio)
    if ratio is not None and high < 0.1 and high - low < 0.2 * ratio:
        return f"{ratio_text(ratio)} {spread_text(ratio, low, high)}"
    return f"{ratio_text(ratio)} [{_end_text(low, ratio_text)}, {_end_text(high, ratio_text)}]"


def _end_text(value: float, text: Callable[[float], str] = number_text) -> str:
    """An end of an interval; for a nearly unknown one the order of magnitude is enough: 8.2e7, 1.3e-4."""
    return text(value) if 1e-3 <= value < 1e5 else error_text(value).replace("+", "")


def error_text(value: float | None) -> str:
    """An error's size; with two digits: 2.1e-7."""
    return ABSENT if value is None else "0" if value == 0 else f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e+")


def parse_duration(text: str) -> float:
    """Seconds from `20`, `20s`, `1m30s`, `500ms`."""
    return _parse(text, _SECONDS, "a time such as 20s, 1m30s or 500ms")


def parse_bytes(text: str) -> int:
    """Bytes from `4GiB`, `512M`, `1000000`; all units are powers of 1024."""
    return int(_parse(text, _BYTES, "a size such as 4GiB or 512MiB"))


def parse_size(text: str) -> int:
    """Bytes from `4GiB` or `512M`, never from a bare number: nobody means 4 bytes by 4."""
    if text.strip()[-1:].isdigit():
        raise UsageError(f"expected a size with its unit, such as 4GiB or 512MiB, got {text!r}")
    return parse_bytes(text)


def parse_share(text: str) -> float:
    """A share below 1 from `2%` or `0.02`."""
    body = text.strip()
    try:
        value = float(body[:-1]) / 100.0 if body.endswith("%") else float(body)
    except ValueError:
        value = math.nan
    if not 0.0 <= value < 1.0:
        raise UsageError(f"expected a share such as 2% or 0.02, got {text!r}")
    return value


def _parse(text: str, units: Mapping[str, float], expected: str) -> float:
    body = text.strip().lower()
    parts = _PART.findall(body)
    spelled = "".join(f"{amount}{unit}" for amount, unit in parts)
    if not parts or spelled != re.sub(r"\s", "", body) or any(unit not in units for _, unit in parts):
        raise UsageError(f"expected {expected}, got {text!r}")
    total = sum(float(amount) * units[unit] for amount, unit in parts)
    if total <= 0:
        raise UsageError(f"expected {expected} above zero, got {text!r}")
    return total


def _scaled(value: float | None, units: tuple[tuple[float, str], ...], step: float, digits: int) -> str:
    if value is None:
        return ABSENT
    if not math.isfinite(value):
        return str(value)
    for factor, unit in units:
        scaled = value / factor
        # 999.96 must become 1.000 of the next unit, so the printed value is compared (1024 rounded to three digits
        # would be 1020, but is printed in full).
        if abs(float(number_text(scaled, digits))) < step or unit == units[-1][1]:
            break
    return f"{number_text(scaled, digits)} {unit}"


def count_text(value: float | None) -> str:
    """A count with separators: 1,234,567; a mean of counts may have a fraction: 2.5."""
    if value is None:
        return ABSENT
    return f"{value:,.0f}" if value == round(value) else number_text(value)


def plural(count: float | None, one: str, many: str = "") -> str:
    """A count with its noun: 1 thread, 2 processes."""
    return f"{count_text(count)} {one if count == 1 else many or one + 's'}"
