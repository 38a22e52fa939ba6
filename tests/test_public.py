"""What users of other libraries do with a network: compile, export, save, change its head, feed it real data."""

import pickle
import re
import sys
import types
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from zoo import Network, build, examples, load, registry, spec
from zoo.cells import CELLS
from zoo.checkpoints.tokenizer import RESERVED, Tokenizer
from zoo.data.base import Split
from zoo.errors import (
    CheckpointError,
    DataError,
    MissingError,
    MissingExtraError,
    RequestError,
    UnknownNameError,
    ZooError,
)
from zoo.networks.feedforward import ACTIVATIONS
from zoo.networks.sizes import multiply_adds
from zoo.networks.stack import Stack
from zoo.training.evaluation import evaluate
from zoo.utils import paths

NAME = "gru-1x128-mnist-rows"


@pytest.fixture
def network() -> Network:
    return load(NAME, device="cpu")


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # the compiler looks at it, and hides the warning from users
def test_a_compiled_network_keeps_its_scan(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.rand(3, 28, 28)
    expected = network(x)
    compiling: list[bool] = []
    scan = Stack._scan

    def noted(*arguments: object) -> object:
        compiling.append(torch.compiler.is_compiling())
        return scan(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Stack, "_scan", noted)
    compiled = torch.compile(network, backend="eager")
    assert torch.equal(compiled(x), expected)
    assert torch.equal(compiled(x, torch.tensor([28, 28, 28])), expected)
    compiled(x[:, :20]).sum().backward()
    assert compiling == [False] * 3
    assert network.head.weight.grad is not None


def test_an_exported_network_uses_plain_torch(network: Network) -> None:
    x = torch.rand(3, 28, 28)
    exported = torch.export.export(network, (x,)).module()
    torch.testing.assert_close(exported(x), network(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [NAME, "gru-1x200-spooky", "bigru-1x200-toxic-parts"])
def test_an_exported_network_takes_any_lengths(name: str) -> None:
    network = load(name, device="cpu")
    shape = (3, 28, 28) if network.embedding is None else (3, 6)
    x = torch.rand(shape) if network.embedding is None else torch.randint(2, 50, shape)
    exported = torch.export.export(network, (x, torch.tensor([5, 4, 3]))).module()
    for lengths in (torch.tensor([5, 4, 3]), torch.tensor([1, shape[1], 2])):
        torch.testing.assert_close(exported(x, lengths), network(x, lengths), rtol=1e-5, atol=1e-5)


def test_frozen_networks_stream_as_fast_with_gradients_enabled(network: Network) -> None:
    x = torch.rand(1, 28)
    with torch.no_grad():
        expected, state = network.step(x)
    assert network._stepper is not None
    network.step(x, state)
    assert network._stepper is None  # the gradient of a weight was wanted
    network.requires_grad_(False)
    y, _ = network.step(x)
    assert network._stepper is not None
    assert torch.equal(y, expected)
    wanted = x.clone().requires_grad_()
    network.step(wanted)[0].sum().backward()
    assert wanted.grad is not None


def test_saved_and_loaded_again(network: Network, tmp_path: Path) -> None:
    x = torch.rand(2, 28, 28)
    network.reset_head(classes=3)
    network.save_pretrained(str(tmp_path / "mine"))
    assert torch.equal(load(tmp_path / "mine", device="cpu")(x), network(x))
    assert torch.equal(Network.from_pretrained(str(tmp_path / "mine"), device="cpu")(x), network(x))
    network.half().save_pretrained(tmp_path / "half")  # kept in float32, as every checkpoint is
    again = load(tmp_path / "half", device="cpu", dtype=torch.float16)
    assert all(map(torch.equal, again.state_dict().values(), network.state_dict().values()))


def test_saving_refuses_tensors_that_the_config_does_not_describe(network: Network, tmp_path: Path) -> None:
    network.head = nn.Linear(128, 3)
    with pytest.raises(
        CheckpointError, match=r"head\.bias is torch\.float32 \(3,\).*Replace a head by Network\.reset_head"
    ):
        network.save_pretrained(tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_a_users_own_head(network: Network) -> None:
    x = torch.rand(2, 28, 28)
    outputs, _ = network.encode(x)
    network.head = nn.Identity()  # type: ignore[assignment]
    assert network.device == torch.device("cpu")
    assert torch.equal(network(x), outputs[:, -1])
    state = None
    for part in x.unbind(1):
        y, state = network.step(part, state)
    torch.testing.assert_close(y, outputs[:, -1])
    network.head = nn.Sequential(nn.Dropout(), nn.Linear(128, 3))  # type: ignore[assignment]
    assert network(x).shape == (2, 3)


def test_the_default_dtype_does_not_change_checkpoints() -> None:
    name = "star-1x128-smnist"  # with gate biases that are drawn
    usual = build(name, device="cpu").state_dict()
    try:
        for dtype in (torch.float64, torch.bfloat16):
            torch.set_default_dtype(dtype)
            assert load(NAME, device="cpu").dtype == torch.float32
            assert build(NAME, device="cpu", dtype=torch.float64).dtype == torch.float64
            torch.testing.assert_close(build(name, device="cpu").state_dict(), usual, rtol=0, atol=0)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("wrong", [numpy.zeros((1, 28, 28)), "text", None])
def test_only_a_tensor_is_an_input(network: Network, wrong: object) -> None:
    with pytest.raises(RequestError, match="takes one padded tensor, with lengths"):
        network(wrong)


def test_an_address_without_hf_gets_a_hint() -> None:
    with pytest.raises(RequestError, match="write hf://rnnzoo/star-16x64-pmnist"):
        load("rnnzoo/star-16x64-pmnist")
    with pytest.raises(RequestError, match=r"There is no folder '\./nowhere'\. Check the path\.$"):
        load("./nowhere")


def test_examples_are_the_data_of_the_measurement(network: Network) -> None:
    test = examples(NAME)
    x, y, lengths = test.batch(torch.arange(200), network.device)
    with torch.no_grad():
        right = network(x, lengths).argmax(-1) == y
    assert right.float().mean() > 0.95
    assert torch.equal(test.prepare(test.raw[:200]), x)
    assert torch.equal(examples("pmnist").targets, examples("smnist", "test").targets)
    with pytest.raises(UnknownNameError):
        examples("pmnits")
    with pytest.raises(DataError):
        examples("tum")


@pytest.mark.parametrize("name", ["pmnist", "adding-200", "circles", "with lengths"])
def test_examples_are_a_dataset(name: str) -> None:
    if name == "with lengths":
        tokens = torch.tensor([[1, 2, 0], [4, 0, 0], [6, 7, 0], [7, 8, 9]])  # the longest is in no batch of the others
        test = Split(tokens, torch.arange(4), {}, torch.Tensor.long, torch.tensor([2, 1, 2, 3]))
    else:
        test = examples(name, "test")
    batch = next(iter(DataLoader(test, batch_size=3)))  # type: ignore[arg-type]
    x, *ours = (part for part in test.batch(torch.arange(3)) if part is not None)
    assert torch.equal(batch[0][:, : x.shape[1]], x)
    assert not batch[0][:, x.shape[1] :].any()
    assert all(torch.equal(*pair) for pair in zip(ours, batch[1:], strict=True))
    assert torch.equal(test[-1][0], test[len(test) - 1][0])
    with pytest.raises(IndexError, match=f"The split has {len(test)} examples"):
        test[len(test)]


NUMBERS = ("value", "forecast")
"""Targets of tasks whose outputs are numbers, not classes."""


def test_every_trained_network_describes_its_inputs_and_outputs() -> None:
    for name in registry.list_models(pretrained=True):
        task = registry.find(name).task
        assert bool(task.input_description) != bool(task.vocabulary), name  # a tokenizer reads text
        words = task.family == "babi" or task.is_stream  # a class is a word of the tokenizer's
        named = task.target not in NUMBERS and not words
        assert bool(task.classes) == named, name


def snippets(page: Path) -> list[str]:
    """The pieces of Python on a page."""
    pieces = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert pieces, page
    return pieces


def run_snippet(page: Path, index: int = 0, fewer: tuple[str, str] = ("", "")) -> dict[str, Any]:
    """Run a piece of Python on a page, with `fewer` replaced in it, as a module called snippet; return its names."""
    code, module = snippets(page)[index], types.ModuleType("snippet")
    assert fewer[0] in code
    sys.modules["snippet"] = module
    exec(code.replace(*fewer) if fewer[0] else code, vars(module))
    return vars(module)


def test_the_code_of_the_readme_and_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_snippet(paths.path("README.md"), fewer=("range(500)", "range(50)"))
    assert (len(names["x"]), names["logits"].shape) == (50, (50, 10))
    guide = paths.path("docs", "guide.md")
    names = run_snippet(guide, fewer=("arange(500)", "arange(50)"))
    assert names["logits"].shape == (50, 10)
    assert load("mine").interface.outputs == 3
    loss = run_snippet(guide, index=1)["loss"]
    assert loss.item() < 0.3
    assert load("even-odd").classes == ("even", "odd")
    names = run_snippet(guide, index=2)
    assert len(names["trained"]) == 6
    names["model"](torch.rand(2, 28, 28)).sum().backward()
    assert all(p.grad is not None for p in names["trained"])
    model = run_snippet(guide, index=3)["model"]
    assert (model.interface.outputs, model.tbptt_steps) == (3, 50)
    monkeypatch.setitem(CELLS, "leaky", CELLS["rnn"])  # so that the row that the guide adds goes afterwards
    names = run_snippet(guide, index=4)
    assert (names["logits"].shape, names["files"][0].path.name) == ((4, 3), "leaky-2x8.onnx")
    names = run_snippet(guide, index=5)
    assert (names["logits"].shape, names["now"].shape) == ((1, 3), (1, 3))
    assert len(snippets(guide)) == 6


@pytest.mark.parametrize(
    "task", sorted({registry.find(name).model.task for name in registry.list_models(pretrained=True)})
)
def test_the_code_of_the_cards_runs(task: str) -> None:
    for name in registry.list_models(pretrained=True, task=task):
        names = run_snippet(paths.path("cards", name, "README.md"))
        dataset = registry.find(name).dataset
        if dataset.folder is None or dataset.hub:  # generated or on the Hub, so a card need not feed zeros
            assert names["x"].any()
        outputs = names["values" if registry.find(name).task.target in NUMBERS else "logits"]
        assert len(outputs) == (8 if registry.find(name).task.input_description else len(names["x"]))


@pytest.mark.parametrize("name", ["bilstm-1x200-spooky", "rin-1x100-babi-03", "lstm-4x32-sits", "mlp-3x8-pima.tanh"])
def test_the_code_of_cards_without_weights_runs(name: str) -> None:
    names = run_snippet(paths.path("cards", name, "README.md"))
    assert names["logits"].shape == (8, registry.find(name).task.outputs)


def test_only_cards_with_weights_use_the_tokenizer() -> None:
    texts = [name for name in registry.list_models() if registry.find(name).task.vocabulary]
    pages = {name: paths.path("cards", name, "README.md") for name in texts}
    uses_words = {name: "model.tokenizer" in snippets(page)[0] for name, page in pages.items() if page.exists()}
    assert uses_words == {name: registry.find(name).weights is not None for name in uses_words}
    assert set(uses_words.values()) == {True, False}


def test_classes_are_named_by_the_task_or_by_the_head(network: Network, tmp_path: Path) -> None:
    assert network.classes == tuple(map(str, range(10)))
    network.reset_head(3)
    assert network.classes == ()
    network.reset_head(["red", "green"])
    network.save_pretrained(tmp_path)
    saved = load(tmp_path)
    assert (saved.classes, saved.interface.outputs) == (("red", "green"), 2)
    saved.reset_head(10)  # as many as the task has, and others
    saved.save_pretrained(tmp_path)
    assert (saved.classes, load(tmp_path).classes) == ((), ())
    # as in every config.json before there were any
    assert "classes" not in build(NAME).config.model_dump()["interface"]
    with pytest.raises(RequestError, match="cannot have 0 outputs"):
        saved.reset_head([])
    for bad in ("abc", 2.0, None, ["a", 1]):
        with pytest.raises(RequestError, match="A head cannot have"):
            saved.reset_head(bad)  # type: ignore[arg-type]


def test_load_with_dropout_changes_training_only(tmp_path: Path) -> None:
    name = "star-16x64-pmnist"
    plain, x = load(name, device="cpu"), torch.rand(2, 5, 1)
    network = load(name, device="cpu", dropout=0.5, recurrent_dropout=0.25)
    assert torch.equal(network(x), plain(x))
    assert not torch.equal(network.train()(x), plain(x))
    network.save_pretrained(tmp_path)
    spec = load(tmp_path).config.architecture
    assert spec == plain.config.architecture.model_copy(update={"dropout": 0.5, "recurrent_dropout": 0.25})
    assert load(name, device="cpu", pretrained=False, dropout=0.5).config.architecture.dropout == 0.5
    with pytest.raises(RequestError, match=r"this dropout: dropout: must be less than 1\.0, not 1\.5"):
        load(name, dropout=1.5)


def test_load_with_classes_replaces_only_the_head(network: Network) -> None:
    for classes, names in ((3, ()), (["red", "green"], ("red", "green"))):
        for pretrained in (True, False):
            other = load(NAME, device="cpu", classes=classes, pretrained=pretrained)
            assert other.classes == names
            assert not other.training
            assert other(torch.rand(2, 28, 28)).shape == (2, other.interface.outputs)
            same_body = torch.equal(
                other.layers[0].forward_direction.input.weight, network.layers[0].forward_direction.input.weight
            )
            assert same_body == pretrained
    fresh = [load(NAME, device="cpu", classes=3, pretrained=False, seed=seed).head.weight for seed in (1, 1, 2)]
    assert torch.equal(*fresh[:2])
    assert not torch.equal(*fresh[1:])
    with pytest.raises(RequestError, match="A head cannot have -1 outputs"):
        load(NAME, device="cpu", classes=-1)


@pytest.mark.parametrize("seed", [-1, 2**63, 10**23, 0.5, "a", None, True, torch.tensor(3)])
def test_invalid_seeds_are_refused(seed: object) -> None:
    with pytest.raises(RequestError, match="A seed is an integer from 0"):
        build(NAME, device="cpu", seed=seed)  # type: ignore[arg-type]


def test_only_the_seed_determines_initial_values() -> None:
    torch.manual_seed(1)
    again, other = (load(NAME, device="cpu", pretrained=False, seed=seed) for seed in (0, 1))
    with torch.device("meta"):  # a device that a user has set for new tensors
        first = build(NAME, device="cpu")
    assert torch.equal(first.head.weight, again.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)


def test_an_exported_network_takes_any_batch_size() -> None:
    network, x, lengths = build(NAME, device="cpu").eval(), torch.rand(4, 5, 28), torch.tensor([5, 3, 2, 5])
    any_batch = ({0: torch.export.Dim.DYNAMIC}, {0: torch.export.Dim.DYNAMIC})
    exported = torch.export.export(network, (x, lengths), dynamic_shapes=any_batch).module()
    torch.testing.assert_close(exported(x[:3], lengths[:3]), network(x[:3], lengths[:3]))


def test_a_folder_holds_one_network_at_a_time(network: Network, tmp_path: Path) -> None:
    reader = build("rin-1x100-babi-01", device="cpu")
    words = reader.config.interface.vocabulary or 0
    reader.tokenizer = Tokenizer([*RESERVED, *map(str, range(words - len(RESERVED)))], 10)
    reader.save_pretrained(tmp_path)
    assert load(tmp_path, device="cpu").tokenizer is not None
    network.save_pretrained(tmp_path)
    assert load(tmp_path, device="cpu").config == network.config


def test_a_network_is_not_saved_where_load_would_not_find_it(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match="is a name of the registry"):
        network.save_pretrained(NAME)
    with pytest.raises(RequestError, match=r"hf://org/name is an address on the Hub.*use push_to_hub"):
        network.save_pretrained("hf://org/name")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for place in ("file", "link", "file/below"):
        with pytest.raises(RequestError, match="is not a folder"):
            network.save_pretrained(place)
    network.save_pretrained("mine")
    with pytest.raises(RequestError, match="Give the folder"):
        load("mine/model.safetensors")
    (tmp_path / NAME).touch()
    assert load(NAME, device="cpu").config == network.config


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_feed_forward_networks_are_pickled(activation: str) -> None:
    config = load("mlp-3x8-pima.prelu-tuned", device="cpu").config
    options = config.architecture.model_copy(update={"options": {"activation": activation}})
    network = build(config.model_copy(update={"architecture": options}), device="cpu")
    x = torch.rand(4, 8)
    assert torch.equal(pickle.loads(pickle.dumps(network))(x), network(x))
    network.head = nn.Sequential(network.head)  # type: ignore[assignment]
    network.reset_head(5)
    assert network(x).shape == (4, 5)


@pytest.mark.parametrize("name", ["babi-01", "adding-200", "circles", "mnist-rows", "spooky", "toxic-long"])
def test_unknown_splits_are_refused(name: str) -> None:
    with pytest.raises(UnknownNameError, match="No split is called 'val'"):
        examples(name, "val")  # type: ignore[arg-type]


def test_a_users_own_images() -> None:
    test = examples(NAME)
    x, _, _ = test.batch(torch.arange(3), torch.device("cpu"))
    images = test.raw[:3].reshape(3, 28, 28)
    assert torch.equal(test.prepare(images), x)
    assert torch.equal(test.prepare(images[:, None]), x)
    for wrong in (images.float() / 255, images[:, :27], test.raw[:, :-1]):
        with pytest.raises(RequestError, match="28, 28"):
            test.prepare(wrong)


def test_torch_counts_the_multiply_adds_that_we_count(network: Network) -> None:
    from torch.utils.flop_counter import FlopCounterMode  # imports triton, which test_triton wants to do first

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(torch.rand(1, 28, 28))
    assert counter.get_total_flops() == 2 * multiply_adds(network, 28)
    deep = build("lstm-12x32-sits", device="cpu")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        deep(torch.rand(1, 23, 6))
    assert counter.get_total_flops() == 2 * multiply_adds(deep, 23)


@pytest.mark.parametrize(
    "settings",
    [
        {"tbptt_steps": -1},
        {"tbptt_steps": 0},
        {"checkpoint_every": 1.5},
        {"checkpoint_every": True},
        {"backend": "fast"},
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    network = build(NAME, device="cpu")
    for key, value in settings.items():
        setattr(network, key, value)
    x = torch.rand(2, 5, 28)
    for run in (network, network.encode, network.features, network.trace, lambda x: network.step(x[:, 0])):
        with pytest.raises(RequestError, match=next(iter(settings))):
            run(x)


@pytest.mark.parametrize("wrong", [numpy.ones((2, 28, 28)), [1.0], None, "text"])
def test_every_method_refuses_what_is_not_a_tensor(network: Network, wrong: Any) -> None:
    for run in (network, network.step, network.encode, network.features, build("mlp-3x8-pima.relu", device="cpu")):
        with pytest.raises(RequestError, match="takes one padded tensor"):
            run(wrong)
    _, state = network.requires_grad_(False).step(torch.rand(2, 28))
    with pytest.raises(RequestError, match="takes one padded tensor"):
        network.step(wrong, state)


def test_lengths_and_states_are_checked(network: Network) -> None:
    x = torch.rand(2, 28, 28)
    for lengths in ("abc", [[1], [2, 3]], [1.0, 2.0], object()):
        with pytest.raises(RequestError, match="lengths must be 2 integers"):
            network(x, lengths)
    for state in ((1, 2), 3, [None], ("a",)):
        with pytest.raises(RequestError, match="The state does not fit"):
            network.step(x[:, 0], state)  # type: ignore[arg-type]


def test_dtypes_and_devices_by_name() -> None:
    assert load(NAME, device="cpu", dtype="bfloat16").dtype is torch.bfloat16
    assert build(NAME, device="cpu", dtype="float64").dtype is torch.float64
    for dtype in ("float17", "int8", torch.int8, "float8_e5m2", 3):
        with pytest.raises(RequestError, match="dtype"):
            load(NAME, device="cpu", dtype=dtype)  # type: ignore[arg-type]
    for device in ("hpu", "privateuseone", 3.5, "nonsense"):
        with pytest.raises(RequestError, match="cannot be used"):
            load(NAME, device=device)  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="no values"):
        evaluate(NAME, device="meta", limit=1)
    with pytest.raises(RequestError, match="loads none"):
        load(NAME, pretrained=False, revision="main")


def test_build_takes_a_name_an_entry_or_a_config() -> None:
    entry = spec(NAME)
    assert build(entry, device="meta").config == build(entry.config, device="meta").config == entry.config
    for wrong in (None, 3, Path("mine"), entry.config.architecture):
        with pytest.raises(RequestError, match="build takes a name"):
            build(wrong)  # type: ignore[arg-type]
    assert "(input): Dense((384, 28))" in str(build(entry, device="meta"))


def test_an_architecture_without_shapes_says_what_is_missing() -> None:
    with pytest.raises(
        RequestError,
        match=r"^bilstm-2x32 is an architecture, not a registered model\. Pass inputs=\.\.\. and outputs=\.\.\. too\.$",
    ):
        build("bilstm-2x32")


@pytest.mark.parametrize(
    "error",
    [UnknownNameError("model", "x", ["y"]), MissingExtraError("onnx", "export"), MissingError("No file.", 1)],
    ids=lambda error: type(error).__name__,
)
def test_errors_cross_from_one_process_to_another(error: ZooError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.exit_code) == (type(error), str(error), error.exit_code)


def test_a_data_loader_may_start_its_workers_afresh() -> None:
    split = pickle.loads(pickle.dumps(examples("circles")))  # as spawned workers receive it
    assert torch.equal(split[0][0], examples("circles")[0][0])
