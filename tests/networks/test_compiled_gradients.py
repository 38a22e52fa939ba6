"""Gradients through the compiled scan: of some inputs only, of gradients, many at once, in forward mode."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
from helpers import default_dtype, flatten, gradients, needs_scan, normal, random_state, score
from scans import PLANNED, check_both_scans, close, results, small
from torch import Tensor, nn

from zoo.networks.network import Network

pytestmark = needs_scan


@pytest.mark.parametrize("case", PLANNED)
def test_gradients_of_gradients_are_those_of_the_plain_scan(case: str) -> None:
    net, x = small(case, layers=2), normal(3, 6, 2, dtype=torch.float32)
    by_backend = {}
    for net.backend in ("fused", "plain"):
        leaf = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(score([net(leaf)]), leaf, create_graph=True)
        by_backend[net.backend] = gradients(slope.square().sum(), {"x": leaf, **dict(net.named_parameters())})
    close(by_backend["fused"], by_backend["plain"])


@pytest.mark.parametrize("checkpoint_every", [None, 3])
def test_what_shares_weights_with_its_input_counts_them_once(checkpoint_every: int | None) -> None:
    """Where gradients can be differentiated again, and the state comes from the same weights."""
    net, x = small("star", layers=2), normal(3, 8, 2, dtype=torch.float32)

    def slopes(net: Network, again: bool) -> list[Tensor]:
        net.checkpoint_every = checkpoint_every
        _, state = net.encode(x[:, :4])
        outputs, _ = net.encode(x[:, 4:] * state[0][0].sum(), state)
        actual = torch.autograd.grad(score([outputs]), list(net.layers.parameters()), create_graph=again)
        return [t.detach() for t in actual]

    for again in (False, True):
        check_both_scans(net, lambda net, again=again: slopes(net, again))


def test_a_gradient_that_never_arrives() -> None:
    net, x = small("star", layers=1), normal(3, 4, 2, dtype=torch.float32)
    net.tbptt_steps = 2

    def slopes(net: Network, frozen: bool) -> list[Tensor | None]:
        net.requires_grad_(not frozen)
        start = tuple(tuple(s.requires_grad_() for s in part) for part in net.initial_state(3))
        outputs, state = net.encode(x, start)
        _, state = net.encode(x, state)
        of = flatten(start) if frozen else list(net.layers.parameters())
        return list(torch.autograd.grad(score([outputs, *flatten(state)]), of, create_graph=True))

    for frozen in (False, True):
        check_both_scans(net, lambda net, frozen=frozen: slopes(net, frozen))


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("convert", [nn.Module.half, nn.Module.double, nn.Module.bfloat16])
def test_converting_the_network_before_its_gradient_is_an_error(
    convert: Callable[[nn.Module], nn.Module], again: bool
) -> None:
    net = small("star", layers=2)
    total = net(normal(3, 6, 2, dtype=torch.float32)).sum()
    convert(net)
    with pytest.raises(RuntimeError, match="does not have the type, shape or device"):
        torch.autograd.backward(total, create_graph=again)


def test_saved_tensors_may_be_moved_and_brought_back() -> None:
    net, x = small("star", layers=2), normal(3, 6, 2, dtype=torch.float32)
    with torch.autograd.graph.save_on_cpu():
        moved = gradients(net(x).sum(), dict(net.named_parameters()))
    close(moved, gradients(net(x).sum(), dict(net.named_parameters())))


def test_derivatives_are_of_the_mode_of_the_forward_pass() -> None:
    net, x = small("star", layers=1, recurrent_dropout=0.5), normal(3, 4, 2, dtype=torch.float32).requires_grad_()

    def slope(net: Network) -> Tensor:
        outputs = net.eval()(x)
        net.train()
        return torch.autograd.grad(outputs.sum(), x, create_graph=True)[0].detach()

    check_both_scans(net, slope)


@pytest.mark.parametrize(
    "defaults",
    [lambda: torch.device("meta"), lambda: default_dtype(torch.float64), lambda: default_dtype(torch.bfloat16)],
    ids=["meta", "float64", "bfloat16"],
)
@pytest.mark.parametrize("cell", ["lstm", "lru"])
def test_defaults_are_for_new_tensors_only(cell: str, defaults: Callable[[], AbstractContextManager[None]]) -> None:
    net, x = small(cell, layers=2), normal(3, 4, 2, dtype=torch.float32)
    step = net.stream().step if cell == "lstm" else net.step
    kept, logits, (now, _) = net(x).sum(), net(x).detach(), step(x[:, 0])
    kept.backward()
    expected = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    loss = net(x).sum()
    with defaults():
        assert torch.equal(net(x), logits)
        assert torch.equal((net.stream().step if cell == "lstm" else net.step)(x[:, 0])[0], now)
        loss.backward()
    assert all(torch.equal(p.grad, slope) for p, slope in zip(net.parameters(), expected, strict=True))


@pytest.mark.parametrize("case", ["lstm", "rhn"])
def test_hooks_of_saved_tensors_may_bring_them_elsewhere(case: str, instructions: str) -> None:
    net, x = small(case, units=20, layers=1), normal(3, 4, 2, dtype=torch.float32)

    def elsewhere(tensor: Tensor) -> Tensor:
        memory = tensor.new_empty(tensor.numel() + 1)
        return memory[1:].view(tensor.shape).copy_(tensor)

    def slopes(net: Network) -> list[Tensor]:
        net.zero_grad()
        with torch.autograd.graph.saved_tensors_hooks(elsewhere, lambda tensor: tensor):
            loss = net(x).sum()
        loss.backward()
        return [p.grad for p in net.parameters() if p.grad is not None]

    check_both_scans(net, slopes)


def test_frozen_weights_and_given_inputs_need_no_gradients() -> None:
    net, x = small("lstm", layers=2), normal(3, 6, 2, dtype=torch.float32)
    expected = results(net, x, random_state(net, 3), None)[2]
    net.layers.requires_grad_(False)
    leaf = x.clone().requires_grad_()
    state = tuple(tuple(s.detach().float() for s in part) for part in random_state(net, 3))
    outputs, final = net.encode(leaf, state)
    close(torch.autograd.grad(score([outputs, *flatten(final)]), leaf)[0], expected["x"])
    net.layers[1].requires_grad_(True)
    outputs, final = net.encode(x, state)
    weight = net.layers[1].forward_direction.cell.recurrent.weight
    close(
        torch.autograd.grad(score([outputs, *flatten(final)]), weight)[0],
        expected["layers.1.directions.0.cell.recurrent.weight"],
    )


def test_only_a_final_state_may_be_asked_for() -> None:
    net, x = small("lstm", layers=1), normal(3, 6, 2, dtype=torch.float32)
    by_backend = {}
    for net.backend in ("fused", "plain"):
        cell = net.encode(x)[1][0][1]
        by_backend[net.backend] = gradients(score([cell]), dict(net.named_parameters()))
    close(by_backend["fused"], by_backend["plain"])


def test_second_derivatives_are_of_the_weights_that_were_used() -> None:
    net, x = small("star", layers=2), normal(2, 4, 2, dtype=torch.float32).requires_grad_()
    other = {name: (2 * p.detach()).requires_grad_() for name, p in net.named_parameters()}

    def slopes(net: Network) -> list[Tensor]:
        loss = torch.func.functional_call(net, other, (x,)).square().sum()
        (slope,) = torch.autograd.grad(loss, x, create_graph=True)
        return [slope.detach(), *torch.autograd.grad(slope.square().sum(), list(other.values()), allow_unused=True)]

    check_both_scans(net, slopes)


def test_parametrised_weights_have_all_their_derivatives() -> None:
    net, x = small("star", layers=2), normal(2, 4, 2, dtype=torch.float32)
    projection = nn.utils.parametrizations.weight_norm(net.layers[0].forward_direction.cell.recurrent)

    def slopes(net: Network) -> tuple[Tensor, ...]:
        of = projection.parametrizations.weight.original1
        (slope,) = torch.autograd.grad(net(x).square().sum(), of, create_graph=True)
        return slope.detach(), *torch.autograd.grad(slope.square().sum(), of)

    check_both_scans(net, slopes)


def test_many_gradients_at_once() -> None:
    net, x = small("star", layers=2), normal(2, 4, 2, dtype=torch.float32)
    jacobian = functools.partial(torch.autograd.functional.jacobian, inputs=x, vectorize=True)
    check_both_scans(net, lambda net: jacobian(net))
    net.backend = "auto"
    assert not jacobian(net).requires_grad
    state = net.initial_state(1)
    with torch.no_grad():
        net.step(x[:1, 0], state)
        check_both_scans(net, lambda net: torch.vmap(lambda one: net.step(one, state)[0])(x[:, :1]))


def test_forward_mode_derivatives() -> None:
    net, x = small("star", layers=2).requires_grad_(False), normal(2, 4, 2, dtype=torch.float32)

    def slope(net: Network, run: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(at, torch.ones_like(at))
            tangent = torch.autograd.forward_ad.unpack_dual(run(dual)).tangent
        assert tangent is not None
        return tangent

    with torch.no_grad():
        check_both_scans(net, lambda net: slope(net, net, x))
        net.step(x[:, 0])
        check_both_scans(net, lambda net: slope(net, lambda x_t: net.step(x_t)[0], x[:, 0]))


def test_what_is_written_into_before_the_backward_pass_is_noticed() -> None:
    net, x = small("star"), normal(3, 4, 2, dtype=torch.float32)
    lengths = torch.tensor([2, 3, 4])
    loss = net(x, lengths).sum()
    lengths.fill_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
