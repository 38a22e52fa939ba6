"""How a checkpoint is trained."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from .base import Count, Key, Positive, Rate, Seq, Spec, Text


class Optimizer(Spec):
    """An optimizer and its constants."""

    name: Literal["adam", "rmsprop", "sgd"]
    lr: Positive
    betas: Seq[Rate] = (0.9, 0.999)
    """Adam only."""
    alpha: Rate = 0.9
    """RMSprop only: decay rate of the mean square (Tieleman & Hinton 2012 use 0.9)."""
    momentum: Rate = 0.0
    """SGD and RMSprop."""
    weight_decay: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0

    @model_validator(mode="after")
    def _two_betas(self) -> "Optimizer":
        if len(self.betas) != 2:
            raise ValueError(f"betas must be two numbers, not {len(self.betas)}")
        return self


class Schedule(Spec):
    """The learning rate over a run or stage, as a multiple of the optimizer's: a linear warm-up, then a decay."""

    name: Literal["constant", "cosine", "one-cycle", "polynomial"] = "constant"
    warmup: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Optimizer steps from 0 to the full rate; one-cycle with 0 takes 30 % of the run."""
    final_factor: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Multiple at which the decay ends."""
    power: Positive = 1.0
    """Polynomial only."""
    epochs: Count | None = None
    """Length of the decay in epochs; None for the length of the run or stage."""


class Affine(Spec):
    """Random affine maps of images about their centres, drawn uniformly for each image."""

    degrees: Annotated[float, Field(gt=0.0, le=180.0)] | None = None
    """Largest rotation in degrees, either way."""
    scale: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """Largest growth or shrinkage, as a fraction of the size."""
    shear: Annotated[float, Field(gt=0.0, lt=90.0)] | None = None
    """Largest shear angle in degrees, either way."""

    @model_validator(mode="after")
    def _does_something(self) -> "Affine":
        if self.degrees is self.scale is self.shear is None:
            raise ValueError("one of degrees, scale and shear is needed")
        return self


class Augmentation(Spec):
    """Random augmentation of training images, redrawn for every batch (zoo.data.augmentation)."""

    affine: Affine | None = None
    """Rotation, scale and shear, applied before the shift."""
    shift: Count | None = None
    """Largest shift in pixels, vertical and horizontal; black moves in."""

    @property
    def augments(self) -> bool:
        return self.affine is not None or self.shift is not None


class Stage(Augmentation):
    """A part of a run; it begins with a fresh optimizer."""

    start_epoch: Annotated[int, Field(ge=0)] = 0
    """Epochs of the run that come before this stage."""
    lr: Positive
    schedule: Schedule = Schedule()


class Recipe(Augmentation):
    """How a checkpoint is trained. The recipe's own augmentation is that of the first stage."""

    paper: Key | None = None
    """The paper that gives these settings."""
    based_on: Key | None = None
    """The paper's recipe that this one departs from."""
    deviation: Text | None = None
    """How it departs from `based_on`, and why."""
    unspecified: Seq[Literal["optimizer", "batch_size"]] = ()
    """Settings that the paper leaves open; those here are our choice."""
    optimizer: Optimizer
    schedule: Schedule = Schedule()
    batch_size: Count
    epochs: Annotated[int, Field(ge=1, le=100_000)]
    patience: Count | None = None
    """Epochs without a lower validation loss after which a run ends, converged."""
    max_grad_norm: Positive | None = None
    """Bound on the global gradient norm."""
    tbptt_steps: Count | None = None
    """Truncated backpropagation through time: cut gradients every so many time steps."""
    checkpoint_every: Count | None = None
    """Gradient checkpointing: keep only the states every so many time steps and recompute the rest."""
    gradient_flow_penalty: Positive | None = None
    """Weight of the penalty on vanishing gradients, Omega of Pascanu et al. 2013 (zoo.training.regularisers)."""
    stages: Seq[Stage] = ()
    """Later stages, in order; a run shorter than their start never reaches them."""
    precision: Literal["no", "bf16", "fp16"] = "no"
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0

    @model_validator(mode="after")
    def _departures_are_explained(self) -> "Recipe":
        if (self.based_on is None) != (self.deviation is None):
            raise ValueError("'based_on' and 'deviation' go together: a recipe that departs from a document's says why")
        return self

    @model_validator(mode="after")
    def _in_order(self) -> "Recipe":
        begins = [stage.start_epoch for stage in self.stages]
        if begins != sorted(set(begins)):
            raise ValueError("each stage begins after the one before it")
        return self

    @model_validator(mode="after")
    def _schedules_last(self) -> "Recipe":
        for stage, end in self.timeline:
            length = min(end, self.epochs) - stage.start_epoch
            if stage.schedule.epochs is not None and stage.schedule.epochs < length:
                raise ValueError(f"a schedule for {stage.schedule.epochs} epochs does not last for {length}")
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """The fields that decide what a run computes, as JSON; not its paper or reasons."""
        return self.model_dump(mode="json", exclude={"paper", "based_on", "deviation", "unspecified"})

    @property
    def timeline(self) -> tuple[tuple[Stage, int], ...]:
        """The stages that the run reaches, each with the epoch at which the next one begins or the run ends."""
        first = Stage(lr=self.optimizer.lr, schedule=self.schedule, affine=self.affine, shift=self.shift)
        begins, ends = (first, *self.stages), (*(stage.start_epoch for stage in self.stages), self.epochs)
        return tuple((stage, end) for stage, end in zip(begins, ends, strict=True) if stage.start_epoch < self.epochs)

    def stage(self, epoch: int) -> tuple[Stage, int]:
        """The stage of an epoch (counted from 0), and the length of its schedule in epochs."""
        now, end = next((stage, end) for stage, end in reversed(self.timeline) if stage.start_epoch <= epoch)
        return now, now.schedule.epochs or end - now.start_epoch
