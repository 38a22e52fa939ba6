"""The bAbI tasks (Weston et al. 2015), 1,000 questions each in English: a story, a question, a word that answers it.

Every task has a file for training and one for the test. Lines are numbered from 1 in every story; a question's line ends in
tabs, its answer, and the lines that support it. A story is all statements before the question, whatever was asked between.
"""

from functools import cached_property
from typing import NamedTuple

import torch

from ..checkpoints.tokenizer import RESERVED, Tokenizer, split_words
from ..errors import DataError
from ..networks.network import Network
from ..registry.schema import Dataset, Task
from .base import Split, SplitName, TaskData, read_verified, refuse_layout
from .text import trimmed


class Question(NamedTuple):
    """The words of a story and of a question, the answer, and which story of its file it is."""

    story: list[str]
    question: list[str]
    answer: str
    number: int


class Babi(TaskData):
    """Layouts are the files' names, such as `qa1-single-supporting-fact`.

    A class is the token of its answer, and several answers, as in `milk,football`, are one. The last stories of the training
    file, as many as have the dataset's number of questions for validation, are the validation split. Tokens are the
    words and the answers of both files, sorted.
    """

    def __init__(self, task: Task, dataset: Dataset):
        super().__init__(task, dataset)
        known = sorted({name.removeprefix("en/").rpartition("_")[0].replace("_", "-") for name in dataset.sha256})
        refuse_layout(task, dataset, *known)

    def _file(self, part: str) -> str:
        return f"en/{self.task.layout.replace('-', '_', 1)}_{part}.txt"

    @cached_property
    def _questions(self) -> dict[str, list[Question]]:
        files = {part: self._file(part) for part in ("train", "test")}
        return {part: questions(read_verified(self.dataset, name).decode(), name) for part, name in files.items()}

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Of the words and the answers."""
        every = [q for part in self._questions.values() for q in part]
        words = sorted({word for q in every for word in (*q.story, *q.question, q.answer)})
        if len(words) + len(RESERVED) != self.task.vocabulary:
            raise DataError(
                f"{self.task.title} has {len(words) + len(RESERVED)} tokens, not the {self.task.vocabulary} of the registry."
            )
        return Tokenizer([*RESERVED, *words], self.task.steps)

    def read(self, name: SplitName) -> Split:
        file = "test" if name == "test" else "train"
        found = self._questions[file]
        if name != "test":
            held = self.dataset.validation or 0
            first = found[-held].number if held else len(found) + 1  # the first story that is kept for validation
            found = [q for q in found if (q.number < first) == (name == "train")]
        tokens, lengths = self.tokenizer.batch_pairs([(q.story, q.question) for q in found])
        answers = torch.tensor([self.tokenizer.tokens[q.answer] for q in found])
        digests = {self._file(file): self.dataset.sha256[self._file(file)]}
        return Split(tokens.short(), answers, digests, trimmed, lengths)

    def attach_tokenizer(self, network: Network) -> None:
        """Give the network its words."""
        network.tokenizer = self.tokenizer


def questions(text: str, name: str) -> list[Question]:
    """The questions of a file's content. Raises DataError, naming the file, where it is laid out otherwise."""
    found: list[Question] = []
    story: list[str] = []
    number = 0
    for at, line in enumerate(text.splitlines(), 1):
        index, _, rest = line.strip().partition(" ")
        if index == "1":
            story, number = [], number + 1
        said, *asked = rest.split("\t")
        if not index.isdigit() or not number or len(asked) not in (0, 2) or not split_words(said):
            raise DataError(f"{name}, line {at}: not a statement or a question of the bAbI tasks.")
        if asked:
            found.append(Question(list(story), split_words(said), asked[0], number))
        else:
            story += split_words(said)
    return found
