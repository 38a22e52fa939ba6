"""The colour of each cell in every picture. Needs no torch."""

import hashlib
import re

from . import ROWS

CELL_COLOURS = {
    "star": "#000000", "rnn": "#d55e00", "lstm": "#0072b2", "lstm-f": "#56b4e9", "gru": "#009e73", "rhn": "#cc79a7",
    "rin": "#e69f00", "irnn": "#8c510a", "mlp": "#555555", "lstm-peephole": "#3a3a98", "lstm-coupled": "#88ccee",
    "lstm-phased": "#332288", "lstm-residual": "#6699cc", "lstm-skip": "#4477aa", "minlstm": "#00b4d8",
    "gru-skip": "#117733", "gf-rnn": "#66c2a5", "mingru": "#80c000", "rin-dt": "#b8860b", "indrnn": "#cc3311",
    "intersection": "#ee7733", "rnn-soft-orthogonal": "#ee8866", "antisymmetric": "#882255",
    "antisymmetric-gated": "#aa4499", "eunn": "#762a83", "goru": "#9970ab", "urnn": "#5e3c99", "urnn-full": "#b2abd2",
    "gilr": "#999933", "qrnn": "#ddaa33", "sru": "#bbcc33", "lru": "#dc267f", "rg-lru": "#ff6fae",
    "hgrn": "#a83279", "s4d": "#8b5a2b", "s5": "#c49a6c", "slstm": "#1f4e79", "mlstm": "#5b9bd5", "retention": "#7f6000",
    "gla": "#2ca089", "deltanet": "#ff7f50", "gated-deltanet": "#c8553d", "mamba2": "#4b8b3b", "rwkv6": "#7a6ff0",
    "rwkv7": "#4838c0",
    "atr": "#fc00fc", "brc": "#0000fc", "cfn": "#fc0c54", "cornn": "#fc78fc", "fastgrnn": "#00c054",
    "fastrnn": "#9c3cfc", "janet": "#3c4818", "lem": "#a80cb4", "ligru": "#00cc00", "lipschitz": "#fc00c0",
    "mgu": "#782424", "mgu1": "#9ca89c", "mgu2": "#3090fc", "mgu3": "#a87878", "minimalrnn": "#543054",
    "nbrc": "#247884", "ran": "#cc9cfc", "scrn": "#fc0000", "ugrnn": "#9cb478", "unicornn": "#0018cc", "cfc": "#a8003c",
    "ltc": "#00483c", "clockwork": "#fc909c", "exprnn": "#309000", "lmu": "#787854", "lstm-mogrifier": "#90000c",
    "lstm-multiplicative": "#84c054", "lstm-ordered": "#fc6078", "lstm-original": "#b45460", "lstm-working": "#543c24",
    "mut1": "#b460f0", "mut3": "#486000", "nas": "#606cc0", "dsgu": "#0054fc", "sgu": "#f084d8", "taugru": "#c00090",
    "tgru": "#847890", "tlstm": "#e49c54", "trnn": "#00480c", "gru-d": "#7890b4",
    "lightru": "#18fc9c", "lstm-controller": "#48fc30", "lstm-mass": "#24fcfc", "miru1": "#600cfc", "miru2": "#54fc78",
    "sgrn": "#00fc30", "esn": "#f03cd8",
}  # fmt: skip
"""Colours chosen by hand: those of Okabe & Ito for the cells of the papers' figures. Other cells get one from their name."""


def cell_colour(text: str) -> str | None:
    """Return the colour of the cell that `text` begins with, such as `convlstm-2x8`, or None if it begins with no cell."""
    known = re.match(
        rf"(?:bi)?(?:block)?(?:conv)?({'|'.join(sorted(ROWS, key=len, reverse=True))})(?![a-z]|-[a-z])", text
    )
    if known is None:
        return None
    return CELL_COLOURS.get(known[1]) or f"#{hashlib.sha256(known[1].encode()).hexdigest()[:6]}"
