"""Traces one time step of a cell into a graph of inputs, states, linear maps and pointwise functions, for a drawing."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ...cells import cell_class
from ...cells.base import RawInputCell
from ...cells.projections import Projection
from ...networks.builder import build
from ...networks.layer import Direction
from ...networks.recurrent import RecurrentNetwork

UNITS, FEATURES = 16, 4
ONCE = {"unfolds": 1}
"""Options that set how often a step repeats a computation, with their value for the drawing, which shows it once."""
FUNCTIONS = {
    "sigmoid": "σ", "relu": "ReLU", "silu": "SiLU", "square": "( )²", "neg": "−", "reciprocal": "1/x", "sum": "Σ",
    "amax": "max", "maximum": "max", "minimum": "min", "gt": ">", "lt": "<", "__eq__": "=", "log_sigmoid": "log σ", "logsigmoid": "log σ",
}  # fmt: skip
NAMED = {"σ", "tanh", "ReLU", "SiLU", "softplus", "exp", "log σ", "sin", "softmax"}
"""Functions whose result is labelled by the input projection that they are applied to, such as a gate's name."""
NEW = {"ones_like", "zeros_like", "empty_like", "new_zeros", "new_ones", "new_empty", "rand_like"}
BINARY = {
    "add": "+", "__add__": "+", "__radd__": "+", "sub": "−", "__sub__": "−", "mul": "×", "__mul__": "×", "__rmul__": "×",
    "div": "÷", "__truediv__": "÷", "true_divide": "÷", "matmul": "·", "__matmul__": "·", "einsum": "·", "bmm": "·",
}  # fmt: skip
REVERSED = {"__rsub__": "−", "rsub": "−", "__rtruediv__": "÷", "__rdiv__": "÷"}
SAME = {
    "__get__", "__getitem__", "broadcast_to", "clone", "contiguous", "detach", "double", "expand", "expand_as", "flatten",
    "float", "movedim", "permute", "repeat_interleave", "reshape", "select", "squeeze", "swapaxes", "to", "transpose", "type",
    "type_as", "unbind", "unflatten", "unsqueeze", "view", "view_as", "view_as_complex", "view_as_real",
}  # fmt: skip
CUTS = {"chunk", "narrow", "split", "split_with_sizes", "tensor_split"}


@dataclass(eq=False)
class Node:
    """One value in a step's graph: the operation that computes it, and the nodes that it is computed from."""

    kind: str
    """One of "input", "state", "output", "linear", "gate" (a sigmoid), "function" and "operation"."""
    label: str
    sources: list["Node"] = field(default_factory=list)


@dataclass(frozen=True)
class Part:
    """A block of `size` consecutive channels of a tensor, all computed by `node`.

    name: the input projection's name for the block, such as a gate; "" if it has none.
    """

    node: Node
    name: str
    size: int


class Trace(TorchFunctionMode):
    """A context manager that records every tensor operation as nodes. A Projection is one node.

    `parts` maps id(tensor) to the blocks of channels (Part) that the tensor consists of, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.parts: dict[int, list[Part]] = {}
        self.constants: dict[int, str] = {}
        self.alive: list[Any] = []  # so that no identity is used twice
        self.inside = 0

    def put(self, tensor: Tensor, parts: Sequence[Part]) -> None:
        """Record that `tensor` consists of the blocks of channels `parts`."""
        self.parts[id(tensor)] = list(parts)
        self.alive.append(tensor)

    def known(self, value: Any) -> list[Part] | None:
        """Return the blocks of channels of the tensor `value`, or None for a value that depends on neither input nor state."""
        return self.parts.get(id(value)) if isinstance(value, Tensor) else None

    def text(self, value: Any) -> str:
        """Return the label of a constant: its number, the name of the parameter that it was computed from, or "const"."""
        if isinstance(value, Tensor):
            return self.constants.get(
                id(value), f"{value.item():.3g}" if value.numel() == 1 and not value.is_meta else "const"
            )
        return f"{value:.3g}" if isinstance(value, int | float) else "const"

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        results = [r for r in (result if isinstance(result, tuple | list) else [result]) if isinstance(r, Tensor)]
        if self.inside or not results:
            return result
        arguments = list(_flat([*args, *(kwargs or {}).values()]))
        self.alive += arguments
        if any(self.known(a) for a in arguments) and function.__name__ not in NEW:
            self.record(function.__name__, arguments, results, args)
        else:
            names = [self.constants[id(a)] for a in arguments if id(a) in self.constants]
            for r in results if names else []:
                self.constants[id(r)] = names[0]
                self.alive.append(r)
        return result

    def record(self, name: str, arguments: list[Any], results: list[Tensor], args: tuple[Any, ...]) -> None:
        """Record which blocks of adjacent channels, such as the gates of an LSTM, each of an operation's `results` consists of.

        name: of torch's function. arguments: the values of all its arguments, with lists and tuples flattened. args: its
        positional arguments as they were passed.
        """
        values = [parts for a in arguments if (parts := self.known(a)) is not None]
        name = name.rstrip("_") if not name.startswith("_") else name
        if name in ("cat", "stack", "concat"):
            self.put(results[0], [part for parts in values for part in parts])
        elif name in CUTS or (name == "__getitem__" and len(results) == 1 and _is_cut(args)):
            self.cut(values[0], results, args[0])
        elif name in SAME:
            for r in results:
                self.put(r, values[0])
        elif name == "lerp":
            self.put(results[0], self.mixed(*arguments[:3]))
        elif name == "addcmul":
            product = Node("operation", "×", [self.one(a) for a in arguments[1:3]])
            self.put(results[0], _whole(Node("operation", "+", [self.one(arguments[0]), product]), results[0]))
        elif name in BINARY or name in REVERSED:
            self.binary(name, [a for a in arguments if isinstance(a, Tensor | int | float)], results[0])
        else:
            self.unary(name, arguments, results)

    def cut(self, parts: list[Part], results: list[Tensor], whole: Tensor) -> None:
        """Record the blocks of `results`, into which the tensor `whole` was split along its channels.

        parts: the blocks of `whole`. After a split along another dimension, each result has all of them.
        """
        start = 0
        along_channels = (
            all(r.shape[:-1] == whole.shape[:-1] for r in results) and sum(p.size for p in parts) == whole.shape[-1]
        )
        for r in results:
            end, position, inside = start + r.shape[-1], 0, []
            for part in parts:
                overlap = min(end, position + part.size) - max(start, position)
                inside += [Part(part.node, part.name, overlap)] if overlap > 0 else []
                position += part.size
            self.put(r, inside if along_channels and inside else parts)
            start = end

    def one(self, value: Any) -> Node:
        """Return the node that computes `value`; if several do, return a new node that concatenates their channels.

        A constant gets a node with its text.
        """
        parts = self.known(value)
        if parts is None:
            return Node("operation", self.text(value))
        nodes = list(dict.fromkeys(part.node for part in parts))
        return nodes[0] if len(nodes) == 1 else Node("operation", "concat", nodes)

    def mixed(self, a: Any, b: Any, weight: Any) -> list[Part]:
        """Return the blocks of channels of (1 - weight) a + weight b, and create the nodes that compute it."""
        if self.known(weight) is None:
            text = self.text(weight)
            if text == "1":
                return self.known(b) or []
            left = Node("operation", f"× (1 − {text})", [self.one(a)])
            right = Node("operation", f"× {text}", [self.one(b)])
        else:
            w = self.one(weight)
            left = Node("operation", "×", [Node("operation", "1 −", [w]), self.one(a)])
            right = Node("operation", "×", [w, self.one(b)])
        return [Part(Node("operation", "+", [left, right]), "", UNITS)]

    def binary(self, name: str, operands: list[Any], result: Tensor) -> None:
        """Record `result`, computed from two operands by the operation `name`, a key of BINARY or REVERSED.

        At most one operand is a constant; it then stands in the node's label.
        """
        symbol, known = BINARY.get(name) or REVERSED[name], [self.known(a) for a in operands[:2]]
        if name in REVERSED:
            operands, known = operands[1::-1], known[::-1]
        both = [parts for parts in known if parts is not None]
        if len(both) == 2:
            named = next((k for k in both if len({p.name for p in k}) > 1 and _width(k) == result.shape[-1]), None)
            node = Node("operation", symbol, [self.one(a) for a in operands[:2]])
            self.put(result, [Part(node, p.name, p.size) for p in named] if named else _whole(node, result))
            return
        first = known[0] is not None
        constant = self.text(operands[1] if first and len(operands) > 1 else operands[0])
        if symbol + constant in ("×1", "+0"):
            self.put(result, both[0] if both else [])
            return
        label = f"{symbol} {constant}" if first or symbol in "+×" else f"{constant} {symbol}"
        self.each(label, "operation", both[0] if both else [], result)

    def unary(self, name: str, arguments: list[Any], results: list[Tensor]) -> None:
        """Record `results` of the function `name`. arguments: its arguments; constants among them are not drawn."""
        label = FUNCTIONS.get(name, name)
        sources = [a for a in arguments if self.known(a) is not None]
        if len(sources) > 1:
            node = Node("function", label, [self.one(a) for a in sources])
            for r in results:
                self.put(r, _whole(node, r))
            return
        kind = "gate" if name == "sigmoid" else "function"
        for r in results:
            self.each(label, kind, self.known(sources[0]) or [], r)

    def each(self, label: str, kind: str, parts: list[Part], result: Tensor) -> None:
        """Record `result` of an elementwise function of one tensor: a node, of this label and kind, for each of `parts`."""
        made: dict[tuple[int, str], Node] = {}
        new = []
        for part in parts:
            node = made.setdefault((id(part.node), part.name), Node(kind, label, [part.node]))
            if part.name and label in NAMED:
                node.label = f"{part.name} = {label}"
            new.append(Part(node, part.name if kind == "operation" else "", part.size))
        self.put(result, new)

    def watch(self, direction: Direction) -> list[Any]:
        """Add hooks to the cell of `direction` that record each call of a Projection, a linear map, as one node.

        Returns the handles that remove the hooks.
        """
        handles = []
        for name, module in direction.cell.named_modules():
            if isinstance(module, Projection):
                title = name.replace(".", " ")
                handles += [
                    module.register_forward_pre_hook(lambda *_: self._enter()),
                    module.register_forward_hook(
                        lambda _, args, kwargs, output, title=title: self._leave(title, args, kwargs, output),
                        with_kwargs=True,
                    ),
                ]
        return handles

    def _enter(self) -> None:
        self.inside += 1

    def _leave(self, title: str, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
        self.inside -= 1
        read, plus = args[0], self.known(args[1] if len(args) > 1 else kwargs.get("plus"))
        node = Node("linear", title, [self.one(read)])
        if plus is None:
            self.put(output, _whole(node, output))
            return
        total = Node("operation", "+", [node, *dict.fromkeys(p.node for p in plus)])
        self.put(
            output,
            [Part(total, p.name, p.size) for p in plus] if _width(plus) == output.shape[-1] else _whole(total, output),
        )


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _flat(value)
        else:
            yield value


def _is_cut(args: tuple[Any, ...]) -> bool:
    index = args[1][-1] if isinstance(args[1], tuple) else None
    return isinstance(index, slice) and index != slice(None)


def _width(parts: list[Part]) -> int:
    return sum(part.size for part in parts)


def _whole(node: Node, tensor: Tensor) -> list[Part]:
    return [Part(node, "", tensor.shape[-1] if tensor.dim() else 1)]


@torch.no_grad()
def traced(cell: str) -> list[Node]:
    """Return a node for each new state of one step of `cell`, with the default values of the cell's options.

    The `sources` of these nodes lead back to the input and the old states.
    """
    options = {
        key: value for key, value in ONCE.items() if key in inspect.signature(cell_class(cell).__init__).parameters
    }
    network = build(f"{cell}-1x{UNITS}", inputs=FEATURES, outputs=2, device="cpu")
    if options:
        config = network.config
        architecture = config.architecture.model_copy(update={"options": {**config.architecture.options, **options}})
        network = build(config.model_copy(update={"architecture": architecture}), device="cpu")
    assert isinstance(network, RecurrentNetwork)
    direction: Direction = network.layers[0].forward_direction
    return _trace(direction.eval())


def _trace(direction: Direction) -> list[Node]:
    trace, x = Trace(), torch.randn(2, FEATURES, generator=torch.Generator().manual_seed(0))
    trace.constants = {id(p): _name(direction, p) for p in direction.parameters()}
    read, seen = direction.input(x), Node("input", "u(t)" if "x" in direction.cell.states else "x(t)")
    maps = Node("linear", "input", [seen])
    state = direction.zero_states(x)
    trace.put(x, _whole(seen, x))
    trace.put(read, [Part(maps, name, size) for name, size in _blocks(direction, read)])
    for name, s in zip(direction.cell.states, state, strict=True):
        trace.put(s, _whole(Node("state", f"{name}(t − 1)"), s))
    handles = trace.watch(direction)
    try:
        with trace:
            raw = isinstance(direction.cell, RawInputCell)
            new = direction.cell.step(direction.prepare(x) if raw else direction.cell.prepare(read), state)
    finally:
        for handle in handles:
            handle.remove()
    return [Node("output", f"{name}(t)", [trace.one(s)]) for name, s in zip(direction.cell.states, new, strict=True)]


def _blocks(direction: Direction, read: Tensor) -> list[tuple[str, int]]:
    """Return (name, number of channels) of each block of `read`, the projected input of `direction`, in order.

    The names are those of `cell.inputs`; "" if there is only one. Channels before the cell's are a block named "".
    """
    names, sizes = direction.cell.inputs, direction.input_channels
    before = read.shape[-1] - sum(sizes)
    named = list(zip(names, sizes, strict=True)) if len(names) > 1 else [("", sum(sizes))]
    return [("", before)] * (before > 0) + named


def _name(module: nn.Module, parameter: Tensor) -> str:
    name = next(name for name, p in module.named_parameters() if p is parameter)
    return name.removeprefix("cell.").removesuffix(".weight").replace(".", " ")
