"""One network in one framework, in processes of its own: built, checked, timed, recorded. A failure is a status."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from profkit.capture.archive import load
from profkit.capture.run import Run
from profkit.capture.schema import LAYER_KINDS
from profkit.errors import UnsupportedError, UsageError, unknown
from profkit.frameworks.adapter import Array, Implementation
from profkit.frameworks.environments import interpreter_for
from profkit.frameworks.events import Pass, load_source
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.measurement.arrays import scratch_folder
from profkit.measurement.contention import others_share, processor_use
from profkit.measurement.cores import cores_for
from profkit.measurement.environment import fingerprint
from profkit.measurement.options import BYTES, RUN, SECONDS, WHOLE, option
from profkit.measurement.workers.process import WorkerFailure, WorkerProcess, WorkerSettings
from profkit.measurement.workers.protocol import Message
from profkit.measurement.workers.requests import ask_one
from profkit.ops.networks.data import Data, synthetic_data
from profkit.ops.networks.network import Network
from profkit.ops.networks.reference import network_tolerance, reference_logits, reference_step
from profkit.ops.networks.training import Training
from profkit.ops.spec import max_error

MessageCallback = Callable[[str], None]


@dataclass(frozen=True)
class NetworkRequest:
    """What is to be run."""

    network: Network
    framework: str
    mode: str = ""
    threads: int = 1
    is_training: bool = option(False, RUN, "forward, backward and SGD instead of inference", flag="training")
    training: Training = field(default_factory=Training)
    steps: int = option(10, RUN, "recorded per pass", form=WHOLE)
    """And timed without recording; 0: nothing is measured, the network only learns."""
    passes: Sequence[str] | None = None
    """Names of the source's passes; None: all. Empty: nothing is recorded."""
    learn_s: float = option(0.0, RUN, "then train this long and measure precision@1", form=SECONDS)
    learn_steps: int = 1_000_000
    data: Data | None = None
    """None: synthetic."""
    timeout_s: float = option(120.0, RUN, "longest wait for one answer of the framework's process", form=SECONDS)
    memory_limit_bytes: int | None = option(None, RUN, "of that process, as 4GiB", form=BYTES, shown="none")
    seed: int = option(0, RUN, "of weights and synthetic images", form=WHOLE)
    python: str | None = None

    @property
    def conditions(self) -> NetworkConditions:
        """As the worker gets them."""
        mode = self.mode or load_builder(self.framework).modes[0]
        return NetworkConditions(self.threads, mode, self.is_training, self.training)


class InterruptedRun(KeyboardInterrupt):
    """Ctrl-C during a run; `run` has what was measured until then."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run


def ignore_message(_text: str) -> None:
    """The teller of a caller who does not watch."""


def run_network(request: NetworkRequest, tell: MessageCallback = ignore_message) -> Run:
    """Run it; whatever goes wrong is the run's status and reason, with what was measured until then."""
    conditions = request.conditions
    run = Run(
        network=request.network.to_dict(),
        framework=request.framework,
        mode=conditions.mode,
        threads=request.threads,
        is_training=request.is_training,
        training=request.training.field_values() if request.is_training or request.learn_s else {},
        environment=fingerprint(),
    )
    refusal = _refusal(request)
    if refusal:
        run.status, run.reason = refusal
        return run
    try:
        with scratch_folder() as folder:
            _NetworkRun(request, run, folder, tell).run()
    except WorkerFailure as failure:
        run.status, run.reason = failure.status, failure.reason
    except UnsupportedError as error:
        # There is no reference to check it against.
        run.status, run.reason = "unsupported", str(error)
    except KeyboardInterrupt:
        run.status, run.reason = "interrupted", "stopped by the user"
        raise InterruptedRun(run) from None
    return run


def _refusal(request: NetworkRequest) -> tuple[str, str] | None:
    builder = load_builder(request.framework)
    if request.conditions.mode not in builder.modes:
        raise UsageError(unknown(f"{request.framework} mode", request.mode, builder.modes))
    availability = builder.is_available() if request.python is None else None
    if availability is not None and not availability.available:
        return "unavailable", availability.text
    reason = builder.supports(request.network, request.conditions)
    return ("unsupported", reason) if reason else None


class _NetworkRun:
    """The course of one run; fills the run as it goes."""

    def __init__(self, request: NetworkRequest, run: Run, folder: str, tell: MessageCallback) -> None:
        self._request = request
        self._run = run
        self._folder = folder
        self._tell = tell
        self._conditions = request.conditions

    def run(self) -> None:
        self._put_arrays()
        groups = self._passes_by_environment()
        for number, (environment, passes) in enumerate(groups if self._request.steps else []):
            try:
                self._run_group(environment, passes, times=number == 0)
            except WorkerFailure as failure:
                if number == 0:
                    raise
                # What the first process measured stands without the others.
                names = " and ".join(each.name for each in passes)
                self._run.notes.append(f"pass {names}: {failure.status}, {failure.reason}; its columns are missing")
        if self._request.learn_s > 0:
            self._learn()

    def _run_group(self, environment: Mapping[str, str], passes: Sequence[Pass], times: bool) -> None:
        """One process: built, checked, and watched in these passes."""
        self._tell(f"{self._request.framework}: starting")
        worker = self._worker(environment)
        try:
            self._start(worker, self._conditions.is_training)
            self._check(worker)
            self._watch(worker, passes, times)
        finally:
            worker.kill()

    def _passes_by_environment(self) -> list[tuple[Mapping[str, str], list[Pass]]]:
        """Passes that need the same variables share a process; there is always one process."""
        groups: list[tuple[Mapping[str, str], list[Pass]]] = []
        wanted = self._request.passes
        for each in load_source(self._request.framework).passes(self._conditions):
            if wanted is not None and each.name not in wanted:
                continue
            same = next((passes for environment, passes in groups if environment == each.environment), None)
            if same is None:
                groups.append((each.environment, [each]))
            else:
                same.append(each)
        return groups or [({}, [])]

    def _put_arrays(self) -> None:
        """Weights and one batch, for the worker to load."""
        request, network = self._request, self._request.network
        self._data = request.data or synthetic_data(network, seed=request.seed)
        self._run.data = self._data.description
        self._weights = network.initial_weights(request.seed)
        self._images, self._labels = self._data.batch(network.input_shape()[0])
        arrays = {**self._weights, "images": self._images, "labels": self._labels}
        for name, array in arrays.items():
            np.save(os.path.join(self._folder, f"{name}.npy"), array)

    def _worker(self, environment: Mapping[str, str]) -> WorkerProcess:
        request = self._request
        builder = load_builder(request.framework)
        variables = {**builder.environment(self._conditions), **environment}
        key = f"{request.network.name}/{request.framework}/cpu/{self._conditions.mode}"
        settings = WorkerSettings(
            request.threads,
            cores_for(request.threads),
            request.memory_limit_bytes,
            request.python or interpreter_for(request.framework),
            "profkit.measurement.workers.network",
        )
        return WorkerProcess(Implementation(key, request.framework, environment=variables), settings)

    def _ask(self, worker: WorkerProcess, do: str, limit_s: float = 0.0, **values: Any) -> Message:
        return ask_one(worker, self._request.timeout_s + limit_s, {"do": do, **values})

    def _start(self, worker: WorkerProcess, is_training: bool) -> None:
        conditions = self._conditions
        reply = self._ask(
            worker,
            "start",
            framework=self._request.framework,
            threads=conditions.threads,
            mode=conditions.mode,
            is_training=is_training,
            training=conditions.training.field_values(),
        )
        self._run.versions = self._run.versions or reply["versions"]
        reply = self._ask(worker, "build", network=self._request.network.to_dict(), folder=self._folder)
        self._run.notes += [note for note in reply["notes"] if note not in self._run.notes]

    def _check(self, worker: WorkerProcess) -> None:
        """Compare the first step with the float64 reference; a wrong result is never timed."""
        self._tell(f"{self._request.framework}: checking")
        reply = self._ask(worker, "check", folder=self._folder)
        run = self._run
        run.first_step_ns = run.first_step_ns or reply["first_step_ns"]
        run.tolerance = network_tolerance(self._request.network, self._request.is_training)
        run.error = self._error()
        if not run.error <= run.tolerance:
            raise WorkerFailure("wrong", f"error {run.error:.2g} is above the tolerance {run.tolerance:.2g}")

    def _error(self) -> float:
        request = self._request
        result = np.load(os.path.join(self._folder, "result.npy"))
        if not request.is_training:
            return max_error(result, _remembered_logits(request.network, self._weights, self._images))
        loss, weights = reference_step(request.network, request.training, self._weights, self._images, self._labels)
        errors = [max_error(result, np.asarray(loss))]
        errors += [max_error(self._result(name), expected) for name, expected in weights.items()]
        return max(errors)

    def _result(self, name: str) -> Array:
        values: Array = np.load(os.path.join(self._folder, f"result.{name}.npy"))
        return values

    def _watch(self, worker: WorkerProcess, passes: Sequence[Pass], times: bool) -> None:
        """Recorded steps stand between unrecorded ones, so that both meet the same machine."""
        request, run = self._request, self._run
        self._ask(worker, "time", steps=2)  # warm-up
        cores = cores_for(request.threads)
        before = processor_use(worker.pid, cores)
        if times:
            run.step_ns += self._ask(worker, "time", steps=request.steps)["step_ns"]
        for each in passes:
            self._tell(f"{request.framework}: recording {' and '.join(each.measures)}")
            path = Path(self._folder) / f"{each.name}.recording"
            reply = self._ask(worker, "record", name=each.name, steps=request.steps, path=str(path))
            run.recorded_step_ns[each.name] = reply["step_ns"]
            kinds = {layer.name: layer.kind for layer in request.network.layers}
            capture = load(path)
            run.captures = (*run.captures, replace(capture, facts={LAYER_KINDS: kinds, **capture.facts}))
            run.notes += [each.note] if each.note and each.note not in run.notes else []
            if times:
                run.step_ns += self._ask(worker, "time", steps=request.steps)["step_ns"]
        others = others_share(before, processor_use(worker.pid, cores))
        run.environment["others_share"] = _larger(run.environment.get("others_share"), others)

    def _learn(self) -> None:
        """In a process of its own: a model that can be trained may be another one than that for inference."""
        request = self._request
        self._tell(f"{request.framework}: training")
        for name, array in self._data.arrays().items():
            np.save(os.path.join(self._folder, f"{name}.npy"), array)
        worker = self._worker({})
        try:
            self._start(worker, is_training=True)
            if self._conditions.is_training and not request.steps:
                self._check(worker)  # otherwise done before
            self._run.learning = self._ask(
                worker,
                "learn",
                limit_s=request.learn_s,
                folder=self._folder,
                seconds=request.learn_s,
                steps=request.learn_steps,
            )
        finally:
            worker.kill()


def _larger(a: float | None, b: float | None) -> float | None:
    """The larger of those that are known."""
    return max((each for each in (a, b) if each is not None), default=None)


_logits: dict[tuple[Network, str], Array] = {}
"""Float64 references of this process: a study asks for the same one for every framework, and it takes seconds."""


def _remembered_logits(network: Network, weights: Mapping[str, Array], images: Array) -> Array:
    content = hashlib.sha256(np.ascontiguousarray(images).tobytes())
    for name in sorted(weights):
        content.update(np.ascontiguousarray(weights[name]).tobytes())
    key = network, content.hexdigest()
    if key not in _logits:
        _logits[key] = reference_logits(network, weights, images)
    return _logits[key]
