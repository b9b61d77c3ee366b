"""`python -m profkit.doctor`: what works on this machine, why the rest does not, and the line to type."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial

from profkit.cli import guarded
from profkit.rendering.terminal import say


def examine(words: Sequence[str]) -> int:
    from profkit.capture.output_files import check_targets, write_atomically
    from profkit.commands.arguments import Parser
    from profkit.commands.doctor import checks as doctor_checks
    from profkit.commands.doctor.gpu import check_gpus
    from profkit.commands.doctor.noise import check_noise
    from profkit.commands.doctor.tracing import check_tracing
    from profkit.rendering.tables.table import Item, Items

    parser = Parser("profkit doctor", "Show what works here, why the rest does not, and what to type for it.")
    parser.add_argument("--deep", action="store_true", help="import each framework in a separate process")
    parser.add_argument("--noise", action="store_true", help="measure this machine's noise floor, about 3 minutes")
    parser.add_argument("--json", metavar="FILE", help="save the findings and the environment")
    arguments = parser.parse(words)
    check_targets([arguments.json])
    sections: dict[str, Callable[[], list[doctor_checks.Diagnosis]]] = {
        "profkit": doctor_checks.check_build,
        "backends": lambda: doctor_checks.check_backends(arguments.deep),
        "environments": doctor_checks.check_environments,
        "tracing": check_tracing,
        "GPU": check_gpus,
        "tools": doctor_checks.check_tools,
        "machine": lambda: [*doctor_checks.check_machine(), check_noise(arguments.noise)],
    }
    records: list[dict[str, str]] = []
    for section, look in sections.items():
        # Each section is shown as soon as it is known: importing every framework takes a while.
        found = look()
        say(f"{chr(10) if records else ''}{section}")
        texts = [check.detail + (f"\ntype: {check.fix}" if check.fix else "") for check in found]
        Items([Item(f"  {c.name}", c.status, text.strip()) for c, text in zip(found, texts)]).print(sys.stdout)
        records += [{"section": section, **asdict(check)} for check in found]
    if arguments.json:
        data = {"schema": "profkit.doctor/1", "environment": doctor_checks.environment(), "checks": records}
        write_atomically(arguments.json, json.dumps(data, indent=1, default=str) + "\n")
    return 0 if ("native kernels", doctor_checks.WORKS) in [(each["name"], each["status"]) for each in records] else 1


main = partial(guarded, "doctor", examine)

if __name__ == "__main__":
    raise SystemExit(main())
