"""Networks that read a story and a question about it, and answer."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from ..cells.projections import Projection
from ..errors import RequestError
from ..registry.schema import Config
from ..utils.shapes import unsqueeze_to
from ..utils.torch_internals import is_mapped
from .layer import Layer, stacked
from .network import mask, valid_lengths
from .stack import SequenceNetwork, Stack, make_layers


class NamedLayers(nn.Module):
    """The layers of one stack. The name of this module prefixes the names of their tensors in checkpoints."""

    layers: Sequence[Layer]

    def __init__(self, layers: nn.ModuleList):
        super().__init__()
        self.layers = layers  # type: ignore[assignment]


class StoryReader(SequenceNetwork):
    """Three stacks of the same architecture (Hu et al. 2018, section 3.3).

    The stack `layers` reads the story, the stack `question` the question. Their outputs, one vector per word, are joined
    into one sequence, story first. The stack `decoder` reads that sequence, and the head its last output.

    Calling it maps tokens x, (batch, time), each row a story, its question and padding, to logits, (batch, outputs).
    `lengths`, (batch, 2) integers, are the words of each story and of each question. `pooled` is the decoder's output.
    """

    def __init__(self, config: Config):
        super().__init__(config)
        spec = config.architecture
        assert spec.embedding is not None  # as Config demands
        self.question = NamedLayers(make_layers(spec, spec.embedding.size))
        self.decoder = NamedLayers(make_layers(spec, self.width))

    def projections_per_step(self) -> Iterator[Projection]:
        """Return the linear maps that act once on a word: the question's stack's, as many as the story's, and the decoder's."""
        return (m for part in (self.question, self.decoder) for m in part.modules() if isinstance(m, Projection))

    def _pooled(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        story_lengths, question_lengths = self._check_lengths(x, lengths).unbind(1)
        total_lengths = story_lengths + question_lengths
        time = torch.arange(_longest(total_lengths, x), device=x.device)
        question_times = story_lengths[:, None] + time[: _longest(question_lengths, x)]  # (batch, question time)
        story = self._read_words(self.stack, x[:, : _longest(story_lengths, x)], story_lengths)
        question = self._read_words(self._stack(self.question.layers), _take(x, question_times), question_lengths)
        in_question = time >= story_lengths[:, None]  # (batch, time)
        source = torch.where(in_question, story.shape[1] + time - story_lengths[:, None], time)
        joined = mask(_take(torch.cat([story, question], 1), source), total_lengths)
        decoder = self._stack(self.decoder.layers)
        top, _ = decoder.run(joined, decoder.zero_state(joined), total_lengths)
        return self._readout(top, total_lengths), total_lengths

    def _read_words(self, stack: Stack, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the top layer's outputs in `stack`, (batch, time, width), for tokens, (batch, time). lengths: (batch,)."""
        vectors = self._layer_input(tokens, lengths)
        top, _ = stack.run(vectors, stack.zero_state(vectors), lengths)
        return stacked(top.steps).transpose(0, 1)

    def _check_lengths(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """Return the lengths, (batch, 2), on the device of x. Raises RequestError if x or lengths do not fit."""
        self._check_sequences(x)
        checked = valid_lengths(lengths, x, 2)
        if checked is None:
            raise RequestError(
                f"{self.config.name} takes lengths of shape ({len(x)}, 2): the numbers of words of each story and of its "
                f"question, at least 1 each and at most {x.shape[1]} together."
            )
        return checked


def _longest(lengths: Tensor, x: Tensor) -> int:
    """Return the largest of `lengths`; during an export, when they have no values, the number of time steps of x."""
    return x.shape[1] if torch.compiler.is_exporting() or is_mapped(lengths) else int(lengths.max())


def _take(x: Tensor, times: Tensor) -> Tensor:
    """Return x, (batch, time, ...), at the steps `times`, (batch, new time); an index beyond the last step takes that step."""
    times = times.clamp(max=x.shape[1] - 1)
    return x.gather(1, unsqueeze_to(times, x.dim()).expand(*times.shape, *x.shape[2:]))
