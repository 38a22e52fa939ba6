"""Compare exported files with the networks that they were exported from, on whole test sets, and time both.

`python -m benchmarks.exports NAME... [--format FORMAT...] [--quantize int8|both] [--missing] [--limit N]` exports each model to
each format that can hold it, and adds a row to cards/exports.json: bytes, the largest difference of a logit and the number of
different answers on the test set, the metric, and the microseconds of a step and milliseconds of a sequence (batch size 1, the
minimum of several rounds). --only-times measures the times of all rows that have some again, and nothing else. The models with the least computation come first, and --missing leaves out rows that the file already
has on as many examples, so that an interrupted run can go on. With --limit, only the first N examples are compared; the row is
kept if the file has none on more. Test sets are read from $RNNZOO_DATA. `rnnzoo export --list` and docs/export.md show the rows.
"""

import copy
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from cli.output import say
from zoo import export, load, registry
from zoo.checkpoints import results
from zoo.checkpoints.exported import BOUND, Row, read, record
from zoo.data import task_data
from zoo.data.base import IGNORED
from zoo.errors import ExportError, RequestError
from zoo.exports.base import Runtime
from zoo.exports.c import StepRuntime
from zoo.exports.formats import FORMATS, graphs_of
from zoo.exports.writing import Exported
from zoo.networks.golden import example_input
from zoo.networks.network import Network
from zoo.networks.recurrent import RecurrentNetwork
from zoo.registry import lock
from zoo.registry.metrics import TARGETS
from zoo.training.evaluation import score
from zoo.utils import provenance

from .common import ROUNDS, command_line, least, seconds_of_step

LONGER = 10
"""How many times as long a sequence is in the second call by which steps are timed."""
BATCH = 500
QUANTIZE: dict[str, tuple[str | None, ...]] = {"no": (None,), "int8": ("int8",), "both": (None, "int8")}


class Baseline:
    """A network and its logits on the test set of its task, with which all its exported files are compared."""

    @torch.inference_mode()
    def __init__(self, name: str, limit: int | None):
        """Load a model and run it on the test set, or on the first `limit` examples."""
        self.network, self.task = load(name, device="cpu"), registry.find(name).task
        split = task_data(self.task).split("test")
        self.stream, self.total = split.stream, len(split) if limit is None else min(limit, len(split))
        batches = [split.batch(indices) for indices in torch.arange(self.total).split(1 if self.stream else BATCH)]
        logits = self.logits(self.network, [(x, lengths) for x, _, lengths in batches])
        self.batches = [(*batch, each) for batch, each in zip(batches, logits, strict=True)]

    def logits(self, network: Network, inputs: Iterable[tuple[Tensor, Tensor | None]]) -> Iterator[Tensor]:
        """Yield the logits of a network for each batch (x, lengths); the batches of a stream follow one another."""
        state = None
        for x, lengths in inputs:
            if self.stream:
                logits, state = cast(RecurrentNetwork, network).resume(x, state)
            else:
                logits = network(x, lengths)
            yield logits

    def counted(self, logits: Tensor, y: Tensor) -> Tensor:
        """Return the logits without those of the padding after the end of a stream. y: the targets."""
        return logits[y != IGNORED] if self.stream else logits

    @torch.inference_mode()
    def compare(self, runtime: Runtime) -> dict[str, float]:
        """Return numbers that compare a runtime's logits on the test set with the network's.

        n: examples. difference: the largest of a logit. different: answers that differ. value: the runtime's metric.
        """
        difference, different, sums, state = torch.zeros(()), 0, torch.zeros(3, dtype=torch.float64), None
        for x, y, lengths, expected in self.batches:
            logits, new_state = runtime.sequence(x, lengths, state)
            state = new_state if self.stream else None
            seen, wanted = self.counted(logits, y), self.counted(expected, y)
            difference = torch.maximum(difference, (seen - wanted).abs().max())  # NaN if one is NaN, unlike max()
            different += int((seen.argmax(-1) != wanted.argmax(-1)).sum())
            sums += torch.stack(score(self.task.target, logits, y)).double()
        _, metric, count = sums.tolist()
        value = TARGETS[self.task.target].of_mean(metric / count)
        return {"n": self.total, "difference": float(difference), "different": different, "value": value}

    @cached_property
    @torch.inference_mode()
    def rounding(self) -> float:
        """The largest difference between the network's own logits in float32 and in float64."""
        exact = copy.deepcopy(self.network).double()
        inputs = ((x.double() if x.is_floating_point() else x, lengths) for x, _, lengths, _ in self.batches)
        pairs = zip(self.logits(exact, inputs), self.batches, strict=True)
        errors = [self.counted((logits - expected).abs(), y).max() for logits, (_, y, _, expected) in pairs]
        return float(torch.stack(errors).max())


@torch.inference_mode()
def seconds(network: Network, sequence: Runtime, step: Runtime | None) -> dict[str, float]:
    """Return the microseconds of a step, unless `step` is None, and the milliseconds of a sequence of the task's length."""
    x, lengths = example_input(network)
    x, lengths = x[:1], lengths[:1]

    def sequences(repeats: int) -> float:
        """Return the seconds of one call with the sequence, repeated."""
        longer, ends = torch.cat([x] * repeats, 1), repeats * lengths if lengths.numel() else None
        sequence.sequence(longer, ends)  # warm-up
        return least(lambda: sequence.sequence(longer, ends), ROUNDS)

    once = sequences(1)
    times = {"sequence_ms": 1e3 * once}
    if isinstance(step, StepRuntime):  # takes the steps of a sequence itself; the call counts in both, and cancels
        times["step_us"] = 1e6 * (sequences(LONGER) - once) / ((LONGER - 1) * x.shape[1])
    elif step is not None:
        times["step_us"] = 1e6 * seconds_of_step(step.step, x[:, 0].contiguous(), time.perf_counter)
    return times


def measure(reference: Baseline, name: str, format: str, quantize: str | None, timed: bool) -> Row:
    """Export a model, and return the row about its files. Raises RequestError if the format cannot hold the model."""
    network = reference.network
    with opened(network, format, quantize) as (written, runtimes):
        compared = reference.compare(runtimes[0])
        times = seconds(network, *runtimes) if timed else {}
    about: dict[str, Any] = {**compared, **times, "quantize": quantize}
    if quantize is None and compared["difference"] > BOUND:
        about["rounding"] = reference.rounding
    return Row(
        model=name, format=format, graphs=tuple(graphs_of(network.config, format)), bytes=written[0].bytes,
        metric=TARGETS[reference.task.target].metric, **about, **here(),
    )  # fmt: skip


def timed_again(row: Row) -> Row:
    """Return a row with times that are measured now."""
    network = load(row.model, device="cpu")
    with opened(network, row.format, row.quantize) as (_, runtimes):
        return row.model_copy(update={**seconds(network, *runtimes), **here()})


def here() -> dict[str, Any]:
    """Return the fields of a row that say where and when it was measured."""
    return {"cpu": provenance.processor(), "threads": torch.get_num_threads(), "date": provenance.today()}


@contextmanager
def opened(
    network: Network, format: str, quantize: str | None
) -> Iterator[tuple[list[Exported], tuple[Runtime, Runtime | None]]]:
    """Export a registered model; yield the files, and the runtimes of the sequence and of the step, None if it has none.

    Raises RequestError if the format cannot hold the model.
    """
    name = network.config.name
    kinds = graphs_of(network.config, format)
    if not kinds:
        raise RequestError(f"{name} cannot be exported as {format}. To see its formats: rnnzoo export --list {name}")
    with tempfile.TemporaryDirectory() as folder:
        graph = "both" if len(kinds) > 1 else kinds[0]
        verb = f"rnnzoo export {name} --format {format} --graph {graph}" + (
            f" --quantize {quantize}" if quantize else ""
        )
        written = export(name, format, graph=graph, out=Path(folder), quantize=quantize, origin=verb)
        runtimes = [FORMATS[format].open(each.path, network, each.graph) for each in written]
        yield written, (runtimes[0], runtimes[-1] if "step" in kinds else None)


def examples(name: str) -> int:
    """Return the size of a model's test set; 1 if the model was not measured."""
    measured = results.for_model(name).measured()
    return measured.n if measured else 1


def cost(name: str) -> int:
    """Return the approximate number of multiply-adds of a model on its whole test set."""
    return lock.load_lock().counts[name].parameters * registry.find(name).task.steps * examples(name)


def main() -> None:
    """Run the program."""
    parser = command_line(__doc__)
    parser.add_argument("names", nargs="+", help="models with weights, or patterns")
    parser.add_argument("--format", nargs="+", default=list(FORMATS), choices=list(FORMATS))
    parser.add_argument("--quantize", choices=list(QUANTIZE), default="no", help="8-bit weights, instead or as well")
    parser.add_argument("--limit", type=int, help="measure on the first N examples only, for slow runtimes")
    parser.add_argument("--missing", action="store_true", help="leave out what cards/exports.json has")
    times = parser.add_mutually_exclusive_group()
    times.add_argument("--no-times", action="store_true", help="compare only; stored times of this processor stay")
    times.add_argument("--only-times", action="store_true", help="measure stored times again, without the test sets")
    options = parser.parse_args()
    if options.limit is not None and options.limit < 1:
        parser.error("--limit is the number of examples, at least 1")
    if options.only_times:
        wanted = set(product(registry.list_models(options.names, pretrained=True), options.format))
        for row in [row for row in read() if (row.model, row.format) in wanted and row.sequence_ms is not None]:
            record(timed_again(row))
            say(f"{row.model} {row.format}, {row.quantize or 'float32'}: timed again")
        return
    for model in sorted(registry.list_models(options.names, pretrained=True), key=cost):
        jobs = list(product(options.format, QUANTIZE[options.quantize]))
        stored: dict[tuple[str, str | None], Row] = {
            (row.format, row.quantize): row for row in read() if row.model == model
        }
        if options.missing:
            most = min(examples(model), options.limit or examples(model))
            jobs = [
                job
                for job in jobs
                if (job not in stored or stored[job].n < most) and graphs_of(registry.find(model).config, job[0])
            ]
        reference = Baseline(model, options.limit) if jobs else None
        for format, quantize in jobs:
            assert reference is not None
            try:
                row = measure(reference, model, format, quantize, not options.no_times)
            except (RequestError, ExportError) as error:
                say(f"{model} {format}: {error}")
                continue
            say(f"{model} {format}: {row.text()}")
            before = stored.get((format, quantize))
            if options.no_times and before is not None and (before.cpu, before.threads) == (row.cpu, row.threads):
                row = row.model_copy(update={"step_us": before.step_us, "sequence_ms": before.sequence_ms})
            if before is None or row.n >= before.n:
                record(row)


if __name__ == "__main__":
    main()
