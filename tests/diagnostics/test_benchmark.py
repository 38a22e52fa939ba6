"""Benchmarks: real processes at small sizes, what they report, and what they refuse."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from zoo import errors
from zoo.diagnostics import benchmark
from zoo.diagnostics.benchmark import (
    FORWARD,
    PASSES,
    STREAMING,
    TRAINING,
    Contender,
    Workload,
    contenders,
    in_bfloat16,
    ours,
    passes,
    peers,
    products,
    stack,
)
from zoo.publishing.pages import speed
from zoo.registry.schema import Config

SMALL = stack("star", 2, 8, steps=6)
WORK = Workload(steps=6, batch=3, threads=1)


def config(**architecture: object) -> Config:
    """SMALL with another architecture."""
    return SMALL.model_copy(update={"architecture": SMALL.architecture.model_copy(update=architecture)})


def test_every_contender_is_measured_in_its_process() -> None:
    field = [*ours(SMALL), *peers(SMALL, ["torch"]), *products(SMALL)]
    reports: list[tuple[int, int, str]] = []
    found = benchmark.measure(field, WORK, rounds=2, report=lambda *report: reports.append(report))
    names = ["rnnzoo star", "rnnzoo star, plain", "torch.nn.LSTM, flushed", "matrix products of star"]
    assert [row.contender.name for row in found] == names
    for row in found[:-1]:
        assert all(row.seconds[what] > 0 for what in PASSES)  # type: ignore[operator]
        assert row.memory is not None
    assert found[-1].seconds[STREAMING] is None
    assert found[-1].memory is None
    assert [done for done, _, _ in reports] == list(range(3 * 3 * len(field)))
    assert reports[0][2] == "rnnzoo star: forward"
    header, rows = speed.speed_rows([row.to_json() for row in found])
    assert header == (FORWARD, TRAINING, STREAMING, "peak memory")
    assert all("(1.0)" in cell for cell in rows[0][1:4])
    assert rows[-1][3:] == ("-", "-")


def test_a_contender_that_fails_is_named() -> None:
    broken = Contender("torch", config(units=-1))
    for field in ([broken], [ours(SMALL)[0], broken]):  # the others are asked first, and it has ended by then
        with pytest.raises(
            errors.BenchmarkError, match=r"Timing torch\.nn\.LSTM, flushed failed while it was built: .*hidden_size"
        ):
            benchmark.measure(field, WORK, rounds=1)


def test_a_contender_that_dies_is_named() -> None:
    def kill(done: int, total: int, text: str) -> None:
        for process in multiprocessing.active_children():
            process.kill()

    message = "Timing rnnzoo star failed in the pass 'forward': its process died with exit code -9, perhaps for lack of"
    with pytest.raises(errors.BenchmarkError, match=message):
        benchmark.measure(ours(SMALL)[:1], WORK, rounds=1, report=kill)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("architecture", [{"bidirectional": "concat"}, {"bidirectional": "sum"}, {"kernel": 3}])
def test_all_architectures_can_be_measured(architecture: dict[str, object]) -> None:
    inputs = (2, 4, 4) if "kernel" in architecture else (1,)
    interface = SMALL.interface.model_copy(update={"input": inputs})
    spec = config(**architecture).model_copy(update={"interface": interface})
    field = [*ours(spec), *peers(spec, None if spec.architecture.bidirectional != "concat" else ["torch"])]
    assert len(field) == (3 if architecture == {"bidirectional": "concat"} else 2)
    for contender in field:
        functions = passes.network_passes(contender, WORK)
        assert functions[FORWARD]() == functions[TRAINING]() == 1
    assert bool(products(spec)) is ("kernel" not in architecture)


@pytest.mark.parametrize(
    ("cell", "options", "torchs", "torchrecurrents"),
    [("star", {}, "LSTM", "STAR"), ("lstm", {}, "LSTM", None), ("gru", {}, "GRU", None), ("rnn", {}, "RNN", None),
     ("lstm-peephole", {}, "LSTM", None), ("lstm-peephole", {"peephole": "diagonal"}, "LSTM", "PeepholeLSTM")],
)  # fmt: skip
def test_counterparts(cell: str, options: dict[str, str], torchs: str, torchrecurrents: str | None) -> None:
    spec = config(cell=cell, options=options)
    assert benchmark.counterpart(Contender("torch", spec)) == torchs
    assert benchmark.counterpart(Contender("torchrecurrent", spec)) == torchrecurrents
    assert benchmark.counterpart(Contender("torch", config(kernel=3))) is None


@pytest.mark.parametrize("library", ["torch", "torchrecurrent"])
@pytest.mark.parametrize("readout", ["last", "mean", "every"])
def test_peers_have_our_shapes_and_their_steps_their_sequences(library: str, readout: str) -> None:
    interface = SMALL.interface.model_copy(update={"readout": readout})
    peer = passes.PeerNetwork(Contender(library, SMALL.model_copy(update={"interface": interface})))
    x = torch.rand(3, 6, 1)
    assert peer(x).shape == ((3, 6, 10) if readout == "every" else (3, 10))
    state = None
    for part in x.unbind(1):
        y, state = peer.step(part, state)
    if readout == "last":
        torch.testing.assert_close(y, peer(x))


@pytest.mark.parametrize(("activation", "relu"), [("tanh", False), ("relu", True)])
def test_the_elman_peer_has_our_activation(activation: str, relu: bool) -> None:
    peer = passes.PeerNetwork(Contender("torch", config(cell="rnn", options={"activation": activation})))
    assert (peer.stack.mode == "RNN_RELU") is relu


def test_the_products_are_those_of_the_network() -> None:
    """Counted by torch's own counter of floating-point operations: two a multiply-add."""
    from torch.utils.flop_counter import FlopCounterMode

    from zoo.networks import builder, sizes

    for cell in ("star", "lstm", "rnn", "gru"):
        spec = stack(cell, 2, 8, steps=6)
        runs = passes.product_passes(Contender("products", spec), WORK)
        network = builder.build(spec, device="meta")
        head = network.head.weight.numel()
        for what, times in ((FORWARD, 1), (TRAINING, 3)):
            with FlopCounterMode(display=False) as counter:
                runs[what]()
            assert counter.get_total_flops() == 2 * times * 3 * (sizes.multiply_adds(network, 6) - head)


def test_what_torch_cannot_compute_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Contender("torch", SMALL)
    assert benchmark.failure(peer) is None
    monkeypatch.setattr(torch.nn.Linear, "forward", lambda *_: torch.ones(1) @ torch.ones(2))
    assert "inconsistent tensor size" in (benchmark.failure(peer) or "")


@pytest.mark.parametrize("library", ["rnnzoo", "torch"])
def test_halves_compute_in_bfloat16(library: str) -> None:
    [half] = in_bfloat16([Contender(library, SMALL)])
    assert half.name == {"rnnzoo": "rnnzoo star", "torch": "torch.nn.LSTM, flushed"}[library] + ", bfloat16"
    if library == "torch" and (why := benchmark.failure(half)):
        pytest.skip(f"torch has no LSTM in bfloat16 here: {why}")
    read: list[list[torch.Tensor]] = []
    for contender, dtype in ((Contender(library, SMALL), torch.float32), (half, torch.bfloat16)):
        states: list[torch.Tensor] = []

        def note(
            head: torch.nn.Module, given: tuple[torch.Tensor], y: torch.Tensor, dtype: torch.dtype = dtype
        ) -> None:
            if isinstance(head, torch.nn.Linear):
                assert y.dtype == dtype
                states.append(given[0].float())  # noqa: B023

        with torch.nn.modules.module.register_module_forward_hook(note):  # type: ignore[arg-type]
            torch.manual_seed(0)
            functions = passes.network_passes(contender, WORK)
            assert [functions[what]() for what in (FORWARD, TRAINING)] == [1, 1]
        read.append(states)
    for exact, rounded in zip(*read, strict=True):  # in either pass what the stack makes is near, and is another
        assert 0 < (exact - rounded).abs().max() < 0.05


def test_peers_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders, "installed", lambda library: library == "torch")
    assert [c.name for c in peers(SMALL)] == ["torch.nn.LSTM, flushed"]
    assert [c.name for c in peers(SMALL, ["torch"], (True, False))] == ["torch.nn.LSTM, flushed", "torch.nn.LSTM"]
    assert benchmark.missing_peers(SMALL) == ["torchrecurrent"]
    with pytest.raises(errors.MissingExtraError, match=r"pip install 'rnnzoo\[bench\]'"):
        peers(SMALL, ["torchrecurrent"])
    with pytest.raises(errors.UnknownNameError, match="Did you mean torchrecurrent"):
        peers(SMALL, ["torchrecurent"])
    with pytest.raises(errors.RequestError, match="torchrecurrent has no counterpart of"):
        peers(config(cell="gru"), ["torchrecurrent"])
    assert peers(config(kernel=3)) == []
    assert products(config(kernel=3)) == []


def test_interrupted_it_leaves_no_process() -> None:
    code = """
import sys
import multiprocessing
from zoo.diagnostics.benchmark import *
if __name__ == "__main__":
    spec = stack("star", 4, 64, 784)
    report = lambda done, total, text: print(*[w.pid for w in multiprocessing.active_children()], flush=True)
    measure(ours(spec), Workload(784, 100, 1), 100, report)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pids = process.stdout.readline().split()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert err.count("Traceback") == 1  # its own, not the workers'
    assert len(pids) == 2
    assert not any(_alive(int(pid)) for pid in pids)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_median_is_of_the_rounds_after_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Worker:
        def __init__(self, contender: Contender, work: Workload):
            self.times = {what: iter([100.0, 1.0, 5.0, 2.0]) for what in PASSES}

        def ask(self, what: str) -> tuple[float | None, int]:
            return (next(self.times[what]) if what else None), 5

        def stop(self) -> None:
            pass

    monkeypatch.setattr(benchmark, "Worker", Worker)
    (row,) = benchmark.measure(ours(SMALL)[:1], WORK, rounds=3)
    assert (row.seconds, row.memory) == (dict.fromkeys(PASSES, 2.0), 5)


def test_a_time_is_that_of_one_of_the_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "time", type("", (), {"perf_counter": iter([1.0, 3.0]).__next__}))
    assert benchmark.timed(lambda: 4, torch.device("cpu")) == 0.5
    assert passes.network_passes(Contender("rnnzoo", SMALL), WORK)[STREAMING]() == passes.STREAM_STEPS


def test_a_worker_has_the_settings_of_its_contender(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    asked, peaks = iter(["", FORWARD]), iter([100, 130, 170])

    class Pipe:
        def recv(self) -> str:
            for what in asked:
                return what
            raise EOFError

        def send(self, answer: object) -> None:
            told.append(answer)

    monkeypatch.setattr(torch, "set_num_threads", told.append)
    monkeypatch.setattr(torch, "set_flush_denormal", told.append)
    monkeypatch.setattr(benchmark, "peak_memory", lambda device: next(peaks))
    monkeypatch.setattr(benchmark, "timed", lambda run, device: 0.5)
    monkeypatch.setattr(benchmark, "passes_of", lambda contender, work: {FORWARD: lambda: 1})
    benchmark.serve(Contender("torch", SMALL, flushed=False), replace(WORK, threads=3), Pipe())  # type: ignore[arg-type]
    assert told == [3, False, (None, 30), (0.5, 70)]


def test_bench_does_what_it_is_told_and_compares_with_the_first(run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Workload] = []

    def measure(field, work, rounds, report):
        seen.append(work)
        return [
            benchmark.Measurement(each, work, dict.fromkeys(PASSES, float(i + 1)), None) for i, each in enumerate(field)
        ]

    monkeypatch.setattr(benchmark, "measure", measure)
    given = ("--against", "torch", "--unflushed", "--threads", "3", "--batch-size", "7", "--device", "cpu", "--json")
    code, out, _ = run("bench", "star-4x128-mnist-rows", *given)
    rows = json.loads(out)["contenders"]
    assert (code, seen) == (0, [Workload(28, 7, 3)])
    assert [row["flushed"] for row in rows if row["library"] == "torch"] == [True, False]
    assert [row["ratio"][FORWARD] for row in rows] == [float(i + 1) for i in range(len(rows))]


def test_memory_is_in_bytes_and_unknown_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark.Path, "exists", lambda path: True)
    monkeypatch.setattr(
        benchmark.Path, "read_text", lambda path: "VmPeak:\t 9999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"
    )
    assert benchmark.peak_memory(torch.device("cpu")) == 2 * 2**20
    assert benchmark.peak_memory(torch.device("meta")) is None
    monkeypatch.setattr(benchmark.Path, "read_text", lambda path: "VmRSS:\t 1 kB\n")
    assert benchmark.peak_memory(torch.device("cpu")) is None
