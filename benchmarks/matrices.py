"""Benchmark the cells whose state is a matrix, and S4D, with a vector for each unit: 2 x 64, by their linear scan and step by step.

`python -m benchmarks.matrices [--rounds N] [--threads N] [--out FILE]` measures a forward pass, a training step and peak memory
on 784 steps of one feature in batches of 8, both scans of a cell side by side. For the method see zoo/diagnostics/benchmark.
`python -m zoo.publishing.generated` writes the result into docs/speed.md.
"""

from cli.bench import race, table
from cli.output import say
from zoo.cells import CELLS, cell_class
from zoo.cells.matrix import MatrixRecurrence
from zoo.cells.structured import S4D
from zoo.diagnostics.benchmark import Workload, ours, stack

from .common import FOLDER, arguments, write

LAYERS, UNITS = 2, 64
STEPS, BATCH = 784, 8


def main() -> None:
    """Run the program."""
    options = arguments(__doc__, 5, FOLDER / "matrices.json")
    work = Workload(STEPS, BATCH, options.threads)
    measurements = []
    for cell in CELLS:
        if issubclass(cell_class(cell), MatrixRecurrence | S4D):
            rows = race(ours(stack(cell, LAYERS, UNITS, STEPS)), work, options.rounds, f"{cell} {LAYERS} x {UNITS}")
            say(table(rows))
            measurements += rows
    write(options.out, measurements, options.rounds)


if __name__ == "__main__":
    main()
