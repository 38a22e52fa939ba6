"""The bAbI tasks (Weston et al. 2015), 1,000 English questions each: a story, a question, and one word that answers it.

Each task has a training file and a test file. The lines of each story are numbered from 1. After a question, its line has a
tab, the answer, another tab, and the numbers of the supporting lines. The story of a question is all statements before it.
"""

from functools import cached_property
from typing import NamedTuple

import torch

from ..checkpoints.tokenizer import RESERVED, Tokenizer, split_words
from ..errors import DataError
from .base import Split, SplitName, TaskData
from .originals import read_verified

LAYOUTS = (
    "qa1-single-supporting-fact", "qa2-two-supporting-facts", "qa3-three-supporting-facts", "qa4-two-arg-relations",
    "qa5-three-arg-relations", "qa6-yes-no-questions", "qa7-counting", "qa8-lists-sets", "qa9-simple-negation",
    "qa10-indefinite-knowledge", "qa11-basic-coreference", "qa12-conjunction", "qa13-compound-coreference",
    "qa14-time-reasoning", "qa15-basic-deduction", "qa16-basic-induction", "qa17-positional-reasoning",
    "qa18-size-reasoning", "qa19-path-finding", "qa20-agents-motivations",
)  # fmt: skip
"""Names of the tasks' files without `_train.txt`, and with a hyphen in place of the underscore after the number."""


class Question(NamedTuple):
    """A question with its story, as lists of words, and its answer."""

    story: list[str]
    question: list[str]
    answer: str
    story_number: int
    """Number of the story in its file, from 1."""


class Babi(TaskData):
    """Layouts, one for each of the twenty tasks: LAYOUTS, such as `qa1-single-supporting-fact`.

    The target of a question is the token of its answer; several answers, such as `milk,football`, are one word. Tokens are
    the words and the answers of both files, sorted. The validation split is the stories with the last `dataset.validation`
    questions of the training file.
    """

    layouts = LAYOUTS

    def _file(self, part: str) -> str:
        return f"en/{self.task.layout.replace('-', '_', 1)}_{part}.txt"

    @cached_property
    def _questions(self) -> dict[str, list[Question]]:
        files = {part: self._file(part) for part in ("train", "test")}
        return {part: questions(read_verified(self.dataset, name).decode(), name) for part, name in files.items()}

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer for the words and the answers in both files.

        Raises DataError if a file is missing, or if the number of tokens is not the task's `vocabulary`.
        """
        both = [q for part in self._questions.values() for q in part]
        words = sorted({word for q in both for word in (*q.story, *q.question, q.answer)})
        return self.fitting(Tokenizer([*RESERVED, *words], self.task.steps))

    def read(self, name: SplitName) -> Split:
        file = "test" if name == "test" else "train"
        selected = self._questions[file]
        if name != "test":
            held_out = min(self.dataset.validation or 0, len(selected))
            first_held_out = selected[-held_out].story_number if held_out else len(selected) + 1
            selected = [q for q in selected if (q.story_number < first_held_out) == (name == "train")]
        self.require_examples(selected, name)
        tokens, lengths = self.tokenizer.batch_pairs([(q.story, q.question) for q in selected])
        answers = torch.tensor([self.tokenizer.tokens[q.answer] for q in selected])
        digests = {self._file(file): self.dataset.sha256[self._file(file)]}
        return Split(tokens.short(), answers, digests, torch.Tensor.long, lengths)


def questions(text: str, name: str) -> list[Question]:
    """Return the questions in `text`, the content of the file `name`.

    Raises DataError for a line that is neither a statement nor a question.
    """
    parsed: list[Question] = []
    story: list[str] = []
    story_number = 0
    for line_number, line in enumerate(text.splitlines(), 1):
        index, _, rest = line.strip().partition(" ")
        if index == "1":
            story, story_number = [], story_number + 1
        sentence, *answer = rest.split("\t")  # and the supporting lines, which nobody reads
        words = split_words(sentence)
        if not index.isdigit() or not story_number or len(answer) not in (0, 2) or not words:
            raise DataError(
                f"{name}, line {line_number}: the line is neither a statement nor a question of the bAbI tasks: "
                f"{line[:80]!r}. Use the original file."
            )
        if answer:
            parsed.append(Question(list(story), words, answer[0], story_number))
        else:
            story += words
    return parsed
