"""The cache of the Hub's client with pipes, links and damaged files in it."""

import json
import os
import socket
from pathlib import Path

import pytest
from hubs import NAME, OTHER, REPO, Here, Run
from huggingface_hub import constants

from zoo.checkpoints import configs, sources, tensors
from zoo.checkpoints.hub import cache
from zoo.checkpoints.references import Reference
from zoo.errors import NetworkError, StorageError

ADDRESS = f"hf://{REPO}"


def pull(here: Here, name: str = ADDRESS) -> dict[str, bytes]:
    return {
        name: path.read_bytes() for name, path in sources.pull(Reference.parse(name), here.pull_options).files.items()
    }


def block(path: Path) -> None:
    """Put a pipe in the place of a file."""
    path.unlink()
    os.mkfifo(path)


def places(here: Here) -> list[Path]:
    """Return the files of the cached model that the client opens."""
    place, locks = cache.folder(REPO), here.cache / "hub" / ".locks" / cache.folder(REPO).name
    return [place / "refs" / "main", *(place / "blobs").iterdir(), *place.glob("snapshots/*/*"), *locks.iterdir()]


@pytest.mark.parametrize("target", [ADDRESS, NAME])
def test_pipes_in_the_cache_are_replaced_and_never_waited_for(here: Here, run: Run, target: str) -> None:
    here.publish()
    expected = pull(here, target)
    pull(here)
    for path in places(here):
        block(path)
    code, _, err = run("pull", ADDRESS, "--offline")
    assert code == 1
    assert "no complete copy" in err
    assert run("cache", "list")[0] == 0
    assert pull(here, target) == expected
    pull(here)
    assert all(path.is_file() for path in places(here))


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder", "loop", "long"])
def test_what_is_no_file_names_no_commit(here: Here, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    here.publish()
    pull(here)
    path = cache.folder(REPO) / "refs" / "main"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as server:
        if kind == "socket":
            monkeypatch.chdir(path.parent)  # the name of a socket must be short
            server.bind(path.name)
        elif kind == "long":
            path.write_bytes(b"0" * 10**6)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:
            {"pipe": os.mkfifo, "folder": Path.mkdir, "loop": lambda path: path.symlink_to(path)}[kind](path)
        assert cache.known_commit(REPO, "main") is None
        cache.repair(REPO)
        assert os.path.lexists(path) == (kind == "folder")


@pytest.mark.parametrize("file", [configs.FILE, tensors.FILE])
def test_a_link_out_of_the_cache_is_replaced_and_its_target_kept(here: Here, tmp_path: Path, file: str) -> None:
    here.publish()
    expected = pull(here)
    (path,) = cache.folder(REPO).glob(f"snapshots/*/{file}")
    precious = tmp_path / file
    precious.write_bytes(b"{}")
    path.unlink()
    path.symlink_to(precious)
    with pytest.raises(NetworkError, match="no complete copy"):
        sources.pull(Reference.parse(ADDRESS), sources.PullOptions(offline=True, log=here.logged.append))
    assert pull(here) == expected
    assert precious.read_bytes() == b"{}"
    assert path.resolve().parent.name == "blobs"


def test_a_folder_of_the_cache_that_leads_out_of_it_is_not_written_to(here: Here, tmp_path: Path) -> None:
    here.publish()
    expected = pull(here)
    (snapshot,) = cache.folder(REPO).glob("snapshots/*")
    precious = tmp_path / "precious"
    precious.mkdir()
    snapshot.rename(tmp_path / "before")
    snapshot.symlink_to(precious)
    assert pull(here) == expected
    assert list(precious.iterdir()) == []


def test_a_damaged_repository_is_listed_and_can_be_removed(here: Here, run: Run) -> None:
    here.hub.add("me/m", here.content())
    pull(here, "hf://me/m")
    (config,) = cache.folder("me/m").glob("snapshots/*/config.json")
    config.write_bytes(b"")
    other = here.cache / "hub" / "models--timm--resnet" / "snapshots" / "0" / "config.json"
    other.parent.mkdir(parents=True)
    other.write_text('{"architecture": "resnet"}')
    (row,) = json.loads(run("cache", "list", "--json")[1])
    assert (row["repo"], row["damaged"]) == ("me/m", True)
    assert "damaged" in run("cache", "list")[1]
    assert run("cache", "rm", "timm/resnet")[0] == 2
    assert run("cache", "rm", "me/m")[0] == 0
    assert cache.contents() == []
    assert other.exists()


@pytest.mark.parametrize("pattern", ["me/*", "hf://me/*", "*"])
def test_repositories_are_removed_by_a_pattern(here: Here, run: Run, pattern: str) -> None:
    for repo in ("me/a", "me/b"):
        here.hub.add(repo, here.content())
        pull(here, f"hf://{repo}")
    assert run("cache", "rm", "you/*")[0] == 2
    assert len(cache.contents()) == 2
    removed = json.loads(run("cache", "rm", pattern, "--json")[1])["removed"]
    assert {str(cache.folder(repo)) for repo in ("me/a", "me/b")} <= set(removed)
    assert cache.contents() == []


def test_a_pattern_leaves_what_may_be_another_library_s(here: Here, run: Run) -> None:
    config = other(here, "{")
    here.hub.add("me/m", here.content())
    pull(here, "hf://me/m")
    assert run("cache", "rm", "timm/*")[0] == 2
    assert run("cache", "rm", "*")[0] == 0
    assert config.exists()
    assert [row.repo for row in cache.contents()] == ["timm/resnet"]


def test_a_copy_over_a_pipe_is_an_error(here: Here, run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / configs.FILE)
    code, _, err = run("pull", OTHER, "--to", str(tmp_path))
    assert code == 1
    assert "not a regular file" in err


def test_a_file_that_vanishes_from_the_cache_is_not_copied(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"No such file or directory. Pull the model again.$"):
        cache.copy({configs.FILE: tmp_path / "gone"}, tmp_path / "here", force=False)
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_the_clients_list_of_agents_is_neither_read_nor_written(
    here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    here.publish()
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", False)
    path, outside = tmp_path / "agents.json", tmp_path / "precious"
    monkeypatch.setattr(constants, "AGENT_HARNESSES_PATH", str(path))
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(outside)
    assert pull(here)
    assert not outside.exists()
    assert not any("agent" in seen.path for seen in here.hub.seen)
    assert constants.HF_HUB_DISABLE_TELEMETRY is False  # for other users of the client


def test_a_cache_that_is_a_link_to_itself_is_one_line(here: Here, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = here.cache / "loop"
    loop.parent.mkdir(parents=True, exist_ok=True)
    loop.symlink_to(loop)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(loop))
    for verb in (("pull", ADDRESS), ("cache", "list")):
        code, _, err = run(*verb)
        assert code == 1
        assert "loop" in err.splitlines()[-1]
        assert "Traceback" not in err


def test_a_ref_that_is_no_text_is_fetched_again(here: Here) -> None:
    here.publish()
    expected = pull(here)
    (cache.folder(REPO) / "refs" / "main").write_bytes(b"\xff\xfe")
    assert pull(here) == expected


def test_a_token_that_is_not_ascii_is_named(here: Here, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_\u00e9")
    code, _, err = run("whoami")
    assert (code, "HF_TOKEN" in err) == (1, True)


def other(here: Here, content: str) -> Path:
    """The config.json of a repository of another library in the cache."""
    path = here.cache / "hub" / "models--timm--resnet" / "snapshots" / "0" / "config.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    return path


@pytest.mark.parametrize("where", ["hub/models--me--m/blobs", "../elsewhere/blobs"])
def test_a_blob_outside_the_cache_is_not_discarded(here: Here, where: str) -> None:
    blob = here.cache / where / "x"
    blob.parent.mkdir(parents=True)
    blob.write_text("content")
    link = here.cache / "hub" / "link"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(blob)
    cache.discard(link)
    assert not link.is_symlink()
    assert blob.exists() == ("elsewhere" in where)


def test_a_long_config_is_another_librarys(here: Here) -> None:
    other(here, json.dumps({"labels": "x" * configs.MAX_BYTES}))
    assert cache.contents() == []


def test_a_link_to_a_repository_is_not_listed_or_removed(here: Here, run: Run, tmp_path: Path) -> None:
    here.hub.add("me/m", here.content())
    pull(here, "hf://me/m")
    cache.folder("me/m").rename(tmp_path / "elsewhere")
    cache.folder("me/m").symlink_to(tmp_path / "elsewhere")
    assert cache.contents() == []
    assert run("cache", "rm", "me/m")[0] == 2
    assert (tmp_path / "elsewhere").is_dir()


def test_files_of_a_damaged_repository_are_not_pruned(here: Here, run: Run) -> None:
    blob = other(here, "{").parent.parent.parent / "blobs" / "x.incomplete"  # perhaps another library's
    blob.parent.mkdir()
    blob.write_text("begun")
    (row,) = cache.contents()
    assert (row.repo, row.damaged, row.partial) == ("timm/resnet", True, (blob.resolve(),))
    assert json.loads(run("cache", "prune", "--older-than", "0", "--json")[1])["removed"] == []
    assert blob.exists()
