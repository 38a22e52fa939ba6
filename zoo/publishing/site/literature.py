"""The page of published results: for each task, the figures that papers report and ours, best first."""

from collections.abc import Sequence

from ... import registry
from ..pages import literature
from . import charts
from .facts import ModelFacts
from .templating import Site

DRAWN = 15
"""Most networks in the chart of a task."""
PAPERS_COLOUR = "#6f7480"


def add(site: Site, models: Sequence[ModelFacts]) -> None:
    """Add the page to the site, if the registry has figures of the literature."""
    colours, known, tasks = {m.name: m.colour for m in models}, registry.load_registry().all_tasks, []
    for task, places in literature.places([(m.entry, m.recorded, m.count) for m in models]).items():
        first = places[:DRAWN]
        measure = literature.measure(task)
        values = [measure.scale * place.value for place in first]
        base = max(0.0, min(values) - 0.25 * (max(values) - min(values)) - 0.1)
        start = f"{base:.1f}{measure.unit}"
        bars = [
            (p.name, value - base, p.text.partition(" (")[0], colours.get(p.name, PAPERS_COLOUR), p.parameters is None)
            for p, value in zip(first, values, strict=True)
        ]
        words = (
            f"The best {len(bars)} networks on {task}, from {first[0].text} to {first[-1].text}; bars begin at {start}"
        )
        chart = charts.bars(bars, max(values) - base, summary=words)
        tasks.append((task, known[task].title, measure, places, chart, len(bars), start))
    if tasks:
        site.page("literature.html", "literature.html", tasks=tasks)
