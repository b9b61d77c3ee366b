"""The worker's side of a network's run: build, check, time, record, learn. Standard library and NumPy 1.23 only."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from profkit.capture.archive import save
from profkit.frameworks.events import SourceSubject, load_source
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkConditions
from profkit.measurement.workers.operator import answer_requests
from profkit.measurement.workers.protocol import Message
from profkit.ops.networks import Network, Training, network_from_dict


def serve(read_fd: int, write_fd: int) -> None:
    """Answer requests about one network in one framework until the parent closes the pipe."""
    answer_requests(NetworkWorker(), read_fd, write_fd)


class NetworkWorker:
    """State between requests. `start` and `build` come first; the others in any order, as often as wanted."""

    is_candidate = False

    def __init__(self) -> None:
        self.framework = ""
        self.conditions = NetworkConditions()
        self._network: Network | None = None
        self._built: BuiltNetwork | None = None
        self._batch: Any = None

    def do_start(self, framework: str, threads: int, mode: str, is_training: bool, training: Message) -> Message:
        """Import the framework and set its threads."""
        self.framework = framework
        self.conditions = NetworkConditions(threads, mode, is_training, Training(**training))
        return {"versions": load_builder(framework).start(self.conditions)}

    def do_build(self, network: Message, folder: str) -> Message:
        """Build the model with the weights and the batch that lie in the folder."""
        self._network = network_from_dict(network)
        weights = {
            name: np.load(os.path.join(folder, f"{name}.npy")) for name in self._network.parameter_shapes()
        }  # fmt: skip
        self._built = load_builder(self.framework).build(self._network, weights, self.conditions)
        self._batch = self._built.put(*(np.load(os.path.join(folder, name)) for name in ("images.npy", "labels.npy")))
        return {"notes": list(self._built.notes)}

    def do_check(self, folder: str) -> Message:
        """The first step; what it gave lies in the folder afterwards: logits, or the loss and the new weights."""
        _, built = self._ready()
        begin = time.perf_counter_ns()
        result = self._step()()
        first_step_ns = time.perf_counter_ns() - begin
        np.save(os.path.join(folder, "result.npy"), np.asarray(built.to_numpy(result)))
        if self.conditions.is_training:
            for name, values in built.weights().items():
                np.save(os.path.join(folder, f"result.{name}.npy"), np.asarray(values))
        return {"first_step_ns": first_step_ns}

    def do_time(self, steps: int) -> Message:
        """Step times with nothing recorded."""
        step = self._step()
        samples = []
        gc.collect()
        for _ in range(steps):
            begin = time.perf_counter_ns()
            step()
            samples.append(time.perf_counter_ns() - begin)
        return {"step_ns": samples}

    def do_record(self, name: str, steps: int, path: str) -> Message:
        """Run steps under a pass of the framework's source; the recording goes to `path`."""
        network, built = self._ready()
        gc.collect()
        watched = SourceSubject(network, built, self.conditions, self._step())
        capture = load_source(self.framework).record(watched, name, steps)
        save(capture, path)
        return {"step_ns": (capture.steps["end_ns"] - capture.steps["start_ns"]).tolist()}

    def do_learn(self, folder: str, seconds: float, steps: int) -> Message:
        """Train on train_images.npy in their order until the time or the steps are over; then precision on test_*."""
        network, built = self._ready()
        images, labels = (np.load(os.path.join(folder, f"train_{name}.npy")) for name in ("images", "labels"))
        batch_size = network.input_shape()[0]
        begin = time.monotonic()
        losses: list[float] = []
        while len(losses) < steps and time.monotonic() - begin < seconds:
            first = len(losses) * batch_size % (len(images) - batch_size + 1)
            batch = built.put(images[first : first + batch_size], labels[first : first + batch_size])
            losses.append(float(built.to_numpy(built.train(batch))))
        taken = time.monotonic() - begin
        return {"losses": losses, "seconds": taken, **self._precision(folder, batch_size)}

    def _precision(self, folder: str, batch_size: int) -> Message:
        _, built = self._ready()
        images, labels = (np.load(os.path.join(folder, f"test_{name}.npy")) for name in ("images", "labels"))
        right = total = 0
        for first in range(0, len(images) - batch_size + 1, batch_size):
            part = slice(first, first + batch_size)
            logits = built.to_numpy(built.infer(built.put(images[part], labels[part])))
            right += int((logits.argmax(axis=1) == labels[part]).sum())
            total += batch_size
        return {"precision": right / total if total else None, "tested": total}

    def _step(self) -> Callable[[], Any]:
        _, built = self._ready()
        run = built.train if self.conditions.is_training else built.infer
        return lambda: run(self._batch)

    def _ready(self) -> tuple[Network, BuiltNetwork]:
        if self._network is None or self._built is None:
            raise RuntimeError("a step was asked for before build")
        return self._network, self._built
