"""What all analyses have in common: cells and networks that they take or refuse, results, arrays, modes."""

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import network, normal

from zoo import build
from zoo.cells import CELLS
from zoo.data.base import IGNORED, Split
from zoo.diagnostics import ANALYSES, subject
from zoo.diagnostics.base import Array, Axis, Result, read_results
from zoo.diagnostics.gradients import gradients, per_epoch
from zoo.diagnostics.jacobian import eigenvalues, jacobian, jacobian_at
from zoo.diagnostics.lattice import lattice
from zoo.diagnostics.noh import dependency, gates, noh
from zoo.diagnostics.outputs import estimation, saturation
from zoo.errors import RequestError, StorageError
from zoo.registry.schema import Architecture, Config, Embedding, Interface
from zoo.utils import paths

NO_MATRIX = {  # with square blocks, and no diagonal that multiplies the state
    "deltanet", "eunn", "gated-deltanet", "gla", "mamba2", "mlstm", "retention", "rwkv6", "rwkv7", "indrnn", "urnn",
    "brc", "unicornn",
}  # fmt: skip


@pytest.mark.parametrize("readout", ["last", "every"])
@pytest.mark.parametrize("vocabulary", [None, 7])
@pytest.mark.parametrize("needs", ["network", "labels"])
def test_a_network_without_a_task_reads_what_it_takes(
    tmp_path: Path, readout: str, vocabulary: int | None, needs: str
) -> None:
    embedding = None if vocabulary is None else Embedding(size=3)
    interface = Interface(input=() if vocabulary else (3,), steps=4, outputs=5, readout=readout, vocabulary=vocabulary)
    config = Config(architecture=Architecture(cell="gru", layers=1, units=4, embedding=embedding), interface=interface)
    build(config, device="cpu").save_pretrained(tmp_path)
    sample = subject.sample(str(tmp_path), subject.config_of(str(tmp_path)), examples=3, steps=4, needs=needs)
    assert ANALYSES["gradients"].function(*sample.arguments("labels")).norm.values > 0
    assert sample.description == ("trained weights" if needs == "network" else "trained; random inputs")


@pytest.mark.sampled(6)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("what", [w for w, row in ANALYSES.items() if row.needs in ("network", "data", "labels")])
def test_every_analysis_takes_every_cell(cell: str, what: str) -> None:
    name = f"{cell}-2x4"
    sample = subject.sample(name, subject.config_of(name), examples=3, steps=4)
    if what == "eigenvalues" and cell in NO_MATRIX:
        with pytest.raises(RequestError, match="no recurrent matrix to compute eigenvalues of"):
            ANALYSES[what].function(*sample.arguments(ANALYSES[what].needs))
        return
    result = ANALYSES[what].function(*sample.arguments(ANALYSES[what].needs))
    assert result.arrays
    assert result.lines
    assert np.isfinite(np.concatenate([a.values.ravel() for a in result.arrays.values()])).any()
    stored = Result.from_json(json.loads(json.dumps(result.to_json())))
    assert {k: a.axes for k, a in stored.arrays.items()} == {k: a.axes for k, a in result.arrays.items()}


def test_the_cell_of_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    text = paths.path("docs", "diagnostics", "README.md").read_text()
    module = types.ModuleType("own_cells")
    monkeypatch.setitem(sys.modules, "own_cells", module)
    try:
        exec(text.split("```python\n")[1].split("```")[0], module.__dict__)
        assert "leaky" in CELLS
    finally:
        CELLS.pop("leaky", None)


def test_arrays_refuse_axes_that_do_not_fit_and_ticks_that_are_not_there() -> None:
    with pytest.raises(ValueError, match="the axes have"):
        Array(np.zeros((2, 3)), (Axis.counted("layer", 2),))
    with pytest.raises(KeyError, match="step=3"):
        Array(np.zeros(2), (Axis.counted("step", 2),)).at(step=3)


def test_the_parts_of_an_array_are_named() -> None:
    array = Array(np.arange(6.0).reshape(1, 2, 3), (Axis("a", ("x",)), Axis.counted("b", 2), Axis.counted("c", 3)))
    assert [(where, part.values.tolist()) for where, part in array.parts(1)] == [
        ("a x, b 1", [0, 1, 2]), ("a x, b 2", [3, 4, 5])
    ]  # fmt: skip
    assert [where for where, _ in array.parts(5)] == [""]
    with pytest.raises(KeyError, match="d"):
        array.axis("d")


@pytest.mark.parametrize(("call", "words"), [
    (lambda: dependency(network("rnn", readout="every"), normal(2, 5, 2), torch.zeros(2)), "answers at every step"),
    (lambda: lattice(subject.config_of("rnn-2x4"), runs=1), "needs at least two runs"),
    (lambda: subject.sample("rin-1x100-babi-01", subject.config_of("rin-1x100-babi-01")), "does not read one sequence"),
    (lambda: subject.training_arguments("rin-1x100-babi-01", subject.config_of("rin-1x100-babi-01")), "does not read one sequence"),
    (lambda: subject.training_arguments("rnn-2x4", subject.config_of("rnn-2x4")), "no recipe to train it"),
])  # fmt: skip
def test_what_an_analysis_refuses(call: Callable[[], object], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        call()


def test_bidirectional_networks_have_what_can_be_said_of_them() -> None:
    sample = subject.sample("bigru-1x3", subject.config_of("bigru-1x3"), examples=2)
    assert estimation(sample.network, sample.x).mean.values.shape == (2, 1, 10)
    with pytest.raises(RequestError, match="bidirectional"):
        noh(sample.network, sample.x)


@pytest.mark.parametrize(
    "analysis", [saturation, estimation, noh, gates, jacobian_at, gradients, dependency, eigenvalues]
)
def test_an_analysis_leaves_every_module_in_the_mode_it_had(analysis: Callable[..., object]) -> None:
    net = network("lstm").train()
    net.layers[0].eval()
    before = [m.training for m in net.modules()]
    labels = [torch.zeros(2, dtype=torch.int64)] if analysis in (gradients, dependency) else []
    analysis(net, *([] if analysis is eigenvalues else [normal(2, 5, 2), *labels]))
    assert [m.training for m in net.modules()] == before


@pytest.mark.parametrize("name", ["mlp-3x8-circles.sigmoid", "rin-1x100-babi-01"])
@pytest.mark.parametrize("analysis", [w for w, row in ANALYSES.items() if row.needs in ("network", "data", "labels")])
def test_a_network_that_does_not_read_one_sequence_is_refused_before_any_work(analysis: str, name: str) -> None:
    network = build(name, device="meta")
    arguments = {"network": [], "data": [None], "labels": [None, None]}[ANALYSES[analysis].needs]
    with pytest.raises(RequestError, match="does not read one sequence"):
        ANALYSES[analysis].function(network, *arguments)
    with pytest.raises(RequestError, match="does not read one sequence"):
        subject.require_network_of(ANALYSES[analysis], network.config)


@pytest.mark.parametrize(("analysis", "words"), [("evolution", "one sequence"), ("feedforward", "not a feed-forward")])
def test_an_analysis_that_trains_refuses_other_networks_before_data_are_read(analysis: str, words: str) -> None:
    mlp, lstm = (subject.config_of(name) for name in ("mlp-3x8-pima.sigmoid", "lstm-4x128-pmnist"))
    taken, refused = (mlp, lstm) if analysis == "feedforward" else (lstm, mlp)
    subject.require_network_of(ANALYSES[analysis], taken)
    with pytest.raises(RequestError, match=words):
        subject.require_network_of(ANALYSES[analysis], refused)


@pytest.mark.parametrize("content", [
    "{", "[]", "null", "3", '{"shown": 3}', '{"shown": [{}]}', '{"mean": 3}', '{"setting": {}, "lines": 3}', "[" * 100_000,
])  # fmt: skip
def test_a_damaged_result_says_so(tmp_path: Path, content: str) -> None:
    (tmp_path / "lattice.json").write_text(content)
    with pytest.raises(StorageError, match="is damaged"):
        read_results(tmp_path / "lattice.json")


@pytest.mark.parametrize("name", ["gru-1x128-fsdd", "gru-1x160-jsb"])
def test_sequences_that_are_cut_have_shorter_lengths_and_as_many_targets(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, prepared = subject.config_of(name), []
    every = config.interface.readout == "every"
    x, lengths = torch.rand(4, 9, *config.interface.input), torch.tensor([9, 3, 5, 1])
    y = torch.zeros(4, 9, config.interface.outputs, dtype=torch.int8) if every else torch.arange(4)
    data = types.SimpleNamespace(
        prepare_network=prepared.append, split=lambda part: Split(x, y, {}, lengths=lengths, per_step=every)
    )
    monkeypatch.setattr(subject, "data_of", lambda config: data)
    found = subject.sample(name, config, steps=4, untrained=True)
    assert found.x.shape[:2] == (4, 4)
    assert found.lengths is not None
    assert found.lengths.tolist() == [4, 3, 4, 1]
    assert found.y.shape == ((4, 4, config.interface.outputs) if every else (4,))
    assert prepared == [found.network]
    assert gradients(*found.arguments("labels")).lines


@pytest.mark.parametrize("analysis", ["jacobian-at", "noh", "saturation", "gates", "dependency"])
def test_a_network_whose_states_are_not_finite_cannot_be_analysed(analysis: str) -> None:
    name = "lstm-2x4"
    found = subject.sample(name, subject.config_of(name), examples=3, steps=5)
    bias = found.network.layers[0].forward_direction.input.bias
    assert bias is not None
    torch.nn.init.constant_(bias, torch.nan)
    with pytest.raises(RequestError, match=r"lstm-2x4 cannot be analysed: .* are infinite or NaN"):
        ANALYSES[analysis].function(*found.arguments(ANALYSES[analysis].needs))


def test_steps_that_cut_every_target_off_are_refused() -> None:
    name = "gru-1x64-copying"
    with pytest.raises(RequestError, match="None of these examples has a target in its first 10 steps"):
        subject.sample(name, subject.config_of(name), examples=3, steps=10, untrained=True)
    assert (
        subject.sample(name, subject.config_of(name), examples=3, steps=10, untrained=True, needs="data").x.shape[1]
        == 10
    )


def test_the_norms_of_a_batch_without_targets_are_unknown() -> None:
    net = network(layers=2)
    norms = per_epoch(net, normal(2, 3, 2), torch.full((2,), IGNORED), None, "class")
    assert np.isnan(norms).all()


@pytest.mark.parametrize(
    ("cell", "says"), [("lru", "the memory is in c"), ("gla", "the memory is in S"), ("lstm", ""), ("gru", "")]
)
def test_the_jacobian_of_a_cell_that_does_not_read_h_says_where_the_memory_is(cell: str, says: str) -> None:
    lines = jacobian(subject.config_of(f"{cell}-2x4")).lines
    assert len(lines) == (3 if says else 2)
    assert says in lines[-1]


@pytest.mark.parametrize("analysis", [jacobian_at, saturation, gates])
def test_states_that_overflow_are_refused(analysis: Callable[..., object]) -> None:
    net = network("rnn activation=relu", layers=1).float()
    with torch.no_grad():
        net.layers[0].forward_direction.cell.recurrent.weight.copy_(1e30 * torch.eye(3))
    with pytest.raises(RequestError, match="outputs of layer 1 on these sequences are infinite or NaN"):
        analysis(net, normal(2, 40, 2).abs().float())
