"""Types that all formats share: the provenance of a file, the job that writes it, and the protocol that runs it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import Tensor

from ..errors import RequestError
from ..networks.network import Network

Provenance = dict[str, str]
"""What made a file, in words: model, weights_sha256, quantize, rnnzoo, torch, python, command, and config (JSON)."""


class Runtime(Protocol):
    """An exported file, run by its own runtime. A state is what an earlier call returned; None stands for zero states.

    dt, the times between inputs, are all 1 if None. Both methods raise RequestError if dt is given to a file without this input.
    """

    def sequence(
        self, x: Tensor, lengths: Tensor | None = None, state: Sequence[Tensor] | None = None, dt: Tensor | None = None
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """Return the logits of `Network.forward` for x, (batch, time, *input), and the state at each sequence's end.

        dt: (batch, time).
        """

    def step(
        self, x: Tensor, state: Sequence[Tensor] | None = None, dt: Tensor | None = None
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """Take one step and return the logits and the new state. x: (batch, *input). dt: (batch,)."""


def check_takes_gaps(takes: bool, dt: Tensor | None) -> None:
    """Raise RequestError if dt is given to a file that takes none."""
    if dt is not None and not takes:
        raise RequestError("This file takes no dt: its cell does not use the time between inputs.")


@dataclass(frozen=True)
class Job:
    """One file to write."""

    network: Network
    """Frozen, and rounded if the file has 8-bit weights."""
    kind: str
    """The graph, "sequence" or "step"."""
    path: Path
    provenance: Provenance
    opset: int | None = None
    quantize: str | None = None
