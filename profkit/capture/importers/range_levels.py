"""What a range of a foreign trace stands for, told by its name: step, layer, operator or the framework's machinery."""

from __future__ import annotations

import re

from profkit.capture.schema import Level

MODULE_PREFIX = "nn.Module: "
_STEP = re.compile(r"ProfilerStep[#*]|(?:step|iteration|iter)[ _#:]*\d+$", re.IGNORECASE)
_RUNTIME = "autograd::engine::"
# Collectives and the like come as annotations; they are work that is asked for, not a part of the network.
_OPERATOR = re.compile(r"(?:nccl|gloo|mpi|ucc|record_param_comms)\b|\w+::\w|\w+/\w+/(?:cpu|cuda)\b")


def level_of_operator(name: str) -> Level:
    """Of a range that the framework itself opened for an operator."""
    return Level.RUNTIME if name.startswith(_RUNTIME) else Level.OPERATOR


def level_of_annotation(name: str) -> Level:
    """Of a range that a user, a library or an optimiser opened."""
    if _STEP.match(name):
        return Level.STEP
    if name.startswith(_RUNTIME):
        return Level.RUNTIME
    return Level.OPERATOR if _OPERATOR.match(name) else Level.LAYER
