"""`profkit matmul`: compare matrix products."""

from profkit.cli import operator_command

main = operator_command("matmul")

if __name__ == "__main__":
    raise SystemExit(main())
