"""One scan of a stack of layers in Triton, chunk of time by chunk of time.

Layer l works on chunk c while layer l + 1 works on chunk c - 1. Where nothing runs side by side, as on a CPU in Triton's
interpreter, the same launches follow one another.
"""

from collections.abc import Sequence
from contextlib import ExitStack

import torch
from torch import Tensor

from .lanes import Lanes
from .shared import PlannedLayer
from .triton_layer import TritonLayer, multiplication
from .triton_pointwise import CELLS


class TritonScan:
    """One scan of a stack. `inputs` in its methods are x, the initial states of all layers, and the operands of all layers.

    dtype: the precision of the scan. tbptt_steps: gradients are cut every this many steps; None for never. chunk: the number of
    steps in a chunk.
    """

    def __init__(
        self, stack: Sequence[PlannedLayer], x: Tensor, dtype: torch.dtype, lengths: Tensor | None,
        tbptt_steps: int | None, chunk: int,
    ):  # fmt: skip
        self.stack, self.dtype = list(stack), dtype
        self.steps, self.chunk, self.device = len(x), chunk, x.device
        self.lengths, self.tbptt_steps = None if lengths is None else lengths.long().contiguous(), tbptt_steps
        self.autocast = torch.is_autocast_enabled(x.device.type)
        self.weights_begin = 1 + sum(len(layer.direction.cell.states) for layer in stack)
        """Index of the first operand in `inputs`. The inputs before it are new tensors at every call."""

    @property
    def key(self) -> tuple[object, ...]:
        """Everything but its inputs on which a recording (see graph.py) depends."""
        cells = [(layer.plan.name, layer.plan.option) for layer in self.stack]
        return self.dtype, multiplication(self.dtype, 16, 1), self.tbptt_steps, self.chunk, self.lengths is None, *cells

    def memory(self, x: Tensor) -> int:
        """Return an estimate of the memory that a training step takes, in bytes."""
        blocks = 0  # of (time, batch)
        for layer in self.stack:
            plan, cell = layer.plan, CELLS[layer.plan.name]
            blocks += layer.direction.units * (3 + plan.blocks + cell.tape_blocks(plan.phases))
        return blocks * x.shape[0] * x.shape[1] * (4 if self.dtype == torch.float32 else 2)

    def context(self) -> ExitStack:
        """Return the context of the launches: the inputs' device, no autocast, no autograd."""
        stack = ExitStack()
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.autocast(self.device.type, enabled=False))
        if self.device.type == "cuda":
            stack.enter_context(torch.cuda.device(self.device))
        return stack

    def _chunks(self) -> list[tuple[int, int]]:
        return [(begin, min(begin + self.chunk, self.steps)) for begin in range(0, self.steps, self.chunk)]

    def layers(
        self, inputs: Sequence[Tensor | None], saved: Sequence[Tensor] | None = None, train: bool = True
    ) -> list[TritonLayer]:
        """Return the layers with their buffers, each reading the output of the layer below.

        saved: the outputs and the tape of every layer, which the forward pass left for the backward pass. train: whether to
        write a tape.
        """
        x, operands, layers = inputs[0], iter(inputs[self.weights_begin :]), []
        assert x is not None
        x = x.detach().to(self.dtype).contiguous()
        for i, planned in enumerate(self.stack):
            layer_operands = [next(operands) for _ in range(2 * len(planned.projections))]
            layer_saved = None if saved is None else saved[2 * i : 2 * i + 2]
            layers.append(TritonLayer(planned, x, layer_operands, self.lengths, self.tbptt_steps, layer_saved, train))
            x = layers[-1].output
        return layers

    def forward(self, layers: Sequence[TritonLayer], inputs: Sequence[Tensor | None], lanes: Lanes) -> list[Tensor]:
        """Run all layers, each on its own lane, a CUDA stream for its launches (see Lanes).

        Return one list: the top layer's output, (time, batch, units), then the final states of every layer from the first up.
        """
        states = iter(inputs[1 : self.weights_begin])
        lanes.fork()
        for i, layer in enumerate(layers):
            with lanes.on(i):
                layer.start_forward([next(states) for _ in range(layer.states)])  # type: ignore[misc]
        for begin, end in self._chunks():
            for i, layer in enumerate(layers):
                with lanes.on(i, after=i - 1):
                    layer.forward(begin, end)
        lanes.join()
        return [layers[-1].output, *(s for layer in layers for s in layer.carried())]

    def backward(
        self, layers: Sequence[TritonLayer], output_gradients: Sequence[Tensor | None], wanted: Sequence[bool],
        lanes: Lanes,
    ) -> list[Tensor | None]:  # fmt: skip
        """Return one gradient for each input, in the order of the inputs; None for those that are not `wanted`.

        output_gradients: the gradients of what `forward` returned, in that order.
        """
        top_gradient = None if output_gradients[0] is None else output_gradients[0].to(self.dtype).contiguous()
        state_gradients = iter(output_gradients[1:])
        lanes.fork()
        for i, layer in enumerate(layers):
            with lanes.on(i):
                layer.start_backward([next(state_gradients) for _ in range(layer.states)], want_x=i > 0 or wanted[0])
        for begin, end in reversed(self._chunks()):
            y_gradient = top_gradient
            for i, layer in reversed(list(enumerate(layers))):
                with lanes.on(i, after=i + 1):
                    layer.backward(y_gradient, begin, end)
                y_gradient = layer.x_gradient
        train = any(wanted[self.weights_begin :])
        weight_gradients: list[Tensor | None] = []
        for i, layer in enumerate(layers):
            with lanes.on(i):
                weight_gradients += layer.weight_gradients() if train else [None] * len(layer.operands)
        lanes.join()
        gradients = [layers[0].x_gradient, *(s for layer in layers for s in layer.carried()), *weight_gradients]
        return [g if want else None for g, want in zip(gradients, wanted, strict=True)]
