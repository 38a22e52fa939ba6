"""Collects the files of a site, and renders its pages from templates. Undefined names are errors; text is escaped."""

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
    """The files of a site, {path below its folder: content}, and facts about the site that every page needs."""

    files: dict[str, bytes] = field(default_factory=dict)
    documents: Mapping[str, str] = field(default_factory=dict)
    """By address: the title of each document's page."""
    optional_pages: Collection[str] = ()
    """Pages that this site has, but that the site of another zoo may lack, such as that of published results."""

    def page(self, path: str, template: str, **content: Any) -> None:
        """Render `template`, the name of a file, with the variables `content`, and add it to the site as the page `path`.

        The template's variable `root` is the path from the page to the site.
        """
        root = "../" * path.count("/")
        text = (
            environment()
            .get_template(template)
            .render(root=root, path=path, documents=self.documents, optional_pages=self.optional_pages, **content)
        )
        self.files[path] = text.encode()


@cache
def environment() -> Any:
    """Return the Jinja environment of the templates."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    made.globals.update(version=__version__, heat_key=charts.HEAT_KEY)
    made.filters.update(slug=markup.slug, count=lambda n: f"{n:,}", bytes=size_text)
    return made
