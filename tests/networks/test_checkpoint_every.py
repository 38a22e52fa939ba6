"""Recomputing states in the backward pass instead of keeping them (checkpoint_every)."""

import functools

import pytest
import torch
from helpers import needs_scan, normal, random_state
from scans import close, results, small
from torch import Tensor

from zoo.errors import RequestError
from zoo.networks.stack import Stack

pytestmark = needs_scan


@pytest.mark.parametrize("spec", [{}, {"readout": "every", "dropout": 0.3, "train": True}], ids=str)
@pytest.mark.parametrize("backend", ["plain", "auto"])
@pytest.mark.parametrize("lengths", [None, [3, 7, 1]], ids=["whole", "lengths"])
@pytest.mark.parametrize("case", ["lstm", "tlstm"])
def test_recomputed_gradients_are_the_same(
    case: str, spec: dict[str, object], backend: str, lengths: list[int] | None
) -> None:
    net, x = small(case, layers=2, steps=7, **spec), normal(3, 7, 2, dtype=torch.float32)
    net.backend = backend
    ends = None if lengths is None else torch.tensor(lengths)
    run = functools.partial(results, net, x, random_state(net, 3), ends)
    if spec.get("dropout"):
        net.dropout.p = 0.0  # the masks of a part are drawn for the part
    expected = run()
    for net.checkpoint_every in (1, 3, 7, 20):
        close(run(), expected)
    net.tbptt_steps, net.checkpoint_every = 2, None
    expected = run()
    net.checkpoint_every = 4
    close(run(), expected)


def test_states_are_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = small("lstm", layers=2, steps=7), normal(3, 7, 2, dtype=torch.float32)
    lengths, scan = [], Stack._scan
    monkeypatch.setattr(Stack, "_scan", lambda *given: lengths.append(given[1].shape[1]) or scan(*given))
    net.checkpoint_every = 3
    loss = net(x).sum()
    assert lengths == [3, 3, 1]
    loss.backward()
    assert sorted(lengths[3:]) == [1, 3, 3]


@pytest.mark.parametrize(
    ("spec", "every", "tbptt_steps"),
    [({"bidirectional": "sum"}, 2, None), ({"recurrent_dropout": 0.1}, 2, None), ({}, 3, 2)],
    ids=["both ways", "recurrent dropout", "truncated elsewhere"],
)
def test_what_cannot_be_recomputed_is_refused(spec: dict[str, object], every: int, tbptt_steps: int | None) -> None:
    net = small("lstm", layers=1, **spec)
    net.checkpoint_every, net.tbptt_steps = every, tbptt_steps
    with pytest.raises(RequestError, match="cannot have checkpoint_every="):
        net(normal(3, 7, 2, dtype=torch.float32))


@pytest.mark.parametrize("lengths", [[12, 12, 12], [2, 1, 2], [12, 5, 1]], ids=str)
def test_parts_of_a_network_of_blocks_know_where_sequences_end(lengths: list[int]) -> None:
    net = small("lstm", layers=2, steps=12, block={"convolution": 4})
    net.backend = "auto"
    run = functools.partial(
        results, net, normal(3, 12, 2, dtype=torch.float32), random_state(net, 3), torch.tensor(lengths)
    )
    expected = run()
    for net.checkpoint_every in (1, 5, 12):
        close(run(), expected)


def test_what_is_computed_again_has_the_same_dropout() -> None:
    net, x = small("lstm", layers=2, steps=7, dropout=0.5, train=True), normal(3, 7, 2, dtype=torch.float32)
    masks: list[Tensor] = []
    net.backend, net.checkpoint_every = "plain", 3
    net.dropout.register_forward_hook(lambda module, given, result: masks.append(result == 0))
    net(x).sum().backward()
    assert len(masks) == 6
    assert all(torch.equal(drawn, again) for drawn, again in zip(masks[:3], masks[:2:-1], strict=True))


def test_means_of_all_steps_are_not_recomputed_from_parts() -> None:
    net = small("lstm", layers=1, block={"norm": "batch"})
    net.backend, net.checkpoint_every = "auto", 3
    x = normal(3, 7, 2, dtype=torch.float32)
    with pytest.raises(RequestError, match=r"cannot have checkpoint_every=3: .* and no batch norm"):
        net(x)
    with torch.no_grad():  # nothing is kept for a backward pass
        assert net(x).isfinite().all()


@pytest.mark.parametrize("lengths", [None, [9, 4, 1]], ids=["whole", "lengths"])
def test_truncation_cuts_the_windows_of_convolutions_like_all_states(lengths: list[int] | None) -> None:
    net, x = small("lstm", layers=1, steps=9, block={"convolution": 4}), normal(3, 9, 2, dtype=torch.float32)
    net.backend, ends = "plain", None if lengths is None else torch.tensor(lengths)
    state = tuple(tuple(s.requires_grad_() for s in layer) for layer in random_state(net, 3))

    def gradients(tbptt_steps: int | None, every: int | None) -> tuple[Tensor | None, ...]:
        net.tbptt_steps, net.checkpoint_every = tbptt_steps, every
        window = net.encode(x, state, lengths=ends)[1][0][-1]
        return torch.autograd.grad(
            window.square().sum(), (net.layers[0].block.enter.weight, state[0][-1]), allow_unused=True
        )

    whole, of_state = gradients(None, None)
    for tbptt_steps in (2, 4, 9, 20):
        cut, given = gradients(tbptt_steps, None)
        recomputed, _ = gradients(tbptt_steps, tbptt_steps)
        torch.testing.assert_close(recomputed, cut)
        assert torch.equal(cut, whole) == (tbptt_steps >= 9)
        assert torch.equal(given if given is not None else 0 * of_state, of_state) == (
            tbptt_steps >= 9 or lengths is None
        )
