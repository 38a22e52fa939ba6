"""`rnnzoo list`, `show` and `compare`: look up models. Slow imports stand inside functions, so these commands start fast."""

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

from typer import Option

from zoo import registry
from zoo.cells import CELLS, FEEDFORWARD, ROWS
from zoo.cells.properties import PROPERTIES, properties_of
from zoo.checkpoints import figures
from zoo.errors import RequestError, UnknownNameError
from zoo.registry import index
from zoo.registry.metrics import TARGETS
from zoo.utils.arguments import is_pattern, matching

from .arguments import AsJson, CellOption, Patterns, Plot, TaskOption, Timeout, model_argument
from .output import columns, emit, say


class Sorting(StrEnum):
    """The orders in which `rnnzoo list` can sort models."""

    name = "name"
    accuracy = "accuracy"
    parameters = "parameters"
    speed = "speed"


def list_(
    patterns: Patterns = None,
    exclude: Annotated[
        list[str] | None, Option(metavar="PATTERN", help="Leave out what matches this pattern; may be repeated.")
    ] = None,
    task: TaskOption = None,
    cell: CellOption = None,
    pretrained: Annotated[bool | None, Option(help="Only models with weights, or only models without.")] = None,
    sort: Annotated[Sorting, Option(help="Best, smallest or fastest (fewest multiply-adds) first.")] = Sorting.name,
    cells: Annotated[bool, Option("--cells", help="List the cells instead of the models.")] = False,
    tasks: Annotated[bool, Option("--tasks", help="List the tasks instead of the models.")] = False,
    properties: Annotated[
        list[str] | None,
        Option("--property", help=f"With --cells, only cells with this property: {', '.join(PROPERTIES)}."),
    ] = None,
    remote: Annotated[bool, Option("--remote", help="List the models of --namespace on the Hub instead.")] = False,
    namespace: Annotated[
        str | None,
        Option(help="User or organisation on the Hub, for --remote (default: the registry's `namespace`)."),
    ] = None,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """List the models that match any of the patterns."""
    patterns, exclude = patterns or ["*"], exclude or []
    if remote:
        if task or cell or pretrained is not None or cells or tasks or properties or sort != Sorting.name:
            raise RequestError(
                "--remote can be combined only with --exclude, --namespace, --timeout and --json: leave the other options out."
            )
        _list_remote(patterns, exclude, namespace, timeout, as_json)
        return
    if namespace is not None or timeout is not None:
        raise RequestError("--namespace and --timeout are for the Hub: add --remote.")
    if (cells or tasks) and (task or cell or sort != Sorting.name or (cells and tasks)):
        raise RequestError(
            "--cells and --tasks cannot be combined with each other, --task, --cell or --sort: leave these out."
        )
    if properties and not cells:
        raise RequestError("--property is a property of cells: add --cells.")
    if tasks:
        _list_tasks(registry.list_tasks(patterns, exclude=exclude, pretrained=pretrained), as_json)
        return
    if cells:
        cells_found = registry.list_cells(patterns, exclude=exclude, properties=properties or (), pretrained=pretrained)
        _list_cells(cells_found, as_json)
        return
    known = _summaries()
    models = _sorted(_matches(known, patterns, exclude, task, cell, pretrained), sort)
    if not models:
        say("No model matches. `rnnzoo list` shows every model; '*part*' matches a part of a name.")
    elif unmatched := [pattern for pattern in patterns if not matching(known, pattern)]:
        say(f"No model is called {' or '.join(map(repr, unmatched))}.")
    _emit_models(models, as_json)


def _emit_models(models: Sequence[tuple[str, index.Summary]], as_json: bool, costs: bool = False) -> None:
    """Print a row for each model. costs: also print its multiply-adds."""
    header = ("NAME", "TASK", "PARAMETERS", *(["MULTIPLY-ADDS"] if costs else []), "MEASURED", "REPORTED", "WEIGHTS")
    rows, table = [], []
    for name, model in models:
        values = _figures(name, model)
        sizes = {} if model.parameters is None or costs else {"parameters": model.parameters}
        if not sizes:
            from zoo.publishing import cards

            counts = cards.counts(name)
            sizes = {"parameters": counts.parameters} | ({"multiply_adds": counts.multiply_adds} if costs else {})
        rows.append({
            "name": name, "cell": model.cell, "task": model.task, **sizes,
            "measured": fmean(values) if values else None, "runs": len(values), "weights": model.pretrained,
            "reported_percent": list(model.reported_percent), "reported": model.reported_text,
        })  # fmt: skip
        texts = (f"{size:,}" for size in sizes.values())
        measured_text = TARGETS[model.target].mean_text(values) if values else None
        table.append(
            (name, model.task, *texts, measured_text, model.reported_text, "yes" if model.pretrained else None)
        )
    emit(rows, as_json, columns(header, table))


def _figures(name: str, model: index.Summary) -> tuple[float, ...]:
    """Return the test figure of a model's weights; without weights, those of its runs by one recipe, () if there are none."""
    return tuple(figures.shown(figures.test_figures(name), model.pretrained))


def _summaries() -> dict[str, index.Summary]:
    """Return registry.summaries() without its slow imports if the index in cards/lock.json is up to date."""
    return index.read() or registry.summaries()


def _matches(
    models: dict[str, index.Summary], patterns: Sequence[str], exclude: Sequence[str], task: str | None, cell: str | None,
    pretrained: bool | None,
) -> dict[str, index.Summary]:  # fmt: skip
    """Return, by name, those summaries of `models` that registry.list_models returns for the other arguments."""
    tasks, cells = ({getattr(model, field) for model in models.values()} for field in ("task", "cell"))
    if task not in (None, *tasks) or cell not in (None, *cells):
        registry.list_models(task=task, cell=cell)  # raises UnknownNameError unless a task or cell has no models
    return {name: models[name] for name in index.select(models, patterns, exclude, task, cell, pretrained)}


def _sorted(models: dict[str, index.Summary], sort: Sorting) -> list[tuple[str, index.Summary]]:
    """Return (name, summary) pairs sorted by `sort`: the best, smallest or fastest first, those without a number last."""
    if sort == Sorting.name:
        return list(models.items())
    counts = registry.load_lock().counts

    def rank(item: tuple[str, index.Summary]) -> tuple[bool, float, str]:
        name, model = item
        if sort == Sorting.accuracy:
            values = _figures(name, model)
            return not values, -TARGETS[model.target].quality(fmean(values) if values else 0.0), name
        count = counts.get(name)
        number = count and (count.parameters if sort == Sorting.parameters else count.multiply_adds)
        return number is None, number or 0, name

    return sorted(models.items(), key=rank)


def _named(patterns: Sequence[str]) -> list[tuple[str, index.Summary]]:
    """Return a (name, summary) pair for each model that matches one of the patterns, which may be names.

    Raises UnknownNameError for a pattern that matches no model.
    """
    models = _summaries()
    names: dict[str, None] = {}
    for pattern in patterns:
        matches = matching(models, pattern)
        if not matches:
            raise registry.unknown_model(pattern)
        names |= dict.fromkeys(matches)
    return [(name, models[name]) for name in names]


def _list_cells(cells: Sequence[str], as_json: bool) -> None:
    models, papers = registry.summaries(), registry.load_registry().papers
    rows: list[dict[str, Any]] = []
    for cell in cells:
        mine, paper = [model for model in models.values() if model.cell == cell], papers.get(ROWS[cell].paper)
        rows.append({
            "cell": cell, "title": ROWS[cell].title, "paper": paper and f"{paper.authors.partition(',')[0]} {paper.year}",
            "properties": properties_of(cell), "models": len(mine),
            "with_weights": sum(model.pretrained for model in mine),
        })  # fmt: skip
    if not rows:
        say("No cell matches. `rnnzoo list --cells` shows every cell; '*part*' matches a part of a name.")
    header = ("CELL", "WHAT IT IS", "FIRST AUTHOR", "MODELS", "WITH WEIGHTS")
    table = [tuple(value for key, value in row.items() if key != "properties") for row in rows]
    emit(rows, as_json, columns(header, table))


def _list_tasks(tasks: Sequence[str], as_json: bool) -> None:
    models, known = registry.summaries(), registry.load_registry().all_tasks
    rows: list[dict[str, Any]] = []
    for task in tasks:
        mine = [model for model in models.values() if model.task == task]
        rows.append({
            "task": task, "title": known[task].title, "metric": TARGETS[known[task].target].metric, "models": len(mine),
            "with_weights": sum(model.pretrained for model in mine),
        })  # fmt: skip
    if not rows:
        say("No task matches. `rnnzoo list --tasks` shows every task; '*part*' matches a part of a name.")
    header = ("TASK", "WHAT IT IS", "METRIC", "MODELS", "WITH WEIGHTS")
    emit(rows, as_json, columns(header, [tuple(row.values()) for row in rows]))


def _list_remote(
    patterns: Sequence[str], exclude: Sequence[str], namespace: str | None, timeout: float | None, as_json: bool
) -> None:
    from zoo.checkpoints.hub import browse
    from zoo.checkpoints.references import SCHEME
    from zoo.registry.schema import PACKAGE_NAMESPACE

    namespace = namespace or registry.load_registry().namespace or PACKAGE_NAMESPACE
    everything = {r.repo.partition("/")[2]: r for r in browse.catalogue(namespace, timeout)}
    repositories = [everything[name] for name in matching(everything, patterns, exclude)]
    pins = registry.load_lock().commits
    if not repositories:
        say(f"{namespace} has no matching model of rnnzoo on the Hub.")
    rows = [{**asdict(r), "pinned": pins.get(r.repo) == r.revision is not None} for r in repositories]
    table = [
        (
            f"{SCHEME}{r.repo}", r.revision and r.revision[:8], r.modified and r.modified[:10],
            "private" if r.private else None, "pinned" if row["pinned"] else None,
        )
        for r, row in zip(repositories, rows, strict=True)
    ]  # fmt: skip
    emit(rows, as_json, columns(("ADDRESS", "COMMIT", "MODIFIED", "", ""), table))


def show(
    name: Annotated[
        str,
        model_argument("A model's or a cell's name, a checkpoint folder, hf://org/name or hf://org/name@revision."),
    ],
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Show one model: architecture, task, recipe, and reported and measured figures.

    For a cell, show its equations, states, options, parameters and models. For a folder or an address on the Hub, show the
    content of its config.json and results.json.
    """
    cell = name.lower()  # as people write LSTM; no model's name is that of a cell
    registry.load_registry()  # which may declare the cell
    if cell in CELLS:
        from zoo.publishing import cell_facts

        emit(cell_facts.data(cell), as_json, cell_facts.text(cell))
        return
    if cell in FEEDFORWARD:
        raise RequestError(
            f"{cell} is feed-forward, so it has no recurrent equations. `rnnzoo list --cell {cell}` shows its models."
        )
    from zoo.checkpoints.references import Reference

    from .describing import describe

    try:
        reference = Reference.parse(name)
    except UnknownNameError:
        if name in registry.load_registry().all_tasks:
            raise RequestError(f"{name} is a task: rnnzoo list --task {name}") from None
        hint = "`rnnzoo list` shows every model, `rnnzoo list --cells` every cell."
        raise UnknownNameError("model or cell", name, [*registry.summaries(), *CELLS], hint) from None
    data, text = describe(reference, timeout)
    emit(data, as_json, text)
    if reference.repo is not None:
        say("These data come from the Hub and were not compared with a pin.")


def compare(
    patterns: Patterns = None,
    task: TaskOption = None,
    cell: CellOption = None,
    paper: Annotated[str | None, Option(help="Only figures of this paper (a key of sources.yaml).")] = None,
    measured: Annotated[bool, Option("--measured/--all", help="Only measured models, or all models.")] = False,
    runs: Annotated[Path | None, Option(help="Use the runs in this folder instead of the published results.")] = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Compare papers' figures with measured figures, or several models with one another.

    One pattern or none gives a row for each figure; a plot shows the figures against depth. If no pattern, --cell,
    --measured or --runs is given, the last rows are papers' figures of networks that are not models of the zoo.

    Several names or patterns give a row for each model: its size, its cost, and its figures.
    """
    if patterns and len(patterns) > 1:
        if task or cell or paper or measured or runs or plot:
            raise RequestError("The options of compare are for one pattern: leave them out to compare several models.")
        _emit_models(_named(patterns), as_json, costs=True)
        return
    from zoo.publishing import comparison
    from zoo.publishing.pages import literature

    if plot is not None:
        from zoo.utils.plotting import picture_format

        picture_format(plot)  # a wrong file name is refused before the work
    (pattern,) = patterns or ["*"]
    if patterns and not is_pattern(pattern):
        _named(patterns)  # refuses a name that does not exist
    options = {} if runs is None else {"results_of": comparison.in_folder(runs)}
    rows = comparison.rows(pattern, task=task, cell=cell, paper=paper, measured=measured, **options)
    if plot is not None:
        from zoo.publishing import plots

        plots.against_depth(rows, plot)
        say(f"Wrote {plot}")
    if not (patterns or cell or measured or runs):
        rows += literature.rows(task, paper)
    if not rows and runs is not None:
        say(
            f"Nothing to compare: no run in {runs} that fits has a recorded figure. To record one: rnnzoo eval {runs}/RUN --record"
        )
    elif not rows:
        say(
            f"Nothing to compare: no model that matches {pattern!r} and the options has a reported or measured figure. Write a "
            "model's whole name, with its task, or a pattern such as 'lstm-*'; `rnnzoo list` shows every model."
        )
    header = ("MODEL", "FIGURE", "REPORTED", "MEASURED", "DIFFERENCE", "N", "TRAINED BY", "SEED")
    table = [
        (
            r.model, r.paper and f"{r.paper}, {r.table}", r.reported_text, r.measured_text, r.difference_text,
            r.n and f"{r.n:,}", r.training_text, r.seed_text,
        )
        for r in rows
    ]  # fmt: skip
    derived = ("std", "span", "seed", "difference")
    data = [{**asdict(r), **{name: getattr(r, name) for name in derived}} for r in rows]
    emit(data, as_json, columns(header, table))
