"""State resets inside sequences: the steps between two resets become a separate sequence, for every scan alike."""

from collections.abc import Callable

import torch
from torch import Tensor

from ..errors import RequestError, shown
from ..utils.shapes import unsqueeze_to
from .network import is_strided, shape_text
from .stack import NetworkState

Run = Callable[..., tuple[Tensor, NetworkState]]
"""`encode` or `resume` of a network: takes x, (batch, time, ...), a state and, by name, lengths, (batch,), and dt, (batch, time) or None."""
STEP_COST = {"cpu": 8}
"""By type of device: the cost of a step of one more scan, where a step of one more sequence in the same scan costs 1.
An estimate between that of the compiled scan, where it is lower, and of the plain scan. It decides the time alone."""
STEP_COST_ELSEWHERE = 1024
"""The same estimate for all other types of device, which compute many sequences at once."""


class Segments:
    """The segments of a batch of sequences: each begins at a reset, or with its sequence, and ends before the next one.

    A segment is a sequence of its own, so the scans need not know of resets. Segments of similar lengths share a scan, in
    which they are padded to the longest.
    """

    def __init__(
        self,
        resets: Tensor,  # (batch, time), bool: True where a step begins from the initial state
        lengths: Tensor,  # (batch,), integers from 1 to time
    ):
        time = torch.arange(resets.shape[1], device=resets.device)
        inside = time < lengths[:, None]
        starts = (resets | (time == 0)) & inside
        number = (starts.flatten().cumsum(0) - 1).view(resets.shape)  # of the segment that each step is in
        self.begins = starts.flatten().nonzero()[:, 0]  # of each segment, in the flat batch
        self.lengths = number[inside].bincount(minlength=len(self.begins))
        self.first, self.last = number[:, 0], number[:, -1]
        self.goes_on = ~resets[:, 0]  # the sequences that begin from a given state

    def run(
        self,
        run: Run,
        x: Tensor,  # (batch, time, ...)
        begin: NetworkState,  # of every segment
        every_step: bool,
        dt: Tensor | None = None,  # (batch, time)
        together: bool = False,
    ) -> tuple[Tensor, NetworkState]:
        """Return the outputs of the function `run` over the segments, and the final states of each sequence.

        every_step: whether `run` returns outputs of every step; those beyond the ends of sequences are then zero. Otherwise
        the outputs are those of each sequence's last segment, and only these segments run. together: whether one call of `run`
        takes all segments, instead of one call for each group of similar lengths.
        """
        every_segment = torch.arange(len(self.lengths), device=x.device)
        segments = every_segment if every_step or together else self.last
        cost = STEP_COST.get(x.device.type, STEP_COST_ELSEWHERE)
        groups = [segments] if together else [segments[rows] for rows in similar(self.lengths[segments], cost)]
        flat, outputs, places, finals = x.flatten(0, 1), [], [], []
        for group in groups:
            lengths = self.lengths[group]
            step = torch.arange(int(lengths.max()), device=x.device)
            place = self.begins[group, None] + step
            read = place.clamp(max=len(flat) - 1)  # what follows a segment's end is no part of it
            gaps = None if dt is None else dt.flatten()[read]
            y, final = run(flat[read], _rows(begin, group), lengths=lengths, dt=gaps)
            inside = step < lengths[:, None]
            outputs.append(y[inside] if every_step else y)
            places.append(place[inside])
            finals.append(final)
        joined, row = torch.cat(outputs), torch.cat(groups).argsort()
        at_end = row if segments is self.last else row[self.last]
        final = tuple(tuple(map(torch.cat, zip(*layer, strict=True))) for layer in zip(*finals, strict=True))
        if not every_step:
            return joined[at_end], _rows(final, at_end)
        zeros = joined.new_zeros(len(flat), *joined.shape[1:])
        return zeros.index_copy(0, torch.cat(places), joined).unflatten(0, x.shape[:2]), _rows(final, at_end)

    def begin(self, initial: Callable[[int], NetworkState], state: NetworkState | None) -> NetworkState:
        """Return the initial states of the segments: of `state` where a sequence begins without a reset, else of `initial`.

        initial: a function of a batch size that returns zero states.
        """
        zeros = initial(len(self.lengths))
        if state is None:
            return zeros
        ongoing, rows = self.first[self.goes_on], self.goes_on
        return tuple(
            tuple(z.index_copy(0, ongoing, s[rows].to(z.dtype)) for z, s in zip(*layer, strict=True))
            for layer in zip(zeros, state, strict=True)
        )


def _rows(state: NetworkState, rows: Tensor) -> NetworkState:
    return tuple(tuple(s[rows] for s in layer) for layer in state)


def similar(lengths: Tensor, cost: int) -> list[Tensor]:
    """Divide the indices of `lengths`, (n,), into groups, so that one padded scan per group takes the least time in all.

    A scan of m sequences is taken to cost (m + cost) times the longest length. In sorted order, each group is a range, so
    the best groups of the j longest different lengths follow from those of fewer.
    """
    ordered, indices = lengths.cpu().sort(descending=True)
    longest, counts = ordered.unique_consecutive(return_counts=True)
    before = torch.cat([counts.new_zeros(1), counts.cumsum(0)])  # how many sequences are longer than each length
    # the least cost, and where the last group begins
    least, cuts = torch.zeros(len(before), dtype=torch.double, device="cpu"), [0]
    for j in range(1, len(before)):
        least[j], at = (least[:j] + longest[:j] * (before[j] - before[:j] + cost)).min(0)
        cuts.append(int(at))
    groups, j = [], len(longest)
    while j > 0:
        groups.append(indices[before[cuts[j]] : before[j]].to(lengths.device))
        j = cuts[j]
    return groups


def reset_where(resets: Tensor, initial: NetworkState, state: NetworkState) -> NetworkState:
    """Return `state`, with the states of `initial` for each sequence where `resets`, (batch,), is True."""

    def chosen(fresh: Tensor, old: Tensor) -> Tensor:
        return torch.where(unsqueeze_to(resets, old.dim()), fresh, old)

    return tuple(
        tuple(chosen(fresh, old) for fresh, old in zip(*layer, strict=True))
        for layer in zip(initial, state, strict=True)
    )


def checked_resets(resets: Tensor, shape: torch.Size, device: torch.device) -> Tensor:
    """Return `resets` on `device`. Raises RequestError unless it is a bool tensor of this shape."""
    plain = isinstance(resets, Tensor) and is_strided(resets) and not resets.is_meta
    if not plain or resets.dtype != torch.bool or resets.shape != shape:
        kind = shown(resets) if isinstance(resets, Tensor) else type(resets).__name__
        got = f"{shape_text(resets)} of {resets.dtype}" if plain else kind
        raise RequestError(f"resets must be a bool tensor of shape {tuple(shape)}; got {got}.")
    return resets.to(device)
