"""What the benchmarks share: the least time of a call, and the versions of the programs that are compared."""

import math
import shutil
import subprocess
import time
from collections.abc import Callable
from importlib import metadata


def least(run: Callable[[], object], rounds: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the least seconds of a call over `rounds` calls, by a clock that returns seconds."""
    best = math.inf
    for _ in range(rounds):
        began = clock()
        run()
        best = min(best, clock() - began)
    return best


def versions(programs: list[str]) -> dict[str, str]:
    """Return {program: version} of Python packages, and of commands that know --version. What is not installed is left out."""
    found = {}
    for program in programs:
        try:
            found[program] = metadata.version(program)
        except metadata.PackageNotFoundError:
            if shutil.which(program):
                answer = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
                found[program] = answer.splitlines()[0].strip()
    return found
