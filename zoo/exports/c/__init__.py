"""Networks in C99 and WebAssembly: one step, whose C comes from the equations of the cell as torch traces them."""

from .building import write_header, write_inspected, write_wasm
from .header import Traces
from .runtimes import CRuntime, Node, StepRuntime, WasmRuntime

__all__ = ["CRuntime", "Node", "StepRuntime", "Traces", "WasmRuntime", "write_header", "write_inspected", "write_wasm"]
