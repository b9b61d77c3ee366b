"""`profkit dropout`: compare dropout with a given mask."""

from profkit.cli import operator_command

main = operator_command("dropout")

if __name__ == "__main__":
    raise SystemExit(main())
