"""`profkit batch_norm`: compare batch normalisation."""

from profkit.cli import operator_command

main = operator_command("batch_norm")

if __name__ == "__main__":
    raise SystemExit(main())
