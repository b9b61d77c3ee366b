"""The page of bench/max_batch.py, from results that are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import max_batch

ORIGIN = {"date": "2026-01-02", "commit": "1234567", "machine": "a machine"}


def kept(folder: Path, name: str, commit: str = "1234567", **predicted: Any) -> None:
    trial: dict[str, Any] = {
        "batch": 60,
        "allocator_bytes": 1 << 20,
        "growth_bytes": 2 << 20,
        "resident_bytes": 1 << 30,
    }
    trial |= {"role": "predicted", "status": "ok", "allocator_error": 0.01, "growth_error": -0.02} | predicted
    small = [{"batch": batch, "role": "small", "status": "ok"} for batch in (1, 2, 20)]
    plain = {"batch": 60, "role": "plain", "status": "ok", "resident_bytes": 3 << 29}
    content = {"origin": ORIGIN | {"commit": commit}, "network": name, "is_training": True, "optimizer": "sgd"}
    content |= {"limit_bytes": 1 << 30, "status": "ok", "reason": "", "predicted": 60, "pieces": 3}
    (folder / f"{name}.training.json").write_text(json.dumps(content | {"trials": [*small, trial, plain]}))


def test_rows_and_what_missed_a_goal_are_on_the_page(tmp_path: Path) -> None:
    kept(tmp_path, "cifar10")
    kept(tmp_path, "lenet", commit="7654321", growth_error=0.2)
    kept(tmp_path, "mlp", status="oom", reason="ended above")

    page = max_batch.page(tmp_path)

    assert (
        "| cifar10 (training, sgd) | 1.00 GiB | 1, 2, 20 | 60 | 1.00 MiB | +1.0% | 2.00 MiB | -2.0% | 1.50 | 2 |"
        in page
    )
    assert "Outside of a goal: lenet (training, sgd): growth +20.0%; mlp (training, sgd): oom at the predicted" in page
    assert "measured at commit 7654321" in page
    assert "not measured: alexnet, " in page and "cifar10," not in page.rpartition("not measured")[2]
