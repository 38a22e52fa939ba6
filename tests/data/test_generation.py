"""Music from a network: drawn from its own probabilities, the same for the same seed, written as MIDI and as a picture."""

import io
import json
from types import SimpleNamespace

import pytest
import torch
from helpers import default_dtype

from zoo import build, generate, load, registry
from zoo.data import generation
from zoo.data.generation import chords, plays
from zoo.data.midi import draw, midi
from zoo.data.music import Music
from zoo.errors import RequestError

NAME = "star-2x96-jsb"
PROMPT = "C3 G3 E4 C5 | C3 G3 E4 C5"


@pytest.fixture(scope="module")
def network():
    return load(NAME, device="cpu")


def test_the_fast_step_and_the_plain_one_play_the_same(network):
    fast = generate(network, prompt=PROMPT, length=40, seed=3)
    network.backend = "plain"
    try:
        assert torch.equal(generate(network, prompt=PROMPT, length=40, seed=3), fast)
    finally:
        network.backend = "auto"
    assert torch.equal(generate(NAME, prompt=PROMPT, length=40, seed=3), fast)
    assert not torch.equal(generate(network, prompt=PROMPT, length=40, seed=4), fast)
    assert fast.shape == (42, 88)
    assert torch.equal(fast[:2], chords(PROMPT, network.classes))


def test_what_the_command_prints_is_a_prompt(network, run, tmp_path):
    printed = run("generate", NAME, "--length", "12", "--seed", "3", "--out", str(tmp_path / "a.mid"))[1]
    assert torch.equal(chords(printed, network.classes), generate(network, length=12, seed=3))
    assert chords("C3 |\n-\n| E4", network.classes).sum(1).tolist() == [1, 0, 1]
    assert chords("C3 | | E4", network.classes).sum(1).tolist() == [1, 0, 1]
    assert chords(f"C3{' ' * 100_000}G3 \n \n |\t\nE4\n", network.classes).sum(1).tolist() == [2, 1]


def test_without_chance_the_likelier_keys_sound(network):
    roll = generate(network, prompt=PROMPT, length=5, temperature=0)
    with torch.no_grad():
        logits = network(roll[None, :-1])[0]
    assert torch.equal(roll[2:], (logits[1:] > 0).float())
    one = generate(network, prompt=PROMPT, length=8, top_k=1, temperature=2.0)
    assert one[2:].sum(1).max() == 1


def test_keys_sound_as_often_as_the_network_says(network):
    drawn = torch.stack([generate(network, prompt=PROMPT, length=1, seed=seed)[-1] for seed in range(400)])
    with torch.no_grad():
        p = network(chords(PROMPT, network.classes)[None])[0, -1].sigmoid()
    assert (drawn.mean(0) - p).abs().max() < 5 * (p * (1 - p) / 400).sqrt().max()


@pytest.mark.parametrize("temperature", [0, 1])
def test_nothing_is_drawn_from_what_is_no_number(network, temperature):
    weight = network.head.weight.detach().clone()
    try:
        with torch.no_grad():
            network.head.weight.fill_(torch.nan)
        with pytest.raises(RequestError, match="are infinite or NaN, so nothing can be drawn"):
            generate(network, length=3, temperature=temperature)
    finally:
        with torch.no_grad():
            network.head.weight.copy_(weight)


@pytest.mark.parametrize(("options", "message"), [
    ({"prompt": "C3 H4"}, "No key is called 'H4'; keys are called A0"), ({"length": 0}, "length and top_k"),
    ({"top_k": 0}, "length and top_k"), ({"temperature": -1.0}, "temperature"), ({"temperature": float("nan")}, "temperature"),
])  # fmt: skip
def test_bad_requests(network, options, message):
    with pytest.raises(RequestError, match=message):
        generate(network, **options)


class Folk(Music):
    """A user's own family of music."""


def test_music_of_a_users_own_family_is_music(network, monkeypatch):
    known = registry.load_registry()
    task = known.all_tasks["jsb"].model_copy(update={"family": f"{__name__}:Folk"})
    mine = SimpleNamespace(all_tasks={"jsb": task}, datasets=known.datasets)
    monkeypatch.setattr(registry, "load_registry", lambda: mine)
    assert plays(network.config)
    assert not plays(build("lstm-2x8", inputs=2, outputs=2, device="cpu").config)


def test_a_network_that_predicts_no_music_is_refused():
    with pytest.raises(RequestError, match="predicts neither text nor music"):
        generate(build("lstm-2x8", inputs=2, outputs=2, device="cpu"))


def test_a_midi_file_holds_the_keys_as_long_as_they_sound():
    mido = pytest.importorskip("mido")
    roll = torch.zeros(6, 88)
    roll[0:3, 39] = roll[1, 43] = roll[4:6, 43] = roll[2:4, 0] = 1
    file = mido.MidiFile(file=io.BytesIO(midi(roll, frame_ticks=100)))
    played, now = torch.zeros(6, 88), 0
    sounding = set()
    for message in file.tracks[0]:
        for key in sounding:
            played[now // 100 : (now + message.time) // 100, key] = 1
        now += message.time
        if message.type == "note_on":
            sounding.add(message.note - 21)
        elif message.type == "note_off":
            sounding.remove(message.note - 21)
    assert torch.equal(played, roll)
    assert not sounding


@pytest.mark.parametrize("silent", [0, 1, 3])
def test_a_midi_file_is_as_long_as_its_frames(silent):
    mido = pytest.importorskip("mido")
    roll = torch.zeros(4, 88)
    roll[: 4 - silent, 39] = 1
    track = mido.MidiFile(file=io.BytesIO(midi(roll, frame_ticks=100))).tracks[0]
    assert sum(message.time for message in track) == 400


def test_a_long_prompt_is_read_as_steps_would_read_it(network, monkeypatch):
    roll = generate(network, prompt=PROMPT, length=20, temperature=0)
    prompt = " | ".join(" ".join(network.classes[key] for key in frame.nonzero()[:, 0]) or "-" for frame in roll)
    monkeypatch.setattr(generation, "PART", 7)
    assert torch.equal(
        generate(network, prompt=prompt, length=12, temperature=0),
        generate(network, prompt=PROMPT, length=32, temperature=0),
    )


def test_frames_are_float32_whatever_the_default(network):
    with default_dtype(torch.float64):
        assert chords(PROMPT, network.classes).dtype == torch.float32


def test_the_command_writes_a_midi_file_and_a_picture(run, tmp_path):
    pytest.importorskip("mido")
    path = tmp_path / "new" / "chorale.mid"
    code, out, err = run(
        "generate", NAME, "--prompt", PROMPT, "--length", "4", "--seed", "1", "--out", str(path), "--json"
    )
    found = json.loads(out)
    assert (found["prompt"], found["length"], found["temperature"], found["top_k"]) == (PROMPT, 4, 1.0, None)
    assert (code, len(found["frames"]), found["frames"][0]) == (0, 6, ["C3", "G3", "E4", "C5"])
    assert found["files"] == [str(path), str(path.with_suffix(".png"))]
    assert path.read_bytes()[:4] == b"MThd"
    assert path.with_suffix(".png").read_bytes()[:4] == b"\x89PNG"
    assert "Wrote" in err


def test_a_folder_that_cannot_be_written_and_keys_that_do_not_exist(run, tmp_path):
    pytest.importorskip("mido")
    (tmp_path / "file").write_text("")
    (tmp_path / "b.png").mkdir()
    for out, obstacle in (("file/a.mid", "file"), ("b.mid", "b.png")):
        code, _, err = run("generate", NAME, "--length", "2", "--out", str(tmp_path / out))
        assert (code, f"cannot be written: {tmp_path / obstacle} is in the way" in err) == (2, True)
    (tmp_path / "c.png").write_text("mine")
    code, _, err = run("generate", NAME, "--length", "2", "--out", str(tmp_path / "c.mid"))
    assert (code, "is no picture of an earlier" in err, (tmp_path / "c.png").read_text()) == (2, True, "mine")
    code, _, err = run("generate", NAME, "--prompt", "X9", "--out", str(tmp_path / "a.mid"))
    assert (code, "No key is called 'X9'" in err, list(tmp_path.glob("*.mid"))) == (2, True, [])


def test_every_music_network_names_its_keys():
    tasks = registry.load_registry().all_tasks
    assert all(len(task.classes) == task.outputs == 88 for task in tasks.values() if task.family == "music")


def test_a_missing_midi_library_is_told_before_weights_are_read(run, monkeypatch):
    from zoo.networks import loading

    monkeypatch.setattr("rnnzoo_cli.generating.find_spec", lambda name: None)
    monkeypatch.setattr(loading, "assemble", lambda *_, **__: pytest.fail("the weights were read"))
    code, _, err = run("generate", NAME)
    assert (code, "mido" in err, "rnnzoo[music]" in err) == (2, True, True)


def test_a_picture_that_is_not_drawn_is_explained(run, tmp_path, monkeypatch):
    monkeypatch.setattr("rnnzoo_cli.generating.find_spec", lambda name: None if name == "matplotlib" else True)
    code, _, err = run("generate", NAME, "--length", "2", "--out", str(tmp_path / "a.mid"))
    assert (code, "With matplotlib it also draws a picture: pip install 'rnnzoo[plots]'" in err) == (0, True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.mid"]


def test_the_picture_has_each_key_where_it_sounds(network, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    seen = []
    monkeypatch.setattr("zoo.data.midi.plotting.save", lambda figure, path, mark, **_: seen.append(figure))
    roll = chords("C3 E4 | C3 | C5", network.classes)
    draw(roll, tmp_path / "a.png", "a title")
    draw(torch.zeros(2, 88), tmp_path / "b.png", "silence")
    (axis,), (silent,) = (figure.axes for figure in seen)
    (image,) = axis.images
    left, right, bottom, top = image.get_extent()
    assert (left, right, top - bottom) == (0, 3, 88)  # a frame and a key are 1 wide
    drawn = (image.get_array().filled(0) == 1).nonzero()
    keys = {(int(bottom + 0.5 + key), int(frame)) for key, frame in zip(*drawn, strict=True)}
    assert keys == {(48, 0), (64, 0), (48, 1), (72, 2)}  # MIDI numbers of C3, E4 and C5
    assert axis.get_ylim() == (46, 74)
    assert [text.get_text() for text in axis.get_yticklabels()] == ["C3", "C4", "C5"]
    assert axis.get_yticks().tolist() == [48, 60, 72]
    assert (silent.images[0].get_array().count(), silent.get_ylim()) == (0, (20.5, 108.5))


def test_the_file_is_called_by_model_and_seed_and_silence_is_said(run, tmp_path, monkeypatch):
    pytest.importorskip("mido")
    monkeypatch.chdir(tmp_path)
    code, _, err = run("generate", NAME, "--length", "2", "--seed", "5")
    assert (code, sorted(path.suffix for path in tmp_path.glob(f"{NAME}-5.*"))) == (0, [".mid", ".png"])
    assert "No key sounds" not in err
    monkeypatch.setattr(generation, "generate", lambda *_, **__: torch.zeros(2, 88))
    code, out, err = run("generate", NAME, "--length", "2")
    assert (code, out, "No key sounds in it." in err) == (0, "-\n-\n", True)
    assert "Try a higher --temperature, or a --prompt." in run("generate", NAME, "--temperature", "0")[2]
    assert run("generate", NAME, "--out", "")[2].endswith("but is '.'.\n")


def test_heat_levels_what_is_likely():
    cold, hot = (generate("star-2x96-jsb", length=20, temperature=t, seed=1)[1:].sum(1).mean() for t in (0.2, 50.0))
    assert cold < 10 < 30 < hot  # a chord has about four of 88 keys; without any likelihood half of them would sound


def test_the_smallest_temperature_is_no_chance_at_all():
    network = load("gru-2x256-shakespeare", device="cpu")
    coldest, likeliest = (generate(network, prompt="a", length=20, temperature=t) for t in (1e-300, 0))
    assert coldest == likeliest


def test_of_equal_logits_as_many_remain_as_were_asked_for():
    network = load("gru-2x256-shakespeare", device="cpu")
    with torch.no_grad():
        network.head.weight.zero_()
        network.head.bias.zero_()
    assert len(set(generate(network, prompt="a", length=40, top_k=3)[1:])) <= 3


@pytest.mark.parametrize("name", ["gru-2x256-shakespeare", NAME])
def test_a_network_with_another_head_writes_nothing(name):
    with pytest.raises(RequestError, match="predicts neither text nor music"):
        generate(load(name, device="cpu", classes=["a", "b"]), length=2)


def test_the_ending_of_a_midi_file_may_be_in_capitals(run, tmp_path) -> None:
    pytest.importorskip("mido")
    path = tmp_path / "A.MID"
    code, _, _ = run("generate", NAME, "--length", "2", "--out", str(path))
    assert (code, path.read_bytes()[:4]) == (0, b"MThd")
    code, _, err = run("generate", NAME, "--length", "2", "--out", str(tmp_path / "a.wav"))
    assert (code, "--out must end in .mid or .midi" in err) == (2, True)


def test_a_key_that_is_as_likely_as_not_does_not_sound():
    network = load(NAME, device="cpu")
    for parameter in network.head.parameters():
        parameter.data.zero_()
    assert generate(network, length=2, temperature=0).sum() == 0


def test_the_command_and_the_function_generate_as_much_by_default(network, run) -> None:
    assert len(generate(network)) == generation.FRAMES
    options = run("generate", "--help")[1]
    assert f"(default: {generation.CHARACTERS})" in options
    assert f"(default: {generation.FRAMES})" in options
