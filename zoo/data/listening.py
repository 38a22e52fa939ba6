"""Listens to a recording as it arrives: a network of spoken digits reads it frame by frame and answers after each word."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import RequestError
from ..networks.network import Network
from ..networks.recurrent import RecurrentNetwork
from ..networks.stream import Stream
from .inputs import listens
from .speech import FFT, HOP, RATE, WINDOW, LogMel

QUIET, PAUSE = -53.0, 20
"""The level, in dB, below which a frame is quiet, and the quiet frames in a row that end a word, since stops are quiet, too.

`python -m benchmarks.listening` measures levels and pauses; these were chosen on the validation recordings.
"""
FULL_SCALE = FFT / 2 * WINDOW * 3 / 8 / 2
"""The energy of a sine of full scale in a frame: FFT / 2 times that of its windowed samples, by Parseval's theorem."""


@dataclass(frozen=True)
class Word:
    """A sound between two pauses, and what a network takes it for. All times are in seconds of the recording."""

    answer: str
    probability: float
    start: float
    end: float
    answered: float  # when so much of the recording had arrived that the network answered
    final: bool = True  # False for an early answer: the word may go on, and another answer then replaces this one


def levels(
    frames: Tensor,  # (frames, BANDS), log-mel energies
) -> Tensor:
    """Return how loud frames are, (frames,), in dB; a sine of full scale has 0 dB."""
    return (frames.logsumexp(1) - math.log(FULL_SCALE)) * 10 / math.log(10)


class Listener:
    """Hears words in a recording that arrives in parts: call it with each part in turn, and `finish` it after the last.

    A word begins with a frame that is not quiet, where the network starts from zero states, and ends with the last such
    frame before a pause. The answer is that of the whole word to rounding: `network(log_mel(recording)[None, first:last + 1])`.
    """

    def __init__(self, network: Network, quiet: float = QUIET, pause: int = PAUSE, early: int | None = None):
        """Take a network in eval mode, as `load` returns it.

        quiet: the level in dB below which a frame is quiet. pause: the number of quiet frames in a row that end a word.
        early: the number of quiet frames, less than `pause`, after which the listener gives an answer that is not final. If
        the word ends there, the final answer is the same; None for final answers only.

        Raises RequestError for a network that does not read speech or needs the whole recording, for a level that is not
        finite, and for numbers of frames out of order.
        """
        if not listens(network):
            raise RequestError(
                f"{network.config.name} does not read recordings of speech. `rnnzoo list --task fsdd` shows networks that do."
            )
        if not math.isfinite(quiet):
            raise RequestError(f"The level of quiet frames is a finite number of dB; got {quiet}.")
        if pause < 1 or (early is not None and not 0 < early < pause):
            raise RequestError(f"early and pause are numbers of frames, 0 < early < pause; got {early} and {pause}.")
        self.network, self.quiet, self.pause, self.stepper = network, quiet, pause, stepper(network)
        self.early = early
        self.log_mel, self.frame = LogMel(), 0  # the number of frames so far
        self.state: Any = None
        self.first: int | None = None  # the first frame of the present word
        self.last = 0  # its last frame so far that is not quiet
        self.logits = torch.zeros(0)  # after that frame

    def __call__(
        self,
        samples: Tensor,  # (samples,), int16, or float with full scale 1
    ) -> list[Word]:
        """Return the words that end in a pause within these samples, and early answers; there may be none."""
        frames = self.log_mel(samples)
        loud = (levels(frames) >= self.quiet).tolist()
        return [word for frame, is_loud in zip(frames, loud, strict=True) if (word := self._hear(frame, is_loud))]

    def finish(self) -> list[Word]:
        """Return the word that the recording's end cuts off or that no pause follows, if there is one."""
        return [] if self.first is None else [self._answer(self.first)]

    def _hear(self, frame: Tensor, is_loud: bool) -> Word | None:
        """Take one frame, (BANDS,). Return the word that a pause ends with this frame, if one does."""
        at, self.frame = self.frame, self.frame + 1
        if self.first is None and not is_loud:
            return None
        if self.first is None:
            self.first = at
        with torch.no_grad():
            logits, self.state = self.stepper.step(frame[None].to(self.network.device, self.network.dtype), self.state)
        if is_loud:
            self.last, self.logits = at, logits[0].float().cpu()
        if at - self.last == self.early:
            return self._answer(self.first, final=False)
        return self._answer(self.first) if at - self.last == self.pause else None

    def _answer(self, first: int, final: bool = True) -> Word:
        """Return the word that began with frame `first`, and wait for the next if the answer is final."""
        probability, best = self.logits.softmax(0).max(0)
        if final:
            self.first = self.state = None
        names = self.network.classes or tuple(map(str, range(len(self.logits))))
        return Word(
            names[int(best)], float(probability), start=first * HOP / RATE,
            end=(self.last * HOP + WINDOW) / RATE, answered=((self.frame - 1) * HOP + WINDOW) / RATE, final=final,
        )  # fmt: skip


def stepper(network: Network) -> Stream | RecurrentNetwork:
    """Return what takes a network's steps fastest: its stream, or itself where the compiled code has no step for it.

    Raises RequestError for a network that cannot step.
    """
    if not isinstance(network, RecurrentNetwork) or network.config.architecture.bidirectional:
        raise RequestError(
            f"{network.config.name} needs the whole recording, so it cannot read a live stream. "
            "Choose a unidirectional RecurrentNetwork."
        )
    try:
        return network.stream()
    except RequestError:
        return network
