"""Networks as Caffe models, run by OpenCV (below 5) in its own environment; inference only."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from profkit.errors import UnavailableError
from profkit.frameworks.adapter import Array, Availability
from profkit.frameworks.caffe.files import CaffeLayer, caffe_layers, caffemodel, prototxt, refusal
from profkit.frameworks.environments import availability
from profkit.frameworks.lazy import cv2
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkBuilder, NetworkConditions
from profkit.ops.networks.network import Network

NO_TRAINING = "OpenCV runs Caffe models, it does not train them"
FIRST_WITHOUT_CAFFE = 5


class CaffeBuilder(NetworkBuilder):
    """One way to run: OpenCV's own CPU code, with its fusions."""

    name = "caffe"
    modes = ("graph",)
    optimizers = ()

    def is_available(self) -> Availability:
        """Its environment, or an OpenCV beside profkit that still reads Caffe's files."""
        return availability("caffe", below=FIRST_WITHOUT_CAFFE)

    def supports(self, network: Network, conditions: NetworkConditions) -> str:
        return NO_TRAINING if conditions.is_training else refusal(network)

    def environment(self, conditions: NetworkConditions) -> Mapping[str, str]:
        """No GPU through OpenCL."""
        return {"OPENCV_OPENCL_RUNTIME": "disabled"}

    def start(self, conditions: NetworkConditions) -> dict[str, str]:
        if not hasattr(cv2.dnn, "readNetFromCaffe"):
            raise UnavailableError(f"OpenCV {cv2.__version__} no longer reads Caffe's files: it must be below 5")
        cv2.setNumThreads(conditions.threads)
        build = cv2.getBuildInformation()
        parallel = re.search(r"Parallel framework:\s*(\S.*)", build)
        return {
            "opencv": str(cv2.__version__),
            "numpy": np.__version__,
            "threads": str(cv2.getNumThreads()),
            "parallel": parallel.group(1).strip() if parallel else "unknown",
            "simd": str(cv2.getCPUFeaturesLine()),
        }

    def build(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> BuiltNetwork:
        return CaffeModel(network, weights)


class CaffeModel(BuiltNetwork):
    """The source reads `net` and `layers`."""

    no_training = NO_TRAINING

    def __init__(self, network: Network, weights: Mapping[str, Array]) -> None:
        self.model = self
        self.layers: Sequence[CaffeLayer] = caffe_layers(network, weights)
        self.input_shape = network.input_shape()
        self._weights = {name: np.array(weights[name]) for name in network.parameter_shapes()}
        text = prototxt(network.name, network.input_shape(), self.layers).encode()
        files = [np.frombuffer(part, np.uint8) for part in (text, caffemodel(network.name, self.layers))]
        self.net = cv2.dnn.readNetFromCaffe(*files)
        self.net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
        self.net.setPreferableTarget(cv2.dnn.DNN_TARGET_CPU)
        self._current: Any = None
        self.notes = _notes(self.layers)

    def put(self, images: Array, labels: Array, masks: Mapping[str, Array] | None = None) -> Array:
        """A contiguous array; OpenCV copies it when the batch changes."""
        return np.ascontiguousarray(images, np.float32)

    def infer(self, batch: Array) -> Any:
        if batch is not self._current:
            self.net.setInput(batch)
            self._current = batch
        return self.net.forward()

    def to_numpy(self, result: Any) -> Array:
        return np.asarray(result).reshape(len(result), -1)

    def weights(self) -> dict[str, Array]:
        return {name: values.copy() for name, values in self._weights.items()}


def _notes(layers: Sequence[CaffeLayer]) -> Sequence[str]:
    notes = ["a Caffe model (prototxt, caffemodel) run by OpenCV's own CPU code; weights are packed when it is read"]
    if names := ", ".join(layer.name for layer in layers if layer.pads):
        notes.append(f"{names}: unequal padding of two sides: OpenCV supports that, Caffe itself does not")
    return notes


BUILDER = CaffeBuilder()
