"""Translates the graph of a layer's step to a C function: calls for matrix products, elementwise loops for the rest."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from math import prod
from typing import cast

import torch
from torch import Tensor, fx

from ...errors import ExportError
from ..graphs import is_item
from .gates import Gate
from .nests import broadcast, contiguous, nest
from .operations import formula, number
from .statements import Call, Entrywise, Ref, Value, at, body, copy, cut, total, zeros
from .tracing import ATEN, VIEWS, Trace, named_arguments, size


@dataclass
class LayerCode:
    """The C function of one step of a layer, translated from the graph `trace`, and the weights that the function reads.

    quantized: the matrices that products read as 8-bit integers. constants: the nodes that depend on weights alone; their values
    are stored as weights. steps: the statements of the function. buffers: the lengths of the local arrays by name. vectors:
    where each weight that is no matrix of a product lies in the argument w. floats, integers: how many numbers w and q have.
    """

    trace: Trace
    quantized: set[fx.Node]
    constants: set[fx.Node]
    gates: Sequence[Gate] = ()
    """Gates whose values the function also writes, one gate after the other, to its argument g."""
    steps: list[Entrywise | Call] = field(default_factory=list)
    buffers: dict[str, int] = field(default_factory=dict)
    layout: list[tuple[fx.Node, bool]] = field(default_factory=list)
    """The nodes of the weights in their order in memory; True marks a matrix, (inputs, outputs), of a product."""
    vectors: dict[fx.Node, Ref] = field(default_factory=dict)
    matrices: dict[fx.Node, str] = field(default_factory=dict)
    """By matrix of a product: the C expression for its address or, of 8-bit integers, for those of the integers and their scales."""
    floats: int = 0
    integers: int = 0

    def __post_init__(self) -> None:
        given = {"x": self.trace.x, "dt": self.trace.dt}
        self._values: dict[fx.Node, Value | list[Value]] = {n: (Ref(k, 0, size(n)),) for k, n in given.items() if n}
        sizes = [size(node) for node in self.trace.states]
        for node, offset, length in zip(self.trace.states, accumulate([0, *sizes]), sizes, strict=False):
            self._values[node] = (Ref("s", offset, length),)
        self.inputs, self.state_size = size(self.trace.x), sum(sizes)
        for node in self.trace.graph.nodes:
            is_needed = any(user not in self.constants for user in node.users)  # by the step, not by stored constants
            if node.op == "call_function" and node not in self.constants and is_needed and node.target not in _IGNORED:
                self._values[node] = self._compute(node)
        gates = (cut((self._whole(self._value(gate.node)),), gate.offset, gate.size) for gate in self.gates)
        self._store(tuple(ref for parts in gates for ref in parts), "g")
        results = [self._safe(self._value(node)) for node in self.trace.new_states]
        if self.has_output:
            self._store(self._value(self.trace.output), "y")
        self._store(tuple(ref for result in results for ref in result), "s")

    @property
    def has_output(self) -> bool:
        """Whether the function writes the layer's output to its argument y. It does unless the output is the first state."""
        return self.trace.output is not self.trace.new_states[0]

    def _store(self, value: Value, target: str) -> None:
        """Add statements that copy a value to the beginning of the array `target`."""
        offset = 0
        for ref in value:
            self.steps.append(copy(ref, Ref(target, offset, ref.size)))
            offset += ref.size

    def _safe(self, value: Value) -> Value:
        """Return the value with each Ref into s or x replaced by a copy in a local array, because the function overwrites s."""
        return tuple(self._copied((ref,)) if ref.buffer in ("s", "x") else ref for ref in value)

    def _value(self, node: object) -> Value:
        """Return the Refs of a node's numbers. Weights get a range of the array w when they are first read."""
        assert isinstance(node, fx.Node)
        if node in self.constants:
            if node not in self.vectors:
                self.layout.append((node, False))
                self.vectors[node] = Ref("w", self._floats(size(node)), size(node))
            return (self.vectors[node],)
        value = self._values[node]
        assert isinstance(value, tuple)
        return value

    def _floats(self, count: int) -> int:
        self.floats += count
        return self.floats - count

    def _buffer(self, length: int) -> Ref:
        name = f"b{len(self.buffers)}"
        self.buffers[name] = length
        return Ref(name, 0, length)

    def _copied(self, value: Value) -> Ref:
        """Add statements that copy a value into one new local array, and return the Ref of that array."""
        out = self._buffer(total(value))
        offset = 0
        for ref in value:
            self.steps.append(Entrywise(Ref(out.buffer, offset, ref.size), "{}", (ref,)))
            offset += ref.size
        return out

    def _whole(self, value: Value) -> Ref:
        """Return one Ref with all numbers of a value; if the value has several Refs, they are first copied to a local array."""
        return value[0] if len(value) == 1 else self._copied(value)

    def _compute(self, node: fx.Node) -> Value | list[Value]:
        """Add the statements that compute a node, and return the Refs of its result; for several results, a list of their Refs.

        Raises ExportError for an operation that has no translation to C.
        """
        target, arguments = node.target, node.args
        if is_item(node):
            parts, place = self._values[cast(fx.Node, arguments[0])], cast(int, arguments[1])
            return cast(list[Value], parts)[place]
        if target in VIEWS:
            return self._viewed(node)
        if target is ATEN.cat.default:
            return self._joined(node, cast(list[fx.Node], arguments[0]))
        if target is ATEN.repeat_interleave.self_int:
            return self._repeated(node)
        if target is ATEN.addmm.default:
            return self._product(node, arguments[1], arguments[2], arguments[0])
        if target in (ATEN.mm.default, ATEN.matmul.default):
            return self._product(node, arguments[0], arguments[1], None)
        if target in (ATEN.layer_norm.default, ATEN.rms_norm.default):
            return self._normalised(node)
        if target is ATEN.batch_norm.default:
            x, *parameters, _, _, epsilon, _ = arguments
            text = f"({{0}} - {{3}}) / RNN_SQRT({{4}} + {number(cast(float, epsilon))}) * {{1}} + {{2}}"
            return self._entrywise(text, (x, *parameters), node)
        if target is ATEN.conv1d.default:
            return self._convolved(node)
        if target in _REDUCTIONS:
            return self._reduced(node, *_REDUCTIONS[target])
        if target is ATEN.mean.dim:
            (summed,) = self._reduced(node, *_REDUCTIONS[ATEN.sum.dim_IntList])
            mean, count = self._buffer(summed.size), size(cast(fx.Node, node.args[0])) // summed.size
            self.steps.append(Entrywise(mean, "{} / {}", (summed, float(count))))
            return (mean,)
        if (found := formula(node)) is not None:
            return self._entrywise(found[0], found[1], node)
        raise ExportError(f"the operation {target} has no translation to C; export to onnx or pt2 instead")

    def _entrywise(self, text: str, arguments: tuple[object, ...], node: fx.Node) -> Value:
        """Add an elementwise operation, and return the result's Refs: one for each range in which all arguments are contiguous.

        text: see Entrywise. An argument is a number, or a node with one number or with as many as the result `node`. If a node
        has another size, the arguments are broadcast.
        """
        if any(isinstance(a, fx.Node) and size(a) not in (1, size(node)) for a in arguments):
            return self._broadcast(text, arguments, node)
        operands = [self._value(a) if isinstance(a, fx.Node) else float(a) for a in arguments]  # type: ignore[arg-type]
        cuts = {0, size(node)}
        for operand in operands:
            if isinstance(operand, tuple) and total(operand) > 1:
                cuts.update(accumulate(ref.size for ref in operand))
        parts: list[Ref] = []
        for begin, end in pairwise(sorted(cuts)):
            parts.append(self._buffer(end - begin))
            self.steps.append(Entrywise(parts[-1], text, tuple(_entries(each, begin, end) for each in operands)))
        return tuple(parts)

    def _broadcast(self, text: str, arguments: tuple[object, ...], node: fx.Node) -> Value:
        """Add what `_entrywise` does on nodes of several shapes, as nested loops over the result's dimensions."""
        shape, out = node.meta["val"].shape, self._buffer(size(node))
        operands: list[tuple[Ref, Sequence[int]] | float] = []
        for a in arguments:
            if isinstance(a, fx.Node):
                operands.append((self._whole(self._value(a)), broadcast(a.meta["val"].shape, len(shape))))
            else:
                operands.append(float(a))  # type: ignore[arg-type]
        self._nest(shape, (out, contiguous(shape)), f"= {text}", operands)
        return (out,)

    def _nest(
        self, shape: Sequence[int], out: tuple[Ref, Sequence[int]], text: str,
        operands: Sequence[tuple[Ref, Sequence[int]] | float],
    ) -> None:  # fmt: skip
        """Add nested loops over `shape` that update each number of `out`.

        text: the C statement after the number to update, such as "+= {} * {}", with a `{}` for each operand. out, operands:
        each a Ref and its stride in every dimension of `shape`; an operand may also be a number.
        """
        places = [out, *(each for each in operands if not isinstance(each, float))]
        heads, entries = nest(shape, [strides for _, strides in places])
        names = [at(ref, entry) for (ref, _), entry in zip(places, entries, strict=True)]
        target, rest = names[0], iter(names[1:])
        words = [number(each) if isinstance(each, float) else next(rest) for each in operands]
        self.steps.append(Call(f"{heads}{target} {text.format(*words)};", tuple(ref for ref, _ in places)))

    def _viewed(self, node: fx.Node) -> Value | list[Value]:
        """Return the Refs of a view of the node's first argument; if the node returns several views, a list of their Refs."""
        x, *others = node.args
        assert isinstance(x, fx.Node)
        shapes = fx.node.map_arg((others, node.kwargs), lambda each: torch.empty_like(each.meta["val"], device="meta"))
        view = node.target(torch.empty(x.meta["val"].shape, device="meta"), *shapes[0], **shapes[1])  # type: ignore[operator]
        if isinstance(view, Tensor):
            return self._strided(self._value(x), view)
        return [self._strided(self._value(x), part) for part in view]

    def _strided(self, value: Value, view: Tensor) -> Value:
        """Return the Refs of the numbers of `value` that `view`, a meta tensor, selects, or of a copy if not contiguous."""
        start, length = int(view.storage_offset()), view.numel()
        if view.is_contiguous():
            return cut(value, start, length)
        source, out = self._whole(value), self._buffer(length)
        moved = Ref(source.buffer, source.offset + start, source.size - start)
        self._nest(view.shape, (out, contiguous(view.shape)), "= {}", [(moved, view.stride())])
        return (out,)

    def _joined(self, node: fx.Node, parts: list[fx.Node]) -> Value:
        """Return torch.cat of the nodes `parts`: their Refs in turn, or a copy if numbers of several parts alternate in it."""
        shape = node.meta["val"].shape
        dim = cast(int, node.args[1] if len(node.args) > 1 else 0) % len(shape)
        rows = shape[:dim].numel()
        if rows == 1:
            return tuple(ref for part in parts for ref in self._value(part))
        out, row, offset = self._buffer(size(node)), size(node) // rows, 0
        for part in parts:
            width = size(part) // rows
            source = self._whole(self._value(part))
            target = Ref(out.buffer, offset, out.size - offset)
            self._nest((rows, width), (target, (row, 1)), "= {}", [(source, (width, 1))])
            offset += width
        return (out,)

    def _repeated(self, node: fx.Node) -> Value:
        """Add the statement of torch.repeat_interleave along the last dimension, and return the result's Refs."""
        source, out = self._whole(self._value(node.args[0])), self._buffer(size(node))
        shape = source.size, out.size // source.size
        self._nest(shape, (out, contiguous(shape)), "= {}", [(source, (1, 0))])
        return (out,)

    def _product(self, node: fx.Node, x: object, matrix: object, plus: object | None) -> Value:
        """Add the statements of x @ matrix + plus (None: zero), and return the result's Refs. matrix: (inputs, outputs).

        Raises ExportError unless `matrix` depends on weights alone.
        """
        if matrix not in self.constants:
            raise ExportError("a product of two matrices that both depend on the input has no translation to C")
        assert isinstance(matrix, fx.Node)
        source, out = self._whole(self._value(x)), self._buffer(size(node))
        start = self._value(plus) if plus is not None else ()
        self._store(start, out.buffer)
        if not start:
            self.steps.append(zeros(out))
        if matrix not in self.matrices:
            self.layout.append((matrix, True))
            numbers = source.size * out.size
            if matrix in self.quantized:
                self.matrices[matrix] = f"q + {self.integers}, w + {self._floats(out.size)}"
                self.integers += numbers
            else:
                self.matrices[matrix] = f"w + {self._floats(numbers)}"
        weights, suffix = self.matrices[matrix], "_int8" * (matrix in self.quantized)
        call = f"RNN_product{suffix}({weights}, {source.pointer}, {out.pointer}, {source.size}, {out.size});"
        self.steps.append(Call(call, (source,)))
        return (out,)

    def _normalised(self, node: fx.Node) -> Value:
        """Add a layer norm or RMS norm over all numbers, with its weight and bias if it has them; ExportError for others."""
        given = named_arguments(node)
        if prod(given["normalized_shape"]) != size(node):
            raise ExportError("a norm over a part of the numbers has no translation to C")
        source, out = self._whole(self._value(given["input"])), self._buffer(size(node))
        epsilon = number(given["eps"] or torch.finfo(torch.float32).eps)
        function = "RNN_normalise" if node.target is ATEN.layer_norm.default else "RNN_normalise_rms"
        self.steps.append(Call(f"{function}({source.pointer}, {out.pointer}, {out.size}, {epsilon});", (source,)))
        for text, name in (("{} * {}", "weight"), ("{} + {}", "bias")):
            if given.get(name) is not None:
                before, out = out, self._buffer(out.size)
                self.steps.append(Entrywise(out, text, (before, self._value(given[name])[0])))
        return (out,)

    def _convolved(self, node: fx.Node) -> Value:
        """Add a depthwise convolution with filters as long as its input. Raises ExportError for other convolutions."""
        x, weight, bias = cast(tuple[fx.Node, ...], node.args[:3])
        channels, steps = x.meta["val"].shape[-2:]
        if size(node) != channels or weight.meta["val"].shape != (channels, 1, steps):
            raise ExportError("of convolutions, only causal depthwise ones have a translation to C")
        source, filters, out = self._whole(self._value(x)), self._value(weight)[0], self._buffer(channels)
        self.steps.append(copy(self._value(bias)[0], out))
        rows = contiguous((channels, steps))
        self._nest((channels, steps), (out, (1, 0)), "+= {} * {}", [(source, rows), (filters, rows)])
        return (out,)

    def _reduced(self, node: fx.Node, start: str, text: str) -> Value:
        """Add a sum or a maximum over some dimensions. start: C for the initial value. text: C for an update, see `_nest`."""
        x = cast(fx.Node, node.args[0])
        source, shape, out = self._whole(self._value(x)), x.meta["val"].shape, self._buffer(size(node))
        summed = {dim % len(shape) for dim in cast(list[int], node.args[1])}
        kept = [1 if dim in summed else n for dim, n in enumerate(shape)]
        strides = broadcast(kept, len(kept))
        self.steps.append(Entrywise(out, start, ()))
        self._nest(shape, (out, strides), text, [(out, strides), (source, contiguous(shape))])
        return (out,)

    def text(self) -> str:
        """Return the body of the function."""
        return body(self.steps, self.buffers)


def _entries(operand: Value | float, begin: int, end: int) -> Ref | float:
    """Return the Ref of numbers `begin` to `end` of an operand, which are contiguous; a float or single number, as it is."""
    if not isinstance(operand, tuple):
        return operand
    return operand[0] if total(operand) == 1 else cut(operand, begin, end - begin)[0]


_REDUCTIONS: dict[object, tuple[str, str]] = {
    ATEN.sum.dim_IntList: ("0.0f", "+= {1}"),
    ATEN.amax.default: ("-3.4e38f", "= RNN_most({0}, {1})"),
}
_IGNORED = {ATEN._assert_tensor_metadata.default, ATEN.sym_size.int}
