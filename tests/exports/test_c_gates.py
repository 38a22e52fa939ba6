"""The gates that a header for a page writes: named after the projections that open them, and equal to the equations."""

from pathlib import Path

import pytest
import torch
from helpers import normal
from test_c import printed, program, small

from zoo.exports.c.gates import gates
from zoo.exports.c.header import Place, header
from zoo.exports.c.tracing import trace
from zoo.networks.frozen import frozen
from zoo.networks.recurrent import RecurrentNetwork

GATES = {
    "rnn": [], "lstm": ["f", "i", "o"], "lstm-peephole": ["i", "f", "o"], "gru": ["r", "z"], "star": ["k"], "star shift=1.0": ["k"],
    "mingru": ["z"], "hgrn": ["mu", "g_re", "g_im"],
}  # fmt: skip
"""By case: the gates in the order of the step."""


@pytest.mark.parametrize("case", GATES)
def test_gates_have_the_names_of_projections(case: str) -> None:
    layer = frozen(small(case)).float().layers[0]
    assert [gate.name for gate in gates(trace(layer, 2), layer)] == GATES[case]


@pytest.mark.parametrize("quantize", [False, True])
@torch.no_grad()
def test_a_step_writes_its_gates(quantize: bool, tmp_path: Path) -> None:
    net = frozen(small("gru", layers=2)).float()
    assert isinstance(net, RecurrentNetwork)
    made = header(net, {}, quantize, inspected=True)
    assert made.gates == [Place(1, "r", 0, 6), Place(1, "z", 6, 6), Place(2, "r", 12, 6), Place(2, "z", 18, 6)]
    (tmp_path / "small.h").write_text(made.text)
    x = normal(1, 2, 2).float()
    numbers = ", ".join(f"{float(v)!r}f" for v in x.flatten())
    steps = f"small_state state; const float x[4] = {{{numbers}}}; small_init(&state); small_step(&state, x, 0);"
    body = f'{steps} {printed("small_step(&state, x + 2, logits);", 4)} for (i = 0; i < 24; i++) printf("%.9g ", (double)small_gates[i]);'
    written = program(tmp_path, "cc", tmp_path / "small.h", body)[4:]
    _, state = net.step(x[:, 0])
    read, expected = (x[:, 1] - 0.1) / 0.5, []
    for layer, (h,) in zip(net.layers, state, strict=True):
        projected = layer.forward_direction.input(read)
        expected.append(torch.sigmoid(layer.forward_direction.cell.gates(h, projected[:, :12]))[0])
        read, _ = layer.step(read, (h,))
    torch.testing.assert_close(torch.tensor(written), torch.cat(expected), rtol=0, atol=2e-2 if quantize else 1e-6)


def test_a_header_for_others_has_no_gates() -> None:
    assert "gates" not in header(frozen(small("gru")).float(), {}, False).text
