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
    ATEN.clamp_max.default: "RNN_least({}, {})",
    ATEN.clamp.default: "RNN_least(RNN_most({}, {}), {})",
    ATEN.hardtanh.default: "RNN_least(RNN_most({}, {}), {})",
    ATEN.leaky_relu.default: "{0} < 0.0f ? 0.01f * {0} : {0}",
    ATEN.erf.default: "RNN_erf({})",
    ATEN.remainder.Scalar: "RNN_remainder({}, {})",
    ATEN.remainder.Tensor: "RNN_remainder({}, {})",
    ATEN.lerp.Tensor: "{0} + {2} * ({1} - {0})",
    ATEN.lerp.Scalar: "{0} + {2} * ({1} - {0})",
    ATEN.addcmul.default: "{} + {} * {}",
    ATEN.rsub.Scalar: "{1} - {0}",
    ATEN.where.self: "{} != 0.0f ? {} : {}",
    ATEN.where.ScalarSelf: "{} != 0.0f ? {} : {}",
    ATEN.where.ScalarOther: "{} != 0.0f ? {} : {}",
    ATEN.masked_fill.Scalar: "{1} != 0.0f ? {2} : {0}",
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
    target, arguments = _simpler(node)
    text = _FORMULAS.get(target)
    if text is None or node.kwargs.keys() - {"alpha", "value"} or any(v != 1 for v in node.kwargs.values()):
        return None
    fields = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
    if len(arguments) != len(fields if "" in fields else set(fields)):  # an option by position
        return None
    return text, arguments


def _simpler(node: fx.Node) -> tuple[object, tuple[Argument, ...]]:
    """Return the operation of a node and its arguments: of a square and of a clamp by one bound, the operation for these."""
    match node.target, node.args:
        case ATEN.pow.Tensor_Scalar, (x, 2):
            return ATEN.square.default, (x,)
        case ATEN.clamp.default, (x, low):
            return ATEN.clamp_min.default, (x, low)
        case ATEN.clamp.default, (x, None, high):
            return ATEN.clamp_max.default, (x, high)
        case target, arguments:
            return target, arguments


def number(value: float) -> str:
    """Return a number as a float literal of C, in brackets if it is negative."""
    text = repr(float(value))
    return f"{text}f" if value >= 0 else f"({text}f)"
