"""`profkit add`: compare sums of two arrays."""

from profkit.cli import operator_command

main = operator_command("add")

if __name__ == "__main__":
    raise SystemExit(main())
