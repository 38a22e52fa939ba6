"""What computed a number: versions, machine, device and command, for results.json and the benchmarks."""

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
    import torch

    return {"rnnzoo": __version__, "torch": torch.__version__, "python": platform.python_version()}


def device_name(device: "torch.device") -> str:
    """Of a GPU its model, of a CPU also the instructions that torch takes it for having: sums are rounded by them."""
    import torch

    if device.type == "cpu":
        return f"cpu ({torch.backends.cpu.get_cpu_capability()})"
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def processor() -> str:
    """The processor's name as the system gives it; works where torch does not."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(errors="replace").splitlines() if info.exists() else []
    named = (line.partition(": ")[2] for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def command() -> str:
    """The command line of this process, without what only its machine has: an absolute path is one in runs/, where
    `rnnzoo train` leaves what it makes, so that a folder is not taken for a name of the registry."""

    def shortened(argument: str) -> str:
        option, equals, value = argument.partition("=") if argument.startswith("-") else ("", "", argument)
        if os.path.isabs(value):
            value = os.path.join("runs", os.path.basename(os.path.normpath(value)))
        return f"{option}{equals}{value}"

    program = os.path.basename(sys.argv[0])
    return shlex.join(["rnnzoo" if program == "__main__.py" else program, *map(shortened, sys.argv[1:])])


def today() -> str:
    """The date in UTC, ISO 8601."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()
