"""What doctor looks at for GPUs: driver, devices, compiled kernels, CUPTI, NVML, rights, tools, builds of frameworks.

Each finding has the message of the queried library, and the next step. Nothing is launched.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from profkit.commands.doctor.checks import BROKEN, MISSING, NOTE, WORKS, Diagnosis, installed_version
from profkit.commands.doctor.gpu_questions import DRIVER_LIBRARY, answer_of
from profkit.frameworks.native.cuda import version_text
from profkit.frameworks.torch.cuda import cuda_of_build
from profkit.rendering.quantities import bytes_text, plural

BUILD_CUDA = "pip install -e . -C cmake.define.PROFKIT_CUDA=ON"
_DRIVERS = {12: 525, 13: 580}
"""The first branch of NVIDIA's driver that serves a CUDA version."""
_ADVICE: Mapping[int, tuple[str, str]] = {
    34: ("this is the toolkit's stub for linking, not a driver", "echo $LD_LIBRARY_PATH   (take out .../stubs)"),
    802: ("the GPUs' switch is not ready", "sudo systemctl start nvidia-fabricmanager"),
    803: ("library and kernel module are of different versions, as after an update", "sudo reboot"),
    804: ("this forward-compatibility package is for data-centre GPUs only", "nvidia-smi"),
    999: ("the kernel module is not usable, as after sleep or an update", "sudo nvidia-modprobe -u -c 0"),
}
_ARCHITECTURE = re.compile(r"(\d+)([af]?)(-real|-virtual)?")
_NO_DEVICE = 100
_NVIDIA, _DISPLAY = "0x10de", "0x03"
_SYS_ADMIN = 21  # CAP_SYS_ADMIN


@dataclass(frozen=True)
class CudaBuild:
    """profkit's own CUDA kernels as they were compiled."""

    architectures: str = ""
    compiler: str = ""
    runtime_version: int = 0  # 13000
    trouble: str = ""
    """Why there are none."""
    is_built: bool = False


def check_gpus(library: str = DRIVER_LIBRARY, root: Path = Path("/")) -> list[Diagnosis]:
    """Everything; `root` is where /proc and /sys are."""
    driver, build = answer_of("driver", library), cuda_build()
    return [
        _check_driver(driver, root),
        _check_kernels(driver, build),
        *_check_version(driver, build),
        *(_check_device(device, driver, build) for device in driver.get("devices", ())),
        _check_cupti(driver),
        _check_nvml(driver),
        _check_counters(root),
        *_check_programs(),
        *_check_frameworks(driver),
    ]


def gpu_summary(library: str = DRIVER_LIBRARY) -> Diagnosis:
    """One line for those who only want to know whether a GPU can be used."""
    driver = answer_of("driver", library)
    if driver.get("is_loaded") is False:
        return Diagnosis("GPU", MISSING, f"no CUDA driver: {driver['trouble']}")
    if driver["trouble"]:
        return Diagnosis("GPU", BROKEN, f"the CUDA driver says: {driver['trouble']}", "nvidia-smi")
    count = len(driver["devices"])
    return Diagnosis("GPU", WORKS if count else MISSING, plural(count, "device"))


def cuda_build() -> CudaBuild:
    """What is compiled into profkit._cuda, which a build without nvcc does not have."""
    try:
        is_there = importlib.util.find_spec("profkit._cuda") is not None
    except (ImportError, ValueError):
        is_there = False
    if not is_there:
        return CudaBuild(trouble="not built: no nvcc was found then, or PROFKIT_CUDA was OFF")
    try:
        info = importlib.import_module("profkit._cuda").build_info()
    except Exception as error:
        return CudaBuild(trouble=str(error), is_built=True)
    return CudaBuild(info["architectures"], info["compiler"], info["runtime_version"], is_built=True)


# --- Driver and devices ---


def _check_driver(driver: Mapping[str, Any], root: Path) -> Diagnosis:
    # 580.65.06; empty when no kernel module is loaded.
    found = re.search(r"\b\d+\.\d+(\.\d+)?\b", _text(root / "proc/driver/nvidia/version"))
    module = found[0] if found else ""
    if "is_loaded" not in driver:
        return Diagnosis("driver", BROKEN, f"the driver could not be queried: {driver['trouble']}", "nvidia-smi")
    if not driver["is_loaded"]:
        return _no_driver(driver["trouble"], module, root)
    version = f"for CUDA {version_text(driver['version'])}" + (f", kernel module {module}" if module else "")
    if driver["devices"]:
        return Diagnosis("driver", WORKS, version)
    said = f"{version}; it says: {driver['trouble']}" if driver["trouble"] else f"{version}, without any device"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and driver["code"] in (0, _NO_DEVICE):
        detail = f"{said}; CUDA_VISIBLE_DEVICES is {visible!r}"
        return Diagnosis("driver", MISSING, detail, "unset CUDA_VISIBLE_DEVICES")
    why, line = _ADVICE.get(driver["code"], ("", "nvidia-smi"))
    status = MISSING if driver["code"] in (0, _NO_DEVICE) else BROKEN
    return Diagnosis("driver", status, f"{said}: {why}" if why else said, line)


def _no_driver(trouble: str, module: str, root: Path) -> Diagnosis:
    """The loader's words, and what the rest of the machine says about it."""
    if module:
        detail = f"{trouble}; kernel module {module} is loaded: a container must be given the driver's libraries"
        return Diagnosis("driver", BROKEN, detail, "docker run --gpus all ...")
    if any(
        _text(folder / "vendor").strip() == _NVIDIA and _text(folder / "class").startswith(_DISPLAY)
        for folder in (root / "sys/bus/pci/devices").glob("*")
    ):
        detail = f"{trouble}; there is an NVIDIA GPU on the PCI bus: install its driver"
        return Diagnosis("driver", MISSING, detail, f"sudo apt install nvidia-driver-{max(_DRIVERS.values())}")
    detail = f"{trouble}; no NVIDIA GPU is on the PCI bus: CUDA rows are unavailable here, all else works"
    return Diagnosis("driver", MISSING, detail)


def _check_version(driver: Mapping[str, Any], build: CudaBuild) -> list[Diagnosis]:
    """The driver against the CUDA that profkit was built with: the same major version or a later one serves it."""
    if not (driver.get("version") and build.runtime_version):
        return []
    has, needs = version_text(driver["version"]), version_text(build.runtime_version)
    if _serves(driver, build.runtime_version // 1000):
        return [Diagnosis("driver version", WORKS, f"CUDA {has}; profkit's kernels were built with CUDA {needs}")]
    major = build.runtime_version // 1000
    branch = f", that is driver {_DRIVERS[major]} or later" if major in _DRIVERS else ""
    detail = (
        f"the driver is for CUDA {has}, profkit's kernels need CUDA {major}.0 or later{branch}: update the driver, or "
        f"build profkit with an nvcc of CUDA {driver['version'] // 1000}"
    )
    line = f"CUDACXX=/usr/local/cuda-{driver['version'] // 1000}/bin/nvcc {BUILD_CUDA}"
    return [Diagnosis("driver version", BROKEN, detail, line)]


def _serves(driver: Mapping[str, Any], major: int) -> bool:
    return int(driver["version"]) // 1000 >= major


def _check_device(device: Mapping[str, Any], driver: Mapping[str, Any], build: CudaBuild) -> Diagnosis:
    name = f"GPU {device['index']}"
    if device["trouble"]:
        return Diagnosis(name, BROKEN, f"the driver says: {device['trouble']}", "nvidia-smi")
    capability = device["capability"]
    facts = (
        f"{device['name']}, compute capability {capability // 10}.{capability % 10}, "
        f"{bytes_text(device['memory_bytes'])}, {device['multiprocessors']} multiprocessors"
    )
    if not build.architectures:
        return Diagnosis(name, WORKS, facts)
    how = coverage(build.architectures, capability)
    if how is Coverage.BINARY:
        return Diagnosis(name, WORKS, f"{facts}; profkit's kernels have a binary for it")
    if how is Coverage.UNKNOWN:
        return Diagnosis(name, NOTE, f"{facts}; profkit's kernels were built for {build.architectures!r}")
    line = f"{BUILD_CUDA} -C cmake.define.PROFKIT_CUDA_ARCHITECTURES={capability}"
    if how is Coverage.NOTHING:
        detail = f"{facts}; profkit's kernels have neither binary nor PTX for it: they are for {build.architectures}"
        old = "; CUDA 13 no longer compiles for it, an nvcc of CUDA 12 does" if capability < 75 else ""
        return Diagnosis(name, BROKEN, detail + old, line)
    if driver["version"] < build.runtime_version:
        detail = (
            f"{facts}; profkit's kernels have PTX of CUDA {version_text(build.runtime_version)} for it, which a "
            f"driver for CUDA {version_text(driver['version'])} cannot compile: update it, or build for the device"
        )
        return Diagnosis(name, BROKEN, detail, line)
    detail = f"{facts}; profkit's kernels have PTX for it, which the driver compiles when they are first used"
    return Diagnosis(name, NOTE, detail, line)


class Coverage(Enum):
    BINARY = "binary"
    PTX = "PTX"  # compiled by the driver at the first launch
    NOTHING = "nothing"
    UNKNOWN = "unknown"  # the list is in words that only the build machine understood: native, all


def coverage(architectures: str, capability: int) -> Coverage:
    """`architectures` as `75-real 80-real 120`, capability 8.6 as 86."""
    found = Coverage.NOTHING
    for word in architectures.split():
        match = _ARCHITECTURE.fullmatch(word)
        if match is None:
            return Coverage.UNKNOWN
        built, only, part = int(match[1]), match[2], match[3]
        # A binary runs on its architecture and, if it is not for this one's own features, on later ones of the same
        # generation.
        is_near = capability // 10 == built // 10 and capability >= built and only != "a"
        if part != "-virtual" and (capability == built or is_near):
            return Coverage.BINARY
        # Code for one architecture's own features (90a) stays on it, as PTX too.
        if part != "-real" and not only and capability >= built:
            found = Coverage.PTX
    return found


def _check_kernels(driver: Mapping[str, Any], build: CudaBuild) -> Diagnosis:
    if build.is_built and not build.trouble:
        return Diagnosis("CUDA kernels", WORKS, f"compiled by {build.compiler} for {build.architectures}")
    if build.is_built:
        return Diagnosis("CUDA kernels", BROKEN, f"profkit._cuda cannot be loaded: {build.trouble}", BUILD_CUDA)
    return Diagnosis("CUDA kernels", MISSING if driver.get("devices") else NOTE, build.trouble, BUILD_CUDA)


# --- What records and watches a GPU ---


def _check_cupti(driver: Mapping[str, Any]) -> Diagnosis:
    """Needed to record kernels, copies and memory; measuring works without."""
    answer = answer_of("cupti")
    if "library" not in answer:
        return Diagnosis("CUPTI", BROKEN, f"it cannot be queried: {answer.get('trouble')}")
    version, library, reason = answer["version"], answer["library"], answer["reason"]
    if answer["is_usable"]:
        return Diagnosis("CUPTI", WORKS, f"CUDA {version} at {library}")
    if not version:
        package = "nvidia-cuda-cupti" + ("-cu12" if driver.get("version", 0) // 1000 == 12 else "")
        return Diagnosis("CUPTI", MISSING, f"no GPU activity can be recorded: {reason}", f"pip install {package}")
    status = BROKEN if driver.get("devices") else NOTE
    return Diagnosis("CUPTI", status, f"CUDA {version} at {library} is not usable: {reason}")


def _check_nvml(driver: Mapping[str, Any]) -> Diagnosis:
    """Clocks and throttling during measurements."""
    answer = answer_of("nvml")
    if answer["trouble"]:
        if importlib.util.find_spec("pynvml") is None:
            return Diagnosis("NVML", MISSING, "nvidia-ml-py is not installed", 'pip install "profkit[gpu]"')
        status = BROKEN if driver.get("devices") else NOTE
        return Diagnosis("NVML", status, f"nvidia-ml-py is installed; NVML says: {answer['trouble']}")
    return Diagnosis("NVML", WORKS, f"driver {answer['driver']}, {answer['gpus']} GPUs: clocks are watched")


def _check_counters(root: Path) -> Diagnosis:
    """Whether this user may read the GPU's hardware counters: ncu needs them, recording kernels does not."""
    found = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", _text(root / "proc/driver/nvidia/params"), re.MULTILINE)
    if found is None:
        return Diagnosis("counters", NOTE, "who may read hardware counters is not known without a kernel module")
    if found[1] == "0":
        return Diagnosis("counters", WORKS, "every user may read the GPU's hardware counters")
    rights = re.search(r"^CapEff:\s*([0-9a-f]+)", _text(root / "proc/self/status"), re.MULTILINE)
    if rights is not None and int(rights[1], 16) >> _SYS_ADMIN & 1:
        return Diagnosis("counters", WORKS, "for administrators only, and this process is one")
    detail = "hardware counters are for administrators (RmProfilingAdminOnly: 1): ncu fails, profkit does not need them"
    option = "options nvidia NVreg_RestrictProfilingToAdminUsers=0"
    return Diagnosis("counters", NOTE, detail, f"echo '{option}' | sudo tee /etc/modprobe.d/counters.conf; reboot")


def _check_programs() -> list[Diagnosis]:
    names = {"Nsight Systems": "nsys", "Nsight Compute": "ncu"}
    return [
        Diagnosis(name, WORKS, path)
        if (path := shutil.which(word))
        else Diagnosis(name, MISSING, f"{word} is not on the PATH")
        for name, word in names.items()
    ]


# --- Frameworks ---


def _check_frameworks(driver: Mapping[str, Any]) -> list[Diagnosis]:
    """For which CUDA the installed ones were built, without importing them; the others are reported elsewhere."""
    checks = []
    builds = {"torch": _torch_build(), "cupy": _cupy_build(), "numba": _numba_build()}
    for name, build in builds.items():
        if build is None:
            continue
        what, major = build
        if not major:
            status = NOTE
        elif driver.get("version") and not _serves(driver, major):
            status, what = BROKEN, f"{what}: the driver is for CUDA {version_text(driver['version'])}, update it"
        else:
            status = WORKS
        checks.append(Diagnosis(f"{name} build", status, what))
    return checks


def _torch_build() -> tuple[str, int] | None:
    """What it is and the major CUDA version, 0 for none; None when it is not installed."""
    version, cuda = installed_version("torch"), cuda_of_build()
    if not version or cuda is None:
        return None
    if not cuda:
        return f"{version} is a build for the CPU: choose the CUDA build at pytorch.org", 0
    return f"{version} for CUDA {cuda}", int(cuda.split(".")[0])


def _cupy_build() -> tuple[str, int] | None:
    for major in (14, 13, 12, 11):
        version = installed_version(f"cupy-cuda{major}x")
        if version:
            return f"{version} for CUDA {major}", major
    return None


def _numba_build() -> tuple[str, int] | None:
    own, package = installed_version("numba"), installed_version("numba-cuda")
    if package:
        # It follows the toolkit's libraries that are installed with it.
        names = {13: "nvidia-cuda-nvrtc", 12: "nvidia-cuda-nvrtc-cu12"}
        major = next((major for major, name in names.items() if installed_version(name)), 0)
        return f"numba-cuda {package} beside numba {own}", major
    about = f"{own} with its own CUDA target; numba-cuda is NVIDIA's newer one (pip install numba-cuda)"
    return (about, 0) if own else None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
