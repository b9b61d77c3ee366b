"""`profkit lstm`: compare layers of long short-term memory."""

from profkit.cli import operator_command

main = operator_command("lstm")

if __name__ == "__main__":
    raise SystemExit(main())
