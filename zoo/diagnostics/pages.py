"""The pages of docs/diagnostics: each figure of a document beside ours, and whether they agree, in numbers. No torch.

What a document found is written here by hand, with a test of it on our numbers; the numbers come from zoo.diagnostics.studies.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from .. import assets
from ..cards import citation
from ..registry import registry
from .base import Stored
from .drawing import Shown

FOLDER = ("docs", "diagnostics")
Results = Mapping[str, Stored]
"""The parts of a study by their headings."""


@dataclass(frozen=True)
class Claim:
    """One finding of a document: its words, our numbers, and whether they say the same."""

    text: str
    check: Callable[[Results], tuple[str, bool]]


@dataclass(frozen=True)
class Figure:
    """One figure of a document, made again."""

    paper: str
    name: str
    """Of the picture's file."""
    title: str
    study: str
    note: str
    """What we did, and where it differs from what the document did."""
    how: str
    """Function of zoo.diagnostics.drawing."""
    claims: tuple[Claim, ...]
    parts: tuple[str, ...] | None = None
    """Headings of the study's parts that it shows; none: all."""
    arrays: tuple[str, ...] | None = None


def _corner(results: Results, cell: str, loss: str) -> float:
    return float(results[cell].arrays["ratio"].at(loss=loss).values)


def _ratio(cell: str, low: float, high: float) -> Callable[[Results], tuple[str, bool]]:
    """Whether the ratio of the bottom left to the top right lies between, for both losses."""

    def check(results: Results) -> tuple[str, bool]:
        pair = [_corner(results, cell, loss) for loss in ("last", "all")]
        return "bottom left over top right: {:.3g} (last), {:.3g} (all)".format(*pair), all(
            low < v < high for v in pair
        )

    return check


def _lstm_through_time(results: Results) -> tuple[str, bool]:
    mean = results["lstm"].arrays["mean"].at(loss="last").values
    back, down = mean[-1, 0] / mean[-1, -1], mean[0, -1] / mean[-1, -1]
    return (
        f"top layer, step 1 over step 10: {back:.3g}; last step, layer 1 over layer 12: {down:.3g}",
        back > 100 * down,
    )


def _mitigated(results: Results) -> tuple[str, bool]:
    values = {cell: _corner(results, cell, "last") for cell in ("lstm", "lstm-f", "gru")}
    text = ", ".join(f"{cell} {v:.3g}" for cell, v in values.items())
    return f"ratio: {text}", min(values["lstm-f"], values["gru"]) > 2 * values["lstm"]


def _much_spread(results: Results) -> tuple[str, bool]:
    values = {c: float(results[c].arrays["spread"].values.max()) for c in ("lstm-f", "gru", "star")}
    text = ", ".join(f"{cell} {v:.2g}" for cell, v in values.items())
    return f"largest spread: {text}", min(values["lstm-f"], values["gru"]) > 1.5 * values["star"]


def _singular(cell: str, expected: float) -> Callable[[Results], tuple[str, bool]]:
    def check(results: Results) -> tuple[str, bool]:
        v = results[cell].arrays["values"].values
        return f"{np.nanmin(v):.6g} to {np.nanmax(v):.6g}", bool(np.nanmax(np.abs(v - expected)) < 1e-6)

    return check


def _first_norms(cell: str, low: float, high: float) -> Callable[[Results], tuple[str, bool]]:
    def check(results: Results) -> tuple[str, bool]:
        norm = results[cell].arrays["norm"].values[:, 0]
        return f"layer 1 over layer {len(norm)}: {norm[0] / norm[-1]:.3g}", bool(low < norm[0] / norm[-1] < high)

    return check


def _early_loss(results: Results) -> tuple[str, bool]:
    last = {c: float(r.arrays["loss"].values[-10:].mean()) for c, r in results.items()}
    text = ", ".join(f"{c} {v:.3g}" for c, v in last.items())
    return f"mean loss of the last ten updates: {text} (chance {np.log(10):.3g})", min(
        last, key=last.__getitem__
    ) == "star"


def _close_to_zero(*parts: str) -> Callable[[Results], tuple[str, bool]]:
    def check(results: Results) -> tuple[str, bool]:
        sizes = {p: float(np.nanmax(np.abs(results[p].arrays["mean"].at(against="last").values))) for p in parts}
        spread = {p: float(np.nanmax(results[p].arrays["variance"].at(against="last").values)) ** 0.5 for p in parts}
        text = "; ".join(f"{p}: at most {sizes[p]:.3g}, standard deviation {spread[p]:.3g}" for p in parts)
        return text, all(sizes[p] < 0.5 * spread[p] for p in parts)

    return check


def _levels(results: Results) -> tuple[str, bool]:
    moves = {
        p: float(np.nanmax(np.abs(r.arrays["mean"].at(against="previous").values[:, 1:]))) for p, r in results.items()
    }
    text = "; ".join(f"{p}: at most {v:.2g}" for p, v in moves.items())
    return f"|E[h_t - h_(t-1)]| after step 1: {text}", max(moves.values()) < 0.1


def _late_variance(results: Results) -> tuple[str, bool]:
    v = results["rin-1x100-mnist-rows"].arrays["variance"].at(against="previous").values[0]
    third = len(v) // 3
    early, late = float(v[1:-third].mean()), float(v[-third:].mean())
    return f"RIN: {late:.3g} in the last third, {early:.3g} before", late > 1.5 * early


def _final(stored: Stored) -> float:
    return float(stored.arrays["indicator"].values[0, -1])


def _larger(suffix: str, over: Sequence[str] = ("lstm", "gru")) -> Callable[[Results], tuple[str, bool]]:
    """Whether the plain RNN's indicator at the last step is above the others'."""

    def check(results: Results) -> tuple[str, bool]:
        values = {cell: _final(results[f"{cell}{suffix}"]) for cell in ("rnn", *over)}
        text = ", ".join(f"{cell} {v:.2f}" for cell, v in values.items())
        return f"log10 at the last step: {text}", values["rnn"] > max(values[cell] for cell in over)

    return check


def _throughout(results: Results) -> tuple[str, bool]:
    rows = {c: results[f"{c}, trained"].arrays["indicator"].values[0] for c in ("rnn", "lstm", "gru")}
    above = np.mean([rows["rnn"] > np.maximum(rows["lstm"], rows["gru"])])
    least = np.mean([rows["gru"] < np.minimum(rows["lstm"], rows["rnn"])])
    text = f"RNN largest at {100 * above:.0f} % of the steps, GRU smallest at {100 * least:.0f} %"
    return text, bool(above > 0.9 and least > 0.9)


def _over_epochs(results: Results) -> tuple[str, bool]:
    rows = {c: np.nanmedian(results[c].arrays["indicator"].values[0]) for c in ("rnn", "lstm", "gru")}
    text = ", ".join(f"{c} {v:.2f}" for c, v in rows.items())
    return f"median log10 over the epochs: {text}", bool(rows["rnn"] > max(rows["lstm"], rows["gru"]))


def _gates(results: Results) -> tuple[str, bool]:
    def finals(cell: str) -> dict[str, float]:
        norm = results[cell].arrays["norm"]
        return dict(zip(map(str, norm.axis("weights").ticks), norm.values[0, :, -1], strict=True))

    rnn, gru = finals("rnn"), finals("gru")
    text = "; ".join(
        f"{c}: " + ", ".join(f"{k} {v:.3g}" for k, v in f.items()) for c, f in (("rnn", rnn), ("gru", gru))
    )
    inputs = max(v for k, v in gru.items() if k.startswith("input")) <= rnn["input"]
    return text, inputs and max(v for k, v in gru.items() if not k.startswith("input")) <= rnn["recurrent"]


def _lower_vanish(results: Results) -> tuple[str, bool]:
    m = np.median(results["sigmoid"].arrays["gradient"].values, axis=1)
    return "median |dy/dW|, layers 1 to 3 and output: " + ", ".join(f"{v:.2g}" for v in m), bool(m[0] < 0.1 * m[-1])


def _little(results: Results) -> tuple[str, bool]:
    loss, accuracy = (results["sigmoid"].arrays[k].values for k in ("loss", "accuracy"))
    text = f"loss {loss[0]:.3f} to {loss[59]:.3f}, then {loss[-1]:.3f}; accuracy {accuracy[0]:.3f} to {accuracy[59]:.3f}, then {accuracy[-1]:.3f}"
    return text, bool(loss[0] - loss[59] < 0.25 * (loss[0] - loss.min()) + 0.02)


def _saturated(results: Results) -> tuple[str, bool]:
    last = results["sigmoid"].arrays["last"]
    edges = np.array(last.axes[-1].ticks, dtype=float)
    ends = [float(row[(edges < 0.1) | (edges >= 0.9)].sum()) for row in last.values]
    text = "share of outputs below 0.1 or above 0.9, layers 1 to 3: " + ", ".join(f"{v:.2g}" for v in ends)
    return text, ends[0] > 0.3 and ends[0] > ends[-1]


def _significant(results: Results) -> tuple[str, bool]:
    values = {tag: np.median(results[tag].arrays["gradient"].values[0]) for tag in ("sigmoid", "prelu-tuned")}
    text = ", ".join(f"{tag} {v:.2g}" for tag, v in values.items())
    return f"layer 1, median: {text}", bool(values["prelu-tuned"] > 3 * values["sigmoid"])


def _quick(results: Results) -> tuple[str, bool]:
    loss = results["prelu-tuned"].arrays["loss"].values
    done = (loss[0] - loss[19]) / (loss[0] - loss[-1])
    return f"loss {loss[0]:.3f}, {loss[19]:.3f} after 20 epochs, {loss[-1]:.3f} after 150", bool(done > 0.5)


def _stable(results: Results) -> tuple[str, bool]:
    h = results["prelu-tuned"].arrays["outputs"].values
    drift = np.abs(h[:, -1] / h[:, 19] - 1)
    return "change of mean |h| after epoch 20: " + ", ".join(f"{100 * v:.0f} %" for v in drift), bool(
        drift.max() < 0.25
    )


def _forgets(results: Results) -> tuple[str, bool]:
    found = {}
    for cell, r in results.items():
        metric = r.arrays["metric"]
        found[cell] = (float(metric.at(end="last", share=0.0).values), float(metric.at(end="last", share=0.3).values))
    text = ", ".join(f"{c} {a:.3f} to {b:.3f}" for c, (a, b) in found.items())
    drops = {c: a - b for c, (a, b) in found.items()}
    return f"accuracy whole to diluted: {text}", drops["rnn"] > max(drops["lstm"], drops["gru"])


SMALL = "12 layers of 32 units, 10 steps (the document does not give its sizes)"

FIGURES: tuple[Figure, ...] = (
    Figure(
        "star", "jacobian", "Sections 3.1 and 4: singular values at the zero state", "star-jacobian",
        "One layer of 32 units at x = h = 0 with orthogonal weights, in float64; the LSTM's c is held.", "curves",
        (Claim("vRNN: all singular values of both Jacobians are 1", _singular("rnn", 1.0)),
         Claim("LSTM: they drop to 0.25", _singular("lstm", 0.25)),
         Claim("STAR: they are 0.5", _singular("star", 0.5))),
    ),
    Figure(
        "star", "fig2", "Fig. 2: mean gradient magnitude", "star-lattice",
        f"{SMALL}; an error of length 1 arrives at every output, so that the colours of one row compare.", "maps",
        (Claim("vRNN: amplified towards earlier steps and lower layers", _ratio("rnn", 1.0, np.inf)),
         Claim("LSTM: attenuated", _ratio("lstm", 0.0, 0.01)),
         Claim("LSTM: propagates relatively well through time, vanishes quickly through layers", _lstm_through_time),
         Claim("STAR: approximately preserved (here: within a factor of five)", _ratio("star", 0.2, 5.0))),
        parts=("rnn", "lstm", "star"), arrays=("mean",),
    ),
    Figure(
        "star", "fig6", "Fig. 6: mean gradient magnitude of LSTM w/f, GRU and STAR", "star-lattice", SMALL + ".", "maps",
        (Claim("GRU and LSTM w/f mitigate the attenuation to some degree", _mitigated),),
        parts=("lstm-f", "gru", "star"), arrays=("mean",),
    ),
    Figure(
        "star", "fig7", "Fig. 7: mean-normalised standard deviation", "star-lattice", SMALL + ".", "maps",
        (Claim("GRU and LSTM w/f vary much more over runs than STAR", _much_spread),),
        parts=("lstm-f", "gru", "star"), arrays=("spread",),
    ),
    Figure(
        "star", "fig2-weights", "Fig. 2 without biases", "star-lattice-weights",
        "The parameters of the document include biases. Without them the LSTM's picture hides what happens: the lower "
        "layers' small errors meet large inputs, the upper layers' large errors inputs that vanished on their way up.", "maps",
        (Claim("LSTM: attenuated (should fail without biases)", _ratio("lstm", 0.0, 0.01)),),
        arrays=("mean",),
    ),
    Figure(
        "star", "fig3", "Fig. 3: gradient norms of 12 layers on pixel-by-pixel MNIST", "star-training",
        "12 layers of 128 units, 784 steps, Adam 1e-3 as there, but batches of 20 and 40 updates instead of a whole epoch "
        "of batches of 100.", "curves",
        (Claim("vRNN: the propagation increases the gradients", _first_norms("rnn", 1.0, np.inf)),
         Claim("LSTM: it shrinks them", _first_norms("lstm", 0.0, 0.1)),
         Claim("STAR: in between", _first_norms("star", 0.01, 100.0)),
         Claim("STAR learns first", _early_loss)),
    ),
    Figure(
        "rin", "fig1", "Fig. 1: average estimation error on the adding problem", "rin-adding",
        "128 test sequences of 200 steps. The document shows the LSTM; IRNN and RIN are added.", "curves",
        (Claim("LSTM: average estimation errors are close to 0", _close_to_zero("lstm")),),
    ),
    Figure(
        "rin", "fig4", "Fig. 4: average estimation error on MNIST", "rin-mnist",
        "128 test images by rows, 28 steps, where the document has 784 steps of a pixel and 200 units; no IRNN is trained "
        "on rows, so a plain RNN stands beside LSTM and RIN.", "curves",
        (Claim("all networks keep the level of activation on an average: eq. 3 is close to 0", _levels),
         Claim("the variance grows significantly at the last steps in RIN", _late_variance)),
    ),
    Figure(
        "chen", "fig51", "Fig. 5.1 and 5.2: Noh's indicator over epochs", "chen-epochs",
        "Toxic comments of more than 90 words with the last 30 % replaced, 50 units, 20 epochs as in section 4.4.1, on a part "
        "of the data; 64 validation comments.", "curves",
        (Claim("the RNN's is in general significantly larger than LSTM's and GRU's", _over_epochs),),
    ),
    Figure(
        "chen", "fig53", "Fig. 5.3: Noh's indicator over steps, trained", "chen-steps",
        "Toxic comments, 200 units, 16 test comments of up to 200 words, where the document has 300 steps.", "curves",
        (Claim("RNN above LSTM and GRU throughout, GRU the smallest", _throughout),
         Claim("the same at start values", _larger(", start values")),
         Claim("the same on MNIST by rows, 1 x 128, trained", _larger(", MNIST rows")),
         Claim("the same there with random signs for v", _larger(", MNIST rows, v of signs"))),
        parts=("rnn, trained", "lstm, trained", "gru, trained"),
    ),
    Figure(
        "chen", "fig53-start", "Noh's indicator over steps, at start values and on MNIST by rows", "chen-steps",
        "Before training, and of networks of 128 units trained on MNIST by rows.", "curves", (),
        parts=("rnn, start values", "lstm, start values", "gru, start values", "rnn, MNIST rows", "lstm, MNIST rows",
               "gru, MNIST rows"),
    ),
    Figure(
        "chen", "gates", "Section 5.2: gradients of the memory by each gate's weights", "chen-gates",
        "Networks of 128 units trained on MNIST by rows; the document argues with upper bounds for scalars, |w| <= 1.", "curves",
        (Claim("GRU's are smaller than or equal to the RNN's, for every gate", _gates),),
    ),
    Figure(
        "chen", "dependency", "Sections 4.2 and 4.4: the long-term dependency test", "chen-dependency",
        "Networks trained on whole comments, asked about comments with one end replaced by \"the\"; the document trains on "
        "altered comments.", "curves",
        (Claim("the RNN loses more than LSTM and GRU when the last 30 % is replaced", _forgets),),
    ),
    Figure(
        "chen", "fig33", "Fig. 3.3-3.5: the sigmoid network on Pima", "chen-feedforward",
        "3 hidden layers of 8 units, 150 epochs; Adam and batches of 32, the defaults of Keras; inputs standardised; 500 "
        "training rows.", "curves",
        (Claim("A: gradients are close to zero on the lower layers", _lower_vanish),
         Claim("B: little improvement over the first 60 epochs", _little),),
        parts=("sigmoid",), arrays=("gradient", "loss", "accuracy", "outputs"),
    ),
    Figure(
        "chen", "fig36", "Fig. 3.6: its hidden outputs after the last epoch", "chen-feedforward", "As above.", "histograms",
        (Claim("C: on the lower layers a large proportion is near 0 and 1, less so on the third", _saturated),),
        parts=("sigmoid",), arrays=("last",),
    ),
    Figure(
        "chen", "fig37", "Fig. 3.7, 3.8 and 3.10: PReLU with tuned start values", "chen-feedforward",
        "He-normal, uniform and LeCun-uniform, the document's choice; otherwise as above.", "curves",
        (Claim("A: gradients are significant in magnitude", _significant),
         Claim("B: loss improves significantly over the first 20 epochs", _quick),
         Claim("C: hidden outputs are relatively stable after 20 epochs", _stable)),
        parts=("prelu-tuned",), arrays=("gradient", "loss", "accuracy", "outputs"),
    ),
    Figure(
        "chen", "fig39", "Fig. 3.9: its hidden outputs after the last epoch", "chen-feedforward",
        "The document reports means of -33, 17 and -4 for its three layers, which depend on inputs that are not standardised.",
        "histograms", (), parts=("prelu-tuned",), arrays=("last",),
    ),
)  # fmt: skip


@cache
def _study(path: Path) -> dict[str, Stored]:
    data = json.loads(path.read_text(encoding="utf-8"))
    return {part["title"]: Stored.of(part["result"]) for part in data["shown"]}


def study(name: str) -> dict[str, Stored] | None:
    """The stored parts of a study by their headings, if it was computed."""
    path = assets.path(*FOLDER, f"{name}.json")
    return _study(path) if path.exists() else None


def pictures() -> dict[Path, tuple[Shown, str]]:
    """Path to what it shows, and how it is drawn, of every picture of the pages."""
    found: dict[Path, tuple[Shown, str]] = {}
    for figure in FIGURES:
        results = study(figure.study)
        if results is not None:
            parts = [(p, results[p]) for p in figure.parts or results]
            shown = [(p, r.only(*figure.arrays) if figure.arrays else r.only(*_drawn(r))) for p, r in parts]
            found[assets.path(*FOLDER, f"{figure.paper}-{figure.name}.svg")] = shown, figure.how
    return found


def _drawn(result: Stored) -> list[str]:
    """Arrays with a curve: not those of a single number."""
    return [name for name, array in result.arrays.items() if array.axes]


def pages() -> dict[Path, str]:
    """Path to content of every page."""
    papers = dict.fromkeys(figure.paper for figure in FIGURES)
    return {assets.path(*FOLDER, f"{paper}.md"): _page(paper) for paper in papers}


def _page(key: str) -> str:
    paper = registry().papers[key]
    parts = [
        f"# Why it does or does not train: {citation(paper)}",
        f'The analyses of "{paper.title}", made again. Numbers: the JSON files beside this page, by '
        "`python -m zoo.diagnostics.studies`; pictures and verdicts are generated from them. One run each, unless a caption "
        "says otherwise. The same on any network: `rnnzoo inspect NAME --what ...`.",
    ]
    for figure in FIGURES:
        results = study(figure.study)
        if figure.paper == key and results is not None:
            parts += [
                f"## {figure.title}",
                figure.note,
                f"![{figure.title}]({key}-{figure.name}.svg)",
                _verdicts(figure, results),
            ]
    return "\n\n".join(filter(None, parts)) + "\n"


def _verdicts(figure: Figure, results: Results) -> str:
    if not figure.claims:
        return ""
    rows = ["| the document found | here | agrees |", "| --- | --- | --- |"]
    for claim in figure.claims:
        numbers, same = claim.check(results)
        rows.append(
            f"| {claim.text} | {numbers} | {'yes' if same else '**no**'} |".replace("|d", "\\|d").replace("W|", "W\\|")
        )
    return "\n".join(rows)
