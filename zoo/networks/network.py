"""The base of all networks: a body that subclasses make, a readout and a linear head."""

from collections.abc import Iterable, Sequence

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from ..cells.projections import Projection
from ..checkpoints.tokenizer import PADDING
from ..errors import RequestError, first_problem
from ..registry import load_registry
from ..registry.schema import Config, Embedding, Interface
from .conv_head import ConvolutionalHead
from .pretrained import PretrainedMixin
from .sequences import mask


class Network(PretrainedMixin):
    """A network that is built from its Config, batch first: see `zoo.build` and `zoo.load`.

    RecurrentNetwork reads sequences and can take them step by step, StoryReader reads a story and a question about it, and
    FeedForward reads vectors without time steps.
    """

    embedding: nn.Embedding | None
    """The vectors of tokens; None if the network reads numbers."""
    width: int
    """Channels that the top layer puts out."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config

    def _add_head(self) -> None:
        """Register what follows the layers; subclasses call it after registering theirs, whose parameters come first."""
        spec = self.config.architecture
        self.embedding = _make_embedding(spec.embedding, self.interface.vocabulary)
        self.neck = ConvolutionalHead(spec.head, self.width)
        self.head = nn.Linear(self.neck.width, self.interface.outputs)

    def forward(
        self,
        x: Tensor,  # (batch, time, *input), or tokens (batch, time)
        lengths: Tensor | None = None,  # (batch,), integers
    ) -> Tensor:
        """Return logits, (batch, outputs), or (batch, time, outputs) if the readout is "every".

        What lies beyond the true length of a sequence changes nothing. The readout "last" reads each sequence's own last
        step (the backward direction's last step is the sequence's first), "mean" averages over its own steps, and "every"
        gives zeros beyond them. A StoryReader and a FeedForward take other shapes; see there. Raises RequestError for inputs
        that do not fit.
        """
        return self._logits(*self._pooled(x, lengths))

    def pooled(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return what the head reads: (batch, width), or (batch, time, width) if the readout is "every".

        Arguments and errors are those of `forward`.
        """
        return self._pooled(x, lengths)[0]

    def _pooled(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return what `pooled` returns, and the lengths of the sequences that it is of, (batch,)."""
        raise NotImplementedError

    def _logits(
        self,
        pooled: Tensor,  # (batch, width) or (batch, time, width)
        lengths: Tensor | None,  # (batch,)
    ) -> Tensor:
        logits = self.head(pooled)
        return mask(logits, lengths) if self.interface.readout == "every" else logits

    def projections_per_step(self) -> Iterable[Projection]:
        """The linear maps that act once on every time step of the input, for counting multiply-adds."""
        raise NotImplementedError

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes in the order of the outputs: those of `reset_head`, else the task's; () if unknown."""
        if self.interface.classes is not None:
            return self.interface.classes
        task = load_registry().all_tasks.get(self.config.task)
        return task.classes if task is not None and len(task.classes) == self.interface.outputs else ()

    def reset_head(self, classes: int | Sequence[str]) -> None:
        """Replace the head by a fresh one, for a number of outputs or for named classes. The other weights stay.

        The head starts with Glorot weights, drawn from torch's global generator, and zero bias. Raises RequestError for
        anything but a positive number or a list of names.
        """
        config = with_classes(self.config, classes)
        self.head = nn.Linear(self.neck.width, config.interface.outputs, device=self.device, dtype=self.dtype)
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.config = config

    def _check_dtype(self, x: Tensor) -> None:
        """Raise RequestError unless x is a tensor of the dtype that the network reads."""
        name = self.config.name
        if not isinstance(x, Tensor):
            raise RequestError(
                f"{name} takes a tensor, padded, with lengths if the sequences differ; got {type(x).__name__}."
            )
        if self.embedding is not None:
            if x.dtype not in (torch.int32, torch.int64):
                raise RequestError(f"{name} takes tokens, torch.int64; got {x.dtype}.")
        elif x.dtype != (dtype := self.dtype) and not torch.is_autocast_enabled(x.device.type):
            raise RequestError(f"{name} takes {dtype}; got {x.dtype}. Try x.to({dtype}).")

    def _shape_text(self, leading: str) -> str:
        """Return the shape of the input in words, such as "batch, time, 28"."""
        return ", ".join([leading, *map(str, self.interface.input)])


def with_classes(config: Config, classes: int | Sequence[str]) -> Config:
    """Return the config with that many outputs, or with outputs of these names. Raises RequestError."""
    names: tuple[str, ...] = ()
    outputs = classes
    if isinstance(classes, Sequence) and not isinstance(classes, str):
        names, outputs = tuple(classes), len(classes)
    try:
        interface = Interface(**{**config.interface.model_dump(), "outputs": outputs, "classes": names})
    except ValidationError as error:
        raise RequestError(f"A head cannot have {outputs} outputs: {first_problem(error)}.") from error
    return config.model_copy(update={"interface": interface})


def _make_embedding(spec: Embedding | None, vocabulary: int | None) -> nn.Embedding | None:
    """Return the vectors of the tokens, that of padding zero; they require gradients only if they are trainable."""
    if spec is None or vocabulary is None:
        return None
    embedding = nn.Embedding(vocabulary, spec.size, padding_idx=PADDING)
    embedding.weight.requires_grad_(spec.trainable)
    return embedding
