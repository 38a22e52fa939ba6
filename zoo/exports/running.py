"""A network whose logits another runtime computes, for code that measures networks."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from ..networks.base import ConfiguredModule
from ..networks.frozen import frozen
from ..networks.network import Network
from ..networks.quantize import check_quantize, quantized
from .base import Runtime
from .formats import find_format
from .writing import export


class Running(ConfiguredModule):
    """Maps x and lengths to logits as a network does, by the runtime of an exported file, in float32 on the CPU."""

    def __init__(self, network: Network, runtime: Runtime):
        super().__init__()
        self.config, self.tokenizer, self.runtime = network.config, network.tokenizer, runtime

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        """float32."""
        return torch.float32

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return logits; see Network.forward."""
        return self.runtime.sequence(x, lengths)[0]


@contextmanager
def running(network: Network, runtime: str, quantize: str | None = None) -> Iterator[ConfiguredModule]:
    """Yield a network whose logits a runtime computes from an exported file, which exists within the block.

    runtime: a key of FORMATS, or "torch" for the network itself. quantize: "int8" for 8-bit weights. Raises what
    `export` raises.
    """
    check_quantize(quantize)
    if runtime == "torch":
        yield (quantized if quantize else frozen)(network).to(network.device)
        return
    with tempfile.TemporaryDirectory() as folder:
        (written,) = export(network, runtime, out=Path(folder), quantize=quantize)
        yield Running(network, find_format(runtime).open(written.path, network, written.graph))
