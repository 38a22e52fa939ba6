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

from cli.bench import race, reduced, table
from cli.output import say
from zoo.diagnostics.benchmark import Contender, Workload, ours, peers, products, stack

from .common import FOLDER, arguments, write

SIZES = ((16, 64), (4, 128))
STEPS, BATCH = 784, 100
PEER = {"star": "torchrecurrent", "lstm": "torch"}


def field(cell: str, layers: int, units: int) -> list[Contender]:
    """Return the contenders of one cell and size. All sizes at once would need more memory than small machines have."""
    config, peer = stack(cell, layers, units, STEPS), [PEER[cell]]
    in_float32 = [*ours(config), *peers(config, peer, (False, True)), *products(config)]
    return [*in_float32, *reduced([ours(config)[0], *peers(config, peer)])]


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
