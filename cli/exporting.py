"""`rnnzoo export`: networks as files for other runtimes."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from zoo.errors import RequestError

from .arguments import AsJson, complete_name
from .output import columns, emit, say


class GraphChoice(StrEnum):
    """The graphs of a network, and both of them."""

    sequence = "sequence"
    step = "step"
    both = "both"


def export(
    name: Annotated[
        str | None,
        Argument(help="A model's name, a checkpoint folder, or hf://org/name.", autocompletion=complete_name),
    ] = None,
    format: Annotated[str, Option("--format", help="pt2, onnx, openvino, executorch, c or wasm.")] = "onnx",
    graph: Annotated[
        GraphChoice | None,
        Option(help="A whole sequence, one step with explicit states, or both (default: what the format can hold)."),
    ] = None,
    opset: Annotated[int | None, Option(help="Version of ONNX's operators (default: 20).", metavar="N")] = None,
    quantize: Annotated[str | None, Option(help="int8: store 8-bit weights, with a scale for each row.")] = None,
    out: Annotated[Path, Option(help="Folder of the files.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Write a model for another runtime, and run it there before anybody gets it.

    The files are NAME.EXTENSION, NAME.step.EXTENSION and, of a model that reads text, NAME.vocabulary.txt.
    """
    if name is None:
        raise RequestError("Name a model to export; see `rnnzoo list --pretrained`.")

    from zoo import exports

    written = exports.export(name, format, graph=graph and graph.value, out=out, opset=opset, quantize=quantize)
    rows = [(str(w.path), w.graph, f"{w.bytes:,}", f"{w.checked.difference:.1e}") for w in written]
    data = [{**asdict(w), "path": str(w.path)} for w in written]
    emit(data, as_json, columns(("FILE", "GRAPH", "BYTES", "DIFFERENCE"), rows))
    say(f"Each file was run at {_lengths(written[0].checked.lengths)}, and compared with the equations in float64.")


def _lengths(lengths: tuple[int, ...]) -> str:
    """Return numbers of steps in words."""
    return f"{', '.join(map(str, lengths))} steps" if lengths else "two batch sizes"
