"""The plain scan as one operator of a graph, which torch.export traces once and which runs for any number of steps."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..cells.base import Cell, State
from ..cells.constants import constant
from ..cells.constants import given as constants_given
from ..cells.projections import Projection
from ..utils import torch_internals
from ..utils.shapes import unsqueeze_to


def loop(
    step: nn.Module,  # step(state, *inputs of one time step) returns the new state
    state: State,
    inputs: Sequence[Tensor | None],  # each (time, ...); None is the same at every step
) -> tuple[Tensor, State]:
    """Return h, the first tensor of the state, at every step, (time, ...), and the final state with all its tensors.

    The operator sees only its arguments, so parameters, buffers and the projections' fixed matrices and masks become constants.
    """
    if torch.compiler.is_dynamo_compiling():  # a strict export, which finds the constants itself
        return _traced_by_dynamo(step, state, inputs)
    tensors = dict(step.named_parameters()) | dict(step.named_buffers())
    projections = [m for m in step.modules() if isinstance(m, Projection)]
    held = [(p, name) for p in projections for name in ("held_matrix", "mask") if getattr(p, name) is not None]
    keys = [key for module in step.modules() if isinstance(module, Cell) for key in module.constants]
    # clones: a trace does not know the tensors that `constant` keeps
    shared = {key: constant(*key, device=state[0].device).clone() for key in keys}
    given = [part for part in inputs if part is not None]
    states, ends = len(state), len(state) + len(given)

    def body(*arguments: Tensor) -> list[Tensor]:
        values = iter(arguments[ends:])
        parameters = {name: next(values) for name in tensors}
        for projection, name in held:
            setattr(projection, name, next(values))
        x = iter(arguments[states:ends])
        parts = [None if part is None else next(x) for part in inputs]
        with constants_given(dict(zip(shared, values, strict=True))):
            new_state = functional_call(step, parameters, (arguments[:states], *parts))
        new_state = tuple(part.contiguous() for part in new_state)  # in memory like the old state
        return [*new_state, new_state[0].clone()]  # no two results may share memory

    own = [getattr(projection, name) for projection, name in held]
    constants = (*tensors.values(), *own, *shared.values())
    try:
        *final, outputs = torch_internals.loop(body, list(state), given, constants)
    finally:
        for (projection, name), value in zip(held, own, strict=True):
            setattr(projection, name, value)
    return outputs, tuple(final)


def _traced_by_dynamo(step: nn.Module, state: State, inputs: Sequence[Tensor | None]) -> tuple[Tensor, State]:
    """Return what `loop` returns, computed by the operator that dynamo can trace."""
    given = [part for part in inputs if part is not None]

    def body(old: list[Tensor], x: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        parts = iter(x)
        new_state = step(tuple(old), *(None if part is None else next(parts) for part in inputs))
        return list(new_state), new_state[0].clone()

    final, outputs = torch_internals.traced_loop(body, list(state), given)
    return outputs, tuple(final)


def while_running(
    running: Tensor,  # (batch,), bool
    new: State,
    old: State,
) -> State:
    """Return `new` for the sequences where `running` is True, and `old` for the others, which have ended."""
    pairs = zip(new, old, strict=True)
    return tuple(torch.where(unsqueeze_to(running, n.dim()), n, o) for n, o in pairs)
