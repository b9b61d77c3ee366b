"""What doctor looks at: each function examines one thing of this machine and returns Checks. Nothing is measured."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from profkit.errors import ProfkitError
from profkit.frameworks import BACKENDS, load_adapter
from profkit.frameworks.adapter import Implementation
from profkit.frameworks.cache import cache_folder
from profkit.frameworks.environments import FOREIGN, NOT_MADE, READY, look

WORKS, MISSING, BROKEN, NOTE = "works", "missing", "broken", "note"
DEEP_TIMEOUT_S = 120.0
BUILD_LINE = "pip install -e ."
# Distributions that may bring a backend's module, when the name differs from the backend's.
_DISTRIBUTIONS = {
    "native": ("profkit",),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy"),
    "numba_cuda": ("numba-cuda",),
}
_START = """
import json, sys
from profkit.frameworks import load_adapter
from profkit.frameworks.adapter import Conditions, Implementation
from profkit.errors import UnavailableError
asked = json.loads(sys.argv[1])
try:
    facts = load_adapter(asked["adapter"]).start(Implementation(**asked), Conditions())
except UnavailableError as error:
    facts = {"unavailable": error}
print(json.dumps({name: str(fact) for name, fact in facts.items()}))
"""


@dataclass(frozen=True)
class Diagnosis:
    name: str
    status: str
    """works, missing, broken or note."""
    detail: str = ""
    fix: str = ""
    """The line to type."""


def check_build() -> list[Diagnosis]:
    """Python, and profkit's compiled part."""
    python = Diagnosis("python", WORKS, f"{platform.python_version()} at {sys.executable}")
    try:
        from profkit import _core

        features, build = _core.cpu_features(), _core.build_info()
    except Exception as error:
        return [python, Diagnosis("native kernels", BROKEN, _last_line(str(error)), BUILD_LINE)]
    kernels = Diagnosis("native kernels", WORKS, f"built by {build.get('compiler')}, {build.get('build_type')}")
    return [python, kernels, check_simd(features)]


def check_simd(features: Mapping[str, Any]) -> Diagnosis:
    """By default a build has the portable code and its own machine's best set: elsewhere that may be too little."""
    compiled, runs = features["simd_compiled"], features["simd_processor"]
    detail = f"{features['simd_active']} in use; compiled {_joined(compiled)}; this processor has {_joined(runs)}"
    if runs[-1] in compiled:
        return Diagnosis("vector instructions", WORKS, detail)
    return Diagnosis("vector instructions", NOTE, f"{detail}: build profkit on this machine", BUILD_LINE)


def check_backends(deep: bool = False, timeout_s: float = DEEP_TIMEOUT_S) -> list[Diagnosis]:
    """Every framework, by its metadata; with `deep` each is actually imported, in a separate process."""
    from profkit.commands.doctor.gpu import gpu_summary

    gpu = cache(gpu_summary)  # at most once, and only when a backend needs one
    return [check for name in BACKENDS for check in _check_backend(name, deep, timeout_s, gpu)]


def _check_backend(name: str, deep: bool, timeout_s: float, look_for_gpu: Callable[[], Diagnosis]) -> list[Diagnosis]:
    try:
        adapter = load_adapter(name)
        here = adapter.is_available()
    except Exception as error:
        return [Diagnosis(name, BROKEN, _last_line(f"{type(error).__name__}: {error}"))]
    if not here.available:
        return [Diagnosis(name, MISSING, here.reason, here.install)]
    version = installed_version(*_DISTRIBUTIONS.get(name, (name,)))
    if not deep:
        if not all(item.device == "cuda" for item in _distinct_starts(name)) or (gpu := look_for_gpu()).status == WORKS:
            return [Diagnosis(name, WORKS, version)]
        return [Diagnosis(name, gpu.status, f"{version or 'it'} is installed, but {gpu.detail}")]
    return [_start_backend(name, implementation, timeout_s) for implementation in _distinct_starts(name)]


def _distinct_starts(name: str) -> list[Implementation]:
    """One implementation per environment: keras starts differently for each of its backends."""
    from profkit.ops import SPECS

    found: dict[str, Implementation] = {}
    for op in SPECS:
        for implementation in load_adapter(name).implementations(op):
            found.setdefault(json.dumps(dict(implementation.environment), sort_keys=True), implementation)
    return list(found.values())


def _start_backend(name: str, implementation: Implementation, timeout_s: float) -> Diagnosis:
    extra = ", ".join(value for key, value in implementation.environment.items() if key.endswith("_BACKEND"))
    title = f"{name} ({extra})" if extra else name
    asked = {**asdict(implementation), "environment": dict(implementation.environment)}
    command = [sys.executable, "-c", _START, json.dumps(asked)]
    environment = {**os.environ, **implementation.environment}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return Diagnosis(title, BROKEN, f"import did not end within {timeout_s:g} s")
    if done.returncode:
        ended = f"ended by signal {-done.returncode}" if done.returncode < 0 else f"ended with code {done.returncode}"
        return Diagnosis(title, BROKEN, _last_line(done.stderr) or ended)
    facts = json.loads(_last_line(done.stdout))
    if "unavailable" in facts:
        return Diagnosis(title, MISSING, facts["unavailable"])
    return Diagnosis(title, WORKS, ", ".join(f"{key} {value}" for key, value in facts.items()))


def check_environments() -> list[Diagnosis]:
    """Frameworks that need a separate environment."""
    checks = []
    for environment in map(look, FOREIGN.values()):
        foreign = environment.foreign
        if environment.state == READY:
            packages = environment.record["packages"]
            pinned = (pin.partition("==")[0] for pin in foreign.pins()[:2])
            detail = ", ".join(f"{name} {packages.get(name, '')}".strip() for name in pinned)
            checks.append(Diagnosis(foreign.name, WORKS, f"{detail} in {environment.folder}"))
        else:
            status = MISSING if environment.state == NOT_MADE else BROKEN
            checks.append(Diagnosis(foreign.name, status, f"it {environment.trouble}", foreign.create_line))
    return checks


def check_tools() -> list[Diagnosis]:
    """Compilers for candidates and for the CUDA kernels."""
    from profkit.frameworks.candidate.cuda import find_nvcc
    from profkit.frameworks.compilers import find_compiler

    try:
        compiler = Diagnosis("C++ compiler", WORKS, " ".join(find_compiler(".cpp")) + " (for --candidate)")
    except ProfkitError as error:
        compiler = Diagnosis("C++ compiler", MISSING, str(error), "apt install g++")
    try:
        nvcc = Diagnosis("nvcc", WORKS, " ".join(find_nvcc()) + " (for --candidate, and to build CUDA kernels)")
    except ProfkitError as error:
        nvcc = Diagnosis("nvcc", MISSING, str(error))
    return [compiler, nvcc]


def check_machine() -> list[Diagnosis]:
    """What makes measurements noisy or slow here: load, governor, limits, affinity, the cache folder."""
    from profkit.measurement.cores import container_cpus, default_threads, usable_cpus

    cpus = usable_cpus()
    total = os.cpu_count() or len(cpus)
    limit = container_cpus()
    affinity = f"{len(cpus)} of {total} processors usable, {default_threads()} threads by default"
    container = Diagnosis("container", WORKS, "no processor limit")
    if limit is not None:
        container = Diagnosis("container", NOTE, f"limited to {limit:g} processors: more threads are throttled")
    processors = Diagnosis("processors", WORKS if len(cpus) == total else NOTE, affinity)
    return [processors, _check_load(len(cpus)), _check_governor(), container, _check_cache_folder()]


def _check_load(processors: int) -> Diagnosis:
    load = os.getloadavg()[0]
    if load < 0.3 * processors:
        return Diagnosis("load", WORKS, f"{load:.2f}")
    detail = f"{load:.2f} on {processors} processors: other programs are running, expect wider intervals"
    return Diagnosis("load", NOTE, detail, "top")


def _check_governor(path: str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") -> Diagnosis:
    try:
        governor = Path(path).read_text().strip()
    except OSError:
        return Diagnosis("governor", WORKS, "not shown by this system")
    if governor == "performance":
        return Diagnosis("governor", WORKS, governor)
    return Diagnosis("governor", NOTE, f"{governor}: the clock varies", "sudo cpupower frequency-set -g performance")


def _check_cache_folder() -> Diagnosis:
    """Where measured peaks, compiled modules and environments are kept."""
    folder = cache_folder()
    existing = next((part for part in (folder, *folder.parents) if part.is_dir()), Path("/"))
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        detail = f"{folder}: {error.strerror}; peaks are measured again in each run"
        return Diagnosis("cache folder", NOTE, detail, "export PROFKIT_CACHE=/a/folder/of/yours")
    return Diagnosis("cache folder", WORKS, str(folder))


def environment() -> dict[str, Any]:
    """The fingerprint that results carry; empty without the compiled core."""
    try:
        from profkit.measurement.environment import fingerprint
    except ImportError:
        return {}
    return fingerprint()


def installed_version(*distributions: str) -> str:
    """Of the first that is installed; empty when none is."""
    for name in distributions:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return ""


def _joined(names: Iterable[str] | None) -> str:
    return ", ".join(names or ()) or "none"


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
