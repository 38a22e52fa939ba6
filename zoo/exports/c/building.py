"""Writes headers and WebAssembly modules, and compiles headers into libraries: `cc`, and `clang` with `wasm-ld`."""

import json
import re
import subprocess
import tempfile
from importlib.resources import as_file, files
from pathlib import Path
from typing import cast

from ...errors import ExportError
from ...networks.recurrent import RecurrentNetwork
from ...utils.files import atomic_write
from ..base import Job, Provenance
from .header import Place, Traces, header

SECTION = "rnnzoo"
"""The name of the custom section of a WebAssembly module that holds its provenance as JSON."""
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

    Raises ExportError for an operation of a cell that has no translation to C, and if a step would need more than MOST_STACK.
    """
    text = header(cast(RecurrentNetwork, job.network), job.provenance, job.quantize is not None, traces=traces)
    if (need := stack_of(text)) > MOST_STACK:
        raise ExportError(
            f"a step would keep {need:,} bytes of numbers on the stack, more than {MOST_STACK:,}; export to onnx, pt2 or wasm "
            "instead"
        )
    atomic_write(job.path, text.encode())


def write_wasm(job: Job) -> None:
    """Write NAME.wasm. Raises ExportError as `write_header` does, and if clang fails."""
    _compile(job, None, None)


def write_inspected(job: Job, traces: Traces | None = None) -> list[Place]:
    """Write NAME.wasm with a function `gates` that returns the address of the gates of the last step, the array NAME_gates.

    Return where each gate lies in that array. Raises ExportError as `write_wasm` does. traces: see Traces.
    """
    places: list[Place] = []
    _compile(job, places, traces)
    return places


def stack_of(text: str) -> int:
    """Return the bytes of numbers that a step of a header keeps on the stack."""
    return int(re.findall(r"_STACK = (\d+)", _code(text))[0])


def _code(text: str) -> str:
    """Return a header without its comments, which hold names that a checkpoint chose, such as those of its classes."""
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def _compile(job: Job, places: list[Place] | None, traces: Traces | None) -> None:
    """Write NAME.wasm with its provenance in a custom section. places, traces: see `header`."""
    network, quantized = cast(RecurrentNetwork, job.network), job.quantize is not None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, module = folder / "model.h", folder / "model.wasm"
        source.write_text(header(network, job.provenance, quantized, places, folder, traces))
        compile_glue("clang", WASM, source, module)
        atomic_write(job.path, module.read_bytes() + _custom_section(job.provenance))


def compile_library(source: Path, library: Path) -> None:
    """Compile a header into a shared library for this machine. Raises ExportError if cc fails."""
    compile_glue("cc", ["-std=c99", "-O3", "-march=native", "-shared", "-fPIC"], source, library)


def compile_glue(compiler: str, flags: list[str], source: Path, target: Path) -> None:
    """Compile native/glue.c with the header `source` to the file `target`, in the folder of `source`.

    Raises ExportError if the compiler fails.

    flags: the compiler's options, without those that pass the header's names to glue.c.
    """
    text = _code(source.read_text())
    name = text.partition("_state {")[0].rpartition("struct ")[2]
    options = ["-DTOKENS"] if "int32_t token" in text else []
    options += [f"-DRNN_gates={name}_gates"] if f"{name}_gates[" in text else []
    options += [f"-DRNN_step_after={name}_step_after"] if f"{name}_step_after(" in text else []
    names = [f"-DRNN_{each}={name}_{each}" for each in ("state", "init", "step", "INPUTS", "OUTPUTS", "STATES")]
    with as_file(files(__package__) / "native" / "glue.c") as glue:
        command = [
            compiler,
            *flags,
            *names,
            *options,
            "-I.",  # with quotes or line ends in it, a path could not stand in -D
            f'-DHEADER="{source.name}"',
            str(glue),
            "-o",
            str(target.resolve()),
        ]
        if flags is WASM:
            command.append(f"-Wl,-z,stack-size={SPARE_STACK + -(-stack_of(text) // 16) * 16}")
        else:
            command.append("-lm")
        done = subprocess.run(command, capture_output=True, text=True, cwd=source.parent)
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
