"""Named shapes from published networks (the operator studies): a name goes in, a spec comes out.

Every preset is the bare operator: bias and activation of the layer are left off, so that all implementations
run one kernel (`--bias yes --activation relu` adds them). Paddings of convolutions are numbers, which every
framework runs natively (pad 2 is SAME for a 5x5 filter at stride 1). Batches: cifar10, lenet, wrn16-4 and
mlp.shuttle 128, alexnet and googlenet 32 (the study sweeps 1 to 512), allcnn 100, solar 512, mlp.cifar10 32,
mlp.solar 1000.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import cache

from profkit.errors import UsageError
from profkit.ops.bias_relu import BiasRelu
from profkit.ops.conv2d import Conv2d
from profkit.ops.lrn import LocalResponseNorm
from profkit.ops.matmul import MatMul
from profkit.ops.pool2d import AVERAGE, Pool2d
from profkit.ops.softmax import Softmax
from profkit.ops.spec import Spec

Presets = dict[str, Spec]
LENET_MAPS = (2, 4, 8, 16, 32, 64)


def presets_for(op: str) -> Mapping[str, Spec]:
    """All presets of an operator by name; the first is the default."""
    return dict(_presets(op))


def default_preset(op: str) -> str:
    """Name of the preset that equals the spec without arguments."""
    return next(iter(_presets(op)))


def find_preset(op: str, name: str) -> Spec:
    """The preset of that name; an unknown one is an error that offers the nearest names."""
    presets = _presets(op)
    if name in presets:
        return presets[name]
    close = difflib.get_close_matches(name, presets, n=4, cutoff=0.4)
    offer = f"did you mean {', '.join(close)}?" if close else f"there are {', '.join(presets)}"
    raise UsageError(f"{op} has no preset {name!r}: {offer}")


@cache
def _presets(op: str) -> Presets:
    if op not in _BY_OP:
        raise UsageError(f"no operator {op!r}: there are {', '.join(_BY_OP)}")
    return _BY_OP[op]()


def _conv(batch: int, image: str, out_channels: int, kernel: int, *, stride: int = 1, pad: int = 0) -> Conv2d:
    """`image` is channels x height x width."""
    channels, height, width = map(int, image.split("x"))
    return Conv2d(batch, channels, height, width, out_channels, kernel, stride, pad)


def _conv2d() -> Presets:
    presets: Presets = {
        "cifar10.conv2": _conv(128, "64x16x16", 64, 5, pad=2),
        "cifar10.conv1": _conv(128, "3x32x32", 64, 5, pad=2),
        # The tutorial's 24x24 crop, to which the published operation counts belong.
        "cifar10.crop24.conv1": _conv(128, "3x24x24", 64, 5, pad=2),
        "cifar10.crop24.conv2": _conv(128, "64x12x12", 64, 5, pad=2),
        "alexnet.conv1": _conv(32, "3x227x227", 96, 11, stride=4),
        "alexnet.conv2": _conv(32, "96x27x27", 256, 5, pad=2).replaced(groups=2),
        "alexnet.conv3": _conv(32, "256x13x13", 384, 3, pad=1),
        "alexnet.conv4": _conv(32, "384x13x13", 384, 3, pad=1).replaced(groups=2),
        "alexnet.conv5": _conv(32, "384x13x13", 256, 3, pad=1).replaced(groups=2),
        "alexnet.conv2.ungrouped": _conv(32, "96x27x27", 256, 5, pad=2),
        "alexnet.conv4.ungrouped": _conv(32, "384x13x13", 384, 3, pad=1),
        "alexnet.conv5.ungrouped": _conv(32, "384x13x13", 256, 3, pad=1),
        "googlenet.conv1": _conv(32, "3x224x224", 64, 7, stride=2, pad=3),
        "googlenet.conv2.reduce": _conv(32, "64x56x56", 64, 1),
        "googlenet.conv2": _conv(32, "64x56x56", 192, 3, pad=1),
    }
    presets |= _inception("googlenet.3a", 192, 28, (64, 96, 128, 16, 32, 32))
    presets |= _inception("googlenet.5b", 832, 7, (384, 192, 384, 48, 128, 128))
    for maps in LENET_MAPS:
        presets[f"lenet.p{maps}.conv1"] = _conv(128, "3x32x32", 3 * maps, 5)
        presets[f"lenet.p{maps}.conv2"] = _conv(128, f"{3 * maps}x14x14", 3 * maps, 5)
    presets["solar.conv1"] = _conv(512, "1x50x50", 32, 3)
    presets["solar.conv2"] = _conv(512, "32x48x48", 64, 3)
    return presets | _allcnn() | _wide_resnet()


def _inception(name: str, channels: int, size: int, filters: tuple[int, int, int, int, int, int]) -> Presets:
    """The six convolutions of a module: 1x1; 3x3.reduce, 3x3; 5x5.reduce, 5x5; pool_proj."""
    one, reduce3, three, reduce5, five, proj = filters
    area = f"{size}x{size}"
    return {
        f"{name}.1x1": _conv(32, f"{channels}x{area}", one, 1),
        f"{name}.3x3.reduce": _conv(32, f"{channels}x{area}", reduce3, 1),
        f"{name}.3x3": _conv(32, f"{reduce3}x{area}", three, 3, pad=1),
        f"{name}.5x5.reduce": _conv(32, f"{channels}x{area}", reduce5, 1),
        f"{name}.5x5": _conv(32, f"{reduce5}x{area}", five, 5, pad=2),
        f"{name}.pool_proj": _conv(32, f"{channels}x{area}", proj, 1),
    }


def _allcnn() -> Presets:
    """All-CNN-C. The study gives no padding: 1 around every 3x3 filter but the last, as first published."""
    return {
        "allcnn.conv1": _conv(100, "3x32x32", 96, 3, pad=1),
        "allcnn.conv2": _conv(100, "96x32x32", 96, 3, pad=1),
        "allcnn.conv3": _conv(100, "96x32x32", 96, 3, stride=2, pad=1),
        "allcnn.conv4": _conv(100, "96x16x16", 192, 3, pad=1),
        "allcnn.conv5": _conv(100, "192x16x16", 192, 3, pad=1),
        "allcnn.conv6": _conv(100, "192x16x16", 192, 3, stride=2, pad=1),
        "allcnn.conv7": _conv(100, "192x8x8", 192, 3),
        "allcnn.conv8": _conv(100, "192x6x6", 192, 1),
        "allcnn.conv9": _conv(100, "192x6x6", 10, 1),
    }


def _wide_resnet() -> Presets:
    """WRN-16-4 on 32x32 images: one convolution of each shape in its three groups, and the shortcuts' 1x1."""
    presets: Presets = {
        "wrn16-4.stem": _conv(128, "3x32x32", 16, 3, pad=1),
        "wrn16-4.group1.first": _conv(128, "16x32x32", 64, 3, pad=1),
        "wrn16-4.group1": _conv(128, "64x32x32", 64, 3, pad=1),
    }
    for group, channels, size in ((2, 64, 32), (3, 128, 16)):
        image = f"{channels}x{size}x{size}"
        presets[f"wrn16-4.group{group}.first"] = _conv(128, image, 2 * channels, 3, stride=2, pad=1)
        presets[f"wrn16-4.group{group}.shortcut"] = _conv(128, image, 2 * channels, 1, stride=2)
        presets[f"wrn16-4.group{group}"] = _conv(128, f"{2 * channels}x{size // 2}x{size // 2}", 2 * channels, 3, pad=1)
    return presets


def _dense(batch: int, inputs: int, outputs: int) -> MatMul:
    return MatMul(m=batch, n=outputs, k=inputs)


def _matmul() -> Presets:
    presets: Presets = {
        "square.1024": MatMul(1024, 1024, 1024),
        "square.256": MatMul(256, 256, 256),
        "cifar10.local3": _dense(128, 4096, 384),
        "cifar10.local4": _dense(128, 384, 192),
        "cifar10.softmax_linear": _dense(128, 192, 10),
        "cifar10.crop24.local3": _dense(128, 2304, 384),
        "alexnet.fc6": _dense(32, 9216, 4096),
        "alexnet.fc6.slim": _dense(32, 6400, 4096),
        "alexnet.fc7": _dense(32, 4096, 4096),
        "alexnet.fc8": _dense(32, 4096, 1000),
        "googlenet.fc": _dense(32, 1024, 1000),
        "mlp.cifar10.hidden": _dense(32, 960, 960),
        "mlp.cifar10.out": _dense(32, 960, 10),
    }
    for width in (25, 50, 100, 200, 400, 1600):
        presets[f"mlp.shuttle.n{width}.hidden"] = _dense(128, width, width)
    for width in (400, 1600, 6400):
        presets[f"mlp.solar.w{width}.layer1"] = _dense(1000, 50, width)
        presets[f"mlp.solar.w{width}.layer2"] = _dense(1000, width, width // 2)
        presets[f"mlp.solar.w{width}.layer3"] = _dense(1000, width // 2, 13 * width // 50)
    for maps in LENET_MAPS:
        presets[f"lenet.p{maps}.dense1"] = _dense(128, 75 * maps, 120)
    presets["lenet.dense2"] = _dense(128, 120, 84)
    presets["lenet.dense3"] = _dense(128, 84, 10)
    presets["solar.dense"] = _dense(512, 33856, 128)
    presets["solar.out"] = _dense(512, 128, 1)
    return presets


def _pool(batch: int, image: str, kernel: int, stride: int, padding: str = "valid") -> Pool2d:
    channels, height, width = map(int, image.split("x"))
    return Pool2d(batch, channels, height, width, kernel, stride, padding)


def _pool2d() -> Presets:
    # SAME at stride 2 pads after only, and so does Caffe's rounding up in GoogLeNet: the odd one is 0x1x0x1.
    presets: Presets = {
        "cifar10.pool1": _pool(128, "64x32x32", 3, 2, "same"),
        "cifar10.pool2": _pool(128, "64x16x16", 3, 2, "same"),
        "alexnet.pool1": _pool(32, "96x55x55", 3, 2),
        "alexnet.pool2": _pool(32, "256x27x27", 3, 2),
        "alexnet.pool5": _pool(32, "256x13x13", 3, 2),
        "googlenet.pool1": _pool(32, "64x112x112", 3, 2, "same"),
        "googlenet.pool2": _pool(32, "192x56x56", 3, 2, "same"),
        "googlenet.3a.pool": _pool(32, "192x28x28", 3, 1, "1"),
        "googlenet.pool5": _pool(32, "1024x7x7", 7, 1).replaced(mode=AVERAGE),
        "allcnn.pool": _pool(100, "10x6x6", 6, 1).replaced(mode=AVERAGE),
        "solar.pool": _pool(512, "64x46x46", 2, 2),
    }
    for maps in LENET_MAPS:
        presets[f"lenet.p{maps}.pool1"] = _pool(128, f"{3 * maps}x28x28", 2, 2)
        presets[f"lenet.p{maps}.pool2"] = _pool(128, f"{3 * maps}x10x10", 2, 2)
    return presets


def _lrn() -> Presets:
    # BVLC AlexNet normalises before it pools; its alpha is 0.0001 over 5 channels.
    return {
        "cifar10.norm1": LocalResponseNorm(128, 64, 16, 16),
        "cifar10.norm2": LocalResponseNorm(128, 64, 16, 16),
        "cifar10.crop24.norm1": LocalResponseNorm(128, 64, 12, 12),
        "alexnet.norm1": LocalResponseNorm(32, 96, 55, 55, size=5, alpha=0.0001),
        "alexnet.norm2": LocalResponseNorm(32, 256, 27, 27, size=5, alpha=0.0001),
        "googlenet.norm1": LocalResponseNorm(32, 64, 56, 56, size=5, alpha=0.0001),
        "googlenet.norm2": LocalResponseNorm(32, 192, 56, 56, size=5, alpha=0.0001),
    }


def _bias_relu() -> Presets:
    return {
        "cifar10.conv1": BiasRelu(128, 64, 32, 32),
        "cifar10.conv2": BiasRelu(128, 64, 16, 16),
        "alexnet.conv1": BiasRelu(32, 96, 55, 55),
        "alexnet.conv2": BiasRelu(32, 256, 27, 27),
        "alexnet.conv3": BiasRelu(32, 384, 13, 13),
        "googlenet.conv1": BiasRelu(32, 64, 112, 112),
        "lenet.p32.conv1": BiasRelu(128, 96, 28, 28),
        "solar.conv1": BiasRelu(512, 32, 48, 48),
        "solar.conv2": BiasRelu(512, 64, 46, 46),
    }


def _softmax() -> Presets:
    return {
        "imagenet": Softmax(128, 1000),
        "cifar10": Softmax(128, 10),
        "mlp.shuttle": Softmax(128, 7),
        "square.1024": Softmax(1024, 1024),
    }


_BY_OP: Mapping[str, Callable[[], Presets]] = {
    "conv2d": _conv2d,
    "matmul": _matmul,
    "pool2d": _pool2d,
    "lrn": _lrn,
    "bias_relu": _bias_relu,
    "softmax": _softmax,
}
