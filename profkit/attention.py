"""`profkit attention`: compare attention."""

from profkit.cli import operator_command

main = operator_command("attention")

if __name__ == "__main__":
    raise SystemExit(main())
