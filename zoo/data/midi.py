"""Piano rolls as MIDI files and as pictures."""

import io
from pathlib import Path

import torch
from torch import Tensor

from ..errors import MissingExtraError
from ..utils import plotting
from .music import LOWEST

TICKS = 480
"""Ticks of a quarter note."""
VELOCITY = 72
BEATS_PER_MINUTE = 120


def midi(
    roll: Tensor,  # (frames, 88), 0 and 1
    frame_ticks: int = TICKS // 2,
) -> bytes:
    """Return a piano roll as the content of a MIDI file as long as the roll. A key that sounds in consecutive frames becomes one
    long note.

    frame_ticks: length of a frame; the default is an eighth note. Raises MissingExtraError without mido.
    """
    try:
        import mido
    except ImportError as error:
        raise MissingExtraError("mido", "music") from error
    track = mido.MidiTrack([mido.MetaMessage("set_tempo", tempo=mido.bpm2tempo(BEATS_PER_MINUTE))])
    silence = torch.zeros(1, roll.shape[1])
    changes = torch.diff(torch.cat([silence, roll.float().cpu(), silence]), dim=0)
    waited = 0
    for frame in changes:
        for kind, sign in (("note_off", -1), ("note_on", 1)):
            for key in (frame == sign).nonzero().flatten().tolist():
                track.append(mido.Message(kind, note=LOWEST + key, velocity=VELOCITY, time=waited))
                waited = 0
        waited += frame_ticks
    # `changes` has one frame more than the roll
    track.append(mido.MetaMessage("end_of_track", time=waited - frame_ticks))
    buffer = io.BytesIO()
    mido.MidiFile(tracks=[track], ticks_per_beat=TICKS).save(file=buffer)
    return buffer.getvalue()


def draw(
    roll: Tensor,  # (frames, 88), 0 and 1
    path: Path,
    title: str,
) -> None:
    """Draw a piano roll, keys against frames, to a picture file.

    Raises the errors of `plotting.picture_format`, and OSError if the file cannot be written.
    """
    plotting.picture_format(path)
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(plotting.STYLE):
        figure = Figure(figsize=(7, 3))
        axis = figure.subplots()
        ends = (0, len(roll), LOWEST - 0.5, LOWEST + roll.shape[1] - 0.5)
        # NaN: where no key sounds, nothing is drawn over the grid
        notes = torch.where(roll.cpu() > 0, 1.0, torch.nan).T.numpy()
        axis.imshow(
            notes, aspect="auto", origin="lower", cmap="gray_r", vmin=0, interpolation="nearest", extent=ends, zorder=2
        )
        sounding = roll.any(0).nonzero().flatten()
        if len(sounding):
            axis.set_ylim(LOWEST + int(sounding[0]) - 2, LOWEST + int(sounding[-1]) + 2)
        cs = range(24, 109, 12)
        axis.set_yticks([c for c in cs if axis.get_ylim()[0] <= c <= axis.get_ylim()[1]])
        axis.set_yticklabels([f"C{int(c) // 12 - 1}" for c in axis.get_yticks()])
        axis.grid(axis="y", color="0.8", linewidth=0.5)
        axis.set(xlabel="frame", ylabel="key", title=title)
        plotting.save(figure, path, title, dpi=150)
