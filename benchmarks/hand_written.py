"""Compiles and runs star_step.c, a hand-written loop with which the C of an exported STAR network is compared in speed."""

import ctypes
import subprocess
from pathlib import Path

import torch
from torch import Tensor

from zoo.exports.c.building import FLAGS
from zoo.networks.recurrent import RecurrentNetwork

SOURCE = Path(__file__).with_name("star_step.c")
LAYERS, UNITS = 16, 64


class HandWritten:
    """A STAR network of 16 layers of 64 units whose time steps star_step.c computes."""

    def __init__(self, network: RecurrentNetwork, folder: Path, *flags: str):
        """Compile the loop in `folder`. flags: for the compiler, after those with which rnnzoo compiles an exported header. Raises CalledProcessError if that fails."""
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
    """Return all weights, (n,), in the order in which the loop reads them. The first layer's include the standardisation."""
    parts: list[Tensor] = []
    mean, std = network.mean_std
    for depth, layer in enumerate(network.layers):
        values = layer.directions[0].state_dict()
        weight, bias = values["input.weight"], values["input.bias"]
        if depth == 0:
            weight, bias = weight / std, bias - weight.sum(1) * mean / std
        parts += [bias, weight.T.flatten(), values["cell.recurrent.weight"].T.flatten()]
    return torch.cat([*parts, network.head.bias, network.head.weight.T.flatten()])
