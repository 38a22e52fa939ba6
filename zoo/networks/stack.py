"""A stack of recurrent layers and the ways to run it over a sequence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..cells import cell_class, cell_row
from ..cells.base import State
from ..cells.projections import ProjectionFactory
from ..errors import RequestError
from ..registry.schema import Architecture, Config
from . import kernels
from .kernels import wavefront
from .kernels.shared import intercepted
from .layer import Direction, Layer, LayerInput, LazyEmbedding, Outputs, Scan, stacked

NetworkState = tuple[State, ...]
"""One tuple per layer, each of (batch, units, ...) tensors; a network whose readout is "mean" adds (sum, count)."""
LayerRecord = tuple[Tensor, list[Tensor]]
"""What one layer read, (time, batch, ...), and its output at each step, (batch, units, ...)."""


@dataclass
class ScanSettings:
    """How a network runs its layers. All stacks of one network share one object."""

    backend: str = "auto"
    """The scan: "plain" is the reference; "fused" is the fastest of zoo.networks.kernels that applies, or an error; "auto" is
    that one or else plain. They agree to rounding."""
    tbptt_steps: int | None = None
    """Cut gradients through time every this many steps (truncated backpropagation through time)."""
    checkpoint_every: int | None = None
    """Keep the states of every this many steps for the backward pass, and compute the others again (activation
    checkpointing)."""

    def check(self) -> None:
        """Raise RequestError if a value is invalid."""
        if self.backend not in ("auto", "plain", "fused"):
            raise RequestError(f"backend is {self.backend!r}; it can be 'auto', 'plain' or 'fused'.")
        for name, steps in (("tbptt_steps", self.tbptt_steps), ("checkpoint_every", self.checkpoint_every)):
            if steps is not None and (type(steps) is not int or steps < 1):
                raise RequestError(f"{name} is {steps!r}; it can be None or a number of steps from 1.")


def output_width(spec: Architecture) -> int:
    """Return the number of channels that each layer of an architecture puts out."""
    cell = cell_class(spec.cell)
    return cell.channels(cell.states[0], spec.units) * (2 if spec.bidirectional == "concat" else 1)


def make_layers(spec: Architecture, inputs: int) -> nn.ModuleList:
    """Return the layers of an architecture, bottom to top; the lowest reads `inputs` channels."""
    row, cell = cell_row(spec.cell), cell_class(spec.cell)
    options: dict[str, Any] = dict(spec.options)
    if row.layers_inside:
        options["depth"] = spec.layers
    widths = [inputs] + [output_width(spec)] * (0 if row.layers_inside else spec.layers - 1)
    projections = ProjectionFactory(spec.units, spec.kernel, spec.layer_norm)

    def layer(width: int) -> Layer:
        count = 2 if spec.bidirectional else 1
        directions = [
            Direction(cell, width, projections, options, spec.zoneout, spec.recurrent_dropout) for _ in range(count)
        ]
        return Layer(directions, spec.bidirectional)

    return nn.ModuleList(layer(width) for width in widths)


class Stack:
    """Layers, one above the other, with dropout between them, and how to run them.

    It is no module: the network registers the layers, under the names that checkpoints have, and makes a Stack of what it
    has now.
    """

    def __init__(self, config: Config, layers: Sequence[Layer], dropout: nn.Dropout, settings: ScanSettings):
        self.config, self.layers, self.dropout, self.settings = config, layers, dropout, settings

    def zero_state(
        self,
        x: LayerInput,  # (batch, time, channels, ...)
    ) -> NetworkState:
        """Return zero states for a batch like `x`."""
        return tuple(layer.initial_state(x[:, 0]) for layer in self.layers)

    def run(
        self,
        x: LayerInput,  # (batch, time, channels, ...)
        state: NetworkState,
        lengths: Tensor | None,  # (batch,)
    ) -> tuple[Outputs, NetworkState]:
        """Return the top layer's outputs, time first, and the final states of all layers.

        Raises RequestError for settings that the layers cannot have.
        """
        if torch.compiler.is_dynamo_compiling():  # which would unroll the steps of the plain scan, layer by layer
            return torch.compiler.disable(self.run)(x, state, lengths)
        every, tbptt_steps = self.settings.checkpoint_every, self.settings.tbptt_steps
        if every is None or not torch.is_grad_enabled():
            return self._scan(x, state, lengths)
        spec = self.config.architecture
        if spec.bidirectional or spec.recurrent_dropout > 0 or (tbptt_steps and every % tbptt_steps):
            raise RequestError(
                f"{self.config.name} cannot have checkpoint_every={every}: it needs one direction, no recurrent dropout, "
                "and a multiple of tbptt_steps."
            )
        parts = []
        for begin in range(0, x.shape[1], every):
            if tbptt_steps and begin:
                state = tuple(tuple(s.detach() for s in layer_state) for layer_state in state)
            rest = None if lengths is None else lengths - begin
            outputs, state = checkpoint(self._scan, x[:, begin : begin + every], state, rest, use_reentrant=False)
            parts.append(stacked(outputs))
        return torch.cat(parts), state

    def _scan(self, x: LayerInput, state: NetworkState, lengths: Tensor | None) -> tuple[Outputs, NetworkState]:
        """Compute what `run` returns, by the scan that `backend` asks for."""
        backend, tbptt_steps = self.settings.backend, self.settings.tbptt_steps
        if isinstance(x, LazyEmbedding):
            fused_scan = None if backend == "plain" else kernels.layer_scan(self.layers, x)
            if fused_scan is not None:
                return self.scan_layers(x, state, lengths, fused_scan)
            x = x.vectors()
        if backend != "plain":
            drops_between = self.dropout.training and self.dropout.p > 0
            stack_scan = None if drops_between else kernels.stack_scan(self.layers, x)
            if stack_scan is not None:
                return stack_scan(x.transpose(0, 1), state, lengths, tbptt_steps)
            fused_scan = kernels.layer_scan(self.layers, x)
            if fused_scan is not None:
                return self.scan_layers(x, state, lengths, fused_scan)
            every_step_counts = lengths is None and tbptt_steps is None and not drops_between
            if every_step_counts and not intercepted() and wavefront.supports(self.layers):
                return wavefront.scan(self.layers, x.transpose(0, 1), state)
            if backend == "fused":
                raise RequestError(f"No fused scan can run {self.config.name} here. Set backend to 'auto' or 'plain'.")
        return self.scan_layers(x, state, lengths, Direction.scan)

    def scan_layers(
        self,
        x: LayerInput,  # (batch, time, channels, ...)
        state: NetworkState,
        lengths: Tensor | None,  # (batch,)
        scan_direction: Scan,
        records: list[LayerRecord] | None = None,
    ) -> tuple[Outputs, NetworkState]:
        """Scan layer after layer and return what `run` returns; append what each layer read and put out to `records`."""
        layer_input: LayerInput = x.transpose(0, 1)
        final = []
        for depth, layer in enumerate(self.layers):
            outputs, layer_final = layer.scan(
                layer_input, state[depth], lengths, self.settings.tbptt_steps, scan_direction
            )
            final.append(layer_final)
            if records is not None:
                assert isinstance(layer_input, Tensor)  # who records has embeddings looked up
                outputs = list(outputs)
                records.append((layer_input, outputs))
            if depth < len(self.layers) - 1:
                layer_input = self.dropout(stacked(outputs))
        return outputs, tuple(final)
