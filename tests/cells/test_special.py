"""What sets single cells apart: the mass that an LSTM conserves, and the maps that an echo state network never changes."""

import pytest
import torch
from helpers import network, normal, same

import zoo
from zoo.errors import RequestError
from zoo.networks.builder import build
from zoo.registry.schema import Architecture, Config, Interface

INTERFACE = Interface(input=(3,), steps=5, outputs=2, readout="last")


@pytest.mark.parametrize(("masses", "features"), [(1, 1), (1, 3), (2, 3)])
def test_what_flows_into_a_mass_conserving_lstm_is_stored_or_flows_out(masses: int, features: int) -> None:
    net = network("lstm-mass", layers=1, inputs=(features,), options={"mass": masses})
    x = normal(4, 9, features)
    outputs, ((_, c),) = net.encode(x)
    same(c.sum(1) + outputs.sum((1, 2)), x[:, :, :masses].sum((1, 2)))
    assert (outputs.abs().amax((0, 2)) > 1e-3).all()


def test_more_masses_than_features_are_refused() -> None:
    with pytest.raises(RequestError, match="An input of 2 features cannot have 3 masses"):
        network("lstm-mass", layers=1, inputs=(2,), options={"mass": 3})


def test_an_echo_state_network_without_a_cycle_is_not_scaled() -> None:
    """The spectral radius of its recurrence is zero, so no scale would reach the one asked for."""
    architecture = Architecture(cell="esn", layers=1, units=100, options={"density": 0.001})
    net = build(Config(name="esn", task="none", architecture=architecture, interface=INTERFACE), device="cpu")
    weight = net.layers[0].forward_direction.cell.recurrent.weight
    assert torch.linalg.eigvals(weight.double()).abs().max() == 0
    assert 0.1 < weight.abs().max() < 10


@pytest.mark.parametrize("density", [1.0, 0.3])
def test_an_echo_state_network_starts_with_its_spectral_radius_and_density_and_is_frozen(density: float) -> None:
    architecture = Architecture(cell="esn", layers=2, units=60, options={"radius": 0.7, "density": density})
    net = build(Config(name="esn", task="none", architecture=architecture, interface=INTERFACE), device="cpu")
    for layer in net.layers:
        weight = layer.forward_direction.cell.recurrent.weight
        radius = torch.linalg.eigvals(weight.double()).abs().max().item()
        assert radius == pytest.approx(0.7, rel=1e-5)
        assert (weight != 0).float().mean().item() == pytest.approx(density, abs=0.05)
    assert {name for name, p in net.named_parameters() if p.requires_grad} == {"head.weight", "head.bias"}


def test_a_loaded_echo_state_network_is_frozen(tmp_path: object) -> None:
    net = zoo.build("esn-1x5", inputs=2, outputs=3, device="cpu")
    net.save_pretrained(tmp_path)
    loaded = zoo.load(tmp_path, device="cpu")
    assert {name for name, p in loaded.named_parameters() if p.requires_grad} == {"head.weight", "head.bias"}


def test_an_lru_needs_a_ring_that_is_not_empty() -> None:
    with pytest.raises(RequestError, match=r"min_radius, 0\.95, must not be larger than its max_radius, 0\.9\."):
        network("lru", options={"min_radius": 0.95, "max_radius": 0.9})


def test_numbers_of_states_blocks_and_ranks_fit_each_other() -> None:
    with pytest.raises(RequestError, match=r"4 states cannot form 8 blocks\."):
        network("s5", options={"states": 4, "blocks": 8})
    for cell in ("fastrnn", "fastgrnn"):
        with pytest.raises(RequestError, match=r"A recurrent matrix of 4 units has no rank of 5\."):
            network(cell, units=4, options={"recurrent_rank": 5})


@pytest.mark.parametrize("cell", ["deltanet", "gated-deltanet", "rwkv7"])
def test_a_zero_input_has_finite_gradients_in_float16(cell: str) -> None:
    """As of padding or a black pixel: keys of zeros are scaled to length 1 there."""
    net = zoo.build(f"{cell}-1x4", inputs=2, outputs=2, device="cpu")
    with torch.autocast("cpu", dtype=torch.float16):
        logits = net(normal(2, 6, 2).float(), torch.tensor([6, 3]))
    logits.float().sum().backward()
    assert all(p.grad.isfinite().all() for p in net.parameters() if p.grad is not None)
