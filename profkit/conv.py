"""`python -m profkit.conv`: every implementation of conv2d, compared on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.cli import run_operator


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_operator("conv2d", "conv", argv)


if __name__ == "__main__":
    raise SystemExit(main())
