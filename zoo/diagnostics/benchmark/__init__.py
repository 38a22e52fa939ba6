"""Time networks side by side: rnnzoo's, other libraries' of the same depth and width, and the bare matrix products.

Every contender runs in a process of its own, because rnnzoo flushes denormal numbers to zero in the process that builds
a network and other libraries do not; theirs are measured with that setting ("flushed") or without it. The processes
take turns, one pass at a time, so that other load on the machine affects all of them alike. A time is the median over
the rounds after one warm-up. Memory is the peak of the process, or on a GPU of its allocations, minus its peak before
the first pass.
"""

from .contenders import (
    PEERS,
    TORCHRECURRENT,
    Contender,
    Workload,
    counterpart,
    in_bfloat16,
    installed,
    missing_peers,
    ours,
    peers,
    products,
    stack,
)
from .measuring import Measurement, machine, measure
from .passes import FORWARD, PASSES, STREAMING, TRAINING, failure

__all__ = [
    "FORWARD", "PASSES", "PEERS", "STREAMING", "TORCHRECURRENT", "TRAINING", "Contender", "Measurement", "Workload",
    "counterpart", "failure", "in_bfloat16", "installed", "machine", "measure", "missing_peers", "ours", "peers",
    "products", "stack",
]  # fmt: skip
