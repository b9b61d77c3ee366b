"""`python -m profkit.compare a.profkit b.profkit`: two captures in; rows added, gone, faster, slower out.

Two results of operators' commands are shown row by row, without a verdict.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from profkit.cli import guarded
from profkit.errors import UsageError

if TYPE_CHECKING:
    from profkit.attribution.comparison import ComparedRow, Comparison
    from profkit.attribution.profiles import ComparableProfile
    from profkit.capture.run import Run
    from profkit.capture.schema import Capture
    from profkit.commands.arguments import Parser
    from profkit.measurement.result import Result
    from profkit.rendering.usage.comparison import ComparisonRequest

FAILED = 4
DEFAULT_TOP = 30
DEFAULT_MARGIN = 0.02
_EXAMPLES = """examples:
  profkit compare before.profkit after.profkit                  which operators changed, and by how much
  profkit compare torch.profkit tensorflow.profkit              layer by layer: operators have other names there
  profkit compare before.profkit after.profkit --by kind
  profkit compare before.json.gz after.json.gz --by kernel      GPU traces of torch.profiler or Nsight Systems
  profkit compare before.profkit after.profkit --fail-on 5%     for CI: exit code 4 when something became slower
  profkit compare before.json after.json                        results of profkit conv --json: both values of each row

exit codes: 0 compared, 1 a file cannot be used, 2 wrong usage, or --fail-on for runs that cannot be compared fairly,
  4 with --fail-on: the step, or a row of at least 1% of it, is slower by more than that with its whole interval;
  what was recorded on a busy machine is not resolved, and fails nothing"""


def main(argv: Sequence[str] | None = None) -> int:
    """Compare two captures."""
    return guarded("compare", _run, argv)


def build_parser() -> Parser:
    """The parser of this command."""
    from profkit.commands.arguments import Parser, typed
    from profkit.rendering.quantities import parse_share

    description = "Compare two captures of networks, or of programs and GPU traces: what changed, with intervals.\n"
    description += "Two results are shown row by row."
    parser = Parser("profkit compare", description, _EXAMPLES)
    parser.usage = "profkit compare A B [flags]"
    parser.add_argument(
        "a",
        metavar="A",
        help="earlier file: of profkit network, trace or record, of torch.profiler or nsys, or of --json",
    )
    parser.add_argument("b", metavar="B", help="later file of the same kind")
    parser.add_argument(
        "--by",
        metavar="WHAT",
        help="what a row is; networks: operator (layer, phase and type), layer, kind, type or name "
        "[operator, or layer if the frameworks differ]; programs and GPU traces: name, path, category, domain or "
        "thread [name], and of what the GPU did operator, layer, phase, kernel, launch, gemm, copy, stream or device",
    )
    parser.add_argument(
        "--margin",
        metavar="SHARE",
        type=typed(parse_share),
        default=DEFAULT_MARGIN,
        help="smaller changes count as the same [2%%]",
    )
    parser.add_argument(
        "--fail-on",
        metavar="SHARE",
        type=typed(parse_share),
        help="exit with 4 when B is slower by more, whole interval",
    )
    parser.add_argument(
        "--force", action="store_true", help="--fail-on although networks, threads or machines differ, or were busy"
    )
    parser.add_argument("--top", metavar="N", default=str(DEFAULT_TOP), help=f"rows printed, or all [{DEFAULT_TOP}]")
    parser.add_argument(
        "--json", metavar="FILE", help="all rows, schema profkit.comparison/1; of results profkit.result_comparison/1"
    )
    parser.add_argument("--markdown", metavar="FILE", help="all rows, for an issue or a pull request")
    return parser


def _run(words: Sequence[str]) -> int:
    arguments = build_parser().parse(words)
    from profkit.attribution.comparison import compare, failures
    from profkit.commands.arguments import chosen_top
    from profkit.commands.opening import open_any
    from profkit.measurement.judging import judge_runs
    from profkit.measurement.result import Result
    from profkit.rendering.atomic_write import check_targets
    from profkit.rendering.usage.comparison import ComparisonRequest, comparison_table

    check_targets((arguments.json, arguments.markdown))
    asked = ComparisonRequest(
        arguments.a, arguments.b, arguments.margin, arguments.fail_on, chosen_top(arguments.top), arguments.force
    )
    a, b = open_any(arguments.a), open_any(arguments.b)
    if isinstance(a, Result) and isinstance(b, Result):
        return _compare_results(a, b, arguments)
    if isinstance(a, Result) or isinstance(b, Result):
        raise UsageError("one file is a result, the other a capture: they have no rows in common")
    profiles = _profiles(a, b, arguments.by)
    comparison = compare(*profiles, partial(judge_runs, margin=arguments.margin))
    failed = failures(comparison, arguments.fail_on, arguments.force) if arguments.fail_on is not None else ()
    _refuse_unfair(comparison, arguments)
    comparison_table(comparison, asked, failed).print(sys.stdout)
    _write_files(comparison, asked, arguments, failed)
    return FAILED if failed else 0


def _compare_results(a: Result, b: Result, arguments: argparse.Namespace) -> int:
    from profkit.commands.arguments import chosen_top
    from profkit.rendering.atomic_write import write_atomically
    from profkit.rendering.results.comparison import (
        compare_results,
        result_comparison_document,
        result_comparison_to_json,
    )
    from profkit.rendering.tables.json_file import render_json

    given = {"--fail-on": arguments.fail_on is not None, "--force": arguments.force, "--by": arguments.by is not None}
    given["--margin"] = arguments.margin != DEFAULT_MARGIN
    for flag in (name for name, is_given in given.items() if is_given):
        raise UsageError(f"{flag} is for captures: the difference between two results is shown and not judged")
    names = (arguments.a, arguments.b)
    comparison = compare_results(a, b)
    result_comparison_document(comparison, *names, chosen_top(arguments.top)).print(sys.stdout)
    if arguments.json:
        write_atomically(arguments.json, render_json(result_comparison_to_json(comparison, *names)))
    if arguments.markdown:
        write_atomically(arguments.markdown, result_comparison_document(comparison, *names).markdown())
    return 0


def _profiles(a: Capture | Run, b: Capture | Run, by: str | None) -> tuple[ComparableProfile, ComparableProfile]:
    from profkit.attribution.profiles import profile_of, usual_grouping

    chosen = by or usual_grouping(a, b)
    profiles = profile_of(a, chosen), profile_of(b, chosen)
    if profiles[0].per != profiles[1].per:
        pers = " and ".join(f"times per {each.per}" for each in profiles)
        raise UsageError(f"by {chosen} the captures have {pers}: they have no rows in common")
    return profiles


def _refuse_unfair(comparison: Comparison, arguments: argparse.Namespace) -> None:
    """A limit that is kept or broken because something else changed would be no check."""
    from profkit.rendering.usage.comparison import difference_lines

    if arguments.fail_on is None or arguments.force or not comparison.unfair:
        return
    lines = "\n".join(f"  {line}" for line in difference_lines(comparison)[: len(comparison.unfair)])
    raise UsageError(f"--fail-on compares like with like, but:\n{lines}\n  record them alike, or add --force")


def _write_files(
    comparison: Comparison, asked: ComparisonRequest, arguments: argparse.Namespace, failed: Sequence[ComparedRow]
) -> None:
    from profkit.rendering.atomic_write import write_atomically
    from profkit.rendering.tables.json_file import render_json
    from profkit.rendering.usage.comparison import comparison_table, comparison_to_json

    if arguments.json:
        write_atomically(arguments.json, render_json(comparison_to_json(comparison, asked, failed)))
    if arguments.markdown:
        everything = replace(asked, top=None)
        write_atomically(arguments.markdown, comparison_table(comparison, everything, failed).markdown())


if __name__ == "__main__":
    raise SystemExit(main())
