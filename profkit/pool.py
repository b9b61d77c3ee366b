"""`profkit pool`: compare max and average pooling (pool2d)."""

from profkit.cli import operator_command

main = operator_command("pool2d")

if __name__ == "__main__":
    raise SystemExit(main())
