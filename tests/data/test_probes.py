"""Every probe is what its layout says, computed again from the symbols of its input."""

import pytest
import torch
from torch import Tensor

from zoo import registry
from zoo.data import task_data
from zoo.data.base import IGNORED, Split
from zoo.errors import DataError, RequestError

COUNT = 200
TASKS = ("copying", "selective-copying", "parity", "recall")


def split(task: str, name: str = "test") -> Split:
    known = registry.load_registry()
    return task_data(known.all_tasks[task], known.datasets["probes"]).split(name)


def read(task: str, name: str = "test") -> tuple[list[list[int]], Tensor, Tensor | None]:
    """The symbols of some examples, each as long as it is, their targets and lengths."""
    x, y, lengths = split(task, name).batch(torch.arange(COUNT))
    assert x.unique().tolist() == [0, 1]
    assert (x.sum(2) == 1).all()
    symbols = x.argmax(2).tolist()
    ends = [x.shape[1]] * COUNT if lengths is None else lengths.tolist()
    return [row[:end] for row, end in zip(symbols, ends, strict=True)], y, lengths


@pytest.mark.parametrize("task", ["copying", "selective-copying"])
def test_the_symbols_come_back_in_order(task: str) -> None:
    rows, targets, lengths = read(task)
    assert lengths is None
    places = set()
    for row, target in zip(rows, targets.tolist(), strict=True):
        sign = row.index(1)
        assert sign == 109
        assert set(row[sign + 1 :]) == {0}
        word = [symbol - 2 for symbol in row[:sign] if symbol]
        assert target == [IGNORED] * 110 + word
        places.add(tuple(t for t in range(sign) if row[t]))
    if task == "copying":
        assert places == {tuple(range(10))}
    else:
        assert len(places) == COUNT
        assert {t for each in places for t in each} == set(range(109))


@pytest.mark.parametrize(("name", "least", "most"), [("train", 1, 40), ("validation", 1, 40), ("test", 41, 256)])
def test_parity_is_asked_of_longer_sequences_than_it_is_learnt_from(name: str, least: int, most: int) -> None:
    rows, targets, _ = read("parity", name)
    assert [sum(row) % 2 for row in rows] == targets.tolist()
    lengths = split("parity", name).lengths
    assert lengths is not None
    assert (int(lengths.min()), int(lengths.max())) == (least, most)
    assert 0.4 < targets.float().mean() < 0.6


def test_the_digit_beside_the_letter_is_asked_for() -> None:
    rows, targets, _ = read("recall")
    places = set()
    for row, target in zip(rows, targets.tolist(), strict=True):
        *pairs, first, second, asked = row
        assert (first, second) == (36, 36)
        letters, digits = pairs[::2], [digit - 26 for digit in pairs[1::2]]
        assert len(set(letters)) == 8
        assert max(letters) < 26
        assert target == digits[letters.index(asked)]
        places.add(letters.index(asked))
    assert places == set(range(8))


@pytest.mark.parametrize("task", TASKS)
def test_splits_differ_and_other_numbers_are_refused(task: str) -> None:
    sizes = {name: len(split(task, name)) for name in ("train", "validation", "test")}
    assert sizes == {"train": 50_000, "validation": 2_000, "test": 5_000}
    assert not torch.equal(split(task, "validation").raw, split(task, "test").raw[:2000])
    known = registry.load_registry()
    fewer = known.datasets["probes"].model_copy(update={"test": 10})
    with pytest.raises(DataError, match="do not match the locked sha256"):
        task_data(known.all_tasks[task], fewer).split("test")


def test_a_layout_that_is_none_of_them() -> None:
    known = registry.load_registry()
    odd = known.all_tasks["copying"].model_copy(update={"layout": "sorting"})
    with pytest.raises(RequestError, match=r"no layout 'sorting'.*one of: copying, selective-copying"):
        task_data(odd, known.datasets["probes"])


@pytest.mark.parametrize("layout", ["copying", "selective-copying"])
def test_a_word_fits_before_its_answer(layout: str) -> None:
    known = registry.load_registry()
    short = known.all_tasks["copying"].model_copy(update={"layout": layout, "steps": 20})
    with pytest.raises(DataError, match="needs `steps` of at least 21: 10 symbols, GO, and the answers"):
        task_data(short, known.datasets["probes"]).split("test")
