"""Networks without a head, which return what a head would read."""

import shutil
from pathlib import Path

import pytest
import torch
from helpers import CELLS, READOUTS, each, network, normal, same, stepped
from torch import Tensor, nn

from zoo import build, export, generate, load
from zoo.data.answers import answer
from zoo.data.listening import Listener
from zoo.diagnostics.subject import sample
from zoo.errors import CheckpointError, RequestError
from zoo.networks import sizes

X = normal(3, 6, 2)
TOOLS = {"onnx": (), "pt2": (), "c": ("cc",), "wasm": ("clang", "wasm-ld", "node")}
"""The programs that an export needs."""
LENGTHS = torch.tensor([4, 6, 1])


@each("cell", CELLS)
def test_returns_what_a_head_of_the_same_body_reads(cell: str) -> None:
    net, headed = network(cell, outputs=0), network(cell)
    assert net.state_dict().keys() == headed.state_dict().keys() - {"head.weight", "head.bias"}
    headed.load_state_dict(net.state_dict(), strict=False)
    same(net(X, LENGTHS), headed.pooled(X, LENGTHS), 0)
    same(net.encode(X), headed.encode(X), 0)


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize(
    ("cell", "fields"), [("star", {}), ("lru", {"bidirectional": "concat"}), ("gru", {"kernel": 3})]
)
def test_each_readout(cell: str, fields: dict[str, object], readout: str) -> None:
    x = normal(3, 6, 2, 4, 3) if "kernel" in fields else X
    net = network(cell, outputs=0, readout=readout, inputs=x.shape[2:], **fields)
    pooled = net.pooled(x, LENGTHS)
    if readout == "every":
        pooled = pooled * (torch.arange(6) < LENGTHS[:, None])[..., None]
    same(net(x, LENGTHS), pooled, 0)
    same(net.resume(x, lengths=LENGTHS)[0], pooled, 1e-12)
    resets = torch.rand(3, 6, generator=torch.Generator().manual_seed(1)) < 0.3
    assert net(x, resets=resets).shape == net(x).shape
    if "bidirectional" not in fields:
        whole = net(x) if readout != "every" else net(x)[:, -1]
        same(stepped(net, x)[-1], whole, 1e-12)


@pytest.mark.parametrize("readout", READOUTS)
def test_a_stream_returns_it_after_every_step(readout: str) -> None:
    net = network("lstm", dtype=torch.float32, outputs=0, readout=readout)
    same(net.stream().steps(X.float())[0], torch.stack(stepped(net, X.float()), 1), 1e-6)


def test_the_body_is_drawn_as_that_of_a_network_with_a_head() -> None:
    bodies = [build("lstm-2x8", inputs=6, outputs=outputs, seed=4, device="cpu") for outputs in (0, 3)]
    without, headed = (net.state_dict() for net in bodies)
    assert (bodies[0].output_size, bodies[1].output_size) == (8, 3)
    for name, tensor in without.items():
        assert torch.equal(tensor, headed[name])
    assert sizes.parameters(bodies[1]) - sizes.parameters(bodies[0]) == 3 * 9
    assert sizes.multiply_adds(bodies[1]) - sizes.multiply_adds(bodies[0]) == 3 * 8


def test_pretrained_weights_lose_their_head_and_get_one_again(tmp_path: Path) -> None:
    whole = load("gru-1x128-mnist-rows", device="cpu")
    x = torch.rand(2, 28, 28)
    for net in (load("gru-1x128-mnist-rows", device="cpu", classes=0), whole):
        read = whole.pooled(x)
        if net is whole:
            net.reset_head(0)
        assert torch.equal(net(x), read)
        assert (net.classes, net.output_names, net.interface.outputs, net.output_size) == ((), (), 0, 128)
        net.save_pretrained(tmp_path)
        assert torch.equal(load(tmp_path, device="cpu")(x), read)
    whole.reset_head(["a", "b"])
    assert (whole(x).shape, whole.classes) == ((2, 2), ("a", "b"))


def test_the_feed_forward_network_has_none_either() -> None:
    net = build("mlp-2x5", inputs=4, outputs=0, device="cpu")
    assert net(torch.rand(3, 4)).shape == (3, 5)


class Policy(nn.Module):
    """A module of a user's own around recurrent layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = build("gru-1x8", inputs=4, outputs=0, device="cpu")
        self.action, self.value = nn.Linear(8, 3), nn.Linear(8, 1)

    def forward(self, x: Tensor, state: object, resets: Tensor) -> tuple[Tensor, Tensor, object]:
        hidden, state = self.layers.encode(x, state, resets=resets)
        return self.action(hidden), self.value(hidden), state


def test_it_trains_within_a_module() -> None:
    policy, x = Policy(), torch.rand(2, 5, 4)
    actions, values, state = policy(x, None, torch.zeros(2, 5, dtype=torch.bool))
    (actions.sum() + values.sum()).backward()
    assert all(p.grad is not None and p.grad.any() for p in policy.parameters())
    hidden, _ = policy.layers.step(x[:, 0], state)
    assert hidden.shape == (2, 8)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("format", "readout"),
    [("onnx", "mean"), *((each, readout) for each in TOOLS if each != "onnx" for readout in READOUTS)],
)
def test_it_is_exported(format: str, readout: str, tmp_path: Path) -> None:
    net = network("star", dtype=torch.float32, outputs=0, readout=readout)
    if missing := [tool for tool in TOOLS[format] if shutil.which(tool) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    (written,) = export(net, format=format, out=tmp_path)  # which compares the file with the network
    assert written.checked.difference < 1e-4


@pytest.mark.parametrize("backend", ["auto", "plain"])
def test_outputs_share_no_memory_with_states(backend: str) -> None:
    net = network("lstm", dtype=torch.float32, outputs=0)
    net.backend = backend
    with torch.no_grad():
        for y, state in (net.step(X[:, 0].float()), net.resume(X.float())):
            kept = [s.clone() for layer in state for s in layer]
            y.fill_(7.0)
            same([s for layer in state for s in layer], kept, 0)


def test_a_head_set_by_hand_is_not_lost_on_saving(tmp_path: Path) -> None:
    net = network(dtype=torch.float32, outputs=0)
    net.head = nn.ReLU()
    with pytest.raises(CheckpointError, match="its head is one without weights"):
        net.save_pretrained(tmp_path)


def test_a_new_head_is_on_the_device_of_the_network() -> None:
    net = network(outputs=0)
    with torch.device("meta"):
        net.reset_head(3)
    assert net(X).shape == (3, 3)


def test_what_needs_a_head_says_so(tmp_path: Path) -> None:
    net = network(dtype=torch.float32, outputs=0)
    with pytest.raises(RequestError, match="small has no head to answer with"):
        answer(net, X[:1].float())
    net.save_pretrained(tmp_path)
    with pytest.raises(RequestError, match="small has no head, and this analysis needs a loss"):
        sample(str(tmp_path), net.config)
    assert sample(str(tmp_path), net.config, examples=5, needs="data").x.shape[0] == 5
    with pytest.raises(RequestError, match="gru-1x128 has no head to answer with"):
        Listener(load("gru-1x128-fsdd", device="cpu", classes=0))
    with pytest.raises(RequestError, match="predicts neither text nor music"):
        generate(load("gru-2x128-piano", device="cpu", classes=0))
