"""`python -m profkit.bias_relu`: every implementation of bias_relu, compared on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.cli import run_operator


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_operator("bias_relu", "bias_relu", argv)


if __name__ == "__main__":
    raise SystemExit(main())
