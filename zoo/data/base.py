"""The data of a task: splits of raw examples, which are turned into a network's input batch by batch."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeVar, get_args

import torch
from torch import Tensor

from ..checkpoints.tokenizer import Tokenizer
from ..errors import DataError, RequestError, ZooError, shown
from ..networks.network import Network
from ..registry.schema import Augmentation, Dataset, Task
from ..utils.arguments import check_name
from ..utils.own import located
from .augmentation import augmented

T = TypeVar("T", bound=Tokenizer)
SplitName = Literal["train", "validation", "test"]
SEEDS: dict[SplitName, int] = {"train": 0, "validation": 1, "test": 2}
"""Seed of each split of a generated dataset."""
IGNORED = -100
"""The target at a time step that has none."""


def _unchanged(raw: Tensor) -> Tensor:
    return raw


@dataclass(frozen=True)
class Split:
    """The examples of one split, in the compact form in which they are stored."""

    raw: Tensor
    """The examples as they are stored, (n, ...), any dtype."""
    targets: Tensor
    """Classes: (n,), or (n, time) with IGNORED at steps without a target. Values: (n, outputs) or (n, time, outputs), with
    NaN where there is no target. Binary targets: int8, 0 and 1, shaped like values, with IGNORED at steps without a target."""
    digests: dict[str, str]
    """By file name: the sha256 of each original file that the split comes from."""
    prepare: Callable[[Tensor], Tensor] = _unchanged
    """Turns a batch of raw examples into x, (batch, time, *input), float32, or integers for tokens. By default, x equals the raw
    examples."""
    lengths: Tensor | None = None
    """Lengths in time steps, (n,), or for bAbI (n, 2): of the story, of the question. None if all lengths are the same."""
    image: tuple[int, int] | None = None
    """The family's `image`, which `TaskData.split` sets."""
    per_step: bool = False
    """True if sequences of different lengths have a target at every step, which `TaskData.split` sets. Targets beyond the end of a
    sequence are IGNORED or NaN."""
    stream: bool = False
    """True if each example continues the one before it, so that a network carries its state from one to the next."""

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        """Return one example for a torch.utils.data.DataLoader: (x, y), or (x, y, length) if the split has lengths.

        x is padded to the longest sequence of the split; `batch` pads only to the longest of the batch.
        """
        if isinstance(index, slice):
            raise RequestError("A split has no slices. Use batch(torch.arange(START, STOP)) for several examples.")
        if not -len(self) <= index < len(self):
            raise IndexError(f"The split has {len(self)} examples, so there is no example {index}.")
        x, y, lengths = self.batch(torch.tensor([index]))
        if lengths is None:
            return x[0], y[0]
        padding = x.new_zeros(max(0, self.longest - x.shape[1]), *x.shape[2:])
        return torch.cat([x[0], padding]), self.targets[index] if self.per_step else y[0], lengths[0]

    @cached_property
    def longest(self) -> int:
        """Number of time steps of the longest sequence."""
        if self.lengths is None:
            return self.prepare(self.raw[:1]).shape[1]
        return int(self.lengths.reshape(len(self), -1).sum(1).max())

    @property
    def doubt(self) -> str:
        """A sentence about the first raw example with a number that is infinite or NaN; "" if there is none."""
        odd = ~self.raw.flatten(1).isfinite().all(1) if self.raw.dim() > 1 else ~self.raw.isfinite()
        return (
            f" Example {int(odd.nonzero()[0])} of these data has a number that is infinite or NaN." if odd.any() else ""
        )

    def order(self, batch_size: int, generator: torch.Generator) -> Tensor:
        """Return the indices of the examples, (n,), in the order in which an epoch trains on them.

        The examples are shuffled. A stream is not: it is divided into `batch_size` parts, so that example i of a batch
        continues example i of the batch before. The remainder of the stream is left out.
        """
        if not self.stream:
            return torch.randperm(len(self), generator=generator)
        length = len(self) // batch_size
        return torch.arange(batch_size * length).reshape(batch_size, length).T.flatten()

    def batch(
        self, indices: Tensor | Sequence[int], device: torch.device | str = "cpu", augment: Augmentation | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return (x, y, lengths) of the examples at `indices`, (batch,), on `device`.

        augment: random augmentation of images, redrawn at every call. Raises RequestError if the examples are not images, and
        for indices that are no list of numbers of examples.
        """
        indices = self._checked(indices)
        lengths = None if self.lengths is None else self.lengths[indices].to(device)
        raw, y = self.raw[indices], self.targets[indices]
        if lengths is not None:  # cut to the longest of the batch
            longest = int(lengths.reshape(len(raw), -1).sum(1).max())
            raw, y = raw[:, :longest], y[:, :longest] if self.per_step else y
        if augment is not None and augment.augments:
            if self.image is None:
                raise RequestError("These examples are not images, so they cannot be augmented. Leave out `augment`.")
            raw = augmented(raw.unflatten(1, self.image), augment).flatten(1)
        return self.prepare(raw.to(device)), y.to(device), lengths

    def _checked(self, indices: Tensor | Sequence[int]) -> Tensor:
        """Return indices as a tensor, (batch,). Raises RequestError unless each is that of an example."""
        count = len(self)
        try:
            numbers = torch.as_tensor(indices)
        except (TypeError, ValueError, RuntimeError):
            numbers = torch.empty(0)
        whole = not (numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool)
        wraps = numbers.dtype == torch.uint64 and bool((numbers.long() < 0).any())
        numbers = numbers.long() if whole else numbers  # other integers do not choose rows of a tensor
        if (
            not whole
            or wraps
            or numbers.dim() != 1
            or not len(numbers)
            or numbers.min() < -count
            or numbers.max() >= count
        ):
            raise RequestError(
                f"Examples are chosen by a list of numbers from 0 to {count - 1}, such as [0, 1]; got {shown(indices)}."
            )
        return numbers


class TaskData(ABC):
    """The data of one task. Each dataset family is a subclass, which is constructed with a task and its dataset.

    A layout is a way to turn the dataset into examples; registry.yaml chooses one for each task (`task.layout`). layouts:
    names of the family's layouts; None allows any. Raises RequestError if the task's layout is not in `layouts`.
    """

    layouts: Collection[str] | None = None
    image: tuple[int, int] | None = None
    """(height, width) if the raw examples are images, (n, height * width); None for other examples."""

    def __init__(self, task: Task, dataset: Dataset):
        self.task, self.dataset = task, dataset
        if self.layouts is not None and task.layout not in self.layouts:
            raise RequestError(
                f"{dataset.title} has no layout {task.layout!r}. Set `layout` in registry.yaml to one of: "
                f"{', '.join(self.layouts)}."
            )

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer that turns text into x; None if the data are not text."""
        return None

    def fitting(self, tokenizer: T) -> T:
        """Return `tokenizer`. Raises DataError unless it has as many tokens as the task's `vocabulary`."""
        if len(tokenizer) != self.task.vocabulary:
            raise DataError(
                f"{self.task.title}: the files have {len(tokenizer)} tokens, but the registry's `vocabulary` is "
                f"{self.task.vocabulary}. Use the original files, or correct registry.yaml."
            )
        return tokenizer

    def prepare_network(self, network: Network) -> None:
        """Prepare a new network for training on these data: give it their tokenizer, if they have one."""
        network.tokenizer = self.tokenizer

    def read_file(self, name: str, content: bytes) -> Tensor | None:
        """Return x, (1, time, *input), of the content of a user's file. name: of the network, for error messages.

        Return None, as this method does unless a family overrides it, to let zoo.data.inputs read the file as an image or
        a table. Raises RequestError if the family reads files of its own format and the content has another.
        """
        return None

    def split(self, name: SplitName) -> Split:
        """Return the split called `name`, after reading and verifying its files.

        Raises UnknownNameError for another name, and DataError if a file is missing or differs from the locked one, if the
        split is empty, or if its tensors do not fit one another or the task's target.
        """
        names = get_args(SplitName)
        check_name("split", name, names, f"The splits are {', '.join(names)}.")
        split = self._read(name)
        self.require_examples(split, name)
        if problem := self._problem(split):
            raise DataError(f"The {name} split that {type(self).__name__} reads {problem}.")
        every = self.task.readout == "every" and split.lengths is not None
        return replace(split, image=self.image, per_step=every)

    def _read(self, name: SplitName) -> Split:
        """Return what `read` returns. Raises DataError for what it raises besides our own errors, and if that is no Split."""
        try:
            split = self.read(name)
        except (ZooError, OSError, MemoryError):
            raise
        except Exception as error:  # a file of another form, or a fault in the user's family
            raise DataError(f"{self.dataset.title}: its {name} split cannot be read ({located(error)}).") from error
        if not isinstance(split, Split):
            raise DataError(f"{type(self).__name__}.read returns {shown(split)}; it must return a zoo.data.base.Split.")
        return split

    def require_examples(self, examples: Sized, name: SplitName) -> None:
        """Raise DataError if there are no `examples` in the split called `name`."""
        if not len(examples):
            raise DataError(
                f"{self.dataset.title} has no examples in its {name} split. Give it more, or change the splits."
            )

    def _problem(self, split: Split) -> str | None:
        """Return what is wrong with the tensors of a split, as the end of a sentence; None if they fit."""
        tensors = {"raw": split.raw, "targets": split.targets, "lengths": split.lengths}
        for title, tensor in tensors.items():
            if tensor is None:
                continue
            if not isinstance(tensor, Tensor):
                return f"has {title} of the type {type(tensor).__name__}; they must be a tensor (torch.from_numpy)"
            if len(tensor) != len(split.raw):
                return f"has {len(split.raw):,} examples, but {len(tensor):,} {title}"
        targets, outputs = split.targets, self.task.outputs
        is_class = self.task.target in ("class", "token")
        if is_class and targets.dtype not in (torch.int64, torch.uint8):
            return f"has classes of {targets.dtype}; they must be torch.int64 (targets.long())"
        # torch takes IGNORED for 156 beside torch.uint8
        absent = targets.isnan() if targets.is_floating_point() else (targets == IGNORED) & (targets < 0)
        if absent.all():
            return "has no target: each is NaN or IGNORED"
        expected = ["n", *["time"] * (self.task.readout == "every"), *[outputs] * (not is_class)]
        if targets.dim() != len(expected) or (not is_class and targets.shape[-1] != outputs):
            return f"has targets of shape {tuple(targets.shape)}; this task's are ({', '.join(map(str, expected))})"
        known = targets[~absent]
        if self.task.target in ("value", "forecast") and not (targets.is_floating_point() and known.isfinite().all()):
            return f"has targets that are no finite numbers ({targets.dtype}); missing ones are NaN"
        if self.task.target == "binary" and not ((known == 0) | (known == 1)).all():
            return "has binary targets that are neither 0 nor 1; missing ones are IGNORED, -100, in torch.int8"
        if self.task.target == "binary" and (absent.any(-1) != absent.all(-1)).any():
            return "has a step where some of the targets are missing; either all are or none is"
        if is_class and (known.min() < 0 or known.max() >= outputs):
            return f"has classes from {known.min()} to {known.max()}; the task has the {outputs} classes from 0"
        shape = ["n", *["time"] * (self.task.readout != "none"), *self.task.input]
        x = split.prepare(split.raw[:1])
        if x.dim() != len(shape) or x.shape[x.dim() - len(self.task.input) :] != self.task.input:
            return f"becomes x of shape {tuple(x.shape)}; this task's is ({', '.join(map(str, shape))})"
        if self.task.readout != "none" and split.longest > self.task.steps:
            return f"has a sequence of {split.longest:,} time steps; the task's `steps`, the longest, is {self.task.steps:,}"
        if split.stream != self.task.is_stream:
            return f"has stream={split.stream}, but the task's `form` is {self.task.form!r}"
        if self.task.readout == "every":
            if targets.shape[1] != x.shape[1]:
                return f"has targets of {targets.shape[1]} time steps for x of {x.shape[1]}"
            if split.lengths is not None and not absent[torch.arange(x.shape[1]) >= split.lengths[:, None]].all():
                return "has targets beyond the end of a sequence; they must be IGNORED, or NaN if they are numbers"
        return None

    @abstractmethod
    def read(self, name: SplitName) -> Split:
        """Return the split called `name`. `split` calls this method after checking the name."""


def split_by_hash(keys: Sequence[str], dataset: Dataset) -> dict[SplitName, list[int]]:
    """Return the indices of each split's examples, in pseudo-random order, for a dataset that comes without splits.

    keys: one per example; examples with the same key are in the same split. The keys are sorted by their sha256. The first
    `dataset.test` keys are the test split, the next `dataset.validation` keys the validation split, the others the training
    split.
    """
    members: dict[str, list[int]] = {}
    for index, key in enumerate(keys):
        members.setdefault(key, []).append(index)
    order = sorted(members, key=lambda key: hashlib.sha256(key.encode()).digest())
    test, validation = dataset.test or 0, dataset.validation or 0
    parts: dict[SplitName, list[str]] = {
        "test": order[:test], "validation": order[test : test + validation], "train": order[test + validation :],
    }  # fmt: skip
    return {name: [index for key in part for index in members[key]] for name, part in parts.items()}
