"""Compile the Triton kernels of every cell for an H200, on a machine without one: `python tests/networks/compile_triton.py`.

The scans run on a CPU up to their launches, whose arguments say what to compile. The recurrence of the cells that are linear
in their state is compiled once for each kind of numbers. Prints the resources of each kernel.
"""

import os

os.environ["TRITON_INTERPRET"] = "0"

import itertools
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton
from helpers import CASES, network
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource

from zoo.networks.kernels import triton_diagonal, triton_layer, triton_scan
from zoo.networks.kernels.shared import planned

PTXAS = Path(get_ptxas(90).path)  # the assembler that Triton brings for Hopper GPUs
TYPES = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.int64: "*i64"}


class Compiling:
    """Stands in for a kernel and compiles what it would launch."""

    def __init__(self, kernel: Any):
        self.kernel, self.compiled = kernel, []

    def __getitem__(self, grid: object) -> Callable[..., None]:
        return self.launch

    def launch(self, *args: object, num_warps: int, num_stages: int, **constants: object) -> None:
        names = self.kernel.arg_names
        constants |= {n: None for n, a in zip(names, args, strict=False) if a is None}
        values = {n: a for n, a in zip(names, args, strict=False) if a is not None}
        types = {n: TYPES[a.dtype] if isinstance(a, Tensor) else "i32" for n, a in values.items()}
        source = ASTSource(
            self.kernel,
            signature={n: types.get(n, "constexpr") for n in names},
            constexprs={(names.index(n),): value for n, value in constants.items()},
            attrs={(i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if types.get(n, "")[:1] == "*"},
        )
        options = {"num_warps": num_warps, "num_stages": num_stages}
        self.compiled.append(triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options))


def report(name: str, kernel: Any) -> int:
    """Print the resources of a compiled kernel, and return its shared memory in bytes."""
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(kernel.asm["ptx"])
        file.flush()
        command = [PTXAS, "-v", "--gpu-name=sm_90a", file.name, "-o", os.devnull]
        log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers, spilled = re.search(r"Used (\d+) reg", log), re.search(r"(\d+) bytes spill stores", log)
    assert registers is not None
    assert spilled is not None
    print(
        f"{name:48} {registers[1]:>4} registers {spilled[1]:>6} spilled {kernel.metadata.shared:>7} shared", flush=True
    )
    return kernel.metadata.shared


def compile_recurrence(wanted: str) -> None:
    """Compile the recurrence, real and complex, with an a that is the same at every step and with one of each step."""
    kernel = triton_diagonal.recurrence
    for (kind, width), varies in itertools.product({"real": 64, "complex": 128}.items(), (False, True)):
        name = f"{kind} recurrence, {'one a a step' if varies else 'one a'}"
        if not name.startswith(wanted):
            continue
        b, start = torch.zeros(3, 2, width), torch.zeros(2, width)
        a, lengths = b if varies else start[0], torch.tensor([1, 3])
        triton_diagonal.recurrence = compiling = Compiling(kernel)
        triton_diagonal.forward(a, b, start, lengths, 2, kind == "complex")
        triton_diagonal.backward(b, a, b, start, lengths, 2, kind == "complex")
        triton_diagonal.recurrence = kernel
        for pass_name, compiled in zip(("forward", "backward"), compiling.compiled, strict=True):
            assert report(f"{name}, {pass_name}", compiled) <= triton_layer.SHARED


def main(wanted: str = "") -> None:
    """Compile everything, or what has a name that begins with `wanted`; fail if a kernel cannot run on an H200."""
    compile_recurrence(wanted)
    for case in CASES:
        for units, dtype in ((64, torch.float32), (64, torch.bfloat16), (128, torch.float32), (128, torch.bfloat16)):
            net = network(case, layers=2 if case == "rhn" else 1, units=units, inputs=(2,), dtype=dtype)
            direction = net.layers[0].forward_direction
            if planned(direction) is None or not case.startswith(wanted):
                continue
            kernels = Compiling(triton_layer.scan_forward), Compiling(triton_layer.scan_backward)
            keep = triton_layer.scan_forward, triton_layer.scan_backward
            triton_layer.scan_forward, triton_layer.scan_backward = kernels
            x = torch.zeros(2, 3, 2, dtype=dtype)
            triton_scan.scan(planned(direction), x, direction.initial_state(x[0]))[0].sum().backward()
            triton_layer.scan_forward, triton_layer.scan_backward = keep
            for pass_name, compiling in zip(("forward", "backward"), kernels, strict=True):
                (kernel,) = compiling.compiled
                assert report(f"{case} {units} {str(dtype)[6:]} {pass_name}", kernel) <= triton_layer.SHARED


if __name__ == "__main__":
    main(*sys.argv[1:])
