"""The penalty that a recipe can add to the loss to keep gradients from vanishing or exploding."""

import torch
from torch import Tensor

from ..errors import RequestError
from ..networks.network import Network
from ..networks.recurrent import RecurrentNetwork
from ..registry.metrics import Target
from ..utils.shapes import unsqueeze_to
from .evaluation import score


def gradient_flow_penalty(
    network: Network,
    x: Tensor,  # (batch, time, *input), or tokens (batch, time)
    targets: Tensor,  # as in evaluation.score
    lengths: Tensor | None = None,  # (batch,)
    target: Target = "class",
) -> Tensor:
    """Return the regulariser Omega, a scalar, which keeps errors from vanishing or exploding on their way back in time.

    Pascanu, Mikolov & Bengio 2013, eq. 9 and 10: the mean, over layers, sequences and all time steps but the first, of
    (|g_t dh_t/dh_{t-1}| / |g_t| - 1)^2, where g_t is the gradient of the loss with respect to h_t. As in the paper, h and g
    are constants: Omega depends on the weights only through the step from h_{t-1} to h_t.

    Raises RequestError for a network that is not a RecurrentNetwork, is bidirectional, has a cell with more states than h,
    has no recurrent weights to train, uses zoneout or recurrent dropout, which change the step from h_{t-1} to h_t, or has
    dropout or batch norm, which would see each batch twice.
    """
    recurrent = _suitable(network)
    logits, records = recurrent.trace(x, lengths)
    loss, _, _ = score(target, logits, targets)
    if x.shape[1] == 1:
        return loss.new_zeros(())
    states = [h for _, outputs in records for h in outputs]
    gradients = iter(torch.autograd.grad(loss, states, allow_unused=True, materialize_grads=True))
    ratios_by_layer = []
    for layer, (inputs, outputs) in zip(recurrent.layers, records, strict=True):
        direction = layer.forward_direction
        error = _rescaled(torch.stack([next(gradients) for _ in outputs])[1:])  # g_t: (time - 1, batch, ...)
        previous = torch.stack(outputs[:-1]).detach().requires_grad_()  # h_{t-1}
        prepared = direction.prepare(inputs[1:].detach())
        states_after = direction.cell.step(prepared, (previous,))
        (carried,) = torch.autograd.grad(states_after[0], previous, error, create_graph=True)
        # (time - 1, batch); False after a sequence's end, where no ratio is defined
        has_error = error.flatten(2).any(2)
        ratios_by_layer.append(carried[has_error].flatten(1).norm(dim=1) / error[has_error].flatten(1).norm(dim=1))
    ratios = torch.cat(ratios_by_layer)
    return (ratios - 1).square().mean() if len(ratios) else loss.new_zeros(())


def _suitable(network: Network) -> RecurrentNetwork:
    """Return `network`. Raises RequestError if the penalty is not defined for such a network."""
    spec = network.config.architecture
    if not isinstance(network, RecurrentNetwork):
        reason = "it does not read one sequence, as a RecurrentNetwork does"
    elif spec.bidirectional:
        reason = "it is bidirectional"
    elif len(network.layers[0].forward_direction.cell.states) > 1:
        reason = f"{spec.cell} has more states than h"
    elif not any(p.requires_grad for layer in network.layers for p in layer.parameters()):
        reason = "none of its recurrent weights is trained"
    elif spec.zoneout or spec.recurrent_dropout:
        reason = "zoneout and recurrent dropout change the step from one state to the next"
    elif (spec.block is not None and spec.block.norm == "batch") or spec.dropout:
        reason = "batch norm and dropout would see each batch twice"
    else:
        return network
    raise RequestError(
        f"{network.config.name} cannot be trained with gradient_flow_penalty: {reason}. Remove gradient_flow_penalty from the "
        "recipe."
    )


def _rescaled(error: Tensor) -> Tensor:
    """Scale `error`, (time, batch, ...), by a power of two per step and sequence, so that its largest value is in [1, 2).

    Without this, the norm of an error of 1e-30 would be 0, because its squares underflow in single precision.
    """
    largest = error.flatten(2).abs().amax(2)
    scale = torch.where(largest > 0, largest / (2 * torch.frexp(largest).mantissa), 1)
    return error / unsqueeze_to(scale, error.dim())
