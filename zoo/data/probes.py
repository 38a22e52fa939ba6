"""Generated tasks that probe memory: copying, selective copying, parity and recall.

The inputs are one-hot symbols. numpy's RandomState, whose stream is frozen, generates the same examples on every machine;
cards/lock.json has their digests.
"""

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from ..errors import DataError
from .base import IGNORED, SEEDS, Split, SplitName, TaskData
from .originals import verify_generated

WORD = 10
"""Number of symbols to copy."""
BLANK, GO = 0, 1
"""Symbols of the copying tasks that are not copied: a blank, and the sign after which the network copies."""
SHORT = 40
"""Greatest length of a sequence of bits in training; all sequences of the test are longer."""
LETTERS = 26
"""Number of keys in a recall. Symbols are numbered: first the keys, then the ten digits, then the question mark."""

Symbols = NDArray[numpy.uint8]


class Probes(TaskData):
    """Layouts `copying`, `selective-copying`, `parity` and `recall`. The best accuracy and that of guessing are known.

    `copying`: ten symbols, blanks, the symbol GO, and ten steps in which the network repeats the ten symbols in order
    (Hochreiter & Schmidhuber 1997; lengths as in Arjovsky et al. 2016, section 5.1, who also count the blank answers).
    `selective-copying`: the ten symbols stand anywhere before GO (Gu & Dao 2023, section 4.1.1).
    `parity`: whether the number of ones is odd; test sequences are longer than training sequences (as Deletang et al. 2023).
    `recall`: pairs of a letter and a digit, then one of the letters, whose digit is the target (Ba et al. 2016, section 4.1).
    """

    layouts = ("copying", "selective-copying", "parity", "recall")

    def read(self, name: SplitName) -> Split:
        n, steps = getattr(self.dataset, name), self.task.steps
        if self.task.layout.endswith("copying") and steps < 2 * WORD + 1:
            raise DataError(
                f"{self.task.title} needs `steps` of at least {2 * WORD + 1}: {WORD} symbols, GO, and the answers."
            )
        kind = self.layouts.index(self.task.layout)
        random = numpy.random.RandomState(SEEDS[name] + 10 * steps + 10**6 * kind)
        lengths: Tensor | None = None
        match self.task.layout:
            case "parity":
                raw, counts, targets = _parity(random, n, steps, name == "test")
                lengths = torch.from_numpy(counts)
            case "recall":
                raw, targets = _recall(random, n, (steps - 3) // 2)
            case layout:
                raw, targets = _copying(random, n, steps, anywhere=layout == "selective-copying")
        digests = verify_generated(self.dataset, f"{self.task.layout}-{steps}-{name}", raw)
        return Split(torch.from_numpy(raw), torch.from_numpy(targets), digests, self._prepare, lengths)

    def _prepare(self, raw: Tensor) -> Tensor:
        """Turn symbols, (batch, time), into one-hot vectors, (batch, time, symbols)."""
        return F.one_hot(raw.long(), self.task.input[0]).float()


def _copying(
    random: numpy.random.RandomState, n: int, steps: int, anywhere: bool
) -> tuple[Symbols, NDArray[numpy.int64]]:
    """Return (symbols, targets) of n sequences, each (n, steps). Targets are IGNORED except at the last WORD steps.

    anywhere: True for `selective-copying`.
    """
    before = steps - WORD - 1
    word = (random.random_sample((n, WORD)) * 8).astype("u1")
    places = random.random_sample((n, before)).argsort(1, "stable")[:, :WORD] if anywhere else numpy.arange(WORD)[None]
    raw = numpy.full((n, steps), BLANK, "u1")
    numpy.put_along_axis(raw, numpy.broadcast_to(numpy.sort(places, 1), word.shape), word + 2, 1)
    raw[:, before] = GO
    targets = numpy.full((n, steps), IGNORED)
    targets[:, -WORD:] = word
    return raw, targets


def _parity(
    random: numpy.random.RandomState, n: int, steps: int, long: bool
) -> tuple[Symbols, NDArray[numpy.int64], NDArray[numpy.int64]]:
    """Return (bits, lengths, targets) of n sequences: (n, steps), (n,) and (n,). A target is 1 for an odd number of ones.

    Bits beyond the length are 0. long: True for sequences longer than SHORT, as in the test split.
    """
    least, most = (SHORT + 1, steps) if long else (1, SHORT)
    lengths = least + (random.random_sample(n) * (most - least + 1)).astype("i8")
    bits = (random.random_sample((n, steps)) * 2).astype("u1") * (numpy.arange(steps) < lengths[:, None])
    return bits, lengths, bits.sum(1, dtype="i8") % 2


def _recall(random: numpy.random.RandomState, n: int, pairs: int) -> tuple[Symbols, NDArray[numpy.int64]]:
    """Return (symbols, targets) of n sequences: (n, 2 * pairs + 3), and the digits to answer, (n,).

    A sequence has `pairs` pairs of a letter and a digit, two question marks, and the letter whose digit is the target.
    """
    letters = random.random_sample((n, LETTERS)).argsort(1, "stable")[:, :pairs]
    digits = (random.random_sample((n, pairs)) * 10).astype("i8")
    asked = (random.random_sample((n, 1)) * pairs).astype("i8")
    question = numpy.full((n, 2), LETTERS + 10)
    known = numpy.stack([letters, LETTERS + digits], 2).reshape(n, -1)
    raw = numpy.concatenate([known, question, numpy.take_along_axis(letters, asked, 1)], 1).astype("u1")
    return raw, numpy.take_along_axis(digits, asked, 1)[:, 0]
