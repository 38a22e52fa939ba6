"""Weights in and out: safetensors and config.json, strict. `load` returns verified weights or raises."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as save_tensors
from torch import Tensor

from .. import registry
from ..checkpoints import checkpoint, configs, tensors, tokenizer
from ..checkpoints.reference import Reference
from ..errors import CheckpointError, RequestError
from ..registry.schema import Config
from ..utils import files
from .builder import build, resolve_device, resolve_dtype
from .network import Network, with_classes

WEIGHTS, CONFIG = tensors.FILE, configs.FILE
FILES, files_in = checkpoint.FILES, checkpoint.files_in


def load(
    name_or_path: str | os.PathLike[str], *, device: torch.device | str | None = None, dtype: torch.dtype | str | None = None,
    revision: str | None = None, pretrained: bool = True, seed: int = 0, allow_large: bool = False,
    classes: int | Sequence[str] | None = None,
) -> Network:  # fmt: skip
    """A network with its published weights, in eval mode, on the best device.

    name_or_path: a name of the registry (fetched if need be, hash-checked), hf://org/name[@revision] for any repository
    of this library, or a folder with model.safetensors and config.json; a word without a path separator that is in the
    registry is a name. dtype: of the parameters, torch.float16 or "float16" (default: as stored, float32). revision: a
    Hub revision other than the pinned one. pretrained=False: randomly initialised instead, by `build` and from `seed`.
    allow_large: as for `build`. classes: of a fresh head in the place of the one that it has, see Network.reset_head.
    Raises UnknownNameError, CheckpointError, and what `build` raises; there is no third outcome.
    """
    if pretrained:
        network = assemble(*locate(name_or_path, revision), device=device, dtype=dtype, allow_large=allow_large)
        if classes is not None:
            network.reset_head(classes)
        return network
    if revision is not None:
        raise RequestError("A revision is one of weights, and pretrained=False loads none.")
    config = checkpoint.read_config(Reference.parse(name_or_path))
    own = config if classes is None else with_classes(config, classes)
    return build(own, device=device, dtype=dtype, seed=seed, allow_large=allow_large).eval()


def assemble(
    config: Config,
    found: Mapping[str, Path],
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | str | None = None,
    allow_large: bool = False,
) -> Network:
    """The network of a config with the weights, and the words, of files, in eval mode; the second half of `load`."""
    target, number = resolve_device(device, meta=True), resolve_dtype(dtype)
    network = build(config, device="cpu", dtype=torch.float32, allow_large=allow_large)
    load_weights(network, found[WEIGHTS])
    if tokenizer.FILE in found:
        network.tokenizer = tokenizer.Tokenizer.read(
            found[tokenizer.FILE], config.interface.vocabulary or 0, config.interface.steps
        )
    return network.to(device=target, dtype=number).eval()


def locate(name_or_path: str | os.PathLike[str], revision: str | None = None) -> tuple[Config, Mapping[str, Path]]:
    """The config and the files, by name, that `load` loads, the bytes of a published checkpoint verified."""
    found = checkpoint.resolve(Reference.parse(name_or_path, revision))
    return found.config, found.files


def is_folder(name_or_path: str | os.PathLike[str]) -> bool:
    """A registered name is a name, whatever folders there are; anything else may be a folder."""
    return os.fspath(name_or_path) not in registry.models() and os.path.isdir(name_or_path)


def save(network: Network, folder: Path) -> None:
    """Write a network's FILES into `folder`, in float32, each complete or not at all. Same weights, same bytes.

    Raises CheckpointError if the network is not what its config says.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    tensors = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    own = build(network.config, device="meta", dtype=torch.float32, allow_large=True).state_dict()
    if problems := differences(own, tensors):
        raise CheckpointError(f"{network.config.name} is not what its config says: {problems}. See Network.reset_head.")
    write_tensors(folder / WEIGHTS, tensors)
    if network.tokenizer is None:
        (folder / tokenizer.FILE).unlink(missing_ok=True)  # of another network that was here
    else:
        files.atomic_write(folder / tokenizer.FILE, network.tokenizer.content())
    files.atomic_write(folder / CONFIG, (json.dumps(network.config.model_dump(mode="json"), indent=2) + "\n").encode())


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """A safetensors file, replaced atomically. Its one metadata key keeps the bytes reproducible."""
    files.atomic_write(path, save_tensors(tensors, metadata={"format": "pt"}))


def load_weights(network: Network, path: Path) -> None:
    """Copy the tensors of a safetensors file into `network`.

    Keys, shapes and dtypes must be the network's own and every value finite, or CheckpointError lists what differs and
    the network is as it was.
    """
    tensors = read_tensors(path)
    problems = differences(network.state_dict(), tensors, finite=True)
    if problems:
        raise CheckpointError(f"{path} does not fit {network.config.name}: {problems}.")
    network.load_state_dict(tensors)


def differences(own: dict[str, Tensor], tensors: dict[str, Tensor], finite: bool = False) -> str:
    """In words, where tensors differ from a network's own in name, shape or dtype, or, if asked, are not finite."""
    problems = [f"{name} is missing" for name in own if name not in tensors]
    problems += [f"{name} is not of this architecture" for name in tensors if name not in own]
    for name in own.keys() & tensors.keys():
        (shape, dtype), (its_shape, its_dtype) = ((t.shape, t.dtype) for t in (own[name], tensors[name]))
        if (shape, dtype) != (its_shape, its_dtype):
            problems.append(f"{name} is {its_dtype} {tuple(its_shape)} instead of {dtype} {tuple(shape)}")
        elif finite and not tensors[name].isfinite().all():
            problems.append(f"{name} has values that are not finite")
    more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
    return "; ".join(sorted(problems)[:5]) + more


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file. Anything else (pickles, error pages, damaged files) is a CheckpointError."""
    tensors.header(path)
    try:
        return load_file(path)
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(f"{path}: not a valid safetensors file ({error}).") from error
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error}).") from error
