"""Layers as ONNX's own LSTM, GRU and RNN operators, where these compute the cell's equations."""

import torch
from torch import Tensor, nn

from ..cells.base import State
from ..cells.elman import IRNN, RNN
from ..cells.gru import GRU
from ..cells.lstm import LSTM
from ..networks.layer import Direction, Layer
from ..networks.network import Network


class Operator(Direction):
    """A direction whose scan is one operator of ONNX: LSTM, GRU or RNN."""

    weight: Tensor
    recurrence: Tensor
    bias: Tensor

    def __init__(self, direction: Direction):
        nn.Module.__init__(self)
        state = vars(self)
        state.update({name: value for name, value in vars(direction).items() if name not in state})
        self.convolution, self.input, self.cell = direction.convolution, direction.input, direction.cell
        self.kind, self.attributes, matrices = _operator(direction)
        for name, tensor in zip(("weight", "recurrence", "bias"), matrices, strict=True):
            self.register_buffer(name, tensor[None].contiguous())

    def exported_scan(
        self, x: Tensor, state: State, lengths: Tensor | None, dt: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Return what `Direction.scan` returns; none of these cells uses dt."""
        ends = None if lengths is None else lengths.to(torch.int32)
        shape = (1, x.shape[1], self.units)
        outputs, *final = torch.onnx.ops.symbolic_multi_out(
            self.kind, [x, self.weight, self.recurrence, self.bias, ends, *(s[None] for s in state)],
            {"hidden_size": self.units, **self.attributes}, dtypes=[x.dtype] * (1 + len(state)),
            shapes=[(x.shape[0], *shape), *[shape] * len(state)],
        )  # fmt: skip
        return outputs.squeeze(1), tuple(s.squeeze(0) for s in final)


def use_operators(network: Network) -> None:
    """Replace each direction of a frozen network that an operator of ONNX can compute by an Operator."""
    for layer in [module for module in network.modules() if isinstance(module, Layer)]:
        layer.directions = nn.ModuleList(Operator(d) if is_operator(d) else d for d in layer.directions)  # type: ignore[assignment]


def is_operator(direction: Direction) -> bool:
    """Return whether an operator of ONNX computes what this direction does."""
    plain = direction.zoneout == 0 and direction.cell.axis == -1 and direction.input.norm is None
    return plain and type(direction.cell) in (LSTM, GRU, RNN, IRNN)


def _operator(direction: Direction) -> tuple[str, dict[str, int | list[str]], tuple[Tensor, Tensor, Tensor]]:
    """Return the operator's name, its attributes, and its weights W, R and B (the two biases, concatenated)."""
    cell, weight, bias = direction.cell, direction.input.weight, direction.input.bias
    assert bias is not None
    if isinstance(cell, RNN):
        word = "Tanh" if cell.activation is torch.tanh else "Relu"
        return "RNN", {"activations": [word]}, (weight, cell.recurrent.weight, _biases(bias))
    if isinstance(cell, LSTM):  # i, f, z, o become i, o, f, z
        w, r, b = (_reordered(p, (0, 3, 1, 2)) for p in (weight, cell.recurrent.weight, bias))
        return "LSTM", {}, (w, r, _biases(b))
    assert isinstance(cell, GRU)  # ONNX's update gate weighs the old state, so the signs of z turn
    candidate = cell.candidate.bias
    recurrent = torch.cat([cell.gates.weight, cell.candidate.weight])
    inner = torch.cat([torch.zeros_like(bias[: 2 * direction.units]), candidate]) if candidate is not None else None
    w, r, b = (_turned(_reordered(p, (1, 0, 2))) for p in (weight, recurrent, bias))
    return "GRU", {"linear_before_reset": int(not cell.before)}, (w, r, _biases(b, inner))


def _reordered(parameter: Tensor, order: tuple[int, ...]) -> Tensor:
    gates = parameter.chunk(len(order))
    return torch.cat([gates[i] for i in order])


def _turned(parameter: Tensor) -> Tensor:
    """Return a GRU's parameters, those of its gates z, r and h one after the other, with those of z negated."""
    z, *others = parameter.chunk(3)
    return torch.cat([-z, *others])


def _biases(bias: Tensor, inner: Tensor | None = None) -> Tensor:
    """Return `bias`, of the input, followed by `inner`, of the recurrence (None: zeros): (2 * gates * units,)."""
    return torch.cat([bias, torch.zeros_like(bias) if inner is None else inner])
