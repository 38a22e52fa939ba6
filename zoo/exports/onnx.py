"""ONNX: the operators LSTM, GRU and RNN where they compute the cell's equations, and the operator Scan for all others."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

from ..networks.network import Network
from ..networks.quantize import LARGEST
from ..utils.version import __version__
from .base import Job
from .graph_runtime import GraphRuntime
from .graphs import Graph, graph
from .onnx_operators import use_operators

DEFAULT_OPSET = 20
DOUBLE = 11
"""TensorProto.DOUBLE of ONNX."""
SMALLEST = 256
"""Matrices of fewer numbers stay in float32 in a file of 8-bit weights."""


def write(job: Job, optional: bool = True, operators: bool = True) -> None:
    """Write the graph that a job describes.

    optional: whether lengths, dt and states can be left out, for full lengths, ones and zero states. Runtimes that do not know
    inputs with default values need optional=False. operators: whether layers become ONNX's LSTM, GRU and RNN where they can.
    """
    network = copy.deepcopy(job.network)
    if operators and job.kind == "sequence":
        use_operators(network)
    write_graph(graph(network, job.kind), job, optional)


def write_graph(described: Graph, job: Job, optional: bool = True) -> None:
    """Write the graph `described` to the path of a job, with the job's settings. optional: as for `write`."""
    import onnx_ir

    program = torch.onnx.export(
        described.trace(), (), input_names=list(described.inputs), output_names=list(described.outputs),
        opset_version=job.opset or DEFAULT_OPSET, verbose=False,
        custom_translation_table=EXACT,
    )  # fmt: skip
    assert program is not None
    model = program.model
    model.producer_name, model.producer_version = "rnnzoo", __version__
    model.metadata_props.update(job.provenance)
    _clean(model.graph)
    if job.quantize:
        _store_integers(model.graph)
    if optional:
        for value in list(model.graph.inputs)[1:]:
            example = described.inputs[str(value.name)]
            if value.name != "lengths" or example.dim() == 1:  # a story reader needs its lengths
                _make_optional(model.graph, value, example)
    onnx_ir.save(model, job.path)


def _operators() -> Any:
    """Return the operators of ONNX as functions."""
    from onnxscript import opset18

    return opset18


def _expm1(x: Any) -> Any:
    """Return e^x - 1 as tanh(x / 2) (e^x + 1). torch's own translation, Exp and Sub, loses all digits of a small x."""
    of = _operators()
    return of.Mul(of.Tanh(of.Mul(x, 0.5)), of.Add(of.Exp(x), 1.0))


def _sigmoid(x: Any) -> Any:
    """Return 1 / (1 + e^-x), which is more exact than onnxruntime's Sigmoid."""
    of = _operators()
    return of.Reciprocal(of.Add(of.Exp(of.Neg(x)), 1.0))


def _tanh(x: Any) -> Any:
    """Return tanh(x), computed in float64."""
    of = _operators()
    return of.CastLike(of.Tanh(of.Cast(x, to=DOUBLE)), x)


def _log_sigmoid(x: Any) -> Any:
    """Return log(sigmoid(x)), computed in float64; below -80 it is x, because the sigmoid would soon be 0 in float32."""
    of = _operators()
    wide = of.Cast(of.Max(x, -80.0), to=DOUBLE)
    logarithm = of.Log(of.Reciprocal(of.Add(of.Exp(of.Neg(wide)), of.CastLike(1.0, wide))))
    return of.Add(of.CastLike(logarithm, x), of.Min(of.Add(x, 80.0), 0.0))


EXACT: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.ops.aten.expm1.default: _expm1,
    torch.ops.aten.log_sigmoid.default: _log_sigmoid,
    torch.ops.aten.sigmoid.default: _sigmoid,
    torch.ops.aten.tanh.default: _tanh,
}
"""Translations of functions that recurrences repeat. onnxruntime's own in float32 are less exact than torch's, and every step
of a sequence adds to the error."""


def _clean(onnx_graph: Any) -> None:
    """Name the dynamic dimensions batch and time, and remove metadata about the Python code that was traced."""
    import onnx_ir

    free = {str(d): name for d, name in zip(onnx_graph.inputs[0].shape, ("batch", "time"), strict=False)}
    nodes = list(onnx_graph.all_nodes())
    values = [*onnx_graph.inputs, *(value for node in nodes for value in node.outputs)]
    values += [value for node in nodes for inner in node.attributes.values() if inner.type == onnx_ir.AttributeType.GRAPH
               for value in inner.value.inputs]  # fmt: skip
    for value in values:
        value.metadata_props.clear()
        if value.shape is not None:
            value.shape = onnx_ir.Shape([free.get(str(d), d) for d in value.shape])
    for node in nodes:
        node.metadata_props.clear()


def _make_optional(onnx_graph: Any, value: Any, example: Tensor) -> None:
    """Give the input `value` a default: all steps of x for lengths, ones for dt, else zeros. example: the traced example.

    The default is that of one sequence, and of one step of dt; nodes that are added to the graph expand it to those of x.
    """
    import onnx_ir

    name, x, is_lengths = value.name, onnx_graph.inputs[0], value.name == "lengths"
    shared = example.dim() if name == "dt" else 1  # dimensions that are those of x: batch, or batch and time
    filling = numpy.iinfo(numpy.int64).max if is_lengths else int(name == "dt")
    default = numpy.full((*[1] * shared, *example.shape[shared:]), filling, dtype=example.numpy().dtype)
    free = [f"{name}_{axis}" for axis in ("batch", "time")[:shared]]
    given = onnx_ir.Value(
        name=name, shape=onnx_ir.Shape([*free, *example.shape[shared:]]), type=value.type,
        const_value=onnx_ir.tensor(default, name=name),
    )  # fmt: skip
    batch = onnx_ir.node("Shape", [x], {"start": 0, "end": shared})
    rest = onnx_ir.node("Constant", [], {"value": onnx_ir.tensor(list(example.shape[shared:]), onnx_ir.DataType.INT64)})
    size = onnx_ir.node("Concat", [batch.outputs[0], rest.outputs[0]], {"axis": 0})
    nodes = [batch, rest, size, onnx_ir.node("Expand", [given, size.outputs[0]])]
    onnx_graph.insert_before(onnx_graph.node(0), nodes)
    onnx_ir.convenience.replace_all_uses_with(value, nodes[-1].outputs[0])
    onnx_graph.inputs[list(onnx_graph.inputs).index(value)] = given
    onnx_graph.register_initializer(given)


def _store_integers(onnx_graph: Any) -> None:
    """Store each matrix that was rounded to 8 bits as integers and scales, and add nodes that multiply the two."""
    import onnx_ir

    for name, value in list(onnx_graph.initializers.items()):
        matrix = value.const_value.numpy()
        if matrix.dtype != numpy.float32 or sum(n > 1 for n in matrix.shape) < 2 or matrix.size < SMALLEST:
            continue
        for axis in range(matrix.ndim):  # rows of the weight; torch may have stored the matrix transposed
            others = tuple(i for i in range(matrix.ndim) if i != axis)
            scale = abs(matrix).max(others, keepdims=True) / LARGEST
            scale[scale == 0] = 1
            integers = numpy.rint(matrix / scale)
            if abs(integers * scale - matrix).max() <= 1e-6 * abs(matrix).max():
                break
        else:
            continue
        stored = [
            onnx_ir.val(f"{name}_{part}", const_value=onnx_ir.tensor(array, name=f"{name}_{part}"))
            for part, array in (("integers", integers.astype(numpy.int8)), ("scale", scale))
        ]
        cast = onnx_ir.node("Cast", [stored[0]], {"to": onnx_ir.DataType.FLOAT})
        product = onnx_ir.node("Mul", [cast.outputs[0], stored[1]])
        first = onnx_graph.node(0)
        onnx_graph.insert_before(first, [cast, product])
        onnx_ir.convenience.replace_all_uses_with(value, product.outputs[0])
        del onnx_graph.initializers[name]
        for each in stored:
            onnx_graph.register_initializer(each)


class ONNXRuntime(GraphRuntime):
    """Runs an ONNX file by onnxruntime on the CPU."""

    def __init__(self, path: Path, network: Network, kind: str):
        import onnxruntime

        super().__init__(network, kind)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # no warning of inputs with default values
        self.session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])

    def run(self, inputs: dict[str, Tensor]) -> Sequence[Tensor]:
        outputs = self.session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
        return [torch.from_numpy(output) for output in outputs]
