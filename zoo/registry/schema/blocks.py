"""Blocks: what surrounds each recurrent layer of a deep network."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from .base import Count, Spec

Activation = Literal["gelu", "relu", "sigmoid", "silu"]


class FeedForwardSpec(Spec):
    """x + V f(U n(x)), or gated, x + V (f(U n(x)) * G n(x)), after the recurrent layer; n is the block's normalisation."""

    width: Count
    gated: bool = True
    activation: Activation = "gelu"


class BlockSpec(Spec):
    """One block: y = x + O(g(W n(x)) * f(layer(conv(n(x))))), then z = y + feed_forward(n(y)), with n, g, f, conv as given.

    Griffin (De et al. 2024) has RMS norm, the gate "gelu", a convolution over 4 steps and a gated feed-forward network;
    normalisation "after" is that of the Transformer (Vaswani et al. 2017).
    """

    width: Count | None = None
    """Channels between blocks; None: as many as the recurrent layer puts out."""
    norm: Literal["layer", "rms", "batch"] | None = "layer"
    norm_position: Literal["before", "after"] = "before"
    """Whether to normalise what layer and feed-forward network read ("before", and then what the readout reads too), or what
    comes out of each residual sum ("after")."""
    residual: bool = True
    """Whether the layer's output is added to what the block reads. Without it and without `width`, the lowest layer reads
    the network's input as it is."""
    convolution: Annotated[int, Field(ge=2, le=64)] | None = None
    """Time steps of a causal convolution, one filter for each channel, on what the layer reads."""
    activation: Activation | None = None
    """Function of the layer's output."""
    gate: Activation | None = None
    """Function of the gate that multiplies the layer's output."""
    feed_forward: FeedForwardSpec | None = None

    def _problems(self) -> Iterator[str]:
        if self.norm is None and self.norm_position == "after":
            yield "a block without 'norm' has no 'norm_position'"

    @property
    def reads_raw(self) -> bool:
        """Whether the lowest layer reads the network's input as it is."""
        return not self.residual and self.width is None

    @property
    def text(self) -> str:
        """In words."""
        feed = self.feed_forward
        raw = " but the lowest layer" if self.reads_raw and self.norm_position == "before" else ""
        parts = [
            f"width {self.width}" if self.width else "",
            f"{self.norm} norm {self.norm_position} each part{raw}" if self.norm else "",
            "residual" if self.residual else "",
            f"causal convolution over {self.convolution} steps" if self.convolution else "",
            f"{self.activation} after the layer" if self.activation else "",
            f"{self.gate} gate" if self.gate else "",
            f"{'gated ' if feed.gated else ''}feed-forward {feed.width}, {feed.activation}" if feed else "",
        ]
        return ", ".join(part for part in parts if part) or "the layer alone"
