"""Text classification: the authors of horror stories, and toxic comments, as in Chen 2022 (chapter 4, A.2.1).

Tokens are the most frequent words of the training split; see zoo.checkpoints.tokenizer. The datasets come without splits,
so split_by_hash makes them.
"""

import csv
import io
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from .. import registry
from ..checkpoints.tokenizer import RESERVED, Tokenizer, split_words
from ..errors import DataError
from ..networks.network import Network
from ..registry.schema import Dataset
from .base import Split, SplitName, TaskData, split_by_hash
from .originals import named_files, read_verified


class Example(NamedTuple):
    """The words of a text, its class, and the file it comes from."""

    words: list[str]
    label: int
    source: str = ""


class Text(TaskData):
    """Classification of texts. A subclass reads all texts (`examples`) and selects those of the task's layout (`select`)."""

    @abstractmethod
    def examples(self) -> list[Example]:
        """Return all texts; no two have the same words."""

    def select(self, examples: list[Example]) -> list[Example]:
        """Return the examples that belong to the layout. examples: all examples of one split."""
        return examples

    def masked(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return `tokens`, (n, time), with those that the layout masks replaced by the tokenizer's `neutral_token`.

        lengths: (n,).
        """
        return tokens

    @cached_property
    def _splits(self) -> dict[SplitName, list[Example]]:
        examples = self.examples()
        parts = split_by_hash([" ".join(e.words) for e in examples], self.dataset)
        return {name: self.select([examples[i] for i in indices]) for name, indices in parts.items()}

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer for the most frequent words in the training split."""
        learned = Tokenizer.learn((e.words for e in self._splits["train"]), self.task.vocabulary or 0, self.task.steps)
        missing = (self.task.vocabulary or 0) - len(learned)  # small data have fewer words than tokens
        return Tokenizer([*learned.words, *(f"<{n}>" for n in range(missing))], self.task.steps)

    def read(self, name: SplitName) -> Split:
        examples = self._splits[name]
        self.require_examples(examples, name)
        tokens, lengths = self.tokenizer.batch([e.words for e in examples])
        tokens = self.masked(tokens, lengths).short()
        labels = torch.tensor([e.label for e in examples])
        return Split(tokens, labels, dict(self.dataset.sha256), Tensor.long, lengths)

    def prepare_network(self, network: Network) -> None:
        """Set the network's tokenizer, and the rows of its embedding that have a pretrained vector.

        A word without a pretrained vector keeps its random vector, scaled to the standard deviation of the pretrained vectors.
        """
        super().prepare_network(network)
        spec = network.config.architecture.embedding
        if spec is None or spec.pretrained is None or network.embedding is None:
            return
        known = vectors(registry.load_registry().datasets[spec.pretrained], self.tokenizer.tokens.keys(), spec.size)
        pretrained = torch.stack(list(known.values())).to(network.device)
        with torch.no_grad():
            network.embedding.weight *= pretrained.std()
            network.embedding.weight[[self.tokenizer.tokens[word] for word in known]] = pretrained


def vectors(dataset: Dataset, words: Iterable[str], size: int) -> dict[str, Tensor]:
    """Return {word: vector}, vectors (size,), for those of `words` that the dataset contains.

    The dataset is in GloVe's format: each line holds a word and its numbers. Raises DataError if the dataset contains none
    of the words, or if a vector has another size.
    """
    (name,) = named_files(dataset, 1)
    wanted = set(words) - set(RESERVED)
    lines = (line.split(" ") for line in read_verified(dataset, name).decode().splitlines())
    known = {line[0]: torch.tensor([float(n) for n in line[1:]]) for line in lines if line[0] in wanted}
    if not known or any(len(vector) != size for vector in known.values()):
        raise DataError(
            f"{dataset.title}: {name} has no vectors of {size} numbers for the words of the vocabulary. Use the original "
            "file, or correct the embedding's `size` in registry.yaml."
        )
    return known


def _rows(dataset: Dataset, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(read_verified(dataset, name).decode("utf-8-sig"), newline="")))


class Spooky(Text):
    """Kaggle's Spooky Author Identification: train.csv with id, text, author. Layout `sentences`."""

    layouts = ("sentences",)

    def examples(self) -> list[Example]:
        authors = self.task.classes
        sentences = _rows(self.dataset, "train.csv")
        return _distinct([Example(split_words(row["text"]), authors.index(row["author"])) for row in sentences])


class Layout(NamedTuple):
    """Which of Jigsaw's comments a task uses, by their number of words, and how many of their last words are masked.

    A masked word becomes the tokenizer's `neutral_token`.
    """

    min_words: int = 1
    max_words: int | None = None
    masked_share: float = 0.0
    """Share of a comment's words, at its end, that is masked in addition to `masked_words`."""
    masked_words: int = 0


class Jigsaw(Text):
    """Kaggle's Toxic Comment Classification, in several files. Classes: not toxic, toxic. Layouts: the keys of `by_layout`.

    The files were cleaned in different ways and have different shares of toxic comments, so a network could learn which file
    a comment comes from. To prevent that, each file contributes as many toxic as other comments, and only letters are read.
    """

    by_layout = {
        "balanced": Layout(),
        "balanced-short": Layout(max_words=9),  # section 4.2.1, which also has long ones
        "balanced-long": Layout(min_words=91),
        "balanced-long-late": Layout(min_words=91, masked_words=20),
        "balanced-long-diluted": Layout(min_words=91, masked_share=0.3),  # section 4.4.1, which gives no length
    }
    layouts = by_layout

    def examples(self) -> list[Example]:
        parts = ((name, row) for name in sorted(self.dataset.files) for row in _rows(self.dataset, name))
        return _distinct([Example(split_words(row["comment_text"]), int(row["toxic"]), name) for name, row in parts])

    def select(self, examples: list[Example]) -> list[Example]:
        layout = self.by_layout[self.task.layout]
        examples = [e for e in examples if layout.min_words <= len(e.words) <= (layout.max_words or len(e.words))]
        available = Counter((e.source, e.label) for e in examples)
        quota = {source: min(available[source, 0], available[source, 1]) for source, _ in available}
        taken: dict[tuple[str, int], int] = defaultdict(int)
        kept = []
        for e in examples:
            taken[e.source, e.label] += 1
            if taken[e.source, e.label] <= quota[e.source]:
                kept.append(e)
        return kept

    def masked(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        layout = self.by_layout[self.task.layout]
        step, end = torch.arange(tokens.shape[1]), lengths[:, None]
        start = end - layout.masked_words - (layout.masked_share * end).long()
        return torch.where((step >= start) & (step < end), self.tokenizer.neutral_token, tokens)


def _distinct(examples: list[Example]) -> list[Example]:
    """Return the examples without those that have no words, or the same words as an earlier example."""
    return list({" ".join(e.words): e for e in reversed(examples) if e.words}.values())
