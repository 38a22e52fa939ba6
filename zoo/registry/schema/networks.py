"""Architectures, and with the shapes a task gives them, whole networks: config.json."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from ...cells import FEEDFORWARD, Number, cell_row
from .base import Count, Key, Layers, Rate, Seq, Some, Spec, Text
from .data import Shapes, Task

WEIGHTS = ("zero", "orthogonal", "identity", "glorot-uniform", "lecun-uniform", "he-uniform", "he-normal")


def _check_weight_init(name: str) -> str:
    """A word of WEIGHTS, or `uniform-R` on [-R, R], or `normal-S` of standard deviation S."""
    if name in WEIGHTS or re.fullmatch(r"(uniform|normal)-\d{1,6}(\.\d+)?(e-\d+)?", name):
        return name
    raise ValueError(f"unknown initialiser {name!r}; known: {', '.join(WEIGHTS)}, uniform-R, normal-S")


Merge = Literal["sum", "concat", "mul", "mean"]
Kernel = Annotated[int, Field(ge=1, le=31)]
WeightInit = Annotated[str, AfterValidator(_check_weight_init)]


class Init(Spec):
    """Start values. What is left out is the cell's own default (CELLS), else Glorot, orthogonal and zero."""

    input: WeightInit | Some[WeightInit] | None = None
    """Of the input maps: one for all layers, or one for each, bottom to top."""
    recurrent: WeightInit | None = None
    gate_bias: Literal["zero", "one", "chrono", "log-uniform", "log-uniform-sqrt"] = "zero"
    """Bias b of the gates that keep memory, with the sign that keeps it. `one`: 1, the LSTM's customary forget bias
    (forget gates only). With T the steps of the task, `chrono`: log U(1, T - 1), Tallec & Ollivier 2018;
    `log-uniform`: U(0, log T), time constants uniform in their logarithm; `log-uniform-sqrt`: U(0, log(T) / 2)."""

    def resolved(self, cell: str, layer: int = 0) -> dict[str, str]:
        """Initialiser of each role in a layer, counted from the bottom, the cell's defaults filled in."""
        general = {} if cell in FEEDFORWARD else {"input": "glorot-uniform", "recurrent": "orthogonal"}
        given = {
            "input": self.input[layer] if isinstance(self.input, tuple) else self.input,
            "recurrent": self.recurrent,
        }
        return {role: given[role] or default for role, default in {**general, **cell_row(cell).init}.items()}

    def text(self, cell: str) -> str:
        """The start values of a cell's parameters in words."""
        of_layers = {"input": ", then ".join(self.input)} if isinstance(self.input, tuple) else {}
        gates = {} if cell in FEEDFORWARD else {"gate bias": self.gate_bias}
        return ", ".join(f"{role}: {word}" for role, word in {**self.resolved(cell), **of_layers, **gates}.items())


class Embedding(Spec):
    """A vector for every token, which the first layer gets in its place."""

    size: Count
    pretrained: Key | None = None
    """Dataset of word vectors of this size that training starts from; none: standard normal values."""
    trainable: bool = False
    """Whether training changes the vectors; if not, they are no parameters, but still in the checkpoint."""


class Head(Spec):
    """Convolutions between an image of states and the linear head, each with a rectifier; the image is averaged after."""

    filters: Some[Count]
    kernel: Kernel = 3
    stride: Annotated[int, Field(ge=1, le=8)] = 1

    @property
    def text(self) -> str:
        """In words."""
        return (
            f"{self.kernel} x {self.kernel} to {', '.join(map(str, self.filters))} channels, stride {self.stride}, ReLU"
        )


class Architecture(Spec):
    """A recurrent network but for the shapes a task gives it."""

    cell: Key
    options: dict[str, Any] = {}
    """Options of the cell; CELLS says which there are."""
    layers: Layers
    units: Count
    kernel: Kernel | None = None
    """Odd side of the convolution that replaces every linear map; none: dense."""
    bidirectional: Merge | None = None
    """How the outputs of the two directions are merged; none: one direction."""
    embedding: Embedding | None = None
    """For tasks whose time steps are tokens."""
    head: Head | None = None
    """For convolutional networks; none: the states, averaged over the image, go to the linear head."""
    init: Init = Init()
    standardize: bool = False
    """Shift and scale the input by the task's mean and standard deviation first."""
    dropout: Rate = 0.0
    """Between layers (not after the last)."""
    recurrent_dropout: Rate = 0.0
    """On the input of every recurrent map, one mask for all time steps (Gal & Ghahramani 2016)."""
    zoneout: Rate = 0.0
    """Probability that a state keeps its old value (Krueger et al. 2017); its expectation in eval mode."""
    layer_norm: bool = False
    """Normalise the input and the recurrent products (Ba et al. 2016, eq. 20), not the cell state."""

    @model_validator(mode="after")
    def _cell_and_options_exist(self) -> "Architecture":
        row = cell_row(self.cell)
        for name, why in row.without.items():
            if getattr(self, name):
                raise ValueError(f"cell {self.cell!r} cannot have {name!r}: {why}")
        allowed = row.options
        for key, value in self.options.items():
            if key not in allowed:
                raise ValueError(f"cell {self.cell!r} has no option {key!r}; it has: {', '.join(allowed) or 'none'}")
            choice = allowed[key]
            if isinstance(choice, tuple) and value not in choice:
                raise ValueError(f"option {key!r} is {value!r}; it can be {' or '.join(map(repr, choice))}")
            if isinstance(choice, Number) and not choice.allows(value):
                raise ValueError(f"option {key!r} is {value!r}; it must be {choice}")
        if self.kernel is not None and self.kernel % 2 == 0:
            raise ValueError(f"kernel is {self.kernel}; only odd kernels keep the size of an image")
        if self.head is not None and (self.kernel is None or self.head.kernel % 2 == 0):
            raise ValueError("a head of convolutions is for convolutional networks, and its kernel is odd")
        if self.kernel is not None and self.embedding is not None:
            raise ValueError("an embedding gives vectors, which have no place for a kernel")
        return self

    @model_validator(mode="after")
    def _init_fits(self) -> "Architecture":
        own = 1 if cell_row(self.cell).layers_inside else self.layers
        if isinstance(self.init.input, tuple) and len(self.init.input) != own:
            raise ValueError(f"'init' has {len(self.init.input)} initialisers for the input maps of {own} layers")
        if self.cell in FEEDFORWARD and (self.init.recurrent, self.init.gate_bias) != (None, "zero"):
            raise ValueError(f"cell {self.cell!r} has neither recurrent maps nor gates to initialise")
        return self

    def misfit(self, shape: Shapes) -> str | None:
        """Why a network of this kind cannot take the time steps of a task, if it cannot."""
        if (self.cell in FEEDFORWARD) != (shape.readout == "none"):
            return "a feed-forward network is for examples without time steps, readout 'none', and only it"
        if (self.embedding is None) != (shape.vocabulary is None):
            return "an embedding is for tokens, and tokens need one"
        if self.standardize and self.embedding is not None:
            return "standardize is for numbers, and a token is none"
        rank = 0 if self.embedding else 3 if self.kernel else 1
        if len(shape.input) != rank:
            return f"kernel is {self.kernel}, which does not fit an input of {' x '.join(map(str, shape.input))}"
        return None

    @property
    def prefix(self) -> str:
        """The first part of a name: `bistar-4x128`."""
        ways = ("bi" if self.bidirectional else "") + ("conv" if self.kernel else "")
        return f"{ways}{self.cell}-{self.layers}x{self.units}"


class Interface(Shapes):
    """The shapes a task gives a network; with an Architecture, all that is needed to build it."""

    classes: Seq[Text] | None = None
    """Names of the outputs of a network of one's own, () if they have none; None: its task's, which stand in the registry."""

    @model_validator(mode="after")
    def _a_name_for_each_class(self) -> "Interface":
        if self.classes and len(self.classes) != self.outputs:
            raise ValueError(f"{len(self.classes)} names of classes are not one for each of {self.outputs} outputs")
        return self

    @model_serializer(mode="wrap")
    def _named_if_at_all(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in whole(self).items() if key != "classes" or value is not None}

    @classmethod
    def of(cls, task: Task) -> "Interface":
        return cls(**{field: getattr(task, field) for field in Shapes.model_fields})


class Config(Spec):
    """config.json of a checkpoint: enough to rebuild the network without the registry."""

    library: Literal["rnnzoo"] = "rnnzoo"
    format: Literal[1] = 1
    name: Key
    task: Key
    architecture: Architecture
    interface: Interface

    @model_validator(mode="after")
    def _input_fits(self) -> "Config":
        if problem := self.architecture.misfit(self.interface):
            raise ValueError(problem)
        return self
