"""What bench/kernels.py measures: sections with their shapes, their competitors and the goals they are held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from profkit.measurement.selection import all_implementations
from profkit.ops import BiasRelu, MatMul, Pool2d, presets_for
from profkit.ops.activation import FUNCTIONS
from profkit.ops.spec import Spec

AS_GIVEN, OWN = "as given", "own layout"
"""The two conventions: see EXPLAINED."""
EXPLAINED = {
    AS_GIVEN: "images in the spec's own layout (NCHW) for everyone, weights packed inside the call; onnxruntime packs "
    "them when its session is made, by its nature",
    OWN: "each in the layout it likes best (torch/channels_last, tensorflow and native .../nhwc hold NHWC), weights "
    "packed ahead where it can (onnxruntime, native .../packed)",
}
STRIDES, BATCHES = (1, 2, 3, 5), (128, 32, 1)
SLOW = ("im2col", "im2col_batched", "reference")
"""Rows that exist to be compared with; leaving them out can only lower profkit's numbers."""
FRAMEWORKS = ("torch/cpu", "torch/cpu/channels_last", "tensorflow/cpu", "onnxruntime/cpu")
Shapes = dict[str, Spec]


@dataclass(frozen=True)
class Page:
    """A page of docs/measured that sections are shown on."""

    title: str
    command: str
    has_own_layouts: bool
    """Whether both conventions are measured."""


KERNELS, LAYER_KERNELS = "kernels", "layer_kernels"
PAGES = {
    KERNELS: Page("Native CPU kernels against the frameworks", "python bench/kernels.py", True),
    LAYER_KERNELS: Page(
        "Native CPU kernels of layers against the frameworks", f"python bench/kernels.py --page {LAYER_KERNELS}", False
    ),
}


@dataclass(frozen=True)
class RatioGoal:
    """What a section must reach; None: not asked for."""

    mean: float
    least: float | None = None
    threads: tuple[int, ...] = (1, 2)
    """Thread counts for which it is asked."""
    least_threads: tuple[int, ...] = (1,)


@dataclass(frozen=True)
class ShapeGoal:
    """What every shape of a section must reach: a share of the measured bandwidth, or the best framework's speed."""

    share: float = 0.9
    ratio: float = 1.0
    threads: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class ShapeSection:
    """Shapes that are measured alike and judged together."""

    name: str
    title: str
    shapes: Mapping[str, Spec]
    goal: RatioGoal | ShapeGoal | None
    frameworks: tuple[str, ...] = FRAMEWORKS
    conventions: tuple[str, ...] = (AS_GIVEN, OWN)
    """By which the goal is judged; the other is only shown."""
    budget: float = 1.0
    """Sampling time per cell, times that of the run."""
    output: str = "fresh"
    notes: tuple[str, ...] = field(default=())
    page: str = KERNELS

    def keys(self, op: str) -> list[str]:
        """Keys of the rows that take part for an operator: competitors, then native kernels in all their forms."""
        rows = [row for row in all_implementations(op) if row.device == "cpu"]
        native = [row.key for row in rows if row.framework == "native"]
        fast = [key for key in native if key.split("/")[3] not in SLOW] or native
        return [row.key for row in rows if row.key.partition("/")[2] in self.frameworks] + fast


def sections(page: str = KERNELS) -> list[ShapeSection]:
    """A page's sections, in the order in which they are measured."""
    return layer_sections() if page == LAYER_KERNELS else kernel_sections()


def kernel_sections() -> list[ShapeSection]:
    """Convolutions, products, and what the studies' first networks have beside them."""
    conv, matmul, gradients = RatioGoal(1.20, 0.95), RatioGoal(1.00, 0.95), RatioGoal(1.00)
    fused = "conv2d with bias and ReLU inside the call, on every side; held to the goal of conv2d"
    return [
        ShapeSection("conv", "conv2d forward", conv_shapes(), conv),
        ShapeSection(
            "batch1", "Latency of layers at batch 1", batch1_shapes(), RatioGoal(1.0), (*FRAMEWORKS, "numpy/cpu")
        ),
        ShapeSection("matmul", "matmul", matmul_shapes(), matmul, ("torch/cpu", "numpy/cpu"), (AS_GIVEN,), 0.6),
        ShapeSection("gradients", "conv2d gradients", gradient_shapes(), gradients, FRAMEWORKS[:2]),
        ShapeSection("pool", "Pooling", pool_shapes(), RatioGoal(1.5), budget=0.6),
        ShapeSection("lrn", "Local response normalisation", lrn_shapes(), RatioGoal(1.5), budget=0.6),
        ShapeSection("bias_relu", "Bias + ReLU alone", bias_relu_shapes(), RatioGoal(1.5), budget=0.6),
        ShapeSection("fused", "conv2d + bias + ReLU in one call", fused_shapes(), RatioGoal(1.2), notes=(fused,)),
        ShapeSection("scaling", "Scaling", scaling_shapes(), None, (), (), 0.5),
        ShapeSection("pages", "Large results, output reused", page_shapes(), None, output="reused"),
    ]


LAYERS = {
    "activation": "Functions of every element",
    "batch_norm": "Batch normalisation",
    "layer_norm": "Layer normalisation",
    "add": "Sum of two arrays",
    "dropout": "Dropout with a given mask",
    "embedding": "Embedding",
    "optimiser_step": "Steps of optimisers",
    "lstm": "Long short-term memory",
    "attention": "Attention",
}
PRODUCTS = ("lstm", "attention")


def layer_sections() -> list[ShapeSection]:
    """One for each of these operators, and one for the gradients of those that have sections of their own.

    lstm and attention are made of products: their goal is a mean. Of the others memory is the limit.
    """
    frameworks = ("torch/cpu", "tensorflow/cpu", "jax/cpu", "onnxruntime/cpu")
    gradients: Shapes = {}
    for op in ("lrn", "softmax", "bias_relu"):
        gradients |= {f"{op} {name}": spec for name, spec in presets_for(op).items() if "gradient" in name}
    shapes = {op: layer_shapes(op) for op in LAYERS} | {"layer_gradients": gradients}
    titles = LAYERS | {"layer_gradients": "Gradients of LRN, softmax with cross-entropy, bias + ReLU"}
    return [
        ShapeSection(
            name,
            title,
            shapes[name],
            RatioGoal(1.0) if name in PRODUCTS else ShapeGoal(),
            frameworks,
            (AS_GIVEN,),
            0.6,
            page=LAYER_KERNELS,
        )
        for name, title in titles.items()
    ]


def layer_shapes(op: str) -> Shapes:
    """Presets, and the gradients of the first."""
    shapes = dict(presets_for(op))
    name, first = next(iter(shapes.items()))
    kind = next((item.metadata["kind"] for item in fields(first) if item.name == "direction"), None)
    for direction in kind.metavar.split("|")[1:] if kind else ():
        shapes[f"{name} {direction}"] = first.replaced(direction=direction)
    if op == "activation":
        shapes |= {f"{name} {word}": first.replaced(function=word) for word in FUNCTIONS}
    return _distinct(shapes)


def conv_shapes() -> Shapes:
    """Forward convolutions of the studies. Batches of the large networks are cut: time per image hardly changes."""
    presets = presets_for("conv2d")
    shapes: Shapes = {}
    for name in ("cifar10.conv1", "cifar10.conv2"):
        for batch in BATCHES:
            for stride in STRIDES:
                shapes[f"{name} stride {stride} batch {batch}"] = presets[name].replaced(batch=batch, stride=stride)
    batches = {"alexnet": 16, "googlenet": 16, "lenet": 128, "solar": 32, "allcnn": 32, "wrn16-4": 32}
    for name, spec in presets.items():
        family = name.partition(".")[0]
        if family in batches:
            shapes[f"{name} batch {batches[family]}"] = spec.replaced(batch=batches[family])
    return _distinct(shapes)


def batch1_shapes() -> Shapes:
    """Every kind of layer of cifar10, lenet and alexnet, one image at a time."""
    shapes: Shapes = {}
    for op in ("conv2d", "matmul", "pool2d", "lrn"):
        for name, spec in presets_for(op).items():
            known = name.startswith(("cifar10.", "alexnet.", "lenet.p8", "lenet.p32", "lenet.dense"))
            if known and not any(word in name for word in ("crop24", "slim")):
                axis = "m" if op == "matmul" else "batch"
                shapes[f"{name} batch 1"] = spec.replaced(**{axis: 1})
    return _distinct(shapes)


def matmul_shapes() -> Shapes:
    """Squares, the studies' dense layers at several batches, skinny and tall ones, and every transpose."""
    shapes: Shapes = {f"square {size}": MatMul(size, size, size) for size in (64, 128, 256, 512, 1024, 2048)}
    shapes |= {
        f"{name} m {spec.to_dict()['m']}": spec
        for name, spec in presets_for("matmul").items()
        if not name.startswith("square") and "shuttle" not in name and "w6400.layer2" not in name
    }
    dense = presets_for("matmul")
    for name, batches in (
        ("cifar10.local3", (1, 8, 32, 1000)),
        ("alexnet.fc7", (1, 4, 128)),
        ("lenet.dense2", (1, 16)),
    ):
        shapes |= {f"{name} m {m}": dense[name].replaced(m=m) for m in batches}
    shapes |= {
        "tall 4096x64x64": MatMul(4096, 64, 64),
        "tall 8192x16x256": MatMul(8192, 16, 256),
        "skinny 16x4096x512": MatMul(16, 4096, 512),
        "deep 64x64x8192": MatMul(64, 64, 8192),
        "outer 1024x1024x8": MatMul(1024, 1024, 8),
    }
    for a, b in ((False, True), (True, False), (True, True)):
        words = f"{'t' if a else 'n'}{'t' if b else 'n'}"
        shapes |= {
            f"square {size} {words}": MatMul(size, size, size, transpose_a=a, transpose_b=b) for size in (256, 1024)
        }
        shapes[f"cifar10.local3 {words}"] = dense["cifar10.local3"].replaced(transpose_a=a, transpose_b=b)
    return _distinct(shapes)


GRADIENTS = (
    "cifar10.conv1", "cifar10.conv2", "alexnet.conv1", "alexnet.conv2", "alexnet.conv3", "googlenet.3a.1x1",
    "googlenet.3a.3x3", "googlenet.3a.5x5", "lenet.p8.conv2", "lenet.p32.conv2", "solar.conv2", "allcnn.conv3",
    "wrn16-4.group2",
)  # fmt: skip


def gradient_shapes() -> Shapes:
    """Both gradients of some forward shapes."""
    batches = {"cifar10": 64, "lenet": 64, "alexnet": 8, "googlenet": 8}
    shapes: Shapes = {}
    for name in GRADIENTS:
        spec = presets_for("conv2d")[name].replaced(batch=batches.get(name.partition(".")[0], 16))
        for direction in ("input-gradient", "weight-gradient"):
            shapes[f"{name} {direction}"] = spec.replaced(direction=direction)
    spec = presets_for("conv2d")["cifar10.conv2"].replaced(batch=64, stride=2)
    for direction in ("input-gradient", "weight-gradient"):
        shapes[f"cifar10.conv2 stride 2 {direction}"] = spec.replaced(direction=direction)
    return shapes


def pool_shapes() -> Shapes:
    """Max pooling, and the two averages of the studies."""
    skipped = ("lenet.p2.", "lenet.p4.", "lenet.p16.", "lenet.p64.")
    shapes: Shapes = {}
    for name, spec in presets_for("pool2d").items():
        if not name.startswith(skipped):
            assert isinstance(spec, Pool2d)
            shapes[name] = spec.replaced(batch=min(spec.batch, 128))
    return shapes


def lrn_shapes() -> Shapes:
    """All of the studies."""
    return _distinct({name: spec for name, spec in presets_for("lrn").items() if "gradient" not in name})


def bias_relu_shapes() -> Shapes:
    """All of the studies, solar's batch cut."""
    shapes: Shapes = {}
    for name, spec in presets_for("bias_relu").items():
        assert isinstance(spec, BiasRelu)
        if "gradient" in name:
            continue
        shapes[name] = spec.replaced(batch=min(spec.batch, 128))
    return shapes


def fused_shapes() -> Shapes:
    """Convolutions with their bias and ReLU."""
    names = ("cifar10.conv1", "cifar10.conv2", "alexnet.conv1", "alexnet.conv3", "googlenet.conv1", "lenet.p8.conv1")
    shapes: Shapes = {}
    for name in names:
        spec = presets_for("conv2d")[name]
        batch = 16 if name.startswith(("alexnet", "googlenet")) else 128
        shapes[f"{name} + bias + relu"] = spec.replaced(batch=batch, bias=True, activation="relu")
    return shapes


def scaling_shapes() -> Shapes:
    """One axis changes at a time; `scaling.py` fits a line through each."""
    conv, three = presets_for("conv2d")["cifar10.conv2"], presets_for("conv2d")["wrn16-4.group2"]
    shapes: Shapes = {}
    for name, spec in (("cifar10.conv2", conv), ("wrn16-4.group2", three)):
        for batch in (1, 2, 4, 8, 16, 32, 64, 96, 128):
            shapes[f"{name}: batch {batch}"] = spec.replaced(batch=batch)
        for channels in (8, 16, 24, 32, 48, 64, 96, 128):
            shapes[f"{name}: in-channels {channels}"] = spec.replaced(batch=16, in_channels=channels)
            shapes[f"{name}: out-channels {channels}"] = spec.replaced(batch=16, out_channels=channels)
    for m in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000):
        shapes[f"local3: m {m}"] = MatMul(m=m, n=384, k=2304)
    return shapes


def page_shapes() -> Shapes:
    """Results above 32 MiB, which malloc maps anew in each call: the share of page faults is fresh against reused."""
    presets = presets_for("conv2d")
    return {
        "cifar10.conv1 stride 1 batch 128": presets["cifar10.conv1"],
        "lenet.p32.conv1 batch 128": presets["lenet.p32.conv1"],
        "lenet.p64.conv1 batch 128": presets["lenet.p64.conv1"],
    }


def _distinct(shapes: Shapes) -> Shapes:
    """Without a second name for the same spec."""
    seen: set[Spec] = set()
    kept: Shapes = {}
    for name, spec in shapes.items():
        if spec not in seen:
            seen.add(spec)
            kept[name] = spec
    return kept
