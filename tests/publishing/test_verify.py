"""Verification of published checkpoints, on this machine and on the Hub, and their golden outputs."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers import flip
from hubs import NAME, OTHER, PINNED, REPO, ROOT, Here, Run
from huggingface_hub import constants

from zoo import Architecture, Config, Interface, load, registry
from zoo.checkpoints import results, sources, tensors
from zoo.checkpoints.hub import digests
from zoo.checkpoints.hub.digests import pinned
from zoo.checkpoints.references import Reference
from zoo.checkpoints.tensors import read_tensors, write_tensors
from zoo.errors import CheckpointError
from zoo.networks import golden, loading
from zoo.networks.builder import build
from zoo.publishing import cards, pushing, verification
from zoo.registry import lock
from zoo.registry.schema import Pin
from zoo.utils import files

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # the client's own uploads


def checks(verified: verification.Verified) -> dict[str, bool]:
    return {check.what: check.ok for check in verified.checks}


def test_verify_prints_a_table_or_json(here: Here, run: Run) -> None:
    code, out, err = run("verify", "--all")
    assert (code, err) == (0, "")
    assert out.count(" ok ") == 12
    data = json.loads(run("verify", NAME, "--json")[1])
    assert [c["what"] for c in data[0]["checks"]] == ["bytes", "config", "tensors", "parameters", "outputs", "card"]
    assert here.hub.seen == []
    for arguments in (("verify",), ("verify", NAME, "--all"), ("verify", "nothing")):
        assert run(*arguments)[0] == 2


def test_a_model_without_weights_is_refused_before_any_is_checked(
    here: Here, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = registry.find(OTHER)
    monkeypatch.setattr(registry, "find", lambda name: replace(entry, name=name, weights=None))
    monkeypatch.setattr(verification, "verify", lambda *_, **__: pytest.fail("looked at"))
    code, _, err = run("verify", NAME, OTHER)
    assert (code, f"These models have no weights to verify: {NAME}, {OTHER}." in err) == (1, True)


def test_other_weights_than_those_of_the_golden_outputs_fail(here: Here) -> None:
    network = load(here.card, device="cpu")
    with torch.no_grad():
        network.head.bias[0] += 1e-2
    loading.save(network, here.card)
    files = {name: pinned(here.card / name) for name in PINNED}
    lock.pin(NAME, Pin(repo=REPO, files=files))
    found = checks(verification.verify(NAME, log=here.logged.append))
    assert [what for what, ok in found.items() if not ok] == ["outputs", "card"]


def test_a_stale_card_and_wrong_counts_fail(here: Here) -> None:
    with (here.card / "README.md").open("a") as file:
        file.write("More.")
    counts = {name: count.model_copy(update={"parameters": 7}) for name, count in lock.load_lock().counts.items()}
    lock.update(lambda old: old.model_copy(update={"counts": counts}))
    found = checks(verification.verify(NAME, log=here.logged.append))
    assert [what for what, ok in found.items() if not ok] == ["parameters", "card"]


@pytest.mark.parametrize("change", [
    lambda files: files.pop("config.json"), lambda files: files.update({tensors.FILE: b"other"}),
    lambda files: files.update({tensors.FILE: files[tensors.FILE][:-1] + b"!"}),
    lambda files: files.update({"config.json": files["config.json"][:-1] + b"!"}),
], ids=["missing", "another size", "another content", "another content of a small file"])  # fmt: skip
def test_a_remote_with_other_bytes_fails(here: Here, run: Run, change: Callable[[dict[str, bytes]], object]) -> None:
    assert (
        checks(verification.verify(NAME, remote=True, log=here.logged.append))["remote"] is False
    )  # no commit is pinned yet
    commit = pushing.push([NAME], here.push_options())[0].commit
    assert checks(verification.verify(NAME, remote=True, log=here.logged.append))["remote"]
    change(here.hub.repos[REPO].commits[commit])
    code, out, _ = run("verify", NAME, "--remote")
    assert code == 1
    assert "Do not trust http" in out


def test_the_remote_check_knows_a_model_that_was_released_again(here: Here, run: Run) -> None:
    assert f"{NAME} was never pushed" in " ".join(run("verify", NAME, "--remote")[1].split())
    pushing.push([NAME], here.push_options())
    pin = registry.find(NAME).required_pin("push")
    lock.put(weights={NAME: pin.followed_by(pin.files)}, counts={})
    assert "was released again after its last push" in " ".join(run("verify", NAME, "--remote")[1].split())


def test_f32_a_figure_that_differs_when_measured_again_fails(here: Here, run: Run) -> None:
    code, out, _ = run("verify", NAME, "--metrics")
    assert code == 0, out
    (before,) = results.for_model(NAME).evaluations
    better = before.model_copy(update={"value": before.value + 0.002})
    results.write(here.card, results.Results(evaluations=(better,)))
    (here.card / "README.md").write_text(cards.render(registry.find(NAME)))
    code, out, err = run("verify", NAME, "--metrics")
    assert code == 1
    assert re.search(
        r"metrics +FAILED +Some figures differ from the recorded figures: test accuracy .* recorded .* they differ by 0\.002; 0\.001 is allowed",
        out,
    )
    assert "failed verification" in err
    for kept, words in (
        (
            (before.model_copy(update={"dataset_sha256": {"x": "0" * 64}}),),
            "the data differ from those of the recorded figure",
        ),
        ((), f"{NAME} has no recorded figure. To measure and record one: rnnzoo eval {NAME} --record"),
    ):
        results.write(here.card, results.Results(evaluations=kept))
        code, out, _ = run("verify", NAME, "--metrics")
        assert (code, words in out) == (1, True)


def test_the_remote_check_fails_offline(here: Here, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    pushing.push([NAME], here.push_options())
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    here.hub.seen.clear()
    code, out, _ = run("verify", NAME, "--remote")
    assert (code, "The Hub was not asked, because HF_HUB_OFFLINE is set" in out) == (1, True)
    assert here.hub.requests() == []


def test_rounding_of_a_network_that_amplifies_differences() -> None:
    interface = Interface(input=(2,), steps=300, outputs=3, readout="last")
    network = build(
        Config(architecture=Architecture(cell="rnn", layers=1, units=64), interface=interface), device="cpu"
    )
    assert golden.rounding(network) < 1e-5
    with torch.no_grad():
        network.get_parameter("layers.0.directions.0.cell.recurrent.weight").mul_(3)
    assert golden.rounding(network) > 0.1


def test_golden_outputs_hold_for_every_scan_and_refuse_other_networks(here: Here, tmp_path: Path) -> None:
    network, path = load(here.card, device="cpu"), here.card / golden.FILE
    before = path.read_bytes()
    golden.write(network, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == before
    for backend in ("plain", "auto"):
        network.backend = backend
        off, allowed = golden.deviation(network, path)
        assert off < allowed / 10
    other = build(OTHER, device="cpu")
    assert golden.deviation(other, path)[0] > 0.01
    parts = read_tensors(path)
    for name, value in (
        ("output", parts["output"][:, :3].clone()),
        ("input", parts["input"][..., :3].clone()),
        ("tolerance", torch.ones(2)),
    ):
        write_tensors(tmp_path / "odd", {**parts, name: value})
        with pytest.raises(CheckpointError):
            golden.deviation(network, tmp_path / "odd")
    write_tensors(tmp_path / "odd", {"output": parts["output"]})
    with pytest.raises(CheckpointError, match="its tensors must be input, lengths, output and tolerance"):
        golden.deviation(network, tmp_path / "odd")


def failed(run: Run, what: str, *flags: str) -> str:
    """The text of a failed check of `rnnzoo verify`."""
    code, out, _ = run("verify", NAME, *flags, "--json")
    rows = {check["what"]: check for check in json.loads(out)[0]["checks"]}
    assert (code, rows[what]["ok"]) == (1, False)
    return rows[what]["text"]


def test_parameters_are_compared_with_the_results(here: Here, run: Run) -> None:
    training = results.read(ROOT / "cards" / "rnn-1x128-mnist-rows").training  # of a larger network
    results.write(here.card, results.for_model(NAME).model_copy(update={"training": training}))
    assert f"results.json says {training.parameters:,}" in failed(run, "parameters")


def test_every_recorded_figure_is_measured_again(here: Here, run: Run) -> None:
    (right,) = results.for_model(NAME).evaluations
    wrong = right.model_copy(update={"value": right.value + 0.002})
    for kept in ((wrong, right), (right, wrong)):
        results.write(here.card, results.Results(evaluations=kept))
        failed(run, "metrics", "--metrics")


def test_verify_hashes_every_copy_once_and_loads_once(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[Path] = []
    loaded: list[object] = []
    sha256, assemble = files.sha256, loading.assemble
    for module in (files, digests):
        monkeypatch.setattr(module, "sha256", lambda path: (hashed.append(path), sha256(path))[1])
    monkeypatch.setattr(
        loading, "assemble", lambda *args, **options: (loaded.append(args), assemble(*args, **options))[1]
    )
    assert verification.verify(NAME, log=here.logged.append).ok
    assert sorted(path.name for path in hashed) == sorted(PINNED)
    assert len(loaded) == 1
    hashed.clear()
    assert verification.verify(NAME, metrics=True, log=here.logged.append).ok
    assert [path.name for path in hashed].count(tensors.FILE) == 1


def test_every_copy_is_checked(here: Here, run: Run) -> None:
    here.publish(keep=True)
    sources.pull(Reference.parse(NAME), replace(here.pull_options, force=True))
    file = here.card / tensors.FILE  # what the cache has is whole
    flip(file)
    assert str(file) in failed(run, "bytes")


def test_the_deviation_of_small_outputs_is_absolute(tmp_path: Path) -> None:
    network = build("rnn-1x128-mnist-rows", device="cpu").eval()
    with torch.no_grad():
        network.head.weight *= 0.1
    golden.write(network, tmp_path / golden.FILE)
    parts = read_tensors(tmp_path / golden.FILE)
    assert parts["output"].abs().max() < 0.9
    write_tensors(tmp_path / "odd", {**parts, "output": parts["output"] + 0.01})
    assert golden.deviation(network, tmp_path / "odd")[0] == pytest.approx(0.01, rel=1e-2)
