"""Models that run in a page: their steps as WebAssembly, in scripts that a page loads when a visitor asks for it.

A script has the module as text, because a page that is opened from a folder may load scripts but not fetch files.
"""

import base64
import hashlib
import json
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version
from importlib.resources import files as resources
from multiprocessing import cpu_count, get_context
from pathlib import Path
from typing import Any

import torch

from ... import registry
from ...checkpoints import tensors
from ...checkpoints.references import Reference
from ...checkpoints.sources import resolve
from ...errors import ExportError, ZooError
from ...exports.base import Job
from ...exports.c import Node, Traces, WasmRuntime, write_header, write_inspected
from ...exports.check import check
from ...exports.formats import FORMATS, why_not
from ...exports.writing import provenance
from ...networks.frozen import frozen
from ...networks.pretrained import assemble
from ...networks.quantize import quantized
from ...registry import Entry
from ...utils import paths
from ...utils.text import ahead_text
from ...utils.version import __version__
from .facts import ModelFacts
from .stories import parts

FLOAT_BYTES = 850_000
"""Weights up to this size stay float32; larger ones are rounded to 8 bits, so that a page stays small."""
KINDS = {
    "mnist": "digit", "adding": "adding", "fsdd": "speech", "music": "music", "forecast": "forecast",
}  # fmt: skip
"""By family of tasks: the kind of its models, which says what a visitor does with them, such as drawing a digit.

Networks that read text are of the kind `text` or `writing`.
"""
HEAD = "zoo.load("
WORKERS = 4
TRACES: Traces = {}
"""The graphs that this process has traced: many models have the same layers, and a model's page and its header share them."""


@dataclass(frozen=True)
class LiveModel:
    """A model that runs in a page."""

    name: str
    kind: str
    script: bytes
    data: Mapping[str, Any]
    header: bytes | None
    """The C header that its WebAssembly is compiled from; None for a story reader, which is three networks."""

    @property
    def rounded(self) -> bool:
        """Whether its weights are 8-bit integers."""
        return bool(self.data["quantize"])

    @property
    def wasm_bytes(self) -> int:
        return int(self.data["bytes"])

    @property
    def task(self) -> str:
        return str(self.data["task"])


def kind_of(entry: Entry) -> str | None:
    """Return what a visitor can do with a model in a page; None if it does not run there."""
    task = entry.task
    config, is_story = entry.config, task.form == "question"
    if is_story:  # each part of a story reader takes steps
        config = config.model_copy(update={"interface": config.interface.model_copy(update={"form": "sequence"})})
    if entry.weights is None or why_not(config, "wasm", "step"):
        return None
    if is_story:
        return "story"
    if task.is_stream:
        return "writing" if task.form == "characters" else None
    return "text" if task.vocabulary else KINDS.get(task.family)


class Compiler:
    """Compiles models to WebAssembly, in several processes. It reuses what an earlier build compiled to the same folder."""

    def __init__(
        self,
        out: Path,
        report: Callable[[int, int, str | None], None] | None = None,
        only: Collection[str] | None = None,  # names of the models to compile; None for all
    ):
        self.out, self.report, self.only = out, report, only
        self.names: tuple[str, ...] = ()
        self.problem: str | None = None

    def compile(self, models: Sequence[ModelFacts]) -> dict[str, LiveModel]:
        """Return {name: model} for those of `models` that run in a page.

        If a program is missing, such as clang, there are none, and `problem` says which program.
        """
        try:
            FORMATS["wasm"].check_packages()
        except ZooError as error:
            self.problem = str(error)
            return {}
        jobs = [
            (m.name, kind, _key(m.name, m.entry))
            for m in models
            if (self.only is None or m.name in self.only)
            and (kind := kind_of(m.entry))
            and paths.path("cards", m.name, tensors.FILE).exists()
        ]
        ready = {job[0]: self._kept(*job) for job in jobs}
        missing = [job for job in jobs if ready[job[0]] is None]
        for done, ((name, kind, _), written) in enumerate(zip(missing, _compiled(missing), strict=True)):
            if self.report:
                self.report(done + 1, len(missing), name)
            ready[name] = _read(name, kind, *written)
        self.names = tuple(sorted(ready))
        return {name: model for name, model in ready.items() if model is not None}

    def _kept(self, name: str, kind: str, key: str) -> LiveModel | None:
        """Return the model `name` as an earlier build compiled it, or None if no build did with the digest `key` of `_key`."""
        try:
            script = (self.out / "live" / f"{name}.js").read_bytes()
            header = None if kind == "story" else (self.out / header_path(name)).read_bytes()
            model = _read(name, kind, script, header)
        except (OSError, ValueError, LookupError):
            return None
        digest = None if header is None else hashlib.sha256(header).hexdigest()
        return model if (model.data.get("key"), model.data.get("header")) == (key, digest) else None


def header_path(name: str) -> str:
    """Return the path, in the site, of the C header of the model `name`."""
    return f"files/{name}/{name}.h"


def _read(name: str, kind: str, script: bytes, header: bytes | None) -> LiveModel:
    data = json.loads(script[len(HEAD) : -len(");\n")])
    del data["wasm"]
    return LiveModel(name, kind, script, data, header)


def _key(name: str, entry: Entry) -> str:
    """Return a digest of all that a model's script depends on: its files, task, versions of rnnzoo, torch and clang, sources."""
    assert entry.weights is not None
    parts = [
        name,
        __version__,
        *(pinned.sha256 for _, pinned in sorted(entry.weights.files.items())),
        str(entry.config),
        str(entry.task),
        version("torch"),
        _sources(),
        _compiler(),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


SOURCES = ("cells", "exports", "networks", "publishing/site/live.py", "publishing/site/stories.py")
"""Files and folders of the package on which the scripts depend."""


@cache
def _sources() -> str:
    """Return a digest of the content of SOURCES."""
    package, digest = Path(str(resources("zoo"))), hashlib.sha256()
    for name in SOURCES:
        place = package / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.suffix in (".py", ".c", ".h", ".mjs"):
                digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@cache
def _compiler() -> str:
    """Return the first line that `clang --version` prints."""
    shown = subprocess.run(["clang", "--version"], capture_output=True, text=True).stdout
    return shown.partition("\n")[0]


def _compiled(jobs: Sequence[tuple[str, str, str]]) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield (script, C header) of every job, in order, as `_script` returns them. Several run at once if there are many.

    jobs: (name of the model, kind, digest `_key`) of each.
    """
    if len(jobs) < 4:
        yield from map(_script, jobs)
        return
    with ProcessPoolExecutor(min(WORKERS, cpu_count()), get_context("spawn"), _one_thread) as pool:
        yield from pool.map(_script, jobs)


def _one_thread() -> None:
    torch.set_num_threads(1)


@cache
def _node() -> Node:
    """The process of node that checks the modules of this process: starting one for each would take longer than the check."""
    return Node()


@torch.no_grad()
def _script(job: tuple[str, str, str]) -> tuple[bytes, bytes | None]:
    """Compile a model, and return its script and the C header that it is compiled from; no header for a story reader.

    job: as in `_compiled`. Raises ExportError.
    """
    name, kind, key = job
    checkpoint = resolve(Reference.parse(name))
    network = assemble(checkpoint, device="cpu")
    size = sum(p.numel() * 4 for p in network.parameters())
    quantize = None if size <= FLOAT_BYTES else "int8"
    steps = parts(network) if kind == "story" else {"": network}
    made = {**provenance(network.config, checkpoint.weights_sha256, quantize, "rnnzoo site"), "graph": "step"}
    with tempfile.TemporaryDirectory() as folder:
        modules: list[dict[str, Any]] = []
        for part, each in steps.items():
            written = Job(
                (quantized if quantize else frozen)(each).float(),
                "step",
                Path(folder) / "model.wasm",
                made,
                quantize=quantize,
            )
            gates = write_inspected(written, TRACES)
            try:
                check(WasmRuntime(written.path, each, node=_node()), written.network if quantize else each, "step")
            except ExportError as error:
                raise ExportError(f"{each.config.name} was not compiled for its page: {error}.") from error
            module = written.path.read_bytes()
            modules.append(
                {
                    "part": part,
                    "states": _states(each),
                    "gates": [asdict(gate) for gate in gates],
                    "code": _packed(module),
                    "bytes": len(module),
                }
            )
        header = None
        if kind != "story":
            write_header(replace(written, path=Path(folder) / "model.h"), TRACES)
            header = (Path(folder) / "model.h").read_bytes()
    task, interface = registry.load_registry().all_tasks[network.config.task], network.interface
    data: dict[str, Any] = {
        "name": name, "key": key, "kind": kind, "task": network.config.task, "quantize": quantize or "",
        "steps": interface.steps, "outputs": interface.outputs,
        "classes": list(network.classes) or [ahead_text(horizon) for horizon in task.horizons],
        "bytes": sum(module.pop("bytes") for module in modules), "header": header and hashlib.sha256(header).hexdigest(), "layout": task.layout,
        "horizons": list(task.horizons),
        "words": list(network.tokenizer.words) if network.tokenizer else [],
        "wasm": modules,
    }  # fmt: skip
    return f"{HEAD}{json.dumps(data, separators=(',', ':'), ensure_ascii=True)});\n".encode(), header


def _packed(module: bytes) -> str:
    """Return a WebAssembly module, compressed by deflate, as base64."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.b64encode(compressor.compress(module) + compressor.flush()).decode()


def _states(network: Any) -> list[dict[str, Any]]:
    """Return the position of every state in the array of states of the exported step.

    Each state is a dictionary: "layer", counted from 1; "name"; "offset", its first index; "size", its number of values.
    """
    found, offset = [], 0
    for layer, (states, module) in enumerate(zip(network.initial_state(1), network.layers, strict=False)):
        for name, state in zip(module.directions[0].states, states, strict=True):
            found.append({"layer": layer + 1, "name": name, "offset": offset, "size": state.numel()})
            offset += state.numel()
    return found
