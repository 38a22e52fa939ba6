"""What docstrings of cells say and tests/reference.py does not show: the years of papers, and how some cells behave."""

import inspect
import re
from pathlib import Path

import pytest
import torch
from helpers import direction, network, normal, random_state

from zoo.cells import CELLS, cell_class
from zoo.registry import load_registry
from zoo.registry.schema import Paper

CITATION = re.compile(r"([A-Z][\w-]+)(?:(?:, [A-Z][\w' -]+?)* & [A-Z][\w' -]+?| et al\.)? (\d{4})\b")
"""A first author and a year: `Le, Jaitly & Hinton 2015`, `Landi et al. 2021`, `Chen 2017`."""


def cited(text: str) -> set[tuple[str, int]]:
    return {(author, int(year)) for author, year in CITATION.findall(" ".join(text.split()))}


def first_author(paper: Paper) -> str:
    return paper.authors.split(",")[0].split()[-1]


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_cites_its_paper_with_the_year_of_sources_yaml(cell: str) -> None:
    papers = load_registry().papers
    assert CELLS[cell].paper in papers, f"add the paper {CELLS[cell].paper!r} to sources.yaml"
    author = first_author(papers[CELLS[cell].paper])
    years = {paper.year for paper in papers.values() if first_author(paper) == author}
    module = Path(inspect.getfile(cell_class(cell))).read_text(encoding="utf-8")
    assert {year for name, year in cited(module) if name == author} <= years


def test_citations_of_one_two_and_more_authors_are_read() -> None:
    text = "(Le, Jaitly & Hinton 2015), van der Westhuizen &\nLasenby 2018, Landi et al. 2021; Chen 2017."
    assert cited(text) == {("Le", 2015), ("Westhuizen", 2018), ("Landi", 2021), ("Chen", 2017)}


@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_a_chaos_free_network_decays_to_zero_unless_its_candidate_has_a_bias(bias: float) -> None:
    net = network("cfn", layers=1, units=3)
    with torch.no_grad():
        direction(net)["input.bias"][6:] = bias
    outputs, _ = net.encode(torch.zeros(2, 300, 2, dtype=torch.float64), random_state(net, 2))
    assert (outputs[:, -1].abs().max() < 1e-6) == (bias == 0)


def test_the_signal_of_a_legendre_memory_has_a_bias() -> None:
    net = network("lmu", layers=1)
    with torch.no_grad():
        for name, p in direction(net).items():
            p.zero_() if name != "input.bias" else p.copy_(torch.eye(len(p), dtype=p.dtype)[0])  # b_u = 1, b_h = 0
    _, ((h, m),) = net.encode(normal(1, 1, *net.interface.input))
    assert (h == 0).all()
    assert (m != 0).all()
