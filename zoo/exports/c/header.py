"""One C header for a network: weights, a function for each kind of layer, NAME_init and NAME_step.

A network whose cell uses the time between inputs also has NAME_step_after, which takes that time.
"""

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

import torch
from torch import Tensor, nn

from ...errors import ExportError
from ...networks.network import NoHead
from ...networks.quantize import quantize_rows
from ...networks.recurrent import RecurrentNetwork
from ...networks.signature import signature
from ..base import Provenance
from ..graphs import takes_gaps
from .emission import LayerCode
from .gates import gates
from .operations import number
from .tracing import Trace, trace

Traces = dict[object, Trace]
"""The graphs of layers, by the architecture of their networks and the layers' signatures. Headers of several networks can
share them, if their configs say all about their equations: not if a program changed a cell of one of them."""
_ALIGNED = 64
"""Bytes in a cache line; the weights of every layer begin at a cache line."""
_ABOUT_GAPS = """
   RNN_step_after(&state, dt, {}, logits) does what RNN_step does where dt, a positive number, is the time since the
   input before. In RNN_step this time is 1.
"""
_PLAIN_STEP = """
static inline void RNN_step(RNN_state *state, %s, float *logits) {
    RNN_step_after(state, 1.0f, %s, logits);
}
"""


def identifier(name: str) -> str:
    """Return a model's name as a C identifier, such as star_16x64_pmnist."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    return plain if not plain[0].isdigit() else f"_{plain}"


@dataclass
class _Weights:
    """The C arrays of weights: RNN_weights of the `floats`, and RNN_integers of the `integers` of quantised matrices."""

    floats: list[Tensor]
    integers: list[Tensor]

    def places(self) -> tuple[int, int]:
        """Pad both arrays to a cache line, and return their lengths, (floats, integers): where the next weights begin."""
        self._fill(self.floats, _ALIGNED // 4)
        self._fill(self.integers, _ALIGNED)
        return sum(map(len, self.floats)), sum(map(len, self.integers))

    def address(self, quantized: bool) -> str:
        """Return the C arguments for the address of the weights that are added next; `quantized` as in `header`."""
        floats, integers = self.places()
        return f"RNN_integers + {integers}, RNN_weights + {floats}" if quantized else f"RNN_weights + {floats}"

    @staticmethod
    def _fill(parts: list[Tensor], multiple: int) -> None:
        if missing := -sum(map(len, parts)) % multiple:
            parts.append(torch.zeros(missing, dtype=parts[0].dtype))

    def add_matrix(self, matrix: Tensor, quantized: bool) -> None:
        """Add a matrix, (outputs, inputs), transposed; if `quantized`, its scales to `floats` and the rest to `integers`."""
        if not quantized:
            self.floats.append(matrix.T.flatten())
            return
        integers, scale = quantize_rows(matrix)
        self.floats.append(scale)
        self.integers.append(integers.T.flatten())


@dataclass(frozen=True)
class Place:
    """Where a gate lies in the array NAME_gates: `size` numbers from `offset` on. layer: from 1. name: one of Cell.inputs."""

    layer: int
    name: str
    offset: int
    size: int


@dataclass(frozen=True)
class Header:
    """The header of one network."""

    text: str
    stack: int
    """The bytes of numbers that a step keeps on the stack."""
    gates: list[Place]
    """Where NAME_gates holds each gate; empty if the header has no such array."""


def header(
    network: RecurrentNetwork, provenance: Provenance, quantized: bool, inspected: bool = False,
    folder: Path | None = None, traces: Traces | None = None,
) -> Header:  # fmt: skip
    """Return a network's header.

    network: dense, in one direction, its projections plain matrices, in float32 on the CPU. quantized: store matrices of
    parameters as 8-bit integers with a scale for each row; the parameters must be rounded to them already. inspected: a step
    also writes its gates, to the array NAME_gates. folder: write the weights to binary files there, which clang includes
    several times faster than it reads numbers, instead of into the text. traces: see Traces.

    Raises ExportError for a head that is not the linear map of the config, and for operations without a translation to C.
    """
    if not _has_own_head(network):
        raise ExportError(
            "its head is not the linear map of its config; replace a head by Network.reset_head, or export to onnx or pt2"
        )
    name, interface, weights = network.config.name, network.interface, _Weights([], [])
    functions, calls, states, places = _layers(network, weights, quantized, inspected, {} if traces is None else traces)
    if places:
        functions = f"\nstatic float RNN_gates[{places[-1].offset + places[-1].size}];\n{functions}"
    lines = [*_input_code(network, weights, quantized), *calls, *_readout(network, states), "if (!logits) return;"]
    lines += _head_code(network, weights, quantized)
    body = "\n".join(f"    {line}" for line in lines)
    values = states + (network.width + 1 if interface.readout == "mean" else 0)
    reads_tokens, takes = network.embedding is not None, takes_gaps(network)
    given = "token" if reads_tokens else "x"
    stack = _stack_bytes(functions, body)
    argument = "int32_t token" if reads_tokens else "const float *RNN_RESTRICT x"
    features = 1 if reads_tokens else interface.input[0]
    text = Template(_resource("header.h")).safe_substitute(  # without the provenance, which stays as it is
        name=name, bytes=f"{4 * values:,}", states=values, features=features, outputs=network.output_size,
        given=given, argument=argument, after="_after" * takes, gap="float dt, " * takes,
        about_gaps=_ABOUT_GAPS.format(given) if takes else "", plain_step=_PLAIN_STEP % (argument, given) if takes else "",
        stack=stack, size="a token" if reads_tokens else f"x, {features} number{'s' * (features > 1)},",
        kind="numbers, what a head would read," if isinstance(network.head, NoHead) else "logits, those",
        meaning="of this step" if interface.readout == "every" else "of the steps so far",
        operations=_operations(functions + body),
        arrays=_arrays(weights) if folder is None else _binary(weights, folder), functions=functions, body=body,
    )  # fmt: skip
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]  # else another header of this identifier would be skipped
    text = re.sub(r"\bRNN_H\b", f"RNN_H_{digest}", text).replace("RNN_", f"{identifier(name)}_")
    return Header(Template(text).substitute(provenance=_comment(provenance)), stack, places)


def _stack_bytes(functions: str, body: str) -> int:
    """Return the bytes of the arrays that a step has on the stack at once: those of its `body`, of the largest of `functions`, and
    the sums of an 8-bit product."""
    each = [_arrays_of(text) for text in re.split(r"\nstatic RNN_APART void ", functions)]
    sums = 4 * 64 + _ALIGNED if "RNN_product_int8(" in functions + body else 0
    return max(each) + _arrays_of(body) + sums


def _arrays_of(text: str) -> int:
    """Return the bytes of the arrays of floats that a C function declares."""
    return sum(
        4 * int(length) + _ALIGNED
        for length in re.findall(r"^    float (?:RNN_ALIGNED )?\w+\[(\d+)\];", text, re.MULTILINE)
    )


def _has_own_head(network: RecurrentNetwork) -> bool:
    """Return whether the head is that of the config: a linear map with a bias or, for 0 outputs, none."""
    head: nn.Module = network.head
    outputs = network.interface.outputs
    if not outputs:
        return type(head) is NoHead
    return type(head) is nn.Linear and head.bias is not None and head.out_features == outputs


def _head_code(network: RecurrentNetwork, weights: _Weights, quantized: bool) -> list[str]:
    """Return C lines that compute `logits` from `h`, the head's input: a copy without a head. Adds its parameters to `weights`."""
    width, outputs = network.width, network.interface.outputs
    if not outputs:
        return [f"for (i = 0; i < {width}; i++) logits[i] = h[i];"]
    matrix, (place, _) = weights.address(quantized), weights.places()
    weights.add_matrix(network.head.weight.detach(), quantized)
    bias = place + (outputs if quantized else outputs * width)
    weights.floats.append(network.head.bias.detach())
    return [
        f"for (i = 0; i < {outputs}; i++) logits[i] = RNN_weights[{bias} + i];",
        f"RNN_product{'_int8' * quantized}({matrix}, h, logits, {width}, {outputs});",
    ]


def _layers(
    network: RecurrentNetwork, weights: _Weights, quantized: bool, inspected: bool, traces: Traces
) -> tuple[str, list[str], int, list[Place]]:
    """Return C functions of the layers, C lines that call them, how many numbers all states have, and the gates' places.

    Adds the layers' weights to `weights`, and new graphs to `traces`. There are no places unless `inspected`.
    """
    equations = network.config.architecture.model_dump_json(exclude={"layers", "embedding"})
    codes: dict[object, tuple[Trace, LayerCode, str]] = {}  # layers of the same signature share one
    functions, states, numbers = "", 0, 0
    calls: list[str] = []
    places: list[Place] = []
    inputs = network.interface.input[0] if network.embedding is None else network.embedding.embedding_dim
    for depth, layer in enumerate(network.layers):
        key = signature(layer)
        if key not in codes:
            traced = traces.get((equations, key)) or trace(layer, network.width if depth else inputs)
            traces[equations, key] = traced
            written = gates(traced, layer) if inspected else []
            matrices = traced.learned() if quantized else set()
            code, name = LayerCode(traced, matrices, set(traced.constants(layer)), written), f"RNN_layer_{len(codes)}"
            functions += _function(name, code, quantized)
            codes[key] = traced, code, name
        traced, code, name = codes[key]
        place = weights.address(quantized)
        output = f"output + {network.width * (depth % 2)}" if code.has_output else f"s + {states}"
        arguments = [
            place,
            "h",
            f"s + {states}",
            *["&dt"] * (traced.dt is not None),
            *[output] * code.has_output,
            *[f"RNN_gates + {numbers}"] * bool(code.gates),
        ]
        calls += [f"{name}({', '.join(arguments)});", f"h = {output};"]
        for gate in code.gates:
            places.append(Place(depth + 1, gate.name, numbers, gate.size))
            numbers += gate.size
        values = traced.constants(layer)
        for node, is_matrix in code.layout:
            if is_matrix:
                weights.add_matrix(values[node].T, node in code.quantized)
            else:
                weights.floats.append(values[node].flatten())
        states += code.state_size
    has_output = any(code.has_output for _, code, _ in codes.values())
    return functions, ([f"float output[{2 * network.width}];"] if has_output else []) + calls, states, places


def _function(name: str, code: LayerCode, quantized: bool) -> str:
    integers = "const int8_t *RNN_RESTRICT q, " if quantized else ""
    output = ", float *RNN_RESTRICT y" if code.has_output else ""
    gaps = ", const float *RNN_RESTRICT dt" if code.trace.dt is not None else ""
    opened = ", float *RNN_RESTRICT g" if code.gates else ""
    after, written = " after the time dt" if gaps else "", ", and writes y" if output else ""
    what = f"reads {code.inputs} numbers x{after} and has the states s{written}"
    return (
        f"\n/* One step of a layer that {what}. */\nstatic RNN_APART void {name}(\n    {integers}"
        f"const float *RNN_RESTRICT w, const float *RNN_RESTRICT x, float *RNN_RESTRICT s{gaps}{output}{opened}) {{\n{code.text()}\n}}\n"
    )


def _input_code(network: RecurrentNetwork, weights: _Weights, quantized: bool) -> list[str]:
    """Return C lines after which `h` points to the first layer's input. Adds the embedding to `weights`."""
    if network.embedding is None:
        if network.mean_std == (0.0, 1.0):
            return ["h = x;"]
        mean, std = map(number, network.mean_std)
        count = network.interface.input[0]
        lines = [f"for (i = 0; i < {count}; i++) standard[i] = (x[i] - {mean}) / {std};", "h = standard;"]
        return [f"float standard[{count}];", *lines]
    table = network.embedding.weight.detach()
    count, width = table.shape
    floats, integers = weights.places()
    unknown = f"if (token < 0 || token >= {count}) token = 0; /* padding */"
    if not quantized:
        weights.floats.append(table.flatten())
        return [unknown, f"h = RNN_weights + {floats} + {width} * token;"]
    rows, scale = quantize_rows(table)
    weights.floats.append(scale)
    weights.integers.append(rows.flatten())
    entry = f"RNN_weights[{floats} + token] * (float)RNN_integers[{integers} + {width} * token + i]"
    return [f"float vector[{width}];", unknown, f"for (i = 0; i < {width}; i++) vector[i] = {entry};", "h = vector;"]


def _readout(network: RecurrentNetwork, states: int) -> list[str]:
    """Return C lines after which `h` points to the head's input.

    For the readout "mean" that is the running mean, whose sum and count follow the `states` numbers of the layers' states.
    Else there are no lines, since `h` is the last step's output already.
    """
    if network.interface.readout != "mean":
        return []
    width = network.width
    return [
        f"float mean[{width}];",
        f"s[{states + width}] += 1.0f; /* the number of steps */",
        f"for (i = 0; i < {width}; i++) {{",
        f"    s[{states} + i] += h[i];",
        f"    mean[i] = s[{states} + i] / s[{states + width}];",
        "}",
        "h = mean;",
    ]


def _comment(provenance: Provenance) -> str:
    """Return `provenance` as lines of a C comment, without what would end it or look like the begin of another."""
    text = "\n".join(f"   {key}: {value}" for key, value in provenance.items())
    return text.replace("*/", "* /").replace("/*", "/ *")


def _operations(code: str) -> str:
    """Return the C functions that the code of a step calls."""
    products = [f"product{suffix}.h" for suffix in ("", "_int8") if f"RNN_product{suffix}(" in code]
    return "".join(map(_resource, ["functions.h", *products]))


def _resource(name: str) -> str:
    return (files(__package__) / "native" / name).read_text()


def _arrays(weights: _Weights) -> str:
    integers = ", ".join(map(str, torch.cat(weights.integers).tolist())) if weights.integers else ""
    floats = ", ".join(_shortest(torch.cat(weights.floats)))
    text = f"static const int8_t RNN_ALIGNED RNN_integers[] = {{{_wrapped(integers)}}};\n" if integers else ""
    return f"{text}static const float RNN_ALIGNED RNN_weights[] = {{{_wrapped(floats)}}};"


def _binary(weights: _Weights, folder: Path) -> str:
    """Write the arrays of weights to files in `folder`, and return declarations that include these files for WebAssembly.

    The compiler has to run in `folder`. The numbers are little-endian, as WebAssembly's memory and all of our machines are.
    """
    lines = []
    for kind, name, parts in (("int8_t", "integers", weights.integers), ("float", "weights", weights.floats)):
        if parts:
            content = torch.cat(parts).numpy()
            (folder / name).write_bytes(content.tobytes())
            lines += [
                f'__asm__(".type RNN_{name}, @object\\n.section .rodata.RNN_{name}, \\"\\", @\\n.p2align 6\\n"',
                f'        "RNN_{name}:\\n.incbin \\"{name}\\"\\n.size RNN_{name}, {content.nbytes}\\n");',
                f"extern const {kind} RNN_{name}[{content.size}];",
            ]
    return "\n".join(lines)


def _shortest(values: Tensor) -> list[str]:
    """Return float literals of C, the shortest decimal numbers that are rounded to these float32 numbers."""
    texts = map(str, values.numpy())
    return [f"{text}f" for text in texts]


def _wrapped(text: str) -> str:
    """Return `text`, numbers separated by commas, in lines of ten numbers."""
    items = text.split(", ")
    return "\n" + ",\n".join(", ".join(items[i : i + 10]) for i in range(0, len(items), 10)) + "\n"
