"""`python -m profkit`: lists the commands or runs one."""

from __future__ import annotations

from profkit.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
