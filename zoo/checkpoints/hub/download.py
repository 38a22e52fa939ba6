"""Checkpoints to this machine: from the cache, the package or the Hub, in that order.

The registry pins every published file by sha256 and size, so the source does not matter. A checkpoint without a pin (another
revision, or another repository) is checked against the Hub's own digests, and its config.json is read as strictly.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ... import registry
from ...errors import ChangedError, CheckpointError, DataError, MissingError, NetworkError, RequestError, ZooError
from ...registry import Entry
from ...registry.schema import Config, Weights
from .. import configs, tensors
from ..reference import Reference
from . import local, settings
from .client import LOG, MAX_BYTES, Connection, Log
from .digests import damage, mismatch

LIMITS = {configs.FILE: configs.MAX_BYTES, configs.VOCABULARY: configs.MAX_VOCABULARY_BYTES}
"""Maximum bytes of a file whose size is not pinned; client.MAX_BYTES for others."""


@dataclass(frozen=True)
class Pulled:
    """A checkpoint on this machine."""

    name: str
    """As the user wrote it: a model of the registry, or hf://org/name."""
    repo: str
    revision: str | None
    """Commit on the Hub; None if only the package has the checkpoint."""
    config: Config
    files: dict[str, Path]
    verified: bool
    """True if every byte is that of a pin in the registry."""
    downloaded: tuple[str, ...] = ()
    """Names of the files that this call downloaded."""


@dataclass(frozen=True)
class PullOptions:
    """How to pull."""

    force: bool = False
    """Download even if the files are on this machine, and overwrite files in the folder to copy to."""
    offline: bool = False
    timeout: float | None = None
    """Seconds to keep trying while the Hub fails (default: settings.TIMEOUT)."""
    log: Log = LOG
    report: Callable[[str, int, int], None] = lambda name, done, size: None
    """Called with a file's name, the bytes of it so far, and its size."""

    def connect(self) -> Connection:
        return Connection(settings.current(self.timeout), self.log)

    @property
    def may_connect(self) -> bool:
        return not (self.offline or settings.offline())


def pull(reference: Reference, options: PullOptions | None = None, *, to: Path | None = None) -> Pulled:
    """Make sure that a checkpoint's files are on this machine, and verify them.

    to: a folder to copy the files into. No request is made if the pinned bytes are on this machine. Raises RequestError for
    a folder, CheckpointError for a model without published weights or a file that is not the pinned one, HubError and its
    kinds for failures of the Hub, and StorageError.
    """
    options = options or PullOptions()
    if reference.folder is not None:
        raise RequestError(f"{reference.text} is a folder on this machine, so there is nothing to pull.")
    if reference.repo is not None:
        pulled = _Unpinned(reference.text, reference.repo, reference.revision or "main", None, options).pull()
    else:
        pulled = _pull_model(registry.find(reference.model or ""), reference.revision, options)
    return pulled if to is None else replace(pulled, files=local.copy(pulled.files, to, options.force))


def read_config(reference: Reference, options: PullOptions | None = None) -> Config:
    """Return the config.json of a repository on the Hub without downloading its weights. Raises what `pull` raises."""
    if reference.repo is None:
        raise RequestError(f"{reference.text} is not the address of a repository on the Hub.")
    revision = reference.revision or "main"
    source = _Unpinned(reference.text, reference.repo, revision, None, options or PullOptions(), config_only=True)
    return source.pull().config


def dataset_file(repo: str, name: str) -> Path:
    """Path of a file of a dataset repository in the Hub's cache, downloaded if needed. The caller verifies its content."""
    try:
        with PullOptions().connect() as connection:
            return connection.download(repo, name, None, repo_type="dataset")
    except ZooError as error:
        raise DataError(f"{error} Set RNNZOO_DATA to a folder that has the data, or connect to the Hub.") from error


def _pull_model(entry: Entry, revision: str | None, options: PullOptions) -> Pulled:
    """The checkpoint of a registered model, at its pinned commit or another revision."""
    pin = entry.weights
    if pin is None:
        if entry.task.absent:
            raise CheckpointError(
                f"{entry.name} has no weights, because its data cannot be had. See: rnnzoo compare {entry.name}"
            )
        raise CheckpointError(
            f"{entry.name} has no published weights. Train some with `rnnzoo train {entry.name}`, then load or evaluate the "
            f"folder runs/{entry.name}."
        )
    if revision in (None, pin.revision):
        return _pull_pinned(entry, pin, options)
    return _Unpinned(entry.name, pin.repo, revision or "", entry.config, options).pull()


def _pull_pinned(entry: Entry, pin: Weights, options: PullOptions) -> Pulled:
    """The pinned files of a model: verified copies on this machine, and the rest from the Hub."""
    model = entry.name
    refetch = options.force and pin.revision is not None
    searches = {} if refetch else {name: _find_copy(model, pin, name) for name in pin.files}
    copies = {name: path for name, (path, _) in searches.items() if path is not None}
    missing = [name for name in pin.files if name not in copies]
    if not missing:
        if options.force:
            options.log(f"{model} is not on the Hub yet. These are the files on this machine.")
        return Pulled(model, pin.repo, pin.revision, _agreed_config(entry, copies), copies, True)
    damaged = [problem for path, problems in searches.values() if path is None for problem in problems]
    failure = f"{model}: no source has the pinned {', '.join(missing)}: {''.join(f'{each}; ' for each in damaged)}"
    if pin.revision is None:
        raise CheckpointError(f"{failure}{'' if damaged else 'not found; '}it is not on the Hub yet.")
    if not options.may_connect:
        raise NetworkError(f"{failure}this is offline. With a network, and without HF_HUB_OFFLINE: rnnzoo pull {model}")
    for problem in damaged:
        options.log(f"{problem}; fetching it from the Hub.")
    # the Hub counts downloads by config.json, so it is fetched with any other file
    uncounted = configs.FILE not in missing and local.cached(pin.repo, configs.FILE, pin.revision) is None
    names = [configs.FILE, *missing] if uncounted else missing
    try:
        with options.connect() as connection:
            fetched = {name: _fetch_pinned(connection, pin, name, options) for name in names}
    except MissingError as error:  # the pin names it, so the user's request was right
        raise MissingError(f"{failure}{error}", exit_code=1) from error
    except CheckpointError as error:
        raise type(error)(f"{failure}{error}") from error
    paths = {name: {**copies, **fetched}[name] for name in pin.files}
    return Pulled(model, pin.repo, pin.revision, _agreed_config(entry, paths), paths, True, tuple(names))


def _agreed_config(entry: Entry, paths: Mapping[str, Path]) -> Config:
    """The config among a model's files. Raises CheckpointError if it disagrees with the registry."""
    config = configs.read(paths[configs.FILE])
    configs.must_agree(config, entry.config, paths[configs.FILE])
    return config


def _find_copy(model: str, pin: Weights, name: str) -> tuple[Path | None, list[str]]:
    """The first copy on this machine that is the pinned file, if any, and what is wrong with the copies before it."""
    problems: list[str] = []
    for path in local.copies(model, pin, name):
        problem = mismatch(path, pin.files[name])
        if problem is None:
            return path, problems
        problems.append(f"{path} {problem}")
    return None, problems


def _fetch_pinned(connection: Connection, pin: Weights, name: str, options: PullOptions) -> Path:
    """Download a pinned file of the pinned commit."""
    file = pin.files[name]
    cached = local.cached(pin.repo, name, pin.revision)
    if cached is not None and not options.force and mismatch(cached, file) is None:
        return cached  # another process has just downloaded it
    force = options.force or cached is not None  # without force the client returns a damaged file as it is
    return _download(
        connection,
        pin.repo,
        name,
        pin.revision or "",
        lambda path: mismatch(path, file),
        options,
        force,
        size=file.size,
    )


def _download(
    connection: Connection, repo: str, name: str, revision: str, check: Callable[[Path], str | None], options: PullOptions,
    force: bool, *, size: int | None = None, limit: int = MAX_BYTES,
) -> Path:  # fmt: skip
    """Download a file. If `check` returns a problem, delete the file and download it once more; then CheckpointError."""

    def attempt(force: bool) -> tuple[Path, str | None]:
        path = connection.download(
            repo, name, revision, size=size, limit=limit, force=force,
            report=lambda done, total: options.report(name, done, total),
        )  # fmt: skip
        problem = check(path)
        if problem is not None:
            local.remove(path)
        return path, problem

    path, problem = attempt(force)
    if problem is not None:
        options.log(f"{repo}: the {name} that came {problem}; fetching it once more.")
        path, problem = attempt(force=True)
    if problem is not None:
        raise CheckpointError(f"{repo} on the Hub: {name} {problem}. Nothing of it was kept; do not trust that server.")
    return path


@dataclass(frozen=True)
class _Unpinned:
    """A repository at a revision that the registry does not pin."""

    name: str
    repo: str
    revision: str
    """A branch, tag or commit."""
    expected: Config | None
    """The registry's config, with which config.json must agree; None for a repository outside the registry."""
    options: PullOptions
    config_only: bool = False
    """Pull config.json and nothing else."""

    def pull(self) -> Pulled:
        options = self.options
        known_commit = local.known_commit(self.repo, self.revision)
        if known_commit == self.revision and not options.force and (pulled := self.from_cache(known_commit)):
            return pulled  # a commit never changes, so no request is needed
        options.log(
            f"{self.name}: {self.repo}@{self.revision} has no pin in the registry. Only the Hub vouches for it."
        )
        if not options.may_connect:
            return self.offline(known_commit)
        with options.connect() as connection:
            try:
                commit = connection.commit(self.repo, self.revision)
            except NetworkError as error:
                pulled = None if options.force else self.from_cache(known_commit)
                if pulled is None:
                    raise
                options.log(f"{error} Using the copy in the cache, of commit {known_commit}; it may be old.")
                return pulled
            if known_commit not in (None, commit):
                options.log(
                    f"{self.repo}: {self.revision} is at commit {commit} now; the copy in the cache was of {known_commit}."
                )
            return self.from_hub(connection, commit)

    def from_cache(self, commit: str | None) -> Pulled | None:
        """The files of a commit in the cache; None unless all are there and undamaged."""
        config_path = self.cached(configs.FILE, commit)
        if commit is None or config_path is None:
            return None
        config = self.read_config(config_path)
        paths = {configs.FILE: config_path}
        for name in self.other_files(config):
            path = self.cached(name, commit)
            if path is None:
                return None
            paths[name] = path
        return self.checked(commit, config, paths, ())

    def offline(self, commit: str | None) -> Pulled:
        """As `from_cache`, but raises NetworkError that says what the cache lacks."""
        pulled = self.from_cache(commit)
        if pulled is None:
            names = [name for name in (configs.FILE, tensors.FILE) if local.cached(self.repo, name, commit) is None]
            lacking = f"no {', no '.join(names)}" if names else "damaged"
            raise NetworkError(
                f"{self.name}: {self.repo}@{self.revision} is not, or not whole, in the cache ({lacking}), and this is "
                "offline. Run the same command with a network."
            )
        return pulled

    def from_hub(self, connection: Connection, commit: str) -> Pulled:
        """The files of a commit, downloaded unless they are in the cache."""
        in_cache = {file for file in (*LIMITS, tensors.FILE) if local.cached(self.repo, file, commit)}
        # asked for by the revision, which makes the client remember that revision's commit
        config_path = self.fetch(connection, configs.FILE, self.revision, commit)
        config = self.read_config(config_path)
        paths = {name: self.fetch(connection, name, commit, commit) for name in self.other_files(config)}
        paths = {configs.FILE: config_path, **paths}
        return self.checked(
            commit, config, paths, tuple(name for name in paths if self.options.force or name not in in_cache)
        )

    def fetch(self, connection: Connection, name: str, revision: str, commit: str) -> Path:
        """A file at `revision`, which must be at `commit`; raises ChangedError if it has moved on."""
        limit = LIMITS.get(name, MAX_BYTES)
        path = _download(connection, self.repo, name, revision, damage, self.options, self.options.force, limit=limit)
        if commit not in path.parts:  # .../snapshots/COMMIT/config.json
            raise ChangedError(
                f"{self.repo}: {self.revision} has moved on from {commit} meanwhile. Run the same command again."
            )
        return path

    def cached(self, name: str, commit: str | None) -> Path | None:
        """An undamaged file of a commit in the cache, if there is one."""
        path = local.cached(self.repo, name, commit)
        return path if path is not None and damage(path) is None else None

    def read_config(self, path: Path) -> Config:
        config = configs.read(path)
        if self.expected is not None:
            configs.must_agree(config, self.expected, path)
        return config

    def other_files(self, config: Config) -> list[str]:
        """Names of the files besides config.json."""
        if self.config_only:
            return []
        return [tensors.FILE] if config.interface.vocabulary is None else [tensors.FILE, configs.VOCABULARY]

    def checked(self, commit: str, config: Config, paths: dict[str, Path], downloaded: tuple[str, ...]) -> Pulled:
        """The pulled checkpoint. Raises CheckpointError if model.safetensors is malformed."""
        if tensors.FILE in paths:
            tensors.header(paths[tensors.FILE])
        return Pulled(self.name, self.repo, commit, config, paths, False, downloaded)
