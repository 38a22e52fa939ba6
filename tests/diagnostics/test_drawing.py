"""The pictures of the analyses."""

from pathlib import Path

import numpy as np
import pytest
from helpers import network, normal

from zoo.cells import CELLS, FEEDFORWARD
from zoo.cells.colours import cell_colour
from zoo.diagnostics import ANALYSES, drawing, subject
from zoo.diagnostics.base import Array, Axis, Result
from zoo.diagnostics.gradients import feedforward
from zoo.diagnostics.jacobian import jacobian
from zoo.diagnostics.lattice import lattice
from zoo.diagnostics.outputs import saturation
from zoo.utils.plotting import add_caption


def test_what_is_drawn_of_a_feed_forward_network(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    name = "mlp-3x8-circles.tanh"
    result = feedforward(*subject.training_arguments(name, subject.config_of(name), epochs=2))
    drawing.draw([(name, result)], ANALYSES["feedforward"].plot, tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").stat().st_size > 3000


def test_captions_say_the_initial_values() -> None:
    for name, words in (("rnn-1x4", "weights orthogonal, biases zero"),
                        ("irnn-1x4", "weights input orthogonal, recurrent identity, biases zero")):  # fmt: skip
        result = jacobian(subject.config_of(name))
        assert words in result.caption
    assert "biases zero, and the cell's own" in jacobian(subject.config_of("indrnn-1x4")).caption


def test_a_cell_has_one_colour_in_every_picture() -> None:
    pytest.importorskip("matplotlib")
    colours = {name: cell_colour(f"{name}-2x8") for name in [*CELLS, *FEEDFORWARD]}
    assert None not in colours.values()
    assert len(set(colours.values())) == len(colours)
    assert (
        colours["lstm"]
        == cell_colour("lstm, trained")
        == cell_colour("biconvlstm-1x1-task")
        == cell_colour("biblocklstm-1x1")
        == cell_colour("lstm")
    )
    assert (
        cell_colour("my-lstm") is cell_colour("lstmish") is cell_colour("lstm-new") is cell_colour("norm 0.9") is None
    )
    norm = Array(np.arange(1.0, 4.0), (Axis.counted("layer", 3),))
    titles = ("lstm-3x8", "lstm-3x8, trained", "star-3x8")
    (axes,) = drawing.curves([(title, Result({}, {"norm": norm})) for title in titles]).axes
    looks = [(line.get_color(), line.get_linestyle()) for line in axes.lines]
    assert looks == [(colours["lstm"], "-"), (colours["lstm"], "--"), (colours["star"], "-")]


def test_layers_are_drawn_from_dark_to_light() -> None:
    pytest.importorskip("matplotlib")
    norm = Array(np.ones((12, 3)), (Axis.counted("layer", 12), Axis.counted("update", 3)), log=True)
    axes = drawing.curves([("star", Result({}, {"norm": norm, "loss": norm.at(layer=1)}))]).axes[0]
    lightness = [sum(line.get_color()[:3]) for line in axes.lines]
    assert len(lightness) == 12
    assert lightness == sorted(lightness)


def test_a_layer_has_one_colour_in_all_panels() -> None:
    pytest.importorskip("matplotlib")
    steps, layers = Axis.counted("step", 3), Axis.counted("layer", 2)
    deeper = Array(np.ones((3, 3)), (Axis("layer", (1, 2, "output")), steps))
    figure = drawing.curves(
        [("star", Result({}, {"deeper": deeper, "values": Array(np.ones((2, 3)), (layers, steps))}))]
    )
    first, second = ([line.get_color() for line in axes.lines] for axes in figure.axes[:2])
    assert first[:2] == second


def test_the_picture_of_a_lattice_says_what_it_shows(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawing.draw([("star-2x4", lattice(subject.config_of("star-2x4"), runs=3))], "maps", tmp_path / "picture.svg")
    text = (tmp_path / "picture.svg").read_text()
    for words in ("star-2x4", "loss on the last output", "gradient norm", "standard deviation / mean", "A dark corner"):
        assert words in text


def test_vanished_and_infinite_gradients_have_the_colours_of_the_ends() -> None:
    layers, steps = (Axis.counted(name, 2) for name in ("layer", "step"))
    result = Result({}, {"norm": Array(np.array([[0.0, 1e-3], [1.0, np.inf]]), (layers, steps), log=True)}, ())
    figure = drawing.maps([("lstm", result)])
    (mesh,) = figure.axes[0].collections
    assert mesh.get_array().ravel().tolist() == [1e-3, 1e-3, 1.0, 1.0]


def test_a_legend_does_not_overlap_the_caption() -> None:
    pytest.importorskip("matplotlib")
    norms = [Array(np.ones((n, 3)), (Axis("weights", tuple("abcdefgh"[:n])), Axis.counted("step", 3))) for n in (2, 8)]
    figure = drawing.curves([(str(i), Result({}, {"norm": norm})) for i, norm in enumerate(norms)])
    add_caption(figure, "the setting")
    figure.draw_without_rendering()
    top = figure._supxlabel.get_window_extent().y1
    assert all(axes.get_legend().get_window_extent().y0 >= top for axes in figure.axes)


def test_a_single_histogram_is_titled_once(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = saturation(network("rnn", layers=2), normal(2, 5, 2))
    drawing.draw([("some-model", result)], "histograms", tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").read_text().count(">some-model<") == 1


@pytest.mark.parametrize(("axis", "values", "scale"), [
    ("layer", [[1.0, 30.0], [0.5, 1.0]], "log"), ("layer", [[1.0, 30.0], [0.0, 1.0]], "log"),
    ("layer", [[1.0, 10.0], [0.5, 1.0]], "linear"), ("layer", [[-1.0, 30.0], [0.5, 1.0]], "linear"),
    ("layer", [[1.0, 30.0], [0.0, 0.0]], "linear"), ("against", [[1.0, 30.0], [0.5, 1.0]], "linear"),
])  # fmt: skip
def test_a_layer_that_would_lie_on_the_axis_gets_a_logarithmic_scale(
    axis: str, values: list[list[float]], scale: str
) -> None:
    array = Array(np.array(values), (Axis(axis, (1, 2)), Axis.counted("step", 2)), "x")
    figure = drawing.curves([("lstm", Result({}, {"a": array}, ()))])
    assert figure.axes[0].get_yscale() == scale


@pytest.mark.filterwarnings("error")
def test_a_panel_without_a_finite_value_says_so() -> None:
    axes = (Axis.counted("layer", 2), Axis.counted("step", 3))
    shown = Array(np.stack([np.arange(3.0), np.full(3, np.nan)]), axes)
    nothing = Array(np.full((2, 3), np.nan), axes)
    result = Result({}, {"shown": shown, "nothing": nothing}, ())
    figure = drawing.curves([("lstm-2x4", result)])
    assert [[text.get_text() for text in axis.texts] for axis in figure.axes][:2] == [[], ["no finite value"]]
