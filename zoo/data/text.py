"""Sentences to classes: the authors of horror stories, and toxic comments, as in Chen 2022 (chapter 4, A.2.1).

Each text becomes its most frequent words of the training split; see zoo.checkpoints.tokenizer. None of it comes with a split of its own.
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
from ..checkpoints.tokenizer import PADDING, RESERVED, Tokenizer, split_words
from ..errors import DataError
from ..networks.network import Network
from ..registry.schema import Dataset, Task
from .base import Split, SplitName, TaskData, read_verified, refuse_layout, split_by_hash


class Example(NamedTuple):
    """The words of a text, its class, and where it comes from."""

    words: list[str]
    label: int
    source: str = ""


class Text(TaskData):
    """Texts of any length; subclasses say where they come from and which of them a layout has."""

    layouts: tuple[str, ...]

    def __init__(self, task: Task, dataset: Dataset):
        super().__init__(task, dataset)
        refuse_layout(task, dataset, *self.layouts)

    @abstractmethod
    def examples(self) -> list[Example]:
        """All texts, no two of the same words."""

    def chosen(self, examples: list[Example]) -> list[Example]:
        """Those of a split that the layout has."""
        return examples

    def altered(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Tokens, (n, time), as the layout has them."""
        return tokens

    @cached_property
    def _splits(self) -> dict[SplitName, list[Example]]:
        examples = self.examples()
        parts = split_by_hash([" ".join(e.words) for e in examples], self.dataset)
        return {name: self.chosen([examples[i] for i in indices]) for name, indices in parts.items()}

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Tokens are the most frequent words of the training split."""
        found = Tokenizer.learn((e.words for e in self._splits["train"]), self.task.vocabulary or 0, self.task.steps)
        missing = (self.task.vocabulary or 0) - len(found)  # in small data, tokens that never occur
        return Tokenizer([*found.words, *(f"<{n}>" for n in range(missing))], self.task.steps)

    def read(self, name: SplitName) -> Split:
        examples = self._splits[name]
        tokens, lengths = self.tokenizer.batch([e.words for e in examples])
        tokens = self.altered(tokens, lengths).short()
        labels = torch.tensor([e.label for e in examples])
        return Split(tokens, labels, dict(self.dataset.sha256), trimmed, lengths)

    def attach_tokenizer(self, network: Network) -> None:
        """Give the network its words, and its embedding their pretrained vectors.

        Words without a vector keep a random one, of the same standard deviation.
        """
        network.tokenizer = self.tokenizer
        spec = network.config.architecture.embedding
        if spec is None or spec.pretrained is None or network.embedding is None:
            return
        known = vectors(registry.load_registry().datasets[spec.pretrained], self.tokenizer.tokens.keys(), spec.size)
        found = torch.stack(list(known.values())).to(network.device)
        with torch.no_grad():
            network.embedding.weight *= found.std()
            network.embedding.weight[[self.tokenizer.tokens[word] for word in known]] = found


def trimmed(raw: Tensor) -> Tensor:
    """(batch, time) tokens, without the time steps that are padding in all of them."""
    return raw[:, : int((raw != PADDING).sum(1).max())].long()


def vectors(dataset: Dataset, words: Iterable[str], size: int) -> dict[str, Tensor]:
    """Vectors, (size,), of those of the words that a file in GloVe's format has: a word and numbers a line."""
    (name,) = dataset.files
    wanted = set(words) - set(RESERVED)
    lines = (line.split(" ") for line in read_verified(dataset, name).decode().splitlines())
    found = {line[0]: torch.tensor([float(n) for n in line[1:]]) for line in lines if line[0] in wanted}
    if not found or any(len(vector) != size for vector in found.values()):
        raise DataError(f"{dataset.title}: no vectors of {size} numbers for these words.")
    return found


def rows(dataset: Dataset, name: str) -> list[dict[str, str]]:
    """The rows of a CSV file with a header."""
    return list(csv.DictReader(io.StringIO(read_verified(dataset, name).decode(), newline="")))


class Spooky(Text):
    """Kaggle's Spooky Author Identification: train.csv with id, text, author. Layout `sentences`."""

    layouts = ("sentences",)

    def examples(self) -> list[Example]:
        found = [
            Example(split_words(row["text"]), self.task.classes.index(row["author"]))
            for row in rows(self.dataset, "train.csv")
        ]
        return _distinct(found)


class Layout(NamedTuple):
    """Which comments: those of so many words; and how many of the words read, the last ones, are replaced by a neutral one."""

    least: int = 1
    most: int | None = None
    share: float = 0.0
    words: int = 0


class Jigsaw(Text):
    """Parts of Kaggle's Toxic Comment Classification, with the classes not toxic and toxic.

    The parts were cleaned in different ways and have different shares of toxic comments, so that a network might tell
    the parts apart instead of the comments: of every part as many toxic as other comments are taken, and only letters
    are read.
    """

    table = {
        "balanced": Layout(),
        "balanced-short": Layout(most=9),  # 4.2.1, and long ones beside it
        "balanced-long": Layout(least=91),
        "balanced-long-late": Layout(least=91, words=20),
        "balanced-long-diluted": Layout(least=91, share=0.3),  # 4.4.1, which says nothing of a length
    }
    layouts = tuple(table)

    def examples(self) -> list[Example]:
        parts = ((name, row) for name in sorted(self.dataset.files) for row in rows(self.dataset, name))
        return _distinct([Example(split_words(row["comment_text"]), int(row["toxic"]), name) for name, row in parts])

    def chosen(self, examples: list[Example]) -> list[Example]:
        layout = self.table[self.task.layout]
        examples = [e for e in examples if layout.least <= len(e.words) <= (layout.most or len(e.words))]
        left = Counter((e.source, e.label) for e in examples)
        quota = {source: min(left[source, 0], left[source, 1]) for source, _ in left}
        taken: dict[tuple[str, int], int] = defaultdict(int)
        kept = []
        for e in examples:
            taken[e.source, e.label] += 1
            if taken[e.source, e.label] <= quota[e.source]:
                kept.append(e)
        return kept

    def altered(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        layout = self.table[self.task.layout]
        at, end = torch.arange(tokens.shape[1]), lengths[:, None]
        last = (at >= end - layout.words - (layout.share * end).long()) & (at < end)
        return torch.where(last, self.tokenizer.neutral_token, tokens)


def _distinct(examples: list[Example]) -> list[Example]:
    """The first of those with the same words, without those that have none."""
    return list({" ".join(e.words): e for e in reversed(examples) if e.words}.values())
