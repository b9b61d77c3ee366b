"""The page on networks has the numbers of the declarations."""

from __future__ import annotations

from networks_page import PAGE, filled

from profkit.ops.networks import NETWORKS


def test_the_tables_are_those_of_the_declarations() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert filled(page) == page, "run python bench/networks_page.py"
    for name in NETWORKS:
        assert f"| `{name}` |" in page and page.count(f"`{name}") >= 2, name
