"""The one place that writes: data to stdout, talk to stderr."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Protocol

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print data as JSON.")]


def emit(data: Any, as_json: bool, text: str) -> None:
    """Print `data` as JSON if asked for, else `text`."""
    sys.stdout.write((json.dumps(data, indent=2) if as_json else text) + "\n")


def say(text: str) -> None:
    """A line of talk."""
    sys.stderr.write(f"{text}\n")


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
