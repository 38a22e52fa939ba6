"""One long text, read character by character: predict the next character from all that came before it.

The text is cut into windows. Each continues the one before it, so a network that carries its state reads the whole text.
The test split is the last tenth of the text, on which nanoGPT reports its figure for Tiny Shakespeare. The validation split
is the beginning of the text, so that the best epoch is not chosen on the test split. The training split goes on up to the test
split, as nanoGPT's does: the play with which the test split begins (The Taming of the Shrew) starts before it, and a network
that never read its beginning does not know its names.
"""

from functools import cached_property

import torch
from torch import Tensor

from ..checkpoints.tokenizer import RESERVED, CharacterTokenizer, StreamTokenizer
from .base import IGNORED, Split, SplitName, TaskData
from .originals import named_files, read_verified


class Characters(TaskData):
    """Layout `tenth`: the test split is the last tenth of the text, and the first `dataset.validation` characters are the
    validation split."""

    layouts = ("tenth",)

    @cached_property
    def text(self) -> str:
        """The whole text."""
        (name,) = named_files(self.dataset, 1)
        return read_verified(self.dataset, name).decode()

    @cached_property
    def tokenizer(self) -> StreamTokenizer:
        """The tokenizer of all characters of the text, in the order of their code points."""
        return self.fitting(CharacterTokenizer([*RESERVED, *sorted(set(self.text))], self.task.steps))

    def part(self, name: SplitName) -> str:
        """Return the text of a split."""
        begin, end = self.dataset.validation or 0, int(0.9 * len(self.text))  # of the training split
        return self.text[slice(*{"validation": (0, begin), "train": (begin, end), "test": (end, None)}[name])]

    def read(self, name: SplitName) -> Split:
        return windows(self.tokenizer.encode(self.part(name)), self.task.steps, dict(self.dataset.sha256))


def windows(
    tokens: Tensor,  # (time,), integers
    steps: int,
    digests: dict[str, str],
) -> Split:
    """Return a stream of windows of a text: x and y are (n, steps), and the target of each token is the next token."""
    targets = len(tokens) - 1
    count = -(-targets // steps)
    x, y = torch.zeros(count * steps, dtype=tokens.dtype), torch.full((count * steps,), IGNORED)
    x[:targets], y[:targets] = tokens[:-1], tokens[1:]
    return Split(x.view(-1, steps), y.view(-1, steps), digests, Tensor.long, stream=True)
