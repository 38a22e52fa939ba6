"""Architectures, and config.json, which describes a whole network: an architecture with the shapes of a task."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from ...cells import FEEDFORWARD, ROWS, cell_row
from ...cells.rows import Number
from ...errors import UnknownNameError
from .base import Count, Key, Layers, Rate, Seq, Some, Spec, Text
from .blocks import BlockSpec, FeedForwardSpec
from .data import Shapes, Task, wrong_count
from .faults import fault

INITIALISERS = ("zero", "orthogonal", "identity", "glorot-uniform", "lecun-uniform", "he-uniform", "he-normal")


def _check_weight_init(name: str) -> str:
    """Return `name` if it names an initialiser: one of INITIALISERS, `uniform-R` on [-R, R], or `normal-S` of standard deviation S.

    Raises PydanticCustomError for another name.
    """
    if name in INITIALISERS or re.fullmatch(r"(uniform|normal)-\d{1,6}(\.\d+)?(e-\d+)?", name):
        return name
    raise fault(f"unknown initialiser {name!r}; known: {', '.join(INITIALISERS)}, uniform-R, normal-S")


_CELL = r"(?P<cell>[a-z][a-z0-9-]*)-(?P<layers>\d{1,20})x(?P<units>\d{1,20})"
SPELLED_CELL = re.compile(rf"(?P<bi>)(?P<block>)(?P<conv>){_CELL}")
SPELLING = re.compile(rf"(?P<bi>bi)?(?P<block>block)?(?P<conv>conv)?{_CELL}")
"""The spelling of an architecture without and with its prefixes, see Architecture.from_name."""
NO_TASK = "none"
"""The task's name in the config of a network that was built for no task of the registry."""
Merge = Literal["sum", "concat", "mul", "mean"]
Kernel = Annotated[int, Field(ge=1, le=31)]
WeightInit = Annotated[str, AfterValidator(_check_weight_init)]


def without_none(field: str) -> Any:
    """Return a serializer that omits `field` if it is None, so that files from before the field existed stay the same."""

    @model_serializer(mode="wrap")
    def serialized(self: Spec, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in whole(self).items() if key != field or value is not None}

    return serialized


class Init(Spec):
    """How parameters are initialised.

    The default is the cell's own initialisation in CELLS or, if the cell has none, Glorot input weights, orthogonal
    recurrent weights and zero biases. Cells of a grid may share an Init: each takes from it what it has, see
    CellRow.recurrent_matrix and CellRow.gate_bias.
    """

    input: WeightInit | Some[WeightInit] | None = None
    """Initialiser of the input projections: one for all layers, or one for each, bottom to top."""
    recurrent: WeightInit | None = None
    gate_bias: Literal["zero", "one", "chrono", "log-uniform", "log-uniform-sqrt"] = "zero"
    """Bias b of the memory gates, with the sign that keeps memory. `one` is 1 on forget gates only, as usual for LSTMs.
    With T the task's number of time steps: `chrono` draws log U(1, T - 1) (Tallec & Ollivier 2018); `log-uniform` draws
    U(0, log T), so time constants are uniform in their logarithm; `log-uniform-sqrt` draws U(0, log(T) / 2)."""

    def resolved(self, cell: str, layer: int = 0) -> dict[str, str]:
        """Return the initialiser of each role (input, recurrent) in a layer, with the cell's default in place of None.

        layer: counted from 0 at the bottom.
        """
        general = {} if cell in FEEDFORWARD else {"input": "glorot-uniform", "recurrent": "orthogonal"}
        chosen = {
            "input": self.input[layer] if isinstance(self.input, tuple) else self.input,
            "recurrent": self.recurrent,
        }
        return {role: chosen[role] or default for role, default in {**general, **cell_row(cell).init}.items()}

    def text(self, cell: str) -> str:
        """Return the initialisation of a cell's parameters in words."""
        row, words = cell_row(cell), self.resolved(cell)
        if isinstance(self.input, tuple):
            words["input"] = ", then ".join(self.input)
        if not row.recurrent_matrix:
            words.pop("recurrent", None)
        if row.gate_bias:
            words["gate bias"] = self.gate_bias
        return ", ".join(f"{role}: {word}" for role, word in words.items())


class Embedding(Spec):
    """A table of token vectors, which the first layer reads in place of tokens."""

    size: Count
    pretrained: Key | None = None
    """Dataset of word vectors of this size to start training from; None for standard normal values."""
    trainable: bool = False
    """Whether training changes the vectors. Frozen vectors are in the checkpoint but do not count as parameters."""


class ConvHead(Spec):
    """ReLU convolutions over the image of hidden states. The linear head reads the spatial mean of the last one's output."""

    filters: Some[Count]
    kernel: Kernel = 3
    stride: Annotated[int, Field(ge=1, le=8)] = 1

    @property
    def text(self) -> str:
        """The convolutions in words."""
        return (
            f"{self.kernel} x {self.kernel} to {', '.join(map(str, self.filters))} channels, stride {self.stride}, ReLU"
        )


class Architecture(Spec):
    """The part of a network's description that does not depend on a task: its cell, layers, units and options."""

    _block_if_any = without_none("block")

    cell: Key
    options: dict[str, Any] = {}
    """Options of the cell; CELLS lists them."""
    layers: Layers
    units: Count
    kernel: Kernel | None = None
    """Odd side of the convolutions that replace all linear maps; None for linear maps."""
    bidirectional: Merge | None = None
    """How to merge the outputs of two directions; None for one direction."""
    embedding: Embedding | None = None
    """The table of token vectors; None for tasks whose time steps are numbers."""
    head: ConvHead | None = None
    """Convolutions before the linear head of a convolutional network; None if the head reads the state's spatial mean."""
    init: Init = Init()
    standardize: bool = False
    """Whether to subtract the task's mean from the input and divide it by the standard deviation."""
    dropout: Rate = 0.0
    """Dropout rate between layers, not after the last; with blocks, of what each block adds to its input, the last one, too."""
    recurrent_dropout: Rate = 0.0
    """Dropout rate on the input of every recurrent projection, one mask for all time steps (Gal & Ghahramani 2016)."""
    zoneout: Rate = 0.0
    """Probability that a unit keeps its old state (Krueger et al. 2017); eval mode takes the expectation."""
    layer_norm: bool = False
    """Whether to normalise the input and recurrent products (Ba et al. 2016, eq. 20), not the cell state."""
    block: BlockSpec | None = None
    """The block around each recurrent layer; None for layers directly on top of one another."""

    @model_validator(mode="after")
    def _cell_and_options_exist(self) -> "Architecture":
        try:
            row = cell_row(self.cell)
        except UnknownNameError as error:
            raise fault(str(error)) from error
        for name, why in row.without.items():
            if getattr(self, name):
                raise fault(f"cell {self.cell!r} cannot have {name!r}: {why}")
        allowed = row.options
        for key, value in self.options.items():
            if key not in allowed:
                raise fault(f"cell {self.cell!r} has no option {key!r}; its options: {', '.join(allowed) or 'none'}")
            choice = allowed[key]
            if isinstance(choice, tuple) and value not in choice:
                raise fault(f"option {key!r} is {value!r}; it can be {' or '.join(map(repr, choice))}")
            if isinstance(choice, Number) and not choice.allows(value):
                raise fault(f"option {key!r} is {value!r}; it must be {choice}")
            if isinstance(choice, Number) and choice.divides_units and self.units % value:
                raise fault(f"option {key!r} is {value}; it must divide the number of units, {self.units}")
        if self.kernel is not None and self.kernel % 2 == 0:
            raise fault(f"kernel is {self.kernel}; only odd kernels keep the size of an image")
        if self.head is not None and (self.kernel is None or self.head.kernel % 2 == 0):
            raise fault("a 'head' of convolutions needs a network with a 'kernel', and the head's kernel must be odd")
        if self.kernel is not None and self.embedding is not None:
            raise fault("a network with an 'embedding' reads vectors, so it cannot have a 'kernel'")
        return self

    @model_validator(mode="after")
    def _init_fits(self) -> "Architecture":
        layers = 1 if cell_row(self.cell).layers_inside else self.layers
        if isinstance(self.init.input, tuple) and len(self.init.input) != layers:
            raise fault(
                f"'init' has {len(self.init.input)} initialisers for the input projections of {layers} layers; give {layers}"
            )
        if self.cell in FEEDFORWARD and (self.init.recurrent, self.init.gate_bias) != (None, "zero"):
            raise fault(
                f"cell {self.cell!r} has no recurrent projections and no gates to initialise; leave them out of 'init'"
            )
        return self

    def misfit(self, shape: Shapes) -> str | None:
        """Return why this architecture does not fit a task's shapes, or None if it does."""
        if (self.cell in FEEDFORWARD) != (shape.readout == "none"):
            return "a feed-forward cell needs a task without time steps (readout 'none'), and such a task needs a feed-forward cell"
        if (self.embedding is None) != (shape.vocabulary is None):
            return "a task of tokens needs an 'embedding', and only a task of tokens can have one"
        if shape.is_stream and self.bidirectional:
            return "a network that reads a text to its end cannot predict what comes next: leave out 'bidirectional'"
        if self.block is not None and self.bidirectional and shape.readout == "last":
            return "a bidirectional network of blocks has no last step: its readout must be 'mean' or 'every'"
        if self.standardize and self.embedding is not None:
            return "'standardize' is for numbers, but this task has tokens; leave it out"
        rank = 0 if self.embedding else 3 if self.kernel else 1
        if len(shape.input) != rank:
            needed = "(channels, height, width)" if self.kernel else "(features,)"
            shown = " x ".join(map(str, shape.input))
            return f"with kernel {self.kernel}, the input must be {needed}; it is {shown}"
        return None

    @classmethod
    def from_name(cls, name: str) -> "Architecture | None":
        """Return the architecture that `[bi][block][conv]CELL-LxH` names, such as lstm-2x32; None if `name` has another form.

        bi: two directions, concatenated. block: layer norm before each layer, residual connections and a gated feed-forward
        network of 2 H. conv: 3 x 3 convolutions. Raises ValidationError if no network can have this architecture.
        """
        own = SPELLED_CELL.fullmatch(name)  # a user's cell whose name begins like a prefix, such as "bistable"
        spelt = own if own is not None and own["cell"] in ROWS else SPELLING.fullmatch(name)
        if spelt is None or spelt["cell"] not in ROWS:
            return None
        return cls(
            cell=spelt["cell"], layers=int(spelt["layers"]), units=int(spelt["units"]),
            kernel=3 if spelt["conv"] else None, bidirectional="concat" if spelt["bi"] else None,
            block=BlockSpec(feed_forward=FeedForwardSpec(width=2 * int(spelt["units"]))) if spelt["block"] else None,
        )  # fmt: skip

    @property
    def prefix(self) -> str:
        """The beginning of a model's name, before the hyphen and the task, such as `bistar-4x128`."""
        parts = ("bi" if self.bidirectional else "", "block" if self.block else "", "conv" if self.kernel else "")
        kind = "".join(parts)
        return f"{kind}{self.cell}-{self.layers}x{self.units}"


class Interface(Shapes):
    """The shapes that a task gives a network. An Architecture and an Interface are enough to build the network."""

    _classes_if_any = without_none("classes")

    classes: Seq[Text] | None = None
    """Names of the outputs; () for outputs without names, None for the class names of the task in the registry."""

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        yield from wrong_count(self.classes, self.outputs)

    @classmethod
    def from_task(cls, task: Task, named: bool = False) -> "Interface":
        """Return the shapes of a task's networks. named: with the names of its classes, if it has any."""
        shapes = {field: getattr(task, field) for field in Shapes.model_fields}
        return cls(**shapes, classes=task.classes or None if named else None)


class Config(Spec):
    """The content of a checkpoint's config.json, from which the network can be rebuilt without the registry."""

    library: Literal["rnnzoo"] = "rnnzoo"
    format: Literal[1] = 1
    name: Key = ""  # by default that of the architecture, such as lstm-2x32
    task: Key = ""  # a task of the registry, or by default NO_TASK
    architecture: Architecture
    interface: Interface

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_a_program(cls, data: Any) -> Any:
        """Return `data`, with name and task filled in if its architecture is an Architecture. A config.json must have both."""
        if isinstance(data, dict) and isinstance(architecture := data.get("architecture"), Architecture):
            return {"name": architecture.prefix, "task": NO_TASK, **data}
        return data

    @model_validator(mode="after")
    def _input_fits(self) -> "Config":
        if missing := [field for field in ("name", "task") if not getattr(self, field)]:
            raise fault(f"{' and '.join(missing)} must be given")
        if problem := self.architecture.misfit(self.interface):
            raise fault(problem)
        return self
