"""Compile and run star_step.c, the loop by hand beside which the C of an exported STAR network is timed."""

import ctypes
import subprocess
from pathlib import Path

import torch
from torch import Tensor

from zoo.networks.recurrent import RecurrentNetwork

SOURCE = Path(__file__).with_name("star_step.c")
FLAGS = ("-std=c99", "-O3", "-march=native")
"""Those by which an exported header is compiled for its check."""
LAYERS, UNITS = 16, 64


class HandWritten:
    """The steps of a STAR network of 16 layers of 64 units, by star_step.c."""

    def __init__(self, network: RecurrentNetwork, folder: Path, *flags: str):
        """Compile the loop in `folder`, with further flags of the compiler. Raises CalledProcessError."""
        self.weights, self.outputs = weights(network), network.interface.outputs
        library = (
            folder / f"star_step{''.join(flags)}.so"
        )  # a name of its own: a library of a known name is not read again
        subprocess.run(["cc", *FLAGS, *flags, "-shared", "-fPIC", str(SOURCE), "-o", str(library), "-lm"], check=True)
        self.library = ctypes.CDLL(str(library))

    def run(self, x: Tensor) -> Tensor:
        """Return the logits after each step, (time, outputs), from a state of zeros. x: (time, 1), float32."""
        logits, state = torch.empty(len(x), self.outputs), torch.zeros(LAYERS, UNITS)
        pointers = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (state, x, logits, self.weights))
        self.library.run(*pointers, len(x))
        return logits


@torch.no_grad()
def weights(network: RecurrentNetwork) -> Tensor:
    """Return all weights in the order in which the loop reads them; standardisation becomes part of the lowest layer."""
    parts: list[Tensor] = []
    mean, std = network.mean_std
    for depth, layer in enumerate(network.layers):
        values = layer.directions[0].state_dict()
        weight, bias = values["input.weight"], values["input.bias"]
        if depth == 0:
            weight, bias = weight / std, bias - weight.sum(1) * mean / std
        parts += [bias, weight.T.flatten(), values["cell.recurrent.weight"].T.flatten()]
    return torch.cat([*parts, network.head.bias, network.head.weight.T.flatten()])
