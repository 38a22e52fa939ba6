"""Accuracies in other runtimes and with 8-bit weights, and the tables that show them."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from pydantic import ValidationError
from torch._dynamo.testing import CompileCounter

from benchmarks import exports
from zoo import load, registry, spec
from zoo.checkpoints import exported as rows
from zoo.checkpoints import results
from zoo.checkpoints.results import RuntimeEvaluation
from zoo.data.base import IGNORED
from zoo.errors import StorageError
from zoo.publishing import cards
from zoo.publishing.pages import exports as exports_page
from zoo.training import evaluation
from zoo.utils import files, paths

NAME = "lstm-1x128-mnist-rows"
Run = Callable[..., tuple[int, str, str]]
ROW = rows.Row(
    model=NAME, format="onnx", graphs=("sequence", "step"), bytes=1234, n=10_000, difference=1.2e-5, different=3,
    metric="accuracy", value=0.98, step_us=12.3, sequence_ms=4.56, cpu="a processor", threads=1, date="2026-01-31",
)  # fmt: skip
PARTLY = ("openvino", "executorch")
"""Formats whose runtimes are so slow that some models are compared on a part of the test set."""


def test_another_runtime_measures_the_same_accuracy(run: Run) -> None:
    code, out, err = run("eval", NAME, "--runtime", "onnx", "--limit", "500", "--json")
    assert code == 0, err
    result = json.loads(out)
    expected = evaluation.evaluate(NAME, limit=500, device="cpu")
    assert (result["runtime"], result["quantize"], result["n"]) == ("onnx", None, 500)
    assert result["value"] == expected.value
    assert result["loss"] == pytest.approx(expected.loss, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--runtime", "onx"), "No format is called 'onx'. Did you mean onnx?"),
        (("--quantize", "int4"), "quantize is 'int4'"),
    ],
)
def test_unknown_runtimes_are_refused(arguments: tuple[str, str], message: str, run: Run) -> None:
    code, _, err = run("eval", NAME, *arguments)
    assert code == 2
    assert message in err


def test_results_keep_one_figure_a_runtime_and_cards_warn_of_losses() -> None:
    recorded = results.for_model(NAME)
    full = recorded.measured()
    assert full is not None
    for runtime, quantize, value in (
        ("onnx", None, 0.5),
        ("onnx", None, full.value),
        ("torch", "int8", full.value - 0.0031),
        ("onnx", "int8", full.value),
    ):
        fields = {**full.model_dump(), "runtime": runtime, "quantize": quantize, "value": value}
        recorded = recorded.record(RuntimeEvaluation(**fields))
    assert recorded.measured() == full
    assert [(e.runtime, e.quantize, e.value) for e in recorded.runtimes] == [
        ("onnx", None, full.value), ("torch", "int8", full.value - 0.0031), ("onnx", "int8", full.value)
    ]  # fmt: skip
    card = cards.compose(spec(NAME), recorded, cards.counts(NAME))
    lines = [line for line in card.splitlines() if "measured, test" in line]
    assert [line.split(" | ")[0] for line in lines] == [
        "| measured, test",
        "| measured, test, onnx",
        "| measured, test, int8",
        "| measured, test, onnx, int8",
        "| measured, test, mean of 5 seeds",
    ]
    assert ["points less" in line for line in lines] == [False, False, True, False, False]
    assert "**0.31 points less**" in lines[2]


@pytest.mark.parametrize(("factor", "warns"), [(0.9, False), (1.09, False), (1.2, True)])
def test_cards_warn_of_larger_errors(factor: float, warns: bool) -> None:
    name = "rin-1x100-adding-200"
    recorded = results.for_model(name)
    full = recorded.measured()
    assert full is not None
    fields = {**full.model_dump(), "runtime": "onnx", "quantize": None, "value": factor * full.value}
    card = cards.compose(spec(name), recorded.record(RuntimeEvaluation(**fields)), cards.counts(name))
    (line,) = [line for line in card.splitlines() if "measured, test, onnx" in line]
    assert ("in float32" in line) == warns
    assert (f"**{factor:.3g} times the value in float32**" in line) == warns


def test_the_matrix_of_models_and_formats(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounded = ROW.model_copy(update={"quantize": "int8", "different": 7})
    monkeypatch.setattr(rows, "read", lambda: [rounded, ROW])
    code, out, _ = run("export", "--list", "*mnist-rows")
    assert code == 0
    (line,) = (line for line in out.splitlines() if line.startswith(f"{NAME} "))
    assert "sequence+step 3/10,000" in line
    _, out, _ = run("export", "--list", "bigru*", "--json")
    (row,) = json.loads(out)
    assert row["formats"]["onnx"]["graphs"] == ["sequence"]
    assert row["formats"]["onnx"]["why_not"]["step"] == "it is bidirectional, so it needs the whole sequence"
    _, out, _ = run("export", "--list", "convstar-*", "--format", "c")
    assert out.splitlines()[1].split(maxsplit=1)[1] == "no: it is convolutional"
    assert run("export", "--list", "nothing*")[0] == 2


def test_rows_are_stored_and_shown(small_zoo: Callable[..., Path]) -> None:
    small_zoo()
    assert rows.read() == []
    assert exports_page.section() is None
    rows.record(ROW)
    rows.record(ROW.model_copy(update={"quantize": "int8"}))
    rows.record(ROW.model_copy(update={"different": 2}))
    assert [(row.quantize, row.different) for row in rows.read()] == [(None, 2), ("int8", 3)]
    rows.record(ROW.model_copy(update={"format": "c"}))
    assert [(row.format, row.quantize) for row in rows.read()] == [("c", None), ("onnx", None), ("onnx", "int8")]
    assert f"| `{NAME}` | onnx | 1,234 | 12.3 | 4.56 | 1e-05 | 2 of 10,000 | 98.00 % |" in (
        exports_page.section() or ""
    )
    paths.path("cards", "exports.json").write_text("{")
    with pytest.raises(registry.reader.RegistryError, match="A program writes this file"):
        rows.read()


def test_the_page_shows_each_model_with_weights_in_each_format(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = {"step_us": None, "sequence_ms": None}
    monkeypatch.setattr(
        rows, "read", lambda: [ROW.model_copy(update=quiet), ROW.model_copy(update={"format": "c", "different": 0})]
    )
    text = exports_page.section() or ""
    assert f"| `{NAME}` | 10,000 | 98.82 % | 1e-05, 3 of 10,000 differ | 1e-05 |" in text
    assert "| `bigru-1x200-toxic-parts` | 1,744 | 89.11 % |  | - |" in text
    assert f"| `{NAME}` | onnx |" not in text  # it was not timed


def test_only_rows_of_accuracies_count_other_answers(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ROW.answers == "3 of 10,000"
    error = ROW.model_copy(update={"model": "rin-1x100-adding-200", "metric": "mse", "value": 0.1})
    assert error.answers is None
    assert "differ," not in error.text()
    monkeypatch.setattr(rows, "read", lambda: [error])
    _, out, _ = run("export", "--list", "rin-1x100-adding-200")
    assert "sequence+step" in out
    assert "/" not in out


ROUNDINGS = 4
"""Two programs of one network in float32 differ by up to the sum of their roundings, which need not be equal."""


def test_what_was_measured_of_shipped_models_is_exact() -> None:
    """Equal figures on the whole test set, and logits within 1e-4 or within ROUNDINGS times torch's own rounding."""
    measured = [row for row in rows.read() if row.quantize is None]
    assert measured
    for row in measured:
        assert row.difference <= max(rows.BOUND, ROUNDINGS * (row.rounding or 0)), (row.model, row.format)
        recorded = results.for_model(row.model).measured()
        assert recorded is not None
        if row.format in PARTLY and row.n < recorded.n:
            assert row.different == 0, row.model
        else:
            assert (row.n, row.value) == (recorded.n, pytest.approx(recorded.value, abs=5e-5)), row.model


def test_files_beyond_the_bound_are_explained() -> None:
    with pytest.raises(ValidationError, match="a difference of more than 1e-04 needs 'rounding'"):
        rows.Row.model_validate({**ROW.model_dump(), "difference": 2e-4})
    text = "\n\n".join(exports_page._equality([ROW]))
    assert "rounding errors" not in text
    far = ROW.model_copy(update={"difference": 2e-4, "rounding": 1.5e-4, "format": "c"})
    text = "\n\n".join(exports_page._equality([ROW, far]))
    assert "1 of 2 files differ by more than 1e-04" in text
    assert f"`{NAME}` 1.5e-04." in text


def test_a_comparison_on_a_part_of_the_test_set_says_so() -> None:
    for n, text in ((10_000, "1e-05, 3 of 10,000 differ"), (500, "1e-05, 500 examples, 3 of 500 differ")):
        row = ROW.model_copy(update={"n": n})
        assert exports_page._difference(NAME, "onnx", {(NAME, "onnx"): row}) == text


def test_compiled_networks_run_other_lengths_without_compiling_again() -> None:
    network, counter = load(NAME, device="cpu"), CompileCounter()
    compiled = torch.compile(network, backend=counter)
    with torch.no_grad():
        for steps in (28, 20, 1):  # a length, then any length, then a single step, which torch takes for a constant
            compiled(torch.rand(3, steps, 28))
        before = counter.frame_count
        for steps in (7, 2, 40):
            x = torch.rand(3, steps, 28)
            torch.testing.assert_close(compiled(x), network(x))
    assert counter.frame_count == before


def test_the_padding_after_a_stream_is_not_compared() -> None:
    """After its end the logits answer nobody, and their rounding errors may be larger than those before."""
    logits, y = torch.arange(12.0).view(1, 4, 3), torch.tensor([[2, 0, IGNORED, IGNORED]])
    stream, sequences = (SimpleNamespace(stream=stream) for stream in (True, False))
    assert torch.equal(exports.Baseline.counted(stream, logits, y), logits[0, :2])  # type: ignore[arg-type]
    assert torch.equal(exports.Baseline.counted(sequences, logits, y), logits)  # type: ignore[arg-type]


def test_answers_that_differ_are_counted() -> None:
    reference = exports.Baseline(NAME, 40)
    ((_, y, _, expected),) = reference.batches
    other = expected.clone()
    other[0] = -other[0]
    found = reference.compare(SimpleNamespace(sequence=lambda x, lengths, state: (other, None)))
    assert (found["n"], found["different"]) == (40, 1)
    assert found["difference"] == pytest.approx(2 * float(expected[0].abs().max()))
    assert found["value"] == pytest.approx(float((other.argmax(1) == y).float().mean()))


def test_nobody_else_writes_while_a_row_is_stored(
    small_zoo: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    small_zoo()
    written: list[Path] = []

    def write(path: Path, content: bytes) -> None:
        with (
            pytest.raises(StorageError, match="Another process is at work"),
            files.exclusive_lock(path.parent, seconds=0),
        ):
            pass
        written.append(path)

    monkeypatch.setattr(files, "atomic_write", write)
    rows.record(ROW)
    assert [path.name for path in written] == ["exports.json"]
