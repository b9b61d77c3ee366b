"""Where the files are that tests read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "csrc"
DOCS = ROOT / "docs"
CUDA_NATIVE = ROOT / "tests" / "cuda" / "native"
TRACER_NATIVE = ROOT / "tests" / "tracer" / "native"
SHARED = ROOT.parent / "shared"
TRACES = SHARED / "traces"
"""Real traces of other profilers, beside a checkout."""
DATA = SHARED / "data"
"""Real data sets, likewise."""
