"""Writes networks as files for other runtimes, and checks the files: `zoo.export`."""

import hashlib
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ..checkpoints import configs, tensors
from ..checkpoints.references import Reference
from ..checkpoints.sources import resolve
from ..errors import ExportError, RequestError, ZooError, first_line, shown
from ..networks.base import unwrapped
from ..networks.frozen import check_finite, frozen
from ..networks.network import Network
from ..networks.pretrained import assemble
from ..networks.quantize import check_quantize, quantized
from ..registry.schema import Config
from ..utils import files
from ..utils.arguments import path_of
from ..utils.provenance import command, versions
from .base import Job, Provenance
from .check import Checked, check
from .formats import FORMATS, GRAPHS, find_format, why_not


@dataclass(frozen=True)
class Exported:
    """A file that was written and checked."""

    path: Path
    format: str
    graph: str
    bytes: int
    sha256: str
    checked: Checked


def export(
    model: Network | str | os.PathLike[str], format: str = "onnx", *, graph: str | None = None,
    out: str | os.PathLike[str] = ".", opset: int | None = None, quantize: str | None = None, origin: str | None = None,
) -> list[Exported]:  # fmt: skip
    """Write a network as files for another runtime, run them there, and return what was written.

    model: a network, or what `load` takes: a name, a folder or hf://org/name.
    format: a key of FORMATS: "pt2", "onnx", ...
    graph: "sequence" (whole sequences), "step" (one time step, with every state as an input and an output), or "both"
    (default: the first that the format can hold).
    out: the folder of the files NAME.EXTENSION and, of a step, NAME.step.EXTENSION; a vocabulary goes beside them.
    opset: version of ONNX's operators (default: 20).
    quantize: "int8" for 8-bit weights with a scale for each row.
    origin: the command that the file names as its maker (default: that of this process).

    A file is deleted whose logits or states differ from those of the equations by more than `check.TOLERANCE` and by more than
    ten times the network's own error in float32. Raises what `load` raises; UnknownNameError for an unknown format;
    RequestError, before any work, for what the format cannot hold, and for a folder where a file would be written;
    CheckpointError for weights that are not finite; MissingExtraError for a missing package; ExportError if a file cannot be
    written, as of a network that is too large for C, or its results are wrong; and OSError for a folder that cannot be written to.
    """
    find_format(format)
    model = unwrapped(model)
    checkpoint = None if isinstance(model, Network) else resolve(Reference.parse(model))
    config = model.config if isinstance(model, Network) else checkpoint.config  # type: ignore[union-attr]
    kinds = _check_request(format, config, graph, opset, quantize)
    folder = Path(path_of("The folder of exported files", out))
    if place := files.obstacle(folder):
        raise RequestError(f"{place} is not a folder, so no file can be exported to {folder}. Choose another folder.")
    names = [file_name(format, kind, config.name) for kind in kinds]
    for path in [folder / name for name in (*names, f"{config.name}.{configs.VOCABULARY}")]:
        if path.is_dir():
            raise RequestError(f"{path} is a folder, where a file would be written. Choose another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    # a folder that cannot be written to fails here, before any work
    with _named(folder), _in_float32(), files.scratch_folder(folder, ".export-") as scratch:
        network = model if isinstance(model, Network) else assemble(checkpoint, device="cpu", allow_large=True)  # type: ignore[arg-type]
        check_finite(network)
        sha256 = checkpoint.weights_sha256 if checkpoint else _weights_sha256(network)
        fixed = (quantized if quantize else frozen)(network).float()
        reference = fixed if quantize else network
        origins = provenance(config, sha256, quantize, origin)
        written = []
        for kind, name in zip(kinds, names, strict=True):
            job = Job(fixed, kind, scratch / name, {**origins, "graph": kind}, opset, quantize)
            written.append(_write(format, job, reference))
        if network.tokenizer is not None:
            (scratch / f"{config.name}.{configs.VOCABULARY}").write_bytes(network.tokenizer.content())
        for path in sorted(scratch.iterdir()):
            os.replace(path, folder / path.name)
    return [replace(each, path=folder / each.path.name) for each in written]


def _check_request(
    format: str, config: Config, graph: str | None, opset: int | None, quantize: str | None
) -> tuple[str, ...]:
    """Return the kinds of the graphs to write. Arguments: see `export`; config is that of the network.

    Raises RequestError for what the format cannot hold, and MissingExtraError for a missing package.
    """
    row = find_format(format)
    if graph not in (None, "both", *GRAPHS):
        raise RequestError(f"graph is {shown(graph)}; it can be {', '.join(map(repr, GRAPHS))} or 'both'.")
    if config.name.endswith(".step"):
        raise RequestError(
            f"The files of {config.name} would have the names of another model's steps. Rename the network."
        )
    kinds = GRAPHS if graph == "both" else (graph or row.graphs[0],)
    for kind in kinds:
        if reason := why_not(config, format, kind):
            raise RequestError(f"The {kind} graph of {config.name} cannot be exported as {format}: {reason}.")
    if opset is not None and not row.opsets:
        raise RequestError(f"{format} has no opset: leave it out.")
    if opset is not None and not (isinstance(opset, int) and opset in row.opsets):
        raise RequestError(f"opset is {shown(opset)}; it can be {row.opsets[0]} to {row.opsets[-1]}.")
    check_quantize(quantize)
    if quantize and not row.quantizes:
        raise RequestError(
            f"{format} cannot have 8-bit weights: leave quantize out, or choose "
            f"{' or '.join(n for n, r in FORMATS.items() if r.quantizes)}."
        )
    row.check_packages()
    return kinds


def file_name(format: str, kind: str, name: str) -> str:
    """Return the name of the file of a graph, `kind`: NAME.EXTENSION, or NAME.step.EXTENSION if the format has both graphs."""
    row = FORMATS[format]
    step = ".step" if kind == "step" and len(row.graphs) > 1 else ""
    return f"{name}{step}.{row.extension}"


def _write(format: str, job: Job, reference: Network) -> Exported:
    """Write the file of a job and check it against `reference`, the network whose equations give the right results.

    Raises ExportError if the file cannot be written or its results are wrong.
    """
    row, path = FORMATS[format], job.path
    try:
        with _quiet():
            row.write(job)
    except (OSError, KeyboardInterrupt):
        raise
    except Exception as error:  # whatever an exporter raises
        raise ExportError(
            f"{job.network.config.name} could not be written as {row.title}: {first_line(_cause(error))}"
        ) from error
    try:
        with _quiet():
            checked = check(row.open(path, job.network, job.kind), reference, job.kind)
    except ExportError as error:
        raise ExportError(f"{path.name} was deleted: {error}.") from error
    except ZooError:
        raise
    except Exception as error:  # whatever a runtime raises
        raise ExportError(f"{path.name} was deleted: its own runtime cannot run it ({first_line(error)}).") from error
    size = sum(part.stat().st_size for part in path.parent.glob(f"{path.stem}.*"))
    return Exported(path, format, job.kind, size, files.sha256(path), checked)


def _cause(error: BaseException) -> BaseException:
    """Return the error that an exporter's error is about."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def provenance(config: Config, sha256: str, quantize: str | None, origin: str | None) -> Provenance:
    """Return the provenance that a file stores. sha256: of the weights. quantize, origin: see `export`."""
    content = {
        "model": config.name,
        "weights_sha256": sha256,
        "quantize": quantize or "",
        "command": origin or command(),
    }
    return {**content, **versions(), "config": config.model_dump_json()}


def _weights_sha256(network: Network) -> str:
    """Return the sha256 of the model.safetensors that `save` would write."""
    return hashlib.sha256(tensors.content(tensors.as_stored(network.state_dict()))).hexdigest()


@contextmanager
def _named(folder: Path) -> Iterator[None]:
    """Name `folder` in an error of the system that names no file, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = os.fspath(folder)
        raise


@contextmanager
def _in_float32() -> Iterator[None]:
    """Have torch make tensors in float32 on the CPU, whatever the program's defaults are, and without autocast."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with torch.device("cpu"), torch.autocast("cpu", enabled=False):
            yield
    finally:
        torch.set_default_dtype(default)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings and log lines of exporters."""
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
