"""The one place that writes: data to stdout, talk to stderr; a token to neither."""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from zoo.checkpoints.hub.settings import redact

if TYPE_CHECKING:
    from rich.text import Text

AsJson = Annotated[bool, typer.Option("--json", help="Print data as JSON.")]


def emit(data: Any, as_json: bool, text: "str | Text") -> None:
    """Print `data` as JSON if asked for, else `text`, whose styles only a terminal with colours shows."""
    plain = json.dumps(data, indent=2) if as_json else str(text)
    safe = redact(plain)
    if as_json or isinstance(text, str) or safe != plain:
        sys.stdout.write(safe + "\n")
        return
    from rich.console import Console

    Console(file=sys.stdout, highlight=False).print(text, soft_wrap=True)


def say(text: str) -> None:
    """A line of talk."""
    sys.stderr.write(f"{redact(text)}\n")


def columns(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Left-aligned columns, two spaces apart; None is shown as a dash."""
    cells = [list(header), *[["-" if cell is None else str(cell) for cell in row] for row in rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)


class Bar(Protocol):
    def __call__(self, done: int, total: int, text: str) -> None: ...


@contextmanager
def progress(title: str) -> Iterator[Bar]:
    """A progress bar on stderr if that is a terminal, else a line a minute."""
    if not sys.stderr.isatty():
        last = time.monotonic()

        def line(done: int, total: int, text: str) -> None:
            nonlocal last
            if time.monotonic() - last > 60:
                last = time.monotonic()
                say(f"{title}: {done}/{total} {text}")

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    layout = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"), TimeRemainingColumn())
    with Progress(*layout, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, text="", total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, text=text)


class Board(Protocol):
    def __call__(self, states: Mapping[str, tuple[str, str]]) -> None: ...


@contextmanager
def board(title: str) -> Iterator[Board]:
    """Where several things are, each a phase and a text: a live table on stderr if that is a terminal, of what runs or
    failed; else a line when a phase changes, and one a minute for what runs."""
    if not sys.stderr.isatty():
        said: dict[str, tuple[str, float]] = {}

        def lines(states: Mapping[str, tuple[str, str]]) -> None:
            now = time.monotonic()
            for name, (phase, text) in states.items():
                before, when = said.get(name, ("waiting", now))
                if phase != before or (phase == "running" and now - when > 60):
                    say(f"{name}: {phase}{f', {text}' if text else ''}")
                    said[name] = (phase, now)

        yield lines
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
