"""What torch and oneDNN say through ITT, name by name against torch.profiler."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter

import pytest

from profkit.capture.schema import RangeKind, Source
from tests.tracer.programs import Row, Run, rows, trace_python

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

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


TEXT = (
    """
import torch
if not torch.profiler.itt.is_available():
    print("no itt")
    raise SystemExit
with torch.profiler.itt.range("outer {}", 3):
    torch.profiler.itt.range_push("inner")
    torch.profiler.itt.mark("mark")
    torch.profiler.itt.range_pop()
"""
    + STEP
    + """
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
    step()
names = [event.name for event in profile.events() if not event.name.startswith("[")]
torch.profiler.itt.mark("emitting")
with torch.autograd.profiler.emit_itt():
    step()
print(json.dumps(names))
"""
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """torch's own ranges, a step without emit_itt, a mark and a step with it, in one process."""
    done = trace_python(tmp_path_factory.mktemp("torch"), TEXT)
    if "no itt" in done.output:
        pytest.skip("this torch was built without ITT")
    return done


def parts_of(run: Run) -> tuple[list[Row], list[Row]]:
    """What arrived before emit_itt, and inside of it."""
    found = rows(run.capture, Source.ITT)
    place = [row.title for row in found].index("PyTorch:emitting")
    return found[:place], found[place + 1 :]


def test_a_training_step_has_the_same_ranges_as_in_torchs_own_profiler(run: Run) -> None:
    _, emitted = parts_of(run)

    expected = Counter(f"PyTorch:{name}" for name in json.loads(run.output))
    assert Counter(row.title for row in emitted if row.title.startswith("PyTorch:")) == expected
    assert expected["PyTorch:aten::conv2d"] == 1
    assert all(row.kind == RangeKind.RANGE for row in emitted)
    assert not run.capture.ranges.is_open.any()


def test_onednn_primitives_arrive_in_a_domain_of_their_own_even_without_emit_itt(run: Run) -> None:
    titles = [row.title for row in parts_of(run)[0] if not row.title.startswith("PyTorch:")]
    if not titles:
        pytest.skip("this torch did not use oneDNN here")
    assert any(title.startswith("dnnl::primitive::execute:") for title in titles)


def test_torchs_own_itt_ranges_and_marks_arrive(run: Run) -> None:
    own = [(row.title, row.parent) for row in parts_of(run)[0] if row.title.startswith("PyTorch:")]

    assert own == [
        ("PyTorch:outer 3", None),
        ("PyTorch:inner", "PyTorch:outer 3"),
        ("PyTorch:mark", "PyTorch:inner"),
    ]
