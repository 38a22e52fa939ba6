"""What computed a number: versions, machine, device, command and date, for results.json and the benchmarks."""

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
    """Return the versions of rnnzoo, torch and Python."""
    import torch

    return {"rnnzoo": __version__, "torch": torch.__version__, "python": platform.python_version()}


def device_name(device: "torch.device") -> str:
    """Return a GPU's model, or `cpu` with the instruction set that torch uses, on which the rounding of sums depends."""
    import torch

    if device.type == "cpu":
        return f"cpu ({torch.backends.cpu.get_cpu_capability()})"
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def processor() -> str:
    """Return the processor's name as the system gives it, without torch."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.exists() else []
    names = (line.partition(": ")[2] for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def command() -> str:
    """Return the command line of this process without the folders of its machine.

    An absolute path becomes runs/ and its last part, where `rnnzoo train` writes by default; the last part alone could be
    taken for a model's name.
    """

    def portable(argument: str) -> str:
        option, equals, value = argument.partition("=") if argument.startswith("-") else ("", "", argument)
        if os.path.isabs(value):
            value = os.path.join("runs", os.path.basename(os.path.normpath(value)))
        return f"{option}{equals}{value}"

    program = os.path.basename(sys.argv[0])
    return shlex.join(["rnnzoo" if program == "__main__.py" else program, *map(portable, sys.argv[1:])])


def today() -> str:
    """Return the date in UTC, ISO 8601."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()
