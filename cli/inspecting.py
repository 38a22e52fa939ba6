"""`rnnzoo inspect`: runs one of the analyses of zoo.diagnostics, which show why a network trains or does not."""

from typing import Annotated, Any

from typer import Option

from zoo.diagnostics import ANALYSES, Needs
from zoo.diagnostics import analysis as find_analysis
from zoo.errors import RequestError

from .arguments import AsJson, Plot, model_argument, number
from .output import emit, progress, say

Subject = Annotated[
    str,
    model_argument(
        "A model's name, a checkpoint folder, hf://org/name, or CELL-LxH with random weights, such as lstm-12x32."
    ),
]
Analysis = Annotated[str, Option(help=f"One of: {', '.join(ANALYSES)}.", autocompletion=lambda: list(ANALYSES))]
OPTIONS: dict[Needs, tuple[str, ...]] = {
    "architecture": (), "network": ("--untrained",), "data": ("--steps", "--examples", "--untrained"),
    "labels": ("--steps", "--examples", "--untrained"), "training": (),
}  # fmt: skip
"""The options that an analysis accepts, by what the analysis needs. `lattice` accepts --runs and --steps instead."""


def inspect(
    name: Subject,
    analysis: Analysis = "lattice",
    former_name: Annotated[str | None, Option("--what", hidden=True, help="The former name of --analysis.")] = None,
    plot: Plot = None,
    runs: Annotated[int | None, number("Random networks of a lattice (default: 200).", 2)] = None,
    steps: Annotated[int | None, number("Time steps of a lattice (default: 10) or of data (default: all).")] = None,
    examples: Annotated[int | None, number("Test sequences, if the analysis reads data (default: 128).")] = None,
    untrained: Annotated[bool, Option("--untrained", help="Use random weights instead of published ones.")] = False,
    seed: Annotated[int, Option(min=0, max=2**31 - 1, metavar="N", help="Seed of random weights and inputs.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Analyse a model: gradients over layers and steps, Jacobians, saturation and more; see --analysis."""
    chosen = former_name or analysis
    row = find_analysis(chosen)
    given = {"--runs": runs, "--steps": steps, "--examples": examples, "--untrained": untrained or None}
    allowed = ("--runs", "--steps") if chosen == "lattice" else OPTIONS[row.needs]
    if unused := [option for option, value in given.items() if value is not None and option not in allowed]:
        pronoun = "it" if len(unused) == 1 else "them"
        raise RequestError(f"The analysis {chosen!r} does not use {' and '.join(unused)}. Leave {pronoun} out.")
    from zoo.diagnostics import subject

    if plot is not None:
        from zoo.utils.plotting import picture_format

        picture_format(plot)  # refuse a wrong file name before the analysis, which may take long
    config = subject.config_of(name)
    subject.require_network_of(row, config)
    arguments: list[Any] = [config]
    options: dict[str, Any] = {}
    if row.needs == "architecture":
        options["seed"] = seed
        if chosen == "lattice":
            options |= {key: value for key, value in (("runs", runs), ("steps", steps)) if value is not None}
    elif row.needs == "training":
        arguments = subject.training_arguments(name, config, seed)
    else:
        size = {} if examples is None else {"examples": examples}
        sample = subject.sample(name, config, **size, steps=steps, untrained=untrained, seed=seed, needs=row.needs)
        arguments = sample.arguments(row.needs)
        say(sample.description)
    with progress(f"{chosen} {name}") as bar:
        if chosen == "lattice" or row.needs == "training":
            options["report"] = bar
        result = row.function(*arguments, **options)
    from .pictures import render

    emit({"model": name, "analysis": chosen, **result.to_json()}, as_json, render(result, f"{name}: {chosen}"))
    if plot is not None:
        from zoo.diagnostics import drawing

        drawing.draw([(name, result)], row.plot, plot)
        say(f"Wrote {plot}")
