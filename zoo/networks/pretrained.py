"""`from_pretrained`, `save_pretrained` and `push_to_hub` of a network, as users of transformers know them."""

import os
import tempfile
from pathlib import Path
from typing import Self

import torch

from ..checkpoints import configs, tensors
from ..checkpoints.hub.browse import identity
from ..checkpoints.hub.client import Connection
from ..checkpoints.hub.upload import MAIN, PushOptions, branch_head, commit_files, has_files, remote_state
from ..checkpoints.references import SCHEME, Reference, check_repo
from ..checkpoints.sources import resolve
from ..errors import CheckpointError, RequestError
from ..registry import models
from ..utils.text import has_secret
from ..utils.version import __version__
from . import golden
from .configured import ConfiguredModule
from .weights import assemble, save


class PretrainedMixin(ConfiguredModule):
    """Takes a network from the registry, a folder or the Hub, and puts one into a folder or on the Hub."""

    @classmethod
    def from_pretrained(
        cls, name_or_path: str, *, revision: str | None = None, device: torch.device | str | None = None,
        dtype: torch.dtype | str | None = None, allow_large: bool = False,
    ) -> Self:  # fmt: skip
        """Return a network with weights, in eval mode: of the registry, of a folder, or of a repository (org/name) on the Hub.

        The class of the network is that of its config. Arguments and errors are those of `zoo.load`, and it is as strict: no
        tensor is left out or left over, and nothing is unpickled. Raises RequestError if the network is not a `cls`.
        """
        reference = Reference.parse(name_or_path, revision, bare_repo=True)
        network = assemble(resolve(reference), device=device, dtype=dtype, allow_large=allow_large)
        if not isinstance(network, cls):
            raise RequestError(f"{reference.text} is a {type(network).__name__}, not a {cls.__name__}. Use zoo.load.")
        return network

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write weights, config and vocabulary into `folder`, from which `zoo.load` and `from_pretrained` take them.

        The weights are written in float32, whatever the network computes in. Raises CheckpointError if the network is not
        what its config says, as when its head was replaced by hand (see `reset_head`). Raises RequestError if `load` would
        not find the folder: for a name of the registry, an address on the Hub, or a file.
        """
        name = os.fspath(folder)
        if name in models():
            raise RequestError(f"{name} is a name of the registry, so load would not find this folder. Choose another.")
        if name.startswith(SCHEME):
            raise RequestError(f"{name} is an address on the Hub. Choose a folder, or use push_to_hub.")
        if not name:
            raise RequestError("The name of the folder is empty.")
        if os.path.exists(name) and not os.path.isdir(name):
            raise RequestError(f"{name} is a file. Choose a folder.")
        save(self, Path(folder))

    def push_to_hub(
        self, repo: str, *, message: str | None = None, private: bool = False, revision: str | None = None,
        create_pr: bool = False,
    ) -> str:  # fmt: skip
        """Push weights, config, vocabulary and golden outputs to a repository (org/name) in one commit.

        A card is added only if the repository has none. Returns the address of the commit, hf://org/name@commit, or that of
        the pull request. Raises CheckpointError for values that are not finite, RequestError for an invalid name of a
        repository, and HubError.
        """
        check_repo(repo)
        text = message or f"{self.config.name}, by rnnzoo {__version__}"
        if has_secret(text):
            raise RequestError("The message seems to contain a token; nothing was pushed.")
        options = PushOptions(private=private, revision=revision, create_pr=create_pr)
        files = {**self._checkpoint_files(), configs.CARD: _card(self.config.name, repo)}
        with Connection() as hub:
            state = remote_state(hub, repo, options, identity(hub))
            base = state.head or (
                branch_head(hub, repo, MAIN) if state.exists else None
            )  # a new branch begins as a copy of main
            if base is not None and configs.CARD in hub.listing(repo, [configs.CARD], base):
                del files[configs.CARD]
            if state.head is not None and has_files(hub, repo, state.head, files):
                return f"{SCHEME}{repo}@{state.head}"
            commit, _, pull_request = commit_files(hub, repo, files, state, options, text)
            return pull_request or f"{SCHEME}{repo}@{commit}"

    def _checkpoint_files(self) -> dict[str, bytes]:
        """Return the contents of the files to push by name."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            save(self, folder)
            if odd := tensors.not_finite(folder / tensors.FILE):
                raise CheckpointError(f"{', '.join(odd[:5])} has values that are not finite; nothing was pushed.")
            # golden outputs of the network that others will load, in float32
            loaded = assemble(resolve(Reference(name, folder=folder)), device="cpu", allow_large=True)
            golden.write(loaded, folder / golden.FILE)
            return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def _card(name: str, repo: str) -> bytes:
    """Return a README.md for a repository that has none."""
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
