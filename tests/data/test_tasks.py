"""MNIST comes from several places in several containers, and is the pinned MNIST or a DataError."""

import gzip
import hashlib
import io
import json
import random
import re
import shutil
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy
import pytest
import torch
from huggingface_hub import constants
from torch import Tensor

from zoo import registry, spec
from zoo.checkpoints.hub import client
from zoo.data import examples, mnist, originals, task_data
from zoo.data.base import IGNORED, Split, TaskData
from zoo.errors import DataError, MissingExtraError, RegistryError, RequestError
from zoo.registry.schema import TASKS

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
MASK = "pmnist_permutation_mask.npy"
# sha256 of the four original files, unpacked
PUBLISHED = {
    TEST_IMAGES: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    TEST_LABELS: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    IMAGES: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    LABELS: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
}
COUNT, HELD = 9, 3
PIXELS = torch.randint(0, 256, (COUNT, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
DIGITS = torch.tensor([7, 2, 1, 0, 4, 1, 4, 9, 5], dtype=torch.uint8)
CPU = torch.device("cpu")


def idx(values):
    """An IDX file of unsigned bytes, written by its definition."""
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.dim()]) + sizes + bytes(values.flatten().tolist())


FILES = {IMAGES: idx(PIXELS), LABELS: idx(DIGITS)}


def dataset(**changes):
    """The registry's dataset with the digests of the small training set of this file."""
    original = registry.load_registry().datasets["mnist"]
    digests = original.sha256 | {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    return original.model_copy(update={"sha256": digests, "validation": HELD} | changes)


def task(name="smnist", **changes):
    return registry.load_registry().all_tasks[name].model_copy(update=changes)


def small(name="smnist"):
    return task_data(task(name), dataset())


def everything(split):
    return split.batch(torch.arange(len(split)), CPU)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The empty folder that RNNZOO_DATA has for MNIST; no Hub and no cache."""
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    (tmp_path / "mnist").mkdir()
    return tmp_path / "mnist"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the packaged files that may be damaged."""
    shutil.copytree(mnist.PACKAGED, tmp_path / "package")
    monkeypatch.setattr(mnist, "PACKAGED", tmp_path / "package")
    mnist.permutation.cache_clear()
    yield tmp_path / "package"
    mnist.permutation.cache_clear()


def write(folder, container):
    """Write the small training set into `folder`."""
    if container == "parquet":
        write_parquet(folder)
        return
    for name, content in FILES.items():
        path = folder / (f"{name}.gz" if container == "gz" else name)
        path.write_bytes(gzip.compress(content, mtime=0) if container == "gz" else content)


def png(pixels):
    from PIL import Image

    buffer = io.BytesIO()
    height, width = pixels.shape
    Image.frombytes("L", (width, height), bytes(pixels.flatten().tolist())).save(buffer, "png")
    return buffer.getvalue()


def rows():
    """The small training set in the layout of ylecun/mnist."""
    images = [{"bytes": png(image), "path": None} for image in PIXELS]
    return {"image": images, "label": DIGITS.tolist()}


def write_parquet(folder, columns=None):
    import pyarrow
    import pyarrow.parquet

    path = folder / "train-00000-of-00001.parquet"
    image = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    columns = columns or rows()
    types = {"image": image, "label": pyarrow.int64()}
    table = pyarrow.table({name: pyarrow.array(column, types.get(name)) for name, column in columns.items()})
    pyarrow.parquet.write_table(table, path)
    return path


# the packaged test images


def test_every_family_of_the_registry_has_its_reader():
    for entry in map(registry.find, registry.models()):
        assert task_data(entry.task, entry.dataset).task is entry.task
    assert {t.family for t in registry.load_registry().all_tasks.values()} == set(TASKS)


def test_the_registry_pins_the_published_files():
    assert dict(registry.load_registry().datasets["mnist"].sha256) == PUBLISHED


def test_the_test_split_is_in_the_package(monkeypatch):
    monkeypatch.delenv("RNNZOO_DATA", raising=False)
    entry = spec("star-16x64-pmnist")
    split = task_data(entry.task, entry.dataset).split("test")
    assert len(split) == 10_000
    assert split.digests == {name: PUBLISHED[name] for name in (TEST_IMAGES, TEST_LABELS)}
    images = (0x803, 10_000, 28, 28)
    head = b"".join(number.to_bytes(4, "big") for number in images)
    assert hashlib.sha256(head + bytes(split.raw.flatten().tolist())).hexdigest() == PUBLISHED[TEST_IMAGES]
    head = b"".join(number.to_bytes(4, "big") for number in (0x801, 10_000))
    assert hashlib.sha256(head + bytes(split.targets.tolist())).hexdigest() == PUBLISHED[TEST_LABELS]
    assert split.targets.dtype == torch.int64
    assert split.targets.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("smnist", (784, 1)),
        ("pmnist", (784, 1)),
        ("mnist-rows", (28, 28)),
        ("smnist-196", (196, 1)),
        ("pmnist-196", (196, 1)),
    ],
)
def test_what_a_network_sees_of_the_test_images(name, shape):
    split = task_data(task(name), registry.load_registry().datasets["mnist"]).split("test")
    x, y, lengths = split.batch(torch.tensor([0, 9999, 1]), CPU)
    assert x.shape == (3, *shape)
    assert x.dtype == torch.float32
    assert x.min() == 0
    assert x.max() <= 1
    assert y.tolist() == [7, 6, 2]
    assert lengths is None
    flat = split.raw[[0, 9999, 1]].double() / 255
    if name.endswith("196"):
        flat = flat.reshape(3, 14, 2, 14, 2).mean((2, 4)).flatten(1)
    if name.startswith("pmnist"):
        flat = flat[:, [i for i in mnist.permutation().tolist() if i < flat.shape[1]]]
    torch.testing.assert_close(x.flatten(1).double(), flat, rtol=0, atol=1e-7)


def test_rows_are_rows_and_not_columns(folder):
    write(folder, "plain")
    x, _, _ = everything(small("mnist-rows").split("train"))
    assert torch.equal(x, PIXELS[HELD:].float() / 255)
    x, _, _ = everything(small("smnist").split("train"))
    assert torch.equal(x[:, 28 * 5 + 3, 0], PIXELS[HELD:, 5, 3].float() / 255)


def test_the_permutation_is_the_documented_one(folder):
    order = mnist.permutation()
    assert order.dtype == torch.int64
    assert order[:10].tolist() == [511, 583, 616, 161, 298, 264, 653, 128, 508, 139]
    assert sorted(order.tolist()) == list(range(784))
    write(folder, "plain")
    x, _, _ = everything(small("pmnist").split("validation"))
    flat = PIXELS.flatten(1)
    assert torch.equal(x[:, 0, 0], flat[:HELD, 511].float() / 255)  # step 0 shows pixel 511, not the other way round
    assert torch.equal(x[:, 1, 0], flat[:HELD, 583].float() / 255)


def test_an_unknown_layout_is_not_taken_for_another():
    with pytest.raises((RequestError, DataError, RegistryError), match="permuted-pixel"):
        everything(task_data(task("pmnist", layout="permuted-pixel"), dataset()).split("test"))


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def empty(path):
    path.write_bytes(b"")


def remove(path):
    path.unlink()


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [flip, cut, empty, remove, replace_by_folder])
@pytest.mark.parametrize("name", [TEST_IMAGES, TEST_LABELS])
def test_a_damaged_packaged_file(package, name, damage):
    damage(package / f"{name}.gz")
    with pytest.raises(DataError, match=name):
        small().split("test")


@pytest.mark.parametrize("damage", [flip, cut, empty, remove, replace_by_folder])
def test_a_damaged_packaged_permutation(package, damage):
    damage(package / MASK)
    with pytest.raises(DataError, match="permutation"):
        mnist.permutation()


# the training images


@pytest.mark.parametrize("container", ["gz", "plain", "parquet"])
def test_training_files_in_any_container(folder, container):
    write(folder, container)
    train, validation = small().split("train"), small().split("validation")
    assert (len(train), len(validation)) == (COUNT - HELD, HELD)
    assert torch.equal(torch.cat([validation.raw, train.raw]), PIXELS.flatten(1))
    assert torch.equal(torch.cat([validation.targets, train.targets]), DIGITS.long())
    assert train.digests == validation.digests
    assert train.digests == {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}


def test_images_and_labels_may_be_in_different_containers(folder):
    write(folder, "parquet")
    (folder / f"{IMAGES}.gz").write_bytes(gzip.compress(FILES[IMAGES]))
    assert torch.equal(small().split("train").targets, DIGITS[HELD:].long())


@pytest.mark.parametrize("name", [IMAGES, LABELS])
@pytest.mark.parametrize("container", ["gz", "plain"])
@pytest.mark.parametrize("damage", [flip, cut, empty, replace_by_folder])
def test_a_damaged_training_file(folder, container, damage, name):
    write(folder, "plain")  # a good file further down the list is no excuse for a bad one
    write(folder, container)
    path = folder / (f"{name}.gz" if container == "gz" else name)
    if damage is cut:
        path.write_bytes(path.read_bytes()[:-5])
    else:
        damage(path)
    with pytest.raises(DataError, match=re.escape(str(path))):
        small().split("train")


def test_other_values_than_the_pinned_ones(folder):
    write(folder, "gz")
    (folder / f"{LABELS}.gz").write_bytes(gzip.compress(idx(DIGITS.flip(0))))
    with pytest.raises(DataError, match=f"differ from those of MNIST's {LABELS}"):
        small().split("train")


def changed(**columns):
    return rows() | columns


def first_image(content):
    """The columns with other bytes for the first image."""
    return changed(image=[{"bytes": content, "path": None}, *rows()["image"][1:]])


def chunk(kind, content):
    return len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")


def odd_png(side, *chunks):
    """A PNG that says it is a square grey image, and then has these chunks."""
    header = side.to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in [(b"IHDR", header), *chunks])


ODD_COLUMNS = {
    "no image": lambda: {"label": DIGITS.tolist()},
    "no label": lambda: {"image": rows()["image"]},
    "other names": lambda: {"picture": rows()["image"], "digit": DIGITS.tolist()},
    "an image missing": lambda: changed(image=[None, *rows()["image"][1:]]),
    "bytes missing": lambda: changed(image=[{"bytes": None, "path": "0.png"}, *rows()["image"][1:]]),
    "not an image": lambda: first_image(b"<html></html>"),
    "image cut": lambda: first_image(png(PIXELS[0])[:-200]),
    "image too wide": lambda: first_image(png(PIXELS[0].repeat(1, 2))),
    "image with a broken chunk": lambda: first_image(odd_png(28, (b"IDAT", b"x\x9c"), (b"\xe6.\xd0=", b""))),
    "image of billions of pixels": lambda: first_image(odd_png(60_000, (b"IDAT", b""))),
    "another image": lambda: changed(image=rows()["image"][::-1]),
    "label missing": lambda: changed(label=[None, *DIGITS.tolist()[1:]]),
    "label 300": lambda: changed(label=[300, *DIGITS.tolist()[1:]]),
    "label -1": lambda: changed(label=[-1, *DIGITS.tolist()[1:]]),
    "another label": lambda: changed(label=DIGITS.tolist()[::-1]),
    "no rows": lambda: {"image": [], "label": []},
}


@pytest.mark.parametrize("fault", ODD_COLUMNS)
def test_a_parquet_file_with_odd_columns(folder, fault):
    path = write_parquet(folder, ODD_COLUMNS[fault]())
    with pytest.raises(DataError, match=re.escape(str(path))):
        small().split("train")


def test_labels_that_are_words(folder):
    import pyarrow
    import pyarrow.parquet

    path = write_parquet(folder)
    table = pyarrow.table({"image": list(range(COUNT)), "label": ["seven"] * COUNT})
    pyarrow.parquet.write_table(table, path)
    with pytest.raises(DataError, match=re.escape(str(path))):
        small().split("train")


@pytest.mark.parametrize("damage", [cut, empty, replace_by_folder, lambda path: path.write_bytes(b"<html></html>")])
def test_a_damaged_parquet_file(folder, damage):
    path = write_parquet(folder)
    damage(path)
    with pytest.raises(DataError, match=re.escape(str(path))):
        small().split("train")


def test_damage_anywhere_in_an_image_or_a_parquet_file_is_seen(folder):
    source = random.Random(0)
    path = write_parquet(folder)
    good = path.read_bytes()
    before = len(good)
    found = 0
    for _ in range(40):
        damaged = bytearray(good)
        damaged[source.randrange(before)] ^= 1 << source.randrange(8)
        path.write_bytes(damaged)
        try:
            split = small().split("train")
            assert torch.equal(split.raw, PIXELS[HELD:].flatten(1))  # the bit was in a part that is not read
        except DataError:
            found += 1
    image = png(PIXELS[0])
    for _ in range(40):
        damaged = bytearray(image)
        damaged[source.randrange(len(image))] ^= 1 << source.randrange(8)
        write_parquet(folder, first_image(bytes(damaged)))
        try:
            assert torch.equal(small().split("validation").raw, PIXELS[:HELD].flatten(1))
        except DataError:
            found += 1
    assert found > 40


def test_parquet_without_its_reader(folder, monkeypatch):
    write_parquet(folder)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rnnzoo\[data\]'"):
        small().split("train")


@pytest.mark.parametrize("given", [True, False])
def test_no_data_and_no_hub(folder, monkeypatch, given):
    if not given:
        monkeypatch.delenv("RNNZOO_DATA")
    began = time.monotonic()
    with pytest.raises(DataError) as caught:
        small().split("train")
    assert time.monotonic() - began < 5
    message = str(caught.value)
    assert "ylecun/mnist" in message
    assert "Put the file there, set RNNZOO_DATA to the folder that contains mnist, or connect to the Hub." in message
    assert f"was not found in {folder if given else folder.parent / 'home/.cache/rnnzoo/mnist'}." in message
    assert "\n" not in message
    assert list(folder.iterdir()) == []


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("error", ["ReadError", "ConnectError", "RemoteProtocolError"])
def test_a_connection_that_breaks_off(monkeypatch, error):
    broken = getattr(pytest.importorskip("httpx2"), error)  # the client lets these through; they are no OSErrors

    def download(*_, **__):
        raise broken("connection reset by peer")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(client, "MAX_TRIES", 1)
    with pytest.raises(DataError, match="set RNNZOO_DATA to the folder that contains mnist, or connect"):
        small().split("train")


@pytest.mark.parametrize("given", [True, False])
def test_the_hub_has_it_as_parquet(folder, tmp_path, monkeypatch, given):
    (tmp_path / "hub").mkdir()
    path = write_parquet(tmp_path / "hub")
    asked = []

    def download(repo, name, *, repo_type=None, **_):
        asked.append((repo, name, repo_type))
        return str(path)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    if not given:
        monkeypatch.delenv("RNNZOO_DATA")
    assert torch.equal(small().split("train").raw, PIXELS[HELD:].flatten(1))
    assert set(asked) == {("ylecun/mnist", "mnist/train-00000-of-00001.parquet", "dataset")}
    flip(path)
    with pytest.raises(DataError):
        small().split("train")
    place = folder if given else tmp_path / "home" / ".cache" / "rnnzoo" / "mnist"
    place.mkdir(parents=True, exist_ok=True)
    write(place, "gz")  # what lies there comes before the Hub
    assert len(small().split("train")) == COUNT - HELD


def test_a_batch_is_made_of_the_asked_examples(folder):
    write(folder, "plain")
    split = small().split("train")
    kinds = [torch.tensor([5, 0, 0], dtype=dtype) for dtype in (torch.int64, torch.int16, torch.uint8)]
    for indices in (*kinds, numpy.array([5, 0, 0], "uint16"), [5, 0, 0], (5, 0, 0)):
        x, y, _ = split.batch(indices, CPU)
        assert torch.equal(x.squeeze(2), PIXELS[HELD:].flatten(1)[[5, 0, 0]].float() / 255)
        assert y.tolist() == [DIGITS[HELD + 5], DIGITS[HELD], DIGITS[HELD]]
    assert split.raw.dtype == torch.uint8
    beyond = (numpy.array([2**64 - 1], "uint64"), [len(split)], [-len(split) - 1])
    for wrong in (*beyond, [], [1.5], [True, False], [[0]], 0, "a", None):
        with pytest.raises(RequestError, match="Examples are chosen by a list of numbers from 0 to"):
            split.batch(wrong, CPU)


# the real training images


@pytest.mark.data
def test_the_real_training_images():
    entry = spec("star-16x64-pmnist")
    data = task_data(entry.task, entry.dataset)
    train, validation = data.split("train"), data.split("validation")
    assert (len(train), len(validation)) == (55_000, 5_000)
    assert train.digests == {name: PUBLISHED[name] for name in (IMAGES, LABELS)}
    pixels = torch.cat([validation.raw, train.raw]).double() / 255
    for each in (t for t in registry.load_registry().all_tasks.values() if t.dataset == "mnist"):
        assert (each.mean, each.std) == (round(pixels.mean().item(), 4), round(pixels.std().item(), 4))
    counts = torch.cat([validation.targets, train.targets]).bincount().tolist()
    assert counts == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert validation.targets[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]


def test_data_that_cannot_be_had_are_said_to_be_so():
    for name in ("tum", "tum-steps", "toxic-short", "toxic-long"):
        known = registry.load_registry()
        with pytest.raises(DataError, match=r"not freely available.*https://.*\.com"):
            task_data(known.all_tasks[name]).split("test")


# data of one's own

MINE = """
import torch
from zoo.data.base import Split, TaskData


class Mine(TaskData):
    def read(self, name):
        generator = torch.Generator().manual_seed(len(name))
        x = torch.rand(60, self.task.steps, 28, generator=generator)
        return Split(x, (x[:, -1, 0] > 0.5).long(), {}, lambda raw: raw)
"""


def test_a_family_may_be_a_class_of_ones_own(small_zoo, run, tmp_path, monkeypatch):
    path = small_zoo({"epochs": 2, "batch_size": 20}) / "registry.yaml"
    content = json.loads(path.read_text())
    content["task_grids"]["mnist"]["tasks"]["mnist-rows"]["family"] = "my_tasks:Mine"
    path.write_text(json.dumps(content))
    registry.clear_caches()
    name, out = "rnn-1x8-mnist-rows", str(tmp_path / "run")
    code, _, err = run("train", name, "--out", out, "--device", "cpu")
    assert code == 1
    assert "The task family my_tasks:Mine cannot be imported (No module named 'my_tasks')." in err
    (tmp_path / "my_tasks.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    assert run("train", name, "--out", out, "--device", "cpu")[0] == 0
    code, text, _ = run("eval", out, "--device", "cpu", "--json")
    assert (code, json.loads(text)["n"]) == (0, 60)
    (tmp_path / "my_tasks.py").write_text(MINE.replace("rand(60,", "rand(60 * (name != 'validation'),"))
    monkeypatch.delitem(sys.modules, "my_tasks")
    code, _, err = run("train", name, "--out", str(tmp_path / "other"), "--device", "cpu")
    assert (code, "has no examples in its validation split" in err) == (1, True)


class Given(TaskData):
    """The data that a test gives."""

    def __init__(self, made: Callable[[], Any], **changes: Any):
        known = registry.load_registry()
        task = known.all_tasks["mnist-rows"].model_copy(
            update={"input": (2,), "steps": 5, "outputs": 3, "readout": "every", **changes}
        )
        super().__init__(task, known.datasets["mnist"])
        self.made = made

    def read(self, name: str) -> Split:
        return self.made()


X, LENGTHS = torch.rand(4, 5, 2), torch.tensor([5, 3, 4, 5])
TAGS = torch.where(torch.arange(5) < LENGTHS[:, None], 1, IGNORED)
NOTES = torch.where(torch.arange(5)[:, None] < LENGTHS[:, None, None], 1, IGNORED).expand(4, 5, 3).to(torch.int8)
VALUES = torch.where(NOTES == IGNORED, torch.nan, NOTES.float())


def ending(x: Tensor, value: float) -> Tensor:
    """A copy of targets with another value for the last output of the first example."""
    x = x.clone()
    x.flatten(1)[0, -1] = value
    return x


@pytest.mark.parametrize(("target", "targets"), [("class", TAGS), ("binary", NOTES), ("value", VALUES)])
def test_targets_of_every_step_are_cut_with_their_sequences(target: str, targets: Tensor) -> None:
    split = Given(lambda: Split(X, targets, {}, lengths=LENGTHS), target=target).split("train")
    x, y, _ = split.batch([1, 2])
    assert split.per_step
    assert x.shape[1] == y.shape[1] == 4


@pytest.mark.parametrize(("target", "targets", "words"), [
    ("class", torch.ones(4, 5, dtype=torch.long), "has targets beyond the end of a sequence"),
    ("class", TAGS[:, :4], "has targets of 4 time steps for x of 5"),
    ("binary", ending(NOTES, 7), "has binary targets that are neither 0 nor 1"),
    ("binary", ending(NOTES, -1), "has binary targets that are neither 0 nor 1"),
    ("binary", ending(NOTES, IGNORED), "has a step where some of the targets are missing"),
    ("value", NOTES.long(), "has targets that are no finite numbers"),
    ("value", ending(VALUES, torch.inf), "has targets that are no finite numbers"),
])  # fmt: skip
def test_targets_that_do_not_fit_are_refused(target: str, targets: Tensor, words: str) -> None:
    with pytest.raises(DataError, match=f"The train split that Given reads {words}"):
        Given(lambda: Split(X, targets, {}, lengths=LENGTHS), target=target).split("train")


def test_data_that_are_no_numbers_are_doubted() -> None:
    assert Split(X, TAGS, {}).doubt == Split(X[..., 0].to(torch.uint8), TAGS, {}).doubt == ""
    odd = Split(torch.cat([X, torch.full((1, 5, 2), torch.nan)]), TAGS, {})
    assert odd.doubt == " Example 4 of these data has a number that is infinite or NaN."


def test_what_a_family_of_ones_own_raises_or_returns_is_said() -> None:
    with pytest.raises(
        DataError, match=r"its test split cannot be read \(KeyError in .*test_tasks\.py, line \d+: 'text'\)"
    ):
        Given(lambda: {}["text"]).split("test")
    with pytest.raises(DataError, match=r"Given\.read returns None; it must return a zoo\.data\.base\.Split"):
        Given(lambda: None).split("test")
    with pytest.raises(DataError, match="has stream=True, but the task's `form` is"):
        Given(lambda: Split(X, TAGS, {}, stream=True)).split("test")


def test_a_file_is_read_before_an_older_gzipped_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path))
    folder = tmp_path / "mnist"
    folder.mkdir()
    (folder / "a.csv.gz").write_bytes(gzip.compress(b"old"))
    (folder / "a.csv").write_bytes(b"new")
    (folder / "b.tar.gz").write_bytes(gzip.compress(b"whole"))
    monkeypatch.setattr(originals, "is_locked", lambda *_: True)
    dataset = registry.load_registry().datasets["mnist"]
    assert originals.read_verified(dataset, "a.csv") == b"new"
    assert originals.read_verified(dataset, "b.tar.gz") == b"whole"


# digests of data, in cards/lock.json


def test_a_dataset_without_digests_is_refused_until_it_is_locked(small_zoo, run):
    root = small_zoo()
    path = root / "cards" / "lock.json"
    expected = json.loads(path.read_text())["datasets"]["mnist"]
    content = json.loads(path.read_text())
    del content["datasets"]["mnist"]
    path.write_text(json.dumps(content))
    registry.clear_caches()
    with pytest.raises(DataError, match=r"has no digest in cards/lock\.json"):
        examples("mnist-rows", "train")
    code, out, _ = run("release", "mnist", "--json")
    assert (code, json.loads(path.read_text())["datasets"]["mnist"]) == (0, expected)
    assert all(digest in out for digest in expected.values())
    assert len(examples("mnist-rows", "train")) == 160


def test_a_file_that_changed_after_it_was_locked_is_refused(small_zoo, tmp_path):
    small_zoo()
    path = tmp_path / "data" / "mnist" / "train-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1]))
    with pytest.raises(DataError, match="sha256 differs"):
        examples("mnist-rows", "train")


@pytest.mark.parametrize(("task", "files", "words"), [
    ("shakespeare", (), "`files` name 0 files, and its family reads 1"), ("pima", ("a", "b"), "name 2 files"),
    ("wikitext2-words", ("a",), "name 1 file, and its family reads 3"),
])  # fmt: skip
def test_a_family_reads_the_number_of_files_that_the_registry_must_name(task, files, words):
    known = registry.load_registry()
    dataset = known.datasets[known.all_tasks[task].dataset].model_copy(update={"files": files})
    with pytest.raises(DataError, match=words):
        task_data(known.all_tasks[task], dataset).split("test")
