"""An nvcc for machines without a GPU: the same command line, but kernels are compiled for the tests' host SIMT layer.

Called with that layer's objects first, then what profkit gives to nvcc. Launch lines and shared arrays are rewritten as
the layer wants them (tests/cuda/native/simt.h); the rest of the file stays as it is. It knows as much of CUDA as the
candidates of the tests need.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

# A program of its own, which finds no other module of the tests.
SIMT = Path(__file__).parents[2] / "cuda" / "native"
HEADERS = Path(__file__).parent / "native"
FLAGS = ("-std=c++17", "-O1", "-fPIC", "-DPROFKIT_EMULATED", f"-I{SIMT}")
LAUNCH = re.compile(r"(\w+)<<<(.*?), (\w+), (\w+), (\w+)>>>\(")
SHARED = re.compile(r"__shared__ (\w+) (\w+)((?:\[\w+\])+)")


def main(words: list[str]) -> int:
    """Compile and link, or tell the version."""
    if "--version" in words:
        print("emulated nvcc")
        return 0
    output = words[words.index("-o") + 1]
    [source] = [word for word in words if word.endswith(".cu")]
    folders = [word for word in words if word.startswith("-I")]
    text = LAUNCH.sub(r"simt::start<\1>(\2, \3, \4, ", Path(source).read_text())
    text = SHARED.sub(r"PROFKIT_SHARED(\1, \2, \3)", text)
    with tempfile.TemporaryDirectory() as folder:
        rewritten = Path(folder) / "candidate.cpp"
        rewritten.write_text(f'#line 1 "{source}"\n{text}')
        objects = [word for word in words if word.endswith(".o")]
        command = ["g++", *FLAGS, "-shared", "-Wno-narrowing", f"-I{HEADERS}", *folders, str(rewritten), *objects]
        return subprocess.run([*command, "-o", output], check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
