"""Irregular samples: the time between two inputs, `dt`, in every cell that declares it, and refused by the others."""

from collections.abc import Callable

import pytest
import reference
import torch
from helpers import CASES, READOUTS, direction, flatten, gradients, network, normal, random_state, same
from torch import Tensor
from torch.export import Dim

from zoo.cells import CELLS, cell_class
from zoo.cells.properties import cells_with
from zoo.errors import RequestError
from zoo.networks.recurrent import RecurrentNetwork

CELLS_WITH_GAPS = sorted(cell for cell in CELLS if cell_class(cell).uses_time_gaps)
GAP_CASES = [case for case, (cell, _) in CASES.items() if cell in CELLS_WITH_GAPS]
BATCH, TIME = 3, 6
each_case = pytest.mark.parametrize("case", GAP_CASES)
each_form = pytest.mark.parametrize("kernel", [None, 3], ids=["dense", "conv"])


def small(case: str, kernel: int | None = None, **spec: object) -> RecurrentNetwork:
    return network(case, kernel=kernel, inputs=(2,) if kernel is None else (2, 4, 3), **spec)


def inputs(net: RecurrentNetwork, batch: int = BATCH) -> tuple[Tensor, Tensor]:
    """A sequence and its gaps."""
    return normal(batch, TIME, *net.interface.input), normal(batch, TIME, seed=7).exp()


def test_the_property_is_that_of_the_classes() -> None:
    assert cells_with("time-gaps") == set(CELLS_WITH_GAPS) != set()


@each_case
@each_form
@pytest.mark.parametrize("merge", [None, "concat"])
def test_gaps_of_one_change_no_bit(case: str, kernel: int | None, merge: str | None) -> None:
    for dtype in (torch.float32, torch.float64):
        net = small(case, kernel, bidirectional=merge, dtype=dtype)
        net.backend = "plain"  # the wavefront rounds otherwise
        x = inputs(net)[0].to(dtype)
        for ones in (torch.ones(BATCH, TIME), torch.ones(BATCH, TIME, dtype=torch.int64)):
            assert torch.equal(net(x, dt=ones), net(x))
            assert torch.equal(net.encode(x, dt=ones)[0], net.encode(x)[0])
        if merge is None:
            assert torch.equal(net.step(x[:, 0], dt=torch.ones(BATCH))[0], net.step(x[:, 0])[0])


@each_case
@each_form
def test_outputs_states_and_gradients_equal_the_reference(case: str, kernel: int | None) -> None:
    """The references take one time step, whose length is their option `dt`."""
    net, (cell, options) = small(case, kernel, layers=1), CASES[case]
    (x, gaps), state = inputs(net), random_state(net, BATCH)
    gaps.requires_grad_()
    expected, outputs = state[0], []
    for x_t, gap in zip(x.unbind(1), gaps.unbind(1), strict=True):
        dt = options.get("dt", 1.0) * gap.reshape(-1, *[1] * (x_t.dim() - 1))
        expected = reference.REFERENCES[cell](direction(net), x_t, expected, **{**options, "dt": dt})
        outputs.append(expected[0])
    actual, final = net.encode(x, state, dt=gaps)
    same(actual, torch.stack(outputs, 1))
    same(final[0], expected)
    same(gradients(actual.sum(), {"dt": gaps}), gradients(torch.stack(outputs).sum(), {"dt": gaps}))


@each_case
def test_features_take_gaps(case: str) -> None:
    net = small(case)
    x, gaps = inputs(net)
    lengths = torch.tensor([TIME, 1, 3])
    features = net.features(x, lengths, dt=gaps)
    same(features[-1], net.encode(x, lengths=lengths, dt=gaps)[0])
    assert not torch.equal(features[0], net.features(x, lengths)[0])


@each_case
@pytest.mark.parametrize("readout", READOUTS)
def test_the_input_of_the_head_and_the_trace_take_gaps(case: str, readout: str) -> None:
    net = small(case, readout=readout)
    x, gaps = inputs(net)
    lengths = torch.tensor([TIME, 1, 3])
    expected = net(x, lengths, dt=gaps)
    logits, records = net.trace(x, lengths, dt=gaps)
    same(logits, expected)
    same(torch.stack(records[-1][1], 1)[0], net.encode(x, dt=gaps)[0][0])
    pooled = net.pooled(x, lengths, dt=gaps)
    logits = net.head(pooled)
    same(logits[0] if readout == "every" else logits, expected[0] if readout == "every" else expected)


@each_case
@pytest.mark.parametrize("readout", READOUTS)
def test_steps_and_halves_are_the_whole(case: str, readout: str) -> None:
    net = small(case, readout=readout)
    x, dt = inputs(net)
    whole, final = net.resume(x, dt=dt)
    same(net(x, dt=dt), whole)
    first, state = net.resume(x[:, :2], dt=dt[:, :2])
    second, halves = net.resume(x[:, 2:], state, dt=dt[:, 2:])
    same(torch.cat([first, second], 1) if readout == "every" else second, whole)
    same(halves, final)
    state = None
    for x_t, gap in zip(x.unbind(1), dt.unbind(1), strict=True):
        logits, state = net.step(x_t, state, dt=gap)
    same(logits, whole[:, -1] if readout == "every" else whole)
    same(state, final)


@each_case
@pytest.mark.parametrize("merge", [None, "sum"])
def test_padding_changes_nothing(case: str, merge: str | None) -> None:
    net = small(case, bidirectional=merge, readout="every")
    (x, dt), lengths = inputs(net), [6, 2, 1]
    padded, gaps = x.clone(), dt.clone()
    for row, length in enumerate(lengths):
        padded[row, length:], gaps[row, length:] = 1e6, float("nan")
    logits, final = net.resume(padded, lengths=torch.tensor(lengths), dt=gaps)
    for row, length in enumerate(lengths):
        one = slice(row, row + 1)
        alone, end = net.resume(x[one, :length], dt=dt[one, :length])
        same(logits[one, :length], alone)
        same([s[one] for s in flatten(final)], flatten(end))


@each_case
def test_the_backward_direction_steps_over_the_same_gaps(case: str) -> None:
    """Between inputs 0, 1, 2 lie the gaps 1 and 2: forward they are d0 d1 d2, backward d0 d2 d1."""
    both, forward, backward = (small(case, layers=1, bidirectional=merge) for merge in ("concat", None, None))
    with torch.no_grad():
        for index, net in enumerate((forward, backward)):
            for name, p in direction(net).items():
                p.copy_(direction(both, 0, index)[name])
    x, dt = inputs(both)
    turned = torch.cat([dt[:, :1], dt[:, 1:].flip(1)], 1)
    expected = torch.cat([forward.encode(x, dt=dt)[0], backward.encode(x.flip(1), dt=turned)[0].flip(1)], 2)
    same(both.encode(x, dt=dt)[0], expected)


@each_case
def test_segments_are_sequences_of_their_own(case: str) -> None:
    net = small(case, readout="every")
    x, dt = inputs(net)
    resets = torch.zeros(BATCH, TIME, dtype=torch.bool)
    resets[0, 2] = resets[1, 5] = True
    logits, state = net(x, resets=resets, dt=dt), None
    same(net.encode(x, resets=resets, dt=dt)[0][0, 2:], net.encode(x[:1, 2:], dt=dt[:1, 2:])[0][0])
    for row, cut in ((0, 2), (1, 5)):
        one = slice(row, row + 1)
        parts = [net(x[one, steps], dt=dt[one, steps]) for steps in (slice(cut), slice(cut, None))]
        same(logits[one], torch.cat(parts, 1))
    for t in range(TIME):
        now, state = net.step(x[:, t], state, resets=resets[:, t], dt=dt[:, t])
        same(now, logits[:, t])


@each_case
def test_parts_of_a_backward_pass_take_their_gaps(case: str) -> None:
    net = small(case)
    x, dt = inputs(net)
    expected = gradients(net(x, dt=dt).sum(), dict(net.named_parameters()))
    net.checkpoint_every = 4
    same(gradients(net(x, dt=dt).sum(), dict(net.named_parameters())), expected)


def test_blocks_take_gaps() -> None:
    net, state = small("cfc", block={"norm": "rms", "convolution": 3}), None
    x, dt = inputs(net)
    for x_t, gap in zip(x.unbind(1), dt.unbind(1), strict=True):
        logits, state = net.step(x_t, state, dt=gap)
    same(logits, net(x, dt=dt))


def test_an_export_may_have_gaps_as_an_input() -> None:
    """One graph, traced once, for any batch size and number of steps."""
    net = small("cfc", bidirectional="concat", dtype=torch.float32).eval()
    x, dt = (t.float() for t in inputs(net))
    axes = {0: Dim("batch", min=1), 1: Dim("time", min=1)}
    program = torch.export.export(net, (x,), {"dt": dt}, dynamic_shapes={"x": axes, "dt": axes})
    for part in (x, dt), (x[:1, :1], dt[:1, :1]), (x[:2, :4], dt[:2, :4]):
        same(program.module()(part[0], dt=2 * part[1]), net(part[0], dt=2 * part[1]), 1e-5)


@pytest.mark.parametrize("cell", [cell for cell in CELLS_WITH_GAPS if "dt" in CELLS[cell].options])
def test_the_option_dt_is_the_length_of_a_gap_of_one(cell: str) -> None:
    short, long = (network(cell, options={"dt": dt}) for dt in (0.3, 0.6))
    x, _ = inputs(short)
    same(short(x, dt=torch.full((BATCH, TIME), 2.0)), long(x))


def test_two_short_steps_of_a_liquid_network_are_one_long_step_of_as_many_solver_steps() -> None:
    one, two = (network("ltc", layers=1, options={"dt": 1.0, "unfolds": unfolds}) for unfolds in (4, 2))
    x, _ = inputs(one)
    expected = one.encode(x)[0]
    halves = two.encode(x.repeat_interleave(2, 1), dt=torch.full((BATCH, 2 * TIME), 0.5))[0]
    same(halves[:, 1::2], expected)


@pytest.mark.parametrize("cell", ["lstm", "mingru", "lem"])
def test_other_cells_refuse_gaps(cell: str) -> None:
    net = network(cell)
    x, dt = inputs(net)
    _, state = net.step(x[:, 0])
    for call in (
        lambda: net(x, dt=dt),
        lambda: net.encode(x, dt=dt),
        lambda: net.resume(x, dt=dt),
        lambda: net(x, resets=torch.zeros(BATCH, TIME, dtype=torch.bool), dt=dt),
        lambda: net.step(x[:, 0], state, dt=dt[:, 0]),
    ):
        with pytest.raises(RequestError, match=f"{cell} takes no dt. Cells that .*: {', '.join(CELLS_WITH_GAPS)}"):
            call()


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_gaps_are_positive_and_finite(bad: float) -> None:
    net = network("cfc")
    x, dt = inputs(net)
    dt[1, 3] = bad
    with pytest.raises(RequestError, match="dt must be positive and finite"):
        net(x, dt=dt)
    with pytest.raises(RequestError, match="dt must be positive and finite"):
        net.step(x[:, 3], dt=dt[:, 3])


@pytest.mark.parametrize(
    ("dt", "words"),
    [
        (torch.ones(TIME), r"a dense tensor of numbers of shape \(3, 6\); got \(6,\) of torch.float32"),
        (torch.ones(BATCH, TIME, dtype=torch.bool), "of torch.bool"),
        ([1.0], "got list"),
    ],
)
def test_gaps_that_do_not_fit(dt: object, words: str) -> None:
    net = network("cfc")
    x, _ = inputs(net)
    with pytest.raises(RequestError, match=words):
        net(x, dt=dt)
    with pytest.raises(RequestError, match=words):
        net(x, resets=torch.zeros(BATCH, TIME, dtype=torch.bool), dt=dt)


def test_no_fused_scan_takes_gaps() -> None:
    net = network("cfc")
    x, dt = inputs(net)
    net.backend = "fused"
    with pytest.raises(RequestError, match="No fused or linear scan can run"):
        net(x, dt=dt)


def test_gaps_beyond_the_end_do_not_matter_with_resets() -> None:
    net = small("cfc")
    x, dt = inputs(net)
    lengths, resets = torch.tensor([6, 3, 1]), torch.zeros(BATCH, TIME, dtype=torch.bool)
    resets[0, 4] = resets[1, 2] = True
    expected = net(x, lengths, resets=resets, dt=dt)
    dt = torch.where(torch.arange(TIME) < lengths[:, None], dt, float("nan"))
    assert torch.equal(net(x, lengths, resets=resets, dt=dt), expected)


@pytest.mark.parametrize("make", [lambda dt: dt.to_sparse(), lambda dt: dt.to("meta")], ids=["sparse", "meta"])
def test_gaps_without_values_are_refused(make: Callable[[Tensor], Tensor]) -> None:
    net = small("cfc")
    x, dt = inputs(net)
    with pytest.raises(RequestError, match="dt must be a dense tensor of numbers"):
        net(x, dt=make(dt))


@each_case
def test_gaps_of_any_dtype_leave_the_states_theirs(case: str) -> None:
    net = small(case, dtype=torch.float32)
    x, gaps = (each.float() for each in inputs(net))
    expected = [s.dtype for layer in net.initial_state(BATCH) for s in layer]
    for dtype in (torch.float64, torch.float16, torch.int64):
        for state in (net.encode(x, dt=gaps.to(dtype) + 1)[1], net.step(x[:, 0], dt=gaps[:, 0].to(dtype) + 1)[1]):
            assert [s.dtype for layer in state for s in layer] == expected, dtype
