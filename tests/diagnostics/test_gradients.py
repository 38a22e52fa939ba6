"""Gradients over layers and updates against those of backward."""

import copy
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import network, normal
from torch.nn import functional as F

from zoo.diagnostics import subject
from zoo.diagnostics.base import Array, Axis
from zoo.diagnostics.gradients import compare_ends, evolution, feedforward, gradients
from zoo.diagnostics.lattice import summarise
from zoo.errors import RequestError
from zoo.registry.schema.recipes import Optimizer
from zoo.training.step import make_optimizer


def test_gradient_norms_are_those_of_backward() -> None:
    net, x, y = network("star shift=0.0", layers=3), normal(4, 5, 2), torch.tensor([0, 1, 2, 3])
    result = gradients(net, x, y).norm.values
    assert all(p.grad is None for p in net.parameters())
    F.cross_entropy(net(x), y).backward()
    expected = [math.sqrt(sum(float(p.grad.square().sum()) for p in layer.parameters())) for layer in net.layers]
    np.testing.assert_allclose(result, expected, rtol=1e-5)  # the loss is taken in single precision


def test_gradients_are_clipped_as_the_recipe_says() -> None:
    name = "mlp-3x8-circles.tanh"
    net, data, recipe, target = subject.training_arguments(name, subject.config_of(name), epochs=1)
    before = copy.deepcopy(net.state_dict())
    plain = recipe.model_copy(update={"optimizer": Optimizer(name="sgd", lr=1.0), "max_grad_norm": 1e-9})
    feedforward(net, data, plain, target)
    torch.testing.assert_close(net.state_dict(), before, atol=1e-6, rtol=0)


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
    with pytest.raises(RequestError, match="not a feed-forward classifier"):
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


def test_a_ratio_of_gradients_is_of_the_first_layer_to_the_last() -> None:
    assert compare_ends([2.0, 1.0]) == "Gradient norms: layer 1 2, last layer 1; ratio 2."
    assert compare_ends([2.0, 0.0]) == "Gradient norms: layer 1 2, last layer 0."
    assert compare_ends([2.0]) == "Gradient norm of the layer: 2."


@pytest.mark.parametrize("more", [1, 10])
def test_a_batch_larger_than_the_data_has_all_of_them(small_zoo: Callable[..., Path], more: int) -> None:
    small_zoo()
    name = "rnn-1x8-mnist-rows"
    net, data, recipe, target = subject.training_arguments(name, subject.config_of(name))
    reference = copy.deepcopy(net)
    larger = recipe.model_copy(update={"batch_size": len(data) + more})
    x, y, lengths = data.batch(torch.arange(len(data)))
    loss = F.cross_entropy(reference(x, lengths), y).item()
    np.testing.assert_allclose(evolution(net, data, larger, target, updates=2).loss.values[0], loss, rtol=1e-5)


@pytest.mark.parametrize(
    ("ratio", "words"), [(0.0, "zero"), (1.05, "about as large"), (3.21, "3.2 times larger"), (7.1e-4, "1,400 times smaller")]
)  # fmt: skip
def test_a_ratio_in_words(ratio: float, words: str) -> None:
    axes = tuple(Axis.counted(name, 2) for name in ("layer", "step"))
    losses = Axis("loss", ("last", "all"))
    ones, ratios = Array(np.ones((2, 2, 2)), (losses, *axes)), Array(np.full(2, ratio), (losses,))
    line = summarise({"mean": ones, "spread": ones, "ratio": ratios, "depth": ratios})[0]
    assert f"the gradient norm at layer 1 is {words} at step 1 and {words} at step 2." in line


def test_frozen_layers_have_gradients_too_and_stay_frozen() -> None:
    net, x, y = network("star shift=0.0", layers=2), normal(4, 5, 2), torch.tensor([0, 1, 2, 3])
    expected = gradients(net, x, y).norm.values
    net.layers[0].requires_grad_(False)
    np.testing.assert_allclose(gradients(net, x, y).norm.values, expected)
    assert not any(p.requires_grad for p in net.layers[0].parameters())
    assert all(p.requires_grad for p in net.layers[1].parameters())


def test_every_update_of_a_training_has_a_whole_batch(
    small_zoo: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_zoo({"batch_size": 48})
    name = "rnn-1x8-mnist-rows"
    net, data, recipe, target = subject.training_arguments(name, subject.config_of(name))
    assert len(data) % 48
    sizes, batch = [], type(data).batch
    monkeypatch.setattr(type(data), "batch", lambda split, at, *rest: sizes.append(len(at)) or batch(split, at, *rest))
    evolution(net, data, recipe, target, updates=len(data) // 48 + 3)
    assert sizes == [48] * (len(data) // 48 + 3)
