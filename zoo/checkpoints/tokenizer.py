"""Text to tokens and back. The words of a network travel with it, as vocabulary.txt: line n (from 0) is token n."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from ..errors import CheckpointError, RequestError
from . import configs

FILE = configs.VOCABULARY
PADDING, UNKNOWN = 0, 1
"""Tokens; the vector of padding is zero and gets no gradient."""
RESERVED = ("<padding>", "<unknown>")
MAX_BYTES = configs.MAX_VOCABULARY_BYTES


def split_words(text: str) -> list[str]:
    """The words of a text in lower case: runs of letters, apostrophes left out (don't is dont)."""
    return re.findall(r"[^\W\d_]+", re.sub("['’]", "", text.lower()))


class Tokenizer:
    """Turns texts into what a network takes: tokens, (batch, time) padded with 0, and lengths, (batch,).

    words: those of the tokens from 0 on, the first two reserved for padding and unknown words. maximum: how many words
    of a text are read; the rest is left out.
    """

    def __init__(self, words: Sequence[str], maximum: int):
        self.words, self.maximum = tuple(words), maximum
        self.tokens = {word: token for token, word in enumerate(self.words)}
        if self.words[:2] != RESERVED or len(self.tokens) != len(self.words):
            raise RequestError(f"A vocabulary begins with {' and '.join(RESERVED)} and has no word twice.")

    @classmethod
    def learn(cls, texts: Iterable[Sequence[str]], size: int, maximum: int) -> "Tokenizer":
        """The `size` - 2 most frequent words of texts that are lists of words, equally frequent ones by alphabet."""
        counts = Counter(word for text in texts for word in text)
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return cls([*RESERVED, *ranked[: size - len(RESERVED)]], maximum)

    @classmethod
    def read(cls, path: Path, size: int, maximum: int) -> "Tokenizer":
        """A vocabulary.txt, which must have `size` words. Raises CheckpointError."""
        try:
            if path.stat().st_size > MAX_BYTES:
                raise CheckpointError(f"{path}: larger than a vocabulary can be.")
            words = path.read_text(encoding="utf-8").split("\n")[:-1]
            if len(words) != size:
                raise CheckpointError(f"{path} has {len(words):,} words instead of {size:,}.")
            return cls(words, maximum)
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read ({error.strerror}).") from error
        except (UnicodeDecodeError, RequestError) as error:
            raise CheckpointError(f"{path}: not a vocabulary: {error}") from error

    @property
    def neutral(self) -> int:
        """The token of "the", which says nothing: what stands for words that are to be missing (Chen 2022, 4.2.1 and 4.4.1)."""
        return self.tokens.get("the", UNKNOWN)

    def content(self) -> bytes:
        """The bytes of vocabulary.txt."""
        return "".join(f"{word}\n" for word in self.words).encode()

    def __len__(self) -> int:
        return len(self.words)

    def __call__(self, texts: str | Sequence[str]) -> tuple[Tensor, Tensor]:
        """Tokens and lengths of one text or several, as a network takes them."""
        return self.batch([split_words(text) for text in ([texts] if isinstance(texts, str) else texts)])

    def batch(self, texts: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Tokens, padded to the longest text, and lengths of texts that are lists of words; a text without is unknown."""
        rows = [[self.tokens.get(word, UNKNOWN) for word in text[: self.maximum]] or [UNKNOWN] for text in texts]
        if not rows:
            raise RequestError("There are no texts to tokenize.")
        lengths = torch.tensor([len(row) for row in rows])
        tokens = torch.full((len(rows), int(lengths.max())), PADDING)
        for row, out in zip(rows, tokens, strict=True):
            out[: len(row)] = torch.tensor(row)
        return tokens, lengths

    def ask(self, stories: str | Sequence[str], questions: str | Sequence[str]) -> tuple[Tensor, Tensor]:
        """What a network that answers takes of one story and its question or several: tokens of each story and then of its
        question, and lengths, (batch, 2)."""
        told, asked = ([given] if isinstance(given, str) else list(given) for given in (stories, questions))
        if len(told) != len(asked):
            raise RequestError(f"Every story has a question: these are {len(told)} stories and {len(asked)} questions.")
        return self.joined(
            [(split_words(story), split_words(question)) for story, question in zip(told, asked, strict=True)]
        )

    def joined(self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> tuple[Tensor, Tensor]:
        """As `ask`, of stories and questions that are lists of words. Of what is too long, the story's beginning is left out.

        Raises RequestError for a question that leaves its story no room.
        """
        filled = [(list(story) or [""], list(question) or [""]) for story, question in pairs]
        if any(len(question) >= self.maximum for _, question in filled):
            raise RequestError(f"A question has at most {self.maximum - 1} words.")
        parts = [(story[len(question) - self.maximum :], question) for story, question in filled]
        tokens, _ = self.batch([[*story, *question] for story, question in parts])
        return tokens, torch.tensor([[len(story), len(question)] for story, question in parts])

    def decode(self, tokens: Tensor | Sequence[int]) -> str:
        """The words of tokens, (time,), padding left out."""
        return " ".join(self.words[int(token)] for token in tokens if int(token) != PADDING)
