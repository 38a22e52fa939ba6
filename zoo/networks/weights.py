"""A network's weights from and to files: safetensors and config.json, strict."""

import json
from pathlib import Path
from typing import Any

import torch

from ..checkpoints import configs, tokenizer
from ..checkpoints.checkpoint import Checkpoint
from ..checkpoints.tensors import FILE, differences, read_tensors, write_tensors
from ..errors import CheckpointError
from ..utils import files
from .configured import ConfiguredModule, meta_network, refuse_large
from .devices import resolve_device, resolve_dtype


def assemble(
    checkpoint: Checkpoint,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | str | None = None,
    allow_large: bool = False,
) -> Any:
    """Return the Network of a checkpoint, with its weights and its tokenizer, in eval mode; the second half of `load`.

    device, dtype, allow_large: as for `load`. Raises CheckpointError if a tensor is missing, left over, of another shape or
    dtype, or not finite; SizeError and RequestError.
    """
    config, target, target_dtype = checkpoint.config, resolve_device(device, meta=True), resolve_dtype(dtype)
    network = meta_network(config)
    if not allow_large:
        refuse_large(network, "; pass allow_large=True to build it")
    avoid_denormals()
    load_weights(network, checkpoint.files[FILE])
    if tokenizer.FILE in checkpoint.files:
        interface = config.interface
        network.tokenizer = tokenizer.Tokenizer.read(
            checkpoint.files[tokenizer.FILE], interface.vocabulary or 0, interface.steps
        )
    return network.to(device=target, dtype=target_dtype).eval()


def avoid_denormals() -> None:
    """Make the CPU flush denormal numbers to zero, for the whole process.

    Gradients that vanish through many layers and steps end as denormal numbers, on which a CPU is many times slower.
    torch's worker threads inherit the setting when they start.
    """
    torch.set_flush_denormal(True)


def load_weights(network: ConfiguredModule, path: Path) -> None:
    """Make the tensors of a safetensors file the parameters of `network`, which may be on the meta device.

    Raises CheckpointError, listing what differs, unless names, shapes and dtypes are the network's own and every value is
    finite; the network is then as it was.
    """
    tensors = read_tensors(path)
    if problems := differences(network.state_dict(), tensors, finite=True):
        raise CheckpointError(f"{path} does not fit {network.config.name}: {problems}.")
    # clones, because the tensors that safetensors returns are a map of the file, which somebody may write into
    network.load_state_dict({name: tensor.clone() for name, tensor in tensors.items()}, assign=True)


def save(network: ConfiguredModule, folder: Path) -> None:
    """Write a network's checkpoint into `folder`, in float32, each file complete or not at all. Same weights, same bytes.

    Raises CheckpointError if the network's tensors are not those that its config asks for.
    """
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    tensors = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    if problems := differences(meta_network(network.config).state_dict(), tensors):
        raise CheckpointError(f"{network.config.name} is not what its config says: {problems}. See Network.reset_head.")
    write_tensors(folder / FILE, tensors)
    if network.tokenizer is None:
        (folder / tokenizer.FILE).unlink(missing_ok=True)  # left by another network
    else:
        files.atomic_write(folder / tokenizer.FILE, network.tokenizer.content())
    files.atomic_write(
        folder / configs.FILE, (json.dumps(network.config.model_dump(mode="json"), indent=2) + "\n").encode()
    )
