"""How large a gradient every node of the unrolled network gets: "Gating revisited", section 3.1, Fig. 2, 6 and 7."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..cells import cell_row
from ..errors import RequestError
from ..registry.schema import Config
from .base import Array, Axis, Result, three_digits
from .ensemble import chunk_sizes, draw, layers_of, start_values
from .node_gradients import LOSSES, RowOf, node_gradients
from .subject import describe, without_task

BYTES = 30_000_000
"""Memory for the parameters drawn at a time. More is no faster; changing it changes the random numbers."""


@dataclass(frozen=True)
class Lattice(Result):
    """Gradient norms at every node, over many random networks. All arrays are pure numbers.

    mean: (loss, layer, step), the mean over the runs of |g_w|, g_w = (dh_t^l / dw)^T g_{h_t^l} (eq. 3). This is the
    gradient for the node's own copy of the parameters, not the sum over time.
    spread: (loss, layer, step), the standard deviation of |g_w| divided by its mean.
    ratio: (loss,), the mean at layer 1 and step 1 divided by the mean at the last layer and step.
    depth: (loss,), the mean at layer 1 and the last step divided by the mean at the last layer and step.
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
        lines = []
        for loss, text in (("last", "on the last output"), ("all", "on all outputs")):
            ratio, depth = (float(array.at(loss=loss).values) for array in (self.ratio, self.depth))
            spread = float(self.spread.at(loss=loss).values.max())
            same_step = f", layer 1 at step {steps}: {three_digits(depth)}" if layers > 1 else ""
            lines.append(
                f"Loss {text}, gradient norms relative to layer {layers} at step {steps}: "
                f"layer 1 at step 1: {three_digits(ratio)}{same_step}; "
                f"standard deviation over networks: at most {100 * spread:.0f} % of the mean."
            )
        return lines


def lattice(
    config: Config, *, runs: int = 1000, steps: int = 10, seed: int = 0, biases: bool = True,
    dtype: torch.dtype = torch.float32, report: Callable[[int, int], None] = lambda done, total: None,
) -> Lattice:  # fmt: skip
    """Compute gradient norms at every node of `runs` untrained networks of a config's architecture, whatever its task.

    Weights and inputs are those of ensemble.draw; inputs are as wide as the layers. The loss is v_T h_T ("last") or the
    sum of v_t h_t ("all") with random v of length 1, so that every output gets an error of length 1 whatever the cell.
    biases: True to count them among the parameters. report: called with the runs done and their total.

    Raises RequestError for networks without time steps or with two directions, and for less than two runs or one step.
    """
    if runs < 2 or steps < 1:
        raise RequestError(f"A lattice needs two runs and one step at least; got {runs} and {steps}.")
    config = without_task(config.architecture, steps, config.name)
    generator = torch.Generator().manual_seed(seed)
    chunks = []
    done = 0
    for size in chunk_sizes(runs, _runs_at_once(config, dtype)):
        chunks.append(node_gradients(draw(config, size, steps, generator, dtype), lattice_rows(config), biases))
        done += size
        report(done, runs)
    norms = torch.cat(chunks)  # (runs, loss, layer, step)
    mean, std = norms.mean(0), norms.std(0)
    tiny = torch.finfo(torch.float64).tiny
    corner = mean[:, -1, -1].clamp_min(tiny)
    axes = (Axis("loss", LOSSES), Axis.counted("layer", mean.shape[1]), Axis.counted("step", steps))
    setting = {
        "of": f"{describe(config)}, untrained", "runs": runs, "steps": steps, "weights": start_values(config),
        "input": "x_t = 0.5 x_{t-1} + 0.5 N(0, 1)", "parameters": "with biases" if biases else "without biases",
        "seed": seed,
    }  # fmt: skip
    return Lattice(
        setting,
        mean=Array(mean.numpy(), axes, log=True),
        spread=Array((std / mean.clamp_min(tiny)).numpy(), axes),
        ratio=Array((mean[:, 0, 0] / corner).numpy(), axes[:1], log=True),
        depth=Array((mean[:, 0, -1] / corner).numpy(), axes[:1], log=True),
    )


def lattice_rows(config: Config) -> RowOf:
    """Return the function from a parameter to its row: its layer, or its index in a cell that has all layers inside."""
    layers_inside = cell_row(config.architecture.cell).layers_inside

    def row_of(layer: int, parameter: str) -> int:
        index = re.search(r"\.(\d+)\.", parameter) if layers_inside else None
        return int(index[1]) if index else layer

    return row_of


def _runs_at_once(config: Config, dtype: torch.dtype) -> int:
    """Number of runs whose parameters fit in BYTES."""
    parameters = sum(p.numel() for node in layers_of(config) for p in node.parameters())
    return max(1, BYTES // (parameters * torch.finfo(dtype).bits // 8))
