"""Writes docs/api.md: the names that programs import, with signatures as written in the source, and docstrings."""

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from textwrap import dedent
from types import FunctionType
from typing import Any

from ...diagnostics import ANALYSES
from ...registry.schema import base
from ...utils import paths
from ...utils.text import escaped

PAGE = ("docs", "api.md")
SECTIONS: dict[str, tuple[str, ...]] = {
    "Models": ("load", "build", "spec", "list_models", "list_cells", "list_tasks", "from_torch", "to_torch", "check_cell"),
    "Networks": ("networks.recurrent.RecurrentNetwork", "networks.stream.Stream"),
    "Data": ("examples", "data.base.Split", "data.inputs.read_example"),
    "Answers": ("data.answers.answer", "generate", "data.listening.Listener", "data.listening.Word"),
    "Export": ("export", "exports.writing.Exported"),
    "Training and evaluation": ("training.trainer.train", "training.evaluation.evaluate"),
    "Descriptions": ("Entry", "Config", "Architecture", "Interface", "Init", "Embedding", "Head"),
    "Analyses": tuple(f"diagnostics.{row.path}" for row in ANALYSES.values()),
}  # fmt: skip
"""By heading: paths of objects below `zoo`. A path without a dot is a name of zoo.__all__."""
NAMES = r"[a-z_]+(?:, [a-z_]+)*"  # of arguments, before a colon
WIDTH = 100  # characters of a signature on one line


def pages() -> dict[Path, str]:
    """Return the text of docs/api.md, by path."""
    return {paths.path(*PAGE): page()}


def page() -> str:
    """Return the text of docs/api.md."""
    parts = [
        "# Python API",
        "`import zoo` is fast: a name imports what it needs when it is first used. [The guide](guide.md) shows these functions "
        "at work. Errors of its own are subclasses of `zoo.errors.ZooError`; those of a disk are OSErrors.",
    ]
    for heading, names in SECTIONS.items():
        parts.append(f"## {heading}")
        if heading == "Descriptions":
            parts += ["A wrong value raises pydantic's `ValidationError`. Some types have names:", _types()]
        for name in names:
            parts += _entry(f"zoo.{name}", resolve_name(f"zoo.{name}"))
    return "\n\n".join(parts) + "\n"


def _types() -> str:
    """Return the definitions of the fields' types that zoo.registry.schema.base names, as a block of code."""
    body = ast.parse(inspect.getsource(base)).body
    named = {ast.unparse(node.targets[0]): ast.unparse(node) for node in body if isinstance(node, ast.Assign)}
    shown = ("Key", "Text", "Count", "Vocabulary", "VocabularyOrZero", "Shape", "Layers", "Rate")
    return _code("\n".join(named[name] for name in shown))


def _entry(path: str, item: Any) -> Iterator[str]:
    """Yield the parts of the page about a function or a class: heading, signature, docstring, fields and methods."""
    name = path.rpartition(".")[2]
    yield f"### `{path}`"
    if not isinstance(item, type):
        yield _signature(item, name)
        yield _text(item)
        return
    yield _text(item)
    if fields := [
        field for parent in reversed(item.__mro__) if parent.__module__.startswith("zoo.") for field in _fields(parent)
    ]:
        yield "\n".join(f"- `{field}`{f': {_line(doc)}' if doc else ''}" for field, doc in fields)
    elif "__init__" in vars(item):
        yield _signature(vars(item)["__init__"], name)
        yield _text(vars(item)["__init__"])
    for attribute, member in _members(item).items():
        if isinstance(member, property):
            yield f"`.{attribute}`: {_line(inspect.getdoc(member) or '')}"
        else:
            yield _signature(member, f"{name if isinstance(member, classmethod) else ''}.{attribute}")
            yield _text(member)


def _members(item: type) -> dict[str, Any]:
    """Return {name: method or property} of the documented members of a class, those of its bases in zoo.networks included."""
    found: dict[str, Any] = {}
    for parent in item.__mro__:
        if parent is item or parent.__module__.startswith("zoo.networks."):
            for name, member in vars(parent).items():
                callable_member = isinstance(member, FunctionType | classmethod | property)
                if (not name.startswith("_") or name == "__call__") and callable_member and member.__doc__:
                    found.setdefault(name, member)
    return found


def _definition(item: Any) -> Any:
    """Return the syntax tree of a function, a method or a class."""
    return ast.parse(_source(item)).body[0]


def _source(item: Any) -> str:
    return dedent(inspect.getsource(getattr(item, "__func__", item)))


def _signature(function: Any, name: str) -> str:
    """Return `name(arguments) -> type` as a block of code, as written in the source.

    A short one without comments stands on one line; else each argument has a line, with the comment behind it.
    """
    node, comments = _definition(function), _comments(function)
    required = len(node.args.args) - len(node.args.defaults)
    defaults = [*[None] * required, *node.args.defaults, *node.args.kw_defaults]
    arguments = [*node.args.args, *node.args.kwonlyargs]
    written = [(_argument(*pair), comments.get(pair[0].lineno)) for pair in zip(arguments, defaults, strict=True)]
    if node.args.kwonlyargs:
        written.insert(len(node.args.args), ("*", None))
    if written and written[0][0] in ("self", "cls"):
        del written[0]
    returned = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    text = f"{name}({', '.join(argument for argument, _ in written)}){returned}"
    if len(text) > WIDTH or any(comment for _, comment in written):
        lines = [f"    {argument},{f'  {comment}' if comment else ''}" for argument, comment in written]
        text = "\n".join([f"{name}(", *lines, f"){returned}"])
    return _code(text)


def _comments(function: Any) -> dict[int, str]:
    """Return the comments in the source of a function, by line; those that are for tools are left out."""
    lines = io.StringIO(_source(function))
    found = {
        token.start[0]: token.string
        for token in tokenize.generate_tokens(lines.readline)
        if token.type == tokenize.COMMENT
    }
    return {line: text for line, text in found.items() if not text.startswith(("# fmt:", "# type:", "# noqa"))}


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    """Return an argument with its type and its default; a default that is a function is written as an ellipsis."""
    value = "..." if isinstance(default, ast.Lambda) else ast.unparse(default) if default else None
    return ast.unparse(argument) + (f" = {value}" if value is not None else "")


def _fields(item: type) -> Iterator[tuple[str, str]]:
    """Yield (declaration, docstring) of each public field that a class declares, as written in its source."""
    body = _definition(item).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        name = ast.unparse(node.target) if isinstance(node, ast.AnnAssign) else "_"
        has_entry = isinstance(vars(item).get(name), property)  # among the members
        if not name.startswith("_") and not has_entry:
            documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            yield ast.unparse(node), str(after.value.value) if documented else ""


def _line(text: str) -> str:
    return escaped(" ".join(text.split()))


def _text(item: Any) -> str:
    """Return a docstring in Markdown.

    A sentence that begins with names and a colon, such as `x, y: a batch`, becomes an item of a list, and "Raises" begins a paragraph.
    """
    parts = []
    for paragraph in (inspect.getdoc(item) or "").split("\n\n"):
        for block in re.split(r"(?<=[.)]) (?=Raises )", " ".join(paragraph.split())):
            first, *described = re.split(rf"(?:^|(?<=[.)]) )(?={NAMES}: )", block)
            parts += [escaped(first)] if first else []
            parts += ["\n".join(map(_described, described))] if described else []
    return "\n\n".join(parts)


def _described(sentences: str) -> str:
    """Return a list item with the names before the first colon as code."""
    names, _, description = sentences.partition(": ")
    return f"- {', '.join(f'`{name}`' for name in names.split(', '))}: {escaped(description)}"
