"""The base of networks with recurrent layers: settings of the scan, what the layers read, and the readout."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..errors import RequestError
from ..registry.schema import Config
from .layer import Layer, LayerInput, LazyEmbedding, Outputs, stacked
from .network import Network
from .sequences import mask, mean_of_sum, sum_over_time
from .stack import NetworkState, ScanSettings, Stack, make_layers, output_width


class SequenceNetwork(Network):
    """A network that reads sequences through stacks of recurrent layers, the first of which are its `layers`.

    Layers are run by their own methods, not called, so hooks on them do not fire; hooks on their maps do.
    """

    layers: Sequence[Layer]

    def __init__(self, config: Config):
        super().__init__(config)
        spec, interface = config.architecture, config.interface
        self.settings = ScanSettings()
        self.width = output_width(spec)
        self.layers = make_layers(spec, spec.embedding.size if spec.embedding else interface.input[0])  # type: ignore[assignment]
        self.dropout = nn.Dropout(spec.dropout)
        self._add_head()
        self._mean_std = (0.0, 1.0)
        if spec.standardize:
            assert not isinstance(interface.mean, tuple)  # a mean per feature is for inputs without time steps
            assert not isinstance(interface.std, tuple)
            self._mean_std = interface.mean, interface.std

    @property
    def backend(self) -> str:
        """The scan: "plain" is the reference, "fused" the fastest one that applies, or an error, "auto" that or else plain."""
        return self.settings.backend

    @backend.setter
    def backend(self, value: str) -> None:
        self.settings.backend = value

    @property
    def tbptt_steps(self) -> int | None:
        """Cut gradients through time every this many steps (truncated backpropagation through time)."""
        return self.settings.tbptt_steps

    @tbptt_steps.setter
    def tbptt_steps(self, value: int | None) -> None:
        self.settings.tbptt_steps = value

    @property
    def checkpoint_every(self) -> int | None:
        """Keep the states of every this many steps for the backward pass, and compute the others again."""
        return self.settings.checkpoint_every

    @checkpoint_every.setter
    def checkpoint_every(self, value: int | None) -> None:
        self.settings.checkpoint_every = value

    @property
    def stack(self) -> Stack:
        """The network's own layers, and the ways to run them."""
        return self._stack(self.layers)

    def _stack(self, layers: Sequence[Layer]) -> Stack:
        return Stack(self.config, layers, self.dropout, self.settings)

    def _check_sequences(
        self,
        x: Tensor,  # (batch, time, *input)
    ) -> None:
        """Raise RequestError for settings or inputs that do not fit."""
        self.settings.check()
        self._check_dtype(x)
        if x.dim() != 2 + len(self.interface.input) or x.shape[2:] != self.interface.input or 0 in x.shape[:2]:
            raise RequestError(f"{self.config.name} takes ({self._shape_text('batch, time')}); got {shape_text(x)}.")

    def _layer_input(
        self,
        x: Tensor,  # (batch, time, *input), or tokens (batch, time)
        lengths: Tensor | None,  # (batch,)
    ) -> LayerInput:
        """Return what the first layer reads, zero beyond each sequence's end: vectors of tokens, or standardised numbers."""
        if self.embedding is None:
            return mask(self._standardized(x), lengths)
        return self._lookup(mask(x, lengths), self.embedding)  # token 0 has the zero vector

    def _standardized(self, x: Tensor) -> Tensor:
        mean, std = self._mean_std
        return x if (mean, std) == (0.0, 1.0) else (x - mean) / std

    def _lookup(
        self,
        tokens: Tensor,  # (batch, time), or (batch,)
        embedding: nn.Embedding,
    ) -> LazyEmbedding:
        if not torch.compiler.is_exporting() and (tokens.min() < 0 or tokens.max() >= len(embedding.weight)):
            raise RequestError(f"{self.config.name} has tokens from 0 to {len(embedding.weight) - 1}.")
        return LazyEmbedding(embedding, tokens)

    def _readout(
        self,
        outputs: Outputs,  # (time, batch, units, ...) of the top layer
        final: NetworkState,
        lengths: Tensor | None,  # (batch,)
        top: Layer,
    ) -> Tensor:
        """Return what the head reads of a stack's outputs and final states: (batch, width), or (batch, time, width)."""
        if self.interface.readout == "last":
            return self._flat(top.last(outputs, final[-1], lengths))
        steps = stacked(outputs).transpose(0, 1)
        if self.interface.readout == "every":
            return mask(self._flat(steps), lengths)
        return self._flat(mean_of_sum(*sum_over_time(mask(steps, lengths), lengths)).to(steps.dtype))

    def _flat(
        self,
        h: Tensor,  # (..., width) or (..., channels, height, width of the image)
    ) -> Tensor:
        """Return (..., width): dense outputs as they are, images through the neck."""
        return h if self.config.architecture.kernel is None else self.neck(h)


def shape_text(x: Tensor) -> str:
    """Return the shape of x in words; an empty tensor says so."""
    return f"{tuple(x.shape)}{'' if x.numel() else ', which is empty'}"
