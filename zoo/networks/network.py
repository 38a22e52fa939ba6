"""The base of all networks: forward, the linear head, and masks and means over time.

`model(x)` runs Network.forward, which calls `_pooled` of the subclass and then the head. Only RecurrentNetwork has its own
forward, in recurrent.py, which runs first.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..cells.projections import Projection
from ..checkpoints import configs
from ..checkpoints.tokenizer import PADDING
from ..errors import RequestError, shown
from ..registry import load_registry
from ..registry.schema import Config, ConvHead
from ..utils.shapes import unsqueeze_to
from ..utils.torch_internals import is_mapped
from .pretrained import PretrainedMixin

AUTOCAST = (torch.float32, torch.float16, torch.bfloat16)
"""The types of numbers that torch.autocast converts."""


class ConvolutionalHead(nn.Module):
    """Maps an image of states to a vector: convolutions with ReLU, "a shallow CNN" (Turkoglu et al. 2019, C.3), then
    the mean over the image. Without a specification it takes the mean only."""

    convolutions: Sequence[nn.Conv2d]

    def __init__(self, spec: ConvHead | None, channels: int):
        super().__init__()
        widths = [channels, *(spec.filters if spec else ())]
        kernel, stride = (spec.kernel, spec.stride) if spec else (1, 1)
        self.convolutions = nn.ModuleList(  # type: ignore[assignment]
            nn.Conv2d(*pair, kernel, stride, padding=kernel // 2) for pair in pairwise(widths)
        )
        self.width = widths[-1]

    def forward(self, h: Tensor) -> Tensor:
        """Return the mean over the image after the last convolution, (..., self.width). h: (..., channels, height, width)."""
        leading, h = h.shape[:-3], h.flatten(0, -4)
        for convolution in self.convolutions:
            h = F.relu(convolution(h))
        return h.mean((-2, -1)).unflatten(0, leading)

    def multiply_adds(self, image: Sequence[int]) -> int:
        """Return the multiply-adds of the convolutions for one image, whose height and width `image` gives."""
        total = 0
        for convolution in self.convolutions:
            image = [(side - 1) // convolution.stride[0] + 1 for side in image]
            total += math.prod(image) * convolution.weight.numel()
        return total


class NoHead(nn.Module):
    """The head of a network with 0 outputs: a copy of its input, which may be the state that the next step reads."""

    def forward(self, pooled: Tensor) -> Tensor:
        return pooled.clone()


def _head(width: int, outputs: int, device: torch.device | None = None, dtype: torch.dtype | None = None) -> nn.Module:
    """Return the linear map from `width` channels to `outputs`, whose values are not set, or NoHead for 0 outputs."""
    return nn.Linear(width, outputs, device=device, dtype=dtype) if outputs else NoHead()


class Network(PretrainedMixin):
    """A network that is built from its Config, batch first: see `zoo.build` and `zoo.load`.

    RecurrentNetwork reads sequences and can take them step by step, StoryReader reads a story and a question about it, and
    FeedForward reads vectors without time steps.
    """

    embedding: nn.Embedding | None
    """The vectors of tokens; None if the network reads numbers."""
    width: int
    """Number of channels in the top layer's output."""
    head: nn.Linear
    """The linear map to the outputs, or a NoHead if there are none."""
    if TYPE_CHECKING:  # `load` and `build` return a Network; a type checker has to accept what its subclasses have more

        def __getattr__(self, name: str) -> Any: ...

        def __setattr__(self, name: str, value: Any) -> None: ...

    def __init__(self, config: Config):
        """Register nothing but the config. Raises RequestError outside of `build` and `load`, which set the values."""
        if torch.get_default_device().type != "meta":
            raise RequestError("A network's class leaves its weights without values. Use zoo.build(config).")
        super().__init__()
        self.config = config

    def _add_head(self) -> None:
        """Register the embedding and the head. Subclasses register their layers first, to keep the order of parameters."""
        spec, vocabulary = self.config.architecture, self.interface.vocabulary
        self.embedding = None
        if spec.embedding is not None and vocabulary is not None:
            # from_pretrained draws no values: on the meta device, nn.init.normal_ would import torch's compiler
            weight, frozen = torch.empty(vocabulary, spec.embedding.size), not spec.embedding.trainable
            self.embedding = nn.Embedding.from_pretrained(weight, frozen, padding_idx=PADDING)
        self.neck = ConvolutionalHead(spec.head, self.width)
        self.head = _head(self.neck.width, self.interface.outputs)  # type: ignore[assignment]

    def forward(
        self,
        x: Tensor,  # (batch, time, *input), or tokens (batch, time)
        lengths: Tensor | None = None,  # (batch,), integers
    ) -> Tensor:
        """Return logits, (batch, outputs), or (batch, time, outputs) if the readout is "every".

        A network without a head (0 outputs) returns what `pooled` does, with zeros in place of the steps beyond a length.
        Values beyond the length of a sequence have no effect. The readout "last" reads each sequence's own last
        step (the backward direction's last step is the sequence's first), "mean" averages over its own steps, and "every"
        gives zeros beyond them. StoryReader and FeedForward take other shapes: see these classes. Raises RequestError for
        inputs of another shape, dtype or device.
        """
        return self._logits(*self._pooled(x, lengths))

    def pooled(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the input of the head: (batch, width), or (batch, time, width) if the readout is "every".

        Arguments and errors are those of `forward`.
        """
        return self._pooled(x, lengths)[0]

    def _pooled(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the input of the head, as `pooled` does, and the lengths, (batch,); None if all sequences have full length."""
        raise NotImplementedError

    def _logits(self, pooled: Tensor, lengths: Tensor | None) -> Tensor:
        logits = self.head(pooled)
        return mask(logits, lengths) if self.interface.readout == "every" else logits

    def projections_per_step(self) -> Iterable[Projection]:
        """Return the linear maps that act once on every time step of the input, for counting multiply-adds."""
        raise NotImplementedError

    @property
    def output_size(self) -> int:
        """Number of values in one output: the outputs of the head or, without a head, the channels of `pooled`."""
        return self.interface.outputs or self.neck.width

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes in the order of the outputs: those of `reset_head`, else the task's; () if unknown."""
        if self.interface.classes is not None:
            return self.interface.classes
        task = load_registry().all_tasks.get(self.config.task)
        return task.classes if task is not None and len(task.classes) == self.interface.outputs else ()

    @property
    def output_names(self) -> tuple[str, ...]:
        """A name for each output: the classes, the words of a network that answers with a word, or 0, 1, ..."""
        count = self.interface.outputs
        words = self.tokenizer.words if self.tokenizer and self.interface.vocabulary == count else ()
        return self.classes or words or tuple(map(str, range(count)))

    def reset_head(self, classes: int | Sequence[str]) -> None:
        """Replace the head by a fresh one, for a number of outputs or for named classes. The other weights stay.

        With 0 the network has no head: it returns what `pooled` does. A head starts with Glorot weights, drawn from torch's
        global generator, and zero bias. The network is no longer the registry's model, so its name becomes that of its
        architecture, such as gru-1x128; the task stays, for it says what the inputs are. Raises RequestError for a negative
        number, and for an empty list of names.
        """
        config = configs.with_classes(self.config, classes)
        head = _head(self.neck.width, config.interface.outputs, self.device, self.dtype)
        if isinstance(head, nn.Linear):
            nn.init.xavier_uniform_(head.weight)
            nn.init.zeros_(head.bias)
        self.head, self.config = head.train(self.training), config  # type: ignore[assignment]

    def _check_dtype(self, x: Tensor) -> None:
        """Raise RequestError unless x is a dense tensor of the network's dtype (tokens: integers) and on its device."""
        name, parameter = self.config.name, next(self.parameters())
        dtype = parameter.dtype
        if not isinstance(x, Tensor):
            raise RequestError(
                f"{name} takes one padded tensor, with lengths if sequences differ in length; got {type(x).__name__}."
            )
        if not is_strided(x):
            got, dense = (f"one with layout {x.layout}", "x.to_dense()")
            if x.is_nested:
                got, dense = ("a nested one", "torch.nested.to_padded_tensor(x, 0)")
            raise RequestError(f"{name} takes a dense tensor; got {got}. Try {dense}.")
        if x.device != parameter.device:
            raise RequestError(
                f"{name} is on {parameter.device}, but x is on {x.device}. Try x.to({str(parameter.device)!r})."
            )
        if self.embedding is not None:
            if x.dtype not in (torch.int32, torch.int64):
                raise RequestError(f"{name} takes tokens, torch.int64 or torch.int32; got {x.dtype}.")
        elif x.dtype != dtype and not (torch.is_autocast_enabled(x.device.type) and x.dtype in AUTOCAST):
            raise RequestError(f"{name} takes {dtype}; got {x.dtype}. Try x.to({dtype}).")

    def _shape_text(self, leading: str) -> str:
        """Return the shape of the input in words, such as "batch, time, 28". leading: the first axes, such as "batch, time"."""
        return ", ".join([leading, *map(str, self.interface.input)])


def is_strided(x: Tensor) -> bool:
    """Return whether x is an ordinary dense tensor: not sparse, not nested, and not in a format of oneDNN."""
    return x.layout == torch.strided and not x.is_nested


def shape_text(x: Tensor) -> str:
    """Return the shape of x as text, with a remark if x is empty."""
    return f"{tuple(x.shape)}{'' if x.numel() else ', which is empty'}"


def wrong_state(name: str, batch: int) -> str:
    """Return the message for a state that does not fit the network `name` and a batch of `batch` sequences."""
    return (
        f"The state does not fit {name} and a batch of {batch}. Pass what initial_state({batch}) or a step of the same network or "
        "stream returned."
    )


def is_state(state: object, shapes: list[list[torch.Size]]) -> bool:
    """Return whether `state` has, for each layer, a tuple of dense tensors of numbers of these shapes."""
    try:
        # torch's (h, c), each (layers, batch, units), would pass for the states of as many layers as states
        return (
            isinstance(state, tuple | list)
            and [[s.shape for s in states] for states in state] == shapes
            and all(isinstance(states, tuple | list) for states in state)
            and all(s.is_floating_point() and is_strided(s) for states in state for s in states)
        )
    except (TypeError, AttributeError):  # not tuples of tensors
        return False


def check_tokens(name: str, tokens: Tensor, embedding: nn.Embedding) -> None:
    """Raise RequestError unless every token, of the input of the network `name`, has a row in `embedding`."""
    if tokens.is_meta:
        return
    if tokens.min() < 0 or tokens.max() >= len(embedding.weight):
        raise RequestError(
            f"{name} takes tokens from 0 to {len(embedding.weight) - 1}; got {int(tokens.min())} to {int(tokens.max())}."
        )


def check_batch(batch: object) -> None:
    """Raise RequestError unless `batch` is an integer from 1 to 2**31 - 1."""
    if torch.compiler.is_exporting():  # then it is a symbol
        return
    if isinstance(batch, bool) or not isinstance(batch, Integral) or not 1 <= int(batch) < 2**31:
        raise RequestError(f"The batch size must be an integer from 1 to 2**31 - 1; got {shown(batch)}.")


def valid_lengths(lengths: Tensor | Sequence[int] | None, x: Tensor, *parts: int) -> Tensor | None:
    """Return `lengths`, (batch, *parts), as torch.int64 on the device of x, (batch, time, ...); None if they are invalid.

    Valid lengths are positive integers, and those of one sequence add up to at most `time`. parts: (2,) if every sequence has
    two lengths, of a story and a question; else nothing. Within torch.func.vmap the values are not checked; in an export they are
    at most `time`.
    Raises RequestError if x is on the meta device, where steps cannot be compared with lengths.
    """
    if lengths is not None and x.is_meta:
        raise RequestError("A network on the meta device takes no lengths, for they have no values there.")
    try:
        tensor = torch.as_tensor(lengths, device=x.device)
    except (TypeError, ValueError, RuntimeError):
        return None
    if not is_strided(tensor) or tensor.is_meta:
        return None
    odd = tensor.dtype == torch.bool or tensor.is_floating_point() or tensor.is_complex()
    if odd or tensor.shape != (*x.shape[:1], *parts):
        return None
    tensor = tensor.long()
    if torch.compiler.is_exporting():
        return tensor.clamp(max=x.shape[1])  # a file cannot raise an error
    if is_mapped(tensor):
        return tensor
    steps = x.shape[1]
    fits = tensor.min() >= 1 and tensor.max() <= steps and tensor.reshape(len(x), -1).sum(1).max() <= steps
    return tensor if fits else None


def mask(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Return x, (batch, time, ...), with zeros beyond each sequence's end, also where x has NaN there. lengths: (batch,)."""
    if lengths is None:
        return x
    inside = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return torch.where(unsqueeze_to(inside, x.dim()), x, 0)


def sum_over_time(x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the sum of x, (batch, time, ...), over time, and the number of steps in it, (batch,); both in float32 or more.

    x must be zero beyond each sequence's end.
    """
    dtype = torch.promote_types(x.dtype, torch.float32)
    total = x.sum(1, dtype=dtype)
    return total, total.new_full(x.shape[:1], x.shape[1]) if lengths is None else lengths.to(dtype)


def mean_of_sum(total: Tensor, count: Tensor) -> Tensor:
    """Return total, (batch, ...), divided by count, (batch,)."""
    return total / unsqueeze_to(count, total.dim())
