"""The models to start with, and the weights that a wheel leaves out.

setup.py runs this file on its own, so it imports nothing from zoo.
"""

from typing import Any

STARTERS = (
    "star-16x64-pmnist", "gru-1x128-mnist-rows", "convlstm-f-2x8-nmnist-small", "rnn-8x32-sits", "gru-1x200-spooky",
    "bigru-1x200-toxic-parts", "rin-1x100-babi-20", "rin-1x100-adding-200", "mlp-3x8-pima.prelu-tuned",
    "mlp-3x8-circles.prelu-tuned", "star-2x96-jsb", "mingru-3x96-fsdd", "gru-2x256-shakespeare", "star-2x64-japanese-vowels",
    "gru-2x64-lorenz", "lru-1x64-copying", "gru-1x128-wikitext2-bytes",
)  # fmt: skip
"""Names of good models with weights, one for each task family that has any."""
PICTURE = "lattice.png"
"""File name of the picture on a card."""
MAX_BYTES = 1_000_000
"""A wheel contains the weights of STARTERS that have at most this many bytes, so that it stays below 10 MB."""


def left_out(lock: dict[str, Any]) -> list[str]:
    """Return the paths, relative to cards/, of the files that a wheel leaves out because the Hub has them.

    lock: the content of cards/lock.json. If it has no commit for a model, a wheel contains all the model's files.
    """
    return [
        f"{name}/{file}"
        for name, pin in lock["weights"].items()
        if pin.get("revision")
        for file in (PICTURE, *(file for file in pin["files"] if file.endswith(".safetensors")))
        if file == PICTURE or name not in STARTERS or pin["files"][file]["size"] > MAX_BYTES
    ]
