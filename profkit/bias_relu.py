"""`profkit bias_relu`: compare bias + ReLU."""

from profkit.cli import operator_command

main = operator_command("bias_relu")

if __name__ == "__main__":
    raise SystemExit(main())
