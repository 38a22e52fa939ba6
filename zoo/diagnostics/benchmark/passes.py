"""The passes of a contender that are timed: a forward pass, a training step, and one step of a stream."""

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from ...cells.linear import LinearRecurrence
from ...cells.matrix import MatrixRecurrence
from ...cells.projections import Dense
from ...errors import first_line
from ...networks import builder
from ...networks.layer import Direction
from .contenders import PEERS, Contender, Workload, counterpart

FORWARD, TRAINING, STREAMING = PASSES = ("forward", "forward + backward", "streamed step")
"""Inference on a batch; a training step without the optimizer's; one time step of one sequence that arrives live."""
STREAM_STEPS = 1000
"""Number of time steps in one streaming pass; its time is the mean over them."""
Passes = dict[str, Callable[[], int]]
"""By name of a pass: a function that runs the pass once or several times, and returns how many times it ran.

The measured time is divided by that number.
"""


def passes_of(contender: Contender, work: Workload) -> Passes:
    """Build a contender and return its passes, the functions to time. Matrix products alone have no streaming pass."""
    return product_passes(contender, work) if contender.library == "products" else network_passes(contender, work)


def failure(peer: Contender, device: str = "cpu") -> str | None:
    """Return the text of torch's error if torch cannot run `peer` on `device`, else None.

    Some CPUs, for example, cannot run an LSTM in bfloat16.
    """
    functions = network_passes(peer, Workload(steps=2, batch=1, threads=1, device=device))
    try:
        functions[FORWARD]()
        functions[TRAINING]()
    except RuntimeError as error:
        return first_line(error)
    return None


def network_passes(contender: Contender, work: Workload) -> Passes:
    """Build a network of rnnzoo or of another library and return its passes."""
    network: Any
    if contender.library == "rnnzoo":
        network = builder.build(contender.config, device=work.device, allow_large=True)
        network.backend = contender.backend
    else:
        network = PeerNetwork(contender).to(work.device)
    x = torch.rand(work.batch, work.steps, *contender.config.interface.input).to(work.device)
    stream = [x[:1, t % work.steps].contiguous() for t in range(STREAM_STEPS)]
    autocast = torch.autocast(x.device.type, torch.bfloat16, enabled=contender.precision == "bf16")

    def forward() -> int:
        with torch.no_grad(), autocast:
            network.eval()(x)
        return 1

    def training() -> int:
        network.train().zero_grad()
        with autocast:
            y = network(x)
        y.float().logsumexp(-1).mean().backward()
        return 1

    def streaming() -> int:
        network.eval()
        state = None
        with torch.no_grad(), autocast:
            for x_t in stream:
                _, state = network.step(x_t, state)
        return len(stream)

    return {FORWARD: forward, TRAINING: training, STREAMING: streaming}


class PeerNetwork(nn.Module):
    """A stack of another library's layers, with the same head as rnnzoo's network."""

    def __init__(self, contender: Contender):
        super().__init__()
        spec, self.interface = contender.config.architecture, contender.config.interface
        options: dict[str, Any] = {"batch_first": True, "dropout": spec.dropout if spec.layers > 1 else 0.0}
        name = str(counterpart(contender))
        if name == "RNN":
            options["nonlinearity"] = "relu" if spec.cell == "irnn" else spec.options.get("activation", "tanh")
        if spec.bidirectional:
            options["bidirectional"] = True
        stack_class = getattr(importlib.import_module(PEERS[contender.library]), name)
        self.stack = stack_class(self.interface.input[0], spec.units, spec.layers, **options)
        self.bidirectional = bool(spec.bidirectional)
        self.head = nn.Linear(spec.units * (2 if spec.bidirectional else 1), self.interface.outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, (batch, outputs) or (batch, time, outputs), for x, (batch, time, features)."""
        outputs: Tensor = self.stack(x)[0]
        if self.interface.readout in ("every", "mean"):
            return self.head(outputs.mean(1) if self.interface.readout == "mean" else outputs)
        if not self.bidirectional:
            return self.head(outputs[:, -1])
        forward, backward = outputs.chunk(2, -1)  # the backward direction ends at the first step
        return self.head(torch.cat([forward[:, -1], backward[:, 0]], -1))

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Return logits, (batch, outputs), and the new state after one time step x, (batch, features)."""
        outputs, state = self.stack(x[:, None], state)
        return self.head(outputs[:, -1]), state


def product_passes(contender: Contender, work: Workload) -> Passes:
    """Return passes that compute all matrix products of a network by torch.mm.

    Input weights take one product for all steps, recurrent weights one for each step. In a cell that is linear in its
    state, all weights take one product for all steps. The backward pass has twice as many products as the forward pass, so
    a training step has three times as many.
    """
    network = builder.build(contender.config, device="meta", allow_large=True)

    @cache  # maps of one shape share a buffer, so that reading and writing other memory is not timed
    def buffer(role: str, rows: int, columns: int) -> Tensor:
        return torch.rand(rows, columns, device=work.device)

    products = []
    for direction in (module for module in network.modules() if isinstance(module, Direction)):
        for projection in (module for module in direction.modules() if isinstance(module, Dense)):
            outputs, inputs = projection.matrix.shape
            at_once = projection is direction.input or isinstance(direction.cell, LinearRecurrence | MatrixRecurrence)
            rows, repeats = (work.steps * work.batch, 1) if at_once else (work.batch, work.steps)
            weight = torch.rand(inputs, outputs, device=work.device)
            products.append((repeats, buffer("in", rows, inputs), weight, buffer("out", rows, outputs)))

    def multiply(passes: int) -> int:
        for repeats, x, weight, out in products * passes:
            for _ in range(repeats):
                torch.mm(x, weight, out=out)
        return 1

    return {FORWARD: lambda: multiply(1), TRAINING: lambda: multiply(3)}
