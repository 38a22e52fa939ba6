"""torch.nn's layers become networks and come back, and put out the same."""

import copy

import pytest
import torch
from helpers import network, normal, same
from torch import nn
from torch.nn.utils import prune

from zoo import from_torch, to_torch
from zoo.errors import RequestError
from zoo.networks.recurrent import RecurrentNetwork

LAYERS = {
    "lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN, "relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k),
}  # fmt: skip


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", LAYERS)
def test_layers_put_out_the_same_here_and_back_in_torch(
    kind: str, layers: int, bidirectional: bool, bias: bool
) -> None:
    torch.manual_seed(0)
    module = LAYERS[kind](3, 5, layers, bidirectional=bidirectional, bias=bias, batch_first=True, dtype=torch.float64)
    net, x = from_torch(module, outputs=2), normal(4, 6, 3)
    expected = module(x)[0]
    same(net.encode(x)[0], expected)
    assert net(x).shape == (4, 2)
    same(to_torch(net)(x)[0], expected)
    same(from_torch(to_torch(net), outputs=2).encode(x)[0], expected)


def test_a_network_keeps_its_weights_when_torch_has_them() -> None:
    net = network("gru reset=after", layers=2, inputs=(3,))
    assert isinstance(net, RecurrentNetwork)
    before = copy.deepcopy(net.state_dict())
    layers = to_torch(net)
    with torch.no_grad():
        layers.weight_ih_l0.zero_()
    same(net.state_dict(), before, 0)


@pytest.mark.parametrize("module", [nn.LSTM(2, 4, proj_size=3), nn.Linear(2, 2), nn.LSTMCell(2, 2)])
def test_other_modules_are_refused(module: nn.Module) -> None:
    with pytest.raises(RequestError, match="without proj_size"):
        from_torch(module, outputs=2)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated")
def test_weights_that_hooks_compute_are_refused() -> None:
    # they may be out of date until the module is called
    layers = nn.utils.weight_norm(nn.LSTM(2, 4, batch_first=True), "weight_hh_l0")
    pruned = nn.GRU(2, 4)
    prune.random_unstructured(pruned, "weight_hh_l0", 0.5)
    for module in (layers, pruned):
        with pytest.raises(RequestError, match="without proj_size, parametrizations, pruning"):
            from_torch(module, outputs=2)


def test_a_compiled_network_is_taken_out() -> None:
    net = network("lstm", dtype=torch.float32)
    assert isinstance(to_torch(torch.compile(net, backend="eager")), nn.LSTM)


@pytest.mark.parametrize(
    ("case", "spec", "words"),
    [
        ("star shift=0.0", {}, "torch.nn has no layers"),
        ("gru reset=before", {}, "resets before"),
        ("lstm", {"zoneout": 0.1}, "torch.nn has no layers"),
        ("lstm", {"bidirectional": "sum"}, "torch.nn has no layers"),
        ("lstm", {"kernel": 3, "inputs": (2, 4, 4)}, "torch.nn has no layers"),
    ],
)
def test_what_torch_does_not_have_is_refused(case: str, spec: dict[str, object], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        to_torch(network(case, **spec))  # type: ignore[arg-type]


@pytest.mark.parametrize("change", ["activation", "step", "product"])
def test_what_was_set_on_a_layer_is_not_lost(change: str) -> None:
    net = network("rnn", layers=2)
    direction = net.layers[1].forward_direction
    match change:
        case "activation":
            direction.cell.activation = torch.relu
        case "step":
            direction.cell.step = lambda x, state: (x[0],)  # type: ignore[method-assign]
        case "product":
            direction.cell.recurrent.product = lambda s, plus: plus  # type: ignore[method-assign]
    with pytest.raises(RequestError, match=r"on a layer of small; torch\.nn's layers would not use it"):
        to_torch(net)


@pytest.mark.parametrize("case", ["lstm", "gru reset=after", "rnn"])
def test_a_bias_that_was_taken_away_is_zero(case: str) -> None:
    net, x = network(case, layers=2), normal(4, 6, 2)
    for layer in net.layers:
        layer.forward_direction.input.bias = None
    same(to_torch(net)(x)[0], net.encode(x)[0])


@pytest.mark.parametrize(
    ("name", "shape"), [("weight_hh_l0", (16, 1)), ("weight_ih_l1", (16, 5)), ("bias_ih_l0", (4,))]
)
def test_weights_of_other_shapes_than_the_sizes_say_are_refused(name: str, shape: tuple[int, ...]) -> None:
    layers = nn.LSTM(3, 4, 2)
    setattr(layers, name, nn.Parameter(torch.zeros(shape)))
    with pytest.raises(RequestError, match=rf"{name} of these layers has the shape \({shape[0]},"):
        from_torch(layers, outputs=2)


def test_dropout_between_layers_goes_along() -> None:
    net = from_torch(nn.LSTM(2, 4, 2, dropout=0.25, batch_first=True), outputs=3)
    assert net.config.architecture.dropout == net.dropout.p == 0.25
    layers = to_torch(net)
    assert layers.dropout == 0.25
    assert not layers.training


@pytest.mark.parametrize(
    "spec", [{"recurrent_dropout": 0.2}, {"layer_norm": True}, {"block": {"norm": "rms"}}], ids=str
)
def test_what_is_added_to_the_equations_is_not_lost(spec: dict[str, object]) -> None:
    with pytest.raises(RequestError, match=r"torch\.nn has no layers"):
        to_torch(network("lstm", **spec))  # type: ignore[arg-type]
