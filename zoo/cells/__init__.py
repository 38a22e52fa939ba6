"""The tables CELLS, with a row for every cell, and FEEDFORWARD, for networks without a cell. Neither needs torch."""

from collections import ChainMap
from typing import TYPE_CHECKING

from ..utils import import_object
from ..utils.arguments import check_name
from .rows import CellRow, Number, own_class

if TYPE_CHECKING:
    from .base import Cell


_SMALL = {"input": "normal-0.001", "recurrent": "normal-0.001"}  # N(0, 1e-3) of the RIN paper, section 3.1

_ANGLES = {"recurrent": "uniform-3.1416"}
_SPREAD = {"recurrent": "lecun-uniform"}  # gives the matrix that a parametrization computes from it a spread of phases
_MATRIX = {
    "kernel": "its recurrent projection preserves norms, and has no convolutional form here",
    "layer_norm": "its recurrent projection preserves norms, and normalising would undo that",
}
_OWN_TIME = {"zoneout": "one of its states says when to keep the others, and zoneout would keep that one too"}
_PAST = {"zoneout": "one of its states is a copy of the past, and zoneout would mix it with an older copy"}
_INSIDE = {"dropout": "its layers lie inside one cell"}
_NO_PRODUCT = {"recurrent_dropout": "it has no recurrent projection"}
_SCALED = {"zoneout": "one of its states is the scale of others, and zoneout would keep one without the other"}
_PHI = ("tanh", "relu")
_HEADS = Number(1, 1024, whole=True, divides_units=True)
_MODULES = Number(1, 24, whole=True, divides_units=True)
"""Of a clockwork network; float32 counts the 2**modules steps of the slowest one."""
_COUNT = Number(1, 1024, whole=True)
_FULL_OR_RANK = Number(0, 1024, whole=True)
_FRACTION = Number(0.0, 1.0)
_UP_TO_TEN = Number(0.0, 10.0)
_DAMPING = Number(0.0, 1000.0)
_LOW_RANK = {"recurrent": "glorot-uniform"}
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

CELLS: dict[str, CellRow] = {
    "rnn": CellRow("elman.RNN", "simple recurrent network", "elman", {"activation": _PHI}),
    "lstm": CellRow("lstm.LSTM", "long short-term memory", "lstm", properties=("gated",)),
    "lstm-f": CellRow("lstm.ForgetLSTM", "LSTM with only the forget gate", "lstm-f", properties=("gated",)),
    "lstm-peephole": CellRow(
        "lstm.PeepholeLSTM", "LSTM with peepholes", "lstm-peephole", {"peephole": ("full", "diagonal")}, properties=("gated",),
    ),
    "lstm-coupled": CellRow(
        "lstm.CoupledLSTM", "LSTM with coupled forget and input gates", "lstm-coupled", properties=("gated",),
    ),
    "gru": CellRow("gru.GRU", "gated recurrent unit", "gru", {"reset": ("before", "after")}, properties=("gated",)),
    "rhn": CellRow("rhn.RHN", "recurrent highway network", "rhn", layers_inside=True, without=_INSIDE, properties=("gated",)),
    "star": CellRow("star.STAR", "stackable recurrent cell", "star", {"shift": Number()}, properties=("gated",)),
    "irnn": CellRow("elman.IRNN", "identity-initialised ReLU RNN", "irnn", init={**_SMALL, "recurrent": "identity"}),
    "rin": CellRow("rin.RIN", "recurrent identity network", "rin", init=_SMALL),
    "rin-dt": CellRow("rin.RINDT", "recurrent identity network with deep transitions", "rin", init=_SMALL),
    "antisymmetric": CellRow(
        "antisymmetric.Antisymmetric", "antisymmetric RNN", "antisymmetric",
        {"epsilon": _UP_TO_TEN, "gamma": _UP_TO_TEN}, _SPREAD, properties=("continuous-time",),
    ),
    "antisymmetric-gated": CellRow(
        "antisymmetric.GatedAntisymmetric", "antisymmetric RNN with a gate", "antisymmetric",
        {"epsilon": _UP_TO_TEN, "gamma": _UP_TO_TEN}, _SPREAD, properties=("gated", "continuous-time"),
    ),
    "eunn": CellRow(
        "rotations.EUNN", "efficient unitary network", "eunn", {"capacity": _COUNT}, _ANGLES,
        without=_MATRIX, properties=("orthogonal",),
    ),
    "gf-rnn": CellRow(
        "feedback.GatedFeedback", "gated feedback RNN", "gf-rnn", layers_inside=True, without=_INSIDE,
        properties=("gated",), memory_gates=False,
    ),
    "goru": CellRow(
        "rotations.GORU", "gated orthogonal recurrent unit", "goru", {"capacity": _COUNT},
        without=_MATRIX, properties=("gated", "orthogonal"),
    ),
    "gilr": CellRow(
        "linear.GILR", "gated impulse linear recurrence", "gilr", without=_NO_PRODUCT,
        properties=("gated", "linear", "independent"), recurrent_matrix=False,
    ),
    "gru-skip": CellRow("skip.SkipGRU", "GRU that skips steps", "skip", without=_OWN_TIME, properties=("gated",)),
    "hgrn": CellRow(
        "hgrn.HGRN", "hierarchically gated recurrent unit", "hgrn", init={"recurrent": "glorot-uniform"}, without=_NO_PRODUCT,
        properties=("gated", "linear"),
    ),
    "indrnn": CellRow(
        "indrnn.IndRNN", "independently recurrent network", "indrnn", {"activation": ("relu", "tanh")},
        properties=("independent",), recurrent_matrix=False,
    ),
    "intersection": CellRow("intersection.Intersection", "intersection RNN", "intersection", properties=("gated",)),
    "lru": CellRow(
        "complex.LRU", "linear recurrent unit", "lru",
        {
            "expand": Number(1, 64, whole=True), "min_radius": Number(0.0, 0.99999),
            "max_radius": Number(1e-3, 0.99999), "max_phase": Number(1e-3, 6.2832), "normalisation": ("tied", "learned"),
        },
        init={"recurrent": "glorot-uniform"}, without=_NO_PRODUCT, properties=("linear",),
    ),
    "lstm-phased": CellRow(
        "lstm.PhasedLSTM", "phased LSTM", "lstm-phased", {"ratio": Number(1e-6, 1.0), "leak": _FRACTION},
        without=_OWN_TIME, properties=("gated",),
    ),
    "lstm-residual": CellRow("lstm.ResidualLSTM", "residual LSTM", "lstm-residual", properties=("gated",)),
    "lstm-skip": CellRow("skip.SkipLSTM", "LSTM that skips steps", "skip", without=_OWN_TIME, properties=("gated",)),
    "mingru": CellRow(
        "linear.MinGRU", "minimal GRU", "minrnn", {"candidate": ("linear", "positive")}, without=_NO_PRODUCT,
        properties=("gated", "linear", "independent"), recurrent_matrix=False,
    ),
    "minlstm": CellRow(
        "linear.MinLSTM", "minimal LSTM", "minrnn", {"candidate": ("linear", "positive")}, without=_NO_PRODUCT,
        properties=("gated", "linear", "independent"), recurrent_matrix=False,
    ),
    "qrnn": CellRow(
        "linear.QRNN", "quasi-recurrent network", "qrnn", without=_NO_PRODUCT,
        properties=("gated", "linear", "independent"), recurrent_matrix=False,
    ),
    "rg-lru": CellRow(
        "linear.RGLRU", "real-gated linear recurrent unit", "griffin", without=_NO_PRODUCT,
        properties=("gated", "linear", "independent"), memory_gates=False, recurrent_matrix=False,
    ),
    "rnn-soft-orthogonal": CellRow(
        "unitary.SoftOrthogonalRNN", "softly orthogonal RNN", "rnn-soft-orthogonal",
        {"activation": _PHI, "margin": _FRACTION}, _SPREAD, without=_MATRIX, properties=("orthogonal",),
    ),
    "s4d": CellRow(
        "structured.S4D", "diagonal structured state-space model", "s4d",
        {"states": _COUNT, "spectrum": ("lin", "inv", "real"), "discretization": ("zoh", "bilinear")}, without=_NO_PRODUCT,
        properties=("linear", "continuous-time", "independent"), recurrent_matrix=False,
    ),
    "s5": CellRow(
        "structured.S5", "simplified structured state-space model", "s5",
        {"states": _COUNT, "blocks": _COUNT, "discretization": ("zoh", "bilinear")},
        {"recurrent": "glorot-uniform"}, without=_NO_PRODUCT, properties=("linear", "continuous-time"),
    ),
    "slstm": CellRow(
        "xlstm.SLSTM", "scalar xLSTM", "xlstm", {"heads": _HEADS, "forget": ("sigmoid", "exp")}, without=_SCALED,
        properties=("gated",),
    ),
    "mlstm": CellRow(
        "xlstm.MLSTM", "matrix xLSTM", "xlstm", {"heads": _HEADS, "forget": ("sigmoid", "exp")},
        without={**_NO_PRODUCT, **_SCALED}, properties=("gated", "linear"), recurrent_matrix=False,
    ),
    "retention": CellRow(
        "matrix.Retention", "retention", "retnet", {"heads": _HEADS}, without=_NO_PRODUCT,
        properties=("linear",), recurrent_matrix=False,
    ),
    "gla": CellRow(
        "matrix.GLA", "gated linear attention", "gla", {"heads": _HEADS, "rank": _COUNT}, _LOW_RANK, without=_NO_PRODUCT,
        properties=("gated", "linear"), memory_gates=False,
    ),
    "deltanet": CellRow(
        "delta.DeltaNet", "delta-rule network", "deltanet", {"heads": _HEADS}, without=_NO_PRODUCT,
        properties=("gated", "linear"), memory_gates=False, recurrent_matrix=False,
    ),
    "gated-deltanet": CellRow(
        "delta.GatedDeltaNet", "gated delta-rule network", "gated-deltanet", {"heads": _HEADS}, without=_NO_PRODUCT,
        properties=("gated", "linear"), memory_gates=False, recurrent_matrix=False,
    ),
    "mamba2": CellRow(
        "matrix.Mamba2", "Mamba-2", "mamba2", {"heads": _HEADS, "states": _COUNT}, without=_NO_PRODUCT,
        properties=("gated", "linear", "continuous-time"), memory_gates=False, recurrent_matrix=False,
    ),
    "rwkv6": CellRow(
        "matrix.RWKV6", "RWKV-6", "rwkv6", {"heads": _HEADS, "rank": _COUNT}, _LOW_RANK, without=_NO_PRODUCT,
        properties=("gated", "linear"), memory_gates=False,
    ),
    "rwkv7": CellRow(
        "delta.RWKV7", "RWKV-7", "rwkv7", {"heads": _HEADS, "rank": _COUNT}, _LOW_RANK, without=_NO_PRODUCT,
        properties=("gated", "linear"), memory_gates=False,
    ),
    "sru": CellRow(
        "linear.SRU", "simple recurrent unit", "sru", {"activation": ("identity", "tanh")}, without=_NO_PRODUCT,
        properties=("gated", "linear", "independent"), recurrent_matrix=False,
    ),
    "urnn": CellRow("unitary.URNN", "unitary evolution RNN", "urnn", init=_ANGLES, without=_MATRIX, properties=("orthogonal",)),
    "urnn-full": CellRow(
        "unitary.FullURNN", "full-capacity unitary RNN", "urnn-full", init=_SPREAD, without=_MATRIX, properties=("orthogonal",),
    ),
    "atr": CellRow(
        "single_gate.ATR", "addition-subtraction twin-gated network", "atr", properties=("gated",), memory_gates=False,
    ),
    "brc": CellRow("bistable.BRC", "bistable recurrent cell", "brc", properties=("gated", "independent"), recurrent_matrix=False),
    "cfn": CellRow("additive.CFN", "chaos-free network", "cfn", properties=("gated",)),
    "cornn": CellRow(
        "oscillators.CoRNN", "coupled oscillatory RNN", "cornn", {"dt": _UP_TO_TEN, "gamma": _DAMPING, "epsilon": _DAMPING},
        properties=("continuous-time",),
    ),
    "fastgrnn": CellRow(
        "fast.FastGRNN", "fast gated RNN", "fastgrnn", {"recurrent_rank": _FULL_OR_RANK},
        properties=("gated",), memory_gates=False,
    ),
    "fastrnn": CellRow("fast.FastRNN", "fast RNN", "fastgrnn", {"recurrent_rank": _FULL_OR_RANK}),
    "janet": CellRow(
        "single_gate.JANET", "LSTM with only the forget gate, as its paper has it", "lstm-f", {"beta": Number()},
        properties=("gated",),
    ),
    "lem": CellRow("lem.LEM", "long expressive memory", "lem", {"dt": _FRACTION}, properties=("gated", "continuous-time")),
    "ligru": CellRow("single_gate.LiGRU", "light GRU", "ligru", properties=("gated",)),
    "lightru": CellRow("single_gate.LightRU", "light recurrent unit", "lightru", properties=("gated",)),
    "lipschitz": CellRow(
        "lipschitz.LipschitzRNN", "Lipschitz RNN", "lipschitz",
        {"epsilon": _UP_TO_TEN, "beta": _FRACTION, "gamma": _UP_TO_TEN}, _SPREAD,
        properties=("continuous-time",),
    ),
    "mgu": CellRow("mgu.MGU", "minimal gated unit", "mgu", properties=("gated",)),
    "mgu1": CellRow(
        "mgu.MGU1", "minimal gated unit, its gate without the input", "mgu-simplified",
        properties=("gated",), memory_gates=False,
    ),
    "mgu2": CellRow(
        "mgu.MGU2", "minimal gated unit, its gate a product of the state alone", "mgu-simplified",
        properties=("gated",), memory_gates=False,
    ),
    "mgu3": CellRow(
        "mgu.MGU3", "minimal gated unit, its gate a bias alone", "mgu-simplified",
    ),
    "minimalrnn": CellRow("single_gate.MinimalRNN", "MinimalRNN", "minimalrnn", properties=("gated",), memory_gates=False),
    "miru1": CellRow(
        "minion.MiRU1", "minion recurrent unit with a reset gate", "miru", {"update": _FRACTION},
        properties=("gated",), memory_gates=False,
    ),
    "miru2": CellRow("minion.MiRU2", "minion recurrent unit without gates", "miru", {"update": _FRACTION, "beta": _FRACTION}),
    "nbrc": CellRow("bistable.NBRC", "recurrently neuromodulated bistable cell", "brc", properties=("gated",)),
    "ran": CellRow(
        "additive.RAN", "recurrent additive network", "ran", {"activation": ("tanh", "identity")}, properties=("gated",),
    ),
    "scrn": CellRow("additive.SCRN", "structurally constrained recurrent network", "scrn", {"alpha": _FRACTION}),
    "ugrnn": CellRow("single_gate.UGRNN", "update gate RNN", "intersection", properties=("gated",)),
    "unicornn": CellRow(
        "oscillators.UnICORNN", "undamped independent controlled oscillatory RNN", "unicornn",
        {"dt": _UP_TO_TEN, "alpha": _DAMPING}, properties=("continuous-time", "independent"), recurrent_matrix=False,
    ),
    "cfc": CellRow(
        "liquid.CfC", "closed-form continuous-time network", "cfc", {"dt": _UP_TO_TEN, "mode": ("default", "no_gate", "pure")},
        properties=("gated", "continuous-time", "time-gaps"), memory_gates=False,
    ),
    "ltc": CellRow(
        "liquid.LTC", "liquid time-constant network", "ltc", {"dt": _UP_TO_TEN, "unfolds": Number(1, 100, whole=True)},
        without={"recurrent_dropout": "its recurrent projection acts several times in a step"},
        properties=("continuous-time", "time-gaps"),
    ),
    "gru-d": CellRow(
        "missing.GRUD", "GRU with decay, for missing values", "gru-d",
        without={
            "zoneout": "its states say which values were seen, and zoneout would keep old ones",
            "recurrent_dropout": "its input and its times pass through recurrent projections",
            "block": "a block mixes the inputs before the cell can see which are missing",
        },
        properties=("gated", "time-gaps"),
    ),
    "clockwork": CellRow("clockwork.Clockwork", "clockwork RNN", "clockwork", {"modules": _MODULES}, without=_OWN_TIME),
    "esn": CellRow(
        "reservoir.ESN", "echo state network", "esn",
        {"leak": _FRACTION, "radius": Number(0.0, 100.0), "density": _FRACTION},
        {"input": "uniform-0.1", "recurrent": "uniform-1"}, without=_RESERVOIR,
    ),
    "exprnn": CellRow(
        "unitary.ExpRNN", "orthogonal RNN of an exponential", "exprnn", without=_MATRIX, recurrent_matrix=False,
        properties=("orthogonal",),
    ),
    "lmu": CellRow(
        "lmu.LMU", "Legendre memory unit", "lmu", {"order": _COUNT, "theta": Number(1.0, 1e6)}, properties=("continuous-time",),
    ),
    "lstm-controller": CellRow(
        "lstm_variants.ControllerLSTM", "LSTM with a memory controller", "lstm-controller", properties=("gated",)
    ),
    "lstm-mass": CellRow(
        "mass.MassLSTM", "mass-conserving LSTM", "lstm-mass",
        {"mass": _COUNT}, {"recurrent": "glorot-uniform"}, without=_MASS, properties=("gated",),
    ),
    "lstm-mogrifier": CellRow(
        "lstm_variants.MogrifierLSTM", "Mogrifier LSTM", "mogrifier", {"rounds": Number(0, 100, whole=True)},
        properties=("gated",), memory_gates=False,
    ),
    "lstm-multiplicative": CellRow(
        "lstm_variants.MultiplicativeLSTM", "multiplicative LSTM", "lstm-multiplicative", properties=("gated",),
    ),
    "lstm-ordered": CellRow(
        "lstm_variants.OrderedLSTM", "ordered-neurons LSTM (ON-LSTM)", "on-lstm", {"chunk": _HEADS}, properties=("gated",),
    ),
    "lstm-original": CellRow(
        "lstm_variants.OriginalLSTM", "LSTM without a forget gate", "lstm", {"squashing": ("tanh", "logistic")},
        properties=("gated",), memory_gates=False,
    ),
    "lstm-working": CellRow(
        "lstm_variants.WorkingMemoryLSTM", "LSTM with working memory connections", "lstm-working", properties=("gated",),
    ),
    "mut1": CellRow("mutated.MUT1", "mutated gated unit 1", "jozefowicz", properties=("gated",)),
    "mut3": CellRow("mutated.MUT3", "mutated gated unit 3", "jozefowicz", properties=("gated",)),
    "nas": CellRow(
        "lstm_variants.NAS", "cell of a neural architecture search", "nas", properties=("gated",), memory_gates=False,
    ),
    "dsgu": CellRow("sgu.DSGU", "deep simple gated unit", "sgu", properties=("gated",)),
    "sgu": CellRow("sgu.SGU", "simple gated unit", "sgu", properties=("gated",)),
    "sgrn": CellRow("single_gate.SGRN", "simple gated recurrent network", "sgrn", properties=("gated",), memory_gates=False),
    "taugru": CellRow(
        "delayed.TauGRU", "GRU with delayed feedback", "taugru", {"delay": _COUNT}, without=_PAST,
        properties=("gated", "continuous-time"),
    ),
    "tgru": CellRow(
        "strongly_typed.TGRU", "strongly typed GRU", "strongly-typed", without={**_NO_PRODUCT, **_PAST},
        properties=("gated", "linear", "independent"), recurrent_matrix=False,
    ),
    "tlstm": CellRow(
        "strongly_typed.TLSTM", "strongly typed LSTM", "strongly-typed", without={**_NO_PRODUCT, **_PAST},
        properties=("gated", "linear", "independent"), recurrent_matrix=False,
    ),
    "trnn": CellRow(
        "strongly_typed.TRNN", "strongly typed RNN", "strongly-typed", without=_NO_PRODUCT,
        properties=("gated", "linear", "independent"), recurrent_matrix=False,
    ),
}  # fmt: skip

_NO_TIME = dict.fromkeys(
    ("kernel", "bidirectional", "embedding", "recurrent_dropout", "zoneout", "layer_norm", "block"),
    "it has no time and no states",
)
FEEDFORWARD: dict[str, CellRow] = {
    "mlp": CellRow(
        "feedforward.FeedForward", "feed-forward network", "rumelhart",
        {"activation": ("tanh", "sigmoid", "relu", "leaky-relu", "prelu", "elu", "mpelu")},
        {"input": "glorot-uniform"}, without=_NO_TIME, recurrent_matrix=False,
    ),
}  # fmt: skip
"""Networks without recurrence. A specification names them where others name a cell."""

ROWS = ChainMap(CELLS, FEEDFORWARD)  # a row that a user adds to CELLS is in it too


def cell_row(name: str) -> CellRow:
    """Return the row of `name` in CELLS or FEEDFORWARD. Raise UnknownNameError, with near matches, if there is none."""
    own = "One of your own needs an entry in `cells` of registry.yaml or, in Python, a row in zoo.cells.CELLS."
    check_name("cell", name, ROWS, f"`rnnzoo list --cells` shows every cell. {own}")
    return ROWS[name]


def cell_class(name: str) -> "type[Cell]":
    """Import and return the class of the cell `name`. Raise UnknownNameError if there is none."""
    row = cell_row(name)
    cls: type[Cell] = own_class(row) if ":" in row.path else import_object(row.path, __name__)
    return cls
