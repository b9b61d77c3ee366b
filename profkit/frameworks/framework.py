"""What the framework adapters share: an adapter assembled from one function per operator.

`Framework.operator` takes the function that builds an operator's call, and the one that refuses specs; the framework
then follows the contract of adapter.py.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from profkit.errors import UnsupportedError
from profkit.frameworks.adapter import Array, Availability, Conditions, Implementation, Prepared, find_module, require
from profkit.frameworks.outputs import call_on_fresh, call_on_same, unwritten
from profkit.ops.matmul import MatMul
from profkit.ops.spec import Spec

WIDE = ("float32", "float64")
ALL_DTYPES = (*WIDE, "float16", "bfloat16")


@dataclass(frozen=True)
class Job:
    """The arguments of a builder other than the spec."""

    implementation: Implementation
    inputs: Mapping[str, Array]
    conditions: Conditions

    @property
    def variant(self) -> str:
        return self.implementation.variant

    @property
    def reuses_output(self) -> bool:
        """Whether the caller wants one output memory for all calls."""
        return self.conditions.output == "reused"

    def arrays(self, *names: str) -> list[Array]:
        """Those of these inputs that the spec has."""
        return [self.inputs[name] for name in names if name in self.inputs]


Build = TypeVar("Build", bound=Callable[[Job, Any], Prepared])


def accept(implementation: Implementation, spec: Any) -> str:
    return ""


@dataclass(frozen=True)
class FrameworkOperator:
    """How one operator runs in a framework: `build` prepares a call, `refuse` gives the reason against a spec."""

    build: Callable[[Job, Any], Prepared]
    refuse: Callable[[Implementation, Any], str] = accept
    variants: Sequence[str] = ("",)


def no_cuda_driver(library: str = "libcuda.so.1") -> str:
    """Why no CUDA device can be used here: the driver's library is missing. Numba's simulator needs none."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") != "0":
        return ""
    try:
        ctypes.CDLL(library)
    except OSError:
        return f"no CUDA driver here: {library} cannot be loaded"
    return ""


def package_text(package: str, name: str) -> str:
    """A file of an installed package, which is not imported; empty without one."""
    try:
        spec = importlib.util.find_spec(package)
        return (Path(spec.origin).parent / name).read_text(errors="replace") if spec and spec.origin else ""
    except (OSError, ValueError):
        return ""


def refuse_gradient(implementation: Implementation, spec: Any) -> str:
    """For operators that are written forward only."""
    if spec.direction == "forward":
        return ""
    return f"the {implementation.framework} rows have no {spec.direction} of {spec.op}"


@dataclass
class Framework:
    """An adapter made of functions that build calls; follows the Adapter protocol."""

    name: str
    begin: Callable[[Implementation, Conditions], dict[str, str]]
    modules: Sequence[str] = ()
    """Modules whose presence on the path means that the framework is installed; its name unless others are given."""
    extra: str = ""
    """The pip extra that brings it; its name unless another is given."""
    operators: dict[str, FrameworkOperator] = field(default_factory=dict)
    """By the operator's name; `operator` adds to them."""
    variants: Sequence[str] = ("",)
    """Of every operator that does not name its own."""
    device: str = "cpu"
    module: str = ""
    """File of the adapter where it is not called like the framework: rows on another device have their own."""
    variant_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """`Implementation.options` of the given variant."""
    on_request: Sequence[str] = ()
    """Variants that are not default rows: measured with `--all` or by name."""
    environment: Mapping[str, str] = field(default_factory=dict)
    variant_environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What an implementation of the given variant needs in addition to `environment`."""
    dtypes: Sequence[str] = WIDE
    """Element types that its rows are written for."""
    unavailable_reason: Callable[[], str] = lambda: ""
    """Why it cannot run here, installed or not (a driver that is missing), found out cheaply, or nothing."""

    def __post_init__(self) -> None:
        self.modules = self.modules or (self.name,)
        self.extra = self.extra or self.name

    def operator(
        self,
        op: str,
        refuse: Callable[[Implementation, Any], str] = accept,
        variants: Sequence[str] | None = None,
    ) -> Callable[[Build], Build]:
        """Decorates the function that builds the calls of an operator."""

        def add(build: Build) -> Build:
            self.operators[op] = FrameworkOperator(build, refuse, self.variants if variants is None else variants)
            return build

        return add

    def lacks(self, op: str, reason: str) -> None:
        """Name an operator that the framework does not have: its rows stay, with the reason."""

        @self.operator(op, lambda implementation, spec: reason)
        def build(job: Job, spec: Any) -> Prepared:
            raise UnsupportedError(reason)

    def is_available(self) -> Availability:
        """Whether it can run here; without a driver, whether the framework is installed does not matter."""
        reason = self.unavailable_reason()
        if reason:
            return Availability(False, reason)
        looks = [find_module(module, self.extra) for module in self.modules]
        return next((look for look in looks if not look.available), Availability(True))

    def implementations(self, op: str) -> Sequence[Implementation]:
        if op not in self.operators:
            return ()
        return tuple(
            Implementation(
                key="/".join(part for part in (op, self.name, self.device, variant) if part),
                adapter=self.module or self.name,
                environment={**self.environment, **self.variant_environment.get(variant, {})},
                options=self.variant_options.get(variant, {}),
                is_default=variant not in self.on_request,
            )
            for variant in self.operators[op].variants
        )

    def supports(self, implementation: Implementation, spec: Spec) -> str:
        if spec.op not in self.operators:
            return f"{self.name} has no {spec.op}"
        if spec.dtype_word not in self.dtypes:
            return f"the {self.name} rows are written for {' and '.join(self.dtypes)}, not for {spec.dtype_word}"
        return self.operators[spec.op].refuse(implementation, spec)

    def start(self, implementation: Implementation, conditions: Conditions) -> dict[str, str]:
        require(self.is_available())
        return self.begin(implementation, conditions)

    def prepare(
        self, implementation: Implementation, spec: Spec, inputs: Mapping[str, Array], conditions: Conditions
    ) -> Prepared:
        reason = self.supports(implementation, spec)
        if reason:
            raise UnsupportedError(reason)
        return self.operators[spec.op].build(Job(implementation, inputs, conditions), spec)


Ready = tuple[Callable[[Array], object], int]
"""What fills an output, and the bytes of the buffers that it holds."""
Prepare = Callable[[Any, Mapping[str, Array], int], Ready]
"""From a spec, its inputs and the number of threads."""
PrepareType = TypeVar("PrepareType", bound=Prepare)


@dataclass
class FillingFramework(Framework):
    """One row per operator, whose function fills an output: NumPy and Numba."""

    prepares: dict[str, Prepare] = field(default_factory=dict)
    """By the operator's name; `fills` adds to them."""

    def fills(
        self, op: str, refuse: Callable[[Implementation, Any], str] = accept
    ) -> Callable[[PrepareType], PrepareType]:
        """Decorates the function that prepares an operator; calls fill a new output, or one that is reused."""

        def add(prepare: PrepareType) -> PrepareType:
            @self.operator(op, refuse)
            def build(job: Job, spec: Any) -> Prepared:
                run, held_bytes = prepare(spec, job.inputs, job.conditions.threads)
                if job.reuses_output:
                    output = unwritten(spec)
                    return Prepared(call_on_same(partial(run, output), output), output="reused", held_bytes=held_bytes)
                return Prepared(call_on_fresh(run, spec), held_bytes=held_bytes)

            self.prepares[op] = prepare
            return prepare

        return add


def product(xp: Any, spec: MatMul, in_place: bool = True) -> Callable[..., Any]:
    """Matrix product with views for transposes, in the array module `xp`; ReLU in place where arrays can be changed."""

    def run(a: Any, b: Any, bias: Any | None = None) -> Any:
        a = xp.swapaxes(a, -1, -2) if spec.transpose_a else a
        b = xp.swapaxes(b, -1, -2) if spec.transpose_b else b
        c = xp.matmul(a, b)
        if bias is not None:
            c += bias
        return xp.maximum(c, 0, out=c if in_place else None) if spec.activation == "relu" else c

    return run


@contextlib.contextmanager
def quiet_warnings() -> Iterator[None]:
    """Frameworks warn about read-only arrays and missing libraries; those facts are reported as data instead."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
