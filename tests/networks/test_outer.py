"""The compiled scan of cells whose state is a matrix, for every instruction set of this processor, against the plain scan."""

import pytest
import torch
from helpers import needs_scan, normal
from scans import (
    MATRIX,
    check_gradients_of_gradients,
    check_shared_scan,
    check_threads,
    close,
    each_instruction_set,
    results,
    scan_problem,
    small,
)

from zoo.errors import RequestError
from zoo.networks.kernels import interface, layer_scan

pytestmark = needs_scan

SHAPES: dict[str, dict[str, object]] = {
    "a part of a vector": {"units": 6, "steps": 9, "batch": 3},
    "several vectors": {"units": 150, "steps": 5, "batch": 2, "layers": 1},
    "one step of one": {"units": 4, "steps": 1, "batch": 1},
    "stored states": {"units": 4, "steps": 48, "batch": 2},
    "lengths": {"units": 4, "steps": 37, "batch": 9, "lengths": True},
    "truncated": {"units": 4, "steps": 40, "batch": 3, "tbptt_steps": 7},
    "truncated, lengths": {"units": 4, "steps": 36, "batch": 9, "tbptt_steps": 16, "lengths": True},
    "both ways, lengths": {"units": 4, "steps": 9, "batch": 4, "bidirectional": "sum", "lengths": True},
    "normalised": {"units": 4, "steps": 9, "batch": 4, "layer_norm": True},
}


@pytest.mark.sampled(4)
@each_instruction_set
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("case", MATRIX)
def test_it_equals_the_plain_scan(case: str, shape: str, instructions: str, shared: list[str]) -> None:
    check_shared_scan(case, SHAPES[shape], 1e-4)
    assert shared


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_roundings_only(threads: int) -> None:
    check_threads("gated-deltanet heads=2", {"units": 24, "steps": 400, "batch": 7}, threads)


@pytest.mark.parametrize("case", MATRIX)
def test_gradients_of_gradients(case: str) -> None:
    shape = {"units": 4, "steps": 12, "batch": 3, "tbptt_steps": 5, "lengths": True}
    check_gradients_of_gradients(case, shape)


@pytest.mark.parametrize("case", MATRIX)
def test_products_of_bfloat16_keep_a_state_of_float32(case: str) -> None:
    net, (x, _, _) = scan_problem(case, {"units": 16, "steps": 100, "batch": 2, "layers": 1})
    with torch.autocast("cpu", torch.bfloat16):
        outputs, (state,) = net.encode(x)
        net.backend = "plain"
        expected, (plain_state,) = net.encode(x)
    assert outputs.dtype == expected.dtype
    assert [s.dtype for s in state] == [s.dtype for s in plain_state]
    assert state[1].dtype == torch.float32
    assert (outputs - expected).float().square().mean() < 1e-3 * expected.float().square().mean()


@pytest.mark.parametrize("case", MATRIX)
def test_halves_and_steps_equal_the_whole(case: str) -> None:
    net, x = small(case, layers=2, steps=40), normal(3, 40, 2, dtype=torch.float32)
    with torch.no_grad():
        whole, end = net.encode(x)
        first, state = net.encode(x[:, :23])
        second, state = net.encode(x[:, 23:], state)
        close([torch.cat([first, second], 1), state], [whole, end], 1e-4)
        _, state = net.encode(x[:, :39])
        close(net.step(x[:, 39], state)[1], end, 1e-4)


@pytest.mark.parametrize("case", MATRIX)
def test_final_states_have_memory_of_their_own(case: str) -> None:
    net = small(case, layers=1)
    with torch.no_grad():
        top, (final,) = net.encode(normal(1, 50, *net.interface.input).float())
    for state in final:
        assert state.untyped_storage().nbytes() <= 2 * state.nbytes
        assert state.untyped_storage().data_ptr() != top.untyped_storage().data_ptr()


def test_values_beyond_the_end_of_a_sequence_have_no_effect() -> None:
    net, x = small("mlstm heads=2 forget=exp", layers=1, steps=12), normal(2, 12, 2, dtype=torch.float32)
    lengths = torch.tensor([12, 5])
    expected = results(net, x, net.initial_state(2), lengths)
    x[1, 5:] = 50.0
    found = results(net, x, net.initial_state(2), lengths)
    close(found, expected, 1e-6)


@pytest.mark.parametrize("change", ["images", "float64", "zoneout", "step", "no library"])
def test_what_it_cannot_run_is_left_to_the_plain_scan(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"images": {"kernel": 3, "inputs": (2, 4, 3)}, "zoneout": {"zoneout": 0.5}}.get(change, {})
    net = small("deltanet heads=2", layers=1, **spec)
    x = normal(5, 3, *net.interface.input, dtype=torch.float32)
    if change == "step":
        net.layers[0].forward_direction.cell.step = net.layers[0].forward_direction.cell.step
    if change == "no library":
        monkeypatch.setattr(interface, "library", lambda: None)
    if change == "float64":
        net, x = net.double(), x.double()
    assert layer_scan(net.layers, x) is None
    with pytest.raises(RequestError, match="fused"):
        net(x.transpose(0, 1))
    net.backend = "auto"
    assert net(x.transpose(0, 1)).isfinite().all()
