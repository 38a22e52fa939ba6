"""A stack of recurrent layers and the ways to run it over a sequence."""

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
from .kernels.shared import watched
from .layer import Direction, Layer, LayerInput, LazyEmbedding, Outputs, Scan, stacked

NetworkState = tuple[State, ...]
"""One tuple a layer, each of (batch, units, ...) tensors; a network that reads out the mean adds (sum, count)."""


class Stack(nn.Module):
    """The recurrent layers of a Config, one above the other, on steps of `inputs` features.

    `backend` picks the scan: "plain" is the reference, "fused" the fastest of zoo.networks.kernels that applies, or an error,
    "auto" that or else plain; they agree to rounding.
    """

    backend: str = "auto"
    tbptt_steps: int | None = None
    """Cut gradients through time every this many steps (truncated backpropagation through time)."""
    checkpoint_every: int | None = None
    """Keep, for the backward pass, only the states every this many steps, and compute the rest again (checkpointing)."""

    def __init__(self, config: Config, inputs: int):
        super().__init__()
        self.config = config
        spec = config.architecture
        row = cell_row(spec.cell)
        options: dict[str, Any] = dict(spec.options)
        if row.layers_inside:
            options["depth"] = spec.layers
        stack = 1 if row.layers_inside else spec.layers
        cell = cell_class(spec.cell)
        self.width = cell.channels(cell.states[0], spec.units) * (2 if spec.bidirectional == "concat" else 1)
        widths = [inputs] + [self.width] * (stack - 1)
        self.layers = nn.ModuleList(self._layer(spec, options, width) for width in widths)
        self.dropout = nn.Dropout(spec.dropout)

    @staticmethod
    def _layer(spec: Architecture, options: dict[str, Any], inputs: int) -> Layer:
        cell = cell_class(spec.cell)
        maps = ProjectionFactory(spec.units, spec.kernel, spec.layer_norm)
        ways = 2 if spec.bidirectional else 1
        make = [Direction(cell, inputs, maps, options, spec.zoneout, spec.recurrent_dropout) for _ in range(ways)]
        return Layer(make, spec.bidirectional)

    @property
    def stack(self) -> list[Layer]:
        """The layers, bottom to top."""
        return [layer for layer in self.layers if isinstance(layer, Layer)]

    def zero_state(self, x: LayerInput) -> NetworkState:
        return tuple(layer.initial_state(x[:, 0]) for layer in self.stack)

    def run(self, x: LayerInput, state: NetworkState, lengths: Tensor | None) -> tuple[Outputs, NetworkState]:
        """The top layer's outputs and all final states, for x: (batch, time, ...)."""
        if torch.compiler.is_dynamo_compiling():  # which would unroll the steps of the plain scan, layer by layer
            return torch.compiler.disable(self.run)(x, state, lengths)
        if self.checkpoint_every is None or not torch.is_grad_enabled():
            return self._scan(x, state, lengths)
        spec, every, cut = self.config.architecture, self.checkpoint_every, self.tbptt_steps
        if spec.bidirectional or spec.recurrent_dropout > 0 or (cut and every % cut):
            raise RequestError(
                f"{self.config.name} cannot be recomputed every {every} steps: that takes a network of one direction "
                "without recurrent dropout, and a multiple of truncate."
            )
        parts = []
        for begin in range(0, x.shape[1], every):
            if cut and begin:
                state = tuple(tuple(s.detach() for s in part) for part in state)
            left = None if lengths is None else lengths - begin
            outputs, state = checkpoint(self._scan, x[:, begin : begin + every], state, left, use_reentrant=False)
            parts.append(stacked(outputs))
        return torch.cat(parts), state

    def _check_settings(self) -> None:
        """Raise RequestError for what `backend`, `truncate` or `recompute` cannot be."""
        if self.backend not in ("auto", "plain", "fused"):
            raise RequestError(f"backend is {self.backend!r}; it can be 'auto', 'plain' or 'fused'.")
        for name, every in (("tbptt_steps", self.tbptt_steps), ("checkpoint_every", self.checkpoint_every)):
            if every is not None and (type(every) is not int or every < 1):
                raise RequestError(f"{name} is {every!r}; it can be None or a number of steps from 1.")

    def _scan(self, x: LayerInput, state: NetworkState, lengths: Tensor | None) -> tuple[Outputs, NetworkState]:
        """As run, by whichever scan `backend` asks for."""
        if isinstance(x, LazyEmbedding):
            run = None if self.backend == "plain" else kernels.layer_scan(self.stack, x)
            if run is not None:
                return self.layered(x, state, lengths, run)
            x = x.vectors()
        if self.backend != "plain":
            random = self.training and self.dropout.p > 0
            stack = None if random else kernels.stack_scan(self.stack, x)
            if stack is not None:
                return stack(self.stack, x.transpose(0, 1), state, lengths, self.tbptt_steps)
            run = kernels.layer_scan(self.stack, x)
            if run is not None:
                return self.layered(x, state, lengths, run)
            plain = lengths is None and self.tbptt_steps is None and not random
            if plain and not watched() and wavefront.supports(self.stack):
                return wavefront.scan(self.stack, x.transpose(0, 1), state)
            if self.backend == "fused":
                raise RequestError(f"No fused scan can run {self.config.name} here; set backend to 'auto' or 'plain'.")
        return self.layered(x, state, lengths, Direction.scan)

    def layered(
        self, x: LayerInput, state: NetworkState, lengths: Tensor | None, run: Scan,
        keep: list[tuple[Tensor, list[Tensor]]] | None = None,
    ) -> tuple[Outputs, NetworkState]:  # fmt: skip
        """Layer by layer. `keep`, if given, receives every layer's input and outputs."""
        h: LayerInput = x.transpose(0, 1)
        final = []
        for depth, layer in enumerate(self.stack):
            outputs, end = layer.scan(h, state[depth], lengths, self.tbptt_steps, run)
            final.append(end)
            if keep is not None:
                assert isinstance(h, Tensor)  # who keeps inputs has them looked up
                outputs = list(outputs)
                keep.append((h, outputs))
            if depth < len(self.layers) - 1:
                h = self.dropout(stacked(outputs))
        return outputs, tuple(final)
