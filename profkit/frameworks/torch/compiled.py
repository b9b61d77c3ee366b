"""torch.compile that says which layers a kernel works for: a model enters, its compiled form and the kernels leave.

Kernels are known by name and order only, so what inductor notes while it compiles has to be caught then: its caches of
whole graphs are off (compiled C++ is still kept), and its record of where kernels come from is on.
Imports torch: opened by the builder only.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class CompiledKernel:
    """One call in a compiled graph: a generated loop, or an operator of a library."""

    name: str
    """cpp_fused_relu_3, extern_kernels.addmm, torch.ops.aten.convolution_backward.default"""
    layers: tuple[str, ...]
    """Whose work it does, the layer with most of the graph's nodes first."""
    types: tuple[str, ...]
    """Operators it was made from, aten::relu; none: it only copies inputs of the graph into another layout."""


@dataclass
class CompiledGraphs:
    """Kernels of every graph that was compiled, in the order in which they run."""

    forward: dict[int, list[CompiledKernel]] = field(default_factory=dict)
    backward: dict[int, list[CompiledKernel]] = field(default_factory=dict)


def compile_model(model: Any, layers: Collection[str]) -> tuple[Any, CompiledGraphs]:
    """torch.compile with inductor, at the first call."""
    from torch._functorch import config as autograd_config
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx

    config.cpp.enable_kernel_profile = True
    config.fx_graph_cache = False
    config.trace.provenance_tracking_level = 1
    autograd_config.enable_autograd_cache = False
    graphs = CompiledGraphs()

    def inductor(graph: Any, inputs: Any) -> Any:
        return compile_fx(graph, inputs, inner_compile=_noting(graphs, layers))

    return torch.compile(model, backend=inductor), graphs


def _noting(graphs: CompiledGraphs, layers: Collection[str]) -> Callable[..., Any]:
    from torch._inductor.compile_fx import compile_fx_inner

    def compile_graph(graph: Any, inputs: Any, **options: Any) -> Any:
        _notes().clear()  # those of the forward graph may still be there
        compiled = compile_fx_inner(graph, inputs, **options)
        found = graphs.backward if options.get("is_backward") else graphs.forward
        found[int(options.get("graph_id") or 0)] = _kernels(graph, layers)
        return compiled

    return compile_graph


def _notes() -> dict[str, list[str]]:
    """Inductor's own: the nodes that each kernel was made from. Empty where this torch has none."""
    from torch._inductor import debug

    return getattr(debug, "_inductor_triton_kernel_to_post_grad_node_info", {})


def _kernels(graph: Any, layers: Collection[str]) -> list[CompiledKernel]:
    nodes = {node.name: node for node in graph.graph.nodes}
    kernels = []
    for name, origins in _notes().items():
        made_from = [nodes[origin] for origin in origins if origin in nodes]
        # A library's operator is also said to come from what computes its inputs.
        own = [node for node in made_from if (_type(node) or "::").rpartition("::")[2] in name.split(":")[0].split(".")]
        made_from = own or made_from
        counts = Counter(filter(None, (_layer(node, layers) for node in made_from)))
        types = dict.fromkeys(filter(None, map(_type, made_from)))
        kernels.append(CompiledKernel(name.rpartition(":")[0] or name, tuple(dict(counts.most_common())), tuple(types)))
    return kernels


def _layer(node: Any, layers: Collection[str]) -> str | None:
    """By the modules whose code made the node, or made the one of which it is the gradient."""
    for key in ("nn_module_stack", "fwd_nn_module_stack"):
        for path, _ in (node.meta.get(key) or {}).values():
            for word in re.findall(r"\w+", path):
                if word in layers:
                    return str(word)
    return None


def _type(node: Any) -> str | None:
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    name: str = node.target.name()
    return name.partition(".")[0]
