"""Statlog (Shuttle): nine whole numbers and the class by name in each line of a CSV file, as R's mlbench has them.

Their order there is not the published one, so the published split is unknown: one of the same size is drawn, with a
fixed seed, and every output says so.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from profkit.data.dataset import Data, DataSource
from profkit.data.files import damaged, read_bytes

SHUTTLE = "Shuttle"
NAMES = ("shuttle.csv.gz", "shuttle.csv")
CLASSES = ("Rad.Flow", "Fpv.Close", "Fpv.Open", "High", "Bypass", "Bpv.Close", "Bpv.Open")
"""In the order of the published numbers, which begin with 1."""
COLUMNS = 9
WHERE = "in R: data(Shuttle, package = 'mlbench'); write.csv(Shuttle, 'shuttle.csv', row.names = FALSE)"
TRAINING_SHARE = 43_500 / 58_000
"""Of the published split."""
SPLIT_SEED = 0
MOST_BYTES, MOST_ROWS = 1 << 23, 100_000
_LEAST_ROWS = 8


def _find(place: Path) -> Path | None:
    paths = (place,) if place.name.endswith((".csv", ".csv.gz")) else tuple(place / name for name in NAMES)
    return next((path for path in paths if path.is_file()), None)


def _read(path: Path) -> Data:
    """Columns without the first, the time, as the study has them: eight inputs."""
    try:
        head, *lines = read_bytes(path, MOST_BYTES).decode("ascii").splitlines()
    except ValueError:
        raise damaged(path, "it is empty, or not a text of ASCII characters") from None
    expected = [*(f"V{number}" for number in range(1, COLUMNS + 1)), "Class"]
    if [word.strip('"') for word in head.split(",")] != expected:
        raise damaged(path, f"its first line is {head[:60]!r}, expected {','.join(expected)}")
    if not _LEAST_ROWS <= len(lines) <= MOST_ROWS:
        raise damaged(path, f"it has {len(lines):,} rows, expected {_LEAST_ROWS} to {MOST_ROWS:,}")
    numbers = {name: number for number, name in enumerate(CLASSES)}
    rows, labels = np.empty((len(lines), COLUMNS), np.float32), np.empty(len(lines), np.int64)
    for place, line in enumerate(lines):
        *values, name = line.split(",")
        try:
            if len(values) != COLUMNS:
                raise ValueError
            rows[place], labels[place] = [int(value) for value in values], numbers[name.strip('"')]
        except (ValueError, KeyError, OverflowError):
            wanted = f"{COLUMNS} whole numbers and one of {', '.join(CLASSES)}"
            raise damaged(path, f"line {place + 2} is {line[:60]!r}, expected {wanted}") from None
    order = np.random.default_rng(SPLIT_SEED).permutation(len(rows))
    train, test = np.split(order, [round(TRAINING_SHARE * len(rows))])
    description = f"{SHUTTLE} without its time column, split drawn with seed {SPLIT_SEED} (not the published one)"
    return Data(description, rows[train, 1:], labels[train], rows[test, 1:], labels[test])


SOURCE = DataSource(SHUTTLE, " or ".join(NAMES), WHERE, _find, _read)
