"""One time step of a whole stack in one call of the compiled code, for streaming."""

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...cells.base import State
from ..layer import Direction
from . import interface
from .compiled import Run, is_float, supports
from .interface import address, pointer
from .plans import planned
from .shared import altered, anywhere, in_memory, maps, parameters, watched


class Stepper:
    """One time step of a whole stack, for streaming. Its jobs are made once, so that a call costs a few microseconds.

    Threads may share it: nothing that a step depends on changes from step to step, but which states were made last.
    """

    def __init__(self, stack: nn.ModuleList, head: nn.Linear | None, x: Tensor):
        """For layers of one direction, the head that reads them, if it is to, and inputs like x, (batch, features)."""
        self.stack, self.head, self.key = stack, head, _key(x)
        directions: list[Direction] = [layer.forward_direction for layer in stack]  # type: ignore[misc]
        plans = [planned(d.cell) for d in directions]
        used: list[nn.Module] = [m for d, made in zip(directions, plans, strict=True) for m in maps(d, made)]
        self.hooks = [hooks for m in used for hooks in (m._forward_pre_hooks, m._forward_hooks)]
        used += [] if head is None else [head]
        self.children = [m._modules for m in stack.modules()]
        self.tree = [dict(own) for own in self.children]
        self.computing = [*directions, *(d.cell for d in directions), *used]
        self.kinds = list(map(type, self.computing))
        self.own = list(map(vars, self.computing))
        self.sizes = list(map(len, self.own))
        places: list[tuple[dict[str, Any], str]] = [(vars(d), "zoneout") for d in directions]
        places += [(vars(d.cell), n) for d in directions for n, v in vars(d.cell).items() if _is_option(v)]
        places += [(vars(m), "form") for m in used]
        places += [(m._parameters, "bias") for m in used if m.bias is None]
        self.parts = (*zip(*places, strict=True), [own.get(name) for own, name in places])
        values = [(m._parameters, name) for m in used for name, p in m._parameters.items() if p is not None]
        self.weights = tuple(zip(*values, strict=True))
        self.addresses = self._addresses()
        self.states = len(directions[0].cell.states)
        self.shape = (self.states * len(directions), x.shape[0], directions[0].units)
        self.jobs, self.held = (interface.Job * len(directions))(), []
        h = x
        for i, (direction, made) in enumerate(zip(directions, plans, strict=True)):
            start = direction.initial_state(h)
            inputs = [h.unsqueeze(0), *start, *parameters(direction, made)]
            self.jobs[i], held = Run(direction, made, None, None).job(inputs)
            self.jobs[i].threads = 1
            self.held.append(held)
            h = start[0]
        self.reader = (
            None if head is None else interface.Head(address(head.weight), address(head.bias), len(head.weight))
        )
        lib = interface.library()
        assert lib is not None
        self.run = lib.rnnzoo_step
        self.depth = len(directions)
        self.latest: tuple[tuple[State, ...] | None, Tensor] = (None, x)
        """The states made last, and the memory that they lie in."""

    def _addresses(self) -> list[int]:
        return list(map(Tensor.data_ptr, map(dict.__getitem__, *self.weights)))

    def fits(self, stack: nn.ModuleList, head: nn.Linear | None, x: Tensor) -> bool:
        """Whether the jobs are still those of such an input, of these modules and of their parameters."""
        try:
            addresses = self._addresses()
        except (KeyError, TypeError):  # a parameter that is none any more
            return False
        return (
            stack is self.stack
            and head is self.head
            and self.key == _key(x)
            and self.children == self.tree
            and list(map(type, self.computing)) == self.kinds
            and list(map(len, self.own)) == self.sizes  # no method has been replaced
            and list(map(dict.get, *self.parts[:2])) == self.parts[2]
            and not any(self.hooks)
            and not anywhere()
            and self.addresses == addresses
        )

    def continues(self, x: Tensor, state: object, stack: nn.ModuleList) -> bool:
        """Whether the state is the very one made last, of the modules that there are, and x a next input to it, by its
        shape and type."""
        ours = state is self.latest[0] and stack is self.stack and self.children == self.tree
        return ours and type(x) is Tensor and x.shape == self.key[0] and x.dtype == self.key[1]

    def __reduce__(self) -> tuple[object, ...]:
        """Copied and pickled as None: it knows addresses in this process, of one network."""
        return type(None), ()

    def step(
        self, x: Tensor, mean: float, std: float, state: Sequence[State]
    ) -> tuple[Tensor | None, tuple[State, ...]]:
        """The head's outputs and the new states of all layers after (x - mean) / std; x: (batch, features), contiguous
        as are the states."""
        new, logits, reader = x.new_empty(self.shape), None, None
        if self.reader is not None:
            logits, reader = x.new_empty(x.shape[0], self.reader.outputs), ctypes.byref(self.reader)
        latest, block = self.latest
        before, old = None, None
        if state is latest:
            before = block.data_ptr()
        else:
            old = (pointer * self.shape[0])(*[s.data_ptr() for own in state for s in own])
        out = address(logits)
        self.run(self.jobs, self.depth, x.data_ptr(), mean, std, before, old, new.data_ptr(), reader, out)
        states = tuple(zip(*[iter(new.unbind(0))] * self.states, strict=True))
        self.latest = states, new
        return logits, states


def _key(x: Tensor) -> tuple[object, ...]:
    return x.shape, x.dtype, x.device


def _is_option(value: object) -> bool:
    """Whether an attribute of a cell decides what it computes."""
    return isinstance(value, (bool, int, float)) or callable(value)


def _streams(stack: nn.ModuleList, head: nn.Linear | None, x: Tensor, state: Sequence[State]) -> bool:
    """Whether a Stepper can run these layers and their head on x from a state; not where matrices have to be made of the
    weights."""
    ways: list[Direction] = [layer.forward_direction for layer in stack]  # type: ignore[misc]
    carried = (len(ways[0].cell.states), (len(x), ways[0].units))  # of every layer, as their states lie in one block
    if any((len(way.cell.states), (len(x), way.units)) != carried for way in ways):
        return False
    if len(state) != len(ways) or any(len(own) != carried[0] or s.shape != carried[1] for own in state for s in own):
        return False
    if not all(supports(way, x) and not any(m.parametrization for m in maps(way, planned(way.cell))) for way in ways):
        return False
    widths = [x.shape[1], *(way.units for way in ways)]
    reads = [way.input.weight for way in ways] + ([] if head is None else [head.weight])
    used = [p for way in ways for p in parameters(way, planned(way.cell))] + (
        [] if head is None else [head.weight, head.bias]
    )
    return (
        all(p is None or _is_flat_parameter(p) for p in used)
        and all(weight.shape[1] == width for weight, width in zip(reads, widths, strict=False))
        and (head is None or head.bias.shape == head.weight.shape[:1])
    )


def _differentiated(stack: nn.ModuleList, head: nn.Module | None, x: Tensor, state: Sequence[State]) -> bool:
    """Whether a gradient is wanted of anything that a step depends on."""
    weights = itertools.chain(stack.parameters(), () if head is None else head.parameters())
    return any(t.requires_grad for t in itertools.chain([x], *state, weights))


def _is_flat_parameter(tensor: Tensor) -> bool:
    """What is no parameter goes unnoticed when it is replaced."""
    return isinstance(tensor, nn.Parameter) and _lies_flat(tensor)


def _lies_flat(tensor: Tensor) -> bool:
    return is_float(tensor) and tensor.is_contiguous() and not tensor.is_neg()


def stepper(
    known: Stepper | None, stack: nn.ModuleList, head: nn.Module | None, x: Tensor, state: Sequence[State]
) -> Stepper | None:
    """The stepper of a stack of layers, made anew where the known one does not fit; None where there can be none.

    It computes the head too, where that is a torch.nn.Linear and nothing else.
    """
    if torch.is_autocast_enabled("cpu") or not in_memory(x) or watched():
        return None
    if torch.is_grad_enabled() and _differentiated(stack, head, x, state):
        return None
    ours = known is not None and state is known.latest[0]  # made by the step before, as in any stream
    if not ours and not all(_lies_flat(s) for own in state for s in own):
        return None
    reader = head if type(head) is nn.Linear and head.bias is not None and not altered(head) else None
    if known is None or not known.fits(stack, reader, x):
        if not _streams(stack, reader, x, state):
            return None
        known = Stepper(stack, reader, x)
    return known
