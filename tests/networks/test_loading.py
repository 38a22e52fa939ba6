"""How weights get into a network, and what copies and classes of networks share."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers import config, network, normal, same

from zoo import load
from zoo.checkpoints import tokenizer
from zoo.checkpoints.tensors import FILE
from zoo.errors import CheckpointError, RequestError
from zoo.networks import golden, loading
from zoo.networks.base import NETWORKS, meta_network, network_class
from zoo.networks.builder import build
from zoo.networks.feedforward import FeedForward
from zoo.networks.frozen import frozen
from zoo.networks.network import Network
from zoo.networks.quantize import quantized
from zoo.networks.recurrent import RecurrentNetwork
from zoo.networks.story_reader import StoryReader
from zoo.registry.schema import Architecture, Config, Embedding, Interface
from zoo.utils import paths


def of_words(trainable: bool) -> Config:
    """A small network that reads tokens."""
    architecture = Architecture(cell="rnn", layers=1, units=3, embedding=Embedding(size=5, trainable=trainable))
    interface = Interface(vocabulary=7, steps=6, outputs=4, readout="last")
    return Config(name="words", task="none", architecture=architecture, interface=interface)


def saved(net: Network, folder: Path) -> Path:
    loading.save(net, folder)
    return folder


def test_loading_imports_neither_dynamo_nor_sympy() -> None:
    """These imports would make `load` take several times as long."""
    code = (
        "import sys; from zoo import load; [load(name, device='cpu') for name in ('rnn-8x32-sits', 'gru-2x256-shakespeare')]; "
        "sys.exit(bool({'torch._dynamo', 'sympy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, check=False).returncode == 0


def test_every_class_of_networks_is_in_the_table() -> None:
    known = {network_class(spec) for spec in (config(), build("rin-1x100-babi-01", device="meta").config,
                                              build("mlp-3x8-pima.relu", device="meta").config)}  # fmt: skip
    assert known == {RecurrentNetwork, StoryReader, FeedForward}
    assert {spec.rpartition(".")[2] for spec in NETWORKS.values()} == {cls.__name__ for cls in known}


def test_loading_draws_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(build(config(), device="cpu"), tmp_path)
    for name in ("normal_", "uniform_", "orthogonal_", "xavier_uniform_"):
        monkeypatch.setattr(f"torch.nn.init.{name}", lambda tensor, *_, **__: pytest.fail(str(tensor.device)) if
                            not tensor.is_meta else tensor)  # fmt: skip
    before = torch.get_rng_state()
    load(tmp_path, device="cpu")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("trainable", [True, False])
def test_what_is_frozen_stays_frozen(trainable: bool, tmp_path: Path) -> None:
    net = load(saved(build(of_words(trainable), device="cpu"), tmp_path), device="cpu")
    assert {name for name, p in net.named_parameters() if not p.requires_grad} == (
        set() if trainable else {"embedding.weight"}
    )
    assert all(p.is_leaf and not p.is_meta for p in net.parameters())
    assert not net.training


def test_a_loaded_network_does_not_depend_on_its_file(tmp_path: Path) -> None:
    net = load(saved(build(config(), device="cpu"), tmp_path), device="cpu")
    before = {name: p.clone() for name, p in net.state_dict().items()}
    path = tmp_path / FILE
    with path.open("r+b") as file:  # in place, as no program of ours writes
        file.write(b"\0" * path.stat().st_size)
    same(dict(net.state_dict()), before, 0)


def test_weights_that_do_not_fit_leave_a_network_as_it_was(tmp_path: Path) -> None:
    net = build(config(units=5), device="cpu")
    before = {name: p.clone() for name, p in net.state_dict().items()}
    with pytest.raises(CheckpointError, match="does not fit small"):
        loading.load_weights(net, saved(build(config(), device="cpu"), tmp_path) / FILE)
    same(dict(net.state_dict()), before, 0)


def test_a_network_on_meta_is_float32_whatever_torch_s_default_is() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        net = meta_network(config())
    finally:
        torch.set_default_dtype(torch.float32)
    assert {(p.device.type, p.dtype) for p in net.parameters()} == {("meta", torch.float32)}


class Mine(RecurrentNetwork):
    """A network of a user's own class."""


def test_a_subclass_loads_networks_of_its_own_class(tmp_path: Path) -> None:
    network = build("star-1x4", inputs=2, outputs=3, device="cpu")
    network.save_pretrained(tmp_path)
    mine = Mine.from_pretrained(str(tmp_path), device="cpu")
    assert type(mine) is Mine
    x = torch.rand(2, 5, 2)
    assert torch.equal(mine(x), network.eval()(x))
    mine.save_pretrained(tmp_path / "again")
    assert type(RecurrentNetwork.from_pretrained(str(tmp_path / "again"), device="cpu")) is RecurrentNetwork


def test_from_pretrained_says_if_the_class_is_another(tmp_path: Path) -> None:
    saved(build(config(), device="cpu"), tmp_path)
    for cls in (Network, RecurrentNetwork):
        assert type(cls.from_pretrained(str(tmp_path), device="cpu")) is RecurrentNetwork
    with pytest.raises(RequestError, match="is a RecurrentNetwork, not a StoryReader"):
        StoryReader.from_pretrained(str(tmp_path), device="cpu")


def test_from_pretrained_takes_dropout_as_load_does(tmp_path: Path) -> None:
    build("lstm-2x4", inputs=2, outputs=3, device="cpu").save_pretrained(tmp_path)
    network = RecurrentNetwork.from_pretrained(tmp_path, dropout=0.2, recurrent_dropout=0.1, device="cpu")
    assert network.config == load(tmp_path, dropout=0.2, recurrent_dropout=0.1, device="cpu").config
    assert (network.dropout.p, network.layers[0].forward_direction.recurrent_dropout) == (0.2, 0.1)
    network.save_pretrained(tmp_path / "again")
    assert load(tmp_path / "again", device="cpu").dropout.p == 0.2


def test_golden_outputs_leave_the_network_alone(tmp_path: Path) -> None:
    net = network(dtype=torch.float32, train=True)
    net.backend = "fused"
    golden.write(net, tmp_path / golden.FILE)
    assert (net.backend, net.dtype, net.training) == ("fused", torch.float32, True)
    deviation, tolerance = golden.deviation(net, tmp_path / golden.FILE)
    assert deviation < tolerance


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))], ids=["copy", "pickle"])
def test_a_copy_has_layers_and_settings_of_its_own(copied) -> None:
    net, x = network(), normal(3, 6, 2)
    expected, twin = net(x), copied(net)
    with torch.no_grad():
        for p in net.parameters():
            p.zero_()
    net.backend, net.tbptt_steps = "nonsense", 0
    same(twin(x), expected, 0)
    assert (twin.backend, twin.tbptt_steps) == ("auto", None)


def test_replaced_parts_are_the_ones_that_run() -> None:
    net, x = network(layers=2, inputs=(3,)), normal(3, 6, 3)
    outputs = net.features(x)
    net.layers = net.layers[:1]
    same(net.encode(x)[0], outputs[0], 0)
    assert len(net.stack.layers) == len(net.initial_state(3)) == 1


def test_stacks_of_a_story_reader_share_their_settings() -> None:
    net = build("rin-1x100-babi-01", device="meta")
    net.checkpoint_every = 3
    assert net.settings is net.stack.settings
    assert next(iter(net.state_dict())).startswith("layers.0.directions.0.")
    assert {name.split(".")[0] for name in net.state_dict()} == {"layers", "embedding", "head", "question", "decoder"}


@pytest.mark.parametrize("cell", ["exprnn", "lru", "urnn"])
def test_matrices_in_the_place_of_what_they_come_from_are_not_saved(cell: str, tmp_path: Path) -> None:
    net = build(config(cell), device="cpu")
    for changed in (frozen(net), quantized(net)):
        with pytest.raises(CheckpointError, match="small is frozen or quantized"):
            changed.save_pretrained(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    eight = quantized(build(config("lstm"), device="cpu"))
    eight.save_pretrained(tmp_path / "lstm")
    same(dict(load(tmp_path / "lstm", device="cpu").state_dict()), dict(eight.state_dict()), 0)


KEPT_RATES = ("recurrent_dropout", "zoneout")


def test_what_no_checkpoint_holds_is_not_dropped(tmp_path: Path) -> None:
    net = build("lstm-2x8", inputs=3, outputs=2, device="cpu")
    net.dropout.p = 0.5
    with pytest.raises(CheckpointError, match=r"dropout\.p is 0\.5, but by the config 0\.0"):
        net.save_pretrained(tmp_path / "new")
    net.dropout.p, net.mean_std = 0.0, (5.0, 2.0)
    with pytest.raises(CheckpointError, match=r"mean_std is \(5.0, 2.0\), but by the config \(0.0, 1.0\)"):
        net.save_pretrained(tmp_path / "new")
    block = build("blocklstm-2x8", inputs=3, outputs=2, device="cpu")
    for module, key in (
        (block.layers[0].block.dropout, "p"),
        *((block.layers[1].directions[0], k) for k in KEPT_RATES),
    ):
        setattr(module, key, 0.3)
        with pytest.raises(CheckpointError, match=rf"{key} is 0\.3, but by the config 0\.0"):
            block.save_pretrained(tmp_path / "new")
        setattr(module, key, 0.0)
    assert not (tmp_path / "new").exists()


def test_a_checkpoint_is_saved_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = saved(build(config("lstm"), device="cpu"), tmp_path)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = build(config("gru"), device="cpu")
    written: list[int] = []

    def full(descriptor: int) -> None:
        written.append(descriptor)
        if len(written) == 2:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left") as error:
            other.save_pretrained(folder)
    assert error.value.filename == str(folder / "config.json")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (tmp_path / "new" / "config.json").mkdir(parents=True)
    with pytest.raises(IsADirectoryError) as refused:
        other.save_pretrained(tmp_path / "new")
    assert refused.value.filename == str(tmp_path / "new" / "config.json")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["config.json"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_8_bits_are_those_of_the_stored_weights_in_any_dtype(dtype: torch.dtype, tmp_path: Path) -> None:
    folder = saved(build(config("lstm"), device="cpu"), tmp_path)
    exact = load(folder, device="cpu", quantize="int8").state_dict()
    low = load(folder, device="cpu", quantize="int8", dtype=dtype).state_dict()
    same(dict(low), {name: tensor.to(dtype) for name, tensor in exact.items()}, 0)
    small_rows = build(config("lstm"), device="cpu", dtype=dtype)
    with torch.no_grad():
        small_rows.head.weight.fill_(3e-6)
    assert (quantized(small_rows).head.weight > 0).all()


def test_the_meta_device_has_no_weights_to_save_or_round(tmp_path: Path) -> None:
    net = load(saved(build(config(), device="cpu"), tmp_path), device="meta")
    for ask in (lambda: net.save_pretrained(tmp_path / "new"), lambda: quantized(net)):
        with pytest.raises(RequestError, match="is on the meta device"):
            ask()


def test_a_folder_without_a_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match="The name of the folder is empty"):
        build(config(), device="cpu").save_pretrained("")
    assert list(tmp_path.iterdir()) == []


def test_the_words_of_another_network_do_not_stay_in_its_folder(tmp_path: Path) -> None:
    net = build(of_words(True), device="cpu")
    net.tokenizer = tokenizer.Tokenizer([*tokenizer.RESERVED, "a", "the", "b", "c", "d"], 6)
    saved(net, tmp_path)
    assert load(tmp_path, device="cpu").tokenizer is not None
    saved(build(of_words(True), device="cpu"), tmp_path)
    assert load(tmp_path, device="cpu").tokenizer is None
    assert not (tmp_path / tokenizer.FILE).exists()


def test_small_outputs_deviate_by_an_absolute_difference(tmp_path: Path) -> None:
    net = network(dtype=torch.float32)
    with torch.no_grad():
        net.head.weight.zero_()
        net.head.bias.fill_(1e-3)
        golden.write(net, tmp_path / golden.FILE)
        net.head.bias.add_(1e-5)
    assert golden.deviation(net, tmp_path / golden.FILE)[0] == pytest.approx(1e-5, rel=1e-2)
    with torch.no_grad():
        net.head.bias.fill_(100.0)
        golden.write(net, tmp_path / golden.FILE)
        net.head.bias.add_(1.0)
    assert golden.deviation(net, tmp_path / golden.FILE)[0] == pytest.approx(1e-2, rel=1e-2)


def test_loading_onto_a_cpu_flushes_denormal_numbers(tmp_path: Path) -> None:
    saved(build(config(), device="cpu"), tmp_path)
    try:
        torch.set_flush_denormal(False)
        load(tmp_path, device="cpu")
        assert not (torch.full((8,), 1e-30) * 1e-10).any()
    finally:
        torch.set_flush_denormal(True)
