"""Dropout, zoneout and layer norm."""

import math
from itertools import pairwise

import pytest
import reference
import torch
from helpers import (
    CASES,
    can,
    config,
    direction,
    each,
    flatten,
    in_each_form,
    network,
    random_state,
    same,
    stepped,
)
from marks import batch, dense_and_conv, each_cell_with_zoneout, shape
from torch import Tensor

from zoo.cells import CELLS
from zoo.cells.projections import Projection
from zoo.networks import builder
from zoo.networks.layer import Direction


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("cell", "rate"), [(cell, rate) for cell in CELLS for rate in ("dropout", "recurrent_dropout") if can(cell, rate)]
)
def test_dropout_is_off_in_eval_mode(cell: str, rate: str) -> None:
    spec = {rate: 0.5}
    net, x = network(cell, **spec), batch(network())
    for _ in range(2):
        same(net.eval()(x), network(cell)(x))
        net.train()(x)  # leaves nothing behind


def test_dropout_acts_between_layers_only() -> None:
    torch.manual_seed(0)
    net = network(layers=3, units=40, dropout=0.3, train=True)
    seen: list[Tensor] = []
    for layer in net.layers:
        layer.directions[0].input.register_forward_pre_hook(lambda _, args: seen.append(args[0].transpose(0, 1)))
    x = batch(net, 10)
    outputs = net.features(x)
    same(seen[0], x)
    for below, above in zip(outputs[:-1], seen[1:], strict=True):
        kept = above != 0
        same(above, torch.where(kept, below / 0.7, 0))
        assert abs(kept.double().mean() - 0.7) < 0.05
    single = network(layers=1, dropout=0.9, train=True)
    same(single(batch(single)), single.eval()(batch(single)))  # nothing after the last layer


def test_dropout_acts_in_steps_as_in_sequences() -> None:
    net = network(dropout=0.5, train=True, units=40)
    x = batch(net, 1, 1)
    net.backend = "plain"
    torch.manual_seed(0)
    drawn = torch.stack([net.step(x[:, 0])[0] for _ in range(300)])
    assert drawn.std(0).min() > 0.1
    torch.manual_seed(1)
    other = torch.stack([net(x) for _ in range(300)])
    assert ((drawn.mean(0) - other.mean(0)).abs() < 5 * drawn.std(0) * math.sqrt(2 / 300)).all()


def test_recurrent_dropout_has_one_mask_for_all_steps() -> None:
    """With U = I, no input and a rectifier, a dropped unit is zero from the first step on and a kept one doubles."""
    torch.manual_seed(0)
    net = network("irnn", layers=1, units=200, recurrent_dropout=0.5, train=True)
    with torch.no_grad():
        for name, p in direction(net).items():
            p.copy_(torch.eye(200)) if name == "cell.recurrent.weight" else p.zero_()
    x, ones = batch(net, 5), ((torch.ones(5, 200, dtype=torch.float64),),)
    outputs, _ = net.encode(x, ones)
    kept = outputs[:, :1] > 0
    same(outputs, kept.double() * 2 ** torch.arange(1, 7)[:, None])
    assert abs(kept.double().mean() - 0.5) < 0.06
    assert all(not torch.equal(a, b) for a, b in pairwise(kept))  # each sequence of the batch has its own
    assert not torch.equal(net.encode(x, ones)[0] > 0, outputs > 0)  # and so has the next batch


@each("case", CASES, "recurrent_dropout")
def test_recurrent_dropout_acts_on_the_input_of_every_recurrent_map(case: str) -> None:
    """The maps of a network without dropout, given inputs with the same entries dropped, do the same."""
    torch.manual_seed(0)
    net, plain = network(case, recurrent_dropout=0.4, train=True), network(case)
    masks: dict[str, list[Tensor]] = {}
    for name, m in net.named_modules():
        if isinstance(m, Projection):
            masks[name] = []
            m.register_forward_pre_hook(lambda m, _, seen=masks[name]: seen.append(m.mask))
    logits, plain.backend = net(x := batch(net, 1)), "plain"
    for name, seen in masks.items():
        if name.endswith((".input", ".latent", ".present.0")):  # maps of the input alone
            assert seen == [None]
            continue
        assert len(seen) == 6
        assert all(torch.equal(a, b) for a, b in pairwise(seen))
        mask = seen[0]
        assert set(mask[0].tolist()) <= {0.0, 1 / 0.6}
        plain.get_submodule(name).register_forward_pre_hook(lambda _, args, mask=mask: (args[0] * mask, *args[1:]))
    same(logits, plain(x))
    assert not torch.allclose(logits, network(case)(x))


@pytest.mark.sampled(3)
@each_cell_with_zoneout
def test_zoneout_in_eval_mode_is_the_expectation(cell: str) -> None:
    net, plain = network(cell, zoneout=0.3), network(cell)
    x, state = batch(net), random_state(net, 3)
    h = x
    for layer, (old, one) in enumerate(zip(state, plain.layers, strict=True)):
        outputs = []
        for t in range(6):
            new = one.scan(h[None, :, t], old, None, None, Direction.scan)[1]
            old = tuple(0.7 * n + 0.3 * o for n, o in zip(new, old, strict=True))
            outputs.append(old[0])
        h = torch.stack(outputs, 1)
        same(net.encode(x, state)[1][layer], old)
    same(net.encode(x, state)[0], h)
    same(stepped(net, x), [net(x[:, : t + 1]) for t in range(6)])


@each_cell_with_zoneout
def test_zoneout_keeps_states_at_random_in_training(cell: str) -> None:
    torch.manual_seed(0)
    net, plain = network(cell, layers=1, zoneout=0.3, train=True), network(cell, layers=1)
    x, old = batch(net, 1, 1).expand(2000, -1, -1), random_state(net, 1)
    new = plain.encode(x[:1], old)[1]
    drawn = net.encode(x, tuple(tuple(s.expand(2000, -1) for s in parts) for parts in old))[1]
    kept = []
    for d, o, n in zip(flatten(drawn), flatten(old), flatten(new), strict=True):
        kept.append(d == o)
        same(d, torch.where(d == o, o, n))
        changes = (n != o).expand_as(d)  # the last unit of lstm-ordered never does
        assert abs((d == o)[changes].double().mean() - 0.3) < 0.03
    assert all(not torch.equal(a, b) for a, b in pairwise(kept))  # h and c each have their own


def test_zoneout_has_its_probability_in_low_precision() -> None:
    torch.manual_seed(0)
    net = network(layers=1, units=100, zoneout=0.001, train=True, dtype=torch.bfloat16)
    kept = net.encode(torch.zeros(300, 1, 2).bfloat16(), ((9 * torch.ones(300, 100).bfloat16(),),))[0] == 9
    assert abs(kept.double().mean() - 0.001) < 0.0007


@in_each_form("cell", CELLS, "zoneout")
def test_zoneout_of_probability_near_one_keeps_the_state(cell: str, kernel: int | None) -> None:
    net = network(cell, zoneout=1 - 1e-12, kernel=kernel, inputs=shape(kernel))
    state = random_state(net, 3)
    for training in (True, False):
        same(net.train(training).encode(batch(net), state)[1], state, 1e-8)


def norm(weight: Tensor, bias: Tensor, a: Tensor) -> Tensor:
    """Layer normalisation over all but the batch, Ba et al. 2016, eq. 3-4, with torch's epsilon."""
    dims = tuple(range(1, a.dim()))
    mean, variance = a.mean(dims, keepdim=True), a.var(dims, correction=0, keepdim=True)
    scaled = (a - mean) / (variance + 1e-5).sqrt()
    return scaled * reference.channels(weight, a) + reference.channels(bias, a)


@dense_and_conv
def test_layer_norm_is_equation_20(kernel: int | None) -> None:
    """LN(W_h h) + LN(W_x x) + b for the four gates of an LSTM at once, and a cell state that is not normalised."""
    net = network("lstm", layers=1, layer_norm=True, kernel=kernel, inputs=shape(kernel))
    w, x, ((h, c),) = direction(net), batch(net, steps=2), random_state(net, 3)
    outputs, final = net.encode(x, ((h, c),))
    for t in range(2):
        gates = norm(w["input.norm.weight"], w["input.norm.bias"], reference.linear(w["input.weight"], x[:, t]))
        product = reference.linear(w["cell.recurrent.weight"], h)
        gates = gates + norm(w["cell.recurrent.norm.weight"], w["cell.recurrent.norm.bias"], product)
        i, f, z, o = (gates + reference.channels(w["input.bias"], h)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * z.tanh()
        h = o.sigmoid() * c.tanh()
        same(outputs[:, t], h)
    same(final, ((h, c),))


def test_layer_norm_leaves_gate_biases_alone() -> None:
    """With no input and no state, a forget gate opens as far as its bias says: sigmoid(1)."""
    spec = config("lstm", layers=1, layer_norm=True, init={"gate_bias": "one"})
    net = builder.build(spec, device="cpu", dtype=torch.float64)
    zero, one = torch.zeros(1, 3, dtype=torch.float64), torch.ones(1, 3, dtype=torch.float64)
    _, ((_, c),) = net.encode(torch.zeros(1, 1, 2, dtype=torch.float64), ((zero, one),))
    same(c, torch.sigmoid(one))
