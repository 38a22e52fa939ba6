"""Spoken digits from raw audio: the Free Spoken Digit Dataset, six speakers who say each digit fifty times, at 8 kHz.

A network reads frames of 32 log-mel energies, 25 ms long, one every 10 ms. Every frame depends on its own samples alone, so
a live stream has the same frames as the whole recording.
"""

import io
import math
from collections.abc import Iterator
from functools import cache

import numpy
import torch
from torch import Tensor

from ..errors import DataError, RequestError, shown
from . import wav
from .base import Split, SplitName, TaskData
from .originals import read_arrays

RATE, WINDOW, HOP = 8000, 200, 80
"""Samples per second, samples in a frame, and samples from the start of one frame to the start of the next."""
CONVERT = f"To convert it: ffmpeg -i FILE -ac 1 -ar {RATE} -sample_fmt s16 NEW.wav"
BANDS, FFT = 32, 256
LOWEST_HZ, FLOOR = 60.0, 1e-6
"""The lowest frequency of the mel bands in Hz, and the number that is added to an energy before the logarithm."""
LOUDEST = 16.0
"""The largest float in a recording, whose full scale is 1. Larger ones are in another scale, such as that of int16."""
HELD_OUT = "yweweler"
"""The speaker of the test split of layout `speakers`, the last in alphabetical order."""


@cache
@torch.inference_mode(False)  # an inference tensor could not be used in a gradient later
def mel_bands() -> Tensor:
    """Return the triangular filters of the mel scale, (FFT // 2 + 1, BANDS), peak 1 (mel = 2595 log10(1 + f / 700))."""

    def mel(hertz: float) -> float:
        return 2595 * math.log10(1 + hertz / 700)

    edges = torch.linspace(mel(LOWEST_HZ), mel(RATE / 2), BANDS + 2, dtype=torch.float64)
    centres = 700 * (10 ** (edges / 2595) - 1)
    bins = torch.arange(FFT // 2 + 1, dtype=torch.float64)[:, None] * RATE / FFT
    rise = (bins - centres[:-2]) / (centres[1:-1] - centres[:-2])
    fall = (centres[2:] - bins) / (centres[2:] - centres[1:-1])
    return torch.minimum(rise, fall).clamp_min(0).float()


class LogMel:
    """Log-mel frames of a recording that arrives in parts: call it with each part in turn.

    All frames together equal those of `log_mel` for the whole recording, up to rounding.
    """

    def __init__(self) -> None:
        self.waiting = torch.zeros(0, dtype=torch.float32)  # samples of which the next frames are made

    def __call__(
        self,
        samples: Tensor,  # (samples,), int16, or float with full scale 1
    ) -> Tensor:
        """Return the frames that these samples complete, (frames, BANDS), float32, with frames >= 0.

        Raises RequestError for samples of another shape, such as two channels, of another type or, if float, beyond LOUDEST
        or NaN.
        """
        samples = torch.cat([self.waiting, scaled(samples)])
        count = max(0, (len(samples) - WINDOW) // HOP + 1)
        self.waiting = samples[count * HOP :]
        if count == 0:
            return samples.new_zeros(0, BANDS)
        windows = samples.unfold(0, WINDOW, HOP) * torch.hann_window(WINDOW, dtype=torch.float32)
        energies = torch.fft.rfft(windows, FFT).abs().square() @ mel_bands()
        return (energies + FLOOR).log()


def scaled(samples: Tensor) -> Tensor:
    """Return samples, (samples,), on the CPU as float32 with full scale 1. Raises RequestError for what `LogMel` cannot read."""
    if not isinstance(samples, Tensor):
        raise RequestError(
            f"Samples are a tensor; got {shown(samples)}. torch.from_numpy(array) makes one of an array."
        )
    if samples.dim() != 1:
        raise RequestError(f"Samples are one channel, (samples,); got {tuple(samples.shape)}. Average the channels.")
    samples = samples.cpu()
    if samples.dtype == torch.int16:
        return samples.float() / 32768
    if not samples.is_floating_point():
        raise RequestError(
            f"Samples are int16, or float with full scale 1; got {samples.dtype}. Convert them to one of these types."
        )
    if len(samples) and not samples.abs().max() <= LOUDEST:  # also for NaN
        raise RequestError(
            f"The full scale of samples is 1, but some of these are beyond {LOUDEST:g}, or NaN. Divide samples in the scale of "
            "int16 by 32768."
        )
    return samples.float()


def log_mel(
    samples: Tensor,  # (samples,), int16, or float with full scale 1
) -> Tensor:
    """Return the log-mel frames of a recording, (frames, BANDS). A recording shorter than a frame is padded with zeros.

    Raises RequestError for an empty recording and for what `LogMel` cannot read.
    """
    samples = scaled(samples)
    if not len(samples):
        raise RequestError("A recording has at least one sample; this one has none.")
    silence = samples.new_zeros(max(0, WINDOW - len(samples)))
    return LogMel()(torch.cat([samples, silence]))


def samples_of(name: str, file: io.BufferedIOBase) -> Iterator[Tensor]:
    """Yield the samples of an open WAV file as they arrive, each time (samples,), int16, or float32 as stored.

    name: the network, for errors. Raises RequestError for an empty file, unless it is mono at 8 kHz, of 16-bit integers or 32-bit
    floats, and at the end if it breaks off.
    """
    try:
        yield from wav.parts(file, RATE)
    except wav.WavError as error:
        advice = f" {CONVERT}" if error.convertible else ""
        raise RequestError(
            f"{name} reads a WAV file, mono, at {RATE:,} Hz, of 16-bit integers or 32-bit floats; this file {error}.{advice}"
        ) from error


def read_samples(name: str, content: bytes) -> Tensor:
    """Return all samples of a WAV file with this content, (samples,). See `samples_of`."""
    return torch.cat(list(samples_of(name, io.BytesIO(content))))


class FSDD(TaskData):
    """Layouts `official` and `speakers`, which differ in their splits of the fifty recordings of each speaker and digit.

    `official`: test on the recordings 0 to 4, validate on 5 to 9, train on the rest. `speakers`: test on all recordings of
    HELD_OUT; of the other speakers, validate on the recordings 0 to 4 and train on the rest. The .npz has the samples of
    all recordings end to end in `audio`, int16, their `offsets`, and the `digit`, `speaker` and `index` of each.
    """

    layouts = ("official", "speakers")

    def recordings(self, name: SplitName) -> tuple[list[Tensor], Tensor]:
        """Return (recordings, digits) of a split: the n recordings, each (samples,), int16, and the digit of each, (n,).

        Raises DataError if the file is missing, or if it has no recordings of the split or other arrays.
        """
        audio, offsets, digits, speakers, indices = read_arrays(
            self.dataset, "audio", "offsets", "digit", "speaker", "index"
        )
        if self.task.layout == "official":
            parts = {"test": indices < 5, "validation": (indices >= 5) & (indices < 10), "train": indices >= 10}
        else:
            held_out = speakers == HELD_OUT
            parts = {"test": held_out, "validation": ~held_out & (indices < 5), "train": ~held_out & (indices >= 5)}
        chosen = numpy.flatnonzero(parts[name])
        if not len(chosen) or audio.dtype != "int16" or offsets[-1] != len(audio):
            raise DataError(
                f"{self.dataset.title}: the recordings are not those of {self.task.title}: {len(chosen)} in the {name} "
                f"split, {audio.dtype} samples. Use the original file."
            )
        samples = [torch.from_numpy(audio[offsets[i] : offsets[i + 1]]) for i in chosen]
        return samples, torch.from_numpy(digits[chosen].astype("int64"))

    def read_file(self, name: str, content: bytes) -> Tensor:
        """Return the frames of a WAV file, (1, frames, BANDS). See `read_samples`."""
        return log_mel(read_samples(name, content))[None]

    def read(self, name: SplitName) -> Split:
        recordings, targets = self.recordings(name)
        frames = [log_mel(samples) for samples in recordings]
        lengths = torch.tensor([len(each) for each in frames])
        padded = torch.nn.utils.rnn.pad_sequence(frames, batch_first=True)
        return Split(padded, targets, dict(self.dataset.sha256), lengths=lengths)
