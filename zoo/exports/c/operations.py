"""The operations of torch in C, entry by entry: what a step of a cell may compute besides its matrix products."""

from string import Formatter

from torch import fx

from .tracing import ATEN

Argument = object
"""A node of the graph, or a number."""

_FORMULAS: dict[object, str] = {
    ATEN.sub.Tensor: "{} - {}",
    ATEN.mul.Tensor: "{} * {}",
    ATEN.div.Tensor: "{} / {}",
    ATEN.neg.default: "-{}",
    ATEN.sigmoid.default: "RNN_sigmoid({})",
    ATEN.tanh.default: "RNN_tanh({})",
    ATEN.relu.default: "RNN_relu({})",
    ATEN.exp.default: "RNN_exp({})",
    ATEN.expm1.default: "RNN_expm1({})",
    ATEN.log_sigmoid.default: "RNN_log_sigmoid({})",
    ATEN.sqrt.default: "RNN_SQRT({})",
    ATEN.square.default: "{0} * {0}",
    ATEN.minimum.default: "RNN_least({}, {})",
    ATEN.maximum.default: "RNN_most({}, {})",
    ATEN.clamp_min.default: "RNN_most({}, {})",
    ATEN.remainder.Scalar: "RNN_remainder({}, {})",
    ATEN.remainder.Tensor: "RNN_remainder({}, {})",
    ATEN.lerp.Tensor: "{0} + {2} * ({1} - {0})",
    ATEN.lerp.Scalar: "{0} + {2} * ({1} - {0})",
    ATEN.addcmul.default: "{} + {} * {}",
    ATEN.rsub.Scalar: "{1} - {0}",
    ATEN.where.self: "{} != 0.0f ? {} : {}",
    ATEN.gt.Scalar: "RNN_less({1}, {0})",
    ATEN.gt.Tensor: "RNN_less({1}, {0})",
    ATEN.lt.Scalar: "RNN_less({0}, {1})",
    ATEN.lt.Tensor: "RNN_less({0}, {1})",
    ATEN.ge.Scalar: "1.0f - RNN_less({0}, {1})",
    ATEN.le.Scalar: "1.0f - RNN_less({1}, {0})",
    ATEN.add.Tensor: "{} + {}",
    ATEN.isnan.default: "RNN_is_nan({})",
    ATEN.eq.Scalar: "{} == {} ? 1.0f : 0.0f",
    ATEN.gelu.default: "0.5f * {0} * (1.0f + RNN_erf(0.70710678f * {0}))",
    ATEN.silu.default: "{0} * RNN_sigmoid({0})",
    ATEN.softplus.default: "-RNN_log_sigmoid(-{})",
    ATEN.rsqrt.default: "1.0f / RNN_SQRT({})",
    ATEN.abs.default: "RNN_most({0}, -{0})",
    ATEN.reciprocal.default: "1.0f / {}",
}
"""By operation: a C expression for one element, with a `{}` for each argument. Arguments are names or numbers, so they need no
brackets."""


def formula(node: fx.Node) -> tuple[str, tuple[Argument, ...]] | None:
    """Return a C expression for one element of the node's output, with a `{}` for each argument, and the arguments.

    None if `_FORMULAS` has no such operation, or the node has options that change it.
    """
    text = _FORMULAS.get(node.target)
    if text is None or node.kwargs.keys() - {"alpha", "value"} or any(v != 1 for v in node.kwargs.values()):
        return None
    fields = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
    if len(node.args) != len(fields if "" in fields else set(fields)):  # an option by position
        return None
    return text, node.args


def number(value: float) -> str:
    """Return a number as a float literal of C, in brackets if it is negative."""
    text = repr(float(value))
    return f"{text}f" if value >= 0 else f"({text}f)"
