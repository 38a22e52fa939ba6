"""Model cards and summaries: registry entry, recorded results and counts in, text out. Pure functions; no torch."""

import io
import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from ruamel.yaml import YAML

from ..cells import cell_row
from ..checkpoints.results import Evaluation, Results
from ..checkpoints.results import for_model as recorded
from ..registry import Entry, load_lock
from ..registry.lock import Counts
from ..registry.metrics import METRICS, TARGETS
from ..registry.schema import Embedding, Paper, Reported
from ..utils.markdown import markdown
from .account import recipe_text, training_text

LICENSE = "apache-2.0"


def counts(name: str) -> Counts:
    """The counts of a registered model, from the lock, which spares us importing torch; else counted."""
    if (locked := load_lock().counts.get(name)) is not None:
        return locked
    from ..networks import builder

    return builder.counts(name)


def card(entry: Entry, results: Results, count: Counts, gradients: str = "") -> str:
    """The README.md of a model's repository; gradients: its section about them, see diagnostics.lattices."""
    parts = [
        f"---\n{_front_matter(entry, results)}---",
        f"# {entry.name}\n\n{_sentence(entry)}",
        f"## Use\n\n{_usage(entry)}",
        f"## Architecture\n\n{markdown(('', ''), _architecture(entry, count))}",
        f"## Figures\n\n{_figures(entry, results)}",
        *filter(None, [gradients]),
        f"## Training\n\n{training_text(entry, results)}",
        f"## Limits\n\n{_limits(entry, results)}",
        f"## Sources\n\n{_sources(entry)}",
    ]
    return "\n\n".join(parts) + "\n"


def of(entry: Entry) -> str:
    """The card of a registered model, from all that is recorded of it."""
    from . import lattices  # and numpy with them, which most who read a card's facts can do without

    return card(entry, recorded(entry.name), counts(entry.name), lattices.section(entry.name))


def summary(entry: Entry, results: Results, count: Counts) -> str:
    """What `rnnzoo show` prints: the card's facts as plain text."""
    rows = [*_architecture(entry, count), ("task", f"{entry.task.title} ({entry.model.task})")]
    rows += [("recipe", f"{entry.model.recipe}: {recipe_text(entry.recipe)}")]
    if (trained := results.training) and trained.recipe.settings != entry.recipe.settings:
        rows += [("trained by", f"{trained.recipe_name}: {recipe_text(trained.recipe)}")]
    rows += [("reported", f"{r.percent:g} %, {source(r, entry.papers[r.paper])}") for r in entry.model.reported]
    rows += [("measured", f"{_value(e)} on {e.n:,} {e.split} examples") for e in results.evaluations]
    rows += [("weights", _weights_text(entry, results))]
    width = max(len(key) for key, _ in rows)
    return "\n".join([entry.name, *(f"  {key.ljust(width)}  {value}" for key, value in rows)])


def _value(evaluation: Evaluation) -> str:
    return METRICS[evaluation.metric].text(evaluation.value)


def _weights_text(entry: Entry, results: Results) -> str:
    if entry.task.absent:
        return "none: the data cannot be had"
    if entry.weights is None:
        return f"{'not kept' if results.training else 'none yet'}; rnnzoo train {entry.name}"
    return f"{entry.weights.repo}@{entry.weights.revision}" if entry.weights.revision else "in the package"


def source(figure: Reported, paper: Paper) -> str:
    """Where a reported figure is printed, and of what it is if that is not the test set."""
    part = ", of the training set" if figure.split == "train" else ""
    return f'{figure.table} of {citation(paper)}, "{paper.title}"{part}'


def citation(paper: Paper) -> str:
    """Authors and year: `Turkoglu et al. 2019`."""
    names = paper.authors.split(", ")
    return f"{' & '.join(names) if len(names) < 3 else f'{names[0]} et al.'} {paper.year}"


def models_table(rows: Iterable[tuple[Entry, Results, Counts]]) -> str:
    """The README's table of models with weights."""
    return markdown(
        ("model", "task", "parameters", "measured", "examples", "reported"),
        [
            (
                f"[`{entry.name}`](cards/{entry.name}/README.md)",
                entry.task.title,
                f"{count.parameters:,}",
                *((_value(found), f"{found.n:,}") if (found := results.measured()) else ("-", "-")),
                entry.model.reported_text or "-",
            )
            for entry, results, count in rows
        ],
    )


def speed_table(data: dict[str, Any]) -> str:
    """The README's tables of benchmarks/stacks.json, one for each size of stack; ratios are to the first row of each."""
    parts = []
    for size in dict.fromkeys((row["layers"], row["units"]) for row in data["contenders"]):
        rows = [row for row in data["contenders"] if (row["layers"], row["units"]) == size]
        header, table = speed_rows(rows)
        parts += [markdown((f"{size[0]} x {size[1]}", *header), table), _beside_products(rows)]
    return "\n\n".join(filter(None, parts))


def measured_by(program: str, data: dict[str, Any]) -> str:
    """On what machine, when and how often a program of benchmarks/ measured its numbers."""
    machine, rounds = data["machine"], data["rounds"]
    threads = f"{machine['threads']} thread{'s' if machine['threads'] > 1 else ''}"
    often = f"median of {rounds}" if rounds > 1 else "once"
    return (
        f"{machine['cpu']}, {machine['device']}, {threads}, torch {machine['torch']}, {machine['date']}, {often}; "
        f"`python -m benchmarks.{program}`."
    )


def speed_rows(rows: Sequence[dict[str, Any]]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Header, but for the names, and rows of benchmark.Measured.data: times, with their ratio to the first row's."""
    kinds = [what for what in _SECONDS if rows[0]["seconds"][what] is not None]
    table = [
        (row["contender"], *(_speed(row, rows[0], what) for what in kinds), _mebibytes(row["peak_memory_bytes"]))
        for row in rows
    ]
    return (*kinds, "peak memory"), list(table)


_SECONDS = {"forward": (1, "s"), "forward + backward": (1, "s"), "streamed step": (1e6, "µs")}
"""The passes of a benchmark: how many of its unit a second has, and the unit."""


def _speed(row: dict[str, Any], first: dict[str, Any], what: str) -> str:
    taken, (scale, unit) = row["seconds"][what], _SECONDS[what]
    return "-" if taken is None else f"{significant(scale * taken)} {unit} ({taken / first['seconds'][what]:.1f})"


def _mebibytes(count: int | None) -> str:
    return "-" if count is None else f"{count / 2**20:,.0f} MiB"


def _beside_products(rows: Sequence[dict[str, Any]]) -> str:
    """How many times as long as its matrix products alone each cell takes."""
    alone = {row["cell"]: row["seconds"] for row in rows if row["library"] == "products"}
    texts = []
    for row in rows:
        if (row["library"], row["backend"], row["precision"]) != ("rnnzoo", "auto", "no") or row["cell"] not in alone:
            continue
        ratios = (row["seconds"][what] / taken for what, taken in alone[row["cell"]].items() if taken)
        texts.append(f"{row['contender']} {' and '.join(f'{ratio:.1f}' for ratio in ratios)}")
    beside = "Times as long as its matrix products alone, forward and forward + backward"
    return f"{beside}: {', '.join(texts)}." if texts else ""


def significant(value: float) -> str:
    """Three significant digits without an exponent, and digits of thousands apart."""
    if value >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.{max(2 - math.floor(math.log10(value)), 0)}f}"


def _front_matter(entry: Entry, results: Results) -> str:
    dataset = entry.dataset
    front: dict[str, Any] = {
        "library_name": "rnnzoo",
        "license": LICENSE,
        "pipeline_tag": entry.task.pipeline_tag,
        "tags": ["rnn", entry.model.cell, entry.model.task],
        **({"datasets": [dataset.hub]} if dataset.hub else {}),
        "metrics": [TARGETS[entry.task.target].metric],
        "model_name": entry.name,
    }
    if results.evaluations:
        front["model-index"] = [{"name": entry.name, "results": [
            {
                "task": {"type": entry.task.pipeline_tag},
                "dataset": {"name": entry.task.title, "type": dataset.hub or entry.task.dataset, "split": e.split},
                "metrics": [{"type": e.metric, "value": round(e.value, 6), "name": f"{e.split} {e.metric}"}],
            }
            for e in results.evaluations
        ]}]  # fmt: skip
    text = io.StringIO()
    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump(front, text)
    return text.getvalue()


def _sentence(entry: Entry) -> str:
    spec = entry.model
    ways = "bidirectional " if spec.bidirectional else ""
    kind = "convolutional " if spec.kernel else ""
    layers = f"{spec.layers} layer{'s' if spec.layers > 1 else ''} of {spec.units} units"
    title = f"{ways}{kind}{cell_row(spec.cell).title}"
    return f"{title[0].upper()}{title[1:]} (`{spec.cell}`), {layers}, for {entry.task.title}."


def _usage(entry: Entry) -> str:
    shape = ", ".join(map(str, (8, *entry.task.example)))
    found = "logits" if entry.task.target == "class" else "values"
    use = f"x = torch.zeros({shape}, device=model.device)  # a batch of 8\n{found} = model(x)\n"
    if entry.task.vocabulary and not entry.weights:  # words come with weights
        told = f", torch.tensor([[{entry.task.steps - 1}, 1]] * 8)" if entry.task.form == "question" else ""
        use = (
            f"x = torch.randint(1, {entry.task.vocabulary}, ({shape}), device=model.device)  # 8 of random tokens\n"
            f"logits = model(x{told})\n"
        )
    elif entry.task.form == "question":
        use = (
            'x, lengths = model.tokenizer.ask(["Mary went to the hall."], ["Where is Mary?"])\n'
            "logits = model(x.to(model.device), lengths)\nanswer = model.tokenizer.words[logits.argmax()]\n"
        )
    elif entry.task.vocabulary:
        use = 'x, lengths = model.tokenizer(["A text.", "Another."])\nx = x.to(model.device)\nlogits = model(x, lengths)\n'
    steps = entry.task.form == "sequence" and entry.task.readout != "none" and not entry.model.bidirectional
    streaming = "    y, state = model.step(x[:, 0])  # streaming: one step, explicit state\n" if steps else ""
    use = f"with torch.no_grad():\n{textwrap.indent(use, '    ')}{streaming}"
    random = "" if entry.weights else ", pretrained=False"
    verb = "eval" if entry.weights else "compare" if entry.task.absent else "train"
    return (
        f"```python\nimport torch\nfrom zoo import load\n\n"
        f'model = load("{entry.name}"{random}){"  # random weights" if random else ""}\n'
        f"{use}```\n\n{_meaning(entry)}```console\nrnnzoo {verb} {entry.name}\n```"
    )


def _meaning(entry: Entry) -> str:
    """What goes in and what comes out, where the registry says it."""
    own = ", not standardised: the network does that itself" if entry.model.standardize else ""
    made = f'`zoo.examples("{entry.name}")` is the test set in this form'
    lines = [f"Input: {entry.task.input_description}{own}; {made}."] if entry.task.input_description else []
    lines += [f"Classes: {', '.join(entry.task.classes)}."] if entry.task.classes else []
    return "".join(f"{line}\n\n" for line in lines)


def _architecture(entry: Entry, count: Counts) -> list[tuple[str, str]]:
    spec = entry.model
    rows = [
        ("cell", f"{spec.cell}, {cell_row(spec.cell).title}"),
        *((f"option {key}", str(value)) for key, value in spec.options.items()),
        ("depth" if cell_row(spec.cell).layers_inside else "layers", str(spec.layers)),
        ("units", str(spec.units)),
        (
            "stacks",
            "one for the story, one for the question, one for both outputs" if entry.task.form == "question" else "",
        ),
        ("convolution", f"{spec.kernel} x {spec.kernel}" if spec.kernel else ""),
        ("directions", f"two, merged by {spec.bidirectional}" if spec.bidirectional else ""),
        ("input", entry.task.example_text),
        ("embedding", _embedding_text(spec.embedding)),
        ("standardised", f"mean {entry.task.mean}, std {entry.task.std}" if spec.standardize else ""),
        ("readout", entry.task.output_text),
        ("head", spec.head.text if spec.head else ""),
        ("dropout", f"{spec.dropout}" if spec.dropout else ""),
        ("recurrent dropout", f"{spec.recurrent_dropout}" if spec.recurrent_dropout else ""),
        ("zoneout", f"{spec.zoneout}" if spec.zoneout else ""),
        ("layer norm", "yes" if spec.layer_norm else ""),
        ("parameters", f"{count.parameters:,}"),
        ("multiply-adds", f"{count.multiply_adds:,} {'an example' if entry.task.readout == 'none' else 'a sequence'}"),
    ]
    rows.append(("initialisation", spec.init.text(spec.cell)))
    return [(key, value) for key, value in rows if value]


def _embedding_text(spec: Embedding | None) -> str:
    if spec is None:
        return ""
    kind = "trained" if spec.trainable else "frozen, not counted as parameters"
    return f"{spec.size} values a token, {'from ' + spec.pretrained if spec.pretrained else 'from random ones'}, {kind}"


def _figures(entry: Entry, results: Results) -> str:
    rows = [("reported", f"{r.percent:g} %", source(r, entry.papers[r.paper])) for r in entry.model.reported]
    for e in results.evaluations:
        how = f"`{e.command}`, {e.n:,} examples, {e.date}, {e.device}, torch {e.versions.get('torch', '?')}"
        rows.append((f"measured, {e.split}", _value(e), how))
    return markdown((TARGETS[entry.task.target].title, "", "source"), rows) if rows else "None yet."


def _limits(entry: Entry, results: Results) -> str:
    lines = []
    if results.training:
        lines.append(f"Of one run, with seed {results.training.recipe.seed}: the spread over seeds was not measured.")
        ended = results.training.finished or results.training.diverged is not None
        if not ended:
            lines.append("Training was stopped before its schedule ended.")
        lines.append(f"Trained and measured on {entry.dataset.title} only ({entry.dataset.license}).")
        if entry.weights is None:
            same = ended and results.training.recipe.settings == entry.recipe.settings
            again = f": `rnnzoo train {entry.name}` makes them again" if same else ""
            lines.append(f"Only the figures are kept, not the weights{again}.")
        if entry.dataset.folder and entry.dataset.validation:
            lines.append("Some of the dataset's training examples were not trained on but chose the epoch.")
    else:
        lines.append("Declared, not trained: there are no weights.")
    if entry.dataset.proxy_for:
        lines.append(f"The data stand in for {entry.dataset.proxy_for}: figures on the two do not compare.")
    if entry.dataset.caveat:
        lines.append(entry.dataset.caveat)
    if entry.model.notes:
        lines.append(entry.model.notes)
    return "\n".join(f"- {line}" for line in lines)


def _sources(entry: Entry) -> str:
    lines = [f"- {p.authors}. {p.title}. {p.year}. {link(p)}".rstrip() for p in entry.papers.values()]
    lines.append(f"- Data: {entry.dataset.title}. {entry.dataset.citation}. License {entry.dataset.license}.")
    return "\n".join(lines)


def link(paper: Paper) -> str:
    """Where a paper is to be read."""
    return f"https://arxiv.org/abs/{paper.arxiv}" if paper.arxiv else paper.url or paper.venue or ""
