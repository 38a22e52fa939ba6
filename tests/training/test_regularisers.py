"""The gradient flow penalty (Omega) against the formula of its paper, written out for the simple recurrent network."""

import pytest
import torch
from helpers import CASES, gradients, network, normal, same, weights
from torch import Tensor
from torch.nn import functional as F

from zoo.errors import RequestError
from zoo.networks.builder import build
from zoo.networks.network import Network
from zoo.training.regularisers import gradient_flow_penalty


def written_out(net: Network, x: Tensor, targets: Tensor, lengths: Tensor) -> Tensor:
    """Step by step and sequence by sequence; the derivative of tanh(a) is 1 - tanh(a)^2."""
    p = weights(net, "layers.0.directions.0.")
    ratios = []
    for row, length in enumerate(lengths.tolist()):
        h, pasts = x.new_zeros(3), []
        for t in range(length):
            h = torch.tanh(p["input.weight"] @ x[row, t] + p["input.bias"] + p["cell.recurrent.weight"] @ h)
            h.retain_grad()
            pasts.append(h)
        F.cross_entropy(net.head(h), targets[row]).backward(retain_graph=True)
        for t in range(1, length):
            g, old = pasts[t].grad, pasts[t - 1].detach()
            a = p["input.weight"] @ x[row, t] + p["input.bias"] + p["cell.recurrent.weight"] @ old
            jacobian = torch.diag(1 - torch.tanh(a) ** 2) @ p["cell.recurrent.weight"]
            ratios.append((g @ jacobian).norm() / g.norm())
    return (torch.stack(ratios) - 1).square().mean()


@pytest.mark.parametrize("lengths", [None, [4, 1, 6], [2, 3, 2]], ids=["whole", "lengths", "short"])
def test_the_penalty_is_the_formula(lengths: list[int] | None) -> None:
    net = network("rnn activation=tanh", layers=1, inputs=(2,))
    x, targets = normal(3, 6, 2), torch.tensor([0, 3, 1])
    given = None if lengths is None else torch.tensor(lengths)
    expected = written_out(net, x, targets, torch.full((3,), 6) if given is None else given)
    found = gradient_flow_penalty(net, x, targets, given)
    same(found, expected, 1e-6)  # the loss is taken in single precision
    net.zero_grad()
    of = weights(net, "layers.")
    same(gradients(found, of), gradients(expected, of), 1e-6)
    assert any(g.abs().max() > 0 for g in gradients(gradient_flow_penalty(net, x, targets, given), of).values())


def test_without_any_error_the_penalty_is_zero() -> None:
    net = network("irnn", layers=1, inputs=(2,))
    net.head.weight.data.zero_()
    found = gradient_flow_penalty(net, normal(2, 6, 2).abs(), torch.tensor([0, 3]))
    assert found.item() == 0.0


@pytest.mark.parametrize("case", [case for case in CASES if case.split()[0] in ("irnn", "rin", "star", "gru", "rhn")])
def test_a_step_down_its_gradient_lowers_the_penalty(case: str) -> None:
    net = network(case, layers=2)
    x, targets = normal(5, 6, 2), torch.tensor([0, 3, 1, 2, 0])
    before = gradient_flow_penalty(net, x, targets)
    found = gradients(before, dict(net.named_parameters()))
    with torch.no_grad():
        size = torch.stack([g.square().sum() for g in found.values()]).sum()
        for name, p in net.named_parameters():
            p -= 1e-6 * found[name] / size.sqrt()
    after = gradient_flow_penalty(net, x, targets)
    assert after < before


@pytest.mark.parametrize(
    ("dtype", "size"), [(torch.float32, 1e-8), (torch.float32, 1e-30), (torch.float64, 1e-230)], ids=str
)
def test_the_size_of_the_error_does_not_matter(dtype: torch.dtype, size: float) -> None:
    """Nor that its square is 0 in either precision: each ratio is of the step's derivative alone."""
    found = []
    for scale in (1e-4, size):
        net = network("irnn", layers=1, inputs=(2,), dtype=dtype)
        net.head.weight.data.mul_(scale)
        value = gradient_flow_penalty(net, normal(2, 6, 2, dtype=dtype).abs(), torch.tensor([0, 3]))
        found.append((value, gradients(value, weights(net, "layers."))))
    (whole, slopes), (small, small_slopes) = found
    same(small, whole, 1e-3)
    same(small_slopes, slopes, 1e-3)


def test_of_one_time_step_the_penalty_is_zero() -> None:
    assert gradient_flow_penalty(network("irnn", inputs=(2,)), normal(2, 1, 2), torch.tensor([0, 3])).item() == 0.0


@pytest.mark.parametrize(
    ("case", "spec", "reason"),
    [
        ("lstm", {}, "lstm has more states than h"),
        ("star", {"bidirectional": "sum"}, "it is bidirectional"),
        ("esn", {}, "none of its recurrent weights is trained"),
        ("rnn", {"zoneout": 0.1}, "zoneout and recurrent dropout"),
        ("rnn", {"recurrent_dropout": 0.1}, "zoneout and recurrent dropout"),
        ("rnn", {"dropout": 0.1}, "batch norm and dropout"),
        ("rnn", {"block": {"norm": "batch"}}, "batch norm and dropout"),
    ],
)
def test_networks_without_a_defined_penalty_are_refused(case: str, spec: dict[str, object], reason: str) -> None:
    net = network(case, **spec)
    for layer in net.layers if case == "esn" else ():
        layer.requires_grad_(False)
    with pytest.raises(RequestError, match=f"cannot be trained with gradient_flow_penalty: {reason}"):
        gradient_flow_penalty(net, normal(3, 6, 2), torch.tensor([0, 3, 1]))


def test_a_network_without_recurrence_has_no_penalty() -> None:
    net = build("mlp-3x8-circles.sigmoid", device="cpu")
    with pytest.raises(RequestError, match="it does not read one sequence"):
        gradient_flow_penalty(net, normal(3, 2, dtype=torch.float32), torch.tensor([0, 1, 1]))


def test_the_error_is_that_of_the_target() -> None:
    net = network("rnn activation=tanh", layers=1, inputs=(2,), outputs=1)
    x, targets = normal(3, 6, 2), torch.tensor([[0.5], [-1.0], [2.0]], dtype=torch.float64)
    found = gradient_flow_penalty(net, x, targets, target="value")
    assert found > 0
    scaled = gradient_flow_penalty(net, x, targets + 1.0, target="value")  # a ratio does not depend on the error's size
    same(scaled, found, 1e-6)
