"""Streaming through the compiled code: a step against the sequence, and every change of a network that it has to notice."""

import copy
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
import torch
from helpers import CASES, READOUTS, flatten, needs_scan, normal, random_state, same, stepped
from marks import TYPICAL
from scans import PLANNED, close, small
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from zoo.cells.properties import cells_with
from zoo.errors import RequestError
from zoo.networks.builder import build
from zoo.networks.layer import Direction
from zoo.networks.network import Network
from zoo.registry.schema import Architecture, Config, Embedding, Interface

pytestmark = needs_scan


def test_a_stream_of_weights_that_are_no_parameters() -> None:
    net, x = small("star", layers=1).eval(), normal(3, 4, 2, dtype=torch.float32)
    projection = net.layers[0].forward_direction.cell.recurrent
    weights = [projection.weight.detach(), 2 * projection.weight.detach()]
    state = tuple(tuple(s.float() for s in part) for part in random_state(net, 3))
    del projection.weight
    with torch.no_grad():
        net.backend = "auto"
        for projection.weight in weights:
            actual = net.step(x[:, 0], state)[0]
        net.backend = "plain"
        close(actual, net.step(x[:, 0], state)[0])


each_plan_and_readout = pytest.mark.parametrize(
    ("case", "readout"),
    [
        (case, readout)
        for case, readout in product(PLANNED, READOUTS)
        if readout == "every" or CASES[case][0] in TYPICAL
    ],
)
"""A readout acts on the outputs of any cell, so that few cells have them all."""


@each_plan_and_readout
@torch.no_grad()
def test_steps_equal_the_sequence(case: str, readout: str, instructions: str) -> None:
    for many, units in ((1, 19), (40, 16)):
        net = small(case, units=units, layers=3, readout=readout, mean=0.5, std=2.0, standardize=many == 1).eval()
        x = normal(many, 5, 2, dtype=torch.float32)
        whole = net(x)
        logits = stepped(net, x)
        close(logits[-1], whole[:, -1] if readout == "every" else whole)
        assert net._stepper is not None


@torch.no_grad()
def test_a_stream_sees_every_change_of_the_network() -> None:
    net, x = small("star", layers=2).eval(), normal(1, 2, dtype=torch.float32)

    def check() -> None:
        actual = net.step(x)
        net.backend = "plain"
        close(actual, net.step(x))
        net.backend = "auto"

    check()
    weight = net.layers[0].forward_direction.cell.recurrent.weight
    weight.mul_(2)
    check()
    weight.data = weight.data * 2
    check()
    weight.data.neg_()
    check()
    net.layers[1].forward_direction.input.weight = nn.Parameter(normal(6, 3, dtype=torch.float32))
    check()
    net.layers[0] = copy.deepcopy(net.layers[0])
    net.layers[0].forward_direction.input.weight.neg_()
    check()
    net.head.bias.data = net.head.bias.data + 1
    check()
    net.head.register_forward_hook(lambda module, args, out: out * 2)
    check()
    net.reset_head(20)
    check()
    net.head = nn.Linear(net.head.in_features, 3, bias=False)
    check()
    nn.utils.parametrizations.weight_norm(net.head)
    check()
    net.layers[1].forward_direction.input.register_forward_hook(lambda module, args, out: out + 1)
    check()
    x = x.double()
    net.double()
    check()


@torch.no_grad()
def test_a_network_that_has_streamed_can_be_copied() -> None:
    net, x = small("lstm", layers=2).eval(), normal(1, 2, dtype=torch.float32)
    logits, state = net.step(x)
    twin = copy.deepcopy(net)
    del net
    same(twin.step(x)[0], logits, 1e-6)
    kept = [s.clone() for s in flatten(state)]
    twin.step(x, state)
    same(flatten(state), kept, 0)  # the old state is the caller's


@torch.no_grad()
def test_threads_may_share_a_network_that_streams() -> None:
    net = small("lstm", units=32, layers=4).eval()
    streams = [normal(1, 400, 2, seed=seed, dtype=torch.float32) for seed in range(3)]
    alone = [torch.stack(stepped(net, x)) for x in streams]
    with ThreadPoolExecutor(3) as pool:
        together = list(pool.map(lambda x: torch.stack(stepped_in_a_thread(net, x)), streams))
    same(together, alone, 0)


@pytest.mark.parametrize("cell", ["exprnn", "eunn", "antisymmetric"])
def test_threads_may_share_a_network_that_reads_sequences(cell: str) -> None:
    """Such a cell keeps a matrix on the module for the length of a sequence; any thread may release it."""
    net = small(cell, units=6).eval()
    net.backend = "plain"

    def read(x: Tensor) -> Tensor:
        with torch.no_grad():
            return net(x)

    sequences = [normal(1, 5 + seed % 7, 2, seed=seed, dtype=torch.float32) for seed in range(60)]
    alone, interval = [read(x) for x in sequences], sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # seconds; threads then take turns as often as they can
    try:
        with ThreadPoolExecutor(4) as pool:
            same(list(pool.map(read, sequences)), alone, 1e-6)
    finally:
        sys.setswitchinterval(interval)


def stepped_in_a_thread(net: Network, x: Tensor) -> list[Tensor]:
    with torch.no_grad():  # which is each thread's own
        return stepped(net, x)


@torch.no_grad()
def test_a_stream_takes_columns_of_a_batch() -> None:
    net, x = small("star", layers=2).eval(), normal(3, 4, 2, dtype=torch.float32)
    net.step(x[:, 1])
    assert net._stepper is not None
    close(net.step(x[:, 1])[0], net(x[:, 1:2]))


@pytest.mark.parametrize(
    "change",
    ["zoneout", "shift", "whole shift", "parametrised", "transposed", "head", "bias", "class", "norm", "forward", "product",
     "step", "prepare", "direction", "head's forward", "parametrization"],
)  # fmt: skip
@torch.no_grad()
def test_a_stream_sees_more_changes(change: str) -> None:
    net, x = small("star", layers=2, units=3).eval(), normal(1, 2, dtype=torch.float32)
    direction = net.layers[1].forward_direction
    if change == "whole shift":
        direction.cell.shift = -1
    if change == "bias":
        direction.input.bias = None
    if change == "parametrised":
        nn.utils.parametrizations.weight_norm(direction.cell.recurrent)
    state = random_state(net, 1)
    state = tuple(tuple(s.float() for s in part) for part in state)
    before = net.step(x, state)[0]
    match change:
        case "zoneout":
            direction.zoneout = 0.5
        case "shift":
            direction.cell.shift = 1.0
        case "whole shift":
            direction.cell.shift = 1
        case "bias":
            direction.input.bias = nn.Parameter(torch.ones(6))
        case "class":
            direction.cell.__class__ = type(
                "Mine", (type(direction.cell),), {"step": lambda self, x, state: (2 * x[0],)}
            )
        case "parametrization":
            direction.cell.recurrent.parametrization = lambda weight: -3 * weight
        case "norm":
            direction.cell.recurrent.norm = nn.LayerNorm(3)
        case "forward":
            direction.cell.recurrent.forward = lambda s, plus=None: 2 * s  # type: ignore[method-assign]
        case "product":
            direction.cell.recurrent.product = lambda s, plus: 2 * s  # type: ignore[method-assign]
        case "step":
            direction.cell.step = lambda x, state: (2 * x[0][..., :3],)  # type: ignore[method-assign]
        case "prepare":
            direction.cell.prepare = lambda x, prepare=direction.cell.prepare: prepare(2 * x)  # type: ignore[method-assign]
        case "direction":
            direction.step = lambda x, state: (2 * x[0][..., :3],)  # type: ignore[method-assign]
        case "head's forward":
            net.head.forward = lambda h: h[:, :1].repeat(1, 4)  # type: ignore[method-assign]
        case "parametrised":
            direction.cell.recurrent.parametrizations.weight.original0.mul_(-3)
        case "transposed":
            direction.cell.recurrent.weight = nn.Parameter(direction.cell.recurrent.weight.t().clone().t())
            net.step(x, state)
            direction.cell.recurrent.weight.mul_(-3)
        case "head":
            net.head.weight = nn.Parameter(normal(3, 4, dtype=torch.float32).t())
    after = net.step(x, state)[0]
    assert not torch.allclose(before, after)
    net.backend = "plain"
    close(after, net.step(x, state)[0])


@torch.no_grad()
def test_a_stream_sees_another_forget_gate() -> None:
    net, x = small("slstm heads=2 forget=sigmoid", layers=1, units=4).eval(), normal(1, 2, dtype=torch.float32)
    state = tuple(tuple(s.float() for s in part) for part in random_state(net, 1))
    before = net.step(x, state)[0]
    assert net._stepper is not None
    net.layers[0].forward_direction.cell.forget = "exp"
    after = net.step(x, state)[0]
    assert not torch.allclose(before, after)
    net.backend = "plain"
    close(after, net.step(x, state)[0])


@pytest.mark.parametrize("units", [2, 64])
@torch.no_grad()
def test_a_stream_of_layers_of_other_widths(units: int) -> None:
    net, x = small("star", layers=2, units=4).eval(), normal(1, 2, dtype=torch.float32)
    net.layers[1] = small("star", layers=1, units=units, inputs=(4,)).layers[0]
    net.head, state, net.backend = nn.Linear(units, 3), None, "auto"
    for _ in range(200):
        logits, state = net.step(x, state)
    net.backend = "plain"
    close(logits, net(x[:, None].expand(1, 200, 2)))
    assert [s.shape for s in flatten(state)] == [(1, 4), (1, units)]


@torch.no_grad()
def test_a_stream_that_other_layers_began_is_refused() -> None:
    net, x = small("star", layers=1, units=4).eval(), normal(1, 2, dtype=torch.float32)
    net.backend = "auto"
    state = net.step(x)[1]
    net.layers.append(small("star", layers=1, units=4, inputs=(4,)).layers[0])
    with pytest.raises(RequestError, match="The state does not fit"):
        net.step(x, state)
    state = net.step(x)[1]
    assert len(state) == 2
    wide, direction = (
        small("star", layers=1, units=5, inputs=(4,)).layers[0].forward_direction,
        net.layers[1].forward_direction,
    )
    direction.input, direction.cell, direction.units = wide.input, wide.cell, wide.units
    with pytest.raises(RequestError, match="The state does not fit"):
        net.step(x, state)


@torch.no_grad()
def test_a_state_is_of_the_layers_that_there_are() -> None:
    net, x = small("star", layers=1, units=4).eval(), normal(1, 6, 2, dtype=torch.float32)
    state = net.initial_state(1)
    net.encode(x, state)
    net.layers[0] = small("star", layers=1, units=64).layers[0]
    with pytest.raises(RequestError, match="The state does not fit"):
        net.encode(x, state)
    assert net.encode(x, net.initial_state(1))[0].shape == (1, 6, 64)


def test_a_state_on_another_device_is_refused() -> None:
    net, x = small("star").eval(), normal(3, 4, 2, dtype=torch.float32)
    state = tuple(tuple(s.to("meta") for s in part) for part in net.initial_state(3))
    for compute in (lambda: net.encode(x, state), lambda: net.step(x[:, 0], state)):
        with pytest.raises(RequestError, match="state is on meta, but small is on cpu"):
            compute()


@pytest.mark.sampled(3)
@each_plan_and_readout
@torch.no_grad()
def test_a_stream_of_fixed_weights_equals_the_sequence(case: str, readout: str, instructions: str) -> None:
    for many, units in ((1, 19), (40, 16)):
        net = small(case, units=units, layers=3, readout=readout, mean=0.5, std=2.0, standardize=many == 1).eval()
        x, stream = normal(many, 7, 2, dtype=torch.float32), net.stream()
        expected = torch.stack(stepped(net, x), 1)
        state, logits = None, []
        for t in range(3):
            y, state = stream.step(x[:, t], state)
            logits.append(y)
        rest, state = stream.steps(x[:, 3:], state)
        close(torch.cat([torch.stack(logits, 1), rest], 1), expected)
        whole, final = stream.steps(x)
        close(whole, expected)
        close(final, state)
        close(whole if readout == "every" else whole[:, -1], net(x))


@each_plan_and_readout
@torch.no_grad()
def test_a_stream_with_resets_equals_the_steps_with_resets(case: str, readout: str, instructions: str) -> None:
    net = small(case, units=9, layers=2, readout=readout).eval()
    x, stream, state = normal(4, 8, 2, dtype=torch.float32), net.stream(), None
    resets = torch.zeros(4, 8, dtype=torch.bool)
    resets[0, 3] = resets[1, 3] = resets[1, 4] = resets[2, 0] = resets[2, 7] = True  # and none in the last sequence
    expected = []
    for t in range(8):
        y, state = net.step(x[:, t], state, resets=resets[:, t])
        expected.append(y)
    whole, final = stream.steps(x, resets=resets)
    close(whole, torch.stack(expected, 1))
    close(whole[3], stream.steps(x[3:])[0][0])
    first, between = stream.steps(x[:, :3], resets=resets[:, :3])
    y, after = stream.step(x[:, 3], between, resets=resets[:, 3])
    rest, end = stream.steps(x[:, 4:], after, resets=resets[:, 4:])
    close(torch.cat([first, y[:, None], rest], 1), whole)
    close(end, final)


@pytest.mark.parametrize("resets", [torch.zeros(1, 3, dtype=torch.bool), torch.zeros(1, dtype=torch.int64), [True]])
def test_a_stream_refuses_resets_that_do_not_fit(resets: object) -> None:
    stream = small("star").eval().stream()
    with pytest.raises(RequestError, match=r"resets must be a bool tensor of shape \(1,\)"):
        stream.step(torch.zeros(1, 2), resets=resets)  # type: ignore[arg-type]
    with pytest.raises(RequestError, match=r"resets must be a bool tensor of shape \(1, 2\)"):
        stream.steps(torch.zeros(1, 2, 2), resets=resets)  # type: ignore[arg-type]


@torch.no_grad()
def test_streams_are_joined_and_parted() -> None:
    net = small("lstm", units=9, layers=2, readout="mean").eval()
    stream, x = net.stream(), normal(3, 5, 2, dtype=torch.float32)
    alone = [stream.steps(x[i : i + 1]) for i in range(3)]
    y, state = stream.step(x[:, 0], torch.cat([final for _, final in alone], 1))
    for i, (_, final) in enumerate(alone):
        expected_y, expected_state = stream.step(x[i : i + 1, 0], final)
        close(y[i : i + 1], expected_y)
        close(state[:, i : i + 1], expected_state)


@torch.no_grad()
def test_a_stream_reads_tokens() -> None:
    architecture = Architecture(cell="gru", layers=2, units=9, embedding=Embedding(size=5))
    interface = Interface(vocabulary=20, steps=6, outputs=4, readout="last")
    net = build(Config(name="words", task="none", architecture=architecture, interface=interface), device="cpu")
    tokens = torch.randint(2, 20, (4, 6), generator=torch.Generator().manual_seed(0))
    stream = net.stream()
    close(stream.steps(tokens)[0], torch.stack(stepped(net, tokens), 1))
    with pytest.raises(RequestError, match="tokens from 0 to 19"):
        stream.step(torch.tensor([20]))


@torch.no_grad()
def test_a_stream_keeps_the_weights_that_it_copied() -> None:
    net, x = small("star", layers=2).eval(), normal(3, 4, 2, dtype=torch.float32)
    net.head.register_forward_hook(lambda module, args, out: out * 2)
    stream, plain_head = net.stream(), small("star", layers=2).eval().stream()
    before, plain_before = stream.steps(x)[0], plain_head.steps(x)[0]
    close(before, 2 * plain_before)
    for p in net.parameters():
        p.add_(1)
    assert torch.equal(stream.steps(x)[0], before)
    assert not torch.allclose(net.stream().steps(x)[0], before)


def test_a_stream_passes_no_gradient_on() -> None:
    net = small("star", layers=1, readout="mean").eval()
    y, state = net.stream().step(normal(1, 2, dtype=torch.float32).requires_grad_())
    assert not y.requires_grad
    assert not state.requires_grad


@pytest.mark.parametrize(
    ("x", "state", "message"),
    [
        (
            torch.zeros(1, 2, dtype=torch.float64),
            None,
            r"A stream of small takes x of shape \(batch, 2\), torch.float32, on the CPU; got \(1, 2\) of",
        ),
        (torch.zeros(1, 3), None, r"got \(1, 3\)"),
        (torch.zeros(1, 1, 2), None, r"got \(1, 1, 2\)"),
        (torch.zeros(0, 2), None, "which is empty"),
        (torch.zeros(1, 2, device="meta"), None, "on the CPU"),
        ([[0.0, 0.0]], None, r"got \[\[0.0, 0.0\]\]"),
        (torch.zeros(2, 2), torch.zeros(2, 1, 4), "The state does not fit small and a batch of 2"),
        (torch.zeros(1, 2), torch.zeros(2, 1, 4).double(), "The state does not fit"),
        (torch.zeros(1, 2), (torch.zeros(2, 1, 4),), "The state does not fit"),
    ],
)
def test_a_stream_refuses_what_does_not_fit(x: Tensor, state: Tensor | None, message: str) -> None:
    stream = small("star", layers=2, units=4).eval().stream()
    with pytest.raises(RequestError, match=message):
        stream.step(x, state)


def test_networks_without_compiled_steps_have_no_stream() -> None:
    with pytest.raises(RequestError, match="is bidirectional"):
        small("star", bidirectional="sum").eval().stream()
    nets = small("indrnn"), small("star").double(), small("star", zoneout=0.5), small("star", dropout=0.5).train()
    for net in nets:
        with pytest.raises(RequestError, match="no compiled steps"):
            net.stream()
    for cell in cells_with("time-gaps") - {"cfc"}:  # which has compiled steps
        with pytest.raises(RequestError, match=f"the cell {cell} has none. Use `step` instead, .* and takes dt"):
            small(cell).eval().stream()


@pytest.mark.parametrize("case", ["star", "lstm", "antisymmetric-gated"])
@torch.no_grad()
def test_streams_in_turn_take_the_fast_step(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = small(case, layers=2).eval(), normal(2, 6, 2, dtype=torch.float32)
    expected = [stepped(net, x[i : i + 1]) for i in range(2)]
    states = [net.initial_state(1), net.initial_state(1)]
    net.step(x[:1, 0], states[0])
    monkeypatch.setattr(type(net), "_check_step", None)  # nothing but the compiled code may compute from here on
    monkeypatch.setattr(Direction, "step", None)
    for t in range(6):
        for i in range(2):
            again = net.step(x[i : i + 1, t], states[i])[0]  # a state may be given twice
            logits, states[i] = net.step(x[i : i + 1, t], states[i])
            assert torch.equal(again, logits)
            close(logits, expected[i][t])


@torch.no_grad()
def test_a_compiled_step_is_the_eager_one() -> None:
    net, x = small("star", layers=2).eval(), normal(1, 2, dtype=torch.float32)
    expected = net.step(x)
    compiled = torch.compile(net.step, backend="eager")
    close(compiled(x), expected)
    close(compiled(x, expected[1]), net.step(x, expected[1]))
    assert net._stepper is not None


@pytest.mark.parametrize("cell", ["antisymmetric-gated", "lstm"])
def test_a_step_is_not_shared_among_threads(cell: str) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        net = small(cell, layers=2).eval()
        with torch.no_grad():
            net.step(normal(1, 2, dtype=torch.float32))
        for compiled in (net._stepper.compiled, net.stream().compiled):
            jobs, _ = compiled._jobs()
            assert [jobs[i].threads for i in range(2)] == [1, 1]  # to wake a thread takes longer than a step
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_a_step_under_autocast_is_the_plain_one(dtype: torch.dtype) -> None:
    net, x = small("star", layers=2, units=8).eval(), normal(3, 2, dtype=torch.float32)
    net.backend = "auto"
    net.step(x)
    assert net._stepper is not None
    with torch.autocast("cpu", dtype):
        logits, state = net.step(x)
        net.backend = "plain"
        expected, end = net.step(x)
    assert logits.dtype == expected.dtype == dtype
    close([logits, state], [expected, end])


def test_gradients_of_a_state_pass_through_steps_of_frozen_weights() -> None:
    net, x = small("star", layers=2).eval().requires_grad_(False), normal(3, 2, dtype=torch.float32)
    net.backend = "auto"
    net.step(x)
    assert net._stepper is not None
    slopes = []
    for backend in ("auto", "plain"):
        net.backend, state = backend, random_state(net, 3)
        state = tuple(tuple(s.detach().float().requires_grad_() for s in part) for part in state)
        slopes.append(torch.autograd.grad(net.step(x, state)[0].square().sum(), flatten(state)))
    assert all(slope.any() for slope in slopes[0])
    close(*slopes)


@torch.no_grad()
def test_a_mode_sees_every_product_of_a_step() -> None:
    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    net, x = small("star", layers=2, units=8).eval(), normal(3, 2, dtype=torch.float32)
    net.backend = "auto"
    net.step(x)
    assert net._stepper is not None
    for run in (lambda: net.step(x), lambda: net(x[:, None])):
        counts = []
        for net.backend in ("auto", "plain"):
            names: list[str] = []
            with Seen():
                run()
            counts.append(sum("mm" in name for name in names))
        assert counts[0] == counts[1] > 4  # two layers of two maps each, and the head
