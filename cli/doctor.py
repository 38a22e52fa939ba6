"""`rnnzoo doctor`: what works on this machine, what is missing, and how to get it. What may be broken is imported late."""

import importlib
import json
import os
import platform
import shutil
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any, Literal

from packaging.requirements import Requirement
from typer import Exit

from zoo import registry
from zoo.errors import ZooError, first_line
from zoo.utils import files, paths, provenance
from zoo.utils.text import counted
from zoo.utils.version import __version__

from .arguments import AsJson
from .output import columns, emit

PACKAGE = "rnnzoo"
WIDTH = 80
"""Width of the report, in characters."""


@dataclass(frozen=True)
class Finding:
    """The result of a check of `what`, such as "torch"; `found` says in words what was found there.

    status: "missing" if something optional or faster is absent, "broken" if something fails. fix: a command or advice that
    repairs it; "" if there is nothing to repair.
    """

    what: str
    found: str
    status: Literal["ok", "missing", "broken"] = "ok"
    fix: str = ""


def doctor(as_json: AsJson = False) -> None:
    """Show the devices, backends and extras on this machine, what is missing, and how to get it."""
    findings = examine()
    emit([asdict(finding) for finding in findings], as_json, report(findings))
    if any(finding.status == "broken" for finding in findings):
        raise Exit(1)


def report(findings: list[Finding]) -> str:
    """Return the findings as a table at most WIDTH characters wide (long paths may be wider), each fix below its finding."""
    margin = max(len(finding.what) for finding in findings) + 2
    room = WIDTH - margin - len("missing  ")
    wrapper = textwrap.TextWrapper(room, break_long_words=False, break_on_hyphens=False)
    rows: list[tuple[str, str, str]] = []
    for finding in findings:
        status = "" if finding.status == "ok" else finding.status
        lines = [*(wrapper.wrap(finding.found) or [""]), *(wrapper.wrap(f"-> {finding.fix}") if finding.fix else ())]
        rows += [(finding.what, status, lines[0]), *(("", "", line) for line in lines[1:])]
    return columns(("", "", "FOUND"), rows)


def examine() -> list[Finding]:
    """Return the findings of every check. This takes about as long as importing torch."""
    torch, processor = _import("torch"), f"{provenance.processor()}, {counted(os.cpu_count() or 1, 'core')}"
    findings = [Finding("python", platform.python_version()), _torch(torch), _rnnzoo(), _registry()]
    if isinstance(torch, Exception):
        findings.append(Finding("processor", processor))
    else:
        threads = (
            f"{counted(torch.get_num_threads(), 'thread')}, instructions {torch.backends.cpu.get_cpu_capability()}"
        )
        findings += [Finding("processor", f"{processor}, {threads}"), *_gpus(torch), _compiled(torch), _triton(torch)]
    return [*findings, *_extras(), _data(), _cache()]


def _import(name: str) -> Any:
    """Return the module called `name`, or the exception that its import raises."""
    try:
        return importlib.import_module(name)
    # absent; lacks a shared library; incompatible; misconfigured
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        return error


def _torch(torch: Any) -> Finding:
    if isinstance(torch, Exception):
        return Finding("torch", first_line(torch), "broken", "pip install --force-reinstall torch")
    return Finding("torch", torch.__version__)


def _distribution() -> Distribution | None:
    try:
        return distribution(PACKAGE)
    except PackageNotFoundError:
        return None


def _rnnzoo() -> Finding:
    folder = Path(__file__).resolve().parent
    if _distribution() is not None:
        return Finding(PACKAGE, f"{__version__}, {folder}")
    return Finding(PACKAGE, f"{__version__}, not installed, in {folder}", "missing", f"pip install -e {folder.parent}")


def _registry() -> Finding:
    path = paths.path("registry.yaml")
    try:
        return Finding("registry", f"{len(registry.models())} models, {path}")
    except ZooError as error:
        return Finding("registry", first_line(error), "broken", "correct the file, or unset RNNZOO_ROOT")


def _gpus(torch: Any) -> Iterator[Finding]:
    """Yield a finding for each CUDA device; else one for all accelerators of another type, or for why there is none."""
    with warnings.catch_warnings(record=True) as warned:  # torch warns if a driver is too old
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
        problem = f"an NVIDIA driver is installed, but torch {torch.__version__} is built without CUDA"
        yield Finding("gpu", problem, "missing", "install a CUDA build: https://pytorch.org/get-started/locally")
    else:
        yield Finding("gpu", f"none that torch can use{''.join(f' ({first_line(w.message)})' for w in warned[:1])}")  # type: ignore[arg-type]


def _compiled(torch: Any) -> Finding:
    """Return for which CPUs the fused and linear scans in C++ (loops over time steps) were built, and which build is used."""
    from zoo.networks.kernels import interface

    what, reinstall = "C++ scans", _reinstall_command()
    built = interface.libraries()
    if not built:
        problem = "not built: when rnnzoo was installed, there was no C++ compiler, or it was too old"
        return Finding(what, problem, "missing", f"install g++ and run {reinstall}")
    names = ", ".join(built)
    candidates = interface.candidates()
    usable = [kind for kind in candidates if kind in built]
    bfloat16_modes = []
    for kind in usable:
        try:
            bfloat16_modes.append(interface.open_library(built[kind]).rnnzoo_halves())
        except OSError as error:
            return Finding(what, first_line(error), "broken", reinstall)
    if not usable:
        return Finding(what, f"built: {names}; this processor can run none of them", "missing", reinstall)
    if usable[0] != candidates[0]:
        problem = f"{usable[0]} is used; {candidates[0]}, which is faster on this processor, was not built"
        return Finding(what, problem, "missing", f"install a newer g++ and run {reinstall}")
    mode = ("are computed in float32", "use bfloat16 instructions", "use the matrix unit")[bfloat16_modes[0]]
    return Finding(what, f"{usable[0]} is used; bfloat16 products {mode}; built: {names}")


def _reinstall_command() -> str:
    """Return the command that builds the C++ scans again."""
    installed = _distribution()
    origin = json.loads((installed and installed.read_text("direct_url.json")) or "{}")
    editable = origin.get("dir_info", {}).get("editable")
    target = f"-e {origin['url'].removeprefix('file://')}" if editable else PACKAGE
    return f"pip install --force-reinstall --no-deps {target}"


def _triton(torch: Any) -> Finding:
    """Return whether triton and a CUDA device are present, which the Triton scans (loops over time steps) need."""
    what, triton = "Triton scans", _import("triton")
    device = "a CUDA device" if torch.cuda.is_available() else "no CUDA device"
    if not isinstance(triton, Exception):
        return Finding(what, f"triton {triton.__version__}, {device}")
    if torch.cuda.is_available():
        return Finding(what, f"triton cannot be imported: {first_line(triton)}", "missing", "pip install triton")
    return Finding(what, f"{device}, no triton")


def _extras() -> Iterator[Finding]:
    package = _distribution()
    if package is None:
        return
    requirements = [Requirement(line) for line in package.requires or ()]
    for extra in package.metadata.get_all("Provides-Extra") or ():
        versions = {r.name: _suitable_version(r) for r in _requirements_of(extra, requirements)}
        missing = [name for name, installed in versions.items() if installed is None]
        present = ", ".join(f"{name} {installed}" for name, installed in versions.items() if installed is not None)
        if not missing:
            yield Finding(f"extra {extra}", present)
            continue
        text = "; ".join(filter(None, (present, f"not installed: {', '.join(missing)}")))
        yield Finding(f"extra {extra}", text, "missing", f"pip install '{PACKAGE}[{extra}]'")


def _requirements_of(extra: str, requirements: list[Requirement]) -> list[Requirement]:
    """Return those of `requirements` that the extra adds on this machine, including those of the extras that it requires.

    requirements: all requirements of the installed package.
    """
    required = []
    for r in requirements:
        if r.marker is None or r.marker.evaluate({"extra": ""}) or not r.marker.evaluate({"extra": extra}):
            continue
        if r.name == PACKAGE:
            required += [inner for name in sorted(r.extras) for inner in _requirements_of(name, requirements)]
        else:
            required.append(r)
    return required


def _suitable_version(requirement: Requirement) -> str | None:
    """Return the installed version of the required distribution; None if it is absent or the requirement excludes it."""
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        return None
    return installed if requirement.specifier.contains(installed, prereleases=True) else None


def _data() -> Finding:
    folder = os.environ.get("RNNZOO_DATA")
    if not folder:
        return Finding("data", f"RNNZOO_DATA is not set; datasets come from the package, {paths.data()} or the Hub")
    if not Path(folder).is_dir():
        fix = "create it, or set RNNZOO_DATA to the folder that has the datasets"
        return Finding("data", f"RNNZOO_DATA is {folder}, which is not a folder", "missing", fix)
    try:
        parts = sorted(part.name for part in Path(folder).iterdir() if part.is_dir())
    except OSError as error:
        return Finding("data", f"RNNZOO_DATA cannot be read: {error}", "broken", "check its permissions")
    return Finding("data", f"RNNZOO_DATA is {folder}, with {', '.join(parts) or 'no datasets'}")


def _cache() -> Finding:
    constants = _import("huggingface_hub.constants")
    if isinstance(constants, Exception):
        return Finding("cache", first_line(constants), "broken", "pip install --force-reinstall huggingface-hub")
    folder = Path(constants.HF_HUB_CACHE)
    offline = ", offline (HF_HUB_OFFLINE)" if constants.HF_HUB_OFFLINE else ""
    try:
        files.check_writable(folder)
    except OSError:
        return Finding("cache", f"{folder} is not writable{offline}", "missing", "set HF_HOME to a writable folder")
    return Finding("cache", f"{folder}{offline}")
