"""`python -m profkit.env create theano`: environments of frameworks that cannot live beside the others."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from profkit.cli import guarded
from profkit.errors import ProfkitError, UsageError, unknown
from profkit.rendering.terminal import say

if TYPE_CHECKING:
    from profkit.frameworks.environments import Environment, IsolatedFramework

ACTIONS = {
    "create": "create environments",
    "list": "show them",
    "check": "import their frameworks",
    "remove": "delete them",
}
_EPILOG = """\
examples:
  profkit env create theano caffe
  profkit env create theano --python /usr/bin/python3.11
  profkit env create theano --again
  profkit env list
  profkit env check
  profkit env remove caffe

An environment is a virtual environment with pinned versions in PROFKIT_ENVIRONMENTS, by default in the folder \
environments of profkit's cache. profkit is not installed in it; this profkit starts workers in it.
exit codes: 0 done, 1 an environment could not be created, removed or used, 2 wrong usage, 130 interrupted"""


def manage(words: Sequence[str]) -> int:
    from profkit.frameworks.environments import FOREIGN

    arguments = _parse(words)
    action = _known("action", arguments.action, ACTIONS)
    foreigns = [FOREIGN[_known("environment", name, FOREIGN)] for name in arguments.names]
    if (arguments.python or arguments.again) and action != "create":
        raise UsageError("--python and --again belong to create")
    if not foreigns and action in ("create", "remove"):
        raise UsageError(f"{action} needs a name: {', '.join(FOREIGN)}\n  profkit env {action} {next(iter(FOREIGN))}")
    if action == "create":
        return _create(foreigns, arguments.python or sys.executable, arguments.again)
    if action == "remove":
        return _remove(foreigns)
    return (_list if action == "list" else _check)(foreigns or list(FOREIGN.values()))


def _parse(words: Sequence[str]) -> argparse.Namespace:
    from profkit.commands.arguments import Parser

    parser = Parser(
        "profkit env", "Environments of frameworks that cannot be installed together with the others.", _EPILOG
    )
    parser.usage = "profkit env create|list|check|remove [NAME ...] [flags]"
    actions = "; ".join(f"{name}: {meaning}" for name, meaning in ACTIONS.items())
    parser.add_argument("action", metavar="ACTION", help=actions)
    parser.add_argument("names", metavar="NAME", nargs="*", help="theano or caffe; list and check: all by default")
    parser.add_argument("--python", metavar="PATH", help="interpreter of the environment [the one that runs profkit]")
    parser.add_argument("--again", action="store_true", help="create it again even if it exists")
    return parser.parse(words)


def _known(what: str, word: str, names: Collection[str]) -> str:
    if word not in names:
        raise UsageError(f"{unknown(what, word, names)}\n  profkit env --help")
    return word


def _create(foreigns: Sequence[IsolatedFramework], python: str, again: bool) -> int:
    """One after another; a failure of one is reported at once and does not prevent the others."""
    from profkit.frameworks.environment_maker import create

    code = 0
    for foreign in foreigns:
        begin = time.monotonic()

        def tell(text: str, name: str = foreign.name, begin: float = begin) -> None:
            say(f"{name} {time.monotonic() - begin:5.1f} s  {text}", sys.stderr)

        try:
            environment = create(foreign, python, tell, again)
        except ProfkitError as error:
            if foreign is foreigns[-1] and not code:
                raise
            say(f"profkit env: {error}", sys.stderr)
            code = error.exit_code
            continue
        say(_ready_line(environment))
    return code


def _ready_line(environment: Environment) -> str:
    from profkit.rendering.quantities import bytes_text

    record = environment.record
    made = f"Python {record['python']}, {bytes_text(record['bytes'])}, made in {record['seconds']:g} s"
    return f"{environment.foreign.name} is ready: {environment.folder} ({made})"


def _list(foreigns: Sequence[IsolatedFramework]) -> int:
    from profkit.frameworks.environments import READY, look
    from profkit.rendering.tables.table import Item, Items

    rows = []
    for environment in map(look, foreigns):
        foreign = environment.foreign
        if environment.state == READY:
            installed = _versions(foreign, environment.record["packages"])
            text = f"{installed}\n{_ready_line(environment).partition(': ')[2]}"
        else:
            text = f"{foreign.name} {environment.trouble}\ntype: {foreign.create_line}"
        rows.append(Item(foreign.name, environment.state, text))
    Items(rows).print(sys.stdout)
    return 0


def _versions(foreign: IsolatedFramework, packages: dict[str, str]) -> str:
    """The pinned packages as they are installed."""
    pinned = [pin.partition("==")[0] for pin in foreign.pins()]
    installed = {name.lower(): version for name, version in packages.items()}
    return ", ".join(f"{name} {installed.get(name.lower(), 'is missing')}" for name in pinned)


def _check(foreigns: Sequence[IsolatedFramework]) -> int:
    """Those that were made; 1 when one of them, or one that was named, cannot be used."""
    from profkit.frameworks.environment_maker import check
    from profkit.frameworks.environments import READY, look

    code = 0
    for environment in map(look, foreigns):
        foreign = environment.foreign
        try:
            if environment.state != READY:
                say(f"{foreign.name} {environment.trouble}\n  {foreign.create_line}")
                code = 1
                continue
            say(f"{foreign.name} works: {_versions(foreign, check(environment))}")
        except ProfkitError as error:
            say(f"{error}\n  {foreign.create_line} --again")
            code = 1
    return code


def _remove(foreigns: Sequence[IsolatedFramework]) -> int:
    from profkit.frameworks.environment_maker import remove
    from profkit.frameworks.environments import environments_folder

    for foreign in foreigns:
        folder = environments_folder() / foreign.name
        say(f"removed {folder}" if remove(foreign) else f"{foreign.name} has no environment ({folder})")
    return 0


main = partial(guarded, "env", manage)

if __name__ == "__main__":
    raise SystemExit(main())
