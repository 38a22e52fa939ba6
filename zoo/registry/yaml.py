"""Parses text in a strict subset of YAML 1.2, and finds the line and column of every key and value. `reader` reads the files.

The subset can express what JSON can. Refused are duplicate keys, anchors, aliases, tags, several documents, nesting
deeper than MAX_DEPTH, and more values than MAX_VALUES. Scalars follow the core schema of YAML 1.2, so `1e-3` is a number
and `no` a word. The parser is libyaml if PyYAML was built with it.
"""

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

MAX_DEPTH = 20
MAX_VALUES = 20_000
"""Maximum number of keys, items and values. The limit bounds the time, because each takes ten microseconds to parse."""
Path = tuple[str | int, ...]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}


class YamlError(ValueError):
    """A fault in a document. `where` is its `:line:column`, both counted from 1, or `:line`, or "" if the place is unknown."""

    def __init__(self, message: str, mark: Any = None, where: str = ""):
        super().__init__(message)
        self.where = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else where


@dataclass
class Document:
    """The content of a document, and the place of each value in it."""

    content: Any
    marks: dict[Path, Any]
    """By path, the keys and list indices that lead to a value: PyYAML's mark (line and column, from 0) of its key or item."""

    def mark(self, path: Path) -> Any:
        """Return the mark of the value at `path` or, if it is missing, of the nearest value above it."""
        while path and path not in self.marks:
            path = path[:-1]
        return self.marks[path]

    def where(self, path: Path) -> str:
        """Return the place that `mark` finds, as `:line:column`, counted from 1."""
        mark = self.mark(path)
        return f":{mark.line + 1}:{mark.column + 1}"


def parse(text: str) -> Document:
    """Return the parsed document. Raises YamlError for text outside the subset."""
    loader = _LOADER(text)
    marks: dict[Path, Any] = {}
    try:
        events = _counted(iter(loader.get_event, None))
        while isinstance(event := next(events), yaml.StreamStartEvent | yaml.DocumentStartEvent):
            pass
        if isinstance(event, yaml.StreamEndEvent):
            raise YamlError("the file is empty")
        marks[()] = event.start_mark
        content = _node(event, events, (), marks)
        next(events)  # the end of the document
        if not isinstance(event := next(events), yaml.StreamEndEvent):
            raise YamlError("a second document is not allowed; remove what follows ---", event.start_mark)
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise YamlError(
            f"the character {_code(error.character)} is not allowed ({error.reason})", where=f":{line}"
        ) from error
    except yaml.MarkedYAMLError as error:
        raise YamlError(str(error.problem or error.context), error.problem_mark or error.context_mark) from error
    except yaml.YAMLError as error:
        raise YamlError(str(error)) from error
    finally:
        loader.dispose()
    return Document(content, marks)


def _code(character: str | int) -> str:
    """Return the code of a character, such as U+0000; PyYAML gives a character or its number."""
    return f"U+{character if isinstance(character, int) else ord(character):04X}"


def _counted(events: Iterator[Any]) -> Iterator[Any]:
    """Yield PyYAML's events, of which every key and value has one or two. Raises YamlError after MAX_VALUES of them."""
    for event in itertools.islice(events, MAX_VALUES):
        yield event
    raise YamlError(f"the file has more than {MAX_VALUES:,} values", event.start_mark)


def _node(event: Any, events: Iterator[Any], path: Path, marks: dict[Path, Any]) -> Any:
    _refuse_anchor(event)
    if len(path) > MAX_DEPTH:
        raise YamlError(f"nested too deeply (more than {MAX_DEPTH} levels)", event.start_mark)
    if event.tag is not None:
        raise YamlError(f"tag {event.tag} is not allowed; quote the value if it is a word", event.start_mark)
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(event) if event.implicit[0] else event.value
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[Any] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            marks[(*path, len(items))] = event.start_mark
            items.append(_node(event, events, (*path, len(items)), marks))
        return items
    table: dict[str, Any] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        key = _key(event)
        if key in table:
            raise YamlError(f"duplicate key {key!r}", event.start_mark)
        marks[(*path, key)] = event.start_mark
        table[key] = _node(next(events), events, (*path, key), marks)
    return table


def _refuse_anchor(event: Any) -> None:
    if getattr(event, "anchor", None) is not None:
        raise YamlError("anchors and aliases are not allowed; write the value out", event.start_mark)


def _key(event: Any) -> str:
    _refuse_anchor(event)
    if not isinstance(event, yaml.ScalarEvent) or event.tag is not None:
        raise YamlError("a key must be a plain word without a tag", event.start_mark)
    if event.implicit[0] and event.value == "<<":
        raise YamlError("the merge key << is not allowed; write the values out", event.start_mark)
    if event.implicit[0] and not isinstance(_scalar(event), str):
        raise YamlError(f"key {event.value[:40]} is not a word; quote it if it is a name", event.start_mark)
    return event.value


def _scalar(event: Any) -> Any:
    """Return the value of an unquoted scalar by the core schema of YAML 1.2: None, a bool, a number or a word."""
    text = event.value
    if text in _WORDS:
        return _WORDS[text]
    try:
        if _INTEGER.fullmatch(text):
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        return float(text) if _FLOAT.fullmatch(text) else text
    except ValueError as error:  # Python refuses integers of thousands of digits
        raise YamlError(f"{text[:40]} is not a number that can be read ({error})", event.start_mark) from error
