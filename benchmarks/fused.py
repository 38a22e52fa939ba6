"""Benchmark the cells that a fused scan knows, 2 x 128, by that scan and step by step.

`python -m benchmarks.fused [--rounds N] [--threads N] [--out FILE]` measures a forward pass, a training step, one streamed step
and peak memory on 128 steps of one feature in batches of 64, both scans of a cell side by side. For the method see
zoo/diagnostics/benchmark. `python -m zoo.publishing.generated` writes the result into docs/speed.md.
"""

from zoo.cells import CELLS, cell_class
from zoo.networks.kernels.plans import PLANS

from .common import FOLDER, compare_scans


def main() -> None:
    """Run the program."""
    cells = [cell for cell in CELLS if cell_class(cell) in PLANS]
    compare_scans(__doc__, FOLDER / "fused.json", cells, (2, 128), (128, 64))


if __name__ == "__main__":
    main()
