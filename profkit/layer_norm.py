"""`profkit layer_norm`: compare layer normalisation."""

from profkit.cli import operator_command

main = operator_command("layer_norm")

if __name__ == "__main__":
    raise SystemExit(main())
