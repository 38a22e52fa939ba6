"""The peers that the programs of benchmarks/ time."""

import pytest
import torch

from zoo.diagnostics.benchmark import stack

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
