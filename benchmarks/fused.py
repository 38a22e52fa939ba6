"""Benchmark the cells that a fused scan knows, 2 x 128, by that scan and step by step.

`python -m benchmarks.fused [--rounds N] [--threads N] [--out FILE]` measures a forward pass, a training step, one streamed step
and peak memory on 128 steps of one feature in batches of 64, both scans of a cell side by side. For the method see
zoo/diagnostics/benchmark. `python -m zoo.publishing.generated` writes the result into docs/speed.md.
"""

from cli.bench import race, table
from cli.output import say
from zoo.cells import CELLS, cell_class
from zoo.diagnostics.benchmark import Workload, ours, stack
from zoo.networks.kernels.plans import PLANS

from .common import FOLDER, arguments, write

LAYERS, UNITS = 2, 128
STEPS, BATCH = 128, 64


def main() -> None:
    """Run the program."""
    options = arguments(__doc__, 5, FOLDER / "fused.json")
    work = Workload(STEPS, BATCH, options.threads)
    measurements = []
    for cell in CELLS:
        if cell_class(cell) in PLANS:
            rows = race(ours(stack(cell, LAYERS, UNITS, STEPS)), work, options.rounds, f"{cell} {LAYERS} x {UNITS}")
            say(table(rows))
            measurements += rows
    write(options.out, measurements, options.rounds)


if __name__ == "__main__":
    main()
