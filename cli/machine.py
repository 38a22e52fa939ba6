"""`rnnzoo bench` and `rnnzoo doctor`: what this machine does, and what it has."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from zoo import registry
from zoo.errors import RequestError
from zoo.publishing import cards

from .catalogue import Name
from .output import AsJson, columns, emit, progress, say
from .work import Device

if TYPE_CHECKING:
    from zoo.diagnostics.benchmark import Contender, Measurement, Workload


def bench(
    name: Name,
    against: Annotated[
        str | None,
        typer.Option(help="Comma-separated: torch, torchrecurrent; or none (default: those installed that have one)."),
    ] = None,
    unflushed: Annotated[
        bool, typer.Option("--unflushed", help="Peers also as they come: a training step can take many times as long.")
    ] = False,
    bf16: Annotated[
        bool, typer.Option("--bf16", help="Also all but the plain scan under autocast, in bfloat16.")
    ] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Sequences at a time.")] = 100,
    rounds: Annotated[int, typer.Option(min=1, help="Repetitions after a warm-up; the median counts.")] = 3,
    threads: Annotated[int | None, typer.Option(min=1, help="Of the CPU (default: torch's choice).")] = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Time a model on its task's sequences, beside torch and torchrecurrent: seconds, ratio to ours, memory, streaming.

    Peers flush denormal numbers to zero, as rnnzoo does; see --unflushed.
    """
    entry = registry.find(name)  # before torch is imported
    if entry.task.readout == "none":
        raise RequestError(f"{name} has no time steps, and bench times recurrent networks.")
    if entry.task.vocabulary:
        raise RequestError(f"{name} reads tokens, and bench times networks that read numbers.")
    import torch

    from zoo.diagnostics import benchmark
    from zoo.networks import builder

    config, target = entry.config, builder.resolve_device(device)
    flushed = (False,) if target.type != "cpu" else (True, False) if unflushed else (True,)
    asked = (
        None if against is None else [part.strip() for part in against.split(",") if part.strip() not in ("", "none")]
    )
    work = benchmark.Workload(entry.task.steps, batch_size, threads or torch.get_num_threads(), str(target))
    contenders = [*benchmark.ours(config), *benchmark.peers(config, asked, flushed), *benchmark.products(config)]
    if bf16:
        contenders += reduced([c for c in contenders if c.backend == "auto" and c.library != "products"], str(target))
    for library in benchmark.missing_peers(config) if asked is None else ():
        say(f"{library} is not installed and left out; to compare with it: pip install 'rnnzoo[bench]'")
    found = race(contenders, work, rounds, f"bench {name}")
    ours, rows = found[0].seconds, []
    for row in found:
        ratio = {what: s / ours[what] for what, s in row.seconds.items() if s is not None and ours[what]}  # type: ignore[operator]
        rows.append({**row.to_json(), "ratio": ratio})
    data = {"model": name, "machine": benchmark.machine(work, contenders), "rounds": rounds, "contenders": rows}
    emit(data, as_json, table(found))


def reduced(contenders: "Sequence[Contender]", device: str = "cpu") -> "list[Contender]":
    """The same in bfloat16, without the peers that torch cannot compute so on this machine, which is said."""
    from zoo.diagnostics import benchmark

    found = []
    for half in benchmark.in_bfloat16(contenders):
        if half.library != "rnnzoo" and (why := benchmark.failure(half, device)):
            say(f"{half.name} is left out: {why}")
        else:
            found.append(half)
    return found


def race(contenders: "Sequence[Contender]", work: "Workload", rounds: int, title: str) -> "list[Measurement]":
    """Measure, saying on stderr what it will take."""
    from zoo.diagnostics import benchmark

    where = f"threads: {work.threads}" if work.device == "cpu" else work.device
    again = f"{rounds} round{'s' if rounds > 1 else ''}"
    say(
        f"{title}: {len(contenders)} contenders, a warm-up and {again}; {work.steps} steps, batch {work.batch}, {where}"
    )
    began = time.monotonic()

    with progress(title) as bar:

        def report(done: int, total: int, text: str) -> None:
            nonlocal began
            if done == 0:
                began = time.monotonic()
            elif done == total // (rounds + 1):
                once = time.monotonic() - began
                say(f"{title}: a round takes {once:.1f} s, so about {rounds * once:.0f} s more")
            bar(done, total, text)

        return benchmark.measure(contenders, work, rounds, report)


def table(found: "Sequence[Measurement]") -> str:
    """Seconds of every pass and, in brackets, their ratio to the first row's; peak memory."""
    header, rows = cards.speed_rows([row.to_json() for row in found])
    return columns(("", *map(str.upper, header)), rows)


def doctor(as_json: AsJson = False) -> None:
    """Which devices, backends and extras there are, what is missing and how to get it."""
    from .doctor import examine

    findings = examine()
    rows = [(f.what, "" if f.status == "ok" else f.status, f.found, f.fix) for f in findings]
    emit([asdict(f) for f in findings], as_json, columns(("", "", "FOUND", "WHAT TO DO"), rows))
    if any(f.status == "broken" for f in findings):
        raise typer.Exit(1)
