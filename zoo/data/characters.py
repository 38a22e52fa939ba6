"""One long text, read character by character: predict the next character from all that came before it.

The text is cut into windows. Each goes on where the one before it ends, so a network that carries its state reads the whole
text. The test split is the end of the text, as for nanoGPT, whose figure for Tiny Shakespeare is of the last tenth; the
validation split is taken from the end of what remains, since the epoch that is kept must not be chosen on the test split.
"""

from functools import cached_property

import torch
from torch import Tensor

from ..checkpoints.tokenizer import RESERVED, CharacterTokenizer, StreamTokenizer
from ..errors import DataError
from ..networks.network import Network
from .base import IGNORED, Split, SplitName, TaskData
from .originals import read_verified


class Characters(TaskData):
    """Layout `tenth`: the last tenth of the text is the test split. `dataset.validation` is a number of characters."""

    layouts = ("tenth",)

    @cached_property
    def text(self) -> str:
        """The whole text."""
        (name,) = self.dataset.files
        return read_verified(self.dataset, name).decode()

    @cached_property
    def tokenizer(self) -> StreamTokenizer:
        """The tokenizer of all characters of the text, in the order of their code points."""
        tokenizer = CharacterTokenizer([*RESERVED, *sorted(set(self.text))], self.task.steps)
        if len(tokenizer) != self.task.vocabulary:
            raise DataError(f"{self.dataset.title} has {len(tokenizer)} tokens, not {self.task.vocabulary}.")
        return tokenizer

    def part(self, name: SplitName) -> str:
        """Return the text of a split."""
        test = int(0.9 * len(self.text))
        validation = test - (self.dataset.validation or 0)
        return self.text[
            slice(*{"train": (0, validation), "validation": (validation, test), "test": (test, None)}[name])
        ]

    def read(self, name: SplitName) -> Split:
        return windows(self.tokenizer.encode(self.part(name)), self.task.steps, dict(self.dataset.sha256))

    def prepare_network(self, network: Network) -> None:
        """Give the network its tokenizer."""
        network.tokenizer = self.tokenizer


def windows(
    tokens: Tensor,  # (time,), int16
    steps: int,
    digests: dict[str, str],
) -> Split:
    """Return a text as a stream of windows of `steps` tokens, each with the token after it as target."""
    targets = len(tokens) - 1
    count = -(-targets // steps)
    x, y = torch.zeros(count * steps, dtype=torch.int16), torch.full((count * steps,), IGNORED)
    x[:targets], y[:targets] = tokens[:-1], tokens[1:]
    return Split(x.view(-1, steps), y.view(-1, steps), digests, Tensor.long, stream=True)
