"""The peers that the programs of benchmarks/ time, and the loop by hand."""

import shutil
from pathlib import Path

import pytest
import torch

from zoo import load
from zoo.diagnostics.benchmark import stack
from zoo.networks.recurrent import RecurrentNetwork

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


@pytest.mark.parametrize("operator", ["LSTM", "GRU"])
def test_onnxruntime_steps_through_its_layers(operator: str) -> None:
    from benchmarks.onnx_peer import OnnxNetwork

    network = OnnxNetwork(operator, stack("lstm", 2, 8, 16), 1)
    x = torch.rand(3, 1)
    logits, state = network.step(x, None)
    assert logits.shape == (3, 10)
    assert [s.shape for s in state] == [(1, 3, 8)] * 2 * len(network.states)
    again, _ = network.step(x, state)
    assert abs(again - logits).max() > 0  # the state is read
    torch.testing.assert_close(network.step(x, state)[0], again)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs cc")
def test_the_loop_by_hand_computes_the_network(tmp_path: Path) -> None:
    from benchmarks.export_steps import BY_HAND, FAST_MATH
    from benchmarks.hand_written import HandWritten

    network = load(BY_HAND, device="cpu")
    assert isinstance(network, RecurrentNetwork)
    x = torch.rand(40, 1)
    with torch.no_grad():
        for flags in FAST_MATH.values():
            logits = HandWritten(network, tmp_path, *flags).run(x)
            torch.testing.assert_close(
                logits[[6, 39]], network(x.expand(2, 40, 1), torch.tensor([7, 40])), rtol=1e-5, atol=1e-5
            )
