"""The program that runs every network at its published size: rows are kept, a killed cell is a row, and the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import published_networks
from published_networks import INFERENCE, TRAINING, Rows, by_size, page

from profkit.ops.networks import NETWORKS


def row(**changes: Any) -> dict[str, Any]:
    about = {"network": "mlp", "framework": "torch", "phase": TRAINING, "optimizer": "sgd", "status": "ok"}
    about |= {"reason": "", "error": 1e-6, "tolerance": 4e-6, "unchecked": [], "gradients": True, "ties": False}
    return {**about, "seconds": 60.0, "commit": "1234567", **changes}


def test_what_has_a_row_is_not_run_again_and_inference_comes_first(tmp_path: Path) -> None:
    rows = Rows(tmp_path)
    rows.keep(row(framework="keras:jax", phase=INFERENCE))

    assert list(rows.missing("mlp", ["torch", "keras:jax"])) == [
        ("torch", INFERENCE),
        ("torch", TRAINING),
        ("keras:jax", TRAINING),
    ]


def test_the_cell_in_which_a_process_ended_is_a_row_and_the_others_go_on(tmp_path: Path, monkeypatch: Any) -> None:
    rows, codes = Rows(tmp_path), [-9, 0]

    class Ended:
        def __init__(self, *_: Any, **__: Any) -> None:
            self.returncode = codes.pop(0)
            framework, phase = next(rows.missing("mlp", ["numpy"]))
            rows.begin("mlp", framework, phase)
            if not self.returncode:
                rows.keep(row(framework=framework, phase=phase))

    monkeypatch.setattr(published_networks.subprocess, "run", Ended)
    monkeypatch.setattr(published_networks, "origin", lambda: {"commit": "1234567"})

    published_networks.run_network_process(rows, "mlp", [], ["numpy"])

    found = {each["phase"]: each for each in rows.all()}
    assert (found[INFERENCE]["status"], found[TRAINING]["status"]) == ("crashed", "ok")
    assert found[INFERENCE]["reason"] == "the process that checks it ended by SIGKILL"


def test_small_networks_come_first() -> None:
    order = by_size(list(NETWORKS))

    assert order.index("solar_mlp") < order.index("cifar10") < order.index("vgg16")


def test_the_page_has_the_share_of_the_tolerance_or_a_reason() -> None:
    rows = [
        row(),
        row(phase=INFERENCE, framework="native", error=4e-6),
        row(framework="native", status="wrong", reason="error 1 of conv1.w", error=1.0, tolerance=0.1),
        row(framework="keras:jax", ties=True, unchecked=["a.w", "a.b"]),
    ]

    text = page(json.loads(json.dumps(rows)), "python bench/published_networks.py --results DIR")

    lines = text.splitlines()
    assert "| network | parameters | step | native | torch | keras:jax |" in lines
    [inference] = [line for line in lines if line.startswith("| mlp |") and INFERENCE in line]
    [training] = [line for line in lines if line.startswith("| mlp |") and TRAINING in line]
    assert inference.endswith("| inference | 1 |  |  |")
    assert training.endswith("| training | wrong (1) | 0.25 | 0.25 t 2u (2) |")
    assert "1. native: error 1 of conv1.w" in lines
    assert "2. keras:jax: mlp: not checked: a.w, a.b" in lines
    assert "4 rows (3 ok, 1 wrong) took 4 minutes, of commits 1234567; " in text
    assert f"; {2 * 3 * len(NETWORKS) - 4} cells are empty: they have not run yet." in text
