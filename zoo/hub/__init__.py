"""The Hub: where the bytes of checkpoints come from and go to.

settings says which Hub, remote speaks with it through its own client, failures turns what goes wrong into plain words;
pulling, pushing, verifying, caching and browsing are what one does with it. Nothing here imports torch or the client
before it is needed.
"""

from ..files import sha256
from .browsing import Description, Remote, catalogue, describe, login
from .digests import differs
from .pulling import Ask, Pulled, dataset_file, pull, resolve
from .pushing import Pushed, Way, push
from .verifying import Check, Verified, verify

__all__ = [
    "Ask", "Check", "Description", "Pulled", "Pushed", "Remote", "Verified", "Way", "catalogue", "dataset_file", "describe",
    "differs", "login", "pull", "push", "resolve", "sha256", "verify",
]  # fmt: skip
