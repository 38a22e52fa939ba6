"""CELLS, every cell that rnnzoo knows, and FEEDFORWARD, networks without one: a row each. Neither table needs torch."""

from collections import ChainMap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..utils import import_object
from ..utils.arguments import check_name

if TYPE_CHECKING:
    from .base import Cell


@dataclass(frozen=True)
class Number:
    """An option that is a number from `low` to `high`."""

    low: float = -1e30
    high: float = 1e30
    whole: bool = False
    divides_units: bool = False
    """Whether the number of units must be a multiple of it."""

    def allows(self, value: object) -> bool:
        """Return whether `value` is such a number. A bool is not."""
        is_number = isinstance(value, int if self.whole else int | float) and not isinstance(value, bool)
        return is_number and self.low <= value <= self.high  # type: ignore[operator]  # False for NaN

    def __str__(self) -> str:
        return f"a {'whole' if self.whole else 'finite'} number from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class CellRow:
    """Where a cell's class lives and what a specification may say about it."""

    path: str
    """`module.Class` within zoo.cells, for a row of FEEDFORWARD within zoo.networks; `package.module:Class` elsewhere."""
    title: str
    paper: str
    """Its source, a key of the registry's papers."""
    options: dict[str, tuple[str, ...] | Number] = field(default_factory=dict)
    """Allowed options: the allowed words, or the allowed numbers."""
    init: dict[str, str] = field(default_factory=dict)
    """Initialisers that belong to the cell's definition and differ from the general defaults."""
    layers_inside: bool = False
    """Whether a specification's layers are the depth of one cell, rather than a stack of cells."""
    without: dict[str, str] = field(default_factory=dict)
    """Fields of a specification that the cell cannot have, each with the reason."""


_SMALL = {"input": "normal-0.001", "recurrent": "normal-0.001"}  # N(0, 1e-3) of the RIN paper, section 3.1

_ANGLES = {"recurrent": "uniform-3.1416"}
_SPREAD = {"recurrent": "lecun-uniform"}  # gives the matrix that a parametrization computes from it a spread of phases
_MATRIX = {
    "kernel": "its recurrent projection preserves norms, and has no convolutional form here",
    "layer_norm": "its recurrent projection preserves norms, and normalising would undo that",
}
_OWN_TIME = {"zoneout": "one of its states says when to keep the others, and zoneout would keep that one too"}
_NO_PRODUCT = {"recurrent_dropout": "it has no recurrent projection"}
_SCALED = {"zoneout": "one of its states is the scale of others, and zoneout would keep one without the other"}
_RESERVOIR = {
    "kernel": "its recurrent matrix is scaled to a spectral radius",
    "layer_norm": "its recurrent matrix is scaled to a spectral radius, and normalising would undo that",
}
_MASS = {
    "kernel": "its masses have no convolutional form here",
    "layer_norm": "its gates see shares of the mass already",
    "zoneout": "a state kept beside a new one would hold some of the mass twice",
    "recurrent_dropout": "what it drops of a state would be lost mass",
}
_PHI = ("tanh", "relu")
_HEADS = Number(1, 1024, whole=True, divides_units=True)
_STATES = Number(1, 1024, whole=True)
_RANK = Number(1, 1024, whole=True)
_FULL_OR_RANK = Number(0, 1024, whole=True)
_STEP = Number(0.0, 10.0)
_FRACTION = Number(0.0, 1.0)
_DAMPING = Number(0.0, 1000.0)
_LOW_RANK = {"recurrent": "glorot-uniform"}

CELLS: dict[str, CellRow] = {
    "rnn": CellRow("elman.RNN", "simple recurrent network", "elman", {"activation": _PHI}),
    "lstm": CellRow("lstm.LSTM", "long short-term memory", "lstm"),
    "lstm-f": CellRow("lstm.ForgetLSTM", "LSTM with only the forget gate", "lstm-f"),
    "lstm-peephole": CellRow(
        "lstm.PeepholeLSTM", "LSTM with peepholes", "lstm-peephole", {"peephole": ("full", "diagonal")}
    ),
    "lstm-coupled": CellRow("lstm.CoupledLSTM", "LSTM with coupled forget and input gates", "lstm-coupled"),
    "gru": CellRow("gru.GRU", "gated recurrent unit", "gru", {"reset": ("before", "after")}),
    "rhn": CellRow("rhn.RHN", "recurrent highway network", "rhn", layers_inside=True),
    "star": CellRow("star.STAR", "stackable recurrent cell", "star", {"shift": Number()}),
    "irnn": CellRow("elman.IRNN", "identity-initialised ReLU RNN", "irnn", init={**_SMALL, "recurrent": "identity"}),
    "rin": CellRow("rin.RIN", "recurrent identity network", "rin", init=_SMALL),
    "rin-dt": CellRow("rin.RINDT", "recurrent identity network with deep transitions", "rin", init=_SMALL),
    "antisymmetric": CellRow(
        "antisymmetric.Antisymmetric", "antisymmetric RNN", "antisymmetric",
        {"epsilon": Number(0.0, 10.0), "gamma": Number(0.0, 10.0)}, _SPREAD,
    ),
    "antisymmetric-gated": CellRow(
        "antisymmetric.GatedAntisymmetric", "antisymmetric RNN with a gate", "antisymmetric",
        {"epsilon": Number(0.0, 10.0), "gamma": Number(0.0, 10.0)}, _SPREAD,
    ),
    "eunn": CellRow(
        "rotations.EUNN", "efficient unitary network", "eunn", {"capacity": Number(1, 1024, whole=True)}, _ANGLES,
        without=_MATRIX,
    ),
    "gf-rnn": CellRow("feedback.GatedFeedback", "gated feedback RNN", "gf-rnn", layers_inside=True),
    "goru": CellRow(
        "rotations.GORU", "gated orthogonal recurrent unit", "goru", {"capacity": Number(1, 1024, whole=True)},
        without=_MATRIX,
    ),
    "gilr": CellRow("linear.GILR", "gated impulse linear recurrence", "gilr", without=_NO_PRODUCT),
    "gru-skip": CellRow("skip.SkipGRU", "GRU that skips steps", "skip", without=_OWN_TIME),
    "hgrn": CellRow(
        "hgrn.HGRN", "hierarchically gated recurrent unit", "hgrn", init={"recurrent": "glorot-uniform"}, without=_NO_PRODUCT
    ),
    "indrnn": CellRow("indrnn.IndRNN", "independently recurrent network", "indrnn", {"activation": ("relu", "tanh")}),
    "intersection": CellRow("intersection.Intersection", "intersection RNN", "intersection"),
    "lru": CellRow(
        "complex.LRU", "linear recurrent unit", "lru",
        {
            "expand": Number(1, 64, whole=True), "min_radius": Number(0.0, 0.99999),
            "max_radius": Number(1e-3, 0.99999), "max_phase": Number(1e-3, 6.2832), "normalisation": ("tied", "learned"),
        },
        init={"recurrent": "glorot-uniform"}, without=_NO_PRODUCT,
    ),
    "lstm-phased": CellRow(
        "lstm.PhasedLSTM", "phased LSTM", "lstm-phased", {"ratio": Number(1e-6, 1.0), "leak": Number(0.0, 1.0)},
        without=_OWN_TIME,
    ),
    "lstm-residual": CellRow("lstm.ResidualLSTM", "residual LSTM", "lstm-residual"),
    "lstm-skip": CellRow("skip.SkipLSTM", "LSTM that skips steps", "skip", without=_OWN_TIME),
    "mingru": CellRow(
        "linear.MinGRU", "minimal GRU", "minrnn", {"candidate": ("linear", "positive")}, without=_NO_PRODUCT
    ),
    "minlstm": CellRow(
        "linear.MinLSTM", "minimal LSTM", "minrnn", {"candidate": ("linear", "positive")}, without=_NO_PRODUCT
    ),
    "qrnn": CellRow("linear.QRNN", "quasi-recurrent network", "qrnn", without=_NO_PRODUCT),
    "rg-lru": CellRow("linear.RGLRU", "real-gated linear recurrent unit", "griffin", without=_NO_PRODUCT),
    "rnn-soft-orthogonal": CellRow(
        "unitary.SoftOrthogonalRNN", "softly orthogonal RNN", "rnn-soft-orthogonal",
        {"activation": _PHI, "margin": Number(0.0, 1.0)}, _SPREAD, without=_MATRIX,
    ),
    "s4d": CellRow(
        "structured.S4D", "diagonal structured state-space model", "s4d",
        {"states": _STATES, "spectrum": ("lin", "inv", "real"), "discretization": ("zoh", "bilinear")}, without=_NO_PRODUCT,
    ),
    "s5": CellRow(
        "structured.S5", "simplified structured state-space model", "s5",
        {"states": _STATES, "blocks": _STATES, "discretization": ("zoh", "bilinear")},
        {"recurrent": "glorot-uniform"}, without=_NO_PRODUCT,
    ),
    "slstm": CellRow(
        "xlstm.SLSTM", "scalar xLSTM", "xlstm", {"heads": _HEADS, "forget": ("sigmoid", "exp")}, without=_SCALED
    ),
    "mlstm": CellRow(
        "xlstm.MLSTM", "matrix xLSTM", "xlstm", {"heads": _HEADS, "forget": ("sigmoid", "exp")},
        without={**_NO_PRODUCT, **_SCALED},
    ),
    "retention": CellRow("matrix.Retention", "retention", "retnet", {"heads": _HEADS}, without=_NO_PRODUCT),
    "gla": CellRow(
        "matrix.GLA", "gated linear attention", "gla", {"heads": _HEADS, "rank": _RANK}, _LOW_RANK, without=_NO_PRODUCT
    ),
    "deltanet": CellRow("delta.DeltaNet", "delta-rule network", "deltanet", {"heads": _HEADS}, without=_NO_PRODUCT),
    "gated-deltanet": CellRow(
        "delta.GatedDeltaNet", "gated delta-rule network", "gated-deltanet", {"heads": _HEADS}, without=_NO_PRODUCT
    ),
    "mamba2": CellRow(
        "matrix.Mamba2", "Mamba-2", "mamba2", {"heads": _HEADS, "states": _STATES}, without=_NO_PRODUCT
    ),
    "rwkv6": CellRow(
        "matrix.RWKV6", "RWKV-6", "rwkv6", {"heads": _HEADS, "rank": _RANK}, _LOW_RANK, without=_NO_PRODUCT
    ),
    "rwkv7": CellRow(
        "delta.RWKV7", "RWKV-7", "rwkv7", {"heads": _HEADS, "rank": _RANK}, _LOW_RANK, without=_NO_PRODUCT
    ),
    "sru": CellRow(
        "linear.SRU", "simple recurrent unit", "sru", {"activation": ("identity", "tanh")}, without=_NO_PRODUCT
    ),
    "urnn": CellRow("unitary.URNN", "unitary evolution RNN", "urnn", init=_ANGLES, without=_MATRIX),
    "urnn-full": CellRow("unitary.FullURNN", "full-capacity unitary RNN", "urnn-full", init=_SPREAD, without=_MATRIX),
    "atr": CellRow("single_gate.ATR", "addition-subtraction twin-gated network", "atr"),
    "brc": CellRow("bistable.BRC", "bistable recurrent cell", "brc"),
    "cfn": CellRow("additive.CFN", "chaos-free network", "cfn"),
    "cornn": CellRow(
        "oscillators.CoRNN", "coupled oscillatory RNN", "cornn", {"dt": _STEP, "gamma": _DAMPING, "epsilon": _DAMPING}
    ),
    "fastgrnn": CellRow("fast.FastGRNN", "fast gated RNN", "fastgrnn", {"recurrent_rank": _FULL_OR_RANK}),
    "fastrnn": CellRow("fast.FastRNN", "fast RNN", "fastgrnn", {"recurrent_rank": _FULL_OR_RANK}),
    "janet": CellRow("single_gate.JANET", "LSTM with only the forget gate, as its paper has it", "lstm-f", {"beta": Number()}),
    "lem": CellRow("lem.LEM", "long expressive memory", "lem", {"dt": Number(0.0, 1.0)}),
    "ligru": CellRow("single_gate.LiGRU", "light GRU", "ligru"),
    "lightru": CellRow("single_gate.LightRU", "light recurrent unit", "lightru"),
    "lipschitz": CellRow(
        "lipschitz.LipschitzRNN", "Lipschitz RNN", "lipschitz",
        {"epsilon": Number(0.0, 10.0), "beta": Number(0.0, 1.0), "gamma": Number(0.0, 10.0)}, _SPREAD,
    ),
    "mgu": CellRow("mgu.MGU", "minimal gated unit", "mgu"),
    "mgu1": CellRow("mgu.MGU1", "minimal gated unit, its gate without the input", "mgu-simplified"),
    "mgu2": CellRow("mgu.MGU2", "minimal gated unit, its gate a product of the state alone", "mgu-simplified"),
    "mgu3": CellRow("mgu.MGU3", "minimal gated unit, its gate a bias alone", "mgu-simplified"),
    "minimalrnn": CellRow("single_gate.MinimalRNN", "MinimalRNN", "minimalrnn"),
    "miru1": CellRow("minion.MiRU1", "minion recurrent unit with a reset gate", "miru", {"update": _FRACTION}),
    "miru2": CellRow(
        "minion.MiRU2", "minion recurrent unit without gates", "miru", {"update": _FRACTION, "beta": _FRACTION}
    ),
    "nbrc": CellRow("bistable.NBRC", "recurrently neuromodulated bistable cell", "brc"),
    "ran": CellRow("additive.RAN", "recurrent additive network", "ran", {"activation": ("tanh", "identity")}),
    "scrn": CellRow("additive.SCRN", "structurally constrained recurrent network", "scrn", {"alpha": Number(0.0, 1.0)}),
    "ugrnn": CellRow("single_gate.UGRNN", "update gate RNN", "intersection"),
    "unicornn": CellRow(
        "oscillators.UnICORNN", "undamped independent controlled oscillatory RNN", "unicornn",
        {"dt": _STEP, "alpha": Number(0.0, 1000.0)},
    ),
    "cfc": CellRow("liquid.CfC", "closed-form continuous-time network", "cfc", {"dt": _STEP, "mode": ("default", "no_gate", "pure")}),
    "ltc": CellRow(
        "liquid.LTC", "liquid time-constant network", "ltc", {"dt": _STEP, "unfolds": Number(1, 100, whole=True)},
        without={"recurrent_dropout": "its recurrent projection acts several times in a step"},
    ),
    "gru-d": CellRow(
        "missing.GRUD", "GRU with decay, for missing values", "gru-d",
        without={
            "zoneout": "its states say which values were seen, and zoneout would keep old ones",
            "recurrent_dropout": "its input and its times pass through recurrent projections",
            "block": "a block mixes the inputs before the cell can see which are missing",
        },
    ),
    "clockwork": CellRow(
        "clockwork.Clockwork", "clockwork RNN", "clockwork", {"modules": _HEADS}, without=_OWN_TIME
    ),
    "esn": CellRow(
        "reservoir.ESN", "echo state network", "esn",
        {"leak": _FRACTION, "radius": Number(0.0, 100.0), "density": _FRACTION},
        {"input": "uniform-0.1", "recurrent": "uniform-1"}, without=_RESERVOIR,
    ),
    "exprnn": CellRow("unitary.ExpRNN", "orthogonal RNN of an exponential", "exprnn", without=_MATRIX),
    "lmu": CellRow("lmu.LMU", "Legendre memory unit", "lmu", {"order": _STATES, "theta": Number(1.0, 1e6)}),
    "lstm-controller": CellRow("lstm_variants.ControllerLSTM", "LSTM with a memory controller", "lstm-controller"),
    "lstm-mass": CellRow(
        "mass.MassLSTM", "mass-conserving LSTM", "lstm-mass",
        {"mass": _STATES}, {"recurrent": "glorot-uniform"}, without=_MASS,
    ),
    "lstm-mogrifier": CellRow(
        "lstm_variants.MogrifierLSTM", "Mogrifier LSTM", "mogrifier", {"rounds": Number(0, 100, whole=True)}
    ),
    "lstm-multiplicative": CellRow("lstm_variants.MultiplicativeLSTM", "multiplicative LSTM", "lstm-multiplicative"),
    "lstm-ordered": CellRow("lstm_variants.OrderedLSTM", "ordered-neurons LSTM (ON-LSTM)", "on-lstm", {"chunk": _HEADS}),
    "lstm-original": CellRow(
        "lstm_variants.OriginalLSTM", "LSTM without a forget gate", "lstm", {"squashing": ("tanh", "logistic")}
    ),
    "lstm-working": CellRow("lstm_variants.WorkingMemoryLSTM", "LSTM with working memory connections", "lstm-working"),
    "mut1": CellRow("mutated.MUT1", "mutated gated unit 1", "jozefowicz"),
    "mut3": CellRow("mutated.MUT3", "mutated gated unit 3", "jozefowicz"),
    "nas": CellRow("lstm_variants.NAS", "cell of a neural architecture search", "nas"),
    "dsgu": CellRow("sgu.DSGU", "deep simple gated unit", "sgu"),
    "sgu": CellRow("sgu.SGU", "simple gated unit", "sgu"),
    "sgrn": CellRow("single_gate.SGRN", "simple gated recurrent network", "sgrn"),
    "taugru": CellRow("delayed.TauGRU", "GRU with delayed feedback", "taugru", {"delay": _STATES}),
    "tgru": CellRow("strongly_typed.TGRU", "strongly typed GRU", "strongly-typed", without=_NO_PRODUCT),
    "tlstm": CellRow("strongly_typed.TLSTM", "strongly typed LSTM", "strongly-typed", without=_NO_PRODUCT),
    "trnn": CellRow("strongly_typed.TRNN", "strongly typed RNN", "strongly-typed", without=_NO_PRODUCT),
}  # fmt: skip

_NO_TIME = dict.fromkeys(
    ("kernel", "bidirectional", "embedding", "recurrent_dropout", "zoneout", "layer_norm", "block"),
    "it has no time and no states",
)
FEEDFORWARD: dict[str, CellRow] = {
    "mlp": CellRow(
        "feedforward.FeedForward", "feed-forward network", "rumelhart",
        {"activation": ("tanh", "sigmoid", "relu", "leaky-relu", "prelu", "elu", "mpelu")},
        {"input": "glorot-uniform"}, without=_NO_TIME,
    ),
}  # fmt: skip
"""Networks without recurrence, named in a specification in the place of a cell."""

ROWS = ChainMap(CELLS, FEEDFORWARD)  # a row that a user adds to CELLS is in it too


def cell_row(name: str) -> CellRow:
    """Return the row of `name` in CELLS or FEEDFORWARD. Raise UnknownNameError, with near matches, if there is none."""
    check_name("cell", name, ROWS)
    return ROWS[name]


def cell_class(name: str) -> "type[Cell]":
    """Import and return the class of the cell `name`. Raise UnknownNameError if there is none."""
    cls: type[Cell] = import_object(cell_row(name).path, __name__)
    return cls
