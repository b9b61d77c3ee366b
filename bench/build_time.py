"""How long a first build takes, and where its compiler seconds go: the working tree, and another one beside it.

Run: python bench/build_time.py [OLD] [--cuda off] [--define PROFKIT_ALL=ON] [--output docs/measured/build_time.md]

OLD is a source tree, or a revision, of which a worktree is made. Each tree is built from nothing as `pip install` does
it, with and without nvcc, in turns: wall clock, and CPU seconds by what was compiled, which a busy machine changes
less. Needs cmake and ninja on the PATH, and pybind11. A first build with nvcc takes minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
GROUPS = {
    r"\.cu\.o$|profkit_cuda\.dir": "CUDA kernels",
    r"_generic\.cpp": "CPU kernels, generic",
    r"_avx2\.cpp": "CPU kernels, avx2",
    r"_avx512\.cpp": "CPU kernels, avx512",
    r"_neon\.cpp": "CPU kernels, neon",
    r"profkit_kernels\.dir": "reference kernels and runtime",
    r"profkit_inject\.dir": "tracer",
    r"profkit_captures\.dir": "captures",
    r"_core\.dir|_cuda\.dir": "bindings",
}
REST = "configuring and linking"
LAUNCH = "--launch"


@dataclass
class Built:
    """One build from nothing."""

    wall_s: float
    cpu_s: dict[str, float]

    @property
    def total_s(self) -> float:
        """CPU seconds of everything."""
        return sum(self.cpu_s.values())


def main(argv: Sequence[str]) -> int:
    """Build, compare, print or write the page."""
    if argv[:1] == [LAUNCH]:
        return launch(Path(argv[1]), argv[2:])
    from measured_page import page_head  # not at the top: the launcher starts for each file

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", nargs="?", help="another source tree, or a revision")
    parser.add_argument("--cuda", choices=("on", "off"), help="only with, or only without nvcc")
    parser.add_argument("--define", action="append", default=[], help="NAME=VALUE for CMake, of the working tree")
    parser.add_argument("--output", type=Path, help="write the page there")
    options = parser.parse_args(argv)
    cases = [options.cuda] if options.cuda else ["on", "off"]
    lines = [page_head("Time of a first build", " ".join(["python bench/build_time.py", *argv]))]
    with tempfile.TemporaryDirectory(prefix="profkit-build-") as name:
        folder = Path(name)
        trees = {"old": source_tree(options.old, folder)} if options.old else {}
        trees["new"] = ROOT
        try:
            for cuda in cases:
                defines = {"old": [], "new": options.define}
                found = {
                    which: build(tree, folder / f"{which}-{cuda}", [*defines[which], f"PROFKIT_CUDA={cuda.upper()}"])
                    for which, tree in trees.items()
                }
                lines += [
                    f"## {'With' if cuda == 'on' else 'Without'} nvcc, {os.cpu_count()} cores\n",
                    *table(found),
                    "",
                ]
                print("\n".join(lines[-len(table(found)) - 2 :]), flush=True)
        finally:
            if options.old and trees["old"] == folder / "old":
                subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", trees["old"]], check=True)
    if options.output:
        options.output.write_text("\n".join(lines), encoding="utf-8")
    return 0


def launch(log: Path, command: Sequence[str]) -> int:
    """What CMake puts before each compiler call: runs it, and notes its CPU seconds and its object."""
    code = subprocess.run(command, check=False).returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    target = command[command.index("-o") + 1] if "-o" in command else ""
    with log.open("a", encoding="utf-8") as file:  # one short line: appended whole
        file.write(f"{used.ru_utime + used.ru_stime:.3f} {target}\n")
    return code


def source_tree(name: str, folder: Path) -> Path:
    """The tree of that name, or a worktree of that revision."""
    if Path(name).is_dir():
        return Path(name).resolve()
    subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", folder / "old", name], check=True)
    return folder / "old"


def build(tree: Path, folder: Path, defines: Sequence[str]) -> Built:
    """Configure and build into a new folder."""
    import pybind11

    log = folder.with_suffix(".log")
    launcher = f"{sys.executable};{Path(__file__).resolve()};{LAUNCH};{log}"
    settings = {
        "CMAKE_BUILD_TYPE": "Release",
        "Python_EXECUTABLE": sys.executable,
        "pybind11_DIR": pybind11.get_cmake_dir(),
        "SKBUILD_PROJECT_VERSION": "0.1.0",
        "CMAKE_CXX_COMPILER_LAUNCHER": launcher,
        "CMAKE_CUDA_COMPILER_LAUNCHER": launcher,
    }
    given = [f"-D{name}={value}" for name, value in settings.items()] + [f"-D{define}" for define in defines]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    for command in (
        ["cmake", "-G", "Ninja", "-S", str(tree), "-B", str(folder), *given],
        ["cmake", "--build", str(folder)],
    ):
        subprocess.run(command, check=True, stdout=sys.stderr)
    wall_s, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s: dict[str, float] = defaultdict(float)
    for line in log.read_text(encoding="utf-8").splitlines():
        seconds, _, target = line.partition(" ")
        cpu_s[next((group for pattern, group in GROUPS.items() if re.search(pattern, target)), REST)] += float(seconds)
    total = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    cpu_s[REST] += total - sum(cpu_s.values())
    return Built(wall_s, cpu_s)


def table(found: dict[str, Built]) -> list[str]:
    """Seconds of each build, and their ratio where there are two."""
    ratio = " new / old |" if len(found) > 1 else ""
    lines = [f"| s | {' | '.join(found)} |{ratio}", "|---" + "|---:" * (len(found) + bool(ratio)) + "|"]
    names = [*dict.fromkeys(GROUPS.values()), REST]
    rows = {name: [built.cpu_s.get(name, 0.0) for built in found.values()] for name in names}
    rows["CPU seconds, all"] = [built.total_s for built in found.values()]
    rows["wall clock"] = [built.wall_s for built in found.values()]
    for name, values in rows.items():
        if any(values):
            cells = [f"{value:.1f}" for value in values]
            cells += [f"{values[1] / values[0]:.2f}" if values[0] else ""] if ratio else []
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
