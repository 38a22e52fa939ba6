"""Describes what computed a number, for results.json and the benchmarks: versions, machine, device, command and date."""

import datetime
import os
import platform
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .version import __version__

if TYPE_CHECKING:
    import torch


def versions() -> dict[str, str]:
    """Return the versions of rnnzoo, torch and Python by name."""
    import torch

    return {"rnnzoo": __version__, "torch": torch.__version__, "python": platform.python_version()}


def device_name(device: "torch.device") -> str:
    """Return a GPU's model, or `cpu` with the vector instructions that torch uses, because rounding depends on them."""
    import torch

    if device.type == "cpu":
        return f"cpu ({torch.backends.cpu.get_cpu_capability()})"
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def processor() -> str:
    """Return the processor's name as the system gives it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.exists() else []
    names = (line.partition(": ")[2] for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def command() -> str:
    """Return the command line of this process, with `runs/LAST` for every absolute path, where LAST is the path's last part.

    The record then names no folder of this machine. Without `runs/`, LAST could be taken for the name of a model.
    """

    def portable(argument: str) -> str:
        option, equals, value = argument.partition("=") if argument.startswith("-") else ("", "", argument)
        if os.path.isabs(value):
            value = os.path.join("runs", os.path.basename(os.path.normpath(value)))
        return f"{option}{equals}{value}"

    program = os.path.basename(sys.argv[0])
    line = shlex.join(["rnnzoo" if program == "__main__.py" else program, *map(portable, sys.argv[1:])])
    return line.encode(errors="replace").decode()  # the name of a file may be no UTF-8


def today() -> str:
    """Return today's date in UTC, such as 2026-01-31."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()
