"""Describes every fault of a specification in words, with the nearest valid key and the meaning of the field."""

import ast
import difflib
import inspect
import textwrap
import types
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from ...errors import shown

SYNONYMS = {
    "units": ("hidden_size", "hidden_dim", "hidden_units", "hidden", "width", "nodes"),
    "layers": ("num_layers", "n_layers", "nlayers", "depth"),
    "cell": ("rnn_type", "cell_type", "type", "model"),
    "input": ("inputs", "input_size", "input_dim", "in_features", "features"),
    "outputs": ("output", "output_size", "num_classes", "n_classes", "out_features"),
    "steps": ("length", "seq_len", "sequence_length", "timesteps", "time_steps"),
    "vocabulary": ("vocab", "vocab_size", "num_embeddings"),
    "size": ("embedding_dim", "dim"),
    "kernel": ("kernel_size",),
    "dropout": ("dropout_rate", "p"),
    "layer_norm": ("layernorm", "normalization", "norm"),
    "lr": ("learning_rate", "rate"),
    "epochs": ("num_epochs", "n_epochs"),
    "batch_size": ("batch", "bs"),
    "max_grad_norm": ("clip", "grad_clip", "clip_norm", "gradient_clipping", "max_norm"),
    "weight_average": ("ema", "ema_decay", "model_ema", "model_ema_decay"),
    "license": ("licence",),
}
"""By field: the names that other libraries give to it, for the suggestion after an unknown key."""
WORDS = {
    "missing": "is missing",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be a text",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "dict_type": "must be a table of keys and values",
    "model_type": "must be a table of keys and values",
    "model_attributes_type": "must be a table of keys and values",
    "literal_error": "must be {expected}",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_pattern_mismatch": "must have the form {pattern}",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
}
"""Our message for each type of pydantic error. Names in braces come from the context of the error."""


Fault = tuple[tuple[int | str, ...], str]
"""(location, message): the keys and list indices that lead to an invalid value, and what is wrong with it."""


def fault(message: str) -> PydanticCustomError:
    """Return the error with which a validator refuses the value under validation, without reference to a key inside it."""
    return PydanticCustomError("fault", "{message}", {"message": message})


def refusal(title: str, faults: Iterable[Fault]) -> ValidationError:
    """Return the error with which a validator reports several faults at once. title: name of the refused value's class."""
    rows = [InitErrorDetails(type=fault(message), loc=loc, input=None) for loc, message in faults]
    return ValidationError.from_exception_data(title, rows, hide_input=True)


def all_faults(error: ValidationError) -> list[Fault]:
    """Return every fault that `error` reports."""
    rows = error.errors(include_url=False, include_input=False)
    return [(row["loc"], row["msg"]) for row in rows]


def reworded(spec: type[BaseModel], error: ValidationError) -> ValidationError:
    """Return `error`, raised by validating `spec`, with rnnzoo's messages in place of pydantic's.

    The errors of specifications inside `spec` have rnnzoo's messages already, and keep them.
    """
    errors = error.errors(include_url=False)
    misspelt = {_near_field(spec, str(row["loc"][-1])) for row in errors if row["type"] == "extra_forbidden"}
    with_faults_inside = {row["loc"][:-1] for row in errors}
    faults: dict[tuple[int | str, ...], str] = {}
    for row in errors:
        loc = row["loc"]
        if (row["type"] == "missing" and loc[0] in misspelt) or (
            row["type"] == "too_short" and loc in with_faults_inside
        ):
            continue  # the field, or an item of the list, is there, but invalid
        if loc and loc[0] in spec.model_fields and _is_union(spec.model_fields[str(loc[0])].annotation):
            loc = loc[:1]  # pydantic has an error for each member
        faults.setdefault(loc, _in_words(spec, row, loc))
    return refusal(spec.__name__, faults.items())


def _in_words(spec: type[BaseModel], row: ErrorDetails, loc: tuple[int | str, ...]) -> str:
    """Return rnnzoo's message for `row`, one of pydantic's errors. loc: the keys and indices from `spec` to the value."""
    kind = row["type"]
    if kind == "fault":
        return row["msg"]
    if kind == "extra_forbidden":
        near = _near_field(spec, str(loc[-1]))
        hint = f"the nearest valid one is {near!r}" if near else f"the valid ones are {', '.join(spec.model_fields)}"
        return f"unknown key {shown(loc[-1])}; {hint}"
    text = WORDS.get(kind, row["msg"]).format(**row.get("ctx", {})) if loc == row["loc"] else "must have another form"
    value = "" if kind == "missing" else f", not {shown(row['input'])}"
    meaning = meanings(spec).get(str(loc[0])) if loc else None
    return f"{text}{value}{f' ({meaning})' if meaning else ''}"


def _near_field(spec: type[BaseModel], key: str) -> str | None:
    """Return the field that the unknown `key` probably means; None if none is similar."""
    fields = list(spec.model_fields)
    meant = [field for field in fields if key.lower() in SYNONYMS.get(field, ())]
    return next(iter(meant or difflib.get_close_matches(key, fields, n=1, cutoff=0.6)), None)


@cache
def meanings(spec: type[BaseModel]) -> dict[str, str]:
    """Return the meaning of each field of a specification: the first sentence of the docstring or comment after the field."""
    texts: dict[str, str] = {}
    for part in reversed(spec.__mro__):
        if issubclass(part, BaseModel) and part.__module__.startswith("zoo."):
            texts |= dict(_documented(part))
    return texts


def _documented(spec: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Yield (field, first sentence) for each field that a class declares with a docstring or a comment in its source."""
    try:
        source = textwrap.dedent(inspect.getsource(spec))
    except OSError:  # an installation without sources
        return
    (body,) = ast.parse(source).body
    assert isinstance(body, ast.ClassDef)
    for field, after in pairwise([*body.body, ast.Pass()]):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = source.splitlines()[(field.end_lineno or 1) - 1][field.end_col_offset or 0 :].partition("#")[2]
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                text = str(after.value.value)
            if sentence := " ".join(text.split()).partition(". ")[0].rstrip("."):
                yield field.target.id, sentence


def _is_union(annotation: Any) -> bool:
    """Return whether a field may be one of several types, None aside."""
    if get_origin(annotation) is Annotated:
        return _is_union(get_args(annotation)[0])
    is_union = get_origin(annotation) in (Union, types.UnionType)
    return is_union and len([each for each in get_args(annotation) if each is not type(None)]) > 1
