"""`rnnzoo predict`: the answers of a model to files of a user's own."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from zoo.errors import RequestError, StorageError, ZooError

from .arguments import Address, AsJson, Device, content_of, number
from .output import columns, emit, say

if TYPE_CHECKING:
    from zoo.data.answers import Classes, Values

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""A header, which can be empty, and rows."""


def predict(
    name: Address,
    files: Annotated[
        list[str],
        Argument(
            metavar="FILE...", help="Images, texts, WAV files or comma-separated numbers; - reads standard input."
        ),
    ],
    top: Annotated[int, number("Show the N most likely classes.")] = 5,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Run a model on files of yours: drawn digits, texts, spoken words, or tables with a line for each time step."""
    from zoo import load
    from zoo.data.answers import answer
    from zoo.data.inputs import read_example

    if files.count("-") > 1:
        raise RequestError("Standard input can be read only once: give - once.")
    several = len(files) > 1
    failed: dict[str, ZooError | OSError] = {}

    def note(file: str, error: ZooError | OSError) -> None:
        failed[file] = error
        say(f"{_title(file)}: {_reason(error)}")

    contents: dict[str, bytes] = {}
    answers: dict[str, Classes | Values] = {}
    for file in dict.fromkeys(files):
        try:
            contents[file] = content_of(file)
        except (ZooError, OSError) as error:
            if not several:
                raise
            note(file, error)
    if contents:
        network = load(name, device=device)
    for file, content in contents.items():
        try:
            answers[file] = answer(network, *read_example(network, content), top=top)
        except RequestError as error:
            if not several:
                raise RequestError(f"{_title(file)}: {error}") from error
            note(file, error)
    tables = {file: _table(answers[file]) for file in answers}
    if not several:
        header, rows = tables[files[0]]
        emit(
            {"name": name, **_data(answers[files[0]])}, as_json, columns(header, rows) if header else " ".join(rows[0])
        )
        return
    if answers or as_json:
        nothing: Table = (), [()]
        header, rows = next(iter(tables.values()), nothing)
        table = [(file, *row) for file in files if file in tables for row in tables[file][1]]
        each = [{"file": f, **(_data(answers[f]) if f in answers else {"error": _reason(failed[f])})} for f in files]
        emit({"name": name, "files": each}, as_json, columns(("FILE", *(header or ["VALUE"] * len(rows[0]))), table))
    if failed:
        names = ", ".join(map(_title, failed))
        kind = RequestError if all(isinstance(error, RequestError) for error in failed.values()) else StorageError
        raise kind(f"{len(failed)} of {len(set(files))} files could not be answered: {names}. The reasons are above.")


def _reason(error: ZooError | OSError) -> str:
    """Return why there is no answer to a file."""
    return str(error) if isinstance(error, ZooError) else f"it cannot be read ({error.strerror or error})."


def _title(file: str) -> str:
    return "standard input" if file == "-" else file


def _data(answer: "Classes | Values") -> dict[str, Any]:
    """Return an answer as JSON data: `values`, with `steps_ahead` of a forecast, or `classes`."""
    from zoo.data.answers import Classes

    if isinstance(answer, Classes):
        pairs = zip(answer.names, answer.probabilities, strict=True)
        return {"classes": [{"class": name, "probability": probability} for name, probability in pairs]}
    return {"values": answer.values, **({"steps_ahead": answer.steps_ahead} if answer.steps_ahead else {})}


def _table(answer: "Classes | Values") -> Table:
    """Return the header and the rows of a table that shows an answer; values that need no label have no header."""
    from zoo.data.answers import Classes

    if isinstance(answer, Classes):
        pairs = zip(answer.names, answer.probabilities, strict=True)
        return ("CLASS", "PROBABILITY"), [(repr(n) if n.isspace() else n, f"{100 * p:.2f} %") for n, p in pairs]
    values = [f"{value:.6g}" for value in answer.values]
    if answer.steps_ahead:
        return ("STEPS AHEAD", "VALUE"), list(zip(map(str, answer.steps_ahead), values, strict=True))
    return (), [tuple(values)]
