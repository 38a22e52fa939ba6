"""The blocks of deep networks: normalisation, residual connections, gates and feed-forward networks around each layer."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from ...utils.text import counted
from .base import Count, Spec

Activation = Literal["gelu", "relu", "sigmoid", "silu"]


class FeedForwardSpec(Spec):
    """A feed-forward network after the recurrent layer: x + V f(U n(x)) or, if gated, x + V (f(U n(x)) * G n(x)).

    n is the block's normalisation, f the activation, and U, G and V are linear maps.
    """

    width: Count
    gated: bool = True
    activation: Activation = "gelu"


class BlockSpec(Spec):
    """One block around a recurrent layer: y = x + O(g(W n(x)) * f(layer(conv(n(x))))), then z = y + feed_forward(n(y)).

    W and O are linear maps. The fields choose n (`norm`), g (`gate`), f (`activation`), conv (`convolution`) and
    `feed_forward`. Griffin (De et al. 2024) has RMS norm, the gate "gelu", a convolution over 4 steps and a gated feed-forward
    network. The Transformer (Vaswani et al. 2017) normalises "after".
    """

    width: Count | None = None
    """Number of channels between blocks; None for the number of outputs of the recurrent layer."""
    norm: Literal["layer", "rms", "batch"] | None = "layer"
    norm_position: Literal["before", "after"] = "before"
    """"before" normalises the inputs of the layer, the feed-forward network and the readout; "after" normalises the result of
    each residual sum."""
    residual: bool = True
    """Whether the layer's output is added to the block's input. Without a residual and without `width`, the lowest layer
    reads the network's input as it is."""
    convolution: Annotated[int, Field(ge=2, le=64)] | None = None
    """Time steps of a causal convolution of the layer's input, with one filter for each channel."""
    activation: Activation | None = None
    """Function applied to the layer's output."""
    gate: Activation | None = None
    """Function of the gate that multiplies the layer's output."""
    feed_forward: FeedForwardSpec | None = None

    def _problems(self) -> Iterator[str]:
        if self.norm is None and self.norm_position == "after":
            yield "'norm_position' needs 'norm': set 'norm', or leave 'norm_position' out"

    @property
    def reads_raw(self) -> bool:
        """True if the lowest layer reads the network's input as it is."""
        return not self.residual and self.width is None

    @property
    def text(self) -> str:
        """The block's settings in words."""
        feed = self.feed_forward
        raw = " but the lowest layer" if self.reads_raw and self.norm_position == "before" else ""
        parts = [
            f"width {self.width}" if self.width else "",
            f"{self.norm} norm {self.norm_position} each part{raw}" if self.norm else "",
            "residual" if self.residual else "",
            f"causal convolution over {counted(self.convolution, 'step')}" if self.convolution else "",
            f"{self.activation} after the layer" if self.activation else "",
            f"{self.gate} gate" if self.gate else "",
            f"{'gated ' if feed.gated else ''}feed-forward {feed.width}, {feed.activation}" if feed else "",
        ]
        return ", ".join(part for part in parts if part) or "the layer alone"
