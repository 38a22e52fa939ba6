"""The list of every cell with its equations, source and options, from the docstrings of zoo.cells."""

import inspect

from ...cells import CELLS, cell_class
from ...cells.rows import Number
from ...registry import load_registry
from ...utils.arguments import check_name
from ...utils.text import escaped


def section() -> str:
    """Return a Markdown list with an item for each cell, sorted by name: title, paper, docstring and options."""
    papers = load_registry().papers
    items = []
    for name, row in sorted(CELLS.items()):
        check_name("paper", row.paper, papers, f"Add the paper of {name} to sources.yaml.")
        paper = papers[row.paper]
        source = f"[{paper.citation}]({paper.link})" if paper.link.startswith("https:") else paper.citation
        options = ", ".join(f"`{key}` ({_values(value)})" for key, value in row.options.items())
        text = escaped(" ".join((inspect.getdoc(cell_class(name)) or "").split()))
        items.append(f"- **`{name}`**, {row.title}, {source}. {text}{f' Options: {options}.' if options else ''}")
    return "\n".join(items)


def _values(allowed: tuple[str, ...] | Number) -> str:
    return str(allowed) if isinstance(allowed, Number) else " or ".join(f"`{word}`" for word in allowed)
