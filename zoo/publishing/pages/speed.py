"""Writes tables of the times that the programs in benchmarks/ measured. Does not import torch."""

import json
from collections.abc import Sequence
from typing import Any

from ...utils import paths
from ...utils.text import counted, markdown, significant

UNITS = {"forward": (1, "s"), "forward + backward": (1, "s"), "streamed step": (1e6, "µs")}
"""By pass of a benchmark: (factor from seconds to the displayed unit, name of that unit)."""
PLOTS = {
    "stacks": "Seconds of a forward pass and a training step, by contender",
    "scaling": "Seconds against steps, batch size, layers and units, varied one at a time; the grey line is linear cost",
}
"""By program that measured the numbers: the description of its plot in docs/. `python -m benchmarks.plot` draws them."""


LINEAR_PLOT = "Seconds of a training step against the number of time steps; the grey line is linear cost"


def section(root: str) -> str | None:
    """Return the generated part of docs/speed.md, or None if benchmarks/stacks.json is missing.

    root: path from the page's folder to the repository's root, "" or "../".
    """
    stacks = measurements("stacks")
    if stacks is None:
        return None
    parts = [stack_tables(stacks)]
    for program, alternative_text in PLOTS.items():
        if (data := measurements(program)) is not None:
            parts += [f"![{alternative_text}]({root}docs/{program}.svg)", provenance(program, data)]
    if (fused := measurements("fused")) is not None:
        parts += [
            "## Fused scans on a CPU, cell by cell",
            scan_table(fused, "fused", list(UNITS)),
            provenance("fused", fused),
        ]
    if (linear := measurements("linear")) is not None:
        parts += ["## Linear recurrences on a CPU", linear_tables(linear)]
        parts += [f"![{LINEAR_PLOT}]({root}docs/linear.svg)", provenance("linear", linear)]
    if (matrices := measurements("matrices")) is not None:
        parts += [
            "## States that are matrices, on a CPU",
            scan_table(matrices, "linear", list(UNITS)[:2]),
            provenance("matrices", matrices),
        ]
    if (exponential := measurements("exponential")) is not None:
        parts += ["## Exponentials of matrices, on a CPU", exponential_table(exponential)]
        parts += [provenance("exponential", exponential)]
    if (streams := measurements("streams")) is not None:
        parts += ["## Steps of a stream on a CPU", stream_table(streams), provenance("streams", streams)]
    if (exported := measurements("export_steps")) is not None:
        parts += ["## Steps of a stream outside Python", stream_table(exported), provenance("export_steps", exported)]
    return "\n\n".join(parts)


def measurements(program: str) -> Any:
    """Return the content of benchmarks/PROGRAM.json, or None if the file does not exist."""
    path = paths.path("benchmarks", f"{program}.json")
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def stack_tables(data: dict[str, Any]) -> str:
    """Return a table for each size of stack in `data`, the content of benchmarks/stacks.json; ratios are to its first row."""
    parts = []
    for size in dict.fromkeys((row["layers"], row["units"]) for row in data["contenders"]):
        rows = [row for row in data["contenders"] if (row["layers"], row["units"]) == size]
        header, table = speed_rows(rows)
        parts += [markdown((f"{size[0]} x {size[1]}", *header), table), _ratios_to_products(rows)]
    return "\n\n".join(filter(None, parts))


def linear_tables(data: dict[str, Any]) -> str:
    """Return tables of `data`, the content of benchmarks/linear.json: the time of a training step, and its growth.

    The growth is with the length of the sequences.
    """
    task = [row for row in data["rows"] if row["series"] == "task"]
    seconds = {row["contender"]: row["seconds"] for row in task}
    ours = [name for name in seconds if name.startswith("rnnzoo")]
    size = "{layers} x {units}".format(**task[0])
    header = (size, "training step", *(f"relative to {name}" for name in ours))
    rows = [(n, f"{significant(s)} s", *(f"{s / seconds[name]:.1f}" for name in ours)) for n, s in seconds.items()]
    by_length = {(row["contender"], row["steps"]): row["seconds"] for row in data["rows"] if row["series"] == "length"}
    lengths = sorted({steps for _, steps in by_length})
    costs = [
        (n, *(f"{significant(by_length[n, t])} s" if (n, t) in by_length else "-" for t in lengths)) for n in seconds
    ]
    few = next(row["batch"] for row in data["rows"] if row["series"] == "length")
    return "\n\n".join(
        (
            "A training step without its optimizer, in processor time of one thread. The minGRUs of torch are written in "
            "`benchmarks/linear.py`. "
            f"Sequences of {task[0]['steps']} steps of one feature, {task[0]['batch']} in a batch:",
            markdown(header, rows),
            f"The same with {few} in a batch, by the number of steps:",
            markdown((size, *(f"{t:,} steps" for t in lengths)), costs),
        )
    )


def scan_table(data: dict[str, Any], scan: str, passes: Sequence[str]) -> str:
    """Return a table of `data`: by cell, what a scan and the plain one take.

    data: the content of benchmarks/fused.json or benchmarks/matrices.json. scan: "fused" or "linear". passes: those to show.
    """
    rows = data["contenders"]
    plain = {row["cell"]: row for row in rows if row["backend"] == "plain"}
    table = []
    for row in rows:
        if row["backend"] != "plain":
            both = row, plain[row["cell"]]
            pairs = (_pair(*both, name) for name in passes)
            table.append(
                (f"`{row['cell']}`", *pairs, ", ".join(_mebibytes(each["peak_memory_bytes"]) for each in both))
            )
    size = "{layers} x {units}, {steps} steps, {batch} sequences".format(**rows[0])
    about = f"Of each pair, the first is by the {scan} scan, the second by the plain one."
    return f"{about}\n\n{markdown((size, *passes, 'peak memory'), table)}"


def _pair(row: dict[str, Any], plain: dict[str, Any], name: str) -> str:
    """Return the times of a pass by two scans, and their ratio, as text."""
    (fast, slow), (scale, unit) = (each["seconds"][name] for each in (row, plain)), UNITS[name]
    return f"{significant(scale * fast)} {unit}, {significant(scale * slow)} {unit} ({slow / fast:.1f} times)"


def exponential_table(data: dict[str, Any]) -> str:
    """Return a table of `data`, the content of benchmarks/exponential.json: by matrix, milliseconds of ours and of torch's."""
    header = ("antisymmetric matrix", *data["rows"][0]["seconds"])
    rows = [
        (
            "{n} x {n}, {numbers}".format(**row),
            *(
                f"{significant(1e3 * s['rnnzoo'])} ms, {significant(1e3 * s['torch'])} ms ({s['torch'] / s['rnnzoo']:.1f} times)"
                for s in row["seconds"].values()
            ),
        )
        for row in data["rows"]
    ]
    about = (
        "`exprnn`, `rnn-soft-orthogonal` and `urnn-full` compute their matrices by exponentials, once for each batch. Of each "
        "pair, the first is `zoo/cells/exponential.py`, the second torch.linalg.matrix_exp."
    )
    return f"{about}\n\n{markdown(header, rows)}"


def stream_table(data: dict[str, Any]) -> str:
    """Return the table of `data`, the content of benchmarks/streams.json: microseconds per step, by pass (rows) and network."""
    networks = list(dict.fromkeys(row["network"] for row in data["rows"]))
    seconds = {(row["pass"], row["network"]): row["seconds"] for row in data["rows"]}
    ours = "`"  # the names of our passes are code
    names = sorted(dict.fromkeys(row["pass"] for row in data["rows"]), key=lambda name: not name.startswith(ours))
    table = [
        (name, *(f"{significant(1e6 * seconds[name, n])} µs" if (name, n) in seconds else "-" for n in networks))
        for name in names
    ]
    return markdown(("one step of", *networks), table)


def provenance(program: str, data: dict[str, Any]) -> str:
    """Return text with the machine, date and rounds of a benchmark's numbers, and the command that measures them again.

    program: the benchmark's name. data: the content of its JSON file.
    """
    machine, rounds = data["machine"], data["rounds"]
    threads = counted(machine["threads"], "thread")
    repeats = f"{data['statistic']} of {rounds}" if rounds > 1 else "once"
    command = machine.get("command", f"python -m benchmarks.{program} --rounds {rounds} --threads {machine['threads']}")
    return f"{machine['cpu']}, {machine['device']}, {threads}, torch {machine['torch']}, {machine['date']}, {repeats}; `{command}`."


def speed_rows(rows: Sequence[dict[str, Any]]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return (header, rows) of a table of times, with ratios to the first row. rows: measurements, as JSON data.

    The header does not include the title of the first column.
    """
    passes = [name for name in UNITS if rows[0]["seconds"][name] is not None]
    times = [[_time(row, rows[0], name) for name in passes] for row in rows]
    memory = [_mebibytes(row["peak_memory_bytes"]) for row in rows]
    table = [(row["contender"], *t, m) for row, t, m in zip(rows, times, memory, strict=True)]
    return (*passes, "peak memory"), list(table)


def _time(row: dict[str, Any], first: dict[str, Any], name: str) -> str:
    seconds, (scale, unit) = row["seconds"][name], UNITS[name]
    return "-" if seconds is None else f"{significant(scale * seconds)} {unit} ({seconds / first['seconds'][name]:.1f})"


def _mebibytes(count: int | None) -> str:
    return "-" if count is None else f"{count / 2**20:,.0f} MiB"


def _ratios_to_products(rows: Sequence[dict[str, Any]]) -> str:
    """Return a sentence with the time of each of rnnzoo's networks in `rows` divided by that of its matrix products alone."""
    products = {row["cell"]: row["seconds"] for row in rows if row["library"] == "products"}
    texts = []
    for row in rows:
        compiled = (row["library"], row["backend"], row["precision"]) == ("rnnzoo", "auto", "no")
        if compiled and row["cell"] in products:
            ratios = (row["seconds"][name] / seconds for name, seconds in products[row["cell"]].items() if seconds)
            texts.append(f"{row['contender']} {' and '.join(f'{ratio:.1f}' for ratio in ratios)}")
    subject = "Time divided by that of the bare matrix products, forward and forward + backward"
    return f"{subject}: {', '.join(texts)}." if texts else ""
