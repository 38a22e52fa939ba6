"""`rnnzoo inspect`: why a network does or does not train, by one analysis of zoo.diagnostics."""

from pathlib import Path
from typing import Annotated, Any

import typer

from zoo.diagnostics import ANALYSES, analysis

from .catalogue import complete
from .output import AsJson, emit, progress, say

Subject = Annotated[
    str,
    typer.Argument(
        help="Name of a model, a checkpoint's folder, or CELL-LxH, randomly initialised: lstm-12x32.",
        autocompletion=complete,
    ),
]


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
        int, typer.Option(min=1, help="Sequences of the task's test data, where data are needed.")
    ] = 128,
    untrained: Annotated[
        bool, typer.Option("--untrained", help="Random weights, even if there are trained ones.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of what is drawn.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Analyse a model: gradients over layers and steps, Jacobians, saturation and more; see --what."""
    row = analysis(what)
    from zoo.diagnostics import subject

    config = subject.config_of(name)
    given: list[Any] = [config]
    options: dict[str, Any] = {}
    if row.needs == "architecture":
        options["seed"] = seed
        if what == "lattice":
            options |= {"runs": runs or 200, "steps": steps or 10}
    elif row.needs == "training":
        given = subject.course(name, config, seed)
    else:
        sample = subject.sample(name, config, examples, steps, untrained, seed, data=row.needs != "network")
        given = sample.given(row.needs)
        say(sample.text)
    with progress(f"{what} {name}") as bar:
        if what == "lattice" or row.needs == "training":
            options["report"] = lambda done, total: bar(done, total, f"{done}/{total}")
        found = row.function(*given, **options)
    if plot is not None:
        from zoo.diagnostics import drawing

        drawing.draw([(name, found)], row.plot, plot)
        say(f"Wrote {plot}")
    from .pictures import pictured

    emit({"model": name, "what": what, **found.data()}, as_json, pictured(found))
