"""Properties that papers claim of their cells beyond the equations, and a comparison with another library's cells."""

import math
import re

import pytest
import torch
from helpers import can, direction, network, normal, same
from pydantic import ValidationError
from torch import Tensor

from zoo.cells import CELLS
from zoo.cells.projections import Projection
from zoo.networks import sizes
from zoo.networks.builder import build
from zoo.networks.layer import Direction
from zoo.networks.network import Network
from zoo.registry.schema import Architecture

UNITS = 7


def maps(net: Network) -> dict[str, Projection]:
    """Return the recurrent maps of the first layer."""
    first = next(m for m in net.modules() if isinstance(m, Direction))
    return {name: m for name, m in first.cell.named_modules() if isinstance(m, Projection)}


def matrix(m: Projection, channels: int) -> Tensor:
    """Return the matrix of a map, from what it does to unit vectors."""
    return m(torch.eye(channels, dtype=torch.float64)).T


# Matrices


@pytest.mark.parametrize(
    ("cell", "name", "channels"),
    [("urnn", "recurrent", 14), ("urnn-full", "recurrent", 14), ("eunn", "recurrent", 14), ("goru", "rotation", 7)],
)
@pytest.mark.parametrize("units", [UNITS, UNITS + 1], ids=["odd", "even"])
def test_unitary_maps_keep_every_norm(cell: str, name: str, channels: int, units: int) -> None:
    channels = channels // UNITS * units
    W = matrix(maps(network(cell, layers=1, units=units))[name], channels)
    same(W @ W.T, torch.eye(channels, dtype=torch.float64))
    if channels > units:  # real and imaginary parts as complex numbers have them
        (a, b), (c, d) = (half.chunk(2, 1) for half in W.chunk(2))
        same((a, b), (d, -c))


@pytest.mark.parametrize("units", [61, 62])
def test_a_permutation_first_made_in_a_trace_stays_there(units: int) -> None:
    """No other test uses these widths, so the permutation is not in the cache."""
    net, x = network("urnn", layers=1, units=units).eval(), normal(1, 3, 2)
    if units % 2:
        torch.export.export(net, (x,))
    else:
        torch.func.functionalize(net)(x)
    assert type(net(x).detach()) is Tensor
    assert net(x).tolist() == network("urnn", layers=1, units=units).eval()(x).tolist()


def test_any_unitary_matrix_is_in_reach_of_the_full_capacity() -> None:
    """Also one with the eigenvalue -1, which the Cayley map misses."""
    vectors = torch.linalg.qr(torch.complex(normal(4, 4), normal(4, 4, seed=1)))[0]
    angles = torch.tensor([math.pi, -3.0, 0.0, 1.0], dtype=torch.float64)
    hermitian = vectors * angles @ vectors.mH
    net = network("urnn-full", layers=1, units=4)
    with torch.no_grad():  # i H = K + i S
        direction(net)["cell.recurrent.weight"].copy_(-hermitian.imag + hermitian.real)
    W = matrix(maps(net)["recurrent"], 8)
    same(torch.complex(W[:4, :4], W[4:, :4]), vectors * torch.exp(1j * angles) @ vectors.mH)


@pytest.mark.parametrize("margin", [0.0, 0.1, 0.5, 1.0])
def test_singular_values_stay_within_the_margin(margin: float) -> None:
    net = network("rnn-soft-orthogonal", layers=1, units=UNITS, options={"margin": margin})
    with torch.no_grad():
        direction(net)["cell.recurrent.weight"].mul_(20)
    values = torch.linalg.svdvals(maps(net)["recurrent"].matrix)
    assert ((values >= 1 - margin - 1e-9) & (values <= 1 + margin + 1e-9)).all()
    assert values.max() - values.min() >= 1.5 * margin


@pytest.mark.parametrize("kernel", [None, 3, 5])
@pytest.mark.parametrize("cell", ["antisymmetric", "antisymmetric-gated"])
def test_antisymmetric_maps_turn_states_at_right_angles(cell: str, kernel: int | None) -> None:
    net = network(cell, layers=1, kernel=kernel, inputs=(2,) if kernel is None else (2, 4, 5))
    a, b = (normal(1, 3, *net.interface.input[1:], seed=seed) for seed in (0, 1))
    matrix = maps(net)["recurrent"]

    def turned(s: Tensor) -> Tensor:
        return matrix(s) + 0.01 * s  # without the diffusion

    same((a * turned(b)).sum(), -(turned(a) * b).sum())
    assert (a * turned(b)).sum().abs() > 0.1


@pytest.mark.parametrize("backend", ["plain", "auto"])
def test_a_matrix_is_made_in_the_precision_of_its_weight(backend: str) -> None:
    """In the rounded products of autocast, an orthogonal matrix would not stay orthogonal."""
    net, matrices = network("rnn-soft-orthogonal", options={"margin": 0.0}, dtype=torch.float32, layers=1), []
    net.backend = backend
    recurrent = maps(net)["recurrent"]
    form = recurrent.parametrization
    recurrent.parametrization = lambda weight: matrices.append(form(weight)) or matrices[-1]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        net(normal(3, 6, 2, dtype=torch.float32))
    (matrix,) = matrices
    assert matrix.dtype == torch.float32
    torch.testing.assert_close(matrix @ matrix.mT, torch.eye(len(matrix)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("cell", ["antisymmetric", "rnn-soft-orthogonal", "urnn-full"])
@pytest.mark.parametrize("backend", ["plain", "fused"])
def test_a_matrix_is_made_once_a_sequence(cell: str, backend: str) -> None:
    net = network(cell)
    calls: list[Tensor] = []
    of = [m for m in net.modules() if isinstance(m, Projection) and m.parametrization is not None]
    form = of[0].parametrization

    def counted(weight: Tensor) -> Tensor:
        calls.append(weight)
        return form(weight)

    for m in of:  # the same of all, as layers that run together are alike
        m.parametrization = counted
    net.backend = backend
    net(normal(3, 6, 2))
    assert len(calls) == (2 if backend == "plain" else 1)
    assert all(m.held_matrix is None for m in net.modules() if isinstance(m, Projection))


# States


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("autocast", [False, True], ids=["", "autocast"])
@pytest.mark.parametrize("backend", ["plain", "fused"])
def test_the_clock_of_a_phased_lstm_counts_beyond_what_bfloat16_can(
    dtype: torch.dtype, autocast: bool, backend: str
) -> None:
    net = network("lstm-phased", dtype=dtype)
    net.backend = backend
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast), torch.no_grad():
        _, state = net.encode(torch.zeros(1, 300, 2, dtype=dtype))
    assert {parts[-1].item() for parts in state} == {300}


@pytest.mark.parametrize("autocast", [False, True], ids=["", "autocast"])
@pytest.mark.parametrize("cell", ["gru-skip", "lstm-skip"])
def test_a_skipping_unit_updates_again_however_slowly_it_counts(cell: str, autocast: bool) -> None:
    """With d = 0.0015, which bfloat16 cannot add to a debt near 1, the units update once in 334 steps."""
    net = network(cell, layers=1, dtype=torch.float32 if autocast else torch.bfloat16)
    with torch.no_grad():
        direction(net)["cell.importance.weight"].zero_()
        direction(net)["cell.importance.bias"].fill_(math.log(0.0015))
    x = torch.ones(1, 700, 2, dtype=net.head.weight.dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast), torch.no_grad():
        outputs, _ = net.encode(x)
    steps = outputs[0].float().diff(dim=0).abs().sum(-1).nonzero() + 1
    assert steps.flatten().tolist() == [334, 668]


def test_units_of_a_phased_lstm_change_in_their_open_part_only() -> None:
    """With periods of 4 steps, a quarter of which is open, and no leak, a unit changes in one step of four."""
    net = network("lstm-phased", layers=1, units=4, options={"ratio": 0.25, "leak": 0.0})
    with torch.no_grad():
        direction(net)["cell.log_period"].fill_(math.log(4))
        direction(net)["cell.shift"].copy_(torch.arange(4) - 0.5)
    outputs, _ = net.encode(normal(1, 8, 2))
    changed = torch.cat([torch.zeros(1, 4), outputs[0].float()]).diff(dim=0) != 0
    assert changed.equal(torch.eye(4).bool().repeat(2, 1))


@pytest.mark.parametrize("cell", ["lstm-skip", "gru-skip"])
def test_skipped_steps_keep_the_state_and_the_first_is_none(cell: str) -> None:
    """With an importance of 0.2 in every step, one step of three is worth an update: 0.2, 0.4 and then 0.6."""
    net = network(cell, layers=1)
    with torch.no_grad():
        direction(net)["cell.importance.weight"].zero_()
        direction(net)["cell.importance.bias"].fill_(math.log(0.2 / 0.8))
    outputs, _ = net.encode(normal(2, 9, 2))
    changed = torch.cat([torch.zeros(2, 1, 3), outputs.float()], 1).diff(dim=1) != 0
    assert changed.all(2).equal(changed.any(2))
    assert changed[0, :, 0].tolist() == [True, False, False] * 3
    assert torch.autograd.grad(outputs.sum(), direction(net)["cell.importance.bias"])[0] != 0  # straight through


def test_two_units_of_an_indrnn_never_meet() -> None:
    net = network("indrnn", layers=1)
    h = normal(1, 3).requires_grad_()
    (jacobian,) = torch.autograd.functional.jacobian(lambda h: net.step(normal(1, 2), ((h,),))[1][0][0], (h,))
    assert not (jacobian[0, :, 0] * (1 - torch.eye(3))).any()


def test_a_gf_rnn_whose_feedback_is_shut_is_a_stack() -> None:
    """Layers see the past of others: only while their gates let it through."""
    net = network("gf-rnn", layers=3)
    x, weights = normal(2, 5, 2), direction(net)
    with torch.no_grad():
        for name, p in weights.items():
            if "present" in name or "past" in name:
                p.zero_()  # every gate one half
    stack = network("rnn", layers=3)
    with torch.no_grad():
        for j in range(3):
            ours = direction(stack, j)
            ours["cell.recurrent.weight"].copy_(weights[f"cell.recurrent.{j}.weight"][3 * j : 3 * j + 3] / 2)
            ours["input.weight"].copy_(weights["input.weight"][:3] if j == 0 else weights[f"cell.up.{j - 1}.weight"])
            ours["input.bias"].copy_(weights["input.bias"][:3] if j == 0 else weights[f"cell.up.{j - 1}.bias"])
        before = net.encode(x)[0]
        for i in range(3):
            for j in set(range(3)) - {i}:
                weights[f"cell.recurrent.{i}.weight"][3 * j : 3 * j + 3].zero_()
    same(net.encode(x)[0], stack.encode(x)[0])
    assert not torch.allclose(before, net.encode(x)[0])


# What a specification may say

IMPOSSIBLE = {"kernel": 3, "layer_norm": True, "zoneout": 0.1}


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("field", IMPOSSIBLE)
def test_fields_that_a_cell_cannot_have_are_refused_with_the_reason(cell: str, field: str) -> None:
    spec = {"cell": cell, "layers": 1, "units": 2, field: IMPOSSIBLE[field]}
    if can(cell, field):
        Architecture(**spec)
    else:
        reason = re.escape(f"cell '{cell}' cannot have '{field}': {CELLS[cell].without[field]}")
        with pytest.raises(ValidationError, match=reason):
            Architecture(**spec)


@pytest.mark.parametrize("value", [0, 1025, 2.0, True, "2", None, math.nan])
def test_whole_options_are_whole_and_in_range(value: object) -> None:
    words = re.escape(f"'capacity' is {value!r}; it must be a whole number from 1 to 1024")
    with pytest.raises(ValidationError, match=words):
        Architecture(cell="eunn", layers=1, units=2, options={"capacity": value})


@pytest.mark.parametrize(("cell", "option", "value"), [
    ("rnn-soft-orthogonal", "margin", -0.1), ("rnn-soft-orthogonal", "margin", 1.1), ("lstm-phased", "ratio", 0.0),
    ("antisymmetric", "epsilon", math.inf), ("antisymmetric-gated", "gamma", -1),
])  # fmt: skip
def test_numbers_out_of_range_are_refused(cell: str, option: str, value: float) -> None:
    with pytest.raises(ValidationError, match=f"'{option}' is .*; it must be a finite number from"):
        Architecture(cell=cell, layers=1, units=2, options={option: value})


# Counts


@pytest.mark.parametrize(("name", "printed"), [("urnn-full-1x512", 270_000), ("rnn-soft-orthogonal-1x128", 18_000)])
def test_parameters_are_those_of_table_1(name: str, printed: int) -> None:
    """Table 1 of "Gating revisited", in thousands."""
    assert abs(sizes.counts(f"{name}-pmnist").parameters / printed - 1) < 0.02


def test_multiply_adds_of_maps_that_are_no_matrices() -> None:
    """4 steps; the input map is 2 x 2 to twice 8 real numbers, and the head sees those 16."""
    around = 4 * 2 * 16 + 16 * 4
    each = {"urnn": 4 * (3 * 8 + 2 * 16 + 2 * 4 * 3), "urnn-full": 16 * 16, "eunn": 3 * 4 * 12 + 4 * 8}
    for cell, cost in each.items():
        options = {"capacity": 3} if cell == "eunn" else {}
        net = network(cell, layers=1, units=8, steps=4, options=options)
        assert sizes.multiply_adds(net) == 4 * cost + around, cell


@pytest.mark.parametrize(("cell", "least", "most"), [
    *((cell, 1e14, math.inf) for cell in ("gla", "retention", "rwkv6", "rwkv7")), ("mamba2", 5, 1e13),
    *((cell, 0, 0.002) for cell in ("mlstm", "deltanet", "gated-deltanet")),
])  # fmt: skip
def test_untrained_stacks_without_blocks_grow_or_shrink_as_docs_cells_says(
    cell: str, least: float, most: float
) -> None:
    for seed in range(5):
        net, generator = build(f"{cell}-4x64", inputs=8, outputs=0, device="cpu", seed=seed), torch.Generator()
        x = torch.randn(4, 100, 8, generator=generator.manual_seed(seed))
        with torch.no_grad():
            largest = net.encode(x)[0].abs().max().nan_to_num(math.inf)  # infinite states cancel
        assert least <= largest <= most
