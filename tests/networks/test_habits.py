"""What users of torch do with any module: pass torch's states, tie weights, wrap, copy, transform and change defaults."""

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import default_dtype, network, normal
from torch import Tensor, nn
from torch.nn.utils import prune
from torch.optim.swa_utils import AveragedModel, update_bn

import zoo
from zoo.cells import CELLS
from zoo.cells.projections import Projection
from zoo.errors import CheckpointError, RequestError
from zoo.networks.builder import build
from zoo.registry.schema import Architecture, Config, Embedding, Interface


def writer() -> zoo.Network:
    """A network that reads tokens and answers with as many logits at every step."""
    architecture = Architecture(cell="gru", layers=1, units=8, embedding=Embedding(size=8, trainable=True))
    return build(
        Config(architecture=architecture, interface=Interface(vocabulary=20, steps=9, outputs=20, readout="every")),
        device="cpu",
    )


def test_states_of_torch_are_refused_even_if_there_are_as_many_layers_as_states() -> None:
    theirs = nn.LSTM(3, 8, 2, batch_first=True)
    net, x, h, c = zoo.from_torch(theirs, outputs=2), normal(4, 9, 3, dtype=torch.float32), *torch.rand(2, 2, 4, 8)
    for call in (lambda: net.encode(x, (h, c)), lambda: net.step(x[:, 0], (h, c))):
        with pytest.raises(RequestError, match="The state does not fit"):
            call()
    for call in (
        lambda: net(x, state=(s for s in net.initial_state(4))),
        lambda: net.step(x[:, 0], iter(net.initial_state(4))),
    ):
        with pytest.raises(RequestError, match="The state does not fit"):  # it could be read once only
            call()
    with torch.no_grad():
        torch.testing.assert_close(net.encode(x, tuple(zip(h, c, strict=True)))[0], theirs(x, (h, c))[0])


def test_tied_weights_are_saved_twice(tmp_path: Path) -> None:
    net = writer()
    net.head.weight = net.embedding.weight
    net.save_pretrained(tmp_path)
    loaded = zoo.load(tmp_path, device="cpu")
    assert torch.equal(loaded.head.weight, net.head.weight)
    assert torch.equal(loaded.embedding.weight, net.head.weight)
    zoo.export(net, "pt2", out=tmp_path)


def test_a_network_with_fewer_layers_is_not_called_frozen(tmp_path: Path) -> None:
    net = build("lstm-2x8", inputs=3, outputs=2, device="cpu")
    net.layers = net.layers[:1]
    with pytest.raises(CheckpointError, match=r"does not fit its config: .*layers\.1"):
        net.save_pretrained(tmp_path)


def test_a_class_is_not_called_in_the_place_of_build() -> None:
    net = network("lstm")
    with pytest.raises(RequestError, match=r"Use zoo\.build"):
        type(net)(net.config)


def test_a_stream_is_neither_copied_nor_pickled() -> None:
    stream = zoo.build("lstm-2x8", inputs=3, outputs=2, device="cpu").eval().stream()
    for call in (copy.deepcopy, pickle.dumps):
        with pytest.raises(RequestError, match="cannot be copied or pickled"):
            call(stream)


def test_parameters_are_tensors_to_a_stream() -> None:
    stream = zoo.build("gru-2x8", inputs=3, outputs=2, device="cpu").eval().stream()
    x, state = torch.rand(4, 3), stream.initial_state(4)
    assert torch.equal(stream.step(nn.Parameter(x), nn.Parameter(state))[0], stream.step(x, state)[0])


def test_gradients_of_each_sequence_of_tokens() -> None:
    net, tokens = writer(), torch.randint(1, 20, (3, 5))
    weights = dict(net.named_parameters())

    def loss(weights: dict[str, Tensor], sequence: Tensor) -> Tensor:
        return torch.func.functional_call(net, weights, (sequence[None],)).square().sum()

    each = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, tokens)
    for i, sequence in enumerate(tokens):
        for name, slope in torch.func.grad(loss)(weights, sequence).items():
            torch.testing.assert_close(each[name][i], slope, msg=name)


def test_what_compiles_with_resets_is_compiled_once() -> None:
    net, graphs = network("lstm", dtype=torch.float32).eval(), []
    compiled = torch.compile(net, backend=lambda graph, inputs: graphs.append(graph) or graph.forward)
    for seed in range(4):
        torch.manual_seed(seed)
        x, resets = normal(4, 12, 2, dtype=torch.float32), torch.rand(4, 12) < 0.3
        with torch.no_grad():
            torch.testing.assert_close(compiled(x, resets=resets), net(x, resets=resets))
    assert len(graphs) <= 2


def test_a_wrapped_network_generates_and_is_exported(tmp_path: Path) -> None:
    net = zoo.load("gru-2x256-shakespeare", device="cpu")
    expected = zoo.generate(net, prompt="To be", length=4)
    for wrapped in (torch.compile(net, backend="eager"), nn.DataParallel(net)):
        assert zoo.generate(wrapped, prompt="To be", length=4) == expected
    zoo.export(nn.DataParallel(build("lstm-1x8", inputs=3, outputs=2, device="cpu")), "pt2", out=tmp_path)


def test_numbers_of_numpy_are_numbers() -> None:
    two, one = (build("lstm-1x8", inputs=3, outputs=2, seed=seed, device="cpu") for seed in (np.int64(3), 3))
    assert all(torch.equal(a, b) for a, b in zip(two.parameters(), one.parameters(), strict=True))
    two.tbptt_steps = np.int64(2)
    two(torch.rand(1, 5, 3))
    settings = {"length": np.int64(3), "temperature": np.float64(0.7), "seed": np.int64(1), "top_k": np.int64(5)}
    plain = {"length": 3, "temperature": 0.7, "seed": 1, "top_k": 5}
    texts = [zoo.generate("gru-2x256-shakespeare", prompt="To be", **given) for given in (settings, plain)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("cell", CELLS)
def test_the_default_dtype_changes_no_start_value(cell: str) -> None:
    before = build(f"{cell}-1x8", inputs=3, outputs=2, device="cpu").state_dict()
    with default_dtype(torch.float64):
        after = build(f"{cell}-1x8", inputs=3, outputs=2, device="cpu").state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_a_default_device_is_not_that_of_a_networks_own_tensors() -> None:
    net = network("gru", dtype=torch.float32).eval()
    mean = build(
        Config(
            architecture=Architecture(cell="gru", layers=1, units=8),
            interface=Interface(input=(2,), steps=9, outputs=3, readout="mean"),
        ),
        device="cpu",
    ).eval()
    x, resets = normal(4, 9, 2, dtype=torch.float32), torch.rand(4, 9) < 0.3
    with torch.no_grad():
        expected, streamed = net(x, resets=resets), mean.stream().steps(x)[0]
        with torch.device("meta"):
            assert torch.equal(net(x, resets=resets), expected)
            assert torch.equal(mean.stream().steps(x)[0], streamed)


def test_tokens_may_be_of_32_bits() -> None:
    net, tokens = writer().eval(), torch.randint(20, (3, 9), generator=torch.Generator().manual_seed(0))
    for dtype in (torch.int32, torch.int64):
        assert torch.equal(net(tokens.to(dtype)), net(tokens))
        assert torch.equal(net.step(tokens[:, 0].to(dtype))[0], net.step(tokens[:, 0])[0])
        assert torch.equal(net.stream().step(tokens[:, 0].to(dtype))[0], net.stream().step(tokens[:, 0])[0])


def test_outputs_are_not_named_after_another_number_of_classes() -> None:
    spec = zoo.spec("lstm-1x128-mnist-rows").config
    assert len(build(spec, device="meta").classes) == 10
    other = spec.interface.model_copy(update={"outputs": 4})
    assert build(spec.model_copy(update={"interface": other}), device="meta").classes == ()


@pytest.mark.parametrize("case", ["clockwork", "lru", "exprnn", "urnn", "lipschitz", "lstm-mass", "gru"])
def test_pruned_matrices_follow_their_weights(case: str) -> None:
    net = zoo.build(f"{case}-2x8", inputs=3, outputs=2, device="cpu").eval()
    for module in net.modules():
        if isinstance(module, Projection):
            prune.random_unstructured(module, "weight", 0.5)  # type: ignore[no-untyped-call]
    x = torch.rand(4, 9, 3)
    with torch.no_grad():
        before = net(x)
        for name, weight in net.state_dict().items():
            if name.endswith("weight_orig"):
                weight.mul_(1.5)
        after = net(x)
    torch.testing.assert_close(net(x), after)
    assert not torch.equal(before, after)
    state = None
    for x_t in x.unbind(1):
        logits, state = net.step(x_t, state)
    torch.testing.assert_close(logits, after)


@pytest.mark.parametrize("case", ["lstm", "lru"])
def test_computed_weights_are_neither_saved_nor_exported_nor_converted(case: str, tmp_path: Path) -> None:
    for compute in (lambda m: prune.random_unstructured(m, "weight", 0.5), nn.utils.parametrizations.weight_norm):
        net = zoo.build(f"{case}-2x8", inputs=3, outputs=2, device="cpu").eval()
        compute(net.head)
        net(torch.rand(1, 2, 3))
        calls = [lambda: net.save_pretrained(tmp_path / "a"), lambda: zoo.export(net, "c", out=tmp_path)]  # noqa: B023
        for call in [*calls, *([lambda: zoo.to_torch(net)] if case == "lstm" else [])]:  # noqa: B023
            with pytest.raises(RequestError, match=r"the weight of head is computed .*remove_parametrizations first\."):
                call()
    assert not list(tmp_path.iterdir())


def test_averaged_networks_get_their_own_statistics_of_batch_norm() -> None:
    architecture = Architecture(cell="gru", layers=2, units=8, block={"norm": "batch"})
    interface = Interface(input=(3,), steps=6, outputs=2, readout="every")
    averaged = AveragedModel(zoo.build(Config(architecture=architecture, interface=interface), device="cpu"))
    batches = [torch.randn(16, 6, 3) + i for i in range(4)]
    update_bn(batches, averaged)
    norm = averaged.module.layers[0].block.norm.norm
    inputs = []
    with torch.no_grad():
        norm.register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
        for batch in batches:
            averaged.eval()(batch)
    torch.testing.assert_close(norm.running_mean, torch.stack([x.mean(0) for x in inputs]).mean(0))
    torch.testing.assert_close(norm.running_var, torch.stack([x.var(0) for x in inputs]).mean(0))
    assert norm.state_dict().keys() == {"weight", "bias", "running_mean", "running_var"}


def test_dropout_of_one_layer_is_refused() -> None:
    for dropped in (True, False):
        with pytest.raises(RequestError, match="has one layer, and dropout lies between layers"):
            zoo.load("gru-1x128-mnist-rows", dropout=0.5, pretrained=dropped, device="cpu")
    assert zoo.load("gru-1x128-mnist-rows", dropout=0.0, device="cpu").dropout.p == 0


def test_a_fresh_head_is_in_the_mode_of_its_network() -> None:
    net = network("lstm").eval()
    net.reset_head(3)
    assert not net.head.training


def test_resets_are_neither_exported_nor_mapped() -> None:
    net, x, resets = (
        network("lstm", dtype=torch.float32).eval(),
        torch.rand(2, 4, 2),
        torch.zeros(2, 4, dtype=torch.bool),
    )
    with pytest.raises(RequestError, match="can have resets"):
        torch.func.vmap(lambda one, begins: net(one[None], resets=begins[None])[0])(x, resets)
    with pytest.raises(RequestError, match="can have resets"):
        torch.export.export(net, (x,), {"resets": resets})


def test_the_clock_of_a_clockwork_network_goes_on() -> None:
    net = zoo.build(Config(architecture=Architecture(cell="clockwork", layers=1, units=8, options={"modules": 4}),
                           interface=Interface(input=(3,), steps=6, outputs=2, readout="last")), device="cpu").eval()  # fmt: skip
    state, times = None, []
    for x in torch.rand(20, 1, 3):
        _, state = net.step(x, state)
        times.append(int(state[0][1]))
    assert times == [t % 16 for t in range(1, 21)]


def test_a_parametrization_of_torch_is_computed_once_for_each_sequence() -> None:
    net, x = network("lstm", layers=2, dtype=torch.float32), normal(3, 9, 2, dtype=torch.float32)
    times = []

    class Low(nn.Module):
        """A low-rank addition to a matrix (Hu et al. 2021)."""

        def __init__(self, rows: int, columns: int):
            super().__init__()
            self.up, self.down = (nn.Parameter(0.3 * torch.randn(*size)) for size in ((rows, 2), (2, columns)))

        def forward(self, weight: Tensor) -> Tensor:
            times.append(1)
            return weight + self.up @ self.down

    projection = net.layers[0].forward_direction.cell.recurrent
    whole = copy.deepcopy(net)
    nn.utils.parametrize.register_parametrization(projection, "weight", Low(*projection.weight.shape))
    with torch.no_grad():
        whole.layers[0].forward_direction.cell.recurrent.weight.copy_(projection.weight)
    times.clear()
    found = net(x)
    assert len(times) == 1
    torch.testing.assert_close(found, whole(x))
    found.sum().backward()
    assert projection.parametrizations.weight[0].up.grad is not None
    assert net.step(x[:, 0])[0].isfinite().all()


@pytest.mark.parametrize("backend", ["auto", "plain"])
def test_another_activation_of_an_elman_network_counts(backend: str) -> None:
    net, x = network("rnn activation=tanh", layers=2, dtype=torch.float32), normal(2, 5, 2, dtype=torch.float32)
    for layer in net.layers:
        layer.forward_direction.cell.activation = torch.sigmoid
    net.backend = backend
    h, _ = net.encode(x)
    assert ((h > 0) & (h < 1)).all()


@pytest.mark.parametrize("case", ["cfn", "lem", "lstm"])
def test_final_states_can_be_changed_in_place(case: str) -> None:
    net, x = network(case, layers=2, dtype=torch.float32), normal(2, 5, 2, dtype=torch.float32)
    _, final = net.encode(x)
    for layer in final:
        for state in layer:
            state.mul_(0.5)
    sum(state.sum() for layer in final for state in layer).backward()
