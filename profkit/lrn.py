"""`python -m profkit.lrn`: every implementation of lrn, compared on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from profkit.cli import run_operator


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    return run_operator("lrn", "lrn", argv)


if __name__ == "__main__":
    raise SystemExit(main())
