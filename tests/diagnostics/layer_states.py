"""The states of a layer step by step, as the definitions of analyses need them."""

import torch
from torch import Tensor

LENGTHS = torch.tensor([4, 2, 5])


def states(net, x: Tensor, h0: Tensor, c0: Tensor | None = None) -> list[tuple[Tensor, ...]]:
    """States of a one-layer network before the first step and after every step, by the layer's own step."""
    direction = net.layers[0].forward_direction
    states = [(h0,) if c0 is None else (h0, c0)]
    for x_t in x.unbind(1):
        states.append(direction.step(direction.cell.prepare(direction.input(x_t)), states[-1]))
    return states
