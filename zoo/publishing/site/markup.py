"""Converts Markdown to HTML for the pages of the site. Links between documents become links between pages."""

import posixpath
import re
from collections.abc import Callable
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

LinkMap = Callable[[str], str | None]
"""A function from a path in the repository to a link that the page can use, or None if the site lacks the file."""
_EXTERNAL = re.compile(r"^(https?:|mailto:|#)")
_FORMATTER = HtmlFormatter(nowrap=True)
_COMMENT = re.compile(r"^<!--.*?-->\n?", re.M)


def slug(text: str) -> str:
    """Return the id of a heading: "Steps of a stream" becomes "steps-of-a-stream"."""
    return re.sub(r"[^\w]+", "-", text.lower()).strip("-")


def coloured(code: str, language: str) -> Markup:
    """Return code as HTML with syntax highlighting: spans whose classes site.css colours."""
    return Markup(highlight(code, _lexer(language or "text"), _FORMATTER))


@cache
def _lexer(language: str) -> Lexer:
    try:
        return get_lexer_by_name(language)
    except ClassNotFound:
        return get_lexer_by_name("text")


def code_block(code: str, language: str) -> Markup:
    """Return a block of code as HTML. It scrolls by the keyboard, and a script adds a button to copy it."""
    words = Markup('<div class="code"><pre tabindex="0" role="group" aria-label="code, {}"><code>{}</code></pre></div>')
    return words.format(language or "text", coloured(code, language))


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule(
        "table_open", lambda *_: '<div class="scroll" tabindex="0" role="group" aria-label="table"><table>'
    )
    parser.add_render_rule("table_close", lambda *_: "</table></div>")
    return parser


def _fence(renderer: object, tokens: list[Token], index: int, options: object, env: object) -> str:
    token = tokens[index]
    return code_block(token.content, token.info.split(maxsplit=1)[0] if token.info else "")


def html(text: str, folder: str = "", link: LinkMap = lambda path: None, shift: int = 0) -> Markup:
    """Return a Markdown text as HTML.

    folder: the text's folder in the repository, to which its links are relative. link: see LinkMap; where it returns None,
    a link becomes plain text. shift: number to add to the level of headings.
    """
    tokens = _parser().parse(_COMMENT.sub("", text))
    for index, token in enumerate(tokens):
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + shift, 6)}"
            if token.type == "heading_open":
                token.attrSet("id", slug(tokens[index + 1].content))
        if token.type == "th_open" and not tokens[index + 1].content:
            token.tag = "td"  # a header without words is no header
        if token.type == "th_close" and not tokens[index - 1].content:
            token.tag = "td"
        if token.children:
            token.children = _linked(token.children, folder, link)
    return Markup(_parser().renderer.render(tokens, _parser().options, {}))


def inline(text: str, folder: str = "", link: LinkMap = lambda path: None) -> Markup:
    """Return a line of Markdown as HTML without a paragraph around it. folder, link: as in `html`."""
    (token,) = _parser().parseInline(text)
    token.children = _linked(token.children or [], folder, link)
    return Markup(_parser().renderer.render([token], _parser().options, {}))


def _linked(tokens: list[Token], folder: str, link: LinkMap) -> list[Token]:
    """Return the Markdown tokens with each link and image pointing to its address on the site.

    A link to a file that the site lacks becomes plain text; such an image is dropped.
    """
    kept: list[Token] = []
    open_links: list[bool] = []
    for token in tokens:
        if token.type == "link_open":
            address = _address(str(token.attrGet("href")), folder, link)
            open_links.append(address is not None)
            if address is None:
                continue
            token.attrSet("href", address)
        if token.type == "link_close" and not open_links.pop():
            continue
        if token.type == "image":
            address = _address(str(token.attrGet("src")), folder, link)
            if address is None:
                continue
            token.attrSet("src", address)
            token.attrSet("loading", "lazy")
        kept.append(token)
    return kept


def _address(href: str, folder: str, link: LinkMap) -> str | None:
    if _EXTERNAL.match(href):
        return href
    path, mark, fragment = href.partition("#")
    address = link(posixpath.normpath(posixpath.join(folder, path)))
    return None if address is None else f"{address}{mark}{fragment}"


def sections(text: str) -> dict[str, str]:
    """Return {second-level heading: text of its section} of a Markdown text; "" is the key of the text before the first."""
    parts = re.split(r"^## (.+)\n", text, flags=re.M)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}
