"""The one table: that it fits every width, that nothing asked for is lost, and that it shows and writes itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from profkit.rendering.tables.document import Bullets, Document, Heading, Paragraph
from profkit.rendering.tables.table import Item, Items, Line, Table, TableColumn

words = st.text(st.sampled_from("ab/ _日本é-"), max_size=60)
numbers = st.integers(0, 10**9).map(str)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """A name, texts that fold or may be cut, and numbers, some of which may be left out."""
    columns, cells = [TableColumn("name", "name", is_text=True)], [words]
    for number in range(draw(st.integers(0, 8))):
        is_text = draw(st.booleans())
        columns.append(
            TableColumn(
                f"c{number}",
                f"c{number}",
                is_text=is_text,
                dispensable=draw(st.integers(0, 3)),
                least_width=draw(st.sampled_from([0, 12])) if is_text else 0,
            )
        )
        cells.append(words if is_text else numbers)
    texts = st.tuples(*cells)
    lines = draw(
        st.lists(st.builds(Line, texts, st.just(""), st.integers(0, 5), st.booleans()), min_size=1, max_size=6)
    )
    return Table(draw(words), (draw(words),), columns, lines, notes=[draw(words)], is_dense=draw(st.booleans()))


@settings(deadline=None)
@given(tables(), st.integers(40, 120))
def test_no_line_is_wider_than_asked_and_every_column_is_shown_or_named(table: Table, width: int) -> None:
    text = table.text(width)

    assert max(map(cell_len, text.splitlines())) <= width
    told = " ".join(" ".join(re.findall("too narrow for .*", text, re.DOTALL)).split())
    shown = {word for line in text.splitlines() if line.startswith("name") for word in line.split()}
    for column in table.columns:
        assert column.heading in shown or re.search(rf"\b{column.heading}\b", told)
        assert column.heading in shown or column.dispensable


@settings(deadline=None)
@given(st.lists(words.filter(str.strip), min_size=2, max_size=8, unique=True), st.integers(40, 100))
def test_names_of_a_dense_table_are_never_cut_to_the_same_text(names: list[str], width: int) -> None:
    columns = [
        TableColumn("name", "name", is_text=True),
        *(TableColumn(f"c{i}", f"c{i}", dispensable=i + 1) for i in range(5)),
    ]

    text = Table(columns=columns, lines=[Line((f"{name}.", *["123456"] * 5)) for name in names]).text(width)

    shown = [re.split(r"  +1|\s1", line)[0] for line in text.splitlines()[2 : 2 + len(names)]]
    assert len(set(shown)) == len(names)


def test_remainders_stand_below_a_rule_and_levels_of_a_tree_are_indented() -> None:
    columns = [TableColumn("name", "by path", is_text=True), TableColumn("own", "own")]
    lines = [Line(("a", "1")), Line(("b", "2"), level=1), Line(("total", "3"), has_rule=True)]

    shown = Table(columns=columns, lines=lines).text().splitlines()

    assert shown == ["by path  own", "─" * 12, "a          1", "  b        2", "─" * 12, "total      3"]
    assert "| &nbsp;&nbsp;b | 2 |" in Table(columns=columns, lines=lines).markdown()


def test_a_text_that_alone_is_too_wide_is_folded_and_loses_no_word() -> None:
    columns = [TableColumn("name", "name", is_text=True), TableColumn("why", "why", is_text=True)]

    text = Table(columns=columns, lines=[Line(("n", " ".join(f"word{i}" for i in range(40))))]).text(50)

    assert re.findall(r"word\d+", text) == [f"word{i}" for i in range(40)]
    assert max(map(len, text.splitlines())) <= 50


def test_what_was_lost_stands_first_and_what_is_said_instead_of_lines_in_their_place() -> None:
    table = Table("title", ["fact"], notes=["note"], losses=["lost"], warnings=["warning"], instead=["nothing"])

    assert table.text() == "lost\nwarning\ntitle\nfact\n\nnothing\n\nnote"
    assert table.markdown() == "### title\n\n**lost**  \nwarning  \nfact  \n\nnothing  \n\n- note\n"
    shown = [table._repr_html_().index(word) for word in ("lost", "warning", "title", "fact", "nothing", "note")]
    assert shown == sorted(shown)


def test_a_heading_in_a_notebook_tells_what_its_column_means() -> None:
    table = Table(columns=[TableColumn("own", "own", 'time of "this" row')], lines=[Line(("1",))])

    assert 'title="time of &quot;this&quot; row">own</th>' in table._repr_html_()


def test_blocks_of_a_document_are_a_blank_line_apart() -> None:
    document = Document(Heading(1, "h"), Paragraph("p"), Items([]), Items([Item("n", "ok", "t")]), Bullets(["b"]))

    assert document.text() == "h\n\np\n\nn  ok  t\n\n- b"


def test_a_table_without_numbers_behind_it_has_its_texts_as_records(tmp_path: Path) -> None:
    table = Table(columns=[TableColumn("a", "A"), TableColumn("b", "B")], lines=[Line(("1", "x,y"))])

    table.write(tmp_path / "t.csv")

    assert table.to_records() == [{"a": "1", "b": "x,y"}]
    assert (tmp_path / "t.csv").read_text() == 'a,b\n1,"x,y"\n'
    assert pytest.importorskip("pandas") and table.to_pandas()["b"].tolist() == ["x,y"]
