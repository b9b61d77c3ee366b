"""Streams of GPUs as tracks of a trace: activities of a capture go in, queues, lanes and launches come out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from profkit.capture.schema import NONE, Activities, Capture, Column, Device
from profkit.rendering.traces.building import TraceBuilder
from profkit.rendering.traces.content import Gpu, Launches, Queue

_MOST_GPUS = 64  # in a list by id


class Queues:
    """Each stream of each GPU, as each process uses it."""

    def __init__(self, capture: Capture, process_rows: Sequence[int]) -> None:
        activities = capture.activities
        keys = np.stack([activities[name].astype(np.int64) for name in ("process", "device", "stream")], axis=1)
        found, place = np.unique(keys.reshape(-1, 3), axis=0, return_inverse=True)
        self.place: Column = place.reshape(-1).astype(np.int32)
        """The queue of each activity."""
        self._keys = [(process_rows[max(process, 0)], device, stream) for process, device, stream in found.tolist()]
        self._names = {device.id: device.name for device in capture.devices}
        users = Counter((device, stream) for _, device, stream in self._keys)
        self._is_shared = {key for key, number in users.items() if number > 1}
        self._has_many_gpus = len({device for _, device, _ in self._keys}) > 1

    def all(self, builder: TraceBuilder) -> tuple[Queue, ...]:
        """As a trace has them; a GPU that is not known is number 0."""
        return tuple(
            Queue(max(device, 0), process, self._name(builder.processes[process].pid, device, stream))
            for process, device, stream in self._keys
        )

    def add_tracks(self, builder: TraceBuilder) -> list[int]:
        """A track for each queue, in a group for each GPU of each process."""
        groups: dict[tuple[int, int], int] = {}
        tracks = []
        for number, (process, device, stream) in enumerate(self._keys):
            if (process, device) not in groups:
                gpu = f"{_gpu_name(device)} {self._names.get(device, '')}".rstrip()
                name = f"{gpu} of {builder.processes[process].name}"
                groups[process, device] = builder.add_process(0, name, is_gpu=True)
            tracks.append(builder.add_track(groups[process, device], 0, _stream_name(stream), queue=number))
        return tracks

    def _name(self, pid: int, device: int, stream: int) -> str:
        """It alone must identify the queue: some viewers list those of all GPUs together."""
        name = f"{_gpu_name(device)} {_stream_name(stream)}" if self._has_many_gpus else _stream_name(stream)
        return f"{name} (process {pid})" if (device, stream) in self._is_shared else name


def _gpu_name(device: int) -> str:
    return f"GPU {device}" if device != NONE else "GPU not recorded"


def _stream_name(stream: int) -> str:
    return f"stream {stream}" if stream != NONE else "stream not recorded"


def gpus_of(capture: Capture) -> tuple[Gpu, ...]:
    """All GPUs by id; those between that the capture does not know have no name."""
    known = {device.id: device for device in capture.devices if 0 <= device.id < _MOST_GPUS}
    gpus = []
    for device in (known.get(number, Device(number)) for number in range(max(known, default=-1) + 1)):
        about = {"multiprocessors": device.multiprocessors, "memory bytes": device.memory_bytes}
        version = (device.compute_major, device.compute_minor)
        architecture = "" if NONE in version else "sm_{}{}".format(*version)
        properties = tuple((name, str(value)) for name, value in about.items() if value != NONE)
        gpus.append(Gpu(device.id, device.name, architecture, properties))
    return tuple(gpus)


def kernel_launches(activities: Activities, kernels: Column) -> Launches:
    return Launches(**{field.name: activities[field.name][kernels] for field in fields(Launches)})
