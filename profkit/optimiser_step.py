"""`profkit optimiser_step`: compare steps of SGD, Adam and RMSprop."""

from profkit.cli import operator_command

main = operator_command("optimiser_step")

if __name__ == "__main__":
    raise SystemExit(main())
