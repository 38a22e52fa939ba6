"""Code that the fused scans share: which layers they can run, the layers' parameters, and gradients of gradients."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from ...cells.base import Cell, State
from ...cells.projections import Dense, Diagonal, Projection
from ...checkpoints.tokenizer import PADDING
from ...utils import torch_internals
from ..layer import Direction, LayerInput, LazyEmbedding, stacked
from ..signature import MODULE_ATTRIBUTES
from .devices import device_module
from .plans import Plan, plan

Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True, eq=False)
class PlannedLayer:
    """One direction of a layer, and the plan by which a fused scan runs it."""

    direction: Direction
    plan: Plan

    @property
    def projections(self) -> list[Projection]:
        """The input projection, then the projection of every product, then that of the plan's vector if it has one."""
        vector = () if self.plan.vector is None else (self.plan.vector,)
        return [self.direction.input, *(product.projection for product in self.plan.products), *vector]

    @property
    def parameters(self) -> list[Tensor | None]:
        """Weight and bias of every projection."""
        return [p for m in self.projections for p in (m.weight, m.bias)]

    @property
    def operands(self) -> list[Tensor | None]:
        """Matrix and bias of every projection. The matrix is the weight, or what a parametrization makes of it."""
        return [p for m in self.projections for p in (m.matrix, m.bias)]

    def is_dense_equations(self, x: Tensor) -> bool:
        """Return whether running this layer on x computes the cell's equations with dense products and nothing else."""
        direction, vector = self.direction, self.plan.vector
        return (
            in_memory(x)
            and not intercepted()
            and not direction.regularised
            and direction.cell.axis == -1
            and not overridden(direction)
            and not overridden(direction.cell)
            and all(type(m) is (Diagonal if m is vector else Dense) for m in self.projections)
            and all(m.norm is None and not customised(m) for m in self.projections)
        )


def planned(direction: Direction) -> PlannedLayer | None:
    """Return the direction with the plan of its cell, or None if the cell has no plan."""
    cell_plan = plan(direction.cell)
    return None if cell_plan is None else PlannedLayer(direction, cell_plan)


def in_memory(tensor: Tensor) -> bool:
    """Return whether a tensor is a plain Tensor or Parameter with storage."""
    return type(tensor) in (Tensor, nn.Parameter) and torch_internals.has_storage(tensor)


def contiguous(tensor: Tensor) -> Tensor:
    """Return a tensor with the same values, contiguous and without torch's lazy negation."""
    return tensor.detach().resolve_neg().contiguous()


def apart(*tensors: Tensor) -> list[Tensor]:
    """Return a view of each tensor, detached if it has no gradient, so that the gradient with respect to each is partial.

    One tensor may be computed from another; the views are not computed from each other.
    """
    return [t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in tensors]


def intercepted() -> bool:
    """Return whether something must see every operation: compilation, tracing, torch.func, forward-mode
    differentiation, or a TorchDispatchMode such as one that counts operations."""
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()  # type: ignore[attr-defined]
        or torch_internals.transforms_active()
        or torch_internals.forward_mode_active()
        or torch_internals.dispatch_mode_active()
    )


def formats(tensors: Sequence[Tensor | None]) -> list[object]:
    """Return the shape, dtype and device of each tensor, None for None, for `check_formats` in the backward pass."""
    return [t if t is None else (t.shape, t.dtype, t.device) for t in tensors]


def check_formats(tensors: Sequence[Tensor | None], formats_then: list[object]) -> None:
    """Raise RuntimeError if a tensor's shape, dtype or device is not that in `formats_then`, what `formats` returned.

    They change when a network is converted, as by `net.half()`, and torch's version counters do not notice that.
    """
    if formats(tensors) != formats_then:
        raise RuntimeError(
            "The gradient cannot be computed: an input or weight of the scan does not have the type, shape or device that it had in "
            "the forward pass. Convert the network before the forward pass, not between forward and backward."
        )


def takes_recurrence(direction: Direction, x: LayerInput, modules: Mapping[str, str]) -> bool:
    """Return whether code that computes only a cell's recurrence can run this layer on x now, if it knows the cell.

    modules: the names of the modules with that code, by type of device. There must be one for the device of x that takes the
    weights, and nothing may be added to the cell's recurrence.
    """
    weight = direction.input.weight
    recurrences = device_module(modules, x.device)
    return (
        recurrences is not None
        and x.device == weight.device
        and recurrences.supports(weight)
        and in_memory(weight)
        and (isinstance(x, LazyEmbedding) or in_memory(x))
        and not intercepted()
        and not direction.regularised
        and not overridden(direction)
        and not customised(direction.cell)
    )


def overridden(module: nn.Module) -> bool:
    """Return whether a method was replaced on this module alone, not in its class."""
    return any(callable(getattr(type(module), name, None)) for name in vars(module).keys() - MODULE_ATTRIBUTES)


def rewritten(cell: Cell, names: Iterable[str], by: str) -> bool:
    """Return whether a cell's class redefines one of `names` and not `by`, which states the same for a scan."""
    order = type(cell).__mro__

    def place(name: str) -> int:
        return next(i for i, owner in enumerate(order) if name in vars(owner))

    return any(place(name) < place(by) for name in names)


def customised(module: nn.Module) -> bool:
    """Return whether calling the module does more than its class says: a hook, a torch parametrization or a new method."""
    return (
        torch_internals.has_hooks(module)
        or "parametrizations" in torch_internals.children(module)
        or bool(torch_internals.global_module_hooks_active())
        or overridden(module)
    )


def differentiable(
    layers: Sequence[PlannedLayer],
    inputs: Sequence[Tensor | None],
    wanted: Sequence[bool],
    output_gradients: Sequence[Tensor | None],
    lengths: Tensor | None,
    tbptt_steps: int | None,
    tokens: Tensor | None = None,
) -> list[Tensor | None]:
    """Return the gradients with respect to the `wanted` inputs, computed by the plain scan; None for the other inputs.

    If gradients are enabled, the results can be differentiated again. inputs: x, the initial states and the operands of
    every layer. output_gradients: the gradients of the top layer's outputs and of the final states, layer after layer.
    tokens: indices of the vectors in x that the stack reads; None if the stack reads x itself. tbptt_steps: gradients are cut
    every this many steps; None for never.
    """
    states_end = 1 + sum(len(layer.direction.cell.states) for layer in layers)
    final_states: list[Tensor] = []
    differentiate_again = torch.is_grad_enabled()
    with torch.enable_grad():
        # one input may be computed from another; a view of each is not, so the gradient by each is the partial one
        inputs = [t if t is None else t.view_as(t) for t in inputs]
        x, states, operands = inputs[0], iter(inputs[1:states_end]), iter(inputs[states_end:])
        assert x is not None
        if tokens is not None:
            x = nn.functional.embedding(tokens, x, PADDING)
        for layer in layers:
            start: State = tuple(next(states) for _ in layer.direction.cell.states)  # type: ignore[misc]
            direction = _with_operands(
                layer.direction, {m: (next(operands), next(operands)) for m in layer.projections}
            )
            direction.training, direction.zoneout = False, 0.0  # as when the fused scan ran
            outputs, end = direction.scan(x, start, lengths, tbptt_steps)
            x = stacked(outputs)
            final_states += end
        all_pairs = zip((x, *final_states), output_gradients, strict=True)
        pairs = [(end, gradient) for end, gradient in all_pairs if gradient is not None and end.requires_grad]
        if not pairs:
            return [None] * len(wanted)
        ends, gradients = zip(*pairs, strict=True)
        sources = [t for t, want in zip(inputs, wanted, strict=True) if want]
        results = iter(
            torch.autograd.grad(ends, sources, gradients, create_graph=differentiate_again, allow_unused=True)  # type: ignore[arg-type]
        )
    return [next(results) if want else None for want in wanted]


def _with_operands(module: Module, operands: Mapping[nn.Module, tuple[Tensor | None, Tensor | None]]) -> Module:
    """Return a copy of `module` whose projections have the values (matrix, bias) that `operands` has for them.

    The module itself may compute with other weights by now, or be running in another thread, so it stays as it is.
    """
    children = torch_internals.children(module).items()
    submodules = {name: None if m is None else _with_operands(m, operands) for name, m in children}
    if module not in operands:
        return torch_internals.shallow_copy(module, submodules, torch_internals.parameters(module))
    projection = torch_internals.shallow_copy(module, submodules, {})
    projection.weight, projection.bias = operands[module]  # type: ignore[assignment]
    projection.parametrization = None  # type: ignore[assignment]  # it has made this matrix already
    return projection
