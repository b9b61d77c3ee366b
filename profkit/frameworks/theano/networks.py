"""Networks in Theano 1.0.5, in its own environment: symbolic graph, compiled to C++ operators by its default linker."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path

from profkit.errors import UnavailableError
from profkit.frameworks.adapter import Array, Availability
from profkit.frameworks.cache import cache_folder
from profkit.frameworks.environments import availability
from profkit.frameworks.framework import quiet_warnings
from profkit.frameworks.networks.contract import BuiltNetwork, NetworkBuilder, NetworkConditions
from profkit.ops.networks.layer import LRN
from profkit.ops.networks.network import Network


class TheanoBuilder(NetworkBuilder):
    """One way to run: `theano.function` with the default mode (FAST_RUN, C virtual machine)."""

    name = "theano"
    modes = ("graph",)
    composed = (LRN,)

    def is_available(self) -> Availability:
        """Its environment, or Theano beside profkit."""
        return availability("theano")

    def environment(self, conditions: NetworkConditions) -> Mapping[str, str]:
        """What Theano reads when it is imported. Flags that the user has set win; files in the home do not count."""
        flags = {
            "base_compiledir": str(cache_folder() / "theano"),
            "device": "cpu",
            "floatX": "float32",
            # Convolutions by image, elementwise operators by part; BLAS has its own threads.
            "openmp": str(conditions.threads > 1),
        }
        text = ",".join(flag(name, value) for name, value in flags.items())
        return {"THEANO_FLAGS": joined_flags(text, os.environ.get("THEANO_FLAGS", "")), "THEANORC": os.devnull}

    def start(self, conditions: NetworkConditions) -> dict[str, str]:
        """Import Theano with a BLAS to link against: SciPy brings one with the usual symbols."""
        flags = os.environ.get("THEANO_FLAGS", "")
        os.environ["THEANO_FLAGS"] = joined_flags(flag("blas.ldflags", blas_flags()), flags)
        with quiet_warnings():
            theano = importlib.import_module("theano")
            importlib.import_module("theano.tensor.nnet")
        if not theano.config.cxx:
            raise UnavailableError("Theano compiles its operators and finds no C++ compiler; apt install g++")
        return {
            "theano": str(theano.__version__),
            "numpy": importlib.import_module("numpy").__version__,
            "compiler": str(theano.config.cxx),
            "blas": str(theano.config.blas.ldflags) or "none: products go through NumPy",
            "openmp": str(bool(theano.config.openmp)).lower(),
            "flags": flags,
        }

    def build(self, network: Network, weights: Mapping[str, Array], conditions: NetworkConditions) -> BuiltNetwork:
        """The graph; the function of the requested step is compiled now, which takes seconds to a minute."""
        from profkit.frameworks.theano.model import TheanoModel

        return TheanoModel(network, weights, conditions)


def flag(name: str, value: str) -> str:
    """As Theano reads it: by the rules of a shell, except that commas outside quotes separate."""
    return name + "='" + value.replace("'", "'\"'\"'") + "'"


def joined_flags(first: str, then: str) -> str:
    """Theano's flags in one text; where both set one the second wins."""
    return ",".join(filter(None, (first, then)))


def blas_flags() -> str:
    """Linker flags of the OpenBLAS inside SciPy's folder; empty when there is none."""
    spec = importlib.util.find_spec("scipy")
    beside = Path(spec.origin).parent.with_name("scipy.libs") if spec and spec.origin else None
    libraries = sorted(beside.glob("libopenblas*.so")) if beside else []
    if not libraries:
        return ""
    folder, name = libraries[0].parent, libraries[0].name
    return f"-L{folder} -l:{name} -Wl,-rpath,{folder}"


BUILDER = TheanoBuilder()
