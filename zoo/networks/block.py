"""The block around a recurrent layer in a deep network: normalisation, residual connections, gate, feed-forward network.

Sequences are (time, batch, channels, ...) here, as in layer.py. All but CausalConvolution act on each time step separately,
so for the readout "last" the top block runs on the last step only.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..cells.projections import Projection, ProjectionFactory
from ..errors import RequestError
from ..registry.schema.blocks import BlockSpec

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu, "relu": F.relu, "sigmoid": torch.sigmoid, "silu": F.silu,
}  # fmt: skip
EPSILON = torch.finfo(torch.float32).eps
"""What RMS norm adds to the mean square, in every dtype."""


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation of x, (n, channels). Unlike nn.BatchNorm1d, it stores no num_batches_tracked in checkpoints.

    The class is torch's, so that torch.optim.swa_utils.update_bn finds it.
    """

    def __init__(self, channels: int):
        super().__init__(channels)
        self.num_batches_tracked = None
        self.batches = 0  # since reset_running_stats, which update_bn calls

    def reset_running_stats(self) -> None:
        """Set the running statistics to those of standard normal values."""
        self.batches = 0
        for tensor, value in ((self.running_var, 1.0), (self.running_mean, 0.0)):
            nn.init.constant_(tensor, value)  # type: ignore[arg-type]

    def _load_from_state_dict(self, *args: Any) -> None:
        nn.Module._load_from_state_dict(self, *args)  # that of nn.BatchNorm1d adds num_batches_tracked

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised x. Raises RequestError for one example in training, whose variance is not defined."""
        if self.training and len(x) == 1:
            raise RequestError(
                "Batch normalisation cannot train on a single vector. Use batches of two sequences or more."
            )
        momentum = self.momentum
        if self.training and momentum is None:  # the running statistics are means of all batches
            self.batches += 1
            momentum = 1 / self.batches
        return F.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, self.training, momentum or 0.0, self.eps
        )


class Norm(nn.Module):
    """Layer norm or RMS norm over the channels, or batch norm, whose statistics are over all vectors but padding: those of
    all time steps or, in the top block of a network with the readout "last", of the last steps."""

    def __init__(self, kind: str, channels: int, axis: int):
        super().__init__()
        # torch's default is the epsilon of each dtype, so that small inputs would give other values in float64
        rms = partial(nn.RMSNorm, eps=EPSILON)
        kinds: dict[str, Callable[[int], Any]] = {"layer": nn.LayerNorm, "rms": rms, "batch": BatchNorm}
        self.norm = kinds[kind](channels)
        self.kind, self.axis = kind, axis

    def forward(
        self,
        x: Tensor,  # (time, batch, channels, ...), or (batch, channels, ...)
        lengths: Tensor | None = None,  # (batch,)
    ) -> Tensor:
        x = x.movedim(self.axis, -1)
        if self.kind != "batch":
            y = self.norm(x.to(self.norm.weight.dtype))  # which autocast does for layer norm alone
        elif lengths is None or not self.training:
            y = self.norm(x.flatten(0, -2)).unflatten(0, x.shape[:-1])
        else:  # padding must not count
            valid = torch.arange(x.shape[0], device=x.device)[:, None] < lengths
            y, counted = x.clone(), x[valid]
            y[valid] = self.norm(counted.flatten(0, -2)).view_as(counted)
        return y.movedim(-1, self.axis)


class CausalConvolution(nn.Module):
    """A causal depthwise convolution over time, before the recurrence: y_t = sum over j < k of w_j x_{t-j} + b.

    Its state is the k - 1 inputs before a step, (batch, (k - 1) * channels, ...), oldest first.
    """

    def __init__(self, channels: int, steps: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(steps, channels))
        self.bias = nn.Parameter(torch.empty(channels))

    def initial_state(self, shape: torch.Size) -> Tensor:
        """Return zeros for a batch of inputs of this shape, (batch, channels, ...), in the precision of the weights."""
        steps, channels = self.weight.shape
        return self.weight.new_zeros(shape[0], (steps - 1) * channels, *shape[2:])

    def forward(
        self,
        x: Tensor,  # (time, batch, channels, ...)
        window: Tensor,  # the state
        lengths: Tensor | None = None,  # (batch,)
        tbptt_steps: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the convolved sequence, shaped as x, and the state after each sequence's end, shaped as `window`."""
        steps, channels = self.weight.shape
        past = window.to(x.dtype).unflatten(1, (steps - 1, channels)).movedim(1, 0)
        joined = torch.cat([past, x])
        if tbptt_steps is None:
            y = self._convolve(joined)
        else:  # no gradient from one part to the one before
            befores = (joined[begin:][: steps - 1] for begin in range(0, len(x), tbptt_steps))
            parts = zip(befores, x.split(tbptt_steps), strict=True)
            y = torch.cat([self._convolve(torch.cat([b.detach() if i else b, p])) for i, (b, p) in enumerate(parts)])
            if len(x) > tbptt_steps:  # nor from the state to any part but the last
                cut = steps - 1 + (len(x) - 1) // tbptt_steps * tbptt_steps
                joined = torch.cat([joined[:cut].detach(), joined[cut:]])
        if lengths is None:
            last = joined[x.shape[0] :]
        else:
            times = lengths + torch.arange(steps - 1, device=x.device)[:, None]
            last = joined[times, torch.arange(lengths.shape[0], device=x.device)]
        return y, last.movedim(0, 1).flatten(1, 2)

    def _convolve(self, x: Tensor) -> Tensor:
        """Convolve x, (k - 1 + time, batch, channels, ...), without padding; return (time, batch, channels, ...)."""
        channels = len(self.bias)
        if torch.compiler.is_exporting() and x.dim() > 3:  # torch.export cannot keep the time of images free in conv1d
            image, times = [1] * (x.dim() - 3), x.shape[0] - len(self.weight) + 1
            shifted = (x.narrow(0, j, times) * w.reshape(-1, *image) for j, w in enumerate(self.weight.flip(0)))
            return sum(shifted, start=self.bias.reshape(-1, *image))
        rows = x.movedim(0, -1).movedim(1, -2)  # (batch, ..., channels, time)
        filters = self.weight.flip(0).mT[:, None].to(x.dtype)
        y = F.conv1d(rows.flatten(0, -3), filters, self.bias.to(x.dtype), groups=channels)
        return y.unflatten(0, rows.shape[:-2]).movedim(-2, 1).movedim(-1, 0)


class Block(nn.Module):
    """Wraps a recurrent layer in norms, a residual connection, a gate and a feed-forward network: see BlockSpec.

    A layer calls `read`, then scans, then calls `write`. The first block of a stack also maps the network's input to the
    width of all blocks. With norm_position "before", the last block also normalises its output.
    """

    def __init__(
        self,
        spec: BlockSpec,
        inputs: int,  # channels of the block's input
        outputs: int,  # channels of the recurrent layer's output
        image: bool,  # whether the network is convolutional
        dropout: float,
        first: bool,
        last: bool,
    ):
        super().__init__()
        self.spec = spec
        pointwise = ProjectionFactory(0, 1 if image else None, False)
        axis, width = pointwise.axis, spec.width or outputs

        def linear(read: int, put_out: int) -> Projection:
            return pointwise.between(read, put_out, bias=True, norm=False)

        def norm(needed: object = True) -> Norm | None:
            return Norm(spec.norm, width, axis) if spec.norm and needed else None

        before = spec.norm_position == "before"
        reads_raw = first and spec.reads_raw
        self.enter = linear(inputs, width) if first and not reads_raw else None
        self.reads = inputs if reads_raw else width
        self.norm = norm(not (reads_raw and before))
        self.gate = linear(self.reads, outputs) if spec.gate else None
        self.output = linear(outputs, width) if spec.gate or outputs != width else None
        hidden = spec.feed_forward.width if spec.feed_forward else 0
        self.feed_forward_norm = norm(hidden)
        self.up = linear(width, hidden) if hidden else None
        self.up_gate = linear(width, hidden) if spec.feed_forward and spec.feed_forward.gated else None
        self.down = linear(hidden, width) if hidden else None
        self.final_norm = norm(last and before)
        self.dropout = nn.Dropout(dropout)

    def projections(self) -> Iterator[Projection]:
        """Return the block's linear maps."""
        return (m for m in self.children() if isinstance(m, Projection))

    def read(
        self,
        x: Tensor,  # (time, batch, channels, ...), or one step, (batch, channels, ...)
        lengths: Tensor | None = None,  # (batch,)
    ) -> tuple[Tensor, Tensor]:
        """Return (the residual branch, the input of the recurrent layer)."""
        x = x if self.enter is None else self.enter(x)
        return x, self._normalise("before", self.norm, x, lengths)

    def write(
        self,
        x: Tensor,  # the residual branch
        read: Tensor,  # the input of the recurrent layer
        h: Tensor,  # the output of the recurrent layer
        lengths: Tensor | None = None,  # (batch,)
    ) -> Tensor:
        """Return the output of the block, which the next layer or the readout reads."""
        h = self._gated(read, h)
        x = self._normalise("after", self.norm, x + h if self.spec.residual else h, lengths)
        if self.up is not None:
            fed = self._fed_forward(self._normalise("before", self.feed_forward_norm, x, lengths))
            x = self._normalise("after", self.feed_forward_norm, x + fed, lengths)
        return x if self.final_norm is None else self.final_norm(x, lengths)

    def _normalise(self, position: str, norm: Norm | None, x: Tensor, lengths: Tensor | None) -> Tensor:
        """Return norm(x) if there is a norm and `position`, "before" or "after", is the spec's norm_position; else x."""
        return x if norm is None or position != self.spec.norm_position else norm(x, lengths)

    def _gated(self, read: Tensor, h: Tensor) -> Tensor:
        """Apply activation, gate, output projection and dropout to h, the recurrent layer's output. read: the gate's input."""
        if self.spec.activation is not None:
            h = ACTIVATIONS[self.spec.activation](h)
        if self.gate is not None:
            h = h * ACTIVATIONS[self.spec.gate or ""](self.gate(read))
        return self.dropout(h if self.output is None else self.output(h))

    def _fed_forward(self, x: Tensor) -> Tensor:
        assert self.spec.feed_forward is not None
        assert self.up is not None
        assert self.down is not None
        hidden = ACTIVATIONS[self.spec.feed_forward.activation](self.up(x))
        return self.dropout(self.down(hidden if self.up_gate is None else hidden * self.up_gate(x)))
