"""What commands about whole networks share: the network's name among words, its fields and Training's, frameworks."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from profkit.commands.arguments import given_fields
from profkit.errors import SpecError, UsageError, unknown
from profkit.frameworks.networks import BUILDERS, load_builder
from profkit.ops.axes import COUNTS
from profkit.ops.fields import Fields
from profkit.ops.networks import NETWORKS, Training
from profkit.ops.networks.network import Network

USUAL = ("torch", "tensorflow", "jax", "onnxruntime", "native")
"""The default framework: the first of these that is installed."""


def split_name(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The network's name, which may also appear among the flags, and all other words."""
    if words and not words[0].startswith("-"):
        return words[0], list(words[1:])
    place = next((place for place, word in enumerate(words) if word in NETWORKS), None)
    return (None, list(words)) if place is None else (words[place], [*words[:place], *words[place + 1 :]])


def given_values(kind: type[Fields], arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields of a network or Training that were typed."""
    given: dict[str, Any] = {**given_fields(kind, arguments)}
    lists = [item.name for item in fields(kind) if item.metadata["kind"] is COUNTS]
    for name, word in given.items():
        if "," in str(word) and name not in lists:
            flag = f"--{name.replace('_', '-')} {word}"
            raise SpecError(f"{flag}: one value at a time; sweeps over networks are profkit study")
    return given


def given_training(network: Network, arguments: argparse.Namespace) -> Training:
    """As its study trains it, unless told otherwise."""
    given = given_values(Training, arguments)
    own = network.training
    return own.with_optimizer(given.get("optimizer", own.optimizer)).replaced(**given)


def is_there(framework: str) -> bool:
    return load_builder(framework).is_available().available


def usual_framework() -> str:
    return next((name for name in USUAL if is_there(name)), USUAL[-1])


def framework_and_mode(word: str, mode: str | None) -> tuple[str, str]:
    """From `tensorflow:eager`, or `tensorflow` and a mode, or its usual one."""
    framework, _, own_mode = word.partition(":")
    if framework not in BUILDERS:
        raise UsageError(unknown("framework", framework, BUILDERS, most=1))
    wanted = own_mode or mode or ""
    modes = list(load_builder(framework).modes)
    if wanted and wanted not in modes:
        raise UsageError(unknown(f"{framework} mode", wanted, modes, most=1))
    return framework, wanted or modes[0]
