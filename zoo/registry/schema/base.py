"""Spec, the base class of every specification, and the types of its fields."""

import math
from collections.abc import Iterator
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from .faults import fault, reworded

T = TypeVar("T")
Seq = Annotated[tuple[T, ...], Field(strict=False)]  # accepts the lists of YAML and JSON
Some = Annotated[tuple[T, ...], Field(strict=False, min_length=1, max_length=32)]
Text = Annotated[str, Field(min_length=1, max_length=2000, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""One line of text without control characters, because tables, cards and messages show it."""
Key = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,79}$")]
Count = Annotated[int, Field(ge=1, le=16384)]
Vocabulary = Annotated[int, Field(ge=1, le=2**20)]
VocabularyOrZero = Annotated[int, Field(ge=0, le=2**20)]
Shape = Annotated[tuple[Count, ...], Field(strict=False, max_length=3)]
Layers = Annotated[int, Field(ge=1, le=1024)]
Percent = Annotated[float, Field(ge=0.0, le=100.0)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[float, Field(gt=0.0, lt=math.inf, allow_inf_nan=False)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Url = Annotated[str, Field(pattern=r"^https://")]
COMMIT = r"[0-9a-f]{40}"
NAMESPACE = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}"
REPO = rf"{NAMESPACE}/[A-Za-z0-9][A-Za-z0-9_.-]{{0,95}}"
Commit = Annotated[str, Field(pattern=f"^{COMMIT}$")]
Namespace = Annotated[str, Field(pattern=f"^{NAMESPACE}$")]
Repo = Annotated[str, Field(pattern=f"^{REPO}$")]


def fraction(percent: float) -> float:
    """Return an accuracy in percent, as a paper prints it, as a fraction."""
    return round(percent / 100, 10)


class Spec(BaseModel):
    """Base of every specification: frozen, strict about types, and refusing unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, hide_input_in_errors=True)

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_in_our_words(cls, data: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return validate(data)
        except ValidationError as error:
            raise reworded(cls, error) from None

    @model_validator(mode="after")
    def _fields_fit_together(self) -> Self:
        if problems := "; ".join(self._problems()):
            raise fault(problems)
        return self

    def _problems(self) -> Iterator[str]:
        """Yield a message for each contradiction between fields."""
        yield from ()
