"""WikiText-2 (Merity et al. 2016), read word by word or byte by byte: predict what comes next.

The validation and test files are the official ones; the training file is an altered copy, so figures here stand beside those of
papers only as a stand-in's.
"""

from functools import cached_property

from ..checkpoints.tokenizer import ByteTokenizer, StreamTokenizer, WordTokenizer
from ..errors import DataError
from ..networks.network import Network
from .base import Split, SplitName, TaskData
from .characters import windows
from .originals import read_verified


class WikiText(TaskData):
    """Layouts: `words` (between spaces; the end of a line is one) and `bytes`. `dataset.files` are training, validation, test.

    The vocabulary of `words` is the most frequent words of the training text, as many as the task has tokens; ties are in
    alphabetical order. Any other word is read as <unk>, as WikiText itself writes its rare words. That of `bytes` is all 256.
    """

    layouts = ("words", "bytes")

    def _text(self, name: SplitName) -> str:
        """Return the text of a split. Raises DataError."""
        file = dict(zip(("train", "validation", "test"), self.dataset.files, strict=True))[name]
        try:
            return read_verified(self.dataset, file).decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{self.dataset.title}: {file} is not text in UTF-8.") from error

    @cached_property
    def tokenizer(self) -> StreamTokenizer:
        """The tokenizer of the layout."""
        size = self.task.vocabulary or 0
        if self.task.layout == "bytes":
            tokenizer: StreamTokenizer = ByteTokenizer.every_byte()
        else:
            learned = WordTokenizer.learn([WordTokenizer.split(self._text("train"))], size, self.task.steps)
            tokenizer = WordTokenizer(learned.words, self.task.steps)
        if len(tokenizer) != size:
            raise DataError(f"{self.dataset.title} has {len(tokenizer)} tokens, not {size}.")
        return tokenizer

    def read(self, name: SplitName) -> Split:
        return windows(self.tokenizer.encode(self._text(name)), self.task.steps, dict(self.dataset.sha256))

    def prepare_network(self, network: Network) -> None:
        """Give the network its tokenizer."""
        network.tokenizer = self.tokenizer
