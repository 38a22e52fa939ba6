"""C99 headers and WebAssembly modules: every dense cell, and compiled as users would compile them."""

import json
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers import CASES, CELLS, READOUTS, can, config, each, network, normal
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

from zoo import load
from zoo.cells.base import Cell, State
from zoo.errors import ExportError, RequestError
from zoo.exports.c import CRuntime, Node, Traces, WasmRuntime, building
from zoo.exports.c.header import header
from zoo.exports.c.operations import formula
from zoo.exports.c.tracing import trace
from zoo.exports.writing import Exported, export
from zoo.networks import golden
from zoo.networks.builder import build
from zoo.networks.frozen import frozen
from zoo.networks.layer import Direction
from zoo.networks.network import Network
from zoo.networks.quantize import quantize_rows, quantized
from zoo.registry.schema import Config

pytestmark = [
    pytest.mark.skipif(shutil.which(tool) is None, reason=f"needs {tool}")
    for tool in ("cc", "clang", "wasm-ld", "node")
]
FAMILIES = (
    "mlstm heads=2 forget=exp",
    "star shift=1.0",
    "lstm-phased ratio=0.4 leak=0.1",
    "minlstm candidate=linear",
    "gru-skip",
    "eunn capacity=3",
)
"""Cases that stand for a matrix state, gates, a state that counts, logarithms, one gate for all units, and sums of squares."""
BLOCKS = {
    "griffin": {"norm": "rms", "gate": "gelu", "convolution": 4, "feed_forward": {"width": 9, "activation": "silu"}},
    "layer": {"norm": "layer", "norm_position": "after", "width": 7},
    "batch": {"norm": "batch", "activation": "gelu"},
}
STRICT = ("-std=c99", "-O3", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")


def small(case: str, **spec: object) -> Network:
    """Return a small network in float32, with weights so small that no cell's states grow without bound."""
    net = network(case, dtype=torch.float32, steps=9, mean=0.1, std=0.5, standardize=True, **{"units": 6, **spec})
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(0.5)
    return net


def tokens(readout: str = "mean", cell: str = "lstm") -> Network:
    """Return a network that reads tokens."""
    plain = config(cell, units=6, readout=readout).model_dump()
    plain["architecture"]["embedding"] = {"size": 5}
    plain["interface"] |= {"vocabulary": 7, "input": ()}
    return build(Config(**plain), device="cpu").eval()


def one(net: Network | str, format: str, folder: Path, quantize: str | None = None) -> Exported:
    (written,) = export(net, format, quantize=quantize, out=folder)
    return written


def rounded(net: Network, quantize: str | None) -> Network:
    """The network whose logits a file has."""
    return (quantized if quantize else frozen)(net)


def program(folder: Path, compiler: str, include: Path, body: str, *flags: str) -> list[float]:
    """Compile and run a C program that prints numbers, without a warning; return the numbers."""
    source = folder / "main.c"
    source.write_text(f'#include <stdio.h>\n#include "{include}"\nint main(void) {{\n{body}\nreturn 0;\n}}\n')
    subprocess.run([compiler, *STRICT, *flags, str(source), "-o", str(folder / "main"), "-lm"], check=True)
    output = subprocess.run([str(folder / "main")], check=True, capture_output=True, text=True).stdout
    return [float(word) for word in output.split()]


def printed(call: str, outputs: int) -> str:
    return f'float logits[{outputs}]; int i; {call} for (i = 0; i < {outputs}; i++) printf("%.9g ", (double)logits[i]);'


@pytest.mark.parametrize("case", FAMILIES)
def test_a_cell_runs_in_c(case: str, tmp_path: Path) -> None:
    """`export` compares every step with the equations in float64, of one sequence and of two."""
    written = one(small(case), "c", tmp_path)
    assert written.checked.lengths == (9,)
    assert written.checked.difference < 2e-6


@pytest.mark.parametrize("quantize", [None, "int8"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_network_in_half_precision_is_exported_in_float32(
    dtype: torch.dtype, quantize: str | None, tmp_path: Path
) -> None:
    """Neither a matrix that is computed nor an integer times a scale is a number in half precision."""
    assert one(small("exprnn").to(dtype), "c", tmp_path, quantize).checked.difference < 1e-5


@pytest.mark.sampled(3)
@each("cell", CELLS)
def test_every_equation_has_a_form_in_c(cell: str) -> None:
    assert "small_step" in header(frozen(small(cell)).float(), {}, False).text


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_around_layers_run_in_c(block: str, tmp_path: Path) -> None:
    net = small("lstm", layers=3, block=BLOCKS[block])
    with torch.no_grad():
        for name, buffer in net.named_buffers():  # of batch norm
            buffer.uniform_(0.5, 2.0) if "var" in name else buffer.normal_()
    for quantize in (None, "int8"):
        assert one(net, "c", tmp_path, quantize).checked.lengths == (9,)


@pytest.mark.parametrize("flag", ["-O3", "-ffast-math", "-ffinite-math-only"])
@pytest.mark.parametrize("compiler", ["cc", "clang"])
def test_missing_values_are_seen_by_every_compiler(compiler: str, flag: str, tmp_path: Path) -> None:
    net = small("gru-d", inputs=(2,))
    written = one(net, "c", tmp_path)
    found = program(
        tmp_path, compiler, written.path,
        "small_state state; float x[2] = {0.5f, 0.0f}, gone[2];\n"
        "union { unsigned bits; float number; } nan; nan.bits = 0x7fc00000u; gone[0] = nan.number; gone[1] = 0.25f;\n"
        "small_init(&state); small_step(&state, x, 0);\n" + printed("small_step(&state, gone, logits);", 4),
        flag,
    )  # fmt: skip
    exact = net.double()(torch.tensor([[[0.5, 0.0], [torch.nan, 0.25]]], dtype=torch.float64))
    torch.testing.assert_close(torch.tensor([found], dtype=torch.float64), exact.detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("change", [
    lambda direction: setattr(direction, "zoneout", 0.4),
    lambda direction: setattr(direction.cell, "activation", torch.sigmoid),
])  # fmt: skip
def test_layers_that_differ_in_a_setting_alone_have_code_of_their_own(
    change: Callable[[Direction], None], tmp_path: Path
) -> None:
    net = small("rnn", layers=3, inputs=(6,))
    change(net.layers[1].forward_direction)
    assert one(net, "c", tmp_path).checked.difference < 1e-5


def test_names_of_classes_need_no_locale(tmp_path: Path) -> None:
    code = (
        f"from zoo import build, export; net = build('gru-1x4', inputs=2, outputs=1, device='cpu').eval(); "
        f"net.reset_head(['\\xc4pfel', 'Birnen']); export(net, 'wasm', out={str(tmp_path)!r})"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert (tmp_path / "gru-1x4.wasm").exists()


@pytest.mark.parametrize("norm", [nn.functional.layer_norm, nn.functional.rms_norm])
def test_norms_without_weights_run_in_c(
    norm: Callable[..., Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, width = small("rnn"), 6
    step = type(net.layers[0].forward_direction.cell).step

    def normed(self: Cell, x: Tensor, state: State) -> State:
        (h,) = step(self, x, state)
        return (norm(h.unflatten(-1, (-1, width)), (width,)).flatten(-2),)

    monkeypatch.setattr(type(net.layers[0].forward_direction.cell), "step", normed)
    net.backend = "plain"
    assert one(net, "c", tmp_path).checked.difference < 2e-6
    width = 3
    with pytest.raises(ExportError, match="a norm over a part of the numbers has no translation to C"):
        export(net, "c", out=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["c", "wasm"])
@pytest.mark.parametrize("quantize", [None, "int8"])
@each("case", CASES)
def test_every_cell(case: str, format: str, quantize: str | None, tmp_path: Path) -> None:
    place = list(CASES).index(case)
    spec = {"layer_norm": can(case, "layer_norm") and place % 2 == 0, "zoneout": 0.1 * can(case, "zoneout")}
    net = small(case, layers=3, readout=READOUTS[place % 3], inputs=(1 + place % 3,), **spec)
    written = one(net, format, tmp_path, quantize)
    runtime = (CRuntime if format == "c" else WasmRuntime)(written.path, net, "step")
    x, lengths = 0.3 * normal(3, 40, 1 + place % 3).float(), torch.tensor([40, 1, 23])
    stored = rounded(net, quantize)
    expected = golden.exact(stored)(x.double(), lengths)
    scale = expected.abs().max().clamp(min=1)
    stored.backend = "plain"
    assert (stored(x, lengths) - expected).abs().max() < 5e-6 * scale  # else float32 itself could not tell
    assert (runtime.sequence(x, lengths)[0] - expected).abs().max() < 1e-5 * scale


@pytest.mark.parametrize("compiler", ["cc", "clang"])
def test_a_header_is_c99_without_warnings(compiler: str, tmp_path: Path) -> None:
    net, words = small("star", layers=3), tokens()
    x = normal(1, 3, 2).float()
    numbers = ", ".join(f"{float(v)!r}f" for v in x.flatten())
    body = f"small_state state; const float x[6] = {{{numbers}}}; {printed('', 4)}"
    for quantize in (None, "int8"):
        path = one(net, "c", tmp_path, quantize).path
        steps = "small_init(&state); for (i = 0; i < 3; i++) small_step(&state, x + 2 * i, logits);"
        logits = program(tmp_path, compiler, path, body.replace("int i; ", f"int i; {steps} "))
        torch.testing.assert_close(torch.tensor(logits), rounded(net, quantize)(x)[0], rtol=1e-5, atol=1e-5)
        path = one(words, "c", tmp_path, quantize).path
        calls = "small_state state; small_init(&state); small_step(&state, 3, logits); small_step(&state, 1, logits);"
        logits = program(tmp_path, compiler, path, printed(calls, 4))
        expected = rounded(words, quantize)(torch.tensor([[3, 1]]))[0]
        torch.testing.assert_close(torch.tensor(logits), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("flags", [("-march=native", "-ffast-math"), ("-Ofast",), ("-std=gnu99", "-O0")], ids=" ".join)
@pytest.mark.parametrize("compiler", ["cc", "clang"])
def test_other_ways_to_round_change_little(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    path = one(small("lstm"), "c", tmp_path).path
    x87 = ("-mfpmath=387",) if "-O0" in flags and compiler == "cc" and platform.machine() == "x86_64" else ()
    values = [-80.0, -20.0, -1.5, -0.3, 0.0, 0.3, 5.0, 80.0]
    given = ", ".join(f"{v}f" for v in values)
    body = (
        f'volatile float x[8] = {{{given}}}; int i; for (i = 0; i < 8; i++) printf("%.9g ", (double)small_exp(x[i]));'
    )
    found = torch.tensor(program(tmp_path, compiler, path, body, *flags, *x87))
    torch.testing.assert_close(found, torch.tensor(values).exp(), rtol=1e-5, atol=0)


def test_a_name_that_ends_as_the_files_of_steps_is_refused(tmp_path: Path) -> None:
    net = small("gru")
    net.config = net.config.model_copy(update={"name": "small.step"})
    with pytest.raises(RequestError, match=r"would have the names of another model's steps\. Rename the network"):
        one(net, "c", tmp_path)


def test_a_second_header_of_one_identifier_is_not_skipped(tmp_path: Path) -> None:
    nets = [network("gru", units=4, dtype=torch.float32) for _ in range(2)]
    nn.init.zeros_(nets[0].head.bias)
    paths = []
    for net, name in zip(nets, ("small-a", "small.a"), strict=True):
        net.config = net.config.model_copy(update={"name": name})
        paths.append(one(net, "c", tmp_path).path)
    texts = [path.read_text() for path in paths]
    guards = {re.search(r"#ifndef (small_a_H_[0-9a-f]{8})\n#define \1\n", text)[1] for text in texts}  # type: ignore[index]
    assert len(guards) == 2
    source = tmp_path / "main.c"
    source.write_text("".join(f'#include "{path.name}"\n' for path in paths) + "int main(void) { return 0; }\n")
    refused = subprocess.run(["cc", "-std=c99", str(source)], capture_output=True, text=True, cwd=tmp_path)
    assert refused.returncode != 0
    assert "redefinition" in refused.stderr


def test_a_header_has_no_numbers_that_nobody_reads(tmp_path: Path) -> None:
    net, x = small("mlstm", layers=2), normal(1, 1, 2).float()
    first = ", ".join(f"{float(v)!r}f" for v in x.flatten())
    call = f"small_state state; const float x[2] = {{{first}}}; small_init(&state); small_step(&state, x, logits);"
    logits = program(tmp_path, "cc", one(net, "c", tmp_path).path, printed(call, 4))
    torch.testing.assert_close(torch.tensor(logits), net(x)[0], rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_a_module_has_the_stack_that_its_step_needs(tmp_path: Path) -> None:
    """A step of these layers has more numbers than the 64 KiB of a stack by default."""
    net = small("gla", layers=2, units=74)
    path, x = one(net, "wasm", tmp_path).path, normal(1, 9, 2).float()
    torch.testing.assert_close(in_javascript(path, x[0], tmp_path), net(x)[0], rtol=1e-5, atol=1e-5)


def test_a_step_that_would_need_too_large_a_stack_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = small("mlstm")
    need = int(re.findall(r"STACK = (\d+)", one(net, "c", tmp_path).path.read_text())[0])
    assert need > 4 * 6 * 6  # the matrix of a layer's state
    monkeypatch.setattr(building, "MOST_STACK", need - 1)
    with pytest.raises(ExportError, match=f"a step would keep {need:,} bytes of numbers on the stack"):
        export(net, "c", out=tmp_path)
    one(net, "wasm", tmp_path)


@pytest.mark.parametrize("format", ["c", "wasm"])
def test_a_path_may_have_quotes(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / 'a "quoted" name'
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert one(small("star"), format, folder).checked.lengths == (9,)


def test_a_step_goes_on_from_any_state(tmp_path: Path) -> None:
    for net in (small("lstm", readout="mean"), tokens("every")):
        runtime = CRuntime(one(net, "c", tmp_path).path, net)
        x = torch.randint(0, 7, (2, 9)) if net.embedding is not None else normal(2, 9, 2).float()
        _, state = runtime.sequence(x[:, :4])
        expected, _ = runtime.sequence(x)
        logits, _ = runtime.sequence(x[:, 4:], None, state)
        again, _ = runtime.sequence(x[:, 4:], None, state)
        every = net.interface.readout == "every"
        assert torch.equal(logits, expected[:, 4:] if every else expected)
        assert torch.equal(again, logits)  # the state that was passed is unchanged


@pytest.mark.parametrize("out", [".", "here"])
def test_the_folder_may_be_relative(out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for format in ("c", "wasm"):
        (written,) = export(small("lstm"), format, out=out)
        assert (tmp_path / written.path).is_file()


@torch.no_grad()
def test_runtimes_can_share_a_process_of_node(tmp_path: Path) -> None:
    nets, node = (small("lstm"), small("gru")), Node()
    runtimes = [WasmRuntime(one(net, "wasm", tmp_path).path, net, node=node) for net in nets]
    x = normal(2, 9, 2).float()
    states: list[object] = [None, None]
    for t in range(3):  # in turn: a state is kept outside of node
        for place, (net, runtime) in enumerate(zip(nets, runtimes, strict=True)):
            logits, states[place] = runtime.step(x[:, t], states[place])
            torch.testing.assert_close(logits, net(x[:, : t + 1]), rtol=1e-5, atol=1e-5)
    (tmp_path / "no.wasm").write_bytes(b"no module")
    with pytest.raises(ExportError, match="node ended with exit code 1"):
        WasmRuntime(tmp_path / "no.wasm", nets[0], node=node).step(x[:, 0])


def test_weights_of_a_module_are_those_of_the_network(tmp_path: Path) -> None:
    """The text for a module has no weights: they are in files beside it, as the compiler includes them."""
    net = frozen(small("star", layers=2)).float()
    for quantize in (False, True):
        text = header(net, {}, quantize, folder=tmp_path).text
        assert text.count("0.0") < 50
        weight = net.layers[1].forward_direction.input.weight.detach()
        kept = quantize_rows(weight)[0].T if quantize else weight.T
        content = (tmp_path / ("integers" if quantize else "weights")).read_bytes()
        assert content.count(kept.contiguous().numpy().tobytes()) == 1
        module = one(net, "wasm", tmp_path, "int8" if quantize else None).path.read_bytes()
        assert module.count(content) == 1


def test_headers_share_the_graphs_of_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two networks of one architecture, each layer is traced once; another option of the cell is another graph."""
    calls: list[int] = []
    monkeypatch.setattr("zoo.exports.c.header.trace", lambda *a: calls.append(1) or trace(*a))
    traces: Traces = {}
    for layers, case in ((2, "star"), (3, "star"), (2, "star shift=1.0")):
        net = frozen(small(case, layers=layers)).float()
        before = len(calls)
        assert header(net, {}, False, traces=traces) == header(net, {}, False, traces=traces)
        new = len(calls) - before
        assert new == (0 if (layers, case) == (3, "star") else 2)  # the first layer has other inputs
        assert header(net, {}, False) == header(net, {}, False, traces=traces)


def test_matrices_are_stored_as_their_integers(tmp_path: Path) -> None:
    net = small("star", layers=1, units=16)
    text = one(net, "c", tmp_path, "int8").path.read_text()
    stored = re.search(r"small_integers\[\] = {([^}]*)}", text)
    assert stored is not None
    integers = [int(word) for word in stored[1].split(",")]
    expected = quantize_rows(net.layers[0].forward_direction.input.weight.detach())[0].T.flatten().tolist()
    assert integers[: len(expected)] == expected


def test_a_command_stays_as_it_was_typed(tmp_path: Path) -> None:
    typed = "rnnzoo export small --out 'RNN_$name'"
    (written,) = export(small("rnn"), "c", out=tmp_path, origin=typed)
    assert f"   command: {typed}\n" in written.path.read_text()
    assert "/ *" in header(frozen(small("rnn")).float(), {"command": "/* a */"}, False).text


@pytest.mark.parametrize("head", [nn.Linear(8, 5), nn.Linear(8, 2, bias=False), nn.Sequential(nn.Linear(8, 2))])
def test_another_head_than_the_config_says_is_refused(head: nn.Module, tmp_path: Path) -> None:
    net = build("lstm-1x8", inputs=3, outputs=2, device="cpu").eval()
    net.head = head
    with pytest.raises(ExportError, match=r"head is not the linear map.*reset_head"):
        export(net, "c", out=tmp_path)
    assert not any(tmp_path.iterdir())


def test_the_names_of_classes_do_not_reach_the_compiler(tmp_path: Path) -> None:
    """They stand in a comment of the header. An export compiles it, and checks its logits."""
    net = small("lstm")
    net.reset_head(["int32_t token", "struct int evil; struct x_state {", "_STACK = 99999999"])
    (written,) = export(net, "c", out=tmp_path)
    assert "_STACK = 99999999" in written.path.read_text()
    export(net, "wasm", out=tmp_path)


def test_a_file_says_what_made_it(tmp_path: Path) -> None:
    name = "rnn-1x128-mnist-rows"
    header, module = (one(name, format, tmp_path).path for format in ("c", "wasm"))
    comment = header.read_text().partition("*/")[0]
    section = sections(module.read_bytes())[0][1]
    note = json.loads(section[1 + len("rnnzoo") :])
    assert {"model", "weights_sha256", "rnnzoo", "torch", "command"} <= note.keys()
    for key in ("model", "weights_sha256", "rnnzoo"):
        assert f"{key}: {note[key]}\n" in comment
    assert note["model"] == name
    assert str(tmp_path) not in comment + section.decode()


def sections(module: bytes) -> dict[int, list[bytes]]:
    """Return the sections of a WebAssembly module by their numbers; the custom section 0 has [size, content]."""
    found: dict[int, list[bytes]] = {}
    position = 8
    while position < len(module):
        kind, size, shift = module[position], 0, 0
        position += 1
        while True:
            byte = module[position]
            size |= (byte & 127) << shift
            shift, position = shift + 7, position + 1
            if byte < 128:
                break
        found[kind] = [struct.pack("<i", size), module[position : position + size]]
        position += size
    return found


@pytest.mark.slow
def test_the_module_of_16_layers_is_small_and_needs_nothing(tmp_path: Path) -> None:
    for quantize, most in ((None, 1_000_000), ("int8", 260_000)):
        written = one("star-16x64-pmnist", "wasm", tmp_path, quantize)
        found = sections(written.path.read_bytes())
        assert written.bytes < most
        assert len(found[10][1]) < 8_000  # code
        assert 2 not in found  # imports


def in_javascript(path: Path, x: Tensor, folder: Path) -> Tensor:
    """Return the logits after the steps x, (time, features), of a module, at the addresses that it gives."""
    script = folder / "main.mjs"
    script.write_text(f"""
import fs from "node:fs";
const {{ instance }} = await WebAssembly.instantiate(fs.readFileSync("{path}"));
const {{ memory, init, step, state, x, logits, inputs, outputs }} = instance.exports;
const input = new Float32Array(memory.buffer, x(), inputs());
init(state());
for (const numbers of {x.tolist()}) {{
  input.set(numbers);
  step(state(), x(), logits());
}}
console.log(JSON.stringify([...new Float32Array(memory.buffer, logits(), outputs())]));
""")
    output = subprocess.run(["node", str(script)], check=True, capture_output=True, text=True).stdout
    return torch.tensor(json.loads(output), dtype=torch.float32)


def test_javascript_reads_the_module(tmp_path: Path) -> None:
    net = small("gru", layers=1)
    path, x = one(net, "wasm", tmp_path).path, normal(1, 5, 2).float()
    torch.testing.assert_close(in_javascript(path, x[0], tmp_path), net(x)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("function", "text"), [
    (lambda x: functional.softplus(x), "-RNN_log_sigmoid(-{})"), (lambda x: functional.softplus(x, 2.0), None),
    (lambda x: torch.rsub(x, 1.0), "{1} - {0}"), (lambda x: torch.rsub(x, 1.0, alpha=3), None),
    (lambda x: functional.gelu(x), "0.5f * {0} * (1.0f + RNN_erf(0.70710678f * {0}))"),
    (lambda x: x**2, "{0} * {0}"), (lambda x: x**3, None), (lambda x: x.clamp(max=1), "RNN_least({}, {})"),
    (lambda x: functional.leaky_relu(x, 0.2), None),
])  # fmt: skip
def test_options_that_c_does_not_know_have_no_formula(function: Callable[[Tensor], Tensor], text: str | None) -> None:
    graph = make_fx(function)(torch.rand(3)).graph
    (node,) = (node for node in graph.nodes if node.op == "call_function")
    found = formula(node)
    assert (found and found[0]) == text


ACTIVATIONS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x.clamp(-0.05, 0.1), lambda x: x.clamp(max=0.1), lambda x: x.clamp(min=-0.1), lambda x: x**2, torch.erf,
    lambda x: functional.leaky_relu(x - 0.1), lambda x: functional.hardtanh(x, -0.1, 0.05),
    lambda x: torch.where(x > 0.05, x, 0.5), lambda x: torch.where(x > 0.05, 0.5, x), lambda x: x.masked_fill(x < 0, 0.25),
    lambda x: x - x.mean(-1, keepdim=True), lambda x: x - x.unflatten(-1, (2, 3)).mean(-1).repeat_interleave(3, -1),
]  # fmt: skip


def test_operations_that_only_own_cells_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = small("rnn", layers=1)
    net.backend = "plain"
    monkeypatch.setattr(
        net.layers[0].forward_direction.cell, "activation", lambda x: torch.tanh(sum(f(x) for f in ACTIVATIONS))
    )
    assert one(net, "c", tmp_path).checked.difference < 1e-5


def test_what_has_no_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., tuple[int, str, str]]
) -> None:
    code, _, err = run("export", "convstar-2x8-nmnist-small", "--format", "c", "--out", str(tmp_path))
    assert (code, err.count("\n")) == (2, 1)
    assert "cannot be exported as c: it is convolutional." in err
    net = small("rnn")
    monkeypatch.setattr(net.layers[0].forward_direction.cell, "activation", torch.sin)
    with pytest.raises(
        ExportError, match=r"could not be written as C99: the operation aten\.sin\S* has no translation to C"
    ):
        export(net, "c", out=tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    for format, missing in (("c", "cc"), ("wasm", "clang")):
        with pytest.raises(RequestError, match=f"needs the program {missing}, which is not installed"):
            export(small("rnn"), format, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


MICROCONTROLLER = """
#include "%(header)s"
extern char stack_top;
void start(void);
__attribute__((section(".vectors"), used)) static void *const vectors[2] = {&stack_top, start};
static const float input[] = {%(input)s};
static const char digits[] = "0123456789abcdef";
static void call(int operation, const void *argument) { /* semihosting */
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}
void start(void) {
    static %(name)s_state state;
    float logits[%(name)s_OUTPUTS];
    int t, i, j;
    *(volatile uint32_t *)0xe000ed88 |= 0xf << 20; /* turn the floating-point unit on */
    __asm__ volatile("dsb\\nisb");
    %(name)s_init(&state);
    for (t = 0; t < %(steps)d; t++) %(name)s_step(&state, input + t * %(name)s_INPUTS, logits);
    for (i = 0; i < %(name)s_OUTPUTS; i++) {
        union { float number; uint32_t bits; } u;
        char text[10] = {0};
        u.number = logits[i];
        for (j = 0; j < 8; j++) text[j] = digits[(u.bits >> (28 - 4 * j)) & 15];
        text[8] = '\\n';
        call(4, text);
    }
    call(0x18, (void *)0x20026);
    for (;;) {}
}
"""
LINKING = """
MEMORY { flash : ORIGIN = 0, LENGTH = 256K  ram : ORIGIN = 0x20000000, LENGTH = 64K }
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) *(.ARM.*) } > flash
  .data : { *(.data*) } > ram AT > flash
  .bss : { *(.bss*) *(COMMON) } > ram
  stack_top = ORIGIN(ram) + LENGTH(ram);
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc")
@pytest.mark.skipif(shutil.which("qemu-system-arm") is None, reason="needs qemu-system-arm")
@pytest.mark.parametrize(("name", "quantize"), [("rnn-1x128-mnist-rows", None), ("gru-1x128-mnist-rows", "int8")])
def test_a_cortex_m4_with_256_kb(name: str, quantize: str | None, tmp_path: Path) -> None:
    net = rounded(load(name, device="cpu"), quantize)
    x: Tensor = golden.example_input(net)[0][:1]
    values = {
        "header": one(name, "c", tmp_path, quantize).path, "name": re.sub(r"\W", "_", name), "steps": x.shape[1],
        "input": ", ".join(f"{float(v)!r}f" for v in x.flatten()),
    }  # fmt: skip
    (tmp_path / "main.c").write_text(MICROCONTROLLER % values)
    (tmp_path / "chip.ld").write_text(LINKING)
    target = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-O2", "-ffreestanding"]
    linking = ["-nostartfiles", "-T", "chip.ld", "-lm", "-lc", "-lgcc", "-o", "main.elf"]
    subprocess.run(["arm-none-eabi-gcc", *target, "main.c", *linking], cwd=tmp_path, check=True)
    machine = ["-M", "mps2-an386", "-nographic", "-semihosting-config", "enable=on,target=native"]
    done = subprocess.run(
        ["qemu-system-arm", *machine, "-kernel", "main.elf"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    words = [struct.unpack(">f", bytes.fromhex(word))[0] for word in (done.stdout + done.stderr).split()]
    torch.testing.assert_close(torch.tensor(words), net(x)[0], rtol=1e-5, atol=1e-4)
