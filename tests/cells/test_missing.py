"""The GRU-D where values are missing; tests/networks/test_gaps.py has its times."""

import pytest
import reference
import torch
from helpers import direction, gradients, network, normal, random_state, same

from zoo import build

NAN = float("nan")


def series(*image: int) -> torch.Tensor:
    """Values of which a third are missing."""
    x = normal(3, 6, 2, *image)
    return x.masked_fill(normal(*x.shape, seed=4) > 0.4, NAN)


@pytest.mark.parametrize("kernel", [None, 3], ids=["dense", "conv"])
@pytest.mark.parametrize("merge", [None, "concat"])
def test_missing_values_equal_the_reference(kernel: int | None, merge: str | None) -> None:
    image = () if kernel is None else (4, 5)
    net = network("gru-d", layers=1, kernel=kernel, inputs=(2, *image), bidirectional=merge)
    x, state = series(*image), random_state(net, 3)
    outputs, final = net.encode(x, state)
    expected, end = reference.run("gru-d", direction(net), x, state[0][:3])
    same((outputs[:, :, :3], final[0][:3]), (expected, end))
    names = {**direction(net), "last": state[0][1]}
    ours = gradients(outputs[:, :, :3].sum(), names)
    same(ours, gradients(expected.sum(), names))
    assert all(gradient.any() for gradient in ours.values())
    if merge:
        backward, _ = reference.run("gru-d", direction(net, 0, 1), x.flip(1), state[0][3:])
        same(outputs[:, :, 3:], backward.flip(1))


def test_a_missing_value_decays_from_the_last_one_to_zero() -> None:
    """The bias of the candidate is all that x' reaches: it is read from there, far from saturation."""
    net = network("gru-d", layers=1, units=1, inputs=(1,))
    w = direction(net)
    with torch.no_grad():
        for p in w.values():
            p.zero_()
        w["cell.values.weight"][2], w["cell.rate"][0], w["cell.offset"][0] = 1e-6, 0.5, 0.1
    x, dt = torch.tensor([[[2.0], [NAN], [NAN]]], dtype=torch.float64), torch.tensor([[1.0, 0.5, 3.0]])
    outputs, ((_, last, since),) = net.encode(x, dt=dt)
    candidates = 2 * outputs[0, 1:, 0] - outputs[0, :-1, 0]  # h = (h + candidate) / 2
    same(candidates, 2e-6 * torch.exp(-(0.5 * torch.tensor([0.5, 3.5]).double() + 0.1)), 1e-9)
    assert (last.item(), since.item()) == (2.0, 3.5)


def test_steps_and_precisions_take_missing_values() -> None:
    net, state = network("gru-d", dtype=torch.float32), None
    x = series().float()
    for x_t in x.unbind(1):
        logits, state = net.step(x_t, state)
    same(logits, net(x), 1e-5)
    assert network("gru-d", dtype=torch.bfloat16)(x.bfloat16()).isfinite().all()
    with torch.autocast("cpu", torch.bfloat16):
        same(net(x).float(), logits, 0.2)


def test_rates_start_where_gradients_pass() -> None:
    rate = build("gru-d-1x4", inputs=200, outputs=2).layers[0].forward_direction.cell.rate
    assert 0 < rate.min() < 0.05 < 0.95 < rate.max() < 1
