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
    """RMSprop only: decay of the mean square (Tieleman & Hinton 2012 use 0.9)."""
    momentum: Rate = 0.0
    """SGD and RMSprop."""
    weight_decay: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0

    @model_validator(mode="after")
    def _two_betas(self) -> "Optimizer":
        if len(self.betas) != 2:
            raise ValueError(f"betas must be two numbers, not {len(self.betas)}")
        return self


class Schedule(Spec):
    """Learning rate as a multiple of the optimizer's over the whole run or stage, after a linear warm-up."""

    name: Literal["constant", "cosine", "one-cycle", "polynomial"] = "constant"
    warmup: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Steps from 0 to the full rate; one-cycle takes 30 % of the run if this is 0."""
    final_factor: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Multiple that the decay ends at."""
    power: Positive = 1.0
    """Polynomial only."""
    epochs: Count | None = None
    """Epochs that the decay is laid out for, where the run or stage is not as long."""


class Affine(Spec):
    """Maps of images about their centres, drawn evenly and for each image."""

    degrees: Annotated[float, Field(gt=0.0, le=180.0)] | None = None
    """The most that an image is turned by, either way."""
    scale: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """The most that it grows or shrinks by, as a part of its size."""
    shear: Annotated[float, Field(gt=0.0, lt=90.0)] | None = None
    """The most, in degrees, that upright lines lean by, either way."""

    @model_validator(mode="after")
    def _does_something(self) -> "Affine":
        if self.degrees is self.scale is self.shear is None:
            raise ValueError("one of degrees, scale and shear is needed")
        return self


class Augmentation(Spec):
    """What happens to training images each time that they are seen; see zoo.data.augmentation."""

    affine: Affine | None = None
    """Each image is turned, scaled and sheared, before it is moved."""
    shift: Count | None = None
    """Each image is moved by up to this many pixels, up or down and left or right, black moving in."""

    @property
    def augments(self) -> bool:
        return self.affine is not None or self.shift is not None


class Stage(Augmentation):
    """A part of a run, which begins with a fresh optimizer."""

    start_epoch: Annotated[int, Field(ge=0)] = 0
    """Epochs that come before it."""
    lr: Positive
    schedule: Schedule = Schedule()


class Recipe(Augmentation):
    """How a checkpoint is trained; the images of its first stage, where there is another, are what it augments."""

    paper: Key | None = None
    """The document that gives these settings, if one does."""
    based_on: Key | None = None
    """The document's recipe that this one departs from."""
    deviation: Text | None = None
    """Why it departs."""
    unspecified: Seq[Literal["optimizer", "batch_size"]] = ()
    """What the document leaves open, and is a choice made here."""
    optimizer: Optimizer
    schedule: Schedule = Schedule()
    batch_size: Count
    epochs: Annotated[int, Field(ge=1, le=100_000)]
    patience: Count | None = None
    """A run has converged, and ends, when its validation loss has not fallen for this many epochs."""
    max_grad_norm: Positive | None = None
    """Bound on the global gradient norm."""
    tbptt_steps: Count | None = None
    """Truncated backpropagation through time: gradients are cut every this many steps."""
    checkpoint_every: Count | None = None
    """Gradient checkpointing: only the states every this many steps are kept, the rest is computed again."""
    gradient_flow_penalty: Positive | None = None
    """Weight of the regulariser that keeps errors from vanishing (Pascanu et al. 2013); see zoo.training.regularisers."""
    stages: Seq[Stage] = ()
    """What follows after some epochs, in order, as far as the run is long enough."""
    precision: Literal["no", "bf16", "fp16"] = "no"
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0

    @model_validator(mode="after")
    def _departures_are_explained(self) -> "Recipe":
        if (self.based_on is None) != (self.deviation is None):
            raise ValueError("'based_on' and 'deviation' go together: a recipe that departs from a document's says why")
        return self

    @model_validator(mode="before")
    @classmethod
    def _at_most_one(cls, data: Any) -> Any:
        """Checkpoints from when only one stage could follow have it, or None, in the place of a list."""
        if isinstance(data, dict) and isinstance(then := data.get("stages", ()), dict | None):
            return {**data, "stages": [] if then is None else [then]}
        return data

    @model_validator(mode="after")
    def _in_order(self) -> "Recipe":
        begins = [stage.start_epoch for stage in self.stages]
        if begins != sorted(set(begins)):
            raise ValueError("each stage that follows begins after the one before it")
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
        """All that decides what a run does, and not what is said of it, as JSON has it."""
        return self.model_dump(mode="json", exclude={"paper", "based_on", "deviation", "unspecified"})

    @property
    def timeline(self) -> tuple[tuple[Stage, int], ...]:
        """The stages that the run comes to, each with the epoch at which it would end in a run that is long enough."""
        first = Stage(lr=self.optimizer.lr, schedule=self.schedule, affine=self.affine, shift=self.shift)
        begins, ends = (first, *self.stages), (*(stage.start_epoch for stage in self.stages), self.epochs)
        return tuple((stage, end) for stage, end in zip(begins, ends, strict=True) if stage.start_epoch < self.epochs)

    def stage(self, epoch: int) -> tuple[Stage, int]:
        """The stage of an epoch (0-based), and the epochs that its schedule is laid out for."""
        now, end = next((stage, end) for stage, end in reversed(self.timeline) if stage.start_epoch <= epoch)
        return now, now.schedule.epochs or end - now.start_epoch
