"""ExecuTorch's .pte, for phones and embedded devices: the scan as torch exports it, on the portable kernels."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ..networks.network import Network
from .base import Job
from .graph_runtime import GraphRuntime
from .graphs import graph

MOST_STEPS = 1000
"""A file takes sequences of up to this many steps, or up to the task's length if that is longer. ExecuTorch reserves memory for
the longest sequence."""


def write(job: Job) -> None:
    """Write the graph of a job for a batch of one sequence, of at most MOST_STEPS steps or the task's length if longer."""
    from executorch.exir import EdgeCompileConfig, to_edge

    most = max(job.network.interface.steps, MOST_STEPS)
    described = graph(job.network, job.kind, single=True, most=most)
    # a file has no place for metadata, but for methods that return a constant
    notes = {f"rnnzoo_{key}": value for key, value in job.provenance.items()}
    loose = EdgeCompileConfig(_check_ir_validity=False)  # the scan is not one of the core operators
    program = to_edge(described.trace(), constant_methods=notes, compile_config=loose).to_executorch()
    job.path.write_bytes(program.buffer)


class ExecuTorchRuntime(GraphRuntime):
    """Runs a .pte file by ExecuTorch's runtime for Python."""

    def __init__(self, path: Path, network: Network, kind: str):
        from executorch.runtime import Runtime

        super().__init__(network, kind)
        self.method = Runtime.get().load_program(path).load_method("forward")

    def run(self, inputs: dict[str, Tensor]) -> Sequence[Tensor]:
        rows = [self._row([t[i : i + 1].contiguous() for t in inputs.values()]) for i in range(len(inputs["x"]))]
        return [torch.cat(outputs) for outputs in zip(*rows, strict=True)]

    def _row(self, inputs: list[Tensor]) -> list[Tensor]:
        """Return copies of the outputs for one sequence. inputs: each of a batch of one."""
        return [output.clone() for output in self.method.execute(inputs)]
