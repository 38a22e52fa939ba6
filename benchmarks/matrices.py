"""Benchmark the cells whose state is a matrix, and S4D, with a vector for each unit: 2 x 64, by their linear scan and step by step.

`python -m benchmarks.matrices [--rounds N] [--threads N] [--out FILE]` measures a forward pass, a training step and peak memory
on 784 steps of one feature in batches of 8, both scans of a cell side by side. For the method see zoo/diagnostics/benchmark.
`python -m zoo.publishing.generated` writes the result into docs/speed.md.
"""

from zoo.cells import CELLS, cell_class
from zoo.cells.matrix import MatrixRecurrence
from zoo.cells.structured import S4D

from .common import FOLDER, compare_scans


def main() -> None:
    """Run the program."""
    cells = [cell for cell in CELLS if issubclass(cell_class(cell), MatrixRecurrence | S4D)]
    compare_scans(__doc__, FOLDER / "matrices.json", cells, (2, 64), (784, 8))


if __name__ == "__main__":
    main()
