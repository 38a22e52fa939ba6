"""Benchmark single time steps outside Python: C and WebAssembly, float32 and 8-bit, next to the fused scan and onnxruntime.

`python -m benchmarks.export_steps [--rounds N] [--threads N] [--out FILE]` exports models of the registry and times the files
in turn, a few steps at a time, in one run: `stream().step` and onnxruntime's step graph called from Python, C compiled by
`cc -O3 -march=native`, and WebAssembly in node and, if `chromium` is installed, in Chromium. The C of star-16x64-pmnist is
compared with star_step.c, a loop over transposed weights written by hand: with the same flags, and with -ffast-math, by which
gcc computes several exponentials at once. The program stores the minimum of the seconds of a step, since other programs only ever add
time, each file's bytes, and the bytes of the library that the C is compiled to.
"""

import base64
import math
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cli.output import say
from zoo import export, load
from zoo.diagnostics.benchmark import machine
from zoo.exports.c import CRuntime
from zoo.exports.c.building import compile_library
from zoo.exports.formats import FORMATS
from zoo.networks.recurrent import RecurrentNetwork

from .common import FOLDER, arguments, least, versions, write_rows
from .hand_written import HandWritten

MODELS = ("star-16x64-pmnist", "lstm-4x128-pmnist", "gru-1x128-mnist-rows")
BY_HAND = "star-16x64-pmnist"
"""The model whose time step star_step.c computes."""
FAST_MATH = {"": (), ", -ffast-math": ("-ffast-math",)}
STEPS, REPEATS = 28, 140
"""Steps in a pass, and passes. A pass is so short that other programs seldom interrupt it: the least time has no wait."""
PROGRAMS = ["onnxruntime", "cc", "clang", "node", "chromium"]
"""The programs that the times depend on, whose versions are stored with them."""
TIMING = """
function time(bytes, steps) {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes));
  const { memory, init, step, state, x, logits, inputs } = exports;
  const input = new Float32Array(memory.buffer, x(), inputs());
  function run(passes) {
    const begin = performance.now();
    for (let pass = 0; pass < passes; pass++) {
      init(state());
      for (let t = 0; t < steps; t++) {
        input.fill((t % 16) / 16);
        step(state(), x(), logits());
      }
    }
    return performance.now() - begin;
  }
  let passes = 1;
  while (run(passes) < 20) passes *= 2;
  let least = Infinity;
  for (let round = 0; round < 12; round++) least = Math.min(least, run(passes) / passes);
  return least;
}
"""
"""JavaScript function that returns the milliseconds of a pass of `steps` steps, the least of 12 rounds. A round takes at
least 20 ms, since a browser's clock has a resolution of a tenth of a millisecond. The engine compiles before the rounds."""


@dataclass(frozen=True)
class Timed:
    """A way to run the time steps: an exported file in a runtime."""

    run: Callable[[], float]
    """Runs passes of STEPS steps, and returns the least seconds of a pass."""
    bytes: int | None = None
    """Size of the exported file."""
    compiled: int | None = None
    """Size in bytes of the library compiled from C; None for other formats."""


def in_python(step: Callable[[Any, Any], tuple[Any, Any]], features: int) -> Callable[[], float]:
    """Return a function that runs STEPS steps from Python and returns their least seconds."""
    inputs = torch.rand(STEPS, 1, features).unbind()

    def run() -> None:
        state = None
        for x in inputs:
            _, state = step(x, state)

    return partial(least, run, REPEATS)


def in_c(runtime: CRuntime, x: Tensor) -> Callable[[], float]:
    """Return a function that runs STEPS steps in C, with logits after each, and returns their least seconds."""
    return partial(least, lambda: runtime.run(x, torch.zeros(runtime.states), every=True), REPEATS)


def by_hand(network: RecurrentNetwork, x: Tensor, folder: Path) -> dict[str, Timed]:
    """Return {pass: Timed} of the loop written by hand. Raises AssertionError if its logits differ from the network's."""
    timed: dict[str, Timed] = {}
    for name, flags in FAST_MATH.items():
        loop = HandWritten(network, folder, *flags)
        torch.testing.assert_close(loop.run(x)[-1:], network(x[None]), rtol=1e-5, atol=1e-5)
        timed[f"C by hand{name}"] = Timed(partial(least, partial(loop.run, x), REPEATS))
    return timed


def in_node(module: Path, folder: Path) -> Callable[[], float]:
    """Return a function that runs the steps in node and returns the least seconds of STEPS steps. module: a .wasm file."""
    script = folder / "time.mjs"
    script.write_text(f'import fs from "node:fs";{TIMING}console.log(time(fs.readFileSync(process.argv[2]), {STEPS}));')

    def run() -> float:
        done = subprocess.run(["node", str(script), str(module)], check=True, capture_output=True, text=True)
        return float(done.stdout) / 1e3

    return run


def in_chromium(module: Path, folder: Path) -> Callable[[], float]:
    """Return a function that runs the steps in a page of Chromium and returns the least seconds of STEPS steps."""
    page = folder / f"{module.parent.name}.html"
    content = base64.b64encode(module.read_bytes()).decode()
    bytes_ = f'Uint8Array.from(atob("{content}"), (c) => c.charCodeAt(0))'
    page.write_text(
        f"<body><script>{TIMING}document.body.textContent = `[${{time({bytes_}, {STEPS})}}]`;</script></body>"
    )
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", page.as_uri()]

    def run() -> float:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return float(done.stdout.partition("[")[2].partition("]")[0]) / 1e3

    return run


def passes(name: str, folder: Path) -> dict[str, Timed]:
    """Return {pass: Timed} of every way to run a model's steps."""
    network = load(name, device="cpu")
    assert isinstance(network, RecurrentNetwork)
    features = network.interface.input[0]
    x = torch.rand(STEPS, features)
    timed = {"`stream().step`": Timed(in_python(network.stream().step, features))}
    for quantize, kind in ((None, "float32"), ("int8", "8-bit")):
        (header,) = export(network, "c", out=folder / kind, quantize=quantize)
        compile_library(header.path, folder / "model.so", network)
        compiled = (folder / "model.so").stat().st_size
        timed[f"C, {kind}"] = Timed(in_c(CRuntime(header.path, network), x), header.bytes, compiled)
        (module,) = export(network, "wasm", out=folder / kind, quantize=quantize)
        timed[f"WebAssembly in node, {kind}"] = Timed(in_node(module.path, folder), module.bytes)
        if shutil.which("chromium"):
            timed[f"WebAssembly in Chromium, {kind}"] = Timed(in_chromium(module.path, folder), module.bytes)
    if name == BY_HAND:
        timed |= by_hand(network, x, folder)
    (graph,) = export(network, "onnx", graph="step", out=folder)
    session = FORMATS["onnx"].open(graph.path, network, "step")
    timed["onnxruntime"] = Timed(in_python(session.step, features), graph.bytes)
    return timed


@torch.no_grad()
def main() -> None:
    """Run the program."""
    options = arguments(__doc__, 5, FOLDER / "export_steps.json")
    torch.set_num_threads(options.threads)
    rows: list[dict[str, Any]] = []
    for name in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            timed = passes(name, Path(folder))
            seconds = dict.fromkeys(timed, math.inf)
            for _ in range(options.rounds):
                for label, each in timed.items():
                    seconds[label] = min(seconds[label], each.run())
        for label, each in timed.items():
            sizes = {"bytes": each.bytes} | ({"compiled": each.compiled} if each.compiled else {})
            rows.append({"network": name, "pass": label, **sizes, "seconds": seconds[label] / STEPS})
            say(f"{name}, {label}: {1e6 * rows[-1]['seconds']:.1f} µs per step, {sizes}")
    about = {**machine(options.threads), **versions(PROGRAMS)}
    write_rows(options.out, about, options.rounds, "rows", rows, "minimum")


if __name__ == "__main__":
    main()
