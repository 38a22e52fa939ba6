"""Feed-forward networks: activations and initialisers by Chen 2022, and the two tasks of that thesis."""

import hashlib
import math

import numpy
import pytest
import torch
from pydantic import ValidationError

from zoo import registry
from zoo.cells import FEEDFORWARD
from zoo.data import task_data
from zoo.errors import DataError, RequestError
from zoo.networks import loading
from zoo.networks.builder import build
from zoo.networks.feedforward import ACTIVATIONS
from zoo.networks.sizes import counts, multiply_adds, parameters
from zoo.registry.schema import Architecture, Config, Init, Interface, Task
from zoo.training import evaluation, trainer

CPU = torch.device("cpu")
X = [-800.0, -3.0, -0.5, 0.0, 0.25, 4.0, 800.0]


def config(**changes):
    """Return the config of a network of 5 features and hidden layers of 7 units."""
    architecture = {"cell": "mlp", "layers": 3, "units": 7, **changes}
    shape = {key: architecture.pop(key) for key in ("mean", "std", "inputs") if key in architecture}
    inputs = shape.pop("inputs", (5,))
    interface = Interface(input=inputs, steps=1, outputs=2, readout="none", **shape)
    return Config(name="small", task="none", architecture=Architecture(**architecture), interface=interface)


def logistic(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


EXPECTED = {
    "tanh": math.tanh,
    "sigmoid": logistic,
    "relu": lambda x: max(x, 0.0),
    "leaky-relu": lambda x: x if x > 0 else 0.01 * x,
    "prelu": lambda x: x if x > 0 else 0.3 * x,
    "elu": lambda x: x if x > 0 else math.exp(x) - 1,
    "mpelu": lambda x: x if x > 0 else 0.3 * (math.exp(0.7 * x) - 1),
}
SLOPES = {
    "tanh": lambda x: 1 - math.tanh(x) ** 2,
    "sigmoid": lambda x: logistic(x) * (1 - logistic(x)),
    "relu": lambda x: float(x > 0),
    "leaky-relu": lambda x: 1.0 if x > 0 else 0.01,
    "prelu": lambda x: 1.0 if x > 0 else 0.3,
    "elu": lambda x: 1.0 if x > 0 else math.exp(x),
    "mpelu": lambda x: 1.0 if x > 0 else 0.3 * 0.7 * math.exp(0.7 * x),
}


def activated(name, x):
    values = {"slope": 0.3, "alpha": 0.3, "beta": 0.7}
    parts = [torch.tensor(values[p], dtype=torch.float64, requires_grad=True) for p in ACTIVATIONS[name].start]
    return ACTIVATIONS[name].apply(x, *parts), parts


def test_the_table_has_every_activation():
    assert set(ACTIVATIONS) == set(EXPECTED) == set(FEEDFORWARD["mlp"].options["activation"])


@pytest.mark.parametrize("name", EXPECTED)
def test_activations_and_their_slopes(name):
    x = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    y, parts = activated(name, x)
    (slope,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    torch.testing.assert_close(y, torch.tensor([EXPECTED[name](v) for v in X], dtype=torch.float64))
    away = [i for i, v in enumerate(X) if v]  # at zero most have no slope, or any
    torch.testing.assert_close(slope[away], torch.tensor([SLOPES[name](X[i]) for i in away], dtype=torch.float64))
    assert all(g.isfinite().all() for g in (torch.autograd.grad(y.sum(), parts) if parts else ()))


def test_the_slope_of_mpelu_at_zero_is_that_of_the_elu():
    x = torch.zeros(1, requires_grad=True)
    (slope,) = torch.autograd.grad(ACTIVATIONS["mpelu"].apply(x, torch.ones(1), torch.ones(1)).sum(), x)
    assert slope.item() == 1.0


def test_slopes_by_the_parameters():
    """Li et al. 2017: df/da = exp(bx) - 1 and df/db = a x exp(bx) below zero, nothing above."""
    x = torch.tensor(X, dtype=torch.float64)
    below = [v for v in X if v < 0]
    y, parts = activated("mpelu", x)
    alpha, beta = torch.autograd.grad(y.sum(), parts)
    assert float(alpha) == pytest.approx(sum(math.exp(0.7 * v) - 1 for v in below))
    assert float(beta) == pytest.approx(sum(0.3 * v * math.exp(0.7 * v) for v in below))
    y, parts = activated("prelu", x)
    assert float(torch.autograd.grad(y.sum(), parts)[0]) == pytest.approx(sum(below))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_network_is_its_equations(name):
    spec = config(options={"activation": name}, standardize=True, mean=[1.0, 2.0, 3.0, 4.0, 5.0], std=[2.0] * 5)
    net = build(spec, device="cpu", dtype=torch.float64)
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(
                torch.rand(p.shape, generator=torch.Generator().manual_seed(i)) - (p.dim() - 1) / 2
            )  # slopes above 0
    x = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(99))
    h, seen = (x.numpy() - numpy.arange(1.0, 6.0)) / 2.0, []
    weights = {key: p.detach().numpy() for key, p in net.named_parameters()}
    for layer in range(3):
        a = h @ weights[f"hidden.{layer}.map.weight"].T + weights[f"hidden.{layer}.map.bias"]
        slope = weights.get(f"hidden.{layer}.shape.slope", numpy.zeros(7))
        alpha, beta = (weights.get(f"hidden.{layer}.shape.{p}", numpy.ones(7)) for p in ("alpha", "beta"))
        below = numpy.minimum(a, 0)
        h = {
            "tanh": numpy.tanh(a), "sigmoid": 1 / (1 + numpy.exp(-a)), "relu": numpy.maximum(a, 0),
            "leaky-relu": numpy.where(a > 0, a, 0.01 * a), "prelu": numpy.where(a > 0, a, slope * a),
            "elu": numpy.where(a > 0, a, numpy.exp(below) - 1),
            "mpelu": numpy.where(a > 0, a, alpha * (numpy.exp(beta * below) - 1)),
        }[name]  # fmt: skip
        seen.append(torch.from_numpy(h))
    torch.testing.assert_close(net.features(x), seen)
    torch.testing.assert_close(net(x), torch.from_numpy(h @ weights["head.weight"].T + weights["head.bias"]))


@pytest.mark.parametrize(("name", "extra"), [("tanh", 0), ("prelu", 1), ("mpelu", 2)])
def test_parameters_and_multiply_adds(name, extra):
    net = build(config(options={"activation": name}), device="meta")
    assert parameters(net) == (5 * 7 + 7) + 2 * (7 * 7 + 7) + 3 * 7 * extra + 7 * 2 + 2
    assert multiply_adds(net) == 5 * 7 + 2 * 7 * 7 + 7 * 2


def test_parameters_of_the_network_of_the_thesis():
    assert counts("mlp-3x8-pima.sigmoid").parameters == (8 * 8 + 8) * 3 + 8 * 2 + 2
    assert counts("mlp-3x8-pima.prelu").parameters == (8 * 8 + 8 + 8) * 3 + 8 * 2 + 2


START = {
    "zero": ("constant", 0.0),
    "uniform-0.05": ("uniform", 0.05),
    "normal-0.05": ("normal", 0.05),
    "normal-0.001": ("normal", 0.001),
    "glorot-uniform": ("uniform", math.sqrt(6 / (300 + 400))),
    "lecun-uniform": ("uniform", math.sqrt(3 / 300)),
    "he-uniform": ("uniform", math.sqrt(6 / 300)),
    "he-normal": ("normal", math.sqrt(2 / 300)),
}


@pytest.mark.parametrize("name", START)
def test_initialisers_have_the_statistics_of_the_thesis(name):
    """Chen 2022, eq. 3.14 to 3.17, for 300 inputs and 400 units."""
    net = build(config(inputs=(300,), units=400, layers=1, init=Init(input=name)), device="cpu")
    values = net.hidden[0].map.weight.detach().double().flatten()
    kind, size = START[name]
    if kind == "constant":
        assert not values.any()
        return
    assert abs(values.mean()) < 5 * size / math.sqrt(len(values))
    moments = {"normal": (1.0, 3.0), "uniform": (1 / 3, 1 / 5)}[kind]
    assert float((values / size).square().mean()) == pytest.approx(moments[0], rel=0.02)
    assert float((values / size).pow(4).mean()) == pytest.approx(moments[1], rel=0.04)
    if kind == "uniform":
        assert 0.99 * size < values.abs().max() <= size * (1 + 1e-6)


def test_orthogonal_and_identity():
    wide = build(config(inputs=(6,), units=4, layers=2, init=Init(input="orthogonal")), device="cpu")
    for layer in wide.hidden:
        torch.testing.assert_close(layer.map.weight @ layer.map.weight.T, torch.eye(4))
    same = build(config(inputs=(6,), units=4, layers=2, init=Init(input="identity")), device="cpu")
    assert torch.equal(same.hidden[0].map.weight, torch.eye(4, 6))
    assert torch.equal(same.hidden[1].map.weight, torch.eye(4))


def test_one_initialiser_a_layer_and_what_starts_alike():
    words = ("he-normal", "zero", "identity")
    net = build(config(options={"activation": "mpelu"}, init=Init(input=words)), device="cpu")
    for depth, word in enumerate(words):
        alone = build(config(options={"activation": "mpelu"}, init=Init(input=word)), device="cpu")
        if depth == 0:
            assert torch.equal(net.hidden[0].map.weight, alone.hidden[0].map.weight)
    assert not net.hidden[1].map.weight.any()
    assert torch.equal(net.hidden[2].map.weight, torch.eye(7))
    assert not any(layer.map.bias.any() for layer in net.hidden)
    assert {float(v) for layer in net.hidden for v in layer.shape.alpha.detach()} == {1.0}
    assert not build(config(options={"activation": "prelu"}), device="cpu").hidden[0].shape.slope.any()
    deep = Config(
        name="deep", task="none", architecture=Architecture(cell="rnn", layers=2, units=3, init=Init(input=["zero", "identity"])),
        interface=Interface(input=(3,), steps=2, outputs=2, readout="last"),
    )  # fmt: skip
    first, second = (layer.forward_direction.input.weight for layer in build(deep, device="cpu").layers)
    assert not first.any()
    assert torch.equal(second, torch.eye(3))


@pytest.mark.parametrize(("changes", "words"), [
    ({"kernel": 3}, "kernel"), ({"bidirectional": "sum"}, "bidirectional"), ({"zoneout": 0.1}, "zoneout"),
    ({"recurrent_dropout": 0.1}, "recurrent_dropout"), ({"layer_norm": True}, "layer_norm"),
    ({"options": {"activation": "cosine"}}, "activation"), ({"init": Init(recurrent="zero")}, "recurrent"),
    ({"init": Init(gate_bias="one")}, "no gates"), ({"init": Init(input=["zero", "zero"])}, "layers|initialis"),
    ({"mean": [1.0, 2.0]}, "mean"), ({"inputs": (5, 5, 5)}, "one number, the number of features"),
])  # fmt: skip
def test_fields_that_a_feed_forward_network_cannot_have_are_refused(changes, words):
    with pytest.raises(ValidationError, match=words):
        config(**changes)


def test_time_and_no_time_do_not_mix():
    with pytest.raises(ValidationError, match="feed-forward"):
        Config(name="a", task="t", architecture=Architecture(cell="rnn", layers=1, units=2),
               interface=Interface(input=(2,), steps=1, outputs=2, readout="none"))  # fmt: skip
    with pytest.raises(ValidationError, match="feed-forward"):
        Config(name="a", task="t", architecture=Architecture(cell="mlp", layers=1, units=2),
               interface=Interface(input=(2,), steps=1, outputs=2, readout="last"))  # fmt: skip
    with pytest.raises(ValidationError, match="one number, the number of features"):
        Interface(input=(2,), steps=2, outputs=2, readout="none")


def test_nothing_that_takes_time_steps_exists():
    net, x = build(config(), device="cpu"), torch.zeros(3, 5)
    for name in ("step", "initial_state", "encode", "trace", "stack", "backend", "tbptt_steps", "checkpoint_every"):
        assert not hasattr(net, name)
    with pytest.raises(RequestError, match=r"small is feed-forward.*Call it on \(batch, 5\)"):
        net(x, torch.ones(3, dtype=torch.long))
    for wrong in (torch.zeros(3, 1, 5), torch.zeros(3, 4), torch.zeros(0, 5)):
        with pytest.raises(RequestError, match=r"small takes x of shape \(batch, 5\)"):
            net(wrong)
    with pytest.raises(RequestError, match=r"takes torch\.float32"):
        net(x.double())


def test_dropout_and_another_head():
    net, x = build(config(dropout=0.5), device="cpu").train(), torch.ones(200, 5)
    assert len(net(x).unique(dim=0)) > 2
    first = net.features(x)[0]  # none on the input: rows are equal to what a product rounds at its edges
    torch.testing.assert_close(first, first[:1].expand(200, -1))
    net.reset_head(4)
    assert net.eval()(x).shape == (200, 4)


# Tasks


def pima(folder, monkeypatch, content, **changes):
    (folder / "pima_diabetes").mkdir(exist_ok=True)
    (folder / "pima_diabetes" / "pima-indians-diabetes.csv").write_text(content)
    monkeypatch.setenv("RNNZOO_DATA", str(folder))
    known = registry.load_registry()
    pin = {
        "sha256": {"pima-indians-diabetes.csv": hashlib.sha256(content.encode()).hexdigest()},
        "test": 10,
        "validation": 5,
    }
    return task_data(known.tasks["pima"].model_copy(update=changes), known.datasets["pima"].model_copy(update=pin))


def rows(n):
    return "".join(f"{i},148,72,35,0,33.6,0.627,50,{i % 3 == 0:d}\n" for i in range(n))


def test_pima_rows(tmp_path, monkeypatch):
    data = pima(tmp_path, monkeypatch, rows(40) + "0,148,72,35,0,33.6,0.627,50,1\n")
    splits = [data.split(name) for name in ("test", "validation", "train")]
    assert sorted(map(len, splits)) in ([5, 10, 26], [5, 11, 25], [6, 10, 25])  # the repeated row is not parted
    x, y, lengths = splits[2].batch(torch.arange(4), CPU)
    assert (x.shape, x.dtype, y.dtype, lengths) == ((4, 8), torch.float32, torch.int64, None)
    for split in splits:
        assert torch.equal(split.targets, (split.raw[:, 0] % 3 == 0).long())


@pytest.mark.parametrize("content", ["1,2,3\n", "1,2,x,4,5,6,7,8,0\n", "", rows(3) + "1,2\n"])
def test_other_rows_are_a_data_error(tmp_path, monkeypatch, content):
    with pytest.raises(DataError, match="nine numbers"):
        pima(tmp_path, monkeypatch, content).split("test")
    with pytest.raises(RequestError, match="no layout"):
        pima(tmp_path, monkeypatch, content, layout="points")


def test_circles():
    known = registry.load_registry()
    data = task_data(known.tasks["circles"], known.datasets["circles"])
    seen = []
    for name, n in (("train", 600), ("validation", 200), ("test", 1000)):
        split = data.split(name)
        assert split.targets.bincount().tolist() == [n / 2, n / 2]
        for label, radius in ((0, 1.0), (1, 0.8)):
            points = split.raw[split.targets == label]
            assert ((points.norm(dim=1) - radius).abs() < 0.1 * math.sqrt(2)).all()
            assert points.mean(0).norm() < 4 * radius / math.sqrt(n)  # all around
        seen.append(split.raw[0])
    assert not torch.equal(seen[0], seen[1])
    with pytest.raises(DataError, match="do not match the locked sha256"):
        task_data(known.tasks["circles"], known.datasets["circles"].model_copy(update={"test": 999})).split("test")
    with pytest.raises(RequestError, match="no layout"):
        task_data(known.tasks["circles"].model_copy(update={"layout": "rows"}), known.datasets["circles"])


def test_training_and_evaluation_of_a_checkpoint(tmp_path):
    name = "mlp-3x8-circles.tanh"
    entry = registry.find(name)
    summary = trainer.train(entry, tmp_path / "run", device="cpu", overrides={"epochs": 12})
    assert summary.history[-1].train_loss < summary.history[0].train_loss
    loaded = loading.load(tmp_path / "run", device="cpu")
    split = task_data(entry.task, entry.dataset).split("test")
    value = evaluation.evaluate(tmp_path / "run", device="cpu").value
    assert value == pytest.approx(float((loaded(split.raw).argmax(1) == split.targets).float().mean()))
    for field in ({"tbptt_steps": 2}, {"checkpoint_every": 2}):
        with pytest.raises(RequestError, match="no time steps"):
            trainer.train(entry, tmp_path / "other", device="cpu", overrides=field)


def test_show_and_card_describe_a_feed_forward_network(run):
    code, out, _ = run("show", "mlp-3x8-pima.prelu-tuned")
    assert code == 0
    for text in ("feed-forward network", "8 values", "he-normal, then uniform-0.05, then lecun-uniform", "prelu"):
        assert text in out
    code, out, _ = run("card", "mlp-3x8-pima.sigmoid")
    assert code == 0
    assert "x = torch.zeros(8, 8, device=model.device)" in out
    assert "model.step" not in out


def test_variants_of_a_grid():
    known = registry.load_registry()
    grids = {name: grid for study in known.studies.values() for name, grid in study.grids.items()}
    tags = {m.tag for m in registry.models().values() if m.cell == "mlp"}
    assert tags == set(grids["chen-fnn"].variants) | set(grids["chen-fnn-init"].variants)
    words = {registry.models()[f"mlp-3x8-pima.{tag}"].options["activation"] for tag in grids["chen-fnn"].variants}
    assert words == set(EXPECTED)
    assert isinstance(known.tasks["pima"], Task)


@pytest.mark.data
def test_the_real_rows():
    known = registry.load_registry()
    data = task_data(known.tasks["pima"], known.datasets["pima"])
    splits = [data.split(name) for name in ("train", "validation", "test")]
    assert sum(map(len, splits)) == 768
    assert sum(split.targets.bincount(minlength=2) for split in splits).tolist() == [500, 268]
    train = splits[0].raw.double()
    torch.testing.assert_close(train.mean(0), torch.tensor(known.tasks["pima"].mean).double(), rtol=1e-3, atol=0)
    torch.testing.assert_close(
        train.std(0, correction=0), torch.tensor(known.tasks["pima"].std).double(), rtol=1e-3, atol=0
    )


def test_bench_times_recurrent_networks_only(run):
    code, _, err = run("bench", "mlp-3x8-pima.sigmoid")
    assert code == 2
    assert "has no time steps" in err


def test_pooled_is_the_last_hidden_layer():
    net, x = build("mlp-3x8-circles.sigmoid", device="cpu").eval(), torch.randn(4, 2)
    assert torch.equal(net.pooled(x), net.features(x)[-1])
    assert torch.equal(net.head(net.pooled(x)), net(x))
    with pytest.raises(RequestError, match="lengths"):
        net.pooled(x, torch.ones(4))
