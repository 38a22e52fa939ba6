"""Benchmark the exponential of an antisymmetric matrix, and its gradient, next to torch.linalg.matrix_exp.

`python -m benchmarks.exponential [--rounds N] [--threads N] [--out FILE]` measures both functions in turn, on W - W^H for real
and complex matrices W of several sizes whose entries have the variance 1 / n, and stores the least seconds of each pass.
`python -m zoo.publishing.generated` writes the result into docs/speed.md.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from zoo.cells.exponential import exponential
from zoo.diagnostics.benchmark import machine

from .common import FOLDER, arguments, least, write_rows

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {"rnnzoo": exponential, "torch": torch.linalg.matrix_exp}
DTYPES = {"real": torch.float32, "complex": torch.complex64}
SIZES = (64, 128, 256, 512)


def passes(function: Callable[[Tensor], Tensor], a: Tensor) -> dict[str, Callable[[], object]]:
    """Return, by name, the exponential of `a`, and the exponential with its gradient."""
    return {
        "forward": lambda: function(a.detach()),
        "forward + backward": lambda: function(a).backward(torch.ones_like(a)),
    }


def rows(rounds: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind and size of matrix: the least seconds of each pass, {pass: {function: seconds}}."""
    generator = torch.Generator().manual_seed(0)
    for numbers, dtype in DTYPES.items():
        for n in SIZES:
            weight = torch.randn(n, n, dtype=dtype, generator=generator) / n**0.5
            a = (weight - weight.mH).requires_grad_()
            runs = [(of, name, run) for name, f in FUNCTIONS.items() for of, run in passes(f, a).items()]
            seconds: dict[str, dict[str, float]] = {}
            for turn in range(rounds + 1):  # the first is a warm-up
                for of, name, run in runs:
                    known = seconds.setdefault(of, {})
                    took = least(run, 1)
                    known[name] = took if turn < 2 else min(known[name], took)
            yield {"numbers": numbers, "n": n, "seconds": seconds}


def main() -> None:
    """Run the program."""
    options = arguments(__doc__, 10, FOLDER / "exponential.json")
    torch.set_num_threads(options.threads)
    setting = machine(options.threads)
    write_rows(options.out, setting, options.rounds, "rows", list(rows(options.rounds)), "minimum")


if __name__ == "__main__":
    main()
