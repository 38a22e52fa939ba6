"""The table FORMATS: what networks can be written as, and what each format cannot hold."""

from ..registry.schema import Config
from . import c, executorch, onnx, openvino, pt2
from .base import Format

GRAPHS = ("sequence", "step")


def why_no_graph(config: Config, kind: str) -> str | None:
    """Return the reason why no format can hold this graph of a network; None if one can."""
    if kind == "sequence":
        return None
    if config.interface.readout == "none":
        return "it has no time steps"
    if config.interface.form != "sequence":
        return "it reads a whole story and then a question"
    if config.architecture.bidirectional:
        return "it is bidirectional, so it needs the whole sequence"
    return None


def nothing(config: Config, kind: str) -> str | None:
    """Return None: the format holds every graph."""
    return None


FORMATS: dict[str, Format] = {
    "pt2": Format(
        "torch.export", "pt2", GRAPHS, None, (), nothing, pt2.write, pt2.PT2Runtime,
    ),
    "onnx": Format(
        "ONNX", "onnx", GRAPHS, "export-onnx", ("onnx", "onnxscript", "onnxruntime"), nothing, onnx.write,
        onnx.ONNXRuntime, quantizes=True, opsets=onnx.OPSETS,
    ),
    "openvino": Format(
        "OpenVINO", "xml", GRAPHS, "export-openvino", ("onnx", "onnxscript", "openvino"), nothing, openvino.write,
        openvino.OpenVINORuntime,
    ),
    "executorch": Format(
        "ExecuTorch", "pte", GRAPHS, "export-executorch", ("executorch",), nothing, executorch.write,
        executorch.ExecuTorchRuntime,
    ),
    "c": Format(
        "C99", "h", ("step",), None, (), c.why_not, c.write_header, c.CRuntime, quantizes=True,
        programs=("cc",),
    ),
    "wasm": Format(
        "WebAssembly", "wasm", ("step",), None, (), c.why_not, c.write_wasm, c.WasmRuntime, quantizes=True,
        programs=("clang", "wasm-ld", "node"),
    ),
}  # fmt: skip
