"""Sampling from a network that predicts the next step of its own input, one step at a time: music."""

import os
from collections.abc import Callable

import torch
from torch import Tensor

from .. import registry
from ..errors import RequestError
from ..networks import loading
from ..networks.network import Network
from ..networks.recurrent import RecurrentNetwork

SOUNDS = "|"
"""Separates the frames of a prompt."""


def generate(
    network: Network | str | os.PathLike[str], *, prompt: str = "", length: int = 64, temperature: float = 1.0,
    top_k: int | None = None, seed: int = 0, report: Callable[[int, int], None] = lambda done, n: None,
) -> Tensor:  # fmt: skip
    """Return a piano roll that the network continues from a prompt, (frames of the prompt + length, keys), of 0 and 1.

    network: a network of a music task, or what `load` takes, which is then loaded on the CPU.
    prompt: names of keys such as "C3 E4 G4", frames separated by "|"; without a prompt the network first hears silence.
    length: number of frames to draw. In each, every key sounds or not, independently, with its own probability.
    temperature: divides the logits; the lower, the likelier the keys that sound. At 0 keys sound that are likelier than not.
    top_k: let only the k most probable keys of each frame sound.
    seed: the same seed gives the same roll. report(done, n) is called after every frame.

    Raises what `load` raises, and RequestError for a network that does not predict keys, or for other arguments.
    """
    loaded = _of_music(network if isinstance(network, Network) else loading.load(network, device="cpu"))
    names = loaded.classes
    if type(length) is not int or length < 1 or (top_k is not None and (type(top_k) is not int or top_k < 1)):
        raise RequestError(f"length and top_k are numbers from 1; got {length!r} and {top_k!r}.")
    if not 0 <= temperature < float("inf"):
        raise RequestError(f"temperature is a number from 0; got {temperature!r}.")
    frames, state, generator = chords(prompt, names), None, torch.Generator().manual_seed(seed)
    roll = frames if len(frames) else torch.zeros(1, len(names))
    drawn = list(frames)
    with torch.no_grad():
        for frame in roll:
            logits, state = loaded.step(frame[None].to(loaded.device, loaded.dtype), state)
        for step in range(length):
            if step:
                logits, state = loaded.step(drawn[-1][None].to(loaded.device, loaded.dtype), state)
            drawn.append(_frame(logits[0].float().cpu(), temperature, top_k, generator))
            report(step + 1, length)
    return torch.stack(drawn)


def chords(prompt: str, names: tuple[str, ...]) -> Tensor:
    """Return the frames of a prompt, (frames, keys), of 0 and 1. Raises RequestError for a name that is not one of `names`."""
    frames = torch.zeros(len(prompt.split(SOUNDS)) if prompt.strip() else 0, len(names))
    for frame, text in zip(frames, prompt.split(SOUNDS), strict=False):
        for name in text.split():
            if name not in names:
                raise RequestError(
                    f"No key is called {name!r}; keys are called {names[0]}, {names[1]} ... {names[-1]}."
                )
            frame[names.index(name)] = 1
    return frames


def _of_music(network: Network) -> RecurrentNetwork:
    """Return `network`. Raises RequestError unless it predicts the keys of a piano."""
    task = registry.load_registry().all_tasks.get(network.config.task)
    if isinstance(network, RecurrentNetwork) and task is not None and task.family == "music" and network.classes:
        return network
    raise RequestError(
        f"{network.config.name} does not predict music. `rnnzoo list --task jsb` shows networks that do."
    )


def _frame(logits: Tensor, temperature: float, top_k: int | None, generator: torch.Generator) -> Tensor:
    """Draw a frame, (keys,), of 0 and 1."""
    if temperature == 0:
        frame = (logits > 0).float()
    else:
        frame = (torch.rand(len(logits), generator=generator) < (logits / temperature).sigmoid()).float()
    if top_k is not None and top_k < len(logits):
        frame *= torch.zeros_like(frame).scatter_(0, logits.topk(top_k).indices, 1.0)
    return frame
