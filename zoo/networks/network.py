"""A network: a stack of recurrent layers, a readout and a linear head. Batch first, states included."""

import os
from collections.abc import Sequence
from pathlib import Path

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from ..checkpoints.tokenizer import PADDING, Tokenizer
from ..errors import RequestError, first_problem
from ..registry.schema import Config, Embedding, Interface
from .conv_head import ConvolutionalHead
from .kernels import streaming
from .layer import Direction, LayerInput, LazyEmbedding, Outputs, stacked
from .stack import NetworkState, Stack

__all__ = ["Network", "NetworkState", "mask", "valid_lengths", "with_classes"]


class Network(Stack):
    """A recurrent network built from its specification; see `zoo.build` and `zoo.load`.

    Calling it maps x: (batch, time, *input), or tokens (batch, time) where it has an embedding, to logits,
    (batch, outputs), or (batch, time, outputs) where the readout is "every". Layers are run by their own methods, not
    called, so that hooks on them do not fire, those on maps do; `features` and `trace` give what layers make.
    """

    tokenizer: Tokenizer | None = None
    """Makes tokens of text, where that is what the network was trained on: `net(*net.tokenizer(["A text."]))`."""

    def __init__(self, config: Config):
        spec = config.architecture
        super().__init__(config, spec.embedding.size if spec.embedding else config.interface.input[0])
        self.embedding = _embedding(spec.embedding, self.interface.vocabulary)
        self.neck = ConvolutionalHead(spec.head, self.width)
        self.head = nn.Linear(self.neck.width, self.interface.outputs)
        self._shapes: tuple[object, list[list[torch.Size]]] | None = None
        mean, std = self.interface.mean, self.interface.std
        self._standard = (0.0, 1.0)
        if spec.standardize and not isinstance(mean, tuple) and not isinstance(std, tuple):  # tuples have no time steps
            self._standard = mean, std
        self._stepper: streaming.Stepper | None = None

    @property
    def per_step(self) -> Sequence[Stack]:
        """What a time step of the input goes through, once."""
        return (self,)

    @classmethod
    def from_pretrained(
        cls, name_or_path: str, *, revision: str | None = None, device: torch.device | str | None = None,
        dtype: torch.dtype | str | None = None, allow_large: bool = False,
    ) -> "Network":  # fmt: skip
        """A network with weights: of the registry, of a folder, or of a repository on the Hub (org/name).

        As `zoo.load`, strict in the same way: no tensor is left out or left over, nothing is unpickled.
        """
        from .hub_methods import from_pretrained

        return from_pretrained(name_or_path, revision, device, dtype, allow_large)

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write weights, config and words into a folder, from which `zoo.load` and `from_pretrained` take them.

        In float32, whatever the network computes in. Raises CheckpointError if it is not what its config says, as when
        its head was replaced by hand (see reset_head), and RequestError where `load` would not find it: under a name of
        the registry or of the Hub, or in a file's place.
        """
        from ..checkpoints.reference import SCHEME
        from ..registry import models
        from .loading import save

        if (name := os.fspath(folder)) in models():
            raise RequestError(f"{name} is a name of the registry, which load takes it for. Choose another folder.")
        if name.startswith(SCHEME):
            raise RequestError(f"{name} is on the Hub, where push_to_hub puts a network. Choose a folder.")
        if not name:
            raise RequestError("An empty name is no folder's.")
        if os.path.exists(name) and not os.path.isdir(name):
            raise RequestError(f"{name} is a file. Choose a folder.")
        save(self, Path(folder))

    def push_to_hub(
        self, repo: str, *, message: str | None = None, private: bool = False, revision: str | None = None,
        create_pr: bool = False,
    ) -> str:  # fmt: skip
        """Push these weights, config and words to a repository (org/name) in one commit; returns the address of what was
        made. Raises CheckpointError for values that are not finite, and HubError."""
        from .hub_methods import push_to_hub

        return push_to_hub(self, repo, message, private, revision, create_pr)

    @property
    def interface(self) -> Interface:
        return self.config.interface

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Of the parameters."""
        return next(self.parameters()).dtype

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Logits for x: (batch, time, *input).

        lengths: (batch,) integers, the true length of each sequence; what lies beyond it changes nothing. The readout
        "last" is then each sequence's own end (of two directions, each one's last step: of the backward one, the
        sequence's first), "mean" the mean over its own steps, and "every" gives zeros beyond it.
        Raises RequestError if the shapes are not what the network was built for. What networks of stories, and networks
        without time steps, take instead is in the docstring of their class.
        """
        return self._logits(*self._pooled(x, lengths))

    def pooled(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """What the head makes the logits of: (batch, width), or (batch, time, width) where the readout is "every".

        x and lengths are as for `forward`, and so is what is raised.
        """
        return self._pooled(x, lengths)[0]

    def _pooled(self, x: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """What `pooled` gives, and the lengths of what was read."""
        steps, lengths = self._check(x, lengths)
        return self._pool(*self.run(steps, self.zero_state(steps), lengths), lengths), lengths

    def encode(
        self, x: Tensor, state: NetworkState | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, NetworkState]:
        """The top layer's outputs, (batch, time, width, ...), and the layers' final states, to go on from.

        With lengths, outputs beyond each sequence's end are zero and the states are those at its end.
        """
        given, lengths = self._check(x, lengths)
        state = self.initial_state(x.shape[0]) if state is None else self._check_state(state, x.shape[0])
        outputs, final = self.run(given, state[: len(self.layers)], lengths)
        steps = mask(stacked(outputs).transpose(0, 1), lengths)
        if self.interface.readout == "mean":
            final = (*final, tuple(old + new for old, new in zip(state[-1], _sums(steps, lengths), strict=True)))
        return steps, final

    def features(self, x: Tensor, lengths: Tensor | None = None) -> list[Tensor]:
        """The outputs of every layer, bottom to top, each (batch, time, width, ...); always by the plain scan."""
        lengths = self._check(x, lengths)[1]
        return [mask(stacked(outputs).transpose(0, 1), lengths) for _, outputs in self.trace(x, lengths)[1]]

    def trace(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, list[tuple[Tensor, list[Tensor]]]]:
        """The logits, and of every layer its input, (time, batch, ...), and its output at each time step, (batch, ...).

        By the plain scan, so that the output of one step is part of what follows from it: the gradient of a loss with
        respect to it is the whole error that arrives there, through later steps and through higher layers (but not to the
        top layer of two directions that is read by "last": that is of the directions' ends, not of their sum at a step).
        """
        given, lengths = self._check(x, lengths)
        x = given.vectors() if isinstance(given, LazyEmbedding) else given
        found: list[tuple[Tensor, list[Tensor]]] = []
        outputs, final = self.layered(x, self.zero_state(x), lengths, Direction.scan, keep=found)
        return self._logits(self._pool(outputs, final, lengths), lengths), found

    def initial_state(self, batch: int) -> NetworkState:
        """Zero states for `batch` sequences."""
        first = () if self.embedding is None else (self.embedding.embedding_dim,)
        like = torch.zeros(batch, *self.interface.input, *first, dtype=self.dtype, device=self.device)
        layers = tuple(layer.initial_state(like) for layer in self.stack)
        if self.interface.readout != "mean":
            return layers
        h = layers[-1][0]
        precise = torch.promote_types(h.dtype, torch.float32)  # in less, a sum stops growing
        total = h.new_zeros(batch, self.width, *h.shape[2:], dtype=precise)
        return (*layers, (total, total.new_zeros(batch)))

    def step(self, x: Tensor, state: NetworkState | None = None) -> tuple[Tensor, NetworkState]:
        """One time step, for streaming: x: (batch, *input), or tokens (batch,), to logits, (batch, outputs), and new state.

        The logits after t steps are those of `forward` on the t steps seen so far (its last ones where the readout is
        "every"). In training mode recurrent dropout, a mask for a whole sequence, does not act here. Raises RequestError
        for a bidirectional network, which needs the future.
        """
        if state is None or self._stepper is None or not self._stepper.continues(x, state, self.layers):
            state = self._check_step(x, state)
        if self.interface.readout != "mean":
            logits, new = self._step(self._embedded(x), state, self.head)
            return self.head(self._flat(new[-1][0])) if logits is None else logits, new
        *layers, (total, count) = state
        _, new = self._step(self._embedded(x), tuple(layers), None)
        seen = (total + new[-1][0], count + 1)
        return self.head(self._flat(_mean(*seen).to(new[-1][0].dtype))), (*new, seen)

    def _step(self, h: Tensor, state: NetworkState, head: nn.Module | None) -> tuple[Tensor | None, NetworkState]:
        """New states of the layers for one time step, h: (batch, features, ...), not yet standardised.

        With them what the head makes of the top layer, where the fast step computes that in the same go.
        """
        if self.backend != "plain" and not (self.training and self.dropout.p > 0):
            h = h.resolve_neg().contiguous()
            fast = self._stepper = streaming.stepper(self._stepper, self.layers, head, h, state)
            if fast is not None:
                return fast.step(h, *self._standard, state)
        h, new = self._standardized(h), []
        for layer, old in zip(self.stack, state, strict=True):
            way = layer.forward_direction
            now = way.step(way.cell.prepare(way.input(h)), old)
            h = self.dropout(now[0])
            new.append(now)
        return None, tuple(new)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes in the order of the outputs, those given to `reset_head` or the task's; () if unknown."""
        from ..registry import load_registry

        if self.interface.classes is not None:
            return self.interface.classes
        task = load_registry().all_tasks.get(self.config.task)
        return task.classes if task is not None and len(task.classes) == self.interface.outputs else ()

    def reset_head(self, classes: int | Sequence[str]) -> None:
        """Replace the head by a fresh one: for a number of outputs, which then have no names, or for classes of the names
        given. Everything below keeps its weights.

        Glorot weights from torch's global generator, zero bias. Raises RequestError for what is no number or names.
        """
        config = with_classes(self.config, classes)
        self.head = nn.Linear(self.neck.width, config.interface.outputs, device=self.device, dtype=self.dtype)
        nn.init.xavier_uniform_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.config = config

    def _check_dtype(self, x: Tensor) -> None:
        if not isinstance(x, Tensor):
            raise RequestError(
                f"{self.config.name} takes a tensor, padded, and lengths where sequences differ; got {type(x).__name__}."
            )
        if self.embedding is not None:
            if x.dtype not in (torch.int32, torch.int64):
                raise RequestError(f"{self.config.name} takes tokens, torch.int64; got {x.dtype}.")
        elif x.dtype != (own := self.dtype) and not torch.is_autocast_enabled(x.device.type):
            raise RequestError(f"{self.config.name} takes {own}; got {x.dtype}. Try x.to({own}).")

    def _check_step(self, x: Tensor, state: NetworkState | None) -> NetworkState:
        """The state to take a step on x from."""
        self._check_settings()
        self._check_dtype(x)
        if self.config.architecture.bidirectional:
            raise RequestError(f"{self.config.name} is bidirectional: it needs the whole sequence and cannot step.")
        if x.dim() == 0 or x.shape[1:] != self.interface.input or not len(x):
            raise RequestError(f"step takes ({self._input_text('batch')}); got {_shape(x)}.")
        return self.initial_state(x.shape[0]) if state is None else self._check_state(state, x.shape[0])

    def _check_state(self, state: NetworkState, batch: int) -> NetworkState:
        """The state, if it is one of this network for `batch` sequences."""
        key = batch, [(type(way.cell), way.units) for layer in self.stack for way in layer.directions]
        if self._shapes is None or self._shapes[0] != key:  # kept, as a stream of steps asks for the same every time
            self._shapes = key, [[s.shape for s in part] for part in self.initial_state(batch)]
        try:
            fits = [[s.shape for s in part] for part in state] == self._shapes[1]
        except (TypeError, AttributeError):  # anything else
            fits = False
        if not fits:
            raise RequestError(f"The state is not one of {self.config.name} for a batch of {batch}; see initial_state.")
        if elsewhere := {str(s.device) for part in state for s in part if s.device != self.device}:
            raise RequestError(f"The state is on {', '.join(elsewhere)}; {self.config.name} is on {self.device}.")
        return state

    def _pool(self, outputs: Outputs, final: NetworkState, lengths: Tensor | None) -> Tensor:
        """What the head reads of the top layer's outputs and final state, as the readout says."""
        if self.interface.readout == "last":
            return self._flat(self.stack[-1].last(outputs, final[-1], lengths))
        steps = stacked(outputs).transpose(0, 1)
        if self.interface.readout == "every":
            return mask(self._flat(steps), lengths)
        return self._flat(_mean(*_sums(mask(steps, lengths), lengths)).to(steps.dtype))

    def _flat(self, h: Tensor) -> Tensor:
        """(..., width) as it is, (..., channels, height, width) through the neck."""
        return h if self.config.architecture.kernel is None else self.neck(h)

    def _logits(self, h: Tensor, lengths: Tensor | None) -> Tensor:
        """Of what `pooled` gives; zero beyond each sequence's end."""
        return mask(self.head(h), lengths) if self.interface.readout == "every" else self.head(h)

    def _read_in(self, x: Tensor) -> LayerInput:
        """What the first layer gets: the vectors of tokens, or standardised numbers."""
        return self._standardized(x) if self.embedding is None else self._rows(x, self.embedding)

    def _rows(self, x: Tensor, embedding: nn.Embedding) -> LazyEmbedding:
        if not torch.compiler.is_exporting() and (x.min() < 0 or x.max() >= len(embedding.weight)):
            raise RequestError(f"{self.config.name} has tokens from 0 to {len(embedding.weight) - 1}.")
        return LazyEmbedding(embedding, x)

    def _embedded(self, x: Tensor) -> Tensor:
        """One step of input, the vectors of tokens looked up."""
        return x if self.embedding is None else self._rows(x, self.embedding).vectors()

    def _standardized(self, h: Tensor) -> Tensor:
        mean, std = self._standard
        return h if (mean, std) == (0.0, 1.0) else (h - mean) / std

    def _input_text(self, before: str) -> str:
        return ", ".join([before, *map(str, self.interface.input)])

    def _check(self, x: Tensor, lengths: Tensor | None) -> tuple[LayerInput, Tensor | None]:
        """x as the first layer gets it, zero beyond each sequence's end, and lengths on its device."""
        self._check_input(x)
        if lengths is None:
            return self._read_in(x), None
        known = valid_lengths(lengths, x)
        if known is None:
            raise RequestError(f"lengths must be {x.shape[0]} integers from 1 to {x.shape[1]}.")
        if self.embedding is None:
            return mask(self._standardized(x), known), known
        return self._rows(mask(x, known), self.embedding), known  # token 0 has the zero vector

    def _check_input(self, x: Tensor) -> None:
        self._check_settings()
        self._check_dtype(x)
        if x.dim() != 2 + len(self.interface.input) or x.shape[2:] != self.interface.input or 0 in x.shape[:2]:
            raise RequestError(f"{self.config.name} takes ({self._input_text('batch, time')}); got {_shape(x)}.")


def with_classes(config: Config, classes: int | Sequence[str]) -> Config:
    """The config with that many outputs, or outputs of these names. Raises RequestError for what is neither."""
    names: tuple[str, ...] = ()
    outputs = classes
    if isinstance(classes, Sequence) and not isinstance(classes, str):
        names, outputs = tuple(classes), len(classes)
    try:
        interface = Interface(**{**config.interface.model_dump(), "outputs": outputs, "classes": names})
    except ValidationError as error:
        raise RequestError(f"A head cannot have {outputs} outputs: {first_problem(error)}.") from error
    return config.model_copy(update={"interface": interface})


def _shape(x: Tensor) -> str:
    return f"{tuple(x.shape)}{'' if x.numel() else ', which is empty'}"


def _embedding(spec: Embedding | None, vocabulary: int | None) -> nn.Embedding | None:
    """The vectors of the tokens, that of the padding zero; no parameters of the network unless they are trainable."""
    if spec is None or vocabulary is None:
        return None
    vectors = nn.Embedding(vocabulary, spec.size, padding_idx=PADDING)
    vectors.weight.requires_grad_(spec.trainable)
    return vectors


def valid_lengths(lengths: Tensor | Sequence[int] | None, x: Tensor, *parts: int) -> Tensor | None:
    """Lengths, (batch, *parts), on the device of x, (batch, time, ...): integers from 1 whose sum for a sequence is at most time.

    None for what is no such thing, be it lists of different sizes.
    """
    try:
        found = torch.as_tensor(lengths, device=x.device)
    except (TypeError, ValueError, RuntimeError):
        return None
    if found.dtype == torch.bool or found.is_floating_point() or found.is_complex():
        return None
    if found.shape != (*x.shape[:1], *parts):
        return None
    found = found.long()
    if torch.compiler.is_exporting():  # then they have no values yet
        return found
    fits = found.min() >= 1 and found.reshape(len(x), -1).sum(1).max() <= x.shape[1]
    return found if fits else None


def mask(x: Tensor, lengths: Tensor | None) -> Tensor:
    """x: (batch, time, ...) with zeros beyond each sequence's end, whatever stood there, NaN included."""
    if lengths is None:
        return x
    inside = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return torch.where(inside.reshape(*inside.shape, *[1] * (x.dim() - 2)), x, 0)


def _sums(steps: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """Sum over time of (batch, time, ...), and the number of steps in it, (batch,)."""
    precise = torch.promote_types(steps.dtype, torch.float32)
    total = steps.sum(1, dtype=precise)
    return total, total.new_full(steps.shape[:1], steps.shape[1]) if lengths is None else lengths.to(precise)


def _mean(total: Tensor, count: Tensor) -> Tensor:
    return total / count.reshape(-1, *[1] * (total.dim() - 1))
