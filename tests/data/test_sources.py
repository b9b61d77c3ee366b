"""Files of data sets, made here: found, read, and refused in one sentence when they are damaged, huge or missing."""

from __future__ import annotations

import gzip
import io
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profkit.data import cifar_jpeg, load_data, mnist, shuttle
from profkit.data.loading import SOURCES
from profkit.errors import UsageError
from profkit.ops.networks import NETWORKS, LeNet, Mlp, Network, Solar

HEAD = '"V1","V2","V3","V4","V5","V6","V7","V8","V9","Class"\n'


def shuttle_text(rows: int = 16) -> str:
    names = shuttle.CLASSES
    lines = (f'{row},{row * row},-3,{7 * row % 5},5,6,7,8,{row % 3},"{names[row % 7]}"\n' for row in range(rows))
    return HEAD + "".join(lines)


def mnist_files(folder: Path, packed: bool = True, train: int = 6, test: int = 4) -> None:
    generator = np.random.default_rng(0)
    for part, count in (("train", train), ("t10k", test)):
        images, labels = generator.integers(0, 256, (count, 28, 28), np.uint8), np.arange(count) % 10
        contents = {
            mnist.IMAGES: struct.pack(">4I", 0x803, count, 28, 28) + images.tobytes(),
            mnist.LABELS: struct.pack(">2I", 0x801, count) + labels.astype(np.uint8).tobytes(),
        }
        for name, content in contents.items():
            path = folder / f"{part}-{name}{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(content) if packed else content)


def jpeg_of(pixels: np.ndarray) -> bytes:
    image = pytest.importorskip("PIL.Image", reason="JPEG needs Pillow")
    stream = io.BytesIO()
    image.fromarray(pixels).save(stream, "JPEG", quality=95)
    return stream.getvalue()


def jpeg_arrays(count: int = 6, side: int = 32) -> dict[str, Any]:
    """Of pictures of one grey each."""
    files = [jpeg_of(np.full((side, side, 3), 40 * number % 256, np.uint8)) for number in range(count)]
    return {
        "jpeg": np.frombuffer(b"".join(files), np.uint8),
        "offsets": np.cumsum([0, *map(len, files)]),
        "labels": np.arange(count).astype(np.uint8),
        "is_test": np.arange(count) % 3 == 2,
        "classes": np.array(["a"] * 10),
    }


def network(data: str) -> Network:
    """With that data set and no preparation."""
    kind = type("Reading", (Network,), {"data": data, "preparation": (), "name": "reading"})
    shapes = {"MNIST": (2, 1, 28, 28), "CIFAR-10": (2, 3, 32, 32), "Shuttle": (2, 8)}
    kind.input_shape = lambda _: shapes[data]  # type: ignore[attr-defined]
    kind.output_shape = lambda _: (2, 10)  # type: ignore[attr-defined]
    made: Network = kind()
    return made


def test_mnist_is_read_packed_and_plain_from_its_folder_the_one_above_or_one_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "plain").mkdir()
    mnist_files(tmp_path / "mnist")
    mnist_files(tmp_path / "plain", packed=False)
    places = [tmp_path, tmp_path / "mnist", tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz", tmp_path / "plain"]

    first, *others = [load_data(place, network("MNIST")) for place in places]

    assert (first.description, first.train_images.shape, first.test_images.shape) == (
        "MNIST",
        (6, 1, 28, 28),
        (4, 1, 28, 28),
    )
    assert first.train_labels.tolist() == [0, 1, 2, 3, 4, 5] and first.train_labels.dtype == np.int64
    expected = np.random.default_rng(0).integers(0, 256, (6, 28, 28), np.uint8)
    assert np.array_equal(first.train_images[:, 0], expected)
    assert all(np.array_equal(first.test_images, other.test_images) for other in others)


def test_shuttle_is_split_by_a_seed_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "shuttle.csv.gz").write_bytes(gzip.compress(shuttle_text().encode()))
    (tmp_path / "other.csv").write_text(shuttle_text())

    data, same = (load_data(place, network("Shuttle")) for place in (tmp_path, tmp_path / "other.csv"))

    assert "split drawn with seed 0 (not the published one)" in data.description
    assert (data.train_images.shape, data.test_images.shape) == ((12, 8), (4, 8))
    whole = np.concatenate([data.train_images, data.test_images])
    assert sorted(whole[:, 0].tolist()) == [row * row for row in range(16)]
    row = int(np.sqrt(data.test_images[0, 0]))
    assert data.test_images[0].tolist() == [row * row, -3, 7 * row % 5, 5, 6, 7, 8, row % 3]
    assert data.test_labels[0] == row % 7
    assert np.array_equal(data.train_images, same.train_images)


def test_cifar10_as_jpeg_is_decoded_and_says_so(tmp_path: Path) -> None:
    np.savez(tmp_path / cifar_jpeg.NAME, **jpeg_arrays())

    data = load_data(tmp_path, network("CIFAR-10"))

    assert data.description == "CIFAR-10, re-encoded as JPEG"
    assert (data.train_labels.tolist(), data.test_labels.tolist()) == ([0, 1, 3, 4], [2, 5])
    assert data.train_images.shape == (4, 3, 32, 32)
    assert [image.mean() for image in data.test_images] == pytest.approx([80, 200], abs=1)


def test_a_place_with_several_data_sets_gives_each_network_its_own(tmp_path: Path) -> None:
    mnist_files(tmp_path)
    (tmp_path / "shuttle.csv").write_text(shuttle_text())

    assert load_data(tmp_path, Mlp(batch=4)).description.startswith("Shuttle")
    assert load_data(tmp_path, network("MNIST")).description == "MNIST"
    with pytest.raises(UsageError, match=r"no CIFAR-10 .*, but MNIST and Shuttle, which lenet does not learn from"):
        load_data(tmp_path, LeNet())
    with pytest.raises(UsageError, match="solar learns from solar irradiance, and profkit reads CIFAR-10, MNIST, Shut"):
        load_data(tmp_path, Solar())


def test_every_network_whose_data_are_read_gets_its_own_shape(tmp_path: Path) -> None:
    mnist_files(tmp_path)
    (tmp_path / "shuttle.csv").write_text(shuttle_text(50))
    np.savez(tmp_path / cifar_jpeg.NAME, **jpeg_arrays(9))
    read = {source.data_set for source in SOURCES}
    names = []
    for name, kind in NETWORKS.items():
        network = kind(batch=4)
        # The whitening of 3,072 values takes ten seconds, however few images there are.
        if network.data in read and "zca" not in network.preparation:
            data = load_data(tmp_path, network)
            assert data.batch(4)[0].shape == network.input_shape(), name
            assert [str(each.dtype) for each in (data.train_images, data.train_labels)] == ["float32", "int64"], name
            names.append(name)
    assert {"cifar10", "lenet", "mlp"} <= set(names)


def test_fewer_inputs_than_a_batch_are_refused(tmp_path: Path) -> None:
    (tmp_path / "shuttle.csv").write_text(shuttle_text())

    with pytest.raises(UsageError, match="has 12 training inputs, fewer than a batch of 128: take a smaller --batch"):
        load_data(tmp_path, Mlp())


def idx(*numbers: int, data: bytes = b"") -> bytes:
    return struct.pack(f">{len(numbers)}I", *numbers) + data


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "train-labels-idx1-ubyte.gz",
            gzip.compress(idx(0x801, 6, data=bytes(6)), mtime=0)[:20],
            "stream ends too early",
        ),
        ("train-labels-idx1-ubyte.gz", b"\x1f\x8b" + bytes(range(60)), "its gzip stream is damaged"),
        ("train-labels-idx1-ubyte.gz", b"", "0 bytes are less than its header of 8"),
        ("train-labels-idx1-ubyte.gz", idx(0x803, 6), "its header has 0x803"),
        ("train-labels-idx1-ubyte.gz", idx(0x801, 6, data=bytes(5)), "13 bytes, and its header says 6 elements, 14"),
        ("train-labels-idx1-ubyte.gz", idx(0x801, 5, data=bytes(5)), "it has 5 labels, and there are 6 images"),
        ("train-labels-idx1-ubyte.gz", idx(0x801, 6, data=bytes([10] * 6)), "labels up to 10, expected 0 to 9"),
        ("train-images-idx3-ubyte.gz", idx(0x803, 1, 27, 28), "expected 0x803 and ['n', 28, 28]"),
        ("train-images-idx3-ubyte.gz", idx(0x803, 0xFFFFFFFF, 28, 28), "its header says 4,294,967,295 elements"),
        ("t10k-images-idx3-ubyte.gz", None, "lacks t10k-images-idx3-ubyte.gz: get the four files"),
    ],
)
def test_damaged_mnist_is_one_sentence(name: str, content: bytes | None, said: str, tmp_path: Path) -> None:
    mnist_files(tmp_path)
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)

    sentence = refusal(tmp_path, "MNIST")

    assert said in sentence and name in sentence


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("a,b\n1,2\n", "its first line is 'a,b'"),
        (HEAD, "it has 0 rows, expected 8 to 100,000"),
        (shuttle_text().replace("9,81,", "9,x,"), "line 11 is '9,x,-3"),
        (shuttle_text().replace("9,81,", "9,"), "expected 9 whole numbers and one of Rad.Flow"),
        (shuttle_text().replace("Bypass", "Byparse"), "'4,16,-3,3,5,6,7,8,1,\"Byparse\"'"),
        (shuttle_text().replace("9,81,", f"9,{'9' * 400},"), "line 11 is"),
        (HEAD + "\N{SNOWMAN}\n" * 20, "not a text of ASCII"),
    ],
)
def test_damaged_shuttle_is_one_sentence(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "shuttle.csv").write_text(text, encoding="utf-8")

    assert said in refusal(tmp_path, "Shuttle")


def archive_of(**changes: Any) -> bytes:
    """The .npz file with some arrays changed, or raw bytes in their place; None leaves one out."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, value in {**jpeg_arrays(), **changes}.items():
            column = io.BytesIO()
            if isinstance(value, np.ndarray):
                np.save(column, value)
            if value is not None:
                archive.writestr(f"{name}.npy", column.getvalue() or value)
    return stream.getvalue()


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def test_damaged_jpeg_archives_are_one_sentence(tmp_path: Path) -> None:
    arrays = jpeg_arrays()
    huge = header("{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999,), }\n")
    objects = header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n")
    noise = arrays["jpeg"].copy()
    noise[arrays["offsets"][1] :] = 0
    larger = jpeg_arrays(side=40)
    cases = {
        "does not end like a zip archive": archive_of()[:-30],
        "it has no offsets.npy": archive_of(offsets=None),
        "labels.npy is uint8 [99999999999] in 0 bytes": archive_of(labels=huge),
        "labels.npy is object [1] in": archive_of(labels=objects),
        "is_test.npy is uint8 [6] in 6 bytes, expected bool": archive_of(is_test=arrays["labels"]),
        "magic string is not correct": archive_of(labels=b"no NumPy file"),
        "6 labels, 5 times is_test and 7 offsets do not fit": archive_of(is_test=arrays["is_test"][1:]),
        "no images for training, or none for tests": archive_of(is_test=np.zeros(6, bool)),
        "its offsets do not divide its jpeg": archive_of(offsets=arrays["offsets"][::-1].copy()),
        "labels up to 12, expected 0 to 9": archive_of(labels=arrays["labels"] + np.uint8(7)),
        "image 1: cannot identify image file": archive_of(jpeg=noise),
        "image 0: it is 40x40, expected 32x32": archive_of(jpeg=larger["jpeg"], offsets=larger["offsets"]),
    }
    for said, content in cases.items():
        (tmp_path / cifar_jpeg.NAME).write_bytes(content)
        assert said in refusal(tmp_path, "CIFAR-10"), said


def test_a_picture_that_ends_early_is_damage(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    whole = jpeg_of(generator.integers(0, 256, (32, 32, 3), np.uint8))
    half = whole[: len(whole) // 2]
    arrays = jpeg_arrays(2)
    arrays |= {"jpeg": np.frombuffer(whole + half, np.uint8), "offsets": np.cumsum([0, len(whole), len(half)])}
    arrays["is_test"] = np.array([False, True])
    np.savez(tmp_path / cifar_jpeg.NAME, **arrays)

    assert "image 1: image file is truncated" in refusal(tmp_path, "CIFAR-10")


def test_what_unpacks_to_gigabytes_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mnist_files(tmp_path)
    bomb = gzip.compress(bytes(4 << 20))
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(bomb)
    assert "train-labels-idx1-ubyte.gz unpacks to more than 100,008 bytes" in refusal(tmp_path, "MNIST")
    (tmp_path / "shuttle.csv.gz").write_bytes(gzip.compress(bytes(9 << 20)))
    assert "shuttle.csv.gz unpacks to more than 8,388,608 bytes" in refusal(tmp_path, "Shuttle")
    monkeypatch.setattr(cifar_jpeg, "MOST_BYTES", 20_000)
    with zipfile.ZipFile(tmp_path / cifar_jpeg.NAME, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("jpeg.npy", bytes(30_000))
    assert "it unpacks to 30,000 bytes, more than 20,000" in refusal(tmp_path, "CIFAR-10")


def test_a_file_of_gigabytes_a_pipe_and_a_folder_are_not_read(tmp_path: Path) -> None:
    mnist_files(tmp_path)
    os.truncate(tmp_path / "t10k-images-idx3-ubyte.gz", 1 << 40)
    assert "t10k-images-idx3-ubyte.gz has 1,099,511,627,776 bytes, more than 78,400,016" in refusal(tmp_path, "MNIST")
    os.mkfifo(tmp_path / "shuttle.csv")
    assert "has no Shuttle" in refusal(tmp_path, "Shuttle")
    (tmp_path / cifar_jpeg.NAME).mkdir()
    assert "has no CIFAR-10" in refusal(tmp_path, "CIFAR-10")


def refusal(place: Path, data: str) -> str:
    """What is said of it, which is one line and no other error."""
    with pytest.raises(UsageError) as caught:
        load_data(place, network(data))
    sentence = str(caught.value)
    assert "\n" not in sentence and len(sentence) < 600
    return sentence
