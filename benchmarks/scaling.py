"""Benchmark how the time of a STAR stack grows with steps, batch, layers and units, one varied at a time.

`python -m benchmarks.scaling [--rounds N] [--threads N] [--out FILE]` measures a forward pass and a training step of
rnnzoo's fused scan, of its plain scan, and of torchrecurrent with denormal numbers flushed to zero. For the method see
zoo/diagnostics/benchmark; `python -m benchmarks.plot` draws the result.
"""

from cli.bench import race
from zoo.diagnostics.benchmark import Workload, ours, peers, stack

from .common import FOLDER, arguments, write

BASE = {"steps": 256, "batch": 64, "layers": 4, "units": 64}
VALUES = {
    "steps": (64, 128, 256, 512, 1024), "batch": (4, 16, 64, 256), "layers": (1, 2, 4, 8, 16),
    "units": (16, 32, 64, 128, 256),
}  # fmt: skip


def points() -> list[dict[str, int]]:
    """Return every setting to measure: the base setting once, and those that change one of its values."""
    return [BASE, *({**BASE, key: value} for key, values in VALUES.items() for value in values if value != BASE[key])]


def main() -> None:
    """Run the program."""
    options = arguments(__doc__, 5, FOLDER / "scaling.json")
    measurements = []
    for point in points():
        config = stack("star", point["layers"], point["units"], point["steps"])
        contenders = [*ours(config), *peers(config, ["torchrecurrent"])]
        work = Workload(point["steps"], point["batch"], options.threads)
        measurements += race(contenders, work, options.rounds, f"scaling {point['layers']} x {point['units']}")
    write(options.out, measurements, options.rounds)


if __name__ == "__main__":
    main()
