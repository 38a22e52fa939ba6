"""`rnnzoo export`: writes networks as files for other runtimes."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from zoo.errors import RequestError

from .arguments import AsJson, complete_name, expand
from .output import columns, dumped, emit, say


class GraphChoice(StrEnum):
    """Which graph of a network to export: a whole sequence, one step with explicit states, or both."""

    sequence = "sequence"
    step = "step"
    both = "both"


def export(
    name: Annotated[
        str | None,
        Argument(help="A model's name, a checkpoint folder, or hf://org/name.", autocompletion=complete_name),
    ] = None,
    format: Annotated[
        str | None, Option("--format", help="pt2, onnx (default), openvino, executorch, c or wasm.")
    ] = None,
    graph: Annotated[
        GraphChoice | None,
        Option(
            help="A whole sequence, one step with explicit states, or both (default: sequence; for c and wasm, step)."
        ),
    ] = None,
    opset: Annotated[int | None, Option(help="Version of ONNX's operators (default: 20).", metavar="N")] = None,
    quantize: Annotated[str | None, Option(help="int8: store 8-bit weights, with a scale for each row.")] = None,
    out: Annotated[Path | None, Option(help="Folder to write to (default: the current one).")] = None,
    list_: Annotated[
        bool,
        Option("--list", help="Print which formats support which models, with measurements (NAME may be a pattern)."),
    ] = False,
    pin: Annotated[
        bool, Option("--pin", help="Write to cards/NAME and pin the files, so that a push carries them (maintainers).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a model as files for another runtime, and check the files in that runtime.

    The files are NAME.EXTENSION, NAME.step.EXTENSION and, for a model that reads text, NAME.vocabulary.txt.
    """
    if list_:
        if graph or opset is not None or quantize or out or pin:
            raise RequestError("--list writes no file: leave out --graph, --opset, --quantize, --out and --pin.")
        data = matrix(name or "*", format)
        emit(data, as_json, columns(("MODEL", *(f.upper() for f in data[0]["formats"])), [
            (row["model"], *(cell["text"] for cell in row["formats"].values())) for row in data
        ]))  # fmt: skip
        say("N/M: the predictions for N of M examples differ from torch's.")
        return
    if name is None:
        raise RequestError("Name a model to export: rnnzoo export NAME. `rnnzoo list --pretrained` shows the names.")

    if pin and out is not None:
        raise RequestError("--pin writes to cards/NAME: leave out --out.")

    from zoo.exports import writing

    options = {
        "format": "onnx" if format is None else format,
        "graph": graph and graph.value,
        "opset": opset,
        "quantize": quantize,
    }
    if pin:
        from zoo.publishing import release

        written = release.release_exports(name, **options)
        say(f"Pinned in cards/lock.json. Next: rnnzoo push {name} --dry-run")
    else:
        written = writing.export(name, out=out or Path(), **options)  # type: ignore[arg-type]
    rows = [
        (str(w.path), w.graph, f"{w.bytes:,}", f"{w.checked.difference:.1e}", _lengths(w.checked.lengths))
        for w in written
    ]
    data = [{**asdict(w), "path": str(w.path)} for w in written]
    emit(data, as_json, columns(("FILE", "GRAPH", "BYTES", "DIFFERENCE", "RUN AT"), rows))
    say("Each file was compared with a float64 reference.")


def matrix(pattern: str, format: str | None) -> list[dict[str, Any]]:
    """Return a row for each matching model with weights: by format, the graphs that it supports and their measurements.

    format: the only one to show, or None for all. Raises UnknownNameError if no model with weights matches, and for an unknown
    format.
    """
    from zoo import registry
    from zoo.checkpoints import exported
    from zoo.exports.formats import FORMATS, GRAPHS, find_format, graphs_of, why_not

    if format is not None:
        find_format(format)
    measured: dict[tuple[str, str], list[exported.Row]] = {}
    for row in exported.read():
        measured.setdefault((row.model, row.format), []).append(row)
    table = []
    for model in expand([pattern]):
        config, cells = registry.find(model).config, {}
        for each in FORMATS if format is None else [format]:
            reasons = {kind: why_not(config, each, kind) for kind in GRAPHS}
            graphs = graphs_of(config, each)
            kept = measured.get((model, each), [])
            full = next((row for row in kept if row.quantize is None), None)
            note = "" if full is None or full.answers is None else f" {full.different:,}/{full.n:,}"
            cells[each] = {"graphs": graphs, "why_not": reasons, "measured": dumped(kept),
                             "text": f"{'+'.join(graphs)}{note}" if graphs else f"no: {reasons['step']}"}  # fmt: skip
        table.append({"model": model, "formats": cells})
    return table


def _lengths(lengths: tuple[int, ...]) -> str:
    """Return with what inputs an exported file was checked, as text such as "5, 12 steps" or "two batch sizes".

    lengths: the number of time steps of each input; empty for networks without time steps.
    """
    return f"{', '.join(map(str, lengths))} steps" if lengths else "two batch sizes"
