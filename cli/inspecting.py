"""`rnnzoo inspect`: why a network does or does not train, by one analysis of zoo.diagnostics."""

from pathlib import Path
from typing import Annotated, Any

import typer

from zoo.diagnostics import ANALYSES, Needs, analysis
from zoo.errors import RequestError

from .catalogue import complete
from .output import AsJson, emit, progress, say

Subject = Annotated[
    str,
    typer.Argument(
        help="Name of a model, a checkpoint's folder, or CELL-LxH, randomly initialised: lstm-12x32.",
        autocompletion=complete,
    ),
]

TAKES: dict[Needs, tuple[str, ...]] = {
    "architecture": (), "network": ("--untrained",), "data": ("--steps", "--examples", "--untrained"),
    "labels": ("--steps", "--examples", "--untrained"), "training": (),
}  # fmt: skip
"""Options that say what an analysis is given, by what it needs; a lattice has its own."""


def inspect(
    name: Subject,
    what: Annotated[
        str, typer.Option(help=f"One of: {', '.join(ANALYSES)}.", autocompletion=lambda: list(ANALYSES))
    ] = "lattice",
    plot: Annotated[Path | None, typer.Option(help="Draw it to this file (.svg, .png, .pdf).")] = None,
    runs: Annotated[int | None, typer.Option(min=2, help="Random networks of a lattice (default: 200).")] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Time steps of a lattice (default: 10), or at most so many of the data.")
    ] = None,
    examples: Annotated[
        int | None, typer.Option(min=1, help="Sequences of the task's test data, where data are needed (default: 128).")
    ] = None,
    untrained: Annotated[
        bool, typer.Option("--untrained", help="Random weights, even if there are trained ones.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Of what is drawn.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Analyse a model: gradients over layers and steps, Jacobians, saturation and more; see --what."""
    row = analysis(what)
    given = {"--runs": runs, "--steps": steps, "--examples": examples, "--untrained": untrained or None}
    takes = ("--runs", "--steps") if what == "lattice" else TAKES[row.needs]
    if idle := [option for option, value in given.items() if value is not None and option not in takes]:
        raise RequestError(f"The analysis {what!r} has no use for {' and '.join(idle)}.")
    from zoo.diagnostics import subject

    if plot is not None:
        from zoo.utils.figures import drawable

        drawable(plot)  # before what takes long
    config = subject.config_of(name)
    arguments: list[Any] = [config]
    options: dict[str, Any] = {}
    if row.needs == "architecture":
        options["seed"] = seed
        if what == "lattice":
            options |= {"runs": runs or 200, "steps": steps or 10}
    elif row.needs == "training":
        arguments = subject.training_arguments(name, config, seed)
    else:
        sample = subject.sample(name, config, examples or 128, steps, untrained, seed, needs=row.needs)
        arguments = sample.arguments(row.needs)
        say(sample.description)
    with progress(f"{what} {name}") as bar:
        if what == "lattice" or row.needs == "training":
            options["report"] = lambda done, total: bar(done, total, f"{done}/{total}")
        found = row.function(*arguments, **options)
    from .pictures import pictured

    emit({"model": name, "what": what, **found.to_json()}, as_json, pictured(found))
    if plot is not None:
        from zoo.diagnostics import drawing

        drawing.draw([(name, found)], row.plot, plot)
        say(f"Wrote {plot}")
