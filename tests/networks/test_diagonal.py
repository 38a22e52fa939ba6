"""The compiled scan that linear cells share, for every instruction set of this processor, against the plain scan."""

import pytest
import torch
from helpers import gradients, needs_scan, normal, score
from scans import (
    LINEAR,
    check_both_scans,
    check_gradients_of_gradients,
    check_shared_scan,
    check_threads,
    each_instruction_set,
    scan_problem,
    small,
)
from torch import Tensor

from zoo.networks.builder import build
from zoo.networks.network import Network

pytestmark = needs_scan

SHAPES: dict[str, dict[str, object]] = {
    "a part of a vector": {"units": 5, "steps": 9, "batch": 3},
    "several tiles": {"units": 17, "steps": 8, "batch": 53},
    "one step of one": {"units": 16, "steps": 1, "batch": 1},
    "lengths": {"units": 6, "steps": 20, "batch": 27, "lengths": True},
    "truncated": {"units": 6, "steps": 20, "batch": 4, "tbptt_steps": 7},
    "truncated, lengths": {"units": 6, "steps": 20, "batch": 9, "tbptt_steps": 4, "lengths": True},
    "both ways, lengths": {"units": 6, "steps": 9, "batch": 4, "bidirectional": "sum", "lengths": True},
    "normalised": {"units": 6, "steps": 9, "batch": 4, "layer_norm": True},
    "images": {"units": 3, "steps": 5, "batch": 4, "kernel": 3, "lengths": True},
}


@pytest.mark.sampled(4)
@each_instruction_set
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", LINEAR)
def test_it_equals_the_plain_scan(case: str, shape: str, instructions: str, shared: list[str]) -> None:
    check_shared_scan(case, SHAPES[shape], 3e-5)
    assert shared


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_roundings_only(threads: int, shared: list[str]) -> None:
    check_threads("lru", {"units": 24, "steps": 40, "batch": 7}, threads)


@pytest.mark.parametrize("case", ["lru", "rg-lru"])
def test_gradients_of_gradients(case: str) -> None:
    check_gradients_of_gradients(case, SHAPES["truncated, lengths"])


def test_products_of_bfloat16_keep_a_state_of_float32() -> None:
    net, (x, _, _) = scan_problem("lru", {"units": 16, "steps": 300, "batch": 2})
    with torch.autocast("cpu", torch.bfloat16):
        outputs, state = net.encode(x)
    assert state[0][1].dtype == torch.float32
    exact, _ = net.encode(x)
    assert (outputs.float() - exact).square().mean() < 1e-3 * exact.square().mean()


@pytest.mark.parametrize("backend", ["fused", "plain"])
def test_the_gradient_of_a_closed_rg_lru_is_finite(backend: str) -> None:
    net = small("rg-lru", layers=1)
    net.backend = backend
    with torch.no_grad():
        net.layers[0].forward_direction.input.bias[: net.config.architecture.units] = -1e3  # a is 1, and its root is 0
    x = torch.ones(2, 5, 2, requires_grad=True)
    score([net.encode(x)[0]]).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in [x, *net.layers.parameters()])


@pytest.mark.parametrize("case", LINEAR)
@pytest.mark.parametrize("tbptt_steps", [None, 5])
def test_the_last_output_of_each_sequence_has_its_gradient(case: str, tbptt_steps: int | None) -> None:
    """Also where gradients are cut between a sequence's end and the last step."""
    net, x = small(case, layers=2, steps=12), normal(3, 12, 2, dtype=torch.float32).requires_grad_()
    net.tbptt_steps = tbptt_steps
    lengths = torch.tensor([12, 4, 1])

    def slopes(net: Network) -> list[Tensor]:
        found = gradients(score([net(x, lengths)]), {"x": x, **dict(net.named_parameters())})
        assert (found["x"].flatten(1).norm(dim=1) > 0).all()
        return list(found.values())

    check_both_scans(net, slopes)


def test_a_transition_of_zero_keeps_the_last_input_only() -> None:
    net = small("s4d", layers=1, steps=9)
    with torch.no_grad():
        net.layers[0].forward_direction.cell.log_decay.fill_(20.0)  # exp(-exp(20)) is 0
    x = normal(2, 9, 2, dtype=torch.float32).requires_grad_()
    check_both_scans(net, lambda net: [net(x), *gradients(score([net(x)]), {"x": x}).values()])
    assert net(x).isfinite().all()


@pytest.mark.parametrize("case", ["s4d", "lru"])
def test_the_last_output_of_whole_sequences_has_its_gradient(case: str) -> None:
    """The closed form, which has no parts, does not take the place of a scan whose gradients are cut."""
    net = small(next(each for each in LINEAR if each.split()[0] == case), layers=1, steps=12)
    x = normal(3, 12, 2, dtype=torch.float32).requires_grad_()
    net.tbptt_steps = 5

    def slopes(net: Network) -> list[Tensor]:
        slope = gradients(score([net(x)]), {"x": x, **dict(net.named_parameters())})
        assert not slope["x"][:, :10].any()
        assert slope["x"][:, 10:].any()
        return list(slope.values())

    check_both_scans(net, slopes)


@pytest.mark.parametrize("cell", ["lru", "s4d", "s5", "mingru"])
def test_a_hook_on_the_input_projection_runs_on_the_sequence(cell: str) -> None:
    """The closed form of a last state reads zeros and the identity instead, so it must not be used."""
    net, x = build(f"{cell}-1x4", inputs=1, outputs=2, device="cpu").eval(), normal(2, 6, 1).float()
    net.layers[0].forward_direction.input.register_forward_hook(lambda module, given, output: torch.tanh(3 * output))
    with torch.no_grad():
        logits = net(x)
        net.backend = "plain"
        torch.testing.assert_close(logits, net(x))


@pytest.mark.parametrize("cell", LINEAR)
def test_final_states_have_memory_of_their_own(cell: str) -> None:
    net = small(cell, layers=1)
    with torch.no_grad():
        top, (final,) = net.encode(normal(1, 50, *net.interface.input).float())
        for state in final:
            assert state.untyped_storage().nbytes() <= 2 * state.nbytes
            assert state.untyped_storage().data_ptr() != top.untyped_storage().data_ptr()
