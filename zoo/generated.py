"""Every file, or part of one, that is generated from the registry and the recorded results.

`python -m zoo.generated` writes them; with --check it only says which are stale, and exits with 1 if any is.
"""

import json
import sys
from pathlib import Path

from . import assets, builder, cards, files, registry, results

MODELS, SPEED, END = "<!-- generated: models -->", "<!-- generated: speed -->", "<!-- end of generated -->"

PLOTS = {
    "docs/stacks.svg": "Seconds of a forward pass and a training step, by contender",
    "docs/scaling.svg": "Seconds against steps, batch, layers and units, one varied at a time; the grey line is linear cost",
}
"""What `python -m benchmarks.plot` draws, and what it shows in words."""


def outputs() -> dict[Path, str]:
    """Path to content of everything generated."""
    table = {name: list(builder.counts(name)) for name in registry.models()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(counts)}" for name, counts in table.items())
    generated = {assets.path(cards.COUNTS): "{\n" + lines + "\n}\n"}
    trained = []
    for name in registry.list_models(trained=True):
        row = (registry.find(name), results.of(name), cards.Counts(*table[name]))
        trained.append(row)
        generated[assets.path("cards", name, "README.md")] = cards.card(*row)
    readme = assets.path("README.md")
    if readme.exists():
        text = readme.read_text(encoding="utf-8")
        text = _between(text, MODELS, cards.models_table(trained))
        speed = assets.path("benchmarks", "stacks.json")
        if speed.exists():
            measured = cards.speed_table(json.loads(speed.read_text(encoding="utf-8")))
            drawn = [f"![{alt}]({plot})" for plot, alt in PLOTS.items() if assets.path(plot).exists()]
            text = _between(text, SPEED, "\n\n".join([measured, *drawn]))
        generated[readme] = text
    return generated


def _between(text: str, mark: str, content: str) -> str:
    """`text` with `content` between the mark and the end of what it generates."""
    before, found, rest = text.partition(mark)
    return f"{before}{mark}\n{content}\n{END}{rest.partition(END)[2]}" if found else text


def stale() -> list[Path]:
    """The generated files that are not what they should be."""
    return [path for path, text in outputs().items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def main() -> int:
    """The program; returns its exit code."""
    if "--check" in sys.argv[1:]:
        found = stale()
        for path in found:
            print(f"{path} is stale; run: make generated", file=sys.stderr)
        return 1 if found else 0
    for path, text in outputs().items():
        files.replace(path, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
