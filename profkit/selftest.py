"""`python -m profkit.selftest`: proves on this machine what can be proven here, and says what cannot, and why."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from profkit.cli import INTERRUPTED, abandon_stdout, guarded, wrapped
from profkit.errors import ProfkitError, UsageError
from profkit.rendering.terminal import say

if TYPE_CHECKING:
    from profkit.selftests.findings import SelftestReport

_EPILOG = """\
examples:
  profkit selftest                         all that can be proven here, within two minutes
  profkit selftest --full                  more shapes and all block sizes, without a time limit
  profkit selftest --only cuda             what concerns CUDA devices
  profkit selftest --only conv2d,recorder  the kernels of one operator, and the recorder

proven: right here. not proven: it could not be tried or decided here. wrong: not as it must be.
exit codes: 0, 1 when anything is wrong, 2 wrong usage, 130 interrupted"""


def selftest(words: Sequence[str]) -> int:
    """Prove everything, print it and leave the file."""
    from profkit.commands.arguments import Parser, made_options
    from profkit.rendering.atomic_write import write_atomically
    from profkit.rendering.progress import show_progress
    from profkit.selftests.run import Selftest, SelftestOptions

    parser = Parser("profkit selftest", "Prove on this machine that profkit is right.", _EPILOG)
    parser.add_options(SelftestOptions)
    options = made_options(SelftestOptions, parser.parse(words))
    path = _target(options.json)
    with show_progress(is_quiet=options.quiet) as watcher:
        report = Selftest(options, watcher).run()
    trouble = None
    try:
        write_atomically(path, json.dumps(report.to_dict(), indent=1, allow_nan=False, default=str) + "\n")
    except ProfkitError as error:
        trouble = error
    try:
        _show(report, "" if trouble else path)
        sys.stdout.flush()
    except BrokenPipeError:
        abandon_stdout()  # what was found decides the exit code, whoever reads it
    if trouble:
        raise trouble
    return INTERRUPTED if report.interrupted else int(report.is_wrong)


def _target(named: str | None) -> str:
    """Refused now when it could not be written at the end."""
    from profkit.rendering.atomic_write import check_target
    from profkit.selftests.run import FILE

    try:
        check_target(named or FILE)
    except UsageError as error:
        raise error if named else UsageError(f"{error}; name another place: --json FILE") from None
    return named or FILE


def _show(report: SelftestReport, path: str) -> None:
    from profkit.rendering.tables.table import Items
    from profkit.selftests.table import check_lists, conclusion, kernel_table

    if report.kernels:
        kernel_table(report).print(sys.stdout)
        say()
    for title, lines in check_lists(report):
        say(title)
        Items(lines).print(sys.stdout)
        say()
    for text in conclusion(report, path):
        say(wrapped(text))


main = partial(guarded, "selftest", selftest)

if __name__ == "__main__":
    raise SystemExit(main())
