"""Piano rolls: read as scipy reads them, predicted a frame ahead, and measured as Bai et al. 2018 measure."""

import hashlib
import os
import struct
import zlib

import numpy
import pytest
import torch
from torch.nn import functional as F

from zoo import Architecture, Config, Interface, Network, build, registry
from zoo.checkpoints import results
from zoo.data import task_data
from zoo.data.base import IGNORED
from zoo.data.matlab import cell_arrays
from zoo.errors import DataError, RequestError
from zoo.publishing import cards
from zoo.registry.metrics import TARGETS
from zoo.training.evaluation import evaluate, measure, score
from zoo.training.trainer import train

FILE = "JSB_Chorales.mat"
SIZES = {"traindata": (12, 5, 9, 2), "validdata": (4, 7), "testdata": (3, 8, 6)}
"""Frames of the pieces of a small file."""
FIGURES = {  # file: pieces, and frames of the training pieces
    "jsb": ((229, 76, 77), 13807), "nottingham": ((694, 173, 170), 176561),
    "muse": ((524, 135, 124), 245202), "piano": ((87, 12, 25), 75911),
}  # fmt: skip


def element(kind: int, content: bytes) -> bytes:
    """Return an element of a .mat file; up to four bytes stand inside the tag."""
    if 0 < len(content) <= 4:
        return struct.pack("<HH", kind, len(content)) + content.ljust(4, b"\0")
    padding = b"" if kind == 15 else bytes(-len(content) % 8)
    return struct.pack("<II", kind, len(content)) + content + padding


def matrix(kind: int, sizes: tuple[int, ...], name: bytes, *parts: bytes) -> bytes:
    flags = struct.pack("<II", kind, 0)
    return element(14, b"".join([element(6, flags), element(5, struct.pack("<2i", *sizes)), element(1, name), *parts]))


def rolls() -> dict[str, list[numpy.ndarray]]:
    source = numpy.random.RandomState(0)
    return {part: [source.randint(0, 2, (n, 88), dtype="uint8") for n in sizes] for part, sizes in SIZES.items()}


def mat(pieces: dict[str, list[numpy.ndarray]], kind: int = 2) -> bytes:
    """Return a .mat file of cell arrays in the layout of the published ones."""
    variables = [
        matrix(1, (1, len(rows)), name.encode(),
               *(matrix(6, row.shape, b"", element(kind, row.tobytes(order="F"))) for row in rows))
        for name, rows in pieces.items()
    ]  # fmt: skip
    return b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + b"".join(element(15, zlib.compress(v)) for v in variables)


def nested(depth: int) -> bytes:
    """Return an element compressed `depth` times."""
    content = b""
    for _ in range(depth):
        content = element(15, zlib.compress(content))
    return content


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Put content in place of the file of the chorales, and return the task's data."""

    def data(content: bytes, task: str = "jsb"):
        (tmp_path / "data" / "poly_music").mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / "poly_music" / FILE).write_bytes(content)
        monkeypatch.setenv("RNNZOO_DATA", str(tmp_path / "data"))
        pin = {"sha256": {FILE: hashlib.sha256(content).hexdigest()}}
        known = registry.load_registry()
        return task_data(known.all_tasks[task], known.datasets["piano-rolls"].model_copy(update=pin))

    return data


def test_a_matlab_file_reads_as_scipy_reads_it(tmp_path):
    pieces = rolls()
    (tmp_path / FILE).write_bytes(mat(pieces))
    ours = cell_arrays(mat(pieces))
    assert list(ours) == list(pieces)
    for name, rows in pieces.items():
        assert all(numpy.array_equal(*pair) for pair in zip(ours[name], rows, strict=True))
    scipy = pytest.importorskip("scipy.io")
    theirs = scipy.loadmat(tmp_path / FILE)
    for name in pieces:
        assert all(numpy.array_equal(*pair) for pair in zip(ours[name], theirs[name][0], strict=True))


@pytest.mark.parametrize(("content", "message"), [
    (b"", "not a MATLAB file"), (b"MATLAB 7.3".ljust(124) + b"\x00\x02IM", "not a MATLAB file"),
    (mat(rolls())[:-40], r"cannot be read \(the MATLAB file is damaged .*Download it again"),
    (mat(rolls())[:140] + bytes(400), "the MATLAB file is damaged"),
    (mat(rolls())[:128] + nested(3000), "the MATLAB file is damaged"),
    (mat(rolls())[:128] + element(14, b"".join(element(kind, b"") for kind in (6, 5, 1))), "an element is not a matrix"),
    (mat(rolls(), kind=9), "is not a matrix of unsigned bytes"),
    (mat({"traindata": rolls()["traindata"]}), "has no variable testdata; it may be another version of the dataset"),
    (mat({"testdata": [numpy.zeros((3, 87), "uint8")]}), "is not a piano roll"),
    (mat({"testdata": [numpy.full((3, 88), 2, "uint8")]}), "is not a piano roll"),
    (mat({"testdata": [numpy.zeros((1, 88), "uint8")]}), "is not a piano roll"),
])  # fmt: skip
def test_other_files_are_a_data_error(small, content, message):
    with pytest.raises(DataError, match=message):
        small(content).split("test")


def test_each_frame_predicts_the_next(small):
    split = small(mat(rolls())).split("train")
    pieces = rolls()["traindata"]
    assert split.lengths.tolist() == [n - 1 for n in SIZES["traindata"]]
    x, y, lengths = split.batch(torch.tensor([1, 3, 2]))
    assert (x.shape, y.shape, x.dtype) == ((3, 8, 88), (3, 8, 88), torch.float32)  # cut to the longest of the batch
    for row, target, n, piece in zip(x, y, lengths.tolist(), (pieces[1], pieces[3], pieces[2]), strict=True):
        assert torch.equal(row[:n], torch.from_numpy(piece[:-1]).float())
        assert torch.equal(target[:n].int(), torch.from_numpy(piece[1:]).int())
        assert (target[n:] == IGNORED).all()
        assert not row[n + 1 :].any()  # the last frame predicts none, and lengths leave it out
    x, y, n = split[3]
    assert (x.shape, y.shape, int(n)) == ((11, 88), (11, 88), 1)  # for a DataLoader, padded to the longest of the split
    with pytest.raises(RequestError, match="A piano roll is"):
        split.prepare(torch.zeros(2, 5, 88))


def tiny(task: str) -> Network:
    """Return a small network for a task of music, with random weights."""
    shapes = Interface.from_task(registry.load_registry().all_tasks[task])
    return build(Config(architecture=Architecture(cell="star", layers=1, units=4), interface=shapes), device="cpu")


def reference(network, pieces) -> float:
    """Return the figure as Bai et al. compute it: piece by piece, log-likelihoods of all keys over the number of frames."""
    total, frames = 0.0, 0
    for piece in pieces:
        roll = torch.from_numpy(piece).double()
        with torch.no_grad():
            p = network(roll[None, :-1].float())[0].sigmoid().double()
        total -= (roll[1:] * p.log() + (1 - roll[1:]) * (1 - p).log()).sum().item()
        frames += len(piece) - 1
    return total / frames


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_the_figure_is_that_of_the_paper_whatever_the_batch(small, batch_size):
    network = tiny("jsb")
    measured = measure(network.eval(), small(mat(rolls())).split("test"), "binary", batch_size)
    assert (measured.n, measured.loss) == (3, measured.metric)
    assert measured.metric == pytest.approx(reference(network, rolls()["testdata"]), rel=1e-5)


def test_a_fixed_predictor_has_the_likelihood_that_its_probabilities_give():
    targets = torch.tensor([[[1, 0], [1, 1]], [[0, 0], [IGNORED, IGNORED]]], dtype=torch.int8)
    logits = torch.logit(torch.tensor([0.25, 0.5])).expand(2, 2, 2).clone().requires_grad_()
    loss, metric, frames = score("binary", logits, targets)
    expected = -torch.tensor([0.25, 0.5, 0.25, 0.5, 0.75, 0.5]).log().sum()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(metric, expected)
    assert frames == 3
    loss.backward()
    assert not logits.grad[1, 1].any()
    assert TARGETS["binary"].text(8.4449) == "8.445 nats"


def test_a_fresh_network_predicts_how_often_each_key_sounds(small):
    data, network = small(mat(rolls())), tiny("jsb")
    data.prepare_network(network)
    targets = torch.cat([torch.from_numpy(piece[1:]) for piece in rolls()["traindata"]]).double()
    expected = (targets.sum(0) + 1) / (len(targets) + 2)
    torch.testing.assert_close(network.head.bias.sigmoid().double(), expected, rtol=1e-5, atol=0)


def test_training_measuring_and_the_card(small_zoo, small, tmp_path, run):
    content = mat(rolls())
    small_zoo({"epochs": 2, "batch_size": 2, "optimizer": {"name": "adam", "lr": 0.02}}, cell="gru", task="jsb")
    registry.load_registry().datasets["piano-rolls"] = small(content).dataset
    entry = registry.find("gru-1x8-jsb")
    trained = train(entry, tmp_path / "run", device="cpu")
    assert trained.metric == "nll"
    assert trained.history[-1].train_loss < trained.history[0].train_loss < 88
    measured = evaluate(tmp_path / "run", device="cpu")
    assert measured.value == measured.loss
    results.write(tmp_path / "run", results.read(tmp_path / "run").record(measured))
    text = cards.compose(entry, results.read(tmp_path / "run"), cards.Counts(parameters=1, multiply_adds=1))
    assert f"| measured, test | {measured.value:.3f} nats |" in text
    (tmp_path / "chord.csv").write_text("\n".join(",".join(map(str, row)) for row in rolls()["testdata"][0]))
    code, out, _ = run("predict", str(tmp_path / "run"), str(tmp_path / "chord.csv"), "--top", "3")
    assert (code, len(out.splitlines())) == (0, 4)
    assert out.splitlines()[1].split()[0] in entry.task.classes


def test_keys_have_the_names_of_a_piano():
    names = registry.load_registry().all_tasks["jsb"].classes
    assert (names[0], names[39], names[48], names[-1]) == ("A0", "C4", "A4", "C8")


@pytest.mark.data
@pytest.mark.parametrize("name", FIGURES)
def test_the_real_music(name):
    scipy = pytest.importorskip("scipy.io")
    known = registry.load_registry()
    data = task_data(known.all_tasks[name], known.datasets["piano-rolls"])
    file = os.path.join(os.environ["RNNZOO_DATA"], "poly_music", data.by_layout[name])
    theirs = scipy.loadmat(file)
    splits = [data.split(part) for part in ("train", "validation", "test")]
    assert (tuple(map(len, splits)), int(splits[0].lengths.sum()) + len(splits[0])) == FIGURES[name]
    assert known.all_tasks[name].steps == max(int(split.lengths.max()) for split in splits)
    share = torch.from_numpy(numpy.concatenate(list(theirs["traindata"][0]))).double().mean(0).clamp(1e-4, 1 - 1e-4)
    totals = [F.binary_cross_entropy(share.expand(len(roll) - 1, -1), torch.from_numpy(roll[1:]).double(), reduction="sum")
              for roll in theirs["testdata"][0]]  # fmt: skip
    frames = sum(len(roll) - 1 for roll in theirs["testdata"][0])
    if (guess := known.all_tasks[name].guess) is not None:
        assert guess == pytest.approx(float(sum(totals)) / frames, rel=2e-3)
    network = tiny(name)
    torch.nn.init.zeros_(network.head.weight)
    with torch.no_grad():
        network.head.bias.copy_(torch.logit(share))
    assert measure(network, splits[2], "binary", 32).metric == pytest.approx(float(sum(totals)) / frames, rel=1e-5)
