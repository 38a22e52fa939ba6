"""Networks that read a story and a question about it, and answer."""

from collections.abc import Sequence
from typing import NoReturn

import torch
from torch import Tensor

from ..errors import RequestError
from ..registry.schema import Config
from .layer import stacked
from .network import Network, mask, valid_lengths
from .stack import NetworkState, Stack


class Reader(Network):
    """Three stacks of the same architecture (Hu et al. 2018, section 3.3): one reads the story, one the question.

    What both put out, one vector a word, is joined into one sequence, the story's part first, and read by the third,
    `decoder`, whose output at the end goes to the head. The stack of the story is this network's own `layers`.

    It maps tokens x: (batch, time), in each row a story, its question, and padding, to logits, (batch, outputs). lengths:
    (batch, 2) integers, the words of each story and of each question; what lies beyond them changes nothing. `pooled` is of
    what the decoder puts out.
    """

    def __init__(self, config: Config):
        super().__init__(config)
        assert self.embedding is not None  # as Config demands
        self.question = Stack(config, self.embedding.embedding_dim)
        self.decoder = Stack(config, self.width)

    @property
    def per_step(self) -> Sequence[Stack]:
        """What a word goes through: the stack of the story or that of the question, which are alike, and the decoder."""
        return (self.question, self.decoder)

    def _pooled(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        story, question = self._lengths(x, lengths).unbind(1)
        time = torch.arange(int((story + question).max()), device=x.device)
        asked = story[:, None] + time[: int(question.max())]
        told = self._read_words(self, x[:, : int(story.max())], story)
        about = self._read_words(self.question, _take(x, asked), question)
        after = time >= story[:, None]  # (batch, time): the question's part
        joined = _take(torch.cat([told, about], 1), torch.where(after, told.shape[1] + time - story[:, None], time))
        joined, together = mask(joined, story + question), story + question
        self._follow(self.decoder)
        return self._pool(*self.decoder.run(joined, self.decoder.zero_state(joined), together), together), together

    def _read_words(self, stack: Stack, x: Tensor, lengths: Tensor) -> Tensor:
        """Outputs of a stack, (batch, time, width), for tokens (batch, time)."""
        vectors = self._read_in(mask(x, lengths))
        self._follow(stack)
        outputs, _ = stack.run(vectors, stack.zero_state(vectors), lengths)
        return stacked(outputs).transpose(0, 1)

    def _follow(self, stack: Stack) -> None:
        """A stack runs as this network is told to."""
        stack.backend, stack.tbptt_steps, stack.checkpoint_every = self.backend, self.tbptt_steps, self.checkpoint_every

    def _lengths(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """The lengths on x's device, if both are what this network takes."""
        self._check_input(x)
        known = valid_lengths(lengths, x, 2)
        if known is None:
            raise RequestError(
                f"{self.config.name} takes lengths ({len(x)}, 2): the words of each story and of each question, at "
                f"least 1 each and at most {x.shape[1]} together."
            )
        return known

    def step(self, x: Tensor, state: NetworkState | None = None) -> NoReturn:
        """Refused: raises RequestError."""
        raise self._refused("step")

    def initial_state(self, batch: int) -> NoReturn:
        """Refused: raises RequestError."""
        raise self._refused("have a state to start from")

    def _check(self, x: Tensor, lengths: Tensor | None) -> NoReturn:
        """What gives the outputs of one stack over one sequence is refused."""
        raise self._refused("give what lies between them")

    def _refused(self, what: str) -> RequestError:
        return RequestError(f"{self.config.name} reads a whole story and a question to answer: it cannot {what}.")


def _take(x: Tensor, at: Tensor) -> Tensor:
    """x: (batch, time, ...) at the times (batch, new time); a time beyond the last is the last."""
    at = at.clamp(max=x.shape[1] - 1)
    return x.gather(1, at.reshape(*at.shape, *[1] * (x.dim() - 2)).expand(*at.shape, *x.shape[2:]))
