"""The compiled scan of one layer: every plan and every instruction set that this processor runs, against the plain scan."""

import copy
import ctypes
import dataclasses
import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import CASES, can, flatten, needs_scan, network, normal, random_state, same, score
from scans import (
    BUILT,
    PLANNED,
    check_both_scans,
    close,
    distance,
    each_instruction_set,
    results,
    scan_problem,
    small,
)
from torch import Tensor

from zoo.cells import projections
from zoo.networks.kernels import compiled, interface, shared

pytestmark = needs_scan


SHAPES: dict[str, dict[str, object]] = {
    "whole vectors": {"units": 64, "inputs": 1, "steps": 20, "batch": 7, "layers": 2},
    "a part of a vector": {"units": 5, "inputs": 3, "steps": 9, "batch": 2, "layers": 2},
    "several tiles and chunks": {"units": 17, "inputs": 18, "steps": 40, "batch": 53, "layers": 1},
    "batch 1": {"units": 33, "inputs": 2, "steps": 200, "batch": 1, "layers": 1},
    "few steps of one": {"units": 33, "inputs": 40, "steps": 12, "batch": 1, "layers": 1},
    "one step": {"units": 16, "inputs": 64, "steps": 1, "batch": 20, "layers": 3},
    "one step of one": {"units": 19, "inputs": 21, "steps": 1, "batch": 1, "layers": 2},
    "lengths": {"units": 6, "inputs": 2, "steps": 30, "batch": 27, "layers": 2, "lengths": True},
    "lengths, batch 1": {"units": 6, "inputs": 2, "steps": 9, "batch": 1, "layers": 2, "lengths": True},
    "truncated": {"units": 6, "inputs": 2, "steps": 30, "batch": 4, "layers": 2, "tbptt_steps": 7},
    "both ways": {"units": 6, "inputs": 2, "steps": 12, "batch": 4, "layers": 2, "bidirectional": "concat"},
    "both ways, lengths": {
        "units": 6, "inputs": 2, "steps": 12, "batch": 4, "layers": 2, "bidirectional": "sum", "lengths": True
    },
    "dropout": {"units": 6, "inputs": 2, "steps": 12, "batch": 4, "layers": 3, "dropout": 0.5, "train": True},
}  # fmt: skip


def test_every_dense_cell_of_the_seed_papers_has_a_plan() -> None:
    cells = {CASES[case][0] for case in PLANNED}
    assert {"rnn", "irnn", "rin", "rin-dt", "lstm", "lstm-f", "lstm-coupled", "gru", "star", "rhn"} <= cells
    assert {"antisymmetric", "antisymmetric-gated", "rnn-soft-orthogonal"} <= cells


@functools.lru_cache(maxsize=1)
def double_precision_results(case: str, shape: str) -> list[object]:
    """Return what the plain scan computes in double precision; with dropout in float32, in which the masks are drawn."""
    net, (x, state, ends) = scan_problem(case, SHAPES[shape])
    net.backend = "plain"
    if not SHAPES[shape].get("dropout"):
        net, x = net.double(), x.double()
    # torch has the fewer digits of an exponential's derivative the larger the gradient, so both have it in float32
    for m in net.modules():
        if isinstance(m, projections.Projection) and m.parametrization and x.dtype == torch.float64:
            m.parametrization = lambda weight, form=m.parametrization: form(weight.float()).double()
    return results(net, x, state, ends)


@pytest.mark.sampled(5)
@each_instruction_set
@pytest.mark.parametrize(
    ("case", "shape"), [(case, shape) for shape in SHAPES for case in PLANNED if can(case, *SHAPES[shape])]
)
def test_it_equals_the_plain_scan_in_double_precision(case: str, shape: str, instructions: str) -> None:
    net, (x, state, ends) = scan_problem(case, SHAPES[shape])
    close(results(net, x, state, ends), double_precision_results(case, shape))


class Halved(torch.autograd.Function):
    """x W^T, with the operands of this product and of its gradients' rounded to bfloat16."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return halved(x) @ halved(weight).mT

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return halved(g) @ halved(weight), halved(g.flatten(0, -2)).mT @ halved(x.flatten(0, -2))


def halved(x: Tensor) -> Tensor:
    return x.bfloat16().float()


@functools.lru_cache(maxsize=1)
def rounded_results(case: str, shape: str) -> tuple[list[object], list[object]]:
    """Return what the plain scan computes in float32, and with the operands of the recurrent products rounded."""
    net, (x, state, ends) = scan_problem(case, SHAPES[shape])
    net.backend = "plain"
    full = results(net, x, state, ends)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            projections.Dense,
            "product",
            lambda own, s, plus: Halved.apply(s, own.matrix) + (0 if plus is None else plus),
        )
        return full, results(net, x, state, ends)


@pytest.mark.sampled(5)
@each_instruction_set
@pytest.mark.parametrize(
    "shape", ["several tiles and chunks", "few steps of one", "one step", "lengths", "truncated", "both ways"]
)
@pytest.mark.parametrize("case", PLANNED)
def test_under_autocast_the_operands_of_products_and_nothing_else_are_bfloat16(
    case: str, shape: str, instructions: str
) -> None:
    net, (x, state, ends) = scan_problem(case, SHAPES[shape])
    actual = results(net, x, state, ends, bf16=True)
    full, expected = rounded_results(case, shape)
    # numbers that differ in their last place may be rounded apart: never many of them
    assert distance(actual, expected) < 0.1 * distance(full, expected)


def test_what_a_scan_keeps_of_autocast_is_that_of_its_forward_pass() -> None:
    net, x = small("lstm", layers=2), normal(3, 6, 2, dtype=torch.float32)
    autocast = functools.partial(torch.autocast, "cpu", torch.bfloat16)

    def slopes(forward: bool, backward: bool, again: bool = False) -> list[Tensor]:
        leaf = x.clone().requires_grad_()
        with autocast(enabled=forward):
            end = net.encode(leaf)[0].sum()
        with autocast(enabled=backward):
            return list(torch.autograd.grad(end, [leaf, *net.parameters()][:4], create_graph=again))

    for again in (False, True):
        for forward in (False, True):
            same(slopes(forward, False, again), slopes(forward, True, again), 0)
    assert distance(slopes(True, True), slopes(False, False)) > 1e-4
    with autocast(), autocast(enabled=False):
        inner = net.encode(x)
    same(inner, net.encode(x), 0)
    with autocast():
        whole = results(net, x, random_state(net, 3), None)
        net.checkpoint_every = 2
        close(results(net, x, random_state(net, 3), None), whole)


@pytest.mark.parametrize("case", PLANNED)
def test_it_is_what_auto_takes(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net = small(case, layers=2)
    net.backend = "auto"
    calls = []
    scan = compiled.scan
    monkeypatch.setattr(compiled, "scan", lambda *a: calls.append(a) or scan(*a))
    net(normal(3, 6, 2, dtype=torch.float32))
    assert len(calls) == len(net.layers)


@pytest.mark.parametrize("case", PLANNED)
def test_nan_passes_through_as_in_the_plain_scan(case: str, instructions: str) -> None:
    net = small(case, units=7, layers=2)
    x = normal(4, 6, 2, dtype=torch.float32)
    x[1, 3] = float("nan")
    state = random_state(net, 4)
    plain = copy.deepcopy(net)
    plain.backend = "plain"
    actual, expected = results(net, x, state, None), results(plain, x, state, None)
    close(actual[:2], expected[:2])
    assert torch.isnan(actual[0][1, 3:]).all()
    assert torch.isfinite(actual[0][1, :3]).all()
    assert torch.isfinite(actual[0][[0, 2, 3]]).all()
    for name in actual[2]:
        assert torch.equal(torch.isnan(actual[2][name]), torch.isnan(expected[2][name])), name


VALUES = torch.cat([torch.linspace(-120, 120, 4001), torch.linspace(-1, 1, 2001), torch.logspace(-30, 2, 200)])


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_the_functions_of_a_gate_are_exact_to_a_few_units_in_the_last_place(name: str, instructions: str) -> None:
    """tanh(x) is an Elman network that only sees x; sigmoid(x) the transform gate of an RHN whose candidate is one."""
    net = network(
        {"tanh": "rnn activation=tanh", "sigmoid": "rhn"}[name], dtype=torch.float32, layers=1, units=1, inputs=(1,)
    )
    net.backend = "fused"
    layer = net.layers[0].forward_direction
    with torch.no_grad():
        layer.cell.recurrent[0].weight.zero_() if name == "sigmoid" else layer.cell.recurrent.weight.zero_()
        layer.input.weight.copy_(torch.tensor([[0.0], [1.0], [0.0]]) if name == "sigmoid" else torch.ones(1, 1))
        layer.input.bias.copy_(torch.tensor([30.0, 0.0, 0.0]) if name == "sigmoid" else torch.zeros(1))
    actual = net.encode(VALUES.reshape(-1, 1, 1))[0].flatten().double()
    exact = getattr(torch, name)(VALUES.double())
    error = (actual - exact).abs()
    assert (error <= 6e-7 * exact.abs() + 1e-37).all(), VALUES[error.argmax()]
    assert actual.abs().max() <= 1


# a state that is not bounded grows with the input, and the rounding of a gate near 1 with it
@pytest.mark.parametrize("case", [c for c in PLANNED if c != "ran activation=identity"])
def test_gates_that_underflow_are_those_of_the_plain_scan(case: str, instructions: str) -> None:
    net, x = small(case, units=20, layers=1), 100 * normal(3, 6, 2, dtype=torch.float32)
    by_backend = {}
    for net.backend in ("fused", "plain"):
        net.zero_grad()
        outputs = net.encode(x)[0]
        outputs.sum().backward()
        by_backend[net.backend] = outputs, [p.grad / 100 for p in net.layers.parameters()]
    assert all(slope.isfinite().all() for slope in by_backend["plain"][1])
    close(by_backend["fused"][0], by_backend["plain"][0], 1e-4)
    close(by_backend["fused"][1], by_backend["plain"][1], 1e-4)


# a candidate that is not bounded is infinite itself, and where its gate is zero the product is NaN or not by a rounding
@pytest.mark.parametrize(
    "case", [c for c in PLANNED if not c.startswith(("atr", "mingru", "minlstm", "ran", "rg-lru", "sru"))]
)
def test_infinite_inputs_saturate(case: str, instructions: str) -> None:
    net = small(case, units=7, layers=1)
    x = normal(9, 3, 2, dtype=torch.float32)
    x[0, 1, 0], x[1, 2, 1] = float("inf"), float("-inf")
    by_backend = {}
    for net.backend in ("fused", "plain"):
        net.zero_grad()
        outputs, state = net.encode(x)
        score([outputs, *flatten(state)]).backward()
        by_backend[net.backend] = outputs, state, {n: p.grad for n, p in net.layers.named_parameters()}
    close(by_backend["fused"][:2], by_backend["plain"][:2])
    for name, slope in by_backend["plain"][2].items():
        finite = slope.isfinite()
        assert torch.equal(by_backend["fused"][2][name].isfinite(), finite), name
        close(by_backend["fused"][2][name].where(finite, 0), slope.where(finite, 0))


def test_the_number_of_threads_changes_nothing_but_rounding() -> None:
    net, x = small("lstm", units=40, layers=1), normal(31, 50, 2, dtype=torch.float32)
    state, threads, actual = random_state(net, 31), torch.get_num_threads(), []
    try:
        for count in (1, 2, 3, 2):
            torch.set_num_threads(count)
            actual.append(results(net, x, state, None))
    finally:
        torch.set_num_threads(threads)
    close(actual[1:3], [actual[0]] * 2)
    same(actual[1], actual[3], 0)


@pytest.mark.parametrize("case", ["lstm", "mingru"])
def test_gradients_of_biases_are_sums_that_round_little(case: str) -> None:
    """50,000 numbers added one after the other in float32 would be off by some 1e-5 of the sum."""
    net, x = small(case, units=4, layers=1), normal(64, 784, 2, dtype=torch.float32)
    exact = copy.deepcopy(net).double()
    exact.backend = "plain"
    for each in (net, exact):
        each(x.to(each.dtype)).square().sum().backward()
    for (name, p), q in zip(net.named_parameters(), exact.parameters(), strict=True):
        if name.endswith("bias") and "layers" in name:
            assert distance(p.grad, q.grad) < 1e-6, name


def test_a_plan_without_a_row_in_the_library_is_an_error() -> None:
    layer = shared.planned(small("star", layers=1).layers[0].forward_direction)
    assert layer is not None
    unknown = dataclasses.replace(layer, plan=dataclasses.replace(layer.plan, name="no-such-cell"))
    with pytest.raises(NotImplementedError, match="has no row 'no-such-cell' in CELLS"):
        compiled.CompiledScan(unknown, None, None)


def test_a_library_of_other_sources_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = small("star", layers=1), normal(3, 4, 2, dtype=torch.float32)
    monkeypatch.setattr(interface, "_digest", lambda: "others")
    with pytest.raises(OSError, match="cannot be loaded: the sources in native/ are not those"):
        interface.open_library(interface.libraries()[BUILT[0]])
    with pytest.warns(RuntimeWarning, match="is not used; see `rnnzoo doctor`"):
        assert interface.library.__wrapped__() is None
    monkeypatch.setattr(interface, "library", lambda: None)
    net.backend = "auto"
    assert net(x).isfinite().all()


SHORT = """
import resource, threading, torch
from helpers import network, normal
net, x = network("lstm", dtype=torch.float32, units=32, layers=1).eval(), normal(64, 20, 2, dtype=torch.float32)
net.backend = "fused"
torch.set_num_threads(1)
alone = net(x)
torch.set_num_threads(4)
torch.ones(10**6).add_(1)  # torch's own threads are there from now on
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 6 * 2**20,) * 2)  # too little for the stack of a thread
try:
    threading.Thread(target=print).start()
    raise SystemExit(77)
except RuntimeError:
    pass
torch.testing.assert_close(net(x), alone)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_where_the_system_has_no_more_threads_one_does_it_all() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHORT], cwd=Path(__file__).parent.parent, capture_output=True, text=True, timeout=120
    )
    if done.returncode == 77:
        pytest.skip("there are threads left, of smaller stacks")
    assert done.returncode == 0, done.stderr


def test_short_memory_is_an_error_like_any_other(instructions: str) -> None:
    sizes = {"steps": 1, "batch": 1, "inputs": 1, "units": 2**50, "input_blocks": 2, "blocks": 2, "phases": 1}
    job = interface.NativeJob(cell=interface.library().rnnzoo_cell(b"star"), **sizes)
    with pytest.raises(MemoryError, match="not enough memory"):
        interface.library().rnnzoo_forward(ctypes.byref(job))


def test_inputs_need_not_lie_together() -> None:
    net, x = small("gru reset=before", layers=1, inputs=(4,)), normal(6, 4, 3, dtype=torch.float32)
    for view in (
        x.transpose(1, 2),
        x.transpose(0, 2).contiguous().transpose(0, 2).transpose(1, 2),
        x[:, :, :1].expand(6, 4, 9).mT,
    ):
        actual = net.encode(view)
        net.backend = "plain"
        close(actual, net.encode(view))
        net.backend = "fused"


@torch.no_grad()
def test_numbers_that_lie_in_memory_in_other_ways() -> None:
    net, x = small("lstm", layers=2, inputs=(1,)).eval(), normal(3, 4, 1, dtype=torch.float32)
    turned = torch.complex(x, x).conj().imag  # negated when it is read
    assert turned.is_neg()
    state = random_state(net, 3)
    check_both_scans(net, lambda net: net(turned))
    check_both_scans(net, lambda net: net.step(turned[:, 0])[0])
    for dtype in (torch.float64, torch.float16):
        own = tuple(tuple(s.to(dtype) for s in part) for part in state)
        check_both_scans(net, lambda net, own=own: net.encode(x, own)[0])
        check_both_scans(net, lambda net, own=own: net.step(x[:, 0], own)[0].float())
