"""WikiText-2 (Merity et al. 2016), read word by word or byte by byte: predict what comes next.

The validation and test files are the official ones. The training file is an altered copy, so figures here are not strictly
comparable with those of papers.
"""

from functools import cached_property

from ..checkpoints.tokenizer import ByteTokenizer, StreamTokenizer, WordTokenizer
from ..errors import DataError
from .base import Split, SplitName, TaskData
from .characters import windows
from .originals import named_files, read_verified


class WikiText(TaskData):
    """Layouts: `words` (separated by spaces; the end of a line is a word too) and `bytes`.

    The vocabulary of `words` is the `task.vocabulary` most frequent words of the training text; ties are broken by
    alphabetical order. Any other word is read as <unk>, as WikiText itself writes its rare words. The vocabulary of `bytes`
    is all 256. `dataset.files` are the training, the validation and the test file, in this order.
    """

    layouts = ("words", "bytes")

    def _text(self, name: SplitName) -> str:
        """Return the text of a split. Raises DataError if the file is missing or is not UTF-8."""
        file = dict(zip(("train", "validation", "test"), named_files(self.dataset, 3), strict=True))[name]
        try:
            return read_verified(self.dataset, file).decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{self.dataset.title}: {file} is not text in UTF-8. Use the original file.") from error

    @cached_property
    def tokenizer(self) -> StreamTokenizer:
        """The tokenizer of the layout."""
        if self.task.layout == "bytes":
            return self.fitting(ByteTokenizer.every_byte())
        words, size = WordTokenizer.split(self._text("train")), self.task.vocabulary or 0
        return self.fitting(WordTokenizer.learn([words], size, self.task.steps))

    def read(self, name: SplitName) -> Split:
        return windows(self.tokenizer.encode(self._text(name)), self.task.steps, dict(self.dataset.sha256))
