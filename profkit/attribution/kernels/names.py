"""What a kernel's name says: library, family, tile, transposes, number formats. A name goes in, KernelName comes out.

A name is a hint of its author, not a measurement: what it does not say is empty or False here, never guessed.
docs/kernel-names.md explains the columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from profkit.attribution.kernels import name_rules as rules
from profkit.attribution.kernels.name_text import NameText, eigen_operation, inner_functions, split_name

UNKNOWN = "unknown"
_LONGEST_READ = 1 << 15  # of a name: templates in templates have some ten thousand characters
_READ_LENGTH = 2000  # of a path: the longest one of the libraries has 170 characters
_SHORT_LENGTH = 96
_PRODUCTS = frozenset({"gemm", "gemv", "conv", "winograd", "fft"})

_CARRIERS = frozenset({"Kernel", "Kernel2", "device_kernel"})  # named by their template argument
# They say nothing without their path.
_GENERIC = frozenset({"kernel", "Kernel", "Kernel2", "globalKernel", "device_kernel"})

_TILE = re.compile(r"tilesize(\d+x\d+)|_mt(\d+x\d+)|(?:^|_)(\d{2,4}x\d{1,4})(?:x\d+)?(?=_|$)|(?<=[a-z])(\dx\d)(?=_|$)")
_TRANSPOSES = re.compile(r"(?:^|_)([nt][nt])(?:[nt]|_n|_t)?(?=_|$)")
_SMALL_TRANSPOSES = re.compile(r"gemmsn_([nt][nt])_")

_FORMAT = r"tf32|bf16|f16|f32|f64|e4m3|e5m2|i8|s8|u8|i32|s32"
_XMMA_FORMATS = re.compile(rf"_((?:{_FORMAT}))(?:{_FORMAT})*_(?:{_FORMAT})+_(?:{_FORMAT})(?=_)")
_CUTLASS3_FORMATS = re.compile(rf"gemm_({_FORMAT})_(?:{_FORMAT})_(?:{_FORMAT})_")
_TENSOR_FORMATS = re.compile(
    r"(?:(fp16|bf16|tf32|f16)_)?([hsi])\d{3,6}(?:gemm|cudnn|fprop|dgrad|wgrad)(?:_\w{0,40}?(tf32|bf16|f16|fp16)(?=_|$))?"
)
_LETTER_FORMATS = re.compile(r"(?:^|_)(?:g?([sdhczi]))(?:gemm|cudnn|gemv)(?!\w*_fp16)")
_NVJET_FORMATS = re.compile(r"^nvjet_(?:sm\d+_)?(?:q?([hstdq]))[sdh]")
_COLLECTIVE_FORMAT = re.compile(r"_(f16|f32|f64|bf16|i8|i32|i64|u8|float|half|double)(?=_|$)")
_CAST = re.compile(r"\((?:unsigned )?(?:int|long|bool|char|short)\)(?=-?\d|true|false)")
_OPERAND = re.compile(
    r"\b(?:float|double|c10::Half|at::Half|__half|c10::BFloat16|__nv_bfloat16|long long|long|int|bool|signed char|"
    r"unsigned char|c10::complex<float>|OpaqueType|cutlass::\w+_t)\b"
)
_FORMAT_OF_LETTER = {"s": "f32", "d": "f64", "h": "f16", "c": "c64", "z": "c128", "i": "i8", "t": "bf16", "q": "e4m3"}
_FORMAT_OF_TYPE = {
    "float": "f32", "double": "f64", "c10::Half": "f16", "at::Half": "f16", "__half": "f16", "half": "f16",
    "c10::BFloat16": "bf16", "__nv_bfloat16": "bf16", "long": "i64", "long long": "i64", "int": "i32", "bool": "bool",
    "signed char": "i8", "unsigned char": "u8", "fp16": "f16", "c10::complex<float>": "c64",
    "cutlass::half_t": "f16", "cutlass::bfloat16_t": "bf16", "cutlass::tfloat32_t": "tf32",
    "cutlass::float_e4m3_t": "e4m3", "cutlass::float_e5m2_t": "e5m2",
}  # fmt: skip
# Parts of a long name that choose among variants of one kernel.
_VARIANT = re.compile(
    r"_(?:stages?(?:_\d+x)?\d+|warpsize\d+x\d+x\d+|warpgroupsize\d+x\d+x\d+|align[a-c]?\d+|execute|kernel|g1|ffma|_5x|"
    r"tensor\d+x\d+x\d+|cudnn|cublas|v\d)(?=_|$)"
)
_WORD = re.compile(r"\w+")
_WORDS_READ = 200
_LABEL_LENGTH = 40  # of the part that distinguishes kernels with the same short name


@dataclass(frozen=True)
class KernelName:
    name: str
    short: str  # fit for a table: no namespaces, no operand types, lambdas by their enclosing function
    library: str
    family: str
    tile: str = ""  # 128x64: rows and columns of the output that a block makes
    transposes: str = ""  # nn, nt, tn, tt
    is_batched: bool = False
    dtype: str = ""
    uses_tensor_cores: bool = False
    auxiliary: str = ""  # why it runs beside the kernel that computes; empty: it computes

    @property
    def is_auxiliary(self) -> bool:
        """Work of the library around the computation: layout, padding, tables, sums of partial results."""
        return bool(self.auxiliary)


def parse_kernel(name: str) -> KernelName:
    """Everything that the name says. Any text is accepted, in time that grows with its length."""
    text = split_name(name[:_LONGEST_READ])
    inner = _inner_names(name, text)
    path = (name if _is_copy_or_set(name) else text.path or name)[:_READ_LENGTH].lower()
    words = " ".join((path, *inner))[:_READ_LENGTH].lower()
    label = inner[0] if inner and text.function in _CARRIERS else text.function or path
    if label in _GENERIC or label.startswith("kernel1"):
        label = text.path
    shown = label[:_READ_LENGTH].lower()
    family = rules.first_match(rules.FAMILIES, words, "other")
    is_product = family in _PRODUCTS
    return KernelName(
        name=name,
        short=_short(name, label, inner),
        library=_library(path, shown),
        family=family,
        tile=_tile(shown) if is_product else "",
        transposes=_transposes(shown) if is_product else "",
        is_batched=family in ("gemm", "gemv") and bool(rules.BATCHED.search(words)),
        dtype=_format(shown, text),
        uses_tensor_cores=bool(rules.TENSOR_CORES.search(words)),
        auxiliary=rules.first_match(rules.AUXILIARY, words, ""),
    )


def _is_copy_or_set(name: str) -> bool:
    """Kineto's `Memcpy HtoD (Pageable -> Device)` and nvprof's `[CUDA memcpy HtoD]` are sentences, not C++."""
    return name.startswith(("Memcpy ", "Memset ", "[CUDA mem"))


def _inner_names(name: str, text: NameText) -> list[str]:
    if "eigen" in text.path.lower():
        operation = eigen_operation(name[: 4 * _READ_LENGTH])
        return [operation] if operation else []
    return inner_functions(text.arguments)


def _library(path: str, shown: str) -> str:
    found = rules.first_match(rules.LIBRARIES, path, "")
    if found in ("", "cutlass") and shown != path:
        return rules.first_match(rules.LIBRARIES, shown, found or UNKNOWN)
    return found or UNKNOWN


def _short(name: str, label: str, inner: list[str]) -> str:
    if _is_copy_or_set(name) or not label:
        short = " ".join(name[:_READ_LENGTH].split())
    else:
        short = _VARIANT.sub("", label[:_READ_LENGTH]) if _TILE.search(label[:_READ_LENGTH]) else label
        others = [part for part in inner if part != label][:2]
        short += f"<{', '.join(others)}>" if others else ""
    return short if len(short) <= _SHORT_LENGTH else short[: _SHORT_LENGTH - 1] + "…"


def _tile(shown: str) -> str:
    found = _TILE.search(shown)
    return next(part for part in found.groups() if part) if found else ""


def _transposes(shown: str) -> str:
    found = _SMALL_TRANSPOSES.search(shown) or _TRANSPOSES.search(shown)
    return found.group(1) if found else ""


def _format(shown: str, text: NameText) -> str:
    """Of the operands, where the name has it."""
    if found := _CUTLASS3_FORMATS.search(shown) or _XMMA_FORMATS.search(shown):
        return found.group(1)
    if found := _TENSOR_FORMATS.search(shown):
        operand = found.group(1) or found.group(3) or {"h": "f16", "i": "i8"}.get(found.group(2), "tf32")
        return _FORMAT_OF_TYPE.get(operand, operand)
    if "sgemm_fp16" in shown:
        return "f16"
    if found := _NVJET_FORMATS.search(shown) or _LETTER_FORMATS.search(shown):
        return _FORMAT_OF_LETTER[found.group(1)]
    if shown.startswith("nccl") and (found := _COLLECTIVE_FORMAT.search(shown)):
        return _FORMAT_OF_TYPE.get(found.group(1), found.group(1))
    return _operand_format(text)


def _operand_format(text: NameText) -> str:
    """The first type among the template arguments; int only if there is no other: it is mostly an index.

    CUTLASS's own types come first: those before them are of shapes and strides.
    """
    types = _OPERAND.findall(_CAST.sub("", ", ".join(text.arguments)[: 2 * _READ_LENGTH]))
    types = [kind for kind in types if kind in _FORMAT_OF_TYPE and kind.startswith("cutlass::")] or types
    chosen = next((kind for kind in types if kind != "int"), types[0] if types else "")
    return _FORMAT_OF_TYPE.get(chosen, "")


def distinct_shorts(names: Sequence[str], shorts: Sequence[str | None]) -> tuple[str | None, ...]:
    """Where instances of one template share a short name, the first words in which they differ follow it."""
    rows_of: dict[str, list[int]] = {}
    for row, short in enumerate(shorts):
        if short is not None:
            rows_of.setdefault(short, []).append(row)
    found = list(shorts)
    for short, rows in rows_of.items():
        if len(rows) > 1:
            for row, label in zip(rows, _labels([names[row] for row in rows])):
                found[row] = f"{short} [{label}]" if label else short
    return tuple(found)


def _labels(names: Sequence[str]) -> list[str]:
    labels = [""] * len(names)
    words = [_WORD.findall(name[:_LONGEST_READ])[:_WORDS_READ] for name in names]
    for column in zip_longest(*words, fillvalue=""):
        if len(set(column)) > 1:
            labels = [f"{label} {word}".strip() for label, word in zip(labels, column)]
        if len(set(labels)) == len(names):
            break
    return [label if len(label) <= _LABEL_LENGTH else label[: _LABEL_LENGTH - 1] + "…" for label in labels]
