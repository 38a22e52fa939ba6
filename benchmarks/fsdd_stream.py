"""`fsdd-stream`: one long recording of digits and pauses, and a network's hits, false alarms and latency in it.

The 300 test recordings of FSDD are joined in the order torch.randperm(300) of seed 0. After each comes a pause of 0.5 to 1.5 s,
drawn uniformly by the same generator, of white noise with a standard deviation of 3 units of int16 (-76 dB by
zoo.data.listening.levels). Samples arrive 80 at a time, 10 ms.

A digit ends with the last frame of its recording that is not quiet. Its answer is the last final answer to a sound that begins
within its recording; if it is right, it is a hit. Every other final answer, wrong or to another sound, is a false alarm.
Latency is the time from the digit's end to the first answer, early or final, to the same whole sound. It is the sum of the
time that the listener waits for samples and the processor time of its computation on the last 10 ms.

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
"""The standard deviation of the noise in pauses, in units of int16; and an hour in seconds."""
SETTINGS = ((PAUSE, 2), (PAUSE, None), (4, None))
"""The values (pause, early) of the Listener to measure, in frames."""


@dataclass(frozen=True)
class Heard:
    """An answer, and the processor seconds of the listener's computation on the samples that completed it."""

    word: Word
    seconds: float


def noise(samples: int, deviation: float, generator: torch.Generator) -> Tensor:
    """Return white noise, (samples,), int16. deviation: in units of int16."""
    return (deviation * torch.randn(samples, generator=generator)).round().to(torch.int16)


def stream_of(recordings: Sequence[Tensor]) -> tuple[Tensor, list[tuple[int, float, float, float]]]:
    """Return (long recording, places): a place is (index, start, end of the last frame that is not quiet, end) of a digit.

    Times are in seconds. The index is that of the recording in `recordings`.
    """
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
    """Return (all answers to a recording, processor seconds for each 10 ms of it)."""
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
    """Return (hits, false alarms, digits without an answer, waiting times, latencies). Times are of each hit, in seconds.

    places: as stream_of returns them. truth: the right answer by index.
    """
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
    """Return the median and the 95th percentile of `values`, as "median" and "p95"."""
    ordered = sorted(values)
    return {"median": statistics.median(ordered), "p95": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]}


@torch.no_grad()
def fsdd_stream(network: Network, recordings: Sequence[Tensor], truth: Sequence[str]) -> list[dict[str, Any]]:
    """Run a network on the stream and on the hours without digits; return a row of JSON values for each of SETTINGS."""
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
            alarms_of[name] = len(list(Listener(network, pause=pause).hear(hour.split(RATE))))
        rows.append({
            "network": network.config.name, "pause": pause, "early": early, "seconds": len(samples) / RATE, "digits": len(places),
            "hits": hits, "missed": missed, "false_alarms": alarms, "false_alarms_an_hour": alarms / hours,
            "revised": sum(not each.word.final for each in heard) - sum(each.word.final for each in heard) if early else 0,
            "waited": spread(waited), "latency": spread(latencies), "computed": spread(taken), "quiet_hours": alarms_of,
        })  # fmt: skip
    return rows
