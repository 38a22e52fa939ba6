"""Networks as files that other runtimes run: every cell, every readout, states by name, and what is refused."""

import json
import operator
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx as onnx_library
import onnxruntime
import pytest
import torch
from helpers import CELLS, READOUTS, default_dtype, in_each_form, network, normal
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.fx import Node

from zoo import load, registry
from zoo.cells import constants
from zoo.errors import CheckpointError, ExportError, RequestError
from zoo.exports import onnx, writing
from zoo.exports.formats import FORMATS
from zoo.exports.graphs import graph
from zoo.exports.writing import export
from zoo.networks import golden
from zoo.networks.builder import build
from zoo.networks.frozen import frozen
from zoo.networks.network import Network
from zoo.networks.quantize import dequantize_rows, quantize_rows, quantized

NAME = "lstm-1x128-mnist-rows"
OPERATORS = {"rnn": "RNN", "irnn": "RNN", "lstm": "LSTM", "gru": "GRU"}
"""The cells that are an operator of ONNX."""
FAMILIES = ("lstm", "gru", "star", "lstm-phased", "urnn", "lru")
"""Cells that stand for the ways to be exported: operators, a loop, a state that counts, products that are no matrix."""
QUIET = onnxruntime.SessionOptions()
QUIET.log_severity_level = 3  # inputs with default values make it warn
HELD = "While compiling, we found certain side effects"
"""Dynamo's warning of a matrix that is held for a sequence, then released."""


def small(case: str, kernel: int | None = None, **spec: object) -> Network:
    """Return a small network in float32, with weights so small that no cell's states grow without bound."""
    inputs = (2,) if kernel is None else (2, 4, 3)
    net = network(case, dtype=torch.float32, kernel=kernel, inputs=inputs, steps=9, **{"layers": 1, **spec})
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(0.5)
    return net


def operators(path: Path) -> set[str]:
    return {node.op_type for node in onnx_library.load(path).graph.node}


class Several(nn.Module):
    """Several networks on the same sequences."""

    def __init__(self, nets: list[Network]):
        super().__init__()
        self.nets = nn.ModuleList(nets)

    def forward(self, x: Tensor, lengths: Tensor) -> list[Tensor]:
        return [net(x, lengths) for net in self.nets]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("quarter", range(4))
def test_torch_exports_every_cell_for_all_lengths(quarter: int) -> None:
    """Without our function, torch.export makes one graph, traced once, that runs one step or many."""
    export_and_compare(list(CELLS)[quarter::4], strict=False)


@pytest.mark.filterwarnings(f"ignore:{HELD}")
def test_a_strict_export_computes_the_same() -> None:
    """A constant of numbers from numpy or random, and a matrix that a step reads six times, included."""
    export_and_compare(["lstm", "gru", "star", "urnn", "lstm-ordered", "ltc"], strict=True)


@pytest.mark.slow
@pytest.mark.filterwarnings(f"ignore:{HELD}")
@pytest.mark.parametrize("cell", CELLS)
def test_a_strict_export_of_every_cell(cell: str) -> None:
    export_and_compare([cell], strict=True)


def export_and_compare(cells: list[str], strict: bool) -> None:
    """Export networks of these cells without our function, and compare them at lengths that were never traced."""
    nets = [small(cell, readout=READOUTS[i % 3]) for i, cell in enumerate(cells)]
    batch, time = Dim("batch", min=1), Dim("time", min=1)
    example = torch.zeros(3, 5, 2), torch.ones(3, dtype=torch.int64)
    with torch.no_grad():
        dynamic = ({0: batch, 1: time}, {0: batch})
        exported = torch.export.export(Several(nets), example, dynamic_shapes=dynamic, strict=strict)
        for x, lengths in ((normal(1, 1, 2), [1]), (normal(2, 9, 2), [9, 4])):
            results = exported.module()(x.float(), torch.tensor(lengths))
            for cell, net, logits in zip(cells, nets, results, strict=True):
                expected = golden.exact(net)(x, torch.tensor(lengths)).float()
                torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5, msg=lambda m, c=cell: f"{c}: {m}")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cell", FAMILIES)
def test_a_cell_runs_in_onnxruntime(cell: str, tmp_path: Path) -> None:
    """`export` compares files with the equations in float64, at three lengths and two batch sizes, and in two parts."""
    (written,) = export(small(cell), "onnx", out=tmp_path)
    assert written.checked.lengths == (1, 7, 9)
    assert operators(written.path) & {"Scan", *OPERATORS.values()} == {OPERATORS.get(cell, "Scan")}


def test_cells_name_the_constants_of_their_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop of a graph sees only what it is given, so what a step calls `constant` with must be among its cell's constants."""
    for case in CELLS:
        net = frozen(small(case))
        with monkeypatch.context() as patched, torch.no_grad():
            patched.setattr(constants, "_KEPT", kept := {})
            net.step(torch.zeros(1, 2), None)
            assert {key[:-1] for key in kept} == {key for d in net.layers[0].directions for key in d.cell.constants}, (
                case
            )


@pytest.mark.parametrize("case", ["lmu", "lstm-ordered"])
def test_cells_with_constants_are_exported(case: str, tmp_path: Path) -> None:
    export(small(case), "onnx", out=tmp_path)


def from_parameters_alone(program: ExportedProgram) -> set[str]:
    """Return the names of the operations, other than views, whose results depend on parameters and constants alone."""
    constant: set[Node] = set()
    found = set()
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name not in program.graph_signature.user_inputs:
            constant.add(node)
        elif node.op == "call_function" and node.all_input_nodes and constant.issuperset(node.all_input_nodes):
            constant.add(node)
            if node.users and node.target is not operator.getitem and not node.target.is_view:
                found.add(str(node.target))
    return found


def test_a_network_with_constants_of_its_own_is_exported(tmp_path: Path) -> None:
    """The network standardises each feature by numbers of its task."""
    (written,) = export("mlp-3x8-circles.prelu", "pt2", out=tmp_path)
    assert written.checked.difference < 1e-5


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cell", ["lru", "s4d", "s5"])
@pytest.mark.parametrize("kind", ["sequence", "step"])
def test_what_depends_on_parameters_alone_is_stored(kind: str, cell: str) -> None:
    """Runtimes compute the transition of an LRU by other exponentials and cosines than torch, and its state would drift."""
    described = graph(small(cell), kind)
    with torch.no_grad():
        plain = torch.export.export(
            described.module, tuple(described.inputs.values()), dynamic_shapes=(described.dynamic,)
        )
    program = described.trace()
    assert "aten.exp.default" in from_parameters_alone(plain)
    assert from_parameters_alone(program) == set()
    inputs = [torch.randn_like(x) if x.is_floating_point() else x for x in described.inputs.values()]
    for found, value in zip(program.module()(*inputs), described.module(*inputs), strict=True):
        torch.testing.assert_close(found, value, atol=1e-6, rtol=1e-6)


def test_what_a_long_memory_takes_in_keeps_its_digits(tmp_path: Path) -> None:
    """sqrt(1 - a^2) of RG-LRU by Exp and Sub would be off by a thousandth where a is 1 - 7e-6."""
    net = small("rg-lru")
    with torch.no_grad():
        net.layers[0].forward_direction.cell.decay.weight.fill_(14.0)
    (written,) = export(net, "onnx", graph="sequence", out=tmp_path)
    x = normal(2, 9, 2)
    _, (state,) = FORMATS["onnx"].open(written.path, net, "sequence").sequence(x.float())
    _, expected = golden.exact(net).resume(x)
    torch.testing.assert_close(state, expected[0][0].float(), rtol=1e-4, atol=0)


class Curves(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.tanh(), x.sigmoid()


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch's own code
def test_tanh_and_sigmoid_in_onnxruntime_are_as_exact_as_in_torch(tmp_path: Path) -> None:
    """Its own Tanh is not: several units in the last place off, which a recurrence repeats at every step."""
    x = torch.linspace(-8, 8, 20_001)
    torch.onnx.export(
        Curves().eval(), (x,), tmp_path / "curves.onnx", custom_translation_table=onnx.EXACT, dynamo=True, verbose=False
    )
    session = onnxruntime.InferenceSession(tmp_path / "curves.onnx")
    results = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    for result, expected in zip(results, Curves()(x.double()), strict=True):
        np.testing.assert_allclose(result, expected, rtol=0, atol=1.2e-7)


@pytest.mark.sampled(3)
@torch.no_grad()
@pytest.mark.parametrize("cell", ["minlstm", "slstm", "mlstm", "gla"])
def test_gates_that_are_shut_have_logarithms_in_onnxruntime(cell: str, tmp_path: Path) -> None:
    net = small(cell)
    (written,) = export(net, "onnx", out=tmp_path)
    runtime = FORMATS["onnx"].open(written.path, net, "sequence")
    for factor in (1, 50, 1000):
        x = factor * normal(4, 9, 2)
        expected = golden.exact(net)(x)
        assert (runtime.sequence(x.float())[0] - expected).abs().max() <= 1e-5 * expected.abs().max().clamp(min=1)


@pytest.mark.parametrize("format", ["pt2", "onnx"])
def test_convolutions_before_layers_of_images_are_exported(format: str, tmp_path: Path) -> None:
    (written,) = export(small("gru", kernel=3, block={"convolution": 3}), format, out=tmp_path)
    assert written.checked.lengths == (1, 7, 9)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["openvino", "executorch"])
@pytest.mark.parametrize("cell", FAMILIES)
def test_a_cell_runs_in_other_runtimes(cell: str, format: str, tmp_path: Path) -> None:
    for package in FORMATS[format].packages:
        pytest.importorskip(package)
    sequence, step = export(small(cell), format, graph="both", out=tmp_path)
    assert sequence.checked.lengths == (1, 7, 9)
    assert (sequence.graph, step.graph) == ("sequence", "step")


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.list_models(pretrained=True))
def test_every_shipped_model_is_exported(name: str, tmp_path: Path) -> None:
    export(name, "pt2", out=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["lstm", "gru reset=after"])
def test_two_directions_run_in_openvino(cell: str, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    for readout in READOUTS:
        (written,) = export(small(cell, bidirectional="concat", readout=readout), "openvino", out=tmp_path)
        assert written.checked.lengths == (1, 7, 9)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["pt2", "onnx"])
@in_each_form("case", CELLS)
def test_every_cell_in_every_format(case: str, kernel: int | None, format: str, tmp_path: Path) -> None:
    sequence, step = export(small(case, kernel, layers=2), format, graph="both", out=tmp_path)
    assert (sequence.graph, step.graph) == ("sequence", "step")


@pytest.mark.slow
@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("merge", [None, "concat", "mul"])
@pytest.mark.parametrize("cell", ["lstm", "gru reset=after", "star", "lstm-skip"])
def test_every_readout_and_both_directions(cell: str, merge: str | None, readout: str, tmp_path: Path) -> None:
    # a skip LSTM has no zoneout, and LSTM is an operator of ONNX without it
    zoneout = 0.1 if cell in ("gru reset=after", "star") else 0.0
    net = small(cell, readout=readout, bidirectional=merge, zoneout=zoneout)
    export(net, "onnx", out=tmp_path)


def test_inputs_have_names_and_defaults(tmp_path: Path) -> None:
    net = small("lstm", bidirectional="concat", readout="mean")
    (written,) = export(net, "onnx", out=tmp_path)
    session = onnxruntime.InferenceSession(written.path, QUIET)
    states = ["h_0", "c_0", "h_0_backward", "c_0_backward", "sum", "count"]
    assert [i.name for i in session.get_inputs()] == ["x"]
    assert [i.name for i in session.get_overridable_initializers()] == ["lengths", *states]
    assert [o.name for o in session.get_outputs()] == ["logits", *(f"new_{name}" for name in states)]
    x, lengths = normal(3, 5, 2).float(), torch.tensor([2, 5, 1])
    with torch.no_grad():
        for feed, expected in (({}, net(x)), ({"lengths": lengths.numpy()}, net(x, lengths))):
            logits = session.run(["logits"], {"x": x.numpy(), **feed})[0]
            np.testing.assert_allclose(logits, expected.numpy(), atol=1e-5)


def test_a_file_says_what_made_it(tmp_path: Path) -> None:
    for format in ("onnx", "pt2"):
        (written,) = export(NAME, format, graph="step", out=tmp_path)
        assert written.path == tmp_path / f"{NAME}.step.{format}"
    model = onnx_library.load(tmp_path / f"{NAME}.step.onnx")
    onnx_library.checker.check_model(model, full_check=True)
    extra = {"rnnzoo.json": ""}
    torch.export.load(tmp_path / f"{NAME}.step.pt2", extra_files=extra)
    for note in ({p.key: p.value for p in model.metadata_props}, json.loads(extra["rnnzoo.json"])):
        assert note["model"] == NAME
        assert note["graph"] == "step"
        pin = writing.resolve(writing.Reference.parse(NAME)).weights_sha256
        assert note["weights_sha256"] == pin == writing._weights_sha256(load(NAME, device="cpu"))
        assert {"torch", "rnnzoo", "command"} <= note.keys()
    assert str(Path.cwd()) not in str(model)  # no trace of the code of this machine


def test_rows_are_rounded_to_8_bits() -> None:
    weight = torch.tensor([[1.27, -0.5, 0.005, 0.015], [0.0, 0.0, 0.0, 0.0], [-2.54, 2.54, 0.01, 0.03]])
    integers, scale = quantize_rows(weight)
    assert integers.tolist() == [[127, -50, 0, 2], [0, 0, 0, 0], [-127, 127, 0, 2]]  # halves to even
    torch.testing.assert_close(scale, torch.tensor([0.01, 1.0, 0.02]))
    again, _ = quantize_rows(dequantize_rows(integers, scale))
    assert torch.equal(again, integers)


def test_8_bit_weights_are_the_same_numbers_everywhere(tmp_path: Path) -> None:
    net = small("star", layers=2, units=16)
    plain, eight = (export(net, "onnx", quantize=q, out=tmp_path / str(q))[0] for q in (None, "int8"))
    assert eight.bytes < plain.bytes
    stored = {
        t.name for t in onnx_library.load(eight.path).graph.initializer if t.data_type == onnx_library.TensorProto.INT8
    }
    assert len(stored) >= 2
    x = normal(2, 9, 2).float()
    logits = onnxruntime.InferenceSession(eight.path, QUIET).run(["logits"], {"x": x.numpy()})[0]
    with torch.no_grad():
        np.testing.assert_allclose(logits, quantized(net)(x).numpy(), atol=1e-5)
        assert np.abs(logits - net(x).numpy()).max() > 1e-4
    assert torch.equal(
        load(NAME, device="cpu", quantize="int8").head.weight, quantized(load(NAME, device="cpu")).head.weight
    )


def test_biases_stay_float32(tmp_path: Path) -> None:
    """The bias of ONNX's operators has two dimensions, (1, n), but is no matrix."""
    (written,) = export(small("lstm", units=40), "onnx", quantize="int8", out=tmp_path)
    kinds = {t.name: t.data_type for t in onnx_library.load(written.path).graph.initializer}
    assert onnx_library.TensorProto.INT8 in kinds.values()
    assert not [name for name, kind in kinds.items() if "bias" in name and kind != onnx_library.TensorProto.FLOAT]


@in_each_form("cell", CELLS)
def test_a_frozen_network_computes_the_same(cell: str, kernel: int | None) -> None:
    net = network(cell, kernel=kernel, inputs=(2,) if kernel is None else (2, 4, 3), units=5).eval()
    x = normal(2, 6, *net.interface.input)
    torch.testing.assert_close(frozen(net)(x), net(x), rtol=1e-9, atol=1e-9)


def test_a_file_that_computes_something_else_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = onnx.ONNXRuntime.run
    monkeypatch.setattr(onnx.ONNXRuntime, "run", lambda self, inputs: [o + 2e-4 for o in original(self, inputs)])
    with pytest.raises(ExportError, match=r"small\.onnx was deleted: its logits or states differ by 2\.\de-04"):
        export(small("rnn"), "onnx", out=tmp_path)
    monkeypatch.setattr(onnx.ONNXRuntime, "run", lambda self, inputs: _with_full_lengths(original, self, inputs))
    with pytest.raises(ExportError, match="states differ by"):
        export(small("rnn"), "onnx", out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def _with_full_lengths(
    run: Callable[..., Sequence[Tensor]], runtime: object, inputs: dict[str, Tensor]
) -> list[Tensor]:
    """Return the right logits, with final states of sequences that are all as long as x."""
    full = torch.full_like(inputs["lengths"], inputs["x"].shape[1])
    return [run(runtime, inputs)[0], *run(runtime, {**inputs, "lengths": full})[1:]]


def test_a_network_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    net = small("lstm")
    with torch.no_grad():
        net.head.weight[0, 0] = torch.nan
    for quantize in (None, "int8"):
        with pytest.raises(CheckpointError, match=r"small: head\.weight has NaN or infinite numbers\."):
            export(net, "onnx", quantize=quantize, out=tmp_path)
    with pytest.raises(CheckpointError, match="NaN"):
        quantized(net)


def test_a_folder_in_the_place_of_a_file_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "small.step.onnx").mkdir()
    with pytest.raises(RequestError, match=r"small\.step\.onnx is a folder, where a file would be written"):
        export(small("rnn"), "onnx", graph="both", out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["small.step.onnx"]
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match=r"file is not a folder, so no file can be exported to .*file\."):
        export(small("rnn"), "onnx", out=tmp_path / "file")


def test_an_opset_is_a_whole_number(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"opset is 20\.0; it can be 18 to 23\."):
        export(small("rnn"), "onnx", opset=20.0, out=tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("star-4x128-mnist-rows", "--opset", "99"), "opset is 99; it can be 18 to 23."),
        (("star-4x128-mnist-rows", "--format", "pt2", "--opset", "20"), "pt2 has no opset: leave it out."),
        (("star-4x128-mnist-rows", "--format", "onx"), "No format is called 'onx'. Did you mean onnx?"),
        (("star-4x128-mnist-rows", "--quantize", "int4"), "quantize is 'int4'; leave it out, or give int8."),
        (("bigru-1x200-toxic-parts", "--graph", "both"), "The step graph of bigru-1x200-toxic-parts cannot be exported as onnx: it is bidirectional, so it needs the whole sequence."),
        (("rin-1x100-babi-01", "--graph", "step"), "cannot be exported as onnx: it reads a whole story and then a question."),
        (("mlp-3x8-pima.prelu", "--graph", "step"), "cannot be exported as onnx: it has no time steps."),
        ((), "`rnnzoo list --pretrained` shows the names."),
    ],
)  # fmt: skip
def test_bad_requests_are_refused_before_any_work(
    arguments: tuple[str, ...], message: str, run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    code, out, err = run("export", *arguments, "--out", str(tmp_path))
    assert (code, out) == (2, "")
    assert err.startswith("rnnzoo: ")
    assert err.endswith(f"{message}\n")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_and_a_folder_that_cannot_be_written_to(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = run("export", NAME, "--out", str(tmp_path / "file" / "inside"))
    assert (code, f"{tmp_path / 'file'} is not a folder, so no file can be exported to" in err) == (2, True)
    monkeypatch.setattr("zoo.exports.formats.find_spec", lambda name: None)
    code, _, err = run("export", NAME, "--out", str(tmp_path / "new"))
    assert (code, err) == (
        2,
        "rnnzoo: This needs onnx, which is not installed. Try: pip install 'rnnzoo[export-onnx]'\n",
    )
    assert not (tmp_path / "new").exists()


def test_the_verb(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    code, out, err = run("export", NAME, "--format", "pt2", "--out", str(tmp_path), "--json")
    (written,) = json.loads(out)
    assert (code, err) == (0, "Each file was compared with a float64 reference.\n")
    assert written["checked"]["difference"] < 1e-5
    assert Path(written["path"]).stat().st_size == written["bytes"]


@pytest.mark.parametrize("fault", ["state", "one"])
def test_a_file_that_forgets_its_state_or_fails_for_one_sequence_is_refused(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = onnx.ONNXRuntime.run

    def faulty(self, inputs):
        if fault == "state":
            return run(self, {name: value for name, value in inputs.items() if name in ("x", "lengths")})
        return [output + (len(inputs["x"]) == 1) for output in run(self, inputs)]

    monkeypatch.setattr(onnx.ONNXRuntime, "run", faulty)
    with pytest.raises(ExportError, match="differ by"):
        export(small("rnn"), "onnx", out=tmp_path)


@pytest.mark.parametrize("graph", ["sequence", "step"])
def test_a_file_that_is_wrong_for_large_inputs_is_refused(
    graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inputs of golden outputs are from 0 to 1, which leaves gates half open."""
    run = onnx.ONNXRuntime.run
    monkeypatch.setattr(
        onnx.ONNXRuntime, "run", lambda self, inputs: run(self, {**inputs, "x": inputs["x"].clamp(-2, 2)})
    )
    with pytest.raises(ExportError, match="for inputs from -30 to 30, more than 1e-04"):
        export(small("rnn"), "onnx", graph=graph, out=tmp_path)


def test_8_bit_weights_in_a_format_without_them_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        RequestError, match="pt2 cannot have 8-bit weights: leave quantize out, or choose onnx or c or wasm"
    ):
        export(small("rnn"), "pt2", quantize="int8", out=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", ["pt2", "onnx", "c", "wasm"])
def test_defaults_of_the_program_change_no_file(format: str, tmp_path: Path) -> None:
    for tool in {"c": ["cc"], "wasm": ["clang", "wasm-ld", "node"]}.get(format, []):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    net = small("gru", layers=2)
    (expected,) = export(net, format, out=tmp_path / "before", origin="test")
    with default_dtype(torch.float64), torch.device("meta"), torch.autocast("cpu"):
        (found,) = export(net, format, out=tmp_path, origin="test")
        assert torch.get_default_dtype() == torch.float64
    assert found.checked == expected.checked


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format", ["pt2", "onnx"])
@pytest.mark.parametrize("readout", READOUTS)
def test_lengths_beyond_the_end_are_those_of_the_input(format: str, readout: str, tmp_path: Path) -> None:
    net = small("gru", readout=readout)
    (written,) = export(net, format, out=tmp_path)
    x = normal(2, 5, 2, dtype=torch.float32)
    found, _ = FORMATS[format].open(written.path, net, "sequence").sequence(x, torch.tensor([9, 3]))
    torch.testing.assert_close(found, net(x, torch.tensor([5, 3])).detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("format", ["pt2", "onnx"])
def test_a_network_that_amplifies_roundings_may_be_as_far_off_as_torch(format: str, tmp_path: Path) -> None:
    net = build("rnn-1x64", inputs=3, outputs=2, device="cpu").eval()
    with torch.no_grad():
        net.layers[0].forward_direction.cell.recurrent.weight.mul_(1.6)
    (written,) = export(net, format, out=tmp_path)
    assert golden.TOLERANCE < written.checked.difference < 1e-2


def test_a_network_that_overflows_is_refused(tmp_path: Path) -> None:
    net = small("irnn")
    with torch.no_grad():
        net.layers[0].forward_direction.cell.recurrent.weight.fill_(1e20)
        net.layers[0].forward_direction.input.weight.fill_(1.0)
    with pytest.raises(ExportError, match="differ by inf from those of the equations, more than 1e-04"):
        export(net, "pt2", out=tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes")
@pytest.mark.parametrize("format", ["pt2", "onnx"])
def test_a_folder_may_have_a_name_that_is_no_text(format: str, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"folder \xff")
    (written,) = export(small("gru"), format, out=folder)
    assert written.path.parent == folder


def test_what_a_runtime_raises_as_it_opens_a_file_is_an_error_of_the_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(self: object, *_: object) -> None:
        raise AttributeError("'str' object has no attribute 'tell'")

    monkeypatch.setattr(onnx.ONNXRuntime, "__init__", opened)
    with pytest.raises(ExportError, match=r"was deleted: its own runtime cannot run it \(.*tell"):
        export(small("gru"), "onnx", out=tmp_path)
    assert not any(tmp_path.iterdir())
