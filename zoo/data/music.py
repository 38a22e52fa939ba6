"""Polyphonic music (Boulanger-Lewandowski et al. 2012): which of a piano's 88 keys sound in the next frame.

The files and the protocol are those of Bai, Kolter & Koltun 2018 (arXiv 1803.01271): the sequences of each file are split
into train, valid and test; from the frames of a sequence up to t, frame t + 1 is predicted, so the first frame is never
predicted; and the figure is the negative log-likelihood of all 88 keys, in nats, as a mean over all predicted frames.
"""

import torch
from torch import Tensor

from ..errors import DataError, RequestError
from ..networks.network import Network
from .base import IGNORED, Split, SplitName, TaskData
from .matlab import cell_arrays
from .originals import read_verified

KEYS = 88
LOWEST = 21
"""MIDI number of the piano's lowest key, A0."""
PARTS: dict[SplitName, str] = {"train": "traindata", "validation": "validdata", "test": "testdata"}


class Music(TaskData):
    """Layouts, one for each file: `jsb` (chorales by Bach), `nottingham` (folk tunes), `muse` and `piano` (classical)."""

    by_layout = {
        "jsb": "JSB_Chorales.mat", "nottingham": "Nottingham.mat", "muse": "MuseData.mat", "piano": "Piano_midi.mat"
    }  # fmt: skip
    layouts = by_layout

    def read(self, name: SplitName) -> Split:
        file, part = self.by_layout[self.task.layout], PARTS[name]
        content = read_verified(self.dataset, file)
        try:
            pieces = cell_arrays(content)[part]
        except KeyError as error:
            raise DataError(
                f"{self.dataset.title}: {file} has no variable {part}; it may be another version of the dataset."
            ) from error
        except ValueError as error:
            raise DataError(f"{self.dataset.title}: {file} cannot be read ({error}). Download it again.") from error
        if any(piece.ndim != 2 or piece.shape[1] != KEYS or len(piece) < 2 or piece.max() > 1 for piece in pieces):
            raise DataError(
                f"{self.dataset.title}: {file}, variable {part}: a sequence is not a piano roll, (time, {KEYS}) of 0 and 1 "
                "with at least 2 steps. Use the original file."
            )
        lengths = torch.tensor([len(piece) - 1 for piece in pieces])
        rolls = torch.full((len(pieces), int(lengths.max()) + 1, KEYS), IGNORED, dtype=torch.int8)
        for roll, piece in zip(rolls, pieces, strict=True):
            roll[: len(piece)] = torch.from_numpy(piece.astype("int8"))
        digests = {file: self.dataset.sha256[file]}
        return Split(rolls[:, :-1], rolls[:, 1:], digests, _prepare, lengths)

    def prepare_network(self, network: Network) -> None:
        """Set the bias of the head, if there is one, to the log-odds with which each key sounds in the training frames."""
        if not network.interface.outputs:
            return
        split = self.read("train")
        frames = split.targets[split.targets[..., 0] != IGNORED].double()
        share = (frames.sum(0) + 1) / (len(frames) + 2)  # a key that never sounds keeps a chance
        with torch.no_grad():
            network.head.bias.copy_(torch.logit(share))


def _prepare(raw: Tensor) -> Tensor:
    """Turn frames, (batch, time, 88), of 0 and 1 in an integer type, into float32; padding becomes 0."""
    if raw.dim() != 3 or raw.shape[2] != KEYS or raw.is_floating_point():
        raise RequestError(
            f"A piano roll is (batch, time, {KEYS}) of integers 0 and 1; got {tuple(raw.shape)}, {raw.dtype}."
        )
    return (raw == 1).float()
