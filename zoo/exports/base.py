"""What the formats share: where a file comes from, what it may hold, and the one protocol in which files are run."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from torch import Tensor

from ..errors import MissingExtraError, RequestError
from ..networks.network import Network
from ..registry.schema import Config

Provenance = dict[str, str]
"""What made a file, in words: model, weights_sha256, quantize, rnnzoo, torch, python, command, and config (JSON)."""


class Runtime(Protocol):
    """An exported file, run by its own runtime. A state is what an earlier call returned; None stands for zero states."""

    def sequence(
        self, x: Tensor, lengths: Tensor | None = None, state: Sequence[Tensor] | None = None
    ) -> tuple[Tensor, Sequence[Tensor]]:
        """Return the logits of `Network.forward` for x, (batch, time, *input), and the state at each sequence's end."""
        ...

    def step(self, x: Tensor, state: Sequence[Tensor] | None = None) -> tuple[Tensor, Sequence[Tensor]]:
        """Return the logits after one step, x: (batch, *input), and the new state."""
        ...


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


@dataclass(frozen=True)
class Format:
    """A kind of file."""

    title: str
    extension: str
    graphs: tuple[str, ...]
    """The graphs that a file of it can hold; a file holds one."""
    extra: str | None
    """The extra of rnnzoo that installs `packages`."""
    packages: tuple[str, ...]
    why_not: Callable[[Config, str], str | None]
    """Why the format cannot hold this graph of a network; None if it can."""
    write: Callable[[Job], None]
    runtime: Callable[[Path, Network, str], Runtime]
    """Opens a written file: path, the network that it is of (for shapes and names only), and the graph."""
    quantizes: bool = False
    """Whether a file can have 8-bit weights."""

    opsets: range = range(0)
    """The versions of the format's operators to choose from, if there are several."""
    programs: tuple[str, ...] = ()
    """The programs that write and run a file, besides packages."""

    def check_packages(self) -> None:
        """Raise MissingExtraError if a package is missing, and RequestError if a program is."""
        for program in self.programs:
            if shutil.which(program) is None:
                raise RequestError(f"This needs the program {program}, which is not installed.")
        for package in self.packages:
            if find_spec(package) is None:
                raise MissingExtraError(package, self.extra or "")
