"""How large a gradient every node of the unfolded network gets: "Gating revisited", section 3.1, Fig. 2, 6 and 7."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..cells import cell_row
from ..errors import RequestError
from ..registry.schema import Config
from .base import Array, Axis, Result, three_digits
from .ensemble import Ensemble, chunks, draw, layers_of, start_values
from .subject import described, untrained

LOSSES = ("last", "all")
BYTES = 30_000_000
"""Of parameters drawn at a time, on which the random numbers depend; more takes more memory and no less time."""


@dataclass(frozen=True)
class Lattice(Result):
    """Norms of the gradient at every node, over many random networks. All arrays are pure numbers.

    mean: (loss, layer, step), the mean over the runs of |g_w|, g_w = (dh_t^l / dw)^T g_{h_t^l} (eq. 3): what the node's
    own copy of the parameters gets, not the sum over time. spread: the same shape, its standard deviation over the mean.
    ratio: (loss,), mean at the bottom left, layer 1 and step 1, over mean at the top right, the last layer and step.
    depth: (loss,), mean at layer 1 and the last step over the top right's.
    """

    mean: Array
    spread: Array
    ratio: Array
    depth: Array

    paper = "star"
    section = "section 3.1, Fig. 2, 6 and 7"

    @property
    def lines(self) -> list[str]:
        layers, steps = (len(self.mean.axis(name).ticks) for name in ("layer", "step"))
        found = []
        for loss, text in (("last", "on the last output"), ("all", "on all outputs")):
            ratio, depth = (float(a.at(loss=loss).values) for a in (self.ratio, self.depth))
            high = float(self.spread.at(loss=loss).values.max())
            below = f", layer 1 at step {steps}: {three_digits(depth)}" if layers > 1 else ""
            found.append(
                f"Loss {text}, gradient norms relative to layer {layers} at step {steps}: layer 1 at step 1: {three_digits(ratio)}"
                f"{below}; standard deviation over networks: at most {100 * high:.0f} % of the mean."
            )
        return found


def lattice(
    config: Config, *, runs: int = 1000, steps: int = 10, seed: int = 0, biases: bool = True,
    dtype: torch.dtype = torch.float32, report: Callable[[int, int], None] = lambda done, total: None,
) -> Lattice:  # fmt: skip
    """Gradient norms at every node of `runs` untrained networks of a config's architecture (its task plays no part).

    Weights and inputs as in ensemble.draw; inputs are as wide as the layers. The loss is v_T h_T ("last") or the sum
    of v_t h_t ("all") with random v of length 1, so that every output gets an error of length 1 whatever the cell.
    biases: whether they count among the parameters. Raises RequestError for bidirectional networks, and for less than
    two runs.
    """
    if runs < 2 or steps < 1:
        raise RequestError(f"A lattice needs two runs and one step at least; got {runs} and {steps}.")
    own = untrained(config.architecture, steps, config.name)
    generator = torch.Generator().manual_seed(seed)
    parts: list[Tensor] = []
    done = 0
    for size in chunks(runs, _at_once(own, dtype)):
        parts.append(node_gradients(draw(own, size, steps, generator, dtype), _rows(own), biases))
        done += size
        report(done, runs)
    norms = torch.cat(parts)
    mean, std = norms.mean(0), norms.std(0)
    axes = (Axis("loss", LOSSES), Axis.counted("layer", mean.shape[1]), Axis.counted("step", steps))
    corner = mean[:, -1, -1].clamp_min(torch.finfo(torch.float64).tiny)
    return Lattice(
        {"of": f"{described(own)}, untrained", "runs": runs, "steps": steps, "weights": start_values(own),
         "input": "x_t = 0.5 x_{t-1} + 0.5 N(0, 1)", "parameters": "with biases" if biases else "without biases",
         "seed": seed},
        mean=Array(mean.numpy(), axes, log=True),
        spread=Array((std / mean.clamp_min(torch.finfo(torch.float64).tiny)).numpy(), axes),
        ratio=Array((mean[:, 0, 0] / corner).numpy(), axes[:1], log=True),
        depth=Array((mean[:, 0, -1] / corner).numpy(), axes[:1], log=True),
    )  # fmt: skip


def node_gradients(ensemble: Ensemble, row: Callable[[int, str], int], biases: bool = True) -> Tensor:
    """|dL/dw| of each node's own copy of the parameters, (runs, loss, layer, step), float64.

    row(layer, name) says in which row of the lattice a parameter counts. Nothing but the recurrence over layers and steps
    is a loop: every tensor holds all runs.
    """
    steps = ensemble.x.shape[1]
    rows = 1 + max(row(layer, name) for layer, weights in enumerate(ensemble.weights) for name in weights)
    squares = torch.zeros(ensemble.runs, len(LOSSES), rows, steps, dtype=torch.float64)
    loss = 0

    def collector(place: int, t: int, scale: Tensor | float) -> Callable[[Tensor], None]:
        def collect(leaf: Tensor) -> None:  # as soon as it is whole, so that no two nodes' gradients are kept at once
            if leaf.grad is not None:
                norm = torch.linalg.vector_norm(leaf.grad.flatten(1), dim=1).double()
                squares[:, loss, place, t] += scale * norm.square()
                leaf.grad = None

        return collect

    below = [x.unsqueeze(1) for x in ensemble.x.unbind(1)]
    for layer, (node, weights) in enumerate(zip(ensemble.nodes, ensemble.weights, strict=True)):
        state = ensemble.start(node)
        fixed = {f"{name}.{part}" for name in node.plain for part in ("weight", "bias")}
        for t, x in enumerate(below):
            own = {name: w if name in fixed else w.detach().requires_grad_() for name, w in weights.items()}
            bumps = {name: _bump(ensemble, weights[f"{name}.weight"]) for name in node.plain}
            state, seen = node.called(own, bumps, x, state)
            below[t] = state[0]
            for name, w in own.items():
                if name not in fixed and (biases or not name.endswith("bias")):
                    w.register_post_accumulate_grad_hook(collector(row(layer, name), t, 1.0))
            for name, bump in bumps.items():
                size = seen[name].detach().flatten(1).double().square().sum(1)
                with_bias = biases and f"{name}.bias" in weights
                bump.register_post_accumulate_grad_hook(collector(row(layer, f"{name}."), t, size + with_bias))
    errors = [e.unsqueeze(1) for e in ensemble.errors.unbind(1)]
    torch.autograd.backward(below[-1], errors[-1], retain_graph=True)
    loss = 1
    torch.autograd.backward(below, errors)
    return squares.sqrt()


def _bump(ensemble: Ensemble, weight: Tensor) -> Tensor:
    """Zeros to be added to the output of a dense map, (runs, 1, out)."""
    return weight.new_zeros(1).expand(ensemble.runs, 1, weight.shape[1]).detach().requires_grad_()


def _rows(config: Config) -> Callable[[int, str], int]:
    """The row of a parameter: its layer, or where all layers are inside one cell, its index there."""
    inside = cell_row(config.architecture.cell).layers_inside

    def row(layer: int, name: str) -> int:
        index = re.search(r"\.(\d+)\.", name) if inside else None
        return int(index[1]) if index else layer

    return row


def _at_once(config: Config, dtype: torch.dtype) -> int:
    """How many runs have their parameters in BYTES."""
    each = sum(p.numel() for node in layers_of(config) for p in node.parameters())
    return max(1, BYTES // (each * torch.finfo(dtype).bits // 8))
