"""Listens to a recording as it arrives: a network of spoken digits reads it frame by frame and answers after each word."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import RequestError, shown
from ..networks.base import evaluating, unwrapped
from ..networks.network import Network
from ..networks.recurrent import RecurrentNetwork
from ..networks.stream import Stream
from ..utils.arguments import plain
from .answers import no_head
from .inputs import listens
from .speech import FFT, HOP, RATE, WINDOW, LogMel

QUIET, PAUSE = -53.0, 20
"""A frame is quiet below the level QUIET, in dB. PAUSE consecutive quiet frames end a word; fewer may be a stop consonant.

`python -m benchmarks.listening` compares other values; these were chosen on the validation recordings.
"""
FULL_SCALE = FFT / 2 * WINDOW * 3 / 8 / 2
"""The energy of a sine of full scale in a frame: FFT / 2 times that of its windowed samples, by Parseval's theorem."""


@dataclass(frozen=True)
class Word:
    """A sound between two pauses, with the network's answer. All times are in seconds from the start of the recording.

    In a recording shorter than a frame, which is padded, a word ends with the frame.
    """

    answer: str
    """The name of the most probable class."""
    probability: float
    """The probability that the network gives this class."""
    start: float
    """When the word begins: the start of its first frame that is not quiet."""
    end: float
    """When the word ends: the end of its last frame that is not quiet."""
    answered: float
    """When so much of the recording had arrived that the network answered."""
    final: bool = True
    """False for an early answer: the word may go on, and another answer then replaces this one."""


def levels(
    frames: Tensor,  # (frames, BANDS), log-mel energies
) -> Tensor:
    """Return the level of each frame, (frames,), in dB; a sine of full scale has 0 dB."""
    return (frames.logsumexp(1) - math.log(FULL_SCALE)) * 10 / math.log(10)


class Listener:
    """Detects words in a recording that arrives in parts: call it with each part in turn, then call `finish`.

    A word begins with a frame that is not quiet, number `first` of the recording, where the network starts from zero states.
    It ends with the last such frame before a pause, number `last`. Up to rounding, the answer is
    `network(log_mel(recording)[None, first:last + 1])`.
    """

    def __init__(self, network: Network, quiet: float = QUIET, pause: int = PAUSE, early: int | None = None):
        """Listen with a network of spoken digits, which reads in eval mode.

        quiet: the level in dB below which a frame is quiet. pause: the number of quiet frames in a row that end a word.
        early: the number of quiet frames, less than `pause`, after which the listener gives an answer that is not final. If
        the word ends there, the final answer is the same; None for final answers only.

        Raises RequestError for anything but a network, for a network that does not read speech, that needs the whole recording
        or has no head, if `quiet` is not finite, and unless `early` and `pause` are integers with 0 < early < pause.
        """
        network = unwrapped(network)
        if not isinstance(network, Network):
            raise RequestError(f"A Listener takes a network, as `load` returns it; got {shown(network)}.")
        if not listens(network):
            raise RequestError(
                f"{network.config.name} does not read recordings of speech. `rnnzoo list --task fsdd` shows networks that do."
            )
        if not network.interface.outputs:
            raise no_head(network)
        quiet, early, pause = plain(quiet), plain(early), plain(pause)
        if type(quiet) not in (int, float) or not math.isfinite(quiet):
            raise RequestError(f"The level of quiet frames must be a finite number of dB; got {shown(quiet)}.")
        counts = [pause] if early is None else [early, pause]
        if any(type(count) is not int for count in counts) or not 0 < counts[0] <= pause or early == pause:
            raise RequestError(
                f"early and pause are whole numbers of frames with 0 < early < pause; got early {early} and pause {pause}."
            )
        self.network, self.quiet, self.pause, self.early = network, quiet, pause, early
        with evaluating(network):
            self.stepper = stepper(network)
        self.log_mel, self.heard, self.frame = LogMel(), 0, 0  # the numbers of samples and of frames so far
        self.state: Any = None
        self.first: int | None = None  # the first frame of the present word
        self.last = 0  # its last frame so far that is not quiet
        self.logits = torch.zeros(0)  # after that frame

    def __call__(
        self,
        samples: Tensor,  # (samples,), int16, or float with full scale 1
    ) -> list[Word]:
        """Return the words whose pause becomes complete with these samples, and early answers; often an empty list.

        Raises RequestError for samples of another shape or type, and for floats far beyond full scale or NaN.
        """
        words = self._read(samples)
        self.heard += len(samples)
        return words

    def hear(self, parts: Iterable[Tensor]) -> Iterator[Word]:
        """Yield the words of a recording that arrives in `parts`, the last one included, each as soon as it is answered."""
        for part in parts:
            yield from self(part)
        yield from self.finish()

    def finish(self) -> list[Word]:
        """Return the last word, in a list, if the recording ends before the pause after it is complete; else [].

        A recording shorter than a frame is padded with zeros, as by `log_mel`.
        """
        if self.frame == 0:
            self._read(self.log_mel.waiting.new_zeros(WINDOW - len(self.log_mel.waiting)))
        return [] if self.first is None else [self._answer(self.first)]

    def _read(self, samples: Tensor) -> list[Word]:
        """Return the answers that are due with these samples, (samples,)."""
        frames = self.log_mel(samples)
        loud = (levels(frames) >= self.quiet).tolist()
        with evaluating(self.network), torch.no_grad():
            return [word for frame, is_loud in zip(frames, loud, strict=True) if (word := self._hear(frame, is_loud))]

    def _hear(self, frame: Tensor, is_loud: bool) -> Word | None:
        """Read one frame, (BANDS,). Return the word whose answer, early or final, is due with this frame; None if none is.

        is_loud: whether the level of the frame is at least `quiet`.
        """
        at, self.frame = self.frame, self.frame + 1
        if self.first is None and not is_loud:
            return None
        if self.first is None:
            self.first = at
        logits, self.state = self.stepper.step(frame[None].to(self.network.device, self.network.dtype), self.state)
        if is_loud:
            self.last, self.logits = at, logits[0].float().cpu()
        if at - self.last == self.early:
            return self._answer(self.first, final=False)
        return self._answer(self.first) if at - self.last == self.pause else None

    def _answer(self, first: int, final: bool = True) -> Word:
        """Return the word that began with the frame of index `first`. If `final`, the next loud frame begins a new word."""
        probability, best = self.logits.softmax(0).max(0)
        if final:
            self.first = self.state = None
        return Word(
            self.network.output_names[int(best)], float(probability), start=first * HOP / RATE,
            end=(self.last * HOP + WINDOW) / RATE, answered=((self.frame - 1) * HOP + WINDOW) / RATE, final=final,
        )  # fmt: skip


def stepper(network: Network) -> Stream | RecurrentNetwork:
    """Return the object whose `step` is fastest: `network.stream()`, or the network itself if it has no stream.

    Raises RequestError for a network that cannot take single steps, such as a bidirectional one.
    """
    if not isinstance(network, RecurrentNetwork) or network.config.architecture.bidirectional:
        raise RequestError(
            f"{network.config.name} needs the whole recording, so it cannot read a stream. Use a recurrent network of one "
            "direction."
        )
    try:
        return network.stream()
    except RequestError:
        return network
