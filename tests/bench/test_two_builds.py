"""bench/two_builds.py: builds are asked by what every compiled module has, kernels are matched and judged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import two_builds
from two_builds import KernelCell


def test_two_builds_are_measured_and_the_page_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(two_builds, "TURNS", 1)
    page = tmp_path / "page.md"
    words = ["--every", "100", "--threads", "1", "--seconds", "0.001", "--only", "blocked", "--revision", "abc1234"]

    code = two_builds.main([sys.executable, *words, "--output", str(page)])

    printed = capsys.readouterr().out
    assert code in (0, 1)  # times are not tested
    assert "| matmul/native/cpu/blocked | " in printed
    text = page.read_text()
    assert printed.strip() in text and "The old build is abc1234." in text
    assert "two_builds.py OTHER_PYTHON --every" in text and sys.executable not in text


@pytest.mark.parametrize(
    ("key", "new"),
    [
        ("conv2d/native/cpu/inside_taps", "conv2d/native/cpu/skip_padding"),
        ("conv2d/native/cpu/inside_taps/nhwc", "conv2d/native/cpu/skip_padding/nhwc"),
        ("conv2d/native/cpu/direct", "conv2d/native/cpu/direct"),
    ],
)
def test_a_kernel_that_had_another_name_is_matched(key: str, new: str) -> None:
    assert two_builds.renamed(key, ["inside_taps=skip_padding"]) == new


def test_slower_is_below_the_limit_in_both_runs_or_in_the_mean() -> None:
    once, twice = KernelCell("a", "once", [0.90, 1.05]), KernelCell("a", "twice", [0.90, 0.94])
    even, mean = KernelCell("a", "even", [1.2, 1.2]), KernelCell("b", "mean", [0.96, 0.97])

    assert two_builds.judged([once, even])[1] is False
    text, is_slower = two_builds.judged([once, twice, even, mean])
    assert is_slower
    assert text.splitlines()[-3:] == [
        "1 of 4 cells and 1 of 2 means are slower",
        "- a twice: 0.900, 0.940",
        "- b in the mean",
    ]
