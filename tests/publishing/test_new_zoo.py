"""`rnnzoo init`: a zoo of one's own that works at once, and releases into it."""

import json
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
from small import clear_caches

from zoo import build, load, registry
from zoo.cells import CELLS, FEEDFORWARD, own
from zoo.checkpoints import results
from zoo.errors import RegistryError
from zoo.networks import golden
from zoo.publishing import cards, lattices, package
from zoo.publishing.new_zoo import FILES, MODEL, create
from zoo.publishing.starters import PICTURE
from zoo.registry import lock, reader
from zoo.registry.schema import Pin
from zoo.training.evaluation import evaluate, record
from zoo.training.trainer import train
from zoo.utils import paths

Run = Callable[..., tuple[int, str, str]]
WHOLE = "model.safetensors", "config.json"
"""The files that a pin has at least."""


@pytest.fixture
def new_zoo(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A zoo that `rnnzoo init` wrote, in use."""
    root = tmp_path / "zoo"
    code, out, err = run("init", str(root))
    assert (code, out.split()) == (0, [str(root / name) for name in FILES])
    assert f"export RNNZOO_ROOT={root}, then rnnzoo train {MODEL}" in err
    monkeypatch.setattr(paths, "ROOT", root)
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.setattr(lattices, "RUNS", 2)
    monkeypatch.chdir(tmp_path)
    clear_caches()
    return root


@pytest.mark.parametrize("task", registry.list_tasks())
def test_a_zoo_can_begin_with_any_task_of_the_package(task: str, tmp_path: Path) -> None:
    files, model = create(tmp_path / "zoo", task)
    assert [path.relative_to(tmp_path / "zoo").as_posix() for path in files] == ["registry.yaml", "cards/lock.json"]
    theirs, ours = registry.load_registry(), reader.read(files[0])
    assert ours.all_tasks == {task: theirs.all_tasks[task]}
    (name,) = ours.models
    assert name == model
    mine = ours.models[name]
    originals = [model for model in theirs.models.values() if model.task == task and model.recipe == mine.recipe]
    assert mine.architecture in [model.architecture for model in originals]
    assert ours.recipes[mine.recipe].settings == theirs.recipes[mine.recipe].settings
    dataset, digests = theirs.all_tasks[task].dataset, lock.read(files[1]).datasets
    assert ours.datasets[dataset] == theirs.datasets[dataset].model_copy(update={"sha256": {}})
    assert digests.get(dataset, {}) == theirs.datasets[dataset].sha256


def test_the_commands_of_a_zoo_with_a_task_of_the_package(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, name = tmp_path / "zoo", "gru-1x128-mnist-rows"
    assert run("init", str(root), "--task", "no-rows")[0] == 2
    assert not root.exists()
    code, _, err = run("init", str(root), "--task", "mnist-rows")
    assert (code, f"then rnnzoo train {name}" in err) == (0, True)
    assert f"rnnzoo eval runs/{name} --record" in (root / "registry.yaml").read_text(encoding="utf-8")
    checkpoint = paths.path("cards", name)
    monkeypatch.setattr(paths, "ROOT", root)
    clear_caches()
    assert run("list")[1].split()[-1] == "-"  # no weights
    assert run("eval", str(checkpoint), "--limit", "50", "--device", "cpu")[0] == 0  # on MNIST's test images


def test_the_study_of_the_page_on_training_can_be_added(new_zoo: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    study = page.partition("```yaml\n")[2].partition("```")[0]
    file = new_zoo / "registry.yaml"
    file.write_text(file.read_text(encoding="utf-8") + study.partition("studies:\n")[2], encoding="utf-8")
    clear_caches()
    assert set(registry.list_models("*x64-*")) == {
        f"{cell}-{layers}x64-waves" for cell in ("lstm", "star") for layers in (1, 4)
    }


def test_the_data_of_the_page_on_training_can_be_added(
    new_zoo: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    section = page.partition("## Data of your own")[2]
    code, entries = (section.partition(f"```{kind}\n")[2].partition("```")[0] for kind in ("python", "yaml"))
    (new_zoo / "series.py").write_text(code, encoding="utf-8")
    add(entries, new_zoo)
    random = numpy.random.default_rng(0)
    arrays = {}
    for name, n in (("train", 300), ("validation", 60), ("test", 60)):
        y, lengths = random.integers(3, size=n), random.integers(20, 101, size=n)
        x = random.normal(y[:, None, None] - 1, 1, (n, 100, 6)) * (numpy.arange(100) < lengths[:, None])[..., None]
        arrays |= {f"x_{name}": x, f"y_{name}": y, f"lengths_{name}": lengths}
    monkeypatch.setenv("RNNZOO_DATA", str(tmp_path / "data"))
    (tmp_path / "data" / "series").mkdir(parents=True)
    numpy.savez(tmp_path / "data" / "series" / "series.npz", **arrays)
    code_, _, err = run("train", "gru-1x32-series", "--out", "run", "--device", "cpu")
    assert (code_, "rnnzoo release series" in err) == (1, True)
    assert run("release", "series")[0] == 0
    assert run("train", "gru-1x32-series", "--out", "run", "--device", "cpu")[0] == 0
    assert json.loads(run("eval", "run", "--record", "--device", "cpu", "--json")[1])["value"] > 0.9
    numpy.savetxt(tmp_path / "wrist.csv", arrays["x_test"][0][: arrays["lengths_test"][0]], delimiter=",")
    answer = json.loads(run("predict", "run", str(tmp_path / "wrist.csv"), "--device", "cpu", "--json")[1])
    assert answer["classes"][0]["class"] == ("walking", "running", "resting")[arrays["y_test"][0]]
    sys.modules.pop("series", None)


def test_the_cell_of_the_page_on_training_can_be_added(
    new_zoo: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    section, name = page.partition("## A cell of your own")[2], "leaky-1x32-waves"
    code, entries = (section.partition(f"```{kind}\n")[2].partition("```")[0] for kind in ("python", "yaml"))
    (new_zoo / "leaky.py").write_text(code, encoding="utf-8")
    add(entries, new_zoo)
    assert "leaky network" in run("list", "--cells", "leaky")[1]
    assert "h_t = a h_{t-1}" in run("show", "leaky")[1]
    assert run("train", name, "--out", "run", "--device", "cpu")[0] == 0
    assert json.loads(run("eval", "run", "--record", "--device", "cpu", "--json")[1])["value"] > 0.8
    assert run("release", "run")[0] == 0
    assert run("verify", name)[0] == 0
    recorded = results.for_model(name)
    results.write(tmp_path / "run", results.read(tmp_path / "run").model_copy(update={"evaluations": ()}))
    assert run("release", "run")[0] == 0  # of the same weights, without a figure
    assert results.for_model(name).evaluations == recorded.evaluations != ()
    assert run("export", "run", "--format", "pt2")[0] == 0
    clear_caches()  # as in a new process, which has not read the registry when it reads the checkpoint
    own.declare({})
    assert load("run").config.architecture.options == {"leak": 0.9}
    clear_caches()
    own.declare({})
    assert registry.list_models(cell="leaky") == [name]
    assert build("bileaky-2x4", inputs=3, outputs=2).layers[0].forward_direction.cell.leak == 0.5
    monkeypatch.setattr(paths, "ROOT", paths.PACKAGED_ROOT)
    clear_caches()
    assert len(registry.list_cells()) == len(CELLS) + len(FEEDFORWARD)
    assert "leaky" not in CELLS
    sys.modules.pop("leaky", None)


@pytest.mark.parametrize(("old", "new", "words"), [
    ("path: leaky:Leaky", "path: nowhere:Leaky", "cell nowhere:Leaky cannot be imported .No module named 'nowhere'.. Correct the `path` that names it"),
    ("path: leaky:Leaky", "path: waves:Waves", "cell waves:Waves is not a subclass of zoo.cells.base.Cell"),
    ("path: leaky:Leaky", "path: leaky", r":\d+:\d+: cells.leaky.path: must have the form"),
    ("high: 1", "high: 0.5", "option 'leak' is 0.9; it must be a finite number from 0 to 0.5"),
    ("{leak: {low: 0, high: 1}}", "{leak: {}, gain: [a, b]}", "cell leaky:Leaky has no argument 'gain'"),
    ("options: {leak:", "properties: [nice], options: {leak:", r"cells.leaky: nice: not among the properties"),
    ("paper: mine", "paper: yours", r"cells.leaky.paper: No paper is called 'yours'"),
    ("leaky: {path", "rnn: {path: leaky:Leaky, title: t, paper: mine}\n  leaky: {path", "cells.rnn: there is a cell called 'rnn' already"),
])  # fmt: skip
def test_a_faulty_cell_is_refused(new_zoo: Path, run: Run, old: str, new: str, words: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    section = page.partition("## A cell of your own")[2]
    code, entries = (section.partition(f"```{kind}\n")[2].partition("```")[0] for kind in ("python", "yaml"))
    (new_zoo / "leaky.py").write_text(code, encoding="utf-8")
    assert old in entries
    add(entries.replace(old, new), new_zoo)
    sys.modules.pop("leaky", None)
    code_, _, err = run("train", "leaky-1x32-waves", "--out", str(new_zoo / "run"), "--device", "cpu")
    assert (code_, "Traceback" in err) == (2, False)
    assert re.search(words, err)


@pytest.mark.parametrize(("code", "words"), [
    ("def broken(:", "SyntaxError in .*leaky.py, line 1: "), ("\n1 / 0", "ZeroDivisionError in .*leaky.py, line 2: division by zero"),
    ("import sys\nsys.exit(3)", "SystemExit in .*leaky.py, line 2: 3"),
])  # fmt: skip
def test_a_fault_in_a_module_of_ones_own_is_named(new_zoo: Path, run: Run, code: str, words: str) -> None:
    (new_zoo / "leaky.py").write_text(code, encoding="utf-8")
    add("cells:\n  leaky: {path: leaky:Leaky, title: leaky network, paper: mine}\npapers:\n"
        "  mine: {title: M, authors: Me, year: 2026, url: 'https://example.com'}\n", new_zoo)  # fmt: skip
    sys.modules.pop("leaky", None)
    status, _, err = run("show", "leaky")
    assert (status, "Traceback" in err) == (2, False)
    assert re.search(rf"leaky:Leaky cannot be imported \({words}.*\)\. Correct that module\.", err, re.S), err


def add(entries: str, folder: Path) -> None:
    """Add sections of YAML to a zoo's registry.yaml, below the sections of these names that it has."""
    file = folder / "registry.yaml"
    text = file.read_text(encoding="utf-8")
    for section in re.findall(r"^\w+:\n(?: .*\n)+", entries, re.MULTILINE):
        text, found = re.subn(rf"^{section.partition(chr(10))[0]}( {{}}.*)?\n", section, text, flags=re.MULTILINE)
        assert found == 1
    file.write_text(text, encoding="utf-8")
    clear_caches()


def test_a_new_zoo_trains_releases_verifies_and_can_be_pushed(
    new_zoo: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MODEL in run("list")[1]
    for seed in ("0", "1"):
        options = ("--device", "cpu", "--epochs", "1", "--seed", seed)
        assert run("train", MODEL, "--out", seed, *options)[0] == 0
    assert run("eval", "0", "--record", "--device", "cpu")[0] == 0
    code, out, err = run("release", "0")
    assert (code, out) == (0, f"{new_zoo / 'cards' / MODEL}\n")
    assert err == f"Pinned in cards/lock.json. Next: rnnzoo verify {MODEL}\n"
    code, out, _ = run("verify", MODEL, "--metrics", "--json")
    assert (code, json.loads(out)[0]["ok"]) == (0, True)
    sent = package.pack(registry.find(MODEL)).files
    assert {"README.md", "model.safetensors", "results.json", PICTURE} <= set(sent)
    with monkeypatch.context() as patched:  # who knows another zoo reads the names of the classes, too
        patched.setattr(paths, "ROOT", paths.PACKAGED_ROOT)
        clear_caches()
        assert load(new_zoo / "cards" / MODEL, device="cpu").classes == ("sine", "square", "sawtooth")
        assert registry.find("gru-1x128-fsdd").config.interface.classes is None
    clear_caches()

    released = {path: path.read_bytes() for path in (new_zoo / "cards").rglob("*") if path.is_file()}
    with monkeypatch.context() as patched:
        patched.setattr(golden, "TOLERANCE", 0.0)  # as if rounding changed the outputs
        code, _, err = run("release", "0")
    assert (code, "no other machine could verify these weights" in err) == (1, True)
    assert {path: path.read_bytes() for path in released} == released
    assert run("release", "0")[0] == 0  # the same run again
    code, _, err = run("release", "1")
    assert code == 2
    assert "has a released run already (seed 0, 1 of 1 epoch, accuracy" in err
    assert (
        "holds another run (seed 1, 1 of 1 epoch, not measured). Nothing was changed. To replace the released run: --force"
        in err
    )
    assert {path: path.read_bytes() for path in released} == released
    Path("1").rename(MODEL)  # a folder is a folder, even if a model has its name
    code, _, err = run("release", MODEL, "--force")
    assert (code, f"Next: rnnzoo eval {MODEL} --record, then rnnzoo verify {MODEL}" in err) == (0, True)
    assert run("eval", MODEL, "--record", "--device", "cpu")[0] == 0
    assert run("verify", MODEL)[0] == 0  # the card has the new figure


def test_a_card_states_the_licence_that_its_registry_gives(new_zoo: Path) -> None:
    file = new_zoo / "registry.yaml"
    assert "license" not in cards.render(registry.find(MODEL))
    file.write_text(f"license: mit\n{file.read_text()}")
    clear_caches()
    assert "\nlicense: mit\n" in cards.render(registry.find(MODEL))


def test_a_zoo_with_a_namespace_is_loaded_and_pushed_by_it(
    small_zoo: Callable[..., Path], run: Run, tmp_path: Path
) -> None:
    file = small_zoo({"epochs": 1}) / "registry.yaml"
    file.write_text(json.dumps({**json.loads(file.read_text()), "namespace": "some-one"}))
    clear_caches()
    model = "rnn-1x8-mnist-rows"
    assert f'load("{model}", pretrained=False)' in cards.render(registry.find(model))
    assert run("train", model, "--out", str(tmp_path), "--device", "cpu")[0] == 0
    assert run("release", str(tmp_path))[0] == 0
    clear_caches()
    entry = registry.find(model)
    assert entry.required_pin("push").repo == f"some-one/{model}"
    assert f'load("hf://some-one/{model}")' in cards.render(entry)
    file.write_text(file.read_text().replace("some-one", "some/one"))
    clear_caches()
    with pytest.raises(RegistryError, match="namespace"):
        registry.load_registry()


def test_the_question_before_a_run_is_replaced(
    small_zoo: Callable[..., Path], run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from rnnzoo_cli import publishing

    small_zoo({"epochs": 1})
    monkeypatch.setattr(lattices, "RUNS", 2)
    model = "rnn-1x8-mnist-rows"
    for seed in ("0", "1"):
        assert run("train", model, "--out", str(tmp_path / seed), "--device", "cpu", "--seed", seed)[0] == 0
    assert run("release", str(tmp_path / "0"))[0] == 0
    questions: list[str] = []
    for answer in (False, True):
        monkeypatch.setattr(publishing, "ask", lambda text, answer=answer: [questions.append(text), answer][1])
        assert run("release", str(tmp_path / "1"))[0] == (0 if answer else 2)
    assert all(question.endswith("not measured). Replace it?") for question in questions)
    assert len(questions) == 2


def test_init_overwrites_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "waves.py").write_text("mine")
    code, _, err = run("init", str(tmp_path))
    assert (code, "has waves.py already" in err) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["waves.py"]
    code, _, err = run("init", str(tmp_path / "waves.py"))
    assert (code, "is a file, not a folder" in err) == (2, True)


def test_a_new_zoo_needs_none_of_our_papers(new_zoo: Path) -> None:
    assert "star" not in (new_zoo / "registry.yaml").read_text().partition("studies:")[0]
    assert reader.read(new_zoo / "registry.yaml").papers["star"].year == 2019


def test_a_card_has_the_mean_over_the_seeds_of_one_recipe(
    small_zoo: Callable[..., Path], run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = small_zoo({"epochs": 1})
    monkeypatch.setattr(lattices, "RUNS", 2)
    model, options = "rnn-1x8-mnist-rows", ("--device", "cpu")
    values = []
    for seed, more in ((0, ()), (1, ()), (2, ()), (3, ("--batch-size", "8")), (4, ())):
        folder = str(tmp_path / f"seed-{seed}")
        assert run("train", model, "--out", folder, "--seed", str(seed), *options, *more)[0] == 0
        if seed == 4:  # neither measured nor finished; the one before has another recipe
            recorded = results.read(Path(folder))
            diverged = recorded.training.model_copy(update={"diverged": 1})
            results.write(Path(folder), recorded.model_copy(update={"training": diverged}))
        else:
            values.append(json.loads(run("eval", folder, "--record", "--json", *options)[1])["value"])
    mean, spread = 100 * statistics.mean(values[:3]), 100 * statistics.stdev(values[:3])
    for seed, flags in ((1, ("--results",)), (1, ()), (0, ("--results",))):  # the last adds to what is published
        assert run("release", str(tmp_path / f"seed-{seed}"), *flags)[0] == 0
        card = (root / "cards" / model / "README.md").read_text()
        assert f"| measured, test, mean of 3 seeds | {mean:.2f} % ± {spread:.2f} % |" in card
    assert "the weights are those of seed 1" in card
    assert "variation over seeds" not in card
    assert "The run with seed 4 diverged." in card


def test_a_release_keeps_the_other_pins_and_leaves_out_what_is_not_finished(
    small_zoo: Callable[..., Path], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_zoo({"epochs": 2, "collapse": {"epochs": 2, "loss": 5.0}})
    monkeypatch.setattr(lattices, "RUNS", 2)
    name, file = "rnn-1x8-mnist-rows", {"sha256": "a" * 64, "size": 1}
    lock.pin("star-1x2-t", Pin.model_validate({"repo": "o/n", "files": dict.fromkeys(WHOLE, file)}))
    for seed in (0, 1, 2):
        folder, stop = tmp_path / f"seed-{seed}", 1 if seed == 2 else None
        training = train(registry.find(name), folder, device="cpu", overrides={"seed": seed}, stop_after=stop)
        record(folder, evaluate(folder, device="cpu"))
        if seed == 1:
            dead = tuple(row.model_copy(update={"validation_loss": 9.0}) for row in training.history)
            collapsed = training.model_copy(update={"history": dead})
            results.write(folder, results.read(folder).model_copy(update={"training": collapsed}))
    code, _, err = run("release", str(tmp_path / "seed-0"))
    assert (code, "finishes it" in err) == (0, False)
    found = results.for_model(name)
    assert [e.seed for e in found.other_seeds] == [1]
    assert found.collapsed_seeds == (1,)
    assert set(lock.read(paths.path(*lock.FILE)).weights) == {name, "star-1x2-t"}
    code, _, err = run("release", str(tmp_path / "seed-2"), "--force")
    assert (code, "The run has 1 of 2 epochs. The command that trained it" in err) == (0, True)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Split(waves, classes,", "Split(waves, classes[1:],", "has 2,000 examples, but 1,999 targets"),
        ("Split(waves, classes,", "Split(waves, classes.int(),", "must be torch.int64"),
        (
            "Split(waves, classes,",
            "Split(waves, torch.full_like(classes, -100),",
            "has no target: each is NaN or IGNORED",
        ),
        (
            "Split(waves, classes,",
            "Split(waves, classes + 1,",
            "has classes from 1 to 3; the task has the 3 classes from 0",
        ),
        ("Split(waves, classes,", "Split(waves, classes[:, None],", "targets of shape (2000, 1); this task's are (n)"),
        ("raw[..., None]", "raw", "becomes x of shape (1, 50); this task's is (n, time, 1)"),
        ("Split(waves, classes,", "Split(waves.numpy(), classes,", "raw of the type ndarray; they must be a tensor"),
        ("prepare=", "lengths=torch.ones(3), prepare=", "but 3 lengths"),
        (
            "Split(waves,",
            "Split(torch.cat([waves, waves], 1),",
            "has a sequence of 100 time steps; the task's `steps`, the longest, is 50",
        ),
        (
            "prepare=",
            "lengths=torch.full((len(waves),), 70), prepare=",
            "has a sequence of 70 time steps; the task's `steps`, the longest, is 50",
        ),
        (
            "return waves + 0.3",
            "waves[7] = torch.nan\n    return waves + 0.3",
            "gradient clipping (max_grad_norm). Example 7 of these data has a number that is infinite or NaN.",
        ),
        ("(TaskData)", "", "not a subclass of zoo.data.base.TaskData"),
        ("import hashlib", "import hashlib, pandaz", "Install what its module imports"),
        ("class Waves", "class Waving", "Correct the `family` that names it"),
    ],
)
def test_data_of_ones_own_that_do_not_fit_say_so(new_zoo: Path, run: Run, old: str, new: str, words: str) -> None:
    file = new_zoo / "waves.py"
    file.write_text(file.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    sys.modules.pop("waves", None)
    code, _, err = run("train", MODEL, "--out", "0", "--device", "cpu")
    sys.modules.pop("waves", None)
    assert (code, words in err) == (1, True), err
