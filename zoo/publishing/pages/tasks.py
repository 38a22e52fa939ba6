"""Writes docs/tasks.md: every task, the source of its data, errors of forecasts by horizon, and the stream `fsdd-stream`.

Does not import torch.
"""

from pathlib import Path
from typing import Any

from ...checkpoints import results
from ...registry import load_lock, load_registry
from ...registry.metrics import METRICS
from ...registry.schema import Dataset, Task
from ...utils import paths
from ...utils.text import counted, markdown
from . import card_link
from .speed import measurements, provenance

PAGE = ("docs", "tasks.md")
STREAM = """`fsdd-stream` is one long recording: the 300 test recordings of `fsdd` in a random order, a pause of 0.5 to 1.5 s after each.
`zoo.data.listening.Listener` gives a final prediction after the given number of quiet 10 ms frames and, with *early*, a provisional one after fewer. A hit is a digit with the right final
prediction; any other final prediction is a false alarm; a provisional one is replaced if the sound goes on. Latency runs from the end of a digit, its last frame that is not quiet, to its first prediction, provisional or final: the
time that the listener waits, and the processor time of one thread for the last 10 ms, measured while other jobs ran. `benchmarks/fsdd_stream.py` has every
definition."""


def pages() -> dict[Path, str]:
    """Return the text of docs/tasks.md, by path."""
    return {paths.path(*PAGE): page()}


def page() -> str:
    """Return the text of docs/tasks.md."""
    known, tasks, used = load_registry(), [], dict[str, Task]()
    for name, task in known.all_tasks.items():
        sizes = load_lock().splits.get(name)
        examples = " / ".join(f"{sizes[split]:,}" for split in ("train", "validation", "test")) if sizes else "-"
        tasks.append((f"`{name}`", task.title, task.example_text, task.output_text, examples, f"`{task.dataset}`"))
        used.setdefault(task.dataset, task)
    rows = []
    for key, task in used.items():
        data = known.datasets[key]
        title = f"{data.title}{f', standing in for {data.proxy_for}' if data.proxy_for else ''}"
        source = "not available: reported figures only" if task.absent else _origin(data)
        rows.append((f"`{key}`", title, data.license, source, test_data(task, data)))
    parts = [
        "# Tasks",
        "In a model's name, the task follows the number of units. In the column of outputs, *last*, *mean* and *every* say what "
        "the head reads: the last state, the mean of the states over time, or the state of every step. Examples are those of "
        "the training, the validation and the test split. [Data](#data) lists the sources.",
        markdown(("name", "task", "input", "output", "examples", "data"), tasks),
        "## Data",
        "Some data are generated. All other data are read from a folder below `$RNNZOO_DATA` (default: `~/.cache/rnnzoo`), and "
        "each file is checked against its sha256 in `cards/lock.json`. The last column says whether the test data come with the "
        "package.",
        markdown(("name", "data", "licence", "source", "test data"), rows),
    ]
    forecasts = {name: task for name, task in known.all_tasks.items() if task.horizons}
    if forecasts:
        parts += ["## Forecasts by horizon", *(_forecast(name, task) for name, task in forecasts.items())]
    if (stream := measurements("listening")) is not None:
        parts += ["## Digits in a stream", STREAM.replace("\n", " "), *_stream(stream), provenance("listening", stream)]
    return "\n\n".join(parts) + "\n"


def _origin(data: Dataset) -> str:
    """Return a text on where a dataset's files come from."""
    if data.folder is None:
        return "generated"
    if data.hub_files:
        return f"`{data.folder}`, or the Hub's `{data.hub}`"
    source = "derived from" if data.derived else "from"
    if data.originals:
        (file,) = data.files
        return f"`{data.folder}`, to make by `rnnzoo convert {file} FOLDER` from a copy of {data.url}"
    return f"`{data.folder}`, to download by hand; {source} {data.url}" if data.url else f"`{data.folder}`"


def test_data(task: Task, data: Dataset) -> str:
    """Return a text on whether the package contains the test data of a task."""
    if task.absent:
        return "-"
    if data.folder is None:
        return "generated"
    return "in the package" if data.test_in_package else "not in the package"


def _forecast(name: str, task: Task) -> str:
    """Return a table of forecast errors: persistence first, then every measured model of the task, the best first."""
    measured = {
        model: results.for_model(model).measured() for model, m in load_registry().models.items() if m.task == name
    }
    figures = sorted(((m, e) for m, e in measured.items() if e), key=lambda pair: pair[1].value)
    rows = [("repeating the last value", *(f"{error:.3g}" for error in task.persistence))]
    for model, e in figures:
        link = card_link(model)
        rows.append((link, *(METRICS[e.metric].text(e.by_horizon[str(h)]) for h in task.horizons)))
    header = (f"`{name}`, normalised RMSE", *(counted(h, "step") for h in task.horizons))
    return markdown(header, rows)


def _stream(data: dict[str, Any]) -> list[str]:
    """Return the tables of `data`, from benchmarks/listening.json: a stream of digits, and hours of noise without digits."""
    rows, hours = [], []
    for row in data["rows"]:
        answers = f"after {row['pause']} frames" + (f", early after {row['early']}" if row["early"] else "")
        waited, latency, computed = (_spread(row[name]) for name in ("waited", "latency", "computed"))
        share = f"{row['hits']} of {row['digits']}"
        link = card_link(row["network"])
        alarms, revised = f"{row['false_alarms_an_hour']:.0f}", str(row["revised"]) if row["early"] else "-"
        rows.append((link, answers, share, alarms, revised, waited, latency, computed))
        if row["quiet_hours"]:
            hours.append((link, answers, *map(str, row["quiet_hours"].values())))
    header = (
        "network", "predictions", "hits", "false alarms per hour", "provisional ones replaced", "waited, median and 95 %", "latency, median and 95 %",
        "computed per 10 ms, median and 95 %",
    )  # fmt: skip
    quiet = (
        "network",
        "predictions",
        "noise of -76 dB",
        "noise of -58 dB",
        "noise of -76 dB and a knock every ten seconds",
    )
    return [markdown(header, rows), "False alarms in an hour without digits:", markdown(quiet, hours)]


def _spread(seconds: dict[str, float]) -> str:
    """Return a median and a 95th percentile as text in milliseconds. seconds: with the keys "median" and "p95"."""
    return " and ".join(f"{1000 * seconds[name]:.3g} ms" for name in ("median", "p95"))
