"""Theano compiles each operator of a graph as a C++ module, most of the time of these tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def compiles_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own flags reach every process that has Theano."""
    monkeypatch.setenv("THEANO_FLAGS", "gcc.cxxflags=-O0")
