"""Estimation errors, saturation and histograms of the outputs of layers."""

import numpy as np
import pytest
import torch
from helpers import network, normal
from layer_states import LENGTHS, states
from torch import Tensor

from zoo.diagnostics.base import histograms
from zoo.diagnostics.outputs import estimation, saturation


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
def test_estimation_errors(lengths: Tensor | None) -> None:
    net, x = network("lstm", layers=2), normal(3, 5, 2)
    result = estimation(net, x, lengths)
    ends = [5, 5, 5] if lengths is None else lengths.tolist()
    for layer, h in enumerate((h.detach() for h in net.features(x)), start=1):
        for t in range(5):
            going = [i for i in range(3) if t < ends[i]]
            last = torch.cat([h[i, t] - h[i, ends[i] - 1] for i in going])
            previous = torch.cat([h[i, t] - (h[i, t - 1] if t else 0) for i in going])
            for against, d in (("last", last), ("previous", previous)):
                at = {"against": against, "layer": layer, "step": t + 1}
                assert result.mean.at(**at).values == pytest.approx(float(d.mean()), abs=1e-12)
                assert result.variance.at(**at).values == pytest.approx(float(d.var(correction=0)), abs=1e-12)


def test_saturation_counts_what_lies_at_the_ends() -> None:
    net, x = network("lstm", layers=1), 30 * normal(3, 5, 2)
    result = saturation(net, x, LENGTHS)
    h = torch.cat([net.features(x)[0][i, :n].flatten() for i, n in enumerate(LENGTHS.tolist())]).detach()
    edges = [float(tick) for tick in result.outputs.axis("from").ticks]
    assert result.outputs.values.sum() == pytest.approx(1.0)
    assert result.outputs.values[0, 0] == pytest.approx(float((h < edges[1]).double().mean()))
    assert result.saturated.axis("function").ticks == ("1 sigmoid", "2 sigmoid", "3 tanh", "4 sigmoid", "5 tanh")
    direction, near = net.layers[0].forward_direction, 0
    zero = torch.zeros(3, 3, dtype=torch.float64)
    for t, (h, _) in enumerate(states(net, x, zero, zero)[:-1]):
        z = torch.tanh(direction.cell.recurrent(h, direction.input(x[:, t])).chunk(4, -1)[2])
        near += int((z.abs() > 0.9)[t < LENGTHS].sum())
    assert result.saturated.at(layer=1, function="3 tanh").values == pytest.approx(near / (int(LENGTHS.sum()) * 3))


def test_saturation_counts_the_steps_of_the_sequences() -> None:
    net, x = network("lstm", layers=1), 30 * normal(3, 5, 2)
    result = saturation(net, x, LENGTHS)
    direction, shut, zero = net.layers[0].forward_direction, 0, torch.zeros(3, 3, dtype=torch.float64)
    for t, (h, _) in enumerate(states(net, x, zero, zero)[:-1]):
        f = torch.sigmoid(
            direction.cell.recurrent(h, direction.input(x[:, t])).chunk(4, -1)[1]
        )  # the first that is called
        shut += int(((f < 0.05) | (f > 0.95))[t < LENGTHS].sum())
    share = shut / (int(LENGTHS.sum()) * 3)
    assert result.saturated.at(layer=1, function="1 sigmoid").values == pytest.approx(share)
    assert f"3 tanh {100 * result.saturated.at(layer=1, function='3 tanh').values:.3g} %" in result.lines[0]


def test_saturation_counts_what_the_input_goes_through() -> None:
    net, x = network("star shift=0.0", layers=1), 3 * normal(3, 5, 2)
    z = torch.tanh(net.layers[0].forward_direction.input(x).chunk(2, -1)[0])[torch.arange(5) < LENGTHS[:, None]]
    share = float((z.abs() > 0.9).double().mean())
    assert saturation(net, x, LENGTHS).saturated.at(layer=1, function="x1 tanh").values == pytest.approx(share)


def test_histograms_hold_all_values() -> None:
    shares, edges = histograms([np.array([0.5]), np.array([3.0])], 2, (-1.0, 1.0))
    assert (shares.tolist(), edges.ticks) == ([[1.0, 0.0], [0.0, 1.0]], (0.5, 1.75))
    shares, edges = histograms([np.array([0.5, np.inf, np.nan, -0.5]), np.array([np.nan])], 2, (-1.0, 1.0))
    assert (shares.tolist(), edges.ticks) == ([[0.25, 0.25], [0.0, 0.0]], (-1.0, 0.0))
