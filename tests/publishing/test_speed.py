"""Tables and plots of benchmark results."""

import importlib.util
import json
from pathlib import Path

import pytest

from zoo.diagnostics.benchmark import (
    FORWARD,
    PASSES,
    STREAMING,
    TRAINING,
)
from zoo.publishing.pages import speed
from zoo.utils import paths


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("README.md", "{:.1f} to {:.1f} times over whole sequences and {:.0f} to {:.0f} times one step at a time"),
        ("docs/guide.md", "{:.1f} to {:.1f} times over whole sequences, and {:.0f} to {:.0f} times one step at a time"),
    ],
)
def test_pages_say_how_slow_networks_are_without_a_compiler(page: str, words: str) -> None:
    rows = [row for row in speed.measurements("stacks")["contenders"] if row["library"] == "rnnzoo"]
    by_scan = {(row["cell"], row["layers"], row["backend"]): row["seconds"] for row in rows if row["precision"] == "no"}
    ratios = [
        {name: plain / by_scan[cell, layers, "auto"][name] for name, plain in seconds.items()}
        for (cell, layers, backend), seconds in by_scan.items()
        if backend == "plain"
    ]
    whole, steps = [each[name] for each in ratios for name in (FORWARD, TRAINING)], [each[STREAMING] for each in ratios]
    text = " ".join(paths.path(page).read_text(encoding="utf-8").split())
    assert words.format(min(whole), max(whole), min(steps), max(steps)) in text


def test_the_readme_compares_with_the_products() -> None:
    def row(library: str, cell: str, layers: int, forward: float, precision: str = "no") -> dict[str, object]:
        seconds = {FORWARD: forward, TRAINING: 3 * forward, STREAMING: None}
        own = {"library": library, "backend": "auto", "contender": f"{library} {cell}", "cell": cell, "layers": layers}
        return {**own, "precision": precision, "units": 8, "seconds": seconds, "peak_memory_bytes": None}

    machine = {"cpu": "a processor", "device": "cpu (AVX2)", "threads": 1, "torch": "2", "date": "2025-01-01"}
    rows = [row("rnnzoo", "star", 2, 0.3), row("products", "star", 2, 0.2), row("rnnzoo", "star", 4, 0.5)]
    rows.append(row("rnnzoo", "star", 2, 0.1, "bf16"))  # not compared: the products are of float32
    text = speed.stack_tables({"machine": machine, "rounds": 1, "contenders": rows})
    assert speed.provenance("stacks", {"machine": machine, "rounds": 1, "statistic": "median"}) == (
        "a processor, cpu (AVX2), 1 thread, torch 2, 2025-01-01, once; "
        "`python -m benchmarks.stacks --rounds 1 --threads 1`."
    )
    assert "minimum of 9; `python -m benchmarks.linear --rounds 9 --threads 1`" in speed.provenance(
        "linear", {"machine": machine, "rounds": 9, "statistic": "minimum"}
    )
    assert "| products star | 0.200 s (0.7) | 0.600 s (0.7) | - |" in text
    assert text.count("bare matrix products, forward and forward + backward: rnnzoo star 1.5 and 1.5.") == 1
    assert text.count("| 4 x 8 |") == 1


def test_plots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed")
    from benchmarks import plot, scaling, stacks

    def rows(points: list[dict[str, int]]) -> list[dict[str, object]]:
        return [
            {**point, "contender": name, "seconds": dict.fromkeys(PASSES, 0.1 * point["steps"])}
            for point in points for name in plot.LINES
        ]  # fmt: skip

    monkeypatch.setattr(plot, "FOLDER", tmp_path)
    head = {"machine": {"cpu": "a processor", "threads": 2, "torch": "2", "date": "2025-01-01"}, "rounds": 1}
    sizes = [{"layers": a, "units": b, "steps": 784, "batch": 100} for a, b in stacks.SIZES]
    (tmp_path / "stacks.json").write_text(json.dumps({**head, "contenders": rows(sizes)}))
    (tmp_path / "scaling.json").write_text(json.dumps({**head, "contenders": rows(scaling.points())}))
    linear = [
        {"series": name, "contender": contender, **sizes[0], "steps": steps, "seconds": 0.01 * steps}
        for name, steps in (("task", 784), ("length", 196), ("length", 784)) for contender in ("rnnzoo mingru", "peer")
    ]  # fmt: skip
    (tmp_path / "linear.json").write_text(json.dumps({**head, "rows": linear}))
    written = plot.draw(tmp_path / "docs")
    assert [path.name for path in written] == ["stacks.svg", "scaling.svg", "linear.svg"]
    assert all("<svg" in path.read_text() for path in written)
    first = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in plot.draw(tmp_path / "docs")] == first


def test_linear_recurrences_are_compared_with_each_of_ours() -> None:
    def row(series: str, contender: str, steps: int, seconds: float) -> dict[str, object]:
        size = {"layers": 2, "units": 8, "steps": steps, "batch": 4}
        return {"series": series, "contender": contender, **size, "seconds": seconds}

    rows = [row("task", "rnnzoo lru", 8, 0.5), row("task", "peer", 8, 2.0), row("length", "rnnzoo lru", 16, 1.0)]
    text = speed.linear_tables({"rows": [*rows, row("length", "peer", 4, 0.25), row("length", "rnnzoo lru", 4, 0.125)]})
    assert "| 2 x 8 | training step |" in text
    assert "| peer | 2.00 s | 4.0 |" in text
    assert "| peer | 0.250 s | - |" in text
    assert "| rnnzoo lru | 0.125 s | 1.00 s |" in text
