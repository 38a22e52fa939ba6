"""Blocks: what holds of every network holds with normalisation, residual sums, convolution, gate and feed-forward network."""

import copy

import pytest
import torch
from pydantic import ValidationError
from torch.nn import functional as F

from zoo import build
from zoo.errors import RequestError
from zoo.exports import graphs
from zoo.networks.block import Norm
from zoo.networks.kernels import diagonal
from zoo.registry.schema import Architecture, Config, Interface
from zoo.registry.schema.blocks import BlockSpec

FEED_FORWARD = {"width": 10}
BLOCKS = {
    "griffin": {"norm": "rms", "convolution": 4, "gate": "gelu", "feed_forward": FEED_FORWARD},
    "s5": {"norm": "batch", "activation": "gelu", "width": 6},
    "post": {
        "norm": "layer",
        "norm_position": "after",
        "feed_forward": {"width": 9, "gated": False, "activation": "relu"},
    },
    "memory": {"residual": False, "feed_forward": FEED_FORWARD},
    "bare": {"norm": None, "residual": False, "convolution": 2},
}
CASES = [
    (cell, name, kernel)
    for name in BLOCKS
    for cell in ("lstm", "lru")
    for kernel in (None, 3)
    if cell == "lru" or not kernel
]
STEPS = 9
CLOSED_FORM = diagonal._closed_form


def network(cell="lru", block="griffin", kernel=None, readout="last", inputs=3, layers=2, **fields):
    options = {"options": {"expand": 2, "min_radius": 0.5}} if cell == "lru" else {}
    spec = {"cell": cell, "layers": layers, "units": 8, "kernel": kernel, "block": BLOCKS[block], **options, **fields}
    shape = (inputs,) if kernel is None else (inputs, 4, 5)
    interface = Interface(input=shape, steps=STEPS, outputs=5, readout=readout)
    return build(
        Config(name="net", task="none", architecture=Architecture.model_validate(spec), interface=interface)
    ).eval()


def sample(net, batch=4, steps=STEPS, seed=0):
    return torch.randn(batch, steps, *net.interface.input, generator=torch.Generator().manual_seed(seed))


def close(actual, expected, tolerance=2e-5):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("cell", "block", "kernel"), CASES)
@pytest.mark.parametrize("readout", ["last", "mean"])
def test_scans_steps_parts_and_padding_agree(cell, block, kernel, readout):
    net = network(cell, block, kernel, readout)
    x = sample(net)
    logits = net(x)
    net.backend = "plain"
    close(net(x), logits)
    close(net.trace(x)[0], logits)
    net.backend = "auto"
    state = None
    for t in range(STEPS):
        stepped, state = net.step(x[:, t], state)
    close(stepped, logits)
    outputs, state = net.encode(x[:, :4])
    close(net(x[:, 4:], state=state), logits)
    close(net.features(x[:, :4])[-1], outputs)
    lengths = torch.tensor([STEPS, 6, 2, 1])
    padded = x.clone()
    for row, length in enumerate(lengths):
        padded[row, length:] = 7.0
        close(net(padded, lengths)[row], net(x[row : row + 1, :length])[0])


@pytest.mark.parametrize("cell", ["lstm", "mingru", "rg-lru"])
@pytest.mark.parametrize("block", ["griffin", "bare", "post"])
def test_scans_agree_under_autocast(cell, block):
    net = network(cell, block, None, "last").float()
    x = sample(net).float()
    by_backend = {}
    for net.backend in ("fused", "plain"):
        with torch.autocast("cpu", torch.bfloat16):
            by_backend[net.backend] = net(x).float()
    close(by_backend["fused"], by_backend["plain"], 0.03)


@pytest.mark.parametrize("block", BLOCKS)
def test_gradients_of_the_fast_scan_are_those_of_the_plain_one(block):
    net = network("lru", block, inputs=1, layers=1)
    gradients = {}
    for backend in ("plain", "auto"):
        net.backend = backend
        net.zero_grad()
        net(sample(net)).square().sum().backward()
        gradients[backend] = {name: p.grad for name, p in net.named_parameters() if p.grad is not None}
    assert gradients["plain"].keys() == gradients["auto"].keys()
    for name, expected in gradients["plain"].items():
        close(gradients["auto"][name], expected, 1e-4)


@pytest.mark.parametrize("cell", ["lru", "s4d", "s5"])
@pytest.mark.parametrize("inputs", [1, 3, 6])
def test_the_last_state_of_a_constant_recurrence_in_closed_form(cell, inputs, monkeypatch):
    """With few inputs one product takes the place of the scan; here over enough steps that powers of a would show errors."""
    net = network(cell, "memory", inputs=inputs, layers=1)
    x = sample(net, steps=700)
    products = []
    monkeypatch.setattr(diagonal, "_closed_form", lambda *given: products.append(None) or CLOSED_FORM(*given))
    fast = net(x)
    double = copy.deepcopy(net).double()
    double.backend = "plain"
    close(fast.double(), double(x.double()), 1e-4)
    assert len(products) == (inputs <= diagonal.FEW_INPUTS)


@pytest.mark.parametrize("block", ["griffin", "post"])
def test_two_directions_within_a_block(block):
    net = network("lstm", block, bidirectional="concat", readout="mean")
    x, lengths = sample(net), torch.tensor([STEPS, 6, 2, 1])
    padded = x.clone()
    for row, length in enumerate(lengths):
        padded[row, length:] = 7.0
        close(net(padded, lengths)[row], net(x[row : row + 1, :length])[0])


@pytest.mark.parametrize(
    ("block", "kind"), [("griffin", "sequence"), ("griffin", "step"), ("s5", "sequence"), ("post", "step")]
)
def test_a_graph_of_blocks_takes_every_state_by_its_name(block, kind):
    net = network("lstm", block).requires_grad_(False)
    described = graphs.graph(net, kind)
    assert ("window_1" in described.inputs) == (block == "griffin")
    x = sample(net, steps=5) if kind == "sequence" else sample(net, steps=1)[:, 0]
    _, state = net.encode(sample(net, steps=3, seed=1))
    states = [s for layer in state for s in layer]
    lengths = {"lengths": torch.tensor([5, 4, 3, 1])} if kind == "sequence" else {}
    logits, *new_states = described.trace().module()(x, *lengths.values(), *states)
    expected, new_state = net.resume(x, state, **lengths) if kind == "sequence" else net.step(x, state)
    close(logits, expected)
    for actual, new in zip(new_states, (s for layer in new_state for s in layer), strict=True):
        close(actual, new)


def test_a_griffin_block_is_its_equations():
    net = network("lstm", "griffin", layers=1).double()
    x = sample(net).double()
    block, direction = net.layers[0].block, net.layers[0].forward_direction

    def linear(projection, value):
        return value @ projection.weight.T + projection.bias

    def rms(norm, value):
        return value / (value.square().mean(-1, keepdim=True) + 1.1920929e-07).sqrt() * norm.norm.weight

    residual = linear(block.enter, x)
    read = rms(block.norm, residual)
    padded = F.pad(read, (0, 0, 3, 0))
    taps = direction.convolution.weight
    convolved = direction.convolution.bias + sum(taps[j] * padded[:, 3 - j : 3 - j + STEPS] for j in range(4))
    h = torch.stack(direction.scan(convolved.transpose(0, 1), direction.zero_states(x[:, 0]))[0], 1)
    y = residual + linear(block.output, h * F.gelu(linear(block.gate, read)))
    u = rms(block.feed_forward_norm, y)
    z = y + linear(block.down, F.gelu(linear(block.up, u)) * linear(block.up_gate, u))
    close(net(x), net.head(rms(block.final_norm, z)[:, -1]), 1e-10)


def test_truncation_cuts_the_convolution_too():
    net = network("lstm", "griffin", layers=1)
    net.tbptt_steps = 4
    x = sample(net).requires_grad_()
    net(x)[0].sum().backward()
    assert x.grad[0, :8].abs().max() == 0  # the last part is step 8 alone
    assert x.grad[0, 8].abs().max() > 0


def test_small_inputs_of_an_rms_norm_have_one_value_in_every_precision():
    net = network("gru", "griffin")
    x = 1e-4 * sample(net)
    close(net(x).double(), copy.deepcopy(net).double()(x.double()))


def test_batch_norm_counts_valid_steps_only():
    norm = Norm("batch", 3, -1)
    norm.norm.reset_parameters()
    x = sample(network(), batch=2).transpose(0, 1)
    lengths = torch.tensor([STEPS, 2])
    padded = x.clone()
    padded[2:, 1] = 100.0
    valid = torch.cat([x[:, 0], x[:2, 1]])
    close(norm(padded, lengths)[:, 0], (x[:, 0] - valid.mean(0)) / (valid.var(0, unbiased=False) + 1e-5).sqrt(), 1e-4)


def test_dropout_acts_in_training_only():
    net = network(dropout=0.5)
    x = sample(net)
    assert torch.equal(net(x), net(x))
    net.train()
    assert not torch.equal(net(x), net(x))


def test_activation_checkpointing_changes_nothing():
    net = network()
    x, expected = sample(net), None
    for every in (None, 4):
        net.checkpoint_every = every
        net.zero_grad()
        logits = net(x)
        logits.sum().backward()
        gradient = net.layers[0].block.enter.weight.grad.clone()
        if expected is not None:
            close(logits, expected[0])
            close(gradient, expected[1], 1e-4)
        expected = logits.detach(), gradient


@pytest.mark.parametrize("block", BLOCKS)
def test_a_saved_network_is_the_same_network(block, tmp_path):
    net = network("lstm", block)
    net.save_pretrained(tmp_path / "net")
    x = sample(net)
    assert torch.equal(type(net).from_pretrained(tmp_path / "net")(x), net(x))


def test_the_name_says_it():
    net = build("blocklstm-2x8", inputs=3, outputs=2)
    assert net.config.architecture.prefix == "blocklstm-2x8"
    assert "block" not in build("lstm-2x8", inputs=3, outputs=2).config.architecture.model_dump()


def test_what_no_network_can_have():
    net = network("lstm", "s5").train()
    net.checkpoint_every = 3
    with pytest.raises(RequestError, match="batch norm"):
        net(sample(net))
    with pytest.raises(ValidationError, match="no last step"):
        network(bidirectional="sum")
    with pytest.raises(ValidationError, match="norm_position"):
        network(block="bare", layers=1).config.architecture.block.model_validate(
            {"norm": None, "norm_position": "after"}
        )
    with pytest.raises(RequestError, match="no compiled steps"):
        network().stream()


def test_a_block_in_words():
    block = {"width": 16, "norm": "rms", "convolution": 4, "gate": "gelu"}
    words = "width 16, rms norm before each part, residual, causal convolution over 4 steps, gelu gate"
    feed = "feed-forward 48, gelu"
    assert BlockSpec(**block).text == words
    assert BlockSpec(**block, feed_forward={"width": 48, "gated": False}).text == f"{words}, {feed}"
    assert BlockSpec(**block, feed_forward={"width": 48, "gated": True}).text == f"{words}, gated {feed}"


def test_a_block_without_a_residual_normalises_after_its_layer(monkeypatch):
    """The lowest layer reads the input as it is, but its output is normalised."""
    monkeypatch.setitem(BLOCKS, "alone", {"norm": "layer", "norm_position": "after", "residual": False})
    net = network("lstm", "alone", layers=1, readout="every")
    x, direction = sample(net), net.layers[0].forward_direction
    h = torch.stack(direction.scan(x.transpose(0, 1), direction.zero_states(x[:, 0]))[0], 1)
    close(net(x), net.head(F.layer_norm(h, (8,))))


def test_dropout_acts_on_all_that_is_added():
    """If everything is dropped, of the layer's output and of the feed-forward network's, the residual alone is left."""
    net = network("lstm", "griffin", layers=1, dropout=0.5).train()
    block, x = net.layers[0].block, sample(net)
    block.dropout.p = 1.0
    close(net(x), net.head(block.final_norm(block.enter(x))[:, -1]))


@pytest.mark.parametrize("cell", ["gla", "mamba2", "mlstm", "retention", "rwkv6", "rwkv7"])
def test_blocks_keep_the_outputs_of_deep_matrix_cells_of_a_size(cell):
    """The page on cells says that without them, these outputs overflow or vanish."""
    x = torch.randn(4, 100, 6, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        plain, blocks = (build(f"{kind}{cell}-4x64", inputs=6, outputs=3, device="cpu")(x) for kind in ("", "block"))
    assert 0.1 < blocks.abs().max() < 10
    largest = plain.abs().max()
    assert largest < 1e-9 if cell == "mlstm" else not largest <= 1e9
