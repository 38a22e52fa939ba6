"""One step of each cell of the atlas against the same cell of torchrecurrent, with copied weights.

Where the two depart, a comment says who follows the paper.
"""

from typing import Any

import pytest
import torch
import torchrecurrent
from helpers import direction, network, normal, same
from torch import Tensor

from zoo.cells import CELLS

PEERS: dict[str, tuple[str, dict[str, Any]]] = {
    "atr": ("ATR", {}),
    "brc": ("BR", {}),
    "cfn": ("CFN", {}),
    "cornn": ("coRNN", {"dt": 0.3, "gamma": 0.7, "epsilon": 0.4}),
    "fastgrnn": ("FastGRNN", {}),
    "fastrnn": ("FastRNN", {}),
    "janet": ("JANET", {"beta": 0.75}),
    "lem": ("LEM", {"dt": 0.3}),
    "ligru": ("LiGRU", {}),
    "mgu": ("MGU", {}),
    "minimalrnn": ("MinimalRNN", {}),
    "nbrc": ("NBR", {}),
    "ran": ("RAN", {}),
    "scrn": ("SCRN", {"alpha": 0.75}),
    "ugrnn": ("UGRNN", {}),
    "unicornn": ("UnICORNN", {"dt": 0.3, "alpha": 0.8}),
}
"""By cell: the class of the same cell in torchrecurrent, and the options of both."""
THEIR_OPTIONS = {
    "fastgrnn": {"nonlinearity": "sigmoid"}
}  # their default puts a tanh in the place of the gate's sigmoid
BLOCKS: dict[str, tuple[str, str]] = {  # their order of blocks in input and recurrent weights, in ours
    "lem": ("1023", "102"),
    "ran": ("120", "01"),
    "scrn": ("10", "0"),
    "ugrnn": ("10", "10"),
}


def ordered(value: Tensor, order: str) -> Tensor:
    """Return the blocks of three rows in another order; those that `order` does not name are left out."""
    return torch.cat([value[3 * int(k) : 3 * int(k) + 3] for k in order])


def renamed(cell: str, w: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a peer's weights under the names of our cell."""
    to_inputs, to_recurrent = BLOCKS.get(cell, ("", ""))
    zero = torch.zeros(3, dtype=torch.float64)
    if cell == "ran":  # theirs has no bias on the content
        w = {**w, "bias_ih": torch.cat([zero, w["bias_ih"]])}
    recurrent = ordered(w["weight_hh"], to_recurrent) if to_recurrent else w["weight_hh"]
    ours = {
        "input.weight": ordered(w["weight_ih"], to_inputs) if to_inputs else w["weight_ih"],
        "input.bias": ordered(w["bias_ih"], to_inputs) if to_inputs else w["bias_ih"],
        "cell.recurrent.weight": recurrent,
    }
    match cell:
        case "cornn":
            ours |= {"cell.speed.weight": w["weight_ch"]}
        case "fastgrnn":
            gate, candidate = w["bias_ih"].chunk(2)
            ours |= {"input.bias": gate, "cell.offset": candidate - gate, "cell.zeta": w["zeta"], "cell.nu": w["nu"]}
        case "fastrnn":
            ours |= {"cell.alpha": w["alpha"], "cell.beta": w["beta"]}
        case "lem":
            ours |= {"cell.output.weight": w["weight_ch"]}
        case "mgu":
            del ours["cell.recurrent.weight"]
            ours |= dict(zip(("cell.gate.weight", "cell.candidate.weight"), w["weight_hh"].chunk(2), strict=True))
        case "minimalrnn":
            ours |= {"cell.latent.weight": w["weight_mm"], "cell.recurrent.bias": zero}
        case "scrn":
            ours |= {"cell.context.weight": w["weight_ch"][:3]}
        case "unicornn":
            ours |= {"cell.scale": w["weight_ch"]}
    return ours


def theirs_of(cell: str, peer: torch.nn.Module, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    """Return the peer's new states, in our order."""
    if cell == "scrn":  # theirs returns y = tanh(U h + V s): with U = 1 and V = 0, that is the tanh of our h
        y, s = peer(x, (h, c))
        return (torch.cat([torch.atanh(y), s], 1),)
    if cell == "janet":
        return peer(x, (h, h))[:1]
    if cell == "lem":  # theirs computes y from the old z; the paper and its authors' code take the new one
        z = peer(x, (h, c))[1]
        return peer(x, (h, z))[0], z
    out = peer(x, (h, c) if len(network(cell).layers[0].forward_direction.cell.states) == 2 else h)
    return out if isinstance(out, tuple) else (out,)


@pytest.mark.parametrize("cell", PEERS)
def test_equals_torchrecurrent(cell: str) -> None:
    name, options = PEERS[cell]
    torch.manual_seed(0)
    peer = getattr(torchrecurrent, f"{name}Cell")(3, 3, **(THEIR_OPTIONS.get(cell) or options)).double()
    with torch.no_grad():
        for key, p in peer.named_parameters():
            if p.dim():  # a number is an option
                p.zero_() if key in ("bias_hh", "bias_ch") else p.copy_(torch.randn_like(p))  # one bias is enough
        if cell == "scrn":
            peer.weight_hh[3:], peer.weight_ch[3:] = torch.eye(3), 0.0
    net = network(cell, layers=1, units=3, inputs=(3,), options=options)
    ours, copied = direction(net), renamed(cell, {key: p.detach() for key, p in peer.named_parameters()})
    assert ours.keys() == copied.keys()
    with torch.no_grad():
        for key, value in copied.items():
            ours[key].copy_(value)
    x, h, c = normal(4, 3), normal(4, 3, seed=1), normal(4, 3, seed=2)
    states = (torch.cat([h, c], 1),) if cell == "scrn" else (h, c)[: len(net.layers[0].forward_direction.cell.states)]
    same(net.step(x, (states,))[1][0], theirs_of(cell, peer, x, h, c))


def test_every_peer_is_a_cell() -> None:
    assert PEERS.keys() <= CELLS.keys()
