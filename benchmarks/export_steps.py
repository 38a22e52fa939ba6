"""Benchmark steps of one stream outside Python: C and WebAssembly, float32 and 8-bit, beside the compiled scan and onnxruntime.

`python -m benchmarks.export_steps [--rounds N] [--threads N] [--out FILE]` exports models of the registry and lets the files
take turns, 784 steps at a time, in one run: `stream().step` and onnxruntime's step graph called from Python, C compiled by
`cc -O3 -march=native`, and WebAssembly in node and, if `chromium` is installed, in Chromium. It stores the least microseconds
a step, since other programs only ever add time, and each file's bytes.
"""

import base64
import math
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from cli.output import say
from zoo import export, load
from zoo.diagnostics.benchmark import Contender, Workload, machine
from zoo.exports.c import CRuntime
from zoo.exports.formats import FORMATS
from zoo.networks.recurrent import RecurrentNetwork

from .stacks import FOLDER, arguments, write_rows

MODELS = ("star-16x64-pmnist", "lstm-4x128-pmnist", "gru-1x128-mnist-rows")
STEPS = 784
TIMING = """
function time(bytes) {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes));
  const { memory, init, step, state, x, logits, inputs } = exports;
  const input = new Float32Array(memory.buffer, x(), inputs());
  let least = Infinity;
  for (let round = 0; round < 30; round++) {
    init(state());
    const begin = performance.now();
    for (let t = 0; t < %d; t++) {
      input.fill((t %% 16) / 16);
      step(state(), x(), logits());
    }
    least = Math.min(least, performance.now() - begin);
  }
  return least;
}
"""
"""JavaScript: the least milliseconds of 784 steps over 30 rounds, the first of which the engine spends on compiling."""


def in_python(step: Callable[[Any, Any], tuple[Any, Any]], features: int) -> Callable[[], float]:
    """Return a function that takes the steps from Python and returns the seconds they took."""
    inputs = torch.rand(STEPS, 1, features).unbind()

    def run() -> float:
        state = None
        begin = time.perf_counter()
        for x in inputs:
            _, state = step(x, state)
        return time.perf_counter() - begin

    return run


def in_c(runtime: CRuntime, features: int) -> Callable[[], float]:
    """Return a function that takes the steps in C, logits after each, and returns the seconds they took."""
    x, state = torch.rand(STEPS, features), torch.zeros(runtime.states)

    def run() -> float:
        begin = time.perf_counter()
        runtime.run(x, state, every=True)
        return time.perf_counter() - begin

    return run


def in_node(module: Path, folder: Path) -> Callable[[], float]:
    """Return a function that takes the steps in node and returns the seconds they took."""
    script = folder / "time.mjs"
    script.write_text(f'import fs from "node:fs";{TIMING % STEPS}console.log(time(fs.readFileSync(process.argv[2])));')

    def run() -> float:
        done = subprocess.run(["node", str(script), str(module)], check=True, capture_output=True, text=True)
        return float(done.stdout) / 1e3

    return run


def in_chromium(module: Path, folder: Path) -> Callable[[], float]:
    """Return a function that takes the steps in a page of Chromium and returns the seconds they took."""
    page = folder / f"{module.parent.name}.html"
    content = base64.b64encode(module.read_bytes()).decode()
    bytes_ = f'Uint8Array.from(atob("{content}"), (c) => c.charCodeAt(0))'
    page.write_text(
        f"<body><script>{TIMING % STEPS}document.body.textContent = `[${{time({bytes_})}}]`;</script></body>"
    )
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", page.as_uri()]

    def run() -> float:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return float(done.stdout.partition("[")[2].partition("]")[0]) / 1e3

    return run


def passes(name: str, folder: Path) -> dict[str, tuple[Callable[[], float], int | None]]:
    """Return what to time of a model, with the bytes of its file."""
    network = load(name, device="cpu")
    assert isinstance(network, RecurrentNetwork)
    features = network.interface.input[0]
    chosen: dict[str, tuple[Callable[[], float], int | None]] = {
        "`stream().step`": (in_python(network.stream().step, features), None)
    }
    for quantize, kind in ((None, "float32"), ("int8", "8-bit")):
        (header,) = export(network, "c", out=folder / kind, quantize=quantize)
        runtime = CRuntime(header.path, network)
        chosen[f"C, {kind}"] = (in_c(runtime, features), header.bytes)
        (module,) = export(network, "wasm", out=folder / kind, quantize=quantize)
        chosen[f"WebAssembly in node, {kind}"] = (in_node(module.path, folder), module.bytes)
        if shutil.which("chromium"):
            chosen[f"WebAssembly in Chromium, {kind}"] = (in_chromium(module.path, folder), module.bytes)
    (graph,) = export(network, "onnx", graph="step", out=folder)
    session = FORMATS["onnx"].open(graph.path, network, "step")
    chosen["onnxruntime"] = (in_python(session.step, features), graph.bytes)
    return chosen


@torch.no_grad()
def main() -> None:
    """Run the program."""
    options = arguments(__doc__, 5, FOLDER / "export_steps.json")
    torch.set_num_threads(options.threads)
    rows: list[dict[str, Any]] = []
    for name in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            chosen = passes(name, Path(folder))
            seconds = dict.fromkeys(chosen, math.inf)
            for _ in range(options.rounds + 1):
                for label, (run, _) in chosen.items():
                    seconds[label] = min(seconds[label], run())
        for label, (_, size) in chosen.items():
            rows.append({"network": name, "pass": label, "bytes": size, "seconds": seconds[label] / STEPS})
            say(f"{name}, {label}: {1e6 * rows[-1]['seconds']:.1f} µs a step, {size or 0:,} bytes")
    about = machine(Workload(1, 1, options.threads), [Contender("torch", load(MODELS[0], device="cpu").config)])
    write_rows(options.out, about, options.rounds, "rows", rows, "least")


if __name__ == "__main__":
    main()
