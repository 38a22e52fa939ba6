"""Files of cells that use the time between inputs: they take `dt`, and other cells' files have no such input."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from helpers import CELLS, READOUTS, network, normal
from test_c import printed, program, tokens
from test_exports import QUIET, small
from torch import Tensor

from zoo.cells.properties import cells_with
from zoo.errors import ExportError, RequestError
from zoo.exports.base import Runtime
from zoo.exports.c.header import header
from zoo.exports.c.runtimes import CRuntime
from zoo.exports.formats import FORMATS
from zoo.exports.graphs import graph
from zoo.exports.onnx import ONNXRuntime
from zoo.exports.writing import export
from zoo.networks.frozen import frozen
from zoo.networks.recurrent import RecurrentNetwork

TAKING = sorted(cells_with("time-gaps"))
BATCH, TIME = 3, 6
needs_c = pytest.mark.skipif(shutil.which("cc") is None, reason="needs cc")
needs_wasm = pytest.mark.skipif(not all(map(shutil.which, ("clang", "wasm-ld", "node"))), reason="needs clang and node")
FORMAT_GRAPHS = [
    pytest.param("pt2", "sequence"),
    pytest.param("onnx", "sequence"),
    pytest.param("onnx", "step"),
    pytest.param("c", "step", marks=needs_c),
    pytest.param("wasm", "step", marks=needs_wasm),
]


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    """Return sequences, the times between their inputs, and their lengths."""
    return normal(BATCH, TIME, 2).float(), normal(BATCH, TIME, seed=7).exp().float(), torch.tensor([6, 2, 1])


def opened(net: RecurrentNetwork, format: str, kind: str, folder: Path) -> Runtime:
    (written,) = export(net, format, graph=kind, out=folder)
    return FORMATS[format].open(written.path, net, kind)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cell", TAKING)
@pytest.mark.parametrize(("format", "kind"), FORMAT_GRAPHS)
@torch.no_grad()
def test_a_file_takes_gaps(cell: str, format: str, kind: str, tmp_path: Path) -> None:
    """Sequences of several lengths and single steps equal the network's; without dt every gap is 1."""
    place = TAKING.index(cell)
    net = small(cell, layers=1 + (place == 0), readout=READOUTS[place % 3])
    runtime, (x, dt, lengths) = opened(net, format, kind, tmp_path), inputs()
    expected = net(x, lengths, dt=dt)
    assert (expected - net(x, lengths)).abs().max() > 1e-3
    close(runtime.sequence(x, lengths, dt=dt)[0], expected)
    assert torch.equal(runtime.sequence(x)[0], runtime.sequence(x, dt=torch.ones(BATCH, TIME))[0])
    close(runtime.sequence(x)[0], net(x))
    state = None
    for t in range(TIME):
        logits, state = runtime.step(x[:, t], state, dt[:, t])
    whole = net(x, dt=dt)
    close(logits, whole[:, -1] if net.interface.readout == "every" else whole)


@torch.no_grad()
def test_both_directions_take_gaps(tmp_path: Path) -> None:
    net, (x, dt, lengths) = small("cfc", bidirectional="concat"), inputs()
    for format in ("pt2", "onnx"):
        runtime = opened(net, format, "sequence", tmp_path)
        close(runtime.sequence(x, lengths, dt=dt)[0], net(x, lengths, dt=dt))
        close(runtime.sequence(x[:, :1], dt=dt[:, :1])[0], net(x[:, :1], dt=dt[:, :1]))


@torch.no_grad()
def test_in_onnx_dt_may_be_left_out(tmp_path: Path) -> None:
    net, (x, dt, _) = small("cfc"), inputs()
    for written in export(net, "onnx", graph="both", out=tmp_path):
        session = onnxruntime.InferenceSession(written.path, QUIET)
        x_in, gaps = (x, dt) if written.graph == "sequence" else (x[:, 0], dt[:, 0])
        assert [each.name for each in session.get_inputs()] == ["x"]
        assert "dt" in [each.name for each in session.get_overridable_initializers()]
        run = net if written.graph == "sequence" else (lambda x, dt: net.step(x, dt=dt)[0])
        ones = torch.ones_like(gaps)
        for feed, used in (({}, ones), ({"dt": ones.numpy()}, ones), ({"dt": gaps.numpy()}, gaps)):
            (logits,) = session.run(["logits"], {"x": x_in.numpy(), **feed})
            np.testing.assert_allclose(logits, run(x_in, dt=used).numpy(), atol=1e-5)


@pytest.mark.parametrize("kind", ["sequence", "step"])
def test_only_graphs_of_cells_that_use_it_have_dt(kind: str) -> None:
    """dt stands before the states, and the order of the inputs is that of a .pt2's arguments."""
    orders = {cell: list(graph(network(cell, layers=1), kind).inputs) for cell in CELLS}
    assert {cell for cell, names in orders.items() if "dt" in names} == set(TAKING)
    assert orders["cfc"] == ["x", *["lengths"] * (kind == "sequence"), "dt", "h_0"]


def test_files_of_other_cells_refuse_dt(tmp_path: Path) -> None:
    net, (x, dt, _) = small("rnn"), inputs()
    assert "after" not in header(frozen(small("star")).float(), {}, False).text
    for format, kind in (("pt2", "sequence"), ("onnx", "step"), *[("c", "step")] * (shutil.which("cc") is not None)):
        runtime = opened(net, format, kind, tmp_path)
        for call in (lambda r=runtime: r.sequence(x, dt=dt), lambda r=runtime: r.step(x[:, 0], dt=dt[:, 0])):
            with pytest.raises(RequestError, match=r"takes no dt: its cell does not use the time"):
                call()


def test_a_file_that_ignores_gaps_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = ONNXRuntime.run

    def without_gaps(self: ONNXRuntime, inputs: dict[str, Tensor]) -> object:
        return original(self, inputs | {"dt": torch.ones_like(inputs["dt"])})

    monkeypatch.setattr(ONNXRuntime, "run", without_gaps)
    for kind in ("sequence", "step"):
        with pytest.raises(ExportError, match="was deleted: its logits or states differ"):
            export(small("cfc"), "onnx", graph=kind, out=tmp_path)
    if shutil.which("cc") is not None:
        run = CRuntime.run
        monkeypatch.setattr(CRuntime, "run", lambda self, x, state, every, dt=None: run(self, x, state, every))
        with pytest.raises(ExportError, match="was deleted: its logits or states differ"):
            export(small("gru-d"), "c", out=tmp_path)
    assert list(tmp_path.iterdir()) == []


@needs_c
@torch.no_grad()
def test_a_header_with_gaps_is_c99_without_warnings(tmp_path: Path) -> None:
    for net, x in ((small("ltc"), torch.tensor([[[0.5, -1.0]] * 2])), (tokens(cell="cfc"), torch.tensor([[3, 1]]))):
        (written,) = export(net, "c", out=tmp_path)
        first, then = ("x, ", "x + 2, ") if x.is_floating_point() else ("3, ", "1, ")
        values = ", ".join(f"{float(v)!r}f" for v in x.flatten())
        given = f"const float x[4] = {{{values}}};" if x.is_floating_point() else ""
        calls = f"small_step(&state, {first}0); small_step_after(&state, 2.5f, {then}logits);"
        body = f"small_state state; {given} small_init(&state); {printed(calls, 4)}"
        logits = program(tmp_path, "cc", written.path, body)
        close(torch.tensor(logits), net(x, dt=torch.tensor([[1.0, 2.5]]))[0])


@needs_wasm
@torch.no_grad()
def test_javascript_passes_gaps(tmp_path: Path) -> None:
    net = small("cfc")
    (written,) = export(net, "wasm", out=tmp_path)
    x, dt, _ = (part[:1] for part in inputs())
    script = tmp_path / "main.mjs"
    script.write_text(f"""
import fs from "node:fs";
const {{ instance }} = await WebAssembly.instantiate(fs.readFileSync("{written.path}"));
const {{ memory, init, step_after, state, x, logits, inputs, outputs }} = instance.exports;
const input = new Float32Array(memory.buffer, x(), inputs());
const gaps = {dt[0].tolist()};
init(state());
for (const [t, numbers] of {x[0].tolist()}.entries()) {{
  input.set(numbers);
  step_after(state(), gaps[t], x(), logits());
}}
console.log(JSON.stringify([...new Float32Array(memory.buffer, logits(), outputs())]));
""")
    output = subprocess.run(["node", str(script)], check=True, capture_output=True, text=True).stdout
    close(torch.tensor(json.loads(output)), net(x, dt=dt)[0])
