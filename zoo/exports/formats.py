"""The table FORMATS: the formats of exported files, and what each of them cannot hold. It needs no torch."""

import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import MissingExtraError, RequestError
from ..registry.schema import Config
from ..utils import import_object
from ..utils.arguments import check_name

if TYPE_CHECKING:
    from ..networks.network import Network
    from .base import Job, Runtime

GRAPHS = ("sequence", "step")


@dataclass(frozen=True)
class Format:
    """A file format, how files of it are written and run, and what they can hold."""

    title: str
    writer: str
    """`module.function` in zoo.exports, a function of a Job, which writes the file."""
    reader: str
    """`module.class` of a Runtime, called with a file's path, its network (for shapes and names only), and its graph."""
    extension: str
    graphs: tuple[str, ...] = GRAPHS
    """The graphs that a file can hold, one in each file."""
    extra: str | None = None
    """The extra of rnnzoo that installs `packages`."""
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    """The programs that write and run a file, besides packages."""
    opsets: range = range(0)
    """The versions of the format's operators to choose from, if there are several."""
    quantizes: bool = False
    """Whether a file can have 8-bit weights."""
    convolutions: bool = True
    """Whether a file can hold convolutional cells."""

    def write(self, job: "Job") -> None:
        """Write a file. Raises OSError, and whatever an exporter raises."""
        import_object(self.writer, __package__)(job)

    def open(self, path: Path, network: "Network", kind: str) -> "Runtime":
        """Return a Runtime that runs the file at `path`."""
        runtime: Runtime = import_object(self.reader, __package__)(path, network, kind)
        return runtime

    def check_packages(self) -> None:
        """Raise MissingExtraError if a package is missing, and RequestError if a program is."""
        for program in self.programs:
            if shutil.which(program) is None:
                raise RequestError(
                    f"{self.title} needs the program {program}, which is not installed. Install it, and put it on the PATH."
                )
        for package in self.packages:
            if find_spec(package) is None:
                raise MissingExtraError(package, self.extra or "")


FORMATS: dict[str, Format] = {
    "pt2": Format("torch.export", "pt2.write", "pt2.PT2Runtime", "pt2"),
    "onnx": Format(
        "ONNX", "onnx.write", "onnx.ONNXRuntime", "onnx",
        extra="export-onnx", packages=("onnx", "onnxscript", "onnxruntime"), opsets=range(18, 24), quantizes=True,
    ),
    "openvino": Format(
        "OpenVINO", "openvino.write", "openvino.OpenVINORuntime", "xml",
        extra="export-openvino", packages=("onnx", "onnxscript", "openvino"),
    ),
    "executorch": Format(
        "ExecuTorch", "executorch.write", "executorch.ExecuTorchRuntime", "pte",
        extra="export-executorch", packages=("executorch",),
    ),
    "c": Format(
        "C99", "c.write_header", "c.CRuntime", "h",
        graphs=("step",), programs=("cc",), quantizes=True, convolutions=False,
    ),
    "wasm": Format(
        "WebAssembly", "c.write_wasm", "c.WasmRuntime", "wasm",
        graphs=("step",), programs=("clang", "wasm-ld", "node"), quantizes=True, convolutions=False,
    ),
}  # fmt: skip


def find_format(name: str) -> Format:
    """Return the format `name` of FORMATS. Raises UnknownNameError if there is none."""
    check_name("format", name, FORMATS)
    return FORMATS[name]


def why_not(config: Config, format: str, kind: str) -> str | None:
    """Return in words why a format cannot hold a graph, `kind`, of a network; None if it can. kind: "sequence" or "step"."""
    row = find_format(format)
    if kind not in row.graphs:
        return f"this format holds {' and '.join(row.graphs)} graphs only"
    if reason := _why_no_graph(config, kind):
        return reason
    return "it is convolutional" if config.architecture.kernel is not None and not row.convolutions else None


def graphs_of(config: Config, format: str) -> list[str]:
    """Return the kinds of graph of a network, "sequence" and "step", that a format can hold."""
    return [kind for kind in GRAPHS if why_not(config, format, kind) is None]


def _why_no_graph(config: Config, kind: str) -> str | None:
    """Return in words why no format can hold a graph, "sequence" or "step", of a network; None if one can."""
    if kind == "sequence":
        return None
    if config.interface.readout == "none":
        return "it has no time steps"
    if config.interface.form == "question":
        return "it reads a whole story and then a question"
    if config.architecture.bidirectional:
        return "it is bidirectional, so it needs the whole sequence"
    return None
