"""`profkit conv`: compare convolutions (conv2d), forward and gradients."""

from profkit.cli import operator_command

main = operator_command("conv2d")

if __name__ == "__main__":
    raise SystemExit(main())
