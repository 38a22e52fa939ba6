"""The documents of the repository as pages of the site: README, CONTRIBUTING, CHANGELOG and docs/."""

import re
from functools import cache
from pathlib import Path

from markupsafe import Markup

from ...utils import paths
from .. import comparison
from . import markup
from .templating import Site

ROOTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")


@cache
def addresses() -> dict[str, str]:
    """Return the page of every document by its path in the repository; those that compare with a paper are papers' pages."""
    known: dict[str, str] = {
        name: f"docs/{name.removesuffix('.md').lower()}.html" for name in ROOTS if paths.path(name).exists()
    }
    if not paths.path("README.md").exists():
        return {}
    for path in sorted(paths.path("docs").rglob("*.md")):
        name = path.relative_to(paths.ROOT).as_posix()
        key = path.stem
        if key in comparison.documents() or (path.parent.name == "diagnostics" and key != "README"):
            known[name] = f"papers/{key}.html"
        else:
            known[name] = "docs/diagnostics.html" if key == "README" else f"docs/{key}.html"
    return known


def titles() -> dict[str, str]:
    """Return the title of every document that is a page of its own, by its address."""
    found = {}
    for name, address in addresses().items():
        if address.startswith("docs/"):
            heading = re.search(r"^# (.+)$", paths.path(name).read_text(encoding="utf-8"), re.M)
            found[address] = heading[1] if heading else name
    return found


def link(root: str) -> markup.LinkMap:
    """Return a function from a path in the repository to an address for a page from which `root` leads to the site."""
    pages = addresses()

    def address(path: str) -> str | None:
        if path in pages:
            return root + pages[path]
        card = re.fullmatch(r"cards/([^/]+)/README\.md", path)
        if card:
            return f"{root}models/{card[1]}.html"
        if path.startswith("docs/") and path.endswith((".svg", ".png")) and paths.path(path).exists():
            return f"{root}docs/pictures/{Path(path).name}"
        return None

    return address


def size(picture: bytes) -> tuple[int, int]:
    """Return the width and the height of a PNG, or those of an SVG's viewBox, so that a page can keep the place free."""
    if picture.startswith(b"\x89PNG"):
        return int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")
    box = re.search(rb'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture)
    return (round(float(box[1])), round(float(box[2]))) if box else (640, 480)


def add(site: Site) -> None:
    """Add the pages of documents, and the pictures in them."""
    for name, address in addresses().items():
        if not address.startswith("docs/"):
            continue
        text = paths.path(name).read_text(encoding="utf-8")
        folder = name.rpartition("/")[0]
        body = markup.html(text, folder, link("../"))
        for picture in re.findall(r'src="\.\./docs/pictures/([^"]+)"', body):
            source = next(paths.path("docs").rglob(picture))
            content = site.files[f"docs/pictures/{picture}"] = source.read_bytes()
            width, height = size(content)
            body = Markup(str(body).replace(f'/{picture}"', f'/{picture}" width="{width}" height="{height}"'))
        site.page(address, "document.html", body=body, title=titles()[address], address=address)
    if titles():
        site.page("docs/index.html", "docs.html")
