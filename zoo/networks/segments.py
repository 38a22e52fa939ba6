"""State resets inside sequences: each part between two resets becomes a sequence of its own, for every scan alike."""

from collections.abc import Callable

import torch
from torch import Tensor

from ..errors import RequestError, shown
from .network import is_strided, shape_text
from .stack import NetworkState


class Segments:
    """The segments of a batch of sequences: each begins at a reset, or with its sequence, and ends before the next one.

    A segment is a sequence of its own in a batch of all segments, padded to the longest. So the scans need not know of
    resets, and memory and time grow with the number of segments times the length of the longest.
    """

    def __init__(
        self,
        resets: Tensor,  # (batch, time), bool: True where a step begins from the initial state
        lengths: Tensor,  # (batch,), integers from 1 to time
    ):
        batch, time = resets.shape
        t = torch.arange(time, device=resets.device)
        self.inside = t < lengths[:, None]
        starts = (resets | (t == 0)) & self.inside
        self.number = (starts.flatten().cumsum(0) - 1).view(batch, time)  # of the segment that each step is in
        self.place = t - torch.where(starts, t, 0).cummax(1).values  # of each step in its segment
        self.first, self.last = self.number[:, 0], self.number[:, -1]
        self.lengths = torch.zeros(int(starts.sum()), dtype=torch.long, device=resets.device)
        self.lengths.index_add_(0, self.number[self.inside], torch.ones_like(self.number[self.inside]))
        self.goes_on = ~resets[:, 0]  # the sequences that begin from a given state
        begins = starts.flatten().nonzero()
        steps = torch.arange(int(self.lengths.max()), device=resets.device)
        self._steps = (begins + steps).clamp_(max=batch * time - 1)  # (segments, longest), in the flat batch

    def split(self, x: Tensor) -> Tensor:
        """Return (segments, longest, ...) for x, (batch, time, ...). What follows a segment's end is no part of it."""
        return x.flatten(0, 1)[self._steps]

    def join(self, steps: Tensor) -> Tensor:
        """Return (batch, time, ...) for steps, (segments, longest, ...); zeros beyond each sequence's end."""
        joined = steps[self.number, self.place.clamp(max=steps.shape[1] - 1)]
        return joined.masked_fill(~self.inside.view(*self.inside.shape, *[1] * (joined.dim() - 2)), 0)

    def begin(self, initial: Callable[[int], NetworkState], state: NetworkState | None) -> NetworkState:
        """Return the states in which the segments begin: `state`, where a sequence goes on from it, else the initial one."""
        zeros = initial(len(self.lengths))
        if state is None:
            return zeros
        ongoing, rows = self.first[self.goes_on], self.goes_on
        return tuple(
            tuple(z.index_copy(0, ongoing, s[rows].to(z.dtype)) for z, s in zip(*layer, strict=True))
            for layer in zip(zeros, state, strict=True)
        )

    def end(self, final: NetworkState) -> NetworkState:
        """Return the states at the end of each sequence's last segment."""
        return tuple(tuple(s[self.last] for s in states) for states in final)


def reset_where(resets: Tensor, initial: NetworkState, state: NetworkState) -> NetworkState:
    """Return `state` with the initial one in the place of each sequence, (batch,), where `resets` is True."""

    def chosen(fresh: Tensor, old: Tensor) -> Tensor:
        return torch.where(resets.view(-1, *[1] * (old.dim() - 1)), fresh, old)

    return tuple(
        tuple(chosen(fresh, old) for fresh, old in zip(*layer, strict=True))
        for layer in zip(initial, state, strict=True)
    )


def checked_resets(resets: Tensor, shape: torch.Size, device: torch.device) -> Tensor:
    """Return resets on a device. Raises RequestError unless they are bool and have this shape."""
    plain = isinstance(resets, Tensor) and is_strided(resets) and not resets.is_meta
    if not plain or resets.dtype != torch.bool or resets.shape != shape:
        kind = shown(resets) if isinstance(resets, Tensor) else type(resets).__name__
        got = f"{shape_text(resets)} of {resets.dtype}" if plain else kind
        raise RequestError(f"resets must be a tensor of bool, {tuple(shape)}; got {got}.")
    return resets.to(device)
