"""One step of each of many cells against the same cell of torchrecurrent, with copied weights.

Where the two differ, a comment says who follows the paper.
"""

from typing import Any

import pytest
import torch
import torchrecurrent
from helpers import direction, network, normal, same
from torch import Tensor

from zoo.diagnostics.benchmark import contenders
from zoo.utils import paths

PEERS: dict[str, tuple[str, dict[str, Any]]] = {
    "antisymmetric": ("AntisymmetricRNN", {"epsilon": 0.3, "gamma": 0.2}),
    "antisymmetric-gated": ("GatedAntisymmetricRNN", {"epsilon": 0.3, "gamma": 0.2}),
    "atr": ("ATR", {}),
    "brc": ("BR", {}),
    "cfn": ("CFN", {}),
    "cornn": ("coRNN", {"dt": 0.3, "gamma": 0.7, "epsilon": 0.4}),
    "fastgrnn": ("FastGRNN", {}),
    "fastrnn": ("FastRNN", {}),
    "indrnn": ("IndRNN", {"activation": "tanh"}),
    "intersection": ("IntersectionRNN", {}),
    "janet": ("JANET", {"beta": 0.75}),
    "lem": ("LEM", {"dt": 0.3}),
    "gru": ("MUT2", {}),
    "ligru": ("LiGRU", {}),
    "lightru": ("LightRU", {}),
    "lstm-controller": ("MCLSTM", {}),
    "lstm-f": ("JANET", {}),
    "lstm-multiplicative": ("MultiplicativeLSTM", {}),
    "lstm-original": ("OriginalLSTM", {}),
    "lstm-peephole": ("PeepholeLSTM", {"peephole": "diagonal"}),
    "lstm-residual": ("ResLSTM", {}),
    "lstm-working": ("WMCLSTM", {}),
    "mgu": ("MGU", {}),
    "miru1": ("MiRU1", {"update": 0.3}),
    "miru2": ("MiRU2", {"update": 0.3, "beta": 0.6}),
    "minimalrnn": ("MinimalRNN", {}),
    "mut1": ("MUT1", {}),
    "mut3": ("MUT3", {}),
    "nas": ("NAS", {}),
    "nbrc": ("NBR", {}),
    "ran": ("RAN", {}),
    "scrn": ("SCRN", {"alpha": 0.75}),
    "dsgu": ("DSGU", {}),
    "sgrn": ("SGRN", {}),
    "sgu": ("SGU", {}),
    "star": ("STAR", {}),
    "taugru": ("tauGRU", {}),
    "tgru": ("TGRU", {}),
    "tlstm": ("TLSTM", {}),
    "trnn": ("TRNN", {}),
    "ugrnn": ("UGRNN", {}),
    "unicornn": ("UnICORNN", {"dt": 0.3, "alpha": 0.8}),
}
"""By cell: the class of the same cell in torchrecurrent, and the options of both."""
THEIR_OPTIONS = {
    "fastgrnn": {"nonlinearity": "sigmoid"},  # their default puts a tanh in the place of the gate's sigmoid
    "indrnn": {},
    "lstm-f": {"beta": 0.0},
    "lstm-peephole": {},
    "miru1": {"update_coefficient": 0.3},
    "miru2": {"update_coefficient": 0.3, "reset_coefficient": 0.6},
}
BLOCKS: dict[str, tuple[str, str]] = {  # their order of blocks in input and recurrent weights, in ours
    "gru": ("102", ""),
    "lem": ("1023", "102"),
    "lightru": ("10", ""),
    "lstm-multiplicative": ("12340", ""),
    "mut3": ("102", ""),
    "ran": ("120", "01"),
    "scrn": ("10", "0"),
    "dsgu": ("10", "0"),
    "sgu": ("10", "0"),
    "taugru": ("0231", "023"),
    "trnn": ("10", ""),
    "ugrnn": ("10", "10"),
}


def ordered(value: Tensor, order: str) -> Tensor:
    """Return the blocks of three rows in another order; those that `order` does not name are left out."""
    return torch.cat([value[3 * int(k) : 3 * int(k) + 3] for k in order])


def renamed(cell: str, w: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a peer's weights under the names of our cell."""
    to_inputs, to_recurrent = BLOCKS.get(cell, ("", ""))
    eye, zero = torch.eye(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    if cell == "ran":  # theirs has no bias on the content
        w = {**w, "bias_ih": torch.cat([zero, w["bias_ih"]])}
    recurrent = ordered(w["weight_hh"], to_recurrent) if to_recurrent else w.get("weight_hh")
    ours = {
        "input.weight": ordered(w["weight_ih"], to_inputs) if to_inputs else w["weight_ih"],
        "input.bias": ordered(w["bias_ih"], to_inputs) if to_inputs else w["bias_ih"],
        **({} if recurrent is None else {"cell.recurrent.weight": recurrent}),
    }
    match cell:
        case "cornn":
            ours |= {"cell.speed.weight": w["weight_ch"]}
        case "fastgrnn":
            gate, candidate = w["bias_ih"].chunk(2)
            ours |= {"input.bias": gate, "cell.offset": candidate - gate, "cell.zeta": w["zeta"], "cell.nu": w["nu"]}
        case "fastrnn":
            ours |= {"cell.alpha": w["alpha"], "cell.beta": w["beta"]}
        case "indrnn":
            ours |= {"cell.recurrent.weight": w["vector_u"]}
        case "intersection":  # theirs passes x itself
            ours |= {"input.weight": torch.cat([w["weight_ih"], eye]), "input.bias": torch.cat([w["bias_ih"], zero])}
        case "lem":
            ours |= {"cell.output.weight": w["weight_ch"]}
        case "lstm-multiplicative":
            ours |= {"cell.recurrent.weight": w["weight_mh"], "cell.multiplied.weight": w["weight_hh"]}
        case "lstm-peephole" | "lstm-residual":
            ours |= {"cell.old.weight": w["weight_ph"][:6], "cell.new.weight": w["weight_ph"][6:]}
            if cell == "lstm-residual":  # theirs has no bias on the shortcut
                ours |= {
                    "input.weight": torch.cat([w["weight_ih"], w["weight_res"]]),
                    "input.bias": torch.cat([w["bias_ih"], zero]),
                    "cell.projection.weight": w["weight_proj"],
                }
        case "lstm-working":
            ours |= {"cell.old.weight": w["weight_mh"][:6], "cell.new.weight": w["weight_mh"][6:]}
        case "mut1" | "mut3":
            names = {"mut1": ("reset", "candidate"), "mut3": ("update", "gates", "candidate")}[cell]
            del ours["cell.recurrent.weight"]
            ours |= {f"cell.{name}.weight": block for name, block in zip(names, w["weight_hh"].split(3), strict=True)}
            ours |= {"cell.candidate.bias": zero} if cell == "mut1" else {}
        case "dsgu" | "sgu":
            gate, candidate = ordered(w["weight_hh"], "1"), w.get("weight_ho")
            ours |= {"cell.gate.weight": gate, "cell.recurrent.bias": zero}
            ours |= {} if candidate is None else {"cell.candidate.weight": candidate}
        case "taugru":
            ours |= {"cell.delayed.weight": ordered(w["weight_hh"], "1")}
        case "tgru" | "tlstm":  # what theirs carries is the last input, ours its map
            ours = {
                "input.weight": torch.cat([w["weight_ih"], w["weight_hh"]]),
                "input.bias": torch.cat([w["bias_ih"], w["bias_hh"]]),
            }
        case "gru":
            del ours["cell.recurrent.weight"]
            ours |= {
                "cell.gates.weight": ordered(w["weight_hh"], "10"),
                "cell.candidate.weight": ordered(w["weight_hh"], "2"),
            }
        case "mgu" | "miru1":
            del ours["cell.recurrent.weight"]
            ours |= dict(zip(("cell.gate.weight", "cell.candidate.weight"), w["weight_hh"].chunk(2), strict=True))
        case "miru2":
            ours |= {"cell.candidate.weight": ours.pop("cell.recurrent.weight")}
        case "minimalrnn":
            ours |= {"cell.latent.weight": w["weight_mm"], "cell.recurrent.bias": zero}
        case "scrn":
            ours |= {"cell.context.weight": w["weight_ch"][:3]}
        case "unicornn":
            ours |= {"cell.scale": w["weight_ch"]}
    return ours


def step(cell: str, peer: torch.nn.Module, x: Tensor, h: Tensor, c: Tensor) -> tuple[tuple[Tensor, ...], ...]:
    """Return the states that our step starts from, and those that it should give, from a step of the peer."""
    match cell:
        case "intersection":  # theirs carries h and returns y beside it
            return (c, h), peer(x, h)
        case "janet":
            return (h,), peer(x, (h, h))[:1]
        case "lem":  # theirs computes y from the old z; the paper and its authors' code take the new one
            z = peer(x, (h, c))[1]
            return (h, c), (peer(x, (h, z))[0], z)
        case "lstm-controller":
            new_h, (new_v, new_c) = peer(x, (h, c))
            return (new_h, h, c), (new_h, new_v, new_c)
        case "lstm-f":  # JANET's is the cell state itself, of which "Gating revisited" (eq. 24) takes the tanh
            return (h,), (peer(x, (h, h))[0].tanh(),)
        case "scrn":  # theirs returns y = tanh(U h + V s): with U = 1 and V = 0, that is the tanh of our h
            y, s = peer(x, (h, c))
            return (torch.cat([h, c], 1),), (torch.cat([torch.atanh(y), s], 1),)
        case "dsgu" | "sgu":  # their hard sigmoid has the slope 1 / 6, that of the paper's time 1 / 5
            peer.gate_act.forward = lambda a: (0.2 * a + 0.5).clamp(0, 1)
            return (h,), (peer(x, h),)
        case "taugru":
            return (h, c), (peer(x, h, c), h)
        case "tgru":
            return (h, c @ peer.weight_hh.T), (peer(x, (h, c))[0], x @ peer.weight_hh.T)
        case "tlstm":
            new_h, (new_c, _) = peer(x, (h, c))
            return (c, h, c @ peer.weight_hh.T), (new_h, new_c, x @ peer.weight_hh.T)
    if len(network(cell).layers[0].forward_direction.cell.states) == 2:
        return (h, c), peer(x, (h, c))
    return (h,), (peer(x, h),)


@pytest.mark.parametrize("cell", PEERS)
def test_equals_torchrecurrent(cell: str) -> None:
    name, options = PEERS[cell]
    torch.manual_seed(0)
    peer = getattr(torchrecurrent, f"{name}Cell")(3, 3, **THEIR_OPTIONS.get(cell, options)).double()
    with torch.no_grad():
        for key, p in peer.named_parameters():
            if p.dim():  # a number is an option
                p.zero_() if key in ("bias_hh", "bias_ch", "bias_mh") else p.copy_(
                    torch.randn_like(p)
                )  # one bias is enough
        if cell == "scrn":
            peer.weight_hh[3:], peer.weight_ch[3:] = torch.eye(3), 0.0
        if cell == "nas":  # theirs adds x_3 and m_3, which TensorFlow Addons multiplies: both are zero here
            peer.weight_ih[9:12], peer.bias_ih[9:12], peer.weight_hh[9:12] = 0.0, 0.0, 0.0
    net = network(cell, layers=1, units=3, inputs=(3,), options=options)
    ours, copied = direction(net), renamed(cell, {key: p.detach() for key, p in peer.named_parameters()})
    assert ours.keys() == copied.keys()
    with torch.no_grad():
        for key, value in copied.items():
            ours[key].copy_(value)
    x, h, c = normal(4, 3), normal(4, 3, seed=1), normal(4, 3, seed=2)
    states, expected = step(cell, peer, x, h, c)
    same(net.step(x, (states,))[1][0], expected)


def test_every_counterpart_of_the_benchmark_is_an_equal() -> None:
    assert contenders.TORCHRECURRENT.items() <= {cell: name for cell, (name, _) in PEERS.items()}.items()


def test_the_document_counts_them() -> None:
    text = paths.path("docs", "cells.md").read_text()
    assert f"one step of each of {len(PEERS)} cells equals" in text
