"""Which data set is in a file or a folder: a path and a network in, Data in the network's shape out."""

from __future__ import annotations

from pathlib import Path

from profkit.data import cifar, cifar_jpeg, mnist, shuttle
from profkit.data.dataset import Data
from profkit.data.preparation.steps import prepared
from profkit.errors import UsageError
from profkit.ops.networks.network import Network

SOURCES = (cifar.BINARY, cifar.PYTHON, cifar_jpeg.JPEG, mnist.SOURCE, shuttle.SOURCE)


def load_data(path: str | Path, network: Network) -> Data:
    """The network's own data set from these files, prepared as the network says; UsageError with what is wrong."""
    place = Path(path)
    sources = [source for source in SOURCES if source.data_set == network.data]
    if not sources:
        known = ", ".join(dict.fromkeys(source.data_set for source in SOURCES))
        raise UsageError(
            f"--data: {network.name} learns from {network.data or 'no data set'}, and profkit reads {known} only: "
            "leave --data out for synthetic data of its shape"
        )
    if not place.exists():
        raise UsageError(f"there is no file or folder {path}: {_advice(sources[0].where)}")
    for source in sources:
        found = source.find(place)
        if found is not None:
            return prepared(source.read(found), network)
    others = dict.fromkeys(source.data_set for source in SOURCES if source not in sources and source.find(place))
    but = f", but {' and '.join(others)}, which {network.name} does not learn from" if others else ""
    files = " or ".join(source.files for source in sources)
    raise UsageError(f"{path} has no {network.data} ({files}){but}: {_advice(sources[0].where)}")


def _advice(where: str) -> str:
    return f"{where}, and give its file or folder; without --data, synthetic data of the same shape are used"
