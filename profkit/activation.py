"""`profkit activation`: compare functions of every element: ReLU, tanh, sigmoid, GELU."""

from profkit.cli import operator_command

main = operator_command("activation")

if __name__ == "__main__":
    raise SystemExit(main())
