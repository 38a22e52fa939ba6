"""`rnnzoo bench`: compares the speed of a model on this machine with other libraries. benchmarks/ uses these functions too."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Option

from zoo import registry
from zoo.errors import RequestError
from zoo.utils.text import counted

from .arguments import MAX_THREADS, AsJson, Device, Name, number
from .output import columns, emit, progress, say

if TYPE_CHECKING:
    from zoo.diagnostics.benchmark import Contender, Measurement, Workload


def bench(
    name: Name,
    against: Annotated[str | None, Option(help="torch,torchrecurrent or none (default: those installed).")] = None,
    unflushed: Annotated[bool, Option("--unflushed", help="Also time with denormal numbers kept; slow.")] = False,
    bf16: Annotated[bool, Option("--bf16", help="Also time all but the plain scan in bfloat16 autocast.")] = False,
    batch_size: Annotated[int, number("Sequences per batch.")] = 100,
    rounds: Annotated[int, number("Rounds after a warm-up. Times are medians over them.")] = 3,
    threads: Annotated[int | None, number("CPU threads (default: torch's choice).", 1, MAX_THREADS)] = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Compare the speed of a model with torch and torchrecurrent: seconds, their ratio to rnnzoo's, and peak memory.

    The passes are forward, forward + backward, and a streamed step. Without --unflushed, the other libraries flush denormal
    numbers to zero, as rnnzoo does.
    """
    entry = registry.find(name)  # before torch is imported
    if entry.task.readout == "none":
        raise RequestError(f"{name} has no time steps, but bench takes only recurrent networks. Choose another model.")
    if entry.task.vocabulary:
        raise RequestError(
            f"{name} reads tokens, but bench takes only networks that read numbers. Choose another model."
        )
    import torch

    from zoo.diagnostics import benchmark
    from zoo.networks.base import resolve_device

    config, target = entry.config, resolve_device(device)
    flushed = (False,) if target.type != "cpu" else (True, False) if unflushed else (True,)
    given = [part.strip() for part in (against or "").split(",")]
    libraries = None if against is None else [part for part in given if part not in ("", "none")]
    work = benchmark.Workload(entry.task.steps, batch_size, threads or torch.get_num_threads(), str(target))
    contenders = [*benchmark.ours(config), *benchmark.peers(config, libraries, flushed), *benchmark.products(config)]
    if bf16:
        contenders += reduced([c for c in contenders if c.backend == "auto" and c.library != "products"], str(target))
    for library in benchmark.missing_peers(config) if libraries is None else ():
        say(f"{library} is not installed and left out; to compare with it: pip install 'rnnzoo[bench]'")
    measurements = race(contenders, work, rounds, f"bench {name}")
    ours, rows = measurements[0].seconds, []
    for row in measurements:
        ratio = {what: s / ours[what] for what, s in row.seconds.items() if s is not None and ours[what]}  # type: ignore[operator]
        rows.append({**row.to_json(), "ratio": ratio})
    data = {
        "model": name,
        "machine": benchmark.machine(work.threads, work.device, contenders),
        "rounds": rounds,
        "contenders": rows,
    }
    emit(data, as_json, table(measurements))


def reduced(contenders: "Sequence[Contender]", device: str = "cpu") -> "list[Contender]":
    """Return the contenders in bfloat16, without those of other libraries that cannot run in bfloat16 on `device`.

    Prints on stderr the name of each contender that is left out, and why.
    """
    from zoo.diagnostics import benchmark

    runnable = []
    for contender in benchmark.in_bfloat16(contenders):
        if contender.library != "rnnzoo" and (problem := benchmark.failure(contender, device)):
            say(f"{contender.name} is left out: {problem}")
        else:
            runnable.append(contender)
    return runnable


def race(contenders: "Sequence[Contender]", work: "Workload", rounds: int, title: str) -> "list[Measurement]":
    """Measure the contenders on the workload, and return their measurements.

    rounds: number of repetitions after a warm-up. Prints on stderr, with `title`, how long measuring will take.
    """
    from zoo.diagnostics import benchmark

    place = f"threads: {work.threads}" if work.device == "cpu" else work.device
    count = f"{len(contenders)} contenders, a warm-up and {counted(rounds, 'round')}"
    say(f"{title}: {count}; {counted(work.steps, 'step')}, batch {work.batch}, {place}")
    start = time.monotonic()
    with progress(title) as bar:

        def report(done: int, total: int, text: str) -> None:
            nonlocal start
            if done == 0:
                start = time.monotonic()
            elif done == total // (rounds + 1):
                seconds = time.monotonic() - start
                say(f"{title}: a round takes {seconds:.1f} s, so about {rounds * seconds:.0f} s more")
            bar(done, total, text)

        return benchmark.measure(contenders, work, rounds, report)


def table(measurements: "Sequence[Measurement]") -> str:
    """Return a table with a row for each contender: the seconds of every pass, and the peak memory.

    Behind the seconds, in brackets, is their ratio to those of the first row.
    """
    from zoo.publishing.pages import speed

    header, rows = speed.speed_rows([row.to_json() for row in measurements])
    return columns(("", *map(str.upper, header)), rows)
