"""The index of models in the lock: equal to the registry, ignored once stale, and enough for listing and completion."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zoo import registry
from zoo.checkpoints import figures, results
from zoo.errors import CheckpointError
from zoo.registry import catalogue, index, lock
from zoo.utils import paths

Zoo = Callable[..., Path]
NAME = "rnn-1x8-mnist-rows"


def test_the_index_is_what_the_registry_says() -> None:
    indexed = index.read()
    assert indexed is not None
    assert list(indexed) == list(registry.models())
    for name, row in indexed.items():
        entry = registry.find(name)
        assert (row.cell, row.task, row.target) == (entry.model.cell, entry.model.task, entry.task.target)
        percents = [figure.percent for figure in entry.model.reported]
        assert row.reported_percent == tuple(percent for percent in percents if percent is not None)
        assert (row.reported_text, row.pretrained) == (entry.model.reported_text, entry.weights is not None)
        assert row.parameters == registry.load_lock().counts[name].parameters


def test_a_zoo_without_an_index_is_read_from_its_registry(small_zoo: Zoo) -> None:
    small_zoo()
    assert index.read() is None
    assert registry.summaries() == {
        NAME: index.Summary("rnn", "mnist-rows", "class", (), None, pretrained=False, parameters=None)
    }


def test_an_index_of_another_registry_is_not_used(small_zoo: Zoo) -> None:
    path = small_zoo() / "registry.yaml"
    lock.update(lambda old: old.model_copy(update={"index": catalogue.build_index()}))
    assert index.read() == registry.summaries() != {}
    path.write_text(path.read_text().replace("rnn-1x8-", "irnn-1x8-").replace('"cell": "rnn"', '"cell": "irnn"'))
    registry.clear_caches()
    assert index.read() is None
    assert list(registry.summaries()) == [f"i{NAME}"]


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"index": 3}', b'{"index": {"registry_sha256": "x"}}', None])
def test_a_damaged_index_is_left_to_the_strict_readers(small_zoo: Zoo, content: bytes | None) -> None:
    path = small_zoo() / "cards" / "lock.json"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert index.read() is None


def test_figures_are_those_of_the_strict_reader() -> None:
    values = {name: figures.test_figures(name) for name in registry.models()}
    runs = {name: results.for_model(name).over_seeds() for name in values}
    assert values == {name: tuple(evaluation.value for evaluation in each) for name, each in runs.items()}
    assert sum(map(bool, values.values())) > 200
    assert any(results.for_model(name).lost_first for name, several in values.items() if len(several) > 1)


def test_figures_of_files_that_other_programs_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = json.loads(paths.path("cards", "star-16x64-pmnist", "results.json").read_bytes())
    value = content["evaluations"][0]["value"]
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    path = tmp_path / "cards" / NAME / "results.json"
    path.parent.mkdir(parents=True)
    for text in (json.dumps(content), json.dumps(dict(reversed(content.items())), indent=1)):
        path.write_text(text)
        assert figures.test_figures(NAME) == (value,)
    for row in content["evaluations"]:
        row["split"] = "train"
    path.write_text(json.dumps(content, indent=1))
    assert figures.test_figures(NAME) == ()
    for damaged in ("{", json.dumps({**content, "evaluations": [{"split": "test"}]}, indent=1)):
        path.write_text(damaged)
        with pytest.raises(CheckpointError, match=r"results\.json"):
            figures.test_figures(NAME)


@pytest.mark.parametrize(
    "arguments", [["list"], ["show", "star-16x64"], ["pull", "star-16x64"], ["train", "star-16x64"]]
)
def test_listing_and_completing_read_no_registry(arguments: list[str]) -> None:
    code = f"""
import os, sys
sys.argv = ["rnnzoo"{', "list"' if arguments == ["list"] else ""}]
from rnnzoo_cli.main import main
try:
    main()
except SystemExit as stopped:
    assert not stopped.code, stopped.code
heavy = {{"zoo.registry.schema", "yaml", "rich", "huggingface_hub", "torch", "numpy"}} & set(sys.modules)
assert not heavy, heavy
"""
    words = " ".join(["rnnzoo", *arguments])
    completing = {"_RNNZOO_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "2"}
    environment = {**os.environ, **(completing if arguments != ["list"] else {})}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "star-16x64-pmnist" in done.stdout
