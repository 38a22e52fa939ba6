"""Prepares the arguments of analyses: config, network, data and states of a model, a checkpoint, or a name like lstm-12x32."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
import torch
from pydantic import ValidationError
from torch import Tensor

from .. import registry
from ..cells import CELLS, FEEDFORWARD, cell_class
from ..cells.base import Cell, State
from ..checkpoints import sources
from ..checkpoints.references import Reference
from ..data import data_of, task_data
from ..data.base import IGNORED
from ..errors import RequestError, UnknownNameError, faults
from ..networks import loading
from ..networks.base import evaluating, network_class, unwrapped
from ..networks.builder import build, spelt
from ..networks.feedforward import FeedForward
from ..networks.layer import Direction
from ..networks.recurrent import RecurrentNetwork
from ..registry.metrics import Target
from ..registry.schema import Architecture, Config, Interface
from ..training.evaluation import task_of
from ..utils.text import counted
from . import Analysis
from .ensemble import random_inputs

F = TypeVar("F", bound=Callable[..., Any])

Inputs = Tensor
"""Sequences to analyse: (batch, time, *input), or tokens (batch, time)."""
Lengths = Tensor | None
"""The number of steps of each sequence, (batch,); None if all have `time` steps."""
Targets = Tensor
"""The targets of sequences, in the shapes of `Split.targets` of zoo.data."""
IMAGE_SIDE = 8
"""Height and width of the images that a convolutional network without a task reads."""
NO_CLASSIFIER = "is not a feed-forward classifier. Use one, such as mlp-3x8-pima.sigmoid."
NOT_ONE_SEQUENCE = "does not read one sequence. This analysis takes networks that do, such as gru-1x128-mnist-rows."
"""The end of the error for a feed-forward network and for one that reads a story and a question."""


def config_of(name: str) -> Config:
    """Return the config of a checkpoint or of an architecture.

    name: a checkpoint as for Reference.parse (model, folder or hf://...), or an architecture `[bi][block][conv]CELL-LxH`
    (L layers of H units). Raises UnknownNameError, whose message suggests similar names, RequestError for sizes that no
    network can have, and CheckpointError for an invalid config.json.
    """
    subject = _parse(name)
    return sources.read_config(subject) if isinstance(subject, Reference) else without_task(subject, name=name)


def _parse(name: str) -> Reference | Architecture:
    """Return the checkpoint or the architecture that `name` denotes. See `config_of`."""
    try:
        return Reference.parse(name)
    except UnknownNameError:
        architecture = spelt(name)
        if architecture is not None:
            return architecture
        others = (f"{cell}-12x32" for cell in CELLS)
        raise registry.unknown_model(
            name, "An architecture CELL-LAYERSxUNITS, such as lstm-12x32, is also allowed.", others
        ) from None


def without_task(architecture: Architecture, steps: int = 10, name: str = "untrained") -> Config:
    """Return the config of an architecture without a task. Its first layer has as many inputs as the other layers.

    All layers then have the same shape. Embedding, standardisation and convolutional head are left out. Raises RequestError
    for a feed-forward architecture.
    """
    if architecture.cell in FEEDFORWARD:
        raise RequestError(f"{name} is feed-forward, so it has no time steps. Use the analysis `feedforward`.")
    plain: dict[str, Any] = {"embedding": None, "standardize": False, "head": None}
    cell = cell_class(architecture.cell)
    image = () if architecture.kernel is None else (IMAGE_SIDE, IMAGE_SIDE)
    input_shape = (cell.channels(cell.states[0], architecture.units, **architecture.options), *image)
    try:
        interface = Interface(input=input_shape, steps=steps, outputs=10, readout="last")
    except ValidationError as error:
        raise RequestError(f"{name} cannot be analysed: {faults(error)}") from error
    return Config(name=name, architecture=architecture.model_copy(update=plain), interface=interface)


def describe(config: Config) -> str:
    """Return a description of an architecture: `lstm, 12 layers of 32 units`."""
    spec = config.architecture
    kind = ("bidirectional " if spec.bidirectional else "") + ("convolutional " if spec.kernel else "")
    return f"{kind}{spec.cell}, {counted(spec.layers, 'layer')} of {counted(spec.units, 'unit')}"


@dataclass(frozen=True)
class Sample:
    """A network, the sequences on which it is analysed, and a description of both."""

    network: RecurrentNetwork
    x: Inputs
    y: Targets
    lengths: Lengths
    target: Target
    description: str

    def arguments(self, needs: str) -> list[Any]:
        """Return the arguments of an analysis, in order. needs: "network", "data" or "labels", see Analysis.needs."""
        data: dict[str, list[Any]] = {
            "network": [], "data": [self.x, self.lengths], "labels": [self.x, self.y, self.lengths, self.target],
        }  # fmt: skip
        return [self.network, *data[needs]]


def sample(
    name: str | Reference, config: Config, examples: int = 128, steps: int | None = None, untrained: bool = False, seed: int = 0,
    needs: str = "labels",
) -> Sample:  # fmt: skip
    """Return the network called `name`, with its weights if it has any, and the first examples of its task's test split.

    name: as for `config_of`, or a Reference. config: `config_of(name)`. steps: length to which sequences are cut (default:
    not cut). untrained: True for random weights drawn from `seed`. needs: see Analysis.needs; "labels" requires that the head
    fits the task, and "network" reads no data.

    A network without a task reads random_inputs, or random tokens, of `steps` (default: 10) steps, and its targets are random
    classes.
    Raises RequestError for a feed-forward network or one that reads a story and a question, DataError if the data are
    missing, and the errors of `load`.
    """
    _require_recurrent(config)
    reference = _parse(name) if isinstance(name, str) else name
    if trained := not untrained and isinstance(reference, Reference) and _has_weights(reference):
        network = loading.assemble(sources.resolve(reference), device="cpu")
    else:
        network = build(config, device="cpu", seed=seed).eval()
    weights = "trained" if trained else "untrained"
    data = None if needs == "network" else data_of(config)
    if data is not None:
        task = task_of(config, outputs=needs == "labels")
        if not trained:
            data.prepare_network(network)
        split = data.split("test")
        x, y, lengths = split.batch(torch.arange(min(examples, len(split))), network.device)
        if steps is not None:
            x, lengths = x[:, :steps], None if lengths is None else lengths.clamp(max=steps)
            y = y[:, :steps] if task.readout == "every" else y
            given = y != IGNORED if task.target in ("class", "token", "binary") else ~y.isnan()
            if needs == "labels" and not given.any():
                raise RequestError(
                    f"None of these examples has a target in its first {counted(steps, 'step')}. Leave out --steps, or give more."
                )
        return Sample(network, x, y, lengths, task.target, f"{weights}; {len(x)} test examples of {task.title}")
    if needs == "labels" and not config.interface.outputs:
        raise RequestError(
            f"{config.name} has no head, and this analysis needs a loss. Give it one by Network.reset_head."
        )
    generator, interface, shape = torch.Generator().manual_seed(seed), config.interface, (examples, steps or 10)
    if interface.vocabulary is None:
        x = random_inputs((*shape, *interface.input), generator)
    else:
        x = torch.randint(min(1, interface.vocabulary - 1), interface.vocabulary, shape, generator=generator)
    y = torch.randint(
        max(interface.outputs, 1), shape if interface.readout == "every" else shape[:1], generator=generator
    )
    return Sample(
        network, x, y, None, "class", f"{weights} weights" if needs == "network" else f"{weights}; random inputs"
    )


def _has_weights(reference: Reference) -> bool:
    return reference.model is None or registry.find(reference.model).weights is not None


def requires_recurrent(analysis: F) -> F:
    """Decorate an analysis: run the network in eval mode, and raise RequestError unless it is a RecurrentNetwork."""

    @wraps(analysis)
    def run(network: RecurrentNetwork, *args: Any, **kwargs: Any) -> Any:
        network = unwrapped(network)
        _require_recurrent(network.config)
        with evaluating(network):
            return analysis(network, *args, **kwargs)

    return cast(F, run)


def require_network_of(analysis: Analysis, config: Config) -> None:
    """Raise RequestError, before data are read, if the analysis does not take the network that `config` describes."""
    if analysis.feedforward:
        if not issubclass(network_class(config), FeedForward):
            raise RequestError(f"{config.name} {NO_CLASSIFIER}")
    elif analysis.needs != "architecture":  # analyses of those check it themselves
        _require_recurrent(config)


def _require_recurrent(config: Config) -> None:
    if not issubclass(network_class(config), RecurrentNetwork):
        raise RequestError(f"{config.name} {NOT_ONE_SEQUENCE}")


def training_arguments(name: str, config: Config, seed: int = 0, epochs: int | None = None) -> list[Any]:
    """Return the arguments of an analysis that trains: [new network, training split, recipe, kind of target].

    name: a registered model. config: of the network to build. epochs: number of epochs; None for the recipe's number.

    Raises RequestError for a name that is not in the registry and for networks that read a story and a question, and
    DataError if the data are missing.
    """
    if config.interface.form == "question":
        raise RequestError(f"{config.name} {NOT_ONE_SEQUENCE}")
    if name not in registry.models():
        raise RequestError(
            f"{name} is not in the registry, so there is no recipe to train it. Write the whole name of a registered "
            "model, with its task; `rnnzoo list` shows every model."
        )
    entry = registry.find(name)
    data = task_data(entry.task, entry.dataset)
    network = build(config, device="cpu", seed=seed)
    data.prepare_network(network)
    changes = {"seed": seed, **({} if epochs is None else {"epochs": epochs})}
    return [network, data.split("train"), entry.recipe_with(changes), entry.task.target]


def unroll(direction: Direction, x: Tensor, state: State) -> list[State]:
    """Return time + 1 states: `state` and those after each step of x, (time, batch, channels, ...), the layer's input."""
    prepared = [part.unbind(0) for part in direction.prepare(x)]
    states = [state]
    with direction.hold_projections(x[0]):
        for x_t in zip(*prepared, strict=True):
            states.append(direction.step(x_t, states[-1]))
    return states


def block_labels(cell: Cell, count: int) -> Sequence[str | int]:
    """Return the names of `count` blocks of a matrix: those of the cell's gates if it has as many, else 1, 2, ..."""
    return cell.inputs if count == len(cell.inputs) else range(1, count + 1)


@torch.no_grad()
def layer_inputs(network: RecurrentNetwork, x: Inputs, lengths: Lengths, may_explode: bool = False) -> list[Tensor]:
    """Return the input of every layer, bottom to top, each (time, batch, channels, ...). x, lengths: as in `forward`.

    Raises RequestError if a weight or, unless layers `may_explode`, an output of a layer is infinite or NaN.
    """
    for name, parameter in network.named_parameters():
        require_finite(parameter, network, f"values of {name}")
    inputs, valid = [], valid_steps(x, lengths).T.to(x.device)
    for index, (layer_input, outputs) in enumerate(network.trace(x, lengths)[1], start=1):
        if not may_explode:
            require_finite(torch.stack(outputs)[valid], network, f"outputs of layer {index} on these sequences")
        inputs.append(layer_input)
    return inputs


def require_finite(values: Tensor, network: RecurrentNetwork, what: str) -> None:
    """Raise RequestError if a value is infinite or NaN, since no analysis could say anything. what: names the values."""
    if not values.isfinite().all():
        raise RequestError(f"{network.config.name} cannot be analysed: {what} are infinite or NaN.")


def sequence_lengths(x: Inputs, lengths: Lengths) -> Tensor:
    """Return the number of steps of each sequence, (batch,), on the CPU."""
    return torch.full((len(x),), x.shape[1]) if lengths is None else lengths.cpu()


def valid_steps(x: Inputs, lengths: Lengths) -> Tensor:
    """Return a mask, (batch, time), that is True at the steps within each sequence's length, on the CPU."""
    return torch.arange(x.shape[1]) < sequence_lengths(x, lengths)[:, None]


def evenly_spread(steps: int, points: int) -> list[int]:
    """Return up to `points` of the steps 1, 2, ..., steps, the first and the last among them."""
    return sorted({int(t) for t in np.linspace(1, steps, min(points, steps)).round()})


def memory_index(direction: Direction) -> int:
    """Return the index of the state that is the cell's memory: c (Chen 2022, for the LSTM) or the corresponding state."""
    names = direction.cell.states
    return next((names.index(name) for name in ("c", "C", "S", "x", "h") if name in names), 0)
