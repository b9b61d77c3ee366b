"""`profkit embedding`: compare embeddings."""

from profkit.cli import operator_command

main = operator_command("embedding")

if __name__ == "__main__":
    raise SystemExit(main())
