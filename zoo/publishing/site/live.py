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
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files as resources
from multiprocessing import cpu_count, get_context
from pathlib import Path
from typing import Any

from ...errors import ZooError
from ...exports.formats import FORMATS, why_not
from ...registry import Entry
from ...utils import paths
from ...utils.version import __version__
from .facts import ModelFacts

FLOAT_BYTES = 850_000
"""Weights up to this size stay float32; larger ones are rounded to 8 bits, so that a page stays small."""
KINDS = {"mnist": "digit", "adding": "adding", "babi": "story"}
"""What a visitor does with the models of a family of tasks; networks that read text are of the kind `text` or `writing`."""
HEAD = "zoo.load("
WORKERS = 4


@dataclass(frozen=True)
class LiveModel:
    """A model that runs in a page."""

    name: str
    kind: str
    script: bytes
    data: Mapping[str, Any]

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
    """Compiles steps to WebAssembly, on several processors, and keeps what an earlier build of the same folder compiled."""

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
        """Return the models that run in a page by name; none, with a `problem`, if a program is missing."""
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
            and paths.path("cards", m.name, "model.safetensors").exists()
        ]
        scripts = {job[0]: self._kept(*job) for job in jobs}
        missing = [job for job in jobs if scripts[job[0]] is None]
        for done, ((name, kind, _), script) in enumerate(zip(missing, _compiled(missing), strict=True)):
            if self.report:
                self.report(done + 1, len(missing), name)
            scripts[name] = _read(name, kind, script)
        self.names = tuple(sorted(scripts))
        return {name: model for name, model in scripts.items() if model is not None}

    def _kept(self, name: str, kind: str, key: str) -> LiveModel | None:
        """Return a model whose script an earlier build wrote from the same weights and sources."""
        path = self.out / "live" / f"{name}.js"
        try:
            model = _read(name, kind, path.read_bytes())
        except (OSError, ValueError, LookupError):
            return None
        return model if model.data.get("key") == key else None


def _read(name: str, kind: str, script: bytes) -> LiveModel:
    data = json.loads(script[len(HEAD) : -len(");\n")])
    del data["wasm"]
    return LiveModel(name, kind, script, data)


def _key(name: str, entry: Entry) -> str:
    """Return a digest of all that decides a script: the weights, the task, torch, the sources and the compiler."""
    assert entry.weights is not None
    parts = [
        name,
        __version__,
        entry.weights.files["model.safetensors"].sha256,
        str(entry.task),
        version("torch"),
        _sources(),
        _compiler(),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


SOURCES = ("cells", "exports", "networks", "publishing/site/live.py", "publishing/site/stories.py")
"""Files and folders of the package that decide what a script is."""


@cache
def _sources() -> str:
    """Return a digest of the sources that decide what a script is."""
    package, digest = Path(str(resources("zoo"))), hashlib.sha256()
    for name in SOURCES:
        place = package / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.suffix in (".py", ".c", ".h", ".mjs"):
                digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@cache
def _compiler() -> str:
    """Return the first line of what clang says of its version."""
    shown = subprocess.run(["clang", "--version"], capture_output=True, text=True).stdout
    return shown.partition("\n")[0]


def _compiled(jobs: Sequence[tuple[str, str, str]]) -> Iterator[bytes]:
    """Yield the script of every job: name, kind and key. Several run at once if there are many."""
    if len(jobs) < 4:
        yield from map(_script, jobs)
        return
    with ProcessPoolExecutor(min(WORKERS, cpu_count()), get_context("spawn"), _one_thread) as pool:
        yield from pool.map(_script, jobs)


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _script(job: tuple[str, str, str]) -> bytes:
    """Compile a model and return its script."""
    from ...checkpoints.references import Reference
    from ...checkpoints.sources import resolve
    from ...exports.writing import export
    from ...networks.pretrained import assemble

    name, kind, key = job
    checkpoint = resolve(Reference.parse(name))
    network = assemble(checkpoint, device="cpu")
    size = sum(p.numel() * 4 for p in network.parameters())
    quantize = None if size <= FLOAT_BYTES else "int8"
    from .stories import parts

    steps = parts(network) if kind == "story" else {"": network}
    with tempfile.TemporaryDirectory() as folder:
        modules: dict[str, dict[str, Any]] = {}
        for part, each in steps.items():
            (written,) = export(each, "wasm", out=folder, quantize=quantize, origin="rnnzoo site")
            modules[part] = {"wasm": written.path.read_bytes(), "states": _states(each)}
    entry_task, interface = network.config.task, network.interface
    data: dict[str, Any] = {
        "name": name, "key": key, "kind": kind, "task": entry_task, "quantize": quantize or "", "readout": interface.readout,
        "steps": interface.steps, "inputs": list(interface.input), "outputs": interface.outputs, "classes": list(network.classes),
        "bytes": sum(len(m["wasm"]) for m in modules.values()), "layout": _layout(entry_task),
        "words": list(network.tokenizer.words) if network.tokenizer else [],
        "wasm": [{"part": part, "states": m["states"], "code": _packed(m["wasm"])} for part, m in modules.items()],
    }  # fmt: skip
    return f"{HEAD}{json.dumps(data, separators=(',', ':'), ensure_ascii=True)});\n".encode()


def _layout(task: str) -> str:
    from ... import registry

    return registry.load_registry().all_tasks[task].layout


def _packed(module: bytes) -> str:
    """Return a module, compressed (deflate), as base64."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.b64encode(compressor.compress(module) + compressor.flush()).decode()


def _states(network: Any) -> list[dict[str, Any]]:
    """Return where the states of each layer lie in the array of the exported step: layer, name, offset and size."""
    found, offset = [], 0
    for layer, (states, module) in enumerate(zip(network.initial_state(1), network.layers, strict=False)):
        names = module.directions[0].states
        for place, state in enumerate(states):
            label = names[place] if place < len(names) else f"state {place + 1}"
            found.append({"layer": layer + 1, "name": label, "offset": offset, "size": state.numel()})
            offset += state.numel()
    return found
