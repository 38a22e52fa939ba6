"""Spec, the base class of every specification, and the types of its fields."""

import difflib
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

T = TypeVar("T")
Seq = Annotated[tuple[T, ...], Field(strict=False)]  # accepts the lists of YAML and JSON
Some = Annotated[tuple[T, ...], Field(strict=False, min_length=1, max_length=32)]
Text = Annotated[str, Field(min_length=1, max_length=2000, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""One line of text without control characters, because tables, cards and messages show it."""
Key = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,79}$")]
Count = Annotated[int, Field(ge=1, le=16384)]
Shape = Annotated[tuple[Count, ...], Field(strict=False, max_length=3)]
Layers = Annotated[int, Field(ge=1, le=1024)]
Percent = Annotated[float, Field(ge=0.0, le=100.0)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[float, Field(gt=0.0, lt=math.inf, allow_inf_nan=False)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Url = Annotated[str, Field(pattern=r"^https://")]
COMMIT = r"[0-9a-f]{40}"
REPO = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95}"
Commit = Annotated[str, Field(pattern=f"^{COMMIT}$")]
Repo = Annotated[str, Field(pattern=f"^{REPO}$")]


class Spec(BaseModel):
    """Base of every specification: frozen, strict about types, and refusing unknown keys with a near valid key."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _nearest_key(cls, data: Any) -> Any:
        for key in data if isinstance(data, Mapping) else ():
            if key not in cls.model_fields:
                near = difflib.get_close_matches(str(key), sorted(cls.model_fields), n=1, cutoff=0.0)[0]
                raise fault([key], f"unknown key {key!r}; the nearest valid one is {near!r}")
        return data

    @model_validator(mode="after")
    def _fields_fit_together(self) -> Self:
        if problem := next(self._problems(), None):
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        """Yield a message for each problem that one field alone does not show. Validation reports the first of them."""
        yield from ()


def fault(path: list[Any], message: str) -> PydanticCustomError:
    """Return a validation error about the value that the keys `path` lead to, from the object under validation."""
    return PydanticCustomError("fault", "{message}", {"message": message, "path": path})


def first_fault(error: ValidationError) -> tuple[tuple[Any, ...], str]:
    """Return the keys and list indices that lead to the first invalid value, and the message about this value."""
    first = error.errors()[0]
    return (*first["loc"], *first.get("ctx", {}).get("path", ())), first["msg"].removeprefix("Value error, ")
