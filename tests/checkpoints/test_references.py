"""A name, a folder or hf://org/name is told apart in one place, and a checkpoint is resolved once."""

import os
from pathlib import Path

import pytest
from hubs import NAME, PINNED, REPO, Here
from loopback import Loopback

from zoo.checkpoints import checkpoint, configs, tensors
from zoo.checkpoints.references import Reference
from zoo.checkpoints.sources import read_config, resolve
from zoo.errors import CheckpointError, RequestError, UnknownNameError
from zoo.utils import files

COMMIT = "c" * 40


def parts(reference: Reference) -> tuple[str | None, Path | None, str | None, str | None]:
    return reference.model, reference.folder, reference.repo, reference.revision


def test_a_name_a_folder_and_an_address(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here.root)
    (here.root / NAME).mkdir()
    assert parts(Reference.parse(NAME)) == (NAME, None, None, None)  # though there is such a folder
    assert parts(Reference.parse(Path(NAME), "main")) == (NAME, None, None, "main")
    assert parts(Reference.parse(f"./{NAME}")) == (None, Path(NAME), None, None)
    assert parts(Reference.parse("cards")) == (None, Path("cards"), None, None)
    assert parts(Reference.parse("hf://a/b")) == (None, None, "a/b", None)
    assert parts(Reference.parse(f"hf://a/b@{COMMIT}")) == (None, None, "a/b", COMMIT)
    assert parts(Reference.parse("hf://a/b", "dev")) == (None, None, "a/b", "dev")
    assert parts(Reference.parse("hf://a/b@dev", "dev")) == (None, None, "a/b", "dev")
    assert Reference.parse("hf://a/b@dev").text == "hf://a/b@dev"


def test_a_bare_repository_only_where_it_is_asked_for_and_no_folder_is_there(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(here.root)
    with pytest.raises(RequestError, match=r"There is no folder 'a/b'.*write hf://a/b"):
        Reference.parse("a/b")
    assert parts(Reference.parse("a/b", "dev", bare_repo=True)) == (None, None, "a/b", "dev")
    assert parts(Reference.parse(f"cards/{NAME}", bare_repo=True)) == (None, Path("cards") / NAME, None, None)
    assert parts(Reference.parse(NAME, bare_repo=True)) == (NAME, None, None, None)


@pytest.mark.parametrize(("text", "revision", "words"), [
    ("registry.yaml", None, "is a file"), ("no/where/at/all", None, "There is no folder 'no/where/at/all'. Check the path.$"),
    ("cards", "main", "which has no revisions"), ("hf://a/b@main", "dev", "contradict each other"),
    ("hf://a/b@", None, "not a revision"), ("hf://a", None, "not the name of a repository"), (NAME, "..", "not a revision"),
])  # fmt: skip
def test_what_names_no_checkpoint(
    here: Here, monkeypatch: pytest.MonkeyPatch, text: str, revision: str | None, words: str
) -> None:
    monkeypatch.chdir(here.root)
    with pytest.raises(RequestError, match=words) as caught:
        Reference.parse(text, revision)
    assert not isinstance(caught.value, UnknownNameError)
    with pytest.raises(UnknownNameError, match=f"Did you mean {NAME}"):
        Reference.parse(NAME[:-1])


def count_calls(monkeypatch: pytest.MonkeyPatch, module: object, name: str) -> list[object]:
    """Arguments of every call of a function from now on, in every module of checkpoints that imports it."""
    calls: list[object] = []
    function = getattr(module, name)

    def counted(*arguments: object) -> object:
        calls.append(arguments[0])
        return function(*arguments)

    monkeypatch.setattr(module, name, counted)
    return calls


def test_a_model_is_hashed_once_and_its_config_read_once(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.checkpoints.hub import digests

    here.publish()
    hashed, read = count_calls(monkeypatch, digests, "sha256"), count_calls(monkeypatch, configs, "read")
    monkeypatch.setattr(files, "sha256", digests.sha256)
    resolved = resolve(Reference.parse(NAME))
    assert (resolved.verified, resolved.entry.name, set(resolved.files)) == (True, NAME, set(PINNED))
    assert resolved.weights_sha256 == resolved.entry.weights.files[tensors.FILE].sha256
    assert sorted(Path(str(path)).name for path in hashed) == PINNED
    assert read == [resolved.files[configs.FILE]]
    assert resolved.revision == here.hub.repos[REPO].refs["main"]


def test_a_folder_is_hashed_when_asked_and_only_once(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = files.sha256(here.card / tensors.FILE)
    hashed = count_calls(monkeypatch, files, "sha256")
    resolved = resolve(Reference.parse(here.card))
    assert hashed == []
    assert [resolved.weights_sha256, resolved.weights_sha256] == [expected, expected]
    assert hashed == [here.card / tensors.FILE]
    assert (resolved.entry, resolved.revision, resolved.verified) == (None, None, False)
    assert set(resolved.files) == {tensors.FILE, configs.FILE}


def test_a_folder_without_weights_has_a_config(here: Here) -> None:
    os.unlink(here.card / tensors.FILE)
    assert read_config(Reference.parse(here.card)).name == NAME
    assert resolve(Reference.parse(here.card)).weights == here.card / tensors.FILE
    assert set(checkpoint.files_in(here.card)) == {tensors.FILE, configs.FILE}


def test_the_config_of_an_address_needs_no_weights(here: Here, hub_server: Loopback) -> None:
    here.publish()
    assert read_config(Reference.parse(f"hf://{REPO}")).name == NAME
    assert hub_server.asked(tensors.FILE) == []
    assert hub_server.asked("/_cdn/", "GET") == []
    with pytest.raises(CheckpointError, match="no such revision"):
        read_config(Reference.parse(f"hf://{REPO}@nothing"))


def test_an_address_is_verified_by_nothing_of_ours(here: Here) -> None:
    commit = here.publish()
    resolved = resolve(Reference.parse(f"hf://{REPO}"))
    assert (resolved.entry, resolved.revision, resolved.verified) == (None, commit, False)
    assert resolved.weights_sha256 == files.sha256(resolved.weights)


def test_another_revision_of_a_model_is_not_what_its_pin_says(here: Here) -> None:
    here.publish()
    here.hub.add(REPO, {**here.content(), tensors.FILE: here.content("gru-1x8-mnist-rows")[tensors.FILE]})
    resolved = resolve(Reference.parse(NAME, "main"))
    assert (resolved.entry.name, resolved.verified) == (NAME, False)
    assert (
        resolved.weights_sha256 == files.sha256(resolved.weights) != resolved.entry.weights.files[tensors.FILE].sha256
    )


@pytest.mark.parametrize("revision", ["main/", "main.lock", "a//b", "a..b", ""])
def test_what_is_no_revision(here: Here, revision: str) -> None:
    with pytest.raises(RequestError, match="not a revision"):
        Reference.parse(NAME, revision)
