"""The list of cells in docs/cells.md."""

import re

from zoo import registry
from zoo.cells import CELLS, cell_class
from zoo.publishing.pages import equations


def test_every_cell_is_listed_once_with_its_source_equations_and_options() -> None:
    items = equations.section().split("\n")
    assert [re.findall(r"^- \*\*`(.+?)`\*\*", item)[0] for item in items] == sorted(CELLS)
    for item, (name, row) in zip(items, sorted(CELLS.items()), strict=True):
        assert registry.load_registry().papers[row.paper].citation in item, name
        assert cell_class(name).__doc__.split()[0] in item.replace("\\", ""), name
        assert [key for key in row.options if f"`{key}` (" not in item] == [], name


def test_operators_are_not_read_as_markdown() -> None:
    text = re.sub(r"`[^`]*`|\]\(.+?\)", "", equations.section().replace("**", ""))
    assert r"k\~" in text
    assert r"h^{j-1}\_t" in text
    assert not re.search(r"(?<!\\)[*_~]", text)
