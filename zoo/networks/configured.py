"""Modules that a Config describes: their common base, and the table of their classes."""

from typing import Any

import torch
from torch import nn

from ..checkpoints.tokenizer import Tokenizer
from ..errors import SizeError
from ..registry.schema import Config, Interface
from ..utils import import_object

NETWORKS = {
    "sequence": "recurrent.RecurrentNetwork",
    "question": "story_reader.StoryReader",
    "none": "feedforward.FeedForward",
}
"""`module.Class` of the network for each form of input (see Shapes.form); "none" is for inputs without time steps."""
MAX_PARAMETERS = 200_000_000
"""Larger models are refused unless asked for, so that a slip in a specification does not take a machine's memory."""


class ConfiguredModule(nn.Module):
    """A torch module that is built from a Config; what the code of checkpoints knows of a network."""

    config: Config
    tokenizer: Tokenizer | None = None
    """Turns text into tokens, if the network was trained on text: `net(*net.tokenizer(["A text."]))`."""

    @property
    def interface(self) -> Interface:
        """The shapes of inputs and outputs."""
        return self.config.interface

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the parameters."""
        return next(self.parameters()).dtype


def network_class(config: Config) -> Any:
    """Return the class of the network that `config` describes, imported when it is asked for."""
    interface = config.interface
    return import_object(NETWORKS["none" if interface.readout == "none" else interface.form], __package__)


def meta_network(config: Config) -> Any:
    """Return the network that `config` describes on the meta device: shapes without values, in float32."""
    with torch.device("meta"):
        return network_class(config)(config).to(torch.float32)  # whatever torch's default dtype is


def refuse_large(network: ConfiguredModule, hint: str = "") -> None:
    """Raise SizeError, its message ending in `hint`, if a network on the meta device has more than MAX_PARAMETERS."""
    size = sum(p.numel() for p in network.parameters())
    if size > MAX_PARAMETERS:
        raise SizeError(f"{network.config.name} has {size:,} parameters, more than {MAX_PARAMETERS:,}{hint}.")
