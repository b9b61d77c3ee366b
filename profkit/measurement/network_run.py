"""One network in one framework, in separate processes: built, checked, timed, recorded. A failure is a status."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from profkit.capture.archive import load
from profkit.capture.busy_machine import DISTURBED, OTHERS, STOLEN
from profkit.capture.output_files import open_output
from profkit.capture.run import Run, RunProcess, joined_runs
from profkit.capture.schema import LAYER_KINDS
from profkit.data import Data, synthetic_data
from profkit.data.weights import SavedWeights, write_weights
from profkit.errors import ProfkitError, UnsupportedError, UsageError, listed, unknown
from profkit.frameworks.adapter import Array, Implementation
from profkit.frameworks.environments import interpreter_for
from profkit.frameworks.events import Pass, load_source
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import NetworkConditions, reason_against
from profkit.measurement.arrays import scratch_folder
from profkit.measurement.contention import others_share, processor_use
from profkit.measurement.cores import cores_for
from profkit.measurement.disturbance import OTHERS_SHARE, RUN_DELAY, DisturbanceWatch
from profkit.measurement.environment import fingerprint
from profkit.measurement.first_step import Deviation, ExpectedStep, FirstStep, StepCheck, check_step
from profkit.measurement.options import BYTES, RUN, SECONDS, WHOLE, option
from profkit.measurement.paging import read_paging
from profkit.measurement.repeats import repeats_of
from profkit.measurement.workers.process import WorkerFailure, WorkerProcess, WorkerSettings
from profkit.measurement.workers.protocol import Message
from profkit.measurement.workers.requests import ask_one
from profkit.ops.networks.layer import IMAGES
from profkit.ops.networks.network import Network
from profkit.ops.networks.reference import dropout_masks, network_tolerance, reference_logits
from profkit.ops.networks.training import Training
from profkit.ops.spec import max_error

MessageCallback = Callable[[str], None]
UNSUPPORTED = "unsupported"
ENDLESS_S = 7 * 24 * 3600.0
"""How long learning may take that only its steps limit."""


@dataclass(frozen=True)
class NetworkRequest:
    """The request for a run."""

    network: Network
    framework: str
    mode: str = ""
    threads: int = 1
    is_training: bool = option(False, RUN, "forward, backward and SGD instead of inference", flag="training")
    training: Training = field(default_factory=Training)
    steps: int = option(10, RUN, "recorded steps per pass", form=WHOLE)
    """And timed without recording; 0: nothing is measured, the network only learns."""
    runs: int = option(
        1, RUN, "processes of each framework, in turns; intervals then cover their variation", form=WHOLE
    )
    passes: Sequence[str] | None = None
    """Names of the source's passes; None: all. Empty: nothing is recorded."""
    learn_s: float = option(
        0.0, RUN, "then train this long, and measure the errors on training and test data", form=SECONDS
    )
    learn_steps: int | None = option(
        None, RUN, "then train so many steps, the same in every framework, or until --learn is over", form=WHOLE
    )
    is_repeated: bool = option(
        False, RUN, "also run --steps steps twice from the same seed, and compare all numbers", flag="repeat"
    )
    data: Data | None = None
    """None: synthetic."""
    weights: SavedWeights | None = None
    """Of the declared network, to begin with; None: the network's own, by the seed."""
    save_weights: str | None = None
    """File of the weights after learning, or else after the steps of training."""
    timeout_s: float = option(120.0, RUN, "time limit for an answer of the framework's process", form=SECONDS)
    memory_limit_bytes: int | None = option(
        None, RUN, "memory limit of the framework's process, as 4GiB", form=BYTES, shown="none"
    )
    seed: int = option(0, RUN, "seed of weights and synthetic data", form=WHOLE)
    python: str | None = None

    @property
    def learns(self) -> bool:
        return self.learn_s > 0 or self.learn_steps is not None

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


def run_networks(
    requests: Sequence[NetworkRequest], teller: Callable[[int], MessageCallback] = lambda _: ignore_message
) -> list[Run]:
    """One Run per request. With several `runs` each round has a new process of every request, so that they meet alike
    what the machine does meanwhile; a request that failed is not tried again.

    InterruptedRuns has what was measured until Ctrl-C.
    """
    parts: list[list[Run]] = [[] for _ in requests]
    try:
        for number in range(max((request.runs for request in requests), default=0)):
            for place, request in enumerate(requests):
                if number and (number >= request.runs or parts[place][-1].status != "ok"):
                    continue
                once = replace(request, runs=1)
                if number:
                    once = replace(once, learn_s=0.0, learn_steps=None, is_repeated=False, save_weights=None)
                parts[place].append(run_network(once, teller(place)))
    except KeyboardInterrupt as interrupt:
        if isinstance(interrupt, InterruptedRun):
            parts[place].append(interrupt.run)
        raise InterruptedRuns([_one_run(runs) for runs in parts if runs]) from None
    return [_one_run(runs) for runs in parts]


class InterruptedRuns(KeyboardInterrupt):
    """Ctrl-C during several runs; `runs` have what was measured until then."""

    def __init__(self, runs: list[Run]) -> None:
        super().__init__()
        self.runs = runs


def _one_run(runs: Sequence[Run]) -> Run:
    """Of one request: a later process that failed is a note, an interruption the status."""
    if len(runs) == 1:
        return runs[0]
    last = runs[-1]
    if last.status == "ok":
        return joined_runs(runs)
    joined = joined_runs([run for run in runs if run.status == "ok" or run.step_ns])
    if last.status == "interrupted":
        joined.status, joined.reason = last.status, last.reason
    else:
        joined.notes.append(f"process {len(runs)}: {last.status}, {last.reason}; there are no more")
    return joined


def run_network(request: NetworkRequest, tell: MessageCallback = ignore_message) -> Run:
    """Run it once; a failure becomes the run's status and reason, with everything measured until then."""
    conditions = request.conditions
    run = Run(
        network=request.network.to_dict(),
        framework=request.framework,
        mode=conditions.mode,
        threads=request.threads,
        is_training=request.is_training,
        training=request.training.field_values() if request.is_training or request.learns else {},
        environment=fingerprint(),
    )
    refused = refusal(request)
    if refused:
        run.status, run.reason = refused
        return run
    try:
        with scratch_folder() as folder:
            _NetworkRun(request, run, folder, tell).run()
    except WorkerFailure as failure:
        run.status, run.reason = failure.status, failure.reason
    except UnsupportedError as error:
        # There is no reference to check it against.
        run.status, run.reason = UNSUPPORTED, str(error)
    except ProfkitError as error:  # a file could not be written
        run.status, run.reason = "failed", str(error)
    except KeyboardInterrupt:
        run.status, run.reason = "interrupted", "stopped by the user"
        raise InterruptedRun(run) from None
    return run


def refusal(request: NetworkRequest) -> tuple[str, str] | None:
    """Status and reason where it cannot run here, before anything runs."""
    builder = load_builder(request.framework)
    if request.conditions.mode not in builder.modes:
        raise UsageError(unknown(f"{request.framework} mode", request.mode, builder.modes))
    availability = builder.is_available() if request.python is None else None
    if availability is not None and not availability.available:
        return "unavailable", availability.text
    conditions = replace(request.conditions, is_training=request.is_training or request.learns)
    reason = reason_against(builder, request.network, conditions)
    if request.learns and not request.training.is_constant and not builder.has_schedules:
        reason = reason or f"{builder.name} cannot change the learning rate: take --schedule constant --momentum-drop 0"
    return (UNSUPPORTED, reason) if reason else None


class _NetworkRun:
    """The course of one run; fills the run as it goes."""

    def __init__(self, request: NetworkRequest, run: Run, folder: str, tell: MessageCallback) -> None:
        self._request = request
        self._run = run
        self._folder = folder
        self._tell = tell
        self._conditions = request.conditions
        self._ran: dict[str, Any] = {}
        """What the process that was started last says that it runs."""

    def run(self) -> None:
        self._put_arrays()
        groups = self._passes_by_environment()
        for number, (environment, passes) in enumerate(groups if self._request.steps else []):
            try:
                self._run_group(environment, passes, times=number == 0)
            except WorkerFailure as failure:
                if number == 0:
                    raise
                # The first process's measurement is valid without the others.
                names = " and ".join(each.name for each in passes)
                self._run.notes.append(f"pass {names}: {failure.status}, {failure.reason}; its columns are missing")
        if self._request.is_repeated:
            self._repeat()
        if self._request.learns:
            self._learn()

    def _run_group(self, environment: Mapping[str, str], passes: Sequence[Pass], times: bool) -> None:
        """One process: built, checked, and watched in these passes."""
        self._tell(f"{self._request.framework}: starting")
        worker = self._worker(environment)
        try:
            self._start(worker, self._conditions.is_training)
            self._check(worker)
            self._watch(worker, passes, times)
            if times and not self._request.learns:
                self._save_weights(worker, "after the steps of training")
        finally:
            self._end(worker)

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
        given = request.weights
        self._declared = network.declared.initial_weights(request.seed) if given is None else given.arrays
        self._weights = network.weights_from(self._declared)
        self._run.weights = "" if request.weights is None else request.weights.description
        self._images, self._labels = self._data.batch(network.input_shape()[0])
        self._masks = dropout_masks(network, request.seed) if request.is_training else {}
        masks = {f"{name}.mask": mask for name, mask in self._masks.items()}
        arrays = {**self._weights, **masks, "images": self._images, "labels": self._labels}
        for name, array in arrays.items():
            np.save(os.path.join(self._folder, f"{name}.npy"), array)

    def _worker(self, environment: Mapping[str, str]) -> WorkerProcess:
        request, self._ran = self._request, {}
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

    def _end(self, worker: WorkerProcess) -> None:
        """With its command line and what it printed kept."""
        self._run.workers.append({"argv": worker.argv, "output": worker.output(), "ran": self._ran})
        worker.kill()

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
        self._ran = reply["ran"]
        self._run.notes += [note for note in reply["notes"] if note not in self._run.notes]

    def _check(self, worker: WorkerProcess) -> None:
        """Compare the first step with the float64 reference; a wrong result is never timed."""
        self._tell(f"{self._request.framework}: checking")
        reply = self._ask(worker, "check", folder=self._folder)
        run = self._run
        run.first_step_ns = run.first_step_ns or reply["first_step_ns"]
        without_gradients = reply["without_gradients"]
        found = (
            self._training_deviation(not without_gradients) if self._request.is_training else self._logits_deviation()
        )
        run.error, run.tolerance = found.error, found.limit
        note = f"its gradients are not compared with float64, but the new weights are: {without_gradients}"
        run.notes += [note] if without_gradients and note not in run.notes else []
        if not run.error <= run.tolerance:
            what = f"error {run.error:.2g} of {found.what}"
            raise WorkerFailure("wrong", f"{what} is above the tolerance {run.tolerance:.2g}")

    def _logits_deviation(self) -> Deviation:
        network = self._request.network
        expected = _remembered_logits(network.declared, self._declared, self._images)
        limit = network_tolerance(network, is_training=False)
        return Deviation(max_error(self._found("result"), expected), limit, "the logits")

    def _training_deviation(self, has_gradients: bool) -> Deviation:
        request, network, run = self._request, self._request.network, self._run
        found = FirstStep(
            self._found("result"),
            _Saved(list(network.weight_shapes()), lambda name: self._found(f"result.{name}")),
            _Saved(
                list(network.parameter_shapes()) if has_gradients else [], lambda name: self._found(f"gradient.{name}")
            ),
        )
        expected = _remembered_step(network, self._weights, (self._images, self._labels), self._masks)
        check = check_step(expected, request.training, found)
        run.unchecked = list(dict.fromkeys([*run.unchecked, *check.unchecked]))
        run.notes += [note for note in _tie_notes(check) if note not in run.notes]
        return check.worst

    def _found(self, name: str) -> Array:
        values: Array = np.load(os.path.join(self._folder, f"{name}.npy"))
        return values

    def _watch(self, worker: WorkerProcess, passes: Sequence[Pass], times: bool) -> None:
        """Recorded steps stand between unrecorded ones, so that both meet the same machine."""
        request, run = self._request, self._run
        cores = cores_for(request.threads)
        self._ask(worker, "time", steps=2)  # warm-up
        watch = _ProcessWatch(worker.pid, cores)
        process = self._process()
        try:
            if times:
                with watch.block():
                    self._time(worker)
            for each in passes:
                self._tell(f"{request.framework}: recording {' and '.join(each.measures)}")
                path = Path(self._folder) / f"{each.name}.recording"
                with watch.block():
                    reply = self._ask(worker, "record", name=each.name, steps=request.steps, path=str(path))
                run.recorded_step_ns[each.name] = reply["step_ns"]
                process["recorded"][each.name] = len(reply["step_ns"])
                kinds = {layer.name: layer.kind for layer in request.network.layers}
                capture = load(path)
                run.captures = (*run.captures, replace(capture, facts={LAYER_KINDS: kinds, **capture.facts}))
                process["captures"] = len(run.captures)
                run.notes += [each.note] if each.note and each.note not in run.notes else []
                if times:
                    with watch.block():
                        self._time(worker)
        finally:
            process["machine"] = _busier(process["machine"], watch.facts())

    def _process(self) -> RunProcess:
        """The description of this run's process."""
        if not self._run.processes:
            self._run.processes = [{"steps": 0, "recorded": {}, "captures": 0, "machine": {}}]
        return self._run.processes[0]

    def _time(self, worker: WorkerProcess) -> None:
        self._run.step_ns += self._ask(worker, "time", steps=self._request.steps)["step_ns"]
        self._process()["steps"] = len(self._run.step_ns)

    def _learn(self) -> None:
        """In a separate process: a model that can be trained may be another one than that for inference."""
        request = self._request
        self._tell(f"{request.framework}: training")
        self._put_data()
        worker = self._worker({})
        try:
            self._start(worker, is_training=True)
            if self._conditions.is_training and not request.steps:
                self._check(worker)  # otherwise done before
            self._run.learning = self._train(worker, request.learn_s or ENDLESS_S, request.learn_steps)
            self._run.learning |= self._ask(worker, "test", ENDLESS_S, folder=self._folder)
            self._save_weights(worker, f"after {len(self._run.learning['losses'])} steps")
        finally:
            self._end(worker)

    def _train(self, worker: WorkerProcess, limit_s: float, steps: int | None) -> Message:
        seed = self._request.seed
        return self._ask(worker, "train", limit_s, folder=self._folder, seconds=limit_s, steps=steps, seed=seed)

    def _put_data(self) -> None:
        for name, array in self._data.arrays().items():
            np.save(os.path.join(self._folder, f"{name}.npy"), array)

    def _repeat(self) -> None:
        """In two further processes: what one leaves behind must not count."""
        self._tell(f"{self._request.framework}: repeating")
        if self._conditions.is_training:
            self._put_data()
        rows = repeats_of(self._numbers(), self._numbers())
        self._run.repeats = {"steps": self._request.steps, "rows": rows}

    def _numbers(self) -> dict[str, Array]:
        """What one process computes: the losses and the weights after some steps of training, or the logits."""
        worker = self._worker({})
        try:
            self._start(worker, self._conditions.is_training)
            if not self._conditions.is_training:
                self._ask(worker, "check", folder=self._folder)
                return {"logits": self._found("result")}
            losses = self._train(worker, ENDLESS_S, self._request.steps)["losses"]
            self._ask(worker, "save", folder=self._folder)
            return {
                "loss": np.array(losses),
                **{name: self._found(f"result.{name}") for name in self._weights},
            }
        finally:
            self._end(worker)

    def _save_weights(self, worker: WorkerProcess, when: str) -> None:
        """As they are now in the framework."""
        request = self._request
        if request.save_weights is None:
            return
        self._ask(worker, "save", folder=self._folder)
        arrays = {name: self._found(f"result.{name}") for name in self._weights}
        trained = f"{when} in {request.framework} on {self._data.description}"
        with open_output(request.save_weights) as stream:
            write_weights(request.network, arrays, trained, stream)


class _ProcessWatch:
    """The load of the machine while one process runs its steps."""

    def __init__(self, pid: int, cores: Sequence[int]) -> None:
        self._pid, self._cores = pid, cores
        self._blocks = 0
        self._own_s = time.process_time()
        self._before = processor_use(pid, cores)
        self._paging = read_paging(pid)
        self._watch = DisturbanceWatch(cores)

    def block(self) -> contextlib.AbstractContextManager[None]:
        """Around a block of steps."""
        self._blocks += 1
        return self._watch.turn(self._pid, self._blocks)

    def facts(self) -> dict[str, float]:
        """Shares, clocks, and the share of the blocks that were disturbed; OTHERS only where it is known."""
        facts = self._watch.facts()
        facts.pop(OTHERS, None)
        after = processor_use(self._pid, self._cores)
        if after is not None:
            # Unlike the sum over threads it has those that ended; profkit's own work is not another program's.
            after = replace(after, own_s=after.own_s + time.process_time() - self._own_s)
        share = others_share(self._before, after)
        if share is not None:
            facts[OTHERS] = max(0.0, share - facts.get(STOLEN, 0.0))
        paging = read_paging(self._pid)
        if self._paging is not None and paging is not None:
            facts |= paging.since(self._paging)
        dropped = self._watch.dropped()
        if facts.get(OTHERS, 1.0) < OTHERS_SHARE:
            dropped.pop(RUN_DELAY, None)  # its threads waited for each other
        return facts | {DISTURBED: sum(map(len, dropped.values())) / max(1, self._blocks)}


def _busier(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    """Of two processes of one run the larger of everything that is known, and the lower of lower ends."""
    return {
        name: (min if name in ("least_mhz", "low_round_trip_ns") else max)(
            each[name] for each in (a, b) if name in each
        )
        for name in {**a, **b}
    }


@dataclass(frozen=True)
class _Saved(Mapping[str, Array]):
    """Arrays that are read when they are asked for: all of a large network's would not fit into the memory."""

    names: Sequence[str]
    read: Callable[[str], Array]

    def __getitem__(self, name: str) -> Array:
        if name not in self.names:
            raise KeyError(name)
        return self.read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _tie_notes(check: StepCheck) -> list[str]:
    """What a reader of the check must know."""
    if not check.widened:
        return []
    worst = max(check.widened, key=lambda name: check.widened[name])
    note = (
        f"a ReLU or a maximum is near a tie: the limits of {len(check.widened):,} arrays "
        f"({listed(list(check.widened))}) follow from how far other roundings of the weights move float64 itself, up "
        f"to {check.widened[worst]:.2g} of {worst}'s size"
    )
    return [note]


_logits: dict[tuple[Network, str], Array] = {}
"""Float64 references of this process: a study needs the same one for every framework, and it takes seconds."""
_step: dict[tuple[Network, str], ExpectedStep] = {}
"""Of the last training step only: it is as large as the network."""


def _remembered_logits(network: Network, weights: Mapping[str, Array], images: Array) -> Array:
    key = network, _digest({**weights, IMAGES: images})
    if key not in _logits:
        _logits[key] = reference_logits(network, weights, images)
    return _logits[key]


def _remembered_step(
    network: Network, weights: Mapping[str, Array], batch: tuple[Array, Array], masks: Mapping[str, Array]
) -> ExpectedStep:
    key = network, _digest({**weights, **masks, IMAGES: batch[0], "labels": batch[1]})
    if key not in _step:
        _step.clear()
        _step[key] = ExpectedStep(network, weights, batch, masks)
    return _step[key]


def _digest(arrays: Mapping[str, Array]) -> str:
    content = hashlib.sha256()
    for name in sorted(arrays):
        content.update(name.encode())
        content.update(np.ascontiguousarray(arrays[name]).data)
    return content.hexdigest()
