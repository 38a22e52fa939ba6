"""Runs exported graphs in any runtime; lengths, dt and states that are not given are full lengths, ones and zeros."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from ..networks.network import Network, mask
from ..utils.shapes import unsqueeze_to
from .base import check_takes_gaps
from .graphs import graph


class GraphRuntime(ABC):
    """Runs one exported graph of a network (see Runtime). A "sequence" graph takes a step as a sequence of one step."""

    def __init__(self, network: Network, kind: str):
        described = graph(network, kind)
        self.kind, self.interface = kind, network.interface
        self.inputs, self.outputs = tuple(described.inputs), described.outputs
        self.states = {name: described.inputs[name] for name in self.inputs if f"new_{name}" in self.outputs}

    @abstractmethod
    def run(self, inputs: dict[str, Tensor]) -> Sequence[Tensor]:
        """Return the outputs of the graph in the graph's order. inputs: all inputs of the graph by name."""

    def sequence(
        self, x: Tensor, lengths: Tensor | None = None, state: Sequence[Tensor] | None = None, dt: Tensor | None = None
    ) -> tuple[Tensor, Sequence[Tensor]]:
        if self.kind == "step":
            return self._loop(x, lengths, state, dt)
        inputs = {"x": x}
        if "lengths" in self.inputs:
            inputs["lengths"] = torch.full((len(x),), x.shape[1]) if lengths is None else lengths
        return self._run(inputs | self._gaps(dt, x.shape[:2]), state)

    def step(
        self, x: Tensor, state: Sequence[Tensor] | None = None, dt: Tensor | None = None
    ) -> tuple[Tensor, Sequence[Tensor]]:
        if self.kind == "step":
            return self._run({"x": x, **self._gaps(dt, x.shape[:1])}, state)
        logits, state = self.sequence(x[:, None], None, state, None if dt is None else dt[:, None])
        return (logits[:, 0] if self.interface.readout == "every" else logits), state

    def _gaps(self, dt: Tensor | None, shape: torch.Size) -> dict[str, Tensor]:
        """Return the graph's input dt, ones of `shape` if it is None; an empty dict if the graph has no such input."""
        takes = "dt" in self.inputs
        check_takes_gaps(takes, dt)
        return {"dt": torch.ones(shape) if dt is None else dt.float()} if takes else {}

    def _run(self, inputs: dict[str, Tensor], state: Sequence[Tensor] | None) -> tuple[Tensor, Sequence[Tensor]]:
        batch = len(inputs["x"])
        zeros = [s.new_zeros(batch, *s.shape[1:]) for s in self.states.values()] if state is None else state
        logits, *new_state = self.run(inputs | dict(zip(self.states, zeros, strict=True)))
        return logits, new_state

    def _loop(
        self, x: Tensor, lengths: Tensor | None, state: Sequence[Tensor] | None, dt: Tensor | None
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """Return what `sequence` returns, from one call per step. Sequences that have ended keep state and logits."""
        every: list[Tensor] = []
        for t, x_t in enumerate(x.unbind(1)):
            logits, new_state = self.step(x_t, state, None if dt is None else dt[:, t])
            if lengths is not None and state is not None:
                running = t < lengths
                keep = [unsqueeze_to(running, s.dim()) for s in new_state]
                new_state = [torch.where(k, n, o) for k, n, o in zip(keep, new_state, state, strict=True)]
                logits = torch.where(running[:, None], logits, every[-1]) if every else logits
            state = new_state
            every.append(logits)
        assert state is not None
        steps = torch.stack(every, 1)
        return (mask(steps, lengths) if self.interface.readout == "every" else steps[:, -1]), state
