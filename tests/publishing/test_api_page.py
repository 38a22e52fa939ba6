"""docs/api.md: every public name with its signature and its docstring."""

import ast
import inspect
import re
from pkgutil import resolve_name

import pytest

import zoo
from zoo.data.listening import Listener
from zoo.diagnostics import ANALYSES
from zoo.publishing.pages import api

PAGE = api.page()
PARTS = dict(re.findall(r"^### `zoo\.(.+?)`\n(.*?)(?=^##|\Z)", PAGE, re.M | re.S))


def words(text: str) -> list[str]:
    """The words of a docstring or of a page, without the marks of lists, code and escapes."""
    return re.sub(r"[`\\]|^- ", "", text, flags=re.M).split()


def test_the_page_has_every_public_name_and_every_analysis() -> None:
    assert set(zoo.__all__) - {"Network"} <= set(PARTS)  # the page has its class RecurrentNetwork
    assert {f"diagnostics.{row.path}" for row in ANALYSES.values()} <= set(PARTS)


@pytest.mark.parametrize("name", PARTS)
def test_nothing_of_a_docstring_is_lost(name: str) -> None:
    item = resolve_name(f"zoo.{name}")
    text = words(inspect.getdoc(item) or "")
    assert text
    assert " ".join(text) in " ".join(words(re.sub(r"```.*?```", "", PARTS[name], flags=re.S)))


@pytest.mark.parametrize("name", [name for name in PARTS if not isinstance(resolve_name(f"zoo.{name}"), type)])
def test_a_signature_is_the_functions_own(name: str) -> None:
    written = re.search(r"```python\n(.*?)\n```", PARTS[name], re.S)
    assert written is not None
    arguments = ast.parse(f"def {written[1]}: ...").body[0].args  # type: ignore[attr-defined]
    parameters = inspect.signature(resolve_name(f"zoo.{name}")).parameters
    assert written[1].startswith(f"{name.rpartition('.')[2]}(")
    assert [argument.arg for argument in [*arguments.args, *arguments.kwonlyargs]] == list(parameters)
    keywords = [key for key, parameter in parameters.items() if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    assert [argument.arg for argument in arguments.kwonlyargs] == keywords
    defaults = [default for default in [*arguments.defaults, *arguments.kw_defaults] if default is not None]
    assert len(defaults) == sum(parameter.default is not inspect.Parameter.empty for parameter in parameters.values())


def test_methods_come_without_self_and_those_of_the_class_with_its_name() -> None:
    part = PARTS["networks.recurrent.RecurrentNetwork"]
    assert ".pooled(x: Tensor, lengths: Tensor | None = None, *, dt: Tensor | None = None) -> Tensor" in part
    assert "RecurrentNetwork.from_pretrained(" in part
    assert "self" not in re.findall(r"```python\n(.*?)```", part, re.S)[0]
    assert "_check" not in part


def test_shapes_of_arguments_and_how_an_object_is_made_and_called_are_told() -> None:
    part = PARTS["data.listening.Listener"]
    for item in (Listener.__init__, Listener.__call__, Listener.hear, Listener.finish):
        assert " ".join(words(inspect.getdoc(item) or "?")) in " ".join(words(part))
    assert "    samples: Tensor,  # (samples,), int16, or float with full scale 1\n" in part
    assert "    x: Tensor,  # (batch, *input), or tokens (batch,)\n" in PARTS["networks.stream.Stream"]
    assert "- `answered: float`: When so much" in PARTS["data.listening.Word"]
    assert "fmt: skip" not in PAGE


def test_fields_of_base_classes_are_listed_and_arguments_are_items() -> None:
    assert "- `outputs: VocabularyOrZero`" in PARTS["Interface"]  # declared by Shapes
    assert "- `interface: Interface`" in PARTS["Config"]
    assert "\n- `seed`: a non-negative integer." in PARTS["build"]
    assert "\n\nRaises UnknownNameError for an unknown name" in PARTS["build"]
