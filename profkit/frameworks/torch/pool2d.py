"""Pooling in PyTorch, forward and backward, with paddings that its own operators cannot express."""

from __future__ import annotations

import importlib

from profkit.frameworks.adapter import Prepared
from profkit.frameworks.framework import Job
from profkit.frameworks.torch.tensors import Tensor, formatted, images_of, prepared_images
from profkit.ops.conv2d import FORWARD
from profkit.ops.pool2d import MAX, Pool2d
from profkit.ops.window import Window


def _pool2d_gradient(job: Job, spec: Pool2d) -> Prepared:
    """torch's own backward operators. That of a maximum asks for the indices of the forward pass: made ahead of the
    call, as in training. Padding that torch cannot express: the gradient of the padded image, cropped."""
    torch = importlib.import_module("torch")
    functional = importlib.import_module("torch.nn.functional")
    aten = torch.ops.aten
    dy, ceil_mode = images_of(job, spec, "dy"), needs_ceil_mode(spec.window)
    top, bottom, left, right = spec.window.pads if ceil_mode is None else (0, 0, 0, 0)
    pad = (left, right, top, bottom)
    padding = (0, 0) if ceil_mode is None else spec.window.pads[::2]
    sides = (spec.kernel_size, spec.stride, padding)
    if spec.mode == MAX:
        x = functional.pad(images_of(job, spec, "x"), pad, value=float("-inf"))
        _, indices = aten.max_pool2d_with_indices(x, *sides, (1, 1), bool(ceil_mode))

        def backward() -> Tensor:
            return aten.max_pool2d_with_indices_backward(dy, x, *sides, (1, 1), bool(ceil_mode), indices)
    else:
        size = spec.window.padded_size if ceil_mode is None else (spec.height, spec.width)
        x = formatted(job, spec, torch.empty((spec.batch, spec.channels, *size), dtype=dy.dtype, device=dy.device))
        # Divisors of a padded image are not torch's: the shares are made here, each window then hands out its sum.
        counts = torch.from_numpy(spec.window.element_counts()).to(dy)

        def backward() -> Tensor:
            if ceil_mode is None:
                return aten.avg_pool2d_backward(dy / counts, x, *sides, False, False, 1)
            return aten.avg_pool2d_backward(dy, x, *sides, ceil_mode, False, None)

    def call() -> Tensor:
        dx = backward()
        return functional.pad(dx, tuple(-side for side in pad)) if any(pad) else dx

    notes = ["the forward pass's indices are made ahead of the call"] if spec.mode == MAX else []
    notes += ["asymmetric padding: gradient of the padded image, cropped by F.pad inside the call"] if any(pad) else []
    return prepared_images(job, spec, call, "; ".join(notes))


def pool2d(job: Job, spec: Pool2d) -> Prepared:
    """A call of the spec's direction."""
    if spec.direction != FORWARD:
        return _pool2d_gradient(job, spec)
    functional = importlib.import_module("torch.nn.functional")
    x = images_of(job, spec, "x")
    ceil_mode = needs_ceil_mode(spec.window)
    if ceil_mode is None:
        return _padded_pool2d(job, spec, x)
    padding = spec.window.pads[::2]
    if spec.mode == MAX:
        return prepared_images(
            job,
            spec,
            lambda: functional.max_pool2d(x, spec.kernel_size, spec.stride, padding, ceil_mode=ceil_mode),
        )
    return prepared_images(
        job,
        spec,
        lambda: functional.avg_pool2d(
            x, spec.kernel_size, spec.stride, padding, ceil_mode=ceil_mode, count_include_pad=False
        ),
    )


def needs_ceil_mode(window: Window) -> bool | None:
    """Which rounding of torch's own pooling gives exactly these windows; None when neither does."""
    before = window.pads[::2]
    if any(2 * pad > kernel for pad, kernel in zip(before, window.kernel)):
        return None
    spans = [size + 2 * pad - kernel for size, pad, kernel in zip(window.size, before, window.kernel)]
    floor = tuple(span // stride + 1 for span, stride in zip(spans, window.stride))
    # A last window that would start behind the image is dropped; the spec never has one.
    ceil = tuple(-(-span // stride) + 1 for span, stride in zip(spans, window.stride))
    return False if floor == window.out_size else True if ceil == window.out_size else None


def _padded_pool2d(job: Job, spec: Pool2d, x: Tensor) -> Prepared:
    """Pooling whose padding torch's operator cannot express: F.pad first, inside the call."""
    torch = importlib.import_module("torch")
    functional = importlib.import_module("torch.nn.functional")
    top, bottom, left, right = spec.window.pads
    pad = (left, right, top, bottom)
    if spec.mode == MAX:
        return prepared_images(
            job,
            spec,
            lambda: functional.max_pool2d(functional.pad(x, pad, value=float("-inf")), spec.kernel_size, spec.stride),
            "asymmetric padding: F.pad with -inf inside the call",
        )
    counts = torch.from_numpy(spec.window.element_counts()).to(x)

    def call() -> Tensor:
        sums = functional.avg_pool2d(functional.pad(x, pad), spec.kernel_size, spec.stride, divisor_override=1)
        return sums.div_(counts)

    return prepared_images(job, spec, call, "asymmetric padding: F.pad, window sums and division inside the call")
