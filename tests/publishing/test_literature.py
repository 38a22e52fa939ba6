"""Figures of networks that have no entry: rows, the command that prints them, and their page."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from zoo import registry
from zoo.checkpoints import results
from zoo.publishing import cards, comparison
from zoo.publishing.pages import literature
from zoo.utils import paths

Run = Callable[..., tuple[int, str, str]]
OURS = ("star-16x64-pmnist", "lstm-16x128-pmnist", "gru-1x128-mnist-rows")
"""With weights, without them, and of a task of which the literature has no figure."""


def test_every_figure_of_the_literature_is_a_row() -> None:
    expected = sorted(
        (table.paper, table.table, network, task, figure)
        for table in registry.load_registry().literature
        for network, figures in {**table.percent, **table.nats}.items()
        for task, figure in zip(table.tasks, figures, strict=True)
        if figure is not None
    )
    rows = literature.rows()
    scale = {"accuracy": 100, "nll": 1, "cross_entropy": 1}
    found = [(r.paper, r.table, r.model, r.task, round(scale[r.metric] * (r.reported or 0), 8)) for r in rows]
    assert sorted(found) == expected
    assert {r.measured for r in rows} == {None}
    assert literature.rows(task="pmnist") == [r for r in rows if r.task == "pmnist"]
    assert literature.rows(paper="s4") == [r for r in rows if r.paper == "s4"]
    assert ("S4", 0.987, "98.7 %") in {(r.model, r.reported, r.reported_text) for r in literature.rows("pmnist", "s4")}
    assert ("RRU", 7.72, "7.72 nats") in {(r.model, r.reported, r.reported_text) for r in literature.rows("jsb")}


def test_figures_of_papers_are_no_models() -> None:
    """No plot, page or catalogue of models has them."""
    assert not {r.model for r in literature.rows()} & registry.models().keys()
    assert not {"s4", "lssl"} & set(comparison.reporting_papers())


def printed(run: Run, *arguments: str) -> set[str]:
    code, out, _ = run("compare", *arguments, "--json")
    assert code == 0
    return {row["model"] for row in json.loads(out)}


def test_compare_prints_them_where_nothing_narrows_it_to_models(run: Run) -> None:
    assert {"S4", "blocklru-1x196-pmnist", "star-16x64-pmnist"} <= printed(run, "--task", "pmnist")
    assert printed(run, "--paper", "lssl") == {"LSSL", "LSSL-fixed", "Dilated RNN"}
    for arguments in (["--task", "pmnist", "--measured"], ["--cell", "star"], ["*-pmnist"], ["--task", "babi-01"]):
        assert "S4" not in printed(run, *arguments)


@pytest.mark.parametrize("task", ["smnist", "pmnist"])
def test_the_page_ranks_ours_among_them(task: str) -> None:
    text = Path(paths.path(*literature.PAGE)).read_text()
    (section,) = (part for part in text.split("\n## ") if f"(`{task}`)" in part)
    lines = re.findall(r"^\| (.+) \| (.+) \| ([\d.]+) % \| (.+) \|$", section, re.M)
    figures = [float(figure) for *_, figure, _ in lines]
    assert figures == sorted(figures, reverse=True)
    ours = {re.findall(r"`(.+)`", name)[0] for name, *_, source in lines if source.startswith("measured here")}
    assert ours == set(registry.list_models(task=task, pretrained=True))
    (source,) = (source for name, *_, source in lines if f"star-16x64-{task}" in name)
    assert source == "measured here, training images augmented"  # by its recipe, a shift of up to a pixel
    (source,) = (source for name, *_, source in lines if name == "S4")
    assert source == "[Gu et al. 2022](https://arxiv.org/abs/2111.00396), Table 6"
    others = {(name, float(figure)) for name, _, figure, source in lines if "measured here" not in source}
    assert others == {(r.model, round(100 * (r.reported or 0), 8)) for r in literature.rows(task)}


def test_networks_of_papers_and_ours_are_ranked_together() -> None:
    models = [(entry, results.for_model(entry.name), cards.counts(entry.name)) for entry in map(registry.find, OURS)]
    ranking = literature.places(models)
    assert {"smnist", "pmnist", "jsb", "nottingham"} <= set(ranking)
    for task, places in ranking.items():
        values = [place.value for place in places]
        assert values == sorted(values, reverse=task in {"smnist", "pmnist"})
    (published,) = [place for place in ranking["pmnist"] if place.name == "S4"]
    assert (published.text, published.parameters) == ("98.7 %", None)
    assert published.source.endswith(", Table 6")
    assert published.link.startswith("https://")
    measured = {place.name: place.parameters for place in ranking["pmnist"] if place.parameters is not None}
    assert measured == {"star-16x64-pmnist": 191_242}
