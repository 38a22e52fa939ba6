"""A recurrent network: one stack of layers over a sequence, at once or step by step.

`model(x)` runs RecurrentNetwork.forward. With `state`, `resets` or `dt` it calls `resume`. Without them it calls
Network.forward (network.py), which calls `_pooled` here and then the head.
"""

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor, nn

from ..cells.projections import Projection
from ..errors import RequestError, shown
from ..registry.schema import Config
from ..utils.torch_internals import children, compiling_to_run, is_mapped
from .gaps import checked_gaps
from .kernels import streaming
from .layer import Direction, LayerInput, LazyEmbedding, stacked
from .network import check_batch, is_state, mask, mean_of_sum, shape_text, sum_over_time, valid_lengths, wrong_state
from .outputs import LayerOutputs
from .segments import Run, Segments, checked_resets, reset_where
from .stack import LayerRecord, NetworkState, SequenceNetwork
from .stream import Stream


class RecurrentNetwork(SequenceNetwork):
    """A stack of recurrent layers, a readout and a linear head.

    Calling it maps x, (batch, time, *input), or tokens, (batch, time), to logits; `step` does so one time step at a time.
    `features` and `trace` return the outputs of every layer.
    """

    def __init__(self, config: Config):
        super().__init__(config)
        self._state_shapes: tuple[object, list[list[torch.Size]]] | None = None
        self._stepper: streaming.Stepper | None = None

    def forward(
        self,
        x: Tensor,  # (batch, time, *input), or tokens (batch, time)
        lengths: Tensor | None = None,  # (batch,), integers
        *,
        state: NetworkState | None = None,  # where to begin, as `encode` and `step` return it (default: zero states)
        resets: Tensor | None = None,  # (batch, time), bool: True where a step begins from zero states again
        dt: Tensor | None = None,  # (batch, time), the time since the previous input (default: 1)
    ) -> Tensor:
        """Return logits; see Network.forward.

        state: the final states after earlier steps, as `encode` returns them; the logits are then those of the whole sequence.
        A bidirectional network has no such states: each direction begins from the one given, as in torch.nn.LSTM.
        resets: the steps between two resets are a separate sequence, such as an episode or a document of a stream;
        the readouts "last" and "mean" read the last one. dt: positive, in any unit; only cells with the property "time-gaps"
        take it. The backward direction has the same time between the same two inputs, and dt[:, 0] before its first input.
        """
        if state is None and resets is None and dt is None:
            return super().forward(x, lengths)
        return self.resume(x, state, lengths=lengths, resets=resets, dt=dt)[0]

    def resume(
        self,
        x: Tensor,  # (batch, time, *input), or tokens (batch, time)
        state: NetworkState | None = None,
        *,
        lengths: Tensor | None = None,  # (batch,), integers
        resets: Tensor | None = None,  # (batch, time), bool
        dt: Tensor | None = None,  # (batch, time), see forward
    ) -> tuple[Tensor, NetworkState]:
        """Return the logits of `forward` and the final states of `encode`. Arguments and errors are those of `encode`."""
        if resets is not None:
            return self._run_segments(self.resume, x, state, lengths, resets, dt, self.interface.readout == "every")
        top, final, lengths = self._run(x, state, lengths, dt)
        if self.interface.readout == "mean":
            return self.head(self._flat(mean_of_sum(*final[-1]).to(top.steps[-1].dtype))), final
        return self._logits(self._readout(top, lengths), lengths), final

    def projections_per_step(self) -> Iterator[Projection]:
        return (m for layer in self.layers for m in layer.modules() if isinstance(m, Projection))

    def pooled(self, x: Tensor, lengths: Tensor | None = None, *, dt: Tensor | None = None) -> Tensor:
        """Return the input of the head; see Network.pooled. dt: (batch, time), see forward."""
        return self._pooled(x, lengths, dt)[0]

    def _pooled(self, x: Tensor, lengths: Tensor | None, dt: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        layer_input, lengths = self._check(x, lengths)
        gaps = self._check_gaps(dt, x.shape[:2], lengths)
        last_only = self.interface.readout == "last"
        top, _ = self.stack.run(layer_input, self.stack.zero_state(layer_input), lengths, last_only, gaps)
        return self._readout(top, lengths), lengths

    def encode(
        self,
        x: Tensor,  # (batch, time, *input), or tokens (batch, time)
        state: NetworkState | None = None,
        *,
        lengths: Tensor | None = None,  # (batch,), integers
        resets: Tensor | None = None,  # (batch, time), bool: True where a step begins from zero states again
        dt: Tensor | None = None,  # (batch, time), see forward
    ) -> tuple[Tensor, NetworkState]:
        """Return the top layer's outputs, (batch, time, width, ...), and the final states, for a later call's `state`.

        state: where to begin (default: zeros). With lengths, outputs beyond each sequence's end are zero and the states are those
        at its end. Clone outputs before changing them in place: their gradient may need them. Raises RequestError for other
        shapes, dtypes or devices than these.
        """
        if resets is not None:
            return self._run_segments(self.encode, x, state, lengths, resets, dt, every_step=True)
        top, final, lengths = self._run(x, state, lengths, dt)
        return mask(stacked(top.steps).transpose(0, 1), lengths), final

    def _run(
        self, x: Tensor, state: NetworkState | None, lengths: Tensor | None, dt: Tensor | None
    ) -> tuple[LayerOutputs, NetworkState, Tensor | None]:
        """Return the top layer's outputs, the final states as `encode` returns them, and the checked lengths."""
        layer_input, lengths = self._check(x, lengths)
        state = self._check_state_of(state, x)
        gaps = self._check_gaps(dt, x.shape[:2], lengths)
        top, final = self.stack.run(layer_input, state[: len(self.layers)], lengths, dt=gaps)
        if self.interface.readout == "mean":
            steps = mask(stacked(top.steps).transpose(0, 1), lengths)
            running_mean = (old + new for old, new in zip(state[-1], sum_over_time(steps, lengths), strict=True))
            final = (*final, tuple(running_mean))
        return top, final, lengths

    def features(
        self,
        x: Tensor,  # (batch, time, *input), or tokens (batch, time)
        lengths: Tensor | None = None,  # (batch,), integers
        *,
        state: NetworkState | None = None,  # where to begin, as `encode` and `step` return it (default: zero states)
        dt: Tensor | None = None,  # (batch, time), see forward
    ) -> list[Tensor]:
        """Return the outputs of every layer, bottom to top, each (batch, time, width, ...), by the plain scan.

        Outputs beyond each sequence's end are zero. Raises RequestError for arguments of another shape, dtype or device.
        """
        _, records, lengths = self._trace(x, lengths, state, dt)
        return [mask(stacked(record.steps).transpose(0, 1), lengths) for record in records]

    def trace(
        self,
        x: Tensor,  # (batch, time, *input), or tokens (batch, time)
        lengths: Tensor | None = None,  # (batch,), integers
        *,
        dt: Tensor | None = None,  # (batch, time), see forward
    ) -> tuple[Tensor, list[LayerRecord]]:
        """Return the logits and, for every layer from the first up, a pair: its input and the list of its outputs.

        The input is (time, batch, ...); the list has one output, (batch, ...), per step. In a network of blocks, the pair is
        the input of the cell's input projection and the outputs of the cell.

        The plain scan computes them, and later steps and higher layers are computed from these very tensors. So the gradient
        of a loss with respect to an output is the whole error that arrives there. The top layer of a bidirectional network
        with the readout "last" is an exception: the head reads the ends of its directions, not their merged output at a
        step. Raises RequestError for arguments of another shape, dtype or device.
        """
        pooled, records, lengths = self._trace(x, lengths, dt=dt)
        return self._logits(pooled, lengths), [(record.cell_input, list(record.outputs)) for record in records]

    def _trace(
        self, x: Tensor, lengths: Tensor | None, state: NetworkState | None = None, dt: Tensor | None = None
    ) -> tuple[Tensor, list[LayerOutputs], Tensor | None]:
        """Return the input of the head, the LayerOutputs of every layer from the first up, and the checked lengths."""
        layer_input, lengths = self._check(x, lengths)
        layer_input = layer_input.vectors() if isinstance(layer_input, LazyEmbedding) else layer_input
        gaps = self._check_gaps(dt, x.shape[:2], lengths)
        start, records = self._check_state_of(state, x)[: len(self.layers)], list[LayerOutputs]()
        top, _ = self.stack.scan_layers(layer_input, start, lengths, Direction.scan, records, dt=gaps)
        return self._readout(top, lengths), records, lengths

    def initial_state(self, batch: int) -> NetworkState:
        """Return zero states for `batch` sequences: a tuple of (batch, units, ...) tensors per layer.

        The readout "mean" adds (sum of outputs, (batch, width, ...); number of steps, (batch,)). Raises RequestError unless
        `batch` is a positive integer.
        """
        check_batch(batch)
        embedded = () if self.embedding is None else (self.embedding.embedding_dim,)
        x_t = torch.zeros(batch, *self.interface.input, *embedded, dtype=self.dtype, device=self.device)
        states = tuple(layer.initial_state(x_t) for layer in self.layers)
        if self.interface.readout != "mean":
            return states
        h = states[-1][0]
        dtype = torch.promote_types(h.dtype, torch.float32)  # in lower precision a long sum stops growing
        total = h.new_zeros(batch, self.width, *h.shape[2:], dtype=dtype)
        return (*states, (total, total.new_zeros(batch)))

    def step(
        self,
        x: Tensor,  # (batch, *input), or tokens (batch,)
        state: NetworkState | None = None,
        *,
        resets: Tensor | None = None,  # (batch,), bool: True for a sequence that begins with this step
        dt: Tensor | None = None,  # (batch,), the time since the step before (default: 1), see forward
    ) -> tuple[Tensor, NetworkState]:
        """Take one time step, for streaming: return the logits, (batch, outputs), and the new state.

        state: as the last step returned it; None at the first step. After t steps the logits are those of `forward` on the t
        steps so far (its last ones if the readout is "every"). Recurrent dropout, a mask for a whole sequence, never acts here.
        Raises RequestError for a bidirectional network, which needs the future, and for other shapes, dtypes or devices.
        """
        if compiling_to_run():
            # one call of the compiled code is faster than what dynamo makes of it
            return torch.compiler.disable(self.step)(x, state, resets=resets, dt=dt)
        if resets is not None:
            state = self._check_step(x, state)
            state = reset_where(checked_resets(resets, x.shape[:1], self.device), self.initial_state(x.shape[0]), state)
        reads_mean = self.interface.readout == "mean"
        if state is not None and self.embedding is None and not reads_mean and dt is None:
            head = children(self)["head"]  # not self.head, whose look-up in Python every step would pay for
            logits, new_state = self._fused_step(x, state, head)  # nearly every step of a stream
            if new_state is not None:
                return self.head(new_state[-1][0]) if logits is None else logits, new_state
        state = self._check_step(x, state)
        gaps = self._check_gaps(dt, x.shape[:1], None)
        x_t = x if self.embedding is None else self._lookup(x, self.embedding).vectors()
        if not reads_mean:
            h, logits, new_state = self._step(x_t, state, self.head, gaps)
            return self.head(self._flat(h)) if logits is None else logits, new_state
        *states, (total, count) = state
        h, _, new_state = self._step(x_t, tuple(states), None, gaps)
        running_mean = (total + h, count + 1)
        return self.head(self._flat(mean_of_sum(*running_mean).to(h.dtype))), (*new_state, running_mean)

    def _check_can_step(self) -> None:
        """Raise RequestError if the network needs the whole sequence."""
        if self.config.architecture.bidirectional:
            raise RequestError(
                f"{self.config.name} is bidirectional: it needs the whole sequence and cannot step. Call the network on it."
            )

    def stream(self) -> Stream:
        """Return a Stream, which takes steps with copies of the current weights, 1.4 to 2.4 times as fast as `step`.

        Raises RequestError if the network is bidirectional, or if the compiled code has no step for it (see Stream).
        """
        self._check_can_step()
        return Stream(self)

    def _step(
        self,
        x: Tensor,  # (batch, features, ...), not yet standardised
        state: NetworkState,  # of the layers
        head: nn.Module | None,
        dt: Tensor | None,  # (batch,)
    ) -> tuple[Tensor, Tensor | None, NetworkState]:
        """Return the top layer's output, the logits or None, and the layers' new states.

        There are logits only if the fused step computes `head` too.
        """
        logits, fused = (None, None) if dt is not None else self._fused_step(x, state, head)
        if fused is None and dt is None and not torch.compiler.is_exporting():
            self._stepper = streaming.stepper(cast(nn.ModuleList, self.layers), head, x, *self.mean_std)
            logits, fused = self._fused_step(x, state, head)
        if fused is not None:
            return fused[-1][0], logits, fused
        h, new_state = self._standardized(x), []
        for depth, (layer, layer_state) in enumerate(zip(self.layers, state, strict=True)):
            if depth > 0 and layer.block is None:
                h = self.dropout(h)
            h, layer_state = layer.step(h, layer_state, dt)
            new_state.append(layer_state)
        return h, None, tuple(new_state)

    def _fused_step(
        self, x: Tensor, state: NetworkState, head: nn.Module | None
    ) -> tuple[Tensor | None, NetworkState | None]:
        """Return what `_step` returns, computed by the stepper; (None, None) if it cannot run on these arguments."""
        settings, stepper = self.settings, self._stepper
        settings.check()
        if stepper is None or settings.backend == "plain" or (self.training and self.dropout.p > 0):
            return None, None
        layers = cast(nn.ModuleList, children(self)["layers"])
        return stepper.step(x, state) if stepper.fits(layers, head, x, *self.mean_std) else (None, None)

    def _check(self, x: Tensor, lengths: Tensor | None) -> tuple[LayerInput, Tensor | None]:
        """Return the first layer's input and the checked lengths. Raises RequestError if either is invalid."""
        lengths = self._checked_lengths(x, lengths)
        return self._layer_input(x, lengths), lengths

    def _checked_lengths(self, x: Tensor, lengths: Tensor | None) -> Tensor | None:
        """Return the lengths on the device of x. Raises RequestError if they, or the shape or dtype of x, are invalid."""
        self._check_sequences(x)
        if lengths is None:
            return None
        checked = valid_lengths(lengths, x)
        if checked is None:
            raise RequestError(
                f"lengths must be {x.shape[0]} integers from 1 to {x.shape[1]}, one for each sequence; got {shown(lengths)}."
            )
        return checked

    def _run_segments(
        self, run: Run, x: Tensor, state: NetworkState | None, lengths: Tensor | None, resets: Tensor, dt: Tensor | None,
        every_step: bool,
    ) -> tuple[Tensor, NetworkState]:  # fmt: skip
        """Return what `run`, which is `encode` or `resume`, returns for these resets.

        every_step: whether `run` returns outputs of every step. Raises RequestError for arguments of another shape,
        dtype or device.
        """
        if compiling_to_run():  # dynamo would compile anew for each pattern of resets
            every = torch.compiler.disable(self._run_segments)
            return every(run, x, state, lengths, resets, dt, every_step)
        if torch.compiler.is_exporting() or is_mapped(x) or is_mapped(resets):
            raise RequestError("Neither torch.export nor torch.func.vmap can have resets. Leave them out.")
        lengths = self._checked_lengths(x, lengths)
        lengths = torch.full(x.shape[:1], x.shape[1], device=x.device) if lengths is None else lengths
        segments = Segments(checked_resets(resets, x.shape[:2], x.device), lengths)
        begin = segments.begin(self.initial_state, self._check_state_of(state, x))
        block = self.config.architecture.block
        means_of_all = self.training and block is not None and block.norm == "batch"
        gaps = self._check_gaps(dt, x.shape[:2], lengths)
        return segments.run(run, x, begin, every_step, gaps, together=means_of_all)

    def _check_gaps(self, dt: Tensor | None, shape: torch.Size, lengths: Tensor | None) -> Tensor | None:
        """Return dt on the network's device, or None if it is None. Raises RequestError as `checked_gaps` does."""
        if dt is None:
            return None
        return checked_gaps(dt, self.layers[0].forward_direction, self.config.architecture.cell, shape, lengths)

    def _check_step(self, x: Tensor, state: NetworkState | None) -> NetworkState:
        """Return the state from which to take a step on x, (batch, *input). Raises RequestError if either is invalid."""
        self.settings.check()
        self._check_dtype(x)
        self._check_can_step()
        if x.dim() == 0 or x.shape[1:] != self.interface.input or x.shape[0] == 0:
            raise RequestError(f"step takes x of shape ({self._shape_text('batch')}); got {shape_text(x)}.")
        return self._check_state_of(state, x)

    def _check_state_of(self, state: NetworkState | None, x: Tensor) -> NetworkState:
        """Return `state`, or zero states if it is None. Raises RequestError unless it fits the batch of x."""
        return self.initial_state(x.shape[0]) if state is None else self._check_state(state, x.shape[0])

    def _check_state(self, state: NetworkState, batch: int) -> NetworkState:
        """Return `state`; raise RequestError unless it has the shapes for `batch` sequences and is on the network's device."""
        directions = [direction for layer in self.layers for direction in layer.directions]
        key = batch, [(type(direction.cell), direction.units, direction.states) for direction in directions]
        expected = self._state_shapes
        if expected is None or torch.compiler.is_exporting() or expected[0] != key:
            expected = key, [[s.shape for s in states] for states in self.initial_state(batch)]
            if not torch.compiler.is_exporting():  # kept, because every step of a stream asks
                self._state_shapes = expected
        if not is_state(state, expected[1]):
            raise RequestError(wrong_state(self.config.name, batch))
        if devices := {str(s.device) for states in state for s in states if s.device != self.device}:
            raise RequestError(
                f"The state is on {', '.join(devices)}, but {self.config.name} is on {self.device}. Move it there."
            )
        return state
