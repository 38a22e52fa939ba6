"""Checks of a cell of one's own: what networks rely on, whatever its equations."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor
from torch.func import functional_call
from torch.utils import deterministic

from ..cells import FEEDFORWARD, cell_class, cell_row
from ..cells.base import Cell
from ..cells.projections import Projection, ProjectionFactory
from ..errors import CellError, RequestError, ZooError, faults, first_line
from ..registry import load_registry
from ..registry.schema import Architecture, Config, Interface
from .builder import build
from .recurrent import RecurrentNetwork

UNITS, FEATURES, STEPS, BATCH = 8, 3, 7, 3
IMAGE = (4, 5)
"""Height and width of images, which differ from each other and from the number of units."""
TOLERANCE, FLOAT32 = 1e-8, 1e-4
"""Allowed relative and absolute deviations, in float64 and in float32."""
HINT = (
    ". Parameters beside the projections must reach `step` through `prepare`, by zoo.cells.projections.at_every_step."
)
Check = Callable[[str, Mapping[str, Any]], None]


def check_cell(cell: str, options: Mapping[str, Any] | None = None, *, smooth: bool = True) -> list[str]:
    """Check what networks rely on in a cell, and return a sentence for each property that holds.

    cell: a row of zoo.cells.CELLS, such as one that a program or a zoo's registry adds. options: its options.
    smooth: whether to compare gradients with finite differences; False for a cell whose gradient is not that of its function.

    Small networks with random parameters compute in float64, and for the fast scans in float32. Raises CellError for a cell that
    cannot be made, and for the first property that does not hold; RegistryError for a row whose class cannot be imported, is no
    Cell, or lacks an option of the row; UnknownNameError for an unknown cell; RequestError for a feed-forward cell, or options
    that the cell does not have.
    """
    load_registry()  # which may declare the cell
    row, held = cell_row(cell), []
    if cell in FEEDFORWARD:
        raise RequestError(f"{cell} is feed-forward, and check_cell takes recurrent cells.")
    try:
        own = _own_parameters(cell, options or {})
    except ZooError:
        raise
    except Exception as error:  # what the cell does is not ours
        raise CellError(f"The cell {cell} cannot be made. {first_line(error)}") from error
    for sentence, check in CHECKS.items():
        if (check is _gradients and not smooth) or (check is _convolution and "kernel" in row.without):
            continue
        try:
            check(cell, options or {})
        except ZooError:
            raise
        except Exception as error:
            hint = HINT if own and not isinstance(error, AssertionError) else ""
            raise CellError(f"The cell {cell} fails a check: {sentence}. {first_line(error)}{hint}") from error
        held.append(f"{sentence[0].upper()}{sentence[1:]}.")
    return held


def _steps(cell: str, options: Mapping[str, Any]) -> None:
    net, x = _network(cell, options), _normal(BATCH, STEPS, FEATURES)
    whole, final = net.resume(x)
    state, logits = None, []
    for x_t in x.unbind(1):
        now, state = net.step(x_t, state)
        logits.append(now)
    _same([torch.stack(logits, 1), *_flat(state)], [whole, *_flat(final)])


def _halves(cell: str, options: Mapping[str, Any]) -> None:
    net, x = _network(cell, options), _normal(BATCH, STEPS, FEATURES)
    whole, final = net.resume(x)
    first, state = net.resume(x[:, :4])
    second, state = net.resume(x[:, 4:], state)
    _same([torch.cat([first, second], 1), *_flat(state)], [whole, *_flat(final)])


def _padding(cell: str, options: Mapping[str, Any]) -> None:
    for merge in (None, "concat"):
        net, x = _network(cell, options, bidirectional=merge), _normal(BATCH, STEPS, FEATURES)
        lengths = torch.tensor([STEPS, 1, 4])
        together = net(x, lengths)
        for i, n in enumerate(lengths.tolist()):
            _same([together[i : i + 1, :n]], [net(x[i : i + 1, :n])])


def _fast_scans(cell: str, options: Mapping[str, Any]) -> None:
    for readout in ("every", "last"):
        net, x = _network(cell, options, readout=readout).float(), _normal(BATCH, STEPS, FEATURES).float()
        for lengths in (None, torch.tensor([STEPS, 1, 4])):
            results = []
            for net.backend in ("auto", "plain"):
                parameters = [p for p in net.parameters() if p.requires_grad]
                whole, final = net.encode(x, lengths=lengths)
                logits = net(x, lengths)
                gradients = torch.autograd.grad(logits.sum(), parameters, materialize_grads=True)
                results.append([whole, *_flat(final), logits, *gradients])
            torch.testing.assert_close(
                *results, rtol=FLOAT32, atol=FLOAT32 * max(1.0, float(whole.detach().abs().max()))
            )


def _gradients(cell: str, options: Mapping[str, Any]) -> None:
    net = _network(cell, options)
    names, values = zip(*((name, p.detach().requires_grad_()) for name, p in net.named_parameters()), strict=True)
    x = _normal(2, 3, FEATURES).requires_grad_()
    torch.autograd.gradcheck(
        lambda x, *values: functional_call(net, dict(zip(names, values, strict=True)), (x,)),
        (x, *values),
        fast_mode=True,
    )


def _convolution(cell: str, options: Mapping[str, Any]) -> None:
    image, dense = _network(cell, options, kernel=1), _network(cell, options)
    dense.load_state_dict(
        {name: p.flatten(2).squeeze(2) if p.dim() == 4 else p for name, p in image.state_dict().items()}
    )
    x = _normal(BATCH, STEPS, FEATURES, *IMAGE)
    hidden = image.encode(x)[0]
    for row, column in ((0, 0), (IMAGE[0] - 1, IMAGE[1] - 1)):
        _same([hidden[..., row, column]], [dense.encode(x[..., row, column])[0]])


def _initial_values(cell: str, options: Mapping[str, Any]) -> None:
    if cell_class(cell).set_initial_values is not Cell.set_initial_values:
        return
    for name, parameter in _own_parameters(cell, options).items():
        if parameter.isfinite().all() and parameter.any():
            raise AssertionError(f"{name} would start at zero: set it in set_initial_values, not in __init__.")


def _own_parameters(cell: str, options: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return a cell's parameters beside the projections, by name, as __init__ makes them: NaN where it sets no value."""
    direction = _network(cell, options).layers[0].forward_direction
    with _empty_is_nan():
        made = cell_class(cell)(ProjectionFactory(direction.units, None, False), **direction.options)
    projections = {id(p) for m in made.modules() if isinstance(m, Projection) for p in m.parameters()}
    return {name: p.detach() for name, p in made.named_parameters() if id(p) not in projections}


@contextmanager
def _empty_is_nan() -> Iterator[None]:
    """Make torch.empty hold NaN, as it does where algorithms must be deterministic and memory is filled."""
    settings: Any = deterministic  # its attribute is unknown to type checkers
    mode, filled = torch.get_deterministic_debug_mode(), settings.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    settings.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        settings.fill_uninitialized_memory = filled


CHECKS: dict[str, Check] = {
    "no initial value is set in __init__, where it is lost": _initial_values,
    "steps one by one give what the whole sequence gives": _steps,
    "two parts of a sequence give what the whole gives": _halves,
    "padding changes nothing, in one direction and in two": _padding,
    "the fast scan of this machine gives what the step gives": _fast_scans,
    "gradients are those of finite differences": _gradients,
    "a convolution by a kernel of one pixel gives at each pixel what the dense network gives": _convolution,
}
"""By sentence: the function that checks it, which raises an error if it does not hold."""


def _config(cell: str, options: Mapping[str, Any], readout: Any = "every", **fields: Any) -> Config:
    image, allowed = () if fields.get("kernel") is None else IMAGE, cell_row(cell).options
    parts = (n for name, n in options.items() if getattr(allowed.get(name), "divides_units", False))
    try:
        return Config(
            architecture=Architecture(
                cell=cell, layers=2, units=math.lcm(UNITS, *parts), options=dict(options), **fields
            ),
            interface=Interface(input=(FEATURES, *image), steps=STEPS, outputs=2, readout=readout),
        )
    except ValidationError as error:
        raise RequestError(f"{cell} cannot be checked: {faults(error)}") from error


def _network(cell: str, options: Mapping[str, Any], **fields: Any) -> RecurrentNetwork:
    """Return a network in float64 whose parameters are all random, biases included. fields: the readout, or of Architecture."""
    net: RecurrentNetwork = build(_config(cell, options, **fields), device="cpu", dtype="float64").eval()  # type: ignore[assignment]
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(0.4 * torch.randn(p.shape, generator=generator))
    return net


def _normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def _flat(state: Sequence[tuple[Tensor, ...]] | None) -> Iterator[Tensor]:
    return (s for layer in state or () for s in layer)


def _same(actual: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    torch.testing.assert_close(list(actual), list(expected), rtol=TOLERANCE, atol=TOLERANCE)
