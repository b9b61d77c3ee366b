"""`python -m profkit.selftest`: proves on this machine what can be proven here, and says what cannot, and why."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial

from profkit.capture.output_files import check_target, write_atomically
from profkit.cli import guarded
from profkit.commands.arguments import Parser, made_options
from profkit.commands.showing import printed, refuse, written
from profkit.errors import INTERRUPTED, UsageError
from profkit.rendering.progress import show_progress
from profkit.rendering.tables.table import Items
from profkit.rendering.terminal import say, wrapped
from profkit.selftests.findings import SelftestReport
from profkit.selftests.run import FILE, Selftest, SelftestOptions
from profkit.selftests.table import check_lists, conclusion, kernel_table

_EPILOG = """\
examples:
  profkit selftest                         everything that can be checked here, within two minutes
  profkit selftest --full                  more shapes and all block sizes, without a time limit
  profkit selftest --only cuda             only CUDA devices
  profkit selftest --only conv2d,recorder  the kernels of one operator, and the recorder

proven: run here and right. not proven: could not be run or decided here. wrong: run here and failed.
exit codes: 0 nothing is wrong, 1 something is wrong, 2 wrong usage, 130 interrupted"""


def _run(words: Sequence[str]) -> int:
    parser = Parser("profkit selftest", "Prove on this machine that profkit is right.", _EPILOG)
    parser.add_options(SelftestOptions)
    options = made_options(SelftestOptions, parser.parse(words))
    path = _target(options.json)
    with show_progress(is_quiet=options.quiet) as watcher:
        report = Selftest(options, watcher).run()
    text = json.dumps(report.to_dict(), indent=1, allow_nan=False, default=str) + "\n"
    problems = written([partial(write_atomically, path, text)])
    # The findings determine the exit code, even if the output is closed.
    problems += printed(partial(_show, report, "" if problems else path), sys.stdout)
    refuse(problems)
    return INTERRUPTED if report.interrupted else int(report.is_wrong)


def _target(named: str | None) -> str:
    """Refused now when it could not be written at the end."""
    try:
        check_target(named or FILE)
    except UsageError as error:
        raise error if named else UsageError(f"{error}; name another place: --json FILE") from None
    return named or FILE


def _show(report: SelftestReport, path: str) -> None:
    if report.kernels:
        kernel_table(report).print(sys.stdout)
        say()
    for title, lines in check_lists(report):
        say(title)
        Items(lines).print(sys.stdout)
        say()
    for text in conclusion(report, path):
        say(wrapped(text))


main = partial(guarded, "selftest", _run)

if __name__ == "__main__":
    raise SystemExit(main())
