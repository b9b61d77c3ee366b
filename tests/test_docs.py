"""Documents: links lead somewhere, every page is in the index, commands parse, measured pages name their origin."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from profkit import cli
from profkit.commands.arguments import Parser
from tests.capture.importers.foreign_traces import KINETO_FILES, real_trace
from tests.support.places import DOCS, ROOT

PAGES = sorted(DOCS.rglob("*.md"))
TYPED = [ROOT / "README.md", *(page for page in PAGES if "measured" not in page.parts)]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r'#.*|//.*|"""(?:.|\n)*?"""')
FILE = re.compile(r"(?<![\w./*<>{}$-])[\w/-]*\w\.(?:py|inl|cuh|cu|cpp|h|md)\b(?!\.)")
# In examples, of the walk through a new operator, installed or generated, of other projects.
NOT_OURS = re.compile(
    r"(my_\w+|mine)\.\w+|(train|script|naive_matmul|tests/a|cifar10_eval|_eval)\.py|report\.md|DIR/\w+\.md"
    r"|profkit/(ops/)?scale\.py|(csrc/)?kernels/scale/[\w/]+\.\w+|profkit/params\.h|operator_list\.h"
    r"|(nvtx3/)?nvToolsExt\.h|cuda_(fp16|bf16|occupancy|runtime)\.h|numpy/ndarraytypes\.h"
)
COMMAND = re.compile(r"(?:\$ )?(?:profkit |python -m profkit\.)[a-z_]+\b.*")


class Parsed(BaseException):
    """The words of a command are right; what comes after is not run."""


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Names of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def commands(page: Path) -> list[list[str]]:
    """Command lines in fenced and indented blocks; those with placeholders are left out."""
    text = page.read_text(encoding="utf-8")
    lines = [line for block in FENCED.findall(text) for line in block.splitlines()]
    lines += [line.strip() for line in text.splitlines() if line.startswith("    ")]
    found = []
    for line in filter(COMMAND.fullmatch, lines):
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if not any(mark in word for word in words for mark in ("[", "...")):
            found.append(words[1:] if words[0] == "profkit" else [words[2].removeprefix("profkit."), *words[3:]])
    return found


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda page: page.stem)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not re.match(r"[a-z]+:", link) and (
            not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target))
        ):
            broken.append(link)

    assert not broken


def test_the_files_that_texts_name_exist() -> None:
    folders = [ROOT / name for name in ("profkit", "csrc", "bench", "tests", "docs")]
    tree = [path for folder in folders for path in folder.rglob("*") if path.is_file()] + list(ROOT.glob("*.*"))
    ends = {"/".join(path.parts[-count:]) for path in tree for count in range(1, len(path.relative_to(ROOT).parts) + 1)}
    missing = set()
    for path in tree:
        if path.suffix == ".md":
            texts = [LINK.sub("", prose(path))]
        elif path.suffix in (".py", ".h", ".cpp", ".inl", ".cu", ".cuh"):
            texts = COMMENT.findall(path.read_text(encoding="utf-8"))
        else:
            continue
        named = {name for text in texts for name in FILE.findall(text)}
        missing |= {f"{path.relative_to(ROOT)}: {name}" for name in named - ends if not NOT_OURS.fullmatch(name)}

    assert not missing


def test_every_page_is_in_the_index() -> None:
    listed = {(DOCS / link).resolve() for link in LINK.findall((DOCS / "README.md").read_text(encoding="utf-8"))}

    assert set(PAGES) - {DOCS / "README.md"} == listed


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= 10_000


def test_the_table_of_the_readme_is_the_measured_one() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = (DOCS / "measured" / "start_up.md").read_text(encoding="utf-8")
    [table] = FENCED.findall(page)
    [seconds] = re.findall(
        r"^\| `python -m profkit.conv --stride 2`, all frameworks \| ([\d.]+) s \|", page, re.MULTILINE
    )

    assert f", {float(seconds):.0f} s):\n\n{table}" in readme


def test_the_numbers_of_the_readme_are_those_of_the_pages() -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Numbers\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| ")][1:]
    page, unknown = Path(), []
    for subject, result in rows:
        if links := LINK.findall(subject):
            page = ROOT / links[0]
        text = page.read_text(encoding="utf-8")
        unknown += [f"{number}: {page.name}" for number in re.findall(r"\d+\.\d+", result) if number not in text]

    assert len(rows) == 8
    assert not unknown


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.stem)
def test_commands_parse(page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    parse = Parser.parse

    def parse_only(parser: Parser, words: Sequence[str]) -> None:
        parse(parser, words)
        raise Parsed

    monkeypatch.setattr(Parser, "parse", parse_only)
    refused = {}
    for words in commands(page):
        try:
            cli.main(words)
            refused[" ".join(words)] = capsys.readouterr().err
        except Parsed:
            pass

    assert not refused


def test_the_readme_has_commands_to_parse() -> None:
    assert len(commands(ROOT / "README.md")) >= 15


@pytest.mark.parametrize(
    ("page", "trace", "name"),
    [
        ("gpu.md", KINETO_FILES[0], "alexnet.json.gz"),
        pytest.param("device-traces.md", KINETO_FILES[2], KINETO_FILES[2], marks=pytest.mark.full),
    ],
)
def test_a_table_of_a_real_trace_is_what_the_command_prints(
    page: str,
    trace: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).symlink_to(real_trace(trace))

    assert cli.main(["report", name, "--top", "6"]) == 0

    assert f"\n{capsys.readouterr().out}```\n" in (DOCS / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [page for page in PAGES if "measured" in page.parts], ids=lambda page: page.stem)
def test_a_measured_page_names_date_commit_machine_and_command(page: Path) -> None:
    head = page.read_text(encoding="utf-8").splitlines()[:3]

    assert head[0].startswith("# ")
    assert re.fullmatch(r"Measured \d{4}-\d\d-\d\d, commit [0-9a-f]{7,}, on .+: `python .+`", head[2])


@pytest.mark.parametrize("heading", ["Run it", "Test it"])
def test_the_readme_has_the_block_that_ci_runs(heading: str) -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    block = re.search(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)

    assert block is not None
    assert re.fullmatch(r"python3 -m venv \.venv && \.venv/bin/pip install .+ && \.venv/bin/python -m .+\n", block[1])
