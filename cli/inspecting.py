"""`rnnzoo inspect`: why a network trains or does not, by one analysis of zoo.diagnostics."""

from pathlib import Path
from typing import Annotated, Any

import typer

from zoo.diagnostics import ANALYSES, Needs
from zoo.diagnostics import analysis as find_analysis
from zoo.errors import RequestError

from .arguments import AsJson, complete_name
from .output import emit, progress, say

Subject = Annotated[
    str,
    typer.Argument(
        help="A model's name, a checkpoint folder, or CELL-LxH with random weights, such as lstm-12x32.",
        autocompletion=complete_name,
    ),
]

OPTIONS: dict[Needs, tuple[str, ...]] = {
    "architecture": (), "network": ("--untrained",), "data": ("--steps", "--examples", "--untrained"),
    "labels": ("--steps", "--examples", "--untrained"), "training": (),
}  # fmt: skip
"""The options that apply to an analysis, by what it needs; lattice has its own."""


def inspect(
    name: Subject,
    analysis: Annotated[
        str, typer.Option(help=f"One of: {', '.join(ANALYSES)}.", autocompletion=lambda: list(ANALYSES))
    ] = "lattice",
    what: Annotated[str | None, typer.Option(hidden=True, help="The former name of --analysis.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it to this file (.svg, .png, .pdf).")] = None,
    runs: Annotated[
        int | None, typer.Option(min=2, metavar="N", help="Random networks of a lattice (default: 200).")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Time steps of a lattice (default: 10), or the most to read of the data."
        ),
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Test sequences, for an analysis that needs data (default: 128)."),
    ] = None,
    untrained: Annotated[
        bool, typer.Option("--untrained", help="Use random weights even if trained ones are published.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=2**31 - 1, metavar="N", help="Seed of random weights and inputs.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Analyse a model: gradients over layers and steps, Jacobians, saturation and more; see --analysis."""
    chosen = what or analysis
    row = find_analysis(chosen)
    given = {"--runs": runs, "--steps": steps, "--examples": examples, "--untrained": untrained or None}
    allowed = ("--runs", "--steps") if chosen == "lattice" else OPTIONS[row.needs]
    if unused := [option for option, value in given.items() if value is not None and option not in allowed]:
        raise RequestError(f"The analysis {chosen!r} does not use {' and '.join(unused)}. Leave it out.")
    from zoo.diagnostics import subject

    if plot is not None:
        from zoo.utils.figures import picture_format

        picture_format(plot)  # a wrong file name is refused before the analysis, which may take long
    config = subject.config_of(name)
    subject.require_network_of(row, config)
    arguments: list[Any] = [config]
    options: dict[str, Any] = {}
    if row.needs == "architecture":
        options["seed"] = seed
        if chosen == "lattice":
            options |= {"runs": runs or 200, "steps": steps or 10}
    elif row.needs == "training":
        arguments = subject.training_arguments(name, config, seed)
    else:
        sample = subject.sample(name, config, examples or 128, steps, untrained, seed, needs=row.needs)
        arguments = sample.arguments(row.needs)
        say(sample.description)
    with progress(f"{chosen} {name}") as bar:
        if chosen == "lattice" or row.needs == "training":
            options["report"] = lambda done, total: bar(done, total, f"{done}/{total}")
        result = row.function(*arguments, **options)
    from .pictures import render

    emit({"model": name, "what": chosen, **result.to_json()}, as_json, render(result))
    if plot is not None:
        from zoo.diagnostics import drawing

        drawing.draw([(name, result)], row.plot, plot)
        say(f"Wrote {plot}")
