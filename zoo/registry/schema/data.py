"""Papers, datasets and tasks."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from ..metrics import Target
from .base import Count, Finite, Key, Positive, Seq, Sha256, Shape, Spec, Text, Url, fault


class Paper(Spec):
    """A paper: authors, title, year, and where to read it."""

    title: Text
    authors: Text
    year: Annotated[int, Field(ge=1940, le=2100)]
    venue: Text | None = None
    """Where it appeared, for a paper without an address."""
    url: Url | None = None
    arxiv: Annotated[str, Field(pattern=r"^(\d{4}\.\d{4,5}|[a-z-]+/\d{7})$")] | None = None

    @property
    def citation(self) -> str:
        """Authors and year, such as `Turkoglu et al. 2019`."""
        names = self.authors.split(", ")
        return f"{' & '.join(names) if len(names) < 3 else f'{names[0]} et al.'} {self.year}"

    @property
    def link(self) -> str:
        """Where to read it: its address, or else its venue; "" if neither is known."""
        return f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else self.url or self.venue or ""


class Dataset(Spec):
    """A dataset: content, licence, source, splits, and the digests of its files."""

    title: Text
    license: Text
    """SPDX identifier, or the Hub's `unknown` or `other`."""
    citation: Text
    folder: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$")] | None = None
    """Folder of its files below $RNNZOO_DATA; None for generated data."""
    url: Url | None = None
    """Page to download it from, if the Hub does not have it."""
    derived: Text | None = None
    """How its files were derived from those at `url`; None if they are the same."""
    hub: Text | None = None
    """Dataset repository on the Hub with the same data as parquet."""
    hub_files: dict[str, Text] = {}
    """Parquet file of each original part; or, under `archive`, the .tar.gz of all files."""
    train: Annotated[int, Field(ge=1)] | None = None
    """Number of training examples of generated data; otherwise training takes what the other splits leave."""
    validation: Annotated[int, Field(ge=1)] | None = None
    """Number of validation examples; of data split by zoo.data.base.split_by_hash, number of its keys."""
    test: Annotated[int, Field(ge=1)] | None = None
    """Number of test examples, or keys, of data published without a test split."""
    proxy_for: Text | None = None
    """The paper's data that this dataset replaces here; figures on the two do not compare."""
    caveat: Text | None = None
    """A limit that every figure on this dataset has."""
    files: Seq[Text] = ()
    """Names of the files to read, for families that read whatever is listed."""
    sha256: dict[str, Sha256] = {}
    """Digest of each file, from cards/lock.json; registry.yaml has none."""

    @model_validator(mode="before")
    @classmethod
    def _digests_are_locked(cls, data: Any) -> Any:
        if isinstance(data, dict) and "sha256" in data:
            raise fault(["sha256"], "digests stand in cards/lock.json: rnnzoo release DATASET")
        return data


class Shapes(Spec):
    """The shapes of a network's input and output."""

    input: Shape = ()
    """Shape of one time step: (features,), (channels, height, width), or () for a token."""
    vocabulary: Count | None = None
    """Number of tokens, for input that is text: token 0 is padding, token 1 an unknown word."""
    steps: Annotated[int, Field(ge=1, le=1_000_000)]
    """Length of the longest sequence, in time steps; initialisers of time constants use it."""
    outputs: Count
    """Number of classes or values."""
    readout: Literal["last", "mean", "every", "none"]
    """Time steps that the head reads: the last (of two directions, the last of each), the mean over all, or every one.
    `none` is for examples without time steps."""
    form: Literal["sequence", "question"] = "sequence"
    """One sequence, or a story and a question about it, which zoo.networks.story_reader reads."""
    mean: Finite | Seq[Finite] = 0.0
    """Mean and standard deviation of the training inputs, for models that standardise them. Examples without time steps
    may have one number a feature."""
    std: Positive | Seq[Positive] = 1.0

    @model_validator(mode="after")
    def _numbers_or_tokens(self) -> Self:
        if bool(self.input) == (self.vocabulary is not None):
            raise ValueError(
                "a time step is either numbers of shape 'input' or a token of a 'vocabulary'; give one of the two"
            )
        if self.form == "question" and self.vocabulary is None:
            raise ValueError("a story and its question need a 'vocabulary'")
        return self

    @model_validator(mode="after")
    def _without_time(self) -> Self:
        if self.readout == "none" and (self.steps, len(self.input)) != (1, 1):
            raise ValueError("readout 'none' needs steps: 1 and an 'input' of one number, the features")
        return self

    @model_validator(mode="after")
    def _one_for_each_feature(self) -> Self:
        for name in ("mean", "std"):
            value = getattr(self, name)
            if isinstance(value, tuple) and (self.readout != "none" or len(value) != self.input[0]):
                raise ValueError(
                    f"{name!r} has {len(value)} numbers; only readout 'none' allows a list, of one number a feature"
                )
        return self

    @property
    def example(self) -> Shape:
        """Shape of the longest example."""
        return self.input if self.readout == "none" else (self.steps, *self.input)

    @property
    def step_text(self) -> str:
        """One time step in words."""
        return " x ".join(map(str, self.input)) or f"one of {self.vocabulary:,} tokens"

    @property
    def example_text(self) -> str:
        """One example in words."""
        if self.readout == "none":
            return f"{self.step_text} values"
        if self.form == "question":
            return f"a story and a question, up to {self.steps} words together"
        return f"{'up to ' if self.vocabulary else ''}{self.steps} steps of {self.step_text}"


class Task(Shapes):
    """A learning task on one dataset; it fixes the shapes of a network's input and output."""

    title: Text
    family: Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9.-]{0,79}|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$")]
    """Row of zoo.registry.tasks.TASKS, or `package.module:Class` for your own zoo.data.base.TaskData."""
    dataset: Key
    layout: Key
    """How the family lays out an example as a sequence."""
    input_description: Text | None = None
    """What an input consists of; None for text, which the tokenizer prepares."""
    classes: Seq[Text] = ()
    """Names of the classes in the order of the outputs; empty if unknown."""
    target: Target = "class"
    """Kind of target; zoo.registry.metrics.TARGETS has its loss and metric."""
    pipeline_tag: Literal["image-classification", "text-classification", "question-answering", "other"]
    """The Hub's name for this kind of task."""

    @model_validator(mode="after")
    def _a_name_for_each_class(self) -> Self:
        if self.classes and self.target != "class":
            raise ValueError("'classes' name the outputs of target 'class' only")
        if self.classes and len(self.classes) != self.outputs:
            raise ValueError(f"{len(self.classes)} class names do not fit {self.outputs} outputs")
        return self

    @property
    def absent(self) -> bool:
        """True if its data may not be redistributed, so only reported figures are known."""
        return self.family == "absent"

    @property
    def output_text(self) -> str:
        """Readout and outputs in words."""
        outputs = (
            f"{self.outputs} {'classes' if self.target == 'class' else 'value' if self.outputs == 1 else 'values'}"
        )
        return outputs if self.readout == "none" else f"{self.readout}, {outputs}"
