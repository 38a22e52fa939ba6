"""Checks a written file: runs it by its format's runtime, and compares logits and states with the equations in float64."""

import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import ExportError
from ..networks import golden
from ..networks.network import Network
from ..networks.recurrent import RecurrentNetwork
from .base import Runtime
from .graphs import flat, takes_gaps

TOLERANCE = golden.TOLERANCE
"""Largest allowed difference of a logit, relative to the largest logit (at least 1), as for golden outputs."""
SHORT, STEPS = 7, 50
"""The length of the second-shortest test sequence, and the largest number of steps that are taken one by one."""
WIDE, ROUNDINGS = 30, 10
"""The largest number of wide inputs, which shut gates, and how many times the network's own error in float32 is allowed."""


@dataclass(frozen=True)
class Checked:
    """How far a file's logits and states are from those of the equations."""

    difference: float
    """The largest difference of a logit or a final state, relative to the largest of its tensor (at least 1)."""
    lengths: tuple[int, ...]
    """The sequence lengths that were run."""


@torch.no_grad()
def check(runtime: Runtime, network: Network, kind: str) -> Checked:
    """Run a file on the input of the network's golden outputs, and compare its results with those of the equations.

    A graph of kind "step" takes up to STEPS steps, and the logits after every step are compared. A graph of kind "sequence"
    runs sequences of up to three lengths, and logits and final states are compared; if the network has one direction, each is
    also run in two parts, the second from the state after the first. Both run with two sequences, of which one ends earlier in
    the second kind, and with one; and if the cell uses the time between inputs, once more with random times. Those inputs are
    from 0 to 1. Where inputs are numbers, the first SHORT steps run again with inputs from -WIDE to WIDE.

    Raises ExportError if a number is off by more than TOLERANCE, and what the runtime raises. The network's own float32 may be off by
    more than TOLERANCE, for wide inputs or weights that amplify roundings, so up to ROUNDINGS times its error is allowed.
    """
    x, _ = golden.example_input(network)
    exact = golden.exact(network)
    if network.interface.readout == "none":
        sizes: tuple[int, ...] = ()
    else:
        steps = x.shape[1]
        sizes = tuple(sorted({1, min(SHORT, steps), min(STEPS, steps) if kind == "step" else steps}))
    run = sizes[-1:] if kind == "step" else sizes
    worst = max(_difference(runtime, exact, kind, part) for part in [x[:, :n] for n in run] or [x])
    _require(worst, exact, x)
    if x.is_floating_point():
        wide = WIDE * (2 * (x[:, :SHORT] if sizes else x) - 1)
        _require(_difference(runtime, exact, kind, wide), exact, wide, f" for inputs from -{WIDE} to {WIDE}")
    return Checked(worst, run)


def _require(difference: float, exact: Network, x: Tensor, where: str = "") -> None:
    """Raise ExportError if a difference exceeds TOLERANCE, and also ROUNDINGS times that of the network's own float32 on x.

    where: with what inputs, if they are wide; only for these may a file overflow, as the network does.
    """
    if difference <= TOLERANCE:
        return
    bound = max(TOLERANCE, ROUNDINGS * _rounding(exact, x))
    if not where and math.isinf(bound):
        bound = TOLERANCE
    if not difference <= bound:
        raise ExportError(
            f"its logits or states differ by {difference:.1e} from those of the equations{where}, more than {bound:.0e}"
        )


def _rounding(exact: Network, x: Tensor) -> float:
    """Return the largest difference of `_compare` between a network in float32 and `exact`, the same in float64."""
    single = copy.deepcopy(exact).float()
    if not isinstance(exact, RecurrentNetwork):
        return _compare(single(x), exact(x.double()))
    logits, ends = single.resume(x)
    expected, exact_ends = exact.resume(x.double())
    pairs = zip(flat(ends), flat(exact_ends), strict=True)
    return max(_compare(logits, expected), *(_compare(state, end) for state, end in pairs))


def _difference(runtime: Runtime, exact: Network, kind: str, x: Tensor) -> float:
    """Return the largest difference of `_compare` for x, without times between inputs and, if the cell uses them, with some."""
    if exact.interface.readout == "none":
        return max(_compare(runtime.sequence(x[:n])[0], exact(x[:n].double())) for n in (2, 1))
    compare = _steps if kind == "step" else _sequences
    return max(compare(runtime, exact, x, dt) for dt in _gaps(exact, x))


def _gaps(exact: Network, x: Tensor) -> list[Tensor | None]:
    """Return the times between inputs, (batch, time), with which to run x: None and, if the cell uses them, random ones."""
    if not (isinstance(exact, RecurrentNetwork) and takes_gaps(exact)):
        return [None]
    random = torch.rand(x.shape[:2], generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    return [None, 0.25 + 2 * random]


def _sequences(runtime: Runtime, exact: Network, x: Tensor, dt: Tensor | None) -> float:
    """Return the largest difference of `_compare` for two sequences of different lengths, for one, and for one in two parts.

    exact: the network in float64. x: the sequences. dt: (batch, time), or None.
    """
    steps = x.shape[1]
    if exact.interface.form == "question":  # a story of at least one word and a question of at least one
        steps = max(steps, 2)
        lengths = torch.tensor([[steps - 1, 1], [1, max(1, steps // 2)]])
        x = torch.cat([x, x], 1)[:, :steps]
    else:
        lengths = torch.tensor([steps, max(1, steps // 2)])
    double = x.double() if x.is_floating_point() else x
    logits, states = runtime.sequence(x, lengths, dt=dt)
    if isinstance(exact, RecurrentNetwork):
        expected, ends = exact.resume(double, lengths=lengths, dt=dt)
        pairs = zip(states, flat(ends), strict=True)
        worst = max(_compare(logits, expected), *(_compare(state, end) for state, end in pairs))
    else:
        expected = exact(double, lengths)
        worst = _compare(logits, expected)
    one, _ = runtime.sequence(x[:1], lengths[:1], dt=None if dt is None else dt[:1])
    worst = max(worst, _compare(one, expected[:1]))
    forward = isinstance(exact, RecurrentNetwork) and not exact.config.architecture.bidirectional
    if forward and steps > 1:
        half, whole = steps // 2, exact(double, dt=dt)
        early, late = (None, None) if dt is None else (dt[:, :half], dt[:, half:])
        first, state = runtime.sequence(x[:, :half], dt=early)
        rest, _ = runtime.sequence(x[:, half:], None, state, late)
        joined = torch.cat([first, rest], 1) if exact.interface.readout == "every" else rest
        worst = max(worst, _compare(joined, whole))
    return worst


def _steps(runtime: Runtime, exact: Network, x: Tensor, dt: Tensor | None) -> float:
    """Return the largest difference of `_compare` after any step of x, for two sequences and for one.

    exact: in float64. dt: (batch, time), or None.
    """
    assert isinstance(exact, RecurrentNetwork)
    double, worst = x.double() if x.is_floating_point() else x, 0.0
    for batch in (2, 1):
        state, exact_state = None, None
        for t in range(x.shape[1]):
            gap = None if dt is None else dt[:batch, t]
            logits, state = runtime.step(x[:batch, t], state, gap)
            expected, exact_state = exact.step(double[:batch, t], exact_state, dt=gap)
            worst = max(worst, _compare(logits, expected))
    return worst


def _compare(found: Tensor, expected: Tensor) -> float:
    """Return the largest difference, relative to the largest expected number (at least 1).

    Raises ExportError if the shapes differ.
    """
    if found.shape != expected.shape:
        raise ExportError(f"a result has shape {tuple(found.shape)}, that of the equations {tuple(expected.shape)}")
    difference = (found.double() - expected).abs().max() / expected.abs().max().clamp(min=1)
    return float(difference.nan_to_num(torch.inf))
