"""Neural gradients of the memory (NoH), gates and dependency, against their definitions written out."""

import math

import numpy as np
import pytest
import torch
from helpers import network, normal
from layer_states import LENGTHS, states
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils import prune
from torch.optim.swa_utils import AveragedModel

from zoo import build
from zoo.checkpoints.tokenizer import RESERVED, Tokenizer
from zoo.diagnostics.jacobian import eigenvalues
from zoo.diagnostics.noh import LARGEST, dependency, gates, noh, per_epoch
from zoo.errors import RequestError
from zoo.registry.schema import Architecture, Config, Embedding, Interface


@pytest.mark.parametrize("cell", ["rnn", "lstm"])
def test_noh_is_the_column_sum_of_the_jacobian_of_the_memory(cell: str) -> None:
    net, x = network(cell, layers=1), normal(2, 5, 2)
    result = noh(net, x).indicator
    assert result.axis("step").ticks == (1, 2, 3, 4, 5)
    for t in (1, 5):
        sums = []
        for i in range(2):
            zero = torch.zeros(1, 3, dtype=torch.float64)

            def memory(s0: Tensor, i: int = i, zero: Tensor = zero, t: int = t) -> Tensor:
                start = (s0, None) if cell == "rnn" else (zero, s0)
                return states(net, x[i : i + 1, :t], *start)[t][-1][0]

            sums.append(torch.autograd.functional.jacobian(memory, zero)[:, 0].sum(0))
        expected = math.log10(torch.stack(sums).abs().mean())
        assert result.at(layer=1, step=t).values == pytest.approx(expected)


def test_noh_ends_where_each_sequence_ends() -> None:
    net, x = network("gru reset=before", layers=2), normal(3, 5, 2)
    result = noh(net, x, LENGTHS)
    single = [noh(net, x[i : i + 1, :n]) for i, n in enumerate(LENGTHS.tolist())]
    np.testing.assert_allclose(10**result.end.values, np.mean([10**a.end.values for a in single], 0))
    np.testing.assert_allclose(single[0].end.values, single[0].indicator.values[:, -1])
    for t, going in ((2, [0, 1, 2]), (4, [0, 2]), (5, [2])):
        each = [10 ** single[i].indicator.at(step=t).values for i in going]
        np.testing.assert_allclose(10 ** result.indicator.at(step=t).values, np.mean(each, 0))


def test_noh_of_a_memory_without_a_past_is_not_a_number() -> None:
    net = network("rnn activation=relu", layers=1)
    with torch.no_grad():
        net.layers[0].forward_direction.cell.recurrent.weight.zero_()
    assert np.isnan(noh(net, normal(2, 3, 2)).indicator.values).all()


def test_noh_of_a_memory_that_explodes_is_the_largest_number() -> None:
    net = network("rnn activation=relu", layers=1)
    with torch.no_grad():
        net.layers[0].forward_direction.cell.recurrent.weight.copy_(1e30 * torch.eye(3))
    result = noh(net, normal(2, 40, 2).abs())
    assert result.end.values.tolist() == [LARGEST]
    assert result.lines[0].endswith("and 1e+308 at step 40.")
    assert per_epoch(net, normal(2, 40, 2).abs(), torch.zeros(2), None, "class") == [LARGEST]


def test_gates_are_gradients_of_one_sequence_each() -> None:
    net, x = network("gru reset=before", layers=1), normal(2, 4, 2)
    result = gates(net, x).norm
    assert result.axis("weights").ticks == ("input r", "input z", "input h", "gates 1", "gates 2", "candidate")
    direction = net.layers[0].forward_direction
    v = torch.randn(1, 3, generator=torch.Generator().manual_seed(0)).sign() / math.sqrt(3)
    zero = torch.zeros(1, 3, dtype=torch.float64)
    norms = []
    for i in range(2):
        last = (states(net, x[i : i + 1], zero)[-1][0] * v).sum()
        of = (direction.input.weight, direction.cell.gates.weight, direction.cell.candidate.weight)
        parts = [block for g in torch.autograd.grad(last, of) for block in g.split(3)]
        norms.append([float(block.norm()) for block in parts])
    np.testing.assert_allclose(result.at(layer=1, step=4).values, np.mean(norms, 0), rtol=1e-6)


def test_without_gradients_and_in_a_wrapper() -> None:
    net, x = network("lstm", layers=2), normal(2, 4, 2)
    with torch.no_grad():
        within = [analysis(AveragedModel(net), x) for analysis in (noh, gates)]
    for analysis, found in zip((noh, gates), within, strict=True):
        for name, array in analysis(net, x).arrays.items():
            np.testing.assert_array_equal(found.arrays[name].values, array.values)


def test_weights_that_are_computed_have_no_gradients_here() -> None:
    net = network("lstm", layers=2)
    prune.random_unstructured(net.layers[0].forward_direction.input, "weight", 0.5)
    for call in (lambda: gates(net, normal(2, 4, 2)), lambda: eigenvalues(net)):
        with pytest.raises(RequestError, match=r"the weight of layers\.0\.directions\.0\.input is computed"):
            call()


def test_dependency_replaces_the_end_of_every_sequence() -> None:
    net, x, y = network("gru reset=before", layers=1), normal(3, 10, 2), torch.tensor([0, 1, 2])
    lengths = torch.tensor([10, 4, 10])
    result = dependency(net, x, y, lengths)
    altered = x.clone()
    mean = torch.cat([x[i, :n] for i, n in enumerate(lengths)]).mean(0)  # without padding
    for i, (n, gone) in enumerate(((10, 3), (4, 1), (10, 3))):
        altered[i, n - gone : n] = mean
    expected = F.cross_entropy(net(altered, lengths), y).detach()
    assert result.loss.at(end="last", share=0.3).values == pytest.approx(float(expected), rel=1e-5)
    assert result.loss.at(end="last", share=0.0).values == result.loss.at(end="first", share=0.0).values


def test_dependency_replaces_a_share_of_every_sequence() -> None:
    net, x, lengths = network("gru reset=before", layers=1), normal(3, 10, 2), torch.tensor([10, 4, 10])
    y = net(x, lengths).argmax(1)
    result = dependency(net, x, y, lengths)
    altered = x.clone()
    mean = torch.cat([x[i, :n] for i, n in enumerate(lengths)]).mean(0)  # without padding
    for i, gone in enumerate((3, 1, 3)):
        altered[i, :gone] = mean
    expected = F.cross_entropy(net(altered, lengths), y).detach()
    assert result.metric.at(end="first", share=0.0).values == 1.0
    assert result.loss.at(end="first", share=0.3).values == pytest.approx(float(expected), rel=1e-5)


def test_dependency_measures_a_forecast_by_its_root_mean_square() -> None:
    net, x = network("gru reset=before", layers=1), normal(30, 10, 2)
    y = normal(30, net.interface.outputs)
    result = dependency(net, x, y, target="forecast")
    expected = (net(x) - y).square().mean().sqrt().detach()
    assert result.metric.at(end="last", share=0.0).values == pytest.approx(float(expected), rel=1e-6)


def test_dependency_replaces_words_by_a_frequent_one() -> None:
    words = Interface(vocabulary=5, steps=10, outputs=4, readout="last")
    spec = Architecture(cell="rnn", layers=1, units=3, embedding=Embedding(size=4))
    net = build(Config(name="small", task="none", architecture=spec, interface=words), device="cpu").eval()
    net.tokenizer = Tokenizer([*RESERVED, "a", "the", "b"], 10)
    x, y = torch.tensor([[2, 4] * 5]), torch.tensor([1])
    expected = F.cross_entropy(net(torch.where(torch.arange(10) < 7, x, 3)), y).detach()
    assert dependency(net, x, y).loss.at(end="last", share=0.3).values == pytest.approx(float(expected))


@pytest.mark.parametrize("probe", ["ones", "signs"])
def test_the_indicator_is_of_the_probe_that_was_asked_for(probe: str) -> None:
    net, x = network("rnn", layers=1), normal(1, 5, 2)
    v = torch.randn(3, generator=torch.Generator().manual_seed(0)).sign() if probe == "signs" else torch.ones(3)
    zero = torch.zeros(1, 3, dtype=torch.float64)
    j = torch.autograd.functional.jacobian(lambda s0: states(net, x, s0)[-1][0][0], zero)[:, 0]
    assert noh(net, x, probe=probe).end.values == pytest.approx(math.log10((v.double() @ j).abs().mean()))


def test_noh_has_no_steps_beyond_the_longest_sequence() -> None:
    net, x = network("gru reset=before", layers=2), normal(3, 8, 2)
    padded, whole = noh(net, x, LENGTHS), noh(net, x[:, :5], LENGTHS)
    assert padded.indicator.axis("step").ticks == (1, 2, 3, 4, 5)
    np.testing.assert_allclose(padded.indicator.values, whole.indicator.values)
    assert padded.lines == whole.lines


def test_gates_stop_at_the_end_of_the_shortest_sequence() -> None:
    net, x = network("gru reset=before", layers=2), normal(3, 5, 2)
    result = gates(net, x, LENGTHS).norm
    assert result.axis("step").ticks == (1, 2)
    np.testing.assert_allclose(result.values, gates(net, x[:, :2]).norm.values)
