"""The leaderboard page: for each task, the figures that papers report and ours, best first."""

from collections.abc import Sequence

from ... import registry
from .. import literature
from . import charts
from .facts import ModelFacts
from .templating import Site

DRAWN = 15
"""Most networks in the chart of a task."""
PAPERS_COLOUR = "#6f7480"


def add(site: Site, models: Sequence[ModelFacts]) -> None:
    """Add the leaderboard to the site, if the registry has figures of the literature."""
    colours, known, tasks = {m.name: m.colour for m in models}, registry.load_registry().all_tasks, []
    for task, places in literature.places([(m.entry, m.recorded, m.count) for m in models]).items():
        first = places[:DRAWN]
        best, least = (100 * place.accuracy for place in (first[0], first[-1]))
        base = least - 0.25 * (best - least) - 0.1
        bars = [
            (p.name, 100 * p.accuracy - base, p.text, colours.get(p.name, PAPERS_COLOUR), p.parameters is None)
            for p in first
        ]
        words = f"The best {len(bars)} networks on {task}, from {first[0].text} to {first[-1].text}; bars begin at {base:.1f} %"
        tasks.append((task, known[task].title, places, charts.bars(bars, best - base, summary=words), len(bars), base))
    if tasks:
        site.page("leaderboard.html", "leaderboard.html", tasks=tasks)
