"""The scan of a cell that is the same at every step and whose units are systems of their own, such as S4D, in torch.

A unit turns its inputs u into outputs y by a complex state of several numbers: x_t = a x_{t-1} + B u_t, y_t = 2 Re(C x_t) + D u_t.
So the outputs of STEPS steps, and the state after them, are linear in their inputs and the state before them, and the matrices are
the same for all parts of a sequence. One state is kept for each part instead of one for each step (compare Dao & Gu 2024, section 6).
"""

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from ...cells.linear import System, times
from ...cells.unitary import to_real

STEPS = 64
"""Steps of a part."""


def scan(
    system: System,
    u: Tensor,  # (time, batch, units)
    start: Tensor,  # (batch, 2 * units * states), real parts and then imaginary ones, those of a unit side by side
    lengths: Tensor | None,
    tbptt_steps: int | None,
) -> tuple[Tensor, Tensor]:
    """Return y, (time, batch, units), and the final state, as `start`, in float32. Arguments: see Direction.scan.

    A sequence that has ended keeps its state; its outputs beyond its end mean nothing.
    """
    units, states = system.a.shape
    x = start.float().unflatten(1, (2, units, states)).permute(2, 0, 1, 3).flatten(2)  # (units, batch, 2 states)
    inputs = u.float().permute(2, 1, 0)  # (units, batch, time)
    powers = _powers(system.a, min(STEPS, len(u)))
    among, reach, seen = _matrices(system, powers)
    outputs = []
    for begin, end in pairwise(_bounds(len(u), tbptt_steps)):
        if tbptt_steps and begin and begin % tbptt_steps == 0:
            x = x.detach()
        steps, part = end - begin, inputs[:, :, begin:end]
        outputs.append(torch.baddbmm(part @ among[:, :steps, :steps], x, seen[:, :, :steps]))
        if lengths is None:
            decay = powers[steps][:, None]
        else:
            taken = (lengths - begin).clamp(0, steps)
            part, decay = _up_to_end(part, taken), powers[taken].transpose(0, 1)
        x = torch.baddbmm(times(to_real(decay, x.dtype), x), part, reach[:, len(powers) - 1 - steps :])
    final = x.unflatten(2, (2, states)).permute(1, 2, 0, 3).flatten(1)
    return torch.cat(outputs, 2).permute(2, 1, 0), final


def _bounds(time: int, tbptt_steps: int | None) -> list[int]:
    """Return the first step of each part, and `time`. No part goes over a step at which gradients are cut."""
    cuts = range(0, time, tbptt_steps or time)
    return [*(at for cut in cuts for at in range(cut, min(cut + (tbptt_steps or time), time), STEPS)), time]


def _powers(a: Tensor, steps: int) -> Tensor:
    """Return a^0 to a^steps, (steps + 1, units, states), by as few products, and so roundings, as possible."""
    powers = torch.stack([torch.ones_like(a), a])
    while len(powers) <= steps:
        powers = torch.cat([powers, powers[1:] * powers[-1]])
    return powers[: steps + 1]


def _matrices(system: System, powers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the matrices from the inputs of a part to its outputs and to the state after it, and from a state to the outputs after it.

    They are (units, steps, steps), (units, steps, 2 states) and (units, 2 states, steps).
    """
    steps = len(powers) - 1
    gained = system.b * powers[:steps]
    response = 2 * (system.c * gained).real.sum(2).T  # (units, steps): outputs after an input of 1, without D
    response = torch.cat([response[:, :1] + system.d[:, None], response[:, 1:]], 1)
    among = F.pad(response, (steps - 1, 0)).unfold(1, steps, 1).flip(1)  # row s: steps[t - s] for t >= s, 0 before
    reach = gained.flip(0).transpose(0, 1)
    seen = 2 * (system.c * powers[1:]).permute(1, 2, 0)
    return among, to_real(reach, among.dtype), torch.cat([seen.real, -seen.imag], 1)


def _up_to_end(part: Tensor, taken: Tensor) -> Tensor:
    """Return part, (units, batch, steps), with the first `taken` steps of each sequence, (batch,), at its end, behind zeros."""
    steps = part.shape[2]
    at = torch.arange(steps, device=part.device) - (steps - taken)[:, None]  # (batch, steps)
    moved = part.gather(2, at.clamp(min=0).expand(len(part), -1, -1))
    return torch.where(at >= 0, moved, 0.0)
