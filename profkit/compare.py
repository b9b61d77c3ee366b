"""`python -m profkit.compare a.profkit b.profkit`: two captures in; rows added, gone, faster, slower out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from profkit.cli import guarded
from profkit.errors import UsageError

if TYPE_CHECKING:
    from profkit._arguments import Parser
    from profkit.attribution.comparison import ComparedRow, Comparison
    from profkit.attribution.profiles import Profile
    from profkit.capture.network_capture import NetworkCapture
    from profkit.capture.tables import Capture
    from profkit.rendering.comparison_text import Asked

FAILED = 4
DEFAULT_TOP = 30
_EXAMPLES = """examples:
  profkit compare before.profkit after.profkit                  which operators changed, and by how much
  profkit compare torch.profkit tensorflow.profkit              layer by layer: operators have other names there
  profkit compare before.profkit after.profkit --by kind
  profkit compare before.profkit after.profkit --fail-on 5%     for CI: exit code 4 when something became slower

exit codes: 0 compared, 1 a file cannot be used, 2 wrong usage, or --fail-on for runs that cannot be compared fairly,
  4 with --fail-on: the step, or a row of at least 1% of it, is slower by more than that with its whole interval;
  what was recorded on a busy machine is not resolved, and fails nothing"""


def main(argv: Sequence[str] | None = None) -> int:
    """Compare two captures."""
    return guarded("compare", _run, argv)


def build_parser() -> Parser:
    """The parser of this command."""
    from profkit._arguments import Parser, typed
    from profkit.rendering.quantities import parse_share

    description = "Compare two captures of networks, or of traced programs: what changed, with intervals."
    parser = Parser("profkit compare", description, _EXAMPLES)
    parser.usage = "profkit compare A B [flags]"
    parser.add_argument("a", metavar="A", help="capture of profkit network, trace or record: what was")
    parser.add_argument("b", metavar="B", help="the other one: what is now")
    parser.add_argument(
        "--by",
        metavar="WHAT",
        help="what a row is; networks: operator (layer, phase and type), layer, kind, type or name "
        "[operator, or layer if the frameworks differ]; traced programs: name, path, category, domain or thread [name]",
    )
    parser.add_argument(
        "--margin",
        metavar="SHARE",
        type=typed(parse_share),
        default=0.02,
        help="smaller changes count as none [2%%]",
    )
    parser.add_argument(
        "--fail-on", metavar="SHARE", type=typed(parse_share), help="exit with 4 when b is slower by more, beyond doubt"
    )
    parser.add_argument(
        "--force", action="store_true", help="--fail-on although networks, threads or machines differ, or were busy"
    )
    parser.add_argument("--top", metavar="N", default=str(DEFAULT_TOP), help=f"rows printed, or all [{DEFAULT_TOP}]")
    parser.add_argument("--json", metavar="FILE", help="all rows, schema profkit.comparison/1")
    parser.add_argument("--markdown", metavar="FILE", help="all rows, for an issue or a pull request")
    return parser


def _run(words: Sequence[str]) -> int:
    arguments = build_parser().parse(words)
    from profkit._arguments import chosen_top
    from profkit.attribution.comparison import compare, failures
    from profkit.capture.opening import open_capture
    from profkit.measurement.judging import judge_runs
    from profkit.rendering.comparison_text import Asked, comparison_table
    from profkit.rendering.table import print_table
    from profkit.rendering.whole_file import check_targets

    check_targets((arguments.json, arguments.markdown))
    asked = Asked(
        arguments.a, arguments.b, arguments.margin, arguments.fail_on, chosen_top(arguments.top), arguments.force
    )
    profiles = _profiles(open_capture(arguments.a), open_capture(arguments.b), arguments.by)
    comparison = compare(*profiles, partial(judge_runs, margin=arguments.margin))
    failed = failures(comparison, arguments.fail_on, arguments.force) if arguments.fail_on is not None else ()
    _refuse_unfair(comparison, arguments)
    print_table(comparison_table(comparison, asked, failed), sys.stdout)
    _write_files(comparison, asked, arguments, failed)
    return FAILED if failed else 0


def _profiles(a: Capture | NetworkCapture, b: Capture | NetworkCapture, by: str | None) -> tuple[Profile, Profile]:
    from profkit.attribution.profiles import NETWORK_GROUPINGS, RANGE_GROUPINGS, network_profile, range_profile
    from profkit.capture.network_capture import NetworkCapture

    if isinstance(a, NetworkCapture) and isinstance(b, NetworkCapture):
        usual = "operator" if a.framework == b.framework else "layer"
        chosen = _choose(by, usual, list(NETWORK_GROUPINGS), "networks")
        return network_profile(a, chosen), network_profile(b, chosen)
    if isinstance(a, NetworkCapture) or isinstance(b, NetworkCapture):
        raise UsageError("one capture is of a network, the other of a traced program: they have no rows in common")
    chosen = _choose(by, "name", list(RANGE_GROUPINGS), "traced programs")
    return range_profile(a, chosen), range_profile(b, chosen)


def _choose(by: str | None, usual: str, known: Sequence[str], of_what: str) -> str:
    if by is not None and by not in known:
        raise UsageError(f"--by {by}: captures of {of_what} are compared by {', '.join(known)}")
    return by or usual


def _refuse_unfair(comparison: Comparison, arguments: argparse.Namespace) -> None:
    """A limit that is kept or broken because something else changed would be no check."""
    from profkit.rendering.comparison_text import difference_lines

    if arguments.fail_on is None or arguments.force or not comparison.unfair:
        return
    lines = "\n".join(f"  {line}" for line in difference_lines(comparison)[: len(comparison.unfair)])
    raise UsageError(f"--fail-on compares like with like, but:\n{lines}\n  record them alike, or add --force")


def _write_files(
    comparison: Comparison, asked: Asked, arguments: argparse.Namespace, failed: Sequence[ComparedRow]
) -> None:
    from profkit.rendering.comparison_text import comparison_table, comparison_to_json
    from profkit.rendering.markdown import table_markdown
    from profkit.rendering.whole_file import write_whole

    if arguments.json:
        content = comparison_to_json(comparison, asked, failed)
        write_whole(arguments.json, json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n")
    if arguments.markdown:
        everything = replace(asked, top=None)
        write_whole(arguments.markdown, table_markdown(comparison_table(comparison, everything, failed)))


if __name__ == "__main__":
    raise SystemExit(main())
