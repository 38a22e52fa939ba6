"""The files of a site as they are collected, and the templates of its pages: strict and escaping."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from ...utils.text import size_text
from ...utils.version import __version__
from . import charts, markup

TEMPLATES, STATIC = (Path(__file__).parent / name for name in ("templates", "static"))


@dataclass
class Site:
    """The files of a site by their path below its folder, and what every page is told of the others."""

    files: dict[str, bytes] = field(default_factory=dict)
    documents: Mapping[str, str] = field(default_factory=dict)
    """Titles of the pages of documents, by address."""
    optional_pages: Collection[str] = ()
    """Pages of this site that another zoo's may lack."""

    def page(self, path: str, template: str, **content: Any) -> None:
        """Add a page made from a template. `root` leads from it to the site's folder."""
        root = "../" * path.count("/")
        text = (
            environment()
            .get_template(template)
            .render(root=root, path=path, documents=self.documents, optional_pages=self.optional_pages, **content)
        )
        self.files[path] = text.encode()


@cache
def environment() -> Any:
    """Return the templates."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    made.globals.update(version=__version__, heat_key=charts.HEAT_KEY, number_table=charts.table)
    made.filters.update(slug=markup.slug, count=lambda n: f"{n:,}", bytes=size_text)
    return made
