"""What torch and oneDNN say through ITT, name by name against torch.profiler."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from profkit.capture.schema import RangeKind, Source
from tests.tracer.programs import Run, rows, trace_python

pytest.importorskip("torch", reason="torch is not installed")

STEP = """
import json
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, padding=1),
    torch.nn.BatchNorm2d(8),
    torch.nn.ReLU(),
    torch.nn.MaxPool2d(2),
    torch.nn.Flatten(),
    torch.nn.Linear(8 * 8 * 8, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images, labels = torch.randn(4, 3, 16, 16), torch.randint(10, (4,))

def step():
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()

step()
"""


def is_available(run: Run) -> bool:
    return "no itt" not in run.output


def trace_torch(folder: Path, text: str) -> Run:
    start = "import torch\nif not torch.profiler.itt.is_available():\n    print('no itt')\n    raise SystemExit\n"
    run = trace_python(folder, start + text)
    if not is_available(run):
        pytest.skip("this torch was built without ITT")
    return run


def test_a_training_step_has_the_same_ranges_as_in_torchs_own_profiler(tmp_path: Path) -> None:
    text = (
        STEP
        + """
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
    step()
names = [event.name for event in profile.events() if not event.name.startswith("[")]
with torch.autograd.profiler.emit_itt():
    step()
print(json.dumps(names))
"""
    )

    run = trace_torch(tmp_path, text)

    expected = Counter(f"PyTorch:{name}" for name in json.loads(run.output))
    found = rows(run.capture, Source.ITT)
    assert Counter(row.title for row in found if row.title.startswith("PyTorch:")) == expected
    assert expected["PyTorch:aten::conv2d"] == 1
    assert all(row.kind == RangeKind.RANGE for row in found)
    assert not run.capture.ranges.is_open.any()


def test_onednn_primitives_arrive_in_a_domain_of_their_own_even_without_emit_itt(tmp_path: Path) -> None:
    run = trace_torch(tmp_path, STEP)

    titles = {row.title for row in rows(run.capture, Source.ITT)}
    if not titles:
        pytest.skip("this torch did not use oneDNN here")
    assert any(title.startswith("dnnl::primitive::execute:") for title in titles)


def test_torchs_own_itt_ranges_and_marks_arrive(tmp_path: Path) -> None:
    text = """
with torch.profiler.itt.range("outer {}", 3):
    torch.profiler.itt.range_push("inner")
    torch.profiler.itt.mark("mark")
    torch.profiler.itt.range_pop()
"""

    run = trace_torch(tmp_path, text)

    found = [(row.title, row.parent) for row in rows(run.capture, Source.ITT)]
    assert found == [
        ("PyTorch:outer 3", None),
        ("PyTorch:inner", "PyTorch:outer 3"),
        ("PyTorch:mark", "PyTorch:inner"),
    ]
