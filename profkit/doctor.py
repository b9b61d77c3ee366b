"""`python -m profkit.doctor`: what works on this machine, why the rest does not, and the line to type."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence

from profkit.cli import guarded


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    return guarded("doctor", examine, argv)


def examine(words: Sequence[str]) -> int:
    """Look at everything and print it; 0 when the native kernels work."""
    from profkit import _checks
    from profkit._arguments import Parser
    from profkit._gpu_checks import check_gpus
    from profkit._trace_checks import check_tracing
    from profkit.rendering.atomic_write import check_targets, write_atomically
    from profkit.rendering.table import Item, Items

    parser = Parser("profkit doctor", "Show what works here, why the rest does not, and the line to type.")
    parser.add_argument("--deep", action="store_true", help="import each framework, in a separate process")
    parser.add_argument("--json", metavar="FILE", help="save the findings and the environment")
    arguments = parser.parse(words)
    check_targets([arguments.json])
    sections: list[Callable[[], list[_checks.Check]]] = [
        _checks.check_build,
        lambda: _checks.check_backends(arguments.deep),
        _checks.check_environments,
        check_tracing,
        check_gpus,
        _checks.check_tools,
        _checks.check_machine,
    ]
    checks: list[_checks.Check] = []
    for look in sections:
        # Each section is shown as soon as it is known: importing every framework takes a while.
        found = look()
        print(f"{chr(10) if checks else ''}{found[0].section}", flush=True)
        texts = [check.detail + (f"\ntype: {check.fix}" if check.fix else "") for check in found]
        Items([Item(f"  {c.name}", c.status, text.strip()) for c, text in zip(found, texts)]).print(sys.stdout)
        checks += found
    if arguments.json:
        data = {
            "schema": "profkit.doctor/1",
            "environment": _checks.environment(),
            "checks": [check.to_dict() for check in checks],
        }
        write_atomically(arguments.json, json.dumps(data, indent=1, default=str) + "\n")
    return 0 if any(check.name == "native kernels" and check.status == _checks.WORKS for check in checks) else 1


if __name__ == "__main__":
    raise SystemExit(main())
