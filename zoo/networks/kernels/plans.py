"""Plans of cells for the fused scans: the matrix products of one time step, and the name of the pointwise functions.

A plan repeats no equation of a cell. The equations are in the pointwise functions (native/cells.h, triton_pointwise.py), which
the tests compare with the cell's own step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ...cells.additive import CFN, RAN
from ...cells.antisymmetric import Antisymmetric, GatedAntisymmetric
from ...cells.base import Cell
from ...cells.bistable import NBRC
from ...cells.elman import ACTIVATIONS, IRNN, RNN
from ...cells.gru import GRU
from ...cells.lem import LEM
from ...cells.linear import GILR, QRNN, RGLRU, SRU, MinGRU, MinLSTM, linear, positive
from ...cells.lipschitz import LipschitzRNN
from ...cells.liquid import CfC
from ...cells.lstm import LSTM, CoupledLSTM, ForgetLSTM
from ...cells.lstm_variants import MultiplicativeLSTM, OriginalLSTM, logistic
from ...cells.mgu import MGU, MGU1, MGU2
from ...cells.minion import MiRU1
from ...cells.mutated import MUT1
from ...cells.projections import Projection
from ...cells.rhn import RHN
from ...cells.rin import RIN, RINDT
from ...cells.sgu import SGU
from ...cells.single_gate import ATR, JANET, SGRN, UGRNN, LightRU, LiGRU, MinimalRNN
from ...cells.star import STAR
from ...cells.unitary import SoftOrthogonalRNN
from ...cells.xlstm import SLSTM


@dataclass(frozen=True)
class Product:
    """A recurrent projection, whose outputs are added to the blocks of pre-activations from number `block` on.

    It is computed before the phase `phase` of a step. In phase 0 it projects the old h, in a later phase the result of the
    previous phase.
    """

    projection: Projection
    block: int = 0
    phase: int = 0


@dataclass(frozen=True)
class Plan:
    """How a fused scan computes one time step of a cell: matrix products, and pointwise functions of their results.

    name: the name of the pointwise functions in native/cells.h and triton_pointwise.py. products: the recurrent products.
    blocks: the number of blocks of pre-activations, each (batch, units), in a step: first those of the input projection,
    then those with only recurrent terms and biases. phases: the number of rounds of products in a step, one after the
    other. option: a number that the pointwise functions take, such as a step size. vector: a diagonal projection whose
    numbers, one for each unit, the pointwise functions take; the last block is that of its gradient.
    """

    name: str
    products: tuple[Product, ...]
    blocks: int
    phases: int = 1
    option: float = 0.0
    vector: Projection | None = None


def _plan(cell: Any, name: str, *products: Product, extra: int = 0, phases: int = 1, option: float = 0.0) -> Plan:
    """Return the plan of a cell with `extra` blocks beyond those of its input projection. name, products, ...: as in Plan."""
    return Plan(name, products, len(cell.inputs) + extra, phases, option)


def _antisymmetric(cell: Antisymmetric) -> Plan:
    return _plan(cell, "antisymmetric", Product(cell.recurrent), option=cell.epsilon)


def _gated_antisymmetric(cell: GatedAntisymmetric) -> Plan:
    return _plan(cell, "antisymmetric-gated", Product(cell.recurrent, block=2), extra=1, option=cell.epsilon)


def _gru(cell: GRU) -> Plan:
    if cell.before:
        return _plan(cell, "gru", Product(cell.gates), Product(cell.candidate, block=2, phase=1), phases=2)
    return _plan(cell, "gru-after", Product(cell.gates), Product(cell.candidate, block=3), extra=1)


def _rnn(cell: RNN) -> Plan | None:
    known = {function: f"{name}-rnn" for name, function in ACTIVATIONS.items()}.get(cell.activation)
    return None if known is None else _plan(cell, known, Product(cell.recurrent))


def _rhn(cell: RHN) -> Plan:
    products = [Product(m, block=3 * i, phase=i) for i, m in enumerate(cell.recurrent)]  # type: ignore[arg-type]
    return _plan(cell, "rhn", *products, extra=3 * (len(products) - 1), phases=len(products))


def _star(cell: STAR) -> Plan:
    return _plan(cell, "shifted-star" if cell.shift else "star", Product(cell.recurrent, block=1), option=cell.shift)


def _candidate(cell: MinGRU | MinLSTM, name: str) -> Plan | None:
    known = {linear: name, positive: f"positive-{name}"}.get(cell.candidate)
    return None if known is None else _plan(cell, known)


def _rin_dt(cell: RINDT) -> Plan:
    return _plan(cell, "rin-dt", Product(cell.recurrent), Product(cell.transition, block=1, phase=1), extra=1, phases=2)


def _rg_lru(cell: RGLRU) -> Plan:
    return Plan("rg-lru", (), len(cell.inputs) + 1, vector=cell.decay)


def _lipschitz(cell: LipschitzRNN) -> Plan:
    products = Product(cell.recurrent), Product(cell.drift, block=1)
    return _plan(cell, "lipschitz", *products, extra=1, option=cell.epsilon)


def _lem(cell: LEM) -> Plan:
    products = Product(cell.recurrent), Product(cell.output, block=3, phase=1)
    return _plan(cell, "lem", *products, phases=2, option=cell.dt)


def _cfc(cell: CfC) -> Plan | None:
    known = {"default": "cfc", "no_gate": "no-gate-cfc"}.get(cell.mode)
    if known is None:
        return None
    products = Product(cell.recurrent), Product(cell.heads, block=1, phase=1)
    return _plan(cell, known, *products, extra=4, phases=2, option=cell.dt)


def _original(cell: OriginalLSTM) -> Plan | None:
    known = {torch.tanh: "lstm-original", logistic: "logistic-lstm-original"}.get(cell.squash)
    return None if known is None else _plan(cell, known, Product(cell.recurrent), option=cell.scale)


def _multiplicative(cell: MultiplicativeLSTM) -> Plan:
    products = Product(cell.multiplied, block=5), Product(cell.recurrent, block=6, phase=1)
    return _plan(cell, "lstm-multiplicative", *products, extra=5, phases=2)


def _mgu1(cell: MGU1) -> Plan:
    return _plan(
        cell, "mgu1", Product(cell.gate, block=1), Product(cell.candidate, block=2, phase=1), extra=2, phases=2
    )


def _minimal(cell: MinimalRNN) -> Plan:
    products = Product(cell.recurrent, block=1), Product(cell.latent, block=2, phase=1)
    return _plan(cell, "minimalrnn", *products, extra=2, phases=2)


def _miru1(cell: MiRU1) -> Plan:
    products = Product(cell.gate), Product(cell.candidate, block=1, phase=1)
    return _plan(cell, "miru1", *products, phases=2, option=cell.update)


def _mut1(cell: MUT1) -> Plan:
    products = Product(cell.reset, block=1), Product(cell.candidate, block=3, phase=1)
    return _plan(cell, "mut1", *products, extra=1, phases=2)


def _sgu(cell: SGU) -> Plan:
    products = Product(cell.gate), Product(cell.recurrent, block=2, phase=1)
    return _plan(cell, "sgu", *products, extra=1, phases=2)


def _slstm(cell: SLSTM) -> Plan:
    return _plan(cell, "slstm" if cell.forget == "sigmoid" else "exp-slstm", Product(cell.recurrent))


PLANS: dict[type[Cell], Callable[[Any], Plan | None]] = {
    RNN: _rnn,
    SoftOrthogonalRNN: _rnn,
    IRNN: _rnn,
    RIN: lambda cell: _plan(cell, "rin", Product(cell.recurrent)),
    RINDT: _rin_dt,
    STAR: _star,
    LSTM: lambda cell: _plan(cell, "lstm", Product(cell.recurrent)),
    CoupledLSTM: lambda cell: _plan(cell, "lstm-coupled", Product(cell.recurrent)),
    ForgetLSTM: lambda cell: _plan(cell, "lstm-f", Product(cell.recurrent)),
    GRU: _gru,
    UGRNN: lambda cell: _plan(cell, "ugrnn", Product(cell.recurrent)),
    LiGRU: lambda cell: _plan(cell, "ligru", Product(cell.recurrent)),
    JANET: lambda cell: _plan(cell, "janet", Product(cell.recurrent), option=cell.beta),
    ATR: lambda cell: _plan(cell, "atr", Product(cell.recurrent, block=1), extra=1),
    MGU: lambda cell: _plan(cell, "mgu", Product(cell.gate), Product(cell.candidate, block=1, phase=1), phases=2),
    MGU1: _mgu1,
    MGU2: _mgu1,  # without the gate's bias
    MinimalRNN: _minimal,
    LightRU: lambda cell: _plan(cell, "lightru", Product(cell.recurrent)),
    SGRN: lambda cell: _plan(cell, "sgrn", Product(cell.recurrent, block=1), extra=1),
    MUT1: _mut1,
    MiRU1: _miru1,
    SGU: _sgu,
    NBRC: lambda cell: _plan(cell, "nbrc", Product(cell.recurrent)),
    CFN: lambda cell: _plan(cell, "cfn", Product(cell.recurrent)),
    RAN: lambda cell: _plan(cell, "ran" if cell.tanh else "identity-ran", Product(cell.recurrent)),
    OriginalLSTM: _original,
    MultiplicativeLSTM: _multiplicative,
    RHN: _rhn,
    Antisymmetric: _antisymmetric,
    GatedAntisymmetric: _gated_antisymmetric,
    LipschitzRNN: _lipschitz,
    LEM: _lem,
    CfC: _cfc,
    MinGRU: lambda cell: _candidate(cell, "mingru"),
    MinLSTM: lambda cell: _candidate(cell, "minlstm"),
    GILR: lambda cell: _plan(cell, "ugrnn"),  # UGRNN without its recurrent products
    QRNN: lambda cell: _plan(cell, "qrnn"),
    RGLRU: _rg_lru,
    SLSTM: _slstm,
    SRU: lambda cell: _plan(cell, "tanh-sru" if cell.tanh else "sru"),
}


def plan(cell: Cell) -> Plan | None:
    """Return the plan of a cell, or None if no fused scan knows the cell.

    The cell's class must be in PLANS itself, because a subclass may compute something else. A cell whose activation function was
    replaced has no plan either.
    """
    make = PLANS.get(type(cell))
    return make(cell) if make else None
