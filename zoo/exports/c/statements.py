"""The statements of a step's C code, and the ranges of C arrays that they read and write.

A Value is the tensor of one node of the graph: a tuple of Refs, the ranges that hold its numbers one after the other. So
concatenating and slicing tensors copies no numbers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .nests import INDICES
from .operations import number


@dataclass(frozen=True)
class Ref:
    """A range of a C array: `size` numbers from `buffer[offset]` on. buffer: the array's name."""

    buffer: str
    offset: int
    size: int

    @property
    def pointer(self) -> str:
        """The C expression for the address of the first number."""
        return f"{self.buffer} + {self.offset}" if self.offset else self.buffer

    def entry(self, single: bool) -> str:
        """Return the C expression for number i of the range, i a C variable, or for the first if `single` or if size is 1."""
        if single or self.size == 1:
            return f"{self.buffer}[{self.offset}]"
        return f"{self.buffer}[{self.offset} + i]" if self.offset else f"{self.buffer}[i]"

    def overlaps(self, other: "Ref") -> bool:
        """Return whether the two ranges share a number."""
        return self.buffer == other.buffer and max(self.offset, other.offset) < min(
            self.offset + self.size, other.offset + other.size
        )


Value = tuple[Ref, ...]


@dataclass(frozen=True)
class Entrywise:
    """An elementwise operation: number i of `out` is the C expression `text`, with number i of each argument at its `{}`.

    A float, or a Ref of one number, is the same argument for every i.
    """

    out: Ref
    text: str
    arguments: tuple[Ref | float, ...]


@dataclass(frozen=True)
class Call:
    """A complete C statement, `text`. reads: the Refs that the statement reads."""

    text: str
    reads: tuple[Ref, ...]


def body(steps: Sequence[Entrywise | Call], buffers: Mapping[str, int]) -> str:
    """Return the body of a function: declarations and statements. buffers: the lengths of its local arrays, by name."""
    lines: list[str] = []
    position = 0
    while position < len(steps):
        step = steps[position]
        if isinstance(step, Call):
            lines.append(step.text)
            position += 1
            continue
        loop = _shared_loop(steps[position:])
        position += len(loop)
        lines += _loop_text(loop, {ref.buffer for later in steps[position:] for ref in reads(later)})
    used = set(re.findall(r"\bb\d+\b", "\n".join(lines)))
    arrays = [f"float RNN_ALIGNED {name}[{length}];" for name, length in buffers.items() if name in used]
    indices = [name for name in INDICES if any(f"for ({name} = 0" in line for line in lines)]
    index = [f"int {', '.join(indices)};"] if indices else []
    return "\n".join("    " + line for line in [*arrays, *index, *lines])


def _shared_loop(steps: Sequence[Entrywise | Call]) -> list[Entrywise]:
    """Return the elementwise operations at the beginning of `steps` that can share one C loop over i.

    They have equally many results, and computing number i needs only number i of the others' results.
    """
    loop: list[Entrywise] = []
    for step in steps:
        if not isinstance(step, Entrywise) or (loop and step.out.size != loop[0].out.size):
            break
        written = [each.out for each in loop]
        if any(r.overlaps(out) and r != out for r in reads(step) for out in written):
            break
        loop.append(step)
    return loop


def _loop_text(loop: list[Entrywise], read: set[str]) -> list[str]:
    """Return the lines of one C loop that computes all operations of `loop`, which have equally many results.

    read: the names of the arrays that later statements read; results in other arrays are only local variables.
    """
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


def copy(source: Ref, target: Ref) -> Call:
    """Return a statement that copies the numbers of `source` to the beginning of `target`."""
    single = source.size == 1
    loop = "" if single else f"for (i = 0; i < {source.size}; i++) "
    return Call(f"{loop}{target.entry(single)} = {source.entry(single)};", (source,))


def zeros(target: Ref) -> Call:
    """Return a statement that sets all numbers of `target` to zero."""
    return Call(f"for (i = 0; i < {target.size}; i++) {target.entry(False)} = 0.0f;", ())


def at(ref: Ref, place: str) -> str:
    """Return the C expression for the entry of `ref` at the index `place`, itself a C expression."""
    return f"{ref.buffer}[{ref.offset} + {place}]" if ref.offset else f"{ref.buffer}[{place}]"


def reads(step: Entrywise | Call) -> tuple[Ref, ...]:
    """Return the Refs that `step`, a statement, reads."""
    return step.reads if isinstance(step, Call) else tuple(a for a in step.arguments if isinstance(a, Ref))


def total(value: Value) -> int:
    """Return how many numbers a value has."""
    return sum(ref.size for ref in value)


def cut(value: Value, start: int, length: int) -> Value:
    """Return the Refs of `length` numbers of a value, from number `start` on."""
    parts, offset = [], 0
    for ref in value:
        begin, end = max(start - offset, 0), min(start + length - offset, ref.size)
        if begin < end:
            parts.append(Ref(ref.buffer, ref.offset + begin, end - begin))
        offset += ref.size
    return tuple(parts)
