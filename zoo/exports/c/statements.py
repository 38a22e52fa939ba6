"""The parts of a step's C code: places in memory, loops over entries, and other statements.

A value of the graph is a tuple of Refs, the places of its parts in memory; concatenating and cutting move no numbers.
"""

from dataclasses import dataclass

from .operations import number


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


def loop_text(loop: list[Entrywise], read: set[str]) -> list[str]:
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


def copy(source: Ref, target: Ref) -> Call:
    """Return a statement that copies as many numbers as `source` has."""
    single = source.size == 1
    loop = "" if single else f"for (i = 0; i < {source.size}; i++) "
    return Call(f"{loop}{target.entry(single)} = {source.entry(single)};", (source,))


def zeros(target: Ref) -> Call:
    """Return a statement that sets numbers to zero."""
    return Call(f"for (i = 0; i < {target.size}; i++) {target.entry(False)} = 0.0f;", ())


def at(ref: Ref, place: str) -> str:
    """Return C for one entry of a place in memory."""
    return f"{ref.buffer}[{ref.offset} + {place}]" if ref.offset else f"{ref.buffer}[{place}]"


def reads(step: Entrywise | Call) -> tuple[Ref, ...]:
    """Return the places that a step reads."""
    return step.reads if isinstance(step, Call) else tuple(a for a in step.arguments if isinstance(a, Ref))


def total(value: Value) -> int:
    """Return how many numbers a value has."""
    return sum(ref.size for ref in value)


def cut(value: Value, start: int, length: int) -> Value:
    """Return `length` numbers of a value from `start` on."""
    parts, offset = [], 0
    for ref in value:
        begin, end = max(start - offset, 0), min(start + length - offset, ref.size)
        if begin < end:
            parts.append(Ref(ref.buffer, ref.offset + begin, end - begin))
        offset += ref.size
    return tuple(parts)
