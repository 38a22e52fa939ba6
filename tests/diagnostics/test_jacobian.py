"""Jacobians and eigenvalues of recurrent layers against their definitions written out."""

import numpy as np
import pytest
import torch
from helpers import CASES, network, normal
from layer_states import LENGTHS

from zoo import build
from zoo.diagnostics import subject
from zoo.diagnostics.jacobian import eigenvalues, jacobian, jacobian_at
from zoo.diagnostics.lattice import lattice
from zoo.diagnostics.noh import noh
from zoo.diagnostics.outputs import estimation, saturation
from zoo.errors import RequestError
from zoo.registry.schema.blocks import BlockSpec


def test_eigenvalues_and_what_they_do_in_the_long_run() -> None:
    net = network("rnn activation=tanh", layers=1)
    weight = torch.tensor([[0.5, 1.0, 0.0], [0.0, 0.25, 0.0], [0.0, 0.0, -0.75]], dtype=torch.float64)
    with torch.no_grad():
        net.layers[0].forward_direction.cell.recurrent.weight.copy_(weight)
    result = eigenvalues(net, steps=60)
    np.testing.assert_allclose(result.modulus.values, [[0.75, 0.5, 0.25]])
    np.testing.assert_allclose(result.norm.values, [torch.linalg.svdvals(weight).max()])
    powers = result.powers.values[0]
    assert powers[-1] / powers[-2] == pytest.approx(0.75)


def test_the_eigenvalues_of_a_linear_recurrence_are_its_coefficients() -> None:
    net = network("lru", layers=1)
    decay = net.layers[0].forward_direction.cell.decay.detach()
    result = eigenvalues(net)
    modulus = (-decay.exp()).exp().sort(descending=True).values
    np.testing.assert_allclose(result.modulus.values, [modulus.repeat_interleave(2)])
    assert result.norm.axis("matrix").ticks == ("1 diagonal",)


def test_the_eigenvalues_of_a_gated_linear_recurrence_are_those_of_the_input_zero() -> None:
    net = network("mingru candidate=linear", layers=1)
    bias = net.layers[0].forward_direction.input.bias.detach()[:3]
    result = eigenvalues(net)
    np.testing.assert_allclose(result.modulus.values, [(1 - bias.sigmoid()).sort(descending=True).values])
    assert result.norm.axis("matrix").ticks == ("1 diagonal at x = 0",)
    assert eigenvalues(network("hgrn", layers=1)).modulus.values.shape == (1, 6)


def test_what_blocks_change_is_not_passed_over() -> None:
    config = subject.config_of("blocklru-2x4")
    for analysis in (lattice, jacobian):
        with pytest.raises(RequestError, match="inspect lru-2x4"):
            analysis(config)
    block = BlockSpec(norm="rms", convolution=4, gate="gelu")
    griffin = config.model_copy(update={"architecture": config.architecture.model_copy(update={"block": block})})
    net = build(griffin, device="cpu")
    x = torch.randn(2, 6, 4)
    for estimate in (estimation(net, x), jacobian_at(net, x), noh(net, x), saturation(net, x)):
        assert estimate.lines


def test_the_matrix_of_rin_is_with_its_identity() -> None:
    net = network("rin", layers=1)
    matrix = net.layers[0].forward_direction.cell.recurrent.weight.detach() + torch.eye(3, dtype=torch.float64)
    result = eigenvalues(net)
    assert result.norm.axis("matrix").ticks == ("1 recurrent + I",)
    np.testing.assert_allclose(result.norm.values, [torch.linalg.svdvals(matrix).max()])


def test_both_directions_stop_at_the_end_of_a_sequence_before_their_jacobians_are_taken() -> None:
    net, x = network("gru", layers=2, bidirectional="concat"), normal(3, 5, 2)
    padded = torch.cat([x, normal(3, 4, 2)], 1)
    whole = jacobian_at(net, x, torch.tensor([5, 5, 5]), step=2)
    assert np.allclose(
        jacobian_at(net, padded, torch.tensor([5, 5, 5]), step=2).values.values, whole.values.values, equal_nan=True
    )
    assert not np.allclose(jacobian_at(net, padded, step=2).values.values, whole.values.values, equal_nan=True)


@pytest.mark.parametrize("step", [5, -6])
def test_a_step_beyond_the_shortest_sequence_is_refused(step: int) -> None:
    with pytest.raises(RequestError, match=f"Step {step} is not one of the 5 steps of the shortest sequence"):
        jacobian_at(network("gru"), normal(2, 9, 2), torch.tensor([9, 5]), step=step)


# against what is computed by hand


def test_powers_of_a_matrix_are_of_what_goes_back_through_it() -> None:
    net = network("rnn activation=tanh", layers=1)
    weight = torch.tensor([[0.5, 1.0, 0.0], [0.0, 0.25, 0.0], [0.0, 0.0, -0.75]], dtype=torch.float64)
    with torch.no_grad():
        net.layers[0].forward_direction.cell.recurrent.weight.copy_(weight)
    h = torch.randn(3, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    once = float(((weight.T @ h).norm(dim=0) / h.norm(dim=0)).mean())
    assert eigenvalues(net, steps=60).powers.values[0][0] == pytest.approx(once)


def test_norms_of_a_gated_cell_are_of_its_gates() -> None:
    net = network("lstm", layers=1)
    result = eigenvalues(net).norm
    blocks = net.layers[0].forward_direction.cell.recurrent.weight.detach().split(3)
    assert result.axis("matrix").ticks == tuple(f"1 recurrent {gate}" for gate in "ifzo")
    np.testing.assert_allclose(result.values, [torch.linalg.svdvals(block).max() for block in blocks])


@pytest.mark.parametrize(
    ("norm", "words"),
    [
        (0.9, "errors must vanish through the matrix and tanh, ReLU or sigmoid alone."),
        (3.9, "errors must vanish through the matrix and sigmoid alone."),
        (4.1, "no bound says that errors vanish."),
    ],
)
def test_what_a_norm_says_depends_on_the_activation(norm: float, words: str) -> None:
    net = network("rnn activation=tanh", layers=1)
    with torch.no_grad():
        net.layers[0].forward_direction.cell.recurrent.weight.copy_(norm * torch.eye(3))
    assert eigenvalues(net).lines[0].endswith(words)


@pytest.mark.parametrize(
    ("modulus", "words"),
    [
        (0.99995, "spectral radius 0.99995, norm 0.99995; errors must vanish through the matrix alone."),
        (1.0, "spectral radius 1, norm 1; no bound says that errors vanish."),
    ],
)
def test_what_a_norm_says_of_a_linear_recurrence_names_no_activation(modulus: float, words: str) -> None:
    net = network("lru", layers=1)
    decay = net.layers[0].forward_direction.cell.decay
    with torch.no_grad():
        decay.fill_(-torch.tensor(modulus, dtype=torch.float64).log()).log_()
    assert eigenvalues(net).lines[0].endswith(words)


@pytest.mark.parametrize(
    ("cell", "spec", "why"),
    [
        ("retention heads=2", {}, "its state is a matrix for each head"),
        ("mingru candidate=linear", {"kernel": 3, "inputs": (2, 4, 4)}, "its state is an image"),
        ("indrnn", {}, "its recurrent weights are not matrices"),
    ],
)
def test_a_network_without_eigenvalues_says_why(cell: str, spec: dict[str, object], why: str) -> None:
    case = next(case for case in CASES if case.startswith(cell))
    with pytest.raises(RequestError, match=why):
        eigenvalues(network(case, layers=1, **{"units": 4, **spec}))


def test_a_jacobian_is_the_mean_over_sequences_at_the_end_of_the_shortest() -> None:
    net, x = network("gru reset=before", layers=2), normal(3, 5, 2)
    single = [jacobian_at(net, x[i : i + 1], step=1).values.values for i in range(3)]
    np.testing.assert_allclose(jacobian_at(net, x, LENGTHS).values.values, np.mean(single, 0))


def test_singular_values_in_words() -> None:
    equal = jacobian(subject.config_of("rnn-2x4"))  # orthogonal weights, and tanh has the slope 1 at zero
    assert equal.lines == ("Singular values of dh/dx: all 1.", "Singular values of dh/dh: all 1.")
    other = jacobian_at(network("gru reset=before", layers=2), normal(3, 5, 2))
    for values, line in zip(other.values.values, other.lines, strict=True):
        assert line.endswith(f": {np.nanmin(values):.3g} to {np.nanmax(values):.3g}.")
