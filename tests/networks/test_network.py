"""A network around its cells: layers, head, steps, states and readouts."""

import math

import pytest
import reference
import torch
from helpers import (
    READOUTS,
    can,
    config,
    direction,
    flatten,
    network,
    normal,
    random_state,
    same,
    stepped,
    weights,
)
from marks import (
    batch,
    channels,
    dense_and_conv,
    each_cell,
    each_cell_in_each_form,
    each_cell_with_a_readout,
    each_merge,
    each_readout,
    merged,
    shape,
)

from zoo import build
from zoo.cells import CELLS, cell_class
from zoo.cells.linear import LinearRecurrence
from zoo.cells.matrix import MatrixRecurrence
from zoo.errors import RequestError
from zoo.networks import builder

NO_FEEDBACK = [
    "intersection",
    "lstm-controller",
    "lstm-mass",
    "tlstm",
    *(cell for cell in CELLS if issubclass(cell_class(cell), LinearRecurrence | MatrixRecurrence)),
]


# The network as a whole


@each_merge
@dense_and_conv
@each_readout
def test_a_network_is_its_layers_and_a_head(merge: str | None, kernel: int | None, readout: str) -> None:
    net = network("lstm", bidirectional=merge, kernel=kernel, inputs=shape(kernel), readout=readout, mean=0.5, std=2.0,
                  standardize=True)  # fmt: skip
    x = batch(net)
    h = (x - 0.5) / 2
    for layer in range(2):
        zero = (normal(3, 3, *net.interface.input[1:]) * 0,) * 2
        outputs = [reference.run("lstm", direction(net, layer), h, zero)[0]]
        if merge:
            outputs.append(reference.run("lstm", direction(net, layer, 1), h.flip(1), zero)[0].flip(1))
        h = merged(merge, *outputs)
    same(net.encode(x)[0], h)
    # each direction after the whole sequence: for the backward one, that is the first step
    last = merged(merge, *(output[:, t : t + 1] for output, t in zip(outputs, (5, 0), strict=False)))[:, 0]
    h = {"last": last, "mean": h.mean(1), "every": h}[readout]
    h = h if kernel is None else h.mean((-1, -2))
    same(net(x), h @ net.head.weight.T + net.head.bias)


def test_input_is_standardised_only_where_asked() -> None:
    plain, asked = network(mean=0.5, std=2.0), network(mean=0.5, std=2.0, standardize=True)
    x = batch(plain)
    same(plain(x), network()(x))
    same(asked(x), plain((x - 0.5) / 2))
    same(asked.step(x[:, 0])[0], plain.step((x[:, 0] - 0.5) / 2)[0])


# Steps and states


@pytest.mark.sampled(2)
@each_cell_in_each_form
@pytest.mark.parametrize("readout", ["mean", "every"])  # the last of every is the last
def test_steps_equal_the_sequence(cell: str, readout: str, kernel: int | None) -> None:
    net = network(cell, readout=readout, kernel=kernel, inputs=shape(kernel))
    x = batch(net, steps=4)
    prefixes = [net(x[:, : t + 1]) for t in range(4)]
    same(stepped(net, x), list(net(x).unbind(1)) if readout == "every" else prefixes)


@each_cell_with_a_readout
def test_steps_go_on_from_a_sequence(cell: str, readout: str) -> None:
    net = network(cell, readout=readout)
    x = batch(net)
    _, state = net.encode(x[:, :2])
    _, state = net.encode(x[:, 2:-1], state)
    whole = net(x)
    same(net.step(x[:, -1], state)[0], whole[:, -1] if readout == "every" else whole)


@each_readout
def test_steps_go_on_from_sequences_of_any_lengths(readout: str) -> None:
    net = network("lstm", readout=readout)
    x, lengths = batch(net), [2, 5, 1]
    _, state = net.encode(x, lengths=torch.tensor(lengths))
    logits, _ = net.step(last := batch(net, steps=1)[:, 0], state)
    alone = [net(torch.cat([x[i : i + 1, :n], last[i : i + 1, None]], 1)) for i, n in enumerate(lengths)]
    same(logits, torch.cat([a[:, -1] if readout == "every" else a for a in alone]))


@each_cell_in_each_form
def test_two_halves_equal_the_whole(cell: str, kernel: int | None) -> None:
    net = network(cell, kernel=kernel, inputs=shape(kernel))
    x = batch(net)
    whole, end = net.encode(x)
    first, middle = net.encode(x[:, :2])
    second, final = net.encode(x[:, 2:], middle)
    same(torch.cat([first, second], 1), whole)
    same(final, end)
    assert not torch.allclose(net.encode(x[:, 2:])[0], second)  # the state passed on is used


@each_cell
def test_the_state_passed_to_a_step_is_used(cell: str) -> None:
    net = network(cell)
    x, state = batch(net)[:, 0], random_state(net, 3)
    logits, new = net.step(x, state)
    outputs, final = net.encode(x[:, None], state)
    same(logits, net.head(outputs[:, 0]))
    same(new, final)
    same(net.step(x)[1], net.step(x, net.initial_state(3))[1])  # none is zero
    for layer, parts in enumerate(state):
        for i in range(len(parts)):  # every part counts
            if cell in NO_FEEDBACK and len(parts) > 1 and i == 0:  # an output that is no memory
                continue
            if cell == "gru-d" and i == 1:  # the last number, which only a missing value reads
                continue
            other = [list(parts) for parts in state]
            other[layer][i] = parts[i] + 1
            changed = flatten(net.step(x, tuple(map(tuple, other)))[1])
            assert not all(map(torch.allclose, changed, flatten(new))), (layer, i)


@each_cell
@pytest.mark.parametrize("merge", [None, "concat"])
def test_initial_state_is_zero_and_in_shape(cell: str, merge: str | None) -> None:
    net = network(cell, layers=2, units=3, bidirectional=merge, dtype=torch.float32)
    layers = 1 if CELLS[cell].layers_inside else 2
    shapes = [
        [(5, size) for size in channels(cell, 2, 3, inputs)] * (1 if merge is None else 2) for inputs in (2, net.width)
    ]
    state = net.initial_state(5)
    assert [[tuple(s.shape) for s in parts] for parts in state] == shapes[:layers]
    assert all(s.dtype == torch.float32 and not s.any() for s in flatten(state))


def test_initial_state_of_images_and_of_a_mean() -> None:
    net = network(kernel=3, inputs=(2, 4, 5), units=3)
    assert [[tuple(s.shape) for s in parts] for parts in net.initial_state(7)] == [[(7, 3, 4, 5)]] * 2
    *layers, (total, count) = network("lstm", readout="mean").initial_state(7)
    assert len(layers) == 2
    assert (total.shape, count.shape) == ((7, 3), (7,))
    assert not total.any() | count.any()


@pytest.mark.sampled(3)
@each_cell_in_each_form
def test_features_are_every_layers_outputs(cell: str, kernel: int | None) -> None:
    net = network(cell, layers=3, kernel=kernel, inputs=shape(kernel))
    x, lengths = batch(net), torch.tensor([6, 1, 3])
    for some_lengths in (None, lengths):
        features = net.features(x, some_lengths)
        assert len(features) == (1 if CELLS[cell].layers_inside else 3)
        assert {f.shape for f in features} == {(3, 6, channels(cell, 3, 3)[0], *shape(kernel)[1:])}
        same(features[-1], net.encode(x, lengths=some_lengths)[0])
    _, state = net.encode(x[:, :2])
    for whole, rest in zip(net.features(x), net.features(x[:, 2:], state=state), strict=True):
        same(rest, whole[:, 2:])
    if not CELLS[cell].layers_inside:
        zero = tuple(torch.zeros_like(s) for s in net.initial_state(3)[0])
        same(net.features(x)[0], reference.run(cell, direction(net), x, zero)[0])
        assert not net.features(x, lengths)[0][1, 1:].any()


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("kernel", [None, 3])
@pytest.mark.parametrize("lengths", [None, [6, 1, 3]])
def test_pooled_is_the_input_of_the_head(readout: str, kernel: int | None, lengths: list[int] | None) -> None:
    net = network("gru", kernel=kernel, inputs=shape(kernel), readout=readout)
    x = batch(net)
    pooled = net.pooled(x, lengths)
    assert pooled.shape == ((3, 6, 3) if readout == "every" else (3, 3))
    logits = net.head(pooled)
    if readout == "every" and lengths is not None:
        assert not pooled[1, 1:].any()
        assert not pooled[2, 3:].any()
        logits = torch.where(torch.arange(6)[:, None] < torch.tensor(lengths)[:, None, None], logits, 0)
    assert torch.equal(logits, net(x, lengths))


# The head and the readouts


def test_reset_head_keeps_the_body() -> None:
    net = network(outputs=4, readout="mean")
    old, body, x = net.config, {k: v.clone() for k, v in weights(net, "layers.").items()}, batch(net)
    encoded = net.encode(x)[0]
    net.reset_head(7)
    assert (net(x).shape, net.head.weight.dtype) == ((3, 7), torch.float64)
    assert old.interface.outputs == 4
    interface = old.interface.model_copy(update={"outputs": 7, "classes": ()})
    assert (old.name, old.architecture.prefix) == ("small", "star-2x3")
    assert net.config == old.model_copy(update={"name": "star-2x3", "interface": interface})
    same(weights(net, "layers."), body, 0)
    same(net.encode(x)[0], encoded, 0)
    builder.build(net.config, device="cpu", dtype=torch.float64).load_state_dict(net.state_dict())
    net.reset_head(7)
    same(net(x), net.head(encoded.mean(1)))


def test_a_linear_head_starts_by_glorot() -> None:
    net = builder.build(config(units=200, outputs=100), device="cpu")
    heads = [net.head]
    net.reset_head(100)
    heads.append(net.head)
    bound = math.sqrt(6 / (200 + 100))
    for head in heads:
        assert 0.98 * bound < head.weight.abs().max() <= bound
        assert not head.bias.any()


def test_reset_head_starts_afresh() -> None:
    net = network(outputs=4)
    before = net.head.weight.clone()
    net.reset_head(4)
    assert not torch.allclose(net.head.weight, before)
    assert net.head.weight.requires_grad
    with pytest.raises(ValueError, match="outputs"):
        net.reset_head(-1)


@pytest.mark.parametrize("merge", [None, "concat"])
def test_the_mean_is_over_each_sequences_own_steps(merge: str | None) -> None:
    net = network("gru", readout="mean", bidirectional=merge)
    x = batch(net)
    same(net(x), net.head(net.encode(x)[0].mean(1)))
    lengths = torch.tensor([1, 6, 4])
    outputs = net.encode(x, lengths=lengths)[0]
    same(net(x, lengths), net.head(torch.stack([o[:n].mean(0) for o, n in zip(outputs, lengths, strict=True)])))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_a_running_mean_survives_low_precision(dtype: torch.dtype) -> None:
    """bfloat16 cannot count beyond 256, nor float16 beyond 2048; a long stream must not notice."""
    net, wide = network(layers=1, readout="mean", dtype=dtype), network(layers=1, readout="mean")
    x, state = normal(1, 1, 2).expand(1, 2500, 2).to(dtype), None
    with torch.no_grad():
        for x_t in x.unbind(1):
            logits, state = net.step(x_t, state)
    same(logits.double(), wide(x.double()), 0.02)
    same(net(x).double(), wide(x.double()), 0.02)


# Building by name


@pytest.mark.parametrize("cell", CELLS)
def test_any_cell_is_built_by_its_size_and_shapes(cell: str) -> None:
    net = build(f"{cell}-2x4", inputs=3, outputs=5, device="cpu", seed=7)
    assert net(torch.rand(2, 6, 3)).shape == (2, 5)
    same(net.state_dict(), build(f"{cell}-2x4", inputs=3, outputs=5, device="cpu", seed=7).state_dict(), 0)
    if can(cell, "kernel"):
        images = build(f"biconv{cell}-1x4", inputs=(3, 6, 5), outputs=2, device="cpu")
        assert images(torch.rand(2, 4, 3, 6, 5)).shape == (2, 2)


@pytest.mark.parametrize(
    ("name", "shapes", "words"),
    [
        ("lstm-2x4", {"inputs": 3}, "`inputs` and `outputs` go together"),
        ("lstmm-2x4", {"inputs": 3, "outputs": 2}, "Did you mean lstm-2x32"),
        ("lstm-0x4", {"inputs": 3, "outputs": 2}, "lstm-0x4 cannot be built: layers"),
        ("convlstm-1x4", {"inputs": 3, "outputs": 2}, "the input must be"),
        ("lstm-1x4", {"inputs": 3, "outputs": -1}, "outputs"),
    ],
)
def test_what_cannot_be_built_by_its_name_says_why(name: str, shapes: dict[str, int], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        build(name, **shapes)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif("fbgemm" not in torch.backends.quantized.supported_engines, reason="needs torch's int8 kernels")
def test_dynamic_quantisation_replaces_the_head_alone_as_the_guide_says() -> None:
    net = network("lstm", layers=2).float()
    quantised = pytest.importorskip("torch.ao.quantization").quantize_dynamic(net, dtype=torch.qint8)
    assert type(quantised.head) is not type(net.head)
    kept = dict(quantised.layers.named_parameters())
    assert kept.keys() == dict(net.layers.named_parameters()).keys()
    assert all(p.dtype == torch.float32 for p in kept.values())


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("cell", ["lstm", "star", "qrnn", "mingru"])
def test_forward_goes_on_from_a_state(cell: str, readout: str) -> None:
    net = network(cell, readout=readout)
    x, lengths = batch(net), torch.tensor([6, 5, 4])
    _, state = net.encode(x[:, :3])
    whole, rest = net(x, lengths), net(x[:, 3:], lengths - 3, state=state)
    same(rest, whole[:, 3:] if readout == "every" else whole)
    same(net(x[:, 3:], state=state), net(x)[:, 3:] if readout == "every" else net(x))
    with pytest.raises(RequestError, match="The state does not fit"):
        net(x, state=net.initial_state(2))
