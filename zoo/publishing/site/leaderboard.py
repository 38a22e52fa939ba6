"""The leaderboard: for each task, what papers report of any network beside what was measured here, best first."""

from collections.abc import Sequence
from dataclasses import dataclass

from ... import registry
from ...registry.metrics import METRICS
from .. import literature
from . import charts
from .facts import ModelFacts
from .templating import Site

DRAWN = 15
"""Networks in the picture of a task."""


@dataclass(frozen=True)
class Place:
    """A network on the leaderboard of a task."""

    name: str
    value: float
    text: str
    source: str
    href: str | None
    """The page of the network, if it is one of the zoo."""
    link: str | None
    """The paper, if it is not."""
    colour: str


def add(site: Site, models: Sequence[ModelFacts]) -> None:
    """Add the page, if the registry has figures of the literature."""
    tasks = []
    for task, title in dict.fromkeys((row.task, row.task_title) for row in literature.rows()):
        places = sorted([*_of_papers(task), *_ours(task, models)], key=lambda place: -place.value)
        first = [(place.name, place.value, place.text, place.colour, place.href is None) for place in places[:DRAWN]]
        low = min(value for _, value, *_ in first)
        base = low - 0.25 * (first[0][1] - low) - 0.1
        drawn = [(name, value - base, text, colour, hollow) for name, value, text, colour, hollow in first]
        words = f"The best {len(drawn)} networks on {task}, from {first[0][2]} to {first[-1][2]}; bars begin at {base:.1f} %"
        tasks.append((task, title, places, charts.bars(drawn, first[0][1] - base, summary=words), base))
    if tasks:
        site.page("leaderboard.html", "leaderboard.html", tasks=tasks)


def _of_papers(task: str) -> list[Place]:
    papers, unit = registry.load_registry().papers, METRICS["accuracy"]
    return [
        Place(row.model, unit.scale * (row.reported or 0.0), unit.printed(row.reported or 0.0),
              f"{papers[row.paper or ''].citation}, {row.table}", None, papers[row.paper or ""].link, "#6f7480")
        for row in literature.rows(task)
    ]  # fmt: skip


def _ours(task: str, models: Sequence[ModelFacts]) -> list[Place]:
    return [
        Place(m.name, m.quality, m.measured_text or "", f"measured here, {m.count.parameters:,} parameters", m.href, None, m.colour)
        for m in models
        if m.entry.model.task == task and m.entry.weights and m.quality is not None
    ]  # fmt: skip
