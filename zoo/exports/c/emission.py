"""From the graph of a layer's step to a C function: products by calls, everything else in loops over the entries.

A value of the graph is a tuple of Refs, the places of its parts in memory; concatenating and cutting move no numbers.
"""

import re
from dataclasses import dataclass, field
from itertools import accumulate
from typing import cast

from torch import fx

from ...errors import ExportError
from .operations import formula, number
from .tracing import ATEN, SAME, Trace, is_item, size


@dataclass(frozen=True)
class Ref:
    """`size` numbers at `buffer + offset`."""

    buffer: str
    offset: int
    size: int

    @property
    def pointer(self) -> str:
        """C for the address of the first number."""
        return f"{self.buffer} + {self.offset}" if self.offset else self.buffer

    def entry(self, single: bool) -> str:
        """C for entry i, or for the only entry."""
        if single or self.size == 1:
            return f"{self.buffer}[{self.offset}]"
        return f"{self.buffer}[{self.offset} + i]" if self.offset else f"{self.buffer}[i]"

    def overlaps(self, other: "Ref") -> bool:
        """Return whether both share a number."""
        return self.buffer == other.buffer and max(self.offset, other.offset) < min(
            self.offset + self.size, other.offset + other.size
        )


Value = tuple[Ref, ...]


@dataclass(frozen=True)
class Entrywise:
    """out[i] = formula of the arguments' entries i."""

    out: Ref
    text: str
    arguments: tuple[Ref | float, ...]


@dataclass(frozen=True)
class Call:
    """A statement that reads some places in memory and writes others."""

    text: str
    reads: tuple[Ref, ...]


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
            self.steps.append(_copy(ref, Ref("s", offset, ref.size)))
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
        if target in (ATEN.split.Tensor, ATEN.split_with_sizes.default, ATEN.chunk.default):
            lengths = [each.numel() for each in node.meta["val"]]
            value = self._value(arguments[0])
            return [_cut(value, end - n, n) for end, n in zip(accumulate(lengths), lengths, strict=True)]
        if target is ATEN.slice.Tensor:
            return _cut(self._value(arguments[0]), cast(int, arguments[2]), size(node))
        if target is ATEN.cat.default:
            return tuple(ref for each in arguments[0] for ref in self._value(each))  # type: ignore[union-attr]
        if target is ATEN.addmm.default:
            return self._product(node, arguments[1], arguments[2], arguments[0])
        if target in (ATEN.mm.default, ATEN.matmul.default):
            return self._product(node, arguments[0], arguments[1], None)
        if target is ATEN.layer_norm.default:
            return self._normalised(node)
        if target is ATEN.sum.dim_IntList:
            return self._sum(node)
        if (found := formula(node)) is not None:
            return self._entrywise(found[0], found[1], size(node))
        raise ExportError(f"C has no form of the operation {target}")

    def _entrywise(self, text: str, arguments: tuple[object, ...], length: int) -> Value:
        """Add an entrywise operation, part by part where an argument lies in several places."""
        values = [self._value(a) if isinstance(a, fx.Node) else a for a in arguments]
        full = [v for v in values if isinstance(v, tuple) and sum(r.size for r in v) == length]
        ends = sorted({end for value in full for end in accumulate(ref.size for ref in value)} | {length})
        parts: list[Ref] = []
        for begin, end in zip([0, *ends], ends, strict=False):
            refs = tuple(
                float(v) if not isinstance(v, tuple) else v[0] if v not in full else _cut(v, begin, end - begin)[0]  # type: ignore[arg-type]
                for v in values
            )
            if any(isinstance(ref, Ref) and ref.size not in (1, end - begin) for ref in refs):
                raise ExportError("C has no form of an operation on tensors of several shapes")
            parts.append(self._buffer(end - begin))
            self.steps.append(Entrywise(parts[-1], text, refs))
        return tuple(parts)

    def _product(self, node: fx.Node, x: object, matrix: object, plus: object | None) -> Value:
        """Add x W + plus for a matrix W of weights, (inputs, outputs)."""
        if matrix not in self.constants:
            raise ExportError("C has no form of a product of two values that both change")
        assert isinstance(matrix, fx.Node)
        source, out = self._whole(self._value(x)), self._buffer(size(node))
        start = self._value(plus) if plus is not None else ()
        offset = 0
        for ref in start:
            self.steps.append(_copy(ref, Ref(out.buffer, offset, ref.size)))
            offset += ref.size
        if not start:
            self.steps.append(Call(f"for (i = 0; i < {out.size}; i++) {out.buffer}[i] = 0.0f;", ()))
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
        """Add a sum over one dimension before which there is only a batch of one."""
        x, dims = node.args[:2]
        assert isinstance(x, fx.Node)
        value, shape = self._value(x), x.meta["val"].shape
        dim = dims[0] % len(shape)  # type: ignore[index, operator]
        parts, length = shape[dim], size(node)
        if shape[:dim].numel() != 1:
            raise ExportError("C has no form of a sum over an inner dimension")
        if length == 1:
            source, out = self._whole(value), self._buffer(1)
            self.steps.append(Call(f"{out.buffer}[0] = RNN_sum({source.pointer}, {source.size});", (source,)))
            return (out,)
        refs = tuple(self._whole(_cut(value, part * length, length)) for part in range(parts))
        result = self._buffer(length)
        self.steps.append(Entrywise(result, " + ".join(["{}"] * parts), refs))
        return (result,)

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
            read = {ref.buffer for later in self.steps[position:] for ref in _reads(later)}
            lines += _loop_text(loop, read)
        used = set(re.findall(r"\bb\d+\b", "\n".join(lines)))
        arrays = [f"float RNN_ALIGNED {name}[{length}];" for name, length in self.buffers.items() if name in used]
        index = ["int i;"] if any("for (i" in line for line in lines) else []
        return "\n".join("    " + line for line in [*arrays, *index, *lines])

    def _loop(self, start: int) -> list[Entrywise]:
        """Return the operations from one on that can share a loop: of one size, and each reading only its own entry."""
        loop: list[Entrywise] = []
        for step in self.steps[start:]:
            if not isinstance(step, Entrywise) or (loop and step.out.size != loop[0].out.size):
                break
            written = [each.out for each in loop]
            if any(r.overlaps(out) and r != out for r in _reads(step) for out in written):
                break
            loop.append(step)
        return loop


def _loop_text(loop: list[Entrywise], read: set[str]) -> list[str]:
    """Return a loop over entries. read: the buffers that later statements read; other results stay local variables."""
    single = loop[0].out.size == 1
    names: dict[Ref, str] = {}
    lines: list[str] = []
    for step in loop:
        arguments = [names.get(a) or a.entry(single) if isinstance(a, Ref) else number(a) for a in step.arguments]
        names[step.out] = f"v{step.out.buffer[1:]}" + (f"_{step.out.offset}" if step.out.offset else "")
        lines.append(f"const float {names[step.out]} = {step.text.format(*arguments)};")
        if step.out.buffer in read:
            lines.append(f"{step.out.entry(single)} = {names[step.out]};")
    head = f"for (i = 0; i < {loop[0].out.size}; i++) {{"
    return lines if single else [head, *(f"    {line}" for line in lines), "}"]


def _copy(source: Ref, target: Ref) -> Call:
    single = source.size == 1
    loop = "" if single else f"for (i = 0; i < {source.size}; i++) "
    return Call(f"{loop}{target.entry(single)} = {source.entry(single)};", (source,))


def _reads(step: Entrywise | Call) -> tuple[Ref, ...]:
    return step.reads if isinstance(step, Call) else tuple(a for a in step.arguments if isinstance(a, Ref))


def _cut(value: Value, start: int, length: int) -> Value:
    """Return `length` numbers of a value from `start` on."""
    parts, offset = [], 0
    for ref in value:
        begin, end = max(start - offset, 0), min(start + length - offset, ref.size)
        if begin < end:
            parts.append(Ref(ref.buffer, ref.offset + begin, end - begin))
        offset += ref.size
    return tuple(parts)


_IGNORED = {ATEN._assert_tensor_metadata.default, ATEN.sym_size.int}
