"""The fused scans in Triton against the plain scan: in Triton's interpreter on a CPU and, when asked, on a GPU.

`TRITON_INTERPRET=0 pytest -m gpu tests/networks/test_triton.py` repeats on a GPU what runs here by default, with larger
networks, and adds what only a GPU has. A process either interprets or compiles: that is settled when triton is first
imported.
"""

import copy
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers import network, normal, random_state
from scans import PLANNED, close, results, small
from torch import Tensor, nn

from zoo.cells.projections import Diagonal
from zoo.errors import RequestError
from zoo.networks.network import Network
from zoo.networks.stack import NetworkState

os.environ.setdefault("TRITON_INTERPRET", "1")
pytest.importorskip("triton", reason="the extra `gpu` is not installed")

from zoo.networks.kernels import graph, triton_layer, triton_scan

pytestmark = [
    pytest.mark.usefixtures("device"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning"),  # numpy's
]

PHASES = ["lstm", "gru reset=before", "rhn", "lem dt=0.3"]
"""Two states; two phases; as many as layers; two states and two phases."""


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """Recordings, graphs or not, wherever a stack is run."""
    if device == "cpu":
        monkeypatch.setattr(graph, "applies", lambda run, x: len(run.stack) > 1)


def problem(
    device: str, case: str, batch: int = 3, steps: int = 3, **spec: object
) -> tuple[Network, Tensor, NetworkState]:
    """A small network (a larger one on a GPU), an input and an initial state."""
    if device == "cuda":
        batch, steps, spec["units"] = 20 * batch, 20 * steps, 3 * spec.get("units", 12)
    spec = {"layers": 2 if case == "rhn" else 1, "units": 5, "inputs": (3,), **spec}
    net = small(case, **spec).to(device)
    x = normal(batch, steps, *net.interface.input, dtype=torch.float32).to(device)
    state = tuple(tuple(s.detach().to(device) for s in part) for part in random_state(net.cpu(), batch))
    return net.to(device), x, state


def plain(net: Network) -> Network:
    twin = copy.deepcopy(net)
    twin.backend = "plain"
    return twin


def agree(net: Network, x: Tensor, state: NetworkState, lengths: Tensor | None = None) -> None:
    close(results(net, x, state, lengths), results(plain(net), x, state, lengths))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", PLANNED)
def test_every_plan_equals_the_plain_scan(case: str, device: str) -> None:
    net, x, state = problem(device, case)
    assert triton_scan.supports(net.layers[0].forward_direction, x.transpose(0, 1)) is not None
    net.tbptt_steps = 2
    agree(net, x, state, torch.randint(1, x.shape[1] + 1, x.shape[:1], generator=torch.Generator().manual_seed(1)))


SHAPES: dict[str, dict[str, object]] = {
    "one of one feature": {"batch": 1, "steps": 1, "inputs": (1,)},
    "one feature": {"inputs": (1,)},
    "whole tiles": {"batch": 16, "units": 16, "steps": 2},
    "several tiles": {"batch": 18, "units": 17, "steps": 2},
    "three layers": {"layers": 3, "steps": 2},
    "both ways": {"bidirectional": "concat", "steps": 2},
    "dropout between": {"layers": 2, "dropout": 0.5, "train": True, "steps": 2},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_shapes(shape: dict[str, object], device: str) -> None:
    agree(*problem(device, "lstm", **shape))


@pytest.mark.parametrize("case", PHASES)
def test_weights_that_do_not_fit_on_the_chip(case: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_layer, "resident", lambda *_: False)
    agree(*problem(device, case))


@pytest.mark.parametrize("case", [*PHASES, "antisymmetric-gated epsilon=0.3 gamma=0.2"])
def test_chunks_equal_the_whole(case: str, device: str) -> None:
    net, x, state = problem(device, case, layers=2)
    state = tuple(tuple(s.requires_grad_() for s in part) for part in state)
    lengths = torch.arange(len(x), device=device) % x.shape[1] + 1
    of = [x.requires_grad_(), *(s for part in state for s in part), *net.layers.parameters()]

    steps = x.transpose(0, 1)
    stack = [triton_scan.supports(layer.forward_direction, steps) for layer in net.layers]
    scan = triton_scan.StackScan(stack, net.layers[0])

    def run(chunk: int) -> list[Tensor]:
        outputs, final = scan(steps, state, lengths, tbptt_steps=2, chunk=chunk)
        values = [outputs, *(s for part in final for s in part)]
        return [*values, *torch.autograd.grad([v.square().sum() for v in values], of)]

    close(run(2), run(x.shape[1]), 1e-6)


@pytest.mark.parametrize("autocast", [False, True], ids=["bfloat16", "autocast"])
@pytest.mark.parametrize("case", PHASES)
def test_bfloat16(case: str, autocast: bool, device: str) -> None:
    net, x, state = problem(device, case)
    exact = results(plain(net), x, state, None)
    if not autocast:
        net = net.bfloat16()
    with torch.autocast(device, torch.bfloat16, enabled=autocast):
        actual = results(net, x if autocast else x.bfloat16(), state, None)
    assert actual[0].dtype == torch.bfloat16  # type: ignore[attr-defined]
    close(actual, exact, 0.03)


@torch.no_grad()
def test_bfloat16_keeps_the_states_that_are_float32(device: str) -> None:
    net, x, state = problem(device, "slstm heads=2 forget=sigmoid", units=6)
    net.bfloat16()
    direction = net.layers[0].forward_direction
    for p in direction.parameters():
        p.zero_()
    direction.input.bias.copy_(torch.tensor([-200.0, 200.0, 0.0, 0.0]).repeat_interleave(6))  # keeps c and n
    ((_, *kept),) = state
    ((h, *final),) = net.encode(x.bfloat16(), state)[1]
    assert h.dtype == torch.bfloat16
    close(final, kept, 1e-7)
    assert all(s.dtype == torch.float32 for s in final)


@pytest.mark.parametrize(
    ("case", "value"), [("lstm", float("nan")), ("rnn activation=relu", float("inf")), ("rnn activation=relu", 1e30)]
)
def test_what_is_not_a_number_is_passed_through(case: str, value: float, device: str) -> None:
    net, x, state = problem(device, case)
    x[1, 1, 0] = value
    agree(net, x, state)


@pytest.mark.parametrize(
    "case",
    [
        "minlstm candidate=linear",
        "minlstm candidate=positive",
        "slstm heads=2 forget=sigmoid",
        "slstm heads=2 forget=exp",
    ],
)
def test_gates_that_underflow(case: str, device: str) -> None:
    net, x, state = problem(device, case)
    agree(net, 60 * x, state)


def test_importing_zoo_leaves_triton_alone() -> None:
    code = "import zoo, zoo.networks.network, zoo.networks.builder, sys; sys.exit('triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_gradients_of_gradients(device: str) -> None:
    def second(net: Network) -> list[Tensor]:
        weights = list(net.layers.parameters())
        actual = torch.autograd.grad(net(x).square().sum(), weights, create_graph=True)
        return list(torch.autograd.grad(sum(g.square().sum() for g in actual), weights))

    net, x, _ = problem(device, "star shift=0.0", layers=2)
    close(second(net), second(plain(net)))


def test_gradients_of_some_inputs_only(device: str) -> None:
    net, x, state = problem(device, "gru reset=before", layers=2)
    for p in net.parameters():
        p.requires_grad_(False)
    x.requires_grad_()
    actual = [torch.autograd.grad(n.encode(x, state)[1][0][0].sum(), x)[0] for n in (net, plain(net))]
    close(*actual)


def test_a_change_in_between_is_noticed(device: str) -> None:
    net, x, _ = problem(device, "lstm", layers=2)
    loss = net(x).sum()
    with torch.no_grad():
        net.layers[0].forward_direction.cell.recurrent.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_converting_the_network_before_its_gradient_is_an_error(device: str) -> None:
    net, x, _ = problem(device, "star", layers=2)
    total = net(x).sum()
    net.double()
    with pytest.raises(RuntimeError, match="does not have the type, shape or device"):
        total.backward()


def test_recomputing_equals_keeping(device: str) -> None:
    net, x, state = problem(device, "lstm", layers=2, steps=2)
    net.checkpoint_every = x.shape[1] // 2
    agree(net, x, state)


REFUSED = {
    "wide": ("lstm", {"units": 129}),
    "double": ("lstm", {"dtype": torch.float64}),
    "a cell without a plan": ("lstm-peephole peephole=full", {}),
    "normalised": ("lstm", {"layer_norm": True}),
    "deep in time": ("rhn", {"layers": 17}),
}


@pytest.mark.parametrize(("case", "spec"), REFUSED.values(), ids=REFUSED)
def test_what_it_cannot_run_it_refuses(case: str, spec: dict[str, object], device: str) -> None:
    net = network(case, **{"dtype": torch.float32, "layers": 1, **spec}).to(device)
    net.backend = "fused"
    with pytest.raises(RequestError, match="No fused or linear scan"):
        net(normal(2, 3, 2, dtype=spec.get("dtype", torch.float32)).to(device))


def test_it_refuses_a_diagonal_in_the_place_of_a_matrix(device: str) -> None:
    net, x, _ = problem(device, "star shift=0.0")
    net.layers[0].forward_direction.cell.recurrent = Diagonal(5, 1, -1)
    assert triton_scan.supports(net.layers[0].forward_direction, x.transpose(0, 1)) is None


def test_recordings_are_played_again(recorded: None, device: str) -> None:
    net, x, state = problem(device, "gru reset=after", layers=2, steps=2)
    agree(net, x, state)
    known = graph.recordings(net.layers[0]).all
    first = known[0]
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(0.5)
    agree(net, x.flip(0), state)
    assert known == [first]
    agree(net, x[:2], tuple(tuple(s[:2] for s in part) for part in state))
    assert len(known) == 2


def test_moved_weights_are_recorded_anew(recorded: None, device: str) -> None:
    net, x, _ = problem(device, "star shift=0.0", layers=2, steps=1)
    with torch.no_grad():
        net(x)
        old = net.layers[1].forward_direction.cell.recurrent.weight  # kept, so that nothing else comes to lie there
        net.layers[1].forward_direction.cell.recurrent.weight = nn.Parameter(2 * old)
        close(net(x), plain(net)(x))


def test_passes_that_overlap_have_recordings_of_their_own(
    recorded: None, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "MAX_RECORDINGS", 2)
    net, x, _ = problem(device, "rnn activation=tanh", layers=2, steps=2)
    known = graph.recordings(net.layers[0])
    inputs = [x + 0.1 * i for i in range(graph.MAX_RECORDINGS + 1)]
    losses = [net(i).sum() for i in inputs]
    assert len(known.all) == graph.MAX_RECORDINGS
    assert all(r.busy for r in known.all)
    expected = [gradient(plain(net), i) for i in inputs]
    for loss, want in zip(losses, expected, strict=True):
        net.zero_grad()
        loss.backward()
        close([p.grad for p in net.layers.parameters()], want)
    assert not any(r.busy for r in known.all)  # though the losses live
    net(x).sum()
    assert not any(r.busy for r in known.all)  # as its graph is gone
    loss = net(x).sum()
    loss.backward(retain_graph=True)
    assert known.all[0].busy
    close(net(inputs[1]), plain(net)(inputs[1]))
    net.zero_grad()
    loss.backward()
    close([p.grad for p in net.layers.parameters()], expected[0])


def gradient(net: Network, x: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(net(x).sum(), list(net.layers.parameters())))


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_streams_take_turns_at_a_recording(recorded: None, device: str) -> None:
    net, x, _ = problem(device, "star shift=0.0", layers=2)
    inputs, streams = [x + 0.1 * i for i in range(8)], [torch.cuda.Stream(), torch.cuda.Stream()]
    outputs = []
    with torch.no_grad():
        expected = [plain(net)(sequence) for sequence in [x, *inputs]]
        outputs.append(net(x))
        torch.cuda.synchronize()
        for i, sequence in enumerate(inputs):
            with torch.cuda.stream(streams[i % 2]):
                outputs.append(net(sequence))
    torch.cuda.synchronize()
    close(outputs, expected)
    assert len(graph.recordings(net.layers[0]).all) == 1


def test_recordings_end_with_their_stack(recorded: None, device: str) -> None:
    net, x, _ = problem(device, "star shift=0.0", layers=2, steps=1)
    with torch.no_grad():
        net(x)
    before = len(graph._known)
    del net
    gc.collect()
    assert len(graph._known) < before


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu"], indirect=True)
def test_every_kernel_compiles_for_an_h200(device: str) -> None:
    """Also where there is none: what does not fit a GPU's registers and shared memory fails here."""
    command = [sys.executable, str(Path(__file__).parent / "compile_triton.py")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # with the folders that only pytest knows
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 8 * (len(PLANNED) + 1)


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
@pytest.mark.parametrize("precision", ["ieee", "tf32x3"])
@pytest.mark.parametrize("units", [32, 64, 100, 128])
@pytest.mark.parametrize("case", ["lstm", "star shift=0.0", "gru reset=before"])
def test_every_width_in_both_precisions(
    case: str, units: int, precision: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_layer, "EXACT", precision)
    net, x, state = problem(device, case, batch=5, steps=10, units=1)
    net = small(case, layers=4, units=units, inputs=(1,)).to(device)
    x, state = x[:, :, :1], random_state(net.cpu(), len(x))
    agree(net.to(device), x, tuple(tuple(s.detach().to(device) for s in part) for part in state))
