"""PROPERTIES: what cells have in common across families, to choose among them. Needs no torch."""

from ..utils.arguments import check_name
from . import CELLS, ROWS

_GATED = """
antisymmetric-gated atr brc cfc cfn dsgu fastgrnn gated-deltanet gf-rnn gilr gla goru gru gru-d gru-skip hgrn
intersection janet lem lightru ligru lstm lstm-controller lstm-coupled lstm-f lstm-mass lstm-mogrifier
lstm-multiplicative lstm-ordered lstm-original lstm-peephole lstm-phased lstm-residual lstm-skip lstm-working mgu mgu1
mgu2 mgu3 mingru minimalrnn minlstm miru1 mlstm mut1 mut3 nas nbrc qrnn ran rg-lru rhn rwkv6 rwkv7 sgrn sgu slstm sru
star taugru tgru tlstm trnn ugrnn
"""
_LINEAR = """
deltanet gated-deltanet gilr gla hgrn lru mamba2 mingru minlstm mlstm qrnn retention rg-lru rwkv6 rwkv7 s4d s5 sru trnn
"""
_ORTHOGONAL = "eunn exprnn goru rnn-soft-orthogonal urnn urnn-full"
_CONTINUOUS = "antisymmetric antisymmetric-gated cfc cornn lem lipschitz lmu ltc mamba2 s4d s5 taugru unicornn"
_TIME_GAPS = "cfc gru-d ltc"
_INDEPENDENT = "brc gilr hgrn indrnn lru mingru minlstm qrnn rg-lru s4d sru tgru tlstm trnn unicornn"

PROPERTIES: dict[str, tuple[str, frozenset[str]]] = {
    "gated": ("sigmoids of the input or the state decide what is kept or written", frozenset(_GATED.split())),
    "linear": (
        "the new state is a linear function of the old one, so all steps can be computed at once",
        frozenset(_LINEAR.split()),
    ),
    "orthogonal": ("the recurrent matrix preserves norms, exactly or nearly", frozenset(_ORTHOGONAL.split())),
    "continuous-time": ("a step is one of a differential equation", frozenset(_CONTINUOUS.split())),
    "time-gaps": ("a step may take the time since the step before, `dt`", frozenset(_TIME_GAPS.split())),
    "independent": ("a unit sees no other unit's past", frozenset(_INDEPENDENT.split())),
    "convolutional": (
        "the recurrent projection may be a convolution",
        frozenset(name for name, row in CELLS.items() if "kernel" not in row.without),
    ),
}
"""By property: what it means, and the cells that have it."""


def cells_with(*properties: str) -> frozenset[str]:
    """Return the cells, and networks without one, that have all these properties. Raises UnknownNameError."""
    for name in properties:
        check_name("property", name, PROPERTIES)
    return frozenset(ROWS).intersection(*(PROPERTIES[name][1] for name in properties))


def properties_of(cell: str) -> list[str]:
    """Return the names of a cell's properties."""
    return [name for name, (_, cells) in PROPERTIES.items() if cell in cells]
