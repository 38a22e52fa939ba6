"""No command, but everything that prints for the commands: data to stdout, messages and progress to stderr, never a token."""

import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from zoo.utils.text import CONTROL, one_line, redact

if TYPE_CHECKING:
    from rich.text import Text

MESSAGE_SECONDS = 60
"""Seconds between two messages about the same task if stderr is not a terminal."""
CONTINUES = "Interrupted. The same command continues the training."
Board = Callable[[Mapping[str, tuple[str, str]]], None]
"""Shows several runs. The argument has, by the name of a run, (phase, text), such as ("running", "epoch 3/10")."""
_printed = {"json": False}


class Bar(Protocol):
    """Shows the progress of one operation: `done` of `total` units, and `text`, which by default is done/total."""

    def __call__(self, done: int, total: int, text: str | None = None) -> None: ...


def emit(data: Any, as_json: bool, text: "str | Text") -> None:
    """Print `data` as JSON if `as_json` is true, else `text`. The styles of a Text show only in a terminal with colours."""
    plain = json.dumps(_finite(data), indent=2, allow_nan=False) if as_json else str(text)
    redacted = redact(plain)
    _printed["json"] |= as_json
    if as_json or isinstance(text, str) or redacted != plain:
        sys.stdout.write(redacted + "\n")
        return
    from rich.console import Console

    Console(file=sys.stdout, highlight=False).print(text, soft_wrap=True)


def stream(beginning: str, parts: Iterable[str]) -> None:
    """Print `beginning` on stdout, then each string of `parts` as soon as it arrives, then a line break.

    Control characters, which a vocabulary of somebody else's may have, become ?. The line break is printed after an error in
    `parts`, too.
    """
    try:
        for part in chain([beginning], parts):
            sys.stdout.write(CONTROL.sub("?", part))
            sys.stdout.flush()
    finally:
        sys.stdout.write("\n")


def emit_lines(texts: Iterable[str]) -> None:
    """Print each string on a line of its own on stdout, as soon as it arrives."""
    for text in texts:
        sys.stdout.write(f"{redact(text)}\n")
        sys.stdout.flush()


def emit_error(error: Exception, text: str) -> None:
    """Print an error, with the message `text`, as JSON on stdout, unless JSON was printed there already: one document only."""
    if not _printed["json"]:
        emit({"error": {"code": type(error).__name__, "message": text}}, True, "")


def _finite(data: Any) -> Any:
    """Return a copy of nested dicts and lists with None for every NaN and infinity, because JSON has neither."""
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def say(text: str) -> None:
    """Print a message on stderr."""
    sys.stderr.write(f"{redact(text)}\n")


def ask(question: str) -> bool:
    """Ask a yes-or-no question on stderr, and return the answer; return False if there is no terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    sys.stderr.write(f"{redact(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def columns(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table of left-aligned columns, two spaces apart. None is shown as a dash.

    Line breaks inside a value, such as a name from the Hub, become spaces, so each row is one line.
    """
    cells = [list(header), *[["-" if cell is None else one_line(str(cell)) for cell in row] for row in rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(line(row, widths) for row in cells)


def line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return a line of a table of left-aligned columns with these widths, two spaces apart."""
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def dumped(models: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the content of pydantic models as JSON data."""
    return [model.model_dump(mode="json") for model in models]


@contextmanager
def progress(title: str) -> Iterator[Bar]:
    """Yield a Bar: a progress bar with `title` if stderr is a terminal, else messages, at most one in MESSAGE_SECONDS."""
    if not sys.stderr.isatty():
        last = time.monotonic()

        def message(done: int, total: int, text: str | None = None) -> None:
            nonlocal last
            if time.monotonic() - last > MESSAGE_SECONDS:
                last = time.monotonic()
                say(f"{title}: {done}/{total}{'' if text is None else f' {text}'}")

        yield message
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    layout = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[text]}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*layout, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, text="", total=None)
        yield lambda done, total, text=None: bar.update(
            task, completed=done, total=total, text=f"{done}/{total}" if text is None else text
        )


@contextmanager
def board(title: str) -> Iterator[Board]:
    """Show several runs on stderr, and yield the function that updates them.

    A terminal shows a live table of the runs that are running or failed. Without a terminal, a message is printed when the
    phase of a run changes, and every MESSAGE_SECONDS for each running run.
    """
    if not sys.stderr.isatty():
        printed: dict[str, tuple[str, float]] = {}

        def messages(states: Mapping[str, tuple[str, str]]) -> None:
            now = time.monotonic()
            for name, (phase, text) in states.items():
                before, when = printed.get(name, ("waiting", now))
                if phase != before or (phase == "running" and now - when > MESSAGE_SECONDS):
                    say(f"{name}: {phase}{f', {text}' if text else ''}")
                    printed[name] = (phase, now)

        yield messages
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(stderr=True), transient=True, refresh_per_second=2) as live:

        def table(states: Mapping[str, tuple[str, str]]) -> None:
            counts = Counter(phase for phase, _ in states.values())
            summary = ", ".join(f"{n} {phase}" for phase, n in counts.items())
            rows = [(name, *state) for name, state in states.items() if state[0] in ("running", "failed")]
            shown = columns(("MODEL", "STATE", ""), rows)
            live.update(Text(f"{title}: {summary}\n{shown}", no_wrap=True, overflow="ellipsis"))

        yield table
