"""Count the errors of networks of spoken digits when they read recordings as a stream, and measure their latency.

`RNNZOO_DATA=DIR python -m benchmarks.listening NAME [--split validation] [--quiet -53 ...] [--pause 20 ...]` prints, for each
level and pause: the number of recordings of a split in which the network detects exactly one word, the right one; and the
number of wrong, missing and superfluous words when ten recordings at a time are joined in a random order, each followed by half
a second of faint noise.

`RNNZOO_DATA=DIR python -m benchmarks.listening NAME ... --stream` measures `fsdd-stream` (benchmarks.fsdd_stream) on one thread, and
stores it in benchmarks/listening.json. `python -m zoo.publishing.generated` writes it into docs/tasks.md.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from cli.output import columns, say
from zoo import load, registry
from zoo.data import task_data
from zoo.data.listening import PAUSE, QUIET, Listener
from zoo.data.speech import FSDD, RATE
from zoo.diagnostics.benchmark import machine
from zoo.networks.network import Network

from .common import FOLDER, command_line, write_rows
from .fsdd_stream import NOISE, fsdd_stream, noise

JOINED, GAP, CHUNK = 10, RATE // 2, RATE // 10
"""Recordings that are joined; samples of noise after each; samples that arrive at a time."""


def heard(network: Network, samples: Tensor, quiet: float, pause: int) -> list[str]:
    """Return the words that a network detects in a recording, (samples,), int16, in order."""
    return [word.answer for word in Listener(network, quiet, pause).hear(samples.split(CHUNK))]


def errors(words: Sequence[str], truth: Sequence[str]) -> int:
    """Return the edit distance: the least number of words to replace, add and remove."""
    row = list(range(len(truth) + 1))
    for i, word in enumerate(words, 1):
        new = [i]
        for j, true in enumerate(truth, 1):
            new.append(min(row[j] + 1, new[-1] + 1, row[j - 1] + (word != true)))
        row = new
    return row[-1]


def joined(recordings: Sequence[Tensor]) -> Tensor:
    """Return recordings end to end, (samples,), each followed by GAP samples of noise."""
    generator = torch.Generator().manual_seed(0)
    return torch.cat([part for samples in recordings for part in (samples, noise(GAP, NOISE, generator))])


def counts(name: str, given: argparse.Namespace, recordings: Sequence[Tensor], truth: Sequence[str]) -> str:
    """Return a table of a network's errors, with a row for each level of quiet and each length of pause."""
    network = load(name, device="cpu")
    order = torch.randperm(len(truth), generator=torch.Generator().manual_seed(0)).split(JOINED)
    rows = []
    for quiet in given.quiet:
        for pause in given.pause:
            right = sum(
                heard(network, samples, quiet, pause) == [true] for samples, true in zip(recordings, truth, strict=True)
            )
            wrong = sum(
                errors(heard(network, joined([recordings[i] for i in group]), quiet, pause), [truth[i] for i in group])
                for group in order
            )
            rows.append((f"{quiet:g} dB", f"{pause / 100:g} s", f"{right} of {len(truth)}", f"{wrong} of {len(truth)}"))
    return columns(("QUIET", "PAUSE", "ONE WORD, RIGHT", "ERRORS WHEN JOINED"), rows)


def main() -> None:
    """Run the program."""
    parser = command_line(__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="models of the task fsdd")
    parser.add_argument("--split", default="validation", choices=("validation", "test"))
    parser.add_argument("--quiet", type=float, nargs="+", default=[QUIET], help="levels, in dB")
    parser.add_argument("--pause", type=int, nargs="+", default=[PAUSE], help="frames of 10 ms")
    parser.add_argument("--stream", action="store_true", help="measure fsdd-stream, whose split is test")
    parser.add_argument("--out", type=Path, default=FOLDER / "listening.json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = task_data(registry.load_registry().all_tasks["fsdd"])
    assert isinstance(data, FSDD)
    recordings, digits = data.recordings("test" if given.stream else given.split)
    truth = [str(digit) for digit in digits.tolist()]
    if not given.stream:
        say("\n\n".join(counts(name, given, recordings, truth) for name in given.names))
        return
    rows = [row for name in given.names for row in fsdd_stream(load(name, device="cpu"), recordings, truth)]
    setting = machine(threads=1)
    command = f"python -m benchmarks.listening {' '.join(given.names)} --stream"
    write_rows(given.out, {**setting, "command": command}, 1, "rows", rows)


if __name__ == "__main__":
    main()
