"""`profkit lrn`: compare local response normalisation."""

from profkit.cli import operator_command

main = operator_command("lrn")

if __name__ == "__main__":
    raise SystemExit(main())
