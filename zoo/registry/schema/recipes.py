"""How a checkpoint is trained: the optimizer, the learning rate, augmentation, and the stages of a run."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from .base import Count, Key, Positive, Rate, Seq, Spec, Text

OWN_SETTINGS: dict[str, set[str]] = {
    "adam": {"betas"}, "adamw": {"betas"}, "rmsprop": {"alpha", "momentum"}, "ridge": set(), "sgd": {"momentum"},
}  # fmt: skip
"""By optimizer: which of the settings that not every optimizer has belong to it."""
OWN_DECAY: dict[str, tuple[str, ...]] = {
    "constant": (), "cosine": ("final_factor", "epochs"), "one-cycle": ("final_factor", "epochs"),
    "polynomial": ("final_factor", "epochs", "power"),
}  # fmt: skip
"""By schedule: which settings of the decay it has."""


class Optimizer(Spec):
    """An optimizer and its constants."""

    name: Literal["adam", "adamw", "rmsprop", "ridge", "sgd"]
    """A method of gradient descent, or `ridge` for ridge regression of the head in one epoch (zoo.training.ridge)."""
    lr: Positive = 1.0  # learning rate; ridge has none
    betas: Annotated[Seq[Rate], Field(min_length=2, max_length=2)] = (0.9, 0.999)  # for Adam
    alpha: Rate = 0.9  # for RMSprop: decay rate of the mean square (Tieleman & Hinton 2012 use 0.9)
    momentum: Rate = 0.0  # for SGD and RMSprop
    weight_decay: Rate = 0.0
    recurrence_factor: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Factor on the learning rate of the parameters that a cell has outside its projections, such as an LRU's decays and
    phases. With a factor, these parameters have no weight decay, as is usual for such models."""
    penalty: Positive | None = None
    """For ridge: factor on |weights of the head|^2, which is added to the sum of squared errors."""

    def _problems(self) -> Iterator[str]:
        if (self.name == "ridge") != (self.penalty is not None):
            yield "'penalty' belongs to ridge, and ridge needs one: give it for ridge only"
        if self.name != "ridge" and "lr" not in self.model_fields_set:
            yield f"{self.name} needs a learning rate: give 'lr'"
        descent = set() if self.name == "ridge" else {"lr", "weight_decay", "recurrence_factor"}
        yield from _unused(self, {"name", "penalty"} | descent | OWN_SETTINGS[self.name])


class Schedule(Spec):
    """The learning rate over a run or stage, as a multiple of the optimizer's: a linear warm-up, then a decay."""

    name: Literal["constant", "cosine", "one-cycle", "polynomial"] = "constant"
    warmup: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Number of optimizer steps from 0 to the full rate. With 0, one-cycle warms up during 30 % of the run."""
    final_factor: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0  # the multiple at the end of the decay
    power: Positive = 1.0  # exponent of the polynomial decay
    epochs: Count | None = None  # length of the decay; None for the length of the run or stage

    def _problems(self) -> Iterator[str]:
        yield from _unused(self, {"name", "warmup", *OWN_DECAY[self.name]})


def _unused(spec: Optimizer | Schedule, used: set[str]) -> Iterator[str]:
    """Report the settings of `spec` that are not in `used` although they differ from their defaults."""
    for name, field in type(spec).model_fields.items():
        if name not in used and getattr(spec, name) != field.default:
            yield f"{spec.name} has no '{name}': leave it out"


Decay = Annotated[float, Field(gt=0.0, lt=1.0)]


class Affine(Spec):
    """Random affine maps of images about their centres, drawn uniformly for each image."""

    degrees: Annotated[float, Field(gt=0.0, le=180.0)] | None = None  # largest rotation in either direction
    scale: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None  # largest growth or shrinkage: a fraction of the size
    shear: Annotated[float, Field(gt=0.0, lt=90.0)] | None = None  # largest angle in degrees, in either direction

    def _problems(self) -> Iterator[str]:
        if self.degrees is self.scale is self.shear is None:
            yield "give at least one of degrees, scale and shear"


class Elastic(Spec):
    """Random smooth displacements of the pixels of images (Simard et al. 2003).

    Each pixel's two displacements are drawn from (-alpha, alpha) and convolved with a Gaussian of standard deviation sigma.
    """

    alpha: Positive  # in pixels, before the smoothing; with 34 and sigma 4, pixels move by about 1.4 pixels each way
    sigma: Positive  # in pixels


class Augmentation(Spec):
    """Random augmentation of training images, redrawn for every batch (zoo.data.augmentation)."""

    affine: Affine | None = None  # rotation, scale and shear
    elastic: Elastic | None = None  # smooth displacements, applied together with the affine map
    shift: Count | None = None  # largest shift in pixels, both ways, applied last; pixels moved in are black

    @property
    def augments(self) -> bool:
        return any(value is not None for value in (self.affine, self.elastic, self.shift))


class Stage(Augmentation):
    """A part of a training run. Each stage begins with a fresh optimizer, and a fresh average of the weights."""

    start_epoch: Annotated[int, Field(ge=0)] = 0  # number of epochs of the run before this stage
    lr: Positive  # learning rate
    schedule: Schedule = Schedule()
    weight_average: Decay | None = None
    """Decay of the moving average of the weights over the steps of the stage; validation and the checkpoint take the average."""


class Collapse(Spec):
    """When a run counts as collapsed, so that it ends early. One rule serves all models that a recipe compares."""

    epochs: Count  # number of epochs after which a run that has not left chance ends
    loss: Positive  # validation loss below which a run has left chance; a guess among n classes costs ln(n)


class Recipe(Augmentation):
    """How a checkpoint is trained, in one stage or several.

    The recipe's own augmentation, learning rate, schedule and weight average are those of the first stage; `stages` has the
    later stages.
    """

    paper: Key | None = None  # the paper that gives these settings
    based_on: Key | None = None  # the paper's recipe that this recipe changes
    deviation: Text | None = None  # what this recipe changes in `based_on`, and why
    unspecified: Seq[Literal["optimizer", "batch_size"]] = ()  # settings that the paper does not give; we chose them
    optimizer: Optimizer
    schedule: Schedule = Schedule()
    batch_size: Count  # examples per optimizer step
    epochs: Annotated[int, Field(ge=1, le=100_000)]  # passes over the training set
    patience: Count | None = None  # end the run after this many epochs without a lower validation loss
    collapse: Collapse | None = None  # end the run if it does not learn at all
    max_grad_norm: Positive | None = None  # threshold at which the global gradient norm is clipped
    weight_average: Decay | None = None
    tbptt_steps: Count | None = None  # truncated backpropagation through time: cut gradients after this many time steps
    checkpoint_every: Count | None = None
    """Gradient checkpointing: keep the states only once in this many time steps, and recompute the others."""
    gradient_flow_penalty: Positive | None = None
    """Weight of the penalty on vanishing gradients, Omega of Pascanu et al. 2013 (zoo.training.regularisers)."""
    stages: Seq[Stage] = ()  # the stages after the first, in order; a run may end before some of them begin
    precision: Literal["no", "bf16", "fp16"] = "no"
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0

    def _problems(self) -> Iterator[str]:
        if (self.based_on is None) != (self.deviation is None):
            yield "'based_on' and 'deviation' go together: a recipe that changes a paper's recipe says how and why"
        steps = (
            self.max_grad_norm, self.weight_average, self.tbptt_steps, self.checkpoint_every, self.gradient_flow_penalty,
        )  # fmt: skip
        descends = self.epochs > 1 or self.stages or self.precision != "no" or any(value is not None for value in steps)
        if self.optimizer.name == "ridge" and descends:
            yield "ridge computes the head once: set epochs to 1, and leave out stages, precision and settings of gradients"
        begins = [stage.start_epoch for stage in self.stages]
        if [0, *begins] != sorted({0, *begins}):
            yield f"the stages begin at epochs {begins}, but each must begin after the one before it, and the first after epoch 0"
        for stage, end in self.timeline:
            length = min(end, self.epochs) - stage.start_epoch
            if stage.schedule.epochs is not None and stage.schedule.epochs < length:
                yield f"a schedule of {stage.schedule.epochs} epochs is shorter than its stage of {length} epochs; lengthen it"

    @property
    def settings(self) -> dict[str, Any]:
        """The fields that decide what a run computes, as JSON values: all fields but the paper and the reasons."""
        return self.model_dump(mode="json", exclude={"paper", "based_on", "deviation", "unspecified"})

    @property
    def timeline(self) -> tuple[tuple[Stage, int], ...]:
        """A pair (stage, end) for each stage that the run reaches; at epoch `end` the next stage begins or the run ends."""
        first = Stage(
            lr=self.optimizer.lr, schedule=self.schedule, weight_average=self.weight_average, affine=self.affine,
            elastic=self.elastic, shift=self.shift,
        )  # fmt: skip
        begins, ends = (first, *self.stages), (*(stage.start_epoch for stage in self.stages), self.epochs)
        return tuple((stage, end) for stage, end in zip(begins, ends, strict=True) if stage.start_epoch < self.epochs)

    def stage(self, epoch: int) -> tuple[Stage, int]:
        """Return (stage, length): the stage to which an epoch (counted from 0) belongs, and its schedule's length in epochs."""
        now, end = next((stage, end) for stage, end in reversed(self.timeline) if stage.start_epoch <= epoch)
        return now, now.schedule.epochs or end - now.start_epoch
