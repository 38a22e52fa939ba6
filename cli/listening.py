"""`rnnzoo listen`: prints the words that a network recognises in a WAV file, and when they were spoken."""

from dataclasses import asdict
from typing import Annotated

from typer import Argument, Option

from .arguments import Address, AsJson, content_of, number
from .output import columns, emit, say

CHUNK = 800
"""Number of audio samples (0.1 s) that are passed to the network together."""


def listen(
    name: Address,
    file: Annotated[
        str, Argument(help="A WAV file, mono, 8 kHz, 16-bit integers or 32-bit floats; - reads standard input.")
    ],
    quiet: Annotated[
        float | None,
        Option(metavar="DB", help="Level in dBFS below which a frame counts as silence (default: -53)."),
    ] = None,
    early: Annotated[
        int | None,
        number(
            "Also predict after this many quiet frames of 10 ms (1 to 19). The word may go on; its last row counts."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the digits that a network recognises in a recording, and when they were spoken.

    The network reads frames of 10 ms in order, as in a live stream.

    It gives its prediction 0.2 s after each word, and at the end; with --early, a provisional one before.
    """
    from zoo import load
    from zoo.data.listening import QUIET, Listener
    from zoo.data.speech import RATE, read_samples

    content = content_of(file)
    network = load(name, device="cpu")
    listener = Listener(network, QUIET if quiet is None else quiet, early=early)
    samples = read_samples(network.config.name, content)
    words = [word for part in samples.split(CHUNK) for word in listener(part)] + listener.finish()
    rows = [
        (
            f"{word.start:.2f} s", f"{word.end:.2f} s", f"{word.answered:.2f} s", word.answer, f"{100 * word.probability:.2f} %",
            *([] if early is None else ["final" if word.final else "provisional"]),
        )
        for word in words
    ]  # fmt: skip
    data = {"name": name, "seconds": len(samples) / RATE, "words": [asdict(word) for word in words]}
    header = ("START", "END", "ANSWERED", "WORD", "PROBABILITY", *([] if early is None else [""]))
    emit(data, as_json, columns(header, rows))
    if not words:
        say(f"Nothing is louder than {listener.quiet:g} dB. --quiet DB sets another level.")
