"""Every cell against its equations (tests/reference.py), against torch's own layers, and under torch's transforms."""

import copy
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import pytest
import reference
import torch
from helpers import (
    CASES,
    can,
    direction,
    each,
    flatten,
    gradients,
    in_each_form,
    network,
    normal,
    random_state,
    same,
    score,
)
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.overrides import TorchFunctionMode

from zoo.cells import CELLS
from zoo.cells.base import Cell
from zoo.cells.projections import Projection
from zoo.networks.network import Network

each_case = each("case", CASES)
each_case_in_each_form = in_each_form("case", CASES)
REGULARISERS = {"none": {}, "zoneout": {"zoneout": 0.3}, "norm": {"layer_norm": True}}
REGULARISED = [(case, name) for case in CASES for name, fields in REGULARISERS.items() if can(case, *fields)]
SMOOTH = [case for case in CASES if "skip" not in case]  # a straight-through gradient is not that of the function


def one_layer(case: str, kernel: int | None = None, **spec: object) -> Network:
    """One layer, dense or on images of 4 x 5; an RHN three deep, since its layers are one cell's depth."""
    deep = CELLS[CASES[case][0]].layers_inside
    return network(case, layers=3 if deep else 1, kernel=kernel, inputs=(2,) if kernel is None else (2, 4, 5), **spec)


def sequence(net: Network, batch: int = 3, steps: int = 4) -> Tensor:
    return normal(batch, steps, *net.interface.input)


def compare_with_reference(case: str, net: Network, x: Tensor) -> None:
    cell, options = CASES[case]
    if CELLS[cell].layers_inside:
        options = {**options, "depth": net.config.architecture.layers}
    state = random_state(net, len(x))
    x.requires_grad_()
    outputs, final = net.encode(x, state)
    expected, expected_final = reference.run(cell, direction(net), x, state[0], **options)
    same(outputs, expected)
    same(final[0], expected_final)
    of = {"x": x, **direction(net), **{f"state {i}": s for i, s in enumerate(state[0])}}
    same(gradients(score([outputs, *final[0]]), of), gradients(score([expected, *expected_final]), of))


@pytest.mark.parametrize("table", ["REFERENCES", "GATES"])
def test_every_cell_has_a_reference(table: str) -> None:
    rows = getattr(reference, table).keys()
    assert rows == CELLS.keys(), (
        f"{table} in tests/reference.py lacks {CELLS.keys() - rows}, and has {rows - CELLS.keys()} too many"
    )


def test_a_memory_gate_is_one_of_the_inputs() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.memory_gates names r, which its inputs lack"):

        class Wrong(Cell):
            inputs = ("z",)
            memory_gates: ClassVar = {"r": +1}


@each_case_in_each_form
def test_outputs_states_and_gradients_equal_the_reference(case: str, kernel: int | None) -> None:
    net = one_layer(case, kernel)
    compare_with_reference(case, net, sequence(net))


class ParametersAlone(TorchFunctionMode):
    """Collects the functions that make something new of a parameter and of nothing that depends on input or state."""

    def __init__(self, parameters: Iterable[Tensor]):
        super().__init__()
        self.parameters = {p.untyped_storage().data_ptr() for p in parameters}
        self.names: list[str] = []

    def __torch_function__(
        self, function: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        sources = {a.untyped_storage().data_ptr() for a in args if isinstance(a, Tensor)}
        if isinstance(result, Tensor) and not result.requires_grad and sources & self.parameters:
            is_view = result.untyped_storage().data_ptr() in sources
            self.names.extend([] if is_view else [function.__name__])
        return result


@each_case
def test_a_step_computes_only_what_depends_on_the_state(case: str) -> None:
    """No product of the input alone is left to the steps, which `prepare` could compute for all of them at once.

    Nor is a function of parameters alone, such as the sigmoid of one.
    """
    net = one_layer(case).requires_grad_(False)
    direction, x = net.layers[0].forward_direction, sequence(net)[:, 0]
    prepared, state = direction.prepare(x), random_state(net, len(x))[0]
    late: list[str] = []
    with direction.hold_projections(x):
        for name, module in direction.cell.named_modules():  # now, since no matrix is held for a projection with hooks
            if isinstance(module, Projection):
                module.register_forward_pre_hook(
                    lambda _, args, name=name: None if args[0].requires_grad else late.append(name)
                )
        direction.cell.step(prepared, state)
        inputs = tuple(p.clone().requires_grad_() for p in prepared)
        with ParametersAlone(direction.cell.parameters()) as alone:
            direction.cell.step(inputs, state)
    assert not late
    assert not alone.names


@each_case_in_each_form
@pytest.mark.parametrize(("batch", "steps"), [(1, 4), (3, 1), (1, 1)])
def test_one_step_and_one_sequence_equal_the_reference(case: str, kernel: int | None, batch: int, steps: int) -> None:
    net = one_layer(case, kernel)
    compare_with_reference(case, net, sequence(net, batch, steps))


TORCH = {  # the cases that torch has too
    "rnn activation=tanh": lambda **kw: nn.RNN(nonlinearity="tanh", **kw),
    "rnn activation=relu": lambda **kw: nn.RNN(nonlinearity="relu", **kw),
    "lstm": nn.LSTM,
    "gru reset=after": nn.GRU,
}


def from_torch(case: str, theirs: dict[str, Tensor], suffix: str) -> dict[str, Tensor]:
    """Weights, or gradients, of one of torch's layers under our names.

    torch has two biases where one is enough: the second is held at zero, but for the GRU's candidate. Its GRU's update
    gate weighs the old state, ours the new one, so that gate's signs turn.
    """
    w_x, w_h, b_x, b_h = (theirs[f"{name}_l{suffix}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    if not case.startswith("gru"):
        return {"input.weight": w_x, "input.bias": b_x, "cell.recurrent.weight": w_h}
    signs = torch.tensor([1.0, -1.0, 1.0], dtype=w_x.dtype).repeat_interleave(len(b_x) // 3)
    w_x, w_h, b_x = w_x * signs[:, None], w_h * signs[:, None], b_x * signs
    gates, candidate = w_h.tensor_split([len(b_x) // 3 * 2])
    return {
        "input.weight": w_x,
        "input.bias": b_x,
        "cell.gates.weight": gates,
        "cell.candidate.weight": candidate,
        "cell.candidate.bias": b_h.chunk(3)[2],
    }


@pytest.mark.parametrize("case", TORCH)
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("merge", [None, "concat"], ids=["one way", "both ways"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_equals_torch(case: str, layers: int, merge: str | None, dtype: torch.dtype) -> None:
    units, inputs, tolerance = 3, 2, 1e-5 if dtype == torch.float32 else 1e-12
    torch.manual_seed(0)
    peer = TORCH[case](
        input_size=inputs, hidden_size=units, num_layers=layers, bidirectional=merge is not None, batch_first=True
    ).to(dtype)
    with torch.no_grad():
        for name, p in peer.named_parameters():
            if name.startswith("bias_hh"):
                p[: 2 * units if case.startswith("gru") else None] = 0
    net = network(case, layers=layers, units=units, inputs=(inputs,), bidirectional=merge, dtype=dtype)
    places = [(layer, way, f"{layer}" + "_reverse" * way) for layer in range(layers) for way in range(1 + bool(merge))]
    with torch.no_grad():
        for layer, way, suffix in places:
            ours = direction(net, layer, way)
            found = from_torch(case, dict(peer.named_parameters()), suffix)
            assert ours.keys() == found.keys()
            for name, value in found.items():
                ours[name].copy_(value)
    state = tuple(tuple(s.to(dtype) for s in parts) for parts in random_state(net, 3))
    own = 2 if case == "lstm" else 1
    starts = [parts[i : i + own] for parts in state for i in range(0, len(parts), own)]
    start = tuple(torch.stack(parts) for parts in zip(*starts, strict=True))
    x = normal(3, 5, inputs, dtype=dtype).requires_grad_()

    outputs, final = net.encode(x, state)
    expected, end = peer(x, start if own == 2 else start[0])
    same(outputs, expected, tolerance)
    ends = [tuple(part) for part in zip(*(end if own == 2 else (end,)), strict=True)]
    same([parts[i : i + own] for parts in final for i in range(0, len(parts), own)], ends, tolerance)

    mine = gradients(score([outputs]), {"x": x, **dict(net.named_parameters())})
    theirs = gradients(score([expected]), {"x": x, **dict(peer.named_parameters())})
    same(mine["x"], theirs["x"], tolerance)
    for layer, way, suffix in places:
        for name, value in from_torch(case, theirs, suffix).items():
            same(mine[f"layers.{layer}.directions.{way}.{name}"], value, tolerance)


def as_function(net: Network) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
    """The network as a function of an input and its parameters, to be differentiated by torch's checkers."""
    names = [name for name, _ in net.named_parameters()]
    values = tuple(p.detach().clone().requires_grad_() for p in net.parameters())
    x = normal(2, 3, *net.interface.input).requires_grad_()
    return lambda x, *values: functional_call(net, dict(zip(names, values, strict=True)), (x,)), (x, *values)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("case", "regulariser"), [pair for pair in REGULARISED if pair[0] in SMOOTH])
def test_gradients_are_right_numerically(case: str, regulariser: str) -> None:
    spec = REGULARISERS[regulariser]
    function, values = as_function(network(case, layers=2, units=2, outputs=2, readout="every", **spec))
    assert torch.autograd.gradcheck(function, values, fast_mode=True)  # along a random direction of each tensor


@pytest.mark.sampled(4)
@each("case", SMOOTH)
def test_second_derivatives_are_right_numerically(case: str) -> None:
    function, values = as_function(one_layer(case, units=2, outputs=1))
    assert torch.autograd.gradgradcheck(function, values, fast_mode=True)


@pytest.mark.sampled(3)
@each_case_in_each_form
def test_gradients_of_each_sample_by_vmap_equal_a_loop(case: str, kernel: int | None) -> None:
    net = network(case, layers=2, kernel=kernel, inputs=(2,) if kernel is None else (2, 3, 3))
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    xs, targets = normal(3, 4, *net.interface.input), torch.tensor([0, 1, 2])

    def loss(parameters: dict[str, Tensor], x: Tensor, target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(functional_call(net, parameters, (x[None],)), target[None])

    together = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, xs, targets)
    for i, (x, target) in enumerate(zip(xs, targets, strict=True)):
        alone = gradients(loss(dict(net.named_parameters()), x, target), dict(net.named_parameters()))
        same({name: g[i] for name, g in together.items()}, alone)


@each_case
def test_vmap_takes_lengths_and_gaps(case: str) -> None:
    net = network(case, layers=2)
    x, lengths = normal(3, 4, 2), torch.tensor([4, 1, 3])
    mapped = vmap(lambda one, length: net(one[None], length[None])[0])(x, lengths)
    same(mapped, net(x, lengths))
    if net.layers[0].forward_direction.cell.uses_time_gaps:
        dt = normal(3, 4).exp()
        mapped = vmap(lambda one, length, gaps: net(one[None], length[None], dt=gaps[None])[0])(x, lengths, dt)
        same(mapped, net(x, lengths, dt=dt))


@pytest.mark.sampled(4)
@each_case_in_each_form
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.bfloat16, 0.1), (torch.float32, 1e-5)], ids=["bfloat16", "float32"]
)
def test_other_precisions_keep_their_type_and_value(
    case: str, kernel: int | None, dtype: torch.dtype, tolerance: float
) -> None:
    wide, net = one_layer(case, kernel), one_layer(case, kernel, dtype=dtype)
    x = sequence(net)
    logits = net(x.to(dtype))
    outputs, state = net.encode(x.to(dtype))
    cell = net.layers[0].forward_direction.cell
    float32_states = [
        s for part in state for name, s in zip(cell.states, part, strict=True) if name in cell.float32_states
    ]
    assert {t.dtype for t in (logits, outputs, *flatten(state)) if all(t is not c for c in float32_states)} == {dtype}
    assert all(c.dtype == torch.promote_types(dtype, torch.float32) for c in float32_states)
    same(logits.double(), wide(x), tolerance)


@each_case
def test_a_state_of_another_precision_is_taken(case: str) -> None:
    """Of a float32 network by one in float64, which then has no state in float32."""
    spec = {"zoneout": 0.1} if can(case, "zoneout") else {}
    wide, x = network(case, **spec), normal(3, 4, 2)
    narrow = copy.deepcopy(wide).float()
    _, state = narrow.encode(x.float())
    states = flatten(wide.encode(x, state)[1])
    assert {t.dtype for t in states} == {torch.float64}
    same([s.float() for s in states], flatten(narrow.encode(torch.cat([x, x], 1).float())[1]), 1e-4)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kernel", [None, 3], ids=["dense", "conv"])
@pytest.mark.parametrize(("case", "regulariser"), REGULARISED)
def test_autocast_runs_and_keeps_the_value(case: str, kernel: int | None, regulariser: str) -> None:
    if kernel and not can(case, "kernel"):
        pytest.skip("has no convolutional form")
    spec = {"kernel": kernel, "inputs": (2,) if kernel is None else (2, 3, 3), "dtype": torch.float32}
    spec |= {key: min(value, 1e-9) if key == "zoneout" else value for key, value in REGULARISERS[regulariser].items()}
    net = network(case, **spec)
    x = normal(3, 4, *net.interface.input, dtype=torch.float32)
    expected = net(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = net(x)
        rate = "recurrent_dropout" if can(case, "recurrent_dropout") else "dropout"
        trained = network(case, train=True, **{rate: 0.5}, **spec)
        loss = trained(x).sum()
    same(logits.float(), expected, 0.2)
    assert all(g.isfinite().all() for g in gradients(loss, dict(trained.named_parameters())).values())


@each_case
def test_steps_run_under_autocast(case: str) -> None:
    net = one_layer(case, dtype=torch.float32)
    x, state = normal(3, 4, 2, dtype=torch.float32), None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for x_t in x.unbind(1):
            logits, state = net.step(x_t, state)
    same(logits.float(), net(x), 0.2)
