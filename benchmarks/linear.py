"""Benchmark stacks that are linear in their state, 4 x 128, next to torch.nn.GRU and parallel scans written in torch.

`python -m benchmarks.linear [--rounds N] [--out FILE]` measures a training step without its optimizer on sequences of one
feature: of 784 steps in batches of 100, and of 196 to 16,384 steps in batches of 4. The contenders take turns in one run:
- rnnzoo's minGRU and LRU by the fused and linear scans, and their matrix products alone, by torch.mm in float32;
- torch.nn.GRU;
- a minGRU in log space, as its paper computes it (Feng et al. 2024, appendix B): a cumulative sum and a logcumsumexp;
- a minGRU by torch's associative_scan, which is not public in torch 2.13.

A time is the least processor time over the rounds, of one thread, so that other load on the machine matters little.
`python -m benchmarks.plot` draws the result, `python -m zoo.publishing.generated` writes it into docs/speed.md.
"""

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch.nn import functional as F

from cli.output import say
from zoo.diagnostics.benchmark import TRAINING, Contender, Workload, machine, stack
from zoo.diagnostics.benchmark.passes import passes_of

from .common import FOLDER, arguments, least, write_rows

STACK = {"layers": 4, "units": 128}
LAYERS, UNITS = STACK.values()
TASK = {"steps": 784, "batch": 100}
LENGTHS = (196, 784, 3136, 16384)
SHORT = 4
"""Batch size of the sequences of 196 to 16,384 steps."""


def in_log_space(gate: Tensor, candidate: Tensor) -> Tensor:
    """Return all states of a minGRU, (batch, time, units), from h_0 = 0. gate, candidate: its pre-activations, same shape."""
    log_candidate = torch.where(candidate >= 0, (F.relu(candidate) + 0.5).log(), F.logsigmoid(candidate))
    log_kept = F.logsigmoid(-gate).cumsum(1)
    return (log_kept + (F.logsigmoid(gate) + log_candidate - log_kept).logcumsumexp(1)).exp()


def by_associative_scan(gate: Tensor, candidate: Tensor) -> Tensor:
    """Return all states of a minGRU, as in_log_space does, by composing the maps h -> a h + b of neighbouring steps.

    The candidate may be negative.
    """
    z = torch.sigmoid(gate)

    def compose(first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return first[0] * second[0], first[1] * second[0] + second[1]

    states: Tensor = associative_scan(compose, (1 - z, z * candidate), dim=1, combine_mode="generic")[1]
    return states


class MinGRUs(nn.Module):
    """A stack of minGRU layers in torch with a head on the last output."""

    def __init__(self, scan: Callable[[Tensor, Tensor], Tensor]):
        super().__init__()
        self.scan = scan
        self.maps = nn.ModuleList(nn.Linear(UNITS if i else 1, 2 * UNITS) for i in range(LAYERS))
        self.head = nn.Linear(UNITS, 10)

    def forward(
        self,
        x: Tensor,  # (batch, time, 1)
    ) -> Tensor:
        for linear in self.maps:
            x = self.scan(*linear(x).chunk(2, -1))
        return self.head(x[:, -1])


def training_step(network: nn.Module, steps: int, batch: int) -> Callable[[], object]:
    """Return a function that runs a forward and a backward pass, without the optimizer."""
    x = torch.rand(batch, steps, 1)

    def run() -> None:
        network.zero_grad()
        network(x).logsumexp(-1).mean().backward()

    return run


def contenders(steps: int, batch: int) -> dict[str, Callable[[], object]]:
    """Return {name of a contender: function that runs its training step}."""
    work = Workload(steps, batch, 1)
    stacks = (
        ("rnnzoo", "mingru"), ("rnnzoo", "lru"), ("torch", "gru"), ("products", "mingru"), ("products", "lru")
    )  # fmt: skip
    measured = [Contender(library, stack(cell, LAYERS, UNITS, steps)) for library, cell in stacks]
    return {
        **{contender.name: passes_of(contender, work)[TRAINING] for contender in measured},
        "minGRU in log space": training_step(MinGRUs(in_log_space), steps, batch),
        "minGRU by associative_scan": training_step(MinGRUs(by_associative_scan), steps, batch),
    }


def least_of_each(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return {name: least processor seconds over the rounds}. In each round, the functions take turns."""
    seconds = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            seconds[name] = min(seconds[name], least(function, 1, time.process_time))
    return seconds


def main() -> None:
    """Run the program."""
    options = arguments(__doc__, 3, FOLDER / "linear.json", threads=False)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    rows = []
    series = [("task", TASK), *(("length", {"steps": steps, "batch": SHORT}) for steps in LENGTHS)]
    for name, size in series:
        functions = contenders(**size)
        for contender, seconds in least_of_each(functions, options.rounds).items():
            say(f"{contender}, {size['steps']} steps in batches of {size['batch']}: {seconds:.3g} s")
            rows.append({"series": name, "contender": contender, **STACK, **size, "seconds": seconds})
    setting = machine(threads=1)
    write_rows(options.out, setting, options.rounds, "rows", rows, "minimum")


if __name__ == "__main__":
    main()
