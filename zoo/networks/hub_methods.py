"""Networks of one's own to and from the Hub, as users of transformers know it; what Network's two methods do."""

import os
import tempfile
from pathlib import Path

import torch

from ..checkpoints import configs, tensors
from ..checkpoints.hub import settings
from ..checkpoints.hub.browse import identity
from ..checkpoints.hub.client import Connection
from ..checkpoints.hub.upload import MAIN, PushOptions, holds, look, send, tip
from ..checkpoints.reference import REPO, SCHEME, check_repo
from ..errors import CheckpointError, RequestError
from ..utils.version import __version__
from . import golden, loading
from .network import Network


def from_pretrained(
    name_or_path: str, revision: str | None = None, device: torch.device | str | None = None,
    dtype: torch.dtype | str | None = None, allow_large: bool = False,
) -> Network:  # fmt: skip
    """As `zoo.load`, where org/name is a repository on the Hub unless there is such a folder."""
    name = os.fspath(name_or_path)
    if REPO.fullmatch(name) and not loading.is_folder(name):
        name = f"{SCHEME}{name}"
    return loading.load(name, revision=revision, device=device, dtype=dtype, allow_large=allow_large)


def push_to_hub(
    network: Network, repo: str, message: str | None = None, private: bool = False, revision: str | None = None,
    create_pr: bool = False,
) -> str:  # fmt: skip
    """Push a network's weights, config, words and golden outputs in one commit; a card only where there is none.

    Returns the address of the commit, hf://org/name@commit, or of the pull request. Raises CheckpointError for values
    that are not finite, RequestError for a repository's name that is none, and HubError.
    """
    check_repo(repo)
    text = message or f"{network.config.name}, by rnnzoo {__version__}"
    if settings.has_secret(text):
        raise RequestError("There is what looks like a token in the message; not pushed.")
    way = PushOptions(private=private, revision=revision, create_pr=create_pr)
    files = {**_content(network), configs.CARD: _card(network.config.name, repo)}
    with Connection(settings.current()) as hub:
        state = look(hub, repo, way, identity(hub))
        base = state.head or (tip(hub, repo, MAIN) if state.exists else None)  # a new branch begins with what main has
        if base is not None and configs.CARD in hub.listing(repo, [configs.CARD], base):
            del files[configs.CARD]
        if state.head is not None and holds(hub, repo, state.head, files):
            return f"{SCHEME}{repo}@{state.head}"
        commit, _, pull_request = send(hub, repo, files, state, way, text)
        return pull_request or f"{SCHEME}{repo}@{commit}"


def _content(network: Network) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loading.save(network, folder)
        if odd := tensors.not_finite(folder / tensors.FILE):
            raise CheckpointError(f"{', '.join(odd[:5])} has values that are not finite; not pushed.")
        golden.write(
            loading.load(folder, device="cpu", allow_large=True), folder / golden.FILE
        )  # what others will load
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def _card(name: str, repo: str) -> bytes:
    return f"""\
---
library_name: rnnzoo
tags:
  - rnn
---

# {repo.partition("/")[2]}

A recurrent network of the architecture `{name}`; {configs.FILE} says what that is.

```python
from zoo import load

model = load("{SCHEME}{repo}")
```
""".encode()
