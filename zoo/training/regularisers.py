"""What is added to a loss so that a network stays trainable."""

import torch
from torch import Tensor

from ..errors import RequestError
from ..networks.network import Network
from ..networks.recurrent import RecurrentNetwork
from ..registry.metrics import Target
from .evaluation import score


def gradient_flow_penalty(
    network: Network, x: Tensor, targets: Tensor, lengths: Tensor | None = None, target: Target = "class"
) -> Tensor:
    """The regulariser that keeps errors from vanishing, or growing, on their way back in time; a scalar.

    Pascanu, Mikolov & Bengio 2013, eq. 9 and 10: of (|g_t dh_t/dh_{t-1}| / |g_t| - 1)^2, with g_t the gradient of the loss
    with respect to h_t, the mean over layers, sequences and time steps but the first. As there, it is differentiated by
    the weights of that one step only: h and g are taken as they are. x: (batch, time, *input), lengths: (batch,);
    targets and target as in evaluation.score. Raises RequestError for a cell with more states than h, for two directions,
    and for zoneout or recurrent dropout, whose step from h_{t-1} to h_t is not the cell's alone.
    """
    if not isinstance(network, RecurrentNetwork):
        raise RequestError(f"{network.config.name} cannot have gradient_flow_penalty: it does not read one sequence.")
    spec = network.config.architecture
    ways = [layer.forward_direction for layer in network.layers]
    if spec.bidirectional or any(len(way.cell.states) > 1 for way in ways):
        raise RequestError(f"{network.config.name} cannot have omega, which is of one direction and of one state, h.")
    if spec.zoneout or spec.recurrent_dropout:
        raise RequestError(f"{network.config.name} cannot have omega beside zoneout or recurrent dropout.")
    logits, layers = network.trace(x, lengths)
    loss, _, _ = score(target, logits, targets)
    if x.shape[1] == 1:
        return loss.new_zeros(())
    every = [h for _, outputs in layers for h in outputs]
    slopes = iter(torch.autograd.grad(loss, every, allow_unused=True, materialize_grads=True))
    found = []
    for way, (below, outputs) in zip(ways, layers, strict=True):
        g = _scaled(torch.stack([next(slopes) for _ in outputs])[1:])
        before = torch.stack(outputs[:-1]).detach().requires_grad_()
        prepared = way.cell.prepare(way.input(below[1:].detach()))
        (carried,) = torch.autograd.grad(way.cell.step(prepared, (before,))[0], before, g, create_graph=True)
        alive = g.flatten(2).any(2)  # (time, batch): no error, as beyond a sequence's end, no ratio
        found.append(carried[alive].flatten(1).norm(dim=1) / g[alive].flatten(1).norm(dim=1))
    ratios = torch.cat(found)
    return (ratios - 1).square().mean() if len(ratios) else loss.new_zeros(())


def _scaled(g: Tensor) -> Tensor:
    """g: (time, batch, ...), each sequence's at each step over the power of two that makes its largest value 1 to 2.

    What has vanished to 1e-30 has a direction still, but no norm: the squares are 0 in single precision.
    """
    largest = g.flatten(2).abs().amax(2)
    scale = torch.where(largest > 0, largest / (2 * torch.frexp(largest).mantissa), 1)
    return g / scale.reshape(*scale.shape, *[1] * (g.dim() - 2))
