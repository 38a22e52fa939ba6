"""torch's own format, .pt2: an exported program for torch.export.load, for any batch size and any number of steps."""

import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import torch
from torch import Tensor

from ..networks.network import Network
from .base import Job
from .graph_runtime import GraphRuntime
from .graphs import graph

NOTE = "rnnzoo.json"
"""The name of the provenance within a file; torch.export.load(path, extra_files={NOTE: ""}) reads it."""


def write(job: Job) -> None:
    """Write the graph that a job describes."""
    described = graph(job.network, job.kind)
    note = {**job.provenance, "inputs": list(described.inputs), "outputs": list(described.outputs)}
    content = BytesIO()  # where a disk is full, torch's writer of files would abort the process
    torch.export.save(described.trace(), content, extra_files={NOTE: json.dumps(note, indent=1)})
    job.path.write_bytes(content.getvalue())


class PT2Runtime(GraphRuntime):
    """Runs a .pt2 file by torch."""

    def __init__(self, path: Path, network: Network, kind: str):
        super().__init__(network, kind)
        self.module = torch.export.load(BytesIO(path.read_bytes())).module()

    @torch.no_grad()
    def run(self, inputs: dict[str, Tensor]) -> Sequence[Tensor]:
        outputs = self.module(*inputs.values())
        return outputs if isinstance(outputs, tuple) else (outputs,)
