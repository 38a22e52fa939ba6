"""Whether a published checkpoint is what it is said to be: bytes, tensors, size, outputs, card, and its figure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import registry
from ..checkpoints import configs, results, tensors
from ..checkpoints.hub import local, settings
from ..checkpoints.hub.client import LOG, Connection, Log
from ..checkpoints.hub.digests import differs, git_sha1
from ..checkpoints.hub.download import PullOptions, pull
from ..checkpoints.reference import Reference
from ..errors import CheckpointError, ZooError
from ..registry import Entry
from ..registry.metrics import METRICS
from ..registry.schema import Weights
from ..utils import paths
from . import cards
from .package import stale


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    what: str
    ok: bool
    text: str


@dataclass(frozen=True)
class Verified:
    """What was found about a checkpoint."""

    name: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)


def verify(
    name: str, *, metrics: bool = False, remote: bool = False, timeout: float | None = None, log: Log = LOG,
    report: Callable[[int, int], None] = lambda done, n: None,
) -> Verified:  # fmt: skip
    """Check a registered model's checkpoint, every copy of it that is here; one that is not here is pulled.

    metrics: measure its recorded figure again, on the whole split (needs the data). remote: ask the Hub whether the
    pinned commit has the pinned bytes. A check that fails is a result, not an exception; raises UnknownNameError, and
    CheckpointError for a model without weights.
    """
    entry = registry.find(name)
    pin = entry.weights
    if pin is None:
        raise CheckpointError(f"{name} has no weights to verify. To train it: rnnzoo train {name}")
    ask = PullOptions(timeout=timeout, log=log)
    steps: list[tuple[str, Callable[[], str]]] = [
        ("bytes", lambda: _bytes(entry, pin, ask)),
        ("config", lambda: _config(entry)),
        ("tensors", lambda: _tensors(entry)),
        ("parameters", lambda: _parameters(entry)),
        ("outputs", lambda: _outputs(entry)),
        ("card", lambda: _card(entry)),
    ]
    if remote:
        steps.append(("remote", lambda: _remote(entry, pin, ask)))
    if metrics:
        steps.append(("metrics", lambda: _metrics(entry, report)))
    return Verified(name, tuple(_run(steps)))


def _run(steps: list[tuple[str, Callable[[], str]]]) -> Iterator[Check]:
    for what, step in steps:
        try:
            yield Check(what, True, step())
        except ZooError as error:
            yield Check(what, False, settings.redact(str(error)))


def _bytes(entry: Entry, pin: Weights, ask: PullOptions) -> str:
    """Every copy on this machine is the pinned one."""
    problems, count = [], 0
    for name, file in pin.files.items():
        for path in local.copies(entry.name, pin, name):
            count += 1
            if problem := differs(path, file):
                problems.append(f"{path} {problem}")
    if problems:
        raise CheckpointError(
            f"{'; '.join(problems)}. To mend the cache: rnnzoo pull {entry.name}, or rnnzoo cache rm."
        )
    if {name for name in pin.files if local.copies(entry.name, pin, name)} != set(pin.files):
        pull(Reference.parse(entry.name), ask)
        return "sha256 and size of every file, as pulled"
    return f"sha256 and size of {count} files"


def _here(entry: Entry) -> dict[str, Path]:
    """The verified files, without a request."""
    return pull(Reference.parse(entry.name), PullOptions(offline=True, log=lambda text: None)).files


def _config(entry: Entry) -> str:
    path = _here(entry)[configs.FILE]
    configs.must_agree(configs.read(path), entry.config, path)
    return "config.json agrees with the registry"


def _tensors(entry: Entry) -> str:
    from ..networks import loading

    network = loading.assemble(entry.config, _here(entry), device="cpu")
    return f"{len(network.state_dict())} tensors, of the right names, shapes and types, all finite"


def _parameters(entry: Entry) -> str:
    from ..networks import builder

    network = builder.build(entry.config, device="meta", allow_large=True)
    training = results.for_model(entry.name).training
    said = {"cards/lock.json": cards.counts(entry.name).parameters, "results.json": training and training.parameters}
    count = builder.parameters(network)
    stored = {name: tensor.shape for name, tensor in tensors.header(_here(entry)[tensors.FILE]).items()}
    if stored != {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}:
        raise CheckpointError(
            f"{tensors.FILE} has other tensors than the architecture, which has {count:,} parameters."
        )
    if wrong := [f"{where} says {n:,}" for where, n in said.items() if n not in (None, count)]:
        raise CheckpointError(f"The network has {count:,} parameters; {', '.join(wrong)}. make generated")
    return f"{count:,}"


def _outputs(entry: Entry) -> str:
    from ..networks import golden, loading

    found = _here(entry)
    if golden.FILE not in found:
        raise CheckpointError(f"No {golden.FILE} is pinned. `rnnzoo adopt` its folder again.")
    network = loading.assemble(entry.config, found)
    off, allowed = golden.deviation(network, found[golden.FILE])
    text = f"{off:.1e} off the recorded outputs on {network.device.type}; {allowed:.0e} is allowed"
    if not off <= allowed:
        raise CheckpointError(f"{text}.")
    return text


def _card(entry: Entry) -> str:
    if problem := stale(entry):
        raise CheckpointError(f"{problem}.")
    return f"{paths.path('cards', entry.name).name}/README.md is what the registry and the results say"


def _remote(entry: Entry, pin: Weights, ask: PullOptions) -> str:
    if pin.revision is None:
        raise CheckpointError(
            "The registry pins no commit: not on the Hub yet, as far as it knows. rnnzoo push pins one."
        )
    if not ask.may_connect:
        raise CheckpointError("Offline: the Hub was not asked. Unset HF_HUB_OFFLINE.")
    with ask.connect() as hub:
        found = _digests(hub, entry, pin)
        head = hub.call(pin.repo, lambda: hub.api.model_info(pin.repo)).sha
    wrong = [f"{name} {problem}" for name, problem in found.items() if problem]
    if wrong:
        raise CheckpointError(f"{pin.repo}@{pin.revision}: {', '.join(wrong)}. Do not trust that server.")
    moved = "" if head in (None, pin.revision) else f"; main is at {head} now, and the pin stays"
    return f"{pin.repo}@{pin.revision} has the pinned files{moved}"


def _digests(hub: Connection, entry: Entry, pin: Weights) -> dict[str, str | None]:
    """What is wrong with each pinned file at the pinned commit, as the Hub describes it: a small file, which it knows by
    git's digest alone, is compared with a copy that is here."""
    there = hub.listing(pin.repo, list(pin.files), pin.revision)
    found: dict[str, str | None] = {}
    for name, file in pin.files.items():
        remote = there.get(name)
        if remote is None:
            found[name] = "is not there"
        elif remote.size != file.size:
            found[name] = f"has {remote.size:,} bytes instead of {file.size:,}"
        elif remote.lfs is not None:
            found[name] = "has another sha256" if remote.lfs.sha256 != file.sha256 else None
        else:
            good = [path for path in local.copies(entry.name, pin, name) if differs(path, file) is None]
            if not good:
                raise CheckpointError(f"No good copy of {name} is here to compare the Hub's with.")
            found[name] = "has another sha1" if remote.blob_id != git_sha1(good[0].read_bytes()) else None
    return found


def _metrics(entry: Entry, report: Callable[[int, int], None]) -> str:
    """The recorded figures, measured again."""
    from ..training import evaluation

    recorded = results.for_model(entry.name).evaluations
    if not recorded:
        raise CheckpointError(f"No figure is recorded. rnnzoo eval {entry.name} --record")
    texts, drifted = [], False
    for before in recorded:
        now = evaluation.evaluate(entry.name, split=before.split, report=report)
        metric = METRICS[before.metric]
        off = abs(now.value - before.value)
        drifted |= not off <= metric.tolerance(before.value)
        texts.append(
            f"{before.split} {metric.title} {metric.text(now.value)}, recorded {metric.text(before.value)}; "
            f"{off:.2g} apart, {metric.tolerance(before.value):.2g} is allowed"
        )
        if now.dataset_sha256 != before.dataset_sha256:
            drifted = True
            texts.append("on other data than recorded")
    if drifted:
        raise CheckpointError(f"{'; '.join(texts)}.")
    return "; ".join(texts)
