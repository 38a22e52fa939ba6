"""Initial values."""

import math
from itertools import pairwise

import pytest
import reference
import torch
from helpers import (
    CASES,
    can,
    config,
    direction,
    in_each_form,
    normal,
    same,
    weights,
)
from marks import batch, dense_and_conv, each_case, each_cell, shape
from torch import Tensor

from zoo.cells import CELLS, cell_class
from zoo.cells.lmu import legendre
from zoo.networks import builder
from zoo.networks.network import Network
from zoo.registry.schema import Init


def built(cell: str, seed: int = 0, **spec: object) -> Network:
    return builder.build(config(cell, **spec), device="cpu", seed=seed)


def maps(net: Network, role: str) -> dict[str, Tensor]:
    """Return the weights of the input maps, or of the recurrent maps whose initial values Init sets."""
    inner = ".input." if role == "input" else ".cell."
    weights = {k: v for k, v in net.named_parameters() if inner in k and k.endswith("weight")}
    own = {"esn": ("recurrent.weight",), "gru-d": ("decay.weight",), "lmu": ("feedback.weight",)}
    changed = ("rotation.weight", "redistribution.weight", *own.get(net.config.architecture.cell, ()))
    return {k: v for k, v in weights.items() if v.dim() > 1 and not k.endswith(changed)}


@in_each_form("case", CASES)
@pytest.mark.parametrize("role", ["input", "recurrent"])
def test_orthogonal_initial_values_are_orthogonal_gate_by_gate(case: str, role: str, kernel: int | None) -> None:
    cell, options = CASES[case]
    net = built(cell, units=4, options=options, kernel=kernel, inputs=shape(kernel), init={role: "orthogonal"})
    for name, weight in maps(net, role).items():
        rows = list(net.layers[0].forward_direction.input_channels) if role == "input" else 4
        for block in weight.flatten(1).split(rows):
            small = block if block.shape[0] <= block.shape[1] else block.T
            same(small @ small.T, torch.eye(len(small)), 1e-5)
        for a, b in pairwise(weight.split(rows)):
            assert a.shape != b.shape or not torch.allclose(a, b), name  # each gate its own draw


@each_cell
def test_identity_initial_values_are_identities_gate_by_gate(cell: str) -> None:
    for weight in maps(built(cell, init={"recurrent": "identity"}), "recurrent").values():
        for block in weight.split(3):
            same(block, torch.eye(*block.shape), 0)
    if not can(cell, "kernel"):
        return
    for weight in maps(built(cell, kernel=3, inputs=(2, 4, 4), init={"recurrent": "identity"}), "recurrent").values():
        image = normal(1, weight.shape[1], 4, 4, dtype=torch.float32)
        for block in weight.split(3):
            result = reference.linear(block, image)
            same(result[:, :2] if len(block) > image.shape[1] else result, image[:, : len(block)], 1e-6)


BOUNDS = {
    "glorot-uniform": lambda fan_in, fan_out: math.sqrt(6 / (fan_in + fan_out)),
    "he-uniform": lambda fan_in, _: math.sqrt(6 / fan_in),
    "lecun-uniform": lambda fan_in, _: math.sqrt(3 / fan_in),
    "uniform-0.04": lambda *_: 0.04,
}


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("role", ["input", "recurrent"])
@dense_and_conv
def test_uniform_initial_values_fill_their_range(name: str, role: str, kernel: int | None) -> None:
    net = built("lstm", units=20, inputs=(30,) if kernel is None else (30, 3, 3), kernel=kernel, init={role: name})
    area = 1 if kernel is None else 9
    for weight in maps(net, role).values():
        bound = BOUNDS[name](weight.shape[1] * area, 20 * area)
        for block in weight.split(20):
            assert 0.97 * bound < block.abs().max() <= bound * (1 + 1e-6)
            assert abs(block.mean()) < 0.15 * bound
            assert abs(block.std() * math.sqrt(3) / bound - 1) < 0.15


@pytest.mark.parametrize(("name", "deviation"), [("normal-0.001", 0.001), ("normal-1e-2", 0.01), ("he-normal", None)])
@pytest.mark.parametrize("role", ["input", "recurrent"])
def test_normal_initial_values_have_their_deviation(name: str, deviation: float | None, role: str) -> None:
    for weight in maps(built("gru", units=30, inputs=(20,), init={role: name}), role).values():
        expected = math.sqrt(2 / weight.shape[1]) if deviation is None else deviation
        for block in weight.split(30):
            assert abs(block.std() / expected - 1) < 0.15
            assert block.abs().max() > 2.2 * expected
            assert abs(block.mean()) < 0.2 * expected


@pytest.mark.parametrize("cell", CELLS)
def test_a_network_of_zero_initial_values_computes(cell: str) -> None:
    net = built(cell, init={"input": "zero", "recurrent": "zero"})
    assert net(batch(net).float()).isfinite().all()


@pytest.mark.parametrize("role", ["input", "recurrent"])
def test_zero_initial_values_are_zero(role: str) -> None:
    net = built("gru", init={role: "zero"})
    assert not any(w.any() for w in maps(net, role).values())
    assert all(w.any() for w in maps(net, {"input": "recurrent", "recurrent": "input"}[role]).values())


def test_each_cell_has_its_own_defaults() -> None:
    """S1, section 3: RIN and IRNN draw small weights, and the IRNN's recurrent map is the identity."""
    for cell, roles in {"rin": ("input", "recurrent"), "rin-dt": ("input", "recurrent"), "irnn": ("input",)}.items():
        for role in roles:
            for weight in maps(built(cell, units=40, inputs=(40,)), role).values():
                assert abs(weight.std() / 0.001 - 1) < 0.1
    same(maps(built("irnn"), "recurrent"), maps(built("irnn", init={"recurrent": "identity"}), "recurrent"), 0)
    bounds = dict.fromkeys(("urnn", "eunn"), math.pi)
    bounds |= dict.fromkeys(
        ("antisymmetric", "antisymmetric-gated", "lipschitz", "rnn-soft-orthogonal", "urnn-full"), math.sqrt(3 / 40)
    )
    for cell, bound in bounds.items():
        for weight in maps(built(cell, units=40), "recurrent").values():
            assert 0.95 * bound < weight.abs().max() < 1.001 * bound
            assert abs(weight.std() * math.sqrt(3) / bound - 1) < 0.15
    glorot = {"input": "glorot-uniform", "recurrent": "glorot-uniform"}
    drawn = {"input": "uniform-0.1", "recurrent": "uniform-1"}
    same(dict(built("esn").named_parameters()), dict(built("esn", init=drawn).named_parameters()), 0)
    readers = ("gla", "hgrn", "lru", "lstm-mass", "rwkv6", "rwkv7", "s5")  # their recurrent projections read the state
    for cell in readers:
        same(dict(built(cell).named_parameters()), dict(built(cell, init=glorot).named_parameters()), 0)
    for cell in set(CELLS) - {"esn", "rin", "rin-dt", "irnn", *readers} - bounds.keys():
        explicit = built(cell, init={"input": "glorot-uniform", "recurrent": "orthogonal"})
        same(dict(built(cell).named_parameters()), dict(explicit.named_parameters()), 0)


def parts(net: Network, *names: str) -> list[Tensor]:
    """The cell's own parameters of these names in the first layer."""
    return [direction(net)[f"cell.{name}"] for name in names]


@each_case
def test_parameters_outside_maps_start_as_the_cell_says(case: str) -> None:
    cell, options = CASES[case]
    net = built(cell, options=options, units=300, steps=50)
    known = {}
    if "peephole=diagonal" in case or cell in ("lstm-residual", "lstm-phased"):
        known = {"old.weight": (0.0, 0.0), "new.weight": (0.0, 0.0)}  # peepholes start shut
    if cell in ("urnn", "urnn-full", "eunn", "goru"):
        known["threshold"] = (0.0, 0.0)
    if options.get("normalisation") == "learned":
        known["log_gain"] = None
    known |= {
        "eunn": {"recurrent.phases": (-math.pi, math.pi)},
        "goru": {"rotation.weight": (-math.pi, math.pi)},
        "indrnn": {"recurrent.weight": (0.0, 2 ** (1 / 50))},
        "lstm-phased": {"log_period": (0.0, math.log(50)), "shift": (0.0, 50.0)},
        "lstm-skip": {"importance.bias": (1.0, 1.0)},
        "gru-skip": {"importance.bias": (1.0, 1.0)},
        "lru": {"decay": (0.9, 0.999), "phase": (0.0, 2 * math.pi)},
        "rg-lru": {"decay.weight": (0.9, 0.999)},
        "hgrn": {"bound": (0.0, 0.0), "theta": (1e-8, 1.0)},
        "s4d": {
            "log_decay": (math.log(0.5), math.log(0.5)), "frequency": (0.42, 3.82), "log_step": LOG_STEP,
            "skip": None, "output": None,
        },
        "mamba2": dict.fromkeys(("log_rate", "step_offset")) | {"skip": (1.0, 1.0)},
        "gated-deltanet": dict.fromkeys(("log_rate", "step_offset")),
        "rwkv6": dict.fromkeys(("decay", "bonus")),
        "rwkv7": dict.fromkeys(("decay", "rate", "xi", "alpha", "rho")),
        "brc": {"recurrent.weight": (1.0, 1.0)},
        "fastrnn": {"alpha": (-3.0, -3.0), "beta": (3.0, 3.0)},
        "fastgrnn": {"zeta": (1.0, 1.0), "nu": (-4.0, -4.0), "offset": (0.0, 0.0)},
        "exprnn": {"threshold": (-0.01, 0.01), "rotation.weight": (-1.0, 0.0)},
        "ltc": {"rate": (math.log(math.e - 1),) * 2, "reversal": (-1.0, 1.0)},
        "mgu3": {"gate": (0.0, 0.0)},
        "cfc": {"w_tau": (1.0, 1.0), "A": (1.0, 1.0)} if options.get("mode") == "pure" else {},
        "gru-d": {"rate": None, "offset": (0.0, 0.0)},
        "unicornn": {"recurrent.weight": (0.0, 1.0), "scale": (-0.1, 0.1)},
        "s5": {"log_decay": (math.log(0.5), math.log(0.5)), "frequency": None, "log_step": None},
    }.get(cell, {})  # fmt: skip
    for name, span in known.items():
        (value,) = parts(net, name)
        if span is None:  # see the cell's test
            continue
        low, high = span
        if cell == "lru":  # it learns the logarithms of -log |l| and of the angle of l
            value = torch.exp(-value.exp()) if name == "decay" else value.exp()
        elif cell == "rg-lru":
            value = torch.sigmoid(value) ** 8
        assert low <= value.min() <= low + 0.05 * (high - low), name
        assert high - 0.5 * (high - low) <= value.max() <= high, name
    special = {k for k, v in direction(net).items() if v.dim() == 1 or k.endswith("rotation.weight")}
    biases = {k for k in special if k.endswith("bias") and "importance" not in k}
    own = {k.removeprefix("cell.") for k in special - biases}
    assert own == known.keys(), f"give the lowest and the highest initial value of {own ^ known.keys()} in `known`"
    if cell == "lstm-phased":
        log_period, shift = parts(net, "log_period", "shift")
        assert 0.9 < (shift / log_period.exp()).max() <= 1


def test_the_memory_of_an_lmu_starts_without_feedback() -> None:
    assert not parts(built("lmu", units=8), "feedback.weight")[0].any()
    a, b = torch.tensor(legendre(256, 784.0), dtype=torch.float64).split((256, 1), dim=1)

    def radius(seed: int, scale: float) -> float:
        e_m = torch.rand(1, 256, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 - 1
        return torch.linalg.eigvals(a + scale / 16 * b @ e_m).abs().max().item()

    assert radius(0, 0.0) < 0.99
    assert any(radius(seed, 1.0) > 1 for seed in range(5))


@pytest.mark.parametrize("cell", ["gru-d", "cfc"])
def test_no_rate_starts_where_it_cannot_learn(cell: str) -> None:
    name, options = {"gru-d": ("decay.weight", {}), "cfc": ("w_tau", {"mode": "pure"})}[cell]
    net = built(cell, layers=1, units=20, options=options)
    net.encode(normal(4, 6, 2).float())[0].square().sum().backward()
    (value,) = parts(net, name)
    assert (value > 0).all()
    if cell == "gru-d":  # exp(-W_d delta) over all inputs and steps is 1/e at least
        assert value.max() <= 1 / (value.shape[1] * net.interface.steps)
    (slope,) = [p.grad for key, p in net.named_parameters() if key.endswith(f"cell.{name}")]
    assert slope is not None
    assert slope.count_nonzero() == slope.numel()


def test_hgrn_starts_with_the_angles_of_its_paper() -> None:
    (theta,) = parts(built("hgrn", units=6), "theta")
    same(theta, torch.tensor([10000 ** (-2 * n / 6) for n in range(6)]), 1e-6)  # Qin et al. 2023


LOG_STEP = (math.log(1e-3), math.log(1e-1))


@pytest.mark.parametrize("spectrum", ["lin", "inv", "real"])
def test_s4d_starts_with_the_spectra_of_its_paper(spectrum: str) -> None:
    net = built("s4d", options={"spectrum": spectrum, "states": 3}, units=2000)
    decay, frequency, output, skip = parts(net, "log_decay", "frequency", "output", "skip")
    expected = {  # Gu et al. 2022, eq. 8 and 9, for n = 0, 1, 2 and N = 6
        "lin": [-0.5, -0.5 + 1j * math.pi, -0.5 + 2j * math.pi],
        "inv": [-0.5 + 6j / math.pi * 5, -0.5 + 6j / math.pi, -0.5 + 6j / math.pi * 0.2],
        "real": [-1.0, -2.0, -3.0],
    }[spectrum]
    start = torch.complex(-decay.exp(), frequency).reshape(2000, 3)
    same(start, torch.tensor([expected] * 2000, dtype=torch.complex64), 1e-5)
    assert (output.mean().item(), output.std().item()) == (
        pytest.approx(0, abs=0.02),
        pytest.approx(0.5**0.5, rel=0.02),
    )
    assert (skip.mean().item(), skip.std().item()) == (pytest.approx(0, abs=0.1), pytest.approx(1, rel=0.1))


def test_s5_starts_with_the_eigenvalues_of_hippo() -> None:
    net = built("s5", options={"states": 60})
    decay, frequency, step = parts(net, "log_decay", "frequency", "log_step")
    n = torch.arange(120, dtype=torch.float64)
    hippo = -torch.tril(torch.sqrt(torch.outer(2 * n + 1, 2 * n + 1)), -1) - torch.diag(n + 1)  # LegS
    low_rank = torch.sqrt(n + 0.5)
    expected = torch.linalg.eigvals(hippo + torch.outer(low_rank, low_rank))  # Smith et al. 2023, appendix B.1.1
    expected = expected[expected.imag > 0]
    same(-decay.exp().double(), expected.real, 1e-5)
    same(frequency.double(), expected.imag.sort().values, 1e-4)
    assert LOG_STEP[0] <= step.min() < -6.5
    assert -2.7 < step.max() <= LOG_STEP[1]
    (small,) = parts(built("s5", options={"states": 20}), "frequency")
    (blocks,) = parts(built("s5", options={"states": 60, "blocks": 3}), "frequency")
    same(blocks, small.repeat(3))


def test_mamba2_and_gated_deltanet_start_with_the_steps_of_their_papers() -> None:
    for cell, low in (("mamba2", 1), ("gated-deltanet", 0)):
        rate, bias = parts(built(cell, options={"heads": 400}, units=400), "log_rate", "step_offset")
        step = torch.nn.functional.softplus(bias).log()
        assert LOG_STEP[0] - 1e-3 <= step.min() < -6.5
        assert -2.7 < step.max() <= LOG_STEP[1] + 1e-3
        assert low <= rate.exp().min() < low + 0.5
        assert 15.5 < rate.exp().max() <= 16


def test_a_learned_normalisation_starts_as_the_tied_one() -> None:
    tied, learned = (built("lru", options={"normalisation": word, "expand": 2}) for word in ("tied", "learned"))
    x = normal(3, 5, *tied.interface.input).float()
    same(learned.encode(x), tied.encode(x), 1e-5)
    decay, log_gain = parts(learned, "decay", "log_gain")
    same(torch.exp(2 * log_gain), 1 - torch.exp(-2 * decay.exp()), 1e-5)  # Orvieto et al. 2023, section 3.4
    (gradient,) = torch.autograd.grad(learned.encode(x)[0].sum(), [log_gain])
    assert gradient.abs().min() > 0


def test_rwkv_starts_as_the_code_of_its_authors_in_the_middle_of_a_stack() -> None:
    units, heads, depth = 12, 3, 0.5  # depth from 0, the first layer, to 1, the last
    width = units // heads
    decay6, bonus, decay7, rate, xi = ([] for _ in range(5))
    for n in range(units):
        share, place = n / (units - 1), 2 * (n % width) / (width - 1) - 1
        zigzag = place * abs(place)
        decay6.append(-6 + 5 * share ** (0.7 + 1.3 * depth))
        bonus.append(depth * (1 - share) + ((n + 1) % 3 - 1) * 0.1)
        decay7.append(-6 + 6 * share ** (1 + depth**0.3) + 0.5 + 2.5 * zigzag)
        rate.append(-0.19 + 0.3 * zigzag + 0.4 * (share - 0.5))
        xi.append(0.71 - 0.1 * (share - 0.5))
    expected = {
        "rwkv6": {"decay": decay6, "bonus": bonus},
        "rwkv7": {"decay": decay7, "rate": rate, "xi": xi, "alpha": [1.02] * units, "rho": [-0.04] * units},
    }
    for cell, values in expected.items():
        started = parts(built(cell, options={"heads": heads}, units=units), *values)
        same(torch.stack(started), torch.tensor([*values.values()]), 1e-5)


WITH_MOST = {  # kinds of parameters
    "gru": {"reset": "after"}, "lstm-peephole": {"peephole": "diagonal"}, "mlstm": {"heads": 200},
}  # fmt: skip


STEPS = 50
MEMORIES = {  # lowest and highest bias, for T = STEPS
    "zero": (0.0, 0.0),
    "one": (1.0, 1.0),
    "chrono": (0.0, math.log(STEPS - 1)),
    "log-uniform": (0.0, math.log(STEPS)),
    "log-uniform-sqrt": (0.0, math.log(STEPS) / 2),
}


@pytest.mark.sampled(3)
@each_cell
@pytest.mark.parametrize("name", MEMORIES)
def test_gate_biases_keep_memory(cell: str, name: str) -> None:
    net = built(cell, units=200, steps=STEPS, options=WITH_MOST.get(cell, {}), init={"gate_bias": name})
    low, high = MEMORIES[name]
    gates, memory = reference.GATES[cell], reference.MEMORY_GATES.get(cell, {})
    draws = []
    for key, bias in weights(net, "layers.").items():
        if not key.endswith("bias") or "importance" in key:
            continue
        if len(bias) != 200 * len(gates) or not memory:
            assert not bias.any(), key
            continue
        blocks = dict(zip(gates, bias.split(200), strict=True))
        old, *new = memory
        for gate in set(gates) - set(memory):
            assert not blocks[gate].any(), (key, gate)
        draw = blocks[old] * memory[old]
        draws.append(draw)
        assert low - 1e-6 <= draw.min()
        assert draw.max() <= high + 1e-6
        assert draw.max() - draw.min() >= 0.85 * (high - low)
        for gate in new:  # the same bias, with the other sign; "one" sets the forget gate only
            same(blocks[gate] * memory[gate], draw * (name != "one"), 0)
    if high > low:
        assert all(not torch.equal(a, b) for a, b in pairwise(draws))
    assert len(draws) == (2 if memory else 0)


def test_chrono_and_log_uniform_biases_have_their_distribution() -> None:
    """chrono: exp(b) uniform on [1, T - 1]. log-uniform: b itself is uniform, so that its mean is half the span."""

    def biases(name: str) -> Tensor:
        net = built("lstm-f", layers=1, units=4000, steps=784, init={"gate_bias": name, "recurrent": "zero"})
        return direction(net)["input.bias"][:4000]

    chrono, log, root = map(biases, ("chrono", "log-uniform", "log-uniform-sqrt"))
    assert abs(chrono.exp().mean() / 392 - 1) < 0.05
    assert abs(log.mean() / (math.log(784) / 2) - 1) < 0.05
    assert abs(root.mean() / (math.log(784) / 4) - 1) < 0.05


def test_every_gate_bias_of_the_specification_is_tested() -> None:
    assert set(Init.model_fields["gate_bias"].annotation.__args__) == set(MEMORIES)


@pytest.mark.sampled(3)
@each_cell
@pytest.mark.parametrize("merge", [None, "sum"])
def test_initial_values_come_from_the_seed(cell: str, merge: str | None) -> None:
    spec = {"bidirectional": merge, "init": {"recurrent": "orthogonal", "gate_bias": "chrono"}}
    spec["layer_norm"] = can(cell, "layer_norm")
    torch.manual_seed(1)
    one = built(cell, seed=5, **spec).state_dict()
    torch.manual_seed(2)
    same(dict(built(cell, seed=5, **spec).state_dict()), dict(one), 0)
    other = built(cell, seed=6, **spec).state_dict()
    for name in one:
        random = name.endswith("weight") and one[name].dim() > 1 and "feedback" not in name  # of the LMU
        assert torch.equal(one[name], other[name]) is False or not random, name
    wide = builder.build(config(cell, **spec), device="cpu", dtype=torch.float64, seed=5).state_dict()
    same({k: v.float() for k, v in wide.items()}, dict(one), 0)


@each_cell
def test_initial_values_do_not_depend_on_the_number_of_threads(cell: str) -> None:
    threads, states = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            states.append(dict(built(cell, units=64, init={"recurrent": "orthogonal"}).state_dict()))
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(threads)
    same(*states, 0)


def test_layers_and_directions_start_differently() -> None:
    net = built("lstm", inputs=(3,), layers=3, bidirectional="sum")
    weights = [direction(net, layer, index)["input.weight"] for layer in range(3) for index in range(2)]
    assert all(not torch.equal(a, b) for i, a in enumerate(weights) for b in weights[:i])


@each_cell
def test_nothing_is_left_without_a_start_value(cell: str) -> None:
    """Building allocates memory without clearing it, so a forgotten parameter would hold whatever was there."""
    spec = {"kernel": 3, "inputs": (2, 3, 3)} if can(cell, "kernel") else {}
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.use_deterministic_algorithms(True)  # with the line above, fresh memory is NaN
    try:
        net = built(cell, layer_norm=can(cell, "layer_norm"), options=WITH_MOST.get(cell, {}), **spec)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(p.isfinite().all() for p in net.parameters())
    assert net.training
    assert all(p.device.type == "cpu" for p in net.parameters())
    assert {p.requires_grad for p in net.layers.parameters()} == {not cell_class(cell).frozen}


def test_convolutions_in_front_of_layers_start_as_those_of_torch() -> None:
    net = built("lstm", layers=1, units=64, block={"convolution": 4})
    convolution, theirs = net.layers[0].forward_direction.convolution, torch.nn.Conv1d(64, 64, 4, groups=64)
    assert convolution is not None
    assert not convolution.bias.any()
    bound = 4**-0.5
    for weight in (convolution.weight, theirs.weight):
        assert 0.9 * bound < weight.abs().max() <= bound


def test_gate_biases_are_told_of_cells_with_gates_only():
    init = Init(gate_bias="chrono")
    assert init.text("star") == "input: glorot-uniform, recurrent: orthogonal, gate bias: chrono"
    assert init.text("rnn") == "input: glorot-uniform, recurrent: orthogonal"
    assert init.text("mlp") == "input: glorot-uniform"


@each_cell
def test_a_row_says_whether_a_recurrent_matrix_is_drawn(cell: str) -> None:
    # the words draw equally many numbers; the matrix of an echo state network is scaled
    words = ("normal-0.5", "identity" if cell == "esn" else "normal-0.25")
    one, other = (built(cell, units=4, init={"recurrent": word}).state_dict() for word in words)
    changes = not all(torch.equal(one[name], other[name]) for name in one)
    assert CELLS[cell].recurrent_matrix == changes
    assert ("recurrent: " in Init(recurrent="zero").text(cell)) == changes


@each_cell
def test_a_row_says_whether_a_gate_bias_changes_anything(cell: str) -> None:
    low, high = (built(cell, units=4, init={"gate_bias": f"log-uniform{s}"}).state_dict() for s in ("-sqrt", ""))
    changes = not all(torch.equal(low[name], high[name]) for name in low)
    assert CELLS[cell].gate_bias == changes
    assert ("gate bias: chrono" in Init(gate_bias="chrono").text(cell)) == changes
    assert CELLS[cell].memory_gates or "gated" in CELLS[cell].properties  # others need not say that they have none


def test_layers_inside_of_one_cell_have_no_dropout_between_them() -> None:
    for cell in ("rhn", "gf-rnn"):
        with pytest.raises(ValueError, match="cannot have 'dropout': its layers lie inside one cell"):
            built(cell, dropout=0.5)
