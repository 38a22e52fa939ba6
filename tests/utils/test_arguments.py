"""Arguments of wrong types and sizes: every public function refuses them in one sentence of ours."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import zoo
from zoo.errors import CheckpointError, RequestError, ZooError
from zoo.networks.recurrent import RecurrentNetwork

BAD: list[Any] = [
    None, 3, -1, 4.5, float("nan"), 10**30, True, "", "x", "\0", "a" * 999, [], (), [1.5], [None], {}, b"x", object(), int,
    torch.zeros(2), torch.zeros(()), torch.zeros(2, device="meta"), torch.zeros(2, 2).to_sparse(), torch.complex64,
]  # fmt: skip
NETWORK = zoo.build("lstm-1x4", inputs=2, outputs=2, device="cpu").eval()


def kind(bad: object) -> str:
    """The name of a test of this argument; its repr may have an address, which differs from process to process."""
    return type(bad).__name__


FUNCTIONS: dict[str, Callable[[Any], object]] = {
    "build": lambda bad: zoo.build(bad, inputs=4, outputs=3, device="cpu"),
    "build without shapes": zoo.build,
    "load": zoo.load,
    "from_pretrained": zoo.Network.from_pretrained,
    "spec": zoo.spec,
    "recipe_with": lambda bad: zoo.spec("gru-1x128-mnist-rows").recipe_with({"epochs": -1} if bad == {} else bad),
    "examples": zoo.examples,
    "split": lambda bad: zoo.examples("circles", bad),
    "export": lambda bad: zoo.export(NETWORK, bad),
    "exported": zoo.export,
    "generate": zoo.generate,
    "from_torch": lambda bad: zoo.from_torch(bad, 2),
    "to_torch": zoo.to_torch,
    "repository": NETWORK.push_to_hub,
}


@pytest.mark.parametrize("bad", BAD, ids=kind)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_no_name_is_refused(function: str, bad: Any) -> None:
    with pytest.raises(ZooError) as error:
        FUNCTIONS[function](bad)
    assert len(str(error.value)) < 400
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("bad", [4.0, None, "4", -1, [], [1.5], {}, object(), 10**30, torch.zeros(())], ids=kind)
def test_shapes_that_no_network_has(bad: Any) -> None:
    for shapes in ({"inputs": bad, "outputs": 3}, {"inputs": 4, "outputs": bad}):
        with pytest.raises(RequestError, match=r"cannot be built|go together"):
            zoo.build("lstm-2x8", **shapes, device="meta")
    with pytest.raises(RequestError, match="No network can have"):
        zoo.from_torch(nn.GRU(2, 3), bad)


def test_no_network_has_no_inputs() -> None:
    with pytest.raises(RequestError, match="cannot be built"):
        zoo.build("lstm-2x8", inputs=0, outputs=3, device="meta")


@pytest.mark.parametrize("shapes", [{}, {"inputs": 4, "outputs": 3}])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("lstm-2x1000000", "units: must be at most 16384, not 1000000"),
        ("lstm-9999999999x2", "layers: must be at most 1024"),
        ("lstm-0x2", "layers: must be at least 1, not 0"),
    ],
)
def test_sizes_that_no_network_has(name: str, words: str, shapes: dict[str, int]) -> None:
    with pytest.raises(RequestError, match=f"{name} cannot be built: {words}"):
        zoo.build(name, **shapes)


def test_a_feed_forward_network_is_built_by_its_name() -> None:
    assert zoo.build("mlp-2x8", inputs=4, outputs=3, device="cpu")(torch.rand(2, 4)).shape == (2, 3)


@pytest.mark.parametrize("bad", [None, 3, [1.5], b"x", object()], ids=kind)
def test_patterns_are_texts(bad: Any) -> None:
    for call in (
        lambda: zoo.list_models(bad),
        lambda: zoo.list_models(exclude=bad),
        lambda: zoo.list_cells(bad),
        lambda: zoo.list_cells(exclude=bad),
        lambda: zoo.list_tasks(bad),
        lambda: zoo.list_tasks(exclude=bad),
        lambda: zoo.list_cells(properties=bad),
    ):
        with pytest.raises(RequestError, match="must be a string"):
            call()
    for table in ("task", "cell"):
        with pytest.raises(RequestError, match=f"The name of a {table} must be a string"):
            zoo.list_models(**{table: 3})  # type: ignore[arg-type]


def forms(x: Tensor) -> dict[str, Tensor]:
    """What a tensor of the right shape can still be that no network reads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls nested tensors a prototype
        nested = torch.nested.nested_tensor(list(x))
    return {
        "is on cpu": x.to("meta"),
        "a dense tensor": x.to_sparse(),
        "one with layout": x.to_mkldnn(),
        "a nested one": nested,
        "takes torch.float32; got torch.float64": x.double(),
        "takes torch.float32; got torch.complex64": x.to(torch.complex64),
        "takes torch.float32; got torch.int64": x.long(),
    }


@pytest.mark.parametrize("backend", ["auto", "plain"])
def test_tensors_that_no_network_reads(backend: str) -> None:
    net = zoo.build("lstm-1x4", inputs=2, outputs=2, device="cpu").eval().requires_grad_(False)
    assert isinstance(net, RecurrentNetwork)
    net.backend = backend
    x, resets = torch.rand(2, 3, 2), torch.zeros(2, 3, dtype=torch.bool)
    net.step(x[:, 0])
    for words, bad in forms(x).items():
        for call in (net, net.encode, net.features, net.trace, lambda x: net(x, resets=resets)):
            with pytest.raises(RequestError, match=words):
                call(bad)
    for words, bad in forms(x[:, 0]).items():
        for state in (None, net.initial_state(2)):
            with pytest.raises(RequestError, match=words):
                net.step(bad, state)
    for bad in (torch.tensor([3, 2]).to_sparse(), torch.tensor([3, 2], device="meta")):
        with pytest.raises(RequestError, match="lengths must be"):
            net(x, bad)
    for bad in (resets.to_sparse(), resets.to("meta")):
        with pytest.raises(RequestError, match="resets must be"):
            net(x, resets=bad)


def test_tensors_that_no_stream_reads() -> None:
    assert isinstance(NETWORK, RecurrentNetwork)
    try:
        stream = NETWORK.stream()
    except RequestError:
        pytest.skip("no compiler was there when rnnzoo was installed")
    x = torch.rand(2, 2)
    for bad in forms(x).values():
        with pytest.raises(RequestError, match="A stream of"):
            stream.step(bad)
    with pytest.raises(RequestError, match="The state does not fit"):
        stream.step(x, stream.initial_state(2).to_sparse())


@pytest.mark.parametrize("change", [Tensor.to_sparse, Tensor.bool, Tensor.long, lambda s: s.to(torch.complex64)])
def test_states_that_no_network_has(change: Callable[[Tensor], Tensor]) -> None:
    assert isinstance(NETWORK, RecurrentNetwork)
    x = torch.rand(2, 3, 2)
    state = tuple(tuple(map(change, layer)) for layer in NETWORK.initial_state(2))
    for call in (lambda: NETWORK.step(x[:, 0], state), lambda: NETWORK.encode(x, state)):
        with pytest.raises(RequestError, match="The state does not fit"):
            call()


@pytest.mark.parametrize("bad", [None, -1, 0, 2.0, "2", True, 10**30, [2]], ids=kind)
def test_batches_are_numbers(bad: Any) -> None:
    assert isinstance(NETWORK, RecurrentNetwork)
    with pytest.raises(RequestError, match="The batch size must be an integer from 1"):
        NETWORK.initial_state(bad)


def test_classes_have_different_names() -> None:
    with pytest.raises(RequestError, match=r"A head cannot have these classes: .*two classes are called 'a'"):
        NETWORK.reset_head(["a", "b", "a"])


def test_layers_in_blocks_are_not_those_of_torch() -> None:
    blocks = zoo.build("blocklstm-1x4", inputs=2, outputs=2, device="cpu")
    with pytest.raises(RequestError, match=r"torch\.nn has no layers"):
        zoo.to_torch(blocks)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
def test_weights_without_a_finite_value_are_not_saved(value: float, tmp_path: Path) -> None:
    net = zoo.build("lstm-1x4", inputs=2, outputs=2, device="cpu", dtype="float64")
    net.head.bias.data[1] = value
    with pytest.raises(
        CheckpointError, match=r"lstm-1x4 was not saved: head\.bias has values that are infinite or NaN"
    ):
        net.save_pretrained(tmp_path / "mine")
    assert not (tmp_path / "mine").exists()
    with pytest.raises(CheckpointError, match=r"head\.bias has values"):
        net.push_to_hub("org/name")


@pytest.mark.parametrize("bad", [None, 3, b"x", [], "\0", ""], ids=kind)
def test_folders_are_paths(bad: Any) -> None:
    with pytest.raises(RequestError, match="folder"):
        NETWORK.save_pretrained(bad)
    if bad != "":
        with pytest.raises(RequestError, match="folder"):
            zoo.export(NETWORK, "pt2", out=bad)
