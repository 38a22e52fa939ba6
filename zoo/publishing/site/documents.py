"""Pages of the site from the repository's documents: README, CONTRIBUTING, CHANGELOG and docs/."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from ...utils import paths
from .. import comparison
from . import markup
from .templating import Site

ROOTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")


@dataclass(frozen=True)
class Documents:
    """The Markdown documents of a zoo and the addresses of their pages."""

    addresses: Mapping[str, str]
    """By path in the repository: the address of the document's page. A comparison with a paper is on the paper's page."""
    texts: Mapping[str, str]
    """By path in the repository: the Markdown of every document that has a separate page."""

    @property
    def titles(self) -> dict[str, str]:
        """By address: the title of every document that has a separate page."""
        headings = {name: re.search(r"^# (.+)$", text, re.M) for name, text in self.texts.items()}
        return {self.addresses[name]: heading[1] if heading else name for name, heading in headings.items()}

    def link(self, root: str) -> markup.LinkMap:
        """Return a function from a path in the repository to a link. root: path from the linking page to the site's root."""

        def address(path: str) -> str | None:
            if path in self.addresses:
                return root + self.addresses[path]
            card = re.fullmatch(r"cards/([^/]+)/README\.md", path)
            if card:
                return f"{root}models/{card[1]}.html"
            if path.startswith("docs/") and path.endswith((".svg", ".png")) and paths.path(path).exists():
                return f"{root}docs/pictures/{Path(path).name}"
            return None

        return address


def read() -> Documents:
    """Return the documents of the zoo in use; no documents if it has no README.md."""
    if not paths.path("README.md").exists():
        return Documents({}, {})
    addresses = {name: f"docs/{name.removesuffix('.md').lower()}.html" for name in ROOTS if paths.path(name).exists()}
    compared = comparison.reporting_papers()
    for path in sorted(paths.path("docs").rglob("*.md")):
        key = path.stem
        is_paper = key in compared or (path.parent.name == "diagnostics" and key != "README")
        page = f"papers/{key}.html" if is_paper else "docs/diagnostics.html" if key == "README" else f"docs/{key}.html"
        addresses[path.relative_to(paths.ROOT).as_posix()] = page
    texts = {
        name: paths.path(name).read_text(encoding="utf-8")
        for name, address in addresses.items()
        if address.startswith("docs/")
    }
    return Documents(addresses, texts)


def size(picture: bytes) -> tuple[int, int]:
    """Return (width, height) of a PNG or of an SVG's viewBox, so that a page can reserve the space. picture: the file."""
    if picture.startswith(b"\x89PNG"):
        return int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")
    box = re.search(rb'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture)
    return (round(float(box[1])), round(float(box[2]))) if box else (640, 480)


def add(site: Site, library: Documents) -> None:
    """Add the pages of the documents in `library`, and the pictures in these documents, to the site."""
    link = library.link("../")
    for name, text in library.texts.items():
        address = library.addresses[name]
        body = markup.html(text, name.rpartition("/")[0], link)
        for picture in re.findall(r'src="\.\./docs/pictures/([^"]+)"', body):
            source = next(paths.path("docs").rglob(picture))
            content = site.files[f"docs/pictures/{picture}"] = source.read_bytes()
            width, height = size(content)
            body = Markup(str(body).replace(f'/{picture}"', f'/{picture}" width="{width}" height="{height}"'))
        site.page(address, "document.html", body=body)
    if library.titles:
        site.page("docs/index.html", "docs.html")
