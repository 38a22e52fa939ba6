"""Benchmark time steps of streams on a CPU: one stream, many streams in turn, a batch, and many steps in one call.

`python -m benchmarks.streams [--rounds N] [--threads N] [--out FILE]` measures rnnzoo's networks, and torch.nn's and
onnxruntime's of the same size, with a head of ten classes and denormal numbers flushed to zero, in one process; they take
turns, one pass at a time. onnxruntime and torch.nn have no STAR, so STAR is compared with their LSTM.
`python -m zoo.publishing.generated` writes the microseconds per step into docs/speed.md.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cli.output import say
from zoo.diagnostics.benchmark import machine, peers, stack
from zoo.diagnostics.benchmark.contenders import installed
from zoo.diagnostics.benchmark.passes import PeerNetwork
from zoo.networks import builder

from .common import FOLDER, arguments, versions, write_rows
from .onnx_peer import GATES, OnnxNetwork

SIZES = (("star", 16, 64), ("lstm", 4, 128), ("gru", 1, 128))
STREAMS, BATCH, CHUNK, STEPS = 64, 64, 256, 256
Passes = dict[str, Callable[[], int]]
"""By name: a function that runs a pass and returns its number of time steps, by which the time is divided."""


def in_turn(network: Any, streams: int, batch: int, steps: int) -> Callable[[], int]:
    """Return a pass of `steps` time steps over `streams` streams in turn. Each stream is a batch of `batch` sequences."""
    inputs: list[Tensor] = list(torch.rand(STEPS, batch, 1))
    states: list[Any] = [None] * streams

    def run() -> int:
        for i in range(steps):
            _, states[i % streams] = network.step(inputs[i], states[i % streams])
        return steps

    return run


def passes(cell: str, layers: int, units: int, threads: int) -> Passes:
    """Return the passes of one size of stack. Those of onnxruntime are included if it is installed."""
    config = stack(cell, layers, units, STEPS)
    network: Any = builder.build(config, device="cpu").eval()
    stream, chunk = network.stream(), torch.rand(1, CHUNK, 1)
    chosen: Passes = {
        "`step`": in_turn(network, 1, 1, STEPS),
        f"`step`, {STREAMS} streams in turn": in_turn(network, STREAMS, 1, STEPS),
        f"`step`, batch of {BATCH}": in_turn(network, 1, BATCH, 16),
        "`stream().step`": in_turn(stream, 1, 1, STEPS),
        f"`stream().step`, {STREAMS} streams in turn": in_turn(stream, STREAMS, 1, STEPS),
        f"`stream().step`, batch of {BATCH}": in_turn(stream, 1, BATCH, 16),
        f"`stream().steps`, {CHUNK} in one call": lambda: len(stream.steps(chunk)[0][0]),
    }
    for contender in peers(config, ["torch"]):
        peer = PeerNetwork(contender).eval()
        name = contender.name.removesuffix(", flushed")
        chosen |= {name: in_turn(peer, 1, 1, STEPS), f"{name}, batch of {BATCH}": in_turn(peer, 1, BATCH, 16)}
    if installed("onnxruntime") and installed("onnx"):
        operator = cell.upper() if cell.upper() in GATES else "LSTM"
        name, session = f"onnxruntime {operator}", OnnxNetwork(operator, config, threads)
        chosen |= {name: in_turn(session, 1, 1, STEPS), f"{name}, batch of {BATCH}": in_turn(session, 1, BATCH, 16)}
    return chosen


@torch.no_grad()
def main() -> None:
    """Run the program."""
    options = arguments(__doc__, 9, FOLDER / "streams.json")
    torch.set_num_threads(options.threads)
    rows: list[dict[str, Any]] = []
    for size in SIZES:
        chosen = passes(*size, options.threads)
        seconds: dict[str, list[float]] = {name: [] for name in chosen}
        for _ in range(options.rounds + 1):
            for name, run in chosen.items():
                begin = time.perf_counter()
                steps = run()
                seconds[name].append((time.perf_counter() - begin) / steps)
        for name, measured in seconds.items():
            network, median = "{} {} x {}".format(*size), statistics.median(measured[1:])
            rows.append({"network": network, "pass": name, "seconds": median})
            say(f"{network}, {name}: {1e6 * median:.1f} µs per step")
    setting = {**machine(options.threads), **versions(["onnxruntime"])}
    write_rows(options.out, setting, options.rounds, "rows", rows)


if __name__ == "__main__":
    main()
