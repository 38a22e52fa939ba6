"""Sequences of several lengths, and networks of two directions."""

import math
from itertools import product

import pytest
import torch
from helpers import (
    MERGES,
    READOUTS,
    direction,
    flatten,
    gradients,
    network,
    random_state,
    same,
    score,
)
from marks import batch, channels, each_cell, each_cell_with, each_readout, merged
from torch import Tensor

from zoo.errors import RequestError
from zoo.networks.network import Network

# Lengths


@pytest.mark.sampled(3)
@each_cell_with(
    "cell, merge, readout", product([None, *MERGES], READOUTS), [(None, "every"), ("concat", "mean"), ("sum", "last")]
)
def test_padding_changes_nothing(cell: str, merge: str | None, readout: str) -> None:
    """Logits and gradients of a batch padded with NaN are those of its sequences run one by one."""
    net = network(cell, bidirectional=merge, readout=readout)
    assert_padding_changes_nothing(net, batch(net, 3, 4), [4, 1, 2])


@pytest.mark.parametrize("merge", [None, "concat"])
@each_readout
def test_padding_changes_nothing_in_images(merge: str | None, readout: str) -> None:
    net = network("lstm", kernel=3, inputs=(2, 3, 4), bidirectional=merge, readout=readout)
    assert_padding_changes_nothing(net, batch(net, 3, 4), [2, 4, 1])


@pytest.mark.parametrize("cell", ["rnn activation=relu", "irnn", "rin", "rin-dt"])
def test_padding_changes_nothing_where_the_state_would_grow_without_bound(cell: str) -> None:
    """Rectified states that go on growing in the padding overflow there, and infinity times zero is not a number."""
    net = network(cell, layers=1)
    with torch.no_grad():
        direction(net)["cell.recurrent.weight"].fill_(1e60)
        direction(net)["input.bias"].fill_(1)
    assert_padding_changes_nothing(net, batch(net, 2, 12), [1, 2])


def assert_padding_changes_nothing(net: Network, x: Tensor, lengths: list[int]) -> None:
    readout, parameters = net.interface.readout, dict(net.named_parameters())
    ragged = [row[:length].clone().requires_grad_() for row, length in zip(x, lengths, strict=True)]
    padded = x.clone()
    for row, length in zip(padded, lengths, strict=True):
        row[length:] = math.nan
    padded.requires_grad_()

    logits = net(padded, torch.tensor(lengths))
    alone = [net(row[None])[0] for row in ragged]
    if readout == "every":
        assert all(not row[length:].any() for row, length in zip(logits, lengths, strict=True))
        logits = torch.cat([row[:length] for row, length in zip(logits, lengths, strict=True)])
        alone = [torch.cat(alone)]
    else:
        alone = [torch.stack(alone)]
    same(logits, alone[0])
    scale = logits.detach().abs().max()
    together = gradients(score([logits / scale]), {"x": padded, **parameters})
    one_by_one = gradients(score([alone[0] / scale]), {**{str(i): r for i, r in enumerate(ragged)}, **parameters})
    for i, length in enumerate(lengths):
        same(together["x"][i, :length], one_by_one.pop(str(i)))
        assert not together["x"][i, length:].any()
    together.pop("x")
    same(together, one_by_one)


@pytest.mark.sampled(3)
@each_cell
@pytest.mark.parametrize("merge", [None, "concat"])
def test_encode_stops_at_each_length(cell: str, merge: str | None) -> None:
    net = network(cell, bidirectional=merge)
    x, lengths, state = batch(net, 3, 5), [2, 5, 1], random_state(net, 3)
    outputs, final = net.encode(x, state, lengths=torch.tensor(lengths))
    for i, length in enumerate(lengths):
        start = tuple(tuple(s[i : i + 1] for s in parts) for parts in state)
        alone, end = net.encode(x[i : i + 1, :length], start)
        same(outputs[i, :length], alone[0])
        assert not outputs[i, length:].any()
        same([s[i : i + 1] for s in flatten(final)], flatten(end))


@each_readout
@pytest.mark.parametrize("merge", [None, "concat"])
def test_full_lengths_change_nothing(readout: str, merge: str | None) -> None:
    net = network("gru", readout=readout, bidirectional=merge)
    x = batch(net)
    same(net(x, torch.tensor([6, 6, 6])), net(x))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
@pytest.mark.parametrize("merge", [None, "sum"])
def test_lengths_may_be_any_integers(dtype: torch.dtype, merge: str | None) -> None:
    net = network(bidirectional=merge)
    x = batch(net)
    expected = torch.cat([net(x[i : i + 1, :length]) for i, length in enumerate([6, 2, 3])])
    same(net(x, torch.tensor([6, 2, 3], dtype=dtype)), expected)


# Two directions


@each_cell_with("cell, merge", product(MERGES), [("concat",)])
def test_two_directions_equal_two_networks_of_one(cell: str, merge: str) -> None:
    both, forward, backward = (network(cell, layers=1, bidirectional=each) for each in (merge, None, None))
    with torch.no_grad():
        for index, net in enumerate((forward, backward)):
            for name, p in direction(net).items():
                p.copy_(direction(both, 0, index)[name])
    x, state = batch(both), random_state(both, 3)
    count = len(state[0]) // 2
    outputs, final = both.encode(x, state)
    forward_outputs, forward_final = forward.encode(x, (state[0][:count],))
    backward_outputs, backward_final = backward.encode(x.flip(1), (state[0][count:],))
    same(outputs, merged(merge, forward_outputs, backward_outputs.flip(1)))
    same(final[0], forward_final[0] + backward_final[0])
    assert both.width == outputs.shape[2] == channels(cell, 1, 3)[0] * (2 if merge == "concat" else 1)


@each_cell_with("cell, merge", product(["sum", "mul", "mean"]), [("sum",)])
def test_the_last_output_is_the_same_of_a_reversed_sequence_and_exchanged_directions(cell: str, merge: str) -> None:
    net, exchanged = (network(cell, layers=1, bidirectional=merge) for _ in range(2))
    with torch.no_grad():
        exchanged.head.load_state_dict(net.head.state_dict())
        for index in range(2):
            for name, p in direction(exchanged, 0, 1 - index).items():
                p.copy_(direction(net, 0, index)[name])
    x, lengths = batch(net), torch.tensor([6, 1, 3])
    same(net(x), exchanged(x.flip(1)))
    reversed_x = torch.stack([torch.cat([one[:n].flip(0), one[n:]]) for one, n in zip(x, lengths, strict=True)])
    same(net(x, lengths), exchanged(reversed_x, lengths))


def test_a_bidirectional_network_cannot_step() -> None:
    net = network(bidirectional="sum")
    with pytest.raises(RequestError, match="small is bidirectional"):
        net.step(batch(net)[:, 0])
