"""`python -m profkit.doctor`: what works on this machine, why the rest does not, and the line to type."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from profkit.cli import guarded


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    return guarded("doctor", examine, argv)


def examine(words: Sequence[str]) -> int:
    """Look at everything and print it; 0 when the native kernels work."""
    from profkit import _checks
    from profkit._arguments import Parser
    from profkit.rendering.content import Missing
    from profkit.rendering.table import print_list
    from profkit.rendering.whole_file import check_target, write_whole

    parser = Parser("profkit doctor", "Show what works here, why the rest does not, and the line to type.")
    parser.add_argument("--deep", action="store_true", help="really import each framework, in a process of its own")
    parser.add_argument("--json", metavar="FILE", help="save the findings and the environment")
    arguments = parser.parse(words)
    if arguments.json:
        check_target(arguments.json)
    checks = [
        *_checks.check_build(),
        *_checks.check_backends(arguments.deep),
        *_checks.check_tools(),
        *_checks.check_machine(),
    ]
    for index, section in enumerate(dict.fromkeys(check.section for check in checks)):
        print(f"{chr(10) if index else ''}{section}", flush=True)
        lines = [check for check in checks if check.section == section]
        texts = [check.detail + (f"\ntype: {check.fix}" if check.fix else "") for check in lines]
        items = [Missing(f"  {check.name}", check.status, text.strip()) for check, text in zip(lines, texts)]
        print_list(items, sys.stdout)
    if arguments.json:
        data = {
            "schema": "profkit.doctor/1",
            "environment": _checks.environment(),
            "checks": [check.to_dict() for check in checks],
        }
        write_whole(arguments.json, json.dumps(data, indent=1, default=str) + "\n")
    return 0 if any(check.name == "native kernels" and check.status == _checks.WORKS for check in checks) else 1


if __name__ == "__main__":
    raise SystemExit(main())
