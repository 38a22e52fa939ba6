"""torch.nn.LSTM, GRU and RNN as networks of rnnzoo, and back.

The gates of the LSTM are in torch's order. The GRU's update gate weighs the new state here and the old one in torch, so
its weights are negated. torch has two biases where one is enough: `from_torch` adds them, and `to_torch` sets the second to
zero. Only the GRU's candidate needs both.
"""

from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from ..cells.elman import ACTIVATIONS
from ..errors import RequestError, faults, shown
from ..registry.schema import Architecture, Config, Interface
from ..utils.arguments import plain
from ..utils.torch_internals import forward_hooks
from .base import refuse_computed_weights, unwrapped
from .builder import STEPS, build
from .kernels.shared import overridden
from .recurrent import RecurrentNetwork

CELLS: dict[type[nn.RNNBase], str] = {nn.LSTM: "lstm", nn.GRU: "gru", nn.RNN: "rnn"}


@torch.no_grad()
def from_torch(layers: nn.RNNBase, outputs: int, *, seed: int = 0) -> RecurrentNetwork:
    """Return a network with the weights of torch.nn's layers and a fresh linear head, in eval mode.

    layers: an nn.LSTM, nn.GRU or nn.RNN without proj_size or hooks that compute weights. outputs: width of the head, whose values come from `seed`;
    0 for none.
    `network.encode` returns the outputs of the layers, batch first. Raises RequestError for other modules and for
    sizes that no network can have.
    """
    cell = CELLS.get(type(layers))
    if (
        cell is None or layers.proj_size or forward_hooks(layers)[0]
    ):  # a hook may compute weights when the module is called
        raise RequestError(
            "from_torch takes an nn.LSTM, nn.GRU or nn.RNN itself, no subclass, without proj_size, parametrizations, pruning and "
            f"forward pre-hooks; got {shown(layers)}."
        )
    options = {"gru": {"reset": "after"}, "rnn": {"activation": getattr(layers, "nonlinearity", "")}}.get(cell, {})
    try:
        architecture = Architecture(
            cell=cell, options=options, layers=layers.num_layers, units=layers.hidden_size, dropout=float(layers.dropout),
            bidirectional="concat" if layers.bidirectional else None,
        )  # fmt: skip
        interface = Interface(input=(layers.input_size,), steps=STEPS, outputs=plain(outputs), readout="last")
    except ValidationError as error:
        raise RequestError(f"No network can have these layers and outputs: {faults(error)}") from error
    sizes: dict[str, Any] = {
        "input_size": layers.input_size,
        "hidden_size": layers.hidden_size,
        "num_layers": layers.num_layers,
    }
    like = type(layers)(**sizes, bias=layers.bias, bidirectional=layers.bidirectional, device="meta")
    for name, of_these_sizes in like.named_parameters():
        if (shape := getattr(layers, name).shape) != of_these_sizes.shape:
            raise RequestError(
                f"{name} of these layers has the shape {tuple(shape)}; by their sizes it should be {tuple(of_these_sizes.shape)}."
            )
    config = Config(name=f"{architecture.prefix}-torch", architecture=architecture, interface=interface)
    weight = layers.weight_ih_l0
    network = build(config, device=weight.device, dtype=weight.dtype, seed=seed, allow_large=True).eval()  # type: ignore[arg-type]
    assert isinstance(network, RecurrentNetwork)
    for suffix, ours in _directions(network):
        w_x, w_h = (getattr(layers, f"weight_{kind}_{suffix}") for kind in ("ih", "hh"))
        zero = torch.zeros_like(w_x[:, 0])
        b_x, b_h = (getattr(layers, f"bias_{kind}_{suffix}") if layers.bias else zero for kind in ("ih", "hh"))
        if cell == "gru":
            w_x, w_h, b_x, b_h = (_turned(value) for value in (w_x, w_h, b_x, b_h))
            gates = 2 * layers.hidden_size
            ours["cell.gates.weight"].copy_(w_h[:gates])
            ours["cell.candidate.weight"].copy_(w_h[gates:])
            ours["cell.candidate.bias"].copy_(b_h[gates:])
            b_h = torch.cat([b_h[:gates], torch.zeros_like(b_h[gates:])])
        else:
            ours["cell.recurrent.weight"].copy_(w_h)
        ours["input.weight"].copy_(w_x)
        ours["input.bias"].copy_(b_x + b_h)
    return network


@torch.no_grad()
def to_torch(network: RecurrentNetwork) -> nn.RNNBase:
    """Return an nn.LSTM, nn.GRU or nn.RNN, batch first and in eval mode, with the outputs of the network's layers.

    Embedding, standardisation and head are left out. Raises RequestError for networks whose equations torch does not have or
    of which a method or an activation was replaced, and for those whose weights hooks or parametrizations of torch.nn.utils
    compute.
    """
    network = unwrapped(network)
    if not isinstance(network, RecurrentNetwork):
        raise RequestError(f"to_torch takes a RecurrentNetwork; got {shown(network)}.")
    spec, interface = network.config.architecture, network.interface
    kinds: dict[str, Any] = {name: kind for kind, name in CELLS.items()}
    more = spec.zoneout or spec.recurrent_dropout or spec.layer_norm or spec.kernel is not None or spec.block
    if spec.cell not in kinds or more or spec.bidirectional not in (None, "concat"):
        raise RequestError(
            f"torch.nn has no layers like those of {network.config.name}. to_torch takes lstm, gru and rnn, dense, without "
            "block, layer norm, zoneout and recurrent dropout, and bidirectional only by concat."
        )
    if spec.cell == "gru" and spec.options.get("reset", "before") != "after":
        raise RequestError(
            f"{network.config.name} resets before the recurrent product, nn.GRU after it: only reset=after can be converted."
        )
    refuse_computed_weights(network)
    options = {"nonlinearity": spec.options.get("activation", "tanh")} if spec.cell == "rnn" else {}
    activation = ACTIVATIONS[options["nonlinearity"]] if options else None
    cells = [direction.cell for layer in network.layers for direction in layer.directions]
    others = any(getattr(cell, "activation", None) is not activation for cell in cells)
    if others or any(overridden(m) for layer in network.layers for m in layer.modules()):
        raise RequestError(
            f"An activation or a method was set on a layer of {network.config.name}; torch.nn's layers would not use it."
        )
    inputs = spec.embedding.size if spec.embedding else interface.input[0]
    layers: nn.RNNBase = kinds[spec.cell](
        inputs, spec.units, spec.layers, batch_first=True, dropout=spec.dropout, bidirectional=bool(spec.bidirectional),
        device=network.device, dtype=network.dtype, **options,
    ).eval()  # fmt: skip
    for suffix, ours in _directions(network):
        w_x = ours["input.weight"]
        b_x = ours.get("input.bias", torch.zeros_like(w_x[:, 0]))
        b_h = torch.zeros_like(b_x)
        if spec.cell == "gru":
            w_h = torch.cat([ours["cell.gates.weight"], ours["cell.candidate.weight"]])
            b_h[2 * spec.units :] = ours.get("cell.candidate.bias", 0)
            w_x, w_h, b_x = (_turned(value) for value in (w_x, w_h, b_x))
        else:
            w_h = ours["cell.recurrent.weight"]
        for name, value in (("weight_ih", w_x), ("weight_hh", w_h), ("bias_ih", b_x), ("bias_hh", b_h)):
            getattr(layers, f"{name}_{suffix}").copy_(value)
    return layers


def _directions(network: RecurrentNetwork) -> list[tuple[str, dict[str, Tensor]]]:
    """Return, for every direction of every layer, torch's suffix, such as l0_reverse, and our parameters by name."""
    return [
        (f"l{depth}" + "_reverse" * i, dict(direction.named_parameters()))
        for depth, layer in enumerate(network.layers)
        for i, direction in enumerate(layer.directions)
    ]


def _turned(gates: Tensor) -> Tensor:
    """Return a GRU's parameters, `gates` (reset, update, candidate), with those of the update gate negated."""
    reset, update, candidate = gates.chunk(3)
    return torch.cat([reset, -update, candidate])
