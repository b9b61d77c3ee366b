"""The flags of `profkit tune`: words go in, the operator and its checked flags come out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from profkit.commands.arguments import Parser, add_spec, made_options
from profkit.errors import UsageError, did_you_mean
from profkit.measurement.cores import cores_for, default_threads
from profkit.measurement.options import (
    ALL_DEVICES,
    BYTES,
    CACHES,
    COUNTS,
    DEVICES,
    KEYS,
    MEASURED,
    SECONDS,
    SHARE,
    SHOWN,
    WHOLE,
    MeasureOptions,
    option,
)

WHICH = "which kernels (keys like native/implicit_gemm, with * as wildcard)"
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


@dataclass(frozen=True)
class TuneOptions:
    """Flags besides those of the operator's spec."""

    only: Sequence[str] = option((), WHICH, "tune only these", form=KEYS)
    device: str = option(ALL_DEVICES, WHICH, "where they run", choices=DEVICES)
    dry_run: bool = option(False, WHICH, "list what would be tried, and exit")
    forget: bool = option(False, WHICH, "forget what was chosen for them, and exit")
    threads: Sequence[int] = option((), MEASURED, "threads of the kernels", form=COUNTS, shown="all usable cores")
    budget_s: float = option(20.0, MEASURED, "sampling time per kernel", form=SECONDS)
    timeout_s: float = option(MeasureOptions.timeout_s, MEASURED, "longest wait", form=SECONDS)
    memory_limit_bytes: int | None = option(None, MEASURED, "memory limit of each trial", form=BYTES, shown="none")
    cache: str = option(CACHES[0], MEASURED, "state of the caches", choices=CACHES)
    margin: float = option(MeasureOptions.margin, MEASURED, "ignore smaller gains", form=SHARE)
    seed: int = option(0, MEASURED, "seed of the random inputs", form=WHOLE)
    json: str | None = option(None, SHOWN, "every trial with raw samples, and the environment")
    quiet: bool = option(False, SHOWN, "no progress, only the tables")

    def measure_options(self) -> MeasureOptions:
        """Of every trial."""
        names = ("budget_s", "timeout_s", "memory_limit_bytes", "margin", "seed")
        return MeasureOptions(cache=[self.cache], **{name: getattr(self, name) for name in names})


def parse_tune(words: Sequence[str]) -> tuple[str, TuneOptions, argparse.Namespace]:
    """The operator, the options, and all arguments for `read_specs`; anything wrong is a UsageError."""
    # The operator may also follow --help: profkit help tune conv.
    name, *others = [*words[1:2], words[0], *words[2:]] if words and words[0] in ("-h", "--help") else words or [""]
    if name in ("-h", "--help"):
        build_parser(list(OPERATORS.values())).parse([name])
    if name not in OPERATORS:
        raise UsageError(_unknown_operator(name))
    op = OPERATORS[name]
    arguments = build_parser([op]).parse(others)
    return op, made_options(TuneOptions, arguments), arguments


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
    parser.add_options(TuneOptions)
    return parser


def _unknown_operator(word: str) -> str:
    names = ", ".join(OPERATORS)
    if not word or word.startswith("-"):
        return f"name an operator to tune: {names}\n  profkit tune conv --batch 128"
    return f"{word!r} has no kernels to tune; {did_you_mean(word, OPERATORS)}there is {names}"


def thread_counts(options: TuneOptions) -> Sequence[int]:
    """The thread counts to tune for, each possible here."""
    counts = options.threads or [default_threads()]
    for count in counts:
        cores_for(count)
    return counts
