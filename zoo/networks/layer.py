"""One recurrent layer: the input map applied to all time steps at once, then the scan over time.

The plain scan here is the reference: the tests hold every faster scan equal to it. Sequences are (time, batch, ...) inside
this module; users see batch first (recurrent.py).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..cells.base import Cell, RawInputCell, State, matched
from ..cells.projections import Projection, ProjectionFactory
from ..utils.shapes import unsqueeze_to
from ..utils.torch_internals import is_mapped
from .block import Block, CausalConvolution
from .graph_scan import loop, while_running

Outputs = Sequence[Tensor] | Tensor
"""The outputs of a layer: a (batch, units, ...) tensor per time step, or one (time, batch, units, ...) tensor."""


class LazyEmbedding:
    """A deferred embedding lookup, (*tokens.shape, features), so that the vectors need not be materialised."""

    def __init__(
        self,
        embedding: nn.Embedding,
        tokens: Tensor,  # (time, batch) or (batch, time), integers
    ):
        self.embedding, self.tokens = embedding, tokens
        self.device, self.dtype = embedding.weight.device, embedding.weight.dtype
        self.shape = torch.Size((*tokens.shape, embedding.embedding_dim))

    def __getitem__(self, index: object) -> "LazyEmbedding":
        return LazyEmbedding(self.embedding, self.tokens[index])  # type: ignore[index]

    def transpose(self, dim0: int, dim1: int) -> "LazyEmbedding":
        """Exchange two dimensions of the tokens."""
        return LazyEmbedding(self.embedding, self.tokens.transpose(dim0, dim1))

    def vectors(self) -> Tensor:
        """Look the vectors up: (*tokens.shape, features)."""
        return self.embedding(self.tokens)


LayerInput = Tensor | LazyEmbedding
"""The input of a layer, (time, batch, channels, ...), or of a Stack, (batch, time, channels, ...)."""


class Direction(nn.Module):
    """One cell that scans a sequence in one direction, with the cell's input projection."""

    def __init__(
        self,
        cell: type[Cell],
        inputs: int,  # input channels
        projections: ProjectionFactory,
        options: dict[str, object],  # of the cell's equations
        zoneout: float = 0.0,  # probability, see Architecture.zoneout
        recurrent_dropout: float = 0.0,  # probability, see Architecture.recurrent_dropout
        convolution: int | None = None,  # time steps, see BlockSpec.convolution
    ):
        super().__init__()
        units = projections.units
        if issubclass(cell, RawInputCell):
            options = {**options, "inputs": inputs}
        self.convolution = None if convolution is None else CausalConvolution(inputs, convolution)
        self.input_channels = cell.input_channels(units, **options)
        self.input = cell.input_projection(projections, inputs, **options)
        self.cell = cell(projections, **options)
        if cell.frozen:
            self.requires_grad_(False)
        self.units, self.options = units, options
        self.zoneout, self.recurrent_dropout = zoneout, recurrent_dropout

    @property
    def regularised(self) -> bool:
        """True if a step computes more than the cell's equations: with zoneout, or with recurrent dropout in training."""
        return self.zoneout > 0 or (self.training and self.recurrent_dropout > 0)

    def initial_state(
        self,
        x: LayerInput,  # (batch, channels, ...), one time step
    ) -> State:
        """Return zeros for each of `states`, (batch, channels, ...), for a batch like `x`, in the precision of the weights."""
        window = () if self.convolution is None else (self.convolution.initial_state(x.shape),)
        return (*self.zero_states(x), *window)

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the tensors in the state: the cell's, then `window`, the last inputs of the convolution if any."""
        return self.cell.states if self.convolution is None else (*self.cell.states, "window")

    def zero_states(self, x: LayerInput) -> State:
        """Return zeros for the cell's states, without the window of the convolution."""
        batch, _, *image = x.shape
        cell, weight = self.cell, self.input.weight
        zeros = (
            weight.new_zeros(batch, cell.channels(name, self.units, **self.options), *image) for name in cell.states
        )
        return matched(cell, tuple(z.to(torch.promote_types(z.dtype, torch.float32)) for z in zeros), weight.dtype)

    def step(
        self,
        x: tuple[Tensor, ...],  # what Cell.prepare makes of one time step, each (batch, ...)
        state: State,
    ) -> State:
        """Compute one step of the cell with zoneout, which is random in training and its expectation in eval mode."""
        state = matched(self.cell, state, x[0].dtype)
        new_state = self.cell.step(x, state)
        if self.zoneout == 0:
            return new_state
        pairs = list(zip(new_state, state, strict=True))
        if not self.training:
            return tuple(torch.lerp(new, old, self.zoneout) for new, old in pairs)
        # drawn in float32, because bfloat16 has steps of 1/256
        masks = (torch.rand_like(new, dtype=torch.float32) < self.zoneout for new in new_state)
        return tuple(torch.where(keep, old, new) for keep, (new, old) in zip(masks, pairs, strict=True))

    def prepare(
        self,
        x: Tensor,  # (..., channels, ...), of any time steps
        dt: Tensor | None = None,  # (...), the time since the previous input (default: 1), if the cell uses it
    ) -> tuple[Tensor, ...]:
        """Return the tensors of a step that depend on the input alone, each (..., channels, ...)."""
        cell = self.cell
        gap = None if dt is None else unsqueeze_to(dt, dt.dim() - cell.axis)
        if isinstance(cell, RawInputCell):
            return cell.project(x, gap, self.input)
        x = self.input(x)
        return cell.prepare(x) if gap is None else cell.prepare(x, gap.to(x.dtype))  # type: ignore[call-arg]  # of a cell that uses it

    def scan(
        self,
        x: Tensor,  # (time, batch, channels, ...)
        state: State,
        lengths: Tensor | None = None,  # (batch,); a sequence that has ended keeps its state
        tbptt_steps: int | None = None,  # cut gradients every this many steps
        dt: Tensor | None = None,  # (time, batch), see `prepare`
    ) -> tuple[Outputs, State]:
        """Return the output of every step, and the final state, step by step from `state`.

        During torch.export the steps are one loop of the graph, for any number of steps.
        """
        if torch.compiler.is_exporting():
            return self.exported_scan(x, state, lengths, dt)
        # unbound once: indexing a (time, ...) tensor in the loop would make its gradient out of `time` zero-filled copies
        prepared = [part.unbind(0) for part in self.prepare(x, dt)]
        shortest = len(x) if lengths is None else 0 if is_mapped(lengths) else int(lengths.min())
        outputs: list[Tensor] = []
        with self.hold_projections(x[0]):
            for t, x_t in enumerate(zip(*prepared, strict=True)):
                if tbptt_steps and t and t % tbptt_steps == 0:
                    state = tuple(s.detach() for s in state)
                new_state = self.step(x_t, state)
                state = new_state if lengths is None or t < shortest else while_running(t < lengths, new_state, state)
                outputs.append(state[0])
        return outputs, state

    def exported_scan(
        self, x: Tensor, state: State, lengths: Tensor | None, dt: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Return what `scan` returns, as one operator of the exported graph."""
        prepared = self.prepare(x, dt)
        with self.hold_projections(x[0]):
            state = matched(self.cell, state, prepared[0].dtype)  # in a loop a state keeps its dtype
            running = None if lengths is None else torch.arange(x.shape[0], device=x.device)[:, None] < lengths
            return loop(_Step(self), state, (running, *prepared))

    @contextmanager
    def hold_projections(
        self,
        x: Tensor,  # (batch, channels, ...), one time step
    ) -> Iterator[None]:
        """Within the block, fix every recurrent map: compute its matrix once, and draw its mask for recurrent dropout once."""
        projections = [m for m in self.cell.modules() if isinstance(m, Projection)]
        try:
            for projection in projections:
                projection.hold(self._mask(projection, x))
            yield
        finally:
            for projection in projections:
                projection.release()

    def _mask(self, projection: Projection, x: Tensor) -> Tensor | None:
        """Return a random mask of recurrent dropout, (batch, channels, ...), with a mean of 1; None if nothing is dropped."""
        if not self.training or self.recurrent_dropout == 0:
            return None
        batch, _, *image = x.shape
        keep = 1 - self.recurrent_dropout
        return self.input.weight.new_empty(batch, projection.channels, *image).bernoulli_(keep) / keep


class _Step(nn.Module):
    """One step of a direction as a module for `graph_scan.loop`; sequences that have ended keep their state."""

    def __init__(self, direction: Direction):
        super().__init__()
        self.direction = direction

    def forward(
        self,
        state: State,
        running: Tensor | None,  # (batch,), bool
        *x: Tensor,
    ) -> State:
        new_state = self.direction.step(x, state)
        return new_state if running is None else while_running(running, new_state, state)


Scan = Callable[[Direction, Any, State, Tensor | None, int | None], tuple[Outputs, State]]
"""`Direction.scan`, or a faster function that computes the same; some also take a LazyEmbedding."""


def _convolved(scan: Scan) -> Scan:
    """Return `scan` preceded by the direction's convolution. The states are those of the cell, then that of the convolution."""

    def both(
        direction: Direction, x: Any, state: State, lengths: Tensor | None, tbptt_steps: int | None
    ) -> tuple[Outputs, State]:
        assert direction.convolution is not None
        x, window = direction.convolution(x, state[-1], lengths, tbptt_steps)
        outputs, final = scan(direction, x, state[:-1], lengths, tbptt_steps)
        return outputs, (*final, window)

    return both


def stacked(outputs: Outputs) -> Tensor:
    """Return outputs as one (time, batch, units, ...) tensor."""
    return outputs if isinstance(outputs, Tensor) else torch.stack(tuple(outputs))


class Layer(nn.Module):
    """One direction, or two whose outputs are merged by "sum", "concat", "mul" or "mean", and the block around them if any.

    The state of a direction is its cell's states, followed by the window of its convolution if it has one. The state of a
    bidirectional layer is the forward direction's followed by the backward direction's.
    """

    directions: Sequence[Direction]

    def __init__(self, directions: Sequence[Direction], merge: str | None, block: Block | None = None):
        super().__init__()
        self.directions = nn.ModuleList(directions)  # type: ignore[assignment]
        self.merge, self.block = merge, block

    @property
    def forward_direction(self) -> Direction:
        """The direction that runs from the first step to the last."""
        return self.directions[0]

    def initial_state(
        self,
        x: LayerInput,  # (batch, channels, ...), one time step
    ) -> State:
        """Return zero states for a batch like `x`."""
        return tuple(s for direction in self.directions for s in direction.initial_state(x))

    def step(
        self,
        x: Tensor,  # (batch, channels, ...)
        state: State,
        dt: Tensor | None = None,  # (batch,), see Direction.prepare
    ) -> tuple[Tensor, State]:
        """Take one time step of a layer with one direction, block included: return its output and its new state."""
        direction = self.forward_direction
        residual, read = (x, x) if self.block is None else self.block.read(x)
        cells, window = state[: len(direction.cell.states)], state[len(direction.cell.states) :]
        convolved = read
        if direction.convolution is not None:
            convolved, last = direction.convolution(read[None], *window)
            convolved, window = convolved[0], (last,)
        cells = direction.step(direction.prepare(convolved, dt), cells)
        output = cells[0] if self.block is None else self.block.write(residual, read, cells[0])
        return output, (*cells, *window)

    def scan(
        self,
        x: LayerInput,  # (time, batch, channels, ...)
        state: State,
        lengths: Tensor | None,  # (batch,)
        tbptt_steps: int | None,
        scan_direction: Scan,
        dt: Tensor | None = None,  # (time, batch), see Direction.prepare; only Direction.scan takes it
    ) -> tuple[Outputs, State]:
        """Scan each direction by `scan_direction`; return the merged outputs and the final states. No block is applied.

        With lengths, the final states are those at each sequence's own end, and the backward direction starts there.
        """
        scans = [scan_direction] * len(self.directions)
        if dt is not None:
            both_gaps = (dt,) if self.merge is None else (dt, reversed_gaps(dt, lengths))
            scans = [partial(scan_direction, dt=gaps) for gaps in both_gaps]  # type: ignore[call-arg]  # Direction.scan
        if self.forward_direction.convolution is not None:
            scans = [_convolved(scan) for scan in scans]
        forward_states = len(self.forward_direction.states)
        outputs, final = scans[0](self.forward_direction, x, state[:forward_states], lengths, tbptt_steps)
        if self.merge is None:
            return outputs, final
        if isinstance(x, LazyEmbedding):
            reversed_x: LayerInput = LazyEmbedding(x.embedding, reverse(x.tokens, lengths))
        else:
            reversed_x = reverse(x, lengths)
        backward, backward_final = scans[1](
            self.directions[1], reversed_x, state[forward_states:], lengths, tbptt_steps
        )
        return self.merged(stacked(outputs), reverse(stacked(backward), lengths)), final + backward_final

    def merged(
        self,
        forward: Tensor,  # (time, batch, units, ...)
        backward: Tensor,  # (time, batch, units, ...)
    ) -> Tensor:
        """Return the layer's outputs, (time, batch, units, ...), or (time, batch, 2 * units, ...) if merged by "concat"."""
        match self.merge:
            case "sum":
                return forward + backward
            case "mul":
                return forward * backward
            case "mean":
                return (forward + backward) / 2
            case _:
                return torch.cat([forward, backward], 2)


def reversed_gaps(
    dt: Tensor,  # (time, batch)
    lengths: Tensor | None,  # (batch,)
) -> Tensor:
    """Return the dt of the sequences reversed in time. Nothing precedes their first input, which gets the first value of dt."""
    time = torch.arange(dt.shape[0], device=dt.device)[:, None]
    ends = dt.shape[0] if lengths is None else lengths
    return dt.gather(0, torch.where(time < ends, (ends - time) % ends, time).expand_as(dt))


def reverse(
    x: Tensor,  # (time, batch, ...)
    lengths: Tensor | None,  # (batch,)
) -> Tensor:
    """Reverse sequences in time, each within its own length; padding stays in place."""
    if lengths is None:
        return x.flip(0)
    time = torch.arange(x.shape[0], device=x.device)[:, None]
    source = torch.where(time < lengths, lengths - 1 - time, time)
    return x.gather(0, unsqueeze_to(source, x.dim()).expand_as(x))
