"""PROPERTIES: what cells have in common across families, to choose among them. Needs no torch."""

from ..errors import UnknownNameError
from . import CELLS, ROWS

PROPERTIES: dict[str, tuple[str, frozenset[str]]] = {
    "gated": (
        "sigmoids of the input or the state decide what is kept or written",
        frozenset(
            [
                "antisymmetric-gated",
                "atr",
                "brc",
                "cfn",
                "fastgrnn",
                "gated-deltanet",
                "gf-rnn",
                "gilr",
                "gla",
                "goru",
                "gru",
                "gru-skip",
                "hgrn",
                "intersection",
                "janet",
                "lem",
                "ligru",
                "lstm",
                "lstm-coupled",
                "lstm-f",
                "lstm-peephole",
                "lstm-phased",
                "lstm-residual",
                "lstm-skip",
                "mgu",
                "mgu1",
                "mgu2",
                "mgu3",
                "mingru",
                "minimalrnn",
                "minlstm",
                "mlstm",
                "nbrc",
                "qrnn",
                "ran",
                "rg-lru",
                "rhn",
                "rwkv6",
                "rwkv7",
                "slstm",
                "sru",
                "star",
                "ugrnn",
            ]
        ),
    ),
    "linear": (
        "the new state is a linear function of the old one, so all steps can be computed at once",
        frozenset(
            [
                "deltanet",
                "gated-deltanet",
                "gilr",
                "gla",
                "hgrn",
                "lru",
                "mamba2",
                "mingru",
                "minlstm",
                "mlstm",
                "qrnn",
                "retention",
                "rg-lru",
                "rwkv6",
                "rwkv7",
                "s4d",
                "s5",
                "sru",
            ]
        ),
    ),
    "orthogonal": (
        "the recurrent matrix preserves norms, exactly or nearly",
        frozenset(["eunn", "goru", "rnn-soft-orthogonal", "urnn", "urnn-full"]),
    ),
    "continuous-time": (
        "a step is one of a differential equation",
        frozenset(
            ["antisymmetric", "antisymmetric-gated", "cornn", "lem", "lipschitz", "mamba2", "s4d", "s5", "unicornn"]
        ),
    ),
    "independent": (
        "a unit sees no other unit's past",
        frozenset(
            ["brc", "gilr", "hgrn", "indrnn", "lru", "mingru", "minlstm", "qrnn", "rg-lru", "s4d", "sru", "unicornn"]
        ),
    ),
    "convolutional": (
        "the recurrent projection may be a convolution",
        frozenset(name for name, row in CELLS.items() if "kernel" not in row.without),
    ),
}
"""By property: what it means, and the cells that have it."""


def cells_with(*properties: str) -> frozenset[str]:
    """Return the cells, and networks without one, that have all these properties. Raises UnknownNameError."""
    for name in properties:
        if name not in PROPERTIES:
            raise UnknownNameError("property", name, PROPERTIES)
    return frozenset(ROWS).intersection(*(PROPERTIES[name][1] for name in properties))


def properties_of(cell: str) -> list[str]:
    """Return the names of a cell's properties."""
    return [name for name, (_, cells) in PROPERTIES.items() if cell in cells]
