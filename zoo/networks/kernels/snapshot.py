"""Remembers everything that the modules of a stack compute with, so that a later change is noticed."""

from collections.abc import Sequence, Sized

from torch import Tensor, nn

from ...utils import torch_internals
from .shared import PlannedLayer


class Snapshot:
    """The modules, options, hooks and weights of a stack and its head, as they were when the snapshot was taken.

    A stream calls `unchanged` at every step, so `unchanged` must not walk the modules. __init__ collects the dictionaries in
    which modules keep what can change, one list for each kind; `unchanged` reads each list again, in C, and compares it.
    """

    def __init__(self, stack: nn.ModuleList, layers: Sequence[PlannedLayer], head: nn.Linear | None):
        directions = [layer.direction for layer in layers]
        cells = [direction.cell for direction in directions]
        projections = [m for layer in layers for m in layer.projections]
        heads = [] if head is None else [head]
        readers = [*projections, *heads]
        self.stack, self.head = stack, head

        # a submodule replaced, added or removed, anywhere in the stack
        self.submodules = [torch_internals.children(m) for m in (*stack.modules(), *heads)]
        self.submodules_then = [dict(submodules) for submodules in self.submodules]

        # to notice a change of class
        self.modules: list[nn.Module] = [*directions, *cells, *readers]
        self.classes_then = list(map(type, self.modules))

        # to notice a changed option of the equations, and a new bias of a module that had none
        options = [(vars(direction), "zoneout") for direction in directions]
        options += [(vars(cell), name) for cell in cells for name, value in vars(cell).items() if _is_option(value)]
        options += [(vars(m), "parametrization") for m in projections]
        options += [(torch_internals.parameters(m), "bias") for m in readers if m.bias is None]
        self.option_owners, self.option_names = zip(*options, strict=True)
        self.options_then = self._options()

        # to notice a new hook, and a method replaced on one module, which adds an attribute
        self.sized: list[Sized] = [hooks for m in projections for hooks in torch_internals.forward_hooks(m)]
        self.sized += [hooks for m in heads for hooks in torch_internals.all_hooks(m)]
        self.sized += map(vars, self.modules)
        self.sizes_then = list(map(len, self.sized))

        # to notice weights in other memory; a step reads new values in the same memory by itself. `weight.data =
        # weight.data.t()` moves nothing and is not noticed: asking each weight for its strides would slow every step
        owned = [torch_internals.parameters(m) for m in readers]
        weights = [(parameters, name) for parameters in owned for name, p in parameters.items() if p is not None]
        self.parameter_owners, self.parameter_names = zip(*weights, strict=True)
        self.addresses_then = self._addresses()

    def unchanged(self, stack: nn.ModuleList, head: nn.Linear | None) -> bool:
        """Return whether a step of this stack and head still computes the same as when the snapshot was taken."""
        try:
            addresses = self._addresses()
        except (KeyError, TypeError):  # a parameter was deleted, or is None
            return False
        return (
            self.same_modules(stack)
            and head is self.head
            and list(map(type, self.modules)) == self.classes_then
            and list(map(len, self.sized)) == self.sizes_then
            and self._options() == self.options_then
            and not torch_internals.global_module_hooks_active()
            and addresses == self.addresses_then
        )

    def same_modules(self, stack: nn.ModuleList) -> bool:
        """Return whether `stack` is the object of which the snapshot was taken and still has the same modules."""
        return stack is self.stack and self.submodules == self.submodules_then

    def _options(self) -> list[object]:
        return list(map(dict.get, self.option_owners, self.option_names))

    def _addresses(self) -> list[int]:
        return list(map(Tensor.data_ptr, map(dict.__getitem__, self.parameter_owners, self.parameter_names)))


def _is_option(value: object) -> bool:
    """Return whether an attribute of a cell with this value is an option, which decides what the cell computes."""
    return isinstance(value, bool | int | float | str) or callable(value)
