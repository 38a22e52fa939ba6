"""Training many: one process each, failures apart, interruption, resumption, skipping; here and on a Ray cluster."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rnnzoo_cli import many
from rnnzoo_cli.output import board
from small import clear_caches

from zoo import registry
from zoo.checkpoints import results
from zoo.errors import RequestError, TrainingError
from zoo.training import jobs
from zoo.training.trainer import train
from zoo.utils.files import exclusive_lock

Zoo = Callable[..., Path]
Run = Callable[..., tuple[int, str, str]]
NAMES = [f"{cell}-1x8-mnist-rows" for cell in ("gru", "irnn", "rnn")]
PATTERN = "*-1x8-mnist-rows"


@pytest.fixture
def three(small_zoo: Zoo) -> Callable[..., None]:
    """A small zoo of three models, of which the second diverges if `bad`."""

    def make(recipe: dict[str, Any] | None = None, bad: bool = False) -> None:
        path = small_zoo(recipe) / "registry.yaml"
        data = json.loads(path.read_text())
        study = data["studies"]["small"]
        study["recipes"]["bad"] = {**study["recipes"]["small"], "optimizer": {"name": "sgd", "lr": 1e30}}
        model = study["models"]["rnn-1x8-mnist-rows"]
        for name, kind in zip(NAMES, ("small", "bad" if bad else "small", "small"), strict=True):
            study["models"][name] = {**model, "cell": name.partition("-")[0], "recipe": kind}
        path.write_text(json.dumps(data))
        clear_caches()

    return make


def epochs_done(folder: Path) -> int:
    training = jobs.stored_training(folder)
    return training.epochs_done if training else 0


def test_the_failure_of_one_does_not_stop_the_others(run: Run, three: Callable[..., None], tmp_path: Path) -> None:
    three(bad=True)
    out = str(tmp_path / "runs")
    code, text, _ = run("train", f"[!i]{PATTERN}", "--out", out, "--device", "cpu", "--stop-after", "1", "--json")
    assert code == 0
    assert [(r["name"], r["state"], r["epochs_done"]) for r in json.loads(text)] == [
        (NAMES[0], "done", 1),
        (NAMES[2], "done", 1),
    ]
    code, text, err = run("train", PATTERN, "--jobs", "2", "--out", out, "--device", "cpu", "--json")
    rows = json.loads(text)
    assert code == 1
    assert [(r["name"], r["state"], r["exit_code"], r["epochs_done"]) for r in rows] == [
        (NAMES[0], "done", 0, 3), (NAMES[1], "failed", 1, 0), (NAMES[2], "done", 0, 3),
    ]  # fmt: skip
    assert "diverged in step" in rows[1]["text"]
    assert f"1 of 3 runs failed: {NAMES[1]}. " in err
    assert f"{NAMES[0]}: running" in err
    assert f"{NAMES[1]}: failed, irnn-1x8-mnist-rows diverged" in err
    log = (tmp_path / "runs" / NAMES[0] / jobs.LOG).read_text()
    command = f"$ rnnzoo train {NAMES[0]} --out {out}/{NAMES[0]} --device cpu"
    assert [line for line in log.splitlines() if line.startswith("$")] == [f"{command} --stop-after 1", command]
    assert log.count("validation loss") == 5  # of three epochs, and what makes an epoch the best of its run
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob(f"runs/{NAMES[0]}/*")}
    code, text, _ = run("train", PATTERN, "--out", out, "--device", "cpu")
    assert code == 1
    assert [line.split()[1] for line in text.splitlines()[1:]] == ["skipped", "failed", "skipped"]
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob(f"runs/{NAMES[0]}/*")}


def test_a_run_that_cannot_be_started_is_one_failure(tmp_path: Path) -> None:
    class Full(jobs.LocalProcesses):
        def start(self, job: jobs.TrainingJob) -> None:
            raise OSError(28, "No space left on device")

    job = jobs.TrainingJob("a", tmp_path / "a", ("true",), {})
    state = jobs.run([job], Full(1))["a"]
    assert (state.phase, state.exit_code) == ("failed", 1)
    assert "No space left" in state.text


def test_every_job_gets_what_the_command_line_changes(
    run: Run, three: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three()
    seen: list[jobs.TrainingJob] = []

    def done(todo: Sequence[jobs.TrainingJob], *rest: object) -> dict[str, jobs.JobState]:
        seen.extend(todo)
        return {job.name: jobs.JobState("done") for job in todo}

    monkeypatch.setattr(jobs, "run", done)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RNNZOO_DATA", "data")
    given = ("--epochs", "2", "--batch-size", "40", "--seed", "3")
    assert run("train", PATTERN, "--out", str(tmp_path), *given)[0] == 0
    assert [job.arguments for job in seen] == [("train", name, "--out", str(tmp_path / name), *given) for name in NAMES]
    assert {job.environment["RNNZOO_DATA"] for job in seen} == {str(tmp_path / "data")}
    seen.clear()
    monkeypatch.setattr(many, "_cores", lambda: 12)
    assert run("train", PATTERN, "--out", str(tmp_path), "--jobs", "8")[0] == 0  # of three runs
    assert {job.environment["OMP_NUM_THREADS"] for job in seen} == {"4"}


def test_modules_in_the_present_folder_are_not_imported(
    run: Run, three: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three({"epochs": 1})
    (tmp_path / "random.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    assert run("train", NAMES[0], "--jobs", "1", "--out", "runs", "--device", "cpu")[0] == 0


def test_interrupted_they_all_save_and_go_on_later(run: Run, three: Callable[..., None], tmp_path: Path) -> None:
    three({"epochs": 100})
    out = tmp_path / "runs"
    arguments = ["train", "[gi]*-rows", "--jobs", "2", "--out", str(out), "--device", "cpu"]
    command = [sys.executable, "-m", "rnnzoo_cli", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        wait_for(lambda: epochs_done(out / NAMES[0]) and epochs_done(out / NAMES[1]), process)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert [line.split()[:2] for line in text.splitlines()[1:]] == [[name, "stopped"] for name in NAMES[:2]]
    assert (out / NAMES[0] / "training.safetensors").exists()
    assert run(*arguments)[0] == 0
    train(registry.find(NAMES[0]), tmp_path / "whole", device="cpu")
    weights = (tmp_path / "whole" / "model.safetensors").read_bytes()
    assert weights == (out / NAMES[0] / "model.safetensors").read_bytes()


def wait_for(happened: Callable[[], Any], process: subprocess.Popen[str], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children of their parent's death")
def test_runs_do_not_outlive_what_started_them(three: Callable[..., None], tmp_path: Path) -> None:
    three({"epochs": 5000})
    folder = tmp_path / "runs" / NAMES[0]
    command = [sys.executable, "-m", "rnnzoo_cli", "train", NAMES[0], "--jobs", "1", "--out", str(tmp_path / "runs")]
    with subprocess.Popen([*command, "--device", "cpu"], stderr=subprocess.DEVNULL, text=True) as process:
        wait_for(lambda: epochs_done(folder), process)
        process.kill()
    before, deadline = -1, time.monotonic() + 60
    while before != (now := epochs_done(folder)) and time.monotonic() < deadline:
        before = now
        time.sleep(4)
    assert before == now < 5000


class Scripted:
    """Workers that do nothing, and report exit codes."""

    slots: int | None = 2

    def __init__(self, codes: dict[str, int]):
        self.codes, self.going, self.most, self.stops = codes, list[jobs.TrainingJob](), 0, 0

    def start(self, job: jobs.TrainingJob) -> None:
        self.going.append(job)
        self.most = max(self.most, len(self.going))
        job.log.write_text(f"$ rnnzoo train {job.name}\ntrain {job.name}: 1/2 epoch 1/2\n\n")

    def ended(self) -> Sequence[tuple[jobs.TrainingJob, int, str]]:
        over, self.going = self.going[:1], self.going[1:]
        return [(job, self.codes[job.name], "") for job in over]

    def stop(self) -> None:
        self.stops += 1


@pytest.mark.parametrize(("given", "threads"), [((), "5"), (("--jobs", "2"), "2"), (("--threads-per-job", "3"), "3")])
def test_cores_are_shared(
    run: Run,
    three: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: Sequence[str],
    threads: str,
) -> None:
    three()
    seen: list[jobs.TrainingJob] = []
    monkeypatch.setattr(many, "_cores", lambda: 5)
    monkeypatch.setattr(
        many.jobs, "run", lambda todo, *rest: seen.extend(todo) or {j.name: jobs.JobState("done") for j in todo}
    )
    assert run("train", PATTERN, "--out", str(tmp_path / "runs"), *given)[0] == 0
    assert [job.name for job in seen] == NAMES
    assert {job.environment["OMP_NUM_THREADS"] for job in seen} == {threads}


def test_a_job_that_is_interrupted_while_it_starts_has_stopped(tmp_path: Path) -> None:
    """Before Python sees to SIGINT, the signal kills the process."""
    workers, job = jobs.LocalProcesses(1), jobs.TrainingJob("a", tmp_path, ("train", "a"), {})
    for number, code in ((signal.SIGINT, jobs.INTERRUPTED), (signal.SIGKILL, -signal.SIGKILL)):
        process = subprocess.Popen(["sh", "-c", f"trap - INT; kill -{number.value} $$"])
        process.wait()
        workers.running.append((job, process))
        assert workers.ended() == [(job, code, "")]


def test_a_job_on_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a task of a Ray cluster does there, and what becomes of it, without a cluster."""
    job = jobs.TrainingJob("a", tmp_path / "a", ("train", "a"), {})
    with pytest.raises(TrainingError, match="but not on"):
        jobs._run_task(job)
    job.folder.mkdir()
    job.log.touch()
    for code, outcome in ((0, 0), (1, 1), (None, jobs.INTERRUPTED)):
        state = jobs.JobState("done", text="so", exit_code=code)
        monkeypatch.setattr(jobs, "run", lambda todo, workers, state=state: {todo[0].name: state})
        assert jobs._run_task(job) == (outcome, "so")
    locked, state = ExitStack(), jobs.JobState("done", text="so", exit_code=0)
    locked.enter_context(exclusive_lock(job.folder))  # as by an earlier try, which saves its state
    monkeypatch.setattr(jobs, "run", lambda todo, workers: {todo[0].name: state} if released.is_set() else {})
    released = threading.Event()
    threading.Timer(0.3, lambda: (released.set(), locked.close())).start()
    assert jobs._run_task(job) == (0, "so")
    state = jobs.JobState("failed", text="killed by signal 9", exit_code=-9)
    monkeypatch.setattr(jobs, "run", lambda todo, workers: {todo[0].name: state})
    with pytest.raises(jobs.KilledError, match="a was killed by signal 9 in the last of 6 tries"):
        jobs._run_task(job)


@pytest.fixture
def four(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[jobs.TrainingJob]:
    monkeypatch.setattr(jobs, "POLL_SECONDS", 0.0)
    return [jobs.TrainingJob(name, tmp_path / name, ("train", name), {}) for name in "abcd"]


def test_states_of_jobs(four: list[jobs.TrainingJob]) -> None:
    workers, seen = Scripted({"a": 0, "b": 1, "c": -9, "d": 130}), list[dict[str, jobs.JobState]]()
    states = jobs.run(four, workers, lambda at: seen.append(dict(at)))
    assert [states[name].phase for name in "abcd"] == ["done", "failed", "failed", "stopped"]
    assert states["c"].text.startswith("killed by signal 9")
    assert states["b"].text == "1/2 epoch 1/2"
    assert workers.most == 2
    assert seen[0]["b"] == jobs.JobState("running", text="1/2 epoch 1/2")
    assert seen[0]["d"] == jobs.JobState()


def test_a_log_that_is_lost_does_not_end_the_others(four: list[jobs.TrainingJob]) -> None:
    class Careless(Scripted):
        def start(self, job: jobs.TrainingJob) -> None:
            super().start(job)
            if job.name == "a":
                job.log.unlink()

    states = jobs.run(four, Careless(dict.fromkeys("abcd", 0)))
    assert [(states[name].phase, states[name].text) for name in "ab"] == [("done", ""), ("done", "1/2 epoch 1/2")]


def test_an_interruption_is_passed_on_each_time_and_nothing_more_begins(four: list[jobs.TrainingJob]) -> None:
    class Stubborn(Scripted):
        def ended(self) -> Sequence[tuple[jobs.TrainingJob, int, str]]:
            if self.stops < 2:
                os.kill(os.getpid(), signal.SIGINT)
                return []
            return super().ended()

    workers = Stubborn(dict.fromkeys("abcd", 130))
    states = jobs.run(four, workers)
    assert workers.stops == 2
    assert {state.phase for state in states.values()} == {"stopped"}
    assert not (four[2].folder).exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_jobs_are_stopped_if_their_report_cannot_be_printed(four: list[jobs.TrainingJob]) -> None:
    workers = Scripted(dict.fromkeys("abcd", 130))

    def closed(states: object) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        jobs.run(four, workers, closed)
    assert workers.stops == 1


def test_two_interruptions_at_once_are_two(four: list[jobs.TrainingJob]) -> None:
    class Slow(Scripted):
        def ended(self) -> Sequence[tuple[jobs.TrainingJob, int, str]]:
            if self.stops == 0:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
                return []
            return super().ended()

    workers = Slow(dict.fromkeys("abcd", 130))
    jobs.run(four, workers)
    assert workers.stops == 2


def test_only_the_very_same_run_is_finished(small_zoo: Zoo, tmp_path: Path) -> None:
    small_zoo({"epochs": 1})
    entry, folder = registry.find(NAMES[2]), tmp_path / "run"
    assert not jobs.is_finished(entry, entry.recipe, folder)
    train(entry, folder, device="cpu")
    assert jobs.is_finished(entry, entry.recipe, folder)
    for change in ({"epochs": 2}, {"seed": 1}):
        assert not jobs.is_finished(entry, entry.recipe_with(change), folder)
    kept = (folder / "model.safetensors").rename(tmp_path / "kept")
    assert not jobs.is_finished(entry, entry.recipe, folder)
    kept.rename(folder / "model.safetensors")
    assert jobs.is_finished(entry, entry.recipe, folder)
    file = next(file for file in entry.dataset.sha256 if file.startswith("train"))
    others = entry.dataset.model_copy(update={"sha256": {**entry.dataset.sha256, file: "0" * 64}})
    assert not jobs.is_finished(replace(entry, dataset=others), entry.recipe, folder)
    generated = entry.dataset.model_copy(update={"sha256": {}})  # by a family of one's own, which locks nothing
    assert jobs.is_finished(replace(entry, dataset=generated), entry.recipe, folder)
    state = (folder / "training.safetensors").read_bytes()
    (folder / "training.safetensors").write_bytes(state[:-1])
    assert not jobs.is_finished(entry, entry.recipe, folder)
    (folder / "training.safetensors").unlink()
    assert jobs.is_finished(replace(entry, dataset=others), entry.recipe, folder)  # nothing says which data it read
    (folder / "config.json").write_text("{}")
    assert not jobs.is_finished(entry, entry.recipe, folder)
    (folder / results.FILE).write_text("{")
    assert not jobs.is_finished(entry, entry.recipe, folder)
    with pytest.raises(RequestError, match="batch_size: must be at most"):
        entry.recipe_with({"batch_size": 20_000})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing-*"], "No model is called 'nothing-*'"),
        (["star-16x64-pmnst", "--jobs", "2"], "Did you mean star-16x64-pmnist"),
        (["star-*", "--batch-size", "20000"], "cannot have these settings"),
        (["star-*", "--gpus-per-job", "1"], "--gpus-per-job needs --ray"),
        (["star-*", "--jobs", "0"], "--jobs"),
        (["star-*", "--ray", ""], "The address of the Ray cluster is empty"),
        (["star-16x64-pmnist", "--ray", ""], "The address of the Ray cluster is empty"),
        (["star-*", "--out", f"{__file__}/runs"], f"{__file__} is not a folder"),
    ],
)
def test_wrong_requests_begin_nothing(
    run: Run, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run("train", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert os.listdir(tmp_path) == []


def test_a_launcher_starts_one_model_only(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    code, _, err = run("train", "star-*")
    assert code == 2
    assert "Run the command without a launcher" in err


def test_without_ray_it_says_what_to_install(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, err = run("train", "star-*", "--ray", "local", "--out", str(tmp_path))
    assert code == 2
    assert "pip install 'rnnzoo[ray]'" in err


def test_the_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with board("train x*") as show:
        show(
            {"xa": ("running", "epoch 1/2"), "xb": ("waiting", ""), "xc": ("failed", "diverged"), "xd": ("waiting", "")}
        )
    shown = capsys.readouterr()
    assert shown.out == ""
    for text in ("train x*: 1 running, 2 waiting, 1 failed", "xa", "epoch 1/2", "xc", "diverged"):
        assert text in shown.err
    assert "xb" not in shown.err


@pytest.mark.slow
def test_a_local_ray_of_two_workers(three: Callable[..., None], tmp_path: Path) -> None:
    """Two at a time; one is killed and tried again, one diverges and is not, and all are as on this machine."""
    pytest.importorskip("ray")
    three({"epochs": 300}, bad=True)
    out = tmp_path / "runs"
    command = [sys.executable, "-m", "rnnzoo_cli", "train", PATTERN, "--ray", "local", "--jobs", "2", "--json"]
    with subprocess.Popen(
        [*command, "--out", str(out), "--device", "cpu"], stdout=subprocess.PIPE, text=True
    ) as process:
        wait_for(lambda: epochs_done(out / NAMES[0]), process)
        (unit,) = pids(f"train {NAMES[0]} --out {out}/")
        os.kill(unit, signal.SIGKILL)
        text, _ = process.communicate(timeout=300)
    assert process.returncode == 1
    assert [row["state"] for row in json.loads(text)] == ["done", "failed", "done"]
    begun = [(out / name / jobs.LOG).read_text().count("$ rnnzoo train") for name in NAMES]
    assert begun == [2, 1, 1]
    train(registry.find(NAMES[0]), tmp_path / "whole", device="cpu")
    weights = (tmp_path / "whole" / "model.safetensors").read_bytes()
    assert weights == (out / NAMES[0] / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_an_interrupted_ray_saves_first(three: Callable[..., None], tmp_path: Path) -> None:
    pytest.importorskip("ray")
    three({"epochs": 5000})
    out = tmp_path / "runs"
    command = [sys.executable, "-m", "rnnzoo_cli", "train", PATTERN, "--ray", "local", "--jobs", "2", "--json"]
    with subprocess.Popen(
        [*command, "--out", str(out), "--device", "cpu"], stdout=subprocess.PIPE, text=True
    ) as process:
        wait_for(lambda: epochs_done(out / NAMES[0]) and epochs_done(out / NAMES[1]), process)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert [row["state"] for row in json.loads(text)] == ["stopped"] * 3
    assert pids(f"train {NAMES[0]} --out {out}/") == []
    assert (out / NAMES[0] / "training.safetensors").exists()


def pids(words: str) -> list[int]:
    """Processes whose command line has these words, one behind the other."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f" -m rnnzoo_cli {words}" in command:
            found.append(int(path.parent.name))
    return found


def test_the_summary_is_of_the_best_epoch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training = results.for_model("rnn-1x128-mnist-rows").training
    training = training.model_copy(update={"history": (*training.history, training.history[0])})
    results.write(tmp_path / "m", results.Results(training=training))
    many._summarise({"m": jobs.JobState("done")}, tmp_path, True)
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["best_epoch"], row["validation_loss"]) == (training.best.epoch, training.best.validation_loss)


def test_a_job_whose_log_has_no_word_yet_waits(four: list[jobs.TrainingJob]) -> None:
    class Queue(Scripted):
        """As a cluster that has no room: a job has begun, but has not written yet."""

        def start(self, job: jobs.TrainingJob) -> None:
            super().start(job)
            job.log.write_bytes(b"")

    seen = list[dict[str, jobs.JobState]]()
    jobs.run(four, Queue(dict.fromkeys("abcd", 0)), lambda at: seen.append(dict(at)))
    assert "running" not in {each.phase for at in seen for each in at.values()}


def test_a_log_with_the_command_alone_has_no_last_line(tmp_path: Path) -> None:
    job = jobs.TrainingJob("a", tmp_path, ("train", "a"), {})
    for text, line in (
        ("$ rnnzoo train a\n", ""),
        ("$ rnnzoo train a\ntrain a: 1/2\n\n", "1/2"),
        ("train model-of-seed-0: 1/2\nNext: rnnzoo eval a --record", "1/2"),
        ("rnnzoo: No.", "No."),
    ):
        job.log.write_text(text)
        assert jobs.last_line(job) == line


def test_a_job_knows_where_the_zoo_and_the_data_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RNNZOO_DATA", "data")
    monkeypatch.setenv("RNNZOO_ROOT", "")
    assert jobs.environment(3) == {"RNNZOO_DATA": str(tmp_path / "data"), "OMP_NUM_THREADS": "3"}
