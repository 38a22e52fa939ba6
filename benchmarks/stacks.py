"""Deep stacks, side by side in one run: rnnzoo, torchrecurrent's STAR and torch.nn.LSTM of the same depth and width.

`python -m benchmarks.stacks [--rounds N] [--out FILE]` times a forward pass, and a forward and backward pass, of a
16 x 64 stack over 784 steps of one feature, batch 100, loss on the last output. Every contender has a process of its
own, because rnnzoo turns on flush-to-zero for the process it builds a network in and the peers do not; they are also
measured with it. The processes take turns, one at a time, so that whatever else the machine does falls on all of them.
A time is the median over the rounds after one warm-up; memory is the peak of the process less what it had before.
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

    def __init__(self, stack: nn.Module, flush: bool):
        super().__init__()
        torch.set_flush_denormal(flush)
        self.stack, self.head = stack, nn.Linear(UNITS, 10)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.stack(x)[0]
        return self.head(outputs[:, -1])


def torchrecurrent_star(flush: bool) -> nn.Module:
    """torchrecurrent's stack of STAR cells."""
    try:
        import torchrecurrent
    except ImportError:
        sys.exit("The benchmark needs its peers: pip install 'rnnzoo[bench]'")
    return Peer(torchrecurrent.STAR(1, UNITS, LAYERS, batch_first=True), flush)


CONTENDERS: dict[str, Callable[[], Callable[[Tensor], Tensor]]] = {
    "rnnzoo star": lambda: zoo_stack("star", "auto"),
    "rnnzoo star, plain": lambda: zoo_stack("star", "plain"),
    "rnnzoo lstm": lambda: zoo_stack("lstm", "auto"),
    "rnnzoo lstm, plain": lambda: zoo_stack("lstm", "plain"),
    "torchrecurrent star": lambda: torchrecurrent_star(False),
    "torchrecurrent star, flushed": lambda: torchrecurrent_star(True),
    "torch.nn.LSTM": lambda: Peer(nn.LSTM(1, UNITS, LAYERS, batch_first=True), False),
    "torch.nn.LSTM, flushed": lambda: Peer(nn.LSTM(1, UNITS, LAYERS, batch_first=True), True),
}


def forward(network: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """A forward pass without a graph."""
    with torch.no_grad():
        network(x)


def training_step(network: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """A forward and a backward pass; gradients of earlier ones are dropped."""
    if isinstance(network, nn.Module):
        network.zero_grad()
    network(x).logsumexp(-1).mean().backward()


PASSES = {"forward": forward, "forward + backward": training_step}


def peak_memory() -> int:
    """Peak resident bytes of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def work(name: str) -> None:
    """Build a contender; then for every name of a pass read from stdin do it, and print its seconds and peak memory."""
    torch.manual_seed(0)
    network = CONTENDERS[name]()
    x = torch.rand(BATCH, STEPS, 1)
    before = peak_memory()
    for line in sys.stdin:
        began = time.perf_counter()
        PASSES[line.strip()](network, x)
        print(time.perf_counter() - began, peak_memory() - before, flush=True)


def measure(rounds: int) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Median seconds of each pass, and peak memory in bytes, for every contender."""
    command = [sys.executable, "-m", "benchmarks.stacks", "--worker"]
    workers = {
        name: subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        for name in CONTENDERS
    }
    seconds: dict[str, dict[str, list[float]]] = {name: {what: [] for what in PASSES} for name in CONTENDERS}
    memory: dict[str, float] = {}
    for turn in range(rounds + 1):
        for what in PASSES:
            for name, worker in workers.items():
                assert worker.stdin is not None
                assert worker.stdout is not None
                worker.stdin.write(what + "\n")
                answer = worker.stdout.readline().split()
                if not answer:
                    sys.exit(f"{name} failed.")
                taken, memory[name] = map(float, answer)
                if turn:  # the first is a warm-up
                    seconds[name][what].append(taken)
    for worker in workers.values():
        worker.communicate()
    return {name: {what: statistics.median(s) for what, s in found.items()} for name, found in seconds.items()}, memory


def machine() -> dict[str, Any]:
    """The processor, and what uses it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())
    return {"cpu": model, "cores": os.cpu_count(), "threads": torch.get_num_threads(), "torch": torch.__version__}


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "stacks.json")
    parser.add_argument("--worker", choices=CONTENDERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker)
        return
    seconds, memory = measure(arguments.rounds)
    setting = {"layers": LAYERS, "units": UNITS, "steps": STEPS, "batch": BATCH, "rounds": arguments.rounds}
    data = {"machine": machine(), "setting": setting, "seconds": seconds, "peak_memory_bytes": memory}
    files.replace(arguments.out, (json.dumps(data, indent=1) + "\n").encode())
    print(f"{'':30}{'forward':>10}{'fwd + bwd':>12}{'peak memory':>14}")
    for name, s in seconds.items():
        print(f"{name:30}{s['forward']:>8.2f} s{s['forward + backward']:>10.2f} s{memory[name] / 2**20:>10.0f} MiB")


if __name__ == "__main__":
    main()
