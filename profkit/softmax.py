"""`profkit softmax`: compare softmax."""

from profkit.cli import operator_command

main = operator_command("softmax")

if __name__ == "__main__":
    raise SystemExit(main())
