"""One recurrent layer: the input map applied to all time steps at once, then the scan over time.

The plain scan here is the reference that everything faster is held equal to. Inside this module time is the first
dimension; users see batch first (zoo.networks.network).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..cells.base import Cell, State
from ..cells.projections import Projection, ProjectionFactory

Outputs = Sequence[Tensor] | Tensor
"""A layer's outputs, one (batch, units, ...) a time step, or all of them stacked."""


class LazyEmbedding:
    """Vectors of tokens that nobody has looked up yet: `embedding(tokens)`, (..., features), without its memory."""

    def __init__(self, embedding: nn.Embedding, tokens: Tensor):
        self.embedding, self.tokens = embedding, tokens
        self.device, self.dtype = embedding.weight.device, embedding.weight.dtype
        self.shape = torch.Size((*tokens.shape, embedding.embedding_dim))

    def __getitem__(self, places: object) -> "LazyEmbedding":
        return LazyEmbedding(self.embedding, self.tokens[places])  # type: ignore[index]

    def transpose(self, a: int, b: int) -> "LazyEmbedding":
        """With two of the dimensions of the tokens exchanged."""
        return LazyEmbedding(self.embedding, self.tokens.transpose(a, b))

    def vectors(self) -> Tensor:
        """The vectors, looked up."""
        return self.embedding(self.tokens)


LayerInput = Tensor | LazyEmbedding
"""What a layer reads, (time, batch, channels, ...) or, as users have it, batch first."""


class Direction(nn.Module):
    """One cell run over a sequence in one direction.

    cell: its class; options: the arguments of its equations. zoneout, recurrent_dropout: see specs.Architecture.
    """

    def __init__(
        self,
        cell: type[Cell],
        inputs: int,
        maps: ProjectionFactory,
        options: dict[str, object],
        zoneout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ):
        super().__init__()
        self.input = maps.between(inputs, len(cell.inputs) * maps.units, bias=True, norm=maps.layer_norm)
        self.cell = cell(maps, **options)
        self.units, self.zoneout, self.recurrent_dropout = maps.units, zoneout, recurrent_dropout

    @property
    def regularised(self) -> bool:
        """Whether a step does more than its equations now."""
        return self.zoneout > 0 or (self.training and self.recurrent_dropout > 0)

    def initial_state(self, like: LayerInput) -> State:
        """Zero states for one time step of input `like`, (batch, channels, ...), in the weights' precision."""
        batch, _, *image = like.shape
        cell, weight = self.cell, self.input.weight
        zeros = (weight.new_zeros(batch, cell.channels(name, self.units), *image) for name in cell.states)
        return cell.matched(tuple(z.to(torch.promote_types(z.dtype, torch.float32)) for z in zeros), weight.dtype)

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        """One step of the cell, with zoneout."""
        state = self.cell.matched(state, x[0].dtype)
        new = self.cell.step(x, state)
        if self.zoneout == 0:
            return new
        if not self.training:
            return tuple(torch.lerp(n, old, self.zoneout) for n, old in zip(new, state, strict=True))
        masks = (torch.rand_like(n, dtype=torch.float32) < self.zoneout for n in new)  # less has steps of 1/256
        return tuple(torch.where(m, old, n) for m, n, old in zip(masks, new, state, strict=True))

    def scan(
        self, x: Tensor, state: State, lengths: Tensor | None = None, tbptt_steps: int | None = None
    ) -> tuple[Outputs, State]:
        """Run over x: (time, batch, channels, ...) from `state`, cutting gradients every `truncate` steps.

        Returns the outputs and the final states. With lengths, (batch,), a sequence that has ended keeps its state.
        """
        # unbound once: indexing a (time, ...) tensor in the loop would make its gradient out of `time` zero-filled copies
        prepared = [part.unbind(0) for part in self.cell.prepare(self.input(x))]
        known = lengths is not None and not torch.compiler.is_exporting()
        shortest = len(x) if lengths is None else int(lengths.min()) if known else 0
        outputs: list[Tensor] = []
        with self.held(x[0]):
            for t, step in enumerate(zip(*prepared, strict=True)):
                if tbptt_steps and t and t % tbptt_steps == 0:
                    state = tuple(s.detach() for s in state)
                new = self.step(step, state)
                if lengths is not None and t >= shortest:
                    going = (t < lengths).reshape(-1, *[1] * (x.dim() - 2))
                    new = tuple(torch.where(going, n, old) for n, old in zip(new, state, strict=True))
                state = new
                outputs.append(state[0])
        return outputs, state

    @contextmanager
    def held(self, like: Tensor) -> Iterator[None]:
        """What each map keeps for the length of one sequence: its matrix, and its mask for recurrent dropout."""
        maps = [m for m in self.cell.modules() if isinstance(m, Projection)]
        dropping, keep = self.training and self.recurrent_dropout > 0, 1 - self.recurrent_dropout
        zero = self.initial_state(like)[0]
        try:
            for m in maps:
                m.hold(torch.empty_like(zero).bernoulli_(keep) / keep if dropping else None)
            yield
        finally:
            for m in maps:
                m.release()


Scan = Callable[[Direction, Any, State, Tensor | None, int | None], tuple[Outputs, State]]
"""Direction.scan, or something faster that computes the same, of a Tensor or, where it can, of Rows."""


def stacked(outputs: Outputs) -> Tensor:
    """Outputs as one (time, batch, ...) tensor."""
    return outputs if isinstance(outputs, Tensor) else torch.stack(tuple(outputs))


class Layer(nn.Module):
    """One direction, or two whose outputs are merged: "sum", "concat", "mul" or "mean".

    The state of a bidirectional layer is the forward direction's states followed by the backward direction's.
    """

    directions: Sequence[Direction]

    def __init__(self, directions: Sequence[Direction], merge: str | None):
        super().__init__()
        self.directions = nn.ModuleList(directions)  # type: ignore[assignment]
        self.merge = merge

    @property
    def forward_direction(self) -> Direction:
        """The direction that runs from the first step to the last."""
        return self.directions[0]

    def initial_state(self, like: LayerInput) -> State:
        return tuple(s for d in self.directions for s in d.initial_state(like))

    def scan(
        self, x: LayerInput, state: State, lengths: Tensor | None, tbptt_steps: int | None, run: Scan
    ) -> tuple[Outputs, State]:
        """Outputs and final states for x: (time, batch, ...), every direction scanned by `run`.

        With lengths, the final state is that at each sequence's own end, and the backward direction starts there.
        """
        own = len(self.forward_direction.cell.states)
        outputs, end = run(self.forward_direction, x, state[:own], lengths, tbptt_steps)
        if self.merge is None:
            return outputs, end
        turned = (
            LazyEmbedding(x.embedding, reverse(x.tokens, lengths))
            if isinstance(x, LazyEmbedding)
            else reverse(x, lengths)
        )
        back, start = run(self.directions[1], turned, state[own:], lengths, tbptt_steps)
        return self._merge(stacked(outputs), reverse(stacked(back), lengths)), end + start

    def last(self, outputs: Outputs, final: State, lengths: Tensor | None) -> Tensor:
        """What a sequence ends in, (batch, units, ...): of two directions each one's own end, where it has read all."""
        if self.merge is not None:
            ahead, back = final[0], final[len(self.forward_direction.cell.states)]
            return self._merge(ahead[None], back[None])[0]
        if lengths is None:
            return outputs[-1]
        return stacked(outputs)[lengths - 1, torch.arange(lengths.shape[0], device=lengths.device)]

    def _merge(self, a: Tensor, b: Tensor) -> Tensor:
        match self.merge:
            case "sum":
                return a + b
            case "mul":
                return a * b
            case "mean":
                return (a + b) / 2
            case _:
                return torch.cat([a, b], 2)


def reverse(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Turn a (time, batch, ...) tensor around in time, each sequence within its own length; padding stays in place."""
    if lengths is None:
        return x.flip(0)
    time = torch.arange(x.shape[0], device=x.device)[:, None]
    source = torch.where(time < lengths, lengths - 1 - time, time)
    return x.gather(0, source.reshape(*source.shape, *[1] * (x.dim() - 2)).expand_as(x))
