"""The worker's side of a network's run: build, check, time, record, learn. Standard library and NumPy 1.23 only."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from profkit.capture.archive import save
from profkit.errors import UnsupportedError
from profkit.frameworks.events import SourceSubject, load_source
from profkit.frameworks.networks import load_builder
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkConditions
from profkit.measurement.workers.operator import answer_requests
from profkit.measurement.workers.protocol import Message
from profkit.ops.networks import Network, Training, network_from_dict
from profkit.ops.networks.errors import network_error
from profkit.ops.networks.layer import DROPOUT
from profkit.ops.networks.reference import dropout_masks
from profkit.ops.spec import Array


def serve(read_fd: int, write_fd: int) -> None:
    """Answer requests about one network in one framework until the parent closes the pipe."""
    answer_requests(NetworkWorker(), read_fd, write_fd)


class NetworkWorker:
    """State between requests. `start` and `build` come first; the others in any order, as often as wanted."""

    is_candidate = False

    def __init__(self) -> None:
        self.framework = ""
        self.conditions = NetworkConditions()
        self._versions: dict[str, str] = {}
        self._network: Network | None = None
        self._built: BuiltNetwork | None = None
        self._batch: Any = None

    def do_start(self, framework: str, threads: int, mode: str, is_training: bool, training: Message) -> Message:
        """Import the framework and set its threads."""
        self.framework = framework
        self.conditions = NetworkConditions(threads, mode, is_training, Training(**training))
        self._versions = load_builder(framework).start(self.conditions)
        return {"versions": self._versions}

    def do_build(self, network: Message, folder: str) -> Message:
        """Build the model with the weights and the batch in the folder."""
        self._network = network_from_dict(network)
        weights = {
            name: np.load(os.path.join(folder, f"{name}.npy")) for name in self._network.weight_shapes()
        }  # fmt: skip
        self._built = load_builder(self.framework).build(self._network, weights, self.conditions)
        self._batch = self._built.put(*(np.load(os.path.join(folder, name)) for name in ("images.npy", "labels.npy")))
        return {"notes": list(self._built.notes), "ran": self._ran(self._network)}

    def _ran(self, network: Network) -> Message:
        """What this process runs, as it knows it: to be compared with what was requested."""
        conditions = self.conditions
        return {
            "network": network.to_dict(),
            "framework": self.framework,
            "mode": conditions.mode,
            "threads": int(self._versions["threads"].split()[0]) if "threads" in self._versions else None,
            "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
            "training": conditions.is_training,
            "optimizer": conditions.training.field_values() if conditions.is_training else None,
        }

    def do_check(self, folder: str) -> Message:
        """The first step; its results are in the folder afterwards: logits, or loss, gradients and new weights."""
        _, built = self._ready()
        batch, without_gradients = self._batch, ""
        if self.conditions.is_training:
            batch = self._masked_batch(folder)
            without_gradients = self._save_gradients(folder, batch)
        step = self._step(batch)
        begin = time.perf_counter_ns()
        result = step()
        first_step_ns = time.perf_counter_ns() - begin
        np.save(os.path.join(folder, "result.npy"), np.asarray(built.to_numpy(result)))
        if self.conditions.is_training:
            self.do_save(folder)
        return {"first_step_ns": first_step_ns, "without_gradients": without_gradients}

    def _masked_batch(self, folder: str) -> Any:
        """With the masks of dropout that the reference has."""
        network, built = self._ready()
        names = [layer.name for layer in network.layers if layer.kind == DROPOUT]
        masks = {name: np.load(os.path.join(folder, f"{name}.mask.npy")) for name in names}
        images, labels = (np.load(os.path.join(folder, name)) for name in ("images.npy", "labels.npy"))
        return built.put(images, labels, masks) if masks else self._batch

    def _save_gradients(self, folder: str, batch: Any) -> str:
        """At the initial weights; the reason where the framework cannot tell them."""
        _, built = self._ready()
        try:
            gradients = built.gradients(batch)
        except UnsupportedError as error:
            return str(error)
        for name, values in gradients.items():
            np.save(os.path.join(folder, f"gradient.{name}.npy"), np.asarray(values))
        return ""

    def do_save(self, folder: str) -> Message:
        """All weights as they are now."""
        _, built = self._ready()
        for name, values in built.weights().items():
            np.save(os.path.join(folder, f"result.{name}.npy"), np.asarray(values))
        return {}

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

    def do_train(self, folder: str, seconds: float, steps: int | None, seed: int) -> Message:
        """Train on the training data in their order until the time or the steps are over; dropout's masks follow from
        the seed and the step, so that all frameworks learn alike."""
        network, built = self._ready()
        training = self.conditions.training
        images, labels = _part(folder, "train")
        batch_size = network.input_shape()[0]
        begin = time.monotonic()
        losses: list[float] = []
        while (steps is None or len(losses) < steps) and time.monotonic() - begin < seconds:
            first = len(losses) * batch_size % (len(images) - batch_size + 1)
            masks = dropout_masks(network, seed, len(losses))
            batch = built.put(images[first : first + batch_size], labels[first : first + batch_size], masks)
            if not training.is_constant:
                built.set_rates(*training.rates(len(losses) // (len(images) // batch_size), len(losses)))
            losses.append(float(built.to_numpy(built.train(batch))))
        return {"losses": losses, "seconds": time.monotonic() - begin}

    def do_test(self, folder: str) -> Message:
        """The errors on the test data and on as many training data."""
        network, _ = self._ready()
        data = {name: _part(folder, name) for name in ("test", "train")}
        batches = min(len(images) for images, _ in data.values()) // network.input_shape()[0]
        answer: Message = {}
        for name, parts in data.items():
            answer[f"{name}_error"], answer[f"{name}_count"] = self._error(*parts, batches)
        return answer

    def _error(self, images: Array, labels: Array, batches: int) -> tuple[float | None, int]:
        """The mean error over so many whole batches, and of how many inputs it is."""
        network, built = self._ready()
        size = network.input_shape()[0]
        errors = [
            network_error(network, built.to_numpy(built.infer(built.put(images[part], labels[part]))), labels[part])
            for part in (slice(first * size, (first + 1) * size) for first in range(batches))
        ]
        return (float(np.mean(errors)) if errors else None), size * batches

    def _step(self, batch: Any = None) -> Callable[[], Any]:
        _, built = self._ready()
        run = built.train if self.conditions.is_training else built.infer
        given = self._batch if batch is None else batch
        return lambda: run(given)

    def _ready(self) -> tuple[Network, BuiltNetwork]:
        if self._network is None or self._built is None:
            raise RuntimeError("a step was requested before build")
        return self._network, self._built


def _part(folder: str, name: str) -> tuple[Array, Array]:
    images, labels = (np.load(os.path.join(folder, f"{name}_{what}.npy")) for what in ("images", "labels"))
    return images, labels
