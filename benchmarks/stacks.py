"""Benchmark stacks of STAR and LSTM, 16 x 64 and 4 x 128, over 784 steps of one feature, batch 100, on a CPU.

`python -m benchmarks.stacks [--rounds N] [--threads N] [--out FILE]` measures a forward pass, a training step, one streamed
step and peak memory, side by side in one run, of
- rnnzoo's networks;
- networks of other libraries, with their default setting and with denormal numbers flushed to zero;
- the matrix products alone, which no implementation by torch.mm can beat;
- rnnzoo's fused scan and the other libraries (flushed) under autocast to bfloat16.

For the method see zoo/diagnostics/benchmark. `python -m zoo.publishing.generated` writes the result into docs/speed.md,
`python -m benchmarks.plot` draws it.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cli.bench import race, reduced, table
from cli.output import say
from zoo.diagnostics.benchmark import Contender, Measurement, Workload, machine, ours, peers, products, stack
from zoo.utils import files

SIZES = ((16, 64), (4, 128))
STEPS, BATCH = 784, 100
FOLDER = Path(__file__).parent
PEER = {"star": "torchrecurrent", "lstm": "torch"}


def field(cell: str, layers: int, units: int, steps: int = STEPS) -> list[Contender]:
    """Return the contenders of one cell and size. All sizes at once would need more memory than small machines have."""
    config, peer = stack(cell, layers, units, steps), [PEER[cell]]
    in_float32 = [*ours(config), *peers(config, peer, (False, True)), *products(config)]
    return [*in_float32, *reduced([ours(config)[0], *peers(config, peer)])]


def arguments(description: str | None, rounds: int, out: Path) -> argparse.Namespace:
    """Parse the command line of a benchmark. rounds, out: the defaults of --rounds and --out."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds, help="how often each pass is measured")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=out)
    return parser.parse_args()


def write(path: Path, measurements: Sequence[Measurement], rounds: int) -> None:
    """Write the measurements, the machine and the number of rounds as JSON."""
    setting = machine(measurements[0].work, [measurement.contender for measurement in measurements])
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


def main() -> None:
    """Run the program."""
    options = arguments(__doc__, 3, FOLDER / "stacks.json")
    work = Workload(STEPS, BATCH, options.threads)
    measurements = []
    for layers, units in SIZES:
        for cell in PEER:
            rows = race(field(cell, layers, units), work, options.rounds, f"{cell} {layers} x {units}")
            say(table(rows))
            measurements += rows
    write(options.out, measurements, options.rounds)


if __name__ == "__main__":
    main()
