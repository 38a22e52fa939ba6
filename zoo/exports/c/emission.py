"""From the graph of a layer's step to a C function: products by calls, everything else in loops over the entries."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import cast

from torch import Tensor, fx

from ...errors import ExportError
from .nests import INDICES, broadcast, contiguous, nest
from .operations import formula, number
from .statements import Call, Entrywise, Ref, Value, at, copy, cut, loop_text, reads, zeros
from .tracing import ATEN, SAME, Trace, is_item, size


@dataclass
class LayerCode:
    """The C function of a layer's step, and the weights that it reads, in their order."""

    trace: Trace
    quantized: bool
    constants: set[fx.Node]
    steps: list[Entrywise | Call] = field(default_factory=list)
    buffers: dict[str, int] = field(default_factory=dict)
    layout: list[tuple[fx.Node, bool]] = field(default_factory=list)
    """The weights as they lie in memory, and whether each is the matrix, (inputs, outputs), of a product."""
    vectors: dict[fx.Node, Ref] = field(default_factory=dict)
    matrices: dict[fx.Node, str] = field(default_factory=dict)
    """C for the addresses of a matrix and, quantised, of its scales."""
    floats: int = 0
    integers: int = 0

    def __post_init__(self) -> None:
        values: dict[fx.Node, Value | list[Value]] = {self.trace.x: (Ref("x", 0, size(self.trace.x)),)}
        sizes = [size(node) for node in self.trace.states]
        for node, offset, length in zip(self.trace.states, accumulate([0, *sizes]), sizes, strict=False):
            values[node] = (Ref("s", offset, length),)
        self.state_size = sum(sizes)
        self._values = values
        for node in self.trace.graph.nodes:
            if node.op == "call_function" and node not in self.constants and node.target not in _IGNORED:
                values[node] = self._compute(node)
        results = [self._safe(self._value(node)) for node in self.trace.outputs]
        offset = 0
        for ref in (ref for result in results for ref in result):
            self.steps.append(copy(ref, Ref("s", offset, ref.size)))
            offset += ref.size

    def _safe(self, value: Value) -> Value:
        """Return a value that stays as it is while the states are overwritten."""
        return tuple(self._copied((ref,)) if ref.buffer in ("s", "x") else ref for ref in value)

    def _value(self, node: object) -> Value:
        """Return where a node's numbers are. Those of weights get a place in the array w."""
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
        """Return a buffer with a value's parts one behind the other."""
        out = self._buffer(sum(ref.size for ref in value))
        offset = 0
        for ref in value:
            self.steps.append(Entrywise(Ref(out.buffer, offset, ref.size), "{}", (ref,)))
            offset += ref.size
        return out

    def _whole(self, value: Value) -> Ref:
        """Return a value in one piece."""
        return value[0] if len(value) == 1 else self._copied(value)

    def _compute(self, node: fx.Node) -> Value | list[Value]:
        """Add what computes a node, and return where its numbers will be. Raises ExportError for an unknown operation."""
        target, arguments = node.target, node.args
        if target in SAME:
            return self._value(arguments[0])
        if is_item(node):
            parts, place = self._values[cast(fx.Node, arguments[0])], cast(int, arguments[1])
            return cast(list[Value], parts)[place]
        if target in _PARTS:
            starts = accumulate([0, *(each.shape[_dim(node)] for each in node.meta["val"])])
            return [self._part(node, part, start) for part, start in zip(node.meta["val"], starts, strict=False)]
        if target in (ATEN.slice.Tensor, ATEN.narrow.default, ATEN.select.int):
            return self._part(node, node.meta["val"], cast(int, arguments[2]))
        if target is ATEN.cat.default:
            return self._joined(node, cast(list[fx.Node], arguments[0]))
        if target is ATEN.repeat_interleave.self_int:
            return self._repeated(node)
        if target is ATEN.addmm.default:
            return self._product(node, arguments[1], arguments[2], arguments[0])
        if target in (ATEN.mm.default, ATEN.matmul.default):
            return self._product(node, arguments[0], arguments[1], None)
        if target is ATEN.layer_norm.default:
            return self._normalised(node)
        if target is ATEN.sum.dim_IntList:
            return self._sum(node)
        if (found := formula(node)) is not None:
            return self._entrywise(found[0], found[1], node)
        raise ExportError(f"C has no form of the operation {target}")

    def _entrywise(self, text: str, arguments: tuple[object, ...], node: fx.Node) -> Value:
        """Add an entrywise operation, part by part where an argument lies in several places."""
        length = size(node)
        if any(isinstance(a, fx.Node) and size(a) not in (1, length) for a in arguments):
            shape, out = node.meta["val"].shape, self._buffer(length)
            operands = [
                (self._whole(self._value(a)), broadcast(a.meta["val"].shape, len(shape)))
                if isinstance(a, fx.Node)
                else float(a)  # type: ignore[arg-type]
                for a in arguments
            ]
            self._nest(shape, (out, contiguous(shape)), f"= {text}", operands)
            return (out,)
        values = [self._value(a) if isinstance(a, fx.Node) else a for a in arguments]
        full = [v for v in values if isinstance(v, tuple) and sum(r.size for r in v) == length]
        ends = sorted({end for value in full for end in accumulate(ref.size for ref in value)} | {length})
        parts: list[Ref] = []
        for begin, end in zip([0, *ends], ends, strict=False):
            refs = tuple(
                float(v) if not isinstance(v, tuple) else v[0] if v not in full else cut(v, begin, end - begin)[0]  # type: ignore[arg-type]
                for v in values
            )
            parts.append(self._buffer(end - begin))
            self.steps.append(Entrywise(parts[-1], text, refs))
        return tuple(parts)

    def _nest(
        self, shape: Sequence[int], out: tuple[Ref, Sequence[int]], text: str,
        operands: Sequence[tuple[Ref, Sequence[int]] | float],
    ) -> None:  # fmt: skip
        """Add loops over `shape`. out, operands: places in memory and the strides by which the loops run through them."""
        places = [out, *(each for each in operands if not isinstance(each, float))]
        heads, entries = nest(shape, [strides for _, strides in places])
        names = [at(ref, entry) for (ref, _), entry in zip(places, entries, strict=True)]
        target, rest = names[0], iter(names[1:])
        words = [number(each) if isinstance(each, float) else next(rest) for each in operands]
        self.steps.append(Call(f"{heads}{target} {text.format(*words)};", tuple(ref for ref, _ in places)))

    def _part(self, node: fx.Node, part: Tensor, start: int) -> Value:
        """Return the entries of a node's argument from `start` on along its dimension, as many as `part` has."""
        x, dim = cast(fx.Node, node.args[0]), _dim(node)
        shape = x.meta["val"].shape
        inner = shape[dim + 1 :].numel()
        start = start % (shape[dim] + 1) if start < 0 else start
        if shape[:dim].numel() == 1:
            return cut(self._value(x), start * inner, part.numel())
        source, out = self._whole(self._value(x)), self._buffer(part.numel())
        rows = shape[:dim].numel(), part.numel() // shape[:dim].numel()
        moved = Ref(source.buffer, source.offset + start * inner, source.size - start * inner)
        self._nest(rows, (out, contiguous(rows)), "= {}", [(moved, (shape[dim] * inner, 1))])
        return (out,)

    def _joined(self, node: fx.Node, parts: list[fx.Node]) -> Value:
        """Return parts that lie one behind the other, or a copy of them side by side in every row."""
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
        """Return every entry of the last dimension several times."""
        source, out = self._whole(self._value(node.args[0])), self._buffer(size(node))
        shape = source.size, out.size // source.size
        self._nest(shape, (out, contiguous(shape)), "= {}", [(source, (1, 0))])
        return (out,)

    def _product(self, node: fx.Node, x: object, matrix: object, plus: object | None) -> Value:
        """Add x W + plus for a matrix W of weights, (inputs, outputs)."""
        if matrix not in self.constants:
            raise ExportError("C has no form of a product of two values that both change")
        assert isinstance(matrix, fx.Node)
        source, out = self._whole(self._value(x)), self._buffer(size(node))
        start = self._value(plus) if plus is not None else ()
        offset = 0
        for ref in start:
            self.steps.append(copy(ref, Ref(out.buffer, offset, ref.size)))
            offset += ref.size
        if not start:
            self.steps.append(zeros(out))
        if matrix not in self.matrices:
            self.layout.append((matrix, True))
            numbers = source.size * out.size
            if self.quantized:
                self.matrices[matrix] = f"q + {self.integers}, w + {self._floats(out.size)}"
                self.integers += numbers
            else:
                self.matrices[matrix] = f"w + {self._floats(numbers)}"
        weights = self.matrices[matrix]
        call = f"RNN_product({weights}, {source.pointer}, {out.pointer}, {source.size}, {out.size});"
        self.steps.append(Call(call, (source,)))
        return (out,)

    def _normalised(self, node: fx.Node) -> Value:
        """Add a layer normalisation over all entries, with its weight and bias."""
        x, _, weight, bias, epsilon = node.args[:5]
        source, out = self._whole(self._value(x)), self._buffer(size(node))
        call = f"RNN_normalise({source.pointer}, {out.pointer}, {out.size}, {number(epsilon)});"  # type: ignore[arg-type]
        self.steps.append(Call(call, (source,)))
        result = self._buffer(size(node))
        factors = self._value(weight)[0], self._value(bias)[0]
        self.steps.append(Entrywise(result, "{} * {} + {}", (out, *factors)))
        return (result,)

    def _sum(self, node: fx.Node) -> Value:
        """Add a sum over some dimensions."""
        x = cast(fx.Node, node.args[0])
        source, shape, out = self._whole(self._value(x)), x.meta["val"].shape, self._buffer(size(node))
        summed = {dim % len(shape) for dim in cast(list[int], node.args[1])}
        kept = [1 if dim in summed else n for dim, n in enumerate(shape)]
        self.steps.append(zeros(out))
        self._nest(shape, (out, broadcast(kept, len(kept))), "+= {}", [(source, contiguous(shape))])
        return (out,)

    def text(self) -> str:
        """Return the body of the function: declarations and statements."""
        lines: list[str] = []
        position = 0
        while position < len(self.steps):
            step = self.steps[position]
            if isinstance(step, Call):
                lines.append(step.text)
                position += 1
                continue
            loop = self._loop(position)
            position += len(loop)
            read = {ref.buffer for later in self.steps[position:] for ref in reads(later)}
            lines += loop_text(loop, read)
        used = set(re.findall(r"\bb\d+\b", "\n".join(lines)))
        arrays = [f"float RNN_ALIGNED {name}[{length}];" for name, length in self.buffers.items() if name in used]
        indices = [name for name in INDICES if any(f"for ({name} = 0" in line for line in lines)]
        index = [f"int {', '.join(indices)};"] if indices else []
        return "\n".join("    " + line for line in [*arrays, *index, *lines])

    def _loop(self, start: int) -> list[Entrywise]:
        """Return the operations from one on that can share a loop: of one size, and each reading only its own entry."""
        loop: list[Entrywise] = []
        for step in self.steps[start:]:
            if not isinstance(step, Entrywise) or (loop and step.out.size != loop[0].out.size):
                break
            written = [each.out for each in loop]
            if any(r.overlaps(out) and r != out for r in reads(step) for out in written):
                break
            loop.append(step)
        return loop


def _dim(node: fx.Node) -> int:
    """Return the dimension along which a node takes parts of its argument."""
    rank = cast(fx.Node, node.args[0]).meta["val"].dim()
    after = 1 if node.target in (ATEN.slice.Tensor, ATEN.narrow.default, ATEN.select.int, ATEN.unbind.int) else 2
    return cast(int, node.args[after] if len(node.args) > after else 0) % rank


_PARTS = {
    ATEN.split.Tensor, ATEN.split_with_sizes.default, ATEN.split.sizes, ATEN.chunk.default, ATEN.tensor_split.indices,
}  # fmt: skip
"""Operations that cut a tensor into several along one dimension."""
_IGNORED = {ATEN._assert_tensor_metadata.default, ATEN.sym_size.int}
