"""Native kernels with faults: variables under which every Python process, workers too, has kernels that are wrong, end
their process, never end, work once only, write past their output, refuse every shape, or are not there on the generic
instruction set. The product has no hook for it: an import hook changes the adapter."""

from __future__ import annotations

import os
from pathlib import Path

FAULTS = "SELFTEST_FAULTS"
_SITE = """
import ctypes, importlib.util, os, signal, sys, time

FAULTS = dict(word.split("@")[::-1] for word in os.environ["SELFTEST_FAULTS"].split(","))


def act(fault, result):
    if fault == "wrong":
        result += 0.01
    elif fault == "kill":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif fault == "hang":
        with open(os.path.join(os.path.dirname(__file__), "hanging"), "w") as file:
            file.write(f"{os.getpid()}\\n")
        time.sleep(1e6)
    elif fault == "raise":
        raise ValueError("a fault of the test")
    return result


class Once:
    def __init__(self, bound):
        self.bound = bound

    def __call__(self, *given):
        if self.bound:
            self.bound(*given)
        self.bound = None


class Past:
    def __init__(self, bound, output):
        self.bound, self.output = bound, output

    def __call__(self, *given):
        self.bound(*given)
        output = given[0] if given else self.output
        ctypes.memset(output.ctypes.data + output.nbytes, 7, 1)


def change_bind(core):
    bind = core.bind

    def faulty_bind(key, params, arrays, output, *others):
        bound, fault = bind(key, params, arrays, output, *others), FAULTS.get(key, "")
        return Once(bound) if fault == "once" else Past(bound, output) if fault == "past" else bound

    core.bind = faulty_bind


def change(module):
    change_bind(module._core())
    adapter = module.NativeAdapter
    prepare, supports, implementations = adapter.prepare, adapter.supports, adapter.implementations

    def faulty_prepare(self, implementation, spec, inputs, conditions):
        prepared = prepare(self, implementation, spec, inputs, conditions)
        call, fault = prepared.call, FAULTS.get(implementation.key, "")
        prepared.call = lambda: act(fault, call())
        return prepared

    def faulty_supports(self, implementation, spec):
        if FAULTS.get(implementation.key) == "refuse":
            return "it refuses for the test"
        return supports(self, implementation, spec)

    def fewer_implementations(self, op):
        is_generic = os.environ.get("PROFKIT_SIMD") == "generic"
        return [row for row in implementations(self, op) if not (is_generic and FAULTS.get(row.key) == "absent")]

    adapter.prepare, adapter.supports = faulty_prepare, faulty_supports
    adapter.implementations = fewer_implementations


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name != "profkit.frameworks.native.operators":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            change(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
"""


def faulty_environment(folder: Path, **faults: str) -> dict[str, str]:
    """Of a process whose kernels have these faults: `wrong="softmax/native/cpu/vectorized"`.

    One that hangs leaves its process id in the file `hanging`.
    """
    (folder / "sitecustomize.py").write_text(_SITE)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    words = [f"{fault}@{key}" for fault, key in faults.items()]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), FAULTS: ",".join(words)}
