"""Papers, datasets and tasks, and TASKS, the table of the classes that read the tasks' data."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ...utils.text import ahead_text, counted
from ..metrics import Target
from .base import Count, Finite, Key, Positive, Seq, Sha256, Shape, Spec, Text, Url, Vocabulary, VocabularyOrZero
from .faults import fault

TASKS: dict[str, str] = {
    "absent": "absent.Absent",
    "adding": "adding.Adding",
    "babi": "babi.Babi",
    "characters": "characters.Characters",
    "circles": "tables.Circles",
    "forecast": "forecast.Forecast",
    "fsdd": "speech.FSDD",
    "jester": "video.Jester",
    "jigsaw": "text.Jigsaw",
    "mnist": "mnist.MNIST",
    "music": "music.Music",
    "nmnist": "video.NMNIST",
    "pima": "tables.Pima",
    "probes": "probes.Probes",
    "sits": "sits.Sits",
    "spooky": "text.Spooky",
    "uea": "uea.UEA",
    "wikitext": "wikitext.WikiText",
}
"""By task family: `module.Class` in zoo.data, a subclass of zoo.data.base.TaskData."""


STREAMS = ("characters", "bytes", "words")
"""Values of Shapes.form for windows of one long text. Each says what the network reads at a step: a character, byte or word."""


class Paper(Spec):
    """A paper, and where to read it."""

    title: Text
    authors: Text  # surnames, separated by ", "
    year: Annotated[int, Field(ge=1940, le=2100)]
    venue: Text | None = None  # journal, conference or book, for a paper that has no address
    url: Url | None = None
    arxiv: Annotated[str, Field(pattern=r"^(\d{4}\.\d{4,5}|[a-z-]+/\d{7})$")] | None = None

    @property
    def citation(self) -> str:
        """Authors and year, such as `Turkoglu et al. 2019`."""
        names = self.authors.split(", ")
        return f"{' & '.join(names) if len(names) < 3 else f'{names[0]} et al.'} {self.year}"

    @property
    def link(self) -> str:
        """The paper's address, or its venue if it has no address, or "" if neither is known."""
        return f"https://arxiv.org/abs/{self.arxiv}" if self.arxiv else self.url or self.venue or ""


def _refuse_digests(value: Any) -> Any:
    raise fault("digests belong in cards/lock.json; to write them there: rnnzoo release DATASET")


class Dataset(Spec):
    """A dataset: content, licence, source, splits, and the digests of its files."""

    title: Text
    license: Text  # SPDX identifier, or the Hub's `unknown` or `other`
    citation: Text
    folder: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$")] | None = None
    """Folder of the files below $RNNZOO_DATA; None for generated data."""
    url: Url | None = None  # page to download the files from, if the Hub does not have them
    derived: Text | None = None  # how the files were derived from those at `url`; None if they are the same
    originals: Text | None = None  # pattern of the files in the repository at `url` that `rnnzoo convert` reads
    hub: Text | None = None  # dataset repository on the Hub that has the same data as parquet
    hub_files: dict[str, Text] = {}  # parquet file of each original part; or, under `archive`, the .tar.gz of all files
    train: Annotated[int, Field(ge=1)] | None = None
    """Number of training examples of generated data; other datasets train on all examples that are in no other split."""
    validation: Annotated[int, Field(ge=1)] | None = None
    """Number of validation examples; for data that zoo.data.base.split_by_hash splits, the number of keys."""
    test: Annotated[int, Field(ge=1)] | None = None  # number of test examples or keys, if the data has no test split
    proxy_for: Text | None = None  # the paper's data that this dataset replaces; figures on the two do not compare
    caveat: Text | None = None  # a limit of every figure on this dataset
    test_in_package: bool = False  # whether the files of the test split come with the package
    files: Seq[Text] = ()  # names of the files to read, for families that do not fix them
    sha256: Annotated[dict[str, Sha256], BeforeValidator(_refuse_digests)] = {}
    """Digest of each file, from cards/lock.json. sources.yaml must not contain digests."""


class Shapes(Spec):
    """The shapes of a network's input and output."""

    input: Shape = ()  # of one time step: (features,), (channels, height, width), or () for a token
    vocabulary: Vocabulary | None = None  # number of tokens, for text: token 0 is padding, token 1 is an unknown word
    steps: Annotated[int, Field(ge=1, le=1_000_000)]
    """Length of the longest sequence in time steps. Some initial values of gate biases depend on it."""
    outputs: VocabularyOrZero
    """Number of classes or values. 0, which no task has, leaves out the head: the network returns what a head would read."""
    readout: Literal["last", "mean", "every", "none"]
    """Time steps that the head reads: the last (of two directions, the last of each), the mean over all, or every one.
    `none` is for examples without time steps."""
    form: Literal["sequence", "question", "characters", "bytes", "words"] = "sequence"
    """What an example is: one sequence; a story and a question about it (zoo.networks.story_reader); or a window of one long
    text, of which the network reads every character, byte or word and carries its state from each window to the next."""
    mean: Finite | Seq[Finite] = 0.0
    std: Positive | Seq[Positive] = 1.0
    """Mean and standard deviation of the training inputs: one number, or for readout `none` one for each feature."""

    def _problems(self) -> Iterator[str]:
        if bool(self.input) == (self.vocabulary is not None):
            yield "a time step is either numbers of shape 'input' or a token of a 'vocabulary'; give one of the two"
        if self.form != "sequence" and self.vocabulary is None:
            yield f"form {self.form!r} needs a 'vocabulary'"
        if self.is_stream and self.readout != "every":
            yield f"form {self.form!r} needs readout 'every'"
        if self.readout == "none" and (self.steps, len(self.input)) != (1, 1):
            yield "readout 'none' needs steps: 1 and an 'input' of one number, the number of features"
        for name, value in (("mean", self.mean), ("std", self.std)):
            if isinstance(value, tuple) and (self.readout != "none" or (len(value),) != self.input):
                yield f"{name!r} has {len(value)} numbers; only readout 'none' allows a list, one number for each feature"

    @property
    def is_stream(self) -> bool:
        """True if examples are windows of one long text."""
        return self.form in STREAMS

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
            return f"a story and a question, up to {self.steps:,} words together"
        if self.is_stream:
            return f"text in windows of {counted(self.steps, self.form.removesuffix('s'))}, from a vocabulary of {self.vocabulary:,}"
        if self.vocabulary:
            return f"up to {counted(self.steps, 'token')} from a vocabulary of {self.vocabulary:,}"
        return f"{counted(self.steps, 'step')} of {self.step_text}"


def wrong_count(classes: tuple[str, ...] | None, outputs: int) -> Iterator[str]:
    """Yield a message if there are names of classes, but not one for each output, or if two are the same."""
    if classes and (repeated := next((name for name, count in Counter(classes).items() if count > 1), None)):
        yield f"two classes are called {repeated!r}; give each another name"
    if classes and len(classes) != outputs:
        yield f"{len(classes)} class names do not fit {outputs} outputs; give one for each output"


class Task(Shapes):
    """A learning task on one dataset, with the shapes of the networks for this task."""

    title: Text
    family: Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9.-]{0,79}|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$")]
    """A key of TASKS, or `package.module:Class` for your own subclass of zoo.data.base.TaskData."""
    outputs: Vocabulary
    dataset: Key
    layout: Key  # variant of the family, such as `rows` of mnist; each family has its own variants
    input_description: Text | None = None  # content of an input; None for text, which the tokenizer prepares
    caveat: Text | None = None  # a limit of every figure on this task, beside that of its dataset
    classes: Seq[Text] = ()  # names of the classes, or of binary outputs, in the order of the outputs; empty if unknown
    target: Target = "class"  # zoo.registry.metrics.TARGETS has the loss and the metric of each kind of target
    horizons: Seq[Count] = ()  # for target `forecast`: how many steps after its window each output comes
    persistence: Seq[Positive] = ()
    """For target `forecast`: the test error of repeating the last value, at each horizon."""
    guess: Positive | None = None
    """For target value, token or binary, if known: the test metric of the constant answer that is best on the training data."""
    pipeline_tag: Literal[
        "audio-classification",
        "image-classification",
        "other",
        "question-answering",
        "text-classification",
        "text-generation",
    ]
    """The Hub's name for this kind of task."""

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        if {len(self.horizons), len(self.persistence)} != {self.outputs if self.target == "forecast" else 0}:
            yield "target 'forecast' needs 'horizons' and 'persistence', one for each output, and no other target has any"
        if self.guess is not None and self.target not in ("value", "token", "binary"):
            yield "only a task with target 'value', 'token' or 'binary' can have 'guess'"
        if self.classes and self.target in ("value", "forecast"):
            yield "only a task with target 'class' or 'binary' can have 'classes'"
        if self.target == "binary" and self.readout != "every":
            yield "target 'binary' needs readout 'every'"
        yield from wrong_count(self.classes, self.outputs)

    @property
    def absent(self) -> bool:
        """True if the data may not be redistributed. Only reported figures are known for such a task."""
        return self.family == "absent"

    @property
    def chance(self) -> float | None:
        """The metric of an answer that does not depend on the input; None if it is unknown.

        Of classes: of guessing, with all equally likely, and of tokens and binary outputs if `guess` is unknown.
        """
        if self.guess is not None:
            return self.guess
        match self.target:
            case "class":
                return 1 / self.outputs
            case "token":
                return math.log(self.outputs)
            case "binary":
                return self.outputs * math.log(2)
        return None

    @property
    def output_text(self) -> str:
        """Readout and outputs in words."""
        kinds = {"class": "classes", "token": "tokens", "binary": "probabilities"}
        kind = kinds.get(self.target, "values")
        outputs = "1 value" if self.outputs == 1 and kind == "values" else f"{self.outputs:,} {kind}"
        if self.horizons:
            outputs += f", {ahead_text(*self.horizons)}"
        return outputs if self.readout == "none" else f"{self.readout}, {outputs}"
