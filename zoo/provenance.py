"""What computed a number: versions, device and command, for results.json."""

import datetime
import os
import platform
import shlex
import sys

import torch

from . import __version__


def versions() -> dict[str, str]:
    return {"rnnzoo": __version__, "torch": torch.__version__, "python": platform.python_version()}


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def command() -> str:
    """The command line of this process, without the path of the program."""
    program = os.path.basename(sys.argv[0])
    return shlex.join(["rnnzoo" if program == "__main__.py" else program, *sys.argv[1:]])


def today() -> str:
    """The date in UTC, ISO 8601."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()
