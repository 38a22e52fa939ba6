"""What the scan of a layer gave, from which a readout takes the steps that it needs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from ..cells.base import State
from .layer import Layer, Outputs, stacked


@dataclass(frozen=True)
class LayerOutputs:
    """What the scan of a layer gave, and what its block still has to add: to all steps, or to those that are needed."""

    layer: Layer
    outputs: Outputs
    final: State
    lengths: Tensor | None = None  # (batch,)
    residual: Tensor | None = None  # (time, batch, channels, ...), None without a block
    read: Tensor | None = None  # as `residual`: what the layer read

    def of_last_step(self) -> "LayerOutputs":
        """Return this with each sequence's own last step alone, where `outputs` has no other."""
        if self.residual is None or self.read is None:
            return replace(self, lengths=None)
        return replace(
            self, residual=self._at_end(self.residual)[None], read=self._at_end(self.read)[None], lengths=None
        )

    @property
    def cell_input(self) -> Tensor:
        """What the input projection of the forward direction read, (time, batch, channels, ...)."""
        convolution = self.layer.forward_direction.convolution
        assert self.read is not None
        if convolution is None:
            return self.read
        return convolution(self.read, convolution.initial_state(self.read.shape[1:]), self.lengths)[0]

    @cached_property
    def steps(self) -> Outputs:
        """The output of every step, (batch, width, ...) each or (time, batch, width, ...)."""
        return self.outputs if self.layer.block is None else self._written(stacked, self.lengths)

    @property
    def last(self) -> Tensor:
        """The output after the whole sequence, (batch, width, ...); of two directions, each at its own last step."""
        layer = self.layer
        if layer.merge is not None:
            forward, backward = self.final[0], self.final[len(layer.forward_direction.states)]
            return layer.merged(forward[None], backward[None])[0]
        return self._written(self._at_end)

    def _written(self, select: Callable[[Outputs], Tensor], lengths: Tensor | None = None) -> Tensor:
        """Return the selected steps of the outputs as the block writes them, if there is one."""
        h, block = select(self.outputs), self.layer.block
        if block is None:
            return h
        assert self.residual is not None
        assert self.read is not None
        return block.write(select(self.residual), select(self.read), h, lengths)

    def _at_end(self, outputs: Outputs) -> Tensor:
        """Return each sequence's own last step, (batch, ...)."""
        if self.lengths is None:
            return outputs[-1]
        return stacked(outputs)[self.lengths - 1, torch.arange(self.lengths.shape[0], device=self.lengths.device)]
