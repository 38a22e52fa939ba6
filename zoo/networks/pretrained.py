"""A network's weights from and to files and the Hub: strict reading, and methods named as in transformers."""

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch

from ..cells.projections import Conv, Dense, Diagonal, Projection
from ..checkpoints import configs, tensors, tokenizer
from ..checkpoints.checkpoint import Checkpoint
from ..checkpoints.hub.browse import identity
from ..checkpoints.hub.client import MAIN, Connection
from ..checkpoints.hub.upload import PushOptions, branch_head, commit_files, has_files, remote_state
from ..checkpoints.references import SCHEME, Reference, check_repo
from ..checkpoints.sources import resolve
from ..errors import CheckpointError, RequestError
from ..registry import models
from ..utils import files
from ..utils.arguments import path_of, text_of
from ..utils.text import has_secret
from ..utils.version import __version__
from . import golden
from .base import (
    ConfiguredModule,
    flush_denormals,
    meta_network,
    network_class,
    refuse_computed_weights,
    refuse_large,
    resolve_device,
    resolve_dtype,
)


def assemble(
    checkpoint: Checkpoint, *, device: torch.device | str | None = None, dtype: torch.dtype | str | None = None,
    allow_large: bool = False, kind: Any = None, dropout: float | None = None, recurrent_dropout: float | None = None,
) -> Any:  # fmt: skip
    """Return the Network of a checkpoint that is on this machine, with its weights and its tokenizer, in eval mode.

    device, dtype, allow_large, dropout, recurrent_dropout: as for `load`. kind: as for `meta_network`. Raises CheckpointError if a tensor is missing, unexpected, of another shape
    or dtype, or not finite; SizeError and RequestError as `load` does.
    """
    config = configs.with_dropout(checkpoint.config, dropout, recurrent_dropout)
    target, target_dtype = resolve_device(device, meta=True), resolve_dtype(dtype)
    network = meta_network(config, kind)
    if not allow_large:
        refuse_large(network, "; pass allow_large=True to build it")
    if target.type == "cpu":
        flush_denormals()
    load_weights(network, checkpoint.files[tensors.FILE])
    if words := checkpoint.files.get(tokenizer.FILE):
        reader = tokenizer.tokenizer_class(config.interface.form)
        network.tokenizer = reader.read(words, config.interface.vocabulary or 0, config.interface.steps)
    return network.to(device=target, dtype=target_dtype).eval()


def load_weights(network: ConfiguredModule, path: Path) -> None:
    """Make the tensors of a safetensors file the parameters of `network`, which may be on the meta device.

    Tensors that are stored in float16 become float32. Raises CheckpointError, with a list of what differs, unless names,
    shapes and dtypes are then those of the network and every value is finite. The network is then unchanged.
    """
    # safetensors maps the file into memory, and somebody may write into the file later: copies
    found = tensors.widened(tensors.read_tensors(path))
    if problems := tensors.differences(network.state_dict(), found, finite=True):
        raise CheckpointError(f"{path} does not fit {network.config.name}: {problems}.")
    network.load_state_dict(found, assign=True)


def save(network: ConfiguredModule, folder: Path) -> None:
    """Write a network's checkpoint into `folder`, in float32. Equal weights give equal bytes.

    No file takes the place of an older one until all are on the disk.

    Raises CheckpointError if the network's tensors, head, input scale, dropout or zoneout are not those of its config, or a value
    is infinite or NaN; RequestError for a network on the meta device, or whose weights hooks or parametrizations compute; and
    OSError.
    """
    if network.device.type == "meta":
        raise RequestError(
            f"{network.config.name} is on the meta device, where it has no weights to save. Load it onto another."
        )
    refuse_computed_weights(network)
    expected = meta_network(network.config)
    maps, expected_maps = _plain_maps(network), _plain_maps(expected)
    if maps.keys() == expected_maps.keys() and maps != expected_maps:
        raise CheckpointError(
            f"{network.config.name} is frozen or quantized: matrices that its config computes from weights have become "
            "weights, which would be read back wrongly. Save the network that it was made from."
        )
    state = tensors.as_stored(network.state_dict())
    problems = tensors.differences(expected.state_dict(), state)
    if not problems and not network.interface.outputs and type(network.head) is not type(expected.head):
        problems = "its head is one without weights"
    if problems:
        raise CheckpointError(
            f"{network.config.name} does not fit its config: {problems}. Replace a head by Network.reset_head only."
        )
    known = _settings(expected)
    for name, value in _settings(network).items():
        if value != known.get(name, value):
            raise CheckpointError(
                f"{network.config.name} does not fit its config: {name} is {value}, but by the config {known[name]}. Build a "
                "network from a config that has what you want, and load these weights into it (load_state_dict)."
            )
    if problems := tensors.differences(state, state, finite=True):
        raise CheckpointError(f"{network.config.name} was not saved: {problems}.")
    files.write_together(folder, {tensors.FILE: tensors.content(state), **_settings_files(network)})
    if network.tokenizer is None:
        (folder / tokenizer.FILE).unlink(missing_ok=True)  # another network may have left one


def save_settings(network: ConfiguredModule, folder: Path) -> None:
    """Write the config, and the vocabulary if there is one, into a checkpoint's folder unless it has them. Raises OSError."""
    for name, content in _settings_files(network).items():
        path = folder / name
        if not (path.is_file() and files.has_content(path, content)):
            files.atomic_write(path, content)


def _settings_files(network: ConfiguredModule) -> dict[str, bytes]:
    config = json.dumps(network.config.model_dump(mode="json"), indent=2) + "\n"
    words = {} if network.tokenizer is None else {tokenizer.FILE: network.tokenizer.content()}
    return {**words, configs.FILE: config.encode()}


def _settings(network: ConfiguredModule) -> dict[str, object]:
    """Return the numbers that come from the config and are in no tensor, by name: the input's scale, dropout and zoneout."""
    return {
        f"{name}.{key}".strip("."): vars(module)[key]
        for name, module in network.named_modules()
        for key in ("mean_std", "p", "recurrent_dropout", "zoneout")
        if key in vars(module)
    }


def _plain_maps(network: ConfiguredModule) -> dict[str, bool]:
    """Return, by name, whether each linear map of the layers has its matrix as its weight, instead of computing it."""
    maps = ((name, module) for name, module in network.named_modules() if isinstance(module, Projection))
    return {
        name: isinstance(module, Dense | Conv | Diagonal) and module.parametrization is None for name, module in maps
    }


class PretrainedMixin(ConfiguredModule):
    """Loads a network from the registry, a folder or the Hub, and saves one to a folder or the Hub."""

    @classmethod
    def from_pretrained(
        cls, name_or_path: str | os.PathLike[str], *, revision: str | None = None, device: torch.device | str | None = None,
        dtype: torch.dtype | str | None = None, allow_large: bool = False, classes: int | Sequence[str] | None = None,
        dropout: float | None = None, recurrent_dropout: float | None = None,
    ) -> Self:  # fmt: skip
        """Return a network with weights, in eval mode: of the registry, of a folder, or of a repository (org/name) on the Hub.

        The config decides the class of the network; a subclass of that class gives networks of its own class. Arguments and
        errors are those of `zoo.load`, but org/name needs no hf://, and the other arguments of `load` do not exist here. No
        tensor may be missing or unexpected, and nothing is unpickled.
        Raises RequestError if the config describes a network of another class than the one that this is called on.
        """
        reference = Reference.parse(name_or_path, revision, bare_repo=True)
        checkpoint = resolve(reference)
        described = network_class(checkpoint.config)
        if not (issubclass(described, cls) or issubclass(cls, described)):
            raise RequestError(f"{reference.text} is a {described.__name__}, not a {cls.__name__}. Use zoo.load.")
        kind = cls if issubclass(cls, described) else described
        network = assemble(
            checkpoint, device=device, dtype=dtype, allow_large=allow_large, kind=kind, dropout=dropout,
            recurrent_dropout=recurrent_dropout,
        )  # fmt: skip
        if classes is not None:
            network.reset_head(classes)
        return network

    def reset_head(self, classes: int | Sequence[str]) -> None:
        """See Network.reset_head."""
        raise NotImplementedError

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write weights, config and vocabulary into `folder`, for `zoo.load` and `from_pretrained`.

        The weights are written in float32, in whatever dtype the network computes. Raises CheckpointError if the network is
        not what its config says, for example because its head was replaced by hand (see `reset_head`) or because it is
        quantized and has other matrices than its config's, or if a value is infinite or NaN. Raises RequestError if `load` would
        not find the folder: for a name of the registry, an address on the Hub, or a file; and OSError if it cannot be written.
        """
        name = path_of("The folder of a checkpoint", folder)
        if name in models():
            raise RequestError(
                f"{name} is a name of the registry, so load would not find this folder. Choose another name."
            )
        if name.startswith(SCHEME):
            raise RequestError(f"{name} is an address on the Hub. Choose a folder, or use push_to_hub.")
        if not name:
            raise RequestError("The name of the folder is empty. Pass one such as runs/mine.")
        if place := files.obstacle(Path(name)):
            raise RequestError(f"{place} is not a folder. Choose another folder.")
        save(self, Path(folder))

    def push_to_hub(
        self, repo: str, *, message: str | None = None, private: bool = False, revision: str | None = None,
        create_pr: bool = False,
    ) -> str:  # fmt: skip
        """Push weights, config, vocabulary and golden outputs to a repository (org/name) in one commit.

        A vocabulary that an earlier push left is deleted if the network has none. A card is added only if the repository has
        none. Returns the address of the commit, hf://org/name@commit, or that of the pull request. Raises CheckpointError for values that are not finite, RequestError for an invalid name of a
        repository, and HubError if the Hub does not answer or refuses the push.
        """
        check_repo(repo)
        text = text_of("The message", message or "") or f"{self.config.name}, by rnnzoo {__version__}"
        if has_secret(text):
            raise RequestError(
                "The message seems to contain a token of the Hub; nothing was pushed. Remove the token from the message."
            )
        options = PushOptions(private=private, revision=revision, create_pr=create_pr)
        contents = {**self._checkpoint_files(), configs.CARD: _card(self.config.name, repo)}
        with Connection() as hub:
            state = remote_state(hub, repo, options, identity(hub))
            # a branch that does not exist yet begins as a copy of main
            base = state.head or (branch_head(hub, repo, MAIN) if state.exists else None)
            present = {} if base is None else hub.listing(repo, [configs.CARD, configs.VOCABULARY], base)
            if configs.CARD in present:
                del contents[configs.CARD]
            deleted = {configs.VOCABULARY} & present.keys() - contents.keys()
            if state.head is not None and not deleted and has_files(hub, repo, state.head, contents):
                return f"{SCHEME}{repo}@{state.head}"
            commit, _, pull_request = commit_files(hub, repo, contents, state, options, text, deleted)
            return pull_request or f"{SCHEME}{repo}@{commit}"

    def _checkpoint_files(self) -> dict[str, bytes]:
        """Return the files to push: the contents by file name."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            save(self, folder)
            # the golden outputs are those of the saved network, in float32, as others will load it
            loaded = assemble(resolve(Reference.to_folder(folder)), device="cpu", allow_large=True)
            golden.write(loaded, folder / golden.FILE)
            return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def _card(name: str, repo: str) -> bytes:
    """Return the text of a README.md for a repository, `repo`, that has none. name: the network's name."""
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
