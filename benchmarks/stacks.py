"""Stacks over 784 steps of one feature, batch 100, side by side in one run: STAR and LSTM, 16 x 64 and 4 x 128.

`python -m benchmarks.stacks [--rounds N] [--threads N] [--out FILE]`: a forward pass, a training step, one streamed step
and peak memory of rnnzoo's networks, the peers' as they come and flushed, the matrix products alone, which no
implementation by torch.mm can beat, and the fused scan and the flushed peers under autocast, in bfloat16. How it
measures: zoo/diagnostics/benchmark. `python -m zoo.publishing.generated` takes the result into the README, `python -m benchmarks.plot`
draws it.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from cli.machine import race, reduced, table
from cli.output import say
from zoo.diagnostics.benchmark import Contender, Measurement, Workload, machine, ours, peers, products, stack
from zoo.utils import files

SIZES = ((16, 64), (4, 128))
STEPS, BATCH = 784, 100
FOLDER = Path(__file__).parent


PEER = {"star": "torchrecurrent", "lstm": "torch"}


def field(cell: str, layers: int, units: int, steps: int = STEPS) -> list[Contender]:
    """The contenders of one cell and size; not of all, whose memory together is more than a small machine has."""
    config = stack(cell, layers, units, steps)
    fastest, against = ours(config)[:1], [PEER[cell]]
    own = [*ours(config), *peers(config, against, (False, True)), *products(config)]
    return [*own, *reduced([*fastest, *peers(config, against)])]


def arguments(description: str | None, rounds: int, out: Path) -> argparse.Namespace:
    """The command line of a benchmark."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds, help="after a warm-up; the median counts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=out)
    return parser.parse_args()


def write(path: Path, found: Sequence[Measurement], rounds: int) -> None:
    """The results as committed data, with the machine."""
    contenders = [row.contender for row in found]
    head = json.dumps({"machine": machine(found[0].work, contenders), "rounds": rounds}, indent=1)
    rows = ",\n".join(json.dumps(row.to_json()) for row in found)  # a line each, for readable differences
    files.atomic_write(path, (head[: -len("\n}")] + ',\n "contenders": [\n' + rows + "\n ]\n}\n").encode())
    say(f"Wrote {path}")


def main() -> None:
    """The program."""
    given = arguments(__doc__, 3, FOLDER / "stacks.json")
    work = Workload(STEPS, BATCH, given.threads)
    found = []
    for layers, units in SIZES:
        for cell in PEER:
            own = race(field(cell, layers, units), work, given.rounds, f"{cell} {layers} x {units}")
            say(table(own))
            found += own
    write(given.out, found, given.rounds)


if __name__ == "__main__":
    main()
