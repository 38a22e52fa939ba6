"""A checkpoint is loaded whole and verified, or refused with the reason and nothing is changed."""

import errno
import functools
import hashlib
import io
import json
import os
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import huggingface_hub
import pytest
import torch
from helpers import flip
from huggingface_hub import constants
from pydantic import ValidationError
from safetensors.torch import save as to_bytes

from zoo import list_models, load, registry
from zoo.cells import CELLS
from zoo.checkpoints import results
from zoo.checkpoints.hub import client
from zoo.checkpoints.references import Reference
from zoo.checkpoints.sources import resolve
from zoo.checkpoints.tensors import header, read_tensors, write_tensors
from zoo.errors import CheckpointError, NetworkError, RequestError, SizeError, UnknownNameError
from zoo.networks import golden, loading
from zoo.networks.builder import build
from zoo.registry.schema import Architecture, Config, Interface
from zoo.utils import files, paths

WEIGHTS, CONFIG = "model.safetensors", "config.json"
STARTERS = [
    "gru-1x128-mnist-rows",
    "lstm-1x128-mnist-rows",
    "rin-1x100-mnist-rows",
    "star-16x64-pmnist",
    "star-4x128-mnist-rows",
]
NAME, OTHER, COMMIT = "star-2x3-t", "star-1x3-t", "c" * 40
REGISTRY = """\
papers: PAPERS
datasets:
  d: {title: D, license: cc0-1.0, hub: o/d, hub_files: {}, validation: 1, citation: C}
tasks:
  t:
    {title: T, family: mnist, dataset: d, layout: pixels, input: [1], steps: 9, outputs: 4, readout: last,
     pipeline_tag: other}
studies:
  small:
    title: Small
    recipes:
      r: {optimizer: {name: adam, lr: 0.1}, batch_size: 1, epochs: 1}
    models:
      star-2x3-t: {cell: star, layers: 2, units: 3, task: t, recipe: r}
      star-1x3-t: {cell: star, layers: 1, units: 3, task: t, recipe: r}
"""
ORIGIN = {"title": "T", "authors": "A", "year": 1990}
PAPERS = {row.paper: ORIGIN for row in CELLS.values()}


def small(layers=2, units=3, **architecture):
    return Config(
        name=NAME,
        task="t",
        architecture=Architecture(cell="star", layers=layers, units=units, **architecture),
        interface=Interface(input=[1], steps=9, outputs=4, readout="last"),
    )


def network(seed=0, **architecture):
    return build(small(**architecture), device="cpu", seed=seed)


def saved(folder, seed=0, **architecture):
    loading.save(network(seed, **architecture), folder)
    return folder


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def same(one, other):
    a, b = one.state_dict(), other.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def split(content):
    """The header and the data of a safetensors file."""
    size = int.from_bytes(content[:8], "little")
    return content[8 : 8 + size], content[8 + size :]


def joined(header, data):
    return len(header).to_bytes(8, "little") + header + data


def reason(path, *words):
    """The message of the CheckpointError that loading the folder `path` ends in."""
    with pytest.raises(CheckpointError) as caught:
        load(path, device="cpu")
    message = str(caught.value)
    assert str(path) in message
    for word in words:
        assert re.search(word, message), message
    return message


# round trips


@pytest.mark.parametrize(
    "architecture", [{}, {"bidirectional": "concat"}, {"layer_norm": True, "options": {"shift": 1.0}}]
)
def test_what_is_saved_is_what_is_loaded(tmp_path, architecture):
    original = network(**architecture)
    loading.save(original, tmp_path / "new" / "folder")
    loaded = load(tmp_path / "new" / "folder", device="cpu")
    assert same(loaded, original)
    assert loaded.config == original.config
    assert not loaded.training
    x = torch.randn(2, 5, 1)
    assert torch.equal(loaded(x), original.eval()(x))


def test_a_folder_can_be_a_string_or_a_path_and_relative(tmp_path, monkeypatch):
    saved(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    for path in ("mine", "./mine", Path("mine"), str(tmp_path / "mine"), tmp_path / "mine" / ".." / "mine"):
        assert same(load(path, device="cpu"), network())


def test_the_same_weights_make_the_same_bytes(tmp_path):
    first = saved(tmp_path / "0")
    loading.save(load(first, device="cpu"), tmp_path / "1")
    for folder in (tmp_path / "1", saved(tmp_path / "2")):
        assert [digest(folder / file) for file in (WEIGHTS, CONFIG)] == [
            digest(first / file) for file in (WEIGHTS, CONFIG)
        ]
    assert digest(saved(tmp_path / "3", seed=1) / WEIGHTS) != digest(first / WEIGHTS)


def test_a_folder_holds_two_files_and_the_header_one_key(tmp_path):
    saved(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [CONFIG, WEIGHTS]
    header, _ = split((tmp_path / WEIGHTS).read_bytes())
    assert json.loads(header)["__metadata__"] == {"format": "pt"}
    assert json.loads((tmp_path / CONFIG).read_text())["library"] == "rnnzoo"


def test_dtype_and_device(tmp_path):
    saved(tmp_path)
    loaded = load(tmp_path, device="cpu", dtype=torch.float64)
    assert {p.dtype for p in loaded.parameters()} == {torch.float64}
    assert same(loaded, network().double())
    assert {p.device.type for p in load(tmp_path, device="meta").parameters()} == {"meta"}
    assert {p.dtype for p in load(tmp_path).parameters()} == {torch.float32}
    for device in ("nonsense", "cuda:99"):
        with pytest.raises(RequestError, match=f"Device '{device}' cannot be used"):
            load(tmp_path, device=device)


def test_initial_values_instead_of_weights(tmp_path):
    saved(tmp_path, seed=3)
    (tmp_path / WEIGHTS).unlink()
    fresh = load(tmp_path, pretrained=False, device="cpu")
    assert same(fresh, network(seed=0))
    assert not fresh.training
    assert load("star-16x64-smnist", pretrained=False, device="meta").config.name == "star-16x64-smnist"


@pytest.mark.parametrize("when", ["replace", "fsync"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, when):
    saved(tmp_path)
    before = {path.name: digest(path) for path in tmp_path.iterdir()}

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, when, fail)
    with pytest.raises(OSError, match="No space left"):
        saved(tmp_path, seed=1)
    assert {path.name: digest(path) for path in tmp_path.iterdir()} == before


# what is refused: model.safetensors


def tensors(**changes):
    """The tensors of the small network, some replaced, or left out where None."""
    every = network().state_dict() | changes
    return {name: tensor for name, tensor in every.items() if tensor is not None}


def spoiled(value):
    bias = torch.zeros(4)
    bias[2] = value
    return bias


@pytest.mark.parametrize(("change", "words"), [
    ({"head.bias": None}, "head.bias is missing"),
    ({"head.extra": torch.zeros(4)}, "head.extra does not belong to this architecture"),
    ({"head.bias": torch.zeros(5)}, r"head.bias is torch.float32 \(5,\) instead of torch.float32 \(4,\)"),
    ({"head.bias": torch.zeros(4, 1)}, r"head.bias is torch.float32 \(4, 1\) instead of"),
    ({"head.bias": torch.zeros(4).double()}, "head.bias is torch.float64 .* instead of torch.float32"),
    ({"head.bias": torch.zeros(4).bfloat16()}, "head.bias is torch.bfloat16 .* instead of torch.float32"),
    ({"head.bias": torch.zeros(4).int()}, "head.bias is torch.int32"),
    ({"head.bias": spoiled(float("nan"))}, "head.bias has values that are infinite or NaN"),
    ({"head.bias": spoiled(float("-inf"))}, "head.bias has values that are infinite or NaN"),
])  # fmt: skip
def test_tensors_that_do_not_fit(tmp_path, change, words):
    saved(tmp_path)
    write_tensors(tmp_path / WEIGHTS, tensors(**change))
    reason(tmp_path, words, f"does not fit {NAME}")
    unlucky = network(seed=5)
    with pytest.raises(CheckpointError):
        loading.load_weights(unlucky, tmp_path / WEIGHTS)
    assert same(unlucky, network(seed=5))


def test_of_many_problems_five_are_listed(tmp_path):
    saved(tmp_path)
    write_tensors(tmp_path / WEIGHTS, {"only.this": torch.zeros(1)})
    message = reason(tmp_path, "; and [0-9]+ more")
    assert message.count("is missing") + message.count("does not belong to this") == 5
    shown = re.search("and ([0-9]+) more", message)
    assert 5 + int(shown[1]) == len(network().state_dict()) + 1


def test_weights_of_another_architecture(tmp_path):
    saved(tmp_path)
    write_tensors(tmp_path / WEIGHTS, network(units=4).state_dict())
    reason(tmp_path, "instead of")
    write_tensors(tmp_path / WEIGHTS, network(layers=1).state_dict())
    reason(tmp_path, "layers.1.* is missing")


def good():
    return to_bytes(network().state_dict(), metadata={"format": "pt"})


def pickled():
    buffer = io.BytesIO()
    torch.save(network().state_dict(), buffer)
    return buffer.getvalue()


def edited_header(change):
    """The good file with entries of its header changed by `change`."""
    header, data = split(good())
    entries = json.loads(header)
    change(entries)
    return joined(json.dumps(entries).encode(), data)


def twice(name):
    """The good file with a name twice in its header, the second time for other bytes of the same size."""
    header, data = split(good())
    entry = json.dumps({name: json.loads(header)[name]}).encode()
    return joined(header.rstrip()[:-1] + b"," + entry[1:], data)


NOT_SAFETENSORS = {
    "empty": b"",
    "seven bytes": b"1234567",
    "header only": joined(split(good())[0], b""),
    "cut in the header": good()[:50],
    "cut in the data": good()[:-1],
    "trailing byte": good() + b"\0",
    "twice": good() * 2,
    "html": b"<!DOCTYPE html><html><body>404 Not Found</body></html>",
    "lfs pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 748\n",
    "pickle": pickled(),
    "header longer than the file": (2**20).to_bytes(8, "little") + good()[8:],
    "header of 2**63 bytes": (2**63).to_bytes(8, "little") + good()[8:],
    "header of no bytes": (0).to_bytes(8, "little") + good()[8:],
    "header is a list": joined(b"[1, 2]", b""),
    "header is not JSON": joined(b"{'a': 1}", b""),
    "header is not UTF-8": joined(b'{"\xff": 1}', b""),
    "header nested deeply": joined(b"[" * 100_000, b""),
    "name twice": twice("head.bias"),
    "metadata twice": twice("__metadata__"),
    "key of an entry twice": good().replace(b'"dtype":"F32"', b'"dtype":"F32","dtype":"F32"', 1),
    "overlapping data": edited_header(lambda e: e["head.bias"].update(data_offsets=e["head.weight"]["data_offsets"])),
    "shape that overflows": edited_header(lambda e: e["head.bias"].update(shape=[2**62, 4])),
    "negative shape": edited_header(lambda e: e["head.bias"].update(shape=[-4])),
    "unknown dtype": edited_header(lambda e: e["head.bias"].update(dtype="F31")),
}


@pytest.mark.parametrize("fault", NOT_SAFETENSORS)
def test_a_file_that_is_not_safetensors(tmp_path, fault):
    saved(tmp_path)
    (tmp_path / WEIGHTS).write_bytes(NOT_SAFETENSORS[fault])
    message = reason(tmp_path, "not a valid safetensors file")
    assert len(message) < 400 + len(str(tmp_path))


def test_a_name_twice_in_a_header_is_named_as_the_fault(tmp_path):
    (tmp_path / "x").write_bytes(good())
    assert read_tensors(tmp_path / "x").keys() == network().state_dict().keys()
    (tmp_path / "x").write_bytes(twice("head.bias"))
    with pytest.raises(CheckpointError, match="occurs twice"):
        read_tensors(tmp_path / "x")


def test_a_weights_file_that_cannot_be_read(tmp_path):
    saved(tmp_path)
    (tmp_path / WEIGHTS).unlink()
    reason(tmp_path, "cannot be read", "No such file")
    (tmp_path / WEIGHTS).mkdir()
    reason(tmp_path, "cannot be read", "Is a directory")


# what is refused: files that are none


@pytest.mark.parametrize("name", [WEIGHTS, CONFIG, "results.json"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_a_pipe_or_device_is_refused_at_once(tmp_path: Path, name: str, make: Callable[[Path], None]) -> None:
    saved(folder := tmp_path)
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    with pytest.raises(CheckpointError, match="not a regular file"):
        results.read(folder) if name == "results.json" else load(folder)


def test_a_key_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    saved(tmp_path)
    path = tmp_path / CONFIG
    path.write_text(path.read_text().replace('"name":', '"name": "another", "name":', 1))
    with pytest.raises(CheckpointError, match="'name' occurs twice"):
        load(path.parent)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_results_have_no_numbers_that_json_has_not(number: str) -> None:
    means = dict.fromkeys(("train_loss", "train_metric", "validation_loss", "validation_metric", "gradient_norm"), 1.0)
    text = json.dumps({"epoch": 1, "lr": 0.1, **means, "seconds": 2.0})
    assert results.Epoch.model_validate_json(text).seconds == 2.0
    with pytest.raises(ValidationError, match="finite"):
        results.Epoch.model_validate_json(text.replace("2.0", number))


# what is refused: config.json


def with_config(folder, change):
    """A good checkpoint whose config.json was changed by `change`."""
    saved(folder)
    config = json.loads((folder / CONFIG).read_text())
    change(config)
    (folder / CONFIG).write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(("change", "words"), [
    (lambda c: c.update(unknown=1), "unknown key 'unknown'"),
    (lambda c: c["architecture"].update(unit=3), "architecture.unit: unknown key 'unit'; the nearest valid one is 'units'"),
    (lambda c: c["architecture"].update(units="3"), "architecture.units: .*integer"),
    (lambda c: c["architecture"].update(units=3.0), "architecture.units: .*integer"),
    (lambda c: c["architecture"].update(layers=True), "architecture.layers: .*integer"),
    (lambda c: c["architecture"].update(layers=0), "architecture.layers: "),
    (lambda c: c["architecture"].update(units=10**9), "architecture.units: "),
    (lambda c: c["architecture"].update(cell="stra"), "No cell is called 'stra'. Did you mean star"),
    (lambda c: c["architecture"].update(options={"shfit": 1}), "no option 'shfit'"),
    (lambda c: c["architecture"].update(options={"shift": float("nan")}), "finite"),
    (lambda c: c["architecture"].update(options={"shift": 10**400}), "finite|out of range"),
    (lambda c: c["architecture"].update(init={"input": "uniform-9" + "9" * 60}), "uniform"),
    (lambda c: c["architecture"].update(kernel=2), "odd kernels"),
    (lambda c: c["architecture"].pop("cell"), "architecture.cell: is missing"),
    (lambda c: c["interface"].update(input=[]), "interface: a time step"),
    (lambda c: c["interface"].update(mean=float("nan")), "interface.mean"),
    (lambda c: c["interface"].update(std=float("inf")), "interface.std"),
    (lambda c: c["interface"].update(std=0.0), "interface.std"),
    (lambda c: c.update(library="another"), "library"),
    (lambda c: c.update(format=2), "format"),
    (lambda c: c.update(name="../escape"), "name"),
    (lambda c: c.pop("task"), "task must be given"),
])  # fmt: skip
def test_a_config_that_says_something_odd(tmp_path, change, words):
    reason(with_config(tmp_path, change), "not a valid config.json", words)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff\xfe{}", b"<html></html>", b"[" * 1000, b"{'a': 1}", b"9" * 5000]
)
def test_a_config_that_is_not_json(tmp_path, content):
    saved(tmp_path)
    (tmp_path / CONFIG).write_bytes(content)
    reason(tmp_path, "not a valid config.json")


def test_a_config_that_cannot_be_read_or_is_huge(tmp_path):
    saved(tmp_path)
    (tmp_path / CONFIG).write_text(" " * 1_000_001)
    reason(tmp_path, "larger than 1,000,000 bytes")
    (tmp_path / CONFIG).unlink()
    reason(tmp_path, "is not a checkpoint: it has no config.json")
    (tmp_path / CONFIG).mkdir()
    reason(tmp_path, "config.json: cannot be read", "Is a directory")


def test_a_config_of_a_model_too_large_for_memory(tmp_path):
    with pytest.raises(SizeError, match="parameters, more than 200,000,000"):
        load(with_config(tmp_path, lambda c: c["architecture"].update(units=16384)), device="cpu")


# names


def test_an_unknown_name():
    with pytest.raises(UnknownNameError, match=r"'star-16x64-pmist'\. Did you mean .*star-16x64-pmnist"):
        load("star-16x64-pmist")


@pytest.mark.parametrize("name", ["", "x" * 300, "a\0b", "../nowhere", "/nowhere", "nowhere/"])
def test_what_is_neither_a_name_nor_a_checkpoint(name):
    with pytest.raises((RequestError, CheckpointError)):  # the first is also what an unknown name is
        load(name)


def test_an_empty_folder(tmp_path):
    reason(tmp_path, "is not a checkpoint: it has no config.json.")


def test_a_folder_of_several_runs_names_them(tmp_path):
    for seed in range(5):
        (tmp_path / f"seed-{seed}").mkdir()
        saved(tmp_path / f"seed-{seed}")
    reason(tmp_path, "It holds the runs seed-0, seed-1, seed-2 ...: choose one.")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A zoo of two small models, nothing published, no cache, and no Hub."""
    monkeypatch.setattr(paths, "ROOT", tmp_path / "home")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    write_registry(tmp_path / "home")
    yield tmp_path / "home"
    registry.clear_caches()


def write_registry(root, weights=None):
    """Write the registry and a lock with these pins."""
    (root / "cards").mkdir(parents=True, exist_ok=True)
    (root / "registry.yaml").write_text(REGISTRY.replace("PAPERS", json.dumps(PAPERS)))
    (root / "cards" / "lock.json").write_text(json.dumps({"weights": weights or {}}))
    registry.clear_caches()


def publish(root, folder, revision=COMMIT):
    """Pin the files in `folder` as the checkpoint of NAME."""
    files = {f: {"sha256": digest(folder / f), "size": (folder / f).stat().st_size} for f in (WEIGHTS, CONFIG)}
    write_registry(root, {NAME: {"repo": "owner/name", "files": files} | ({"revision": revision} if revision else {})})


def cached(root, folder):
    """Put the files in `folder` into the Hub's cache and return where they are."""
    place = root.parent / "cache" / "models--owner--name" / "snapshots" / COMMIT
    place.mkdir(parents=True)
    for file in (WEIGHTS, CONFIG):
        (place / file).write_bytes((folder / file).read_bytes())
    return place


def hub_with(monkeypatch, folder, requests):
    """A Hub that has the files in `folder`; like the real client it returns a cached file as it is, unless forced."""

    def download(repo, name, *, revision=None, force_download=False, **_):
        requests.append((repo, name, revision))
        place = Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}" / "snapshots" / revision / name
        if force_download or not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes((folder / name).read_bytes())
        return str(place)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


@pytest.mark.usefixtures("home")
def test_a_model_without_weights_says_how_to_train_it():
    with pytest.raises(CheckpointError, match=f"rnnzoo train {NAME}"):
        load(NAME)
    assert load(NAME, pretrained=False, device="cpu").config.name == NAME


@pytest.mark.usefixtures("home")
def test_a_name_is_a_name_whatever_folders_there_are(tmp_path, monkeypatch):
    saved(tmp_path / NAME, seed=9)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="rnnzoo train"):
        load(NAME)
    assert same(load(f"./{NAME}", device="cpu"), network(seed=9))


def test_a_packaged_checkpoint(home):
    publish(home, saved(home / "cards" / NAME, seed=1), revision=None)
    assert list_models(pretrained=True) == [NAME]
    loaded = load(NAME, device="cpu", dtype=torch.float64)
    assert same(loaded, network(seed=1).double())
    assert not loaded.training
    assert same(load(NAME, device="cpu", pretrained=False), network(seed=0))


def test_the_cache_comes_before_the_package(home):
    packaged = saved(home / "cards" / NAME)
    publish(home, packaged)
    place = cached(home, packaged)
    assert resolve(Reference.parse(NAME)).files == {file: place / file for file in (WEIGHTS, CONFIG)}
    (place / WEIGHTS).unlink()
    assert resolve(Reference.parse(NAME)).files == {WEIGHTS: packaged / WEIGHTS, CONFIG: place / CONFIG}


def test_the_package_comes_before_the_hub(home, monkeypatch):
    publish(home, saved(home / "cards" / NAME))
    requests = []
    hub_with(monkeypatch, home / "cards" / NAME, requests)
    assert same(load(NAME, device="cpu"), network())
    assert requests == []


@pytest.mark.parametrize(
    "damage", [flip, lambda path: path.write_bytes(b""), lambda path: path.write_bytes(b"x" * 5000)]
)
def test_a_damaged_cached_file_falls_through_to_the_package(home, damage):
    packaged = saved(home / "cards" / NAME)
    publish(home, packaged)
    damage(cached(home, packaged) / WEIGHTS)
    assert resolve(Reference.parse(NAME)).files[WEIGHTS] == packaged / WEIGHTS
    assert same(load(NAME, device="cpu"), network())


def test_the_hub_comes_last_and_is_asked_for_the_pinned_commit(home, tmp_path, monkeypatch):
    publish(home, saved(tmp_path / "published", seed=2))
    requests = []
    hub_with(monkeypatch, tmp_path / "published", requests)
    assert same(load(NAME, device="cpu"), network(seed=2))
    assert sorted(requests) == [("owner/name", file, COMMIT) for file in (CONFIG, WEIGHTS)]
    load(NAME, device="cpu")
    assert len(requests) == 2


def test_a_damaged_cached_file_is_fetched_anew(home, tmp_path, monkeypatch):
    publish(home, saved(tmp_path / "published"))
    flip(cached(home, tmp_path / "published") / WEIGHTS)
    hub_with(monkeypatch, tmp_path / "published", [])
    assert same(load(NAME, device="cpu"), network())


def test_other_bytes_on_the_hub_are_refused(home, tmp_path, monkeypatch):
    publish(home, saved(tmp_path / "published"))
    flip(tmp_path / "published" / WEIGHTS)
    hub_with(monkeypatch, tmp_path / "published", [])
    with pytest.raises(CheckpointError, match=f"{WEIGHTS} has another sha256"):
        load(NAME)


def test_when_every_source_is_damaged_each_is_named(home):
    packaged = saved(home / "cards" / NAME)
    publish(home, packaged)
    place = cached(home, packaged)
    flip(place / WEIGHTS)
    (packaged / WEIGHTS).write_bytes(b"short")
    with pytest.raises(CheckpointError) as caught:
        load(NAME)
    message = str(caught.value)
    assert NAME in message
    assert f"{place / WEIGHTS} has another sha256" in message
    assert re.search(f"{re.escape(str(packaged / WEIGHTS))} has 5 bytes instead of [0-9,]+", message)


def test_a_damaged_package_is_named_when_the_hub_cannot_be_reached(home):
    packaged = saved(home / "cards" / NAME)
    publish(home, packaged)
    flip(packaged / WEIGHTS)
    with pytest.raises(CheckpointError, match=f"{re.escape(str(packaged / WEIGHTS))} has another sha256"):
        load(NAME)


def test_no_source_at_all(home, tmp_path):
    folder = saved(tmp_path / "gone")
    publish(home, folder, revision=None)
    with pytest.raises(
        CheckpointError, match=f"{NAME}: no source has the pinned {WEIGHTS}, {CONFIG}: not on this machine"
    ):
        load(NAME)
    publish(home, folder)
    with pytest.raises(CheckpointError, match=f"rnnzoo is offline.*rnnzoo pull {NAME}"):
        load(NAME)


@pytest.mark.parametrize("error", ["ReadError", "ConnectError", "RemoteProtocolError"])
def test_a_connection_that_breaks_off(home, tmp_path, monkeypatch, error):
    broken = getattr(pytest.importorskip("httpx2"), error)  # the client lets these through; they are no OSErrors
    publish(home, saved(tmp_path / "published"))

    def download(*_, **__):
        raise broken("connection reset by peer")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(client, "MAX_TRIES", 1)
    with pytest.raises(NetworkError, match=r"no source has the pinned .*(cannot be reached|connection reset by peer)"):
        load(NAME)


@pytest.mark.parametrize(("change", "words"), [
    (lambda c: c["architecture"].update(units=4), r"architecture\.units is 4 in the file and 3 in the registry"),
    (lambda c: c["architecture"].update(options={"shift": 1.0}), r"architecture\.options is .* in the file"),
    (lambda c: c["architecture"]["init"].update(gate_bias="chrono"), r"architecture\.init is "),
    (lambda c: c["architecture"].update(block={}), r"architecture\.block is .* in the file and None in the registry"),
    (lambda c: c["interface"].update(steps=10), r"interface\.steps is 10 in the file and 9 in the registry"),
    (lambda c: c["interface"].update(mean=0.5), r"interface\.mean is 0\.5 in the file and 0\.0 in the registry"),
    (lambda c: c.update(name=OTHER), f"name is '{OTHER}' in the file and '{NAME}' in the registry"),
    (lambda c: c.update(task="u"), "task is 'u' in the file and 't' in the registry"),
])  # fmt: skip
def test_a_published_config_that_disagrees_with_the_registry(home, change, words):
    publish(home, with_config(home / "cards" / NAME, change))
    with pytest.raises(CheckpointError, match=words):
        load(NAME)


def test_published_weights_that_do_not_fit_their_config(home):
    folder = saved(home / "cards" / NAME)
    write_tensors(folder / WEIGHTS, network(layers=1).state_dict())
    publish(home, folder)
    with pytest.raises(CheckpointError, match="is missing"):
        load(NAME)


def test_one_file_is_replaced_by_many_at_once(tmp_path):
    contents = [bytes([n]) * 100_000 for n in range(8)]
    with ThreadPoolExecutor(len(contents)) as pool:
        list(pool.map(functools.partial(files.atomic_write, tmp_path / "file"), contents * 8))
    assert (tmp_path / "file").read_bytes() in contents
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# the published checkpoints


def test_the_starters_are_published():
    assert [name for name in STARTERS if name not in list_models(pretrained=True)] == []


def test_every_pin_is_of_the_packaged_files():
    for name in list_models(pretrained=True):
        pinned = registry.find(name).weights
        for file, expected in pinned.files.items():
            path = paths.path("cards", name, file)
            assert path.stat().st_size == expected.size, path
            assert digest(path) == expected.sha256, path
        assert pinned.repo.endswith(f"/{name}")


def test_every_published_model_loads():
    for name in list_models(pretrained=True):
        assert load(name, device="cpu").config == registry.find(name).config


def test_a_header_alone_is_read_as_strictly(tmp_path):
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    shared = joined(json.dumps({"a": entry, "b": entry}).encode(), bytes(8))
    for content in (*NOT_SAFETENSORS.values(), shared):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(CheckpointError, match="not a valid safetensors file"):
            header(tmp_path / "x")


@pytest.mark.parametrize("name", list_models(pretrained=True))
def test_published_networks_compute_their_golden_outputs(name):
    deviation, allowed = golden.deviation(load(name, device="cpu"), paths.path("cards", name, golden.FILE))
    assert deviation <= allowed == pytest.approx(1e-4)
