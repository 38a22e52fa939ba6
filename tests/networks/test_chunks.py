"""The scan of S4D by parts of the sequence: equal to single steps where parts, ends and cuts of gradients meet, in little memory."""

import pytest
import torch
from helpers import needs_scan, normal
from scans import check_gradients_of_gradients, check_shared_scan, scan_problem
from torch import Tensor

from zoo.networks.kernels import chunks
from zoo.networks.network import Network

pytestmark = needs_scan

SHAPES: dict[str, dict[str, object]] = {
    "a whole part": {"steps": chunks.STEPS},
    "one step more": {"steps": chunks.STEPS + 1},
    "several parts, lengths": {"steps": 2 * chunks.STEPS + 9, "lengths": True},
    "cuts within parts": {"steps": 2 * chunks.STEPS + 9, "tbptt_steps": 50},
    "parts within cuts, lengths": {"steps": 3 * chunks.STEPS + 9, "tbptt_steps": 2 * chunks.STEPS + 5, "lengths": True},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_it_equals_single_steps(shape: str) -> None:
    check_shared_scan("s4d", {"units": 3, "batch": 9, **SHAPES[shape]}, 3e-5)


def test_gradients_of_gradients() -> None:
    check_gradients_of_gradients("s4d", {"units": 2, "batch": 2, "steps": 5, "lengths": True, "tbptt_steps": 3})


@pytest.mark.parametrize("steps", [1, 2, 3, 64])
def test_powers_are_exact_to_a_few_roundings(steps: int) -> None:
    a = torch.polar(torch.rand(4, 3) * 0.01 + 0.99, torch.rand(4, 3) * 6)
    exact = a.to(torch.complex128) ** torch.arange(steps + 1)[:, None, None]
    torch.testing.assert_close(chunks._powers(a, steps).to(torch.complex128), exact, rtol=2e-6, atol=0)


@pytest.mark.parametrize(("time", "tbptt_steps", "bounds"), [
    (5, None, [0, 5]), (64, None, [0, 64]), (130, None, [0, 64, 128, 130]), (130, 70, [0, 64, 70, 130]), (7, 3, [0, 3, 6, 7]),
    (5, 9, [0, 5]),
])  # fmt: skip
def test_no_part_goes_over_a_cut(time: int, tbptt_steps: int | None, bounds: list[int]) -> None:
    assert chunks._bounds(time, tbptt_steps) == bounds


def saved_numbers(net: Network, x: Tensor) -> int:
    """Return how many numbers of distinct tensors a forward pass keeps for the backward pass."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // 4
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        held = net.encode(x)  # while they live, no address is used twice
    del held
    return sum(kept.values())


def test_the_states_of_all_steps_are_never_kept() -> None:
    net, _ = scan_problem("s4d", {"units": 8, "steps": 512, "batch": 16, "layers": 1})
    states = 512 * 16 * 8 * 64  # steps, sequences, units, numbers of a unit's state
    assert saved_numbers(net, normal(16, 512, 2, dtype=torch.float32)) < states / 8


def test_convolutional_layers_have_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "scan", lambda *_: pytest.fail("the scan by parts was called"))
    net, (x, state, ends) = scan_problem("s4d", {"units": 3, "steps": 5, "batch": 4, "kernel": 3})
    net.encode(x, state, lengths=ends)
    net, (x, state, ends) = scan_problem("lru", {"units": 3, "steps": 5, "batch": 4})
    net.encode(x, state, lengths=ends)
