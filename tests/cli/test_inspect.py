"""`rnnzoo inspect`, and training that records diagnostics."""

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rnnzoo_cli.output import emit
from rnnzoo_cli.pictures import render

from zoo import build
from zoo.checkpoints import results
from zoo.diagnostics import subject
from zoo.diagnostics.lattice import lattice
from zoo.diagnostics.noh import history
from zoo.errors import RequestError

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_inspect_draws_prints_and_says(run: Run, tmp_path: Path, ending: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"picture.{ending}"
    code, out, err = run("inspect", "star-3x4", "--runs", "4", "--steps", "5", "--plot", str(path))
    assert code == 0
    assert out.startswith("star-3x4: lattice of star, 3 layers of 4 units, ")
    assert "layer 3" in out
    assert "relative to layer 3 at step 5, the gradient norm at layer 1 is " in out
    assert "ratio" not in out
    assert f"Wrote {path}" in err
    assert 3000 < path.stat().st_size < 150_000


def test_inspect_json_has_named_axes(run: Run) -> None:
    code, out, _ = run("inspect", "gru-2x4", "--analysis", "noh", "--examples", "3", "--json")
    assert code == 0
    data = json.loads(out)
    assert data["indicator"]["axes"] == {"layer": [1, 2], "step": list(range(1, 11))}
    assert len(data["indicator"]["values"][1]) == 10


@pytest.mark.parametrize(
    "arguments",
    [["lstm-2x4", "--analysis", "nho"], ["lstn-2x4"], ["bilstm-2x4"], ["lstm-2x4", "--plot", "a.doc"], ["lstm-2x4", "--runs", "1"],
     ["lstm-2x4", "--steps", "1000001"], ["lstm-2x4", "--plot", f"{__file__}/a.svg"],
     ["lstm-2x4", "--seed", "2147483648"],
     ["lstm-2x4", "--analysis", "feedforward"], ["mlp-3x8-pima.tanh"], ["mlp-3x8-pima.tanh", "--analysis", "noh"],
     ["lstm-2x4", "--analysis", "jacobian", "--runs", "5"], ["lstm-2x4", "--examples", "3"],
     ["lstm-2x4", "--analysis", "eigenvalues", "--steps", "3"], ["lstm-2x4", "--analysis", "jacobian", "--untrained"]],
)  # fmt: skip
def test_inspect_refuses(run: Run, arguments: list[str]) -> None:
    code, out, err = run("inspect", *arguments)
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert err.strip()


def test_training_records_what_it_is_asked_to(run: Run, small_zoo: Callable[..., Path], tmp_path: Path) -> None:
    small_zoo()
    name = "rnn-1x8-mnist-rows"
    code, _, _ = run("train", name, "--out", str(tmp_path / "with"), "--device", "cpu", "--diagnose", "noh,gradients")
    assert code == 0
    assert run("train", name, "--out", str(tmp_path / "without"), "--device", "cpu")[0] == 0
    recorded, plain = (results.read(tmp_path / kind).training for kind in ("with", "without"))
    assert [sorted(row.diagnostics) for row in recorded.history] == [["gradients", "noh"]] * 3
    assert [len(row.diagnostics["noh"]) for row in recorded.history] == [1] * 3
    assert [row.validation_loss for row in recorded.history] == [row.validation_loss for row in plain.history]
    code, _, err = run("train", name, "--out", str(tmp_path / "without"), "--diagnose", "noh")
    assert (code, "Epochs 1, 2 and 3 were trained before, without --diagnose noh." in err) == (0, True)
    for diagnostics in ("lattice", "noh,latice"):
        code, _, err = run("train", name, "--out", str(tmp_path / "x"), "--diagnose", diagnostics)
        assert (code, "Training can record: gradients, noh.\n" in err) == (2, True)
    result = history(tmp_path / "with")
    assert result.indicator.values.tolist() == [[row.diagnostics["noh"][0] for row in recorded.history]]
    assert result.metric.values.tolist() == [row.validation_metric for row in recorded.history]
    assert [axis.ticks for axis in result.indicator.axes] == [(1,), (1, 2, 3)]
    with pytest.raises(RequestError, match="no run that recorded noh"):
        history(tmp_path / "without")
    begun = results.read(tmp_path / "with").training.model_copy(update={"history": ()})
    results.write(tmp_path / "with", results.Results(training=begun))
    with pytest.raises(RequestError, match="no run that recorded noh"):
        history(tmp_path / "with")


@pytest.mark.parametrize("what", ["noh", "saturation", "gradients", "dependency"])
def test_what_is_drawn_of_a_network(run: Run, tmp_path: Path, what: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "picture.svg"
    code, _, err = run("inspect", "gru-2x4", "--analysis", what, "--examples", "3", "--plot", str(path))
    assert code == 0, err
    assert 3000 < path.stat().st_size < 300_000


def test_one_layer_has_a_picture_too(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    code, _, err = run(
        "inspect", "gru-1x4", "--analysis", "gradients", "--examples", "3", "--plot", str(tmp_path / "a.svg")
    )
    assert code == 0, err
    assert (tmp_path / "a.svg").stat().st_size > 3000


def test_where_nothing_saturates_that_is_said(run: Run) -> None:
    code, out, err = run("inspect", "irnn-2x4", "--analysis", "saturation", "--examples", "3")
    assert code == 0, err
    assert "Nothing in its steps saturates." in out
    assert json.loads(run("inspect", "irnn-2x4", "--analysis", "saturation", "--examples", "3", "--json")[1])


def test_networks_that_an_analysis_is_not_of_are_refused(run: Run, tmp_path: Path) -> None:
    code, _, err = run("inspect", "mlp-3x8-circles.sigmoid", "--analysis", "evolution")
    assert code == 2
    assert "does not read one sequence" in err
    tuned = build("gru-1x128-mnist-rows", device="cpu")
    tuned.reset_head(3)
    tuned.save_pretrained(tmp_path)
    code, _, err = run("inspect", str(tmp_path), "--analysis", "gradients", "--examples", "4")
    assert code == 2
    assert "does not fit mnist-rows, which has steps of 28 and 10 outputs" in err
    every = tuned.interface.model_copy(update={"readout": "every"})
    build(tuned.config.model_copy(update={"interface": every}), device="cpu").save_pretrained(tmp_path / "every")
    for folder in (tmp_path, tmp_path / "every"):
        code, out, err = run("inspect", str(folder), "--analysis", "saturation", "--examples", "4", "--steps", "5")
        assert code == 0, err  # it is of no targets
        assert "sequences 4" in out


@pytest.mark.parametrize("what", ["lattice", "jacobian"])
def test_a_slip_in_a_size_takes_no_memory(run: Run, what: str) -> None:
    code, _, err = run("inspect", "lstm-8x16000", "--analysis", what)
    assert code == 2
    assert re.search(r"lstm-8x16000 has [\d,]{12,} parameters, more than 200,000,000", err)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("environment", "coloured"), [({"TERM": "xterm-256color"}, True), ({"TERM": "dumb"}, False), ({"TERM": "xterm", "NO_COLOR": "1"}, False)])  # fmt: skip
def test_a_heat_map_on_a_terminal(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], coloured: bool) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    result = lattice(subject.config_of("star-2x4"), runs=4, steps=5)
    emit({}, False, render(result, "star-2x4: lattice"))
    shown = terminal.getvalue()
    assert "?" not in shown
    assert ("\x1b[48;" in shown) == coloured
    assert ("█" in shown) == (not coloured)
    assert "layer 2" in shown


@pytest.mark.parametrize("arguments", [["--runs", "4"], ["--analysis", "noh", "--examples", "3"]])
def test_inspect_takes_its_seed_and_its_steps(run: Run, arguments: list[str]) -> None:
    result = []
    for seed in ("0", "0", "1"):
        code, out, _ = run("inspect", "star-2x4", *arguments, "--steps", "4", "--seed", seed, "--json")
        data = json.loads(out)
        values = data.get("mean") or data["indicator"]
        assert (code, values["axes"]["step"]) == (0, [1, 2, 3, 4])
        assert data["setting"].get("runs", 4) == 4
        result.append(values["values"])
    assert result[0] == result[1] != result[2]


def test_inspect_takes_the_weights_or_leaves_them(run: Run) -> None:
    for flags, word in (((), "trained"), (("--untrained",), "untrained")):
        code, _, err = run("inspect", "rnn-1x128-mnist-rows", "--analysis", "eigenvalues", *flags)
        assert (code, err) == (0, f"{word} weights\n")


def test_a_lattice_has_as_many_steps_as_the_help_says(run) -> None:
    code, out, _ = run("inspect", "star-1x2", "--runs", "2", "--json")
    assert (code, json.loads(out)["mean"]["axes"]["step"]) == (0, list(range(1, 11)))
    assert "of a lattice (default: 10)" in " ".join(run("inspect", "--help")[1].split())
