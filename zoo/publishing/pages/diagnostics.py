"""Writes the pages of docs/diagnostics: the claims that papers draw from figures, our numbers, and whether they agree.

The claims are written here by hand, each with a check from zoo.publishing.claims. The numbers come from
zoo.publishing.studies. The module does not import torch.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from ...diagnostics.base import Result, read_results
from ...diagnostics.drawing import TitledResults
from ...registry import load_registry
from ...utils import paths
from ...utils.text import markdown
from ..claims import checks, matrix
from ..claims.checks import Claim, Results

FOLDER = ("docs", "diagnostics")


@dataclass(frozen=True)
class Figure:
    """A figure of a paper that we reproduced."""

    paper: str
    name: str
    """The end of the picture's file name, `{paper}-{name}.svg`."""
    title: str
    study: str
    """Key of zoo.publishing.studies.STUDIES."""
    note: str
    """Text about our setting and its differences from the paper's."""
    plot: str
    """Key of zoo.diagnostics.drawing.PLOTS."""
    claims: tuple[Claim, ...]
    parts: tuple[str, ...] | None = None
    """Titles of the study's results to show; None for all."""
    arrays: tuple[str, ...] | None = None
    """Names of the arrays to show; None for all arrays that have an axis."""


SMALL = "12 layers of 32 units, 10 steps (the paper does not give its sizes)"

FIGURES: tuple[Figure, ...] = (
    Figure(
        "star", "jacobian", "Sections 3.1 and 4: singular values at the zero state", "star-jacobian",
        "One layer of 32 units at x = h = 0 with orthogonal weights, in float64; the LSTM's c is held constant.", "curves",
        (Claim("vRNN: all singular values of both Jacobians are 1", checks.singular, ("rnn", 1.0)),
         Claim("LSTM: they drop to 0.25", checks.singular, ("lstm", 0.25)),
         Claim("STAR: they are 0.5", checks.singular, ("star", 0.5))),
    ),
    Figure(
        "star", "fig2", "Fig. 2: mean gradient magnitude", "star-lattice",
        f"{SMALL}; every output receives an error of length 1, so that the colours of one row are comparable.", "maps",
        (Claim("vRNN: amplified towards earlier steps and lower layers", checks.ratio, ("rnn", 1.0, np.inf)),
         Claim("LSTM: attenuated", checks.ratio, ("lstm", 0.0, 0.01)),
         Claim("LSTM: propagates relatively well through time, vanishes quickly through layers", checks.lstm_through_time),
         Claim("STAR: approximately preserved (here: within a factor of five)", checks.ratio, ("star", 0.2, 5.0))),
        parts=("rnn", "lstm", "star"), arrays=("mean",),
    ),
    Figure(
        "star", "fig6", "Fig. 6: mean gradient magnitude of LSTM w/f, GRU and STAR", "star-lattice", SMALL + ".", "maps",
        (Claim("GRU and LSTM w/f mitigate the attenuation to some degree", checks.mitigated),),
        parts=("lstm-f", "gru", "star"), arrays=("mean",),
    ),
    Figure(
        "star", "fig7", "Fig. 7: mean-normalised standard deviation", "star-lattice", SMALL + ".", "maps",
        (Claim("GRU and LSTM w/f vary much more over runs than STAR", checks.much_spread),),
        parts=("lstm-f", "gru", "star"), arrays=("spread",),
    ),
    Figure(
        "star", "fig2-weights", "Fig. 2 without biases", "star-lattice-weights",
        "The paper's parameters include biases. Without them the LSTM's picture is misleading: in the lower layers small errors "
        "meet large inputs, and in the upper layers large errors meet inputs that vanished on their way up.", "maps",
        (Claim("LSTM: attenuated (here for the weights alone)", checks.ratio, ("lstm", 0.0, 0.01)),),
        arrays=("mean",),
    ),
    Figure(
        "star", "fig3", "Fig. 3: gradient norms of 12 layers on pixel-by-pixel MNIST", "star-training",
        "12 layers of 128 units, 784 steps and Adam at 1e-3 as in the paper, but 40 updates of batches of 20 instead of a whole "
        "epoch of batches of 100. The RHN is one recurrent layer of depth 12, so it has one line.", "curves",
        (Claim("vRNN: the propagation increases the gradients", checks.first_norms, ("rnn", 1.0, np.inf)),
         Claim("LSTM: it shrinks them", checks.first_norms, ("lstm", 0.0, 0.1)),
         Claim("STAR's singular values lie between the LSTM's and the vRNN's (section 4; here its gradients)", checks.between),
         Claim("STAR's norms remain stable in the first epoch, the others' do not", checks.stable_norms),
         Claim("RHN: the gradients explode within the first epoch", checks.explodes, ("rhn",)),
         Claim("STAR alone learns in the first epoch", checks.early_loss)),
    ),
    Figure(
        "rin", "fig1", "Fig. 1: average estimation error on the adding problem", "rin-adding",
        "128 test sequences of 200 steps. The paper shows an LSTM trained on the problem; we add IRNN and RIN.",
        "curves",
        (Claim("LSTM: average estimation errors are close to 0",
               checks.learnt,
               ("lstm-1x100-adding-200", 1 / 6, checks.close_to_zero, "last", ("lstm",))),),
    ),
    Figure(
        "rin", "fig4", "Fig. 4: average estimation error on MNIST", "rin-mnist",
        "128 test images by rows, 28 steps; the paper has 784 steps of one pixel and 200 units. No IRNN was trained on rows, so "
        "a plain RNN takes its place next to LSTM and RIN.", "curves",
        (Claim("all networks keep the level of activation on an average: eq. 3 is close to 0",
               checks.close_to_zero, ("previous",)),
         Claim("the variance grows significantly at the last steps in RIN", checks.late_variance)),
    ),
    Figure(
        "chen", "fig51", "Fig. 5.1 and 5.2: Noh's indicator over epochs", "chen-epochs",
        "Toxic comments of more than 90 words with the last 30 % replaced, 50 units and 20 epochs as in section 4.4.1, but 900 "
        "comments where the thesis has 2,000; measured on 64 validation comments.", "curves",
        (Claim("the RNN's is in general significantly larger than LSTM's and GRU's", checks.over_epochs),),
    ),
    Figure(
        "chen", "fig53", "Fig. 5.3: Noh's indicator over steps, trained", "chen-steps",
        "Toxic comments, 200 units, 16 test comments of up to 200 words; the thesis has 300 steps.", "curves",
        (Claim("RNN above LSTM and GRU throughout, GRU the smallest", checks.throughout),
         Claim("RNN above both at the last step (the same networks)", checks.larger, (", trained",)),
         Claim("... (before training)", checks.larger, (", untrained",)),
         Claim("... (networks of 1 x 128 trained on MNIST by rows)", checks.larger, (", MNIST rows",)),
         Claim("... (the same with random signs for v)", checks.larger, (", MNIST rows, v of signs",))),
        parts=("rnn, trained", "lstm, trained", "gru, trained"),
    ),
    Figure(
        "chen", "fig53-start", "Noh's indicator over steps, untrained and on MNIST by rows", "chen-steps",
        "The networks of the figure before training, and networks of 128 units trained on MNIST by rows.", "curves", (),
        parts=("rnn, untrained", "lstm, untrained", "gru, untrained", "rnn, MNIST rows", "lstm, MNIST rows",
               "gru, MNIST rows"),
    ),
    Figure(
        "chen", "gates", "Section 5.2: gradients of the memory by each gate's weights", "chen-gates",
        "Networks of 128 units trained on MNIST by rows; the thesis argues with upper bounds for scalars, |w| <= 1.", "curves",
        (Claim("GRU's are smaller than or equal to the RNN's, for every gate", checks.gates, ("gru", True)),
         Claim("LSTM's, of its cell state, are not always: with all gates open their bounds are larger",
               checks.gates, ("lstm", False))),
    ),
    Figure(
        "chen", "dependency", "Sections 4.2 and 4.4: the long-term dependency test", "chen-dependency",
        "The picture shows networks trained on whole comments and tested on comments with one end replaced by \"the\", which the "
        "thesis does not do. The thesis trains on altered comments, as the networks of the table were; [more of these](../measured.md).", "curves",
        (Claim("the RNN does worse where the last 20 words are replaced (section 4.2.1, on training figures)",
               checks.better, (["rnn-1x50-toxic-parts-long"], ["rnn-1x50-toxic-parts-late"])),
         Claim("LSTM and GRU do better than the RNN where the last 30 % is replaced (section 4.4.1)",
               checks.better,
               ([f"{cell}-1x50-toxic-parts-diluted" for cell in ("lstm", "gru")], ["rnn-1x50-toxic-parts-diluted"]))),
    ),
    Figure(
        "chen", "fig33", "Fig. 3.3-3.5: the sigmoid network on Pima", "chen-feedforward",
        "3 hidden layers of 8 units, 150 epochs, 500 training rows; Adam at Keras's default rate and Keras's batches of 32, since "
        "the thesis names neither. The thesis does not mention standardising the features, and the size of its hidden "
        "outputs suggests that it did not; the verdicts are for the features as they are.", "curves",
        (Claim("A: gradients are close to zero on the lower layers", checks.inputs, ("sigmoid", checks.lower_vanish)),
         Claim("B: little improvement over the first 60 epochs", checks.inputs, ("sigmoid", checks.little)),),
        parts=("sigmoid",), arrays=("gradient", "loss", "accuracy", "outputs"),
    ),
    Figure(
        "chen", "fig36", "Fig. 3.6: its hidden outputs after the last epoch", "chen-feedforward", "As above.", "histograms",
        (Claim("C: on the lower layers, 1 and 2, a large proportion is near 0 and 1, less so on the third",
               checks.inputs, ("sigmoid", checks.saturated)),),
        parts=("sigmoid",), arrays=("last",),
    ),
    Figure(
        "chen", "fig37", "Fig. 3.7, 3.8 and 3.10: PReLU with tuned initialisation", "chen-feedforward",
        "He-normal, uniform and LeCun-uniform, the thesis's choice; otherwise as above.", "curves",
        (Claim("A: gradients are significant in magnitude", checks.significant),
         Claim("B: loss improves significantly over the first 20 epochs", checks.inputs, ("prelu-tuned", checks.quick)),
         Claim("C: hidden outputs are relatively stable after 20 epochs", checks.inputs, ("prelu-tuned", checks.stable))),
        parts=("prelu-tuned",), arrays=("gradient", "loss", "accuracy", "outputs"),
    ),
    Figure(
        "chen", "fig39", "Fig. 3.9: its hidden outputs after the last epoch", "chen-feedforward",
        "As above.", "histograms",
        (Claim("C: the layers' mean outputs are -33, 17 and -4 (here: over 10 in size in layers 1 and 2)", checks.means),),
        parts=("prelu-tuned",), arrays=("last",),
    ),
    Figure(
        "pascanu", "powers", "Section 2.1: products of equal matrices", "pascanu-eigenvalues",
        "128 units, 64 random starts, and one Gaussian matrix scaled up and down, whose norm is about twice its spectral radius; "
        "the trained network is rnn-1x128-mnist-rows. Also described by Nguyen, \"Recurrent neural networks: for steering through "
        "time\" (section 3.1), and, for the linear network h_t = W^T h_(t-1), in Yoon's lectures on deep learning (Seoul National "
        "University, 2019, part 10). Both speak of the largest eigenvalue; the lectures also of the largest singular value, to "
        "which the bounds apply.", "curves",
        (Claim("a largest eigenvalue below 1: errors vanish in the long run", matrix.grows, ("radius 0.9", False)),
         Claim("above 1: they can explode", matrix.grows, ("radius 1.1", True)),
         Claim("a norm below 1 / gamma, which is 1 for tanh and 4 for the sigmoid: they must vanish", matrix.bounded)),
        arrays=("powers",),
    ),
    Figure(
        "lru", "powers", "Sections 3.3 and 3.4: what is left of an error after up to 784 steps", "lru-eigenvalues",
        "A linear recurrence h_t = a_t h_(t-1) + b_t multiplies an error by a_t alone, elementwise: no matrix mixes the "
        "numbers and no slope of a tanh shrinks them, so its eigenvalues say all there is to say about length. The picture "
        "has layers of 128 units at initialisation, where the LRU's ring is from 0.9 to 0.999 or, \"near 1\", from 0.995 to "
        "0.99995, and the trained networks of pixel-by-pixel MNIST, one line per layer. Gated cells, whose a depends on the "
        "input, are shown at x = 0. A minGRU without gate biases would forget at once, at a = 0.5; its trained network "
        "started with biases for lengths of up to 784 steps.", "curves",
        (Claim("the parametrization keeps all eigenvalues within the unit circle: errors cannot explode (section 3.3)",
               matrix.never_grows, ("lru", "lru, ring near 1", "blocklru-1x196, trained")),
         Claim("eigenvalues close to the unit circle keep information over long sequences (section 3.4)",
               matrix.outlives, ("lru, ring near 1", "lru"))),
        parts=("rg-lru", "lru", "lru, ring near 1", "mingru-4x128, trained", "blockrg-lru-2x64, trained", "blocklru-1x196, trained"),
        arrays=("powers",),
    ),
    Figure(
        "lru", "lattice", "Depth and length: mean gradient magnitude of 8 layers and 50 steps", "lru-lattice",
        "8 layers of 32 units, untrained, with each cell's usual initial values, random input, and no residual connections. Being linear "
        "is not enough: a minGRU starts with a = 0.5 and forgets fastest of all. With a near 1, as the LRU and the RG-LRU "
        "start, the error of the last output reaches the first step. The RG-LRU pays with depth: each layer lets only "
        "sqrt(1 - a^2) of the present input in, so that the last steps hardly reach the lower layers, which a block's "
        "residual sum makes up for.", "maps", (), arrays=("mean",),
    ),
    Figure(
        "lru", "aee", "Average estimation error of trained networks on pixel-by-pixel MNIST", "lru-aee",
        "32 test images of 784 steps (Hu et al. 2018, eq. 1 and 3). h_t - h_T shows how far a state is from the last one: where "
        "its variance falls from the first step to the last, the network has gathered what it reads all along; where it falls "
        "in the last steps only, what it read before is no longer in the state. The plain RNN was trained, but its weights are "
        "not published, so it is shown at initialisation.", "curves", (),
        parts=("rnn-1x128, untrained", "lstm-1x128-smnist", "blocklru-1x196-smnist"), arrays=("variance",),
    ),
    Figure(
        "lru", "aee-gru", "The same of a GRU", "lru-aee",
        "The top layer approaches its final state slowly, from about step 300 on.", "curves", (),
        parts=("gru-4x128-smnist",), arrays=("variance",),
    ),
    Figure(
        "lru", "aee-mingru", "The same of a minGRU", "lru-aee",
        "No tanh bounds its states. As in the GRU, the top layer approaches its final state slowly, and the lower layers follow "
        "the rows of the image.", "curves", (),
        parts=("mingru-4x128-smnist",), arrays=("variance",),
    ),
    Figure(
        "lru", "aee-griffin", "The same of the RG-LRU in Griffin's blocks", "lru-aee",
        "Nothing bounds this layer's output, so its scale is different. The axes are logarithmic. The first layer follows the "
        "strokes of the digit, one peak for each row of the image. The variance of the second one is about a hundred times smaller: it follows them, "
        "too, from one step to the next, but what it keeps falls only in the last rows.", "curves", (),
        parts=("blockrg-lru-2x64-smnist",), arrays=("variance",),
    ),
)  # fmt: skip


_read = cache(read_results)


def study(name: str) -> dict[str, Result] | None:
    """Return {title: result} for the stored results of the study `name`, or None if the study was not computed."""
    path = paths.path(*FOLDER, f"{name}.json")
    return _read(path) if path.exists() else None


def pictures() -> dict[Path, tuple[TitledResults, str]]:
    """Return {path: (results to draw, key of drawing.PLOTS)} for every picture on the pages."""
    wanted: dict[Path, tuple[TitledResults, str]] = {}
    for figure in FIGURES:
        results = study(figure.study)
        if results is not None:
            content = [(part, _content(results[part], figure.arrays)) for part in figure.parts or results]
            wanted[paths.path(*FOLDER, f"{figure.paper}-{figure.name}.svg")] = content, figure.plot
    return wanted


def _content(result: Result, arrays: tuple[str, ...] | None) -> Result:
    """Return a copy of `result` with only the arrays to draw: those named in `arrays`; for None, all that have an axis."""
    return result.only(*(arrays or [name for name, array in result.arrays.items() if array.axes]))


def pages() -> dict[Path, str]:
    """Return the text of every page, by path."""
    return {paths.path(*FOLDER, f"{paper}.md"): _page(paper) for paper in papers()}


def papers() -> list[str]:
    """Return the keys of the papers whose analyses have a page."""
    return list(dict.fromkeys(figure.paper for figure in FIGURES))


def _page(key: str) -> str:
    paper = load_registry().papers[key]
    parts = [
        f"# Why networks do or do not train: {paper.citation}",
        f'The analyses of "{paper.title}", reproduced. The numbers are in the JSON files next to this page, written by '
        "`python -m zoo.publishing.studies --runs DIR`, where DIR has the runs of models without published weights. Pictures and "
        "verdicts are generated from them. Each trained network in a picture comes from one run. To analyse other networks: `rnnzoo inspect "
        "NAME --analysis ...` ([all analyses](README.md)).",
    ]
    for figure in FIGURES:
        results = study(figure.study)
        if figure.paper == key and results is not None:
            parts += [
                f"## {figure.title}",
                f"{figure.note}{random_networks(results)}",
                f"![{figure.title}]({key}-{figure.name}.svg)",
                _verdicts(figure, results),
            ]
    return "\n\n".join(filter(None, parts)) + "\n"


def random_networks(results: Results) -> str:
    """Return a sentence with the number of random networks of each result, or "" unless all results have the same number."""
    counts = {result.setting["runs"] for result in results.values() if "runs" in result.setting}
    return f" Computed on {counts.pop():,} random networks." if len(counts) == 1 else ""


def _verdicts(figure: Figure, results: Results) -> str:
    table = [claim.cells(results) for claim in figure.claims]
    return markdown(("the paper found", "here", "agrees"), table) if table else ""
