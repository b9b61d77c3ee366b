"""`python -m profkit.pool`: every implementation of pool2d, compared on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.cli import run_operator


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_operator("pool2d", "pool", argv)


if __name__ == "__main__":
    raise SystemExit(main())
