"""One time step of a whole stack in one call of the compiled code, for streaming."""

import ctypes
import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ...cells.base import State
from ..layer import Direction
from . import interface
from .compiled import CompiledScan, is_float, supports
from .interface import address, pointer
from .shared import PlannedLayer, customised, in_memory, intercepted
from .snapshot import Snapshot


class Stepper:
    """One time step of a whole stack, for streaming. Its jobs are made once, so that a call costs a few microseconds.

    Threads may share it: from step to step nothing changes in it but `latest`.
    """

    def __init__(self, stack: nn.ModuleList, layers: Sequence[PlannedLayer], head: nn.Linear | None, x: Tensor):
        """Prepare steps of `stack`, whose planned layers are `layers`, for inputs like x, (batch, features).

        With a head, its outputs are computed too.
        """
        first = layers[0].direction
        self.depth, self.states = len(layers), len(first.cell.states)
        self.input_key = x.shape, x.dtype, x.device
        self.state_shape = (self.states * self.depth, x.shape[0], first.units)
        """All states of a step lie in one block, layer after layer."""
        self.snapshot = Snapshot(stack, layers, head)
        self.jobs, self.held = _jobs(layers, x)
        self.head = (
            None if head is None else interface.NativeHead(address(head.weight), address(head.bias), len(head.weight))
        )
        library = interface.library()
        assert library is not None
        self.native_step = library.rnnzoo_step
        self.latest: tuple[tuple[State, ...] | None, Tensor] = (None, x)
        """The states of the last step, and the block they lie in."""

    def fits(self, stack: nn.ModuleList, head: nn.Linear | None, x: Tensor) -> bool:
        """Return whether the jobs are still those of such an input, of these modules and of their parameters."""
        return self.input_key == (x.shape, x.dtype, x.device) and self.snapshot.unchanged(stack, head)

    def continues(self, x: Tensor, state: object, stack: nn.ModuleList) -> bool:
        """Return whether `state` is the very one of the last step, of these modules, and x a possible next input."""
        shape, dtype, _ = self.input_key
        return (
            state is self.latest[0]
            and self.snapshot.same_modules(stack)
            and type(x) is Tensor
            and x.shape == shape
            and x.dtype == dtype
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Copy and pickle as None: the addresses are those of one network in this process."""
        return type(None), ()

    def step(
        self,
        x: Tensor,  # (batch, features), contiguous
        mean: float,
        std: float,
        state: Sequence[State],  # each (batch, units), contiguous
    ) -> tuple[Tensor | None, tuple[State, ...]]:
        """Return the head's outputs, if there is a head, and the new states of all layers after (x - mean) / std."""
        new_states, logits, head = x.new_empty(self.state_shape), None, None
        if self.head is not None:
            logits, head = x.new_empty(x.shape[0], self.head.outputs), ctypes.byref(self.head)
        latest, latest_block = self.latest
        old_block, old_states = None, None  # one of the two is passed on
        if state is latest:
            old_block = latest_block.data_ptr()
        else:
            old_states = (pointer * self.state_shape[0])(*[s.data_ptr() for layer in state for s in layer])
        self.native_step(
            self.jobs, self.depth, x.data_ptr(), mean, std, old_block, old_states, new_states.data_ptr(), head,
            address(logits),
        )  # fmt: skip
        states = tuple(zip(*[iter(new_states.unbind(0))] * self.states, strict=True))  # in groups, one a layer
        self.latest = states, new_states
        return logits, states


def _jobs(layers: Sequence[PlannedLayer], x: Tensor) -> tuple[ctypes.Array[interface.NativeJob], list[list[Tensor]]]:
    """Return one job a layer, each for one time step, and the tensors that they point into."""
    jobs, held = (interface.NativeJob * len(layers))(), []
    layer_input = x
    for i, layer in enumerate(layers):
        start = layer.direction.initial_state(layer_input)
        scan = CompiledScan(layer, lengths=None, truncate=None)
        jobs[i], tensors = scan.job([layer_input.unsqueeze(0), *start, *layer.parameters])
        jobs[i].threads = 1
        held.append(tensors)
        layer_input = start[0]
    return jobs, held


def stepper(
    known: Stepper | None, stack: nn.ModuleList, head: nn.Module | None, x: Tensor, state: Sequence[State]
) -> Stepper | None:
    """Return a stepper for the layers of a stack: `known` if it fits, else a new one, None if there can be none.

    It computes the head too if that is a torch.nn.Linear and nothing else.
    """
    if torch.is_autocast_enabled("cpu") or not in_memory(x) or intercepted():
        return None
    if torch.is_grad_enabled() and _needs_gradients(stack, head, x, state):
        return None
    is_latest = known is not None and state is known.latest[0]  # as in any stream; the stepper made it
    if not is_latest and not all(_is_contiguous_float(s) for layer in state for s in layer):
        return None
    linear = head if type(head) is nn.Linear and head.bias is not None and not customised(head) else None
    if known is not None and known.fits(stack, linear, x):
        return known
    layers = _planned_layers(stack, linear, x, state)
    return None if layers is None else Stepper(stack, layers, linear, x)


def _planned_layers(
    stack: nn.ModuleList, head: nn.Linear | None, x: Tensor, state: Sequence[State]
) -> list[PlannedLayer] | None:
    """Return the layers with their plans if a Stepper can run them and their head on x from `state`, else None."""
    directions: list[Direction] = [layer.forward_direction for layer in stack]  # type: ignore[misc]
    if not _states_fit_one_block(directions, x, state):
        return None
    layers = [layer for direction in directions if (layer := supports(direction, x)) is not None]
    if len(layers) < len(directions):
        return None
    if any(m.parametrization for layer in layers for m in layer.projections):
        return None  # every change of a weight would make another matrix
    inputs = [direction.input.weight for direction in directions]
    weights = [p for layer in layers for p in layer.parameters if p is not None]
    if head is not None:
        if head.bias.shape != head.weight.shape[:1]:
            return None
        inputs.append(head.weight)
        weights += [head.weight, head.bias]
    widths = [x.shape[1], *(direction.units for direction in directions)]  # what each input weight reads
    if any(weight.shape[1] != width for weight, width in zip(inputs, widths, strict=False)):
        return None
    # a snapshot notices only parameters that are replaced, not other tensors
    return layers if all(isinstance(p, nn.Parameter) and _is_contiguous_float(p) for p in weights) else None


def _states_fit_one_block(directions: Sequence[Direction], x: Tensor, state: Sequence[State]) -> bool:
    """Return whether all layers carry states of one number and shape, and `state` holds such for the batch of x."""
    count, shape = len(directions[0].cell.states), (len(x), directions[0].units)
    return (
        all((len(d.cell.states), d.units) == (count, shape[1]) for d in directions)
        and len(state) == len(directions)
        and all(len(layer) == count and all(s.shape == shape for s in layer) for layer in state)
    )


def _needs_gradients(stack: nn.ModuleList, head: nn.Module | None, x: Tensor, state: Sequence[State]) -> bool:
    """Return whether anything that a step depends on requires a gradient."""
    weights = itertools.chain(stack.parameters(), () if head is None else head.parameters())
    return any(t.requires_grad for t in itertools.chain([x], *state, weights))


def _is_contiguous_float(tensor: Tensor) -> bool:
    """Return whether the compiled code can read a tensor from its address alone."""
    return is_float(tensor) and tensor.is_contiguous() and not tensor.is_neg()
