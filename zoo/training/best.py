"""The best weights of a run, model.safetensors in its folder, written before the state that has their digest."""

import shutil
from contextlib import suppress
from pathlib import Path

from ..checkpoints import tensors
from ..errors import TrainingError
from ..networks import loading
from ..networks.network import Network
from ..utils import files

PREVIOUS = f"previous.{tensors.FILE}"
"""The best weights before these, kept until the state is written: a run that is killed in between continues from them."""


class BestWeights:
    """The files of the best network of a run in `folder`. `sha256` is the digest of the weights; None if there are none yet."""

    def __init__(self, folder: Path):
        self.folder, self.path, self.previous = folder, folder / tensors.FILE, folder / PREVIOUS
        self.sha256: str | None = None

    def write(self, network: Network) -> None:
        """Write the weights and the settings of a network that is better than those in the folder. `settle` has to follow."""
        if self.sha256 is not None:
            with suppress(FileNotFoundError):  # removed during the run
                shutil.copyfile(self.path, self.previous)
        loading.save(network, self.folder)
        self.sha256 = files.sha256(self.path)

    def settle(self) -> None:
        """Remove the weights before these, once a state with the digest of these is written."""
        self.previous.unlink(missing_ok=True)

    def go_back(self) -> None:
        """Go back to the weights with the digest `sha256`, that of a state, if the run was killed before it wrote another state.

        The epoch that replaced them is then computed again. On another device, it may not be the best any more.
        """
        if self.previous.exists() and self.sha256 is not None and files.sha256(self.previous) == self.sha256:
            self.previous.replace(self.path)
        self.settle()

    def verify(self, network: Network) -> None:
        """Write the settings again, which may be missing or damaged. Raises TrainingError for other weights than the best."""
        if self.sha256 is None:
            return
        if files.sha256(self.path) != self.sha256:
            raise TrainingError(
                f"{self.path} is not the file that this run wrote, its best weights. Restore that file, or remove {self.folder} to "
                "begin the run again."
            )
        loading.save_settings(network, self.folder)
