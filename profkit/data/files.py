"""Files of data sets, found, read and checked: plain or packed by gzip, no larger than they may be; else UsageError."""

from __future__ import annotations

from pathlib import Path

from profkit.capture.importers.unzipping import unzipped
from profkit.errors import CaptureError, UsageError
from profkit.ops.spec import Array

_PIECE_BYTES = 1 << 20


def read_bytes(path: Path, most: int) -> bytes:
    """The whole file, unpacked. A larger one is refused before it is in memory, whether it is packed or not."""
    parts: list[bytes] = []
    count = 0
    try:
        check_size(path, most)
        with unzipped(path) as stream:
            while part := stream.read(_PIECE_BYTES):
                parts.append(part)
                count += len(part)
                if count > most:
                    raise UsageError(f"{path} unpacks to more than {most:,} bytes: it is not the published file")
    except CaptureError as error:
        raise UsageError(str(error)) from None
    if stream.trouble:
        raise damaged(path, stream.trouble)
    return b"".join(parts)


def check_size(path: Path, most: int) -> None:
    """Before a file is read, which then is in memory as a whole."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if size > most:
        raise UsageError(f"{path} has {size:,} bytes, more than {most:,}: it is not the published file")


def damaged(path: Path, why: object) -> UsageError:
    """For a file that is there, but not what it should be."""
    return UsageError(f"{path} is damaged: {why}")


def check_classes(path: Path, labels: Array, classes: int) -> None:
    """UsageError for a file without images, or with a class that the data set does not have."""
    if not len(labels) or int(labels.min()) < 0 or int(labels.max()) >= classes:
        found = f"labels up to {labels.max()}" if len(labels) else "no images"
        raise damaged(path, f"{found}, expected 0 to {classes - 1}")


def in_folder(place: Path, names: tuple[str, ...], subfolders: tuple[str, ...] = ()) -> Path | None:
    """The folder that has one of these files: the place itself, one below it, or that of a file which was named."""
    if place.name in names and place.is_file():
        return place.parent
    folders = (place, *(place / subfolder for subfolder in subfolders))
    return next((folder for folder in folders if any((folder / name).is_file() for name in names)), None)
