"""Checkpoints to this machine: from the cache, the package or the Hub, in that order.

The registry pins every published file by sha256 and size, so the source does not matter: the hash decides. What has no
pin (another revision, somebody else's repository) is held against the Hub's own digests, and its config.json is read as
strictly as ours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ... import registry
from ...errors import ChangedError, CheckpointError, DataError, MissingError, NetworkError, RequestError, ZooError
from ...registry import Entry
from ...registry.schema import Config, PinnedFile, Weights
from .. import configs, tensors
from . import local, settings
from .client import LOG, MAX_BYTES, Connection, Log
from .digests import damage, differs

LIMITS = {configs.FILE: configs.MAX_BYTES, configs.VOCABULARY: configs.MAX_VOCABULARY_BYTES}
"""Most bytes of a file that no pin gives a size."""


@dataclass(frozen=True)
class Pulled:
    """A checkpoint on this machine."""

    name: str
    """As it was asked for: of the registry, or hf://org/name."""
    repo: str
    revision: str | None
    """Commit; none where only the package has it."""
    files: dict[str, Path]
    verified: bool
    """Whether every byte is that of a pin in the registry."""
    downloaded: tuple[str, ...] = ()


@dataclass(frozen=True)
class PullOptions:
    """How to pull."""

    force: bool = False
    """Fetch from the Hub, if it is there, whatever is here; and replace other files in the folder to copy to."""
    offline: bool = False
    timeout: float | None = None
    """Seconds to go on trying while the Hub fails (default: settings.TIMEOUT)."""
    log: Log = LOG
    report: Callable[[str, int, int], None] = lambda name, done, size: None
    """Called with a file's name, the bytes of it that have come, and its size."""

    def connect(self) -> Connection:
        return Connection(settings.current(self.timeout), self.log)

    @property
    def may_connect(self) -> bool:
        return not (self.offline or settings.offline())


def pull(name: str, revision: str | None = None, to: Path | None = None, ask: PullOptions | None = None) -> Pulled:
    """Make sure that the files of a checkpoint are on this machine, verified.

    name: of the registry, or hf://org/name[@revision] for any repository. revision: instead of the pinned one. to: a
    folder to copy the files into. No request is made when the pinned bytes are here. Raises UnknownNameError,
    RequestError, CheckpointError (HubError and its kinds for what the Hub did), StorageError.
    """
    ask = ask or PullOptions()
    there = settings.address(name)
    if there is None:
        found = _entry(registry.find(name), revision, ask)
    else:
        repo, own = there
        if revision is not None and own not in (None, revision):
            raise RequestError(f"{name} and --revision {revision} are two different revisions.")
        found = _unpinned(name, repo, revision if revision is not None else own or "main", None, ask)
    return found if to is None else replace(found, files=local.copy(found.files, to, ask.force))


def resolve(entry: Entry, revision: str | None = None) -> dict[str, Path]:
    """The files of an entry's checkpoint, each verified against its pin: file name to path. Raises what `pull` raises."""
    return _entry(entry, revision, PullOptions()).files


def _entry(entry: Entry, revision: str | None, ask: PullOptions) -> Pulled:
    pin = entry.weights
    if pin is None:
        if entry.task.absent:
            raise CheckpointError(f"{entry.name} has no weights: the data cannot be had. rnnzoo compare {entry.name}")
        raise CheckpointError(
            f"{entry.name} has no published weights. `rnnzoo train {entry.name}` makes some, in runs/{entry.name}, which "
            "load and rnnzoo eval take in the place of the name."
        )
    if revision is not None and revision != pin.revision:
        return _unpinned(entry.name, pin.repo, revision, entry.config, ask)
    found = _pinned(entry.name, pin, ask)
    configs.must_agree(configs.read(found.files[configs.FILE]), entry.config, found.files[configs.FILE])
    return found


def _pinned(model: str, pin: Weights, ask: PullOptions) -> Pulled:
    problems: list[str] = []
    fetch = ask.force and pin.revision is not None
    here = {} if fetch else {name: _here(model, pin, name, file, problems) for name, file in pin.files.items()}
    found = {name: path for name, path in here.items() if path is not None}
    missing = [name for name in pin.files if name not in found]
    if not missing:
        if ask.force:  # had there been something to fetch, nothing would be here
            ask.log(f"{model} is not on the Hub yet; this is what is here.")
        return Pulled(model, pin.repo, pin.revision, found, True)
    pulled = f"{model}: no source has the pinned {', '.join(missing)}: "
    known = "".join(f"{problem}; " for problem in problems)
    if pin.revision is None:
        raise CheckpointError(f"{pulled}{known or 'not found; '}it is not on the Hub yet.")
    if not ask.may_connect:
        raise NetworkError(
            f"{pulled}{known}this is offline. With a network, and without HF_HUB_OFFLINE: rnnzoo pull {model}"
        )
    for problem in problems:
        ask.log(f"{problem}; fetching it from the Hub.")
    if configs.FILE not in missing and local.cached(pin.repo, configs.FILE, pin.revision) is None:
        missing.insert(0, configs.FILE)  # by which the Hub counts downloads
    try:
        with ask.connect() as hub:
            for name in missing:
                found[name] = _fetch(hub, pin, name, pin.files[name], ask)
    except MissingError as error:  # of the registry's own pin, so that the request was not wrong
        raise MissingError(f"{pulled}{known}{error}", exit_code=1) from error
    except CheckpointError as error:
        raise type(error)(f"{pulled}{known}{error}") from error
    return Pulled(model, pin.repo, pin.revision, {name: found[name] for name in pin.files}, True, tuple(missing))


def _here(model: str, pin: Weights, name: str, file: PinnedFile, problems: list[str]) -> Path | None:
    """The first copy on this machine that is the pinned one; what is wrong with others goes to `problems`."""
    for path in local.copies(model, pin, name):
        problem = differs(path, file)
        if problem is None:
            return path
        problems.append(f"{path} {problem}")
    return None


def _fetch(hub: Connection, pin: Weights, name: str, file: PinnedFile, ask: PullOptions) -> Path:
    """A pinned file from the Hub; one that is another is thrown away and fetched once more."""
    there = local.cached(pin.repo, name, pin.revision)
    if there is not None and not ask.force and differs(there, file) is None:
        return there  # another process was faster
    force = ask.force or there is not None  # else the client would return it as it is
    return _download(
        hub, pin.repo, name, pin.revision or "", lambda path: differs(path, file), ask, force, size=file.size
    )


def _download(
    hub: Connection, repo: str, name: str, revision: str, check: Callable[[Path], str | None], ask: PullOptions, force: bool,
    *, size: int | None = None, limit: int = MAX_BYTES,
) -> Path:  # fmt: skip
    """A file from the Hub; one that `check` says something against is thrown away and fetched once more."""
    for last in (False, True):
        path = hub.download(
            repo,
            name,
            revision,
            size=size,
            limit=limit,
            force=force,
            report=lambda done, size: ask.report(name, done, size),
        )
        problem = check(path)
        if problem is None:
            return path
        local.remove(path)
        if not last:
            ask.log(f"{repo}: the {name} that came {problem}; fetching it once more.")
        force = True
    raise CheckpointError(f"{repo} on the Hub: {name} {problem}. Nothing of it was kept; do not trust that server.")


def _unpinned(name: str, repo: str, revision: str, expected: Config | None, ask: PullOptions) -> Pulled:
    """A checkpoint that no pin vouches for."""
    known = local.known_commit(repo, settings.check_revision(revision))
    if not ask.force and known == revision and (found := _all_here(name, repo, known, expected)):
        return found
    ask.log(f"{name}: {repo}@{revision} has no pin in the registry: only the Hub vouches for its bytes.")
    if not ask.may_connect:
        if known is not None and (found := _all_here(name, repo, known, expected)):
            return found
        raise NetworkError(
            f"{name}: {repo}@{revision} is not, or not whole, in the cache ({_lacking(repo, known)}), and this is offline. "
            "With a network: the same command."
        )
    with ask.connect() as hub:
        try:
            commit = hub.commit(repo, revision)
        except NetworkError as error:
            if ask.force or known is None or (found := _all_here(name, repo, known, expected)) is None:
                raise
            ask.log(f"{error} Using the copy in the cache, of commit {known}; it may be old.")
            return found
        if known not in (None, commit):
            ask.log(f"{repo}: {revision} is at commit {commit} now; the copy in the cache was of {known}.")

        fetched: list[str] = []

        def get(file: str) -> Path:
            # by the revision's name, for the client to remember where that was
            at = revision if file == configs.FILE else commit
            if ask.force or local.cached(repo, file, commit) is None:
                fetched.append(file)
            path = _download(hub, repo, file, at, damage, ask, ask.force, limit=LIMITS.get(file, MAX_BYTES))
            if commit not in path.parts:  # .../snapshots/COMMIT/config.json
                raise ChangedError(f"{repo}: {revision} has moved on from {commit} meanwhile. The same command again.")
            return path

        return _assemble(name, repo, commit, expected, get, fetched)


def _assemble(
    name: str, repo: str, commit: str, expected: Config | None, get: Callable[[str], Path], fetched: Sequence[str] = ()
) -> Pulled:
    """The files that a config.json asks for, read as strictly as ours; fetched: those that `get` downloads."""
    found = {configs.FILE: get(configs.FILE)}
    config = configs.read(found[configs.FILE])
    if expected is not None:
        configs.must_agree(config, expected, found[configs.FILE])
    found[tensors.FILE] = get(tensors.FILE)
    tensors.header(found[tensors.FILE])
    if config.interface.vocabulary is not None:
        found[configs.VOCABULARY] = get(configs.VOCABULARY)
    return Pulled(name, repo, commit, found, False, tuple(fetched))


def _all_here(name: str, repo: str, commit: str, expected: Config | None) -> Pulled | None:
    """All files of a commit from the cache, if they are there and whole."""

    def get(file: str) -> Path:
        path = local.cached(repo, file, commit)
        if path is None or damage(path) is not None:
            raise FileNotFoundError(file)
        return path

    try:
        return _assemble(name, repo, commit, expected, get)
    except FileNotFoundError:
        return None


def _lacking(repo: str, commit: str | None) -> str:
    names = [name for name in (configs.FILE, tensors.FILE) if local.cached(repo, name, commit) is None]
    return f"no {', no '.join(names)}" if names else "damaged"


def dataset_file(repo: str, name: str) -> Path:
    """A file of a dataset repository, downloaded to the Hub's cache if need be; the caller verifies what it decodes to."""
    try:
        with PullOptions().connect() as hub:
            return hub.download(repo, name, None, repo_type="dataset")
    except ZooError as error:
        raise DataError(f"{error} Set RNNZOO_DATA to a folder that has the data, or connect to the Hub.") from error
