"""The example of every bAbI task has only words of the task's vocabulary, and a page begins with it."""

import pytest

from zoo import registry
from zoo.checkpoints.tokenizer import Tokenizer, split_words
from zoo.data.babi import LAYOUTS
from zoo.errors import CheckpointError
from zoo.publishing import babi_stories, cards
from zoo.utils import paths

TASKS = [f"babi-{number:02d}" for number in range(1, 21)]
OTHERS = {"babi-03": ("babi-02", {"was", "before"})}
"""A task of which no network has weights: a task whose words it shares, and the words that it has besides."""


def vocabulary(task: str) -> set[str]:
    """Return the words of a task, from the vocabulary of its network."""
    source, more = OTHERS.get(task, (task, set()))
    name = f"rin-1x100-{source}"
    config = registry.find(name).config
    path = paths.path("cards", name, "vocabulary.txt")
    return {*Tokenizer.read(path, config.interface.vocabulary, config.interface.steps).words, *more}


def test_every_layout_has_an_example() -> None:
    assert tuple(babi_stories.STORIES) == LAYOUTS
    assert len(set(babi_stories.STORIES.values())) == len(LAYOUTS)


@pytest.mark.parametrize("name", TASKS)
def test_the_network_of_a_task_knows_every_word_of_its_example(name: str) -> None:
    task = registry.load_registry().all_tasks[name]
    example = babi_stories.known_example(task, vocabulary(name))
    assert example == babi_stories.example(task) == babi_stories.STORIES[task.layout]
    assert all(text and text[0].isupper() and text[-1] in ".?" for text in example)


def test_a_word_that_a_network_lacks_is_an_error() -> None:
    task = registry.load_registry().all_tasks["babi-01"]
    with pytest.raises(CheckpointError, match="bAbI 1, single supporting fact: the vocabulary lacks hallway, mary, of"):
        babi_stories.known_example(task, vocabulary("babi-01") - {"mary", "hallway"})
    with pytest.raises(CheckpointError, match="its example has 13 words, but the task only 11"):
        babi_stories.known_example(task.model_copy(update={"steps": 11}), vocabulary("babi-01"))


def test_a_task_of_ones_own_has_an_example_of_its_words() -> None:
    task = registry.load_registry().all_tasks["babi-01"].model_copy(update={"layout": "mine"})
    words = ["<padding>", "<unknown>", "a,b", "cat", "dog", "x1", "owl"]
    assert babi_stories.known_example(task, words) == ("dog owl", "cat")
    assert all(set(split_words(text)) <= set(words) for text in babi_stories.known_example(task, words))


def test_a_card_asks_the_example_of_its_task() -> None:
    story, question = babi_stories.STORIES["qa18-size-reasoning"]
    assert f'story = "{story}"\n    question = "{question}"\n' in cards.render(registry.find("rin-1x100-babi-18"))
