"""A short story and a question for each bAbI task, in the task's own words, for cards and for pages in which a network runs."""

from collections.abc import Collection

from ..errors import CheckpointError
from ..registry.schema import Task

STORIES = {
    "qa1-single-supporting-fact": ("Mary moved to the bathroom. John went to the hallway.", "Where is Mary?"),
    "qa2-two-supporting-facts": (
        "Mary got the milk there. John moved to the bedroom. Mary travelled to the hallway.",
        "Where is the milk?",
    ),
    "qa3-three-supporting-facts": (
        "John took the apple. John went to the office. John journeyed to the bathroom. John dropped the apple.",
        "Where was the apple before the bathroom?",
    ),
    "qa4-two-arg-relations": (
        "The office is north of the kitchen. The garden is south of the kitchen.",
        "What is north of the kitchen?",
    ),
    "qa5-three-arg-relations": (
        "Bill travelled to the office. Fred got the apple there. Fred gave the apple to Bill.",
        "Who gave the apple to Bill?",
    ),
    "qa6-yes-no-questions": ("John moved to the garden. Daniel went to the kitchen.", "Is John in the garden?"),
    "qa7-counting": (
        "Mary picked up the apple there. Mary took the milk. Mary dropped the apple.",
        "How many objects is Mary carrying?",
    ),
    "qa8-lists-sets": (
        "Daniel took the apple there. Daniel got the milk. Daniel went to the office.",
        "What is Daniel carrying?",
    ),
    "qa9-simple-negation": (
        "Sandra is in the garden. Daniel is no longer in the office.",
        "Is Daniel in the office?",
    ),
    "qa10-indefinite-knowledge": (
        "Bill is either in the school or the park. Mary travelled to the cinema.",
        "Is Bill in the park?",
    ),
    "qa11-basic-coreference": ("Mary journeyed to the hallway. After that she went to the bathroom.", "Where is Mary?"),
    "qa12-conjunction": (
        "Mary and John went to the office. Daniel and Sandra moved to the garden.",
        "Where is John?",
    ),
    "qa13-compound-coreference": (
        "Mary and Daniel went to the hallway. Then they journeyed to the garden.",
        "Where is Daniel?",
    ),
    "qa14-time-reasoning": (
        "Yesterday Julie went to the park. This morning Julie travelled to the school. This afternoon Julie moved to the cinema.",
        "Where was Julie before the cinema?",
    ),
    "qa15-basic-deduction": (
        "Mice are afraid of cats. Wolves are afraid of sheep. Gertrude is a mouse. Emily is a wolf.",
        "What is Gertrude afraid of?",
    ),
    "qa16-basic-induction": (
        "Lily is a swan. Lily is white. Brian is a frog. Brian is green. Greg is a swan.",
        "What color is Greg?",
    ),
    "qa17-positional-reasoning": (
        "The red square is to the left of the triangle. The pink rectangle is to the right of the triangle.",
        "Is the red square to the left of the pink rectangle?",
    ),
    "qa18-size-reasoning": (
        "The box is bigger than the chest. The chocolate fits inside the chest.",
        "Does the chocolate fit in the box?",
    ),
    "qa19-path-finding": (
        "The kitchen is west of the office. The garden is north of the office.",
        "How do you go from the kitchen to the garden?",
    ),
    "qa20-agents-motivations": (
        "Yann is tired. Yann travelled to the bedroom. Jason is thirsty.",
        "Where will Jason go?",
    ),
}
"""By layout of a task: a story and a question."""
ANY = ("A story.", "A question?")
"""For the card of a task that STORIES lacks: its words are unknown."""


def example(task: Task) -> tuple[str, str]:
    """Return a story and a question for a card."""
    return STORIES.get(task.layout, ANY)


def known_example(
    task: Task,
    words: Collection[str],  # a network's vocabulary
) -> tuple[str, str]:
    """Return a story and a question of words that a network knows: those of its task or, for a task that STORIES lacks, any.

    Raises CheckpointError if the vocabulary lacks a word of them, or if they are longer than the task's examples.
    """
    from ..checkpoints.tokenizer import RESERVED, split_words

    if task.layout not in STORIES:
        plain = [word for word in words if word not in RESERVED and split_words(word) == [word]]
        return " ".join(plain[1:8]), " ".join(plain[:1])
    both = STORIES[task.layout]
    used = [word for text in both for word in split_words(text)]
    if strange := sorted(set(used) - set(words)):
        raise CheckpointError(
            f"{task.title}: the vocabulary lacks {', '.join(strange)}, of the example in zoo/publishing/babi_stories.py. "
            "Restore the original vocabulary.txt, or give the task's layout another name."
        )
    if len(used) > task.steps:
        raise CheckpointError(f"{task.title}: its example has {len(used)} words, but the task only {task.steps}.")
    return both
