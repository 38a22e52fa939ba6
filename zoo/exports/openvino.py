"""OpenVINO's intermediate representation: NAME.xml, and NAME.bin with the weights. It is converted from an ONNX file."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from ..networks.network import Network
from . import onnx
from .base import Job
from .graph_runtime import GraphRuntime


def write(job: Job) -> None:
    """Write the graph that a job describes, with weights in float32. Inputs have no default values.

    GRU, LSTM and RNN become Scans, not operators: from an operator, OpenVINO 2026.4 returns wrong final states of sequences that
    are shorter than x, and of two directions a wrong last output.
    """
    import openvino

    source = job.path.with_suffix(".onnx")
    onnx.write(replace(job, path=source), optional=False, operators=False)
    try:
        model = openvino.convert_model(source)
    finally:
        source.unlink(missing_ok=True)
    for key, value in job.provenance.items():
        model.set_rt_info(value, ["rnnzoo", key])
    openvino.save_model(model, job.path, compress_to_fp16=False)


class OpenVINORuntime(GraphRuntime):
    """Runs a file of OpenVINO by its CPU plugin in float32."""

    def __init__(self, path: Path, network: Network, kind: str):
        import openvino

        super().__init__(network, kind)
        precise = {"INFERENCE_PRECISION_HINT": "f32"}  # else bfloat16, on processors that have it
        self.model = openvino.Core().compile_model(path, "CPU", precise)

    def run(self, inputs: dict[str, Tensor]) -> Sequence[Tensor]:
        results = self.model({name: tensor.numpy() for name, tensor in inputs.items()})
        return [torch.from_numpy(results[name].copy()) for name in self.outputs]
