"""The flags of `profkit tune`: words go in, the operator and its checked flags come out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from profkit.commands.arguments import Parser, add_spec, typed
from profkit.commands.sweep import parse_counts
from profkit.errors import UsageError, did_you_mean
from profkit.measurement.cores import cores_for, default_threads
from profkit.measurement.options import MeasureOptions
from profkit.rendering.quantities import parse_bytes, parse_duration, parse_share

BUDGET_S = 20.0
OPERATORS = {"conv": "conv2d", "matmul": "matmul"}
_EPILOG = """\
examples:
  profkit tune conv --batch 128 --stride 2
  profkit tune matmul --m 512,1024 --threads 1,2 --only native/blocked
  profkit tune conv --preset solar.conv2 --dry-run
  profkit tune matmul --forget

Every candidate is verified against the float64 reference and timed together with the default; only what is faster
beyond --margin, and again when it meets the default alone, is kept: in tuned.json of profkit's cache folder, for this
machine and this build. The commands then use it and say so; --no-tuned or PROFKIT_TUNED=0 leaves it out.
exit codes: 0 done, 1 nothing could be measured, 2 wrong usage, 130 interrupted"""


def parse_tune(words: Sequence[str]) -> tuple[str, argparse.Namespace]:
    """Read the words; anything wrong is a UsageError before anything is measured."""
    # The operator may also follow --help: profkit help tune conv.
    name, *others = [*words[1:2], words[0], *words[2:]] if words and words[0] in ("-h", "--help") else words or [""]
    if name in ("-h", "--help"):
        build_parser(list(OPERATORS.values())).parse([name])
    if name not in OPERATORS:
        raise UsageError(_unknown_operator(name))
    op = OPERATORS[name]
    return op, build_parser([op]).parse(others)


def build_parser(ops: Sequence[str]) -> Parser:
    """The parser for one operator; with several, it is for --help alone, which shows the flags of each."""
    parser = Parser("profkit tune", "Find the best sizes of profkit's own kernels on this machine.", _EPILOG)
    parser.usage = f"profkit tune {'|'.join(OPERATORS)} [flags]"
    for op in ops:
        # Operators share names of flags, so that each group belongs to a parser of its own.
        owner = parser if len(ops) == 1 else Parser(parser.prog, "")
        spec = owner.add_argument_group(f"{op} (each flag also takes a comma list: a sweep over all combinations)")
        add_spec(spec, op)
        if owner is not parser:
            parser.show_group(spec)
    which = parser.add_argument_group("which kernels (keys like native/implicit_gemm, with * as wildcard)")
    which.add_argument("--only", metavar="KEY", action="append", help="tune only these")
    which.add_argument("--device", choices=("cpu", "cuda", "all"), default="all", help="where they run [all]")
    which.add_argument("--dry-run", action="store_true", help="list what would be tried, and exit")
    which.add_argument("--forget", action="store_true", help="forget what was chosen for them, and exit")
    how = parser.add_argument_group("how it is measured")
    how.add_argument("--threads", metavar="N[,N]", help="threads of the kernels [all usable cores]")
    seconds, share = typed(parse_duration), typed(parse_share)
    how.add_argument("--budget", metavar="TIME", type=seconds, default=BUDGET_S, help="sampling time per kernel [20s]")
    how.add_argument(
        "--timeout", metavar="TIME", type=seconds, default=MeasureOptions.timeout_s, help="longest wait [60s]"
    )
    how.add_argument(
        "--memory-limit", metavar="SIZE", type=typed(parse_bytes), help="memory limit of each trial [none]"
    )
    how.add_argument("--cache", choices=("hot", "cold"), default="hot", help="state of the caches [hot]")
    how.add_argument(
        "--margin", metavar="SHARE", type=share, default=MeasureOptions.margin, help="ignore smaller gains [2%%]"
    )
    how.add_argument("--seed", metavar="N", type=int, default=0, help="seed of the random inputs [0]")
    shown = parser.add_argument_group("what is shown and saved")
    shown.add_argument("--json", metavar="FILE", help="every trial with raw samples, and the environment")
    shown.add_argument("--quiet", action="store_true", help="no progress, only the tables")
    return parser


def _unknown_operator(word: str) -> str:
    names = ", ".join(OPERATORS)
    if not word or word.startswith("-"):
        return f"name an operator to tune: {names}\n  profkit tune conv --batch 128"
    return f"{word!r} has no kernels to tune; {did_you_mean(word, OPERATORS)}there is {names}"


def thread_counts(arguments: argparse.Namespace) -> list[int]:
    """The thread counts to tune for, each possible here."""
    counts = parse_counts("threads", arguments.threads) if arguments.threads else [default_threads()]
    for count in counts:
        cores_for(count)
    return counts
