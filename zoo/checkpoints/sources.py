"""Finds a checkpoint's files: in a folder; or in the Hub client's cache, in the package's cards/, or on the Hub.

The registry pins every published file by sha256 and size, so any copy with these bytes is good. A file of another revision or
repository has no pin, and must have the digest that the Hub gives. Every config.json is read strictly.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from .. import registry
from ..errors import ChangedError, CheckpointError, DataError, MissingError, NetworkError, RequestError, ZooError
from ..registry import Entry
from ..registry.schema import Config, Pin
from ..utils import paths
from . import configs, tensors
from .checkpoint import Checkpoint, files_in
from .hub import cache, settings
from .hub.client import LOG, MAIN, MAX_BYTES, Connection, Log
from .hub.digests import damage, mismatch
from .references import Reference

LIMITS = {configs.FILE: configs.MAX_BYTES, configs.VOCABULARY: configs.MAX_VOCABULARY_BYTES}
"""Maximum size in bytes of files that are not pinned. The limit of other such files is MAX_BYTES."""


@dataclass(frozen=True)
class PullOptions:
    """Options for getting files that are not on this machine."""

    force: bool = False
    """Download even if the files are on this machine, and overwrite files in the folder to copy to."""
    offline: bool = False
    sha256: str | None = None
    """Digest that model.safetensors must have."""
    timeout: float | None = None
    """Seconds for all requests to the Hub together; transfers that advance do not count (default: settings.TIMEOUT)."""
    log: Log = LOG
    report: Callable[[str, int, int], None] = lambda name, done, size: None
    """Called with a file's name, the number of bytes received so far, and the file's size."""

    def connect(self) -> Connection:
        return Connection(self.timeout, self.log)

    @property
    def may_connect(self) -> bool:
        return not (self.offline or settings.offline())


def resolve(reference: Reference, options: PullOptions | None = None) -> Checkpoint:
    """Return the checkpoint that a reference names, after downloading the files that are not on this machine.

    No request is made if the pinned files are on this machine. Pinned files are verified; the weights in a folder are not
    opened. Raises CheckpointError for a file that is missing, invalid, or differs from its pin, for a config.json that
    disagrees with the registry, and for a model without published weights; HubError for failures of the Hub; and
    StorageError.
    """
    options = options or PullOptions()
    if reference.folder is not None:
        return Checkpoint(reference, configs.read(reference.folder / configs.FILE), files_in(reference.folder))
    if reference.model is None:
        return _Unpinned(reference, reference.repo or "", None, options).pull()
    entry = registry.find(reference.model)
    if entry.weights is None:
        if entry.task.absent:
            raise CheckpointError(
                f"{entry.name} has no weights, because its training data are not available. The figures that papers report: "
                f"rnnzoo compare {entry.name}"
            )
        raise CheckpointError(
            f"{entry.name} has no published weights. Train the model with `rnnzoo train {entry.name}`, then load or evaluate "
            f"the folder runs/{entry.name}."
        )
    if reference.revision in (None, entry.weights.revision):
        return _pull_pinned(reference, entry, entry.weights, options)
    return _Unpinned(reference, entry.weights.repo, entry, options).pull()


def pull(reference: Reference, options: PullOptions | None = None, *, to: Path | None = None) -> Checkpoint:
    """Return the checkpoint of a model or of a repository on the Hub, as `resolve` does.

    to: a folder to copy the files into; None for no copy. Raises RequestError for a folder, CheckpointError if the weights
    do not have the digest `options.sha256`, and the errors of `resolve`.
    """
    options = options or PullOptions()
    if reference.folder is not None:
        raise RequestError(f"{reference.text} is a folder on this machine, so there is nothing to pull.")
    checkpoint = resolve(reference, options)
    if options.sha256 not in (None, checkpoint.weights_sha256):
        raise CheckpointError(
            f"{reference.text}: {tensors.FILE} has the sha256 {checkpoint.weights_sha256} instead of {options.sha256}. Do not "
            "use these weights."
        )
    return checkpoint if to is None else replace(checkpoint, files=cache.copy(checkpoint.files, to, options.force))


def read_config(reference: Reference) -> Config:
    """Return a checkpoint's config: the registry's for a model, else the content of its config.json. Needs no weights."""
    if reference.model is not None:
        return registry.find(reference.model).config
    if reference.folder is not None:
        return configs.read(reference.folder / configs.FILE)
    return _Unpinned(reference, reference.repo or "", None, PullOptions(), config_only=True).pull().config


def dataset_file(repo: str, name: str) -> Path:
    """Return the path of a file of a dataset repository on the Hub, after downloading the file if needed.

    The file is not verified. Raises DataError if it cannot be downloaded.
    """
    try:
        with Connection() as connection:
            return connection.download(repo, name, None, repo_type="dataset")
    except ZooError as error:
        raise DataError(str(error)) from error


def copies(model: str, pin: Pin, name: str) -> list[Path]:
    """Return the paths of the copies of a pinned file on this machine, unverified: in the cache, then in cards/MODEL."""
    cached, packaged = cache.find(pin.repo, name, pin.revision), paths.path("cards", model, name)
    return [path for path in (cached, packaged if packaged.is_file() else None) if path is not None]


def _pull_pinned(reference: Reference, entry: Entry, pin: Pin, options: PullOptions) -> Checkpoint:
    """Return a model's checkpoint at its pinned commit, after downloading the files without a verified copy on this machine."""
    model, refetch = entry.name, options.force and pin.revision is not None
    problems = {name: {} if refetch else _problems(model, pin, name) for name in pin.files}
    good = {name: path for name, found in problems.items() for path, problem in found.items() if problem is None}
    missing = [name for name in pin.files if name not in good]
    if missing:
        damaged = [f"{path} {problem}" for name in missing for path, problem in problems[name].items()]
        fetched = _fetch_missing(model, pin, missing, damaged, options)
    else:
        fetched = {}
        if options.force:
            options.log(f"{model} is not on the Hub yet. These are the files on this machine.")
    found = {name: {**good, **fetched}[name] for name in pin.files}
    config = configs.read(found[configs.FILE])
    configs.must_agree(config, entry.config, found[configs.FILE])
    return Checkpoint(reference, config, found, entry, pin.repo, pin.revision, verified=True, downloaded=tuple(fetched))


def _problems(model: str, pin: Pin, name: str) -> dict[Path, str | None]:
    """Return, by path, what is wrong with each copy of the pinned file `name` on this machine; None for a good copy.

    The search ends at the first good copy, so only the last value can be None.
    """
    problems: dict[Path, str | None] = {}
    for path in copies(model, pin, name):
        problems[path] = mismatch(path, pin.files[name])
        if problems[path] is None:
            break
    return problems


def _fetch_missing(
    model: str, pin: Pin, missing: list[str], damaged: list[str], options: PullOptions
) -> dict[str, Path]:
    """Download the files `missing` of a model's pinned commit, and return their paths by name.

    damaged: a text, for the messages, on each damaged copy that is on this machine. config.json is downloaded along with the
    others if the cache lacks it. Raises CheckpointError for a model that is not on the Hub, and HubError if the Hub fails.
    """
    failure = f"{model}: no source has the pinned {', '.join(missing)}: {''.join(f'{each}; ' for each in damaged)}"
    if pin.revision is None:
        raise CheckpointError(
            f"{failure}{'' if damaged else 'not on this machine; '}the model is not on the Hub yet. Restore "
            f"cards/{model}, or reinstall rnnzoo."
        )
    if not options.may_connect:
        raise NetworkError(
            f"{failure}rnnzoo is offline. Run, with a network and without HF_HUB_OFFLINE: rnnzoo pull {model}"
        )
    for problem in damaged:
        options.log(f"{problem}; downloading it from the Hub.")
    # the Hub counts downloads by config.json, so config.json is fetched along with any other file
    uncounted = configs.FILE not in missing and cache.find(pin.repo, configs.FILE, pin.revision) is None
    try:
        with options.connect() as connection:
            names = [configs.FILE, *missing] if uncounted else missing
            return {name: _fetch_pinned(connection, pin, name, options) for name in names}
    except MissingError as error:  # the user asked for a model, not for a file, so the request was right
        raise MissingError(f"{failure}{error}", exit_code=1) from error
    except CheckpointError as error:
        raise type(error)(f"{failure}{error}") from error


def _fetch_pinned(connection: Connection, pin: Pin, name: str, options: PullOptions) -> Path:
    file, cached = pin.files[name], cache.find(pin.repo, name, pin.revision)
    if cached is not None and not options.force and mismatch(cached, file) is None:
        return cached  # another process has just downloaded it
    force = options.force or cached is not None  # without force the client returns a damaged file as it is
    check = lambda path: mismatch(path, file)  # noqa: E731
    return _download(connection, pin.repo, name, pin.revision or "", check, options, force, size=file.size)


def _download(
    connection: Connection, repo: str, name: str, revision: str, check: Callable[[Path], str | None], options: PullOptions,
    force: bool, size: int | None = None, limit: int = MAX_BYTES,
) -> Path:  # fmt: skip
    """Return the path in the cache of the file `name`, after downloading it if needed.

    check: takes the path, and returns what is wrong with the file, or None. After a first problem the file is downloaded
    again; after a second one it is deleted, and CheckpointError is raised. force, size, limit: as for Connection.download.
    """
    for last_try in (False, True):
        path = connection.download(
            repo, name, revision, size=size, limit=limit, force=force or last_try,
            report=lambda done, total: options.report(name, done, total),
        )  # fmt: skip
        problem = check(path)
        if problem is None:
            return path
        cache.discard(path)
        if not last_try:
            options.log(f"{repo}: the downloaded {name} {problem}; downloading it once more.")
    raise CheckpointError(
        f"{repo} on the Hub: {name} {problem}. The file was deleted. Do not trust {connection.endpoint}."
    )


@dataclass(frozen=True)
class _Unpinned:
    """A repository at a revision that the registry does not pin."""

    reference: Reference
    repo: str
    entry: Entry | None
    """The registry's entry, with which config.json must agree; None for a repository outside the registry."""
    options: PullOptions
    config_only: bool = False
    """Pull config.json and nothing else."""

    @property
    def revision(self) -> str:
        return self.reference.revision or MAIN

    def pull(self) -> Checkpoint:
        """Return the checkpoint: from the cache if its copy is current or the Hub cannot be reached, else from the Hub."""
        options, repo, revision = self.options, self.repo, self.revision
        known = cache.known_commit(repo, revision)
        if known == revision and not options.force and (checkpoint := self.from_cache(known)):
            return checkpoint  # a commit never changes, so no request is needed
        models = [name for name, pin in registry.load_lock().weights.items() if pin.repo == repo]
        reason = (
            f"an address is not compared with the pin of {models[0]}, as `rnnzoo pull {models[0]}` does."
            if models and self.reference.model is None
            else f"{repo}@{revision} has no pin in the registry."
        )
        options.log(f"{self.reference.text}: {reason} Only the Hub vouches for its files.")
        if not options.may_connect:
            if checkpoint := self.from_cache(known):
                return checkpoint
            names = [name for name in (configs.FILE, tensors.FILE) if cache.find(repo, name, known) is None]
            lacking = f"no {', no '.join(names)}" if names else "damaged"
            raise NetworkError(
                f"{self.reference.text}: the cache has no complete copy of {repo}@{revision} ({lacking}), and rnnzoo is "
                "offline. Run the same command with a network."
            )
        with options.connect() as connection:
            try:
                commit = connection.commit(repo, revision)
            except NetworkError as error:
                if options.force or not (checkpoint := self.from_cache(known)):
                    raise
                options.log(f"{error} Using the copy in the cache, of commit {known}; it may be old.")
                return checkpoint
            if known not in (None, commit):
                options.log(f"{repo}: {revision} is at commit {commit} now; the copy in the cache was of {known}.")
            return self.from_hub(connection, commit)

    def from_cache(self, commit: str | None) -> Checkpoint | None:
        """Return a commit's checkpoint from the cache; None if a file is missing or damaged, or if `commit` is None."""

        def find(name: str) -> Path | None:
            path = cache.find(self.repo, name, commit)
            return None if path is None or damage(path) else path

        config_path = find(configs.FILE)
        if commit is None or config_path is None:
            return None
        config = self.read_config(config_path)
        names = [
            name
            for name in self.other_files(config)
            if not (self.may_lack(name) and cache.lacks(self.repo, name, commit))
        ]
        found = {configs.FILE: config_path, **{name: find(name) for name in names}}
        whole = {name: path for name, path in found.items() if path is not None}
        return self.checkpoint(commit, config, whole, ()) if len(whole) == len(found) else None

    def from_hub(self, connection: Connection, commit: str) -> Checkpoint:
        """Return the checkpoint of a commit, after downloading the files that are not in the cache."""
        in_cache = {file for file in (*LIMITS, tensors.FILE) if cache.find(self.repo, file, commit)}
        # config.json is asked for by the revision, which makes the client remember that revision's commit
        found = {configs.FILE: self.fetch(connection, configs.FILE, self.revision, commit)}
        config = self.read_config(found[configs.FILE])
        for name in self.other_files(config):
            try:
                found[name] = self.fetch(connection, name, commit, commit)
            except MissingError:
                if not self.may_lack(name):
                    raise
        fetched = tuple(name for name in found if self.options.force or name not in in_cache)
        return self.checkpoint(commit, config, found, fetched)

    def fetch(self, connection: Connection, name: str, revision: str, commit: str) -> Path:
        """Return the path of the file `name` at `revision`, after downloading it if needed.

        commit: the commit that the revision had a moment ago; raises ChangedError if the revision has moved since then.
        """
        options, limit = self.options, LIMITS.get(name, MAX_BYTES)
        path = _download(connection, self.repo, name, revision, damage, options, options.force, limit=limit)
        if commit not in path.parts:  # .../snapshots/COMMIT/config.json
            raise ChangedError(
                f"{self.repo}: {self.revision} moved from commit {commit} to another one during the download. Run the same "
                "command again."
            )
        return path

    def read_config(self, path: Path) -> Config:
        config = configs.read(path)
        if self.entry is not None:
            configs.must_agree(config, self.entry.config, path)
        return config

    def other_files(self, config: Config) -> list[str]:
        """Return the names of the files to pull besides config.json."""
        if self.config_only:
            return []
        return [tensors.FILE] if config.interface.vocabulary is None else [tensors.FILE, configs.VOCABULARY]

    def may_lack(self, name: str) -> bool:
        """Return whether a repository may do without a file: a network outside the registry may read tokens, not text."""
        return name == configs.VOCABULARY and self.entry is None

    def checkpoint(self, commit: str, config: Config, found: dict[str, Path], fetched: tuple[str, ...]) -> Checkpoint:
        if tensors.FILE in found:
            tensors.header(found[tensors.FILE])  # raises CheckpointError for a malformed file
        return Checkpoint(
            self.reference, config, found, self.entry, self.repo, commit, verified=False, downloaded=fetched
        )
