"""The studies' preparation: what each step promises, on numbers that are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from profkit.data import Data
from profkit.data.preparation.gist import BLOCKS, ORIENTATIONS, gist
from profkit.data.preparation.hog import ANGLES, HUES, hog_hue, hue_histogram, oriented_gradients
from profkit.data.preparation.pixels import (
    column_scales,
    fitted_size,
    global_contrast,
    mean_pixel,
    normalised_width,
    scaled,
)
from profkit.data.preparation.rain import hmdir_features, hourly_rain, rain_rate
from profkit.data.preparation.steps import STEPS, prepared
from profkit.data.preparation.whitening import Zca, kept_zca
from profkit.errors import UsageError
from profkit.ops.networks import NETWORKS, Cifar10, Mlp
from profkit.ops.spec import Array


def pixels(count: int = 6, channels: int = 3, side: int = 32, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 256, (count, channels, side, side), np.uint8)


# --- Pixels and columns ---


def test_images_are_cropped_in_the_middle_enlarged_and_padded() -> None:
    images = pixels(2)

    assert fitted_size(images, 32, 32) is images
    assert np.array_equal(fitted_size(images, 24, 28), images[:, :, 4:28, 2:30])
    doubled = fitted_size(images, 66, 64)
    assert doubled.shape == (2, 3, 66, 64) and not doubled[:, :, [0, 65]].any()
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        assert np.array_equal(doubled[:, :, 1 + row : 65 : 2, column::2], images)


def test_pixels_are_scaled_to_one() -> None:
    values = scaled(np.array([0, 51, 255], np.uint8))

    assert values.dtype == np.float32 and values.tolist() == pytest.approx([0.0, 0.2, 1.0])


def test_contrast_is_normalised_in_each_image_alone() -> None:
    images = pixels()
    images[1] = 77

    values = global_contrast(images)

    assert np.allclose(values[0].mean(), 0, atol=1e-5) and values[0].std() == pytest.approx(1, abs=1e-4)
    assert not values[1].any()
    assert np.array_equal(global_contrast(images[2:3]), values[2:3])
    assert np.allclose(global_contrast(images // 2 * 2), global_contrast(images // 2), atol=1e-4)


def test_the_mean_pixel_is_a_colour() -> None:
    images = pixels()

    assert np.allclose(mean_pixel(images)[:, 0, 0], images.astype(float).mean(axis=(0, 2, 3)))
    assert mean_pixel(images).shape == (3, 1, 1)


def test_columns_that_do_not_vary_become_zero() -> None:
    rows = np.array([[1.0, 5, -3], [3, 5, 0], [5, 5, 9]], np.float32)

    mean, deviation = column_scales(rows)

    values = (rows - mean) / deviation
    assert np.allclose(values.mean(axis=0), 0, atol=1e-6) and not values[:, 1].any()
    assert np.allclose(values[:, [0, 2]].std(axis=0), 1)


@pytest.mark.parametrize(("first", "end"), [(0, 28), (4, 24), (10, 13), (27, 28)])
def test_a_digit_gets_twenty_columns_and_keeps_its_rows(first: int, end: int) -> None:
    image = np.zeros((1, 1, 28, 28), np.uint8)
    image[..., 3:25, first:end] = np.random.default_rng(0).integers(1, 256, (22, end - first))

    normalised = normalised_width(image)

    assert normalised.shape == (1, 1, 28, 20)
    assert normalised.any(axis=(0, 1, 2)).all()
    assert np.allclose(normalised.mean(axis=3) * (end - first), image.sum(axis=3), rtol=1e-4)
    if end - first == 20:
        assert np.array_equal(normalised, image[..., first:end])


def test_a_blank_image_stays_blank_beside_others() -> None:
    images = np.zeros((2, 1, 28, 28), np.uint8)
    images[1, 0, 5, 7:9] = 100

    normalised = normalised_width(images)

    assert not normalised[0].any() and np.allclose(normalised[1, 0, 5], 100)


# --- Whitening ---


def correlated(count: int, seed: int) -> Array:
    generator = np.random.default_rng(seed)
    mixing = np.random.default_rng(9).standard_normal((27, 27))
    return (generator.standard_normal((count, 27)) @ mixing + 5).reshape(count, 3, 3, 3).astype(np.float32)


def test_whitened_images_have_the_identity_as_covariance() -> None:
    images = correlated(6000, 0)

    rows = Zca.fit(images, epsilon=0)(images).reshape(len(images), -1).astype(np.float64)

    assert np.allclose(rows.mean(axis=0), 0, atol=1e-3)
    assert np.allclose(rows.T @ rows / len(rows), np.eye(27), atol=2e-3)


def test_epsilon_shrinks_small_variances_and_images_stay_near_themselves() -> None:
    images = correlated(2000, 0)
    whitening = Zca.fit(images)

    rows = whitening(images).reshape(len(images), -1).astype(np.float64)

    before = np.linalg.eigvalsh(np.cov(images.reshape(len(images), -1), rowvar=False, bias=True))
    after = np.linalg.eigvalsh(np.cov(rows, rowvar=False, bias=True))
    assert np.allclose(np.sort(after), np.sort(before / (before + 0.1)), atol=1e-3)
    assert np.allclose(whitening.matrix, whitening.matrix.T, atol=1e-5)  # what makes it ZCA, not PCA


def test_a_fit_is_kept_for_other_images() -> None:
    train, test = correlated(500, 0), correlated(50, 1)
    whitening = Zca.fit(train)

    assert np.allclose(whitening(test)[:5], whitening(test[:5]), atol=1e-5)
    assert not np.allclose(whitening(test), Zca.fit(test)(test), atol=0.1)


def test_a_fit_is_kept_in_the_cache_folder_and_made_again_when_its_file_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path))
    fits: list[Array] = []
    fit = Zca.fit

    def counted(images: Array) -> Zca:
        fits.append(images)
        return fit(images)

    monkeypatch.setattr(Zca, "fit", counted)
    images = correlated(60, 0)

    first, again = kept_zca(images), kept_zca(images)
    kept_zca(images + 1)
    count = len(fits)
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    mended = kept_zca(images)

    assert count == 2 and len(fits) == 3 and len(list(tmp_path.iterdir())) == 2
    for other in (again, mended):
        assert np.array_equal(first.matrix, other.matrix) and np.array_equal(first.mean, other.mean)


# --- GIST and HOG ---


def stripes(cycles: float, angle: float, side: int = 32) -> Array:
    """A grating whose brightness changes along this angle, so many cycles per image."""
    rows, columns = np.mgrid[:side, :side] / side
    wave = np.cos(2 * np.pi * cycles * (np.cos(angle) * columns + np.sin(angle) * rows))
    grey = (127.5 + 127 * wave).astype(np.uint8)
    return np.broadcast_to(grey, (1, 3, side, side))


def test_gist_has_960_values_and_sees_no_brightness() -> None:
    assert gist(pixels(2)).shape == (2, 960)
    assert np.allclose(gist(np.full((1, 3, 32, 32), 200, np.uint8)), 0, atol=1e-6)
    assert np.allclose(gist(pixels(1) // 2 + 100), gist(pixels(1) // 2), atol=1e-5)


def test_gist_finds_scale_and_orientation_of_a_grating() -> None:
    for number, turns in ((0, 0), (2, 2), (4, 4)):
        values = gist(stripes(10, np.pi * turns / 8)).reshape(3, sum(ORIENTATIONS), -1).mean(axis=2)
        assert values[0].argmax() == number
    coarse = gist(stripes(3, 0)).reshape(3, sum(ORIENTATIONS), -1).mean(axis=2)
    assert coarse[0].argmax() == ORIENTATIONS[0] + ORIENTATIONS[1]


def test_gist_tells_where_in_the_picture() -> None:
    image = np.full((1, 3, 32, 32), 127, np.uint8)
    image[..., :16, :16] = stripes(10, 0)[..., :16, :16]

    parts = gist(image).reshape(3, -1, BLOCKS, BLOCKS)[0, 0]

    assert parts[:2, :2].min() > 3 * parts[2:, 2:].max()


def test_hog_and_hues_have_154_values() -> None:
    assert hog_hue(pixels(2)).shape == (2, 154)
    with pytest.raises(ValueError, match="the images have 1 channels"):
        hog_hue(pixels(2, channels=1))


def test_gradients_go_to_the_bin_of_their_direction() -> None:
    slope = np.broadcast_to(np.arange(32.0) / 32, (1, 32, 32))

    across = oriented_gradients(slope).reshape(4, 4, ANGLES)
    down = oriented_gradients(slope.swapaxes(1, 2)).reshape(4, 4, ANGLES)

    # Direction 0 is between the last bin and the first, pi/2 in the middle of the fifth.
    assert np.allclose(across[1, 1], [1 / 64, 0, 0, 0, 0, 0, 0, 0, 1 / 64], atol=1e-6)
    assert np.allclose(down[1, 1], [0, 0, 0, 0, 1 / 32, 0, 0, 0, 0], atol=1e-6)
    assert not oriented_gradients(np.ones((1, 32, 32))).any()


@pytest.mark.parametrize(
    ("colour", "place"),
    [((1, 0, 0), 0), ((1, 1, 0), 1), ((0, 1, 0), 3), ((0, 0, 1), 6), ((1, 0, 0.1), 9), ((0.5, 0.5, 0.5), 0)],
)
def test_hues_go_around_the_circle(colour: tuple[float, ...], place: int) -> None:
    image = np.broadcast_to(np.array(colour, np.float32)[None, :, None, None], (1, 3, 4, 4))

    assert hue_histogram(image)[0].tolist() == [float(number == place) for number in range(HUES)]


# --- Rain ---


def test_marshall_and_palmer() -> None:
    # Z = 200 R^1.6: 23.01 dBZ is Z = 200, 1 mm/h.
    assert rain_rate(np.array([10 * np.log10(200), 10 * np.log10(200 * 10**1.6)])).tolist() == pytest.approx([1, 10])
    assert rain_rate(np.array([np.nan])).tolist() == [0]


def test_an_hour_of_the_same_rain_is_that_rain_however_it_is_scanned() -> None:
    dbz = np.full((2, 4), 10 * np.log10(200.0))
    minutes = np.array([[1.0, 20, 33, 59], [7, 50, 0, 0]])

    assert hourly_rain(minutes, dbz, np.array([4, 2])).tolist() == pytest.approx([1.0, 1.0])
    # The first scan holds from 0 to 7, the second until the end.
    dbz[1, 0] = np.nan
    assert hourly_rain(minutes, dbz, np.array([4, 2]))[1] == pytest.approx(53 / 60)


def test_features_are_the_records_their_number_and_the_mean_rate() -> None:
    records = np.arange(2 * 3 * 22, dtype=np.float32).reshape(2, 3, 22)
    records[0, 1, 5] = np.nan
    dbz = np.full((2, 3), 10 * np.log10(200.0))
    dbz[1, 0] = np.nan

    features = hmdir_features(records, dbz, np.array([3, 2]))

    assert features.shape == (2, 3, 24) and features[0, 1, 5] == 0 and features[0, 1, 6] == records[0, 1, 6]
    assert features[0, :, 22:].tolist() == [[3, pytest.approx(1)]] * 3
    assert features[1, :, 22:].tolist() == [[2, pytest.approx(0.5)]] * 2 + [[0, 0]]
    assert not features[1, 2].any()


# --- The steps of a network ---


def of(images: Array, tests: Array) -> Data:
    return Data("Some", images, np.arange(len(images)) % 7, tests, np.arange(len(tests)) % 7)


def test_steps_learn_from_the_training_images_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path))
    monkeypatch.setattr(Cifar10, "preparation", ("mean_pixel", "zca"))
    train, test = pixels(40, side=4), pixels(9, side=4, seed=1)
    network = Cifar10(batch=2)
    monkeypatch.setattr(Cifar10, "input_shape", lambda _: (2, 3, 4, 4))

    data = prepared(of(train, test), network)

    mean = mean_pixel(train)
    assert np.allclose(data.test_images, Zca.fit(train - mean)(test - mean), atol=1e-5)
    assert data.description == "Some, minus the mean pixel, ZCA-whitened"
    assert data.train_images.dtype == np.float32


def test_rows_are_of_columns_and_images_become_rows_where_the_network_takes_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Mlp, "preparation", ("scale",))
    images = pixels(5, channels=2, side=2)

    data = prepared(of(images, images), Mlp(batch=2))

    assert data.train_images.shape == (5, 8) and data.train_images.max() <= 1


def test_what_does_not_lead_to_the_network_is_refused_with_both_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"Some.* has inputs of 5, and mlp takes 8"):
        prepared(of(np.zeros((3, 5)), np.zeros((3, 5))), Mlp(batch=2))
    many = Data("Some", np.zeros((9, 8)), np.arange(9), np.zeros((1, 8)), np.zeros(1, int))
    with pytest.raises(UsageError, match="Some has 9 classes, mlp gives 7"):
        prepared(many, Mlp(batch=2))
    monkeypatch.setattr(Cifar10, "preparation", ("gist",))
    with pytest.raises(UsageError, match="Some cannot be prepared for cifar10: gist: GIST divides images into 4x4"):
        prepared(of(pixels(2, side=30), pixels(2, side=30)), Cifar10(batch=2))


def test_every_network_declares_known_data_and_steps() -> None:
    for name, kind in NETWORKS.items():
        network = kind()
        assert network.data, name
        assert set(network.preparation) <= set(STEPS), name
