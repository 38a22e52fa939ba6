"""Listening: the words of a recording, the same in parts of any size as at once, with answers of the whole words."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.data.listening import FULL_SCALE, PAUSE, QUIET, Listener, Word, levels
from zoo.data.speech import HOP, RATE, WINDOW, log_mel
from zoo.errors import RequestError
from zoo.networks.builder import build
from zoo.networks.network import Network
from zoo.networks.stream import Stream

NAMES = ["gru-1x128-fsdd", "mingru-3x96-fsdd"]


def sine(seconds: float, hertz: float, amplitude: float = 0.1) -> Tensor:
    """Return a tone, full scale 1."""
    return amplitude * torch.sin(2 * math.pi * hertz * torch.arange(int(seconds * RATE)) / RATE)


def three_sounds() -> tuple[Tensor, list[tuple[int, int]]]:
    """Return a recording of three sounds, and the first and the last sample of each.

    The first has a gap that is too short for a pause, and no pause follows the last.
    """
    gap, pause = torch.zeros(1200), torch.zeros(4000)
    first = torch.cat([sine(0.2, 500), gap, sine(0.2, 900)])
    sounds = [first, sine(0.3, 700), sine(0.25, 1500)]
    starts = [4000, 4000 + len(first) + 4000, 4000 + len(first) + 4000 + len(sounds[1]) + 4000]
    recording = torch.cat([pause, sounds[0], pause, sounds[1], pause, sounds[2]])
    return recording, [(start, start + len(sound)) for start, sound in zip(starts, sounds, strict=True)]


def heard(network: Network, recording: Tensor, size: int) -> list[Word]:
    """Return what a network hears in a recording that arrives in parts of a size."""
    listener = Listener(network)
    return [word for part in recording.split(size) for word in listener(part)] + listener.finish()


def test_levels_are_those_of_sines() -> None:
    for amplitude in (1.0, 0.1, 0.01):
        found = levels(log_mel(sine(0.1, 1000, amplitude)))
        torch.testing.assert_close(found, torch.full_like(found, 20 * math.log10(amplitude)), rtol=0, atol=0.5)
    assert levels(log_mel(torch.zeros(800))).max() < 10 * math.log10(1e-4 / FULL_SCALE) < QUIET


@pytest.mark.parametrize("name", NAMES)
def test_the_answers_of_a_stream_are_those_of_the_whole_words(name: str) -> None:
    network = build(name, device="cpu").eval()
    recording, places = three_sounds()
    words, frames = heard(network, recording, 800), log_mel(recording)
    assert isinstance(Listener(network).stepper, Stream)
    assert len(words) == 3
    for word, (begin, end) in zip(words, places, strict=True):
        assert word.start == pytest.approx(begin / RATE, abs=WINDOW / RATE)
        assert word.end == pytest.approx(end / RATE, abs=WINDOW / RATE)
        first, last = round(word.start * RATE / HOP), round((word.end * RATE - WINDOW) / HOP)
        with torch.no_grad():
            shares = network(frames[None, first : last + 1])[0].softmax(0)
        assert word.answer == network.classes[int(shares.argmax())]
        assert word.probability == pytest.approx(shares.max().item(), rel=1e-4)


def test_the_answer_comes_with_the_pause_or_the_end() -> None:
    recording, _ = three_sounds()
    words = heard(build(NAMES[0], device="cpu").eval(), recording, 800)
    assert [round((word.answered - word.end) * RATE / HOP) for word in words] == [PAUSE, PAUSE, 0]
    listener = Listener(build(NAMES[0], device="cpu").eval())
    assert [len(listener(part)) for part in recording.split(len(recording) // 4 + 1)] == [0, 1, 0, 1]
    assert len(listener.finish()) == 1
    assert listener.finish() == []


@pytest.mark.parametrize("size", [1, 80, 333, 10**6])
def test_the_size_of_the_parts_changes_nothing(size: int) -> None:
    network = build(NAMES[0], device="cpu").eval()
    recording = three_sounds()[0][: 10_000 if size == 1 else None]
    for word, same in zip(heard(network, recording, size), heard(network, recording, 800), strict=True):
        assert (word.answer, word.start, word.end, word.answered) == (same.answer, same.start, same.end, same.answered)
        assert word.probability == pytest.approx(same.probability, rel=1e-4)


def test_a_network_without_compiled_steps_hears_the_same() -> None:
    network, recording = build(NAMES[0], device="cpu").eval(), three_sounds()[0]
    words = heard(network, recording, 800)
    network.backend = "plain"
    assert Listener(network).stepper is network
    for word, same in zip(heard(network, recording, 800), words, strict=True):
        assert (word.answer, word.start, word.answered) == (same.answer, same.start, same.answered)
        assert word.probability == pytest.approx(same.probability, rel=1e-4)


def test_there_are_no_words_in_silence() -> None:
    network = build(NAMES[0], device="cpu").eval()
    assert heard(network, torch.zeros(8000), 800) == heard(network, sine(1.0, 500, 1e-3), 800) == []


@pytest.mark.parametrize(("name", "quiet", "message"), [
    ("gru-1x128-mnist-rows", QUIET, "does not read recordings of speech"), (NAMES[0], math.nan, "a finite number of dB"),
    (NAMES[0], -math.inf, "a finite number of dB"), (NAMES[0], "x", "a finite number of dB; got 'x'"),
])  # fmt: skip
def test_what_cannot_listen_is_refused(name: str, quiet: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        Listener(build(name, device="cpu"), quiet)


def test_a_name_is_no_network() -> None:
    name: Any = NAMES[0]
    with pytest.raises(RequestError, match=f"takes a network, as `load` returns it; got '{NAMES[0]}'"):
        Listener(name)


def test_a_network_in_training_mode_hears_as_in_eval_mode() -> None:
    network, recording = build(NAMES[1], device="cpu"), three_sounds()[0]
    network.dropout.p = 0.5
    words = heard(network.train(), recording, 800)
    assert network.training
    for word, same in zip(words, heard(network.eval(), recording, 800), strict=True):
        assert (word.answer, word.probability) == (same.answer, pytest.approx(same.probability, rel=1e-4))


def test_hear_is_the_parts_in_turn_and_the_end() -> None:
    network, recording = build(NAMES[0], device="cpu").eval(), three_sounds()[0]
    listener = Listener(network)
    assert list(listener.hear(recording.split(800))) == heard(network, recording, 800)
    assert listener.heard == len(recording)
    short = Listener(network)
    assert len(list(short.hear([sine(0.01, 1000, 0.9)]))) == 1
    assert short.heard == 80


def test_a_network_that_reads_backwards_is_refused() -> None:
    network = build("bigru-1x8", inputs=32, outputs=10, device="cpu")
    network.config = network.config.model_copy(update={"task": "fsdd"})
    with pytest.raises(RequestError, match="needs the whole recording"):
        Listener(network)


def test_an_early_answer_is_replaced_only_if_the_word_goes_on() -> None:
    network, recording = build(NAMES[0], device="cpu").eval(), three_sounds()[0]
    listener = Listener(network, early=4)
    words = [word for part in recording.split(80) for word in listener(part)] + listener.finish()
    assert [word.final for word in words] == [False, False, True, False, True, True]  # the first sound has a gap
    assert [word for word in words if word.final] == heard(network, recording, 80)
    for early, final in ((words[1], words[2]), (words[3], words[4])):
        assert (early.answer, early.probability, early.start, early.end) == (
            final.answer, final.probability, final.start, final.end,
        )  # fmt: skip
        assert early.answered == pytest.approx(early.end + 4 * HOP / RATE)
    assert words[0].end < words[1].start + 0.25


def test_a_recording_shorter_than_a_frame_is_padded() -> None:
    network = build(NAMES[0], device="cpu").eval()
    (word,) = heard(network, sine(0.01, 1000, 0.9), 800)
    with torch.no_grad():
        logits = network(log_mel(sine(0.01, 1000, 0.9))[None])
    assert word.probability == pytest.approx(float(logits.softmax(1).max()), rel=1e-4)
    assert heard(network, torch.zeros(100), 800) == []


@pytest.mark.parametrize(("early", "pause"), [(20, 20), (0, 20), (None, 0), (None, 20.5), (1.5, 20), (None, "x")])
def test_numbers_of_frames_out_of_order_are_refused(early: int | None, pause: int) -> None:
    with pytest.raises(RequestError, match="0 < early < pause"):
        Listener(build(NAMES[0], device="cpu"), pause=pause, early=early)


def test_a_network_without_names_of_classes_answers_with_numbers() -> None:
    network, recording = build(NAMES[0], device="cpu").eval(), three_sounds()[0]
    named = heard(network, recording, 800)
    numbered = build(NAMES[0], device="cpu").eval()
    numbered.reset_head(10)
    numbered.head.load_state_dict(network.head.state_dict())
    assert numbered.classes == ()
    answers = [str(network.classes.index(word.answer)) for word in named]
    assert [word.answer for word in heard(numbered, recording, 800)] == answers
