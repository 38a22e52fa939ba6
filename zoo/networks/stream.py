"""Steps of a recurrent network with fixed weights: the fastest way to run one on a CPU, for one stream or for many."""

import copy
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn

from ..errors import RequestError, shown
from .kernels import streaming
from .kernels.compiled import is_float
from .kernels.plans import plan
from .network import check_batch, check_tokens, is_strided, shape_text, wrong_state
from .segments import checked_resets
from .stack import SequenceNetwork

PLAIN = Tensor, nn.Parameter
"""Types of tensors whose memory compiled code may read; others may keep their numbers elsewhere."""


class Stream:
    """Takes time steps of a network, with copies of the weights that it had when `RecurrentNetwork.stream()` was called.

    A state is one float32 tensor, (rows, batch, units). Its rows are all states of all layers, bottom to top, and for
    the readout "mean" also the sum of outputs and the number of steps. Join the states of streams by `torch.cat(states, 1)`.
    No gradient passes through a Stream. Threads may share one. A step takes no dt: the time since the input before is 1.
    """

    def __init__(self, network: SequenceNetwork):
        """Copy the weights of a unidirectional network. Raises RequestError if the compiled code has no step for it."""
        self.config, self.tokenizer = network.config, network.tokenizer
        name, interface, layers = self.config.name, network.interface, cast(nn.ModuleList, network.layers)
        cell = network.layers[0].forward_direction.cell
        if plan(cell) is None:
            also = " and takes dt" if cell.uses_time_gaps else ""
            raise RequestError(
                f"{name} has no compiled steps: the cell {self.config.architecture.cell} has none. "
                f"Use `step` instead, which works everywhere{also}."
            )
        self.embedding = copy.deepcopy(network.embedding)
        self.input = interface.input
        mean_reader = interface.readout == "mean"
        head = network.head if streaming.is_plain_linear(network.head) and not mean_reader else None
        features = network.embedding.embedding_dim if network.embedding is not None else self.input[0]
        drops, planned = network.training and network.dropout.p > 0, None
        if network.backend != "plain" and not drops and len(self.input) < 2:
            planned = streaming.planned_layers(
                layers, head, torch.empty(1, features, device=network.device, dtype=torch.float32)
            )
        if planned is None:
            raise RequestError(
                f"{name} has no compiled steps. They need a CPU, float32, eval mode, a compiler at installation, and a dense cell "
                "with nothing added to its equations. Use `step` instead, which works everywhere."
            )
        self.compiled = streaming.CompiledStack(planned, head, features, *network.mean_std, frozen=True)
        self.mean_rows = 2 if mean_reader else 0
        self.head = None if head is not None else copy.deepcopy(network.head).requires_grad_(False)

    def __reduce__(self) -> tuple[object, ...]:
        """Raise RequestError: the memory of a stream cannot be copied or pickled."""
        raise RequestError(
            f"A stream of {self.config.name} cannot be copied or pickled. Call stream() of the network there."
        )

    def initial_state(self, batch: int = 1) -> Tensor:
        """Return zero states for `batch` streams, (rows, batch, units). Raises RequestError unless it is a positive integer."""
        check_batch(batch)
        rows = self.compiled.rows + self.mean_rows
        return torch.zeros(rows, batch, self.compiled.units, device="cpu", dtype=torch.float32)

    def step(
        self,
        x: Tensor,  # (batch, *input), or tokens (batch,)
        state: Tensor | None = None,  # (rows, batch, units)
        *,
        resets: Tensor | None = None,  # (batch,), bool: True for a sequence that begins with this step
    ) -> tuple[Tensor, Tensor]:
        """Take one time step: return the logits, (batch, outputs), and the new state.

        state: as the step before returned it, or None at the first step. Raises RequestError if x, state or resets do not fit.
        """
        vectors = self._vectors(x, "batch")
        if resets is not None:
            resets = checked_resets(resets, x.shape[:1], x.device)[None]
        logits, state = self._run(vectors[None], state, resets)
        return logits[0], state

    def steps(
        self,
        x: Tensor,  # (batch, time, *input), or tokens (batch, time)
        state: Tensor | None = None,  # (rows, batch, units)
        *,
        resets: Tensor | None = None,  # (batch, time), bool: True where a sequence begins
    ) -> tuple[Tensor, Tensor]:
        """Take several time steps in one call: return the logits after each, (batch, time, outputs), and the new state.

        Arguments and errors are those of `step`.
        """
        vectors = self._vectors(x, "batch, time").transpose(0, 1).contiguous()
        if resets is not None:
            resets = checked_resets(resets, x.shape[:2], x.device).T
        logits, state = self._run(vectors, state, resets)
        return logits.transpose(0, 1), state

    @torch.no_grad()
    def _run(self, x: Tensor, state: Tensor | None, resets: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the logits, (time, batch, outputs), and the new state for x, (time, batch, features), contiguous.

        resets: (time, batch), bool.
        """
        state = self._checked_state(state, x.shape[1])
        if resets is None:
            return self._scan(x, state)
        begins = resets.any(1).nonzero().flatten().tolist()  # the steps with which some sequence begins
        logits = []
        for begin, end in pairwise([*([] if begins[:1] == [0] else [0]), *begins, len(x)]):
            part, state = self._scan(x[begin:end], state.masked_fill(resets[begin, :, None], 0.0))
            logits.append(part)
        return torch.cat(logits), state

    def _scan(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return what `_run` returns, for sequences that go on from `state`, which fits."""
        steps, batch, _ = x.shape
        rows, units = self.compiled.rows, self.compiled.units
        if self.head is None:
            return cast(tuple[Tensor, Tensor], self.compiled.run(x, state))
        outputs = x.new_empty(steps, batch, units)
        _, new_state = self.compiled.run(x, state[:rows], outputs)
        if self.mean_rows:
            total = torch.cat([state[None, rows], outputs]).cumsum(0)[1:]
            count = state[rows + 1] + torch.arange(1, steps + 1, device="cpu")[:, None, None]
            outputs, new_state = total / count, torch.cat([new_state, total[-1:], count[-1:]])
        return self.head(outputs), new_state

    def _checked_state(self, state: Tensor | None, batch: int) -> Tensor:
        """Return the state, contiguous, or zero states for None. Raises RequestError if it is not a state of this batch."""
        if state is None:
            return self.initial_state(batch)
        shape = self.compiled.rows + self.mean_rows, batch, self.compiled.units
        if type(state) not in PLAIN or not is_strided(state) or not is_float(state) or state.shape != shape:
            raise RequestError(wrong_state(self.config.name, batch))
        return state.contiguous()

    def _vectors(self, x: Tensor, leading: str) -> Tensor:
        """Return the first layer's input, (*leading, features). Raises RequestError if x does not fit.

        leading: the names of the first axes of x, such as "batch, time".
        """
        dimensions = leading.count(",") + 1
        dtypes = (torch.float32,) if self.embedding is None else (torch.int64, torch.int32)
        plain = type(x) in PLAIN and is_strided(x)
        if (
            not plain
            or x.dtype not in dtypes
            or x.device.type != "cpu"
            or x.shape[dimensions:] != self.input
            or x.dim() != dimensions + len(self.input)
            or not x.numel()
        ):
            shape = ", ".join([leading, *map(str, self.input)])
            got = f"{shape_text(x)} of {x.dtype} on {x.device}" if plain else shown(x)
            raise RequestError(
                f"A stream of {self.config.name} takes x of shape ({shape}), {dtypes[0]}, on the CPU; got {got}."
            )
        if self.embedding is None:
            return x.resolve_neg().contiguous()
        check_tokens(self.config.name, x, self.embedding)
        return self.embedding(x)
