"""How one step scales a gradient: singular values of a cell's Jacobians, and eigenvalues of its recurrent matrices.

The Jacobians are those of "Gating revisited", sections 3.1 and 4. The eigenvalues have two
sources: Pascanu, Mikolov & Bengio 2013 as "Recurrent neural networks (RNNs): for steering through time" describes it (section
3.1, eq. 17 and 18), and Yoon's lecture "Recurrent neural nets (part 2)", 2019, on h_t = W^T h_{t-1}.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, jacrev, vmap

from ..cells.base import Cell, State
from ..cells.linear import LinearRecurrence
from ..cells.matrix import MatrixRecurrence
from ..cells.projections import Dense
from ..cells.rin import RIN
from ..errors import RequestError
from ..networks.base import refuse_computed_weights
from ..networks.layer import Direction
from ..networks.recurrent import RecurrentNetwork
from ..registry.schema import Config
from ..utils.text import counted
from .base import Array, Axis, Result
from .ensemble import Node, Weights, draw, initial_values
from .subject import (
    Inputs,
    Lengths,
    block_labels,
    describe,
    layer_inputs,
    memory_index,
    requires_recurrent,
    unroll,
    without_task,
)

GAMMA = {"tanh": 1.0, "ReLU": 1.0, "sigmoid": 0.25}
"""Upper bounds of the derivatives of activation functions."""


def jacobian(config: Config, *, seed: int = 0) -> Result:
    """Compute the singular values of one step of each layer at x = h = 0, with the weights of ensemble.draw, in float64.

    Inputs are as wide as the layers. For the derivative of a ReLU at zero torch takes 0, so what passes through a ReLU alone, as
    in irnn and rin, has singular values of 0 here. Raises RequestError for feed-forward and bidirectional networks, and for
    those of blocks.

    values: (which, layer, index), pure numbers in descending order. which: "input" is J = dh_t / dx_t (eq. 6, 8, 13),
    "state" is H = dh_t / dh_{t-1} (eq. 7, 9, 14). h is the output; other states, such as c, are held constant. If a
    Jacobian has fewer singular values than another, NaN pads it.
    """
    config = without_task(config.architecture, name=config.name)
    ensemble = draw(config, 1, 1, torch.Generator().manual_seed(seed), torch.float64)
    layers = []
    for node, weights in zip(ensemble.nodes, ensemble.weights, strict=True):
        zeros, only_run = tuple(s[0] for s in ensemble.zero_state(node)), {name: w[0] for name, w in weights.items()}
        layers.append(_singular_values(node, only_run, torch.zeros_like(ensemble.x[0, :1]), zeros))
    setting = {"of": describe(config), "at": "x = h = 0", "weights": initial_values(config), "seed": seed}
    return _result(setting, layers, ensemble.nodes[0].direction)


@requires_recurrent
def jacobian_at(network: RecurrentNetwork, x: Inputs, lengths: Lengths = None, step: int = -1) -> Result:
    """Compute the singular values of `jacobian` for a network with its own weights, at its states at one time step of x.

    step: index of the time step; a negative index counts from the end of the shortest sequence. The singular values of each
    sequence are sorted, then averaged over the batch. Of a bidirectional network, the forward direction is analysed.
    Raises RequestError for a step that the shortest sequence does not have.
    """
    steps = x.shape[1] if lengths is None else int(lengths.min())
    if not -steps <= step < steps:
        raise RequestError(f"Step {step} is not one of the {counted(steps, 'step')} of the shortest sequence.")
    t = step % steps
    layers = []
    with torch.no_grad():
        for layer, inputs in zip(network.layers, layer_inputs(network, x, lengths), strict=True):
            direction = layer.forward_direction
            states = unroll(direction, inputs[: t + 1], direction.zero_states(inputs[0]))
            node = Node(direction)
            layers.append(_singular_values(node, dict(node.named_parameters()), inputs[t], states[t]))
    setting = {"of": describe(network.config), "at": f"step {t + 1}", "mean over": f"{len(x)} sequences"}
    return _result(setting, layers, network.layers[0].forward_direction)


def _singular_values(node: Node, weights: Weights, x: Tensor, state: State) -> list[Tensor]:
    """Return [singular values of J, singular values of H], (index,) each, averaged over the batch. J and H: see `jacobian`.

    x: (batch, channels, ...).
    """

    def output(x: Tensor, h: Tensor, other_states: State) -> Tensor:
        state = (h.unsqueeze(0), *(s.unsqueeze(0) for s in other_states))
        return functional_call(node, weights, (x.unsqueeze(0), state))[0][0]

    values = []
    for argument in (0, 1):  # x and h
        jacobians = vmap(jacrev(output, argnums=argument))(x, state[0], state[1:])
        matrices = jacobians.flatten(1, state[0].dim() - 1).flatten(2)  # (batch, outputs, inputs)
        values.append(torch.linalg.svdvals(matrices.double()).mean(0).cpu())
    return values


def _result(setting: Mapping[str, Any], layers: list[list[Tensor]], direction: Direction) -> Result:
    """Return the result of `jacobian`. setting: Result.setting. layers: for each layer, the singular values of J and of H.

    direction: a layer's, whose cell has the states.
    """
    longest = max(len(values) for pair in layers for values in pair)
    padded = [[np.pad(v.numpy(), (0, longest - len(v)), constant_values=np.nan) for v in pair] for pair in layers]
    axes = (Axis("which", ("input", "state")), Axis.counted("layer", len(layers)), Axis.counted("index", longest))
    array, lines = Array(np.array(padded).swapaxes(0, 1), axes, "singular value"), []
    for text, values in zip(("dh/dx", "dh/dh"), array.values, strict=True):
        low, high = np.nanmin(values), np.nanmax(values)
        equal = high - low < 1e-6 * max(high, 1e-30)
        lines.append(f"Singular values of {text}: {f'all {high:.6g}' if equal else f'{low:.3g} to {high:.3g}'}.")
    memory = direction.states[memory_index(direction)]
    if memory != "h" and not np.nansum(np.abs(array.values[1])):
        lines.append(f"The next step does not read h: the memory is in {memory}, whose changes `noh` shows.")
    return Result(setting, {"values": array}, tuple(lines))


@requires_recurrent
@torch.no_grad()
def eigenvalues(network: RecurrentNetwork, steps: int = 50, starts: int = 64, seed: int = 0) -> Result:
    """Compute the spectrum of every recurrent weight matrix, one for each gate; RIN's matrices include its identity.

    A cell that is linear in its state, c_t = a_t c_{t-1} + b_t, has the matrix diag(a_t); if a_t depends on the input, the
    input is 0. Weights that are not dense, or do not divide into square blocks, are left out. Raises RequestError if no
    matrix is left, as for a cell whose state is a matrix for each head.

    modulus: (matrix, index), |lambda| in descending order. norm: (matrix,), the largest singular value.
    powers: (matrix, step), the mean of |h_t| / |h_0| over `starts` random h_0, where h_t = W^T h_{t-1}; in the long run its
    logarithm grows by the logarithm of the spectral radius per step.

    A gradient that passes through the matrix alone must vanish if norm < 1 / gamma, where gamma bounds the derivative of
    the activation function: 1 for tanh and 1/4 for the sigmoid (eq. 17). It can explode only if the norm is larger. The
    overview calls this quantity both the largest eigenvalue and the largest singular value; the bound holds for the
    singular value.
    """
    refuse_computed_weights(network, by_hooks=True)
    matrices = {
        label: matrix
        for depth, layer in enumerate(network.layers, start=1)
        for direction, side in zip(layer.directions, ("", " backward"), strict=False)
        for label, matrix in _square_blocks(direction, f"{depth}{side}")
    }
    cell = network.layers[0].forward_direction.cell
    if not matrices:
        raise RequestError(
            f"{network.config.name} has no recurrent matrix to compute eigenvalues of: {_why_none(cell)}. Choose another "
            "network or another analysis."
        )
    width = max(map(len, matrices.values()))
    generator = torch.Generator().manual_seed(seed)
    modulus, powers = np.full((len(matrices), width), np.nan), np.empty((len(matrices), steps))
    for i, matrix in enumerate(matrices.values()):
        moduli = torch.linalg.eigvals(matrix).abs().sort(descending=True).values
        modulus[i, : len(moduli)] = moduli.numpy()
        h = torch.randn(len(matrix), starts, generator=generator, dtype=torch.float64)
        first_norms = h.norm(dim=0)
        for t in range(steps):
            h = matrix.T @ h
            powers[i, t] = float((h.norm(dim=0) / first_norms).mean())
    norms = np.array([float(torch.linalg.matrix_norm(matrix, 2)) for matrix in matrices.values()])
    axis = Axis("matrix", tuple(matrices))
    arrays = {
        "modulus": Array(modulus, (axis, Axis.counted("index", width))), "norm": Array(norms, (axis,)),
        "powers": Array(powers, (axis, Axis.counted("step", steps)), "|h_t| / |h_0|", log=True),
    }  # fmt: skip
    lines = tuple(
        f"{name}: spectral radius {radius:.5g}, norm {norm:.5g}; {_verdict(norm, isinstance(cell, LinearRecurrence))}."
        for name, radius, norm in [*zip(matrices, modulus[:, 0], norms, strict=True)][:8]
    )
    model = "h_t = a h_{t-1}, elementwise" if isinstance(cell, LinearRecurrence) else "h_t = W^T h_{t-1}"
    setting = {"of": describe(network.config), "linear model": model, "starts": starts}
    return Result(setting, arrays, lines)


def _why_none(cell: Cell) -> str:
    """Return the reason why a cell has no recurrent matrix to compute eigenvalues of."""
    if isinstance(cell, MatrixRecurrence):
        return "its state is a matrix for each head"
    if isinstance(cell, LinearRecurrence):
        return "its state is an image, and each pixel has separate coefficients"
    return "its recurrent weights are not matrices of square blocks"


def _verdict(norm: float, linear: bool) -> str:
    """Return whether gradients must vanish through a recurrent matrix whose largest singular value is `norm`, in words.

    linear: True if the state passes through no activation function.
    """
    if linear:
        return "errors must vanish through the matrix alone" if norm < 1 - 1e-6 else "no bound says that errors vanish"
    *others, last = [name for name, gamma in GAMMA.items() if norm < 1 / gamma - 1e-6] or [""]
    functions = f"{', '.join(others)} or {last}" if others else last
    return (
        f"errors must vanish through the matrix and {functions} alone"
        if functions
        else "no bound says that errors vanish"
    )


def _as_matrix(diagonal: Tensor, complex_state: bool) -> Tensor:
    """Return diag(diagonal), a real matrix.

    complex_state: True if `diagonal` has the real parts, then the imaginary parts, of complex numbers. The matrix then
    multiplies the real parts, followed by the imaginary parts, of a state.
    """
    if not complex_state:
        return torch.diag(diagonal)
    re, im = (torch.diag(part) for part in diagonal.chunk(2))
    return torch.cat([torch.cat([re, im]), torch.cat([-im, re])], 1)


def _square_blocks(direction: Direction, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Yield (label, matrix), float64, for every square block of every dense or diagonal recurrent weight.

    prefix: the text with which each label begins.
    """
    cell = direction.cell
    if isinstance(cell, LinearRecurrence):
        if cell.axis == -1:
            weight = direction.input.weight
            x = weight.new_zeros(2, 1, weight.shape[1])
            projected, *_ = cell.joined(direction.input(x), direction.zero_states(x[0]), None, None)
            a, b, *_ = cell.coefficients(projected[1:])
            where = "" if a.dim() < b.dim() else " at x = 0"  # else the same at every step
            yield f"{prefix} diagonal{where}", _as_matrix(a.flatten().double().cpu(), cell.complex_state)
        return
    if isinstance(cell, MatrixRecurrence):  # its maps are of the input
        return
    adds_identity = isinstance(cell, RIN)  # to h, where other cells have their matrix alone
    suffix = " + I" if adds_identity else ""
    for name, module in cell.named_modules():
        if not isinstance(module, Dense) or module.matrix.dim() != 2 or module.matrix.shape[0] % module.matrix.shape[1]:
            continue
        matrix = module.matrix.double().cpu()
        if adds_identity:
            matrix = matrix + torch.eye(*matrix.shape)
        blocks = matrix.split(matrix.shape[1])
        for gate, block in zip(block_labels(cell, len(blocks)), blocks, strict=True):
            yield f"{prefix} {name}{f' {gate}' if len(blocks) > 1 else ''}{suffix}", block
