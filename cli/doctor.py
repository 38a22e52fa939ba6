"""What of rnnzoo works on this machine, what is missing, and how to get it. Imports nothing that could be broken."""

import importlib
import json
import os
import platform
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import Requirement

from zoo import registry
from zoo.errors import ZooError, first_line
from zoo.utils import paths, provenance
from zoo.utils.version import __version__

PACKAGE = "rnnzoo"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for.

    missing: something optional, or a faster way, is not there. broken: something is there that should work and does not.
    """

    what: str
    found: str
    status: Literal["ok", "missing", "broken"] = "ok"
    fix: str = ""


def examine() -> list[Finding]:
    """Everything there is to say about this machine; takes about as long as importing torch."""
    torch = _import("torch")
    found = [Finding("python", platform.python_version()), *_torch(torch), _rnnzoo(), _registry()]
    found.append(Finding("processor", ", ".join([provenance.processor(), f"{os.cpu_count()} cores", *_cpu(torch)])))
    if not isinstance(torch, Exception):
        found += [*_gpus(torch), _compiled(torch), _triton(torch)]
    return [*found, *_extras(), _data(), _cache()]


def _import(name: str) -> Any:
    """The module, or the exception it raises when it is imported."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError, RuntimeError) as error:  # not there; a shared library is not there; it does not fit
        return error


def _torch(torch: Any) -> Iterator[Finding]:
    if isinstance(torch, Exception):
        yield Finding("torch", first_line(torch), "broken", "pip install --force-reinstall torch")
    else:
        yield Finding("torch", torch.__version__)


def _distribution() -> Distribution | None:
    try:
        return distribution(PACKAGE)
    except PackageNotFoundError:
        return None


def _rnnzoo() -> Finding:
    folder = Path(__file__).resolve().parent
    if _distribution() is None:
        return Finding(
            PACKAGE, f"{__version__}, not installed, in {folder}", "missing", f"pip install -e {folder.parent}"
        )
    return Finding(PACKAGE, f"{__version__}, {folder}")


def _registry() -> Finding:
    path = paths.path("registry.yaml")
    try:
        return Finding("registry", f"{len(registry.models())} models, {path}")
    except ZooError as error:
        return Finding("registry", first_line(error), "broken", "mend it, or unset RNNZOO_ROOT")


def _cpu(torch: Any) -> list[str]:
    if isinstance(torch, Exception):
        return []
    return [f"{torch.get_num_threads()} threads", f"instructions {torch.backends.cpu.get_cpu_capability()}"]


def _gpus(torch: Any) -> Iterator[Finding]:
    """The accelerators that torch can use, or why it cannot use one that is there."""
    with warnings.catch_warnings(record=True) as warned:  # how torch says that a driver is too old
        warnings.simplefilter("always")
        try:
            kind = torch.accelerator.current_accelerator(check_available=True)
            count = torch.accelerator.device_count() if kind is not None else 0
            properties = [torch.cuda.get_device_properties(i) for i in range(count) if kind.type == "cuda"]
        except (RuntimeError, AssertionError) as error:
            yield Finding("gpu", first_line(error), "broken", "check the driver: nvidia-smi")
            return
    if properties:
        for i, gpu in enumerate(properties):
            yield Finding(f"cuda:{i}", f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}")
    elif kind is not None:
        yield Finding("gpu", f"{count} of type {kind.type}")
    elif shutil.which("nvidia-smi") and torch.version.cuda is None:
        fix = "install a CUDA build: https://pytorch.org/get-started/locally"
        yield Finding("gpu", f"NVIDIA's driver is here, but torch {torch.__version__} is without CUDA", "missing", fix)
    else:
        yield Finding("gpu", f"none that torch can use{''.join(f' ({first_line(w.message)})' for w in warned[:1])}")  # type: ignore[arg-type]


def _compiled(torch: Any) -> Finding:
    """The fused scans for CPUs: which were built, and which one is used."""
    from zoo.networks.kernels import interface

    what, again = "CPU scans", _reinstall()
    built, processor = interface.libraries(), torch.backends.cpu.get_cpu_capability()
    if not built:
        why = "not built: no C++ compiler was found when rnnzoo was installed, or the one found is too old"
        return Finding(what, why, "missing", f"install g++ and run {again}")
    names = ", ".join(built)
    candidates = interface.LIBRARIES.get(processor, ("generic",))
    usable = [kind for kind in candidates if kind in built]
    means = []
    for kind in usable:
        try:
            means.append(interface.open_library(built[kind]).rnnzoo_halves())
        except OSError as error:
            return Finding(what, first_line(error), "broken", again)
    if not usable:
        return Finding(what, f"built: {names}; this processor runs none of them", "missing", again)
    if usable[0] != candidates[0]:
        why = f"{usable[0]} is used; {candidates[0]}, which this processor runs faster, was not built"
        return Finding(what, why, "missing", f"install a newer g++ and run {again}")
    halves = ("rounded beforehand", "by instructions of their own", "in the matrix unit")[means[0]]
    return Finding(what, f"{usable[0]} is used, products of bfloat16 {halves}; built: {names}")


def _reinstall() -> str:
    """The command that builds the compiled scans again."""
    found = _distribution()
    origin = json.loads((found and found.read_text("direct_url.json")) or "{}")
    editable = origin.get("dir_info", {}).get("editable")
    target = f"-e {origin['url'].removeprefix('file://')}" if editable else PACKAGE
    return f"pip install --force-reinstall --no-deps {target}"


def _triton(torch: Any) -> Finding:
    """What the fused scans for GPUs need: triton, and a GPU of NVIDIA's."""
    what, triton = "Triton scans", _import("triton")
    device = "a CUDA device" if torch.cuda.is_available() else "no CUDA device"
    if not isinstance(triton, Exception):
        return Finding(what, f"triton {triton.__version__}, {device}")
    if torch.cuda.is_available():
        return Finding(what, f"triton cannot be imported: {first_line(triton)}", "missing", "pip install triton")
    return Finding(what, f"{device}, no triton")


def _extras() -> Iterator[Finding]:
    """The optional dependencies, as the installed package declares them."""
    found = _distribution()
    if found is None:
        return
    requirements = [Requirement(line) for line in found.requires or ()]
    for extra in found.metadata.get_all("Provides-Extra") or ():
        state = {r.name: _installed(r) for r in _wanted(requirements, extra)}
        lacking = [name for name, there in state.items() if there is None]
        have = ", ".join(f"{name} {there}" for name, there in state.items() if there is not None)
        if lacking:
            text = "; ".join(filter(None, (have, f"not installed: {', '.join(lacking)}")))
            yield Finding(f"extra {extra}", text, "missing", f"pip install '{PACKAGE}[{extra}]'")
        else:
            yield Finding(f"extra {extra}", have)


def _wanted(requirements: list[Requirement], extra: str) -> list[Requirement]:
    """What an extra asks for here; one that names other extras asks for what they do."""
    found = []
    for r in requirements:
        if r.marker is None or r.marker.evaluate({"extra": ""}) or not r.marker.evaluate({"extra": extra}):
            continue
        inner = [r] if r.name != PACKAGE else [w for name in sorted(r.extras) for w in _wanted(requirements, name)]
        found += inner
    return found


def _installed(requirement: Requirement) -> str | None:
    """The version of a distribution, if it is there and new enough."""
    try:
        found = version(requirement.name)
    except PackageNotFoundError:
        return None
    return found if requirement.specifier.contains(found, prereleases=True) else None


def _data() -> Finding:
    folder = os.environ.get("RNNZOO_DATA")
    if not folder:
        return Finding("data", f"RNNZOO_DATA is not set: datasets come from the package, {paths.data()} or the Hub")
    if not Path(folder).is_dir():
        fix = "make it, or set RNNZOO_DATA to the folder that has the datasets"
        return Finding("data", f"RNNZOO_DATA is {folder}, which is not a folder", "missing", fix)
    try:
        parts = sorted(part.name for part in Path(folder).iterdir() if part.is_dir())
    except OSError as error:
        return Finding("data", f"RNNZOO_DATA cannot be read: {error}", "broken", "check its permissions")
    return Finding("data", f"RNNZOO_DATA is {folder}, with {', '.join(parts) or 'nothing in it'}")


def _cache() -> Finding:
    constants = _import("huggingface_hub.constants")
    if isinstance(constants, Exception):
        return Finding("cache", first_line(constants), "broken", "pip install --force-reinstall huggingface-hub")
    folder = Path(constants.HF_HUB_CACHE)
    parent = next(path for path in (folder, *folder.parents) if path.exists())
    offline = ", offline (HF_HUB_OFFLINE)" if constants.HF_HUB_OFFLINE else ""
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        return Finding("cache", f"{folder} cannot be written{offline}", "missing", "set HF_HOME to a folder that can")
    return Finding("cache", f"{folder}{offline}")
