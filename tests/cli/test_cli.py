"""The command line: stdout and stderr, exit codes, JSON, completion, and commands that must not import torch."""

import hashlib
import io
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from rnnzoo_cli import main as cli
from rnnzoo_cli import output
from rnnzoo_cli.doctor import Finding, report
from small import TRAIN, VALIDATION

from zoo import load, registry
from zoo.cells import CELLS, ROWS
from zoo.checkpoints import figures, results
from zoo.checkpoints.hub import settings
from zoo.diagnostics import ANALYSES, benchmark
from zoo.errors import BenchmarkError
from zoo.exports import onnx
from zoo.exports.formats import FORMATS
from zoo.publishing import cards
from zoo.training.evaluation import BATCH_SIZE
from zoo.utils import paths, provenance
from zoo.utils.version import __version__

NAME = "rnn-1x8-mnist-rows"
"""The model of small_zoo."""
REGISTERED = "gru-1x128-mnist-rows"
Zoo = Callable[..., Path]
Run = Callable[..., tuple[int, str, str]]
VERBS = [verb for verb in cli.VERBS if verb != "cache"]  # a group of commands


def test_list_shows_every_model_and_filters(run: Run) -> None:
    code, out, err = run("list")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:]] == list(registry.models())
    code, out, _ = run("list", "star-*", "--task", "pmnist", "--json")
    rows = json.loads(out)
    assert {(row["cell"], row["task"]) for row in rows} == {("star", "pmnist")}
    assert next(row for row in rows if row["name"] == "star-16x64-pmnist")["parameters"] == 191_242
    code, out, _ = run("list", "--cell", "gru", "--task", "mnist-rows", "--json")
    assert [(row["name"], row["weights"]) for row in json.loads(out)] == [
        ("gru-1x128-mnist-rows", True), ("gru-4x128-mnist-rows", False),
    ]  # fmt: skip
    assert run("list", "--cell", "lstm-peephole", "--pretrained", "--json")[:2] == (0, "[]\n")


def test_list_without_a_match_is_empty(run: Run) -> None:
    code, out, err = run("list", "nothing-*", "--json")
    assert (code, json.loads(out)) == (0, [])
    assert "No model matches" in err
    code, out, err = run("list", "star-16x64-pmnist", "typo-name", "--json")
    assert (code, [row["name"] for row in json.loads(out)]) == (0, ["star-16x64-pmnist"])
    assert "No model is called 'typo-name'." in err


def test_trained_and_untrained_are_all(run: Run) -> None:
    trained, untrained = (json.loads(run("list", flag, "--json")[1]) for flag in ("--pretrained", "--no-pretrained"))
    assert len(trained) + len(untrained) == len(registry.models())


def test_show(run: Run) -> None:
    code, out, _ = run("show", "star-16x64-pmnist")
    assert code == 0
    assert "191,242" in out
    assert "92.4 %, Table 1 of Turkoglu" in out
    out = run("show", str(paths.path("cards", "star-16x64-pmnist")))[1]
    assert re.search(r"layers +16\n *units +64\n *input +784 steps of 1\n.* +last, 10 outputs\n", out, re.DOTALL)
    assert "star-mnist-halves: adam" in out
    assert run("show", str(paths.path("cards")))[0] == 1  # has no config.json
    data = json.loads(run("show", "star-16x64-pmnist", "--json")[1])
    assert data["architecture"]["units"] == 64
    assert data["task"]["name"] == "pmnist"
    assert data["reported"] == [{"paper": "star", "table": "Table 1", "percent": 92.4, "nats": None, "split": "test"}]


@pytest.mark.parametrize("verb", ["show", "pull", "eval", "train", "card", "bench"])
def test_an_unknown_name_gets_near_matches_and_exit_code_2(run: Run, verb: str) -> None:
    code, out, err = run(verb, "star-16x64-pmnst")
    assert (code, out) == (2, "")
    kind = "model or cell" if verb == "show" else "model"
    assert err.startswith(f"rnnzoo: No {kind} is called 'star-16x64-pmnst'. Did you mean star-16x64-pmnist")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("request_", "words"),
    [("nothing", "No such command"), ("list --task mnits", "'mnits'"), ("eval", "Missing argument"),
     ("eval gru-1x128-mnist-rows --limit 0", "--limit"), ("train gru-1x128-mnist-rows --epochs -1", "--epochs"),
     ("eval rnn-1x128-smnist --limit 5 --record", "Only whole splits"), ("list --cell sta", "'sta'"),
     ("bench rnn-1x128-smnist --against tensorflow", "tensorflow"), ("bench rnn-1x128-smnist --device toaster", "toaster"),
     ("bench rnn-1x128-smnist --against torchrecurrent", "no counterpart"), ("bench rnn-1x128-smnist --rounds 0", "--rounds"),
     ("bench rnn-1x50-toxic-short", "tokens"), ("bench rin-1x100-babi-01", "tokens"),
     ("train rnn-1x128-smnist --gpus-per-job 1", "several models"), ("train rnn-1x128-smnist --threads-per-job 2", "several models")],
)  # fmt: skip
def test_wrong_requests_exit_with_2(run: Run, request_: str, words: str) -> None:
    code, out, err = run(*request_.split())
    assert (code, out) == (2, "")
    assert words in err


def test_help_contains_no_markup() -> None:
    """Rich would take words in brackets for styles and drop them."""
    todo, texts = [typer.main.get_command(cli.app)], []
    while todo:
        command = todo.pop()
        texts += [command.help or "", *(getattr(part, "help", None) or "" for part in command.params)]
        todo += [command.get_command(None, name) for name in getattr(command, "commands", {})]
    assert len(texts) > 100
    assert [text for text in texts if "[" in text] == []


@pytest.mark.parametrize("verb", ["pull", "eval"])
def test_a_model_without_weights_says_how_to_train_it(run: Run, verb: str) -> None:
    code, _, err = run(verb, "rnn-12x128-smnist")
    assert code == 1
    assert "rnnzoo train rnn-12x128-smnist" in err


@pytest.mark.parametrize("verb", ["pull", "verify"])
def test_a_pattern_of_models_without_weights_fails_as_their_names_do(run: Run, verb: str) -> None:
    code, _, err = run(verb, "rnn-12x128-*")
    assert (code, "No model that matches 'rnn-12x128-*' has weights" in err) == (1, True)
    assert run(verb, "rnn-13x128-*")[0] == 2  # there are none


@pytest.mark.parametrize("error", [
    MemoryError(), MemoryError("There is not enough memory for the C++ scan."), torch.OutOfMemoryError("CUDA out of memory."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory"),
])  # fmt: skip
def test_running_out_of_memory_is_reported_without_a_traceback(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("zoo.training.evaluation.evaluate", fail)
    code, out, err = run("eval", REGISTERED)
    assert (code, out) == (1, "")
    assert "There is not enough memory. Smaller inputs or batches (--batch-size, --examples) need less." in err
    assert "Traceback" not in err


def test_any_other_error_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr("zoo.training.evaluation.evaluate", fail)
    monkeypatch.setattr(sys, "argv", ["rnnzoo", "eval", REGISTERED])
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        cli.main()


def test_characters_outside_the_encoding_of_stdout_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    monkeypatch.setattr(sys, "argv", ["rnnzoo", "inspect", "star-1x4", "--runs", "2", "--steps", "3"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    sys.stdout.flush()
    assert not ended.value.code
    assert re.search(rb"layer 1 +[.:*#]+\n", written.getvalue())
    assert b"?" not in written.getvalue()


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell, which closes them")
def test_verbs_work_with_stdout_and_stderr_closed() -> None:
    program = f"{shlex.quote(sys.executable)} -m rnnzoo_cli"
    for arguments, closed, code in (("list star-16x64*", ">&-", 0), ("show nothing", ">&- 2>&-", 2)):
        done = subprocess.run(["sh", "-c", f"{program} {arguments} {closed}"], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["rnnzoo", "--debug", "show", "nothing"])
    with pytest.raises(KeyError, match="No model or cell is called 'nothing'"):
        cli.main()


def test_counts_of_a_users_own_zoo_are_computed(run: Run, small_zoo: Zoo) -> None:
    small_zoo(layer_norm=True)
    parameters = 28 * 8 + 8 * 8 + 8 + 2 * 2 * 8 + 8 * 10 + 10
    assert json.loads(run("show", NAME, "--json")[1])["parameters"] == parameters
    assert [row["parameters"] for row in json.loads(run("list", "--json")[1])] == [parameters]


def test_train_eval_record_card(run: Run, small_zoo: Zoo, tmp_path: Path) -> None:
    """The life of a checkpoint: trained, measured, recorded, released, described."""
    small_zoo()
    out = tmp_path / "run"
    code, text, err = run("train", NAME, "--out", str(out), "--device", "cpu", "--epochs", "2")
    assert code == 0
    assert "2 epochs, the best by validation loss is epoch 2" in text
    assert err.count("validation loss") == 2
    code, text, err = run("eval", str(out), "--limit", "50", "--device", "cpu", "--batch-size", "20", "--json")
    result = json.loads(text)
    assert (code, result["n"], result["task"], result["seed"]) == (0, 50, "mnist-rows", 0)
    code, text, err = run("eval", str(out), "--record", "--device", "cpu")
    assert code == 0
    recorded = results.read(out)
    assert recorded.training is not None
    assert recorded.training.overrides == {"epochs": 2}
    evaluation = recorded.measured()
    assert evaluation is not None
    assert evaluation.n == 10_000
    assert evaluation.command == f"rnnzoo eval runs/{out.name} --record --device cpu"
    run("eval", str(out), "--record", "--device", "cpu")
    assert len(results.read(out).evaluations) == 1
    code, text, err = run("release", str(out))
    assert (code, Path(text.strip()).name) == (0, NAME)
    assert err.endswith(f"Next: rnnzoo verify {NAME}\n")
    card = paths.path("cards", NAME, "README.md")
    assert card.read_text() == run("card", NAME)[1]
    card.unlink()
    code, text, err = run("card", NAME, "--write")
    assert (code, err) == (0, f"Wrote {card}\n")
    assert card.read_text() == text == run("card", NAME)[1]
    assert json.loads(run("card", NAME, "--json")[1]) == {"name": NAME, "card": text}
    assert run("export", NAME, "--format", "pt2", "--pin")[0] == 0
    exported = card.with_name(f"{NAME}.pt2")
    assert exported.exists()
    assert run("release", str(out), "--force")[0] == 0
    assert not exported.exists()  # it was of the weights before


def test_eval_does_not_depend_on_the_batch_size(run: Run, small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    run("train", NAME, "--out", str(tmp_path / "run"), "--device", "cpu", "--epochs", "1")
    values = []
    for batch in ("1", "7", "100", str(10**20)):
        _, out, _ = run(
            "eval", str(tmp_path / "run"), "--limit", "100", "--batch-size", batch, "--device", "cpu", "--json"
        )
        values.append((json.loads(out)["value"], round(json.loads(out)["loss"], 4)))
    assert len(set(values)) == 1


def test_an_unusable_device_exits_with_2(run: Run, small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    code, _, err = run("train", NAME, "--out", str(tmp_path / "run"), "--device", "toaster")
    assert code == 2
    assert "'toaster' cannot be used. Give cpu, cuda, cuda:1 or mps." in err


def test_an_interrupted_run_exits_with_130_and_keeps_its_state(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 3000})
    command = [sys.executable, "-m", "rnnzoo_cli", "train", NAME, "--out", str(tmp_path / "run"), "--device", "cpu"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "epoch 1/3000" in process.stderr.readline()
    process.send_signal(2)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert err.endswith("Interrupted. The same command continues the training.\n")
    assert (tmp_path / "run" / "training.safetensors").exists()


def test_bench_prints_a_table_and_json(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    measured, measure = [], benchmark.measure
    monkeypatch.setattr(benchmark, "failure", lambda half, device: f"not by {half.library}")

    def once(*arguments: Any, **options: Any) -> Any:
        measured.append(measured[0] if measured else measure(*arguments, **options))
        return measured[0]

    monkeypatch.setattr(benchmark, "measure", once)
    model = "rin-1x100-mnist-rows"
    common = ("bench", model, "--rounds", "1", "--batch-size", "2", "--threads", "1", "--device", "cpu", "--bf16")
    code, out, err = run(*common, "--against", "torch", "--json")
    names = [
        "rnnzoo rin", "rnnzoo rin, plain", "torch.nn.LSTM, flushed", "matrix products of rin", "rnnzoo rin, bfloat16",
    ]  # fmt: skip
    assert "torch.nn.LSTM, flushed, bfloat16 is left out: not by torch\n" in err
    assert f"bench {model}: 5 contenders, a warm-up and 1 round; 28 steps, batch 2, threads: 1" in err
    assert "a round takes" in err
    data = json.loads(out)
    assert (code, data["model"], data["rounds"], data["machine"]["threads"]) == (0, model, 1, 1)
    assert [row["contender"] for row in data["contenders"]] == names
    assert [row["precision"] for row in data["contenders"]] == ["no"] * 4 + ["bf16"]
    first = data["contenders"][0]
    assert set(first["ratio"].values()) == {1.0}
    assert set(first["seconds"]) == {"forward", "forward + backward", "streamed step"}
    code, out, _ = run(*common, "--against", "torch")
    header, *rows = out.splitlines()
    assert code == 0
    assert header.split("  ")[-1].strip() == "PEAK MEMORY"
    assert [row[: header.index("FORWARD")].strip() for row in rows] == names


def test_bench_names_peers_that_are_not_installed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark.contenders, "installed", lambda library: library == "torch")
    code, out, err = run("bench", "star-4x128-mnist-rows", "--against", "torchrecurrent")
    assert (code, out) == (2, "")
    assert "torchrecurrent, which is not installed. Try: pip install 'rnnzoo[bench]'" in err
    seen = []

    def measure(field: list[benchmark.Contender], *rest: object) -> None:
        seen.extend(field)
        raise BenchmarkError("that is enough")

    monkeypatch.setattr(benchmark, "measure", measure)
    code, _, err = run("bench", "star-4x128-mnist-rows")
    assert code == 1
    assert {contender.library for contender in seen} == {"rnnzoo", "torch", "products"}
    assert "torchrecurrent is not installed and left out" in err


def test_doctor(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, err = run("doctor")
    assert (code, err) == (0, "")
    lines = {line.split("  ")[0]: line for line in out.splitlines()[1:] if not line.startswith(" ")}
    assert {"python", "torch", "rnnzoo", "processor", "C++ scans", "Triton scans", "extra train", "cache"} <= set(lines)
    data = json.loads(run("doctor", "--json")[1])
    assert {row["what"] for row in data} == set(lines)
    assert {row["status"] for row in data} <= {"ok", "missing"}
    long = [Finding("C++ scans", "word " * 40, "missing", "install g++ and run pip install it"), Finding("a", "b")]
    *lines, last = report(long).splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(lines[1:]).split() == ["C++", "scans", "missing", *["word"] * 40, "->", *long[0].fix.split()]
    assert last.split() == ["a", "b"]
    monkeypatch.setitem(sys.modules, "torch", None)
    code, out, err = run("doctor")
    assert code == 1
    assert "pip install --force-reinstall torch" in out


def test_completion_offers_model_names() -> None:
    environment = {
        **os.environ, "_RNNZOO_COMPLETE": "complete_bash", "COMP_WORDS": "rnnzoo show star-16x64", "COMP_CWORD": "2",
    }  # fmt: skip
    program = str(Path(sys.executable).parent / "rnnzoo")
    done = subprocess.run([program], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["star-16x64-pmnist", "star-16x64-smnist"]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["list"], ["show", "star-16x64-pmnist"], ["list", "--json"], ["export", "--list"]]
)
def test_metadata_verbs_never_import_torch(arguments: list[str]) -> None:
    code = f"""
import sys
sys.argv = {["rnnzoo", *arguments]!r}
from rnnzoo_cli.main import main
try:
    main()
except SystemExit as stopped:
    assert not stopped.code, stopped.code
assert not {{"torch", "huggingface_hub", "accelerate", "numpy", "http.server"}} & set(sys.modules), sorted(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_and_json(run: Run, verb: str) -> None:
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert "--json" in out


def test_the_help_of_predict_names_every_kind_of_file(run: Run) -> None:
    text = run("predict", "--help")[1].lower()
    shown = " ".join(text.replace("│", " ").split())  # without the frame and its line breaks
    assert all(kind in shown for kind in ("image", "text", "wav file", "numbers"))


def test_former_verbs_and_options_work_but_are_not_shown(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    for former, verb in (("login-status", "whoami"), ("adopt", "release")):
        assert run(former, "--help")[1].replace(former, verb).split() == run(verb, "--help")[1].split()
        assert former not in run("--help")[1]
    assert run("adopt", str(tmp_path), "--results")[0] == run("release", str(tmp_path), "--results")[0] == 1
    assert "gc" not in run("cache", "--help")[1]
    freed = {"removed": [], "bytes": 0, "dry_run": True}
    for verb in ("gc", "prune"):
        assert json.loads(run("cache", verb, "--dry-run", "--json")[1]) == freed
    assert "--what" not in run("inspect", "--help")[1]
    common = ("inspect", "star-1x4", "--json")
    outputs = [json.loads(run(*common, option, "eigenvalues")[1]) for option in ("--what", "--analysis")]
    assert outputs[0] == outputs[1]
    assert outputs[0]["analysis"] == "eigenvalues"


def test_release_pins_the_files_of_a_dataset(run: Run, small_zoo: Zoo) -> None:
    root = small_zoo()
    path = root.parent / "data" / "mnist" / "train-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:8] + bytes(TRAIN + VALIDATION))
    code, out, err = run("release", "mnist", "--json")
    assert (code, "Pinned 4 files of mnist in cards/lock.json" in err) == (0, True)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    data = json.loads(out)
    assert (data["dataset"], data["sha256"][path.name]) == ("mnist", digest)
    assert json.loads((root / "cards" / "lock.json").read_text())["datasets"]["mnist"] == data["sha256"]
    assert registry.find(NAME).dataset.sha256[path.name] == digest
    assert run("release", "mnist")[1].splitlines().count(f"{digest}  {path.name}") == 1
    code, out, err = run("release", "mnist", "--results")
    assert (code, out, "mnist is a dataset" in err) == (2, "", True)


def test_an_unknown_verb_gets_near_matches(run: Run) -> None:
    assert "Did you mean 'list'" in run("lst")[2]


def test_defaults_in_help_texts_are_those_that_apply(run: Run) -> None:
    assert f"(default: {settings.TIMEOUT:g})" in run("show", "--help")[1]
    export, eval_, train, list_ = (
        " ".join(run(verb, "--help")[1].split()) for verb in ("export", "eval", "train", "list")
    )
    assert f"(default: {onnx.DEFAULT_OPSET})" in export
    assert all(re.search(rf"\b{name}\b", text) for name in FORMATS for text in (export, eval_))
    assert f"(default: {BATCH_SIZE})" in eval_
    assert all(re.search(rf"\b{name}\b", train) for name, row in ANALYSES.items() if row.epoch)
    assert "(default: the registry's `namespace`)" in list_


def test_version(run: Run) -> None:
    assert run("--version")[:2] == (0, f"rnnzoo {__version__}\n")


def test_a_recorded_command_has_no_path_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    argv = ["/usr/local/bin/rnnzoo", "train", NAME, "--out", str(tmp_path / "mine"), "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", argv)
    assert provenance.command() == f"rnnzoo train {NAME} --out runs/mine --device cpu"
    monkeypatch.setattr(sys, "argv", ["rnnzoo", "eval", f"{tmp_path / 'mine'}/"])
    assert provenance.command() == "rnnzoo eval runs/mine"
    monkeypatch.setattr(sys, "argv", [*argv[:3], f"--out={tmp_path / 'mine'}", "--device=cpu"])
    assert provenance.command() == f"rnnzoo train {NAME} --out=runs/mine --device=cpu"
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "rnnzoo_cli" / "__main__.py"), "list"])
    assert provenance.command() == "rnnzoo list"


def test_a_users_own_weights_are_not_compared_with_a_published_figure(run: Run, tmp_path: Path) -> None:
    network = load("lstm-1x128-pmnist", device="cpu")
    network.reset_head(10)
    network.save_pretrained(tmp_path / "mine")
    arguments = ("--limit", "20", "--device", "cpu")
    code, out, _ = run("eval", str(tmp_path / "mine"), *arguments)
    assert (code, "reported" in out) == (0, False)
    assert out.startswith(str(tmp_path / "mine"))
    assert "reported" in run("eval", "lstm-1x128-pmnist", *arguments)[1]


def test_options_of_train_replace_settings_of_the_recipe(run: Run, small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo()
    options = ("--epochs", "1", "--batch-size", "40", "--seed", "7")
    assert run("train", NAME, "--out", str(tmp_path / "run"), "--device", "cpu", *options)[0] == 0
    training = results.read(tmp_path / "run").training
    assert training.overrides == {"epochs": 1, "batch_size": 40, "seed": 7}
    assert (training.epochs_done, training.recipe.batch_size, training.recipe.seed) == (1, 40, 7)


def test_list_and_show_print_the_numbers_of_the_card(run: Run) -> None:
    name = "star-16x64-pmnist"
    count, data = cards.counts(name), json.loads(run("show", name, "--json")[1])
    assert (data["parameters"], data["multiply_adds"]) == (count.parameters, count.multiply_adds)
    (row,) = json.loads(run("list", name, "--json")[1])
    assert row["reported_percent"] == [92.4]


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["show", "STAR-16x64-PMNIST"], "Did you mean star-16x64-pmnist?"),
        (["show", "lstm-5x128"], "Did you mean lstm-"),
        (["list", "--task", "mnist"], "Did you mean smnist or pmnist or "),
        (["compare", "--paper", "nothing"], "There are: antisymmetric, "),
    ],
)
def test_an_unknown_name_finds_what_was_meant(run: Run, arguments: list[str], meant: str) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert meant in err


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["show", "nothing"], "UnknownNameError"),
        (["list", "--task", "nothing"], "UnknownNameError"),
        (["list", "--no-such-option"], "NoSuchOption"),
        (["eval"], "MissingParameter"),
        (["eval", "rnn-1x128-mnist-rows", "--limit", "many"], "BadParameter"),
    ],
)
def test_under_json_an_error_is_an_object_on_stdout(run: Run, arguments: list[str], kind: str) -> None:
    code, out, err = run(*arguments, "--json")
    assert code == run(*arguments)[0] == 2
    error = json.loads(out)["error"]
    assert error["code"] == kind
    assert err == f"rnnzoo: {error['message']}\n"


def test_models_are_sorted_by_figure_size_and_cost(run: Run) -> None:
    def column(order: str, key: str) -> list[float]:
        rows = json.loads(run("list", "--task", "pmnist", "--sort", order, "--json")[1])
        return [row[key] for row in rows if row[key] is not None]

    accuracies, sizes = column("accuracy", "measured"), column("parameters", "parameters")
    assert accuracies == sorted(accuracies, reverse=True)
    assert sizes == sorted(sizes)
    rows = json.loads(run("list", "--task", "adding-200", "--sort", "accuracy", "--json")[1])
    errors = [row["measured"] for row in rows if row["measured"] is not None]
    assert errors == sorted(errors)  # of an error the lowest is the best


def test_the_measured_figure_of_a_model_without_weights_is_the_mean_of_its_runs(run: Run) -> None:
    several = {
        name: figures.test_figures(name) for name in registry.list_models() if len(figures.test_figures(name)) > 1
    }
    rows = {row["name"]: row for row in json.loads(run("list", "--json")[1])}
    for name, values in several.items():
        own = values[:1] if registry.find(name).weights else values
        assert (rows[name]["measured"], rows[name]["runs"]) == (pytest.approx(sum(own) / len(own)), len(own))
    assert "58.91 % ± 39.09 %" in run("list", "rhn-2x32-pmnist-196")[1]
    assert "58.91 % ± 39.09 % (3 runs, 1 collapsed), 3 seeds" in run("show", "rhn-2x32-pmnist-196")[1]
    assert re.search(r"over seeds +[0-9.]+ % ± [0-9.]+ %, mean of \d seeds", run("show", "star-1x128-mnist-rows")[1])


def test_speed_is_an_order(run: Run) -> None:
    first = json.loads(run("list", "--task", "pmnist", "--sort", "speed", "--json")[1])[0]["name"]
    costs = {name: registry.load_lock().counts[name].multiply_adds for name in registry.list_models(task="pmnist")}
    assert costs[first] == min(costs.values())


def test_every_cell_is_listed_with_what_it_is(run: Run) -> None:
    rows = json.loads(run("list", "--cells", "--json")[1])
    assert [row["cell"] for row in rows] == sorted(ROWS)
    assert all(row["title"] and row["paper"] for row in rows)
    assert sum(row["models"] for row in rows) == len(registry.models())
    assert [line.split()[0] for line in run("list", "--cells", "min[gl]*")[1].splitlines()] == [
        "CELL",
        "mingru",
        "minlstm",
    ]
    assert run("list", "--cells", "--task", "pmnist")[0] == 2


def test_every_task_is_listed_with_what_it_is(run: Run) -> None:
    rows = json.loads(run("list", "--tasks", "--json")[1])
    assert [row["task"] for row in rows] == sorted(registry.load_registry().all_tasks)
    assert all(row["title"] and row["metric"] for row in rows)
    assert sum(row["models"] for row in rows) == len(registry.models())
    assert run("list", "--tasks", "js*")[1].splitlines()[1].startswith("jsb ")
    assert "No task matches" in run("list", "--tasks", "nothing")[2]
    for more in ("--cells",), ("--task", "pmnist"), ("--property", "linear"):
        assert run("list", "--tasks", *more)[0] == 2


def test_a_misspelt_cell_is_recognised(run: Run) -> None:
    code, _, err = run("show", "sttar")
    assert (code, "Did you mean star" in err) == (2, True)


def test_a_misspelt_model_is_not_compared_with_nothing(run: Run) -> None:
    code, _, err = run("compare", "star-16x64-pmnst")
    assert (code, "Did you mean star-16x64-pmnist" in err) == (2, True)
    assert run("compare", "star-16x64-*nothing")[0] == 0


def test_a_figure_that_is_no_percentage_is_in_the_json(run: Run) -> None:
    (row,) = json.loads(run("list", "lstm-2x128-nottingham", "--json")[1])
    assert row["reported"] == "3.29 nats"


@pytest.mark.parametrize(
    ("options", "key", "names"),
    [((), "name", registry.list_models), (("--cells",), "cell", registry.list_cells), (("--tasks",), "task", registry.list_tasks)],
    ids=["models", "cells", "tasks"],
)  # fmt: skip
def test_a_list_takes_several_patterns_and_patterns_to_leave_out(
    run: Run, options: tuple[str, ...], key: str, names: Any
) -> None:
    def listed(*arguments: str) -> list[str]:
        return [row[key] for row in json.loads(run("list", "--json", *options, *arguments)[1])]

    both = listed("s*", "g*", "--exclude", "*a*", "--exclude", "*u*")
    assert both == names(["s*", "g*"], exclude=["*a*", "*u*"]) != []
    assert both == [name for name in listed() if name[0] in "sg" and not set(name) & set("au")]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("export", "--list", "star-*", "--pin"), "--list writes no file"),
        (("show", "mlp"), "mlp is feed-forward"),
        (("release", "runs/nowhere"), "There is no folder runs/nowhere"),
        (("release", "mnist", "--force"), "mnist is a dataset, but --force is for the folder of a run"),
        (("site", "--port", "1"), "--port is for --serve"),
    ],
)
def test_what_would_be_ignored_is_refused(run: Run, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out, words in err) == (2, "", True)


def test_a_taken_port_is_found_before_the_work(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = run("site", "--out", str(tmp_path / "site"), "--serve", "--port", str(taken.getsockname()[1]))
    assert (code, "cannot be used" in err, (tmp_path / "site").exists()) == (2, True, False)


def test_a_generated_text_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output.stream("\x1b[2J", ["a\n", "\x07"])
    assert capsys.readouterr().out == "?[2Ja\n?\n"


def test_cells_are_chosen_by_their_properties(run: Run) -> None:
    def cells(*options: str) -> list[str]:
        return [row["cell"] for row in json.loads(run("list", "--cells", "--json", *options)[1])]

    assert cells("--property", "orthogonal") == registry.list_cells(properties=["orthogonal"]) != []
    both = set(cells("--property", "linear")) & set(cells("--property", "gated"))
    assert set(cells("--property", "linear", "--property", "gated")) == both != set()
    assert set(cells("--pretrained")) | set(cells("--no-pretrained")) == set(ROWS)
    assert set(cells("--pretrained")) == {
        registry.models()[name].cell for name in registry.list_models(pretrained=True)
    }
    assert run("list", "--cells", "--property", "fast")[0] == 2
    assert run("list", "--property", "linear")[0] == 2


def test_a_cell_is_shown_with_what_is_known_of_it(run: Run) -> None:
    shown = json.loads(run("show", "star", "--json")[1])
    assert (shown["states"], shown["parameters"], shown["scan"]) == (["h"], "n^2 + 2 n d + 2 n", "fused, plain")
    assert shown["options"] == {"shift": "a finite number from -1e+30 to 1e+30 (default: 0.0)"}
    assert "star-16x64-pmnist" in shown["with_weights"]
    text = run("show", "star")[1]
    assert "tanh((1 - k) h_{t-1} + k z)" in text
    assert "Turkoglu et al. 2019" in text


def test_several_models_are_compared_side_by_side(run: Run) -> None:
    names = ["star-16x64-pmnist", "lstm-4x128-pmnist", "rhn-16x128-pmnist"]
    code, out, err = run("compare", *names, names[0], "--json")
    assert (code, err) == (0, "")
    rows = json.loads(out)
    assert [row["name"] for row in rows] == names
    counts = registry.load_lock().counts
    sizes = [(row["parameters"], row["multiply_adds"]) for row in rows]
    assert sizes == [(counts[name].parameters, counts[name].multiply_adds) for name in names]
    assert run("compare", "star-*-pmnist", "lstm-4x128-pmnist")[1].splitlines()[-1].startswith("lstm-4x128-pmnist ")
    assert "MULTIPLY-ADDS" in run("compare", *names)[1]
    code, _, err = run("compare", names[0], "lstm-4x128-pmnits")
    assert (code, "Did you mean lstm-4x128-pmnist" in err) == (2, True)
    assert run("compare", *names, "--paper", "star")[0] == 2


def test_a_reported_zero_is_remarked_upon(run: Run) -> None:
    assert "0 % (the paper does not explain it), Table 3" in run("show", "rhn-12x128-pmnist")[1]


def test_a_cell_of_a_table_stays_on_its_line() -> None:
    table = output.columns(("NAME",), [("a\nVerified: all\u202e\x1b[2J",)])
    assert table == "NAME\na Verified: all??[2J"


def test_an_interruption_during_the_imports_leaves_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "rnnzoo_cli", "list"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_error_of_the_system_names_the_file_first(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path, *arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(Path, "mkdir", refuse)
    code, _, err = run("export", "rnn-1x128-mnist-rows", "--format", "onnx", "--out", "/nowhere/folder")
    assert (code, err) == (1, "rnnzoo: /nowhere/folder: Permission denied\n")


def test_a_file_in_the_way_of_a_folder_is_a_wrong_request(run: Run) -> None:
    code, _, err = run("export", "rnn-1x128-mnist-rows", "--format", "onnx", "--out", "/dev/null/folder")
    assert (code, "/dev/null is not a folder, so no file can be exported to /dev/null/folder" in err) == (2, True)


@pytest.mark.parametrize("file", ["nowhere.png", "/dev/null/digit.png"])
def test_a_missing_file_is_a_wrong_request(run: Run, file: str) -> None:
    code, _, err = run("predict", "rnn-1x128-mnist-rows", file)
    assert (code, err) == (2, f"rnnzoo: There is no file {file!r}. Check the path.\n")


@pytest.mark.parametrize(("file", "what"), [("/", "a folder. Give a file."), ("/dev/zero", "a pipe or a device.")])
def test_what_is_no_file_is_a_wrong_request(run: Run, file: str, what: str) -> None:
    code, _, err = run("predict", "rnn-1x128-mnist-rows", file)
    assert (code, f"{file} is {what}" in err) == (2, True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize(
    ("arguments", "streams"), [("show nosuch --json", ">/dev/full"), ("show nosuch", "2>/dev/full")]
)
def test_an_error_that_cannot_be_written_keeps_its_exit_code(arguments: str, streams: str) -> None:
    program = f"{shlex.quote(sys.executable)} -m rnnzoo_cli {arguments} {streams}"
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


def test_a_cell_is_shown_however_it_is_written(run: Run) -> None:
    assert run("show", "LSTM") == run("show", "lstm")
    assert not set(CELLS) & set(registry.models())


def test_progress_is_told_once_a_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(output, "MESSAGE_SECONDS", -1)
    with output.progress("pull star") as bar:
        bar(1, 20)
        bar(2, 20, "MB")
    assert capsys.readouterr().err == "pull star: 1/20\npull star: 2/20 MB\n"


def test_only_what_runs_is_told_again(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with output.board("train x*") as show:
        for _ in range(2):
            show({"xa": ("running", "epoch 1/2"), "xb": ("waiting", ""), "xc": ("done", "")})
            now[0] += output.MESSAGE_SECONDS + 1
    told = capsys.readouterr().err.splitlines()
    assert told == ["xa: running, epoch 1/2", "xc: done", "xa: running, epoch 1/2"]


def test_an_error_of_the_system_without_a_file_has_its_words_alone(run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zoo.training.evaluation.evaluate", fail)
    code, _, err = run("eval", "rnn-1x128-mnist-rows", "--device", "cpu")
    assert (code, err.splitlines()[-1]) == (1, "rnnzoo: No space left on device")


@pytest.mark.parametrize("arguments", ["--help", "eval --help", "list"])
def test_a_closed_pipe_is_no_failure(arguments: str) -> None:
    command = f"{sys.executable} -m rnnzoo_cli {arguments} | true; echo ${{PIPESTATUS[0]}}"
    shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (shown.stdout, shown.stderr) == ("0\n", "")


def test_the_lines_of_a_help_text_are_wrapped_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = [line.strip() for line in run("compare", "--help")[1].splitlines()]
    start = lines.index(next(line for line in lines if line.startswith("One pattern or none")))
    paragraph = lines[start : lines.index("", start)]
    assert all(len(line) > 40 for line in paragraph[:-1]), paragraph
