"""What the benchmarks share: their arguments and files, the least time of a call, and the versions of other programs."""

import argparse
import json
import math
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from torch import Tensor

from cli.bench import race, table
from cli.output import say
from zoo.diagnostics.benchmark import Measurement, Workload, machine, ours, stack
from zoo.utils import files

ROUNDS, STEPS = 5, 200
"""How often steps are timed, and the number of steps of a round."""
FOLDER = Path(__file__).parent
"""The folder of the stored measurements."""


def command_line(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of the command line of a program whose docstring, `description`, has lines of its own."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def arguments(description: str | None, rounds: int, out: Path, threads: bool = True) -> argparse.Namespace:
    """Parse the command line of a benchmark. rounds, out: the defaults of --rounds and --out. threads: whether to have --threads."""
    parser = command_line(description)
    parser.add_argument("--rounds", type=int, default=rounds, help="how often each pass is measured")
    if threads:
        parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=out)
    return parser.parse_args()


def compare_scans(
    description: str | None, out: Path, cells: Sequence[str], size: tuple[int, int], sequences: tuple[int, int]
) -> None:
    """Measure stacks of these cells by their fastest scan and step by step, and write the measurements.

    size: (layers, units). sequences: (steps, batch).
    """
    options, (layers, units), (steps, batch) = arguments(description, 5, out), size, sequences
    work, measurements = Workload(steps, batch, options.threads), []
    for cell in cells:
        rows = race(ours(stack(cell, layers, units, steps)), work, options.rounds, f"{cell} {layers} x {units}")
        say(table(rows))
        measurements += rows
    write(options.out, measurements, options.rounds)


def write(path: Path, measurements: Sequence[Measurement], rounds: int) -> None:
    """Write the measurements, the machine and the number of rounds as JSON."""
    work = measurements[0].work
    setting = machine(work.threads, work.device, [measurement.contender for measurement in measurements])
    write_rows(path, setting, rounds, "contenders", [measurement.to_json() for measurement in measurements])


def write_rows(
    path: Path,
    setting: dict[str, Any],
    rounds: int,
    name: str,
    rows: Sequence[dict[str, Any]],
    statistic: str = "median",
) -> None:
    """Write JSON with the machine, the setting, and `rows` under the key `name`, one line a row for readable diffs."""
    head = json.dumps({"machine": setting, "rounds": rounds, "statistic": statistic}, indent=1).removesuffix("\n}")
    lines = ",\n".join(map(json.dumps, rows))
    files.atomic_write(path, f'{head},\n "{name}": [\n{lines}\n ]\n}}\n'.encode())
    say(f"Wrote {path}")


def seconds_of_step(step: Callable[[Tensor, Any], tuple[Tensor, Any]], x: Tensor, clock: Callable[[], float]) -> float:
    """Return the seconds of one time step, each from the state after the one before: the least of ROUNDS of STEPS steps.

    x: the input of every step, (batch, ...).
    """

    def steps() -> None:
        state: Any = None
        for _ in range(STEPS):
            _, state = step(x, state)

    steps()  # warm-up
    return least(steps, ROUNDS, clock) / STEPS


def least(run: Callable[[], object], rounds: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the least seconds of a call over `rounds` calls, by a clock that returns seconds."""
    best = math.inf
    for _ in range(rounds):
        began = clock()
        run()
        best = min(best, clock() - began)
    return best


def versions(programs: list[str]) -> dict[str, str]:
    """Return {program: version} of Python packages, and of commands that know --version. What is not installed is left out."""
    found = {}
    for program in programs:
        try:
            found[program] = metadata.version(program)
        except metadata.PackageNotFoundError:
            if shutil.which(program):
                answer = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
                found[program] = answer.splitlines()[0].strip()
    return found
