"""Writes headers and WebAssembly modules, and compiles headers into libraries: `cc`, and `clang` with `wasm-ld`."""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import cast

from ...errors import ExportError
from ...networks.recurrent import RecurrentNetwork
from ...utils.files import atomic_write
from ..base import Job, Provenance
from ..graphs import takes_gaps
from .header import Place, Traces, header, identifier

SECTION = "rnnzoo"
"""The name of the custom section of a WebAssembly module that holds its provenance as JSON."""
FLAGS = ("-std=c99", "-O3", "-march=native")
"""Flags of cc for a library that runs on this machine only."""
WASM = [
    "--target=wasm32", "-O3", "-msimd128", "-mbulk-memory", "-ffreestanding", "-nostdlib", "-Wl,--no-entry",
    "-Wl,--export=__heap_base", "-Wl,--strip-all", "-Wl,--stack-first",
]  # fmt: skip
"""Flags of clang. The stack comes first, so that one that overflows traps instead of running into the numbers below it."""
MOST_STACK = 6 * 2**20
"""The largest number of bytes of numbers on the stack of a C function. The stack of a process is usually 8 MiB."""
SPARE_STACK = 2**16
"""Bytes of a WebAssembly module's stack besides those numbers."""


def write_header(job: Job, traces: Traces | None = None) -> None:
    """Write NAME.h. traces: see Traces.

    Raises ExportError as `header` does, and if a step would need more than MOST_STACK.
    """
    made = header(cast(RecurrentNetwork, job.network), job.provenance, job.quantize is not None, traces=traces)
    if made.stack > MOST_STACK:
        raise ExportError(
            f"a step would keep {made.stack:,} bytes of numbers on the stack, more than {MOST_STACK:,}; export to onnx, pt2 or "
            "wasm instead"
        )
    atomic_write(job.path, made.text.encode())


def write_wasm(job: Job) -> None:
    """Write NAME.wasm. Raises ExportError as `write_header` does, and if clang fails."""
    _write_module(job, inspected=False, traces=None)


def write_inspected(job: Job, traces: Traces | None = None) -> list[Place]:
    """Write NAME.wasm with a function `gates` that returns the address of the gates of the last step, the array NAME_gates.

    Return where each gate lies in that array. Raises ExportError as `write_wasm` does. traces: see Traces.
    """
    return _write_module(job, inspected=True, traces=traces)


def _write_module(job: Job, inspected: bool, traces: Traces | None) -> list[Place]:
    """Write NAME.wasm with its provenance in a custom section, and return the places of its gates. For the rest see `header`."""
    network, quantized = cast(RecurrentNetwork, job.network), job.quantize is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, module = folder / "model.h", folder / "model.wasm"
        made = header(network, job.provenance, quantized, inspected, folder, traces)
        source.write_bytes(made.text.encode())
        stack = f"-Wl,-z,stack-size={SPARE_STACK + -(-made.stack // 16) * 16}"
        has_gates = ["gates"] if made.gates else []
        _compile("clang", [*WASM, stack], network, source, module, has_gates)
        atomic_write(job.path, module.read_bytes() + _custom_section(job.provenance))
    return made.gates


def compile_library(source: Path, library: Path, network: RecurrentNetwork) -> None:
    """Compile a network's header into a shared library for this machine. Raises ExportError if cc fails."""
    _compile("cc", [*FLAGS, "-shared", "-fPIC", "-lm"], network, source, library)


def _compile(
    compiler: str, options: list[str], network: RecurrentNetwork, source: Path, target: Path, also: Sequence[str] = ()
) -> None:
    """Compile native/glue.c with the header of a network, `source`, to the file `target`, in the folder of `source`.

    Raises ExportError if the compiler fails.

    options: those of the compiler, without those that tell glue.c the header's names. also: names that this header has
    besides those of every header of the network.
    """
    name = identifier(network.config.name)
    names = ["state", "init", "step", "INPUTS", "OUTPUTS", "STATES", *["step_after"] * takes_gaps(network), *also]
    with as_file(files(__package__) / "native" / "glue.c") as glue:
        command = [
            compiler,
            str(glue),  # before the options, since a library must come after what needs it
            *options,
            *(f"-DRNN_{each}={name}_{each}" for each in names),
            *["-DTOKENS"] * (network.embedding is not None),
            "-I.",  # with quotes or line ends in it, a path could not stand in -D
            f'-DHEADER="{source.name}"',
            "-o",
            str(target.resolve()),
        ]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=source.parent)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        reason = next((line for line in lines if "error:" in line), (lines or [f"exit code {done.returncode}"])[0])
        raise ExportError(f"{compiler} cannot compile {source.name}: {reason}")


def _custom_section(provenance: Provenance) -> bytes:
    """Return the custom section of a WebAssembly module that holds `provenance` as JSON."""
    name = SECTION.encode()
    content = bytes([len(name)]) + name + json.dumps(provenance).encode()
    return b"\0" + _leb128(len(content)) + content


def _leb128(value: int) -> bytes:
    """Return an unsigned integer in LEB128, the encoding of sizes in WebAssembly."""
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _leb128(rest) if rest else bytes([low])
