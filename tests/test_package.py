"""The package as a whole: what an import costs, and that stages import only what stands before them."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

import profkit
from profkit import cli
from tests.support.processes import answer_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGE = Path(profkit.__file__).parent
FRAMEWORKS = [
    "torch",
    "tensorflow",
    "keras",
    "jax",
    "numba",
    "onnxruntime",
    "onnx",
    "cupy",
    "pandas",
    "scipy",
    "duckdb",
    "matplotlib",
    "PIL",
    "safetensors",
]
COMMANDS = [cli.module_of(name) for name in ("cli", *cli.commands())]
# What is asked of a framework before it is chosen.
NETWORKS = """
from profkit.frameworks.events import load_source
from profkit.frameworks.networks import BUILDERS, load_builder
from profkit.frameworks.networks.contract import NetworkConditions
from profkit.ops.networks import Mlp
for builder in map(load_builder, BUILDERS):
    for mode in builder.modes:
        conditions = NetworkConditions(mode=mode, is_training=True)
        builder.is_available(), builder.supports(Mlp(), conditions), builder.environment(conditions)
        load_source(builder.name).passes(conditions)
"""
ADAPTERS = """
from profkit.frameworks import BACKENDS, load_adapter
from profkit.ops import SPECS, odd_specs
for adapter in map(load_adapter, BACKENDS):
    adapter.is_available()
    for op in SPECS:
        for item in adapter.implementations(op):
            [adapter.supports(item, spec) for spec in odd_specs(op)]
"""

# Each stage may import itself and the stages named here (CONTRIBUTING.md, "Where things are").
MAY_IMPORT = {
    "ops": {"errors"},
    "capture": {"errors", "ops", "_core"},
    "data": {"errors", "ops", "frameworks", "capture"},
    "frameworks": {"errors", "ops", "capture", "_core", "_cuda"},
    "measurement": {"errors", "ops", "data", "frameworks", "capture", "_core", "_cuda"},
    "attribution": {"errors", "ops", "capture", "_core"},
    # Declared sweeps plan runs, keep their results and draw conclusions from them.
    "studies": {"errors", "ops", "data", "frameworks", "capture", "measurement", "attribution"},
    "rendering": {"errors", "ops", "measurement", "capture", "attribution", "studies", "_core"},
    # What `profkit selftest` does; only that command imports it.
    "selftests": {"errors", "ops", "frameworks", "capture", "measurement", "attribution", "rendering"}
    | {"_core", "_cuda"},
}


def imported_modules(path: Path) -> set[str]:
    """Full names of the profkit modules that a file imports, also inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} if node.module != "profkit" else {f"profkit.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.split(".")[0] == "profkit"}


@pytest.mark.parametrize("stage", sorted(MAY_IMPORT))
def test_a_stage_imports_only_what_stands_before_it(stage: str) -> None:
    allowed = MAY_IMPORT[stage] | {stage}

    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in (PACKAGE / stage).rglob("*.py")
        for name in imported_modules(path)
        if "." in name and name.split(".")[1] not in allowed | {"__version__"}
    ]

    assert not wrong


@pytest.mark.parametrize(
    ("statements", "absent"),
    [
        ("import profkit", [*FRAMEWORKS, *COMMANDS, "numpy", "rich"]),
        ("import profkit.ops", [*FRAMEWORKS, "rich"]),
        ("import profkit.api", FRAMEWORKS),
        ("import profkit.conv, profkit.doctor", FRAMEWORKS),
        (ADAPTERS, FRAMEWORKS),
        (NETWORKS, FRAMEWORKS),
    ],
    ids=["profkit", "operators", "api", "commands", "asking adapters", "asking networks"],
)
def test_what_is_not_imported(statements: str, absent: list[str]) -> None:
    code = f"{statements}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"

    modules = answer_of([sys.executable, "-c", code])

    assert "profkit" in modules
    assert not set(modules) & set(absent)


def test_the_public_names_exist_and_hide_no_module() -> None:
    public = [name for name in dir(profkit) if not name.startswith("_")]
    modules = {path.stem for path in PACKAGE.iterdir()}

    assert {"measure", "Conv2d", "MatMul", "Pool2d", "LocalResponseNorm", "BiasRelu", "Softmax"} <= set(public)
    assert all(getattr(profkit, name) is not None for name in public)
    assert not {"measure", "Conv2d", "MatMul"} & modules
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(profkit, "nonsense")  # noqa: B009 - the dynamic lookup is what is tested


def test_the_version_is_written_once() -> None:
    pyproject = (PACKAGE.parent / "pyproject.toml").read_text()

    assert f'version = "{profkit.__version__}"' in pyproject


def requirements(extra: str) -> set[str]:
    """Names of the distributions that an extra asks for, those of the extras in it too."""
    lines = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"][extra]
    inner = [name for line in lines if line.startswith("profkit[") for name in line[8:-1].split(",")]
    names = {re.split(r"[^\w-]", line)[0] for line in lines if not line.startswith("profkit[")}
    return names.union(*map(requirements, inner))


def test_the_cpu_extra_brings_what_the_readme_shows() -> None:
    assert {"torch", "keras", "jax", "numba", "onnxruntime", "duckdb", "matplotlib"} <= requirements("cpu")


def test_every_index_can_satisfy_the_pins() -> None:
    lines = (PACKAGE.parent / "constraints.txt").read_text().splitlines()
    pins = dict(line.partition(";")[0].split("==") for line in lines if not line.startswith("#"))

    # A version with a local part, as 2.13.0+cpu, is in some indexes only; without one, both builds satisfy the pin.
    assert not [name for name, version in pins.items() if not re.fullmatch(r"[\d.]+", version.strip())]
    normalized = {name.lower().replace("_", "-") for name in pins}
    only_elsewhere = {"tensorflow"}  # where there is no tensorflow-cpu
    assert requirements("cpu") | requirements("test") <= normalized | only_elsewhere
