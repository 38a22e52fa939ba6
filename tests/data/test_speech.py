"""Spoken digits: frames as numpy computes them, the same live as at once, and splits by recording and by speaker."""

import hashlib
import io
import math
import struct

import numpy
import pytest
import torch
from helpers import wav

from zoo import registry
from zoo.data import speech, task_data
from zoo.data.inputs import read_example
from zoo.errors import DataError, RequestError
from zoo.networks.builder import build

FILE = "fsdd_8khz_int16.npz"
SPEAKERS = ("theo", "yweweler")


def recording(seconds: float, seed: int = 0) -> numpy.ndarray:
    """Return a whistle in noise, int16."""
    n = int(seconds * 8000)
    noise = numpy.random.RandomState(seed).standard_normal(n)
    return (8000 * numpy.sin(numpy.arange(n) * 0.7) + 300 * noise).astype("int16")


def reference(samples: numpy.ndarray) -> numpy.ndarray:
    """Return log-mel frames by the definition, in float64, a frame and a band at a time."""

    def mel(f):
        return 2595 * math.log10(1 + f / 700)

    edges = [700 * (10 ** ((mel(60) + i * (mel(4000) - mel(60)) / 33) / 2595) - 1) for i in range(34)]
    hann = 0.5 - 0.5 * numpy.cos(2 * numpy.pi * numpy.arange(200) / 200)
    rows = []
    for start in range(0, len(samples) - 199, 80):
        windowed = samples[start : start + 200] / 32768 * hann
        turns = numpy.exp(-2j * numpy.pi * numpy.outer(numpy.arange(129), numpy.arange(200)) / 256)
        power = abs(turns @ windowed) ** 2
        row = []
        for low, centre, high in zip(edges, edges[1:], edges[2:], strict=False):
            weight = [
                max(0, min((f - low) / (centre - low), (high - f) / (high - centre))) for f in numpy.arange(129) * 31.25
            ]
            row.append(math.log(float(power @ weight) + 1e-6))
        rows.append(row)
    return numpy.array(rows)


def test_frames_are_those_of_the_definition():
    samples = recording(0.1)
    frames = speech.log_mel(torch.from_numpy(samples))
    numpy.testing.assert_allclose(frames.numpy(), reference(samples.astype(float)), rtol=1e-3, atol=1e-3)
    as_float = torch.from_numpy(samples).float() / 32768
    torch.testing.assert_close(speech.log_mel(as_float), frames)


@pytest.mark.parametrize("sizes", [[1] * 50 + [350, 79, 80, 81, 200, 40], [199, 1, 800], [1000]])
def test_a_live_stream_has_the_frames_of_the_whole_recording(sizes):
    samples = torch.from_numpy(recording(0.2)[: sum(sizes)])
    live = speech.LogMel()
    parts = [live(part) for part in samples.split(sizes)]
    torch.testing.assert_close(torch.cat(parts), speech.log_mel(samples), rtol=1e-5, atol=1e-5)


def test_a_network_that_listens_live_says_what_it_says_of_the_recording():
    network = build("gru-1x128-fsdd", device="cpu").eval()
    samples = torch.from_numpy(recording(0.4))
    live, state, logits = speech.LogMel(), None, None
    with torch.no_grad():
        for part in samples.split(160):
            for frame in live(part):
                logits, state = network.step(frame[None], state)
        torch.testing.assert_close(logits, network(speech.log_mel(samples)[None]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.bool])
def test_samples_whose_full_scale_is_unknown_are_refused(dtype):
    with pytest.raises(RequestError, match="Samples are int16, or float"):
        speech.LogMel()(torch.ones(400).to(dtype))
    for known in (torch.int16, torch.float16, torch.float64):
        assert speech.LogMel()(torch.ones(400).to(known)).dtype == torch.float32


def test_two_channels_are_refused():
    for shape in ((2, 400), (400, 2)):
        with pytest.raises(RequestError, match="Samples are one channel"):
            speech.LogMel()(torch.ones(shape))


def test_recordings_shorter_than_a_frame_and_none_at_all():
    short = torch.from_numpy(recording(0.01))
    torch.testing.assert_close(speech.log_mel(short), speech.log_mel(torch.cat([short, short.new_zeros(120)])))
    with pytest.raises(RequestError, match="this one has none"):
        speech.log_mel(torch.zeros(0))


def packed(**changes):
    """A small .npz in the layout of the real one: two speakers, two digits, twelve recordings of each."""
    rows = [(s, d, i) for s in SPEAKERS for d in (0, 1) for i in range(12)]
    parts = [recording(0.05 + 0.01 * (k % 5), k) for k in range(len(rows))]
    arrays = {
        "audio": numpy.concatenate(parts), "offsets": numpy.cumsum([0, *map(len, parts)]),
        "speaker": numpy.array([s for s, _, _ in rows]), "digit": numpy.array([d for _, d, _ in rows]),
        "index": numpy.array([i for _, _, i in rows]),
    } | changes  # fmt: skip
    buffer = io.BytesIO()
    numpy.savez(buffer, **arrays)
    return buffer.getvalue(), rows, parts


@pytest.fixture
def small(tmp_path, monkeypatch):
    def data(content, task="fsdd"):
        (tmp_path / "fsdd").mkdir(exist_ok=True)
        (tmp_path / "fsdd" / FILE).write_bytes(content)
        monkeypatch.setenv("RNNZOO_DATA", str(tmp_path))
        pin = {"sha256": {FILE: hashlib.sha256(content).hexdigest()}}
        known = registry.load_registry()
        return task_data(known.all_tasks[task], known.datasets["fsdd"].model_copy(update=pin))

    return data


@pytest.mark.parametrize("task", ["fsdd", "fsdd-speakers"])
def test_the_splits_part_recordings_or_speakers(small, task):
    content, rows, parts = packed()
    data = small(content, task)
    seen = []
    for name in ("test", "validation", "train"):
        split = data.split(name)
        chosen = [k for k, (speaker, _, i) in enumerate(rows) if part_of(task, speaker, i) == name]
        assert split.targets.tolist() == [rows[k][1] for k in chosen]
        for row, k in enumerate(chosen):
            frames = speech.log_mel(torch.from_numpy(parts[k]))
            assert split.lengths[row] == len(frames)
            assert torch.equal(split.raw[row, : len(frames)], frames)
        x, _, lengths = split.batch(torch.arange(2))
        assert x.shape == (2, int(lengths.max()), 32)
        seen += chosen
    assert sorted(seen) == list(range(len(rows)))


def part_of(task: str, speaker: str, index: int) -> str:
    if task == "fsdd":
        return "test" if index < 5 else "validation" if index < 10 else "train"
    return "test" if speaker == "yweweler" else "validation" if index < 5 else "train"


@pytest.mark.parametrize("changes", [
    {"audio": numpy.zeros(9, "float32")}, {"offsets": numpy.arange(49)}, {"index": numpy.full(48, 30)}
])  # fmt: skip
def test_other_recordings_are_a_data_error(small, changes):
    with pytest.raises(DataError, match="the recordings are not those"):
        small(packed(**changes)[0]).split("test")


def test_a_recording_of_ones_own_is_read_as_the_task_reads_its():
    network, samples = build("gru-1x128-fsdd", device="cpu"), recording(0.3)
    x, lengths = read_example(network, wav(samples))
    assert lengths is None
    assert torch.equal(x[0], speech.log_mel(torch.from_numpy(samples)))
    known = registry.load_registry()
    data = task_data(known.all_tasks["fsdd"], known.datasets["fsdd"])
    assert torch.equal(data.read_file("any", wav(samples)), x)
    pixels = known.all_tasks["mnist-rows"]
    assert task_data(pixels, known.datasets["mnist"]).read_file("any", wav(samples)) is None


@pytest.mark.parametrize(("content", "message"), [
    (wav(recording(0.1), channels=2), "2 channels"), (wav(recording(0.1), rate=44100), "44,100 Hz"),
    (wav(recording(0.1), width=1), "8-bit integers"), (wav(recording(0.0)), "has no audio.$"), (b"seven", "not a WAV file"),
    (b"", "this file is empty.$"), (wav(recording(0.1))[:30], "ends before its audio"), (wav(recording(0.1))[:36], "ends before its audio"),
    (wav(recording(0.1))[:12] + wav(recording(0.1))[36:], "without a format before its audio.$"),
    (wav(recording(0.1))[:45], "has 1 byte of audio, but its header promises 1,600"),
    (wav(recording(0.1))[:20] + b"\x11\x00" + wav(recording(0.1))[22:], r"another encoding .*code is 17"),
    (wav(recording(0.1))[:40] + bytes(4), "has no audio"), (wav(recording(0.1))[:40] + bytes(4) + b"a", "has no audio"),
])  # fmt: skip
def test_bad_audio_is_refused(content, message):
    with pytest.raises(RequestError, match=message):
        read_example(build("gru-1x128-fsdd", device="cpu"), content)


def wav_of_floats(samples, width=4):
    """A WAV file of floats, which the module wave cannot write."""
    data = samples.numpy().tobytes()
    header = struct.pack("<HHIIHH", 3, 1, 8000, 8000 * width, width, 8 * width)
    sizes = [struct.pack("<I", size) for size in (36 + len(data), 16, len(data))]
    return b"RIFF" + sizes[0] + b"WAVEfmt " + sizes[1] + header + b"data" + sizes[2] + data


@pytest.mark.parametrize("size", [0x7FFF0000, 0xFFFFFFFF])
def test_audio_from_a_pipe_ends_with_the_file(size):
    whole = wav(recording(0.1))
    piped = whole[:40] + struct.pack("<I", size) + whole[44:]
    network = build("gru-1x128-fsdd", device="cpu")
    assert torch.equal(read_example(network, piped)[0], read_example(network, whole)[0])


def test_chunks_before_the_audio_and_extensible_formats_are_read():
    """A list of texts that holds the name of the format, and a format that has the code of its encoding further on."""
    whole = wav(recording(0.1))
    form, rest = whole[20:36], whole[36:]
    texts = b"LIST" + struct.pack("<I", 9) + b"fmt \x03\x00abc" + b"\0"  # of odd length, so a byte fills it up
    extended = struct.pack("<H", 0xFFFE) + form[2:] + struct.pack("<HHIH", 22, 16, 4, 1) + bytes(14)
    network = build("gru-1x128-fsdd", device="cpu")
    expected, _ = read_example(network, whole)
    for inner in (texts + whole[12:], b"fmt " + struct.pack("<I", 40) + extended + rest):
        content = b"RIFF" + struct.pack("<I", 4 + len(inner)) + b"WAVE" + inner
        assert torch.equal(read_example(network, content)[0], expected)


def test_floats_are_read_as_integers_are():
    network = build("gru-1x128-fsdd", device="cpu")
    integers = torch.randint(-9999, 9999, (900,), dtype=torch.int16)
    expected, _ = read_example(network, wav(integers.numpy()))
    x, _ = read_example(network, wav_of_floats(integers.float() / 32768))
    torch.testing.assert_close(x, expected)
    for content, message in (
        (wav_of_floats(integers.double(), width=8), "64-bit floats"), (wav(integers.numpy(), width=3), "24-bit integers"),
        (wav(integers.numpy(), width=4), "32-bit integers"), (wav_of_floats(torch.full((900,), torch.nan)), "or NaN"),
        (wav_of_floats(integers.float()), "Divide samples in the scale of int16 by 32768"),
    ):  # fmt: skip
        with pytest.raises(RequestError, match=message):
            read_example(network, content)


@pytest.mark.parametrize(("samples", "message"), [
    (torch.zeros(2, 900), "Average the channels"), (torch.zeros(900, dtype=torch.int32), "got torch.int32"),
    (torch.tensor([0.1, torch.nan]), "or NaN"), (torch.tensor([-torch.inf]), "or NaN"), (torch.tensor([17.0]), "by 32768"),
    (numpy.zeros(900), "torch.from_numpy"), ([0.0], "Samples are a tensor"),
])  # fmt: skip
def test_samples_that_cannot_be_read_are_refused_in_parts_and_at_once(samples, message):
    for read in (speech.LogMel(), speech.log_mel):
        with pytest.raises(RequestError, match=message):
            read(samples)


def test_a_refused_part_changes_nothing():
    reader, samples = speech.LogMel(), torch.rand(900)
    first = reader(samples[:400])
    with pytest.raises(RequestError, match="or NaN"):
        reader(torch.full((100,), torch.nan))
    torch.testing.assert_close(torch.cat([first, reader(samples[400:])]), speech.log_mel(samples))


@pytest.mark.data
def test_the_real_recordings():
    known = registry.load_registry()
    expected = {"fsdd": (2400, 300, 300), "fsdd-speakers": (2250, 250, 500)}
    for name, sizes in expected.items():
        task = known.all_tasks[name]
        splits = [task_data(task, known.datasets["fsdd"]).split(part) for part in ("train", "validation", "test")]
        assert tuple(map(len, splits)) == sizes
        train = splits[0]
        frames = train.raw[torch.arange(train.raw.shape[1]) < train.lengths[:, None]]
        assert (float(frames.mean()), float(frames.std())) == pytest.approx((task.mean, task.std), abs=2e-3)
        assert all(split.targets.bincount().unique().numel() == 1 for split in splits)  # as many of each digit


def test_a_recording_that_breaks_off_within_a_sample_is_read_up_to_there():
    content = bytearray(wav(recording(0.1)))
    content[40:44] = b"\xff" * 4  # of unknown size
    whole = speech.read_samples("any", content[: 44 + 2 * 500])
    assert len(whole) == 500
    assert torch.equal(speech.read_samples("any", content[: 44 + 2 * 500 + 1]), whole)


def test_frames_are_float32_and_have_gradients_whatever_was_done_before():
    speech.mel_bands.cache_clear()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.inference_mode():
            assert speech.log_mel(torch.zeros(400, dtype=torch.float32)).dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)
    samples = torch.rand(400, requires_grad=True)
    speech.log_mel(samples).sum().backward()
    assert samples.grad is not None
    assert samples.grad.any()
