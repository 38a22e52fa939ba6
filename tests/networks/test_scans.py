"""The wavefront equals the plain scan or is refused; truncated backpropagation."""

from collections.abc import Callable

import pytest
import reference
import torch
from helpers import (
    CASES,
    direction,
    flatten,
    gradients,
    network,
    random_state,
    same,
    score,
)
from marks import batch, each_cell

from zoo.cells import CELLS, cell_class
from zoo.cells.base import RawInputCell
from zoo.errors import RequestError
from zoo.networks.network import Network

STACKED = [
    case for case, (cell, _) in CASES.items()
    if not CELLS[cell].layers_inside and not getattr(cell_class(cell), "complex_state", False)
    and not issubclass(cell_class(cell), RawInputCell)
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", STACKED)
@pytest.mark.parametrize(("layers", "steps"), [(2, 7), (3, 1), (5, 2), (3, 3)])
def test_the_wavefront_equals_the_plain_scan(case: str, layers: int, steps: int) -> None:
    net = network(case, layers=layers)
    x, state, results = batch(net, steps=steps).requires_grad_(), random_state(net, 3), {}
    of = {"x": x, **dict(net.named_parameters()), **{str(i): s for i, s in enumerate(flatten(state))}}
    for net.backend in ("plain", "fused", "auto"):
        outputs, final = net.encode(x, state)
        results[net.backend] = [outputs, final, gradients(score([outputs, *flatten(final)]), of), net(x)]
    same(results["fused"], results["plain"])
    same(results["auto"], results["plain"])


def test_the_wavefront_ignores_what_it_computes_beyond_the_end() -> None:
    """Lower layers that have done their last step may overflow while the upper ones still run."""
    net = network("rin", layers=5)
    with torch.no_grad():
        for layer in range(5):
            direction(net, layer)["cell.recurrent.weight"].fill_(1e200)
            direction(net, layer)["input.bias"].fill_(1)
    x, results = batch(net, steps=1), {}
    for net.backend in ("plain", "fused"):
        outputs, final = net.encode(x)
        results[net.backend] = [outputs, final, gradients(score([outputs]), dict(net.named_parameters()))]
    same(results["fused"], results["plain"])


IMPOSSIBLE = {
    "one layer": {"layers": 1},
    "images": {"kernel": 3, "inputs": (2, 3, 4)},
    "two directions": {"bidirectional": "sum"},
    "norm": {"layer_norm": True},
    "zoneout": {"zoneout": 0.5},
    "dropout": {"dropout": 0.5, "train": True},
    "recurrent dropout": {"recurrent_dropout": 0.5, "train": True},
}


@pytest.mark.parametrize("spec", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_the_wavefront_is_refused_where_it_cannot_run(spec: dict[str, object]) -> None:
    net = network(**spec)
    net(batch(net))
    net.backend = "fused"
    with pytest.raises(RequestError, match="No fused or linear scan can run small"):
        net(batch(net))


def _without_bias(net: Network, layer: int) -> None:
    net.layers[layer].forward_direction.input.bias = None


def _as_tensors(net: Network) -> None:
    for layer in net.layers:
        recurrent = layer.forward_direction.cell.recurrent
        weight = recurrent.weight.detach()
        del recurrent.weight
        recurrent.weight = weight


def test_layers_are_alike_that_made_the_same_function_each() -> None:
    net = network(layers=3)
    x = batch(net)
    expected = net(x)
    for layer in net.layers:
        layer.forward_direction.cell.squashing = (lambda: lambda value: value)()
    net.backend = "fused"
    same(net(x), expected)
    for layer in net.layers:  # equal code that means something else
        layer.forward_direction.cell.squashing = eval("lambda value: f(value)", {"f": torch.tanh})
    with pytest.raises(RequestError, match="No fused or linear scan"):
        net(x)
    net.layers[1].forward_direction.cell.squashing = lambda value: -value
    with pytest.raises(RequestError, match="No fused or linear scan"):
        net(x)


UNLIKE: dict[str, Callable[[Network], object]] = {
    "a bias less": lambda net: _without_bias(net, 1),
    "a bias less on top": lambda net: _without_bias(net, 2),
    "an option": lambda net: setattr(net.layers[1].forward_direction.cell, "shift", 1.0),
    "a cell": lambda net: net.layers.__setitem__(1, network("rin", layers=1, inputs=(3,)).layers[0]),
    "a cell of two states": lambda net: net.layers.__setitem__(1, network("lstm", layers=1, inputs=(3,)).layers[0]),
    "no parameters": _as_tensors,
    "a step": lambda net: setattr(net.layers[1].forward_direction, "step", lambda x, state: state),
}


@pytest.mark.parametrize("change", UNLIKE.values(), ids=UNLIKE)
def test_the_wavefront_is_refused_where_layers_are_not_alike(change: Callable[[Network], object]) -> None:
    net = network(layers=3)
    x = batch(net)
    change(net)
    expected, net.backend = net(x), "fused"
    with pytest.raises(RequestError, match="No fused or linear scan"):
        net(x)
    net.backend = "plain"
    same(net(x), expected, 0)


def test_the_wavefront_is_refused_with_lengths_and_truncation() -> None:
    net = network()
    x, net.backend = batch(net), "fused"
    net(x)
    with pytest.raises(RequestError, match="No fused or linear scan"):
        net(x, torch.tensor([6, 6, 6]))
    net.tbptt_steps = 2
    with pytest.raises(RequestError, match="No fused or linear scan"):
        net(x)


@pytest.mark.parametrize("spec", [{"dropout": 0.5}, {"recurrent_dropout": 0.5}], ids=lambda s: next(iter(s)))
def test_the_wavefront_runs_again_where_regularisers_rest(spec: dict[str, object]) -> None:
    net = network(**spec)
    net.backend = "fused"
    same(net(batch(net)), network()(batch(net)))


def test_unknown_backends_are_refused() -> None:
    net = network()
    net.backend = "fast"
    with pytest.raises(RequestError, match=r"'fast'.*'auto', 'plain' or 'fused'"):
        net(batch(net))


@pytest.mark.sampled(3)
@each_cell
@pytest.mark.parametrize("layers", [1, 3])
def test_truncation_equals_detaching_between_chunks(cell: str, layers: int) -> None:
    net = network(cell, layers=layers)
    x, parameters = batch(net, steps=7), dict(net.named_parameters())
    pieces, state = [], None
    for chunk in x.split(3, 1):
        piece, state = net.encode(chunk, state)
        state = tuple(tuple(s.detach() for s in parts) for parts in state)
        pieces.append(piece)
    expected = torch.cat(pieces, 1)
    free = net.encode(x)[0]
    net.tbptt_steps = 3
    outputs = net.encode(x)[0]
    same(outputs, free)
    cut = gradients(score([outputs]), parameters)
    same(cut, gradients(score([expected]), parameters))
    whole = gradients(score([free]), parameters)
    assert not all(torch.allclose(cut[name], whole[name]) for name in cut)


def test_truncation_cuts_both_directions() -> None:
    """Each direction is cut after every `tbptt_steps` of its own steps."""
    net = network("lstm", layers=1, bidirectional="concat")
    x, parameters, net.tbptt_steps = batch(net, steps=7), dict(net.named_parameters()), 3
    outputs = []
    for index, sequence in enumerate((x, x.flip(1))):
        pieces, state = [], (torch.zeros(3, 3, dtype=torch.float64),) * 2
        for chunk in sequence.split(3, 1):
            piece, state = reference.run("lstm", direction(net, 0, index), chunk, tuple(s.detach() for s in state))
            pieces.append(piece)
        outputs.append(torch.cat(pieces, 1))
    expected = torch.cat([outputs[0], outputs[1].flip(1)], 2)
    same(gradients(score([net.encode(x)[0]]), parameters), gradients(score([expected]), parameters))


@pytest.mark.parametrize("name", ["tbptt_steps", "checkpoint_every"])
@pytest.mark.parametrize("steps", [0, -1, 1.5, True, "2", 2**63])
def test_steps_that_are_no_numbers_of_steps(name: str, steps: object) -> None:
    net = network()
    setattr(net, name, steps)
    with pytest.raises(RequestError, match=f"{name} is {steps!r}; it can be None or an integer from 1"):
        net(batch(net))
