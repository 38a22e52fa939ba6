"""Every analysis against its definition written out, on small networks."""

import copy
import json
import math
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import CASES, network, normal
from torch import Tensor
from torch.nn import functional as F

from zoo import build
from zoo.cells import CELLS, FEEDFORWARD
from zoo.cells.colours import cell_colour
from zoo.checkpoints.tokenizer import RESERVED, Tokenizer
from zoo.diagnostics import ANALYSES, drawing, subject
from zoo.diagnostics.base import Array, Axis, Result, histograms, read_results
from zoo.diagnostics.gradients import compare_ends, evolution, feedforward, gradients
from zoo.diagnostics.jacobian import eigenvalues, jacobian, jacobian_at
from zoo.diagnostics.lattice import lattice, summarise
from zoo.diagnostics.noh import dependency, gates, noh
from zoo.diagnostics.outputs import estimation, saturation
from zoo.errors import RequestError, StorageError
from zoo.registry.schema import Architecture, Config, Embedding, Interface
from zoo.registry.schema.blocks import BlockSpec
from zoo.training.step import make_optimizer
from zoo.utils import paths
from zoo.utils.figures import add_caption

Run = Callable[..., tuple[int, str, str]]
LENGTHS = torch.tensor([4, 2, 5])


def states(net, x: Tensor, h0: Tensor, c0: Tensor | None = None) -> list[tuple[Tensor, ...]]:
    """States of a one-layer network before the first step and after every step, by the layer's own step."""
    direction = net.layers[0].forward_direction
    states = [(h0,) if c0 is None else (h0, c0)]
    for x_t in x.unbind(1):
        states.append(direction.step(direction.cell.prepare(direction.input(x_t)), states[-1]))
    return states


@pytest.mark.parametrize("cell", ["rnn", "lstm"])
def test_noh_is_the_column_sum_of_the_jacobian_of_the_memory(cell: str) -> None:
    net, x = network(cell, layers=1), normal(2, 5, 2)
    result = noh(net, x).indicator
    assert result.axis("step").ticks == (1, 2, 3, 4, 5)
    for t in (1, 5):
        sums = []
        for i in range(2):
            zero = torch.zeros(1, 3, dtype=torch.float64)

            def memory(s0: Tensor, i: int = i, zero: Tensor = zero, t: int = t) -> Tensor:
                start = (s0, None) if cell == "rnn" else (zero, s0)
                return states(net, x[i : i + 1, :t], *start)[t][-1][0]

            sums.append(torch.autograd.functional.jacobian(memory, zero)[:, 0].sum(0))
        expected = math.log10(torch.stack(sums).abs().mean())
        assert result.at(layer=1, step=t).values == pytest.approx(expected)


def test_noh_ends_where_each_sequence_ends() -> None:
    net, x = network("gru reset=before", layers=2), normal(3, 5, 2)
    result = noh(net, x, LENGTHS)
    single = [noh(net, x[i : i + 1, :n]) for i, n in enumerate(LENGTHS.tolist())]
    np.testing.assert_allclose(10**result.end.values, np.mean([10**a.end.values for a in single], 0))
    np.testing.assert_allclose(single[0].end.values, single[0].indicator.values[:, -1])
    for t, going in ((2, [0, 1, 2]), (4, [0, 2]), (5, [2])):
        each = [10 ** single[i].indicator.at(step=t).values for i in going]
        np.testing.assert_allclose(10 ** result.indicator.at(step=t).values, np.mean(each, 0))


def test_noh_of_a_memory_without_a_past_is_not_a_number() -> None:
    net = network("rnn activation=relu", layers=1)
    with torch.no_grad():
        net.layers[0].forward_direction.cell.recurrent.weight.zero_()
    assert np.isnan(noh(net, normal(2, 3, 2)).indicator.values).all()


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


def test_gradient_norms_are_those_of_backward() -> None:
    net, x, y = network("star shift=0.0", layers=3), normal(4, 5, 2), torch.tensor([0, 1, 2, 3])
    result = gradients(net, x, y).norm.values
    assert all(p.grad is None for p in net.parameters())
    F.cross_entropy(net(x), y).backward()
    expected = [math.sqrt(sum(float(p.grad.square().sum()) for p in layer.parameters())) for layer in net.layers]
    np.testing.assert_allclose(result, expected, rtol=1e-5)  # the loss is taken in single precision


def test_gates_are_gradients_of_one_sequence_each() -> None:
    net, x = network("gru reset=before", layers=1), normal(2, 4, 2)
    result = gates(net, x).norm
    assert result.axis("weights").ticks == ("input r", "input z", "input h", "gates 1", "gates 2", "candidate")
    direction = net.layers[0].forward_direction
    v = torch.randn(1, 3, generator=torch.Generator().manual_seed(0)).sign() / math.sqrt(3)
    zero = torch.zeros(1, 3, dtype=torch.float64)
    norms = []
    for i in range(2):
        last = (states(net, x[i : i + 1], zero)[-1][0] * v).sum()
        of = (direction.input.weight, direction.cell.gates.weight, direction.cell.candidate.weight)
        parts = [block for g in torch.autograd.grad(last, of) for block in g.split(3)]
        norms.append([float(block.norm()) for block in parts])
    np.testing.assert_allclose(result.at(layer=1, step=4).values, np.mean(norms, 0), rtol=1e-6)


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


def test_dependency_replaces_the_end_of_every_sequence() -> None:
    net, x, y = network("gru reset=before", layers=1), normal(3, 10, 2), torch.tensor([0, 1, 2])
    lengths = torch.tensor([10, 4, 10])
    result = dependency(net, x, y, lengths)
    altered = x.clone()
    for i, (n, gone) in enumerate(((10, 3), (4, 1), (10, 3))):
        altered[i, n - gone : n] = x.mean((0, 1))
    expected = F.cross_entropy(net(altered, lengths), y).detach()
    assert result.loss.at(end="last", share=0.3).values == pytest.approx(float(expected), rel=1e-5)
    assert result.loss.at(end="last", share=0.0).values == result.loss.at(end="first", share=0.0).values


NO_MATRIX = {  # with square blocks, and no diagonal that multiplies the state
    "deltanet", "eunn", "gated-deltanet", "gla", "mamba2", "mlstm", "retention", "rwkv6", "rwkv7", "indrnn", "urnn",
    "brc", "unicornn",
}  # fmt: skip


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("what", [w for w, row in ANALYSES.items() if row.needs in ("network", "data", "labels")])
def test_every_analysis_takes_every_cell(cell: str, what: str) -> None:
    name = f"{cell}-2x4"
    sample = subject.sample(name, subject.config_of(name), examples=3, steps=4)
    if what == "eigenvalues" and cell in NO_MATRIX:
        with pytest.raises(RequestError, match="no eigenvalues of its own"):
            ANALYSES[what].function(*sample.arguments(ANALYSES[what].needs))
        return
    result = ANALYSES[what].function(*sample.arguments(ANALYSES[what].needs))
    assert result.arrays
    assert result.lines
    assert np.isfinite(np.concatenate([a.values.ravel() for a in result.arrays.values()])).any()
    stored = Result.from_json(json.loads(json.dumps(result.to_json())))
    assert {k: a.axes for k, a in stored.arrays.items()} == {k: a.axes for k, a in result.arrays.items()}


def test_the_cell_of_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.cells.CELLS", CELLS)
    text = paths.path("docs", "diagnostics", "README.md").read_text()
    module = types.ModuleType("own_cells")
    monkeypatch.setitem(sys.modules, "own_cells", module)
    try:
        exec(text.split("```python\n")[1].split("```")[0], module.__dict__)
    finally:
        CELLS.pop("leaky", None)


def test_arrays_refuse_axes_that_do_not_fit_and_ticks_that_are_not_there() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        Array(np.zeros((2, 3)), (Axis.counted("layer", 2),))
    with pytest.raises(KeyError, match="step=3"):
        Array(np.zeros(2), (Axis.counted("step", 2),)).at(step=3)


def test_the_course_of_a_feed_forward_network() -> None:
    name = "mlp-3x8-circles.tanh"
    net, data, recipe, target = subject.training_arguments(name, subject.config_of(name), epochs=2)
    reference = copy.deepcopy(net)
    result = feedforward(net, data, recipe, target)
    x, y, _ = data.batch(torch.arange(len(data)), net.device)
    optimizer = make_optimizer(recipe.optimizer, reference)
    generator, losses = torch.Generator().manual_seed(recipe.seed), []
    for _ in range(2):
        for part in torch.randperm(len(x), generator=generator).split(recipe.batch_size):
            optimizer.zero_grad()
            F.cross_entropy(reference(x[part]), y[part]).backward()
            optimizer.step()
        losses.append(F.cross_entropy(reference(x), y).item())
    np.testing.assert_allclose(result.loss.values, losses, rtol=1e-5)
    assert result.lines[1].startswith(
        f"B: loss {losses[0]:.3g} after epoch 1, {losses[1]:.3g} after 2, {losses[1]:.3g} after 2;"
    )
    h, hidden = x, []
    for layer in reference.hidden:
        h = torch.tanh(layer.map(h))
        hidden.append(h)
    logits = reference.head(h)
    weights = [layer.map.weight for layer in reference.hidden] + [reference.head.weight]
    slopes = torch.autograd.grad(logits.softmax(1)[:, -1].mean(), weights)
    np.testing.assert_allclose(result.gradient.values[:, -1], [g.abs().mean().item() for g in slopes], rtol=1e-4)
    np.testing.assert_allclose(result.accuracy.values[-1], (logits.argmax(1) == y).double().mean().item())
    np.testing.assert_allclose(result.outputs.values[:, -1], [h.abs().mean().item() for h in hidden], rtol=1e-4)
    np.testing.assert_allclose(result.means.values, [h.mean().item() for h in hidden], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(result.last.values.sum(1), 1, rtol=1e-5)
    with pytest.raises(RequestError, match="no feed-forward classifier"):
        feedforward(network("rnn"), data, recipe, target)


def test_the_first_updates_of_a_training(small_zoo: Callable[..., Path]) -> None:
    small_zoo({"optimizer": {"name": "sgd", "lr": 0.5}, "max_grad_norm": 0.01})
    name = "rnn-1x8-mnist-rows"
    net, data, recipe, target = subject.training_arguments(name, subject.config_of(name))
    reference = copy.deepcopy(net)
    result = evolution(net, data, recipe, target, updates=2)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(recipe.seed))
    for update in range(2):
        x, y, lengths = data.batch(order[update * recipe.batch_size :][: recipe.batch_size], reference.device)
        reference.zero_grad()
        loss = F.cross_entropy(reference(x, lengths), y)
        loss.backward()
        norm = torch.cat([p.grad.flatten() for p in reference.layers.parameters()]).norm().item()
        np.testing.assert_allclose(result.norm.values[:, update], [norm], rtol=1e-4)
        np.testing.assert_allclose(result.loss.values[update], loss.item(), rtol=1e-5)
        whole = torch.cat([p.grad.flatten() for p in reference.parameters()]).norm()
        with torch.no_grad():
            for p in reference.parameters():
                p -= 0.5 * 0.01 / (whole + 1e-6) * p.grad


def test_both_directions_stop_at_the_end_of_a_sequence_before_their_jacobians_are_taken() -> None:
    net, x = network("gru", layers=2, bidirectional="concat"), normal(3, 5, 2)
    padded = torch.cat([x, normal(3, 4, 2)], 1)
    whole = jacobian_at(net, x, torch.tensor([5, 5, 5]), step=2)
    assert np.allclose(
        jacobian_at(net, padded, torch.tensor([5, 5, 5]), step=2).values.values, whole.values.values, equal_nan=True
    )
    assert not np.allclose(jacobian_at(net, padded, step=2).values.values, whole.values.values, equal_nan=True)


def test_the_parts_of_an_array_are_named() -> None:
    array = Array(np.arange(6.0).reshape(1, 2, 3), (Axis("a", ("x",)), Axis.counted("b", 2), Axis.counted("c", 3)))
    assert [(where, part.values.tolist()) for where, part in array.parts(1)] == [
        ("a x, b 1", [0, 1, 2]), ("a x, b 2", [3, 4, 5])
    ]  # fmt: skip
    assert [where for where, _ in array.parts(5)] == [""]
    with pytest.raises(KeyError, match="d"):
        array.axis("d")


def test_what_is_drawn_of_a_feed_forward_network(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    name = "mlp-3x8-circles.tanh"
    result = feedforward(*subject.training_arguments(name, subject.config_of(name), epochs=2))
    drawing.draw([(name, result)], ANALYSES["feedforward"].plot, tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").stat().st_size > 3000


@pytest.mark.parametrize(("call", "words"), [
    (lambda: dependency(network("rnn", readout="every"), normal(2, 5, 2), torch.zeros(2)), "answers at every step"),
    (lambda: lattice(subject.config_of("rnn-2x4"), runs=1), "needs at least two runs"),
    (lambda: subject.sample("rin-1x100-babi-01", subject.config_of("rin-1x100-babi-01")), "does not read one sequence"),
    (lambda: subject.training_arguments("rin-1x100-babi-01", subject.config_of("rin-1x100-babi-01")), "does not read one sequence"),
    (lambda: subject.training_arguments("rnn-2x4", subject.config_of("rnn-2x4")), "no recipe to train it"),
])  # fmt: skip
def test_what_an_analysis_refuses(call: Callable[[], object], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        call()


def test_bidirectional_networks_have_what_can_be_said_of_them() -> None:
    sample = subject.sample("bigru-1x3", subject.config_of("bigru-1x3"), examples=2)
    assert estimation(sample.network, sample.x).mean.values.shape == (2, 1, 10)
    with pytest.raises(RequestError, match="bidirectional"):
        noh(sample.network, sample.x)


@pytest.mark.parametrize(
    "analysis", [saturation, estimation, noh, gates, jacobian_at, gradients, dependency, eigenvalues]
)
def test_an_analysis_leaves_every_module_in_the_mode_it_had(analysis: Callable[..., object]) -> None:
    net = network("lstm").train()
    net.layers[0].eval()
    before = [m.training for m in net.modules()]
    labels = [torch.zeros(2, dtype=torch.int64)] if analysis in (gradients, dependency) else []
    analysis(net, *([] if analysis is eigenvalues else [normal(2, 5, 2), *labels]))
    assert [m.training for m in net.modules()] == before


@pytest.mark.parametrize("name", ["mlp-3x8-circles.sigmoid", "rin-1x100-babi-01"])
@pytest.mark.parametrize("analysis", [w for w, row in ANALYSES.items() if row.needs in ("network", "data", "labels")])
def test_a_network_that_does_not_read_one_sequence_is_refused_before_any_work(analysis: str, name: str) -> None:
    network = build(name, device="meta")
    arguments = {"network": [], "data": [None], "labels": [None, None]}[ANALYSES[analysis].needs]
    with pytest.raises(RequestError, match="does not read one sequence"):
        ANALYSES[analysis].function(network, *arguments)
    with pytest.raises(RequestError, match="does not read one sequence"):
        subject.require_network_of(ANALYSES[analysis], network.config)


@pytest.mark.parametrize(("analysis", "words"), [("evolution", "one sequence"), ("feedforward", "no feed-forward")])
def test_an_analysis_that_trains_refuses_other_networks_before_data_are_read(analysis: str, words: str) -> None:
    mlp, lstm = (subject.config_of(name) for name in ("mlp-3x8-pima.sigmoid", "lstm-4x128-pmnist"))
    taken, refused = (mlp, lstm) if analysis == "feedforward" else (lstm, mlp)
    subject.require_network_of(ANALYSES[analysis], taken)
    with pytest.raises(RequestError, match=words):
        subject.require_network_of(ANALYSES[analysis], refused)


def test_captions_say_the_start_values() -> None:
    for name, words in (("rnn-1x4", "weights orthogonal, biases zero"),
                        ("irnn-1x4", "weights input orthogonal, recurrent identity, biases zero")):  # fmt: skip
        result = jacobian(subject.config_of(name))
        assert words in result.caption
    assert "biases zero, and the cell's own" in jacobian(subject.config_of("indrnn-1x4")).caption


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
        (0.9, "it alone and tanh or ReLU and sigmoid."),
        (3.9, "it alone and sigmoid."),
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
        (0.99995, "spectral radius 0.99995, norm 0.99995; errors vanish for sure through it alone."),
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
        ("indrnn", {}, "its recurrent maps are no matrices"),
    ],
)
def test_a_network_without_eigenvalues_says_why(cell: str, spec: dict[str, object], why: str) -> None:
    case = next(case for case in CASES if case.startswith(cell))
    with pytest.raises(RequestError, match=why):
        eigenvalues(network(case, layers=1, **{"units": 4, **spec}))


def test_dependency_replaces_a_share_of_every_sequence() -> None:
    net, x, lengths = network("gru reset=before", layers=1), normal(3, 10, 2), torch.tensor([10, 4, 10])
    y = net(x, lengths).argmax(1)
    result = dependency(net, x, y, lengths)
    altered = x.clone()
    for i, gone in enumerate((3, 1, 3)):
        altered[i, :gone] = x.mean((0, 1))
    expected = F.cross_entropy(net(altered, lengths), y).detach()
    assert result.metric.at(end="first", share=0.0).values == 1.0
    assert result.loss.at(end="first", share=0.3).values == pytest.approx(float(expected), rel=1e-5)


def test_dependency_replaces_words_by_a_frequent_one() -> None:
    words = Interface(vocabulary=5, steps=10, outputs=4, readout="last")
    spec = Architecture(cell="rnn", layers=1, units=3, embedding=Embedding(size=4))
    net = build(Config(name="small", task="none", architecture=spec, interface=words), device="cpu").eval()
    net.tokenizer = Tokenizer([*RESERVED, "a", "the", "b"], 10)
    x, y = torch.tensor([[2, 4] * 5]), torch.tensor([1])
    expected = F.cross_entropy(net(torch.where(torch.arange(10) < 7, x, 3)), y).detach()
    assert dependency(net, x, y).loss.at(end="last", share=0.3).values == pytest.approx(float(expected))


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


def test_a_jacobian_is_the_mean_over_sequences_at_the_end_of_the_shortest() -> None:
    net, x = network("gru reset=before", layers=2), normal(3, 5, 2)
    single = [jacobian_at(net, x[i : i + 1], step=1).values.values for i in range(3)]
    np.testing.assert_allclose(jacobian_at(net, x, LENGTHS).values.values, np.mean(single, 0))


def test_a_course_is_recorded_at_its_first_and_its_last_update(small_zoo) -> None:
    small_zoo({"optimizer": {"name": "sgd", "lr": 0.5}, "max_grad_norm": 0.01})
    name = "rnn-1x8-mnist-rows"
    result = evolution(*subject.training_arguments(name, subject.config_of(name)), updates=6, every=4)
    assert result.norm.axis("update").ticks == result.loss.axis("update").ticks == (1, 5, 6)


def test_a_ratio_of_gradients_is_of_the_first_layer_to_the_last() -> None:
    assert compare_ends([2.0, 1.0]) == "Gradient norms: layer 1 2, last layer 1; ratio 2."


@pytest.mark.parametrize("probe", ["ones", "signs"])
def test_the_indicator_is_of_the_probe_that_was_asked_for(probe: str) -> None:
    net, x = network("rnn", layers=1), normal(1, 5, 2)
    v = torch.randn(3, generator=torch.Generator().manual_seed(0)).sign() if probe == "signs" else torch.ones(3)
    zero = torch.zeros(1, 3, dtype=torch.float64)
    j = torch.autograd.functional.jacobian(lambda s0: states(net, x, s0)[-1][0][0], zero)[:, 0]
    assert noh(net, x, probe=probe).end.values == pytest.approx(math.log10((v.double() @ j).abs().mean()))


def test_histograms_hold_all_values() -> None:
    shares, edges = histograms([np.array([0.5]), np.array([3.0])], 2, (-1.0, 1.0))
    assert (shares.tolist(), edges.ticks) == ([[1.0, 0.0], [0.0, 1.0]], (0.5, 1.75))


@pytest.mark.parametrize("content", [
    "{", "[]", "null", "3", '{"shown": 3}', '{"shown": [{}]}', '{"mean": 3}', '{"setting": {}, "lines": 3}', "[" * 100_000,
])  # fmt: skip
def test_a_damaged_result_says_so(tmp_path: Path, content: str) -> None:
    (tmp_path / "lattice.json").write_text(content)
    with pytest.raises(StorageError, match="is damaged"):
        read_results(tmp_path / "lattice.json")


def test_a_cell_has_one_colour_in_every_picture() -> None:
    pytest.importorskip("matplotlib")
    colours = {name: cell_colour(f"{name}-2x8") for name in [*CELLS, *FEEDFORWARD]}
    assert None not in colours.values()
    assert len(set(colours.values())) == len(colours)
    assert colours["lstm"] == cell_colour("lstm, trained") == cell_colour("biconvlstm-1x1-task") == cell_colour("lstm")
    assert (
        cell_colour("my-lstm") is cell_colour("lstmish") is cell_colour("lstm-new") is cell_colour("norm 0.9") is None
    )
    norm = Array(np.arange(1.0, 4.0), (Axis.counted("layer", 3),))
    titles = ("lstm-3x8", "lstm-3x8, trained", "star-3x8")
    (axes,) = drawing.curves([(title, Result({}, {"norm": norm})) for title in titles]).axes
    looks = [(line.get_color(), line.get_linestyle()) for line in axes.lines]
    assert looks == [(colours["lstm"], "-"), (colours["lstm"], "--"), (colours["star"], "-")]


def test_layers_are_drawn_from_dark_to_light() -> None:
    pytest.importorskip("matplotlib")
    norm = Array(np.ones((12, 3)), (Axis.counted("layer", 12), Axis.counted("update", 3)), log=True)
    axes = drawing.curves([("star", Result({}, {"norm": norm, "loss": norm.at(layer=1)}))]).axes[0]
    lightness = [sum(line.get_color()[:3]) for line in axes.lines]
    assert len(lightness) == 12
    assert lightness == sorted(lightness)


def test_the_picture_of_a_lattice_says_what_it_shows(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawing.draw([("star-2x4", lattice(subject.config_of("star-2x4"), runs=3))], "maps", tmp_path / "picture.svg")
    text = (tmp_path / "picture.svg").read_text()
    for words in ("star-2x4", "loss on the last output", "gradient norm", "standard deviation / mean", "A dark corner"):
        assert words in text


def test_a_legend_does_not_overlap_the_caption() -> None:
    pytest.importorskip("matplotlib")
    norms = [Array(np.ones((n, 3)), (Axis("weights", tuple("abcdefgh"[:n])), Axis.counted("step", 3))) for n in (2, 8)]
    figure = drawing.curves([(str(i), Result({}, {"norm": norm})) for i, norm in enumerate(norms)])
    add_caption(figure, "the setting")
    figure.draw_without_rendering()
    top = figure._supxlabel.get_window_extent().y1
    assert all(axes.get_legend().get_window_extent().y0 >= top for axes in figure.axes)


@pytest.mark.parametrize(
    ("ratio", "words"), [(0.0, "zero"), (1.05, "about as large"), (3.21, "3.2 times larger"), (7.1e-4, "1,400 times smaller")]
)  # fmt: skip
def test_a_ratio_in_words(ratio: float, words: str) -> None:
    axes = tuple(Axis.counted(name, 2) for name in ("layer", "step"))
    losses = Axis("loss", ("last", "all"))
    ones, ratios = Array(np.ones((2, 2, 2)), (losses, *axes)), Array(np.full(2, ratio), (losses,))
    line = summarise({"mean": ones, "spread": ones, "ratio": ratios, "depth": ratios})[0]
    assert f"the gradient at layer 1 is {words} at step 1 and {words} at step 2." in line


def test_a_single_histogram_is_titled_once(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = saturation(network("rnn", layers=2), normal(2, 5, 2))
    drawing.draw([("some-model", result)], "histograms", tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").read_text().count(">some-model<") == 1
