"""Deep stacks, side by side in one run: rnnzoo, torchrecurrent's STAR and torch.nn.LSTM of the same depth and width.

`python -m benchmarks.stacks [--rounds N] [--out FILE]` times a forward pass, and a forward and backward pass, of a
16 x 64 stack over 784 steps of one feature, batch 100, loss on the last output. Contenders take turns, so that whatever
else the machine does falls on all of them; the time of each is its median over the rounds, after one warm-up. Peak
memory is that of a process that does one training step and nothing else, less that of one that only imports.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import zoo
from zoo import files
from zoo.specs import Architecture, Config, Interface

LAYERS, UNITS, STEPS, BATCH = 16, 64, 784, 100


def zoo_stack(cell: str, backend: str) -> Callable[[Tensor], Tensor]:
    """rnnzoo's stack; x: (batch, time, 1) to (batch, 10)."""
    architecture = Architecture(cell=cell, layers=LAYERS, units=UNITS)
    interface = Interface(input=(1,), steps=STEPS, outputs=10, readout="last")
    name = f"{cell}-{LAYERS}x{UNITS}-smnist"
    network = zoo.build(Config(name=name, task="smnist", architecture=architecture, interface=interface), device="cpu")
    network.backend = backend
    return network


class Peer(nn.Module):
    """Another library's stack, with the same head on the last output."""

    def __init__(self, stack: nn.Module):
        super().__init__()
        self.stack, self.head = stack, nn.Linear(UNITS, 10)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.stack(x)[0]
        logits: Tensor = self.head(outputs[:, -1])
        return logits


def torchrecurrent_star() -> nn.Module:
    import torchrecurrent

    return Peer(torchrecurrent.STAR(1, UNITS, LAYERS, batch_first=True))


CONTENDERS: dict[str, Callable[[], Callable[[Tensor], Tensor]]] = {
    "rnnzoo star": lambda: zoo_stack("star", "auto"),
    "rnnzoo star, plain": lambda: zoo_stack("star", "plain"),
    "rnnzoo lstm": lambda: zoo_stack("lstm", "auto"),
    "rnnzoo lstm, plain": lambda: zoo_stack("lstm", "plain"),
    "torchrecurrent star": torchrecurrent_star,
    "torch.nn.LSTM": lambda: Peer(nn.LSTM(1, UNITS, LAYERS, batch_first=True)),
}


def forward(network: Callable[[Tensor], Tensor], x: Tensor) -> None:
    with torch.no_grad():
        network(x)


def training_step(network: Callable[[Tensor], Tensor], x: Tensor) -> None:
    network(x).logsumexp(-1).mean().backward()


def timed(rounds: int, batch: int) -> dict[str, dict[str, float]]:
    """Median seconds of both passes for every contender."""
    torch.manual_seed(0)
    x = torch.rand(batch, STEPS, 1)
    networks = {name: make() for name, make in CONTENDERS.items()}
    passes = {"forward": forward, "forward + backward": training_step}
    seconds: dict[str, dict[str, list[float]]] = {name: {p: [] for p in passes} for name in networks}
    for turn in range(rounds + 1):
        for what, run in passes.items():
            for name, network in networks.items():
                began = time.perf_counter()
                run(network, x)
                if turn:  # the first is a warm-up
                    seconds[name][what].append(time.perf_counter() - began)
    return {name: {what: statistics.median(s) for what, s in found.items()} for name, found in seconds.items()}


def peak_memory(name: str | None) -> int:
    """Peak resident bytes of a fresh process that does one training step of a contender (None: only imports)."""
    work = f"s.training_step(s.CONTENDERS[{name!r}](), torch.rand(s.BATCH, s.STEPS, 1))" if name else "pass"
    read = "print(next(int(line.split()[1]) * 1024 for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    code = f"import torch, benchmarks.stacks as s\n{work}\n{read}"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())
    return {"cpu": model, "cores": os.cpu_count(), "threads": torch.get_num_threads(), "torch": torch.__version__}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "stacks.json")
    arguments = parser.parse_args()
    torch.set_flush_denormal(True)  # for all contenders; see zoo.training
    seconds = timed(arguments.rounds, arguments.batch)
    base = peak_memory(None)
    memory = {name: peak_memory(name) - base for name in CONTENDERS}
    data = {
        "machine": machine(),
        "setting": {
            "layers": LAYERS,
            "units": UNITS,
            "steps": STEPS,
            "batch": arguments.batch,
            "rounds": arguments.rounds,
        },
        "seconds": seconds,
        "peak_memory_bytes": memory,
    }
    files.replace(arguments.out, (json.dumps(data, indent=1) + "\n").encode())
    print(f"{'':22}{'forward':>10}{'fwd + bwd':>12}{'peak memory':>14}")
    for name, s in seconds.items():
        print(f"{name:22}{s['forward']:>8.2f} s{s['forward + backward']:>10.2f} s{memory[name] / 2**20:>10.0f} MiB")


if __name__ == "__main__":
    main()
