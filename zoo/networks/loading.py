"""`zoo.load`: from a name, a folder or an address on the Hub to a network with verified weights."""

import os
from collections.abc import Sequence

import torch

from ..checkpoints import sources
from ..checkpoints.configs import with_classes, with_dropout
from ..checkpoints.references import Reference
from ..errors import RequestError
from .base import resolve_dtype
from .builder import build
from .network import Network
from .pretrained import assemble, load_weights, save, save_settings
from .quantize import check_quantize, quantized

__all__ = ["assemble", "load", "load_weights", "save", "save_settings"]


def load(
    name_or_path: str | os.PathLike[str], *, device: torch.device | str | None = None, dtype: torch.dtype | str | None = None,
    revision: str | None = None, pretrained: bool = True, seed: int = 0, allow_large: bool = False,
    classes: int | Sequence[str] | None = None, dropout: float | None = None, recurrent_dropout: float | None = None,
    quantize: str | None = None,
) -> Network:  # fmt: skip
    """Return a network with its published weights, in eval mode.

    name_or_path: a name of the registry, whose files are downloaded if they are not on this machine and verified against
    their pins; hf://org/name[@revision] for any repository of this library; or a folder with model.safetensors and
    config.json. A registered name is found before a folder of the same name.
    device: where the network goes (default: a GPU that torch can use, else the CPU).
    dtype: of the parameters, torch.float16 or "float16" (default: float32, also if they are stored in float16).
    revision: a revision on the Hub other than the pinned one.
    pretrained: if False, `build` initialises the network randomly, from `seed`, which nothing else uses.
    allow_large: load networks of more than 200 million parameters too.
    classes: replace the head by a fresh one with this number of outputs or these class names, or remove it (0); see
    Network.reset_head.
    dropout, recurrent_dropout: probabilities for fine-tuning, between layers and of a state's channels (default: the config's).
    quantize: "int8" to round the weights to the values that an int8 export stores; see zoo.networks.quantize.

    Loading onto a CPU turns on flush-to-zero, as `build` does. Raises UnknownNameError for an unknown name, RequestError for
    other invalid arguments, CheckpointError unless every tensor passes its checks, and SizeError for a large network.
    The network is a RecurrentNetwork, a StoryReader or a FeedForward; for a type checker, name the class instead:
    `RecurrentNetwork.from_pretrained(name)`.
    """
    check_quantize(quantize)
    target_dtype = resolve_dtype(dtype)
    if not pretrained:
        if revision is not None:
            raise RequestError("The revision selects weights, but pretrained=False loads none. Leave out the revision.")
        config = with_dropout(sources.read_config(Reference.parse(name_or_path)), dropout, recurrent_dropout)
        config = config if classes is None else with_classes(config, classes)
        fresh = build(
            config, device=device, dtype=None if quantize else dtype, seed=seed, allow_large=allow_large
        ).eval()
        return fresh if quantize is None else quantized(fresh).to(fresh.device, target_dtype)
    resolved, stored = sources.resolve(Reference.parse(name_or_path, revision)), None if quantize else dtype
    network: Network = assemble(
        resolved, device=device, dtype=stored, allow_large=allow_large, dropout=dropout, recurrent_dropout=recurrent_dropout
    )  # fmt: skip
    if quantize is not None:  # the weights are rounded as they are stored, then converted
        network = quantized(network).to(network.device, target_dtype)
    if classes is not None:
        network.reset_head(classes)
    return network
