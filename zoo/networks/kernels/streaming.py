"""Runs time steps of a whole stack in one call of the compiled code, for streaming."""

import ctypes
import itertools
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from ...cells.base import State
from ..layer import Direction
from . import interface
from .compiled import CompiledScan, is_float, supports
from .interface import address
from .shared import PlannedLayer, customised, intercepted
from .snapshot import Snapshot


class CompiledStack:
    """Layers of equal width and a head, as the compiled code reads them. The code standardises the input to (x - mean) / std.

    frozen: True to read transposed copies of the weights, which is fastest; False to read the weights themselves, with
    their values at each call. Threads may share the object.
    """

    def __init__(
        self, layers: Sequence[PlannedLayer], head: nn.Linear | None, inputs: int, mean: float, std: float, frozen: bool
    ):
        library = interface.library()
        assert library is not None
        self.library, self.layers, self.inputs, self.frozen = library, layers, inputs, frozen
        self.units, self.states = layers[0].direction.units, len(layers[0].direction.cell.states)
        self.rows = self.states * len(layers)
        """Size of the first dimension of the tensor of all states, (rows, batch, units), layer after layer."""
        self.outputs = None if head is None else len(head.weight)
        self.head = None if head is None else [_without_autograd(p, frozen) for p in (head.weight, head.bias)]
        weight, bias = self.head or (None, None)
        self.stack = interface.NativeStack(
            layers=len(layers),
            mean=mean,
            std=std,
            weight=address(weight),
            bias=address(bias),
            outputs=self.outputs or 0,
        )
        self.made_each_time = not frozen and any(m.parametrization for layer in layers for m in layer.projections)
        """True if parametrizations make matrices from weights, so that every call must make the C structures Job anew."""
        if not self.made_each_time:
            self.stack.jobs, self.held = self._jobs()
        self.reference = ctypes.byref(self.stack)

    def run(
        self,
        x: Tensor,  # (steps, batch, inputs), contiguous, float32
        states: Tensor,  # (rows, batch, units), contiguous, float32
        outputs: Tensor | None = None,  # (steps, batch, units), contiguous, float32
    ) -> tuple[Tensor | None, Tensor]:
        """Return the head's logits, (steps, batch, outputs), or None without a head, and the new states.

        outputs: memory to which the outputs of the top layer are written; None to drop them.
        """
        steps, batch, _ = x.shape
        logits = None if self.outputs is None else x.new_empty(steps, batch, self.outputs)
        return logits, self._call(steps, batch, x, states, outputs, logits)

    def step(
        self,
        x: Tensor,  # (batch, inputs), contiguous, float32
        states: Tensor,  # (rows, batch, units), contiguous, float32
    ) -> tuple[Tensor | None, Tensor]:
        """Take one time step: return the head's logits, (batch, outputs), or None without a head, and the new states."""
        batch = x.shape[0]
        logits = None if self.outputs is None else x.new_empty(batch, self.outputs)
        return logits, self._call(1, batch, x, states, None, logits)

    def _call(
        self, steps: int, batch: int, x: Tensor, states: Tensor, outputs: Tensor | None, logits: Tensor | None
    ) -> Tensor:
        """Take `steps` time steps: fill `outputs` and `logits` unless they are None, and return the new states."""
        stack, held = self.reference, None
        if self.made_each_time:
            renewed = interface.NativeStack.from_buffer_copy(self.stack)
            renewed.jobs, held = self._jobs()
            stack = ctypes.byref(renewed)
        new_states = torch.empty_like(states)
        self.library.rnnzoo_run(
            stack,
            steps,
            batch,
            x.data_ptr(),
            states.data_ptr(),
            new_states.data_ptr(),
            address(outputs),
            address(logits),
        )
        del held  # the jobs had the addresses of these tensors until now
        return new_states

    def __reduce__(self) -> tuple[object, ...]:
        """Copy and pickle as None, because the addresses are valid only in this process."""
        return type(None), ()

    def _jobs(self) -> tuple[ctypes.Array[interface.NativeJob], list[list[Tensor]]]:
        """Return a C array with a structure Job for each layer, and for each Job the tensors whose addresses it has."""
        jobs, held, width = (interface.NativeJob * len(self.layers))(), [], self.inputs
        for i, layer in enumerate(self.layers):
            start = [torch.empty(1, self.units)] * self.states
            operands = [None if t is None else _without_autograd(t, self.frozen) for t in layer.operands]
            jobs[i], tensors = CompiledScan(layer, None, None).job([torch.empty(1, 1, width), *start, *operands])
            jobs[i].threads, width = 1, self.units
            if self.frozen:
                matrices = [self._transposed(cast(Tensor, m)) for m in operands[::2][: 1 + len(layer.plan.products)]]
                jobs[i].transposed, jobs[i].weight = True, address(matrices[0])
                for k, matrix in enumerate(matrices[1:]):
                    jobs[i].product[k].weight = address(matrix)
                tensors += matrices
            held.append(tensors)
        return jobs, held

    def _transposed(self, matrix: Tensor) -> Tensor:
        """Return a matrix, (blocks * units, inputs), as (inputs, blocks, units padded to whole vectors of the processor)."""
        lanes = self.library.rnnzoo_lanes()
        blocks = matrix.unflatten(0, (-1, self.units)).permute(2, 0, 1)
        return nn.functional.pad(blocks, (0, -self.units % lanes)).contiguous()


def _without_autograd(tensor: Tensor, frozen: bool) -> Tensor:
    """Return the tensor without autograd: itself, detached, or if `frozen` a contiguous copy, which keeps its values."""
    return tensor.detach().clone(memory_format=torch.contiguous_format) if frozen else tensor.detach()


class Stepper:
    """Runs one time step of a network's layers, and of its head if that is a plain torch.nn.Linear.

    The weights are read at each step. Threads may share the object, because it never changes.
    """

    def __init__(
        self,
        stack: nn.ModuleList,
        layers: list[PlannedLayer],
        head: nn.Linear | None,
        inputs: int,
        mean: float,
        std: float,
    ):
        self.snapshot = Snapshot(stack, layers, head)
        self.compiled = CompiledStack(layers, head, inputs, mean, std, frozen=False)
        self.key = mean, std, inputs
        self.states_of_layers = [self.compiled.states] * len(layers)

    def __reduce__(self) -> tuple[object, ...]:
        """Copy and pickle as None, because the addresses are valid for one network in this process only."""
        return type(None), ()

    def fits(self, stack: nn.ModuleList, head: nn.Module | None, x: Tensor, mean: float, std: float) -> bool:
        """Return whether `step` would compute now what this stack and head compute for inputs like x, (batch, features)."""
        known = head is self.snapshot.head  # the snapshot notices changes of this head
        linear = head if known or is_plain_linear(head) else None
        return (
            _can_step(stack, head, x) and self.key == (mean, std, x.shape[1]) and self.snapshot.unchanged(stack, linear)  # type: ignore[arg-type]
        )

    def step(self, x: Tensor, state: Sequence[State]) -> tuple[Tensor | None, tuple[State, ...] | None]:
        """Return the head's outputs, (batch, outputs), or None without a plain head, and the layers' new states.

        x: (batch, features). Return (None, None) if `state` does not fit the layers or requires a gradient.
        """
        try:
            fits = list(map(len, state)) == self.states_of_layers and all(isinstance(s, tuple | list) for s in state)
            block = torch.stack([s for layer in state for s in layer]) if fits else None
        except (TypeError, RuntimeError):  # no tensors, or of several shapes
            return None, None
        if block is None or block.shape != (self.compiled.rows, x.shape[0], self.compiled.units) or not is_float(block):
            return None, None
        if block.requires_grad and torch.is_grad_enabled():
            return None, None
        logits, states = self.compiled.step(x.resolve_neg().contiguous(), block)
        layers = zip(*[iter(states.unbind(0))] * self.compiled.states, strict=True)  # in groups, one a layer
        return logits, tuple(layers)


def stepper(stack: nn.ModuleList, head: nn.Module | None, x: Tensor, mean: float, std: float) -> Stepper | None:
    """Return a Stepper for a stack and its head on inputs like x, (batch, features); None if the compiled code cannot run it.

    mean, std: the constants that standardise x.
    """
    if not _can_step(stack, head, x):
        return None
    linear = cast(nn.Linear, head) if is_plain_linear(head) else None
    layers = planned_layers(stack, linear, x)
    return None if layers is None else Stepper(stack, layers, linear, x.shape[1], mean, std)


def planned_layers(stack: nn.ModuleList, head: nn.Linear | None, x: Tensor) -> list[PlannedLayer] | None:
    """Return the layers with their plans if a CompiledStack can run them and the head on x, (batch, features), else None."""
    directions: list[Direction] = [layer.forward_direction for layer in stack]  # type: ignore[misc]
    if any(layer.block is not None for layer in stack):
        return None
    count, units = len(directions[0].cell.states), directions[0].units
    if any((len(d.cell.states), d.units) != (count, units) for d in directions):
        return None
    layers = [layer for direction in directions if (layer := supports(direction, x)) is not None]
    if len(layers) < len(directions):
        return None
    inputs: list[Tensor] = [direction.input.weight for direction in directions]
    weights = [p for layer in layers for p in layer.parameters if p is not None]
    if head is not None:
        if head.bias.shape != head.weight.shape[:1]:
            return None
        inputs.append(head.weight)
        weights += [head.weight, head.bias]
    if any(
        weight.shape[1] != width for weight, width in zip(inputs, [x.shape[1]] + [units] * len(stack), strict=False)
    ):
        return None
    # a snapshot notices only parameters that are replaced, not other tensors
    return layers if all(isinstance(p, nn.Parameter) and _is_contiguous_float(p) for p in weights) else None


def is_plain_linear(module: nn.Module | None) -> bool:
    """Return whether a module is a torch.nn.Linear with a bias and without hooks or other additions."""
    return type(module) is nn.Linear and module.bias is not None and not customised(module)


def _can_step(stack: nn.ModuleList, head: nn.Module | None, x: Tensor) -> bool:
    """Return whether the compiled code may take a step on x now: a plain tensor, (batch, features), and no gradient needed."""
    if (
        type(x) is not Tensor
        or not is_float(x)
        or x.is_nested
        or x.dim() != 2
        or len(x) == 0
        or torch.is_autocast_enabled("cpu")
        or intercepted()
    ):
        return False
    if not torch.is_grad_enabled():
        return True
    weights = itertools.chain(stack.parameters(), () if head is None else head.parameters())
    return not any(t.requires_grad for t in itertools.chain([x], weights))


def _is_contiguous_float(tensor: Tensor) -> bool:
    """Return whether the compiled code can read a tensor from its address alone."""
    return is_float(tensor) and tensor.is_contiguous() and not tensor.is_neg()
