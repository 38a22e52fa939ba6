"""Benchmark stacks on a GPU: rnnzoo's STAR and LSTM, cuDNN's LSTM (torch.nn.LSTM) and, if installed, FlashRNN's LSTM.

Of the cells that are linear in their state: minGRU by the scan of whole cells, step by step, and by the associative scan of
the states alone; HGRN and LRU, whose states are complex, by the latter, except that one layer of LRU has a closed form.

`python -m benchmarks.gpu [--rounds N] [--precision P] [--stack LAYERSxUNITS] [--out FILE]` times a forward pass, and a
forward and backward pass, over 784 steps of one feature, with a loss on the last output. In float32 no contender may use
TF32, in tf32 every one may, in bfloat16 weights and inputs are bfloat16. A time is the median over the rounds, by the GPU's
own clock, after three warm-ups; memory is the peak of what torch has allocated. A contender that fails is recorded with
its error.
"""

import itertools
import json
import os
import statistics
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

import zoo
from zoo.diagnostics.benchmark import Contender, stack
from zoo.diagnostics.benchmark.passes import PeerNetwork
from zoo.networks.kernels import devices
from zoo.networks.recurrent import RecurrentNetwork
from zoo.utils import files

from .common import FOLDER, command_line

STEPS = 784
STACKS = ((1, 64), (16, 64), (1, 128), (4, 128))
BATCHES = (100, 1000)
PRECISIONS = ("float32", "tf32", "bfloat16")
WARM_UPS = 3


def forward(network: nn.Module, x: Tensor) -> None:
    """Run a forward pass in eval mode, without recording a graph for gradients."""
    network.eval()  # in training mode, cuDNN would store what a backward pass needs
    with torch.no_grad():
        network(x)


def training_step(network: nn.Module, x: Tensor) -> None:
    """Set gradients to None, then run a forward and a backward pass."""
    network.train()
    network.zero_grad()
    network(x).logsumexp(-1).mean().backward()


PASSES = {"forward": forward, "forward + backward": training_step}


@cache
def usual_exact() -> str:
    """Return rnnzoo's own EXACT. The first call must come before any change of it."""
    from zoo.networks.kernels import triton_layer

    return triton_layer.EXACT


class Zoo(nn.Module):
    """rnnzoo's stack.

    exact: how small matrices of float32 are multiplied; None for rnnzoo's choice, EXACT of zoo.networks.kernels.triton_layer.
    associative: True to leave out the scans of whole cells, so that a cell that is linear in its state takes the associative
    scan.
    """

    def __init__(self, cell: str, layers: int, units: int, exact: str | None = None, associative: bool = False):
        super().__init__()
        network = zoo.build(stack(cell, layers, units, STEPS), device="cpu")
        assert isinstance(network, RecurrentNetwork)
        network.backend = "fused"
        self.network, self.exact = network, exact
        self.hidden = devices.FUSED if associative else {}

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cuda:
            from zoo.networks.kernels import triton_layer

            usual = usual_exact()
            triton_layer.EXACT = self.exact or usual
        with patch.dict(self.hidden, clear=True):
            return self.network(x)


class FlashRNN(nn.Module):
    """FlashRNN's LSTM, layer by layer, with a linear input projection in each and the same head."""

    def __init__(self, layers: int, units: int, backend: str):
        super().__init__()
        self.units, self.backend = units, backend
        self.inputs = nn.ModuleList(nn.Linear(units if layer else 1, 4 * units) for layer in range(layers))
        self.recurrent = nn.ParameterList(torch.randn(4, 1, units, units) / units**0.5 for _ in range(layers))
        self.bias = nn.ParameterList(torch.zeros(4, 1, units) for _ in range(layers))
        self.head = nn.Linear(units, 10)

    def forward(self, x: Tensor) -> Tensor:
        from flashrnn import flashrnn

        for linear, weight, bias in zip(self.inputs, self.recurrent, self.bias, strict=True):
            projected = linear(x).view(*x.shape[:2], 4, 1, self.units)  # (batch, time, gates, heads, units)
            dtype = str(x.dtype).removeprefix("torch.")
            states, _ = flashrnn(projected, weight, bias, function="lstm", backend=self.backend, dtype=dtype)
            x = states[0].squeeze(2)  # (states, batch, time, heads, units)
        return self.head(x[:, -1])


CONTENDERS: dict[str, Callable[[int, int], nn.Module]] = {
    "rnnzoo star": lambda layers, units: Zoo("star", layers, units),
    "rnnzoo star, three tf32": lambda layers, units: Zoo("star", layers, units, exact="tf32x3"),
    "rnnzoo lstm": lambda layers, units: Zoo("lstm", layers, units),
    "rnnzoo lstm, three tf32": lambda layers, units: Zoo("lstm", layers, units, exact="tf32x3"),
    "rnnzoo mingru": lambda layers, units: Zoo("mingru", layers, units),
    "rnnzoo mingru, associative": lambda layers, units: Zoo("mingru", layers, units, associative=True),
    "rnnzoo hgrn": lambda layers, units: Zoo("hgrn", layers, units),
    "rnnzoo lru": lambda layers, units: Zoo("lru", layers, units),
    "cudnn lstm": lambda layers, units: PeerNetwork(Contender("torch", stack("lstm", layers, units, STEPS))),
    "flashrnn lstm, cuda_fused": lambda layers, units: FlashRNN(layers, units, "cuda_fused"),
    "flashrnn lstm, triton_fused": lambda layers, units: FlashRNN(layers, units, "triton_fused"),
}


def runs(name: str, precision: str, units: int) -> bool:
    """Return whether to run a contender: three TF32 products only in float32 up to 64 units, FlashRNN never in tf32."""
    if "three tf32" in name:
        return precision == "float32" and units <= 64
    return "flashrnn" not in name or precision != "tf32"


def seconds(work: Callable[[], None], rounds: int) -> float:
    """Return the median time of `work` on the GPU, in seconds."""
    for _ in range(WARM_UPS):
        work()
    taken = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) / 1000)
    return statistics.median(taken)


def measure(name: str, precision: str, layers: int, units: int, batch: int, rounds: int) -> dict[str, Any]:
    """Return one row of the result: the setting, and either seconds of each pass and peak memory in bytes, or the error."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    row: dict[str, Any] = {"name": name, "precision": precision, "layers": layers, "units": units, "batch": batch}
    torch.manual_seed(0)
    try:
        network = CONTENDERS[name](layers, units).to("cuda", dtype)
        x = torch.rand(batch, STEPS, 1, device="cuda").to(dtype)
        torch.cuda.reset_peak_memory_stats()
        for pass_name, run in PASSES.items():
            row[pass_name] = seconds(lambda run=run: run(network, x), rounds)  # type: ignore[misc]
        row["peak_memory_bytes"] = torch.cuda.max_memory_allocated()
    except Exception as problem:  # that a peer cannot run is a result too
        row["error"] = f"{type(problem).__name__}: {problem}"[:300]
    network = x = None  # type: ignore[assignment]
    torch.cuda.empty_cache()
    return row


def machine() -> dict[str, Any]:
    """Return the GPU and the versions of the software that uses it."""
    import triton

    return {
        "gpu": torch.cuda.get_device_name(), "capability": torch.cuda.get_device_capability(),
        "torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
        "triton": triton.__version__,
    }  # fmt: skip


def main() -> None:
    """Run the program."""
    parser = command_line(__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--precision", choices=PRECISIONS, action="append")
    parser.add_argument("--stack", choices=[f"{layers}x{units}" for layers, units in STACKS], action="append")
    parser.add_argument("--out", type=Path, default=FOLDER / "gpu.json")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a GPU and a torch built for it; on a CPU: python -m benchmarks.stacks")
    if os.environ.get("TRITON_INTERPRET") == "1":
        sys.exit("TRITON_INTERPRET=1 would time Triton's interpreter; unset it.")
    rows = []
    print(f"{'':30}{'precision':>10}{'stack':>8}{'batch':>7}{'forward':>12}{'fwd + bwd':>12}{'memory':>10}")
    for (layers, units), batch, precision in itertools.product(STACKS, BATCHES, PRECISIONS):
        size = f"{layers}x{units}"
        if size not in (arguments.stack or [size]) or precision not in (arguments.precision or [precision]):
            continue
        for name in (n for n in CONTENDERS if runs(n, precision, units)):
            row = measure(name, precision, layers, units, batch, arguments.rounds)
            rows.append(row)
            columns = row.get("error")
            if columns is None:
                times = "".join(f"{row[pass_name] * 1000:>9.2f} ms" for pass_name in PASSES)
                columns = f"{times}{row['peak_memory_bytes'] / 2**20:>6.0f} MiB"
            print(f"{name:30}{precision:>10}{size:>8}{batch:>7}{columns}", flush=True)
            data = {"machine": machine(), "setting": {"steps": STEPS, "rounds": arguments.rounds}, "rows": rows}
            files.atomic_write(arguments.out, (json.dumps(data, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
