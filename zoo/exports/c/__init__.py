"""Networks in C99 and WebAssembly: one step, whose C comes from the equations of the cell as torch traces them."""

from .building import write_header, write_inspected, write_wasm
from .runtimes import CRuntime, StepRuntime, WasmRuntime

__all__ = ["CRuntime", "StepRuntime", "WasmRuntime", "write_header", "write_inspected", "write_wasm"]
