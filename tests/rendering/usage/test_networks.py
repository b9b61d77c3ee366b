"""Reports of networks: the table and what stands around it, TensorFlow's layout, files, frameworks side by side."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from profkit.attribution.account import STEPS
from profkit.attribution.aggregation import mean_of_steps
from profkit.attribution.grouping import groupings_on
from profkit.attribution.passes import run_usage
from profkit.capture.run import Run
from profkit.capture.schema import Capture, Losses
from profkit.ops.networks import Cifar10, Solar
from profkit.rendering.quantities import ABSENT
from profkit.rendering.usage.content import View
from profkit.rendering.usage.files import render_usage_csv, render_usage_json
from profkit.rendering.usage.networks import compare_layers, compare_learning, network_surroundings, network_table
from profkit.rendering.usage.tfprof import render_tfprof
from tests.capture.network_captures import layer, network_capture, op, recording_of, runtime

US = 1000
SMALL = Cifar10(batch=4, crop=24, filters=8)


def step_events(at: int) -> list[Any]:
    """A step of 1000 µs as TensorFlow would leave it: the base table of the operator study, made small."""
    place = {"layer": "conv1", "phase": "forward"}
    return [
        runtime("executor", at, at + 950 * US),
        op(
            "Conv2D", at, at + 720 * US, **place, requested_bytes=25_550_000, temporary_bytes=1_000_000, peak_bytes=4096
        ),
        op("LRN", at + 720 * US, at + 823 * US, layer="norm1", phase="forward", requested_bytes=9_440_000),
        op("BiasAdd", at + 830 * US, at + 877 * US, **place, requested_bytes=0, temporary_bytes=0, peak_bytes=0),
        op("Relu", at + 880 * US, at + 900 * US, **place),
    ]


def capture(steps: int = 2, **changes: Any) -> Capture:
    events = [event for number in range(steps) for event in step_events(1000 * US * number)]
    times = [(1000 * US * number, 1000 * US * (number + 1)) for number in range(steps)]
    return recording_of(*events, framework="tensorflow", steps=times, facts={"peak_bytes": 40_000_000}, **changes)


def run(**changes: Any) -> Run:
    values: dict[str, Any] = {
        "mode": "graph",
        "threads": 2,
        "step_ns": [980_000, 1_000_000, 1_020_000, 990_000],
        "recorded_step_ns": {"time": [1_000_000, 1_000_000]},
        "notes": ["images are held as NHWC"],
    }
    return network_capture(capture(), network=SMALL, **{**values, **changes})


def lines_of(by: str = "kind", width: int = 100, view: View | None = None, **changes: Any) -> list[str]:
    made = run(**changes)
    return network_table(made, run_usage(made, by), view or View()).text(width).splitlines()


def test_a_report_says_what_ran_on_which_data_how_it_was_checked_and_what_recording_cost() -> None:
    text = "\n".join(lines_of(width=400))

    title, size, check, time, ratio, table = text.splitlines()[:6]
    assert title.startswith("cifar10 batch 4, stride 1, filters 8, pool 3, pool-stride 2, crop 24: inference in ")
    assert title.endswith("tensorflow 1.2.3 (graph), 2 threads")
    assert size.startswith("189,042 parameters, 762 k multiply-adds per image (forward); synthetic data (patterns")
    assert check == "checked against float64, logits: error 1.5e-7, tolerance 4.0e-4"
    assert re.fullmatch(r"unrecorded step: 995\.0 µs ±\d\.\d%, of 4 steps; the first step took 5\.000 µs", time)
    interval = r"\d\.\d\d \[\d\.\d\d, \d\.\d\d\]"
    assert re.fullmatch(rf"recorded / unrecorded: time {interval}; unrecorded / unrecorded: {interval}", ratio)
    assert table == "table: mean of 2 recorded steps; own times and the rows below add up to the step's wall clock"
    assert "images are held as NHWC" in text


def test_training_names_its_settings_and_what_was_checked() -> None:
    settings = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": True}
    text = "\n".join(lines_of(width=400, is_training=True, training=settings))

    assert "training in tensorflow" in text
    assert "optimizer sgd, learning rate 0.1, momentum 0.9, nesterov False, weight decay True" in text
    assert "checked against float64, loss, gradients and new weights of a step" in text


def test_parameters_that_could_not_be_checked_are_counted_and_named() -> None:
    text = "\n".join(lines_of(width=400, is_training=True, unchecked=["conv1.w", "conv1.b"]))

    assert "not checked: 2 of 11 arrays (conv1.w, conv1.b): with a wrong gradient they could look the same" in text
    assert "not checked" not in "\n".join(lines_of(width=400, is_training=True))


def test_the_table_shows_one_step_with_its_remainders_and_the_step_as_total() -> None:
    lines = lines_of(view=View(["calls", "own", "share", "requested", "gflops"]))

    found = {line.split("  ")[0]: line.split() for line in lines if line and line[0] != " "}
    assert found["conv2d"][1:6] == ["1", "720.0", "µs", "72%", "24.4"]
    assert found["bias"][1:7] == ["1", "47.00", "µs", "4.7%", "0", "B"]
    assert found["relu"][5] == ABSENT, "what was not observed is a dash"
    assert found["dispatch"][1:] == ["50.00", "µs", "5.0%"]
    assert found["framework"][1:] == ["60.00", "µs", "6.0%"]
    assert found["idle"][1:] == [ABSENT, ABSENT]
    assert found["total"][1:5] == ["4", "1.000", "ms", "100%"]


@pytest.mark.parametrize("width", [60, 80, 100, 160])
@pytest.mark.parametrize("by", list(groupings_on(STEPS)))
@pytest.mark.parametrize("columns", [None, ["all"]])
def test_every_line_fits_the_width(width: int, by: str, columns: list[str] | None) -> None:
    lines = lines_of(by, width, View(columns), reason="", notes=["x" * 300])

    assert max(map(cell_len, lines)) <= width


def test_all_columns_are_those_that_a_network_has() -> None:
    header = next(line for line in lines_of(width=200, view=View(["all"])) if line.startswith("kind"))

    wanted = "kind calls inclusive incl % own own % peak requested temporary FLOP moved GFLOP/s FLOP/B"
    assert " ".join(header.split()) == wanted


def test_own_time_alone_is_shown_when_operators_lie_in_no_others() -> None:
    (header,) = [line for line in lines_of() if line.startswith("kind")]

    assert "inclusive" not in header


def test_a_run_that_failed_later_says_so_first() -> None:
    lines = lines_of(status="timeout", reason="no answer within 5 s")

    assert lines[0] == "tensorflow: timeout, no answer within 5 s"


def processes(*shares: float, steps: int = 4, **machine: float) -> list[dict[str, Any]]:
    """So many, in which other programs took these shares."""
    return [
        {
            "steps": steps,
            "recorded": {},
            "captures": int(not number),
            "machine": {"others_share": share, "load": 9.0, **machine},
        }
        for number, share in enumerate(shares)
    ]


def test_neighbours_that_disturbed_the_run_are_told_above_the_table() -> None:
    noisy, quiet = (
        " ".join(" ".join(lines_of(processes=processes(share), environment={"cpus_usable": [0]})).split())
        for share in (0.4, 0.05)
    )

    assert "warning: busy machine: other programs took 40% of these processors (load 9.0): times are longer" in noisy
    assert "warning" not in quiet


def test_each_of_several_processes_has_its_time_and_a_disturbed_one_is_named() -> None:
    text = " ".join(lines_of(width=400, processes=processes(0.01, 0.4, steps=2), step_ns=[900, 900, 1200, 1200]))

    assert "unrecorded step: 1.039 µs [" in text
    assert "mean of 2 processes (900.0 ns, 1.200 µs; 4 steps)" in text
    assert "busy machine during process 2 of 2: other programs took 40% of these processors (load 9.0)" in text
    assert "warning" not in text


def test_a_clock_that_moved_is_told() -> None:
    text = " ".join(lines_of(processes=processes(0.0, least_mhz=2000.0, most_mhz=3000.0)))

    assert "the clock moved between 2000 and 3000 MHz" in text and "warning" not in text


def test_lost_records_stand_on_the_first_line() -> None:
    lost = replace(recording_of(op("Relu", 0, 10), framework="tensorflow"), losses=Losses(7))
    usage = run_usage(network_capture(lost, network=SMALL))

    assert network_surroundings(network_capture(lost, network=SMALL), usage).losses == [
        "7 records were lost while recording"
    ]


def test_learning_is_told_with_its_data() -> None:
    learning = {"losses": [2.31, 1.2], "seconds": 3.0, "test_error": 0.375, "test_count": 512}
    learning |= {"train_error": 0.25, "train_count": 500}
    text = "\n".join(lines_of(width=400, learning=learning))

    assert (
        "learned for 2 steps on synthetic data (patterns under noise, seed 0): loss 2.310 to 1.200, "
        "error 37.50% of 512 test inputs, error 25.00% of 500 training inputs" in text
    )


# As TensorFlow 2.21's own profiler printed a small graph with order_by("micros"), letter by letter.
TFPROF = """\
node name | requested bytes | total execution time | accelerator execution time | cpu execution time
LRN                          294.91KB (100.00%, 47.99%),      32.14ms (100.00%, 84.02%),             0us (0.00%, 0.00%),      32.14ms (100.00%, 84.02%)
Relu                          319.58KB (52.01%, 52.01%),        6.06ms (15.98%, 15.85%),             0us (0.00%, 0.00%),        6.06ms (15.98%, 15.85%)
Sum                                   4B (0.00%, 0.00%),            30us (0.12%, 0.08%),             0us (0.00%, 0.00%),            30us (0.12%, 0.08%)
ReadVariableOp                        0B (0.00%, 0.00%),            12us (0.04%, 0.03%),             0us (0.00%, 0.00%),            12us (0.04%, 0.03%)
Const                                16B (0.00%, 0.00%),             5us (0.01%, 0.01%),             0us (0.00%, 0.00%),             5us (0.01%, 0.01%)
"""  # noqa: E501 - the layout is what is tested


def test_the_classic_layout_of_tensorflow_s_profiler_is_kept_letter_by_letter() -> None:
    rows = [
        ("LRN", 32136, 294_912),
        ("Relu", 6064, 319_584),
        ("Sum", 30, 4),
        ("ReadVariableOp", 12, 0),
        ("Const", 5, 16),
    ]
    events = []
    at = 0
    for step in range(2):
        for name, micros, size in rows:
            events.append(op(name, at, at + micros * US, requested_bytes=size))
            at += micros * US
        at = 40_000 * US * (step + 1)
    steps = [(0, 40_000 * US), (40_000 * US, 80_000 * US)]
    recorded = network_capture(recording_of(*events, framework="tensorflow", steps=steps), network=SMALL)

    found = render_tfprof(mean_of_steps(run_usage(recorded, "type")), View())

    assert found == TFPROF


def test_bytes_that_were_not_observed_have_a_sign_of_their_own_in_that_layout() -> None:
    found = render_tfprof(mean_of_steps(run_usage(run(), "type")), View())

    (relu,) = [line for line in found.splitlines() if line.startswith("Relu")]
    assert relu[25:].split(", ")[0].strip() == "--"


def test_json_has_sums_over_the_steps_that_add_up_exactly() -> None:
    data = json.loads(render_usage_json(run_usage(run())))

    assert (data["schema"], data["steps"], data["by"]) == ("profkit.usage/1", 2, "kind")
    assert sum(row["exclusive_ns"] for row in data["rows"]) + data["remainder_ns"] == data["wall_ns"] == 2_000_000
    assert data["remainders"] == {"dispatch": 100_000, "framework": 120_000, "idle": None}
    assert data["subject"]["network"] == SMALL.to_dict()
    assert (data["subject"]["framework"], data["subject"]["data"][:9]) == ("tensorflow", "synthetic")
    rows = {row["name"]: row for row in data["rows"]}
    assert rows["conv2d"]["flops"] > 0 and rows["conv2d"]["requested_bytes"] == 51_100_000
    assert rows["relu"]["requested_bytes"] is None
    assert "span_calls" not in rows["conv2d"] and "minor_faults" not in rows["conv2d"]


def test_csv_has_the_same_rows_with_empty_fields_for_what_is_not_known() -> None:
    rows = list(csv.DictReader(io.StringIO(render_usage_csv(run_usage(run(), "operator")))))

    (relu,) = [row for row in rows if row["name"] == "conv1/forward/Relu"]
    assert (relu["layer"], relu["phase"], relu["type"], relu["kind"]) == ("conv1", "forward", "Relu", "relu")
    assert (relu["exclusive_ns"], relu["requested_bytes"]) == ("40000", "")


def test_frameworks_stand_side_by_side_by_layer_and_phase() -> None:
    torch = recording_of(
        layer("conv1", 0, 600 * US),
        op("aten::convolution", 0, 500 * US, layer="conv1", phase="forward"),
        op("aten::mystery", 700 * US, 710 * US),
        steps=[(0, 1000 * US)],
    )
    runs = [run(), network_capture(torch, network=SMALL, step_ns=[])]

    table = compare_layers(runs)

    lines = {line.texts[:2]: line.texts[2:] for line in table.lines}
    assert [each.heading for each in table.columns] == ["layer", "phase", "tensorflow", "torch"]
    assert lines["conv1", "forward"] == ("787.0 µs", "500.0 µs")
    assert lines["norm1", "forward"] == ("103.0 µs", ABSENT)
    assert lines["(no layer)", ""] == (ABSENT, "10.00 µs")
    assert lines["framework", ""] == ("60.00 µs", ABSENT)
    assert lines["recorded step", ""] == ("1.000 ms", "1.000 ms")
    assert lines["unrecorded step", ""] == ("995.0 µs", ABSENT)
    assert [line.texts[0] for line in table.lines][:3] == ["conv1", "norm1", "(no layer)"]
    short = compare_layers(runs, top=1)
    assert [line.texts[0] for line in short.lines][:3] == ["conv1", "… 2 more rows", "dispatch"]
    assert short.lines[1].texts[2:] == ("103.0 µs", "10.00 µs")


def test_two_modes_of_a_framework_are_told_apart() -> None:
    table = compare_layers([run(), run(mode="eager")])

    assert [each.heading for each in table.columns][2:] == ["tensorflow:graph", "tensorflow:eager"]


def test_side_by_side_says_who_was_disturbed_and_that_frameworks_took_turns() -> None:
    alone = compare_layers([run(), run(mode="eager")])
    turns = compare_layers([run(processes=processes(0.4, 0.5, steps=2)), run(mode="eager")])

    assert alone.notes == ("unrecorded step: nothing recorded; the frameworks ran one after another",)
    assert turns.notes == ("unrecorded step: nothing recorded; the frameworks took turns, in up to 2 processes each",)
    assert len(alone.facts) == 1
    assert turns.facts[1].startswith("warning: tensorflow:graph: busy machine: 2 of 2 processes were disturbed: other")


def test_what_frameworks_learned_stands_side_by_side() -> None:
    facts = {"losses": [2.3, 1.25], "seconds": 3.0, "test_error": 0.375, "test_count": 512, "train_error": None}
    others = {"losses": [0.5], "seconds": 1.0, "test_error": 0.0123456, "train_error": 0.01}
    classes = compare_learning([run(learning=facts), run(mode="eager", learning={"losses": [], "seconds": 0.0})])
    values = compare_learning([replace(run(learning=others), network=Solar().to_dict())] * 2)

    assert [each.heading for each in classes.columns][3:] == ["first loss", "last loss", "test error", "training error"]
    assert classes.lines[0].texts == ("tensorflow:graph", "2", "3.000 s", "2.3000", "1.2500", "37.50%", ABSENT)
    assert classes.lines[1].texts[3:] == (ABSENT,) * 4
    assert classes.notes == ("the numbers of steps differ: --learn-steps makes them equal",)
    assert values.lines[0].texts[5:] == ("0.01235", "0.01000")
    assert values.notes == ("errors are mean squared errors",)
