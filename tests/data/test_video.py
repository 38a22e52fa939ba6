"""Video: the head of convolutions against its equations, and the two readers on tiny made-up clips."""

import hashlib
import io

import numpy
import pytest
import torch
from pydantic import ValidationError
from torch.nn import functional as F

from zoo import registry
from zoo.data import task_data, video
from zoo.errors import DataError, RequestError
from zoo.networks import loading
from zoo.networks.builder import build
from zoo.networks.sizes import counts, multiply_adds, parameters
from zoo.registry.schema import Architecture, Config, ConvHead, Interface
from zoo.training import step as training_step
from zoo.training import trainer
from zoo.training.evaluation import measure

FILE = "nmnist_small_events.npz"
CPU = torch.device("cpu")
HEAD = ConvHead(filters=(5, 6), kernel=3, stride=2)


def config(readout="mean", head=HEAD, **changes):
    architecture = Architecture(cell="star", layers=2, units=3, kernel=3, head=head, **changes)
    interface = Interface(input=(2, 7, 6), steps=4, outputs=4, readout=readout)
    return Config(name="small", task="none", architecture=architecture, interface=interface)


# the head


def by_hand(net, image):
    """Logits of (batch, channels, height, width) by shifted sums of products."""
    for weight, bias in ((c.weight, c.bias) for c in net.neck.convolutions):
        padded = F.pad(image, (1, 1, 1, 1))
        height, width = image.shape[2:]
        full = sum(
            torch.einsum("oi,bihw->bohw", weight[:, :, i, j], padded[:, :, i : i + height, j : j + width])
            for i in range(3) for j in range(3)
        )  # fmt: skip
        image = (full + bias[:, None, None])[:, :, ::2, ::2].clamp(min=0)
    return image.mean((2, 3)) @ net.head.weight.T + net.head.bias


@pytest.mark.parametrize("readout", ["last", "mean", "every"])
def test_a_head_of_convolutions_is_its_equations(readout):
    net = build(config(readout), device="cpu", dtype=torch.float64)
    with torch.no_grad():
        for convolution in net.neck.convolutions:
            convolution.bias.copy_(torch.linspace(-0.1, 0.1, len(convolution.bias)))
    x = torch.randn(3, 4, 2, 7, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    states = net.features(x)[-1]
    if readout == "every":
        expected = torch.stack([by_hand(net, h) for h in states.unbind(1)], 1)
    else:
        expected = by_hand(net, states[:, -1] if readout == "last" else states.mean(1))
    torch.testing.assert_close(net(x), expected)
    state = None
    for t in range(4):
        logits, state = net.step(x[:, t], state)
    torch.testing.assert_close(logits, expected[:, -1] if readout == "every" else expected)


def test_counts_of_a_head():
    net, plain = (build(config(head=head), device="meta") for head in (HEAD, None))
    added = (3 * 9 * 5 + 5) + (5 * 9 * 6 + 6) + (6 - 3) * 4
    assert parameters(net) - parameters(plain) == added
    # 7 x 6 becomes 4 x 3 and then 2 x 2
    assert multiply_adds(net) - multiply_adds(plain) == 12 * 3 * 9 * 5 + 4 * 5 * 9 * 6 + (6 - 3) * 4
    assert multiply_adds(build(config("every"), device="meta"), 2) - multiply_adds(
        build(config("every"), device="meta"), 1
    ) > multiply_adds(net, 2) - multiply_adds(net, 1)


def test_initial_values_of_a_head():
    net = build(config(init={"input": "orthogonal"}), device="cpu")
    for convolution in net.neck.convolutions:
        flat = convolution.weight.flatten(1)
        torch.testing.assert_close(flat @ flat.T, torch.eye(len(flat)))
        assert not convolution.bias.any()
    assert net.reset_head(9) is None
    assert net(torch.zeros(1, 4, 2, 7, 6)).shape == (1, 9)


def test_a_head_of_convolutions_needs_images():
    with pytest.raises(ValidationError, match="needs a network with a 'kernel'"):
        Architecture(cell="star", layers=1, units=2, head=HEAD)
    with pytest.raises(ValidationError, match="odd"):
        Architecture(cell="star", layers=1, units=2, kernel=3, head=ConvHead(filters=(2,), kernel=4))


def test_the_document_s_network():
    """Turkoglu et al. 2019, C.3: kernels of 3 x 3, 64 filters, and a head of 128, 128, 256, 256."""
    star = 3 * 9 * 64 * 64 + 2 * 64  # two maps of the layer below and one of the state
    first = 9 * (2 * 3 * 64 + 64 * 64) + 2 * 64
    head = 9 * (64 * 128 + 128 * 128 + 128 * 256 + 256 * 256) + 128 + 128 + 256 + 256 + 257 * 27
    assert counts("convstar-12x64-jester").parameters == first + 11 * star + head


def test_figures_of_table_5():
    printed = {1: (87.1, 83.9, 84.0), 2: (90.3, 90.2, 89.6), 4: (91.4, 91.4, 91.3), 8: (91.8, 92.0, 92.3),
               12: (9.0, 92.0, 92.5), 16: (9.0, 9.9, 92.4)}  # fmt: skip
    found = {n: m.reported for n, m in registry.models().items() if any(r.table == "Table 5" for r in m.reported)}
    assert {n: [r.percent for r in reported] for n, reported in found.items()} == {
        f"conv{cell}-{layers}x64-jester": [figure]
        for layers, figures in printed.items() for cell, figure in zip(("lstm", "lstm-f", "star"), figures, strict=True)
    }  # fmt: skip
    recipe = registry.find("convstar-12x64-jester").recipe
    first, last = (recipe.optimizer.lr * training_step.schedule(recipe.schedule, step, 1000) for step in (0, 1000))
    assert (first, last) == (1e-3, pytest.approx(1e-6))
    assert (recipe.batch_size, recipe.epochs) == (8, 30)
    assert (recipe.optimizer.momentum, recipe.optimizer.weight_decay) == (0.9, 5e-5)


# event-camera clips


def events(**changes):
    """Clips of which the frames are known: clip i has i + 1 events at the corner (0, 33), the last one late."""
    made = {}
    for part, n in (("train", 30), ("test", 6)):
        sizes = numpy.arange(1, n + 1)
        total = int(sizes.sum())
        times = numpy.zeros(total, "int32")
        times[sizes.cumsum() - 1] = 99_999
        made |= {
            f"{part}_x": numpy.zeros(total, "uint8"), f"{part}_y": numpy.full(total, 33, "uint8"),
            f"{part}_p": numpy.ones(total, "uint8"), f"{part}_t_us": times,
            f"{part}_offsets": numpy.concatenate([[0], sizes.cumsum()]), f"{part}_label": numpy.arange(n) % 10,
            f"{part}_file_id": numpy.arange(n),
        }  # fmt: skip
    buffer = io.BytesIO()
    numpy.savez_compressed(buffer, **made | changes)
    return buffer.getvalue()


def clips(tmp_path, monkeypatch, content, **changes):
    (tmp_path / "nmnist_small").mkdir(exist_ok=True)
    (tmp_path / "nmnist_small" / FILE).write_bytes(content)
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path))
    known = registry.load_registry()
    pin = {"sha256": {FILE: hashlib.sha256(content).hexdigest()}, "validation": changes.pop("validation", 5)}
    return task_data(
        known.tasks["nmnist-small"].model_copy(update=changes), known.datasets["nmnist-small"].model_copy(update=pin)
    )


def test_frames_of_events(tmp_path, monkeypatch):
    data = clips(tmp_path, monkeypatch, events())
    splits = {name: data.split(name) for name in ("train", "validation", "test")}
    assert [len(split) for split in splits.values()] == [25, 5, 6]
    sizes = {name: split.raw.sum((1, 2, 3, 4)) for name, split in splits.items()}
    assert sizes["test"].tolist() == [1, 2, 3, 4, 5, 6]
    assert sorted([*sizes["train"].tolist(), *sizes["validation"].tolist()]) == list(range(1, 31))
    for name, split in splits.items():
        assert torch.equal(split.targets, (sizes[name] - 1) % 10)
        assert torch.equal(split.raw[:, -1, 1, 16, 0], torch.ones(len(split), dtype=torch.uint8))
        assert torch.equal(split.raw[:, 0, 1, 16, 0], sizes[name] - 1)
    x, _, lengths = splits["test"].batch(torch.arange(6), CPU)
    assert (x.shape, lengths) == ((6, 10, 2, 17, 17), None)
    assert float(x[5, 0, 1, 16, 0]) == pytest.approx(numpy.log(6))
    found = measure(build("convstar-1x8-nmnist-small", device="cpu"), splits["test"], "class", 4)
    assert found.n == 6
    finer = clips(tmp_path, monkeypatch, events(), input=(2, 34, 34), steps=3).split("test")
    assert finer.raw.shape == (6, 3, 2, 34, 34)
    assert torch.equal(finer.raw[:, -1, 1, 33, 0], torch.ones(6, dtype=torch.uint8))


def test_other_events_are_a_data_error(tmp_path, monkeypatch):
    for content in (events(test_x=numpy.array([{}], dtype=object)), b"PK no zip", b""):
        with pytest.raises(DataError, match="lacks one of the arrays"):
            clips(tmp_path, monkeypatch, content).split("test")
    data = clips(tmp_path, monkeypatch, events())
    (tmp_path / "nmnist_small" / FILE).unlink()
    with pytest.raises(DataError, match=r"was not found in .*github\.com/bamsumit"):
        data.split("test")
    with pytest.raises(RequestError, match="no layout"):
        clips(tmp_path, monkeypatch, events(), layout="events")
    with pytest.raises(DataError, match="has no examples in its validation split"):
        clips(tmp_path, monkeypatch, events(), validation=0).split("validation")


def test_training_on_clips(tmp_path, monkeypatch):
    content = events()
    data = clips(tmp_path, monkeypatch, content)
    monkeypatch.setattr(trainer, "task_data", lambda task, dataset: data)
    entry = registry.find("convstar-1x8-nmnist-small")
    found = trainer.train(entry, tmp_path / "run", device="cpu", overrides={"epochs": 2, "batch_size": 5})
    assert found.epochs_done == 2
    loaded = loading.load(tmp_path / "run", device="cpu")
    assert loaded.config.architecture.head == entry.model.head


def test_the_stand_in_says_so(run):
    _, out, _ = run("card", "convstar-2x8-nmnist-small")
    assert "The data stand in for 20BN-Jester hand gestures, so figures on the two are not comparable." in out
    assert "a stand-in for gesture video" in out
    assert "3 x 3 to 16, 16, 32, 32 channels, stride 2, ReLU" in out


# 20BN-Jester


@pytest.fixture
def jester(tmp_path, monkeypatch):
    """A folder laid out as the dataset is given out: eight training clips, two for validation, of two gestures."""
    image = pytest.importorskip("PIL.Image")
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path))
    root = tmp_path / "jester"
    for number in range(1, 11):
        folder = root / "20bn-jester-v1" / str(number)
        folder.mkdir(parents=True)
        for frame in range(1, 5 if number == 10 else 41):
            picture = numpy.full((10, 16, 3), (255, 5 * frame, 0), "uint8")
            image.fromarray(picture).save(folder / f"{frame:05d}.jpg", quality=95)
    (root / "jester-v1-labels.csv").write_text("Swiping Left\nNo gesture\n")
    lines = [f"{number};{('No gesture', 'Swiping Left')[number % 2]}\n" for number in range(1, 11)]
    (root / "jester-v1-train.csv").write_text("".join(lines[:8]))
    (root / "jester-v1-validation.csv").write_text("".join(lines[8:]))
    known = registry.load_registry()
    return root, task_data(known.tasks["jester"], known.datasets["jester"].model_copy(update={"validation": 2}))


def test_gestures_as_they_are_given_out(jester):
    _, data = jester
    splits = {name: data.split(name) for name in ("train", "validation", "test")}
    assert [len(split) for split in splits.values()] == [6, 2, 2]
    assert sorted([*splits["train"].raw.tolist(), *splits["validation"].raw.tolist()]) == list(range(1, 9))
    for split in splits.values():
        assert torch.equal(split.targets, 1 - split.raw % 2)
    assert splits["test"].raw.tolist() == [9, 10]
    x, _, _ = splits["test"].batch(torch.arange(2), CPU)
    assert x.shape == (2, 32, 3, 112, 112)
    green = 255 * x[:, :, 1].mean((2, 3))
    assert (green[0] - 5 * torch.arange(5, 37)).abs().max() < 3  # the middle 32 of 40
    assert (green[1] - 5 * torch.tensor([1, 2, 3] + [4] * 29)).abs().max() < 3  # four, the last repeated
    assert (x[:, :, 0].mean(), x[:, :, 2].mean()) == (pytest.approx(1, abs=0.02), pytest.approx(0, abs=0.02))


def test_gestures_that_are_not_there(jester):
    root, data = jester
    (root / "20bn-jester-v1" / "9" / "00010.jpg").write_bytes(b"no picture")
    with pytest.raises(DataError, match="not an image"):
        data.split("test").batch(torch.arange(1), CPU)
    for path in (root / "20bn-jester-v1" / "9").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="has no frames"):
        data.split("test").batch(torch.arange(1), CPU)
    (root / "jester-v1-train.csv").write_text("1;Waving\n")
    with pytest.raises(DataError, match="has the line '1;Waving'"):
        data.split("train")
    (root / "jester-v1-train.csv").unlink()
    with pytest.raises(DataError, match=r"was not found.*on request at https://20bn\.com"):
        data.split("train")
    with pytest.raises(RequestError, match="no layout"):
        task_data(data.task.model_copy(update={"layout": "events"}), data.dataset)


@pytest.mark.data
def test_the_real_clips():
    known = registry.load_registry()
    data = task_data(known.tasks["nmnist-small"], known.datasets["nmnist-small"])
    splits = [data.split(name) for name in ("train", "validation", "test")]
    assert [len(split) for split in splits] == [900, 100, 100]
    assert int(sum(split.raw.sum(dtype=torch.int64) for split in splits)) == 4_133_231 + 385_596  # no count overflows


def test_counts_end_at_255():
    known = registry.load_registry().all_tasks["nmnist-small"]
    task = known.model_copy(update={"input": (2, 1, 1), "steps": 2})
    events = numpy.zeros(700, "int64")
    times = numpy.concatenate([numpy.zeros(600, "int64"), numpy.full(100, 9)])
    frames = video.NMNIST(task, registry.load_registry().datasets[known.dataset])._frames(events, events, events, times)
    assert frames[:, 0, 0, 0].tolist() == [255, 100]
    assert frames.dtype == numpy.uint8
