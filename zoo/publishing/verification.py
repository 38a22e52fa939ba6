"""Checks a published checkpoint against its pin: bytes, tensors, size, outputs, card and recorded figures."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from .. import registry
from ..checkpoints import configs, results, sources
from ..checkpoints.checkpoint import Checkpoint
from ..checkpoints.hub.client import LOG, Connection, Log
from ..checkpoints.hub.digests import git_sha1, mismatch
from ..checkpoints.references import Reference
from ..checkpoints.sources import PullOptions, resolve
from ..errors import CheckpointError, ZooError
from ..registry import Entry
from ..registry.metrics import METRICS
from ..registry.schema import Pin
from ..utils.text import redact
from . import cards
from .package import stale

if TYPE_CHECKING:
    from ..networks.network import Network

Report = Callable[[int, int], None]
"""A function that is called with the number of examples measured so far and the number of all examples."""


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    what: str
    ok: bool
    text: str


@dataclass(frozen=True)
class Verified:
    """The results of all checks of a checkpoint."""

    name: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)


def verify(
    name: str, *, metrics: bool = False, remote: bool = False, timeout: float | None = None, log: Log = LOG,
    report: Report = lambda done, total: None,
) -> Verified:  # fmt: skip
    """Check every copy of a registered model's checkpoint on this machine, and return the results of the checks.

    If there is no copy, the checkpoint is pulled first. A failed check is a result, not an error.

    metrics: measure the recorded figures again, each on its whole split, which needs the data. remote: ask the Hub whether
    the pinned commit has the pinned files. timeout: seconds to wait for the Hub. report: called while figures are measured.
    Raises UnknownNameError, and CheckpointError for a model without weights.
    """
    entry = registry.find(name)
    checks = _Checks(entry, entry.required_pin("verify"), PullOptions(timeout=timeout, log=log), report)
    steps = [checks.bytes, checks.config, checks.tensors, checks.parameters, checks.outputs, checks.card]
    steps += [checks.remote] if remote else []
    steps += [checks.metrics] if metrics else []
    return Verified(name, tuple(_run(step) for step in steps))


def _run(step: Callable[[], str]) -> Check:
    try:
        return Check(step.__name__, True, step())
    except ZooError as error:
        return Check(step.__name__, False, redact(str(error)))


@dataclass
class _Checks:
    """The checks of one model. Each check returns its result as text, or raises a ZooError if it fails."""

    entry: Entry
    pin: Pin
    options: PullOptions
    report: Report

    @cached_property
    def copies(self) -> dict[str, dict[Path, str | None]]:
        """By file: {path of a copy on this machine: how it differs from the pin, as text, or None if it does not}."""
        return {
            name: {path: mismatch(path, file) for path in sources.copies(self.entry.name, self.pin, name)}
            for name, file in self.pin.files.items()
        }

    @cached_property
    def good_copies(self) -> dict[str, Path]:
        """By file: the path of its first copy that equals the pinned file. Files without such a copy are left out."""
        return {
            name: next(path for path, problem in copies.items() if problem is None)
            for name, copies in self.copies.items()
            if None in copies.values()
        }

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint of the good copies. Files without any copy are pulled; damaged copies are not replaced."""
        reference = Reference.parse(self.entry.name)
        missing = [copies for name, copies in self.copies.items() if name not in self.good_copies]
        if missing:
            damaged = any(missing)  # an empty table is a file without any copy
            return resolve(reference, PullOptions(offline=True, log=lambda text: None) if damaged else self.options)
        path = self.good_copies[configs.FILE]
        config = configs.read(path)
        configs.must_agree(config, self.entry.config, path)
        return Checkpoint(
            reference, config, self.good_copies, self.entry, self.pin.repo, self.pin.revision, verified=True
        )

    @cached_property
    def network(self) -> "Network":
        """The network with its weights, loaded strictly: names, shapes and types must agree, and all values be finite."""
        from ..networks import loading

        return loading.assemble(self.checkpoint)

    def bytes(self) -> str:
        copies = [item for copies in self.copies.values() for item in copies.items()]
        for name, file in (self.pin.exports or {}).items():
            copies += [(path, mismatch(path, file)) for path in sources.copies(self.entry.name, self.pin, name)]
        if problems := "; ".join(f"{path} {problem}" for path, problem in copies if problem):
            raise CheckpointError(
                f"{problems}. To repair the cache: rnnzoo pull {self.entry.name}, or rnnzoo cache rm."
            )
        if len(self.good_copies) < len(self.pin.files):
            _ = self.checkpoint  # pulls the rest and verifies it
            return "sha256 and size of every pulled file agree with the pin"
        return f"sha256 and size of {len(copies)} files agree with the pin"

    def config(self) -> str:
        _ = self.checkpoint  # raises unless the two agree
        return "config.json agrees with the registry"

    def tensors(self) -> str:
        return f"{len(self.network.state_dict())} tensors have the right names, shapes and types, and finite values"

    def parameters(self) -> str:
        from ..networks import sizes

        training = results.for_model(self.entry.name).training
        recorded = {
            "cards/lock.json": cards.counts(self.entry.name).parameters,
            results.FILE: training and training.parameters,
        }
        count = sizes.parameters(self.network)
        if wrong := [f"{file} says {number:,}" for file, number in recorded.items() if number not in (None, count)]:
            raise CheckpointError(
                f"The network has {count:,} parameters, but {', '.join(wrong)}. To correct the files: make generated"
            )
        return f"{count:,}"

    def outputs(self) -> str:
        from ..networks import golden

        if golden.FILE not in self.checkpoint.files:
            raise CheckpointError(
                f"{self.entry.name}: cards/lock.json does not pin {golden.FILE}. Release the training run again: rnnzoo "
                "release RUN"
            )
        deviation, allowed = golden.deviation(self.network, self.checkpoint.files[golden.FILE])
        device = self.network.device.type
        text = f"the outputs on {device} deviate by {deviation:.1e} from the recorded outputs; {allowed:.0e} is allowed"
        if deviation <= allowed:  # False for NaN
            return text
        raise CheckpointError(f"The network's outputs differ from the recorded outputs: {text}.")

    def card(self) -> str:
        if problem := stale(self.entry):
            raise CheckpointError(f"{problem}.")
        return f"{self.entry.name}/README.md agrees with the registry and the results"

    def remote(self) -> str:
        pin = self.pin
        if pin.revision is None:
            name = self.entry.name
            state = "was released again after its last push" if pin.replaces else "was never pushed"
            raise CheckpointError(f"{name} {state}, so no commit is pinned. Push it first: rnnzoo push {name}")
        if not self.options.may_connect:
            raise CheckpointError("The Hub was not asked, because HF_HUB_OFFLINE is set. Unset it and try again.")
        with self.options.connect() as hub:
            problems = self._remote_problems(hub, pin.revision)
            head = hub.call(pin.repo, lambda: hub.api.model_info(pin.repo)).sha
        if problems:
            raise CheckpointError(f"{pin.repo}@{pin.revision}: {', '.join(problems)}. Do not trust {hub.endpoint}.")
        moved = "" if head in (None, pin.revision) else f"; main has moved on to {head}, and the pin stays"
        return f"{pin.repo}@{pin.revision} has the pinned files{moved}"

    def _remote_problems(self, hub: Connection, revision: str) -> list[str]:
        """Return the differences between the pin and the files of the pinned commit, as the Hub describes them.

        For a small file, the Hub knows only git's sha1, which is compared with that of a good copy on this machine.
        """
        listing = hub.listing(self.pin.repo, list(self.pin.every_file), revision)
        problems = []
        for name, file in self.pin.every_file.items():
            remote = listing.get(name)
            if remote is None:
                problems.append(f"{name} is missing")
            elif remote.size != file.size:
                problems.append(f"{name} has {remote.size:,} bytes instead of {file.size:,}")
            elif remote.lfs is not None:
                problems += [f"{name} has another sha256"] if remote.lfs.sha256 != file.sha256 else []
            elif name in self.pin.files and remote.blob_id != git_sha1(self.checkpoint.files[name].read_bytes()):
                problems.append(f"{name} has another sha1")
        return problems

    def metrics(self) -> str:
        """Measure every recorded figure again."""
        evaluations = results.for_model(self.entry.name).evaluations
        if not evaluations:
            name = self.entry.name
            raise CheckpointError(
                f"{name} has no recorded figure. To measure and record one: rnnzoo eval {name} --record"
            )
        compared = [self._measured_again(recorded) for recorded in evaluations]
        text = "; ".join(text for text, _ in compared)
        if not all(same for _, same in compared):
            raise CheckpointError(f"Some figures differ from the recorded figures: {text}.")
        return text

    def _measured_again(self, recorded: results.Evaluation) -> tuple[str, bool]:
        """Return (text that compares a recorded figure with the same figure measured now, True if they agree)."""
        from ..training import evaluation

        measured = evaluation.evaluate(self.checkpoint, split=recorded.split, report=self.report)
        metric = METRICS[recorded.metric]
        difference, allowed = abs(measured.value - recorded.value), metric.tolerance(recorded.value)
        text = (
            f"{recorded.split} {metric.title} {metric.text(measured.value)}, recorded {metric.text(recorded.value)}: "
            f"they differ by {difference:.2g}; {allowed:.2g} is allowed"
        )
        if measured.dataset_sha256 != recorded.dataset_sha256:
            return f"{text}; the data differ from those of the recorded figure", False
        return text, difference <= allowed
