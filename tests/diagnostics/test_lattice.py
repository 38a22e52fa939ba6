"""Gradient lattice and Jacobians against plain autograd on the papers' equations, with a copy of the weights at each node."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import reference
import torch
from torch import Tensor

from zoo import registry
from zoo.cells import CELLS
from zoo.cells.base import Cell, State
from zoo.cells.projections import ProjectionFactory
from zoo.cells.rows import CellRow
from zoo.diagnostics import ensemble
from zoo.diagnostics.base import Result
from zoo.diagnostics.jacobian import jacobian, jacobian_at
from zoo.diagnostics.lattice import lattice, node_gradients
from zoo.diagnostics.subject import config_of, without_task
from zoo.errors import RequestError
from zoo.networks import initialisers
from zoo.publishing import lattices

RUNS, STEPS, UNITS = 2, 3, 4


def draw(name: str, steps: int = STEPS) -> ensemble.Ensemble:
    config = without_task(config_of(name).architecture, steps)
    return ensemble.draw(config, RUNS, steps, torch.Generator().manual_seed(3), torch.float64)


def zero_state(cell: str, depth: int, inputs: int = 0) -> State:
    sizes = [UNITS] * depth if cell == "gf-rnn" else reference.state_channels(cell, UNITS, inputs)
    return tuple(torch.zeros(1, size, dtype=torch.float64) for size in sizes)


def by_hand(
    cell: str, networks: ensemble.Ensemble, run: int, loss: str, depth: int
) -> dict[tuple[int, int], dict[str, Tensor]]:
    """Gradients of one run for each node's own weights, by the reference's equations and backward()."""
    copies: dict[tuple[int, int], dict[str, Tensor]] = {}
    options = {"depth": depth} if CELLS[cell].layers_inside else {}
    inputs = [x[None] for x in networks.x[run]]
    for layer, weights in enumerate(networks.weights):
        state, outputs = zero_state(cell, depth, inputs[0].shape[-1]), []
        for t, x in enumerate(inputs):
            copy = {name: w[run].clone().requires_grad_() for name, w in weights.items()}
            named = {name.removeprefix("direction."): w for name, w in copy.items()}
            state = reference.REFERENCES[cell](named, x, state, **options)
            copies[layer, t] = copy
            outputs.append(state[0])
        inputs = outputs
    losses = [(h * v).sum() for h, v in zip(inputs, networks.errors[run], strict=True)]
    (losses[-1] if loss == "last" else torch.stack(losses).sum()).backward()
    return {
        node: {name: torch.zeros_like(w) if w.grad is None else w.grad for name, w in copy.items()}
        for node, copy in copies.items()
    }


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cell", CELLS)
def test_every_node_has_the_gradient_of_its_own_parameters(cell: str) -> None:
    networks = draw(f"{cell}-2x{UNITS}")
    layers_inside = CELLS[cell].layers_inside
    for biases in (True, False):
        norms = node_gradients(networks, layers_inside, biases)
        assert norms.shape == (RUNS, 2, 2, STEPS)
        for run in range(RUNS):
            for i, loss in enumerate(("last", "all")):
                squares = torch.zeros(2, STEPS, dtype=torch.float64)
                for (layer, t), gradients in by_hand(cell, networks, run, loss, 2).items():
                    for name, g in gradients.items():
                        index = re.search(r"\.(\d+)\.", name) if layers_inside else None
                        if biases or not name.endswith("bias"):
                            squares[int(index[1]) if index else layer, t] += g.square().sum()
                torch.testing.assert_close(norms[run, i], squares.sqrt(), rtol=1e-9, atol=1e-13)


def test_means_spreads_and_ratios_are_those_of_the_runs() -> None:
    config = config_of("star-3x4")
    result = lattice(config, runs=7, steps=4, seed=5, dtype=torch.float64)
    networks = ensemble.draw(
        without_task(config.architecture, 4), 7, 4, torch.Generator().manual_seed(5), torch.float64
    )
    norms = node_gradients(networks).numpy()
    assert [axis.name for axis in result.mean.axes] == ["loss", "layer", "step"]
    np.testing.assert_allclose(result.mean.values, norms.mean(0))
    np.testing.assert_allclose(result.spread.values, norms.std(0, ddof=1) / norms.mean(0))
    np.testing.assert_allclose(result.ratio.at(loss="all").values, norms[:, 1, 0, 0].mean() / norms[:, 1, 2, 3].mean())
    np.testing.assert_allclose(result.depth.at(loss="last").values, norms[:, 0, 0, 3].mean() / norms[:, 0, 2, 3].mean())


def test_many_runs_are_computed_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr("zoo.diagnostics.lattice.BYTES", 3 * 4 * 2 * (4 * 4 + 4 * 4 + 4))
    result = lattice(config_of("rnn-2x4"), runs=8, steps=3, report=lambda done, total: calls.append((done, total)))
    assert calls == [(3, 8), (6, 8), (8, 8)]
    assert result.mean.values.min() > 0


def test_last_step_of_both_losses_is_the_same_error() -> None:
    """No error of a later output arrives at the last step, so a loss on all outputs adds nothing there."""
    result = lattice(config_of("lstm-2x4"), runs=3, steps=4, dtype=torch.float64).mean
    np.testing.assert_allclose(*(result.at(loss=loss, step=4).values for loss in ("last", "all")))
    assert (result.at(loss="all", step=1).values > result.at(loss="last", step=1).values).all()


def test_the_document_s_finding() -> None:
    """Gating revisited, Fig. 2: the plain RNN amplifies, the LSTM attenuates, STAR keeps within a factor of five."""
    ratio = {
        cell: lattice(config_of(f"{cell}-8x16"), runs=40).ratio.at(loss="all").values
        for cell in ("rnn", "lstm", "star")
    }
    assert ratio["rnn"] > 1.5
    assert ratio["lstm"] < 0.02
    assert 0.2 < ratio["star"] < 5


@pytest.mark.parametrize(("cell", "expected"), [("rnn", 1.0), ("lstm", 0.25), ("star", 0.5)])
def test_singular_values_at_the_zero_state(cell: str, expected: float) -> None:
    result = jacobian(config_of(f"{cell}-3x16")).values
    assert result.values.shape == (2, 3, 16)
    np.testing.assert_allclose(result.values, expected, rtol=0, atol=1e-6)


def test_singular_values_at_any_state_are_those_of_finite_differences() -> None:
    from helpers import network, normal

    net, x = network("gru reset=before", layers=2, units=3), normal(1, 5, 2)
    result = jacobian_at(net, x, step=3).values
    first = net.features(x[:, :3])[0][:, -1], net.features(x[:, :4])[0][:, -1]
    second = net.features(x[:, :3])[1][:, -1]
    direction, rate = net.layers[1].forward_direction, 1e-6

    def output(below: Tensor, h: Tensor) -> Tensor:
        return direction.step(direction.cell.prepare(direction.input(below)), (h,))[0]

    with torch.no_grad():
        moves = rate * torch.eye(3, dtype=torch.float64)
        j = [(output(first[1] + e, second) - output(first[1] - e, second))[0] / (2 * rate) for e in moves]
        h = [(output(first[1], second + e) - output(first[1], second - e))[0] / (2 * rate) for e in moves]
    for which, columns in (("input", j), ("state", h)):
        expected = torch.linalg.svdvals(torch.stack(columns, 1)).numpy()
        np.testing.assert_allclose(result.at(which=which, layer=2).values, expected, rtol=1e-6)


class Leaky(Cell):
    """A user's own cell: h_t = (1 - a) h_{t-1} + a tanh(W x_t + U h_{t-1} + b), which uses its map twice."""

    inputs = ("h",)

    def __init__(self, maps: ProjectionFactory):
        super().__init__(maps)
        self.recurrent = maps()

    def step(self, x: tuple[Tensor, ...], state: State) -> State:
        (h,) = state
        return (0.5 * h + 0.5 * torch.tanh(self.recurrent(self.recurrent(h), x[0])),)


def leaky(w: reference.Weights, x: Tensor, state: State) -> State:
    U = w["cell.recurrent.weight"]
    return (0.5 * state[0] + 0.5 * torch.tanh(x @ w["input.weight"].T + w["input.bias"] + state[0] @ U.T @ U.T),)


def test_a_cell_of_ones_own_with_a_map_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of a map used twice is a sum of two outer products, whose norm is no product of norms."""
    monkeypatch.setitem(CELLS, "leaky", CellRow(f"{__name__}:Leaky", "leaky", "elman"))
    monkeypatch.setitem(reference.REFERENCES, "leaky", leaky)
    test_every_node_has_the_gradient_of_its_own_parameters("leaky")
    assert jacobian(config_of("leaky-1x4")).values.at(which="input").values == pytest.approx(0.5)


def test_a_network_of_two_directions_has_no_lattice() -> None:
    with pytest.raises(RequestError, match="bidirectional"):
        lattice(config_of("bilstm-2x4"))


@pytest.mark.parametrize("name", ["lstn-12x32", "lstm-12x", "lstm", "rnn-0x5", "rnn-3x99999", "convurnn-2x4"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(RequestError):
        config_of(name)


def filled(shape: tuple[int, ...], name: str) -> Tensor:
    """Weights of many runs, (runs, out, in, ...), of one gate."""
    weight = torch.full(shape, 7.0, dtype=torch.float64)
    initialisers.fill(weight, name, shape[1], torch.Generator().manual_seed(0), leading=1)
    return weight


@pytest.mark.parametrize("shape", [(5, 4, 4), (5, 6, 2), (5, 2, 6)])
def test_orthogonal_matrices_of_runs_are_orthogonal_and_differ(shape: tuple[int, int, int]) -> None:
    q = filled(shape, "orthogonal")
    gram = q.mT @ q if shape[1] >= shape[2] else q @ q.mT
    torch.testing.assert_close(gram, torch.eye(min(shape[1:]), dtype=torch.float64).expand_as(gram))
    assert (q[0] - q[1]).abs().max() > 0.1


@pytest.mark.parametrize("kernel", [None, 3])
def test_identities_of_runs_are_those_of_torch(kernel: int | None) -> None:
    image = () if kernel is None else (kernel, kernel)
    weight = torch.full((2, 10, 3, *image), 7.0)
    initialisers.fill(weight, "identity", 5, torch.Generator(), leading=1)
    expected = torch.empty(5, 3, *image)
    (torch.nn.init.eye_ if kernel is None else torch.nn.init.dirac_)(expected)
    for gate in weight.split(5, 1):
        torch.testing.assert_close(gate, expected.expand_as(gate))


@pytest.mark.parametrize(
    "name", ["glorot-uniform", "lecun-uniform", "he-uniform", "he-normal", "uniform-0.3", "normal-0.2"]
)
def test_draws_of_runs_have_the_spread_of_one_network(name: str) -> None:
    runs, one = filled((30, 40, 60), name), torch.empty(40, 60)
    initialisers.fill(one, name, 40, torch.Generator().manual_seed(0))
    assert float(runs.std()) == pytest.approx(float(one.std()), rel=0.05)
    assert float(runs.abs().max()) <= 1.1 * float(one.abs().max()) or "normal" in name
    assert not torch.equal(runs[0], runs[1])


def test_inputs_are_the_random_process_of_the_document() -> None:
    noise = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    x = ensemble.random_inputs((2, 4, 3), torch.Generator().manual_seed(0), correlation=0.8)
    torch.testing.assert_close(x[:, 0], 0.2 * noise[:, 0])
    torch.testing.assert_close(x[:, 1:], 0.8 * x[:, :-1] + 0.2 * noise[:, 1:])


def test_errors_have_length_one() -> None:
    errors = draw("lstm-2x4").errors
    torch.testing.assert_close(errors.norm(dim=2), torch.ones(RUNS, STEPS, dtype=torch.float64))


def test_the_lattice_of_a_card_has_no_more_steps_than_its_task(small_zoo, tmp_path: Path, monkeypatch) -> None:
    small_zoo()
    entry = registry.find("rnn-1x8-mnist-rows")
    monkeypatch.setattr(lattices, "RUNS", 2)
    for steps, expected in ((3, 3), (28, 28), (99, 28)):
        lattices.write(replace(entry, task=entry.task.model_copy(update={"steps": steps})), tmp_path)
        assert Result.from_json(json.loads((tmp_path / lattices.FILE).read_text())).setting["steps"] == expected
