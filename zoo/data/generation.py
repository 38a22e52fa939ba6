"""Sampling from a network that predicts the next step of its own input, one step at a time: text and music."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, cast

import torch
from torch import Tensor

from ..checkpoints.tokenizer import RESERVED, StreamTokenizer
from ..errors import RequestError, shown
from ..networks import loading
from ..networks.base import evaluating, unwrapped
from ..networks.network import Network
from ..networks.recurrent import RecurrentNetwork
from ..registry.schema import Config
from ..utils.arguments import plain, text_of
from . import data_of
from .music import KEYS, Music

BETWEEN_FRAMES, NOTHING = re.compile(r"\s?[|\n]\s?"), "-"
"""What separates the frames of a prompt of music with single spaces, and what stands for a frame without a key, as printed."""
SILENCE = "\n"
"""The prompt of a network of text if none is given."""

NAMED = 10
"""At most so many characters or words that a vocabulary lacks are named in a message."""
PART = 1024
"""The number of steps of a prompt that are read at once."""

CHARACTERS, FRAMES = 500, 64
"""How many characters (or bytes, or words) of text, or frames of music, are drawn by default."""

T = TypeVar("T")
Draw = Callable[[Tensor], Tensor]
"""Draws the next input, (*input), from the logits of a step, (outputs,)."""


def generate(
    network: Network | str | os.PathLike[str], *, prompt: str = "", length: int | None = None, temperature: float = 1.0,
    top_k: int | None = None, seed: int = 0, report: Callable[[int, int], None] = lambda done, n: None,
) -> Tensor | str:  # fmt: skip
    """Return a prompt with its continuation by a network: a text (str), or a piano roll (Tensor).

    network: a network of text or of music, or a name or path, which `load` then loads on the CPU.
    prompt: text; or names of piano keys such as "C3 E4 G4", frames separated by "|" or line breaks, "-" for a silent frame.
    length: number of characters, bytes, words or frames to draw (default: 500, or 64 frames). In a frame, each key is drawn
    independently.
    temperature: divides the logits; a lower one favours what is more probable. At 0, nothing is drawn at random: the next
    is the most probable character, or every key that is more probable than 1/2.
    top_k: draw only from the k most probable characters or keys.
    seed: the same seed gives the same result. report(done, n) is called after every step.

    A piano roll is (frames of the prompt + length, keys), of 0 and 1. Raises the errors of `load`, and RequestError for a
    network that predicts neither text nor music, for unknown characters or keys in the prompt, and for invalid numbers.
    """
    text_of("The prompt", prompt)
    network = unwrapped(network)
    loaded = network if isinstance(network, Network) else loading.load(network, device="cpu")
    if length is None:
        length = CHARACTERS if writes(loaded) else FRAMES
    length, temperature, top_k, seed = map(plain, (length, temperature, top_k, seed))

    def reported(steps: Iterator[T]) -> Iterator[T]:
        for done, step in enumerate(steps, 1):
            report(done, length)
            yield step

    if writes(loaded):
        return prompt + "".join(reported(stream_text(loaded, prompt, length, temperature, top_k, seed)))
    drawn = list(reported(_frames(loaded, prompt, length, temperature, top_k, seed)))
    return torch.cat([chords(prompt, loaded.classes), torch.stack(drawn)])


def writes(network: Network) -> bool:
    """Return True if a network predicts the next character, byte or word of a text."""
    return isinstance(network.tokenizer, StreamTokenizer) and network.interface.outputs == network.interface.vocabulary


def plays(config: Config) -> bool:
    """Return True if networks of this config predict the next frame of a piece of music."""
    interface = config.interface  # a head that was replaced has classes of its own, and no keys
    reads_keys = interface.vocabulary is None and interface.classes is None and interface.outputs == KEYS
    return reads_keys and isinstance(data_of(config), Music)


def stream_text(
    network: Network,
    prompt: str = "",
    length: int = CHARACTERS,
    temperature: float = 1.0,
    top_k: int | None = None,
    seed: int = 0,
) -> Iterator[str]:
    """Yield the characters, bytes or words with which a network continues a prompt, each as soon as it is drawn.

    The arguments are those of `generate`. Raises the errors of `generate` before it yields anything.
    """
    _check(length, temperature, top_k, seed)
    tokenizer = cast(StreamTokenizer, network.tokenizer)
    if unknown := tokenizer.unknown(prompt):
        raise unknown_text(network, unknown, "Change the prompt.")
    prompt = prompt or SILENCE
    tokens, _ = tokenizer(prompt)
    generator = torch.Generator().manual_seed(seed)

    def draw(logits: Tensor) -> Tensor:
        logits[: len(RESERVED)] = -torch.inf
        if top_k is not None and top_k < len(logits):
            best, tokens = logits.topk(top_k)
            logits = torch.full_like(logits, -torch.inf).scatter_(0, tokens, best)
        if temperature == 0:
            return logits.argmax()
        # at most 0, and divided in float64, so that no temperature makes them NaN
        logits = ((logits - logits.max()).double() / temperature).to(logits.dtype)
        return torch.multinomial(logits.softmax(0), 1, generator=generator)[0]

    return tokenizer.pieces((int(token) for token in _continued(network, tokens[0], length, draw)), after=prompt)


def unknown_text(network: Network, unknown: Sequence[str], advice: str) -> RequestError:
    """Return the error about characters or words that the vocabulary of a network lacks. advice: the end of its message."""
    verb, more = "is" if len(unknown) == 1 else "are", len(unknown) - NAMED
    names = ", ".join(map(shown, unknown[:NAMED])) + (f" and {more:,} more" if more > 0 else "")
    return RequestError(f"{names} {verb} not in the vocabulary of {network.config.name}. {advice}")


def _frames(
    network: Network, prompt: str, length: int, temperature: float, top_k: int | None, seed: int
) -> Iterator[Tensor]:
    """Yield the frames, (keys,), of 0 and 1, with which a network of music continues a prompt. Arguments: see `generate`."""
    _check(length, temperature, top_k, seed)
    if not isinstance(network, RecurrentNetwork) or not plays(network.config):
        raise RequestError(
            f"{network.config.name} predicts neither text nor music. `rnnzoo list --task shakespeare` and `--task jsb` show "
            "networks that do."
        )
    frames = chords(prompt, network.classes)
    generator = torch.Generator().manual_seed(seed)

    def draw(logits: Tensor) -> Tensor:
        if temperature == 0:
            frame = (logits > 0).float()
        else:
            frame = (
                torch.rand(len(logits), generator=generator, dtype=torch.float32, device="cpu")
                < (logits / temperature).sigmoid()
            ).float()
        if top_k is not None and top_k < len(logits):
            frame *= torch.zeros_like(frame).scatter_(0, logits.topk(top_k).indices, 1.0)
        return frame

    return _continued(network, frames if len(frames) else frames.new_zeros(1, len(network.classes)), length, draw)


def _continued(network: Network, prompt: Tensor, length: int, draw: Draw) -> Iterator[Tensor]:
    """Yield `length` inputs, (*input) on the CPU, with which a network in eval mode continues a prompt, (steps, *input).

    draw: returns the next input, given the logits of the last step. The network then reads this input.
    """
    network, state = cast(RecurrentNetwork, network), None
    dtype = network.dtype if prompt.is_floating_point() else prompt.dtype
    with evaluating(network), torch.no_grad():
        for part in prompt.to(network.device, dtype)[None].split(PART, dim=1):
            every, state = network.resume(part, state)
    logits = every[:, -1]
    for left in reversed(range(length)):
        if not logits.isfinite().all():
            raise RequestError(
                f"The outputs of {network.config.name} are infinite or NaN, so nothing can be drawn from them."
            )
        x = draw(logits[0].float().cpu())
        yield x
        if left:
            with evaluating(network), torch.no_grad():
                logits, state = network.step(x[None].to(network.device, dtype), state)


def _check(length: int, temperature: float, top_k: int | None, seed: int) -> None:
    """Raise RequestError if an argument of `generate` is not a number or is out of its range."""
    if type(length) is not int or length < 1 or (top_k is not None and (type(top_k) is not int or top_k < 1)):
        raise RequestError(
            f"length and top_k must be integers of at least 1; got length {shown(length)} and top_k {shown(top_k)}."
        )
    if type(temperature) not in (int, float) or not 0 <= temperature < 2**63:
        raise RequestError(f"temperature must be a number from 0 to below 2**63; got {shown(temperature)}.")
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise RequestError(f"seed must be an integer from 0 to 2**63 - 1; got {shown(seed)}.")


def chords(prompt: str, names: tuple[str, ...]) -> Tensor:
    """Return the frames of a prompt such as "C3 E4 | - | G4", (frames, keys): 1 for the keys that sound, else 0.

    names: the name of each key, in order. Blank lines are no frames; nothing between two "|" is a silent one. Raises RequestError
    for another name in the prompt.
    """
    spaced = re.sub(r"\s+", lambda space: "\n" if "\n" in space[0] else " ", prompt.strip())
    texts = BETWEEN_FRAMES.split(spaced) if spaced else []
    frames = torch.zeros(len(texts), len(names), dtype=torch.float32)
    for frame, text in zip(frames, texts, strict=True):
        for name in text.split() if text != NOTHING else ():
            if name not in names:
                raise RequestError(
                    f"No key is called {shown(name)}; keys are called {names[0]}, {names[1]} ... {names[-1]}. Change the prompt."
                )
            frame[names.index(name)] = 1
    return frames
