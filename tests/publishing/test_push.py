"""Pushing over real HTTP with the real client. Tests named f09 to f33 are rows of the fault table."""

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from hubs import NAME, OTHER, PINNED, PUSHED, REPO, Here, Run, finish
from loopback import READ, WRITE, Seen, git_oid
from torch import Tensor

from zoo import load, registry
from zoo.checkpoints import results, sources, tensors
from zoo.checkpoints.hub.digests import pinned
from zoo.checkpoints.references import Reference
from zoo.checkpoints.tensors import write_tensors
from zoo.checkpoints.tokenizer import RESERVED, Tokenizer
from zoo.errors import CheckpointError, HubError, NetworkError, RegistryError, RequestError
from zoo.networks import loading
from zoo.networks.builder import build
from zoo.networks.network import Network
from zoo.publishing import cards, pushing
from zoo.registry import lock, reader
from zoo.registry.schema import Architecture, Config, Embedding, Interface, Pin
from zoo.utils import paths

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # the client's own uploads
PUTS = r"/_cdn/|/commit/|/preupload/|objects/batch|repos/create|/branch/|/tag/"


def push(here: Here, *names: str, **options: object) -> list[pushing.Pushed]:
    return pushing.push(names or (NAME,), here.push_options(**options))


def sent(here: Here) -> list[Seen]:
    """Requests that change, or prepare to change, the Hub."""
    return [s for s in here.hub.asked(PUTS) if s.method in ("POST", "PUT", "DELETE")]


def log(here: Here, repo: str = REPO) -> list[str]:
    return here.hub.repos[repo].log


# what works


def test_a_push_is_one_commit_of_a_list_of_files_and_a_pin(here: Here, run: Run) -> None:
    (here.card / "notes.txt").write_text("my own")
    lock_path = here.root / "cards" / "lock.json"
    before = json.loads(lock_path.read_text())
    code, out, err = run("push", NAME, "--json")
    assert code == 0, err
    (row,) = json.loads(out)
    assert len(log(here)) == 2  # the Hub's first, and ours
    files = here.hub.repos[REPO].commits[row["commit"]]
    assert set(files) == PUSHED | {".gitattributes"}
    content = here.content()
    assert all(files[name] == content[name] for name in PUSHED)
    assert (row["created"], row["pinned"], set(row["files"])) == (True, True, PUSHED)
    assert f"cards/lock.json now pins {REPO}@{row['commit']}" in err
    weights = registry.find(NAME).weights
    assert (weights.repo, weights.revision) == (REPO, row["commit"])
    after = json.loads(lock_path.read_text())
    assert after["weights"][NAME].pop("revision") == row["commit"]
    assert after == before
    shutil.rmtree(here.card)
    assert sources.pull(Reference.parse(NAME), here.pull_options).verified


def test_exports_are_pinned_and_pushed_like_weights(here: Here, run: Run) -> None:
    assert run("export", NAME, "--format", "pt2", "--pin")[0] == 0
    (file,) = registry.find(NAME).weights.exports
    assert file == f"{NAME}.pt2"
    (row,) = push(here)
    assert set(row.files) == {*PUSHED, file}
    assert here.hub.repos[REPO].commits[row.commit][file] == (here.card / file).read_bytes()
    assert set(registry.find(NAME).weights.exports) == {file}
    others = registry.load_lock().weights.keys()
    assert run("export", NAME, "--format", "pt2", "--graph", "step", "--pin")[0] == 0
    assert set(registry.find(NAME).weights.exports) == {file, f"{NAME}.step.pt2"}
    assert registry.load_lock().weights.keys() == others >= {NAME, OTHER}
    (row,) = push(here)
    load(NAME, device="cpu")
    assert not here.hub.asked(rf"resolve/.*{file}")  # nobody needs it to load the weights
    code, out, _ = run("verify", NAME, "--remote", "--json")
    assert code == 0, out
    (here.card / file).write_bytes(b"another")
    with pytest.raises(CheckpointError, match=rf"{file} differs from the pinned file"):
        push(here)
    assert run("verify", NAME)[0] == 1


def test_the_same_bytes_again_make_no_commit(here: Here, run: Run) -> None:
    first = push(here)[0]
    here.hub.seen.clear()
    again = push(here)[0]
    assert (again.commit, again.created, again.pinned) == (first.commit, False, False)
    assert sent(here) == []
    assert "unchanged" in run("push", NAME)[1]


def test_a_dry_run_checks_all_and_sends_nothing(here: Here, run: Run) -> None:
    code, out, _ = run("push", NAME, "--dry-run")
    assert code == 0
    assert "would push" in out
    assert sent(here) == []
    assert here.hub.repos == {}
    assert registry.find(NAME).weights.revision is None
    push(here)
    assert "unchanged" in run("push", NAME, "--dry-run")[1]


def test_namespace_private_branch_tag_and_pull_request(here: Here, run: Run) -> None:
    done = push(here, namespace="alice", private=True, revision="dev/x", tag="v1")[0]
    repo = here.hub.repos[f"alice/{NAME}"]
    assert repo.private
    assert (repo.refs["dev/x"], repo.tags["v1"]) == (done.commit, done.commit)
    assert PUSHED.isdisjoint(repo.commits[repo.refs["main"]])
    assert registry.find(NAME).weights.repo == f"alice/{NAME}"
    main = repo.refs["main"]
    proposed = push(here, namespace="alice", create_pr=True)[0]
    assert proposed.pull_request == f"{here.hub.endpoint}/alice/{NAME}/discussions/1"
    assert (repo.refs["main"], proposed.pinned) == (main, False)
    assert registry.find(NAME).weights.revision == done.commit
    for options in (("--create-pr", "--tag", "v2"), ("--revision", "a" * 40), ("--namespace", "a/b")):
        assert run("push", NAME, *options)[0] == 2


def test_several_models_and_nothing_is_sent_if_one_cannot_be(here: Here, run: Run) -> None:
    (here.root / "cards" / OTHER / "README.md").write_text("mine")
    code, out, err = run("push", "*")
    assert (code, out) == (1, "")
    assert (
        f"{OTHER}/README.md differs from the card generated from the registry and the results (run: rnnzoo card {OTHER} --write); nothing was pushed"
        in err
    )
    assert here.hub.requests() == []


def test_a_pin_that_cannot_be_written_is_logged(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "PACKAGED", True)
    done = push(here)[0]
    assert (done.created, done.pinned) == (True, False)
    assert f"It should pin {REPO}, revision {done.commit}" in "\n".join(here.logged)


def locked_revision(here: Here, name: str = NAME) -> str | None:
    """The commit that the lock of the small zoo pins, read anew from its file."""
    return lock.read(here.root / "cards" / "lock.json").weights[name].revision


def test_two_pins_written_at_once_are_both_there(here: Here) -> None:
    files = {name: registry.find(name).weights.files for name in (NAME, OTHER)}
    pins = {name: Pin(repo=f"rnnzoo/{name}", revision="1" * 40, files=files[name]) for name in files}
    threads = [threading.Thread(target=lock.pin, args=item) for item in pins.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [locked_revision(here, name) for name in files] == ["1" * 40] * 2


def test_two_programs_that_write_the_lock_at_once_lose_nothing(here: Here) -> None:
    code = (
        "import sys; from zoo import registry; from zoo.registry import lock\n"
        "weights = registry.find(sys.argv[1]).weights.model_copy(update={'revision': sys.argv[2] * 40})\n"
        "sys.exit(not lock.pin(sys.argv[1], weights))"
    )
    pins = [(NAME, "2"), (OTHER, "3")]
    programs = [subprocess.Popen([sys.executable, "-c", code, *pin], env=here.env) for pin in pins]
    assert [program.wait(60) for program in programs] == [0, 0]
    assert [locked_revision(here, name) for name, _ in pins] == ["2" * 40, "3" * 40]


@pytest.mark.parametrize("damage", [
    lambda text: text[:-20], lambda text: text.replace('"sha256": "', '"sha256": "x', 1),
    lambda text: text.replace('"counts"', '"count"'),
], ids=["cut short", "not a digest", "unknown key"])  # fmt: skip
def test_a_damaged_lock_is_refused_and_named(here: Here, run: Run, damage: Callable[[str], str]) -> None:
    path = here.root / "cards" / "lock.json"
    weights = registry.find(NAME).weights.model_copy(update={"revision": "1" * 40})
    path.write_text(damage(path.read_text()))
    kept = path.read_text()
    registry.clear_caches()
    with pytest.raises(RegistryError, match=f"{re.escape(str(path))}: .*restore it from git"):
        lock.pin(NAME, weights)
    assert path.read_text() == kept
    code, out, err = run("push", NAME)
    assert (code, out, str(path) in err) == (2, "", True)
    registry.clear_caches()


# what is not pushed


def links(folder: Path, secret: Path) -> dict[str, Callable[[], None]]:
    def replace(name: str) -> None:
        shutil.move(folder / name, folder.parent / name)
        (folder / name).symlink_to(folder.parent / name)

    def whole() -> None:
        shutil.move(folder, folder.parent / "elsewhere")
        folder.symlink_to(folder.parent / "elsewhere")

    return {
        "weights": lambda: replace(tensors.FILE), "card": lambda: replace("README.md"), "folder": whole,
        "outside": lambda: (folder / "a.txt").symlink_to(secret), "dangling": lambda: (folder / "a").symlink_to("nowhere"),
        "directory": lambda: (folder / "sub").symlink_to(secret.parent),
    }  # fmt: skip


@pytest.mark.parametrize("what", ["weights", "card", "folder", "outside", "dangling", "directory"])
def test_f18_links_are_refused_and_named(here: Here, run: Run, what: str) -> None:
    secret = here.root.parent / "private" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text("secret")
    links(here.card, secret)[what]()
    code, out, err = run("push", NAME)
    assert (code, out) == (1, "")
    assert re.search(rf"{re.escape(str(here.card))}\S* is a symbolic link", err)
    assert here.hub.requests() == []


def release(here: Here, network: Network, **values: Tensor) -> None:
    """Make a network's weights the pinned ones, with golden outputs and without figures, as a release does.

    values: of tensors, by name, that are written in the place of the network's, as another library might.
    """
    loading.save(network, here.card)
    if values:
        write_tensors(here.card / tensors.FILE, {**tensors.read_tensors(here.card / tensors.FILE), **values})
    files = {name: pinned(here.card / name) for name in PINNED}
    lock.pin(NAME, registry.find(NAME).weights.followed_by(files))
    results.write(here.card, results.Results())
    (here.card / "README.md").write_text(cards.render(registry.find(NAME)))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_f25_values_that_are_not_finite_are_not_pushed(here: Here, value: float) -> None:
    network = build(NAME, device="cpu")
    bias = network.head.bias.detach().clone()
    bias[3] = value
    release(here, network, **{"head.bias": bias})
    with pytest.raises(CheckpointError, match=r"head\.bias has values that are infinite or NaN; nothing was pushed"):
        push(here)
    network.load_state_dict({"head.bias": bias}, strict=False)
    with pytest.raises(CheckpointError, match=r"head\.bias has values that are infinite or NaN"):
        network.push_to_hub("alice/mine")
    assert here.hub.requests() == []


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_f25_values_that_are_not_finite_are_found_in_every_dtype(tmp_path: Path, dtype: torch.dtype) -> None:
    good, bad = torch.ones(3, dtype=dtype), torch.tensor([1, float("nan"), 1], dtype=dtype)
    write_tensors(tmp_path / "x", {"good": good, "bad": bad, "n": torch.ones(2, dtype=torch.int64)})
    assert tensors.not_finite(tmp_path / "x") == ["bad"]


@pytest.mark.parametrize("name", PINNED)
def test_bytes_that_differ_from_their_pin_are_not_pushed(here: Here, name: str) -> None:
    path = here.card / name
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(
        CheckpointError, match=f"{name} differs from the pinned file: it has another sha256; nothing was pushed"
    ):
        push(here)
    assert here.hub.requests() == []


def test_a_model_without_pin_or_with_figures_of_other_weights_is_not_pushed(here: Here, run: Run) -> None:
    path = here.card / "results.json"
    path.write_text(path.read_text().replace(registry.find(NAME).weights.files[tensors.FILE].sha256, "0" * 64))
    with pytest.raises(CheckpointError, match=r"results\.json has figures of weights that are not pinned"):
        push(here)
    lock.update(lambda old: old.model_copy(update={"weights": {}}))
    code, _, err = run("push", NAME)
    assert code == 1
    assert f"{NAME} has no weights to push" in err
    assert here.hub.requests() == []


@pytest.mark.parametrize("change", [
    lambda text: b"\xef\xbb\xbf" + text, lambda text: text.replace(b"\n", b"\r\n"), lambda text: text + b"\xff",
    lambda text: text.partition(b"---\n\n")[2], lambda text: text.replace(b"# rnn", b"# <b>rnn</b>"),
], ids=["byte order mark", "carriage returns", "not UTF-8", "no front matter", "html"])  # fmt: skip
def test_f31_a_card_that_is_not_ours_to_the_byte_is_not_pushed(here: Here, change: Callable[[bytes], bytes]) -> None:
    path = here.card / "README.md"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(
        CheckpointError, match=r"README\.md differs from the card generated from the registry and the results"
    ):
        push(here)


def test_f31_a_card_quotes_odd_characters_of_the_registry(here: Here) -> None:
    entry = registry.find(NAME)
    odd = "--- | [red]a[/red] <script> # é\u2028: {x}"
    task = entry.task.model_copy(update={"title": odd})
    text = cards.compose(replace(entry, task=task), results.for_model(NAME), cards.counts(NAME))
    front = yaml.safe_load(text.split("\n---\n")[0].removeprefix("---\n"))
    assert front["model-index"][0]["results"][0]["dataset"]["name"] == odd
    path = here.root / "registry.yaml"
    path.write_text(path.read_text().replace("row-by-row MNIST", "two\\nlines"))
    with pytest.raises(RegistryError, match=r"tasks\.mnist-rows\.title"):
        reader.read(path)


# F9: others


def test_f09_a_remote_that_has_moved_on_is_not_overwritten_unless_forced(here: Here, run: Run) -> None:
    push(here)
    theirs = here.hub.add(REPO, {"README.md": b"theirs"})
    for seed in (5, 6):  # twice, before anybody pushes
        release(here, build(NAME, device="cpu", seed=seed))
    assert registry.find(NAME).weights.revision is None
    code, out, err = run("push", NAME)
    assert (code, out) == (1, "")
    assert f"commit {theirs} is not the pinned" in err
    assert "the remote has changed. Look at the Hub, then pull, or push again with --force" in err
    assert here.hub.repos[REPO].refs["main"] == theirs
    code, _, _ = run("push", NAME, "--force")
    assert code == 0
    assert log(here)[-2] == theirs


def test_f09_other_weights_go_on_top_of_those_before_them(here: Here) -> None:
    first = push(here)[0]
    for seed in (6, 5):  # once more, before they are pushed
        release(here, build(NAME, device="cpu", seed=seed))
        assert registry.find(NAME).weights.replaces == first.commit
    second = push(here)[0]
    assert (second.created, second.pinned, registry.find(NAME).weights.replaces) == (True, True, None)
    assert log(here)[1:] == [first.commit, second.commit]


def test_exports_of_the_weights_before_go_away_with_them(here: Here, run: Run) -> None:
    assert run("export", NAME, "--format", "pt2", "--graph", "both", "--pin")[0] == 0
    first = push(here)[0]
    exported = {f"{NAME}.pt2", f"{NAME}.step.pt2"}
    assert exported <= here.hub.repos[REPO].commits[first.commit].keys()
    release(here, build(NAME, device="cpu", seed=6))
    assert registry.find(NAME).weights.exports is None
    assert run("export", NAME, "--format", "pt2", "--pin")[0] == 0
    second = push(here)[0]
    assert here.hub.repos[REPO].commits[second.commit].keys() & exported == {f"{NAME}.pt2"}


def test_f09_files_of_others_that_no_pin_knows_of_are_not_replaced(here: Here, run: Run) -> None:
    theirs = here.hub.add(REPO, {"README.md": b"theirs"})
    code, _, err = run("push", NAME)
    assert (code, here.hub.repos[REPO].refs["main"]) == (1, theirs)
    assert f"commit {theirs} has files of these names, and the registry pins no commit: the remote has changed" in err
    assert sent(here) == []
    assert push(here, force=True)[0].created


def test_f09_another_namespace_has_files_of_its_own(here: Here, run: Run) -> None:
    theirs = here.hub.add(f"alice/{NAME}", {"README.md": b"theirs"})
    code, _, err = run("push", NAME, "--namespace", "alice")
    assert (code, here.hub.repos[f"alice/{NAME}"].refs["main"]) == (1, theirs)
    assert f"commit {theirs} has files of these names" in err
    assert push(here, namespace="alice", force=True)[0].created


def test_f09_of_several_models_none_is_pushed_if_one_remote_has_moved_on(here: Here, run: Run) -> None:
    here.hub.add(f"rnnzoo/{OTHER}", {"README.md": b"theirs"})
    for order in ((NAME, OTHER), (OTHER, NAME)):
        code, _, err = run("push", *order)
        assert (code, f"rnnzoo/{OTHER}: commit" in err) == (1, True)
    assert sent(here) == []


def test_models_pushed_before_a_failure_are_named(here: Here) -> None:
    here.hub.fault("POST", f"{OTHER}/commit/", "status", times=99, status=403)
    with pytest.raises(HubError):
        push(here, NAME, OTHER)
    done = registry.find(NAME).weights.revision
    assert (
        f"{NAME} was pushed: {here.hub.endpoint}/{REPO}, commit {done}, which cards/lock.json pins now." in here.logged
    )
    here.logged.clear()
    with pytest.raises(HubError):
        push(here, NAME, OTHER)
    assert not [text for text in here.logged if "was pushed" in text]  # the same bytes were there
    assert registry.find(OTHER).weights.revision is None


def test_f09_the_server_refuses_a_push_after_a_commit_in_between(here: Here, run: Run) -> None:
    here.hub.fault("POST", "/commit/", "then", do=lambda: here.hub.add(REPO, {"theirs": b"1"}))
    code, _, err = run("push", NAME)
    assert code == 1
    assert "the remote has changed" in err
    assert here.hub.repos[REPO].commits[here.hub.repos[REPO].refs["main"]].keys() >= {"theirs"}
    assert PUSHED.isdisjoint(here.hub.repos[REPO].commits[here.hub.repos[REPO].refs["main"]])
    assert registry.find(NAME).weights.revision is None


def test_f09_a_commit_in_between_with_the_same_bytes_is_pinned(here: Here) -> None:
    here.hub.fault("POST", "/commit/", "then", do=lambda: here.hub.add(REPO, here.content()))
    done = push(here)[0]
    assert (done.commit, done.created, done.pinned) == (here.hub.repos[REPO].refs["main"], False, True)
    assert len(log(here)) == 2


def test_f09_two_pushes_of_the_same_at_once_make_one_commit(here: Here) -> None:
    done = [finish(process) for process in [here.spawn("push", NAME), here.spawn("push", NAME)]]
    assert [code for code, _, _ in done] == [0, 0], done
    assert len(log(here)) == 2
    assert locked_revision(here) == log(here)[-1]


def test_a_killed_push_leaves_nothing_half_done_and_the_next_one_succeeds(here: Here) -> None:
    here.hub.fault("POST", "/commit/", "stall", seconds=3.0)
    process = here.spawn("push", NAME)
    end = time.monotonic() + 60
    while not here.hub.asked("/commit/") and time.monotonic() < end:
        time.sleep(0.02)
    process.kill()
    finish(process)
    assert PUSHED.isdisjoint(here.hub.repos[REPO].commits[here.hub.repos[REPO].refs["main"]])
    assert locked_revision(here) is None
    done = push(here)[0]
    assert done.created
    assert done.pinned


# F10: who may


def test_f10_without_a_token_no_request_is_made(here: Here, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN")
    code, out, err = run("push", NAME)
    assert (code, out) == (1, "")
    assert "There is no token to push with. Use a token with write access: hf auth login" in err
    assert here.hub.requests() == []


@pytest.mark.parametrize(("token", "namespace", "words"), [
    ("hf_wrong0123456789abcdef", None, "the Hub does not accept your token"),
    (READ, None, "The token of bob can only read"),
    (WRITE, "google", "alice is not a member of google. To push to your own account: --namespace alice"),
])  # fmt: skip
def test_f10_a_user_who_may_not_write_sends_nothing(
    here: Here, run: Run, monkeypatch: pytest.MonkeyPatch, token: str, namespace: str | None, words: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    code, out, err = run("push", NAME, *(["--namespace", namespace] if namespace else []))
    assert (code, out) == (1, "")
    assert words in err
    assert token not in err
    assert sent(here) == []


def test_f10_a_repository_that_this_user_may_not_write_to(here: Here, run: Run) -> None:
    here.hub.add(f"google/{NAME}", {"a": b"1"})
    code, _, err = run("push", NAME, "--namespace", "google")
    assert code == 1
    assert "your token lacks a permission for this request" in err
    assert "You have no write access" in err
    assert sent(here) == []


# F12: failures


@pytest.mark.parametrize(("method", "path"), [
    ("GET", "whoami"), ("GET", "auth-check"), ("POST", "repos/create"), ("POST", "validate-yaml"), ("POST", "preupload"),
    ("POST", "objects/batch"), ("PUT", "/_cdn/"), ("POST", "/_verify"), ("POST", "/commit/"), ("POST", "paths-info"),
    ("POST", "/tag/"), ("GET", "/refs"),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["status", "reset"])
def test_f12_a_passing_failure_is_retried(here: Here, method: str, path: str, kind: str) -> None:
    here.hub.add(REPO, {"a": b"1"}) if path == "/refs" else None
    here.hub.fault(method, path, kind, status=500)
    done = push(here, tag="v1")[0]
    assert done.created
    assert len(log(here)) == 2
    assert here.hub.repos[REPO].tags == {"v1": done.commit}
    assert here.hub.unspent() == []


def test_f12_a_commit_whose_answer_is_lost_is_found(here: Here) -> None:
    here.hub.fault("POST", "/commit/", "lost")
    done = push(here)[0]
    assert done.commit == here.hub.repos[REPO].refs["main"]
    assert len(log(here)) == 2
    assert registry.find(NAME).weights.revision == done.commit
    assert here.hub.unspent() == []


def test_f12_a_lasting_failure_ends_the_push_and_pins_nothing(here: Here, run: Run) -> None:
    here.hub.fault("POST", "/commit/", "status", times=99, status=500)
    code, _, err = run("push", NAME)
    assert code == 1
    assert re.search(r"fails \(500\)", err.splitlines()[-1])
    assert registry.find(NAME).weights.revision is None


@pytest.mark.parametrize("answer", [[], {}, {"commitUrl": 3}, {"commitUrl": "x", "commitOid": "../../x"}])
def test_a_senseless_answer_is_reported(here: Here, run: Run, answer: object) -> None:
    here.hub.fault("POST", "/commit/", "json", times=99, data=answer)
    code, _, err = run("push", NAME)
    assert code == 1
    assert re.search("that rnnzoo cannot read|not hexadecimal", err)
    assert "Traceback" not in err
    assert registry.find(NAME).weights.revision is None


@pytest.mark.parametrize("other", [lambda kept: b"other", lambda kept: kept[:-1] + b"?"], ids=["shorter", "as long"])
def test_a_commit_with_other_bytes_is_not_pinned(here: Here, other: Callable[[bytes], bytes]) -> None:
    def swap() -> None:
        for oid, kept in here.hub.large.items():
            here.hub.large[oid] = other(kept)

    here.hub.fault("POST", "/commit/", "then", do=swap)
    with pytest.raises(HubError, match="differ from those that were sent"):
        push(here)
    assert registry.find(NAME).weights.revision is None


# F29, F30: the token


def test_f29_the_token_appears_nowhere(here: Here) -> None:
    """Not in any output of any command, not in the repository, the cache or the zoo, and not at another origin."""
    texts = []
    for arguments in (
        ("--debug", "push", NAME, "--json"), ("push", NAME, "--token", WRITE), ("pull", WRITE), ("whoami", "--json"),
    ):  # fmt: skip
        code, out, err = finish(here.spawn(*arguments, HF_DEBUG="1"))
        texts += [out, err]
        assert code in (0, 1, 2)
    texts += here.logged
    assert WRITE.removeprefix("hf_") not in "".join(texts)
    for path in here.root.parent.rglob("*"):
        assert not path.is_file() or WRITE.encode() not in path.read_bytes(), path
    for seen in here.hub.seen:
        assert WRITE.encode() not in seen.body
        assert WRITE not in seen.path
        assert seen.token is None or seen.host.startswith("127.0.0.1"), seen.path
    assert {s.path.partition("/_")[2][:3] for s in here.hub.seen if s.host.startswith("localhost")} == {"cdn", "ver"}


def test_f29_a_token_in_a_text_is_not_pushed(here: Here) -> None:
    found = results.for_model(NAME)
    (before,) = found.evaluations
    spoiled = before.model_copy(update={"command": "rnnzoo eval --token hf_abcdefghijklmnopqrst"})
    results.write(here.card, results.Results(evaluations=(spoiled,)))
    (here.card / "README.md").write_text(cards.render(registry.find(NAME)))
    with pytest.raises(CheckpointError, match=r"(README\.md|results\.json) seems to contain a token"):
        push(here)
    with pytest.raises(RequestError, match="The message seems to contain a token"):
        build(NAME, device="cpu").push_to_hub("alice/mine", message="hf_abcdefghijklmnopqrst")
    assert here.hub.requests() == []


# F33: tags


def test_f33_a_tag_is_never_moved(here: Here, run: Run) -> None:
    first = push(here, tag="v1")[0]
    assert f"{NAME}: the tag v1 is commit {first.commit}." in here.logged
    assert push(here, tag="v1")[0].created is False
    release(here, build(NAME, device="cpu", seed=5))
    here.hub.seen.clear()
    code, _, err = run("push", NAME, "--tag", "v1")
    assert code == 1
    assert f"the tag v1 exists at commit {first.commit}, and rnnzoo never moves a tag" in err
    assert sent(here) == []
    assert here.hub.repos[REPO].tags == {"v1": first.commit}


@pytest.mark.parametrize(("arguments", "words"), [
    (("pull", "hf://a/b@main", "--revision", "dev"), "the revision dev contradict each other"),
    (("pull", "hf://a/b", "--revision", "../../x"), "is not a revision"),
    (("push", NAME, "--tag", "main"), "--tag is main, the name of a branch or commit"),
    (("push", NAME, "--tag", "b" * 40), "the name of a branch or commit"),
    (("cache", "rm", "hf://a/b@main"), "only whole repositories can be removed"),
    (("eval", "hf://a/b", "--record"), "has no folder to record a result in"),
    (("list", "--remote", "--task", "mnist-rows"), "--remote can be combined only with"),
    (("list", "--remote", "--cells"), "--remote can be combined only with"),
    (("list", "--remote", "--sort", "speed"), "--remote can be combined only with"),
    (("list", "--namespace", "alice"), "add --remote"),
])  # fmt: skip
def test_wrong_uses_of_an_address(here: Here, run: Run, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert here.hub.requests() == []


def test_a_folder_has_no_revisions(here: Here) -> None:
    with pytest.raises(RequestError, match="is a folder, which has no revisions"):
        load(here.card, revision="main")


# networks of one's own


def test_a_network_goes_to_the_hub_and_comes_back(here: Here) -> None:
    network = build(NAME, device="cpu", seed=7).eval()
    where = network.push_to_hub("alice/mine", message="Mine")
    files = here.hub.repos["alice/mine"].commits[where.rpartition("@")[2]]
    assert set(files) == {".gitattributes", "README.md", *PINNED}
    assert b'load("hf://alice/mine")' in files["README.md"]
    assert network.push_to_hub("alice/mine") == where
    assert len(log(here, "alice/mine")) == 2
    for name in ("alice/mine", where, f"hf://alice/mine@{where.rpartition('@')[2]}"):
        loaded = Network.from_pretrained(name, device="cpu")
        assert all(torch.equal(t, network.state_dict()[n]) for n, t in loaded.state_dict().items())
    here.hub.add("alice/mine", {"README.md": b"my own words"})
    with torch.no_grad():
        network.head.bias += 1
    again = network.push_to_hub("alice/mine")
    assert here.hub.repos["alice/mine"].commits[again.rpartition("@")[2]]["README.md"] == b"my own words"
    assert Network.from_pretrained("alice/mine", revision="main", device="cpu").head.bias[0] == network.head.bias[0]
    assert Network.from_pretrained(str(here.card), device="cpu").config.name == NAME
    assert Network.from_pretrained(NAME, device="cpu").config.name == NAME
    with pytest.raises(RequestError, match="is not the name of a repository"):
        network.push_to_hub("mine")


def test_a_network_of_tokens_needs_no_tokenizer(here: Here) -> None:
    def reader(words: int) -> Network:
        spec = Architecture(cell="gru", layers=1, units=3, embedding=Embedding(size=4))
        interface = Interface(vocabulary=words, steps=10, outputs=4, readout="last")
        return build(Config(architecture=spec, interface=interface), device="cpu").eval()

    spoken = reader(4)
    spoken.tokenizer = Tokenizer([*RESERVED, "two", "words"], 10)
    spoken.push_to_hub("alice/words")
    assert load("hf://alice/words", device="cpu").tokenizer.words[2:] == ("two", "words")
    mute = reader(4)
    where = mute.push_to_hub("alice/words")
    assert "vocabulary.txt" not in here.hub.repos["alice/words"].commits[where.rpartition("@")[2]]
    assert mute.push_to_hub("alice/words") == where
    for _ in range(2):  # from the Hub, then from the cache
        assert load(where, device="cpu").tokenizer is None
        here.hub.fault("GET", "", "reset", times=9)


def test_a_network_goes_to_a_branch_a_pull_request_or_a_private_repository(here: Here) -> None:
    network = build(NAME, device="cpu", seed=7).eval()
    network.push_to_hub("alice/mine", private=True)
    repo = here.hub.repos["alice/mine"]
    main = repo.refs["main"]
    assert repo.private
    with torch.no_grad():
        network.head.bias += 1
    assert network.push_to_hub("alice/mine", create_pr=True) == f"{here.hub.endpoint}/alice/mine/discussions/1"
    assert repo.refs["main"] == main
    main = here.hub.add("alice/mine", {"README.md": b"my own words"})
    where = network.push_to_hub("alice/mine", revision="dev")
    assert repo.refs["main"] == main
    assert repo.commits[repo.refs["dev"]]["README.md"] == b"my own words"
    assert repo.refs["dev"] == where.rpartition("@")[2]
    loaded = Network.from_pretrained("alice/mine", revision="dev", device="cpu")
    assert torch.equal(loaded.head.bias, network.head.bias)


def test_a_pull_request_whose_answer_is_lost_is_not_made_twice(here: Here) -> None:
    here.hub.add("alice/mine", {"a": b"1"})
    here.hub.fault("POST", "/commit/", "lost")
    here.hub.fault("POST", "/commit/", "reset", times=9)
    with pytest.raises(NetworkError, match="may exist nevertheless: look on the Hub before you try again"):
        build(NAME, device="cpu").push_to_hub("alice/mine", create_pr=True)
    assert len([s for s in here.hub.asked("/commit/") if s.method == "POST"]) == 1


def test_a_pickled_file_is_never_downloaded(here: Here) -> None:
    content = here.content()
    here.hub.add("alice/pickled", {"config.json": content["config.json"], "pytorch_model.bin": b"\x80\x04."})
    with pytest.raises(HubError, match="has no such file"):
        Network.from_pretrained("alice/pickled")
    assert here.hub.asked("pytorch_model") == []
    assert git_oid(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


def test_a_repository_is_private_only_if_asked(here: Here, run: Run) -> None:
    for flags, private in ((("--private",), True), ((), False)):
        name = (NAME, OTHER)[private]
        assert run("push", name, "--namespace", "alice", "--revision", "dev", *flags)[0] == 0
        repo = here.hub.repos[f"alice/{name}"]
        assert (repo.private, "dev" in repo.refs) == (private, True)
