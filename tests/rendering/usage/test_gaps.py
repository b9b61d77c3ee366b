"""The table against the baseline as people read it: columns, dashes for the unknown, and the advice below."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from profkit.attribution.gaps import GapTable, layer_gaps
from profkit.rendering.usage.gaps import gap_table, gaps_to_json
from tests.capture.network_captures import layer, network_capture, op, recording_of

DASH = "\u2013"
PEAKS = {"peak_flops_per_s": 100e9, "peak_bytes_per_s": 10e9}


def base(name: str, phase: str, native_ns: float | None, bound_ns: float, **changes: Any) -> dict[str, Any]:
    key = None if native_ns is None else "conv2d/native/cpu/direct"
    row = {"layer": name, "phase": phase, "native_ns": native_ns, "native_key": key, "bound_ns": bound_ns}
    work = {"flops": 40_000_000, "bytes": 100_000, "parts": [{"key": key}], "without_kernel": []}
    return {**row, **work, **PEAKS, **changes}


def shown(table: GapTable) -> str:
    return str(gap_table(table))


def told(time_ns: int, *rows: dict[str, Any], step_ns: int = 14_000_000, **about: Any) -> str:
    """What is shown of a convolution that takes so long beside this baseline, in one line."""
    made = recording_of(op("aten::convolution", 0, time_ns, layer="conv1", phase="forward"), steps=[(0, step_ns)])
    return " ".join(shown(layer_gaps(network_capture(made, baseline=list(rows), **about))).split())


def the_table() -> GapTable:
    """conv1: 10 ms of which 2 ms are a pad and 1 ms dispatch; pool1: 3 ms."""
    made = recording_of(
        layer("conv1", 0, 10_000_000),
        op("aten::constant_pad_nd", 0, 2_000_000, layer="conv1", phase="forward"),
        op("aten::convolution", 2_000_000, 9_000_000, layer="conv1", phase="forward"),
        layer("pool1", 10_000_000, 13_000_000),
        op("aten::max_pool2d", 10_000_000, 13_000_000, layer="pool1", phase="forward"),
        steps=[(0, 14_000_000)],
    )
    reference = [{"key": "pool2d/native/cpu/reference"}]
    rows = [base("conv1", "forward", 4e6, 4e5), base("pool1", "forward", None, 1e4, flops=9, parts=reference)]
    return layer_gaps(network_capture(made, baseline=rows))


def words(text: str, begin: str) -> list[str]:
    """The words of the first line that begins so."""
    return next(line for line in text.splitlines() if line.startswith(begin)).split()


def test_a_row_has_times_parts_and_a_class() -> None:
    text = shown(the_table())

    expected = "conv1 forward 10.0 ms 4.00 ms 400 µs 2.50 70% 20% 10% 0.0% (compute)"
    assert words(text, "conv1 ") == expected.split()
    assert words(text, "pool1 ")[4:7] == [DASH, "10.0", "µs"]
    assert words(text, "(no operator")[3:] == ["1.00", "ms", DASH, DASH]
    assert words(text, "step ") == ["step", "14.0", "ms", "4.00", "ms", "410", "µs", "2.50"]


def test_of_many_layers_the_longest_are_shown_and_the_others_added_up() -> None:
    names = [f"conv{number}" for number in range(1, 41)]
    made = recording_of(
        *(
            op(
                "aten::convolution",
                1_000_000 * place,
                1_000_000 * place + 10_000 * (place + 1),
                layer=name,
                phase="forward",
            )
            for place, name in enumerate(names)
        ),
        steps=[(0, 50_000_000)],
    )
    rows = [base(name, "forward", 5e3, 1e3) for name in names[:-1]]
    table = layer_gaps(network_capture(made, baseline=rows))

    some, every = gap_table(table, top=3), gap_table(table)

    assert [line.name for line in some.lines] == [
        *("conv38", "conv39", "conv40", "… 37 more rows"),
        *("(no operator running)", "step"),
    ]
    # 10 µs times 1 + 2 + ... + 37; 37 kernels of 5 µs.
    assert some.lines[3].texts[2:6] == ("7.03 ms", "185 µs", "37.0 µs", "38.0")
    assert some.lines[-1] == every.lines[-1]
    assert len(every.lines) == 42


def test_the_optimiser_has_a_native_time_beside_its_own() -> None:
    made = recording_of(op("aten::_fused_sgd_", 0, 3_000_000, phase="optimiser"), steps=[(0, 4_000_000)])
    table = layer_gaps(network_capture(made, baseline=[base("", "optimiser", 1e6, 5e5)]))

    assert words(shown(table), "(optimiser)")[1:7] == ["3.00", "ms", "1.00", "ms", "500", "µs"]
    assert words(shown(table), "step ")[1:7] == ["4.00", "ms", "1.00", "ms", "500", "µs"]
    assert gaps_to_json(table)["outside"][0]["native_ns"] == 1e6


def test_it_is_said_whose_bound_it_is_and_winograd_has_its_own() -> None:
    by_winograd = told(9_000_000, base("conv1", "forward", 3e5, 4e5, native_bound_ns=1.5e5))
    by_direct = told(9_000_000, base("conv1", "forward", 3e6, 4e5, native_bound_ns=4e5))

    meaning = "bound (direct): least time on this machine by the direct method"
    assert f"{meaning}; of the Winograd kernels that native took: conv1 forward 150 µs" in by_winograd
    assert meaning in by_direct
    assert "Winograd" not in by_direct


def test_native_times_of_a_busy_machine_are_told_above_the_table() -> None:
    quiet, busy = (
        " ".join(shown(replace(the_table(), busy_load=load)).partition("layer ")[0].split()) for load in (None, 5.2)
    )

    assert "native kernels were timed on a busy machine (load 5.2), they may be faster" in busy
    assert "busy" not in quiet


def test_of_a_busy_machine_it_is_not_concluded_that_a_kernel_is_slow() -> None:
    process = {"steps": 6, "recorded": {}, "captures": 1}
    quiet, busy = (
        told(9_000_000, base("conv1", "forward", 4e6, 4e5), processes=[{**process, "machine": {"others_share": share}}])
        for share in (0.01, 0.3)
    )

    assert "the layer 22 times its bound: the kernel is slow, not the machine" in quiet
    assert "busy" not in quiet and "quiet" not in quiet
    assert "the layer 22 times its bound: the machine was busy, whether the kernel is slow is open" in busy
    assert "the kernel is slow, not the machine" not in busy
    assert "warning: busy machine: other programs took 30% of these processors: distances from kernels" in busy
    assert "record it again while the machine is quiet" in busy


def test_no_time_is_below_its_bound_without_a_word() -> None:
    slower = told(300_000, base("conv1", "forward", 3e5, 2.9e5, native_bound_ns=2.9e5), step_ns=400_000)
    faster = told(300_000, base("conv1", "forward", 2e5, 4e5, native_bound_ns=2.5e5), step_ns=400_000)

    assert "faster than" not in slower
    assert "faster than the bound (direct): conv1 forward 133%; by a method with fewer operations" in faster
    assert "native kernels faster than their bound: conv1 forward 125%; their data stayed in caches" in faster


def test_the_reader_learns_what_to_optimise_by_how_much_and_why() -> None:
    text = " ".join(shown(the_table()).split())

    assert (
        "Optimise first: conv1 forward. profkit's conv2d/native/cpu/direct would do in 4.00 ms what takes 10.0 ms "
        "here: the step would take 8.00 ms instead of 14.0 ms (43% less). Most of the difference is in the kernel "
        "itself: 3.00 ms." in text
    )
    assert "conv1 forward: compute, 400 flops per byte (balance 10); 4 GFLOP/s are 4% of the peak" in text
    assert "Farthest from what this machine can do: conv1 forward, 10.0 ms where 400 µs is the bound" in text
    assert "native pool2d: reference kernels, not tuned" in text


def test_auxiliary_work_is_named_by_its_kinds() -> None:
    made = recording_of(
        op("aten::copy_", 0, 700, layer="conv1", phase="forward"),
        op("aten::constant_pad_nd", 700, 900, layer="conv1", phase="forward"),
        op("aten::convolution", 900, 1000, layer="conv1", phase="forward"),
        steps=[(0, 1000)],
    )

    text = shown(layer_gaps(network_capture(made, baseline=[base("conv1", "forward", 90.0, 50.0)])))

    assert "work that the layer does not ask for: copy 700 ns, pad 200 ns." in " ".join(text.split())
    assert words(text, "conv1 ")[-1] == "transfer"


def test_lines_stay_within_the_width_whatever_the_names() -> None:
    name = "a_layer_with_a_very_long_name_indeed_because_somebody_nested_modules"
    made = recording_of(op("x", 0, 900, layer=name, phase="backward"), steps=[(0, 1000)])

    text = shown(layer_gaps(network_capture(made)))

    assert max(map(len, text.splitlines())) <= 100
    assert max(map(len, shown(the_table()).splitlines())) <= 100


def test_without_a_baseline_it_says_so_and_gives_no_advice() -> None:
    made = recording_of(op("x", 0, 900, layer="conv1", phase="forward"), steps=[(0, 1000)])

    text = shown(layer_gaps(network_capture(made)))

    assert "there is no baseline in this capture" in text
    assert "Optimise" not in text and "No layer would gain" not in text
    assert words(text, "conv1 ")[2:] == ["900", "ns", DASH, DASH, DASH, "100%", "0.0%", DASH, "0.0%", DASH]


def test_a_recording_without_steps_is_an_empty_table() -> None:
    text = shown(layer_gaps(network_capture(recording_of(steps=[]))))

    assert words(text, "step ") == ["step", *[DASH] * 4]


def test_markdown_has_the_same_rows_and_every_reason() -> None:
    text = gap_table(the_table(), explained=0.0).markdown()

    assert "| conv1 | forward | 10.0 ms | 4.00 ms | 400 µs | 2.50 | 70% | 20% | 10% | 0.0% | (compute) |" in text
    assert "- pool1 forward: memory," in text
    assert "- Optimise first: conv1 forward." in text


def test_json_has_all_numbers_of_one_step() -> None:
    content = json.loads(json.dumps(gaps_to_json(the_table()), allow_nan=False))

    conv, pool = content["rows"]
    assert (conv["framework_ns"], conv["kernel_ns"], conv["auxiliary_ns"], conv["dispatch_ns"]) == (1e7, 7e6, 2e6, 1e6)
    assert conv["by_kind_ns"] == {"conv2d": 7e6, "pad": 2e6}
    assert (pool["native_ns"], pool["bottleneck"]) == (None, "memory")
    assert content["schema"] == "profkit.gaps/1"
    total = sum(row["framework_ns"] for row in content["rows"]) + sum(each["ns"] for each in content["outside"])
    assert total == content["step_ns"]


def test_operators_that_were_not_measured_in_time_are_counted_once_and_are_a_dash() -> None:
    late = {"key": None, "spec": {"op": "conv2d"}, "failed": {"later": "the time was over"}}
    text = told(
        9_000_000,
        base("conv1", "forward", None, 1e6, parts=[late]),
        base("conv2", "forward", None, 1e6, parts=[late]),
    )

    assert f"conv1 forward 9.00 ms {DASH} 1.00 ms" in text
    assert "native: 1 operator was not measured in the time for it; the next run goes on (--baseline-limit)" in text
