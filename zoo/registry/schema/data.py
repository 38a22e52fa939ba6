"""Papers, datasets and tasks: what there is to learn, and from what."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from ..metrics import Target
from .base import Count, Finite, Key, Positive, Seq, Sha256, Shape, Spec, Text, Url


class Paper(Spec):
    """Who wrote what, when, and where it is to be read."""

    title: Text
    authors: Text
    year: Annotated[int, Field(ge=1940, le=2100)]
    venue: Text | None = None
    """Where it appeared, if it has no address."""
    url: Url | None = None
    arxiv: Annotated[str, Field(pattern=r"^(\d{4}\.\d{4,5}|[a-z-]+/\d{7})$")] | None = None


class Dataset(Spec):
    """Data: what it is, whose, where, how it is split, and the digests that prove it."""

    title: Text
    license: Text
    """SPDX identifier, or `unknown` or `other` as on the Hub."""
    citation: Text
    folder: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$")] | None = None
    """Where its files lie below $RNNZOO_DATA; none: it is generated."""
    url: Url | None = None
    """Page that has it, where the Hub has not."""
    derived: Text | None = None
    """What its files are, where they are not those at the url themselves."""
    hub: Text | None = None
    """Dataset repository on the Hub that has the same data as parquet."""
    hub_files: dict[str, Text] = {}
    """Parquet file of each original part; or, as `archive`, the .tar.gz of all files."""
    train: Annotated[int, Field(ge=1)] | None = None
    """Number of training examples, where the data are generated; else what is left of all."""
    validation: Annotated[int, Field(ge=1)] | None = None
    """How many examples are kept for validation; of data that tasks.base.dealt parts, how many of its keys."""
    test: Annotated[int, Field(ge=1)] | None = None
    """How many, of the same, are kept for the test, where the data come without a split."""
    proxy_for: Text | None = None
    """Data of the documents that this is not, though it takes their place here: figures on the two do not compare."""
    caveat: Text | None = None
    """What figures on it must be read with."""
    files: Seq[Text] = ()
    """Names of its files, where they decide what is read."""
    sha256: dict[str, Sha256] = {}
    """Digest of each file, from cards/lock.json; registry.yaml has none."""

    @model_validator(mode="before")
    @classmethod
    def _digests_are_locked(cls, data: Any) -> Any:
        if isinstance(data, dict) and "sha256" in data:
            raise PydanticCustomError(
                "locked", "digests stand in cards/lock.json: rnnzoo release DATASET", {"path": ["sha256"]}
            )
        return data


class Shapes(Spec):
    """What goes into a network and what comes out of it."""

    input: Shape = ()
    """Shape of one time step: (features,), (channels, height, width), or () for a token."""
    vocabulary: Count | None = None
    """Number of different tokens, where a time step is one: 0 is padding, 1 an unknown word."""
    steps: Annotated[int, Field(ge=1, le=1_000_000)]
    """Length of a sequence, of the longest where they differ; initialisers with a time constant use it."""
    outputs: Count
    """Classes, or values."""
    readout: Literal["last", "mean", "every", "none"]
    """What of the time steps the outputs are computed from (last: of two directions, the last one of each); none: an
    example has no time steps."""
    form: Literal["sequence", "question"] = "sequence"
    """What is read: one sequence, or a story and a question about it, which three stacks read (zoo.networks.story_reader)."""
    mean: Finite | Seq[Finite] = 0.0
    """Mean and standard deviation of the training inputs, for models that standardise them; without time steps they may
    be one a feature."""
    std: Positive | Seq[Positive] = 1.0

    @model_validator(mode="after")
    def _numbers_or_tokens(self) -> Self:
        if bool(self.input) == (self.vocabulary is not None):
            raise ValueError("a time step is either numbers, of shape 'input', or a token of a 'vocabulary'")
        if self.form == "question" and self.vocabulary is None:
            raise ValueError("a story and its question are tokens of a 'vocabulary'")
        return self

    @model_validator(mode="after")
    def _without_time(self) -> Self:
        if self.readout == "none" and (self.steps, len(self.input)) != (1, 1):
            raise ValueError("an example without time steps, readout 'none', is one step of features")
        return self

    @model_validator(mode="after")
    def _one_for_each_feature(self) -> Self:
        for name in ("mean", "std"):
            value = getattr(self, name)
            if isinstance(value, tuple) and (self.readout != "none" or len(value) != self.input[0]):
                raise ValueError(f"{name!r} is {len(value)} numbers; without time steps it can be one for each feature")
        return self

    @property
    def example(self) -> Shape:
        """Shape of one example, the longest."""
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
    """One thing to learn on one dataset; it decides the shape of a network's input and output."""

    title: Text
    family: Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9.-]{0,79}|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$")]
    """Row of zoo.registry.tasks.TASKS; or `package.module:Class`, a zoo.data.base.TaskData of one's own."""
    dataset: Key
    layout: Key
    """How the family lays its data out as a sequence."""
    input_description: Text | None = None
    """What an input is made of, and how; without it, what the data's tokenizer makes of text."""
    classes: Seq[Text] = ()
    """Names of the classes, in the order of the outputs, where they are known."""
    target: Target = "class"
    """What zoo.registry.metrics.TARGETS derives loss and metric from."""
    pipeline_tag: Literal["image-classification", "text-classification", "question-answering", "other"]
    """The Hub's word for this kind of task."""

    @model_validator(mode="after")
    def _a_name_for_each_class(self) -> Self:
        if self.classes and (self.target != "class" or len(self.classes) != self.outputs):
            raise ValueError(f"{len(self.classes)} names of classes are not one for each of {self.outputs} outputs")
        return self

    @property
    def absent(self) -> bool:
        """Whether nobody may pass on its data, so that only reported figures are here."""
        return self.family == "absent"

    @property
    def output_text(self) -> str:
        """Readout and outputs in words."""
        outputs = (
            f"{self.outputs} {'classes' if self.target == 'class' else 'value' if self.outputs == 1 else 'values'}"
        )
        return outputs if self.readout == "none" else f"{self.readout}, {outputs}"
