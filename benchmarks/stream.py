"""`fsdd-stream`: one long recording of digits and pauses, a listening network's hits and false alarms in it, and its latency.

The 300 test recordings of FSDD stand in the order torch.randperm(300) of seed 0. A pause of 0.5 to 1.5 s follows each, drawn
uniformly by the same generator, of white noise with a standard deviation of 3 units of int16 (-76 dB by
zoo.data.listening.levels). Samples arrive by 80, 10 ms.

A digit ends with the last frame of its recording that is not quiet. Its answer is the last final one to a sound that begins
within its recording; it is a hit if it is right. Every other final answer is a false alarm: a wrong one, and one to another
sound. Latency is the time from the digit's end to the first answer, early or final, to all of the same sound: what the
listener waits for, and the processor time that it computes on the last 10 ms.

Three hours have false alarms only: one of noise at 3 units, one at 30 (-58 dB), and one at 3 with a knock every ten seconds,
20 ms of noise at 3,000 units (-18 dB).
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from zoo.data.listening import PAUSE, QUIET, Listener, Word, levels
from zoo.data.speech import HOP, RATE, WINDOW, log_mel
from zoo.networks.network import Network

NOISE, HOUR = 3.0, 3600
"""The standard deviation of the noise in pauses, in units of int16, and seconds of an hour."""
SETTINGS = ((PAUSE, 2), (PAUSE, None), (4, None))
"""The pauses and the early answers to measure, in frames."""


@dataclass(frozen=True)
class Heard:
    """An answer, and the seconds that the listener computed on the samples after which it came."""

    word: Word
    seconds: float


def noise(samples: int, deviation: float, generator: torch.Generator) -> Tensor:
    """Return white noise, (samples,), int16. deviation: in units of int16."""
    return (deviation * torch.randn(samples, generator=generator)).round().to(torch.int16)


def stream_of(recordings: Sequence[Tensor]) -> tuple[Tensor, list[tuple[int, float, float, float]]]:
    """Return the long recording, and a row for each digit: its index; and in seconds its start, the end of its last frame that
    is not quiet, and its end."""
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(recordings), generator=generator).tolist()
    parts, places, at = [], [], 0
    for index in order:
        samples = recordings[index]
        loud = (levels(log_mel(samples)) >= QUIET).nonzero().flatten().tolist()
        end = (loud[-1] * HOP + WINDOW) if loud else len(samples)
        places.append((index, at / RATE, (at + end) / RATE, (at + len(samples)) / RATE))
        pause = noise(int(RATE * (0.5 + float(torch.rand(1, generator=generator)))), NOISE, generator)
        parts += [samples, pause]
        at += len(samples) + len(pause)
    return torch.cat(parts), places


def knocks(generator: torch.Generator) -> Tensor:
    """Return an hour of faint noise with a knock every ten seconds, (samples,), int16."""
    samples = noise(HOUR * RATE, NOISE, generator)
    for second in range(5, HOUR, 10):
        samples[second * RATE : second * RATE + 2 * HOP] = noise(2 * HOP, 3000.0, generator)
    return samples


def listen(listener: Listener, samples: Tensor) -> tuple[list[Heard], list[float]]:
    """Return all answers to a recording, and the seconds that each 10 ms of it took."""
    heard, taken = [], []
    for part in samples.split(HOP):
        began = time.thread_time()
        words = listener(part)
        taken.append(time.thread_time() - began)
        heard += [Heard(word, taken[-1]) for word in words]
    return heard + [Heard(word, 0.0) for word in listener.finish()], taken


def score(
    heard: Sequence[Heard], places: Sequence[tuple[int, float, float, float]], truth: Sequence[str]
) -> tuple[int, int, int, list[float], list[float]]:
    """Return the hits, the false alarms, the digits without an answer, and of the hits what was waited for and the whole
    latency, in seconds."""
    hits = missed = 0
    waited, latencies = [], []
    for index, start, end, stop in places:
        within = [each for each in heard if start - WINDOW / RATE <= each.word.start < stop]
        final = [each for each in within if each.word.final]
        missed += not final
        if not final or final[-1].word.answer != truth[index]:
            continue
        hits += 1
        first = next(
            each for each in within if each.word.start == final[-1].word.start and each.word.end == final[-1].word.end
        )
        waited.append(first.word.answered - end)
        latencies.append(waited[-1] + first.seconds)
    return hits, sum(each.word.final for each in heard) - hits, missed, waited, latencies


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the 95th percentile of some seconds."""
    ordered = sorted(values)
    return {"median": statistics.median(ordered), "p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]}


@torch.no_grad()
def fsdd_stream(network: Network, recordings: Sequence[Tensor], truth: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row of JSON values for each of SETTINGS."""
    samples, places = stream_of(recordings)
    generator = torch.Generator().manual_seed(1)
    quiet = {f"noise {level:g}": noise(HOUR * RATE, level, generator) for level in (3.0, 30.0)}
    quiet["knocks"] = knocks(generator)
    rows = []
    for pause, early in SETTINGS:
        heard, taken = listen(Listener(network, pause=pause, early=early), samples)
        hits, alarms, missed, waited, latencies = score(heard, places, truth)
        hours = len(samples) / RATE / HOUR
        alarms_of = {}
        for name, hour in quiet.items() if early is None else ():
            listener = Listener(network, pause=pause)
            alarms_of[name] = len([word for part in hour.split(RATE) for word in listener(part)] + listener.finish())
        rows.append({
            "network": network.config.name, "pause": pause, "early": early, "seconds": len(samples) / RATE, "digits": len(places),
            "hits": hits, "missed": missed, "false_alarms": alarms, "false_alarms_an_hour": alarms / hours,
            "revised": sum(not each.word.final for each in heard) - sum(each.word.final for each in heard) if early else 0,
            "waited": spread(waited), "latency": spread(latencies), "computed": spread(taken), "quiet_hours": alarms_of,
        })  # fmt: skip
    return rows
