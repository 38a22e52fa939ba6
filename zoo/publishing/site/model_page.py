"""The page of a model: the sections of its card, the network running in the browser, charts, and files to download."""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from ... import registry
from ...errors import CheckpointError
from ...exports.formats import FORMATS, graphs_of, why_not
from ...registry import Entry
from ...registry.metrics import METRICS
from ...utils import paths
from .. import babi_stories, cards, lattices
from . import analyses, charts, diagrams, markup
from .analyses import Picture
from .charts import Series
from .facts import ModelFacts
from .templating import Site

if TYPE_CHECKING:
    from .live import LiveModel

SECTIONS = ("Use", "Architecture", "Figures", "Training", "Limits", "Sources")
"""The sections of a card that the page shows unchanged. For the section on gradients it has charts instead."""


@dataclass(frozen=True)
class Download:
    """A file that a visitor can download."""

    name: str
    href: str
    size: int
    sha256: str
    note: str = ""


def add(
    site: Site, models: Sequence[ModelFacts], live: "Mapping[str, LiveModel]", link: markup.LinkMap, recordings: Sequence[str], onnx: bool = False,
) -> None:  # fmt: skip
    """Add the page of every model, and the files of those with weights.

    live: the models that run in their pages, by name. link: see markup.LinkMap. recordings: the spoken words of the
    recordings in assets/recordings.js. onnx: True to also export networks with weights as ONNX.
    """
    datasets = registry.load_registry().datasets
    for name, each in live.items():
        site.files[f"live/{name}.js"] = each.script
    for model in models:
        card = markup.sections(cards.body(model.entry, model.recorded, model.count))
        body = {
            title: markup.html(card[title], f"cards/{model.name}", link, shift=1) for title in SECTIONS if title in card
        }
        kept = lattices.stored(model.name)
        mine = live.get(model.name)
        site.page(
            model.href, "model.html", model=model, body=body, drawing=diagrams.drawing(model.entry), bars=_bars(model), curves=_curves(model),
            lattice=analyses.lattice(kept.arrays["mean"], "") if kept else [], lattice_lines=list(kept.lines) if kept else [],
            story=_story(model, mine), lattice_setting=kept.caption if kept else "", downloads=_downloads(site, model, mine, onnx), live=mine, recordings=recordings, dataset=datasets.get(model.entry.task.dataset),
            not_live=_why_not_live(model.entry) if live and not mine else None, formats=_formats(model.entry),
            live_peers=[each.name for each in live.values() if mine and each.task == mine.task and each.name != model.name], headline=markup.inline(card[""].strip().rpartition("\n")[2]),
        )  # fmt: skip


def _story(model: ModelFacts, live: "LiveModel | None") -> tuple[str, str] | None:
    """Return the story and the question with which a page begins; None if no network answers questions there.

    Raises the errors of `babi_stories.known_example`.
    """
    if live is None or live.kind != "story":
        return None
    return babi_stories.known_example(model.entry.task, live.data["words"])


def _bars(model: ModelFacts) -> Picture | None:
    """Return a bar chart of the reported figures and ours, or None if there is nothing to show."""
    rows = [row for row in model.rows if row.measured is not None or row.reported is not None]
    if not rows or not any(row.reported is not None for row in rows):
        return None
    measure, drawn = rows[0].measure, []
    for row in rows:
        if row.reported is not None:
            drawn.append(
                (f"{row.table}", measure.scale * row.reported, row.measure.printed(row.reported), model.colour, True)
            )
    ours: dict[tuple[str, str], float] = {}
    for row in rows:
        for seed, value in zip(row.seeds, row.values, strict=False) if row.mixed else ():  # a mean that no run has
            ours[f"ours, seed {seed}", row.measure.text(value)] = value
        if row.measured is not None and not row.mixed:
            ours["ours", row.measure.text(row.measured)] = row.measured
    drawn += [(name, measure.scale * value, text, model.colour, False) for (name, text), value in ours.items()]
    most = 100.0 if measure.unit == " %" else max(value for _, value, *_ in drawn)
    return Picture(
        measure.title,
        charts.bars(
            drawn,
            most,
            summary=f"{measure.title}, reported and measured: " + ", ".join(f"{n} {t}" for n, _, t, *_ in drawn),
        ),
        Markup(""),
        Markup(""),
    )


def _curves(model: ModelFacts) -> list[Picture]:
    """Return charts of loss and metric over the epochs of the training."""
    training = model.recorded.training
    if training is None or len(training.history) < 2:
        return []
    measure = METRICS[training.metric]
    found = []
    for kind, title, scale, log in (
        ("loss", f"loss, {measure.loss}", 1.0, False),
        (
            "metric",
            measure.axis,
            measure.scale,
            not measure.higher_is_better,
        ),
    ):
        series = [
            Series(
                name, [(float(e.epoch), scale * getattr(e, f"{part}_{kind}")) for e in training.history], colour, dashed
            )
            for part, name, colour, dashed in (
                ("train", "training", "#6f7480", True),
                ("validation", "validation", model.colour, False),
            )
        ]
        rows = [
            (e.epoch, *(charts.number(s.points[i][1]) for s in series), f"{e.lr:.3g}")
            for i, e in enumerate(training.history)
        ]
        summary = f"{title} over {len(training.history)} epochs; validation ends at {series[1].points[-1][1]:.4g}"
        epochs = [float(e.epoch) for e in training.history]
        few = epochs if len(epochs) <= charts.TICKS else None  # else there would be ticks between epochs
        chart = charts.lines(series, "epoch", title, log=log, summary=summary, ticks=few)
        found.append(
            Picture(
                measure.loss.split(" in ")[0] if kind == "loss" else measure.title,
                chart,
                charts.legend(series),
                charts.table(("epoch", "training", "validation", "learning rate"), rows),
            )
        )
    return found


def _formats(entry: Entry) -> list[str]:
    """Return the names of the formats of zoo.exports to which the network can be exported."""
    return [name for name in FORMATS if graphs_of(entry.config, name)]


def _why_not_live(entry: Entry) -> str | None:
    """Return the reason why a network with weights can never run in its page; None if it could, given files and clang."""
    from .live import kind_of

    if entry.weights is None or kind_of(entry):
        return None
    return why_not(entry.config, "wasm", "step") or "its input cannot be made by hand"


def _downloads(site: Site, model: ModelFacts, live: "LiveModel | None", onnx: bool) -> list[Download]:
    """Add to the site the pinned files of a model that are on this machine, and its exported files; return all of them.

    Raises CheckpointError for a file that differs from its pin, and the errors of `zoo.export`.
    """
    if model.entry.weights is None:
        return []
    found = []
    for name, pin in model.entry.weights.every_file.items():
        source = paths.path("cards", model.name, name)
        if source.exists():
            href, content = f"files/{model.name}/{name}", source.read_bytes()
            if hashlib.sha256(content).hexdigest() != pin.sha256:
                raise CheckpointError(
                    f"{source} is not the file that cards/lock.json pins; nothing was written. To see what differs: "
                    f"rnnzoo verify {model.name}"
                )
            site.files[href] = content
            found.append(Download(name, href, pin.size, pin.sha256))
    exported = {}
    if live and live.header is not None:
        rounded = ", weights rounded to 8 bits" if live.rounded else ""
        exported[f"{model.name}.h"] = live.header, f"its step in C99{rounded}"
    if onnx and found and why_not(model.entry.config, "onnx", "sequence") is None:
        exported[f"{model.name}.onnx"] = _onnx(model.name), "whole sequences"
    for name, (content, note) in exported.items():
        href = f"files/{model.name}/{name}"
        site.files[href] = content
        found.append(Download(name, href, len(content), hashlib.sha256(content).hexdigest(), note))
    return found


def _onnx(name: str) -> bytes:
    """Return the content of an ONNX file of the network, which reads whole sequences."""
    from ...exports.writing import export

    with tempfile.TemporaryDirectory() as folder:
        (written,) = export(name, "onnx", graph="sequence", out=folder, origin="rnnzoo site")
        return written.path.read_bytes()
