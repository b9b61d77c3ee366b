"""Environments of foreign frameworks: ready or not there, never half; workers start in them without profkit."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import profkit
from profkit.errors import UnavailableError, UsageError
from profkit.frameworks import environments
from profkit.frameworks.environment_maker import check, check_python, create, remove
from profkit.frameworks.environments import (
    DAMAGED,
    FOREIGN,
    NOT_MADE,
    OUTDATED,
    READY,
    RECORD,
    IsolatedFramework,
    availability,
    environments_folder,
    interpreter_for,
    look,
)
from tests.frameworks.networks.foreign_networks import environment_of
from tests.support.processes import succeed
from tests.support.tiny_environments import made_tiny, tiny


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IsolatedFramework:
    """Not made yet."""
    return tiny(tmp_path, monkeypatch)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IsolatedFramework:
    return made_tiny(tmp_path, monkeypatch)


def make(foreign: IsolatedFramework, again: bool = False) -> list[str]:
    """Create it; gives what was told meanwhile."""
    told: list[str] = []
    create(foreign, sys.executable, told.append, again)
    return told


def leftovers() -> list[str]:
    """What lies in the folder of environments besides lock files."""
    return sorted(path.name for path in environments_folder().iterdir() if not path.name.endswith(".lock"))


def test_an_environment_is_made_from_its_pins_and_runs_the_framework(
    foreign: IsolatedFramework, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(environments.FOREIGN, "tiny", foreign)
    before = interpreter_for("tiny"), availability("tiny")

    told = make(foreign)

    found = look(foreign)
    assert (before[0], before[1].available) == (sys.executable, False)
    assert found.state == READY
    assert found.record["packages"]["tiny"] == "1.0"
    assert interpreter_for("tiny") == found.python != sys.executable
    assert availability("tiny").available
    code = "import tiny, sys; print(tiny.VERSION, sys.prefix)"
    output = succeed([found.python, "-c", code])
    assert output.split() == ["1.0", str(found.folder)]
    assert told[0].startswith("virtual environment with Python ")
    assert told[-1] == "importing it"
    assert leftovers() == ["tiny"]


@pytest.mark.full
def test_a_ready_one_stays_and_is_made_anew_on_request(made: IsolatedFramework) -> None:
    trace = look(made).folder / "trace"
    trace.touch()

    assert make(made) == []
    assert trace.exists()
    assert make(made, again=True) != []
    assert not trace.exists()
    assert leftovers() == ["tiny"]


@pytest.mark.full
def test_other_pins_make_it_outdated_until_it_is_made_again(
    made: IsolatedFramework, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(environments.FOREIGN, "tiny", made)
    made.requirements.write_text("# a comment changes nothing\ntiny==1.0\n")
    unchanged = look(made).state
    made.requirements.write_text("tiny<2\n")

    outdated = look(made)

    assert (unchanged, outdated.state) == (READY, OUTDATED)
    assert availability("tiny").reason == "tiny has an environment with other versions than this profkit pins"
    assert interpreter_for("tiny") == sys.executable
    make(made)
    assert look(made).state == READY


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "profkit.environment/1"}'])
def test_a_record_that_cannot_be_read_means_damaged(foreign: IsolatedFramework, text: str) -> None:
    folder = environments_folder() / "tiny"
    folder.mkdir(parents=True)
    (folder / RECORD).write_text(text)

    found = look(foreign)

    assert found.state == DAMAGED
    assert RECORD in found.trouble


def test_one_whose_python_is_gone_is_damaged(made: IsolatedFramework) -> None:
    Path(look(made).python).unlink()

    found = look(made)

    assert found.state == DAMAGED
    assert "leads nowhere" in found.trouble


def test_pips_last_words_are_told_and_nothing_is_left(foreign: IsolatedFramework) -> None:
    foreign.requirements.write_text("no-such-package==7.1\n")

    with pytest.raises(UnavailableError) as caught:
        make(foreign)

    assert "PIP_FIND_LINKS" in str(caught.value)
    assert "No matching distribution found for no-such-package==7.1" in str(caught.value)
    assert (look(foreign).state, leftovers()) == (NOT_MADE, [])


@pytest.mark.full
def test_a_framework_that_cannot_be_imported_is_told_and_the_old_environment_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_tiny(tmp_path, monkeypatch)
    broken = tiny(tmp_path, monkeypatch, code="raise ImportError('needs an older friend')\n")

    with pytest.raises(UnavailableError, match="ImportError: needs an older friend"):
        make(broken, again=True)

    assert (look(broken).state, leftovers()) == (READY, ["tiny"])


def test_an_interrupt_leaves_nothing(foreign: IsolatedFramework) -> None:

    def interrupt(text: str) -> None:
        if text.startswith("installing"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create(foreign, sys.executable, interrupt)

    assert (look(foreign).state, leftovers()) == (NOT_MADE, [])


@pytest.mark.full
def test_a_killed_one_leaves_nothing_that_looks_ready_and_the_next_clears_it(
    foreign: IsolatedFramework, tmp_path: Path
) -> None:
    mark = tmp_path / "importing"
    program = (
        "import sys; from pathlib import Path; from profkit.frameworks.environments import IsolatedFramework\n"
        "from profkit.frameworks.environment_maker import create\n"
        f"check = 'import pathlib, time; pathlib.Path(\"{mark}\").touch(); time.sleep(60)'\n"
        f"pins = Path({str(foreign.requirements)!r})\n"
        "create(IsolatedFramework('tiny', 'tiny', pins, check), sys.executable, print)\n"
    )
    maker = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 60
    while not mark.exists() and time.monotonic() < deadline:
        time.sleep(0.05)

    os.killpg(maker.pid, signal.SIGKILL)
    maker.wait()

    assert mark.exists()
    assert look(foreign).state == NOT_MADE
    assert [name for name in leftovers() if name.endswith(".partial")]
    make(foreign)
    assert leftovers() == ["tiny"]


def test_two_at_once_do_not_disturb_each_other(foreign: IsolatedFramework) -> None:
    environments_folder().mkdir()
    with open(environments_folder() / ".tiny.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(UnavailableError, match="another process is making or removing tiny"):
            make(foreign)


def test_a_folder_that_cannot_be_made_is_told_with_the_variable(
    foreign: IsolatedFramework, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROFKIT_ENVIRONMENTS", str(foreign.requirements / "below"))

    with pytest.raises(UnavailableError, match="export PROFKIT_ENVIRONMENTS="):
        make(foreign)


def test_removing_takes_it_away_and_a_second_time_finds_nothing(made: IsolatedFramework) -> None:

    assert remove(made)
    assert leftovers() == []
    assert not remove(made)


def test_a_python_without_builds_of_the_pins_is_refused_with_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = replace(tiny(tmp_path, monkeypatch), oldest=(3, 1), newest=(3, 2))

    with pytest.raises(UsageError) as caught:
        check_python(foreign, sys.executable)

    version = ".".join(map(str, sys.version_info[:3]))
    assert f"tiny needs Python 3.1 to 3.2, {sys.executable} is {version} (tests)" in str(caught.value)
    assert "python -m profkit.env create tiny --python /path/to/python3.2" in str(caught.value)


@pytest.mark.parametrize("path", ["/nowhere/python", "/bin/true"])
def test_what_is_no_python_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    with pytest.raises(UsageError, match=f"{path} is not a Python interpreter"):
        check_python(tiny(tmp_path, monkeypatch), path)


def test_environments_lie_in_the_cache_unless_a_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PROFKIT_ENVIRONMENTS", raising=False)
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path))

    assert environments_folder() == tmp_path / "environments"


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_everything_that_is_shipped_is_pinned(name: str) -> None:
    pins = FOREIGN[name].pins()

    assert pins
    assert all(re.fullmatch(r"[A-Za-z][\w-]*==[\d.]+", pin) for pin in pins)


@pytest.mark.parametrize(("version", "serves"), [("4.9.1", True), ("5.0.0", False)])
def test_a_framework_beside_profkit_serves_below_its_bound(
    foreign: IsolatedFramework, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, serves: bool
) -> None:
    monkeypatch.setitem(environments.FOREIGN, "tiny", foreign)
    with zipfile.ZipFile(tmp_path / "wheels" / "tiny-1.0-py3-none-any.whl") as wheel:
        wheel.extractall(tmp_path / "site")
    about = tmp_path / "site" / "tiny-1.0.dist-info"
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n")
    (about / "top_level.txt").write_text("tiny\n")
    monkeypatch.syspath_prepend(tmp_path / "site")

    assert availability("tiny", below=5).available is serves
    assert availability("tiny").available


def test_other_frameworks_run_in_this_python() -> None:
    assert interpreter_for("torch") == sys.executable


def test_the_workers_side_is_imported_with_an_old_numpy_and_nothing_else_of_profkits() -> None:
    environment = environment_of("theano")
    folder = str(Path(profkit.__file__).parent)
    # As protocol.BOOTSTRAP does: the package from its folder, none of the folder's neighbours on the path.
    program = (
        "import importlib.util, json, os, sys\n"
        "spec = importlib.util.spec_from_file_location('profkit', os.path.join(sys.argv[1], '__init__.py'), "
        "submodule_search_locations=[sys.argv[1]])\n"
        "sys.modules['profkit'] = module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "import importlib, numpy\n"
        "importlib.import_module('profkit.measurement.workers.network')\n"
        "from profkit.frameworks.networks import BUILDERS, load_builder\n"
        "from profkit.frameworks.events import load_source\n"
        "for name in ('theano', 'caffe'): load_builder(name), load_source(name)\n"
        "print(json.dumps([numpy.__version__, sorted(sys.modules)]))\n"
    )

    done = subprocess.run([environment.python, "-I", "-c", program, folder], capture_output=True, text=True, check=True)

    version, modules = json.loads(done.stdout)
    assert version == "1.23.5"
    assert not {"profkit._core", "rich", "duckdb", "theano", "cv2", "scipy"} & set(modules)


@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_a_ready_environment_passes_its_check(name: str) -> None:
    packages = check(environment_of(name))

    installed = {package.lower(): version for package, version in packages.items()}
    assert {pin.lower().partition("==")[0]: pin.partition("==")[2] for pin in FOREIGN[name].pins()} == {
        pin.lower().partition("==")[0]: installed[pin.lower().partition("==")[0]] for pin in FOREIGN[name].pins()
    }
