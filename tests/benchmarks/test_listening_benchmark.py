"""`fsdd-stream`: what is a hit, a false alarm and a latency, on answers that are written here."""

import pytest
import torch

from benchmarks.fsdd_stream import NOISE, Heard, score, spread, stream_of
from zoo.data.listening import Word
from zoo.data.speech import RATE


def heard(answer: str, start: float, end: float, answered: float, final: bool = True, seconds: float = 0.001) -> Heard:
    return Heard(Word(answer, 0.9, start, end, answered, final), seconds)


def test_the_recording_has_every_digit_at_its_place() -> None:
    tones = [(8000 * torch.sin(torch.arange(n) * 0.7)).to(torch.int16) for n in (1600, 2400, 4000)]
    tones[1][-800:] = 0  # a quiet end
    samples, places = stream_of(tones)
    assert sorted(index for index, *_ in places) == [0, 1, 2]
    for index, start, end, stop in places:
        first = round(start * RATE)
        assert torch.equal(samples[first : first + len(tones[index])], tones[index])
        assert stop - start == pytest.approx(len(tones[index]) / RATE)
        assert end == pytest.approx(stop - (0.1 if index == 1 else 0), abs=0.025)
    starts = [start for _, start, _, _ in places] + [len(samples) / RATE]
    stops = [stop for *_, stop in places]
    for stop, start in zip(stops, starts[1:], strict=True):
        assert 0.5 <= start - stop <= 1.5
        pause = samples[round(stop * RATE) : round(start * RATE)].float()
        assert float(pause.std()) == pytest.approx(NOISE, rel=0.1)
    again, _ = stream_of(tones)
    assert torch.equal(again, samples)


def test_hits_alarms_and_latencies() -> None:
    truth, places = (
        ["7", "3", "5", "1"],
        [(0, 1.0, 1.5, 1.6), (1, 3.0, 3.4, 3.5), (2, 5.0, 5.5, 5.5), (3, 7.0, 7.3, 7.4)],
    )
    answers = [
        heard("6", 1.0, 1.2, 1.24, final=False), heard("7", 1.0, 1.5, 1.54, final=False, seconds=0.002),
        heard("7", 1.0, 1.5, 1.7),  # a hit, which an early answer gave
        heard("8", 3.0, 3.4, 3.6),  # wrong
        heard("5", 5.0, 5.2, 5.4), heard("5", 5.3, 5.5, 5.7),  # a digit in two parts: a hit and an alarm
        heard("2", 9.0, 9.1, 9.3),  # nobody spoke
    ]  # fmt: skip
    hits, alarms, missed, waited, latencies = score(answers, places, truth)
    assert (hits, alarms, missed) == (2, 3, 1)
    assert waited == pytest.approx([0.04, 0.2])
    assert latencies == pytest.approx([0.042, 0.201])
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "p95": 3.0}
