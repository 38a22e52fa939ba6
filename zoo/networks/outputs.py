"""The outputs of a layer's scan. The block is applied only to the steps that the readout reads."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..cells.base import State
from .layer import Layer, Outputs, stacked


@dataclass(frozen=True)
class LayerOutputs:
    """The outputs of a layer's scan, and what the layer's block needs to compute its outputs from them.

    final: the final states of the scan. residual: the block's residual branch. read: the input of the recurrent layer.
    """

    layer: Layer
    outputs: Outputs
    final: State
    lengths: Tensor | None = None  # (batch,)
    residual: Tensor | None = None  # (time, batch, channels, ...), None without a block
    read: Tensor | None = None  # the layer's input, shaped as `residual`
    _steps: dict[str, Outputs] = field(init=False, repr=False, default_factory=dict)  # keeps what `steps` computed

    def of_last_step(self) -> "LayerOutputs":
        """Return these outputs as those of the last step alone, for a scan that computed only each sequence's last step."""
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

    @property
    def steps(self) -> Outputs:
        """The layer's output at every step, after the block if any: (batch, width, ...) each or (time, batch, width, ...)."""
        if self.layer.block is None:
            return self.outputs
        if not self._steps:  # no cached_property: dynamo cannot trace its lock
            self._steps["steps"] = self._written(stacked, self.lengths)
        return self._steps["steps"]

    @property
    def last(self) -> Tensor:
        """The layer's output at each sequence's last step, (batch, width, ...).

        Of two directions, the outputs after each direction's own last step are merged.
        """
        layer = self.layer
        if layer.merge is not None:
            forward, backward = self.final[0], self.final[len(layer.forward_direction.states)]
            return layer.merged(forward[None], backward[None])[0]
        return self._written(self._at_end)

    def _written(self, select: Callable[[Outputs], Tensor], lengths: Tensor | None = None) -> Tensor:
        """Return the outputs at the steps that `select` takes from a sequence, after the block if there is one."""
        h, block = select(self.outputs), self.layer.block
        if block is None:
            return h
        assert self.residual is not None
        assert self.read is not None
        return block.write(select(self.residual), select(self.read), h, lengths)

    def _at_end(self, outputs: Outputs) -> Tensor:
        """Return the values of `outputs` at each sequence's last step, (batch, ...)."""
        if self.lengths is None:
            return outputs[-1]
        return stacked(outputs)[self.lengths - 1, torch.arange(self.lengths.shape[0], device=self.lengths.device)]
