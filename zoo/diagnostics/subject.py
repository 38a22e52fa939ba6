"""What an analysis is of: a registry name, a checkpoint's folder, or `cell-LxH`; as a config, a network, a batch of data."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from pydantic import ValidationError
from torch import Tensor

from .. import registry
from ..cells import CELLS, FEEDFORWARD, cell_class
from ..checkpoints import configs
from ..data import task_data
from ..errors import RequestError, UnknownNameError, first_problem
from ..networks import loading
from ..networks.builder import build
from ..networks.network import Network
from ..registry.metrics import Target
from ..registry.schema import Architecture, Config, Interface
from ..training.evaluation import evaluating, task_of
from .ensemble import process

F = TypeVar("F", bound=Callable[..., Any])

SPELLING = re.compile(r"(?P<bi>bi)?(?P<conv>conv)?(?P<cell>[a-z][a-z0-9-]*)-(?P<layers>\d+)x(?P<units>\d+)")
IMAGE = 8
"""Side of the images that convolutional networks without a task are given."""


def config_of(name: str) -> Config:
    """The config of a registry name, of a checkpoint's folder, or of `[bi][conv]cell-LxH`, which needs no entry.

    Raises UnknownNameError with near matches, and RequestError for sizes that no network can have.
    """
    if name in registry.models():
        return registry.find(name).config
    if loading.is_folder(name):
        return configs.read(Path(name) / configs.FILE)
    found = SPELLING.fullmatch(name)
    if found is None or found["cell"] not in CELLS:
        hint = "It can also be CELL-LxH, such as lstm-12x32."
        raise UnknownNameError("model", name, [*registry.models(), *(f"{cell}-12x32" for cell in CELLS)], hint)
    try:
        architecture = Architecture(
            cell=found["cell"], layers=int(found["layers"]), units=int(found["units"]),
            kernel=3 if found["conv"] else None, bidirectional="concat" if found["bi"] else None,
        )  # fmt: skip
        return untrained(architecture, name=name)
    except ValidationError as error:
        raise RequestError(f"{name} cannot be built: {first_problem(error)}.") from error


def untrained(architecture: Architecture, steps: int = 10, name: str = "untrained") -> Config:
    """A config of that architecture without a task: the first layer gets as many numbers as the others, which is what the
    nodes of one lattice need to be alike. Its embedding is left out."""
    plain: dict[str, Any] = {"embedding": None, "standardize": False, "head": None}
    if architecture.cell in FEEDFORWARD:
        raise RequestError(f"{name} has no time steps; the analysis of feed-forward networks is `feedforward`.")
    cell = cell_class(architecture.cell)
    width = cell.channels(cell.states[0], architecture.units)
    shape = (width,) + (() if architecture.kernel is None else (IMAGE, IMAGE))
    interface = Interface(input=shape, steps=steps, outputs=10, readout="last")
    return Config(name=name, task="none", architecture=architecture.model_copy(update=plain), interface=interface)


def described(config: Config) -> str:
    """`lstm, 12 layers of 32 units`."""
    spec = config.architecture
    kind = "convolutional " if spec.kernel else ""
    both = "bidirectional " if spec.bidirectional else ""
    return f"{both}{kind}{spec.cell}, {spec.layers} layer{'s' if spec.layers > 1 else ''} of {spec.units} units"


@dataclass(frozen=True)
class Sample:
    """A network and sequences to analyse it with.

    x: (batch, time, *input), or tokens, (batch, time); y: targets; lengths: (batch,) or None.
    """

    network: Network
    x: Tensor
    y: Tensor
    lengths: Tensor | None
    target: Target
    description: str
    """What they are, in words."""

    def arguments(self, needs: str) -> list[Any]:
        """Arguments of an analysis with these needs."""
        rest: dict[str, list[Any]] = {
            "network": [], "data": [self.x, self.lengths], "labels": [self.x, self.y, self.lengths, self.target],
        }  # fmt: skip
        return [self.network, *rest[needs]]


def sample(
    name: str, config: Config, examples: int = 128, steps: int | None = None, untrained: bool = False, seed: int = 0,
    needs: str = "labels",
) -> Sample:  # fmt: skip
    """The network of `name`, with its weights if it has any, and the first examples of its task's test data.

    needs: those of the analysis; a network with another head has no targets there, and one of "network" gets no data.
    Without a task, the random process of ensemble.draw over `steps` (10) steps and random classes. Raises DataError
    where the data are not there, and what `load` raises.
    """
    _must_read_one_sequence(config)
    known = registry.models()
    trained = not untrained and (loading.is_folder(name) or (name in known and registry.find(name).weights is not None))
    network = loading.load(name, device="cpu") if trained else build(config, device="cpu", seed=seed).eval()
    weights = "trained" if trained else "untrained"
    if config.task in registry.load_registry().all_tasks and needs != "network":
        task = task_of(config, outputs=needs == "labels")
        source = task_data(task, registry.load_registry().datasets[task.dataset])
        if not trained:
            source.attach_tokenizer(network)
        part = source.split("test")
        x, y, lengths = part.batch(torch.arange(min(examples, len(part))), network.device)
        if steps is not None:
            x, lengths = x[:, :steps], None if lengths is None else lengths.clamp(max=steps)
            y = y[:, :steps] if task.readout == "every" else y
        return Sample(network, x, y, lengths, task.target, f"{weights}; {len(x)} test examples of {task.title}")
    generator = torch.Generator().manual_seed(seed)
    x = process((examples, steps or 10, *config.interface.input), generator)
    y = torch.randint(config.interface.outputs, (examples,), generator=generator)
    return Sample(network, x, y, None, "class", f"{weights}; random inputs")


def of_sequences(analysis: F) -> F:
    """An analysis that refuses a network that does not read one sequence, and has any other in eval mode meanwhile."""

    @wraps(analysis)
    def run(network: Network, *args: Any, **kwargs: Any) -> Any:
        _must_read_one_sequence(network.config)
        with evaluating(network):
            return analysis(network, *args, **kwargs)

    return cast(F, run)


def _must_read_one_sequence(config: Config) -> None:
    if config.interface.readout == "none" or config.interface.form != "sequence":
        raise _not_one_sequence(config)


def _not_one_sequence(config: Config) -> RequestError:
    return RequestError(f"{config.name} does not read one sequence; this analysis is of networks that do.")


def training_arguments(name: str, config: Config, seed: int = 0, epochs: int | None = None) -> list[Any]:
    """What analyses of a course of training are given: a fresh network, the training split, the recipe, the target.

    Raises RequestError for what is not in the registry, and DataError where the data are not there.
    """
    if config.interface.form != "sequence":
        raise _not_one_sequence(config)
    if name not in registry.models():
        raise RequestError(f"{name} is not in the registry, so it has no recipe to be trained by.")
    entry = registry.find(name)
    source = task_data(entry.task, entry.dataset)
    network = build(config, device="cpu", seed=seed)
    source.attach_tokenizer(network)
    changes = {"seed": seed, **({} if epochs is None else {"epochs": epochs})}
    return [network, source.split("train"), entry.recipe_with(changes), entry.task.target]
