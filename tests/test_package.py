"""The package as a whole: what an import costs, and that stages import only what stands before them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import profkit

PACKAGE = Path(profkit.__file__).parent
FRAMEWORKS = (
    "torch",
    "tensorflow",
    "keras",
    "jax",
    "numba",
    "onnxruntime",
    "onnx",
    "pytensor",
    "cupy",
    "pandas",
    "duckdb",
    "matplotlib",
)

# Each stage may import itself and the stages named here (DESIGN.md, the flow).
MAY_IMPORT = {
    "ops": {"errors"},
    "backends": {"errors", "ops", "_core", "_cuda"},
    # Event sources of whole networks watch what the backends built.
    "capture": {"errors", "ops", "backends", "_core"},
    "measurement": {"errors", "ops", "backends", "capture", "_core", "_cuda"},
    "attribution": {"errors", "ops", "capture", "_core"},
    # Declared sweeps plan runs, keep their results and draw conclusions from them.
    "studies": {"errors", "ops", "backends", "capture", "measurement", "attribution"},
    "rendering": {"errors", "ops", "measurement", "capture", "attribution", "studies", "_core"},
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


@pytest.mark.parametrize("statement", ["import profkit", "import profkit.api", "import profkit.conv, profkit.doctor"])
def test_importing_profkit_imports_no_framework(statement: str) -> None:
    code = f"import sys, json; {statement}; print(json.dumps(sorted(sys.modules)))"

    modules = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)

    assert "profkit" in modules
    assert not set(modules) & set(FRAMEWORKS)


def test_import_profkit_alone_does_not_even_import_numpy() -> None:
    code = "import sys, profkit; print('numpy' in sys.modules)"

    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout

    assert output.strip() == "False"


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
