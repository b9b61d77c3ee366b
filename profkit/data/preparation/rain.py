"""Rain from radar: Marshall and Palmer's relation, and the features of the HMDIR networks."""

from __future__ import annotations

import numpy as np

from profkit.ops.spec import Array

FACTOR, EXPONENT = 200.0, 1.6
"""Z = 200 R^1.6: Z in mm^6/m^3, R in mm/h."""
HOUR = 60.0
"""Minutes."""


def rain_rate(reflectivity_dbz: Array) -> Array:
    """mm/h from the radar's reflectivity in dBZ; NaN, which is no echo, is no rain."""
    rate: Array = (10 ** (np.nan_to_num(reflectivity_dbz, nan=-np.inf) / 10) / FACTOR) ** (1 / EXPONENT)
    return rate


def hourly_rain(minutes: Array, reflectivity_dbz: Array, lengths: Array) -> Array:
    """mm in an hour from its scans [n, steps], at these rising minutes past the hour; the first `lengths` count.

    A scan holds from the one before it, the first from the hour's beginning; the last one also until its end.
    """
    is_scan = np.arange(minutes.shape[1]) < lengths[:, None]
    until = np.where(is_scan, minutes, 0.0)
    np.put_along_axis(until, np.maximum(lengths - 1, 0)[:, None], HOUR, axis=1)
    since = np.concatenate([np.zeros((len(minutes), 1)), minutes[:, :-1]], axis=1)
    share = np.where(is_scan, (until - since) / HOUR, 0.0)
    total: Array = (rain_rate(reflectivity_dbz) * share).sum(axis=1)
    return total


def hmdir_features(records: Array, reflectivity_dbz: Array, lengths: Array) -> Array:
    """[n, steps, features + 2]: the records with 0 for what is missing, how many scans the hour has, and the mean of
    their Marshall-Palmer rates; steps after the last scan are 0."""
    count, steps, _ = records.shape
    is_scan = np.arange(steps) < lengths[:, None]
    rates = np.where(is_scan, rain_rate(reflectivity_dbz), 0.0).sum(axis=1) / np.maximum(lengths, 1)
    added = np.stack([np.broadcast_to(each[:, None], (count, steps)) for each in (lengths, rates)], axis=2)
    whole = np.concatenate([np.nan_to_num(records, nan=0.0), added], axis=2)
    return np.where(is_scan[..., None], whole, 0.0).astype(np.float32)
