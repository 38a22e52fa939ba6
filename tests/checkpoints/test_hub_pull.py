"""Pulling over real HTTP, with the real client, from a server that fails in every way of the fault table.

Tests named f01 to f33 are the table's rows. The rows that need no server are tested where their guards are:
F19 to F22 (what a registry and a config.json may say) in test_registry.py, test_checkpoint.py and test_network.py; F23 to
F26 (what a checkpoint may hold) in test_checkpoint.py, besides here and in tests/publishing/test_push.py, where a Hub is involved.
"""

import hashlib
import io
import json
import logging
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest.mock import ANY

import pytest
import torch
from filelock import FileLock
from helpers import flip
from hubs import NAME, OTHER, PINNED, REPO, Here, Run, finish
from huggingface_hub import constants
from loopback import READ, WRITE, Loopback

from zoo import load
from zoo.checkpoints import sources, tensors
from zoo.checkpoints.checkpoint import Checkpoint
from zoo.checkpoints.hub import cache, client, settings
from zoo.checkpoints.hub.browse import Identity
from zoo.checkpoints.hub.errors import explain
from zoo.checkpoints.references import Reference
from zoo.checkpoints.tokenizer import RESERVED, Tokenizer
from zoo.errors import ChangedError, CheckpointError, DataError, NetworkError, RequestError, StorageError
from zoo.networks import loading
from zoo.networks.builder import build
from zoo.registry.schema import Architecture, Config, Embedding, Interface
from zoo.utils.text import redact

CDN, BODY_OF_CONFIG = "/_cdn/", "/resolve/.*/config.json"
ADDRESS = f"hf://{REPO}"


def pull(here: Here, name: str = NAME, **options: object) -> Checkpoint:
    return sources.pull(Reference.parse(name), replace(here.pull_options, **options))


def contents(pulled: Checkpoint) -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in pulled.files.items()}


def talk(here: Here) -> str:
    return "\n".join(here.logged)


# what works


def test_a_real_download_is_verified_counted_and_says_who_we_are(here: Here) -> None:
    content, commit = here.content(), here.publish()
    pulled = pull(here)
    assert (pulled.repo, pulled.revision, pulled.verified) == (REPO, commit, True)
    assert contents(pulled) == {f: content[f] for f in PINNED}
    assert set(pulled.downloaded) == set(PINNED)
    assert here.hub.asked("config.json", "GET")
    assert all("rnnzoo/" in s.headers["User-Agent"] for s in here.hub.asked("/resolve/"))


def test_the_package_needs_no_request_and_no_cache(here: Here, run: Run) -> None:
    code, out, err = run("pull", NAME)
    assert (code, err) == (0, "")
    assert out.split() == [str(here.card / name) for name in PINNED]
    assert here.hub.seen == []
    assert not here.cache.exists()


def test_config_is_fetched_with_a_file_that_is_not_here_so_that_it_counts(here: Here) -> None:
    here.publish(keep=True)
    (here.card / tensors.FILE).unlink()
    assert set(pull(here).downloaded) == {"config.json", tensors.FILE}


def test_force_replaces_other_files_though_the_hub_has_none(here: Here, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(RequestError, match="replace it with --force"):
        sources.pull(Reference.parse(NAME), here.pull_options, to=tmp_path)
    sources.pull(Reference.parse(NAME), replace(here.pull_options, force=True), to=tmp_path)
    assert (tmp_path / "config.json").read_bytes() == (here.card / "config.json").read_bytes()
    assert here.hub.seen == []


def test_force_fetches_whatever_is_here(here: Here) -> None:
    here.publish(keep=True)
    assert set(pull(here, force=True).downloaded) == set(PINNED)
    assert set(pull(here, force=True).downloaded) == set(PINNED)
    assert len(here.hub.asked(CDN, "GET")) == 4


def test_force_fetches_the_files_of_an_address_again(here: Here) -> None:
    here.hub.add("me/m", here.content())
    everything = {tensors.FILE, "config.json"}
    for force, fetched in ((False, everything), (False, set()), (True, everything)):
        assert set(pull(here, "hf://me/m", force=force).downloaded) == fetched


def test_to_force_what_is_not_on_the_hub_yet_says_so(here: Here, run: Run) -> None:
    code, _, err = run("pull", NAME, "--force")
    assert (code, f"{NAME} is not on the Hub yet" in err) == (0, True)
    assert here.hub.seen == []
    here.publish()
    code, _, err = run("pull", NAME, "--force", "--offline")
    assert (code, "leave one of them out" in err) == (2, True)


def test_to_copies_and_replaces_nothing_of_ones_own(here: Here, run: Run, tmp_path: Path) -> None:
    here.publish()
    code, out, _ = run("pull", NAME, "--to", str(tmp_path / "mine"))
    assert (code, out.split()) == (0, [str(tmp_path / "mine" / name) for name in PINNED])
    assert load(tmp_path / "mine", device="cpu").config.name == NAME
    (tmp_path / "mine" / "config.json").write_text("my own")
    code, _, err = run("pull", NAME, "--to", str(tmp_path / "mine"))
    assert code == 2
    assert "config.json exists with other content" in err
    assert (tmp_path / "mine" / "config.json").read_text() == "my own"
    assert run("pull", NAME, "--to", str(tmp_path / "mine"), "--force")[0] == 0
    (tmp_path / "mine" / "vocabulary.txt").write_text("of another model")
    code, _, err = run("pull", NAME, "--to", str(tmp_path / "mine"))
    assert (code, "vocabulary.txt belongs to another model" in err) == (2, True)
    assert run("pull", NAME, "--to", str(tmp_path / "mine"), "--force")[0] == 0
    assert load(tmp_path / "mine", device="cpu").config.name == NAME
    assert run("pull", NAME, OTHER, "--to", str(tmp_path / "two"))[0] == 0
    assert {path.name for path in (tmp_path / "two").iterdir()} == {NAME, OTHER}


def test_several_names_and_patterns_go_on_after_a_failure(here: Here, run: Run) -> None:
    here.publish()
    here.publish(OTHER)
    del here.hub.repos[REPO]
    code, out, err = run("pull", "gru-*", NAME, OTHER, "--json")
    assert code == 1
    assert [row["name"] for row in json.loads(out)] == [OTHER]
    assert f"1 of 2 models could not be pulled: {NAME}." in err
    code, out, err = run("pull", "star-*")
    assert (code, out) == (2, "")


def test_an_address_is_read_as_strictly_as_ours_and_said_to_have_no_pin(here: Here, run: Run) -> None:
    commit = here.publish()
    here.hub.repos[REPO].tags["v1"] = commit
    code, out, err = run("pull", f"{ADDRESS}@v1", "--json")
    row = json.loads(out)
    assert (code, row["verified"], row["revision"]) == (0, False, commit)
    assert set(row["files"]) == {"config.json", tensors.FILE}
    assert err.count("Only the Hub vouches for its files") == 1
    here.hub.seen.clear()
    assert contents(pull(here, f"{ADDRESS}@{commit}"))
    assert here.hub.seen == []
    assert load(ADDRESS, device="cpu").config.name == NAME


@pytest.mark.parametrize(("file", "content", "words"), [
    ("config.json", b'{"library": "rnnzoo", "surprise": 1}', "not a valid config.json.*unknown key 'surprise'"),
    ("config.json", b"<html>404</html>", "not a valid config.json"),
    (tensors.FILE, b"<!DOCTYPE html><html>404</html>", "not a valid safetensors file"),
    (tensors.FILE, b"\x80\x04\x95pickled", "not a valid safetensors file"),
    (tensors.FILE, b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64, "not a valid safetensors file"),
])  # fmt: skip
def test_f26_what_is_no_checkpoint_is_one_clear_error(here: Here, file: str, content: bytes, words: str) -> None:
    here.hub.add(REPO, {**here.content(), file: content})
    with pytest.raises(CheckpointError, match=words):
        pull(here, ADDRESS)


def test_f27_a_config_that_disagrees_with_the_registry(here: Here) -> None:
    content = here.content()
    data = json.loads(content["config.json"])
    data["architecture"]["units"] = 9
    here.publish()
    here.hub.add(REPO, {"config.json": json.dumps(data).encode()})
    with pytest.raises(CheckpointError, match=r"architecture\.units is 9 in the file and 8 in the registry"):
        sources.pull(Reference.parse(NAME, "main"), here.pull_options)


def test_another_revision_is_taken_as_it_is_but_must_fit(here: Here) -> None:
    here.publish(keep=True)
    newer = here.content()
    network = build(NAME, device="cpu", seed=9)
    loading.save(network, here.root / "newer")
    here.hub.add(REPO, {**newer, tensors.FILE: (here.root / "newer" / tensors.FILE).read_bytes()})
    assert torch.equal(load(NAME, revision="main", device="cpu").head.weight, network.head.weight)
    assert not torch.equal(load(NAME, device="cpu").head.weight, network.head.weight)


def test_a_dataset_file_comes_by_the_same_way(here: Here) -> None:
    with pytest.raises(DataError, match=r"o/d: f\.parquet: not found"):
        sources.dataset_file("o/d", "f.parquet")


# F1 to F5: bodies


def test_f01_a_body_cut_mid_way_is_fetched_again(here: Here) -> None:
    content = here.content()
    here.publish()
    here.hub.fault("GET", CDN, "cut", times=2)
    assert contents(pull(here))[tensors.FILE] == content[tensors.FILE]
    assert here.hub.unspent() == []


def test_f01_a_large_body_goes_on_where_it_was_cut(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 512)
    content = here.content()
    here.publish()
    here.hub.fault("GET", CDN, "cut", at=1100)
    assert contents(pull(here))[PINNED[0]] == content[PINNED[0]]
    assert [s.headers["Range"] for s in here.hub.asked(CDN, "GET")].count("bytes=1024-") == 1


def test_f02_a_short_body_fails_with_both_sizes_and_leaves_nothing(here: Here, run: Run) -> None:
    here.publish()
    here.hub.fault("GET", CDN, "short", times=99)
    code, out, err = run("pull", NAME)
    assert (code, out) == (1, "")
    assert re.search(r"the download was incomplete \(file should be of size \d+ but has size \d+", err)
    assert len(err.splitlines()[-1]) < 400
    assert here.blobs() == []


def test_f02_a_size_other_than_the_pinned_one_is_refused_before_the_body(here: Here) -> None:
    here.publish()
    content = here.hub.repos[REPO].commits[here.hub.repos[REPO].refs["main"]]
    content[tensors.FILE] += b"more"
    with pytest.raises(CheckpointError, match=r"has [\d,]+ bytes on the Hub instead of the pinned [\d,]+"):
        pull(here)
    assert here.hub.asked(CDN + hashlib.sha256(content[tensors.FILE]).hexdigest(), "GET") == []


def test_f02_a_body_longer_than_it_may_be_is_stopped(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 4096)
    here.publish()
    here.hub.fault("GET", CDN, "content", times=9, content=b"x" * 200_000)
    with pytest.raises(CheckpointError, match=r"is larger than the allowed [\d,]+ bytes"):
        pull(here)


def test_f02_the_limit_of_a_body_is_exact() -> None:
    seen: list[tuple[int, int | None]] = []
    bar = client._progress_class("model.safetensors", 10, lambda done, total: seen.append((done, total)))()
    bar.update(10)
    assert seen == [(10, 10)]
    with pytest.raises(CheckpointError, match="is larger than the allowed 10 bytes"):
        bar.update(1)


@pytest.mark.parametrize("name", [NAME, ADDRESS], ids=["pinned", "unpinned"])
@pytest.mark.parametrize("where", [CDN, BODY_OF_CONFIG], ids=["large", "regular"])
def test_f03_a_flipped_bit_is_found_and_fetched_once_more(here: Here, name: str, where: str) -> None:
    content = here.content()
    here.publish()
    here.hub.fault("GET", where, "flip")
    pulled = contents(pull(here, name))
    assert pulled == {file: content[file] for file in pulled}
    assert "downloading it once more" in talk(here)


@pytest.mark.parametrize("name", [NAME, ADDRESS], ids=["pinned", "unpinned"])
def test_f03_a_bit_flipped_every_time_is_an_error_and_nothing_is_kept(here: Here, run: Run, name: str) -> None:
    content = here.content()
    here.publish()
    here.hub.fault("GET", CDN, "flip", times=99)
    code, out, err = run("pull", name)
    assert (code, out) == (1, "")
    assert "another sha256" in err
    assert "The file was deleted. Do not trust http" in err
    assert {path.read_bytes() for path in here.blobs()} <= set(content.values())


@pytest.mark.parametrize("damage", [flip, lambda path: path.write_bytes(path.read_bytes()[:-3])], ids=["edited", "cut"])
def test_f04_a_file_damaged_in_the_cache_is_found_and_mended(here: Here, run: Run, damage: object) -> None:
    content = here.content()
    here.publish()
    path = pull(here).files[tensors.FILE]
    damage(path.resolve())
    code, out, err = run("verify", NAME, "--json")
    rows = {check["what"]: check for check in json.loads(out)[0]["checks"]}
    assert code == 1
    assert not rows["bytes"]["ok"]
    assert str(path) in rows["bytes"]["text"]
    assert f"1 of 1 models failed verification: {NAME}" in err
    assert path.read_bytes() != content[tensors.FILE]  # verify looks, and changes nothing of what is here
    assert load(NAME, device="cpu").config.name == NAME
    assert path.read_bytes() == content[tensors.FILE]
    checks = {check["what"]: check["ok"] for check in json.loads(run("verify", NAME, "--json")[1])[0]["checks"]}
    assert checks["bytes"]


def test_f04_a_damaged_file_without_a_pin_is_found_by_its_blobs_name(here: Here) -> None:
    content, commit = here.content(), here.publish()
    flip(pull(here, ADDRESS).files[tensors.FILE].resolve())
    assert contents(pull(here, f"{ADDRESS}@{commit}"))[tensors.FILE] == content[tensors.FILE]


@pytest.mark.parametrize("inside", [True, False], ids=["elsewhere in the cache", "outside the cache"])
def test_a_link_in_the_cache_to_elsewhere_is_replaced_and_its_target_kept(
    here: Here, tmp_path: Path, inside: bool
) -> None:
    content = here.content()
    here.publish()
    path = pull(here).files[tensors.FILE]
    precious = (here.cache / "hub" if inside else tmp_path) / "precious"
    precious.write_bytes(b"not a blob")
    path.unlink()
    path.symlink_to(precious)
    assert contents(pull(here))[tensors.FILE] == content[tensors.FILE]
    assert precious.read_bytes() == b"not a blob"


@pytest.mark.parametrize("kind", ["reset", "reset-body"])
def test_f05_a_reset_is_tried_again_and_then_said(here: Here, run: Run, kind: str) -> None:
    here.publish()
    here.hub.fault("GET", CDN, kind)
    assert pull(here).verified
    assert here.hub.unspent() == []
    assert "broke off" in talk(here) or kind == "reset"
    shutil.rmtree(here.cache)
    here.hub.fault("GET", CDN, kind, times=99)
    code, out, err = run("pull", NAME)
    assert (code, out) == (1, "")
    assert "the connection broke off" in err
    assert "Traceback" not in err
    with pytest.raises(NetworkError):
        pull(here)


# F6 to F8: processes


def wait_for(condition: object, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def partial(here: Here) -> list[Path]:
    return list(here.cache.glob("hub/models--*/blobs/*.incomplete"))


def test_f06_killed_while_pulling_the_next_pull_succeeds_and_gc_takes_what_is_left(here: Here, run: Run) -> None:
    content = here.content()
    here.publish()
    here.hub.fault("GET", CDN, "slow", pause=1.0)
    process = here.spawn("pull", NAME)
    wait_for(lambda: not here.hub.unspent() and partial(here))
    process.kill()
    finish(process)
    assert len(partial(here)) == 1
    assert contents(pull(here))[tensors.FILE] == content[tensors.FILE]
    assert "1, " in run("cache", "list")[1]
    for hours in (0.0, 0.9):
        os.utime(partial(here)[0], (time.time() - 3600 * hours,) * 2)
        assert json.loads(run("cache", "gc", "--json")[1])["removed"] == []  # it could be under way
    os.utime(partial(here)[0], (time.time() - 3600 * 1.1,) * 2)
    assert run("cache", "gc", "--dry-run")[0] == 0
    assert len(partial(here)) == 1
    assert len(json.loads(run("cache", "gc", "--json")[1])["removed"]) == 1
    assert partial(here) == []
    assert pull(here).downloaded == ()


def test_f07_interrupted_it_exits_with_130_and_leaves_nothing(here: Here) -> None:
    here.publish()
    here.hub.fault("GET", CDN, "slow", pause=1.0)
    process = here.spawn("pull", NAME)
    wait_for(lambda: not here.hub.unspent() and partial(here))
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out) == (130, "")
    assert "Traceback" not in err
    assert partial(here) == []


def test_f08_two_pulls_at_once_are_one_download(here: Here) -> None:
    here.publish()
    here.hub.fault("GET", CDN, "slow", pause=0.01)
    done = [finish(process) for process in [here.spawn("pull", NAME), here.spawn("pull", NAME)]]
    assert [code for code, _, _ in done] == [0, 0]
    assert done[0][1] == done[1][1]
    assert len(here.hub.asked(CDN, "GET")) == 2  # two files


# F11 to F15: refusals and absences


def test_f11_what_is_missing_or_closed_each_has_its_own_words(here: Here, run: Run) -> None:
    commit = here.publish()
    here.hub.add("o/secret", here.content(OTHER), private=True)
    here.hub.add("o/gated", here.content(OTHER))
    here.hub.repos["o/gated"].gated = True
    here.hub.users.clear()
    here.hub.add("o/empty", {"config.json": here.hub.repos[REPO].commits[commit]["config.json"]})
    os.environ.pop("HF_TOKEN")
    cases = {
        "hf://o/nothing": (2, "no such repository"), "hf://o/secret": (2, "is private"), "hf://o/gated": (1, "gated"),
        f"{ADDRESS}@nothing": (2, "no such revision"), "hf://o/empty": (1, "no such file"),
    }  # fmt: skip
    said = set()
    try:
        for name, (expected, words) in cases.items():
            code, out, err = run("pull", name)
            assert (code, out) == (expected, ""), err
            assert words in err
            said.add(re.sub(r"o/\w+|rnnzoo/\S+", "", err.splitlines()[-1]))
    finally:
        os.environ["HF_TOKEN"] = WRITE
        here.hub.users.update(Loopback.people())
    assert len(said) == 4  # private and missing are the same to who may not know


def test_f11_forbidden_is_not_taken_for_a_broken_network(here: Here, run: Run) -> None:
    here.publish()
    here.hub.fault("HEAD", "/resolve/", "status", times=9, status=403)
    code, _, err = run("pull", NAME)
    assert code == 1
    assert "your token lacks a permission for this request" in err
    assert "network" not in err


def test_f12_a_failure_that_passes_is_tried_again(here: Here) -> None:
    here.publish()
    here.hub.fault("HEAD", "/resolve/", "status", status=500)
    here.hub.fault("GET", CDN, "status", status=500)
    here.hub.fault("GET", "/resolve/", "status", status=429, headers={"Retry-After": "7"})
    assert pull(here).verified
    assert here.hub.unspent() == []
    assert 8.0 in here.slept


def test_f12_a_failure_that_stays_ends_in_time(here: Here, run: Run) -> None:
    here.publish()
    here.hub.fault("*", "", "status", times=999, status=503)
    code, _, err = run("pull", NAME)
    assert code == 1
    assert re.search(r"Gave up after|has failed \d+ times in a row, so rnnzoo gave up", err.splitlines()[-1])
    assert len(here.hub.asked("/resolve/")) < 40


@pytest.mark.parametrize("headers", [{"Retry-After": "86400"}, {"RateLimit": '"api";r=0;t=86400'}])
def test_f12_a_server_that_asks_to_wait_for_long_is_not_waited_for(
    here: Here, run: Run, headers: dict[str, str]
) -> None:
    here.publish()
    here.hub.fault("HEAD", "/resolve/", "status", times=99, status=429, headers=headers)
    code, _, err = run("pull", NAME)
    assert code == 1
    assert "asks to wait 86,400 s" in err
    assert here.slept == []


def test_f12_a_stall_ends_when_the_patience_does(here: Here, run: Run) -> None:
    here.publish()
    here.hub.fault("*", "/resolve/", "stall", times=99, seconds=5.0)
    began = time.monotonic()
    code, _, err = run("pull", NAME, "--timeout", "0.5")
    assert code == 1
    assert time.monotonic() - began < 4
    assert re.search("does not answer in time|has failed for", err)


def test_f12_a_stall_of_what_the_client_puts_no_limit_on(here: Here, run: Run) -> None:
    here.publish()
    here.hub.fault("*", "/api/", "stall", times=99, seconds=5.0)
    began = time.monotonic()
    assert run("login-status", "--timeout", "0.5")[0] == 1
    assert time.monotonic() - began < 4


def test_f12_the_cached_copy_of_a_branch_is_used_with_a_warning(here: Here) -> None:
    commit = here.publish()
    pull(here, ADDRESS)
    here.hub.fault("*", "", "status", times=999, status=503)
    here.logged.clear()
    assert pull(here, ADDRESS).revision == commit
    assert f"Using the copy in the cache, of commit {commit}" in talk(here)


def test_f13_with_the_server_down_what_is_pinned_and_here_works(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = here.publish()
    here.publish(OTHER)
    pull(here)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free.getsockname()[1]}")
        here.hub.seen.clear()
        assert pull(here).downloaded == ()
        monkeypatch.setattr(client, "MAX_TRIES", 1)
        with pytest.raises(NetworkError, match="cannot be reached"):
            pull(here, OTHER)
    assert sources.pull(Reference.parse(NAME, commit), here.pull_options).verified
    assert here.hub.seen == []


def test_f14_offline_and_not_here_says_what_to_run_at_once(
    here: Here, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.publish()
    for arguments in ((NAME, "--offline"), (ADDRESS, "--offline")):
        code, out, err = run("pull", *arguments)
        assert (code, out) == (1, "")
        assert "offline" in err
    assert f"rnnzoo pull {NAME}" in run("pull", NAME, "--offline")[2]
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(NetworkError, match=f"offline.*rnnzoo pull {NAME}"):
        load(NAME)
    assert here.hub.seen == []
    assert here.slept == []


def test_f15_part_of_a_snapshot_is_refused_offline_with_what_is_missing(here: Here) -> None:
    commit = here.publish()
    pulled = pull(here)
    pull(here, ADDRESS)
    for name in (tensors.FILE, "check.safetensors"):
        pulled.files[name].unlink()
    with pytest.raises(NetworkError, match=r"no source has the pinned check\.safetensors, model\.safetensors"):
        pull(here, offline=True)
    with pytest.raises(NetworkError, match=r"the cache has no complete copy of \S+ \(no model\.safetensors\)"):
        pull(here, f"{ADDRESS}@{commit}", offline=True)


# F16, F17: hostile names


@pytest.mark.parametrize("revision", [
    "../../x", "/etc", "a/../b", "..", "a\\b", "C:\\x", "a\0b", "x" * 300, "", "-x", "a b", "a//b", "x.lock", "a\nb", "%2e%2e",
])  # fmt: skip
def test_f16_a_revision_that_could_be_a_path_out_is_refused(here: Here, revision: str) -> None:
    here.publish()
    for attempt in (
        lambda: sources.pull(Reference.parse(NAME, revision), here.pull_options), lambda: pull(here, f"{ADDRESS}@{revision}"),
        lambda: sources.pull(Reference.parse(ADDRESS, revision), here.pull_options), lambda: load(NAME, revision=revision),
        lambda: load(ADDRESS, revision=revision),
        lambda: here.push_options(revision=revision), lambda: here.push_options(tag=revision),
    ):  # fmt: skip
        with pytest.raises(RequestError, match="is not a revision"):
            attempt()
    assert here.hub.seen == []


@pytest.mark.parametrize(
    "repo", ["x", "../x", "a/../b", "a/b/c", "/a/b", "a\\b/c", "a/b\0", f"a/{'x' * 300}", "a--b/c", "a/b.git"]
)
def test_f16_a_repository_that_could_be_a_path_out_is_refused(here: Here, repo: str) -> None:
    with pytest.raises(RequestError, match="is not the name of a repository"):
        pull(here, f"hf://{repo}")
    assert here.hub.seen == []


@pytest.mark.parametrize("headers", [
    {"X-Linked-Etag": '"../../../../pwned"', "ETag": '"../../../../pwned"'}, {"X-Linked-Etag": "", "ETag": '"/tmp/pwned"'},
    {"X-Repo-Commit": "../../pwned"}, {"X-Repo-Commit": "main"}, {"ETag": 'W/"../x"', "X-Linked-Etag": 'W/"../x"'},
], ids=["etag up", "etag root", "commit up", "commit word", "weak etag"])  # fmt: skip
@pytest.mark.parametrize("name", [NAME, ADDRESS], ids=["pinned", "unpinned"])
def test_f17_headers_that_would_become_paths_are_refused(here: Here, name: str, headers: dict[str, str]) -> None:
    here.publish()
    here.hub.fault("HEAD", "/resolve/", "headers", times=99, headers=headers)
    before = {path for path in here.cache.parent.rglob("*") if here.cache not in path.parents}
    with pytest.raises(CheckpointError, match="not hexadecimal, so the answer was refused"):
        pull(here, name)
    assert here.hub.asked(CDN, "GET") == []
    assert {path for path in here.cache.parent.rglob("*") if here.cache not in path.parents} - {
        here.cache
    } == before - {here.cache}


# F28: the disk


@pytest.mark.parametrize("what", ["a file", "a file above"])
def test_f28_a_cache_that_is_a_file(here: Here, run: Run, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    here.publish()
    here.cache.write_text("not a folder")
    place = here.cache if what == "a file" else here.cache / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(place))
    code, out, err = run("pull", NAME)
    assert (code, out) == (1, "")
    assert "a file is where a folder should be" in err
    assert "HF_HOME" in err
    with pytest.raises(StorageError):
        pull(here)


def isolated(here: Here, size: str, option: str) -> "subprocess.CompletedProcess[str]":
    """A pull in a mount namespace of its own, where the cache is a small file system."""
    here.cache.mkdir(exist_ok=True)
    script = f"mount -t tmpfs -o size={size} none {here.cache} && {option} {sys.executable} -m rnnzoo_cli pull {NAME}; r=$?; "
    script += f"find {here.cache} -name '*.incomplete' | sed 's/^/LEFT /'; exit $r"
    return subprocess.run(["unshare", "-Urm", "sh", "-c", script], env=here.env, capture_output=True, text=True)


def can_mount() -> bool:
    try:
        command = ["unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/mnt"]
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not can_mount(), reason="needs a mount namespace")
def test_f28_a_full_and_a_read_only_cache_are_one_line(here: Here) -> None:
    content = here.content()
    here.publish()
    full = isolated(here, "40k", f"head -c 36k /dev/zero > {here.cache}/fill;")
    assert full.returncode == 1, full.stderr
    assert "no space is left" in full.stderr.splitlines()[-1]
    assert "LEFT" not in full.stdout
    read_only = isolated(here, "1m", f"mount -o remount,ro {here.cache};")
    assert read_only.returncode == 1
    assert "it is read-only. Make room, or set HF_HOME" in read_only.stderr.splitlines()[-1]
    assert "Traceback" not in full.stderr + read_only.stderr
    assert contents(pull(here))[tensors.FILE] == content[tensors.FILE]
    kept = f"mount --bind {here.cache} {here.cache} && mount -o remount,ro,bind {here.cache} && "
    command = f"{kept} {sys.executable} -m rnnzoo_cli pull {NAME}"
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", command], env=here.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr  # what is there can be read


# F29, F30: the token, and where it may go


def test_f29_an_endpoint_with_a_password_is_refused_and_not_repeated(
    here: Here, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.publish()
    monkeypatch.setenv("HF_ENDPOINT", f"https://user:{WRITE}@huggingface.co")
    code, out, err = run("pull", NAME)
    assert (code, out) == (2, "")
    assert "contains a user name or password" in err
    assert WRITE not in err


@pytest.mark.parametrize("debug", [False, True])
def test_f29_a_server_that_repeats_the_token_is_not_repeated(here: Here, debug: bool) -> None:
    here.publish()
    said = {"X-Error-Message": f"no: {WRITE}", "X-HF-Warning": f"topic; your token is {WRITE}"}
    here.hub.fault("*", "/", "status", times=99, status=418, headers=said, text=f"your token is {WRITE}")
    code, out, err = finish(here.spawn(*(["--debug"] if debug else []), "pull", NAME, HF_DEBUG="1" if debug else ""))
    assert code == 1
    assert here.hub.asked("/resolve/")[0].token == f"Bearer {WRITE}"
    assert WRITE not in out + err
    assert "418: no: ***" in err
    assert "your token is ***" in err
    assert ("Traceback" in err) == debug


def test_f30_the_token_stays_with_the_hub(here: Here) -> None:
    here.publish()
    pull(here)
    for seen in here.hub.asked("/"):
        assert (seen.token is not None) == (seen.host.startswith("127.0.0.1") and "agent-harnesses" not in seen.path)
    assert here.hub.asked(CDN)


@pytest.mark.parametrize(
    "endpoint", ["http://example.org", "http://10.0.0.1:8000", "ftp://localhost", "huggingface.co", "http://[::1"]
)
def test_f30_an_endpoint_that_is_not_encrypted_is_refused(
    here: Here, run: Run, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    here.publish()
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    code, out, err = run("pull", NAME)
    assert (code, out) == (2, "")
    assert "HF_ENDPOINT" in err
    monkeypatch.setenv("HF_ENDPOINT", "http://localhost:1/")
    assert settings.endpoint() == "http://localhost:1"


def test_f30_a_redirect_to_where_nothing_is_encrypted_is_refused(here: Here) -> None:
    here.publish()
    here.hub.fault("HEAD", "/resolve/", "headers", times=9, headers={"Location": "http://example.org/weights"})
    with pytest.raises(NetworkError, match="without encryption, so the request was not sent"):
        pull(here)


def test_f31_what_a_server_says_does_not_steer_the_terminal(here: Here, run: Run) -> None:
    commit = here.publish()
    text = b"---\nlibrary_name: rnnzoo\n---\n"
    here.hub.add(REPO, {"README.md": text})
    here.hub.fault("GET", "/api/models", "json", data=[
        {"id": f"rnnzoo/{NAME}", "sha": commit, "tags": ["rnnzoo"]},
        {"id": "rnnzoo/\x1b[31mred", "sha": commit, "tags": ["rnnzoo"]},  # no name of a repository
    ])  # fmt: skip
    out = run("list", "--remote")[1]
    assert NAME in out
    assert "red" not in out
    here.hub.fault(
        "HEAD", "/resolve/", "status", times=9, status=418, headers={"X-Error-Message": "\x1b]0;title\x07[red]no"}
    )
    _, _, err = run("pull", NAME)
    assert "\x1b" not in err
    assert "[red]no" in err


def test_f33_the_pin_wins_over_a_tag_or_a_branch_that_moved(here: Here, run: Run) -> None:
    content, commit = here.content(), here.publish()
    here.hub.repos[REPO].tags["v1"] = commit
    pull(here, f"{ADDRESS}@v1")
    newer = here.hub.add(REPO, {tensors.FILE: here.content(OTHER)[tensors.FILE]})
    here.hub.repos[REPO].tags["v1"] = newer
    assert contents(pull(here))[tensors.FILE] == content[tensors.FILE]
    here.logged.clear()
    assert pull(here, f"{ADDRESS}@v1").revision == newer
    assert f"v1 is at commit {newer} now; the copy in the cache was of {commit}" in talk(here)
    rows = json.loads(run("verify", NAME, "--remote", "--json")[1])[0]["checks"]
    (row,) = (check for check in rows if check["what"] == "remote")
    assert row["ok"]
    assert f"main has moved on to {newer}, and the pin stays" in row["text"]


def test_the_client_says_once_that_it_tries_again(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    logger, said = logging.getLogger("huggingface_hub"), io.StringIO()
    handler = logging.StreamHandler(said)
    logger.addHandler(handler)
    monkeypatch.setattr(client, "MAX_TRIES", 1)
    try:
        here.hub.fault("*", "", "status", times=99, status=503)
        with pytest.raises(DataError):
            sources.dataset_file("some/data", "x")
    finally:
        logger.removeHandler(handler)
    waits = [f"{here.hub.endpoint} gave no answer, or a faulty one. Trying again in {s} s." for s in (1, 2, 4, 8, 8)]
    assert said.getvalue().splitlines() == waits


def test_a_branch_that_moves_during_a_pull_gives_no_mixture(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    here.publish()
    asked = client.Connection.commit

    def commit(hub: client.Connection, repo: str, revision: str) -> str:
        before = asked(hub, repo, revision)
        here.hub.add(REPO, {tensors.FILE: here.content(OTHER)[tensors.FILE]})
        return before

    with monkeypatch.context() as patch:
        patch.setattr(client.Connection, "commit", commit)
        with pytest.raises(
            ChangedError,
            match=r"main moved from commit \w+ to another one during the download\. Run the same command again",
        ):
            pull(here, ADDRESS)
    assert len(pull(here, ADDRESS).downloaded) == 1  # the config of this commit is here already
    assert pull(here, ADDRESS).downloaded == ()


# looking: the catalogue, the cache


def test_the_catalogue_of_a_namespace_is_of_this_library(here: Here, run: Run) -> None:
    commit = here.publish()
    here.hub.add("rnnzoo/other-library", {"README.md": b"---\nlibrary_name: timm\n---\n"})
    here.hub.add("rnnzoo/somebodys", {"README.md": b"---\nlibrary_name: rnnzoo\n---\n"})
    code, out, _ = run("list", "--remote", "--json")
    rows = {row["repo"]: row for row in json.loads(out)}
    assert (code, set(rows)) == (0, {REPO, "rnnzoo/somebodys"})
    assert (rows[REPO]["revision"], rows[REPO]["pinned"], rows["rnnzoo/somebodys"]["pinned"]) == (commit, True, False)
    assert "hf://rnnzoo/somebodys" in run("list", "some*", "--remote")[1]
    assert run("list", "--remote", "--namespace", "nobody")[1].startswith("ADDRESS")
    assert run("list", "--remote", "--task", "mnist-rows")[0] == 2


def test_an_address_is_shown_without_its_weights(here: Here, run: Run) -> None:
    commit = here.publish()
    code, out, err = run("show", ADDRESS, "--json")
    data = json.loads(out)
    assert (code, data["revision"], data["config"]["name"]) == (0, commit, NAME)
    assert data["measured"][0]["n"] == 10_000
    assert here.hub.asked(CDN, "GET") == []
    assert re.search(r"layers +1\n *units +8\n *input +28 steps of 28\n", run("show", ADDRESS)[1])
    assert "not compared with a pin" in err
    here.hub.add(REPO, {"config.json": b"{}"})
    assert run("show", ADDRESS)[0] == 1
    assert run("show", f"{ADDRESS}@nothing")[0] == 2


def test_figures_of_other_weights_are_not_those_of_a_repository(here: Here, run: Run) -> None:
    here.publish()
    here.hub.add(REPO, {"model.safetensors": b"others"})
    assert json.loads(run("show", ADDRESS, "--json")[1])["measured"] == []


@pytest.mark.parametrize("name", ["results.json", "config.json"])
def test_a_damaged_file_in_the_cache_is_not_shown(here: Here, run: Run, name: str) -> None:
    here.publish()
    before = run("show", ADDRESS)
    assert before[0] == 0
    (path,) = cache.folder(REPO).glob(f"snapshots/*/{name}")
    path.resolve().write_bytes(path.read_bytes().replace(b"0.9", b"0.8") if name == "results.json" else b"garbage")
    assert run("show", ADDRESS) == before


def test_the_cache_is_listed_and_removed_and_others_models_are_left_alone(
    here: Here, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = here.publish()
    pull(here)
    theirs = here.cache / "hub" / "models--timm--resnet" / "blobs"
    theirs.mkdir(parents=True)
    (theirs / "x.incomplete").write_text("theirs")
    os.utime(theirs / "x.incomplete", (1, 1))
    (row,) = json.loads(run("cache", "list", "--json")[1])
    assert (row["repo"], row["revisions"], row["pinned"]) == (REPO, [commit], True)
    here.pin("0" * 40)
    assert not cache.contents()[0].pinned  # another revision is
    here.pin(commit)
    assert row["bytes"] == sum(path.stat().st_size for path in here.blobs() if path.parent != theirs)
    assert json.loads(run("cache", "gc", "--older-than", "0", "--json")[1])["removed"] == []
    assert json.loads(run("cache", "rm", NAME, "--dry-run", "--json")[1])["bytes"] >= row["bytes"]
    assert cache.contents()
    assert run("cache", "rm", f"{NAME[:-1]}*")[0] == 0
    assert cache.contents() == []
    assert (theirs / "x.incomplete").exists()
    pull(here)
    assert run("cache", "rm", NAME, "hf://rnnzoo/nothing")[0] == 2
    assert cache.contents()  # all or nothing
    linked = here.root / "linked"
    linked.symlink_to(here.cache / "hub")
    with monkeypatch.context() as patch:
        patch.setattr(constants, "HF_HUB_CACHE", str(linked))
        assert [(c.bytes, c.unused) for c in cache.contents()] == [(row["bytes"], ())]
    assert run("cache", "rm", NAME, NAME)[0] == 0
    code, _, err = run("cache", "rm", ADDRESS)
    assert code == 2
    assert "rnnzoo cache list" in err
    assert run("cache", "rm", "nothing")[0] == 2


def test_login_status_names_everything_but_the_token(here: Here, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = run("login-status", "--json")
    data = json.loads(out)
    assert (code, data["name"], data["endpoint"], data["may_write"]) == (0, "alice", here.hub.endpoint, True)
    assert WRITE not in out + err
    monkeypatch.setenv("HF_TOKEN", READ)
    code, out, err = run("login-status")
    assert (code, "bob" in out) == (1, True)
    assert "can only read" in err
    monkeypatch.delenv("HF_TOKEN")
    here.hub.seen.clear()
    code, out, err = run("login-status")
    assert (code, out) == (1, "")
    assert "There is no token" in err
    assert here.hub.seen == []


def test_pulling_imports_no_torch(here: Here) -> None:
    here.publish()
    code = f"""
import sys
sys.argv = ["rnnzoo", "pull", {NAME!r}]
from rnnzoo_cli.main import main
try:
    main()
except SystemExit as stopped:
    assert not stopped.code, stopped.code
assert not {{"torch", "numpy"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], env=here.env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_name_that_is_unknown_is_not_tried_again() -> None:
    """After the client's own tries, that is."""
    error = pytest.importorskip("httpx2").ConnectError("no")
    assert explain(error, "it", "https://hub") == (ANY, True)
    error.__context__ = socket.gaierror(-2, "Name or service not known")
    problem, again = explain(error, "it", "https://hub")
    assert (type(problem), again) == (NetworkError, False)


def test_conversations_of_two_threads_take_turns() -> None:
    seen = []

    def second() -> None:
        with client.Connection() as connection:
            seen.append(client._active is connection)

    with client.Connection() as first:
        with client.Connection() as inner:  # one thread may have one within another
            assert client._active is inner
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        assert client._active is first
    thread.join(30)
    assert seen == [True]
    assert client._active is None


@pytest.mark.parametrize(("timeout", "waits"), [(60.0, [1.0, 2.0, 4.0]), (2.5, [1.0, 2.0])])
def test_waits_double_as_far_as_the_patience_goes(here: Here, timeout: float, waits: list[float]) -> None:
    def broken() -> None:
        raise OSError("Consistency check failed: short")

    asked = replace(here.pull_options, timeout=timeout)
    with asked.connect() as connection, pytest.raises(NetworkError, match="Gave up after 0 s"):
        connection.call("it", broken)
    assert here.slept == waits


def test_another_port_is_another_origin() -> None:
    assert settings.origin("https://h/a") == settings.origin("https://h:443/b") != settings.origin("https://h:444/b")


def test_a_token_of_a_login_is_redacted_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    (tmp_path / "token").write_text("a-token-of-another-form\n")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    assert redact("it is a-token-of-another-form.") == "it is ***."


def test_only_a_role_of_reading_may_not_write() -> None:
    roles = ("write", "fineGrained", None, "read")
    assert [Identity("", "", (), role).may_write for role in roles] == [True, True, True, False]


def test_words_come_from_an_address_with_the_weights(here: Here, tmp_path: Path) -> None:
    words = Interface(vocabulary=3, steps=10, outputs=4, readout="last")
    spec = Architecture(cell="rnn", layers=1, units=3, embedding=Embedding(size=4))
    net = build(Config(name="small", task="none", architecture=spec, interface=words), device="cpu")
    net.tokenizer = Tokenizer([*RESERVED, "a"], 10)
    net.save_pretrained(tmp_path / "net")
    here.hub.add("alice/words", {path.name: path.read_bytes() for path in (tmp_path / "net").iterdir()})
    assert load("hf://alice/words", device="cpu").tokenizer.words == net.tokenizer.words


def test_gc_takes_what_is_as_old_as_is_said(here: Here, run: Run) -> None:
    here.publish()
    pull(here)
    (cache.folder(REPO) / "blobs" / "x.incomplete").write_text("begun")
    assert json.loads(run("cache", "gc", "--json")[1])["removed"] == []
    assert len(json.loads(run("cache", "gc", "--older-than", "0", "--json")[1])["removed"]) == 1


def test_pruning_leaves_what_is_being_downloaded(here: Here, run: Run) -> None:
    here.publish()
    pull(here)
    partial = cache.folder(REPO) / "blobs" / "abcdef01.1234.incomplete"
    partial.write_text("begun")
    lock = here.cache / "hub" / ".locks" / cache.folder(REPO).name / "abcdef01.lock"
    with FileLock(lock):  # as the client holds it while it downloads
        assert json.loads(run("cache", "prune", "--older-than", "0", "--json")[1])["removed"] == []
    assert partial.exists()
    assert json.loads(run("cache", "prune", "--older-than", "0", "--json")[1])["removed"] == [str(partial)]


def test_a_download_that_cannot_go_on_begins_again(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 512)
    content = here.content()
    here.publish()
    here.hub.fault("GET", CDN, "cut", at=1100)
    here.hub.fault("GET", CDN, "status", status=416)
    assert contents(pull(here))[PINNED[0]] == content[PINNED[0]]
    assert here.hub.unspent() == []
    assert [s.headers["Range"] for s in here.hub.asked(CDN, "GET")][:3] == [None, "bytes=1024-", None]
    assert any("cannot continue the download (416). Trying again" in line for line in here.logged)


def test_weights_of_another_digest_than_the_users_are_refused(here: Here, run: Run) -> None:
    here.publish()
    digest = hashlib.sha256(contents(pull(here))[tensors.FILE]).hexdigest()
    for name in (ADDRESS, NAME):
        assert run("pull", name, "--sha256", digest.upper())[0] == 0
        code, out, err = run("pull", name, "--sha256", "0" * 64)
        assert (code, out) == (1, "")
        assert f"model.safetensors has the sha256 {digest} instead of {'0' * 64}. Do not use these weights." in err
    for arguments in ((NAME, "--sha256", "abc"), (NAME, OTHER, "--sha256", digest)):
        code, _, err = run("pull", *arguments)
        assert (code, "works with one model only" in err) == (2, True)


def test_a_certificate_that_is_not_trusted_is_named(
    here: Here, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
        "-keyout",
    ]
    subprocess.run([*command, str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"https://localhost:{server.server_address[1]}")
    try:
        begin = time.monotonic()
        code, _, err = run("pull", "hf://alice/words")
        assert (code, time.monotonic() - begin < 5) == (1, True)
    finally:
        server.shutdown()
        server.server_close()
    assert "has a certificate that this machine does not trust (self-signed certificate)" in err
    assert "SSL_CERT_FILE" in err
