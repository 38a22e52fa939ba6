"""`rnnzoo bench`: how fast a model is on this machine, beside peers. benchmarks/ uses its functions, too."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from zoo import registry
from zoo.errors import RequestError

from .arguments import AsJson, Device, Name
from .output import columns, emit, progress, say

if TYPE_CHECKING:
    from zoo.diagnostics.benchmark import Contender, Measurement, Workload


def bench(
    name: Name,
    against: Annotated[
        str | None,
        typer.Option(help="Comma-separated: torch, torchrecurrent; or none (default: installed peers with the cell)."),
    ] = None,
    unflushed: Annotated[
        bool,
        typer.Option("--unflushed", help="Also time peers that do not flush denormal numbers, which is far slower."),
    ] = False,
    bf16: Annotated[
        bool, typer.Option("--bf16", help="Also time everything but the plain scan in bfloat16, under autocast.")
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, metavar="N", help="Sequences per batch.")] = 100,
    rounds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Repetitions after a warm-up; the median counts.")
    ] = 3,
    threads: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="CPU threads (default: torch's choice).")
    ] = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Time a model beside torch and torchrecurrent: seconds, their ratio to rnnzoo's, and peak memory.

    Passes: forward, forward + backward, and a streamed step. Peers flush denormal numbers to zero, as rnnzoo does; see
    --unflushed.
    """
    entry = registry.find(name)  # before torch is imported
    if entry.task.readout == "none":
        raise RequestError(f"{name} has no time steps, and bench times recurrent networks.")
    if entry.task.vocabulary:
        raise RequestError(f"{name} reads tokens, and bench times networks that read numbers.")
    import torch

    from zoo.diagnostics import benchmark
    from zoo.networks.devices import resolve_device

    config, target = entry.config, resolve_device(device)
    flushed = (False,) if target.type != "cpu" else (True, False) if unflushed else (True,)
    libraries = (
        None if against is None else [part.strip() for part in against.split(",") if part.strip() not in ("", "none")]
    )
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
    data = {"model": name, "machine": benchmark.machine(work, contenders), "rounds": rounds, "contenders": rows}
    emit(data, as_json, table(measurements))


def reduced(contenders: "Sequence[Contender]", device: str = "cpu") -> "list[Contender]":
    """Return the contenders in bfloat16, without the peers that torch cannot run so on `device`; print which those are."""
    from zoo.diagnostics import benchmark

    runnable = []
    for contender in benchmark.in_bfloat16(contenders):
        if contender.library != "rnnzoo" and (problem := benchmark.failure(contender, device)):
            say(f"{contender.name} is left out: {problem}")
        else:
            runnable.append(contender)
    return runnable


def race(contenders: "Sequence[Contender]", work: "Workload", rounds: int, title: str) -> "list[Measurement]":
    """Measure the contenders, and print on stderr how long that will take."""
    from zoo.diagnostics import benchmark

    place = f"threads: {work.threads}" if work.device == "cpu" else work.device
    repetitions = f"{rounds} round{'s' if rounds > 1 else ''}"
    say(
        f"{title}: {len(contenders)} contenders, a warm-up and {repetitions}; "
        f"{work.steps} steps, batch {work.batch}, {place}"
    )
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
    """Return a table of the seconds of every pass, with their ratio to the first row's in brackets, and peak memory."""
    from zoo.publishing import speed

    header, rows = speed.speed_rows([row.to_json() for row in measurements])
    return columns(("", *map(str.upper, header)), rows)
