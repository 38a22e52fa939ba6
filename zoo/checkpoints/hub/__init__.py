"""The Hub: where the bytes of checkpoints come from, and how a commit goes to it.

settings says which Hub, client speaks with it, errors puts what goes wrong into plain words; download, upload, browse and
cache are what one does with it. Nothing here imports torch or huggingface_hub before it is needed.
"""

from ...utils.files import sha256
from .browse import Description, Remote, catalogue, describe, login
from .digests import differs
from .download import Pulled, PullOptions, dataset_file, pull, resolve

__all__ = [
    "Description",
    "PullOptions",
    "Pulled",
    "Remote",
    "catalogue",
    "dataset_file",
    "describe",
    "differs",
    "login",
    "pull",
    "resolve",
    "sha256",
]  # fmt: skip
