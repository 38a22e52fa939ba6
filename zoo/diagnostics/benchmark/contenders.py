"""The networks that a benchmark times: rnnzoo's, its counterparts in other libraries, and its matrix products alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Literal

from ...errors import MissingExtraError, RequestError
from ...registry.schema import Architecture, Config, Interface
from ...utils.arguments import check_name

PEERS = {"torch": "torch.nn", "torchrecurrent": "torchrecurrent"}
"""By name of another library: the module with its recurrent classes."""
TORCH = {"rnn": "RNN", "irnn": "RNN", "gru": "GRU"}
"""By cell: its class in torch.nn. Every other cell is compared with torch.nn.LSTM of the same depth and width."""
TORCHRECURRENT = {
    "star": "STAR", "lstm-f": "JANET", "lstm-peephole": "PeepholeLSTM", "indrnn": "IndRNN",
    "antisymmetric": "AntisymmetricRNN", "antisymmetric-gated": "GatedAntisymmetricRNN", "lstm-residual": "ResLSTM",
}  # fmt: skip
"""By cell: its class in torchrecurrent."""


@dataclass(frozen=True)
class Workload:
    """What every contender runs: `batch` sequences of `steps` time steps, on `device`, with `threads` CPU threads."""

    steps: int
    batch: int
    threads: int
    device: str = "cpu"


@dataclass(frozen=True)
class Contender:
    """One network to time: `library` is "rnnzoo", a key of PEERS, or "products" for its matrix products alone."""

    library: str
    config: Config
    backend: str = "auto"
    """The attribute `backend` of rnnzoo's network."""
    flushed: bool = True
    """True to flush denormal numbers to zero on a CPU."""
    precision: Literal["no", "bf16"] = "no"
    """The precision, as in a recipe: "bf16" computes under autocast."""

    @property
    def name(self) -> str:
        cell = self.config.architecture.cell
        if self.library == "products":
            return f"matrix products of {cell}"
        precision = ", bfloat16" if self.precision == "bf16" else ""
        if self.library == "rnnzoo":
            return f"rnnzoo {cell}" + (", plain" if self.backend == "plain" else "") + precision
        return f"{PEERS[self.library]}.{counterpart(self)}" + (", flushed" if self.flushed else "") + precision


def stack(cell: str, layers: int, units: int, steps: int) -> Config:
    """Return the config of a stack that reads one feature a time step and classifies by its last output."""
    architecture = Architecture(cell=cell, layers=layers, units=units)
    interface = Interface(input=(1,), steps=steps, outputs=10, readout="last")
    return Config(architecture=architecture, interface=interface)


def ours(config: Config) -> list[Contender]:
    """Return rnnzoo's network twice: with the fastest scan, a method of running over time, and with the step-by-step one."""
    return [Contender("rnnzoo", config), Contender("rnnzoo", config, "plain")]


def products(config: Config) -> list[Contender]:
    """Return the matrix products of a dense network alone, a lower bound for any implementation by torch.mm.

    Return an empty list for a convolutional network.
    """
    return [] if config.architecture.kernel else [Contender("products", config)]


def peers(config: Config, against: Sequence[str] | None = None, flushed: Sequence[bool] = (True,)) -> list[Contender]:
    """Return the counterparts of a network in other libraries, one for each value of `flushed`.

    against: libraries of PEERS (default: the installed ones that have a counterpart). Raises UnknownNameError for a
    library that is not in PEERS, RequestError if a library in `against` has no counterpart, and MissingExtraError if it is
    not installed.
    """
    contenders: list[Contender] = []
    for library in PEERS if against is None else against:
        check_name("peer", library, PEERS, f"Choose from {' and '.join(PEERS)}.")
        if counterpart(Contender(library, config)) is None:
            if against is not None:
                raise RequestError(
                    f"{library} has no counterpart of {config.name}, so there is nothing to time. Leave {library} out of "
                    "--against."
                )
        elif not installed(library):
            if against is not None:
                raise MissingExtraError(library, "bench")
        else:
            contenders += [Contender(library, config, flushed=flush) for flush in flushed]
    return contenders


def in_bfloat16(contenders: Sequence[Contender]) -> list[Contender]:
    """Return copies of the contenders that run under autocast to bfloat16."""
    return [replace(contender, precision="bf16") for contender in contenders]


def missing_peers(config: Config) -> list[str]:
    """Return the libraries that have a counterpart of a network but are not installed."""
    return [name for name in PEERS if counterpart(Contender(name, config)) and not installed(name)]


def installed(library: str) -> bool:
    """Return whether the library can be imported."""
    return find_spec(library) is not None


def counterpart(contender: Contender) -> str | None:
    """Return the name of the library's class for the contender's network, or None if the library has none.

    For a cell that torch does not have, this is torch.nn.LSTM. A class of torchrecurrent has the cell's equations.
    """
    spec = contender.config.architecture
    if spec.kernel is not None or spec.bidirectional not in (None, "concat"):
        return None
    if contender.library == "torch":
        return TORCH.get(spec.cell, "LSTM")
    full_peephole = spec.cell == "lstm-peephole" and spec.options.get("peephole") != "diagonal"  # theirs is diagonal
    return None if spec.bidirectional or full_peephole else TORCHRECURRENT.get(spec.cell)
