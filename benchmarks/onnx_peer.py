"""A stack of onnxruntime's LSTM or GRU with a head, for comparing the time of a step. Needs onnx and onnxruntime."""

from typing import Any

import torch
from torch import Tensor

from zoo.registry.schema import Config

GATES = {"LSTM": 4, "GRU": 3}
"""By ONNX operator: number of gates, each a block of rows in a weight."""


class OnnxNetwork:
    """A stack of LSTM or GRU operators with random weights, and a head, as one session of onnxruntime.

    It computes one time step at a call, as torch's `PeerNetwork` does. Denormal numbers are flushed to zero.
    """

    def __init__(self, operator: str, config: Config, threads: int):
        import onnxruntime

        spec = config.architecture
        self.states = ["h", "c"] if operator == "LSTM" else ["h"]
        self.names = [f"{state}{layer}" for layer in range(spec.layers) for state in self.states]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.set_denormal_as_zero", "1")
        content = _model(operator, config, self.states).SerializeToString()
        self.session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self.units = spec.units

    def step(
        self,
        x: Tensor,  # (batch, features)
        state: list[Any] | None,  # arrays of (1, batch, units)
    ) -> tuple[Any, list[Any]]:
        """Return (logits, new state): (batch, outputs), and a list of arrays as in `state`. state: None for zeros."""
        if state is None:
            state = [torch.zeros(1, len(x), self.units).numpy()] * len(self.names)
        feed = {"x": x.numpy()[None], **dict(zip(self.names, state, strict=True))}
        logits, *new_state = self.session.run(None, feed)
        return logits, new_state


def _model(operator: str, config: Config, states: list[str]) -> Any:
    """Return the ONNX model of a stack for one time step: x, (1, batch, features), and states of (1, batch, units)."""
    import onnx
    from onnx import helper, numpy_helper

    spec, units, gates = config.architecture, config.architecture.units, GATES[operator]
    width, outputs = config.interface.input[0], config.interface.outputs
    nodes, weights, inputs, results = [], [], [], []

    def weight(name: str, *shape: int) -> str:
        values = torch.empty(shape).uniform_(-(units**-0.5), units**-0.5)
        weights.append(numpy_helper.from_array(values.numpy(), name))
        return name

    def tensor(name: str, *shape: int | str) -> Any:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

    below = "x"
    for layer in range(spec.layers):
        parameters = [
            weight(f"W{layer}", 1, gates * units, width),
            weight(f"R{layer}", 1, gates * units, units),
            weight(f"B{layer}", 1, 2 * gates * units),
        ]
        before, after = [f"{state}{layer}" for state in states], [f"{state}{layer}_new" for state in states]
        attributes: Any = {"linear_before_reset": 1} if operator == "GRU" else {}
        arguments = [below, *parameters, "", *before]  # "" is the lengths, which are equal
        nodes.append(helper.make_node(operator, arguments, [f"y{layer}", *after], hidden_size=units, **attributes))
        nodes.append(helper.make_node("Squeeze", [f"y{layer}", "direction"], [f"x{layer}"]))
        inputs += [tensor(name, 1, "batch", units) for name in before]
        results += [tensor(name, 1, "batch", units) for name in after]
        below, width = f"x{layer}", units
    weights.append(numpy_helper.from_array(torch.tensor([1]).numpy(), "direction"))
    weights.append(numpy_helper.from_array(torch.tensor([0]).numpy(), "time"))
    nodes.append(helper.make_node("Squeeze", [below, "time"], ["top"]))
    nodes.append(
        helper.make_node("Gemm", ["top", weight("head", outputs, units), weight("bias", outputs)], ["logits"], transB=1)
    )
    graph = helper.make_graph(
        nodes, config.name, [tensor("x", 1, "batch", config.interface.input[0]), *inputs],
        [tensor("logits", "batch", outputs), *results], weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
