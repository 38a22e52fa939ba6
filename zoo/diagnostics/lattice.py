"""Measures the gradient at every node of the unrolled network: "Gating revisited", section 3.1, Fig. 2, 6 and 7.

A node is one layer at one time step; a run is one random network. Two backward passes, one for each loss, compute the
gradients at all nodes of all runs, because every tensor has a leading dimension of runs.
"""

import copy
import re
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from ..cells import cell_row
from ..cells.base import State
from ..cells.projections import Dense
from ..errors import RequestError
from ..registry.schema import Config
from .base import Array, Axis, Result
from .ensemble import Ensemble, Node, Weights, draw, initial_values, layers_of
from .subject import describe, without_task

BYTES = 30_000_000
"""Most memory, in bytes, of the parameters of the runs computed at once.

More is no faster, and another value changes the random numbers.
"""
LOSSES = ("last", "all")
"""The loss on the output at the last step, and on the outputs at all steps."""


def lattice(
    config: Config, *, runs: int = 200, steps: int = 10, seed: int = 0, biases: bool = True,
    dtype: torch.dtype = torch.float32, report: Callable[[int, int], None] = lambda done, total: None,
) -> Result:  # fmt: skip
    """Compute gradient norms at every node of `runs` untrained networks of a config's architecture, whatever its task.

    Weights and inputs are those of ensemble.draw; inputs are as wide as the layers. The loss is v_T h_T ("last") or the
    sum of v_t h_t ("all") with random v of norm 1, so that the gradient at every output has norm 1 for any cell.
    biases: True to include biases in the parameters. report(runs done, all runs) is called.

    mean: (loss, layer, step), the mean over the runs of |g_w|, g_w = (dh_t^l / dw)^T g_{h_t^l} (eq. 3). This is the
    gradient with respect to the node's own copy of the parameters, not the sum over time.
    spread: (loss, layer, step), the standard deviation of |g_w| divided by its mean.
    ratio: (loss,), the mean at layer 1 and step 1 divided by the mean at the last layer and step.
    depth: (loss,), the mean at layer 1 and the last step divided by the mean at the last layer and step.

    Raises RequestError for feed-forward and bidirectional networks, for those of blocks, for fewer than two runs, and for no steps.
    """
    if runs < 2 or steps < 1:
        raise RequestError(f"A lattice needs at least two runs and one step; got {runs} runs and {steps} steps.")
    config = without_task(config.architecture, steps, config.name)
    layers_inside = cell_row(config.architecture.cell).layers_inside
    parameters = sum(p.numel() for node in layers_of(config) for p in node.parameters())
    at_once = max(1, BYTES // (parameters * dtype.itemsize))
    generator = torch.Generator().manual_seed(seed)
    chunks = []
    for done in range(0, runs, at_once):
        drawn = draw(config, min(at_once, runs - done), steps, generator, dtype)
        chunks.append(node_gradients(drawn, layers_inside, biases))
        report(done + len(drawn.x), runs)
    norms = torch.cat(chunks)  # (runs, loss, layer, step)
    mean, std = norms.mean(0), norms.std(0)
    tiny = torch.finfo(torch.float64).tiny
    corner = mean[:, -1, -1].clamp_min(tiny)
    axes = (Axis("loss", LOSSES), Axis.counted("layer", mean.shape[1]), Axis.counted("step", steps))
    setting = {
        "of": f"{describe(config)}, untrained", "runs": runs, "steps": steps, "weights": initial_values(config),
        "input": "x_t = 0.5 x_{t-1} + 0.5 N(0, 1)", "parameters": "with biases" if biases else "without biases",
        "seed": seed,
    }  # fmt: skip
    arrays = {
        "mean": Array(mean.numpy(), axes, "gradient norm", log=True),
        "spread": Array((std / mean.clamp_min(tiny)).numpy(), axes, "standard deviation / mean"),
        "ratio": Array((mean[:, 0, 0] / corner).numpy(), axes[:1], log=True),
        "depth": Array((mean[:, 0, -1] / corner).numpy(), axes[:1], log=True),
    }
    return Result(setting, arrays, summarise(arrays), summarised=("ratio", "depth"))


def summarise(arrays: Mapping[str, Array]) -> tuple[str, ...]:
    """Return, for each loss, a sentence that compares the gradient at layer 1 with that at the last layer and step.

    arrays: those of the result of `lattice`.
    """
    layers, steps = (len(arrays["mean"].axis(name).ticks) for name in ("layer", "step"))
    lines = []
    for loss, text in zip(LOSSES, ("on the last output", "on all outputs"), strict=True):
        ratio, depth = (float(arrays[name].at(loss=loss).values) for name in ("ratio", "depth"))
        same_step = f" and {_times(depth)} at step {steps}" if layers > 1 else ""
        lines.append(
            f"Loss {text}: relative to layer {layers} at step {steps}, the gradient norm at layer 1 is {_times(ratio)} at step "
            f"1{same_step}. At every layer and step, the standard deviation over the networks is at most "
            f"{100 * arrays['spread'].at(loss=loss).values.max():.0f} % of the mean."
        )
    return tuple(lines)


def _times(ratio: float) -> str:
    """Return a ratio in words, such as `about as large`, `3.2 times larger` or `1,500 times smaller`."""
    if ratio == 0 or 0.9 < ratio < 1.1:
        return "about as large" if ratio else "zero"
    factor = ratio if ratio > 1 else 1 / max(ratio, 1e-300)
    rounded = float(f"{factor:.2g}")
    if 1e6 <= rounded < 1e9:
        text = f"{rounded / 1e6:g} million"
    else:
        text = f"{factor:.2g}" if factor < 10 or rounded >= 1e9 else f"{rounded:,.0f}"
    return f"{text} times {'larger' if ratio > 1 else 'smaller'}"


def node_gradients(ensemble: Ensemble, layers_inside: bool = False, biases: bool = True) -> Tensor:
    """Return |dL/dw| for every node's own copy of the parameters w, (runs, loss, layer, step), float64. Losses: as in LOSSES.

    layers_inside: True for a cell that contains all layers. The number in a parameter's name is then its layer.
    biases: True to include biases in the parameters.
    """
    places = {  # layer of every parameter
        (depth, name): int(inside[1]) if layers_inside and (inside := re.search(r"\.(\d+)\.", name)) else depth
        for depth, weights in enumerate(ensemble.weights) for name in weights
    }  # fmt: skip
    runs, steps = ensemble.x.shape[:2]
    norms = NormRecorder(runs, 1 + max(places.values()), steps)
    outputs = [x.unsqueeze(1) for x in ensemble.x.unbind(1)]  # of the layer below: (runs, 1, channels, ...) a step
    for depth, (node, weights) in enumerate(zip(ensemble.nodes, ensemble.weights, strict=True)):
        layer_of = {name: places[depth, name] for name in weights}
        outputs = _unroll_layer(node, weights, outputs, ensemble.zero_state(node), norms, layer_of, biases)
    errors = [error.unsqueeze(1) for error in ensemble.errors.unbind(1)]
    last = norms.backward(outputs[-1:], errors[-1:], retain_graph=True)
    every = norms.backward(outputs, errors)
    return torch.stack([last, every], 1).sqrt()


def _unroll_layer(
    node: Node, weights: Weights, inputs: Sequence[Tensor], state: State, norms: "NormRecorder",
    layer_of: dict[str, int], biases: bool,
) -> list[Tensor]:  # fmt: skip
    """Return a layer's outputs, (runs, 1, channels, ...) at every step, and make `norms` record each step's gradients.

    inputs, state: of the layer, with the same leading dimensions. Each step has its own copy of the parameters, so that each
    copy has its own gradient. A linear map with a Tap needs no copy. layer_of: the layer of each parameter by name.
    biases: True to include the gradients of biases.
    """
    node = copy.deepcopy(node)  # the taps stay on the copy
    taps = _add_taps(node)
    copied = [name for name in weights if name.rpartition(".")[0] not in taps and (biases or not name.endswith("bias"))]

    def step_of_one_run(
        weights: Weights, offsets: dict[str, Tensor], x: Tensor, state: State
    ) -> tuple[State, dict[str, Tensor]]:
        for name, tap in taps.items():
            tap.offset = offsets[name]
        state = functional_call(node, weights, (x, state))
        return state, {name: tap.input for name, tap in taps.items()}

    step_of_all_runs = vmap(step_of_one_run)
    outputs: list[Tensor] = []
    for t, x in enumerate(inputs):
        copies = {name: weights[name].detach().requires_grad_() for name in copied}
        shapes = {name: weights[f"{name}.weight"].shape for name in taps}  # (runs, out, in)
        offsets = {name: x.new_zeros(runs, 1, out, requires_grad=True) for name, (runs, out, _) in shapes.items()}
        state, map_inputs = step_of_all_runs(weights | copies, offsets, x, state)
        outputs.append(state[0])
        for name, parameter in copies.items():
            norms.record(parameter, layer_of[name], t)
        for name, offset in offsets.items():
            # |error input^T|^2 = |error|^2 |input|^2 for the matrix, and |error|^2 more for the bias
            factor = map_inputs[name].detach().flatten(1).double().square().sum(1)
            has_bias = biases and f"{name}.bias" in weights
            norms.record(offset, layer_of[f"{name}.weight"], t, factor + has_bias)
    return outputs


class Tap:
    """A forward hook of a dense linear map. It stores the map's last `input`, and adds `offset`, which is zeros, to the output.

    The gradient of the map's matrix is the outer product of the gradient at the output and the input. Its norm is the
    product of their norms, so it need not be formed. The gradient at the output is the gradient of `offset`.
    """

    offset: Tensor
    input: Tensor

    def __call__(self, module: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> Tensor:
        self.input = arguments[0]
        return output + self.offset


def _add_taps(node: Node) -> dict[str, Tap]:
    """Hook a Tap to every dense linear map with plain weights, neither normalised nor parametrised, that a step calls once.

    Returns {name of the map: its Tap}.
    """
    if node.direction.cell.axis != -1:  # convolutional
        return {}
    dense = {name: module for name, module in node.named_modules() if isinstance(module, Dense)}
    plain = {name: m for name, m in dense.items() if m.norm is None and m.parametrization is None}
    called: list[nn.Module] = []  # counted in a step on the meta device
    counters = [module.register_forward_hook(lambda module, *_: called.append(module)) for module in plain.values()]
    x = torch.empty(1, node.direction.input.channels, device="meta")
    node(x, node.direction.zero_states(x))
    for counter in counters:
        counter.remove()
    taps = {name: Tap() for name, module in plain.items() if called.count(module) == 1}
    for name, tap in taps.items():
        plain[name].register_forward_hook(tap)
    return taps


class NormRecorder:
    """Sums squared gradient norms during a backward pass. It frees each gradient at once, so that only one is in memory."""

    def __init__(self, runs: int, layers: int, steps: int):
        self.squares = torch.zeros(runs, layers, steps, dtype=torch.float64)

    def record(self, parameter: Tensor, layer: int, step: int, factor: Tensor | float = 1.0) -> None:
        """Make every later backward pass add factor * |gradient of parameter|^2 to the sums of `layer` and `step`.

        parameter: (runs, ...). factor: a number for all runs, or (runs,).
        """

        def add(parameter: Tensor) -> None:
            assert parameter.grad is not None
            norm = torch.linalg.vector_norm(parameter.grad.flatten(1), dim=1).double()
            self.squares[:, layer, step] += factor * norm.square()
            parameter.grad = None

        parameter.register_post_accumulate_grad_hook(add)

    def backward(self, outputs: Sequence[Tensor], errors: Sequence[Tensor], retain_graph: bool = False) -> Tensor:
        """Run a backward pass from `outputs`; return the sums of squared gradient norms, (runs, layers, steps).

        errors: the gradients of the loss with respect to `outputs`.
        """
        self.squares.zero_()
        torch.autograd.backward(outputs, errors, retain_graph=retain_graph)
        return self.squares.clone()
