"""`rnnzoo listen`: prints the words that a network recognises in a WAV file, and when they were spoken."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from zoo.errors import RequestError, StorageError, ZooError
from zoo.utils.text import one_line

from .arguments import Address, AsJson, content_of, number, standard_input
from .output import emit, emit_lines, line, say

if TYPE_CHECKING:
    from torch import Tensor


def listen(
    name: Address,
    file: Annotated[
        str,
        Argument(help="A WAV file, mono, 8 kHz, 16-bit integers or 32-bit floats; - reads standard input as it comes."),
    ],
    quiet: Annotated[
        float | None,
        Option(metavar="DB", help="Level in dBFS below which a frame counts as silence (default: -53)."),
    ] = None,
    early: Annotated[
        int | None,
        number(
            "Also predict after this many quiet frames of 10 ms (1 to 19). The word may go on; its last row counts.",
            maximum=19,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the digits that a network recognises in a recording, and when they were spoken.

    The network reads frames of 10 ms in order, as in a live stream; a program that records may write to its standard input.

    A prediction comes 0.2 s after each word, and a last one when the recording ends or Ctrl-C ends it; with --early, a
    provisional one comes sooner.

    With --json, all words are printed at the end.
    """
    from zoo import load
    from zoo.data.listening import QUIET, Listener, Word
    from zoo.data.speech import RATE, read_samples, samples_of

    content = None if file == "-" else content_of(file)
    network = load(name, device="cpu")
    listener = Listener(network, QUIET if quiet is None else quiet, early=early)
    title = network.config.name
    if content is None:
        stream = samples_of(title, standard_input())
        parts = chain([next(stream)], _rest(stream))  # a file that does not fit is refused before the header is printed
    else:
        parts = chain(read_samples(title, content).split(RATE))
    # fixed widths, since a row is printed before the next word is spoken
    widths = [10, 10, 10, max(map(len, ("WORD", *network.output_names))), len("PROBABILITY"), len("provisional")]
    words: list[Word] = []

    def heard() -> Iterator[Word]:
        try:
            yield from listener.hear(parts)
        except (KeyboardInterrupt, ZooError):  # Ctrl-C is how a live stream ends
            yield from listener.finish()
            raise

    def rows() -> Iterator[str]:
        yield line(["START", "END", "ANSWERED", "WORD", "PROBABILITY", ""], widths)
        for word in heard():
            words.append(word)
            kind = "" if early is None else "final" if word.final else "provisional"
            times = [f"{seconds:.2f} s" for seconds in (word.start, word.end, word.answered)]
            yield line([*times, one_line(word.answer), f"{100 * word.probability:.2f} %", kind], widths)

    if as_json:
        try:
            for word in heard():
                words.append(word)
        finally:  # also of a stream that breaks off
            emit(
                {"name": name, "seconds": listener.heard / RATE, "words": [asdict(word) for word in words]}, as_json, ""
            )
    else:
        emit_lines(rows())
    if not words:
        say(f"Nothing is louder than {listener.quiet:g} dB. --quiet DB sets another level.")


def _rest(stream: "Iterator[Tensor]") -> "Iterator[Tensor]":
    """Yield the samples of a stream after the first. Raises StorageError if it breaks off, which is no fault of the request."""
    try:
        yield from stream
    except RequestError as error:
        raise StorageError(f"The stream breaks off. {error}") from error
