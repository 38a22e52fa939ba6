"""Resets inside sequences: each part between two resets is a sequence of its own, in every scan, and step by step."""

import itertools

import pytest
import torch
from helpers import CELLS, READOUTS, in_each_form, network, normal
from torch import Tensor

from zoo.errors import RequestError
from zoo.networks.recurrent import RecurrentNetwork
from zoo.networks.segments import Segments, similar

RESETS = torch.tensor(
    [[0, 0, 1, 0, 0, 0, 1], [1, 0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0, 0], [0, 1, 0, 1, 0, 0, 1]], dtype=torch.bool
)
LENGTHS = torch.tensor([7, 6, 7, 3])
BATCH, TIME = RESETS.shape


def parts(row: int, lengths: Tensor | None) -> list[slice]:
    """The steps of each segment of a sequence."""
    end = TIME if lengths is None else int(lengths[row])
    cuts = sorted({0, end, *(t for t in range(end) if RESETS[row, t])})
    return [slice(a, b) for a, b in itertools.pairwise(cuts)]


def separately(net: RecurrentNetwork, x: Tensor, state: object, lengths: Tensor | None) -> tuple[Tensor, list[Tensor]]:
    """The logits and the final states of every sequence, each segment by a call of its own."""
    rows, finals = [], []
    for row in range(BATCH):
        logits = []
        for i, steps in enumerate(parts(row, lengths)):
            goes_on = i == 0 and not RESETS[row, 0] and state is not None
            begin = tuple(tuple(s[row : row + 1] for s in each) for each in state) if goes_on else None
            part, final = net.resume(x[row : row + 1, steps], begin)
            logits.append(part[0])
        finals.append(torch.cat([s.flatten() for each in final for s in each]))
        if net.interface.readout == "every":
            read = torch.cat(logits)
            rows.append(torch.cat([read, read.new_zeros(TIME - len(read), *read.shape[1:])]))
        else:
            rows.append(logits[-1])
    return torch.stack(rows), finals


def given(net: RecurrentNetwork) -> object:
    """A state that is not zero: the one after some other steps."""
    return net.resume(normal(BATCH, 3, *net.interface.input, seed=5).to(net.dtype))[1]


@pytest.mark.sampled(3)
@in_each_form("cell", CELLS)
def test_segments_are_sequences_of_their_own(cell: str, kernel: int | None) -> None:
    net = network(cell, kernel=kernel, inputs=(2,) if kernel is None else (2, 4, 3), readout="every").eval()
    x, state = normal(BATCH, TIME, *net.interface.input), given(net)
    expected, finals = separately(net, x, state, LENGTHS)
    logits, final = net.resume(x, state, lengths=LENGTHS, resets=RESETS)
    torch.testing.assert_close(logits, expected)
    for row, one in enumerate(finals):
        torch.testing.assert_close(torch.cat([s[row].flatten() for each in final for s in each]), one)
    torch.testing.assert_close(net(x, LENGTHS, state=state, resets=RESETS), expected)


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("backend", ["auto", "plain"])
@pytest.mark.parametrize("spec", [{}, {"bidirectional": "concat"}, {"block": {"norm": "rms", "convolution": 3}}])
def test_every_readout_and_both_directions(readout: str, backend: str, spec: dict[str, object]) -> None:
    net = network("lstm", dtype=torch.float32, readout=readout, **spec).eval()
    net.backend = backend
    x = normal(BATCH, TIME, 2).float()
    for lengths in (None, LENGTHS):
        expected, _ = separately(net, x, None, lengths)
        torch.testing.assert_close(net(x, lengths, resets=RESETS), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cell", ["gru reset=after", "lstm", "mingru", "mlstm heads=2"])
def test_gradients_stop_at_a_reset(cell: str) -> None:
    net = network(next(case for case in CELLS if case.split()[0] == cell.split()[0]), readout="every")
    x = normal(BATCH, TIME, 2).requires_grad_()
    net(x, resets=RESETS)[:, -1].sum().backward()
    assert x.grad is not None
    for row in range(BATCH):
        begin = parts(row, None)[-1].start
        assert not x.grad[row, :begin].any()
        assert x.grad[row, -1].any()


@pytest.mark.parametrize("readout", ["last", "mean"])
@pytest.mark.parametrize("cell", ["star", "lstm", "lru"])
def test_steps_with_resets_are_the_sequence(cell: str, readout: str) -> None:
    net = network(cell, readout=readout).eval()
    x, state = normal(BATCH, TIME, 2), given(net)
    expected = net(x, state=state, resets=RESETS)
    for t in range(TIME):
        logits, state = net.step(x[:, t], state, resets=RESETS[:, t])
    torch.testing.assert_close(logits, expected)


def test_tokens_have_resets_too() -> None:
    from zoo.networks.builder import build
    from zoo.registry.schema import Architecture, Config, Embedding, Interface

    architecture = Architecture(cell="gru", layers=1, units=4, embedding=Embedding(size=3))
    interface = Interface(vocabulary=9, steps=TIME, outputs=2, readout="every")
    net = build(Config(name="words", task="none", architecture=architecture, interface=interface), device="cpu").eval()
    x = torch.randint(2, 9, (BATCH, TIME), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(net(x, resets=RESETS), separately(net, x, None, None)[0])


@pytest.mark.parametrize(
    ("resets", "words"),
    [
        (RESETS.long(), r"resets must be a bool tensor of shape \(4, 7\)"),
        (RESETS[:, 1:], r"got \(4, 6\)"),
        (RESETS.tolist(), "got list"),
    ],
)
def test_resets_that_do_not_fit(resets: object, words: str) -> None:
    net = network("rnn")
    for call in (
        lambda: net(normal(BATCH, TIME, 2), resets=resets),
        lambda: net.encode(normal(BATCH, TIME, 2), resets=resets),
    ):
        with pytest.raises(RequestError, match=words):
            call()
    with pytest.raises(RequestError, match="resets must be"):
        net.step(normal(BATCH, 2), resets=torch.zeros(BATCH))
    with pytest.raises(RequestError, match="lengths must be"):
        net(normal(BATCH, TIME, 2), torch.zeros(BATCH, dtype=torch.long), resets=RESETS)


def test_no_resets_change_nothing() -> None:
    net = network("star")
    x = normal(BATCH, TIME, 2)
    torch.testing.assert_close(net(x, resets=torch.zeros_like(RESETS)), net(x))
    torch.testing.assert_close(net.encode(x, resets=torch.zeros_like(RESETS))[0], net.encode(x)[0])


@pytest.mark.parametrize("every_step", [True, False])
def test_segments_share_scans_with_little_padding(every_step: bool) -> None:
    resets = torch.rand(16, 200, generator=torch.Generator().manual_seed(0)) < 0.02
    lengths = torch.arange(185, 201)
    segments, scans = Segments(resets, lengths), []

    def run(x: Tensor, state: object, lengths: Tensor, dt: None) -> tuple[Tensor, object]:
        assert x.shape[1] == lengths.max()
        scans.append(x.shape[:2])
        return x if every_step else x[torch.arange(len(x)), lengths - 1], ((x[:, 0],),)

    x = torch.arange(3200).view(16, 200)
    y, ((begins,),) = segments.run(run, x, ((torch.zeros(len(segments.lengths)),),), every_step)  # type: ignore[arg-type]
    inside = torch.arange(200) < lengths[:, None]
    last = torch.where(inside, torch.arange(200), 0).max(1).values
    assert torch.equal(y, x * inside if every_step else x[torch.arange(16), last])
    assert torch.equal(begins, x[:, 0] + torch.where(resets & inside, torch.arange(200), 0).max(1).values)
    padded = sum(n * longest for n, longest in scans)
    assert len(scans) < 20
    # without groups: 4.6 times the steps of the batch; a readout of the last step needs the last segments alone
    assert padded < (1.5 if every_step else 0.5) * int(lengths.sum())
    scans.clear()
    segments.run(run, x, ((torch.zeros(len(segments.lengths)),),), every_step, together=True)  # type: ignore[arg-type]
    assert scans == [(len(segments.lengths), int(segments.lengths.max()))]


def test_similar_lengths_are_the_cheapest_groups() -> None:
    def cost(groups: list[list[int]]) -> int:
        return sum((len(group) + 3) * max(group) for group in groups)

    lengths = [9, 1, 4, 9, 2, 30, 1, 5]
    groups = [torch.tensor(lengths)[each].tolist() for each in similar(torch.tensor(lengths), 3)]
    assert sorted(itertools.chain(*groups)) == sorted(lengths)
    ordered = sorted(lengths)
    splits = (
        [ordered[a:b] for a, b in itertools.pairwise((0, *cuts, len(ordered)))]
        for n in range(len(ordered))
        for cuts in itertools.combinations(range(1, len(ordered)), n)
    )
    assert cost(groups) == min(map(cost, splits))


def test_batch_norm_takes_the_means_of_all_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    together: list[bool] = []
    run = Segments.run

    def noted(*args: object, **kwargs: bool) -> object:
        together.append(kwargs["together"])
        return run(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Segments, "run", noted)
    for norm, training in (("batch", True), ("batch", False), ("rms", True)):
        network("gru", block={"norm": norm}).train(training)(normal(BATCH, TIME, 2), resets=RESETS)
    assert together == [True, False, False]


def test_resets_without_values_are_refused() -> None:
    with pytest.raises(RequestError, match="resets must be a bool tensor"):
        network("rnn")(normal(BATCH, TIME, 2), resets=RESETS.to("meta"))
