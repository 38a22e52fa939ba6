"""What may be said in registry.yaml and config.json: frozen models that accept no unknown key and no odd value.

Nothing here imports torch, so that listing and showing models stays instant.
"""

import difflib
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from .cells import CELLS, Number, cell_row

T = TypeVar("T")
Seq = Annotated[tuple[T, ...], Field(strict=False)]  # YAML and JSON have lists where we want tuples
Some = Annotated[tuple[T, ...], Field(strict=False, min_length=1, max_length=32)]
Text = Annotated[str, Field(min_length=1, max_length=2000)]
Key = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,79}$")]
Count = Annotated[int, Field(ge=1, le=16384)]
Shape = Annotated[tuple[Count, ...], Field(strict=False, min_length=1, max_length=3)]
Layers = Annotated[int, Field(ge=1, le=1024)]
Percent = Annotated[float, Field(ge=0.0, le=100.0)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[float, Field(gt=0.0, lt=math.inf, allow_inf_nan=False)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class Spec(BaseModel):
    """Base of every specification: frozen, strict about types, and helpful about unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _nearest_key(cls, data: Any) -> Any:
        for key in data if isinstance(data, Mapping) else ():
            if key not in cls.model_fields:
                known = sorted(cls.model_fields)
                near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.0)[0]
                message = f"unknown key {key!r}; the nearest valid one is {near!r}"
                raise PydanticCustomError("unknown_key", "{message}", {"message": message, "key": key})
        return data


class Paper(Spec):
    title: Text
    authors: Text
    year: Annotated[int, Field(ge=1940, le=2100)]
    url: Annotated[str, Field(pattern=r"^https://")] | None = None
    arxiv: Annotated[str, Field(pattern=r"^(\d{4}\.\d{4,5}|[a-z-]+/\d{7})$")] | None = None


class Dataset(Spec):
    """Real data: what it is, whose, where, and the digests that prove it."""

    title: Text
    license: Text
    """SPDX identifier."""
    stand_in_for: Text | None = None
    """The dataset of the documents that this one stands in for; figures of the two are not of the same test."""
    hub: Text
    """Dataset repository on the Hub, which has the same data as parquet."""
    hub_files: dict[str, Text]
    """Parquet file of each original part."""
    validation: Annotated[int, Field(ge=1)]
    """How many of the first training examples are kept for validation."""
    citation: Text
    sha256: dict[str, Sha256]
    """Digest of the decoded values of each original file, whatever container they came in."""


class Task(Spec):
    """One thing to learn on one dataset; it decides the shape of a network's input and output."""

    title: Text
    family: Key
    """Row of zoo.tasks.TASKS."""
    dataset: Key
    layout: Key
    """How the family lays its data out as a sequence."""
    input: Shape
    """Shape of one time step: (features,) or (channels, height, width)."""
    steps: Annotated[int, Field(ge=1, le=1_000_000)]
    classes: Count
    readout: Literal["last", "mean", "every"]
    metric: Literal["accuracy"]
    pipeline_tag: Literal["image-classification", "text-classification", "question-answering", "other"]
    """The Hub's word for this kind of task."""
    mean: Finite = 0.0
    """Mean and standard deviation of the training inputs, for models that standardise them."""
    std: Positive = 1.0


class Optimizer(Spec):
    """An optimizer and its constants."""

    name: Literal["adam", "rmsprop", "sgd"]
    lr: Positive
    betas: Seq[Rate] = (0.9, 0.999)
    """Adam only."""
    smoothing: Rate = 0.9
    """RMSprop only: decay of the mean square (Tieleman & Hinton 2012 use 0.9)."""
    momentum: Rate = 0.0
    """SGD and RMSprop."""
    weight_decay: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0

    @model_validator(mode="after")
    def _two_betas(self) -> "Optimizer":
        if len(self.betas) != 2:
            raise ValueError(f"betas must be two numbers, not {len(self.betas)}")
        return self


class Schedule(Spec):
    """Learning rate as a multiple of the optimizer's over the whole run, after a linear warm-up."""

    name: Literal["constant", "cosine", "one-cycle", "polynomial"] = "constant"
    warmup: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Steps from 0 to the full rate; one-cycle takes 30 % of the run if this is 0."""
    final: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Multiple that the decay ends at."""
    power: Positive = 1.0
    """Polynomial only."""


class Recipe(Spec):
    """How a checkpoint is trained."""

    paper: Key | None = None
    """The document that gives these settings, if one does."""
    follows: Key | None = None
    """The document's recipe that this one departs from."""
    why: Text | None = None
    """Why it departs."""
    optimizer: Optimizer
    schedule: Schedule = Schedule()
    batch: Count
    epochs: Annotated[int, Field(ge=1, le=100_000)]
    clip: Positive | None = None
    """Bound on the global gradient norm."""
    truncate: Count | None = None
    """Truncated backpropagation through time: gradients are cut every this many steps."""
    omega: Positive | None = None
    """Weight of the regulariser that keeps errors from vanishing (Pascanu et al. 2013); see zoo.regularisers."""
    recompute: Count | None = None
    """Gradient checkpointing: only the states every this many steps are kept, the rest is computed again."""
    precision: Literal["no", "bf16", "fp16"] = "no"
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0

    @model_validator(mode="after")
    def _departures_are_explained(self) -> "Recipe":
        if (self.follows is None) != (self.why is None):
            raise ValueError("'follows' and 'why' go together: a departure from a document's recipe is explained")
        return self


WEIGHTS = ("zero", "orthogonal", "identity", "glorot-uniform", "lecun-uniform", "he-uniform", "he-normal")


def _check_weight_init(name: str) -> str:
    """A word of WEIGHTS, or `uniform-R` on [-R, R], or `normal-S` of standard deviation S."""
    if name in WEIGHTS or re.fullmatch(r"(uniform|normal)-\d{1,6}(\.\d+)?(e-\d+)?", name):
        return name
    raise ValueError(f"unknown initialiser {name!r}; known: {', '.join(WEIGHTS)}, uniform-R, normal-S")


def _check_cell(name: str) -> None:
    if name not in CELLS:
        near = difflib.get_close_matches(name, CELLS, n=1, cutoff=0.0)[0]
        raise ValueError(f"unknown cell {name!r}; the nearest is {near!r}")


WeightInit = Annotated[str, AfterValidator(_check_weight_init)]


class Init(Spec):
    """Start values. What is left out is the cell's own default (CELLS), else Glorot, orthogonal and zero."""

    input: WeightInit | None = None
    recurrent: WeightInit | None = None
    gate_bias: Literal["zero", "one", "chrono", "log-uniform", "log-uniform-sqrt"] = "zero"
    """Bias b of the gates that keep memory, with the sign that keeps it. `one`: 1, the LSTM's customary forget bias
    (forget gates only). With T the steps of the task, `chrono`: log U(1, T - 1), Tallec & Ollivier 2018;
    `log-uniform`: U(0, log T), time constants uniform in their logarithm; `log-uniform-sqrt`: U(0, log(T) / 2)."""

    def resolved(self, cell: str) -> dict[str, str]:
        """Initialiser of each role, the cell's defaults filled in."""
        defaults = {"input": "glorot-uniform", "recurrent": "orthogonal"} | cell_row(cell).init
        given = {role: getattr(self, role) for role in defaults}
        return {role: given[role] or default for role, default in defaults.items()}


class Architecture(Spec):
    """A recurrent network but for the shapes a task gives it."""

    cell: Key
    options: dict[str, Any] = {}
    """Options of the cell; CELLS says which there are."""
    layers: Layers
    units: Count
    kernel: Annotated[int, Field(ge=1, le=31)] | None = None
    """Odd side of the convolution that replaces every linear map; none: dense."""
    bidirectional: Literal["sum", "concat", "mul", "mean"] | None = None
    """How the outputs of the two directions are merged; none: one direction."""
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
        _check_cell(self.cell)
        row = CELLS[self.cell]
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
        return self

    @property
    def input_rank(self) -> int:
        """Dimensions of one time step: (features,), or (channels, height, width) for a convolution."""
        return 1 if self.kernel is None else 3

    @property
    def prefix(self) -> str:
        """The first part of a name: `bistar-4x128`."""
        ways = ("bi" if self.bidirectional else "") + ("conv" if self.kernel else "")
        return f"{ways}{self.cell}-{self.layers}x{self.units}"


class Reported(Spec):
    """A figure a document prints, and where."""

    paper: Key
    table: Text
    percent: Percent
    """Accuracy in percent, as printed."""


class PinnedFile(Spec):
    sha256: Sha256
    size: Annotated[int, Field(ge=1, le=10**9)]


class Weights(Spec):
    """The pin of a published checkpoint: these bytes, wherever they come from."""

    repo: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")]
    revision: Commit | None = None
    """Full commit on the Hub; none while only the packaged copy exists."""
    files: dict[Literal["model.safetensors", "config.json"], PinnedFile]

    @model_validator(mode="after")
    def _all_files(self) -> "Weights":
        if set(self.files) != {"model.safetensors", "config.json"}:
            raise ValueError("'files' must pin both model.safetensors and config.json")
        return self


class Model(Architecture):
    """One entry of the registry: an architecture on a task."""

    task: Key
    tag: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")] | None = None
    """Names another recipe or initialiser of the same architecture and task."""
    recipe: Key
    reported: Seq[Reported] = ()
    notes: Text | None = None
    """What a reader of the card must know, such as limits."""

    @property
    def name(self) -> str:
        return f"{self.prefix}-{self.task}" + (f".{self.tag}" if self.tag else "")

    @property
    def architecture(self) -> Architecture:
        return Architecture(**{field: getattr(self, field) for field in Architecture.model_fields})


class ReportedTable(Spec):
    """A table of a document: for each task and each `LAYERSxUNITS`, one figure a cell (null: not in the table)."""

    paper: Key
    table: Text
    percent: dict[Key, dict[Annotated[str, Field(pattern=r"^\d+x\d+$")], Seq[Percent | None]]]


class Grid(Spec):
    """A family of models: every combination of `cell`, `layers`, `units` and `task`."""

    cell: Some[Key]
    layers: Some[Layers]
    units: Some[Count]
    task: Some[Key]
    recipe: Key
    init: Init = Init()
    reported: Seq[ReportedTable] = ()

    def models(self) -> list[Model]:
        """Every combination, with what the tables report of it."""
        return [
            Model(
                cell=cell, layers=layers, units=units, task=task, recipe=self.recipe, init=self.init,
                reported=tuple(self._reported(column, f"{layers}x{units}", task)),
            )
            for task in self.task for column, cell in enumerate(self.cell)
            for layers in self.layers for units in self.units
        ]  # fmt: skip

    def _reported(self, column: int, row: str, task: str) -> list[Reported]:
        found = ((t, t.percent.get(task, {}).get(row, ())) for t in self.reported)
        figures = ((table, row[column]) for table, row in found if row)
        return [Reported(paper=t.paper, table=t.table, percent=float(f)) for t, f in figures if f is not None]

    @model_validator(mode="after")
    def _cells_exist(self) -> "Grid":
        for cell in self.cell:
            _check_cell(cell)
        return self

    @model_validator(mode="after")
    def _tables_fit(self) -> "Grid":
        for table in self.reported:
            for task, rows in table.percent.items():
                if task not in self.task:
                    raise ValueError(f"{table.table}: task {task!r} is not in this grid")
                for row, figures in rows.items():
                    layers, units = map(int, row.split("x"))
                    if layers not in self.layers or units not in self.units or len(figures) != len(self.cell):
                        raise ValueError(f"{table.table}, {task}: row {row!r} does not fit this grid")
        return self


class Registry(Spec):
    """The whole of registry.yaml."""

    papers: dict[Key, Paper]
    datasets: dict[Key, Dataset]
    tasks: dict[Key, Task]
    recipes: dict[Key, Recipe]
    models: dict[Key, Model]
    grids: dict[Key, Grid]
    weights: dict[Key, Weights]
    """Pins of the published checkpoints, by model."""


class Interface(Spec):
    """The shapes a task gives a network; with an Architecture, all that is needed to build it."""

    input: Shape
    steps: Annotated[int, Field(ge=1, le=1_000_000)]
    """Typical length of a sequence; initialisers with a time constant use it."""
    outputs: Count
    readout: Literal["last", "mean", "every"]
    mean: Finite = 0.0
    std: Positive = 1.0

    @classmethod
    def of(cls, task: Task) -> "Interface":
        shared = {field: getattr(task, field) for field in ("input", "steps", "readout", "mean", "std")}
        return cls(outputs=task.classes, **shared)


class Config(Spec):
    """config.json of a checkpoint: enough to rebuild the network without the registry."""

    library: Literal["rnnzoo"] = "rnnzoo"
    format: Literal[1] = 1
    name: Key
    task: Key
    architecture: Architecture
    interface: Interface

    @model_validator(mode="after")
    def _kernel_fits_the_input(self) -> "Config":
        if len(self.interface.input) != self.architecture.input_rank:
            shape = " x ".join(map(str, self.interface.input))
            raise ValueError(f"kernel is {self.architecture.kernel}, which does not fit an input of {shape}")
        return self
