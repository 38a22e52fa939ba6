"""Train every cell by one protocol, benchmarks/protocol.yaml, and record its figures in cards/leaderboard.json.

`python -m benchmarks.leaderboard [--task T...] [--cell C...] [--runs DIR] [--jobs N] [--ray ADDRESS]` trains, for each task and
cell, the first seed at each learning rate and the other seeds at the best rate, and measures all seeds on the test set. Finished
runs stay in DIR, so the same command continues after an interruption. With --jobs or --ray, cells are measured at once, each in
a process, here or on a Ray cluster whose machines share this checkout and DIR. A cell that diverges gets a row, too. Steps are
timed in processor time, so that other load on the machine matters little. `rnnzoo leaderboard` and docs/leaderboard.md show the
rows.
"""

import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import torch

from cli.output import CONTINUES, board, say
from zoo import load, registry
from zoo.cells import CELLS, cell_class, cell_row
from zoo.cells.matrix import MatrixRecurrence
from zoo.cells.rows import Number
from zoo.checkpoints import configs, leaderboard, results
from zoo.checkpoints import protocol as protocols
from zoo.checkpoints.protocol import Protocol
from zoo.data import task_data
from zoo.data.listening import stepper
from zoo.errors import RequestError, TrainingError, ZooError
from zoo.networks import sizes
from zoo.networks.builder import build
from zoo.networks.golden import example_input
from zoo.registry import Entry
from zoo.registry.metrics import TARGETS
from zoo.registry.schema import Config, Embedding, Model, Optimizer, Recipe
from zoo.training import jobs
from zoo.training.evaluation import evaluate
from zoo.training.trainer import train
from zoo.utils import provenance
from zoo.utils.arguments import check_name

from .common import command_line, seconds_of_step

NAME = "leaderboard"
DISTURBED = 2.0  # times as long as the fastest run: see `undisturbed`


def entry_of(protocol: Protocol, cell: str, task: str) -> Entry:
    """Return a registry entry for a cell's network on a task, with the number of units that fits the protocol best.

    Raises RequestError if no number of units is within the tolerance.
    """
    known, budget, paper = registry.load_registry(), protocol.tasks[task], cell_row(cell).paper
    spec = known.all_tasks[task]
    recipe = Recipe(
        optimizer=Optimizer(name="adam", lr=protocol.rates[0]), schedule=protocol.schedule, max_grad_norm=protocol.max_grad_norm,
        batch_size=budget.batch_size, epochs=budget.epochs,
    )  # fmt: skip
    embedding = Embedding(size=64, trainable=True) if spec.vocabulary else None
    options = protocol.options.get(cell, {})
    dividing = [options[key] for key, choice in cell_row(cell).options.items() if key in options and divides(choice)]

    def sized(units: int) -> Entry:
        model = Model(
            cell=cell, layers=protocol.layers_on(task), units=units, task=task, recipe=NAME, tag=NAME, embedding=embedding,
            standardize=not spec.vocabulary, options=options,
        )  # fmt: skip
        return Entry(
            model.name, model, spec, known.datasets[spec.dataset], recipe, None, {paper: known.papers[paper]}, None
        )

    return sized(units_for(protocol, lambda units: parameters(sized(units).config), math.lcm(*dividing)))


def units_for(protocol: Protocol, count: Callable[[int], int], multiple: int = 1) -> int:
    """Return the number of units for which `count(units)`, the number of parameters, is nearest to the protocol's.

    The number of units is a multiple of `multiple`. Raises RequestError if the two numbers of parameters differ by more than
    the tolerance.
    """
    high = 1
    while count(multiple * high) < protocol.parameters:
        high *= 2
    low = high // 2 + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if count(multiple * middle) < protocol.parameters else (low, middle)
    known = (multiple * each for each in (low - 1, low) if each)
    best = min(known, key=lambda units: abs(count(units) - protocol.parameters))
    if abs(count(best) - protocol.parameters) > protocol.tolerance * protocol.parameters:
        raise RequestError(
            f"{count(best):,} parameters with {best} units are not within the tolerance, {protocol.tolerance:.0%} of "
            f"{protocol.parameters:,}. Change `parameters` or `tolerance` in benchmarks/protocol.yaml."
        )
    return best


def divides(choice: object) -> bool:
    """Return whether an option, by what it can be, has to divide the number of units."""
    return isinstance(choice, Number) and choice.divides_units


def parameters(config: Config) -> int:
    """Return the number of trainable parameters of a network."""
    return sizes.parameters(build(config, device="meta"))


def run(entry: Entry, folder: Path, rate: float, seed: int) -> results.Training:
    """Train to `folder`, unless the run there is finished, and return its training. If it diverged, `diverged` is set."""
    overrides = {"optimizer": {"name": "adam", "lr": rate}, "seed": seed}
    earlier = results.read(folder).training if folder.is_dir() else None
    if earlier is not None and (earlier.diverged or earlier.finished):
        config = folder / configs.FILE  # a run that diverged in its first epoch has none
        same = earlier.model == entry.name and (not config.exists() or configs.read(config) == entry.config)
        if not same or earlier.recipe.settings != entry.recipe_with(overrides).settings:
            raise RequestError(
                f"{folder} holds a run of another protocol. Remove it, or choose another folder for --runs."
            )
        return earlier
    try:
        return train(entry, folder, device="cpu", overrides=overrides)
    except TrainingError:
        training = results.read(folder).training
        if training is None or training.diverged is None:
            raise
        return training


def measure(protocol: Protocol, cell: str, task: str, runs: Path) -> leaderboard.Row:
    """Train a cell on a task by the protocol, and return its row. Raises UnknownNameError for a cell that is not ranked."""
    check_name("ranked cell", cell, ranked_cells(), "The protocol says which cells are left out.")
    entry = entry_of(protocol, cell, task)
    home = runs / task / cell

    def folder(rate: float, seed: int) -> Path:
        return home / f"rate-{rate:g}" / f"seed-{seed}"

    first = protocol.seeds[0]
    losses: dict[float, float | None] = {}
    for rate in protocol.rates:
        training = run(entry, folder(rate, first), rate, first)
        losses[rate] = None if training.diverged or training.best is None else training.best.validation_loss
    known = {rate: loss for rate, loss in losses.items() if loss is not None}
    shown: dict[str, Any] = {}
    if known:
        best = min(known, key=known.__getitem__)
        trainings = {seed: run(entry, folder(best, seed), best, seed) for seed in protocol.seeds}
        values = {
            seed: None if training.diverged else tested(folder(best, seed)) for seed, training in trainings.items()
        }
        kept = {seed: value for seed, value in values.items() if value is not None}
        shown = {
            "rate": best, "values": tuple(kept.values()), "diverged": tuple(seed for seed in trainings if seed not in kept),
            "step_us": step_us(folder(best, first)),
            "seconds": undisturbed([[epoch.seconds for epoch in trainings[seed].history] for seed in kept or [first]]),
        }  # fmt: skip
    examples = training_examples(entry)
    updates = entry.recipe.epochs * (examples // entry.recipe.batch_size)
    return leaderboard.Row(
        task=task, cell=cell, units=entry.model.units, parameters=parameters(entry.config),
        rates={f"{rate:g}": loss for rate, loss in losses.items()}, updates=updates, metric=TARGETS[entry.task.target].metric, cpu=provenance.device_name(torch.device("cpu")), date=provenance.today(),
        command=f"python -m benchmarks.leaderboard --task {task} --cell {cell}", **shown,
    )  # fmt: skip


def undisturbed(runs: Sequence[Sequence[float]]) -> float | None:
    """Return the mean seconds of the runs of a network that were not disturbed, or None if all were.

    runs: for each run, the seconds from its start to the end of each epoch. A run is disturbed, by a pause or by other work on
    the machine, if an epoch took it more than DISTURBED times as long as the fastest run.
    """
    epochs = [[end - start for start, end in pairwise([0.0, *run])] for run in runs]
    fastest = [min(run[number] for run in epochs if number < len(run)) for number in range(max(map(len, epochs)))]
    kept = [sum(run) for run in epochs if all(own <= DISTURBED * best for own, best in zip(run, fastest, strict=False))]
    return round(sum(kept) / len(kept), 1) if kept else None


def tested(folder: Path) -> float | None:
    """Return the test figure of a run, or None if its states overflow on the test data."""
    try:
        return evaluate(folder, device="cpu").value
    except TrainingError:
        return None


def training_examples(entry: Entry) -> int:
    """Return the number of training examples of a task."""
    return len(task_data(entry.task, entry.dataset).split("train"))


@torch.inference_mode()
def step_us(folder: Path) -> float:
    """Return the microseconds of one time step at batch size 1, the minimum of several rounds.

    Steps are taken by the network's stream if it has one.
    """
    network = load(folder, device="cpu")
    x = example_input(network)[0][:1, 0]
    return round(1e6 * seconds_of_step(stepper(network).step, x, time.process_time), 1)


def ranked_cells() -> list[str]:
    """Return the names of the cells that the leaderboard ranks: all whose state is a vector, but those left out by the protocol.

    Cells with a matrix as state are left out: with hundreds of units, the state would have more numbers than the network has
    parameters.
    """
    trained = (cell for cell in CELLS if not cell_class(cell).frozen)  # the protocol's parameters are trained
    left_out = protocols.read().left_out
    return sorted(c for c in trained if c not in left_out and not issubclass(cell_class(c), MatrixRecurrence))


def main() -> None:
    """Run the program."""
    protocol = protocols.read()
    parser = command_line(__doc__)
    several: dict[str, Any] = {"nargs": "*", "action": "extend", "default": []}
    parser.add_argument("--task", choices=list(protocol.tasks), help="default: all", **several)
    parser.add_argument("--cell", metavar="CELL", help="default: all that have no row yet", **several)
    parser.add_argument("--runs", type=Path, default=Path("runs/leaderboard"), help="folder of the training runs")
    parser.add_argument("--jobs", type=int, help="cells to measure at once (default: 1; with --ray, all)")
    parser.add_argument("--ray", help="Ray cluster: its address, `auto`, or `local` to start one")
    chosen = parser.parse_args()
    pairs = unmeasured(protocol, chosen.task, chosen.cell)
    if chosen.ray is not None or chosen.jobs is not None:
        failed = at_once(pairs, chosen.runs.absolute(), chosen.jobs, chosen.ray)
    else:
        failed = one_by_one(pairs, protocol, chosen.runs)
    if failed:
        lines = [f"{name}: {reason}" for name, reason in failed.items()]
        raise TrainingError("\n".join(["These could not be measured:", *lines]))


def unmeasured(protocol: Protocol, tasks: Sequence[str], cells: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (task, cell) for each of `tasks` (default: all) and of `cells` (default: those without a row on the task)."""
    for task, cell in dict.fromkeys(product(tasks or protocol.tasks, cells or ranked_cells())):
        # asked anew each time: another process may have measured the cell meanwhile
        if cells or (task, cell) not in {(row.task, row.cell) for row in leaderboard.read()}:
            yield task, cell


def one_by_one(pairs: Iterable[tuple[str, str]], protocol: Protocol, runs: Path) -> dict[str, str]:
    """Measure each (task, cell) of `pairs` in this process. Return why those that failed did, by TASK/CELL."""
    torch.set_num_threads(1)
    failed = {}
    for task, cell in pairs:
        try:
            row = measure(protocol, cell, task, runs)
        except ZooError as error:
            say(f"{task}, {cell}: {error}")
            failed[f"{task}/{cell}"] = str(error)
            continue
        leaderboard.record(row)
        say(f"{task}, {cell}: {row.text}")
    return failed


def at_once(pairs: Iterable[tuple[str, str]], runs: Path, count: int | None, ray: str | None) -> dict[str, str]:
    """Measure each (task, cell) of `pairs` in a process of its own: `count` of them at a time here, or on a Ray cluster.

    Return why those that failed did, by TASK/CELL; runs/TASK/CELL/train.log has all that they printed. Raises KeyboardInterrupt
    if a process was stopped.
    """
    path = os.pathsep.join(filter(None, [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH")]))
    environment = {**jobs.environment(threads=1), "PYTHONPATH": path}
    work = [
        jobs.TrainingJob(
            f"{task}/{cell}", runs / task / cell, ("--task", task, "--cell", cell, "--runs", str(runs)), environment,
            module="benchmarks.leaderboard",
        )
        for task, cell in pairs
    ]  # fmt: skip
    with board("leaderboard") as show, jobs.open_workers(count, ray, threads=1, gpus=0) as started:
        states = jobs.run(work, started, lambda each: show({name: (at.phase, at.text) for name, at in each.items()}))
    if any(at.phase == "stopped" for at in states.values()):
        raise KeyboardInterrupt
    return {name: at.text.removeprefix(f"{name}: ") for name, at in states.items() if at.phase == "failed"}


if __name__ == "__main__":
    try:
        main()
    except ZooError as error:
        say(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        say(CONTINUES)
        sys.exit(jobs.INTERRUPTED)
