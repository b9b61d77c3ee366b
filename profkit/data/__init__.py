"""Data for networks: files of published data sets, prepared as the studies do, or synthetic ones of the same shape.

Runs in the parent only; workers get arrays.
"""

from __future__ import annotations

from profkit.data.dataset import SYNTHETIC, Data
from profkit.data.loading import load_data
from profkit.data.synthetic import synthetic_data

__all__ = ["SYNTHETIC", "Data", "load_data", "synthetic_data"]
