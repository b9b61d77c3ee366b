"""The structure of a kernel's name: its path without templates, and what its template arguments are about.

Demangled C++ (in the spellings of c++filt and of Nsight), mangled C++ and plain names go in. Every step is one pass
over the text and nothing recurses deeper than a fixed level: names come from files of others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_LEVELS = 8  # wrappers inside wrappers: gpu_kernel_impl<BinaryFunctor<MulFunctor<float>>> has three
_BRACKET = re.compile(r"->|[<>()\[\]{}]")
_BRACKET_OR_COMMA = re.compile(r"->|[<>()\[\]{},]")
_OPENING = frozenset("<([{")
_CALL = "call_operator"
_LITERAL = re.compile(r"^(?:\([\w: ]+\))?-?\d+[a-zA-Z]*$|^(?:\([\w: ]+\))?(?:true|false)$")
_EIGEN_OPERATION = re.compile(r"\b(?:scalar_\w+|\w+Reducer|\w+_op)\b")
_MANGLED_PART = re.compile(r"\d{1,4}")

# Templates that only carry the function that does the work.
_WRAPPERS = frozenset({
    "gpu_kernel_impl", "gpu_kernel_impl_nocast", "BinaryFunctor", "AUnaryFunctor", "BUnaryFunctor", "UnaryFunctor",
    "ReduceOp", "func_wrapper_t", "uniform_and_transform", "normal_and_transform", "distribution_nullary_kernel",
    "Kernel", "Kernel2", "device_kernel", "_kernel_agent", "opmath_gpu_kernel_with_scalars",
})  # fmt: skip
# Types of operands and of bookkeeping: they do not distinguish kernels of one purpose.
_BORING = frozenset({
    "float", "double", "int", "long", "bool", "char", "short", "unsigned", "void", "signed", "const", "half", "Half",
    "__half", "BFloat16", "__nv_bfloat16", "float2", "complex", "int64_t", "int32_t", "Array", "array", "OpaqueType",
    "TrivialOffsetCalculator", "OffsetCalculator", "LoadWithCast", "LoadWithoutCast", "StoreWithCast",
    "StoreWithoutCast", "TensorListMetadata", "TensorListScalarListMetadata", "FusedOptimizerTensorListMetadata",
    "CUDAGeneratorImpl", "TensorInfo", "integral_constant", "T1", "T2", "T3", "T4", "T5",
})  # fmt: skip


@dataclass(frozen=True)
class NameText:
    path: str  # namespaces and function, without template arguments, return type and parameters
    arguments: tuple[str, ...]  # template arguments of the last part that has some

    @property
    def function(self) -> str:
        """The last part of the path; of a lambda's call operator, the enclosing function."""
        parts = [part for part in self.path.split("::") if part and part != _CALL]
        return parts[-1] if parts else ""


def split_name(name: str) -> NameText:
    text = name.strip()
    if text.startswith("_Z"):
        return NameText(_mangled_path(text), ())
    for spelling in ("(anonymous namespace)::", "<unnamed>::", "_GLOBAL__N__"):
        text = text.replace(spelling, "")
    text = text.replace("operator ()", "operator()").replace("operator()", _CALL)  # its brackets are not parameters
    pieces: list[str] = []
    depth = position = group_start = 0
    group = ""
    is_group = has_words = False
    for found in _BRACKET.finditer(text):
        bracket = found.group()
        if bracket == "->":
            continue
        if bracket in _OPENING:
            if depth == 0:
                pieces.append(text[position : found.start()])
                has_words = has_words or bool(pieces[-1].strip())
                if bracket == "(" and has_words:
                    break
                is_group = bracket == "<"
                group_start = found.end()
            depth += 1
        elif depth > 0:
            depth -= 1
            position = found.end()
            if depth == 0 and is_group:
                group = text[group_start : found.start()]
    else:
        if depth == 0:
            pieces.append(text[position:])
        elif is_group:  # cut off by who wrote it
            group = text[group_start:]
    words = "".join(pieces).split()
    return NameText(words[-1] if words else "", tuple(split_arguments(group)))


def split_arguments(text: str) -> list[str]:
    """`a<b, c>, d` is two arguments."""
    parts = []
    depth = start = 0
    for found in _BRACKET_OR_COMMA.finditer(text):
        mark = found.group()
        if mark in _OPENING:
            depth += 1
        elif mark == ",":
            if depth == 0:
                parts.append(text[start : found.start()].strip())
                start = found.end()
        elif mark != "->":
            depth = max(0, depth - 1)
    rest = text[start:].strip()
    return [*parts, rest] if rest else parts


def inner_functions(arguments: Sequence[str], level: int = _LEVELS) -> list[str]:
    """What a template is instantiated with, by the names that matter: functors, lambdas by their outer function."""
    names: dict[str, None] = {}
    for argument in arguments:
        if _LITERAL.match(argument):
            continue
        part = split_name(argument)
        function = part.function.rstrip("*&")
        if not function or function in _BORING or function.startswith(("cublas", "lambda")):
            continue
        inside = inner_functions(part.arguments, level - 1) if level and function in _WRAPPERS else []
        names.update(dict.fromkeys(inside or [function]))
    return list(names)


def eigen_operation(name: str) -> str:
    """The operation of an expression template of Eigen: `scalar_sum_op`."""
    found = [operation for operation in _EIGEN_OPERATION.findall(name) if not operation.startswith("scalar_left")]
    return found[0] if found else ""


def _mangled_path(text: str) -> str:
    """Namespaces and function of `_ZN2at6native12some_kernelI...`, up to its template arguments."""
    position = 2
    is_nested = text.startswith("N", position)
    position += is_nested
    parts: list[str] = []
    while found := _MANGLED_PART.match(text, position):
        start = found.end()
        length = int(found.group())
        part = text[start : start + length]
        if not part.startswith("_GLOBAL__N_"):
            parts.append(part)
        position = start + length
        if not is_nested:
            break
    return "::".join(parts) or text
