"""Turns text into tokens and back. A checkpoint's vocabulary is in vocabulary.txt: line n, counted from 0, is token n.

Tokens are words or, for a network that reads one long text, its characters, bytes or words.
"""

import codecs
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from ..errors import CheckpointError, RequestError, shown
from ..utils import files
from ..utils.arguments import texts_of
from . import configs

FILE = configs.VOCABULARY
PADDING, UNKNOWN = 0, 1
"""Reserved tokens. The embedding of padding is zero and gets no gradient."""
RESERVED = ("<padding>", "<unknown>")
"""The first two words of every vocabulary, which stand for padding and for words that it lacks."""
_UNESCAPED = {"<newline>": "\n"}  # in vocabulary.txt each token has a line
_ESCAPED = {word: line for line, word in _UNESCAPED.items()}
MAX_BYTES = configs.MAX_VOCABULARY_BYTES


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case: runs of letters, without apostrophes (don't becomes dont)."""
    return re.findall(r"[^\W\d_]+", re.sub("['’]", "", text.lower()))


class Tokenizer:
    """Turns texts into the input of a network: tokens, (batch, time), padded with 0, and lengths, (batch,).

    words: the word of each token; the first two are RESERVED. max_words: texts are cut off after this many words. Raises
    RequestError for a vocabulary without the reserved words or with a word twice.
    """

    separator = " "
    """The text between two words of a decoded text."""

    def __init__(self, words: Sequence[str], max_words: int):
        self.words, self.max_words = tuple(words), max_words
        self.tokens = {word: token for token, word in enumerate(self.words)}
        if self.words[:2] != RESERVED or len(self.tokens) != len(self.words):
            raise RequestError(
                f"A vocabulary must begin with {' and '.join(RESERVED)}, and must not have a word twice; got {len(self.words)} "
                f"words, {len(self.tokens)} of them different, that begin with {shown(self.words[:2])}."
            )

    @staticmethod
    def split(text: str) -> list[str]:
        """Return the words of a text."""
        return split_words(text)

    @classmethod
    def learn(cls, texts: Iterable[Sequence[str]], size: int, max_words: int) -> Self:
        """Return a tokenizer of at most `size` tokens for the most frequent words of `texts`; ties are in alphabetical order.

        texts: a list of words for each text.
        """
        counts = Counter(word for text in texts for word in text if word not in RESERVED)
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return cls([*RESERVED, *ranked[: max(0, size - len(RESERVED))]], max_words)

    @classmethod
    def read(cls, path: Path, size: int, max_words: int) -> Self:
        """Return the tokenizer of the vocabulary.txt at `path`.

        size: the number of words that the file must have. max_words: texts are cut off after this many words. Raises
        CheckpointError if the file cannot be read, is not a vocabulary, or has another number of words.
        """
        try:
            words = [
                _UNESCAPED.get(line, line) for line in files.read_regular(path, MAX_BYTES).decode().split("\n")[:-1]
            ]
            if len(words) != size:
                raise CheckpointError(
                    f"{path} has {len(words):,} words instead of {size:,}. Restore the original file. For a copy of a "
                    "published model: rnnzoo pull NAME --force --to FOLDER"
                )
            return cls(words, max_words)
        except OSError as error:
            raise CheckpointError(f"{path}: cannot be read ({error.strerror}).") from error
        except (UnicodeDecodeError, RequestError) as error:
            raise CheckpointError(f"{path}: not a vocabulary: {error}") from error

    @property
    def unknown_token(self) -> int:
        """The token of a word that the vocabulary lacks."""
        return UNKNOWN

    @property
    def neutral_token(self) -> int:
        """The token of "the", which replaces removed words (Chen 2022, 4.2.1 and 4.4.1)."""
        return self.tokens.get("the", UNKNOWN)

    def content(self) -> bytes:
        """Return the bytes of vocabulary.txt."""
        return "".join(f"{_ESCAPED.get(word, word)}\n" for word in self.words).encode()

    def __len__(self) -> int:
        return len(self.words)

    def __call__(self, texts: str | Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return tokens, (batch, time), and lengths, (batch,), of one text or several. Raises RequestError for anything else."""
        return self.batch([self.split(text) for text in texts_of("What a tokenizer reads", texts)])

    def batch(self, texts: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Return tokens, (batch, time), and lengths, (batch,), of texts that are lists of words.

        A text without words becomes one unknown word. Raises RequestError if there are no texts.
        """
        unknown = self.unknown_token
        rows = [[self.tokens.get(word, unknown) for word in text[: self.max_words]] or [unknown] for text in texts]
        if not rows:
            raise RequestError("There are no texts to tokenize. Give at least one.")
        lengths = torch.tensor([len(row) for row in rows])
        tokens = torch.full((len(rows), int(lengths.max())), PADDING)
        for row, out in zip(rows, tokens, strict=True):
            out[: len(row)] = torch.tensor(row)
        return tokens, lengths

    def ask(self, stories: str | Sequence[str], questions: str | Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return the input of a StoryReader for one story and its question, or several.

        The result is the tokens, (batch, time), of each story followed by its question, and the lengths, (batch, 2), of the
        story and of the question, in this order. Raises RequestError for different numbers of stories and questions, and the
        errors of `batch_pairs`.
        """
        stories, questions = texts_of("What a tokenizer reads", stories), texts_of("What a tokenizer reads", questions)
        if len(stories) != len(questions):
            raise RequestError(
                f"Every story needs one question: got {len(stories)} stories and {len(questions)} questions."
            )
        pairs = zip(stories, questions, strict=True)
        return self.batch_pairs([(split_words(story), split_words(question)) for story, question in pairs])

    def batch_pairs(self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> tuple[Tensor, Tensor]:
        """Return the same as `ask`, for pairs (story, question), both of them lists of words.

        If a pair is longer than `max_words`, the beginning of its story is cut off. Raises RequestError for a question that
        leaves no room for its story.
        """
        filled = [(list(story) or [""], list(question) or [""]) for story, question in pairs]  # "" is an unknown word
        longest = max((len(question) for _, question in filled), default=0)
        if longest >= self.max_words:
            raise RequestError(
                f"A question can have at most {self.max_words - 1} words; got one of {longest}. Shorten it."
            )
        parts = [(story[len(question) - self.max_words :], question) for story, question in filled]
        tokens, _ = self.batch([[*story, *question] for story, question in parts])
        return tokens, torch.tensor([[len(story), len(question)] for story, question in parts])

    def decode(self, tokens: Tensor | Sequence[int]) -> str:
        """Return the words of tokens, (time,), joined by `separator`; padding is left out."""
        return self.separator.join(self.words[int(token)] for token in tokens if int(token) != PADDING)


class StreamTokenizer(Tokenizer):
    """A Tokenizer for a network that reads one long text. `max_words` is ignored: no text is cut off."""

    def __init__(self, words: Sequence[str], max_words: int):
        super().__init__(words, sys.maxsize)

    def encode(self, text: str) -> Tensor:
        """Return the tokens of a text, (time,), int16, or int32 if the vocabulary is larger than int16."""
        dtype = torch.int16 if len(self) <= torch.iinfo(torch.int16).max + 1 else torch.int32
        return torch.tensor([self.tokens.get(word, self.unknown_token) for word in self.split(text)], dtype=dtype)

    def unknown(self, text: str) -> list[str]:
        """Return the words, characters or bytes of a text that the vocabulary lacks, each once, in the order of the text."""
        known = self.tokens.keys() - set(RESERVED)
        return list(dict.fromkeys(word for word in self.split(text) if word not in known))

    def pieces(self, tokens: Iterable[int], after: str = "") -> Iterator[str]:
        """Yield the text of each token, in order, as the continuation of the text `after`."""
        return (self.words[token] for token in tokens)


class CharacterTokenizer(StreamTokenizer):
    """A StreamTokenizer whose words are single characters. Raises RequestError for a vocabulary with longer words."""

    separator = ""

    def __init__(self, words: Sequence[str], max_words: int):
        super().__init__(words, max_words)
        if longer := [word for word in self.words[len(RESERVED) :] if len(word) != 1]:
            raise RequestError(f"A vocabulary of characters must not have longer words; it has {shown(longer[0])}.")

    @staticmethod
    def split(text: str) -> list[str]:
        """Return the characters of a text."""
        return list(text)


class ByteTokenizer(CharacterTokenizer):
    """A StreamTokenizer of the 256 bytes of UTF-8; byte b is written as the character of code point b.

    Raises RequestError for a vocabulary with other characters.
    """

    def __init__(self, words: Sequence[str], max_words: int):
        super().__init__(words, max_words)
        if others := [word for word in self.words[len(RESERVED) :] if ord(word) > 255]:
            raise RequestError(
                f"A vocabulary of bytes must not have characters beyond U+00FF; it has {shown(others[0])}."
            )

    @classmethod
    def every_byte(cls) -> "ByteTokenizer":
        """Return a tokenizer whose vocabulary is all 256 bytes, in ascending order after RESERVED."""
        return cls([*RESERVED, *map(chr, range(256))], 0)

    @staticmethod
    def split(text: str) -> list[str]:
        """Return the UTF-8 bytes of a text, each byte b as the character of code point b.

        Raises RequestError for half of a surrogate pair, which has none.
        """
        try:
            return list(text.encode(errors="surrogateescape").decode("latin-1"))
        except UnicodeEncodeError as error:
            raise RequestError(
                f"The text has half a character (U+{ord(text[error.start]):X}) at {error.start}."
            ) from error

    def pieces(self, tokens: Iterable[int], after: str = "") -> Iterator[str]:
        """Yield for each byte the character that it completes, or ""; last, U+FFFD for a character that is incomplete.

        Bytes that are not UTF-8 become U+FFFD.
        """
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for token in tokens:
            yield decoder.decode(self.words[token].encode("latin-1"))
        if rest := decoder.decode(b"", final=True):
            yield rest

    def decode(self, tokens: Tensor | Sequence[int]) -> str:
        """Return the text of tokens, (time,), without padding."""
        return super().decode(tokens).encode("latin-1").decode(errors="replace")


class WordTokenizer(StreamTokenizer):
    """A StreamTokenizer of words between spaces, as WikiText has them; the end of a line is a word."""

    END, UNKNOWN_WORD = "<eos>", "<unk>"

    @classmethod
    def split(cls, text: str) -> list[str]:
        """Return the words between spaces of a text; the end of a line becomes the word END."""
        return text.replace("\n", f" {cls.END} ").split()

    @property
    def unknown_token(self) -> int:
        """The token of a word that the vocabulary lacks."""
        return self.tokens.get(self.UNKNOWN_WORD, UNKNOWN)

    def pieces(self, tokens: Iterable[int], after: str = "") -> Iterator[str]:
        """Yield for each token its word, behind a space unless it begins a line or the text; a line break for END."""
        begins = not after or after[-1].isspace()
        for token in tokens:
            word = self.words[token]
            yield "\n" if word == self.END else word if begins else f" {word}"
            begins = word == self.END


_CLASSES: dict[str, type[Tokenizer]] = {
    "characters": CharacterTokenizer,
    "bytes": ByteTokenizer,
    "words": WordTokenizer,
}


def tokenizer_class(form: str) -> type[Tokenizer]:
    """Return the class of the tokenizer for a task's `form` (see `form` of zoo.registry.schema.data.Shapes)."""
    return _CLASSES.get(form, Tokenizer)
