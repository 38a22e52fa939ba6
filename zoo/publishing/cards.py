"""Writes model cards and summaries from registry entries, recorded results and counts.

The module does not use the Hub, and imports torch only to count a model that cards/lock.json does not list.
"""

import textwrap
from typing import Any

import yaml

from ..cells import cell_row
from ..checkpoints import results
from ..checkpoints.references import address
from ..checkpoints.results import Evaluation, Results, RuntimeEvaluation
from ..registry import Entry, load_lock, load_registry
from ..registry.lock import Counts
from ..registry.metrics import METRICS, TARGETS
from ..registry.schema import Architecture, Embedding, Paper, Reported, Shapes
from ..utils import paths
from ..utils.text import ahead_text, capitalised, counted, markdown
from . import babi_stories, comparison
from .training_text import recipe_text, training_text

NEXT = {"characters": 'generate {} --prompt "To be"', "fsdd": "listen {} digits.wav", "music": "generate {} --seed 1"}
"""By family of data: the command for which people want a model with weights."""
LARGEST_DROP = 0.003
"""A card warns if another runtime or 8-bit weights lose more accuracy than this (a fraction: 0.003 is 0.3 points)."""
GROWTH = 1.1
"""A card warns if an error or a negative log-likelihood is more than this many times that of float32 in torch."""


def counts(name: str) -> Counts:
    """Return a registered model's numbers of parameters and multiply-adds: from cards/lock.json, else counted with torch."""
    if (locked := load_lock().counts.get(name)) is not None:
        return locked
    from ..networks import sizes

    return sizes.counts(name)


def render(entry: Entry) -> str:
    """Return the text of a registered model's card: its recorded figures, its size and its gradients."""
    from . import lattices  # imports numpy, which `summary` does not need

    return compose(entry, results.for_model(entry.name), counts(entry.name), lattices.section(entry.name))


def compose(entry: Entry, recorded: Results, count: Counts, gradients: str = "") -> str:
    """Return the text of README.md in a model's repository on the Hub.

    recorded: the measured figures. count: the numbers of parameters and multiply-adds. gradients: the section about
    gradients, from `lattices.section`; "" for none.
    """
    return f"---\n{_front_matter(entry, recorded)}---\n\n{body(entry, recorded, count, gradients)}"


def body(entry: Entry, recorded: Results, count: Counts, gradients: str = "") -> str:
    """Return what follows the front matter of a README.md. Arguments: as for `compose`."""
    parts = [
        f"# {entry.name}\n\n{_title(entry)}",
        f"## Use\n\n{_usage(entry)}",
        f"## Architecture\n\n{markdown(('', ''), _architecture(entry, count))}",
        f"## Figures\n\n{_figures(entry, recorded)}",
        *filter(None, [gradients]),
        f"## Training\n\n{training_text(entry, recorded)}",
        f"## Limits\n\n{_limits(entry, recorded)}",
        f"## Sources\n\n{_sources(entry)}",
    ]
    return "\n\n".join(parts) + "\n"


def summary(entry: Entry, recorded: Results, count: Counts) -> str:
    """Return the text that `rnnzoo show` prints: the facts of the card without Markdown."""
    rows = [*_architecture(entry, count), ("task", f"{entry.task.title} ({entry.model.task})")]
    rows += [("recipe", f"{entry.model.recipe}: {recipe_text(entry.recipe)}")]
    if (training := recorded.training) and training.recipe.settings != entry.recipe.settings:
        rows += [("trained by", f"{training.recipe_name}: {recipe_text(training.recipe)}")]
    for r in entry.model.reported:
        note = "" if r.value else " (the paper does not explain it)"
        rows += [("reported", f"{r.text}{note}, {source(r, entry.papers[r.paper])}")]
    rows += [("measured", f"{value_text(e)} on {counted(e.n, f'{e.split} example')}") for e in recorded.evaluations]
    if recorded.measured() and recorded.other_seeds:
        name, value, _ = _over_seeds(entry, recorded)
        rows += [("over seeds", f"{value}, {name.rpartition(', ')[2]}")]
    rows += [("weights", _weights_text(entry, recorded))]
    width = max(len(key) for key, _ in rows)
    return "\n".join([entry.name, *(f"  {key.ljust(width)}  {value}" for key, value in rows)])


def value_text(evaluation: Evaluation) -> str:
    """Return a measured value, rounded, with its unit."""
    return METRICS[evaluation.metric].text(evaluation.value)


def _weights_text(entry: Entry, recorded: Results) -> str:
    if entry.task.absent:
        return "none: the data are not available"
    if entry.weights is None:
        if recorded.unmeasurable:
            return "none: the run diverged"
        return f"{'not published' if recorded.training else 'none yet'}; rnnzoo train {entry.name}"
    if entry.weights.revision:
        return f"{entry.weights.repo}@{entry.weights.revision}"
    return "in the package" if paths.ROOT == paths.PACKAGED_ROOT else str(paths.path("cards", entry.name))


def source(figure: Reported, paper: Paper) -> str:
    """Return the source of a reported figure as text: table, paper, and the split if it is the training set."""
    split = ", on the training set" if figure.split == "train" else ""
    return f'{figure.table} of {paper.citation}, "{paper.title}"{split}'


def _front_matter(entry: Entry, recorded: Results) -> str:
    """Return the metadata that the Hub reads.

    PyYAML writes the metadata, because `rnnzoo verify` compares cards byte by byte, and the output of huggingface_hub's
    ModelCardData depends on its version.
    """
    dataset = entry.dataset
    front: dict[str, Any] = {
        "library_name": "rnnzoo", **({"license": terms} if (terms := load_registry().license) else {}),
        "pipeline_tag": entry.task.pipeline_tag,
        "tags": ["rnn", entry.model.cell, entry.model.task], **({"datasets": [dataset.hub]} if dataset.hub else {}),
        "metrics": [TARGETS[entry.task.target].metric], "model_name": entry.name,
    }  # fmt: skip
    if recorded.evaluations:
        front["model-index"] = [{"name": entry.name, "results": [
            {
                "task": {"type": entry.task.pipeline_tag},
                "dataset": {"name": entry.task.title, "type": dataset.hub or entry.task.dataset, "split": e.split},
                "metrics": [{"type": e.metric, "value": round(e.value, 6), "name": f"{e.split} {e.metric}"}],
            }
            for e in recorded.evaluations
        ]}]  # fmt: skip
    return yaml.safe_dump(front, sort_keys=False, allow_unicode=True)


def _title(entry: Entry) -> str:
    spec = entry.model
    directions = "bidirectional " if spec.bidirectional else ""
    kind = "convolutional " if spec.kernel else ""
    layers = f"{counted(spec.layers, 'layer')} of {counted(spec.units, 'unit')}"
    cell = f"{directions}{kind}{cell_row(spec.cell).title}"
    return f"{capitalised(cell)} (`{spec.cell}`), {layers}, for {entry.task.title}."


def _usage(entry: Entry) -> str:
    """Return Markdown: Python code that runs the network, a text about its inputs and outputs, and the next commands."""
    code = _call(entry)
    names = ", ".join([name for name in ("examples", "generate") if f"{name}(" in code] + ["load"])
    streams = entry.task.form != "question" and entry.task.readout != "none" and not entry.model.bidirectional
    streaming = "    now, state = model.step(x[:, 0])  # streaming: one step, explicit state\n" if streams else ""
    code = f"with torch.no_grad():\n{textwrap.indent(code, '    ')}{streaming}"
    loaded_by, untrained = (address(entry.name), "") if entry.weights else (entry.name, ", pretrained=False")
    verb = "eval" if entry.weights else "compare" if entry.task.absent else "train"
    commands = [f"rnnzoo {verb} {entry.name}"]
    if entry.weights and entry.task.family in NEXT:
        commands.append(f"rnnzoo {NEXT[entry.task.family].format(entry.name)}")
    listed = "\n".join(commands)
    return (
        f"```python\nimport torch\nfrom zoo import {names}\n\n"
        f'model = load("{loaded_by}"{untrained}){"  # random weights" if untrained else ""}\n'
        f"{code}```\n\n{_inputs_and_classes(entry)}```console\n{listed}\n```"
    )


def _call(entry: Entry) -> str:
    """Return Python code that calls the network, on real input if the package contains some."""
    task, outputs = entry.task, "values" if entry.task.target in ("value", "forecast") else "logits"
    shape = ", ".join(map(str, (8, *task.example)))
    if task.vocabulary and not entry.weights:  # the words come with the weights
        lengths = f", torch.tensor([[{task.steps - 1}, 1]] * 8)" if task.form == "question" else ""
        tokens = f"torch.randint(1, {task.vocabulary}, ({shape}), device=model.device)  # 8 examples of random tokens"
        return f"x = {tokens}\nlogits = model(x{lengths})\n"
    if task.form == "question":
        story, question = babi_stories.example(task)
        texts = f'story = "{story}"\nquestion = "{question}"\n'
        answer = "answer = model.tokenizer.words[logits.argmax()]"
        return f"{texts}x, lengths = model.tokenizer.ask(story, question)\nlogits = model(x.to(model.device), lengths)\n{answer}\n"
    if task.is_stream:
        of_next = f"# of each next {task.form.removesuffix('s')}"
        text = 'text = generate(model, prompt="To be", length=200)'
        return f'x = model.tokenizer(["To be"])[0].to(model.device)\nlogits = model(x)  {of_next}\n{text}\n'
    if task.vocabulary:
        tokens = 'model.tokenizer(["A text.", "Another."])'
        return f"x, lengths = {tokens}\nx = x.to(model.device)\nlogits = model(x, lengths)\n"
    test = f'x, y, lengths = examples("{entry.name}").batch(range(8), model.device)'
    if entry.dataset.folder is None or entry.dataset.hub:
        return f"{test}  # eight test examples\n{outputs} = model(x, lengths)\n"
    zeros = f"x = torch.zeros({shape}, device=model.device)"
    if task.absent:
        return f"{zeros}  # 8 examples of zeros: the data are not available\n{outputs} = model(x)\n"
    real = f"# instead, eight test examples, if their data are in $RNNZOO_DATA:\n# {test}\n# {outputs} = model(x, lengths)\n"
    return f"{zeros}  # 8 examples of zeros, which only show the shape\n{outputs} = model(x)\n{real}"


def _inputs_and_classes(entry: Entry) -> str:
    """Return the registry's description of the inputs and its names of the classes, as text."""
    own = entry.model.standardize and (entry.task.mean, entry.task.std) != (0.0, 1.0)
    scale = " Do not standardise it: the network does." if own else ""
    examples = f'`zoo.examples("{entry.name}")` returns the test set in this form.'
    lines = [f"Input: {entry.task.input_description}.{scale} {examples}"] if entry.task.input_description else []
    lines += [f"Classes: {', '.join(entry.task.classes)}."] if entry.task.classes else []
    return "".join(f"{line}\n\n" for line in lines)


def _architecture(entry: Entry, count: Counts) -> list[tuple[str, str]]:
    return architecture(entry.model, entry.task, entry.task.output_text, count)


def architecture(
    spec: Architecture, shapes: Shapes, outputs: str, count: Counts | None = None
) -> list[tuple[str, str]]:
    """Return the facts of a network, (name, value) each. outputs: what it returns, in words. count: None leaves its size out."""
    stacks = "one reads the story, one the question, one both outputs" if shapes.form == "question" else ""
    per = "example" if shapes.readout == "none" else "sequence"
    rows = [
        ("cell", f"{spec.cell}, {cell_row(spec.cell).title}"),
        *((f"option {key}", str(value)) for key, value in spec.options.items()),
        ("depth" if cell_row(spec.cell).layers_inside else "layers", str(spec.layers)),
        ("units", str(spec.units)),
        ("stacks", stacks),
        ("convolution", f"{spec.kernel} x {spec.kernel}" if spec.kernel else ""),
        ("directions", f"two, merged by {spec.bidirectional}" if spec.bidirectional else ""),
        ("input", shapes.example_text),
        ("embedding", _embedding_text(spec.embedding)),
        ("standardised", f"mean {shapes.mean}, std {shapes.std}" if spec.standardize and shapes.std != 1.0 else ""),
        ("readout", outputs),
        ("head", spec.head.text if spec.head else ""),
        *(
            (name.replace("_", " "), str(getattr(spec, name) or ""))
            for name in ("dropout", "recurrent_dropout", "zoneout")
        ),
        ("layer norm", "yes" if spec.layer_norm else ""),
        ("block", spec.block.text if spec.block else ""),
        ("parameters", f"{count.parameters:,}" if count else ""),
        ("multiply-adds", f"{count.multiply_adds:,} per {per}" if count else ""),
        ("initialisation", spec.init.text(spec.cell)),
    ]
    return [(key, value) for key, value in rows if value]


def _embedding_text(spec: Embedding | None) -> str:
    if spec is None:
        return ""
    start = f"from {spec.pretrained}" if spec.pretrained else "initialised at random"
    kind = "trained" if spec.trainable else "frozen, not counted as parameters"
    return f"{spec.size} values per token, {start}, {kind}"


def _figures(entry: Entry, recorded: Results) -> str:
    rows = [("reported", r.text, source(r, entry.papers[r.paper])) for r in entry.model.reported]
    if recorded.unmeasurable and recorded.training:
        rows.append(("measured", f"diverged in {recorded.training.divergence}", f"`{recorded.training.command}`"))
    for e in recorded.evaluations:
        how = f"`{e.command}`, {e.n:,} examples, {e.date}, {e.device}, torch {e.versions.get('torch', '?')}"
        rows.append((f"measured, {e.split}", value_text(e), how))
        rows += [
            (f"measured, {e.split}, {ahead_text(h)}", METRICS[e.metric].text(v), "") for h, v in e.by_horizon.items()
        ]
        rows += [
            (f"measured, {e.split}, {runtime_text(r)}", value_text(r), _beside(r, e))
            for r in recorded.runtimes
            if (r.split, r.metric) == (e.split, e.metric)
        ]
        if recorded.other_seeds and e == recorded.measured():
            rows.append(_over_seeds(entry, recorded))
    return markdown((TARGETS[entry.task.target].title, "", "source"), rows) if rows else "None yet."


def _over_seeds(entry: Entry, recorded: Results) -> tuple[str, str, str]:
    """Return (name, value, source) of a card's figure, as text: the mean and standard deviation over the runs of all seeds."""
    runs, published = recorded.over_seeds(), recorded.measured()
    assert published is not None
    each = ", ".join(f"seed {run.seed}: {value_text(run)}" for run in runs)
    weights = "" if entry.weights is None else f"; the weights are those of seed {published.seed}"
    mixed = [row for row in comparison.rows(entry.name, results_of=lambda name: [recorded]) if row.mixed]
    if mixed:
        title, how = f"measured, {published.split}, {len(runs)} seeds", f"training runs by one recipe ({each})"
        return title, mixed[0].mean_text, how
    return (
        f"measured, {published.split}, mean of {len(runs)} seeds",
        METRICS[published.metric].mean_text([run.value for run in runs]),
        f"mean and standard deviation of {len(runs)} training runs by one recipe ({each}){weights}",
    )


def runtime_text(evaluation: RuntimeEvaluation) -> str:
    """Return the runtime of an evaluation, unless it is torch, and the rounding of the weights, if any, as text."""
    words = [*([] if evaluation.runtime == "torch" else [evaluation.runtime]), *filter(None, [evaluation.quantize])]
    return ", ".join(words)


def _beside(evaluation: RuntimeEvaluation, full: Evaluation) -> str:
    """Return the command, the number of examples and the date of a measurement in another runtime or with rounded weights.

    full: the figure of the same weights in float32 in torch. If the value is much worse (see LARGEST_DROP and GROWTH), the text warns.
    """
    warning = ""
    if not METRICS[full.metric].higher_is_better:
        if evaluation.value > GROWTH * full.value:
            warning = f"; **{evaluation.value / full.value:.3g} times the value in float32**"
    elif full.value - evaluation.value > LARGEST_DROP:
        warning = f"; **{100 * (full.value - evaluation.value):.2f} points less**"
    return f"`{evaluation.command}`, {evaluation.n:,} examples, {evaluation.date}{warning}"


def _limits(entry: Entry, recorded: Results) -> str:
    lines = _training_limits(entry, recorded) or ["The model is declared but not trained: there are no weights."]
    if entry.dataset.proxy_for:
        lines.append(f"The data stand in for {entry.dataset.proxy_for}, so figures on the two are not comparable.")
    lines += filter(None, [entry.dataset.caveat, entry.task.caveat, entry.model.notes])
    return "\n".join(f"- {line}" for line in lines)


def _training_limits(entry: Entry, recorded: Results) -> list[str]:
    """Return a sentence for each limitation that comes from the training; an empty list if there was no training."""
    training, dataset = recorded.training, entry.dataset
    if training is None:
        return []
    ended = training.finished or training.diverged is not None
    lines = []
    if not (recorded.other_seeds or recorded.diverged_seeds):
        lines.append(f"One training run, with seed {training.recipe.seed}: the variation over seeds was not measured.")
    failed = {"collapsed": recorded.collapsed_seeds, "diverged": recorded.diverged_seeds}
    for word, seeds in failed.items():
        if seeds:
            *others, last = map(str, seeds)
            numbers = f"seeds {', '.join(others)} and {last}" if others else f"seed {last}"
            lines.append(f"The run{'s' * bool(others)} with {numbers} {word}.")
    if not ended:
        lines.append("Training was stopped before its schedule ended.")
    done = "Trained" if recorded.unmeasurable else "Trained and measured"
    lines.append(f"{done} on one dataset only: {dataset.title} (licence: {dataset.license}).")
    if recorded.unmeasurable:
        lines.append("The run diverged before there were weights to measure.")
    elif entry.weights is None:
        same = ended and training.recipe.settings == entry.recipe.settings
        again = f": `rnnzoo train {entry.name}` trains them again" if same else ""
        lines.append(f"Only the figures are published, not the weights{again}.")
    if dataset.folder and dataset.validation:
        lines.append("Part of the dataset's training examples was held out to choose the best epoch.")
    return lines


def _sources(entry: Entry) -> str:
    lines = [f"- {p.authors}. {p.title}. {p.year}. {p.link}".rstrip() for p in entry.papers.values()]
    data = entry.dataset
    lines.append(f"- Data: {data.title}. {capitalised(data.citation)}. Licence {data.license}.")
    return "\n".join(lines)
